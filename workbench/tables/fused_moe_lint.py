"""Would an engine read a fused-MoE file, and would it use every entry as it is meant.

A file that an engine does not find is not told by the engine beyond one line about defaults, so everything is predicted
from the name, the place and the content.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench import devices
from workbench.errors import InvalidArgument, TableError
from workbench.tables.fused_moe import (
    DTYPES,
    TILE_KEYS,
    Engine,
    MoeKey,
    MoeTable,
    place,
    read_moe,
)

_OPTIONAL = {"sglang": {"USE_TMA"}, "vllm": {"SPLIT_K"}}
"""Keys of an entry that an engine knows besides :data:`TILE_KEYS`."""

_BYTES = {"fp8_w8a8": 1, "int8_w8a8": 1, "float32": 4}
_LEAST_TILE = 16


@dataclass(frozen=True)
class Finding:
    """Something that a file's author has to know.

    Attributes
    ----------
    severity : str
        "unread": the engine never reads the file. "error": reading or running it ends in an error. "warning": it runs,
        and not as it looks.
    path : Path
    message : str
    """

    severity: str
    path: Path
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.severity}: {self.message}"


def lint_folder(
    root: str | Path,
    engine: Engine,
    *,
    gpu: str | None = None,
    triton: str | None = None,
    expected: Sequence[MoeKey] = (),
) -> list[Finding]:
    """Lint every JSON file below a folder.

    Parameters
    ----------
    root
        SGLang: its ``SGLANG_MOE_CONFIG_DIR``. vLLM: its ``VLLM_TUNED_CONFIG_FOLDER``.
    engine
        ``"sglang"`` or ``"vllm"``.
    gpu
        Name of the GPU by its driver; files of another are then told.
    triton
        Version of Triton there; SGLang looks into the folder of its version first.
    expected
        What the models at hand look for; a file that is missing is told.

    Raises
    ------
    InvalidArgument
        The folder does not exist, or SGLang's version of Triton is missing.
    """
    root = Path(root)
    if not root.is_dir():
        raise InvalidArgument(f"there is no folder {root}. Give the folder that the engine is told.")
    if engine == "sglang" and triton is None:
        raise InvalidArgument("SGLang looks into a folder by version of Triton; give triton, such as '3.6.0'.")
    found: list[Finding] = []
    for path in sorted(root.rglob("*.json")):
        found += lint_file(path, engine, root=root, gpu=gpu, triton=triton)
    for key in expected:
        target = place(root, key, engine, triton)
        if not target.is_file():
            found.append(Finding("warning", target, "is not there: the engine uses its default tiles"))
    return found


def lint_file(
    path: str | Path,
    engine: Engine,
    *,
    root: str | Path | None = None,
    gpu: str | None = None,
    triton: str | None = None,
) -> list[Finding]:
    """Lint one file; arguments as `lint_folder`, and without ``root`` its place is not looked at."""
    path = Path(path)
    try:
        table = read_moe(path)
    except TableError as error:
        # Its name alone keeps an engine from reading it; a broken content under a good name ends the server.
        unread = "is no name" in str(error)
        return [Finding("unread" if unread else "error", path, str(error).removeprefix(f"{path}: ").rstrip("."))]
    told = [*_name(path.name, table.key, engine, gpu), *_content(table, engine)]
    if root is not None:
        told += _place(path, table.key, engine, Path(root), triton)
    return [Finding(severity, path, message) for severity, message in told]


Told = tuple[str, str]


def _name(name: str, key: MoeKey, engine: Engine, gpu: str | None) -> Iterator[Told]:
    try:
        wanted = key.file_name(engine)
    except InvalidArgument as error:
        yield "unread", str(error).rstrip(".")
        return
    if name != wanted:
        yield "unread", f"{engine} looks for {wanted}"
    if key.dtype is not None and key.dtype not in DTYPES:
        yield "unread", f"dtype {key.dtype!r} is none that an engine asks for: {', '.join(DTYPES)}"
    if gpu is not None:
        own = MoeKey.of(key.experts, key.size, gpu)
        if own.file_name(engine) != MoeKey.of(key.experts, key.size, key.device).file_name(engine):
            yield "unread", f"it is of {key.device}, and the GPU here is {own.device}"


def _place(path: Path, key: MoeKey, engine: Engine, root: Path, triton: str | None) -> Iterator[Told]:
    try:
        wanted = place(root, key, engine, triton)
    except InvalidArgument:  # the name is told
        return
    if path.parent == wanted.parent:
        return
    other_version = engine == "sglang" and path.parent.parent == wanted.parent.parent
    if other_version and path.parent.name.startswith("triton_"):
        if wanted.is_file():
            yield "unread", f"{wanted.parent.name} has a file of the same name, which goes before"
        else:
            yield "warning", f"read only as a fallback, tiles tuned with another Triton than {triton}"
    else:
        yield "unread", f"{engine} looks in {wanted.parent}"


def _content(table: MoeTable, engine: Engine) -> Iterator[Told]:
    for name in table.extra:
        if engine == "sglang":
            yield "error", f"key {name!r} is no number of tokens, and SGLang takes no other"
        elif name != "triton_version":
            yield "error", f"key {name!r} is no number of tokens; vLLM takes off triton_version and nothing else"
    used = {span.key for span in table.spans()}
    for tokens in table.tiles:
        if tokens not in used:
            yield "warning", f"entry {tokens} is nearest to no number of tokens from 1"
    if list(table.tiles) != sorted(table.tiles):
        yield "warning", "entries are not in ascending order, so of two equally near the larger may be used"
    for tokens, tile in table.tiles.items():
        for severity, message in _tile(tile, table.key, engine):
            yield severity, f"entry {tokens}: {message}"


def _tile(tile: dict[str, int] | object, key: MoeKey, engine: Engine) -> Iterator[Told]:
    assert isinstance(tile, dict)  # MoeTable.decode
    if unknown := sorted(set(tile) - set(TILE_KEYS) - _OPTIONAL[engine]):
        yield "error", f"{', '.join(unknown)}: the kernel has no such argument"
    if lacking := [name for name in TILE_KEYS if name not in tile]:
        yield "warning", f"{', '.join(lacking)} left to Triton"
    for name in ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K"):
        if tile[name] < _LEAST_TILE or tile[name] & (tile[name] - 1):
            yield "error", f"{name} is {tile[name]}; Triton multiplies powers of two from {_LEAST_TILE}"
    if tile["GROUP_SIZE_M"] < 1:
        yield "error", f"GROUP_SIZE_M is {tile['GROUP_SIZE_M']}; at least 1"
    warps, stages = tile.get("num_warps", 4), tile.get("num_stages", 2)
    if warps not in (1, 2, 4, 8, 16, 32):
        yield "error", f"num_warps is {warps}; a power of two up to 32"
    if stages < 1:
        yield "error", f"num_stages is {stages}; at least 1"
    if key.block_shape and tile["BLOCK_SIZE_K"] > key.block_shape[1]:
        yield "warning", f"BLOCK_SIZE_K {tile['BLOCK_SIZE_K']} spans scale blocks of {key.block_shape[1]} columns"
    buffers = max(1, stages - 1)  # some pipelines keep one more
    need = (
        buffers * tile["BLOCK_SIZE_K"] * (tile["BLOCK_SIZE_M"] + tile["BLOCK_SIZE_N"]) * _BYTES.get(key.dtype or "", 2)
    )
    limit = _shared(key.device)
    if limit is not None and need > limit:
        yield (
            "error",
            f"{stages} stages need at least {need:,} bytes of shared memory; {key.device} has {limit:,} a CTA",
        )


def _shared(device: str) -> int | None:
    try:
        return devices.gpu(device.replace("_", " ")).shared_per_block
    except InvalidArgument:
        return None
