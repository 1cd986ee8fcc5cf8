"""The search for the best static setting finds what trying all of them finds."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.schedule import plan_decode, search
from workbench.schedule.search import CHUNKS, SPLITS, search_static


def test_best_of_all_settings():
    rng = np.random.default_rng(1)
    batches = [np.clip(rng.lognormal(8, 1.3, 20), 1, 100_000).astype(int) for _ in range(5)]
    found = search_static(batches, num_kv_heads=1, num_ctas=132)
    names = [f"fixed_splits({n})" for n in SPLITS] + [f"fixed_chunk({tokens})" for tokens in CHUNKS]
    calls = {
        name: [plan_decode(b, num_kv_heads=1, num_ctas=132, policy=name).metrics().call_us for b in batches]
        for name in names
    }
    assert found.settings == tuple(names)
    np.testing.assert_allclose(found.mean_call_us, [np.mean(calls[name]) for name in names])
    for family in ("fixed_splits", "fixed_chunk"):
        of_it = [name for name in names if name.startswith(family)]
        assert found.best(family) == min(of_it, key=lambda name: np.mean(calls[name]))
    assert found.retuned_call_us == pytest.approx(np.mean(np.min(list(calls.values()), axis=0)))
    assert found.retuned_call_us <= found.mean_call_us.min()


def test_long_traces_are_sampled_evenly():
    found = search_static([[64]] * 5000, num_kv_heads=1, num_ctas=132)
    assert found.steps.size == 1024
    gaps = np.diff(found.steps)
    assert gaps.min() >= 4
    assert gaps.max() <= 5


def test_settings_too_fine_for_a_large_batch_are_left_out(monkeypatch):
    """Grids that no policy plans are not asked for, nor more of them than the time of a search allows."""
    monkeypatch.setattr(search, "MAX_GRID", 5000)
    batch = [100_000] + [64] * 99
    found = search_static([batch], num_kv_heads=1, num_ctas=132)
    chunks = [tokens for tokens in CHUNKS if 100 * -(-100_000 // tokens) <= 5000]
    wanted = [*(f"fixed_splits({n})" for n in SPLITS if n <= 50), *(f"fixed_chunk({tokens})" for tokens in chunks)]
    assert 0 < len(chunks) < len(CHUNKS)
    assert found.settings == tuple(wanted)

    monkeypatch.setattr(search, "CTA_BUDGET", 2000)
    found = search_static([batch], num_kv_heads=1, num_ctas=132)
    coarse = ["fixed_chunk(49152)", "fixed_chunk(65536)", "fixed_chunk(98304)"]
    assert found.settings == (*(f"fixed_splits({n})" for n in (1, 2, 3, 4)), *coarse)
    monkeypatch.setattr(search, "MAX_GRID", 150)
    assert (
        search_static([[10_000_000] * 100], num_kv_heads=1, num_ctas=132).best("fixed_chunk") == "fixed_chunk(12582912)"
    )


def test_large_batches_are_sampled_less(monkeypatch):
    monkeypatch.setattr(search, "CTA_BUDGET", 200_000)
    found = search.search_static([[64] * 10] * 50, num_kv_heads=1, num_ctas=132)
    assert found.steps.size == 200_000 // (10 * sum(SPLITS))
    monkeypatch.setattr(search, "CTA_BUDGET", 1)
    assert search.search_static([[64] * 10] * 50, num_kv_heads=1, num_ctas=132).steps.size == search.LEAST_STEPS
