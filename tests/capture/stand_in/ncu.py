"""Stands in for Nsight Compute's command line: version, list of metrics, and profiling in whichever way is asked for.

The file ``behaviour`` in ``$STAND_IN_FOLDER`` says how: "works", "hangs", "crashes", "truncates", "garbage",
or a key of ``ncu_errors.ERRORS``. ``runs`` there counts profiling runs.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.capture.report_bytes import Launch, report
from tests.capture.stand_in.ncu_errors import ERRORS

FOLDER = Path(os.environ["STAND_IN_FOLDER"])
KNOWN = (FOLDER / "metrics").read_text().split()


def main(words):
    if "--version" in words:
        version = (FOLDER / "version").read_text()
        print(f"NVIDIA (R) Nsight Compute Command Line Profiler\nVersion {version} (build 1) (public-release)")
        return 0
    if "--query-metrics" in words:
        print("Device NVIDIA H200 (GH100)\n----------------\nMetric Name  Metric Unit")
        print("\n".join(f"{name}   unit  What it is" for name in KNOWN))
        return 0
    if "--list-injection-path-64" in words:
        print(os.environ.get("STAND_IN_INJECTION", "/nowhere"))
        return 0
    return attach(words) if "attach" in words else profile(words)


def attach(words):
    """Wait, as ncu does for nsight-python 1.x, until the process that it looks at says that profiling is over."""
    marker = Path("injected")
    while not marker.exists() or marker.read_text() != "ended":
        time.sleep(0.02)
    return write(words, (FOLDER / "behaviour").read_text())


def profile(words):
    behaviour = (FOLDER / "behaviour").read_text()
    with (FOLDER / "runs").open("a") as runs:
        runs.write(f"{os.getpid()}\n")
    path, log = Path(words[words.index("-o") + 1]), Path(words[words.index("--log-file") + 1])
    command = words[words.index("-o") + 2 :]
    if behaviour in ERRORS:
        log.write_text(f"==PROF== Connected to process 1\n{ERRORS[behaviour]}\n")
        return 1
    if behaviour == "hangs":
        child = subprocess.Popen(["sleep", "600"])
        (FOLDER / "children").write_text(f"{os.getpid()} {child.pid}")
        time.sleep(600)
    if behaviour == "crashes":
        path.write_bytes(b"NVR\0\x02")
        os.kill(os.getpid(), signal.SIGSEGV)
    status = subprocess.run(command, check=False).returncode
    if status:
        log.write_text(f"==ERROR== The application returned an error code ({status}).\n")
        return status
    return write(words, behaviour)


def write(words, behaviour):
    """The report of what was launched in ranges, in whichever state is asked for."""
    path, log = Path(words[words.index("-o") + 1]), Path(words[words.index("--log-file") + 1])
    metrics = words[words.index("--metrics") + 1].split(",")
    lines = Path("launches.jsonl").read_text().splitlines() if Path("launches.jsonl").exists() else []
    seen = [json.loads(line) for line in lines]
    launches = [
        Launch(one["name"], one["annotation"], {name: value(name, one["counters"]) for name in metrics})
        for one in seen
        if one["annotation"]
    ]
    Path("launches.jsonl").unlink(missing_ok=True)  # the job may profile another function in another run
    if not launches:
        names = "\n".join(f"{i + 1}. {one['name']}" for i, one in enumerate(seen))
        log.write_text(f"==WARNING== No kernels were profiled.\nAvailable Kernels:\n{names}\n")
        return 0
    content = report(launches, started="attach" in words)
    path.write_bytes({"truncates": content[:-40], "garbage": b"x" * 100}.get(behaviour, content))
    log.write_text("==PROF== Disconnected\n")
    return 0


def value(metric, counters):
    if metric == "gpu__time_duration.sum":
        return float(counters["ns"])
    if metric == "dram__bytes_read.sum":
        return int(counters["bytes"])
    return 50.0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
