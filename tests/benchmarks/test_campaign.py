"""Stages of the campaign: each command takes the options it is given, and what they launch is compiled before."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks import campaign, kernels_ahead
from workbench import cli, settings
from workbench.errors import WorkbenchError
from workbench.gpu.driver import probe

no_gpu_here = pytest.mark.skipif(not probe().problem, reason="a GPU is here")


def stages(work: Path = Path("work")) -> dict[str, campaign.Stage]:
    return {stage.name: stage for stage in campaign.stages(work, "H200")}


COMMANDS = [command for stage in stages().values() for command in stage.commands]
SCRIPTS = [command for command in COMMANDS if command[1].endswith(".py")]
TESTS = [command for command in COMMANDS if command[1:3] == ("-m", "pytest")]
OURS = [command for command in COMMANDS if command[1:3] == ("-m", "workbench")]


def name(command: tuple[str, ...]) -> str:
    return "-".join(Path(word).stem for word in command[1:] if not word.startswith("-"))[:60]


def main_of(path: str):
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def test_every_command_is_of_a_known_kind() -> None:
    assert sorted([*SCRIPTS, *TESTS, *OURS]) == sorted(COMMANDS)
    assert all(command[0] == sys.executable for command in COMMANDS)


@no_gpu_here
@pytest.mark.parametrize("command", SCRIPTS, ids=name)
def test_a_script_takes_its_options(command, monkeypatch, tmp_path) -> None:
    """Without a GPU it comes as far as asking for one: an option that it does not have ends it with 2 before."""
    monkeypatch.setattr(settings, "ncu", lambda: None)
    monkeypatch.setattr(sys, "argv", [command[1], *(word.replace("work", str(tmp_path)) for word in command[2:])])
    try:
        status = main_of(command[1])()
    except WorkbenchError:
        return
    assert "sanitize" in command[1]
    assert status == 2  # its word for "cannot run here"


@no_gpu_here
@pytest.mark.parametrize("command", OURS, ids=name)
def test_a_command_takes_its_options(command, monkeypatch, tmp_path, capsys) -> None:
    words = [word.replace("work", str(tmp_path)) if word.startswith("work") else word for word in command[3:]]
    if words[0] == "fit":
        (tmp_path / "store").mkdir()
    monkeypatch.setattr(sys, "argv", ["workbench", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = "".join(capsys.readouterr())
    assert "No such option" not in told
    if words[0] == "fit":
        assert "has no call of decode attention" in told
    else:
        assert ended.value.code == 1
        assert "Nothing was measured" in told


def test_tests_that_are_named_are_there() -> None:
    for command in TESTS:
        named = [word for word in command if word.startswith("tests/")]
        assert named
        assert all((campaign.ROOT / word).exists() for word in named)


def test_needs_are_within_limits() -> None:
    for stage in stages().values():
        assert 0 < stage.needs_s < stage.limit_s


def test_kernels_are_those_of_stages() -> None:
    assert kernels_ahead.KERNELS.keys() <= stages().keys()
    entries = {job.entry for job in kernels_ahead.jobs_of(["attention", "maps", "timelines", "captures"])}
    assert entries == {"attention_decode", "build_task_map", "read_bytes"}
    jobs = kernels_ahead.jobs_of(["timelines"])
    assert len(jobs) == len(set(map(repr, jobs))) == 4  # two types of cache, plain and with stamps


def run(monkeypatch, capsys, *words: str) -> tuple[object, str, str]:
    monkeypatch.setattr(sys, "argv", ["campaign.py", *words])
    try:
        status: object = campaign.main()
    except SystemExit as ended:
        status = ended.code
    told = capsys.readouterr()
    return status, told.out, told.err


def test_the_list_says_how_long_each_takes(monkeypatch, capsys) -> None:
    status, out, _ = run(monkeypatch, capsys, "--list")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == list(stages())
    assert all(f"{stage.needs_s:.0f} s" in out and stage.what in out for stage in stages().values())


def test_what_is_no_stage_is_refused(monkeypatch, capsys, tmp_path) -> None:
    status, _, err = run(monkeypatch, capsys, str(tmp_path), "--stages", "check,nonsense")
    assert status == 2
    assert "there is no stage 'nonsense'" in err


@no_gpu_here
def test_without_a_gpu_it_says_so(monkeypatch, capsys, tmp_path) -> None:
    status, _, err = run(monkeypatch, capsys, str(tmp_path / "out"))
    assert status == 2
    assert "driver" in err
    assert not (tmp_path / "out").exists()
