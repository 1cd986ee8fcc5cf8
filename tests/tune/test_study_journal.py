"""The journal of a study: what is no journal, was edited, or cannot be written is told and holds nothing open."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("optuna")

from tests.tune.fake_bench import GPU, FakeFactory, small_space
from workbench.errors import InvalidArgument, StudyError
from workbench.tune.measure import Effort
from workbench.tune.study import Study
from workbench.tune.study_journal import about_of
from workbench.tune.workers_local import LocalPool

SPACE = small_space(stages=(3, 4), split_k=(4, 8))
EFFORT = Effort(first=1, rounds=2, finalists=4, final_rounds=5)


def opened(path: Path, **options: Any) -> Study:
    return Study(SPACE, path, gpu=GPU, effort=EFFORT, **options)


@pytest.fixture(scope="module")
def pool():
    with LocalPool(FakeFactory()) as made:
        yield made


@pytest.fixture(scope="module")
def whole(pool, tmp_path_factory) -> bytes:
    """A journal with some trials."""
    path = tmp_path_factory.mktemp("study") / "whole"
    with opened(path) as study:
        study.run(pool, most=4)
    return path.read_bytes()


@pytest.mark.parametrize(
    "wrong",
    [{"method": "hill climbing"}, {"seed": -1}, {"seed": 1 << 32}, {"seed": "7"}, {"configs": ["fast"]}],
    ids=str,
)
def test_wrong_arguments_leave_the_file_free(tmp_path, wrong):
    with pytest.raises(InvalidArgument):
        opened(tmp_path / "s", **wrong)
    with opened(tmp_path / "s") as study:
        assert study.trials == {}


def test_configurations_of_another_space_are_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="not in the space"):
        opened(tmp_path / "s", configs=list(small_space(stages=6, split_k=16)))


def test_a_space_without_configurations_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match=r"no configuration can run .*stages"):
        Study(small_space(stages=99), tmp_path / "s", gpu=GPU)


@pytest.mark.parametrize("seed", [(1 << 32) - 1, (1 << 32) - 3])
def test_the_largest_seeds(tmp_path, pool, seed):
    with opened(tmp_path / "s", method="random", seed=seed) as study:
        study.run(pool, most=4)
        assert len(study.trials) == 4


@pytest.mark.parametrize(
    "changed",
    [
        lambda lines: [*lines[:3], b"\xff\xfe", *lines[3:]],
        lambda lines: [*lines[:3], b"[]", *lines[3:]],
        lambda lines: [*lines[:3], b'{"op_code": 99, "worker_id": "x"}', *lines[3:]],
        lambda lines: [b"<html>", b"</html>"],
    ],
)
def test_garbage_is_told_and_left_as_it_is(tmp_path, whole, changed):
    path = tmp_path / "s"
    path.write_bytes(b"\n".join(changed(whole.splitlines())) + b"\n")
    before = path.read_bytes()
    for _ in range(2):  # the first does not keep the file open
        with pytest.raises(StudyError, match="is no journal of a study"):
            opened(path)
    with pytest.raises(StudyError, match="is no journal of a study"):
        about_of(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        {"samples_us": None},
        {"samples_us": ["fast"]},
        {"samples_us": [float("nan")]},
        {"samples_us": []},
        {"beside_us": [0.0]},
        {"state": "splendid"},
        {"config": 3},
    ],
    ids=str,
)
def test_an_edited_trial_is_told(tmp_path, whole, change):
    path = tmp_path / "s"
    path.write_bytes(edited(whole, lambda trial: trial | change))
    for _ in range(2):
        with pytest.raises(StudyError, match="holds a trial that cannot be read"):
            opened(path)


def test_edited_configurations_are_told(tmp_path):
    path = tmp_path / "s"
    opened(path, configs=list(SPACE)[:2]).__exit__()
    path.write_bytes(path.read_bytes().replace(b'"split_k":4', b'"split_q":4'))
    with pytest.raises(StudyError, match=r"configurations|space"):
        opened(path)


def edited(journal: bytes, change: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    """The journal with other trials."""
    lines = []
    for line in journal.splitlines():
        said = json.loads(line)
        for attributes in said.values():
            if isinstance(attributes, dict) and "trial" in attributes:
                attributes["trial"] = change(attributes["trial"])
        lines.append(json.dumps(said).encode())
    return b"\n".join(lines) + b"\n"


def test_a_full_disk_keeps_what_was_finished(tmp_path, pool, monkeypatch):
    from optuna.storages.journal import JournalFileBackend

    whole_lines = JournalFileBackend.append_logs

    def full(self, logs):
        with (tmp_path / "s").open("ab") as file:
            file.write(b'{"op_code": 4, "half a l')
        raise OSError(errno.ENOSPC, "No space left on device")

    with opened(tmp_path / "s") as study:
        study.run(pool, most=3)
        monkeypatch.setattr(JournalFileBackend, "append_logs", full)
        with pytest.raises(StudyError, match=r"No space left on device.*resume"):
            study.run(pool)
        monkeypatch.setattr(JournalFileBackend, "append_logs", whole_lines)
        study.run(pool, most=5)  # there is room again; the half line is gone
    with opened(tmp_path / "s") as study:
        assert len(study.trials) == 5


def test_a_study_is_looked_at_while_another_process_goes_on_with_it(tmp_path, pool):
    with opened(tmp_path / "s") as study:
        study.run(pool, most=3)
        with (tmp_path / "s").open("ab") as file:
            file.write(b'{"op_code": 4, "half a l')  # this moment
        before = (tmp_path / "s").read_bytes()
        with opened(tmp_path / "s", writable=False) as seen:
            assert seen.trials == study.trials
            assert seen.result() is None
        assert (tmp_path / "s").read_bytes() == before


def test_looking_makes_no_file(tmp_path):
    with pytest.raises(StudyError, match="is no journal"):
        opened(tmp_path / "s", writable=False)
