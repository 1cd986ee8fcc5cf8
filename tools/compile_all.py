"""Compile every configuration of decode attention into the cache, on all cores, and tabulate what they need.

    python tools/compile_all.py                        # all shapes, all configurations: hours on a laptop
    python tools/compile_all.py --head-dim 128 --group 8 --q-len 1
    python tools/compile_all.py --csv kernels.csv      # a line a kernel

Exit status: 0 when all compiled, 1 when some did not (the table names them), 2 when what was asked for does not exist.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from rich.table import Table

    from workbench.gpu.facts import ResourceFacts
    from workbench.ops.attention_decode import AttentionConfig, AttentionShape

# Operators are imported where they are used: each worker process imports this file, and torch takes seconds.

PRECISIONS = {
    "bf16": ("bf16", "bf16", False),
    "fp8": ("fp8", "fp8", False),
    "fp8, bf16 q": ("fp8", "bf16", False),
    "fp8, K scale a token": ("fp8", "fp8", True),
    "fp8, K scale a token, bf16 q": ("fp8", "bf16", True),
}


def kernels(arguments: argparse.Namespace) -> Iterator[tuple[str, AttentionShape, AttentionConfig]]:
    """Precision, shape and configuration of each kernel asked for; settings that change no code come once."""
    from workbench.ops.attention_decode import AttentionShape
    from workbench.ops.attention_decode.config import GROUPS, HEAD_DIMS, Q_LENS, space

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
        for config in {tuple(c.defines().items()): c for c in space(shape)}.values():
            yield precision, shape, config


def tabulate(found: list[tuple[str, AttentionShape, AttentionConfig, ResourceFacts]]) -> Table:
    """Registers and spills by precision and head dim."""
    from rich.table import Table

    groups: dict[tuple[str, int], list[ResourceFacts]] = defaultdict(list)
    for precision, shape, _config, facts in found:
        groups[precision, shape.head_dim].append(facts)
    table = Table(title="Compiled kernels")
    for heading in (
        "precision",
        "head dim",
        "kernels",
        "registers",
        "with spills",
        "most spilled, bytes",
        "most code, KB",
    ):
        table.add_column(heading, justify="left" if heading == "precision" else "right")
    for (precision, head_dim), facts in groups.items():
        registers = [f.registers for f in facts]
        spills = [(f.spill_store_bytes or 0) + (f.spill_load_bytes or 0) for f in facts]
        table.add_row(
            precision, str(head_dim), f"{len(facts):,}", f"{min(registers)}-{max(registers)}",
            f"{sum(s > 0 for s in spills):,}", f"{max(spills):,}", f"{max(f.code_bytes for f in facts) / 1024:.0f}",
        )  # fmt: skip
    return table


def write_csv(path: Path, found: list[tuple[str, AttentionShape, AttentionConfig, ResourceFacts]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["precision", "head_dim", "group", "q_len", "warps", "stages", "ctas_per_sm", "registers",
             "spill_store_bytes", "spill_load_bytes", "stack_bytes", "code_bytes"]
        )  # fmt: skip
        for precision, shape, config, facts in found:
            writer.writerow(
                [precision, shape.head_dim, shape.group, shape.q_len, config.warps, config.stages, config.ctas_per_sm,
                 facts.registers, facts.spill_store_bytes, facts.spill_load_bytes, facts.stack_bytes, facts.code_bytes]
            )  # fmt: skip


def main() -> int:
    from workbench.errors import WorkbenchError

    try:
        return run()
    except WorkbenchError as error:
        print(error, file=sys.stderr)
        return 2


def run() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS)
    parser.add_argument("--head-dim", nargs="+", type=int, metavar="D")
    parser.add_argument("--group", nargs="+", type=int, metavar="G")
    parser.add_argument("--q-len", nargs="+", type=int, metavar="Q")
    parser.add_argument("--workers", type=int, help="processes; default: one a core")
    parser.add_argument("--csv", type=Path, help="also write a line a kernel")
    arguments = parser.parse_args()

    from rich.console import Console
    from rich.progress import Progress

    from workbench.cli.files import check_writable
    from workbench.errors import CompileError
    from workbench.gpu.ahead import compile_ahead, cores
    from workbench.ops.attention_decode.cuda import job

    if arguments.csv:
        check_writable(arguments.csv)
    console = Console()
    wanted = list(kernels(arguments))
    start = time.perf_counter()
    with Progress(console=console) as progress:
        bar = progress.add_task("compiling", total=len(wanted))
        compile_ahead(
            [job(shape, config) for _, shape, config in wanted],
            workers=arguments.workers,
            progress=lambda _job: progress.advance(bar),
        )
    found, failed = [], []
    for precision, shape, config in wanted:
        try:
            found.append((precision, shape, config, job(shape, config).compile().facts))
        except CompileError as error:
            failed.append(error)
    console.print(tabulate(found))
    console.print(
        f"{len(found):,} kernels in {time.perf_counter() - start:.0f} s in {arguments.workers or cores()} processes"
    )
    if arguments.csv:
        write_csv(arguments.csv, found)
    for error in failed:
        console.print(f"[red]{error.configuration} does not compile:[/red]\n{error.log}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
