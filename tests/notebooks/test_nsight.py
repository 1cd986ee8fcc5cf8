"""The Nsight notebook: explains where there is nothing, reads what is there, captures where it can."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.notebooks.execute import load, run, shown
from tests.widgets.profiles.samples import H200, fill, nsight, reduced
from workbench.capture import find_tools
from workbench.errors import WorkbenchError
from workbench.records import Store
from workbench.widgets.profiles.captures import read_captures
from workbench.widgets.profiles.counters import IMBALANCE, figure

NAME = "04_nsight.ipynb"

# Nothing shipped, so that the records of the test are all there are.
NOTHING_SHIPPED = """
from pathlib import Path as _Path
import workbench.paths as _paths
_paths.profiles_dir = lambda: _Path("nothing")
"""
NO_GPU = """
class _Driver:
    problem = "There is no NVIDIA driver here."
probe = _Driver
"""
FACTS = """
import math
facts = {
    "captures": len(browser.captures),
    "picked": [one.policy for one in browser.picks],
    "balance": balance["imbalance, %"].tolist(),
    "counted": len(counted),
    "view": browser.view,
}
facts
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("WORKBENCH_RECORDS_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "cache"))
    return Store(tmp_path / "own")


def setup(notebook, more: str) -> dict[str, str]:
    """The first cell with more behind it."""
    return {"setup": next(cell for cell in notebook.cells if cell.id == "setup").source + NOTHING_SHIPPED + more}


def test_with_no_record_it_explains(own: Store, tmp_path: Path) -> None:
    notebook = load(NAME)
    facts = run(notebook, tmp_path, replace=setup(notebook, NO_GPU), then=FACTS)
    assert facts == {"captures": 0, "picked": [], "balance": [], "counted": 0, "view": "compare"}
    assert "no NVIDIA driver" in shown(notebook, "here")
    assert "no capture to read yet" in shown(notebook, "what-is-here")
    assert "There is no capture in this store yet" in shown(notebook, "browse")


def test_on_records_of_another_machine(own: Store, tmp_path: Path) -> None:
    fill(own, gpus=(H200,), stages=(6,))
    notebook = load(NAME)
    facts = run(notebook, tmp_path, replace=setup(notebook, NO_GPU), then=FACTS)
    assert facts["picked"] == ["balanced", "hpc-ops", "fixed_splits(8)"]
    by_policy = {one.policy: one for one in read_captures(own)[0] if one.record.workload.case == "2x32K+30x4K"}
    expected = [figure(by_policy[policy], IMBALANCE).value for policy in facts["picked"]]
    assert facts["balance"] == pytest.approx(expected)
    worst = max(by_policy, key=lambda policy: figure(by_policy[policy], IMBALANCE).value)
    said = shown(notebook, "balance-reading")
    assert f"Under {worst} most is lost" in said
    assert "busy us of an SM" in shown(notebook, "stamps")
    assert "beyond" in shown(notebook, "noise")
    assert facts["view"] == "schedule"


def test_with_strange_records_it_runs(own: Store, tmp_path: Path) -> None:
    own.add(nsight(metrics={"my__own.sum": 1.0}, units={}, deviations={}))
    own.add(reduced())
    own.add(nsight(policy="lpt")).write_bytes(b"{")
    notebook = load(NAME)
    facts = run(
        notebook, tmp_path, replace=setup(notebook, NO_GPU), then=FACTS.replace("balance[", "balance.dropna()[")
    )
    assert (facts["captures"], facts["counted"]) == (2, 1)


CAPTURES = """
class _Driver:
    problem = None
probe = _Driver
class _Tools:
    words = "ncu and nsight-python, made up"
find_tools = _Tools
asked_for = []

async def capture_batch(requests, **_):
    import sys
    sys.path.insert(0, {root!r})
    from tests.widgets.profiles.samples import REPORT, H200, observed, reduced
    from workbench.capture import Captured
    from workbench.capture.batch import BatchResult
    from workbench.measure.attention_case import AttentionCase
    from workbench.records import Store
    from workbench.workloads import parse_lengths
    found = []
    for at, one in enumerate(requests):
        asked_for.append(one.counters)
        if one.counters and {forbidden}:
            raise CountersForbidden("the driver lets administrators only read counters")
        if one.counters:
            case = AttentionCase(CASE, parse_lengths(CASE))
            record, stamped, content = observed(case, one.policy, {{"stages": 6, "ctas_per_sm": 1}}, H200, seed=at)
            Store().add(stamped, content)
            found.append(Captured(record, Store().add(record, REPORT)))
        else:
            record = reduced(policy=one.policy, workload=one.workload)
            found.append(Captured(record, Store().add(record)))
    return BatchResult(found, {{}})
"""


@pytest.mark.parametrize("forbidden", [False, True])
def test_where_there_is_a_gpu_it_captures(own: Store, tmp_path: Path, forbidden: bool) -> None:
    root = str(Path(__file__).resolve().parents[2])
    notebook = load(NAME)
    more = CAPTURES.format(root=root, forbidden=forbidden)
    then = FACTS.replace('"view": browser.view', '"view": browser.view, "asked": asked_for')
    facts = run(notebook, tmp_path, replace=setup(notebook, more), then=then)
    assert facts["picked"] == ["balanced", "hpc-ops", "fixed_splits(8)"]
    if forbidden:
        assert facts["asked"] == [True, False, False, False]
        assert "Going on without counters" in shown(notebook, "capture")
        assert "These are reduced records" in shown(notebook, "what-is-here")
    else:
        assert facts["asked"] == [True] * 3
        assert "3 captures, 0 of them recorded before" in shown(notebook, "capture")
        assert facts["counted"] == 3


@pytest.mark.gpu
def test_live(own: Store, tmp_path: Path) -> None:
    """On a GPU whose counters may be read, all that is shown is of captures made here and now."""
    try:
        find_tools()
    except WorkbenchError as error:
        pytest.skip(str(error))
    notebook = load(NAME)
    facts = run(notebook, tmp_path, replace=setup(notebook, ""), then=FACTS)
    nbformat.write(notebook, tmp_path / "live.ipynb")  # to be looked at
    if "Going on without counters" in shown(notebook, "capture"):
        pytest.skip("counters are for administrators only here")
    assert facts["picked"] == ["balanced", "hpc-ops", "fixed_splits(8)"]
    assert (facts["captures"], facts["counted"]) == (3, 3)
    assert "3 captures, 0 of them recorded before" in shown(notebook, "capture")
    by_policy = dict(zip(facts["picked"], facts["balance"], strict=True))
    assert by_policy["fixed_splits(8)"] > by_policy["balanced"] + 10  # its last SM ends far behind the mean
    assert shown(notebook, "stamps").count("busy us of an SM") == 3
