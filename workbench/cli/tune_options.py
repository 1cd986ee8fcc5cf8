"""Options that the commands of ``workbench tune`` share, and what they make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.cli import options
from workbench.errors import InvalidArgument

if TYPE_CHECKING:
    from workbench.cli.tune_run import Plan
    from workbench.records import Store
    from workbench.tune.space import Space

_WORK, _SPACE = "Workload", "Space"

OPERATORS = {
    "attention": "attention_decode",
    "attention_decode": "attention_decode",
    "router": "router_gemm",
    "router_gemm": "router_gemm",
}

Records = Annotated[
    str, typer.Option(help="Folder of a store to add records to, 'own' for yours, or 'none'.", metavar="STORE")
]


@dataclass(frozen=True, kw_only=True)
class SpaceOptions:
    """A kernel, a workload, and which of its configurations."""

    operator: Annotated[str, typer.Argument(help="attention or router.", metavar="OPERATOR")]
    work: Annotated[
        str, typer.Argument(help="Attention: KV lengths such as 64x4K. Router: a model, or K,N such as 4096,192.")
    ]
    tokens: Annotated[int, typer.Option(help="Router: tokens M.", rich_help_panel=_WORK, min=1)] = 64
    terms: Annotated[int, typer.Option(help="Router: terms of the weight, 2 or 3.", rich_help_panel=_WORK)] = 2
    cache: options.Cache = "fp8"
    group: options.Group = 8
    kv_heads: options.KvHeads = 1
    head_dim: options.HeadDim = 128
    q_len: options.QLen = 1
    whole: Annotated[
        bool, typer.Option("--whole", help="Every value that the kernel declares.", rich_help_panel=_SPACE)
    ] = False
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Values of a parameter, such as stages=4,6. Once for each parameter.",
            rich_help_panel=_SPACE,
            metavar="NAME=V,...",
        ),
    ] = None
    applicable: Annotated[
        bool,
        typer.Option("--applicable", help="Only what could become the default: see `apply`.", rich_help_panel=_SPACE),
    ] = False

    def space(self) -> Space:
        """The space that they describe.

        Raises
        ------
        InvalidArgument
            The operator or a parameter is not known, or the workload cannot be.
        """
        from workbench.tables import parse_shape
        from workbench.tune.spaces import attention_space, router_space

        if self.operator not in OPERATORS:
            raise InvalidArgument(f"operator {self.operator!r} is not known; give attention or router.")
        space: Space
        if OPERATORS[self.operator] == "attention_decode":
            shape = {name: getattr(self, name) for name in ("group", "kv_heads", "head_dim", "q_len")}
            space = attention_space(self.work, cache=self.cache, whole=self.whole, **shape)
            space.default()  # refuses a shape that has no kernel
        else:
            k, n, _ = parse_shape(self.work)
            space = router_space(self.tokens, n, k, terms=self.terms, whole=self.whole)
        if self.applicable:
            space = space.applicable()
        wanted: dict[str, Any] = {}
        for word in self.values or []:
            name, values = _value(space, word)
            if name in wanted:
                raise InvalidArgument(f"--set {name} is given twice; name all its values in one, such as {name}=4,6.")
            wanted[name] = values
        return space.restrict(**wanted) if wanted else space


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """How a study is run."""

    method: Annotated[str, typer.Option(help="grid, random or tpe.")] = "grid"
    trials: Annotated[int | None, typer.Option(help="Stop after so many trials in all.", min=1)] = None
    journal: Annotated[Path | None, typer.Option(help="Default: in the folder of your studies.", metavar="FILE")] = None
    gpus: Annotated[str, typer.Option(help="GPUs of this machine, such as 0,1; several need `distributed`.")] = "0"
    cluster: Annotated[str | None, typer.Option(help="Address of a Dask scheduler instead.", metavar="ADDRESS")] = None
    seconds: Annotated[float, typer.Option(help="Longest a configuration may take.", min=1)] = 60
    seed: Annotated[int, typer.Option(help="Of the inputs and of the search.", min=0)] = 0
    records: Records = "own"

    def plan(self, **more: Any) -> Plan:
        """The plan that they describe, with `more` of its fields.

        Raises
        ------
        InvalidArgument
            `gpus` is no list of different numbers.
        """
        from workbench.cli.tune_run import Plan, ordinals

        same = {name: getattr(self, name) for name in ("method", "trials", "journal", "cluster", "seconds", "seed")}
        return Plan(**same | {"gpus": ordinals(self.gpus), "store": store_of(self.records)} | more)


def store_of(where: str) -> Store | None:
    """The store of ``--records``; None for "none"."""
    from workbench.records import Store

    return None if where == "none" else Store() if where == "own" else Store(Path(where))


def _value(space: Space, word: str) -> tuple[str, Any]:
    """``stages=4,6`` as a name and values of the parameter's type."""
    name, _, said = word.partition("=")
    known = space.parameters.get(name)
    if known is None or not said:
        raise InvalidArgument(f"--set {word}: give NAME=V,... with one of {', '.join(space.parameters)}.")
    truth = {"true": True, "false": False}
    try:
        read = (lambda text: truth[text.lower()]) if isinstance(known[0], bool) else int
        return name, tuple(read(part) for part in said.split(","))
    except (ValueError, KeyError):
        raise InvalidArgument(f"--set {word}: give values such as {known[0]}, with commas between them.") from None
