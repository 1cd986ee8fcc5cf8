"""The command line as a user's shell runs it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from workbench.cli import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """``run("plan", "64x4K")``: exit code, standard output and standard error."""

    def run(*words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["workbench", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        return Done(code if isinstance(code, int) else 0, *capsys.readouterr())

    return run


@pytest.fixture
def refused(run: Callable[..., Done]) -> Callable[..., str]:
    """The message of a command that ends with code 2, without a traceback and without output."""

    def refused(*words: object) -> str:
        done = run(*words)
        assert done.code == 2, done
        assert done.out == ""
        assert "Traceback" not in done.err
        return " ".join(done.err.split())

    return refused
