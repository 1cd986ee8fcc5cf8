"""How each known trace format says "a request came then, with such a prompt and such an output".

The formats, as their own files and programs write them:

azure
    Azure LLM inference trace (Azure/AzurePublicDataset): CSV ``TIMESTAMP,ContextTokens,GeneratedTokens``, dates.
mooncake
    Mooncake (kvcache-ai/Mooncake, FAST'25 traces): JSON Lines ``timestamp`` in ms, ``input_length``,
    ``output_length``; ``hash_ids`` are not used.
bench-serving
    SGLang ``bench_serving --output-details`` and its kin: one JSON object a run, with lists ``input_lens`` and
    ``output_lens``; ``start_times`` in seconds where present; a request with text in ``errors`` failed.
sglang-metrics
    SGLang ``--export-metrics-to-file``: one JSON object a finished request with ``prompt_tokens`` and
    ``completion_tokens``, ``request_received_ts`` in seconds; or its request log in JSON, whose
    ``request.finished`` events hold the same under ``out.meta_info``.
columns
    Any CSV, JSON Lines or Parquet whose columns are named by the caller, by default those of
    `RequestTrace.to_frame`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from types import MappingProxyType
from typing import Any

from workbench.workloads.values import BadValue, nanoseconds, tokens

#: Arrival in nanoseconds (None: the file does not say), prompt tokens, output tokens.
Row = tuple[int | None, int, int]
#: One record to its requests; a request that cannot be used comes as its BadValue.
Parse = Callable[[dict[str, Any]], Iterator["Row | BadValue"]]

#: Column names that `RequestTrace.to_frame` writes.
OWN_COLUMNS: Mapping[str, str] = MappingProxyType(
    {"arrival": "arrival_s", "input": "input_tokens", "output": "output_tokens"}
)
#: Reason under which requests that failed in a benchmark are counted; they are left out even when nothing is bad.
FAILED = "failed in the benchmark"


@dataclass(frozen=True)
class TraceFormat:
    """One format: its name, the keys by which a file is recognised, and how a record is read."""

    name: str
    keys: tuple[str, ...]
    parse: Parse


def named_columns(columns: Mapping[str, str], unit: str = "s", name: str = "columns") -> TraceFormat:
    """Format of one request a record, in columns of any name.

    Parameters
    ----------
    columns
        Column of "input", of "output" and, if the file has one, of "arrival".
    unit
        Of a numeric arrival: "s", "ms", "us", "ns".
    name
        Of the format.
    """
    arrival, prompt, output = columns.get("arrival"), columns["input"], columns["output"]

    def parse(record: dict[str, Any]) -> Iterator[Row]:
        yield (
            None if arrival is None else nanoseconds(_get(record, arrival), arrival, unit=unit),
            tokens(_get(record, prompt), prompt, least=1),
            tokens(_get(record, output), output, least=0),
        )

    return TraceFormat(name, tuple(column for column in (arrival, prompt, output) if column is not None), parse)


def _bench_serving(record: dict[str, Any]) -> Iterator[Row | BadValue]:
    prompts, outputs = _list(record, "input_lens"), _list(record, "output_lens", like="input_lens")
    starts = _list(record, "start_times", like="input_lens") if record.get("start_times") else repeat(None)
    errors = _list(record, "errors", like="input_lens") if record.get("errors") else repeat("")
    for i, (prompt, output, start, error) in enumerate(zip(prompts, outputs, starts, errors, strict=False)):
        if error:
            yield BadValue(FAILED, str(error), "")
            continue
        try:
            yield (
                None if start is None else nanoseconds(start, f"start_times[{i}]"),
                tokens(prompt, f"input_lens[{i}]", least=1),
                tokens(output, f"output_lens[{i}]", least=0),
            )
        except BadValue as bad:
            yield bad


def _sglang(record: dict[str, Any]) -> Iterator[Row]:
    logged = None
    if "event" in record:
        if record["event"] != "request.finished":
            return  # the log also tells of requests received; each finished one repeats all we need
        logged = record.get("timestamp")
        record = _dict(_dict(record, "out"), "meta_info")
    prompt = tokens(_get(record, "prompt_tokens"), "prompt_tokens", least=1)
    output = tokens(_get(record, "completion_tokens"), "completion_tokens", least=0)
    received, latency = record.get("request_received_ts"), record.get("e2e_latency")
    finished, column = record.get("request_finished_ts"), "request_finished_ts"
    if finished is None:
        finished, column = logged, "timestamp"
    arrival = None
    if received is not None:
        arrival = nanoseconds(received, "request_received_ts")
    elif finished is not None and latency is not None:
        arrival = nanoseconds(finished, column) - nanoseconds(latency, "e2e_latency")
        if arrival < 0:
            problem = f"e2e_latency {latency!r} reaches back beyond time 0 from {column} {finished!r}"
            raise BadValue("negative time", problem, "seconds from arrival to end")
    yield arrival, prompt, output


#: Formats by name, in the order in which they are tried on a file; the first whose keys are all there is taken.
FORMATS: Mapping[str, TraceFormat] = MappingProxyType(
    {
        known.name: known
        for known in (
            named_columns(
                {"arrival": "TIMESTAMP", "input": "ContextTokens", "output": "GeneratedTokens"}, name="azure"
            ),
            named_columns(
                {"arrival": "timestamp", "input": "input_length", "output": "output_length"}, "ms", name="mooncake"
            ),
            TraceFormat("bench-serving", ("input_lens", "output_lens"), _bench_serving),
            TraceFormat("sglang-metrics", ("prompt_tokens", "completion_tokens"), _sglang),
            named_columns(OWN_COLUMNS),
        )
    }
)


def recognise(keys: Mapping[str, Any] | tuple[str, ...]) -> TraceFormat | None:
    """The format whose keys are all among those of a record, or None."""
    for known in FORMATS.values():
        if all(key in keys for key in known.keys):
            return known
    event = keys.get("event") if isinstance(keys, Mapping) else None
    return FORMATS["sglang-metrics"] if isinstance(event, str) and event.startswith("request.") else None


def _get(record: dict[str, Any], key: str) -> Any:
    if key not in record:
        raise BadValue("missing field", f"no field {key!r} among {', '.join(map(repr, list(record)[:20]))}", repr(key))
    return record[key]


def _dict(record: dict[str, Any], key: str) -> dict[str, Any]:
    value = _get(record, key)
    if not isinstance(value, dict):
        raise BadValue("missing field", f"{key} is not an object", f"an object under {key!r}")
    return value


def _list(record: dict[str, Any], key: str, like: str | None = None) -> list[Any]:
    value = _get(record, key)
    if not isinstance(value, list):
        raise BadValue("not a list", f"{key} is not a list", f"a list under {key!r}, one entry a request")
    if like is not None and len(value) != len(_get(record, like)):
        problem = f"{key} has {len(value):,} entries, {like} has {len(record[like]):,}"
        raise BadValue("lists differ in size", problem, "one entry a request in both")
    return value
