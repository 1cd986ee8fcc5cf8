"""Several processes give what one gives, and what cannot be sent to them stays."""

from __future__ import annotations

from workbench.cli.policy import load_policy
from workbench.report import parallel
from workbench.schedule import balanced, cost_model
from workbench.workloads import simulate, synthetic_trace


def test_processes_give_the_same_numbers(monkeypatch):
    monkeypatch.setattr(parallel, "WORTH_IT", 0)
    monkeypatch.setattr(parallel, "TASK", 100)
    steps = simulate(synthetic_trace(60, rate=8.0, longest_output=200))[:350]
    cost, seen = cost_model(), []
    options = {"policies": [balanced(cost)], "cost": cost, "num_kv_heads": 1, "num_ctas": 528}
    options |= {"tile": 64, "min_process_len": 512, "q_len": 1}
    two = parallel.parallel_sweep(steps, jobs=2, progress=lambda *done: seen.append(done), **options)
    one = parallel.parallel_sweep(steps, jobs=1, progress=lambda *done: None, **options)
    assert two.to_frame().equals(one.to_frame())
    assert seen[-1] == (350, 350)
    assert len(seen) == 4


def test_a_function_of_a_users_file_stays_in_this_process(monkeypatch, tmp_path):
    monkeypatch.setattr(parallel, "WORTH_IT", 0)
    monkeypatch.setattr(parallel, "spread", None)
    path = tmp_path / "mine.py"
    path.write_text("def f(lengths, heads, ctas, tile):\n    return [[(0, 0, 0, -(-int(lengths[0]) // tile))]]\n")
    policy = load_policy(f"{path}:f", cost_model())
    steps = simulate(synthetic_trace(1))[:4]
    options = {"num_kv_heads": 1, "num_ctas": 8, "tile": 64, "min_process_len": 512, "q_len": 1}
    found = parallel.parallel_sweep(
        steps, policies=[policy], cost=cost_model(), jobs=2, progress=lambda *done: None, **options
    )
    assert found.policies == ("mine.py:f",)


def test_processes_count_the_cpus_allowed(monkeypatch):
    monkeypatch.setattr(parallel.os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert parallel.available_cpus() == 2
