"""Try every family of configurations on a GPU, each in a process of its own that may crash without harm to others.

    python -m tests.ops.router_gemm.isolated [--write FILE.json] [--seconds 60] [--at-once 6]

Prints one line a case. The exit status is 1 where a case is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.ops.router_gemm.cases import Case, families
from workbench.gpu.ahead import compile_ahead


def child(family: str) -> None:
    """Run one family, a JSON line a case."""
    from tests.ops.router_gemm.judge import try_case

    for case in families()[family]:
        verdict = try_case(case)
        line = {"case": str(case), "rel_error": verdict.rel_error, "term_error": verdict.term_error}
        print(json.dumps({**line, "complaints": verdict.complaints}), flush=True)


def run(family: str, cases: list[Case], seconds: float) -> list[dict[str, object]]:
    """Run one family in another process; what that did not answer is complained about."""
    command = [sys.executable, "-m", "tests.ops.router_gemm.isolated", "--child", family]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        try:
            status = subprocess.run(command, stdout=out, stderr=errors, timeout=seconds, check=False).returncode
            end = f"exit status {status}"
        except subprocess.TimeoutExpired:
            end = f"no answer within {seconds:.0f} s"
        out.seek(0), errors.seek(0)
        results = [json.loads(line) for line in out.read().splitlines() if line.startswith("{")]
        said = errors.read().strip().splitlines()
    for i, case in enumerate(cases[len(results) :]):
        complaint = f"{end}: {' | '.join(said[-3:])}" if i == 0 else "not run: the case before it ended the process"
        results.append({"case": str(case), "rel_error": None, "term_error": None, "complaints": [complaint]})
    return results


def main() -> int:
    """Compile, run all families, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=60, help="limit for one family")
    parser.add_argument("--at-once", type=int, default=6, help="processes")
    parser.add_argument("--child", metavar="FAMILY", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return 0
    every = families()
    jobs = {(job.entry, *job.defines.items()): job for cases in every.values() for job in (c.job for c in cases)}
    compile_ahead(list(jobs.values()))
    with ThreadPoolExecutor(arguments.at_once) as pool:
        results = dict(zip(every, pool.map(lambda f: run(f, every[f], arguments.seconds), every), strict=True))
    wrong = 0
    for family, lines in results.items():
        print(f"{family}:")
        for line in lines:
            wrong += bool(line["complaints"])
            error = "" if line["rel_error"] is None else f"{line['rel_error']:.2e} {line['term_error']:.2e}"
            word, complaints = ("WRONG", line["complaints"]) if line["complaints"] else ("right", "")
            print(f"  {word}  {line['case']:70s} {error}  {complaints}")
    print(f"{wrong} wrong of {sum(map(len, results.values()))}")
    if arguments.write:
        arguments.write.write_text(json.dumps(results, indent=1))
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
