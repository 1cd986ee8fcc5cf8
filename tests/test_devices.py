"""The GPU catalogue: figures, names, and the rule for CTAs an SM."""

from __future__ import annotations

import subprocess
import sys

import pytest

from workbench import devices
from workbench.errors import InvalidArgument


@pytest.mark.parametrize(
    ("name", "sms", "arch"),
    [
        ("H20", 78, "sm_90a"),
        ("H100", 132, "sm_90a"),
        ("H200", 132, "sm_90a"),
        ("B200", 148, "sm_100a"),
        ("A100", 108, "sm_80"),
        ("L40S", 142, "sm_89"),
    ],
)
def test_catalogue_has_the_gpus_the_planner_offers(name: str, sms: int, arch: str) -> None:
    found = devices.gpu(name)
    assert (found.name, found.sms, found.arch) == (name, sms, arch)


def test_every_entry_is_consistent() -> None:
    for entry in devices.CATALOGUE.values():
        assert entry.shared_per_block + entry.shared_reserved_per_block <= entry.shared_per_sm
        assert entry.max_threads_per_sm == 32 * entry.max_warps_per_sm
        assert entry.max_threads_per_block <= entry.max_threads_per_sm
        # A kernel that only reads can come close to the datasheet, never above it.
        assert entry.read_bandwidth <= entry.memory_bandwidth


@pytest.mark.parametrize(
    ("arch", "capability"), [("sm_80", (8, 0)), ("sm_90a", (9, 0)), ("sm_100a", (10, 0)), ("sm_103f", (10, 3))]
)
def test_compute_capability_is_read_from_the_compiler_target(arch: str, capability: tuple[int, int]) -> None:
    assert devices.custom("x", sms=1, arch=arch).compute_capability == capability


@pytest.mark.parametrize("name", ["NVIDIA H200", "h200", "  H200 ", "nvidia h200"])
def test_a_gpu_is_found_by_any_of_its_names(name: str) -> None:
    assert devices.gpu(name) is devices.CATALOGUE["H200"]


def test_no_name_belongs_to_two_gpus() -> None:
    all_names = [n.casefold() for g in devices.CATALOGUE.values() for n in (g.name, *g.aliases)]
    assert len(all_names) == len(set(all_names))


@pytest.mark.parametrize("name", ["H300", "", "NVIDIA H100 PCIe"])
def test_an_unknown_gpu_is_refused_with_the_known_names(name: str) -> None:
    with pytest.raises(InvalidArgument, match="H20, H100, H200, B200, A100, L40S"):
        devices.gpu(name)


def test_bandwidth_says_whether_it_was_measured() -> None:
    assert devices.gpu("H200").read_bandwidth == 4.37e12
    assert devices.gpu("H200").read_bandwidth_source == "measured"
    assert devices.gpu("H100").read_bandwidth == 3.35e12
    assert devices.gpu("H100").read_bandwidth_source == "datasheet"


def test_custom_takes_over_what_is_not_given() -> None:
    mine = devices.custom("half an H200", sms=66)
    assert (mine.name, mine.sms, mine.aliases) == ("half an H200", 66, ())
    assert mine.read_bandwidth_source == "measured"
    assert devices.gpu(mine) is mine


def test_custom_drops_a_measurement_that_no_longer_fits() -> None:
    mine = devices.custom("slow", sms=132, memory_bandwidth=2e12)
    assert (mine.read_bandwidth, mine.read_bandwidth_source) == (2e12, "datasheet")


@pytest.mark.parametrize("changes", [{"sms": 0}, {"sms": 10, "l2_bytes": -1}, {"sms": 10, "no_such": 1}])
def test_custom_refuses_nonsense(changes: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument):
        devices.custom("bad", **changes)  # type: ignore[arg-type]


def test_ctas_per_sm_follows_the_published_rule() -> None:
    assert [devices.ctas_per_sm(q) for q in range(1, 6)] == [4, 3, 3, 2, 2]
    for q_len in (0, 6):
        with pytest.raises(InvalidArgument, match="1 to 5"):
            devices.ctas_per_sm(q_len)


def test_the_catalogue_needs_no_torch() -> None:
    code = "import sys, workbench.devices; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("sms", [0, -1, 1.5, "10", None, True])
def test_a_custom_gpu_has_a_whole_number_of_sms(sms: object) -> None:
    with pytest.raises(InvalidArgument, match="sms is"):
        devices.custom("mine", sms=sms)
