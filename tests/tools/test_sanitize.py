"""What tools/sanitize.py concludes from what the sanitizer says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from workbench.gpu.driver import probe


@pytest.fixture(scope="module")
def sanitize() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "tools" / "sanitize.py"
    spec = importlib.util.spec_from_file_location("sanitize", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def verdict(
    sanitize: ModuleType, monkeypatch: pytest.MonkeyPatch, planted: tuple[int, str], ours: tuple[int, str]
) -> int:
    monkeypatch.setattr(sanitize, "under", lambda _sanitizer, _tool, what: {"planted": planted, "ours": ours}[what])
    return int(sanitize.check("compute-sanitizer", "memcheck"))


def test_clean(sanitize: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    status = verdict(sanitize, monkeypatch, (sanitize.REPORTED, "invalid write"), (0, "start\nran a\nran b\n"))
    assert status == sanitize.CLEAN
    assert "memcheck: clean, 2 cases" in capsys.readouterr().out


@pytest.mark.parametrize(
    "ours", [(99, "\nran a\nInvalid __global__ read"), (1, "\nran a\nTraceback"), (0, "nothing ran")]
)
def test_found(
    sanitize: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ours: tuple[int, str]
) -> None:
    status = verdict(sanitize, monkeypatch, (sanitize.REPORTED, ""), ours)
    assert status == sanitize.FOUND
    out = capsys.readouterr().out
    assert "NOT clean" in out
    assert ours[1].strip() in out


def test_a_tool_that_misses_the_planted_fault_proves_nothing(
    sanitize: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status = verdict(sanitize, monkeypatch, (0, "Device not supported"), (0, "\nran a"))
    assert status == sanitize.IMPOSSIBLE
    out = capsys.readouterr().out
    assert "cannot tell" in out
    assert "cannot attach" in out


@pytest.mark.skipif(not probe().problem, reason="a GPU is here")
def test_without_a_gpu_it_says_so(
    sanitize: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["sanitize.py"])
    assert sanitize.main() == sanitize.IMPOSSIBLE
    assert "driver" in capsys.readouterr().out


def test_the_reduced_grid_holds_every_precision_and_head_dim(sanitize: ModuleType) -> None:
    cases = sanitize.chosen_cases()
    assert len({case.precision for case in cases}) == 5
    assert {case.head_dim for case in cases} == {64, 128, 256}
    assert {case.q_len for case in cases} == {1, 2, 3, 4}
    assert len({case.policy for case in cases}) == 6
