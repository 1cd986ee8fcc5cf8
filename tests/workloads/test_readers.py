"""Hostile files: each gives an error with a name, the file, the line, and what was expected."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.errors import InvalidArgument, TraceError, TraceFileError, TraceFormatError, TraceRecordError
from workbench.workloads import read_trace

HEADER = b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
GOOD = b"2023-11-16 18:17:03.9799600,4808,10\n"
MOON = b'{"timestamp": 0, "input_length": 7, "output_length": 3}\n'


def moon(timestamp: str = "5", prompt: str = "7", output: str = "3") -> bytes:
    return b'{"timestamp": %s, "input_length": %s, "output_length": %s}\n' % (
        timestamp.encode(),
        prompt.encode(),
        output.encode(),
    )


# name of the case: file name, content, error, line, words of the message
WHOLE_FILE = {
    "empty": ("t.csv", b"", TraceFileError, None, "is empty"),
    "blank": ("t.csv", b"\n \r\n\n", TraceFileError, None, "blank lines only"),
    "blank json": ("t.jsonl", b"\n\n", TraceFileError, None, "blank lines only"),
    "header only": ("t.csv", HEADER, TraceFileError, None, "holds no request"),
    "gzip": ("t.csv", gzip.compress(HEADER + GOOD), TraceFileError, None, "gunzip"),
    "zip": ("t.jsonl", b"PK\x03\x04rest", TraceFileError, None, "zip archive"),
    "zstd": ("t.jsonl", b"\x28\xb5\x2f\xfdrest", TraceFileError, None, "zstd"),
    "utf-16": ("t.csv", (HEADER + GOOD).decode().encode("utf-16"), TraceFileError, None, "UTF-16"),
    "utf-16 without mark": ("t.csv", (HEADER + GOOD).decode().encode("utf-16-le"), TraceFileError, 1, "NUL byte"),
    "latin-1 header": ("t.csv", b"\xe9t\xe9,a,b\n1,2,3\n", TraceFileError, 1, "0xe9 is not UTF-8"),
    "parquet cut": ("t.parquet", b"PAR1\x15\x04\x15", TraceFileError, None, "damaged"),
    "missing column": ("t.csv", b"TIMESTAMP,ContextTokens\n1,2\n", TraceFormatError, 1, "'ContextTokens'"),
    "no header": ("t.csv", GOOD, TraceFormatError, 1, "no known format has '2023-11-16 18:17:03.9799600'"),
    "repeated name": ("t.csv", b"TIMESTAMP,a,a\n", TraceFormatError, 1, "repeats 'a'"),
    "quote in header": ("t.csv", b'TIMESTAMP,"a\n1,2\n', TraceFormatError, 1, "not CSV"),
    "json array": ("t.json", b'[{"timestamp": 0}]', TraceFormatError, 1, "one JSON array"),
    "other json": ("t.jsonl", b'{"a": 1}\n', TraceFormatError, 1, "no known format has 'a'"),
    "header below blanks": ("t.csv", b"\n\na,b\n1,2\n", TraceFormatError, 3, "no known format has 'a', 'b'"),
}

# name of the case: file name, content of which one record is bad, its line, reason when skipped, words
ONE_RECORD = {
    "half a line": ("t.csv", HEADER + GOOD + b"2023-11-16 18:1", 3, "wrong number of fields", "1 field. Expected 3"),
    "too many fields": ("t.csv", HEADER + b"1,2,3,4\n" + GOOD, 2, "wrong number of fields", "4 fields"),
    "stray quote": ("t.csv", HEADER + b'1,"2,3\n' + GOOD, 2, "not CSV", "not CSV"),
    "negative": ("t.csv", HEADER + GOOD + b"1,-5,3\n", 3, "negative length", "ContextTokens is -5"),
    "zero prompt": ("t.csv", HEADER + GOOD + b"1,0,3\n", 3, "zero length", "ContextTokens is 0"),
    "absurd": ("t.csv", HEADER + GOOD + b"1,5,99999999\n", 3, "absurd length", "GeneratedTokens is 99999999"),
    "very absurd": ("t.csv", HEADER + GOOD + b"1," + b"9" * 5000 + b",3\n", 3, "absurd length", "99..."),
    "fraction": ("t.csv", HEADER + GOOD + b"1,12.5,3\n", 3, "not a whole number", "ContextTokens is 12.5"),
    "nan": ("t.csv", HEADER + GOOD + b"1,nan,3\n", 3, "not a whole number", "ContextTokens is 'nan'"),
    "empty cell": ("t.csv", HEADER + GOOD + b"1,,3\n", 3, "not a whole number", "ContextTokens is ''"),
    "underscore": ("t.csv", HEADER + GOOD + b"1,1_000,3\n", 3, "not a whole number", "'1_000'"),
    "other digits": ("t.csv", HEADER + GOOD + "1,\u0664,3\n".encode(), 3, "not a whole number", "ContextTokens"),
    "infinite": ("t.csv", HEADER + GOOD + b"1,1e999,3\n", 3, "absurd length", "ContextTokens is 1e999"),
    "no time": ("t.csv", HEADER + b"yesterday,2,3\n" + GOOD, 2, "not a time", "TIMESTAMP is 'yesterday'"),
    "negative time": ("t.csv", HEADER + b"-1,2,3\n" + GOOD, 2, "negative time", "TIMESTAMP is -1"),
    "absurd time": ("t.csv", HEADER + b"1e300,2,3\n" + GOOD, 2, "absurd time", "TIMESTAMP is 1e300"),
    "thirteenth month": ("t.csv", HEADER + b"2023-13-01 00:00:00,2,3\n" + GOOD, 2, "not a time", "2023-13-01"),
    "NUL": ("t.csv", HEADER + GOOD + b"1,2\x00,3\n", 3, "NUL byte", "NUL"),
    "latin-1": ("t.csv", HEADER + b"\n" + GOOD + b"1,2,\xe9\n", 4, "not UTF-8", "0xe9"),
    "half a json line": ("t.jsonl", MOON + b'{"timestamp": 27, "input_le', 2, "not JSON", "not JSON"),
    "json nan": ("t.jsonl", MOON + moon(prompt="NaN"), 2, "not JSON", "NaN is not a number"),
    "json infinity": ("t.jsonl", MOON + moon(timestamp="-Infinity"), 2, "not JSON", "-Infinity"),
    "json null": ("t.jsonl", MOON + moon(prompt="null"), 2, "not a whole number", "input_length is None"),
    "json true": ("t.jsonl", MOON + moon(prompt="true"), 2, "not a whole number", "input_length is True"),
    "json list": ("t.jsonl", MOON + moon(prompt="[7]"), 2, "not a whole number", "input_length is [7]"),
    "json fraction": ("t.jsonl", MOON + moon(output="12.5"), 2, "not a whole number", "output_length is 12.5"),
    "json time is a list": ("t.jsonl", MOON + moon(timestamp="[]"), 2, "not a time", "timestamp is []"),
    "json time overflows": ("t.jsonl", MOON + moon(timestamp="1e999"), 2, "not a time", "timestamp is inf"),
    "json time of 400 digits": ("t.jsonl", MOON + moon(timestamp="9" * 400), 2, "absurd time", "timestamp is 999"),
    "json name twice": (
        "t.jsonl",
        MOON + b'{"timestamp": 1, "input_length": 2, "output_length": 3, "input_length": 4}',
        2,
        "not JSON",
        "'input_length' stands in it twice",
    ),
    "json long number": ("t.jsonl", MOON + moon(prompt="9" * 5000), 2, "not JSON", "digits"),
    "json deep": ("t.jsonl", MOON + b"[" * 100_000 + b"\n", 2, "not JSON", "not JSON"),
    "json scalar": ("t.jsonl", MOON + b"5\n", 2, "not a JSON object", "JSON int"),
    "json without field": ("t.jsonl", MOON + b'{"timestamp": 1}\n', 2, "missing field", "no field 'input_length'"),
    "first json broken": ("t.jsonl", b"{\n" + MOON, 1, "not JSON", "not JSON"),
    "log line": ("t.log", b"INFO: server started\n" + MOON, 1, "not JSON", "not JSON"),
    "json NUL": ("t.jsonl", MOON + b"\x00\x00\x00\n" + MOON, 2, "NUL byte", "NUL"),
}


@pytest.mark.parametrize(("name", "content", "error", "line", "words"), WHOLE_FILE.values(), ids=WHOLE_FILE)
@pytest.mark.parametrize("skip_bad", [False, True])
def test_files_that_cannot_be_read(
    tmp_path: Path, name: str, content: bytes, error: type[TraceError], line: int | None, words: str, skip_bad: bool
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(error) as caught:
        read_trace(path, skip_bad=skip_bad)
    assert type(caught.value) is error
    assert caught.value.path == str(path)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{path}: " if line is None else f"{path}, line {line}: ")
    assert words in str(caught.value)
    assert caught.value.expected


@pytest.mark.parametrize(("name", "content", "line", "reason", "words"), ONE_RECORD.values(), ids=ONE_RECORD)
def test_records_that_cannot_be_read(
    tmp_path: Path, name: str, content: bytes, line: int, reason: str, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TraceRecordError) as caught:
        read_trace(path)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert words in str(caught.value)
    assert "skip_bad=True" in caught.value.expected
    assert len(str(caught.value)) < 400
    trace = read_trace(path, skip_bad=True)
    assert dict(trace.skipped) == {reason: 1}
    assert f"left out 1: {reason}" in trace.notes
    assert len(trace) == content.count(GOOD) + content.count(MOON)


def test_skip_bad_counts_by_reason(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(HEADER + b"1,-1,1\n1,-2,1\n1,x,1\n" + GOOD + b"1,2\n")
    trace = read_trace(path, skip_bad=True)
    assert dict(trace.skipped) == {"negative length": 2, "not a whole number": 1, "wrong number of fields": 1}
    assert trace.num_skipped == 4


def test_nothing_left_after_skipping(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(HEADER + b"1,-1,1\n1,x,1\n")
    with pytest.raises(TraceFileError, match=r"no request \(1 negative length, 1 not a whole number\)"):
        read_trace(path, skip_bad=True)
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"{\n5\n")
    with pytest.raises(TraceFileError, match=r"no record can be read \(1 not JSON, 1 not a JSON object\)"):
        read_trace(path, skip_bad=True)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbf" + HEADER + GOOD)
    assert read_trace(path).input_tokens.tolist() == [4808]
    path.write_bytes(b"\xef\xbb\xbf" + MOON)
    assert read_trace(path).input_tokens.tolist() == [7]


def test_blank_lines_windows_ends_and_no_last_end(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\r\n" + (HEADER + b"\n" + GOOD + b"  \n" + GOOD).strip().replace(b"\n", b"\r\n"))
    assert read_trace(path).output_tokens.tolist() == [10, 10]
    path.write_bytes(path.read_bytes() + b"\r\n\r\n1,-3,4")
    with pytest.raises(TraceRecordError, match="line 8: ContextTokens is -3"):
        read_trace(path)


def test_quoted_and_whole_float_cells(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(HEADER + b'"5", 12.0 ,"7"\n')
    trace = read_trace(path)
    assert (trace.input_tokens[0], trace.output_tokens[0]) == (12, 7)


def test_out_of_order_is_sorted_and_said(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(moon("9000") + moon("1000", "8") + moon("2000"))
    trace = read_trace(path)
    assert trace.arrival_s.tolist() == [0.0, 1.0, 8.0]
    assert trace.input_tokens.tolist() == [8, 7, 7]
    assert trace.notes == ("1 of 3 requests came before the one above them; sorted by arrival",)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match="no such file"):
        read_trace(tmp_path / "absent.csv")
    with pytest.raises(TraceFileError, match="is a directory"):
        read_trace(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceFileError, match="not a regular file"):
        read_trace(tmp_path / "pipe")
    for name in ("x" * 300, "a/" * 3000, "a\0b"):  # a pasted expression, say
        with pytest.raises(TraceFileError, match="cannot be read"):
            read_trace(name)


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": None},
        {"path": 5},
        {"format": ["azure"]},
        {"arrival_unit": ["s"]},
        {"columns": ["a", "b"]},
        {"columns": "ab"},
        {"columns": {"input": 3, "output": "b"}},
        {"run": 1.5},
        {"rate": "5"},
        {"rate": 5, "seed": -1},
    ],
    ids=str,
)
def test_arguments_of_the_wrong_type(tmp_path: Path, arguments: dict[str, object]) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(HEADER + GOOD)
    with pytest.raises(InvalidArgument):
        read_trace(**{"path": path, **arguments})


def test_arrivals_far_apart_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(HEADER + b"1,2,3\n" + GOOD + b"2,2,3\n")
    with pytest.raises(TraceFileError, match=r"t\.csv, line 3: this request comes 1.7e\+09 s after the first"):
        read_trace(path)


def test_a_latency_longer_than_time_itself(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    line = b'{"prompt_tokens": 5, "completion_tokens": 5, "request_finished_ts": %d, "e2e_latency": %d}\n'
    path.write_bytes(line % (9, 1) + line % (0, 8_999_999_999))
    with pytest.raises(TraceRecordError, match="line 2: e2e_latency 8999999999 reaches back"):
        read_trace(path)


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        (pa.table({"arrival": pa.array([1 << 62], pa.timestamp("us")), "i": [1], "o": [1]}), TraceFileError, "damaged"),
        (pa.Table.from_arrays([pa.array([1])] * 4, ["arrival", "i", "i", "o"]), TraceFormatError, "schema repeats 'i'"),
    ],
    ids=["the year 148000", "repeated name"],
)
def test_parquet_that_python_cannot_hold(tmp_path: Path, table: pa.Table, error: type[TraceError], words: str) -> None:
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(error, match=words):
        read_trace(tmp_path / "t.parquet", columns={"arrival": "arrival", "input": "i", "output": "o"})


def test_any_changed_byte_of_a_parquet_file_gives_a_trace_or_a_named_error(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"arrival_s": [0.0, 1.0], "input_tokens": [4, 5], "output_tokens": 1}).to_parquet(path)
    whole = path.read_bytes()
    refused = 0
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            read_trace(path)
        except TraceError:
            refused += 1
    assert refused


def test_the_wrong_format_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(HEADER + GOOD)
    with pytest.raises(TraceFormatError, match=r"no column 'timestamp', 'input_length'.*format mooncake"):
        read_trace(path, format="mooncake")
    with pytest.raises(TraceFormatError, match="no column 'in'; there are 'TIMESTAMP'"):
        read_trace(path, columns={"input": "in", "output": "GeneratedTokens"})
    path = tmp_path / "t.jsonl"
    path.write_bytes(MOON)
    with pytest.raises(TraceRecordError, match="line 1: no field 'TIMESTAMP' among 'timestamp'"):
        read_trace(path, format="azure")


def test_milliseconds_taken_for_seconds_are_caught(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"arrival_s,input_tokens,output_tokens\n1700000000123,5,6\n")
    with pytest.raises(TraceRecordError, match="arrival_s is 1700000000123"):
        read_trace(path)
    assert len(read_trace(path, arrival_unit="ms")) == 1


def test_parquet_names_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"arrival_s": [0.0, 1.0, 2.0], "input_tokens": [4.0, None, 6.0], "output_tokens": 1}).to_parquet(path)
    with pytest.raises(TraceRecordError, match=r"row 2: input_tokens is (None|nan)"):
        read_trace(path)
    assert read_trace(path, skip_bad=True).input_tokens.tolist() == [4, 6]
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(TraceFileError, match="damaged"):
        read_trace(path)
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.raises(TraceFormatError, match="no known format has 'a'"):
        read_trace(path)
    pd.DataFrame({"arrival_s": [0.5], "input_tokens": [1], "output_tokens": [1]}).iloc[:0].to_parquet(path)
    with pytest.raises(TraceFileError, match="holds no request"):
        read_trace(path)


@settings(
    max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(
    content=st.binary(max_size=80)
    | st.binary(max_size=60).map(lambda junk: HEADER + GOOD + junk)
    | st.binary(max_size=60).map(lambda junk: MOON + junk),
    name=st.sampled_from(["t.csv", "t.jsonl", "t.log", "t"]),
    skip_bad=st.booleans(),
)
def test_any_bytes_give_a_trace_or_a_named_error(tmp_path: Path, content: bytes, name: str, skip_bad: bool) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    try:
        trace = read_trace(path, skip_bad=skip_bad)
    except TraceError as error:
        assert error.path == str(path)  # noqa: PT017
    else:
        assert len(trace) >= 1
        assert trace.input_tokens.min() >= 1
