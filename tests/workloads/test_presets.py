from __future__ import annotations

import numpy as np
import pytest

from workbench.errors import InvalidArgument, LengthsError, WorkloadError
from workbench.workloads import (
    FAMILIES,
    MAX_TOKENS,
    MIXES,
    bimodal,
    lognormal,
    one_long_many_short,
    uniform,
    workload,
    zipf,
)

K = 1024


@pytest.mark.parametrize(
    ("mix", "counts"),
    [
        ("64x0.5K", {512: 64}),
        ("64x4K", {4 * K: 64}),
        ("32x0.125K+32x4K", {128: 32, 4 * K: 32}),
        ("2x32K+30x4K", {32 * K: 2, 4 * K: 30}),
        ("1x64K+15x4K", {64 * K: 1, 4 * K: 15}),
        ("1x128K+31x4K", {128 * K: 1, 4 * K: 31}),
    ],
)
def test_mixes_hold_what_their_names_say(mix: str, counts: dict[int, int]) -> None:
    assert mix in MIXES
    lengths, number = np.unique(workload(mix), return_counts=True)
    assert dict(zip(lengths.tolist(), number.tolist(), strict=True)) == counts


def test_there_are_six_mixes() -> None:
    assert len(set(MIXES)) == 6


@pytest.mark.parametrize("name", FAMILIES)
def test_families_obey_seed_and_size(name: str) -> None:
    first, again, other = (workload(name, num_requests=200, seed=seed) for seed in (1, 1, 2))
    assert first.dtype == np.int64
    assert first.shape == (200,)
    assert first.min() >= 1
    assert first.max() <= MAX_TOKENS
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert workload(name, num_requests=1).shape == (1,)


def test_uniform_reaches_both_ends() -> None:
    lengths = uniform(2000, low=5, high=9)
    assert set(lengths.tolist()) == {5, 6, 7, 8, 9}


def test_lognormal_has_its_median_and_spread() -> None:
    lengths = lognormal(20_000, median=4096, sigma=1.0, longest=MAX_TOKENS)
    assert np.median(lengths) == pytest.approx(4096, rel=0.05)
    assert np.log(lengths).std() == pytest.approx(1.0, rel=0.05)
    assert lognormal(1000, longest=5000).max() == 5000
    assert set(lognormal(10, sigma=0.0).tolist()) == {4096}


def test_zipf_follows_its_law() -> None:
    ranked = np.sort(zipf(8, longest=8400, exponent=1.0, shortest=1))[::-1]
    assert ranked.tolist() == [8400, 4200, 2800, 2100, 1680, 1400, 1200, 1050]
    assert zipf(100, longest=8400, shortest=500).min() == 500


def test_bimodal_has_two_modes() -> None:
    lengths = bimodal(80, short=1000, long=32_000, long_share=0.25, spread=0.1)
    long = lengths[lengths > 10_000]
    short = lengths[lengths <= 10_000]
    assert len(long) == 20
    assert 28_800 <= long.min() <= long.max() <= 35_200
    assert 900 <= short.min() <= short.max() <= 1100


def test_one_long_stands_where_it_is_put() -> None:
    lengths = one_long_many_short(5, long=100, short=7, position=3)
    assert lengths.tolist() == [7, 7, 7, 100, 7]
    assert np.count_nonzero(one_long_many_short(50, seed=4) > 4096) == 1


@pytest.mark.parametrize(
    ("spec", "parameters", "message"),
    [
        ("zipf", {"num_requests": 0}, "num_requests=0"),
        ("zipf", {"num_requests": 2.5}, "num_requests=2.5"),
        ("zipf", {"exponent": -1.0}, "exponent=-1.0"),
        ("zipf", {"exponent": float("nan")}, "exponent=nan"),
        ("zipf", {"longest": 5, "shortest": 6}, "shortest <= longest"),
        ("zipf", {"sigma": 1.0}, "does not take sigma"),
        ("uniform", {"low": 9, "high": 5}, "low <= high"),
        ("uniform", {"high": MAX_TOKENS + 1}, "high="),
        ("lognormal", {"sigma": -0.1}, "sigma=-0.1"),
        ("bimodal", {"long_share": 1.1}, "long_share=1.1"),
        ("bimodal", {"spread": -0.1}, "spread=-0.1"),
        ("one-long-many-short", {"position": 64}, "position=64"),
        ("64x4K", {"seed": 1}, "seed given with '64x4K'"),
        ("pareto", {}, "no workload is called 'pareto'"),
    ],
)
def test_refuses(spec: str, parameters: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        workload(spec, **parameters)
    assert message in str(caught.value)


def test_workload_passes_on_expressions_and_arrays() -> None:
    assert workload("2x4K + 7").tolist() == [4096, 4096, 7]
    assert workload([3, 4]).tolist() == [3, 4]
    with pytest.raises(LengthsError):
        workload("2xbad")
    with pytest.raises(WorkloadError):
        workload([0])
