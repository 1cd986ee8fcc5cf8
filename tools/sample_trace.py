"""Write the sample trace that the package ships; a test checks that the shipped file is what this writes."""

from __future__ import annotations

from pathlib import Path

import workbench.workloads
from workbench.workloads.sample import sample_text

if __name__ == "__main__":
    path = Path(workbench.workloads.__file__).parent / "data" / "sample_trace.jsonl"
    path.write_text(sample_text(), encoding="utf-8", newline="\n")
    print(f"wrote {path}")
