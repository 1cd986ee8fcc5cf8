"""The page on the router GEMM runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

PAGE = Path(__file__).resolve().parents[3] / "docs" / "router_gemm.md"


def blocks(on_gpu: bool) -> str:
    """The page's Python, without what needs a GPU where there is none."""
    found = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return "\n".join(block for block in found if on_gpu or not block.startswith("# on a GPU"))


def test_examples_run_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    names: dict[str, object] = {}
    exec(compile(blocks(on_gpu=False), str(PAGE), "exec"), names)
    scores = names["scores"]
    assert isinstance(scores, torch.Tensor)
    assert scores.shape == (16, 192)


@pytest.mark.gpu
def test_examples_run_on_a_gpu() -> None:
    exec(compile(blocks(on_gpu=True), str(PAGE), "exec"), {})
