"""The page about decode attention: its examples run, and it names everything that is public."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.ops.attention_decode.cases import LIMITS
from workbench import ops
from workbench.gpu.driver import probe
from workbench.ops import attention_decode as function
from workbench.ops.attention_decode import __all__ as public

PAGE = (Path(__file__).parents[3] / "docs" / "attention_decode.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run(left_out: str) -> dict[str, Any]:
    """Run the page from top to bottom, without the examples that begin with ``left_out``."""
    names: dict[str, Any] = {}
    for example in EXAMPLES:
        if not example.startswith(left_out):
            exec(example, names)
    return names


def error(names: dict[str, Any]) -> float:
    return float((names["out"].double() - names["expected"]).norm() / names["expected"].norm())


@pytest.mark.skipif(not probe().problem, reason="a GPU is here")
def test_the_examples_run_on_a_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert error(run("# on a GPU")) < LIMITS["bf16"]
    assert 0 < float(capsys.readouterr().out) < LIMITS["bf16"]


@pytest.mark.gpu
def test_the_examples_run_on_a_gpu() -> None:
    assert error(run("# on a CPU")) < LIMITS["bf16"]


def test_the_page_names_what_is_public() -> None:
    shown = set(re.findall(r"`(?:triton\.)?(\w+)`", PAGE))
    assert {*public, "attention_decode_triton", "TritonConfig"} <= shown
    assert ops.attention_decode is function
