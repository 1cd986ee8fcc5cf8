from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from workbench.errors import InvalidArgument, TraceFileError, TraceFormatError, TraceRecordError
from workbench.workloads import FORMATS, read_trace


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def test_azure_dates_keep_their_seventh_digit(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 23:59:59.9999999,4808,10",
        "2023-11-17 00:00:00.0000001,3180,8",
        "2023-11-17T00:00:01+00:00,110,27",
    )
    trace = read_trace(path)
    assert trace.format == "azure"
    assert trace.arrivals == "recorded"
    np.testing.assert_allclose(trace.arrival_s, [0.0, 2e-7, 1.0000001], rtol=0, atol=1e-12)
    assert trace.input_tokens.tolist() == [4808, 3180, 110]
    assert trace.output_tokens.tolist() == [10, 8, 27]


def test_mooncake_times_are_milliseconds(tmp_path: Path) -> None:
    rows = [{"timestamp": t, "input_length": 7, "output_length": 3, "hash_ids": [1, 2]} for t in (0, 1500, 27482)]
    trace = read_trace(write(tmp_path / "m.jsonl", *rows))
    assert trace.format == "mooncake"
    assert trace.arrival_s.tolist() == [0.0, 1.5, 27.482]


def bench(*, inputs: list[object], outputs: list[object], **more: object) -> dict[str, object]:
    return {"backend": "sglang", "request_rate": 4.0, "input_lens": inputs, "output_lens": outputs, **more}


def test_bench_serving_says_how_arrivals_were_made(tmp_path: Path) -> None:
    path = write(tmp_path / "b.jsonl", bench(inputs=[5, 6, 7], outputs=[1, 2, 3], itls=[[0.1]], errors=["", "", ""]))
    trace = read_trace(path)
    assert trace.format == "bench-serving"
    assert trace.input_tokens.tolist() == [5, 6, 7]
    assert trace.arrival_s.tolist() == [0.0, 0.0, 0.0]
    assert trace.arrivals == "all at zero, for the file records none"
    poisson = read_trace(path, rate=5.0, seed=7)
    assert poisson.arrivals == "Poisson, 5 requests/s, seed 7"
    assert (np.diff(poisson.arrival_s) > 0).all()
    assert poisson.output_tokens.tolist() == [1, 2, 3]


def test_bench_serving_start_times_and_failures(tmp_path: Path) -> None:
    path = write(
        tmp_path / "b.jsonl",
        bench(inputs=[5, 6, 7], outputs=[1, 0, 3], start_times=[100.5, 101.0, 100.25], errors=["", "timed out", ""]),
    )
    trace = read_trace(path)
    assert trace.arrival_s.tolist() == [0.0, 0.25]
    assert trace.input_tokens.tolist() == [7, 5]
    assert dict(trace.skipped) == {"failed in the benchmark": 1}
    assert "left out 1: failed in the benchmark" in trace.notes


def test_bench_serving_joins_runs_or_picks_one(tmp_path: Path) -> None:
    path = write(
        tmp_path / "b.jsonl",
        bench(inputs=[5, 6], outputs=[1, 2], start_times=[100.0, 102.0]),
        bench(inputs=[7, 8], outputs=[3, 4], start_times=[10.0, 11.0]),
    )
    joined = read_trace(path)
    assert joined.arrival_s.tolist() == [0.0, 2.0, 2.0, 3.0]
    assert joined.input_tokens.tolist() == [5, 6, 7, 8]
    assert joined.notes == ("joined 2 runs of the file",)
    assert read_trace(path, run=1).input_tokens.tolist() == [7, 8]
    assert read_trace(path, run=1).arrival_s.tolist() == [0.0, 1.0]
    with pytest.raises(InvalidArgument, match=r"run=2.* holds 2"):
        read_trace(path, run=2)


def test_bench_serving_rejects_single_requests(tmp_path: Path) -> None:
    path = write(tmp_path / "b.jsonl", bench(inputs=[5, -6, 7], outputs=[1, 2, 3.5]))
    with pytest.raises(TraceRecordError, match=r"line 1: input_lens\[1\] is -6"):
        read_trace(path)
    trace = read_trace(path, skip_bad=True)
    assert trace.input_tokens.tolist() == [5]
    assert dict(trace.skipped) == {"negative length": 1, "not a whole number": 1}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (bench(inputs=[1, 2], outputs=[1]), "output_lens has 1 entries, input_lens has 2"),
        (bench(inputs=[1], outputs=[1], start_times=[1.0, 2.0]), "start_times has 2 entries"),
        ({"input_lens": 5, "output_lens": [1]}, "input_lens is not a list"),
    ],
)
def test_bench_serving_refuses_lists_that_do_not_match(tmp_path: Path, record: dict[str, object], message: str) -> None:
    with pytest.raises(TraceRecordError, match="line 1") as caught:
        read_trace(write(tmp_path / "b.jsonl", record))
    assert message in str(caught.value)


def finished(received: float | None = None, **meta: object) -> dict[str, object]:
    meta = {"id": "x", "prompt_tokens": 10, "completion_tokens": 4, "cached_tokens": 0, "e2e_latency": 2.0} | meta
    return {"request_parameters": "{}", **meta, **({} if received is None else {"request_received_ts": received})}


def test_sglang_metrics_export(tmp_path: Path) -> None:
    path = write(
        tmp_path / "sglang-request-metrics-20250131_12.log",
        finished(1_750_000_001.5, prompt_tokens=30),
        finished(1_750_000_000.25, prompt_tokens=20, completion_tokens=0),
        finished(None, request_finished_ts=1_750_000_004.75, prompt_tokens=40),
    )
    trace = read_trace(path)
    assert trace.format == "sglang-metrics"
    np.testing.assert_allclose(trace.arrival_s, [0.0, 1.25, 2.5], atol=1e-6)
    assert trace.input_tokens.tolist() == [20, 30, 40]
    assert trace.output_tokens.tolist() == [0, 4, 4]
    assert "sorted by arrival" in trace.notes[0]


def test_sglang_metrics_without_times(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "s.log", finished(), finished()))
    assert trace.arrivals == "all at zero, for the file records none"
    assert len(trace) == 2


def test_sglang_metrics_with_some_times(tmp_path: Path) -> None:
    path = write(tmp_path / "s.log", finished(5.0), finished(), finished(7.0), finished())
    with pytest.raises(TraceRecordError, match="line 2: no arrival time"):
        read_trace(path)
    trace = read_trace(path, skip_bad=True)
    assert dict(trace.skipped) == {"no arrival time": 2}
    assert trace.arrival_s.tolist() == [0.0, 2.0]


def test_sglang_request_log(tmp_path: Path) -> None:
    def event(name: str, stamp: str, **more: object) -> dict[str, object]:
        return {"timestamp": stamp, "event": name, "rid": "r", "obj": {"text": "secret"}, **more}

    def out(prompt: int) -> dict[str, object]:
        return {"meta_info": {"prompt_tokens": prompt, "completion_tokens": 5, "e2e_latency": 1.5}}

    path = write(
        tmp_path / "host_0.log",
        event("request.received", "2025-01-31T12:00:00.000000"),
        event("request.finished", "2025-01-31T12:00:02.000000", out=out(8)),
        event("request.finished", "2025-01-31T12:00:03.250000", out=out(9)),
    )
    trace = read_trace(path)
    assert trace.format == "sglang-metrics"
    assert trace.input_tokens.tolist() == [8, 9]
    assert trace.arrival_s.tolist() == [0.0, 1.25]
    with pytest.raises(TraceRecordError, match="line 1: no field 'out'"):
        read_trace(write(tmp_path / "x.log", event("request.finished", "2025-01-31T12:00:02")))


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_named_columns_in_any_unit(tmp_path: Path, suffix: str) -> None:
    import pandas as pd

    frame = pd.DataFrame({"when": [2000, 3500], "in": [4, 5], "out": [6, 7], "model": ["a", "b"]})
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        frame.to_csv(path)  # with the index as a column without a name
    elif suffix == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    names = {"arrival": "when", "input": "in", "output": "out"}
    trace = read_trace(path, columns=names, arrival_unit="ms")
    assert trace.format == "columns"
    assert trace.arrival_s.tolist() == [0.0, 1.5]
    assert trace.input_tokens.tolist() == [4, 5]
    assert read_trace(path, columns=names).arrival_s.tolist() == [0.0, 1500.0]
    untimed = read_trace(path, columns={"input": "in", "output": "out"})
    assert untimed.arrivals.startswith("all at zero")


def test_parquet_dates_and_whole_floats(tmp_path: Path) -> None:
    import pandas as pd

    when = pd.to_datetime(["2025-01-01 00:00:00.000000001", "2025-01-01 00:00:00.5"])
    path = tmp_path / "t.parquet"
    pd.DataFrame({"TIMESTAMP": when, "ContextTokens": [1.0, 2.0], "GeneratedTokens": [3, 4]}).to_parquet(path)
    trace = read_trace(path)
    assert trace.format == "azure"
    np.testing.assert_allclose(trace.arrival_s, [0.0, 0.499999999], rtol=0, atol=1e-15)


def test_formats_are_named_in_the_error_for_an_unknown_file(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError) as caught:
        read_trace(write(tmp_path / "x.jsonl", {"foo": 1, "bar": 2}))
    for name in (*FORMATS, "'foo'", "'bar'", "columns="):
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "azur"}, "format='azur'"),
        ({"arrival_unit": "h"}, "arrival_unit='h'"),
        ({"format": "azure", "columns": {"input": "a", "output": "b"}}, "not both"),
        ({"format": "mooncake", "arrival_unit": "ms"}, "whose unit is fixed"),
        ({"columns": {"input": "a"}}, 'give names for "input"'),
        ({"columns": {"input": "a", "output": "b", "time": "c"}}, 'give names for "input"'),
        ({"run": -1}, "run=-1"),
        ({"run": 0}, "of format mooncake, which has no runs"),
        ({"rate": 0.0}, "rate=0.0"),
    ],
)
def test_refuses_arguments(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    path = write(tmp_path / "m.jsonl", {"timestamp": 0, "input_length": 7, "output_length": 3})
    with pytest.raises(InvalidArgument) as caught:
        read_trace(path, **arguments)  # type: ignore[arg-type]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("file", "requests", "format_name", "duration", "inputs", "outputs"),
    [
        ("AzureLLMInferenceTrace_code.csv", 8_819, "azure", 3435.948056, (3, 7_437), (6, 1_899)),
        ("AzureLLMInferenceTrace_conv.csv", 19_366, "azure", 3501.721937, (2, 14_050), (7, 1_000)),
        ("mooncake_conversation_trace.jsonl", 12_031, "mooncake", 3536.999, (891, 126_195), (1, 2_000)),
    ],
)
def test_recorded_traces(
    reference_data: Path,
    file: str,
    requests: int,
    format_name: str,
    duration: float,
    inputs: tuple[int, int],
    outputs: tuple[int, int],
) -> None:
    trace = read_trace(reference_data / "traces" / file)
    assert len(trace) == requests
    assert trace.format == format_name
    assert trace.duration_s == pytest.approx(duration, abs=1e-9)
    assert (trace.input_tokens.min(), trace.input_tokens.max()) == inputs
    assert (trace.output_tokens.min(), trace.output_tokens.max()) == outputs
    assert not trace.skipped
    assert not trace.notes


def test_recorded_mooncake_percentiles(reference_data: Path) -> None:
    trace = read_trace(reference_data / "traces" / "mooncake_conversation_trace.jsonl")
    p50, p99 = np.percentile(trace.input_tokens, [50, 99])
    assert round(p50) == 6_909
    assert round(p99) == pytest.approx(85_401, abs=1)


def test_a_reader_never_meets_an_empty_file(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match="holds no request"):
        read_trace(write(tmp_path / "b.jsonl", bench(inputs=[], outputs=[])))
