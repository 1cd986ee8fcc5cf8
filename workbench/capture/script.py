"""The script of a capture process. It is copied into the job's folder and finds what to do beside itself."""

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    folder = Path(__file__).resolve().parent
    job = json.loads((folder / "job.json").read_bytes())
    sys.path[:0] = job["paths"]
    if job["counters"]:
        import nsight  # noqa: F401  # first of all: 1.x has to be there before CUDA is initialised

    from workbench.capture.collect import run

    run(folder)
