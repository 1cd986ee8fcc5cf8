"""Errors of decode attention on a GPU against float64, over every kernel shape and ragged batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tests.ops.attention_decode import judge, mutants
from tests.ops.attention_decode.cases import LIMITS, Case, grid, random_batches, serving_batches

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("compiled")]

Record = Callable[[str, float, float], None]


def check(case: Case, record_errors: Record) -> None:
    verdict = judge.try_case(case)
    record_errors(case.precision, verdict.rel_error, verdict.lse_error)
    assert not verdict.complaints


@pytest.mark.parametrize("case", grid(), ids=str)
def test_every_kernel_shape(case: Case, record_errors: Record) -> None:
    check(case, record_errors)


@pytest.mark.parametrize("case", random_batches(), ids=str)
def test_ragged_batches(case: Case, record_errors: Record) -> None:
    check(case, record_errors)


@pytest.mark.parametrize("case", serving_batches(), ids=str)
def test_batches_of_the_tables(case: Case, record_errors: Record) -> None:
    check(case, record_errors)


@pytest.mark.parametrize("case", mutants.CASES, ids=str)
@pytest.mark.parametrize("deviation", [0.06, 1.0, 3.0])
@pytest.mark.parametrize("ruling", [None, "first", "middle", "last"])
def test_score_distributions(case: Case, deviation: float, ruling: str | None, record_errors: Record) -> None:
    check(replace(case, deviation=deviation, ruling=ruling), record_errors)


@pytest.mark.parametrize(
    "lengths",
    [(), (0,), (1,), (0, 0, 0), (1,) * 300, (0, 4096, 0), (16_384,)],
    ids=lambda lengths: f"{len(lengths)} up to {max(lengths, default=0)}",
)
@pytest.mark.parametrize("policy", ["balanced", "fixed_chunk(512)"])
@pytest.mark.parametrize("case", mutants.CASES, ids=str)
def test_smallest_batches(case: Case, policy: str, lengths: tuple[int, ...], record_errors: Record) -> None:
    check(replace(case, lengths=lengths, policy=policy), record_errors)


@pytest.mark.parametrize(
    "case",
    [
        replace(mutants.CASES[at], policy=policy, num_ctas=num_ctas, lengths=(9000, 1, 0, 700), ruling=None)
        for at, policy, num_ctas in itertools.product(range(4), ("shuffled", "lpt", "fixed_splits(3)"), (1, 2, 3, 9))
    ],
    ids=str,
)
def test_many_pieces_of_a_request_in_one_bin(case: Case, record_errors: Record) -> None:
    """Whoever merges may hold pieces that it has to wait for itself."""
    check(case, record_errors)


@pytest.mark.parametrize("case", mutants.CASES, ids=str)
def test_a_table_written_by_the_kernel_just_ahead(case: Case) -> None:
    """The same map on pages that move: what the kernel ahead in the stream writes must be seen."""
    inputs = case.inputs(poison=False)
    task_map = case.task_map(inputs)
    pages = inputs.k_cache.shape[0]
    where = [torch.randperm(pages, device="cuda") for _ in range(2)]  # page p lies at where[i][p]
    caches, tables = [], []
    for order in where:
        k, v = torch.empty_like(inputs.k_cache), torch.empty_like(inputs.v_cache)
        bytes_ = torch.uint8 if k.dtype.itemsize == 1 else torch.int16
        k.view(bytes_)[order], v.view(bytes_)[order] = inputs.k_cache.view(bytes_), inputs.v_cache.view(bytes_)
        scale = inputs.k_scale
        if scale is not None and scale.ndim == 3:
            scale = torch.empty_like(scale)
            scale[order] = inputs.k_scale
        caches.append((k, v, scale))
        tables.append(order[inputs.block_table.long().clamp(max=pages - 1)].to(torch.int32))
    expected, *_ = judge.run(case, inputs, task_map)
    table, wrong = torch.empty_like(tables[0]), torch.zeros((), dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    for turn in range(200):
        k, v, scale = caches[turn % 2]
        table.copy_(tables[turn % 2])
        out = judge.attention_decode(
            inputs.q, k, v, table, inputs.seq_lens, **{**inputs.keywords(), "k_scale": scale},
            task_map=task_map, config=case.used_config,
        )  # fmt: skip
        wrong += (out.view(torch.int16) != expected.view(torch.int16)).sum()
    assert int(wrong) == 0


def test_one_map_serves_many_calls() -> None:
    case = mutants.CASES[0]
    task_map = case.task_map(case.inputs())
    for seed in range(8):
        inputs = case.inputs(seed=seed)
        out, lse, complaints = judge.run(case, inputs, task_map)
        assert judge.judge(out, lse, judge.Reference.of(inputs), case.q_len, LIMITS[case.precision])
        assert not complaints


def test_a_softmax_scale_of_ones_own() -> None:
    case = replace(mutants.CASES[2], ruling=None)
    inputs = case.inputs()
    out, lse, complaints = judge.run(case, inputs, case.task_map(inputs), scale=0.2)
    expected = judge.attention_reference(*inputs.arguments(), **inputs.keywords(), scale=0.2)
    assert judge.judge(out, lse, judge.Reference(*expected), case.q_len, LIMITS[case.precision])
    assert not complaints


def test_maps_on_two_streams_at_once() -> None:
    case = mutants.CASES[0]
    batches = [case.inputs(seed=seed) for seed in (1, 2)]
    expected = [judge.run(case, inputs, case.task_map(inputs))[0].clone() for inputs in batches]
    streams = [torch.cuda.Stream() for _ in batches]
    maps = [case.task_map(inputs) for inputs in batches]
    torch.cuda.synchronize()
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    counts = []
    for stream, inputs, task_map, right in zip(streams, batches, maps, expected, strict=True):
        with torch.cuda.stream(stream):
            count = torch.zeros_like(wrong)
            for _ in range(100):
                out = judge.attention_decode(
                    *inputs.arguments(), **inputs.keywords(), task_map=task_map, config=case.used_config
                )
                count += (out.view(torch.int16) != right.view(torch.int16)).sum()
            counts.append(count)
    torch.cuda.synchronize()
    assert [int(count) for count in counts] == [0, 0]
