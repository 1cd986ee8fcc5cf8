"""A GPU described in a file is the one that ``devices.custom`` makes, and a faulty file is told."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from pathlib import Path

import pytest

from workbench import devices
from workbench.device_files import EXAMPLE, read_gpu
from workbench.errors import InvalidArgument


@pytest.mark.parametrize("suffix", [".toml", ".json", ".TOML"])
def test_toml_and_json_say_the_same(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"gpu{suffix}"
    file.write_text(json.dumps(tomllib.loads(EXAMPLE)) if suffix == ".json" else EXAMPLE)
    assert read_gpu(file) == read_gpu(str(file)) == devices.custom("my-gpu", sms=78, memory_bandwidth=4.0e12)


def test_the_file_that_readme_shows(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    file = tmp_path / "gpu.toml"
    file.write_text(text.split("```toml\n")[1].split("```")[0])
    assert read_gpu(file) == devices.custom("my-gpu", sms=78, memory_bandwidth=4.0e12, like="H200")


def test_every_field_but_the_catalogue_names_can_be_given(tmp_path: Path) -> None:
    mine = dataclasses.replace(devices.gpu("L40S"), name="mine", sms=7, measured_read_bandwidth=8e11, aliases=())
    given = {name: value for name, value in dataclasses.asdict(mine).items() if name != "aliases"}
    file = tmp_path / "gpu.json"
    file.write_text(json.dumps(given))
    assert read_gpu(file) == mine


def test_what_is_left_out_is_taken_from_the_gpu_named(tmp_path: Path) -> None:
    file = tmp_path / "gpu.toml"
    file.write_text('name = "half"\nsms = 54\nlike = "a100"')
    assert read_gpu(file) == dataclasses.replace(devices.gpu("A100"), name="half", sms=54, aliases=())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"sms": 1}', "name: Field required"),
        ('{"name": "x", "sms": 1.5}', "sms: Input should be a valid integer; it is '1.5'"),
        ('{"name": "x", "sms": true}', "sms: Input should be a valid integer; it is 'True'"),
        ('{"name": "x", "sms": 0}', "sms: Input should be greater than 0; it is '0'"),
        ('{"name": "x", "sms": 1, "memory_bandwidth": Infinity}', "memory_bandwidth: Input should be a finite number"),
        ('{"name": "x", "sms": 1, "max_ctas_per_sm": -1}', "max_ctas_per_sm: Input should be greater than 0"),
        ('{"name": "x", "sms": 1, "arch": "hopper"}', "arch: String should match"),
        ('{"name": "x\\n", "sms": 1}', "name: String should match"),
        ('{"name": "x", "sms": 1, "bandwidth": 1}', "bandwidth: Extra inputs are not permitted"),
        ('{"name": "x", "sms": 1, "aliases": ["H200"]}', "aliases: Extra inputs"),
        ("[1]", "Input should be a valid dictionary"),
        ("{", "is no JSON: "),
        ("[" * 100_000, "is no JSON: "),
        ('{"name": "h200", "sms": 1}', "'h200' is a GPU of the catalogue"),
        ('{"name": "x", "sms": 1, "like": "GTX"}', "gpu.json: No GPU is named 'GTX'"),
    ],
)
def test_a_file_that_describes_no_gpu_is_told(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "gpu.json"
    file.write_text(text)
    with pytest.raises(InvalidArgument, match=re.escape(said)) as raised:
        read_gpu(file)
    assert str(file) in str(raised.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.toml"):
        with pytest.raises(InvalidArgument, match=r"cannot be read: .*\. Give a file such as"):
            read_gpu(path)
    (tmp_path / "gpu.toml").write_bytes(b"\xff")
    with pytest.raises(InvalidArgument, match="is no TOML"):
        read_gpu(tmp_path / "gpu.toml")
