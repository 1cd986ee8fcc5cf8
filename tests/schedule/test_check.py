"""The checker: planted mistakes are found, made small and explained; a right scheduler is scored."""

from __future__ import annotations

import functools
import inspect
from dataclasses import replace

import numpy as np
import pytest

from tests.schedule import wrong_schedulers as wrong
from workbench.errors import InvalidArgument
from workbench.schedule import check_scheduler, cost_model, plan_decode
from workbench.schedule.check import RIVALS
from workbench.schedule.trials import Batch, edges, random_batches, scored, shrink, smaller


@pytest.mark.parametrize(
    ("scheduler", "kind", "batch", "words"),
    [
        (wrong.drops_the_last_tile, "missing", Batch((577,), 1, 1), "request 0: tile 9 assigned to no CTA"),
        (wrong.assigns_twice, "twice", Batch((0, 0, 0, 0, 0, 1), 1, 1), "request 5: tile 0 assigned twice, both times"),
        (wrong.ignores_heads, "missing", Batch((1,), 2, 1), "request 0, KV head 1: tile 0 assigned to no CTA"),
        (wrong.crashes_at_zero_length, "raises IndexError", Batch((0,), 1, 1), "IndexError: list index out of range"),
        (wrong.off_by_one_at_a_tile_edge, "outside", Batch((0,), 1, 1), "reads past the end: request 0 is empty"),
        (wrong.too_many_ctas, "not a map", Batch((1, 1), 1, 1), "the result has a list for CTA 1; the CTAs are 0-0"),
        (wrong.changes_lengths, "changes its argument", Batch((1,), 1, 1), "request 0 had 1 tokens and has 0 after"),
        (wrong.wrong_arguments, "raises TypeError", Batch((0,), 1, 1), "the call itself fails: TypeError"),
        (wrong.returns_nothing, "not a map", Batch((0,), 1, 1), "the result is None, not a list"),
        (wrong.a_generator_that_fails, "raises RuntimeError", Batch((0,), 1, 5), "generator raised StopIteration"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_planted_mistakes(scheduler: object, kind: str, batch: Batch, words: str) -> None:
    report = check_scheduler(scheduler)
    assert not report.ok
    assert not report
    assert report.failure.kind == kind
    assert report.failure.batch == batch
    assert any(words in line for line in report.failure.words)
    assert report.scores == ()
    assert report.table().empty
    for shown in (str(report), report._repr_html_()):
        assert f"{report.name} is wrong on {batch}" in shown
        assert batch.call(report.name).split("(")[0] in shown
    # What is shown can be pasted and fails the same way.
    if kind == "missing":
        made = eval(batch.call("scheduler"), {"np": np, "scheduler": scheduler})
        with pytest.raises(ValueError, match="assigned to no CTA"):
            plan_decode(
                batch.lengths,
                num_kv_heads=batch.num_kv_heads,
                num_ctas=batch.num_ctas,
                tile=batch.tile,
                policy=lambda *_: made,
            )


def test_a_scheduler_that_is_not_repeatable() -> None:
    report = check_scheduler(wrong.not_repeatable)
    assert report.failure.kind == "not repeatable"
    assert "two calls with the same arguments give CTA" in report.failure.words[0]


def test_the_line_of_ones_own_code_is_named() -> None:
    (words,) = check_scheduler(wrong.crashes_at_zero_length).failure.words
    source, first = inspect.getsourcelines(wrong.crashes_at_zero_length)
    line = first + next(i for i, text in enumerate(source) if "piece[0]" in text)
    assert words.startswith(f"line {line} of ")
    assert "`first = [piece[0] for piece in pieces]`" in words


def test_the_line_that_called_a_library_is_named() -> None:
    def scheduler(lengths: np.ndarray, num_kv_heads: int, num_ctas: int, tile: int) -> object:
        return np.concatenate([lengths[:0], lengths.reshape(7, 7)])

    (words,) = check_scheduler(scheduler).failure.words
    assert "`return np.concatenate([lengths[:0], lengths.reshape(7, 7)])`, raises ValueError" in words


def test_a_scheduler_that_exits_does_not_end_the_session() -> None:
    def scheduler(lengths: np.ndarray, num_kv_heads: int, num_ctas: int, tile: int) -> object:
        raise SystemExit(3)

    failure = check_scheduler(scheduler).failure
    assert failure.kind == "raises SystemExit"
    assert "`raise SystemExit(3)`" in failure.words[0]


def test_a_right_scheduler_is_scored_against_the_policies() -> None:
    report = check_scheduler(wrong.right, trials=50)
    assert report.ok
    assert report
    assert report.tried == len(list(edges())) + 50 + len(scored())
    table = report.table()
    assert list(table.columns) == ["yours", *RIVALS, "bound", "efficiency"]
    for name, batch in scored().items():
        arguments = {"num_kv_heads": batch.num_kv_heads, "num_ctas": batch.num_ctas, "tile": batch.tile}
        for column, policy in (("yours", wrong.right), *zip(RIVALS, RIVALS, strict=True)):
            expected = plan_decode(batch.lengths, policy=policy, **arguments).metrics()
            assert table.loc[name, column] == expected.makespan_us
        assert table.loc[name, "bound"] == expected.bound_us
        assert table.loc[name, "efficiency"] == pytest.approx(expected.bound_us / table.loc[name, "yours"])
    ratio = np.exp(np.log(table["lpt"] / table["yours"]).mean())
    assert report.speedup("lpt") == pytest.approx(ratio)
    assert f"{ratio:.2f} of lpt's" in str(report)
    assert report.source.startswith(("modelled", "measured"))
    assert report.source in str(report)
    assert "<table" in report._repr_html_()


def test_the_cost_model_that_scores_can_be_chosen() -> None:
    cost = cost_model("A100", cache="bf16")
    slow = check_scheduler(wrong.right, trials=0, cost=cost)
    plan = plan_decode([4096] * 64, num_kv_heads=1, num_ctas=528, policy=wrong.right)
    assert slow.table().loc["64x4K", "yours"] == plan.metrics(cost).makespan_us
    assert slow.source == cost.source


def test_balanced_scores_as_itself_when_passed_as_a_function() -> None:
    def mine(lengths: np.ndarray, num_kv_heads: int, num_ctas: int, tile: int) -> object:
        return plan_decode(lengths, num_kv_heads=num_kv_heads, num_ctas=num_ctas, tile=tile).as_lists()

    report = check_scheduler(mine, trials=20)
    assert report.speedup("balanced") == 1.0
    assert report.speedup("hpc-ops") > 1


def test_the_report_is_the_same_every_time() -> None:
    first, second = (check_scheduler(wrong.assigns_twice, seed=3) for _ in range(2))
    assert first == second


def test_no_score_for_a_wrong_scheduler() -> None:
    with pytest.raises(InvalidArgument, match=r"ignores_heads has no score"):
        check_scheduler(wrong.ignores_heads).speedup("lpt")
    with pytest.raises(InvalidArgument, match=r"rival is 'fifo'. Known: hpc-ops, lpt, balanced"):
        check_scheduler(wrong.right, trials=0).speedup("fifo")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("lpt",), "the scheduler is 'lpt'. Give a function"),
        ((None,), "the scheduler is None"),
        ((list,), "the scheduler is <class 'list'>"),
    ],
    ids=str,
)
def test_what_is_not_a_scheduler(arguments: tuple[object], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        check_scheduler(*arguments)


def test_other_arguments() -> None:
    with pytest.raises(InvalidArgument, match="seed is -1"):
        check_scheduler(wrong.right, seed=-1)
    with pytest.raises(InvalidArgument, match=r"trials is 1\.5"):
        check_scheduler(wrong.right, trials=1.5)
    with pytest.raises(InvalidArgument, match="cost is 'H100'"):
        check_scheduler(wrong.right, cost="H100")
    partial = functools.partial(wrong.right, tile=64)
    assert "multiple values for argument 'tile'" in str(check_scheduler(partial))


def test_interrupting_is_not_a_mistake_of_the_scheduler() -> None:
    def stopped(*_: object) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_scheduler(stopped)


def test_batches_cover_what_schedulers_get_wrong() -> None:
    batches = [*edges(), *random_batches(0, 200)]
    tiles = [[-(-length // b.tile) for length in b.lengths] for b in batches]
    assert all(b.lengths and b.num_ctas >= 1 and min(b.lengths) >= 0 for b in batches)
    for wanted in (
        lambda b, t: 0 in b.lengths,
        lambda b, t: not any(t),
        lambda b, t: 1 in b.lengths,
        lambda b, t: any(length and length % b.tile == 0 for length in b.lengths),
        lambda b, t: any(length % b.tile == 1 for length in b.lengths),
        lambda b, t: any(length % b.tile == b.tile - 1 for length in b.lengths),
        lambda b, t: max(t) > 10 * sum(t) / len(t),
        lambda b, t: len(b.lengths) * b.num_kv_heads > b.num_ctas,
        lambda b, t: sum(t) * b.num_kv_heads < b.num_ctas,
        lambda b, t: b.num_kv_heads == 8,
        lambda b, t: b.num_ctas == 1,
        lambda b, t: b.tile == 32,
        lambda b, t: b.tile == 128,
    ):
        assert sum(wanted(b, t) for b, t in zip(batches, tiles, strict=True)) >= 3
    assert list(random_batches(0, 20)) == list(random_batches(0, 20)) != list(random_batches(1, 20))


def test_smaller_batches_are_smaller() -> None:
    for batch in random_batches(5, 40):
        for candidate in smaller(batch):
            assert candidate != batch
            assert candidate.num_ctas >= 1
            assert candidate.num_kv_heads >= 1
            assert all(length >= 0 for length in candidate.lengths)
            assert candidate.lengths
            grown = (
                len(candidate.lengths) > len(batch.lengths),
                candidate.num_ctas > batch.num_ctas,
                candidate.num_kv_heads > batch.num_kv_heads,
                sum(candidate.lengths) > sum(batch.lengths),
            )
            assert not any(grown)


def test_shrinking_ends_where_no_small_step_fails() -> None:
    def fails(batch: Batch) -> bool:
        return sum(batch.lengths) >= 1000 and batch.num_ctas >= 3 and batch.num_kv_heads >= 2

    start = Batch((300, 4000, 77, 0, 640), 8, 100, 128)
    found = shrink(start, fails)
    assert found == Batch((1000,), 2, 3, 64)
    assert shrink(start, fails, most_calls=0) == start
    assert shrink(found, lambda _: False) == found
    assert fails(shrink(replace(start, tile=32), fails, most_calls=7))
