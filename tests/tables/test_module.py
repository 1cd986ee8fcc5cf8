"""Tables as a Python module, tested by running it in an interpreter that has nothing but Python."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.tables.tables import SPANS, table
from workbench.errors import InvalidArgument
from workbench.records import Environment
from workbench.tables import module_source

PROGRAM = """
import json, sys
import exported
assert not any(name.split(".")[0] in ("workbench", "numpy", "torch", "pydantic") for name in sys.modules)
print(json.dumps([[exported.choose(m, k=4096, n=192, gpu="NVIDIA H200"), exported.decided(m, k=4096, n=192)]
                  for m in range(600)]))
for call in (lambda: exported.choose(1, k=8, n=8), lambda: exported.choose(1, k=4096, n=192, gpu="NVIDIA H100"),
             lambda: exported.choose(-1, k=4096, n=192)):
    try:
        call()
    except (LookupError, ValueError) as error:
        print(type(error).__name__, error)
"""


def test_the_module_chooses_as_the_table_does(tmp_path):
    other = table(k=6144, n=768, spans=(SPANS[0].model_copy(update={"high": None}),))
    (tmp_path / "exported.py").write_text(module_source([other, table()]))
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, *errors = done.stdout.splitlines()
    decided = {m: any(s.winner and s.low <= m <= s.high for s in SPANS) for m in range(600)}
    assert json.loads(first) == [[table().choose(m), decided[m]] for m in range(600)]
    assert [line.split()[0] for line in errors] == ["LookupError", "LookupError", "ValueError"]
    assert "[(4096, 192), (6144, 768)]" in errors[0]


def test_names_cannot_become_code():
    hostile = 'x"""\nraise SystemExit(1)\n"""'
    environment = table().environment.model_copy(update={"gpu": hostile})
    source = module_source([table(environment=environment, made_by=hostile, origins=(hostile,))])
    space: dict[str, object] = {}
    exec(compile(source, "exported", "exec"), space)
    assert space["GPU"] == hostile
    assert space["ORIGINS"] == (hostile,)


def test_tables_that_do_not_belong_together_are_refused():
    h100 = table(k=8, environment=Environment(gpu="NVIDIA H100", date=table().environment.date))
    for tables in ([], [table(), h100], [table(), table()], [table(), table(k=8, precision="tf32")]):
        with pytest.raises(InvalidArgument, match="one GPU and one precision class"):
            module_source(tables)
