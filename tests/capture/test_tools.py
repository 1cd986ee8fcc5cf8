"""Which ncu goes with which nsight-python, and which metrics are asked for."""

from __future__ import annotations

import pytest

from workbench import settings
from workbench.capture import SETS, find_tools
from workbench.capture.metrics import additive, expand, keep_known, known_metrics
from workbench.capture.tools import fitting_generation, generation_of
from workbench.errors import InvalidArgument, MissingDependency, ProfilerUnavailable


@pytest.mark.parametrize(
    ("ncu", "generation"),
    [("2025.3.1.0", 0), ("2026.2.0.9", 0), ("2026.2.1.0", 1), ("2026.10.0.0", 1), ("2027.1", 1)],
)
def test_1_x_attaches_from_2026_2_1_on(ncu, generation):
    assert fitting_generation(ncu) == generation


@pytest.mark.parametrize(
    ("installed", "ncu", "outcome"),
    [
        ("0.9.6", "2025.3.1.0", "works"),
        ("0.9.6", "2026.3.0.0", "works"),
        ("1.1.0", "2026.2.1.0", "works"),
        ("1.1.0", "2025.3.1.0", "needs ncu 2026.2.1 or newer"),
        (None, "2025.3.1.0", r"hpc-ops-workbench\[nsight0\]"),
        (None, "2026.2.1.0", r"hpc-ops-workbench\[nsight1\]"),
    ],
)
def test_what_fits_and_what_is_missing(machine, monkeypatch, installed, ncu, outcome):
    machine.version(ncu)
    monkeypatch.setattr("workbench.capture.tools.nsight_version", lambda python: installed)
    if outcome == "works":
        found = find_tools()
        assert found.words == f"ncu {ncu}, nsight-python {installed}"
        assert generation_of(found.nsight_version) == (installed == "1.1.0")
        return
    with pytest.raises((MissingDependency, ProfilerUnavailable), match=outcome):
        find_tools()


def test_an_interpreter_with_a_space_in_its_path(machine, monkeypatch):
    monkeypatch.setattr("workbench.capture.tools.nsight_version", lambda python: "0.9.6")
    with pytest.raises(ProfilerUnavailable, match="without quotes"):
        find_tools("/opt/my python/bin/python")
    monkeypatch.setattr("workbench.capture.tools.nsight_version", lambda python: "1.1.0")
    machine.version("2026.2.1.0")
    assert find_tools("/opt/my python/bin/python").python == "/opt/my python/bin/python"


def test_an_interpreter_that_is_not_there(machine):
    with pytest.raises(ProfilerUnavailable, match="does not run"):
        find_tools("/nowhere/python")


@pytest.mark.parametrize("script", ["exit 3", "echo hello"])
def test_an_ncu_that_does_not_say_its_version(machine, script):
    (machine.folder / "ncu").write_text(f"#!/bin/sh\n{script}\n")
    with pytest.raises(ProfilerUnavailable, match="workbench doctor"):
        find_tools()


def test_an_ncu_whose_child_does_not_answer(machine, monkeypatch):
    monkeypatch.setattr("workbench.capture.tools._ASK_SECONDS", 0.2)
    (machine.folder / "ncu").write_text("#!/bin/sh\nsleep 600\n")  # the child holds the output
    with pytest.raises(ProfilerUnavailable, match="does not run"):
        find_tools()


def test_sets_hold_names_of_metrics_once():
    assert SETS.keys() == {"overview", "memory", "tensor", "schedule"}
    for names in SETS.values():
        assert expand(names) == names
    both = expand(("schedule", "overview"))
    assert set(both) == {*SETS["schedule"], *SETS["overview"]}
    assert len(both) == len(set(both))


@pytest.mark.parametrize("wrong", ["speed", "a b__c", "sm__x;rm", "sm__x,sm__y", "regex:sm__.*", "$(x)__y"])
def test_what_is_no_metric(wrong):
    with pytest.raises(InvalidArgument, match="ncu --query-metrics"):
        expand(wrong)


def test_known_metrics_are_asked_for_once(machine):
    machine.knows("sm__a.sum", "dram__b.avg")
    ncu = settings.ncu()
    assert known_metrics(ncu, "2025.3.1.0", "gh100") == {"sm__a.sum", "dram__b.avg"}
    machine.knows("other__x.sum")
    assert known_metrics(ncu, "2025.3.1.0", "gh100") == {"sm__a.sum", "dram__b.avg"}
    assert known_metrics(ncu, "2026.1.0.0", "gh100") == {"other__x.sum"}


def test_an_ncu_that_lists_nothing(machine):
    machine.knows()
    with pytest.raises(ProfilerUnavailable, match="lists no metric"):
        known_metrics(settings.ncu(), "2025.3.1.0", "gh100")


def test_facts_of_a_launch_need_not_be_listed():
    usable, dropped = keep_known(("sm__a.sum", "launch__grid_size", "sm__b.sum"), frozenset({"sm__a.sum"}))
    assert usable == ("sm__a.sum", "launch__grid_size")
    assert dropped == ("sm__b.sum",)


def test_only_totals_are_added():
    assert [name for name in SETS["overview"] if additive(name)] == [
        "gpu__time_duration.sum",
        "dram__bytes_read.sum",
        "dram__bytes_write.sum",
        "sm__cycles_active.sum",
    ]
