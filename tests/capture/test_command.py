"""``workbench capture``: one, a file of them, and a report."""

from __future__ import annotations

import json

import pytest

from tests.capture.report_bytes import Launch, report
from tests.cli.conftest import refused, run  # noqa: F401  # fixtures
from workbench import settings
from workbench.cli.capture import _pairs
from workbench.records import Store

METRICS = ("-m", "gpu__time_duration.sum", "-m", "dram__bytes_read.sum")


def test_one(machine, run):  # noqa: F811
    done = run("capture", "kernels:scale", "-c", "size=4", "-w", "block=2", *METRICS, "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["record"]["metrics"] == {"dram__bytes_read.sum": 4, "gpu__time_duration.sum": 8}
    assert Store(settings.records_dir()).read(said["path"]).workload.case == "block=2"
    done = run("capture", "run", "kernels:scale", *METRICS)
    assert "dram__bytes_read.sum" in done.out
    assert "ncu-ui" in done.out


def test_a_failure_is_one_message(machine, run):  # noqa: F811
    machine.behave("forbidden")
    done = run("capture", "kernels:scale", *METRICS)
    assert done.code == 1
    assert "CAP_SYS_ADMIN" in done.err
    assert "Traceback" not in done.err


def test_a_file_goes_on_where_it_stopped(machine, run, tmp_path):  # noqa: F811
    file = tmp_path / "captures.json"
    entries = [{"operator": "kernels:scale", "config": {"size": n}, "metrics": METRICS[1::2]} for n in (1, 2)]
    file.write_text(json.dumps(entries[:1]))
    assert "1 captured, 0 were there, 0 failed." in run("capture", "batch", file).out
    file.write_text(json.dumps(entries))
    assert "1 captured, 1 were there, 0 failed." in run("capture", "batch", file).out
    file.write_text(json.dumps([*entries, {"operator": "kernels:broken"}]))
    done = run("capture", "batch", file, "--json")
    assert done.code == 1
    assert list(json.loads(done.out)["failures"]) == ["3"]
    assert machine.profiled == 3


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "cannot be read"),
        ("[]", "at least one"),
        ('{"operator": "x"}', "JSON list"),
        ('[{"operator": "conv"}]', "entry 1: no operator is called 'conv'"),
        ('[{"operator": "kernels:scale", "colour": 1}]', "entry 1:"),
        ('[{"operator": "kernels:scale", "metrics": [1]}]', "entry 1: metric 1"),
        ('[{"operator": "attention_decode", "workload": "4Q"}]', "entry 1:"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_files_that_cannot_be_used(machine, refused, tmp_path, content, says):  # noqa: F811
    file = tmp_path / "captures.json"
    file.write_text(content)
    assert says in refused("capture", "batch", file)


def test_options_that_cannot_be_used(machine, refused):  # noqa: F811
    assert "name=value" in refused("capture", "kernels:scale", "-c", "size")
    assert "size is given twice" in refused("capture", "kernels:scale", "-c", "size=1", "-c", "size=2")
    assert "page_size" in refused("capture", "attention_decode", "-w", "lengths=4K,pages=3")


def test_values_with_commas_of_their_own():
    assert _pairs(["lengths=[1,2],page_size=16", "name=a,b"]) == {"lengths": [1, 2], "page_size": 16, "name": "a,b"}


def test_import(run, refused, tmp_path):  # noqa: F811
    pytest.importorskip("ncu_report")
    file = tmp_path / "mine.ncu-rep"
    file.write_bytes(report([Launch("k", None, {"gpu__time_duration.sum": 5.0})]))
    done = run("capture", "import", file, "--store", tmp_path / "store", "--json")
    assert done.code == 0, done.err
    (path,) = json.loads(done.out)
    assert Store(tmp_path / "store").read(path).metrics["gpu__time_duration.sum"] == 5
    file.write_bytes(file.read_bytes()[:-2])
    assert "cut off" in refused("capture", "import", file, "--store", tmp_path / "store")
