"""Compile every configuration of an operator's space into the cache, on all cores, and tabulate what the kernels need.

    python tools/compile_all.py all
    python tools/compile_all.py attention --head-dim 128 --group 8 --q-len 1
    python tools/compile_all.py router --terms 2 --out-dtype fp32 bf16
    python tools/compile_all.py all --sample 100
    python tools/compile_all.py router --csv kernels.csv --json summary.json

One core of an Intel Xeon takes about an hour for the 18,932 kernels of the router that write FP32, and about six hours
for the 27,396 of decode attention (by 60 of them, drawn at random); more cores share the work. An interrupted run goes
on where it stopped: what is compiled lies in the cache (WORKBENCH_CACHE_DIR).

Exit status: 0 when all compiled, 1 when some did not (they are named), 2 when what was asked for does not exist.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from workbench.gpu.ahead import Job
    from workbench.gpu.facts import ResourceFacts

# Operators are imported where they are used: each worker process imports this file, and torch takes seconds.

SEED = 0
"""Of what ``--sample`` draws: a run that goes on after an interruption draws the same."""


@dataclass(frozen=True)
class Wanted:
    """A kernel to compile: the line of the table it counts in, what tells it from the others, and the job."""

    group: str
    settings: dict[str, Any]
    job: Job


@dataclass(frozen=True)
class Compiled:
    """A kernel that compiled."""

    group: str
    settings: dict[str, Any]
    facts: ResourceFacts
    seconds: float

    @property
    def spill_bytes(self) -> int:
        """Stored and loaded a thread. Where the log does not tell, all of the stack counts."""
        stored, loaded = self.facts.spill_store_bytes, self.facts.spill_load_bytes
        return self.facts.stack_bytes if stored is None or loaded is None else stored + loaded

    def to_dict(self) -> dict[str, Any]:
        """Settings and what the kernel needs."""
        names = ("registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes", "code_bytes")
        return self.settings | {name: getattr(self.facts, name) for name in names}


PRECISIONS = {
    "bf16": ("bf16", "bf16", False),
    "fp8": ("fp8", "fp8", False),
    "fp8, bf16 q": ("fp8", "bf16", False),
    "fp8, K scale a token": ("fp8", "fp8", True),
    "fp8, K scale a token, bf16 q": ("fp8", "bf16", True),
}


def attention_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("decode attention; each default: all")
    group.add_argument("--precision", nargs="+", choices=PRECISIONS)
    group.add_argument("--head-dim", nargs="+", type=int, metavar="D")
    group.add_argument("--group", nargs="+", type=int, metavar="G", help="query heads a KV head")
    group.add_argument("--q-len", nargs="+", type=int, metavar="Q", help="query tokens a request")


def attention_kernels(arguments: argparse.Namespace) -> Iterator[Wanted]:
    """What is asked for of decode attention; settings that change no code come once."""
    from workbench.ops.attention_decode import AttentionShape
    from workbench.ops.attention_decode.config import GROUPS, HEAD_DIMS, Q_LENS, space
    from workbench.ops.attention_decode.cuda import job

    for precision, head_dim, group, q_len in itertools.product(
        arguments.precision or PRECISIONS,
        arguments.head_dim or HEAD_DIMS,
        arguments.group or GROUPS,
        arguments.q_len or Q_LENS,
    ):
        cache, query, per_token = PRECISIONS[precision]
        shape = AttentionShape(
            head_dim=head_dim, group=group, q_len=q_len, cache=cache, query=query, k_scale_per_token=per_token
        )
        said = {"precision": precision, "head_dim": head_dim, "group": group, "q_len": q_len}
        for config in {tuple(c.defines().items()): c for c in space(shape)}.values():
            compiled_for = {name: getattr(config, name) for name in ("warps", "stages", "ctas_per_sm", "prefetch")}
            yield Wanted(f"{precision}, head dim {head_dim}", said | compiled_for, job(shape, config))


def router_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("router GEMM")
    group.add_argument("--terms", nargs="+", type=int, metavar="T", help="terms of the weight; default: 2 and 3")
    doubled = "what is written; default: fp32. bf16 changes the last conversion alone, and both take twice the time"
    group.add_argument("--out-dtype", nargs="+", choices=("fp32", "bf16"), default=["fp32"], help=doubled)


def router_kernels(arguments: argparse.Namespace) -> Iterator[Wanted]:
    """What is asked for of the router GEMM; settings that change no code come once."""
    import torch

    from workbench.ops.router_gemm.config import TERMS, space
    from workbench.ops.router_gemm.cuda import job

    dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16}
    for terms, out in itertools.product(arguments.terms or TERMS, arguments.out_dtype):
        said = {"terms": terms, "out_dtype": out}
        for config in {tuple(c.defines(terms).items()): c for c in space(terms)}.values():
            compiled_for = {name: value for name, value in config.to_dict().items() if name != "pdl"}
            yield Wanted(f"{terms} terms, {out} out", said | compiled_for, job(config, terms, dtypes[out]))


OPERATORS = {
    "attention": ("attention_decode", attention_options, attention_kernels),
    "router": ("router_gemm", router_options, router_kernels),
}


def compile_kernels(
    wanted: Sequence[Wanted], workers: int | None, console: Console
) -> tuple[list[Compiled], list[tuple[Wanted, str]]]:
    """Compile on all cores; what compiled, and what did not with the compiler's log."""
    from rich.progress import Progress

    from workbench.errors import CompileError
    from workbench.gpu.ahead import compile_ahead
    from workbench.gpu.compile import forget

    with Progress(console=console) as progress:
        bar = progress.add_task("compiling", total=len(wanted))
        compile_ahead([each.job for each in wanted], workers=workers, progress=lambda _job: progress.advance(bar))
    found, failed = [], []
    for each in wanted:
        try:
            kernel = each.job.compile()
        except CompileError as error:
            failed.append((each, error.log))
        else:
            found.append(Compiled(each.group, each.settings, kernel.facts, kernel.compile_seconds))
        forget()  # the machine code of tens of thousands would fill the memory, and only the facts are asked for
    return found, failed


def summarise(found: Sequence[Compiled]) -> dict[str, Any]:
    """Counts, and least and most, of some kernels."""
    facts = [each.facts for each in found]
    return {
        "kernels": len(found),
        "registers": [min(f.registers for f in facts), max(f.registers for f in facts)],
        "with_spills": sum(each.spill_bytes > 0 for each in found),
        "most_spill_bytes": max(each.spill_bytes for each in found),
        "with_stack": sum(f.stack_bytes > 0 for f in facts),
        "most_stack_bytes": max(f.stack_bytes for f in facts),
        "code_bytes": [min(f.code_bytes for f in facts), max(f.code_bytes for f in facts)],
    }


def tabulate(operator: str, groups: dict[str, dict[str, Any]]) -> Table:
    """A line a group."""
    from rich.table import Table

    table = Table("", title=operator)
    for heading in ("kernels", "registers", "with spills", "with stack", "code, KB"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, said in groups.items():
        local = [
            f"{said[f'with_{what}']:,}" + (f", to {most:,} B" if (most := said[f"most_{bytes_}_bytes"]) else "")
            for what, bytes_ in (("spills", "spill"), ("stack", "stack"))
        ]
        code = "-".join(f"{size / 1024:.0f}" for size in said["code_bytes"])
        table.add_row(name, f"{said['kernels']:,}", "-".join(map(str, said["registers"])), *local, code)
    return table


def compile_operator(
    name: str, arguments: argparse.Namespace, console: Console
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One operator's part of the summary, and a row for each of its kernels; prints the table."""
    from workbench.measure.environment import source_digests

    operator, _options, kernels = OPERATORS[name]
    digest = source_digests()[operator, "cuda"]  # before compiling: a later edit would not be what was compiled
    wanted = list(kernels(arguments))
    if arguments.sample is not None and arguments.sample < len(wanted):
        wanted = [wanted[at] for at in sorted(random.Random(SEED).sample(range(len(wanted)), arguments.sample))]
    found, failed = compile_kernels(wanted, arguments.workers, console)
    groups: defaultdict[str, list[Compiled]] = defaultdict(list)
    for each in found:
        groups[each.group].append(each)
    lines = {group: summarise(members) for group, members in groups.items()}
    spilling = [each.to_dict() for each in found if each.spill_bytes]
    seconds = sum(each.seconds for each in found)
    console.print(tabulate(operator, lines))
    console.print(
        f"{len(found):,} of {len(wanted):,} kernels compiled, {len(spilling):,} with spills; "
        f"compiling took {seconds / 60:,.1f} minutes by the clock, summed over kernels"
    )
    for refused, log in failed:
        console.print(f"[red]{operator} does not compile with {refused.settings}:[/red]\n{log}")
    summary = {
        "operator": operator,
        "source_digest": digest,
        "asked": len(wanted),
        "compiled": len(found),
        "failed": [{**refused.settings, "log": log} for refused, log in failed],
        "compile_seconds": round(seconds, 1),
        "groups": lines,
        "spilling": spilling,
    }
    return summary, [{"operator": operator, **each.to_dict()} for each in found]


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no count; give a whole number from 1")
    return int(text)


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--sample", type=count, metavar="N", help="only so many of each operator, drawn at random")
    common.add_argument("--workers", type=count, metavar="N", help="processes; default: one a core")
    common.add_argument("--csv", type=Path, help="also write a line a kernel")
    common.add_argument("--json", type=Path, help="also write a summary, with every kernel that spills")
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    commands = parser.add_subparsers(dest="operator", required=True, metavar="{attention,router,all}")
    for name in (*OPERATORS, "all"):
        command = commands.add_parser(name, parents=[common], description=__doc__, formatter_class=raw)
        for each in OPERATORS if name == "all" else [name]:
            OPERATORS[each][1](command)
    return parser.parse_args(words)


def run(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from workbench.cli.files import check_writable, write_whole
    from workbench.gpu.compile import DEFAULT_ARCH, compiler_version

    for path in filter(None, (arguments.csv, arguments.json)):
        check_writable(path)
    head = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "nvrtc": compiler_version(), "arch": DEFAULT_ARCH}
    summaries, rows = [], []
    for name in OPERATORS if arguments.operator == "all" else [arguments.operator]:
        summary, own = compile_operator(name, arguments, Console())
        summaries.append(summary)
        rows += own
    if arguments.json:
        write_whole(arguments.json, json.dumps(head | {"operators": summaries}, indent=1).encode() + b"\n")
    if arguments.csv:
        table = io.StringIO(newline="")
        writer = csv.DictWriter(table, list(dict.fromkeys(itertools.chain.from_iterable(rows))))
        writer.writeheader()
        writer.writerows(rows)
        write_whole(arguments.csv, table.getvalue().encode())
    return 1 if any(said["failed"] for said in summaries) else 0


def main(words: Sequence[str] | None = None) -> int:
    from workbench.errors import WorkbenchError

    try:
        return run(parse(words))
    except WorkbenchError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
