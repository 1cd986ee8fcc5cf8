"""Functions to capture on a machine with no GPU: a launch is a line in a file that the stand-in for ``ncu`` reads."""

import json
import os
import subprocess
import sys
from pathlib import Path


def launch(name, **counters):
    """What a kernel launch is here; the job's progress tells whether a range was open."""
    stage = json.loads(Path("progress.jsonl").read_text().splitlines()[-1])
    annotation = f"case{stage['done']}" if stage["stage"].startswith("profiling") else None
    if annotation and name == "stamped":
        annotation += "-stamped"
    with Path("launches.jsonl").open("a") as file:
        file.write(json.dumps({"name": name, "annotation": annotation, "counters": counters}) + "\n")


def scale(size=1, block=128):
    """One kernel; its inputs are made outside of the range."""
    return lambda: launch("scale", bytes=size, ns=size * block)


def chain(size=1):
    launch("first", bytes=size, ns=10)
    launch("second", bytes=2 * size, ns=20)


def nothing():
    return lambda: None


def idle(size=1):
    return lambda: None


def outside():
    launch("warmup", bytes=1, ns=1)
    return lambda: None


def broken(size=1):
    raise ValueError("the matrix has 7 columns")


def ends():
    print("==WARNING== not of ncu")
    sys.exit(0)


def vanishes(before=0, status=0):
    """Ends the process in the profiled call, after some launches."""

    def call():
        for _ in range(before):
            launch("vanishing", bytes=1, ns=1)
        if json.loads(Path("progress.jsonl").read_text().splitlines()[-1])["stage"] == "profiling":
            print("about to go", flush=True)
            os._exit(status)

    return call


def says_what_ncu_says():
    print("serving: Address already in use, next port")
    raise ValueError("Unknown metric 'Address already in use'")


def asks():
    """Waits for words on its standard input."""
    words = sys.stdin.read()
    return lambda: launch("asks", bytes=len(words), ns=1)


def leaves_one_behind():
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path(os.environ["STAND_IN_FOLDER"], "children").write_text(str(child.pid))
    return lambda: launch("leaves", bytes=1, ns=1)


def tidies():
    """Removes what the capture needs."""
    for file in Path().glob("case-*.json"):
        file.unlink()
    launch("tidies", bytes=1, ns=1)


calls = 0


def uneven():
    global calls
    calls += 1
    for _ in range(calls):
        launch("tuned", bytes=1, ns=1)


def where():
    """Tells the environment that a capture runs in."""
    Path(os.environ["STAND_IN_FOLDER"], "environment.json").write_text(
        json.dumps({**os.environ, "pgid": str(os.getpgid(0)), "cwd": str(Path.cwd())})
    )
    return lambda: launch("where", bytes=1, ns=1)
