"""The source of a kernel and every header of ours that it includes: what a cached compilation depends on."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from pathlib import Path

from workbench import paths
from workbench.errors import InvalidArgument

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|(\S.*))', re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Source:
    """CUDA C++ to compile.

    Attributes
    ----------
    name : str
        What messages and profilers call it, such as ``"attention_decode/decode.cu"``.
    text : str
        The code.
    folders : tuple of Path
        Where its own headers are looked for, in order. Headers of CUDA and CCCL are found besides.
    """

    name: str
    text: str
    folders: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isprintable():
            raise InvalidArgument(f"The name of a source is {self.name!r}; give text of one line.")
        if not isinstance(self.text, str):
            raise InvalidArgument(f"The source of {self.name} is a {type(self.text).__name__}; give its code as text.")
        # The compiler would stop at a NUL and never say so.
        if "\0" in self.text or any("\ud800" <= character <= "\udfff" for character in self.text):
            raise InvalidArgument(f"The source of {self.name} holds characters that are no text: NUL or half a pair.")

    @classmethod
    def file(cls, path: str | Path) -> Source:
        """Read a source file.

        Parameters
        ----------
        path : str or Path
            Relative to the workbench's ``kernels`` folder, or absolute. Headers are looked for beside the file, then
            in ``kernels``.

        Raises
        ------
        InvalidArgument
            There is no such file, or it is no text.
        """
        if not isinstance(path, (str, Path)):
            raise InvalidArgument(f"source is a {type(path).__name__}; give a path, or a Source.")
        kernels = paths.kernels_dir()
        full = kernels / path
        if not full.is_file():
            raise InvalidArgument(f"There is no kernel source {str(path)!r}: looked for {full}.")
        name = full.relative_to(kernels).as_posix() if full.is_relative_to(kernels) else full.name
        try:
            text = full.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(
                f"The kernel source {full} cannot be read: {error}. Give a UTF-8 text file."
            ) from None
        return cls(name, text, (full.parent, kernels))

    @classmethod
    def inline(cls, text: str, name: str = "inline.cu") -> Source:
        """Take code from a string; it may include the headers in ``kernels``."""
        return cls(name, text, (paths.kernels_dir(),))

    def headers(self) -> dict[Path, bytes]:
        """All headers of ours that this source includes, directly or not, with their content.

        Conditional compilation is not evaluated, so it may name a header too many, never one too few. Headers not found
        in `folders` are the toolkit's.

        Raises
        ------
        InvalidArgument
            An include names a macro, so what it depends on cannot be told without compiling.
        """
        found: dict[Path, bytes] = {}
        pending: list[tuple[str, Path | None, bytes]] = [(self.name, None, self.text.encode())]
        while pending:
            name, folder, content = pending.pop()
            for quoted, angled, computed in _INCLUDE.findall(content):
                if computed:
                    raise InvalidArgument(f"{name} includes {computed.decode()}: name the header itself, not a macro.")
                beside = (folder,) if folder and quoted else ()
                header = next(
                    (
                        path
                        for root in (*beside, *self.folders)
                        if (path := root / (quoted or angled).decode()).is_file()
                    ),
                    None,
                )
                if header is not None and (resolved := header.resolve()) not in found:
                    found[resolved] = resolved.read_bytes()
                    pending.append((resolved.name, resolved.parent, found[resolved]))
        return found

    def digests(self) -> dict[str, str]:
        """SHA-256 of the source and of each header, by name relative to the folder it was found in."""
        digests = {self.name: hashlib.sha256(self.text.encode()).hexdigest()}
        for path, content in self.headers().items():
            digests[self._relative(path)] = hashlib.sha256(content).hexdigest()
        return digests

    def _relative(self, path: Path) -> str:
        # The last folder is the widest one (kernels), so names of files under it do not depend on who includes them.
        for folder in reversed(self.folders):
            if path.is_relative_to(folder.resolve()):
                return path.relative_to(folder.resolve()).as_posix()
        return path.as_posix()
