"""What is said about one chunk under the pointer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.schedule.costs import CACHE_BYTES
from workbench.widgets import text
from workbench.widgets.schedule.measured import Measured
from workbench.widgets.schedule.side import Side


@dataclass(frozen=True)
class Card:
    """A small table about one descriptor.

    Attributes
    ----------
    title, subtitle : str
    rows : tuple of (str, str)
        Label and text.
    request : int
        Index in the batch.
    """

    title: str
    subtitle: str
    rows: tuple[tuple[str, str], ...]
    request: int


def make_card(
    side: Side,
    index: int,
    *,
    sms: int,
    sides: Sequence[Side],
    trace_row: int | None = None,
    measured: Measured | None = None,
) -> Card:
    """Describe one descriptor.

    Parameters
    ----------
    side
        The policy it belongs to.
    index
        Row in ``side.plan.descriptors``.
    sms
        Streaming multiprocessors; without stamps CTA ``c`` is assumed to run on SM ``c mod sms``.
    sides
        All policies on screen, to say what each makes of the same request.
    trace_row
        Row of the request in its trace.
    measured
        The timeline of this side's plan.
    """
    plan, spans = side.plan, side.spans
    d = plan.descriptors[index]
    request, head = int(d["request"]), int(d["kv_head"])
    chunks = int(plan.chunk_counts[head, request])
    first, count = int(d["first_token"]), int(d["num_tokens"])
    kv_bytes = count * 2 * spans.cost.head_dim * CACHE_BYTES[spans.cost.cache]
    start, foot, end = (int(values[index]) / 1e3 for values in (spans.start_ns, spans.foot_ns, spans.end_ns))
    modelled = f"{text.us(start)} to {text.us(end)} \u00b5s, {text.us(foot)} of it fixed"
    rows = [
        ("bin", _place(side, index, sms, measured)),
        ("reads", f"tokens {first:,} to {first + count - 1:,}" if count > 1 else f"token {first:,}"),
        ("", f"{text.plural(int(d['num_tiles']), 'tile')}, {text.size(kv_bytes)}"),
        ("modelled" if measured else "runs", modelled),
        *(_stamps(measured, index, end) if measured else ()),
    ]
    for other in sides:
        mine = (other.plan.request == request) & (other.plan.kv_head == head)
        last = text.us(int(other.spans.end_ns[mine].max()) / 1e3)
        rows.append(
            (f"in {other.key}", f"{text.plural(int(np.count_nonzero(mine)), 'chunk')}, last ends {last} \u00b5s")
        )
    length = int(plan.lengths[request])
    rows.append(
        (
            "request",
            text.plural(length, "token") + (f", row {trace_row:,} of the trace" if trace_row is not None else ""),
        )
    )
    return Card(f"Request {request}", f"KV head {head}, chunk {int(d['chunk']) + 1} of {chunks}", tuple(rows), request)


def _stamps(measured: Measured, index: int, modelled_end: float) -> tuple[tuple[str, str], ...]:
    """What the stamps say: from when to when against the model, and the stages."""
    t = measured.timeline
    start, arrived, streamed, end = (
        int(values[index]) / 1e3 for values in (t.start_ns, t.arrived_ns, t.streamed_ns, t.end_ns)
    )
    late = end - modelled_end
    against = text.signed(text.fine_us(abs(late)), late)
    rows = [
        ("measured", f"{text.us(start)} to {text.us(end)} \u00b5s, {against} against the model"),
        ("", f"waits {text.fine_us(arrived - start)}, streams {text.fine_us(streamed - arrived)}, "
             f"combines {text.fine_us(end - streamed)} \u00b5s"),
    ]  # fmt: skip
    if t.leader[index]:
        low, high = int(t.merge_start_ns[index]) / 1e3, int(t.merge_end_ns[index]) / 1e3
        rows.append(("merges", f"{text.us(low)} to {text.us(high)} \u00b5s, waiting for pieces included"))
    return tuple(rows)


def _place(side: Side, index: int, sms: int, measured: Measured | None) -> str:
    """Where the chunk runs and which one of its bin it is."""
    plan, cta = side.plan, int(side.plan.cta[index])
    slot = int(measured.slot[index]) if measured else int(side.spans.slot[cta])
    place = f"SM {int(measured.timeline.sm[index])}" if measured else f"SM {slot % sms} (assumed)"
    low, high = plan.bin_offsets[cta : cta + 2].tolist()
    within = f", {text.ordinal(index - low + 1)} of {text.plural(high - low, 'chunk')}" if high - low > 1 else ""
    if plan.num_bins > plan.num_ctas and not measured:
        wave = int(np.count_nonzero(side.spans.slot[: cta + 1] == slot))
        return f"CTA {cta:,}, slot {slot:,}, {place}, {text.ordinal(wave)} on its slot{within}"
    return f"CTA {cta:,}, {place}{within}"
