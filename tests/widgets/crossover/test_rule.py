"""Rules of a reader: what is read, what is refused, and what a table of one claims."""

from __future__ import annotations

import datetime

import pytest

from workbench.errors import InvalidArgument
from workbench.records import Environment
from workbench.tables import Choice, DispatchTable, Span
from workbench.widgets.crossover.rule import check_providers, choice_of, chosen_table, pieces_of

TABLE = DispatchTable(
    k=4096,
    n=192,
    precision="split",
    providers={"cuda": "split", "cublas-fp32": "fp32"},
    spans=(
        Span(low=0, high=0, provider="cuda", basis="outside"),
        Span(low=1, high=64, provider="cuda", winner="cuda", basis="measured", measured=(1, 16, 64)),
        Span(low=65, high=255, provider="cublas-fp32", basis="undecided", measured=(128,)),
        Span(low=256, high=512, provider="cublas-fp32", winner="cublas-fp32", basis="measured", measured=(256, 512)),
        Span(low=513, high=None, provider="cublas-fp32", basis="outside"),
    ),
    level=0.95,
    environment=Environment(gpu="NVIDIA H200", date=datetime.date(2026, 11, 29), sms=132),
    origins=("recorded (NVIDIA H200, 2026-11-29)",),
    evidence="0" * 64,
    made_by="a test",
)


@pytest.mark.parametrize(
    "given",
    [
        [(0, "a"), (64, "b")],
        {64: "b", 0: "a"},
        ((1, "a"), (64, "b")),
        Choice((0, 64), ("a", "b"), "x"),
        [[0, "a"], [64, "b"]],
    ],
)
def test_forms(given: object) -> None:
    assert pieces_of(given) == ((0, "a"), (64, "b"))
    assert choice_of(pieces_of(given)).at(63) == "a"


@pytest.mark.parametrize(
    "given",
    [
        [], [(2, "a")], [(0, "a"), (0, "b")], [(0, "a"), (1.5, "b")], [(0, "a"), ("64", "b")], [(0, 3)], [(0, "")], 7,
        "ab", [(0, "a", 1)], [(0, "a"), (1 << 40, "b")], {0: None}, [(-1, "a")], [(0, "a"), (float("nan"), "b")],
        object(),
    ],
)  # fmt: skip
def test_no_rules(given: object) -> None:
    with pytest.raises(InvalidArgument, match="thresholds"):
        pieces_of(given)


def test_a_provider_that_is_not_compared() -> None:
    with pytest.raises(InvalidArgument, match=r"names cublas-bf16; compared .* for 'split' are cuda"):
        check_providers(((0, "cublas-bf16"),), ("cuda",), "split")


def test_the_table_of_the_figures_own_choice_stays() -> None:
    again = chosen_table(TABLE, TABLE.choice, [])
    assert again.choice.starts == TABLE.choice.starts
    assert [span.basis for span in again.spans] == [span.basis for span in TABLE.spans]
    assert again.spans == TABLE.spans


def test_a_moved_threshold_claims_nothing() -> None:
    rule = Choice((0, 20, 300), ("cuda", "cublas-fp32", "cuda"), "mine")
    table = chosen_table(TABLE, rule, [])
    assert DispatchTable.decode(table.encode()) == table
    for m in [*range(600), 100_000]:
        assert table.choose(m) == rule.at(m)
    spans = {(span.low, span.high): span for span in table.spans}
    assert spans[1, 19].winner == "cuda"
    assert spans[1, 19].measured == (1, 16)
    assert (spans[20, 64].basis, spans[20, 64].winner, spans[20, 64].measured) == ("chosen", None, (64,))
    assert (spans[65, 255].basis, spans[256, 299].winner) == ("undecided", "cublas-fp32")
    assert spans[300, 512].basis == spans[513, None].basis == "chosen"


def test_a_cut_without_a_measured_m_names_no_winner() -> None:
    table = chosen_table(TABLE, Choice((0, 17, 30, 31), ("cuda", "cublas-fp32", "cuda", "cuda"), "mine"), [])
    part = next(span for span in table.spans if span.low == 30)
    assert (part.provider, part.winner, part.basis) == ("cuda", None, "chosen")
