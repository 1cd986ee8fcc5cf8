"""Arguments of a decode problem: what is refused, and in which words."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.errors import InvalidArgument
from workbench.schedule import DecodeProblem, plan_decode

GOOD = {"lengths": [100], "num_kv_heads": 1, "num_ctas": 4, "tile": 64, "min_process_len": 512, "q_len": 1}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lengths": 5}, "lengths has shape ()"),
        ({"lengths": None}, "lengths has shape ()"),
        ({"lengths": "64x4K"}, "parse_lengths reads it"),
        ({"lengths": np.ones(1 << 18, int), "num_kv_heads": 65}, "17,039,360 pairs to schedule"),
        ({"lengths": [[1, 2]]}, "lengths has shape (1, 2)"),
        ({"lengths": [[1], [1, 2]]}, "lengths could not be read as numbers"),
        ({"lengths": ["1"]}, "Give integers (tokens)"),
        ({"lengths": [True]}, "lengths has dtype bool"),
        ({"lengths": [1, -2]}, "request 1 has length -2. Lengths run from 0 to 2,147,483,647"),
        ({"lengths": [2**31]}, "request 0 has length 2147483648"),
        ({"lengths": [2**64 - 1]}, "request 0 has length"),
        ({"lengths": [2**80]}, "Give integers (tokens)"),
        ({"lengths": [1.5]}, "request 0 has length 1.5. Lengths are whole numbers"),
        ({"lengths": [float("nan")]}, "request 0 has length nan"),
        ({"lengths": [float("inf")]}, "request 0 has length inf"),
        ({"lengths": [2**31 - 1] * 100, "tile": 32}, "the batch has 6,710,886,400 tiles"),
        ({"num_kv_heads": 0}, "num_kv_heads is 0. It must be from 1 to 1,024"),
        ({"num_kv_heads": "1"}, "num_kv_heads is '1'. Give a whole number"),
        ({"num_ctas": 65_536}, "num_ctas is 65536. It must be from 1 to 65,535"),
        ({"num_ctas": 4.0}, "num_ctas is 4.0. Give a whole number"),
        ({"num_ctas": True}, "num_ctas is True"),
        ({"num_ctas": None}, "num_ctas is None"),
        ({"tile": 48}, "tile is 48. Tiles of 32, 64, 128 tokens exist"),
        ({"tile": 64.0}, "tile is 64.0. Give a whole number"),
        ({"tile": [64]}, "tile is [64]"),
        ({"tile": np.array([32, 64])}, "tile is array([32, 64])"),
        ({"min_process_len": -1}, "min_process_len is -1"),
        ({"q_len": 0}, "q_len is 0"),
        ({"q_len": 65}, "q_len is 65. It must be from 1 to 64"),
    ],
    ids=str,
)
def test_refused(change: dict[str, object], words: str) -> None:
    for make in (DecodeProblem, lambda lengths, **rest: plan_decode(lengths, **rest)):
        with pytest.raises(InvalidArgument) as caught:
            make(**(GOOD | change))
        assert words in str(caught.value)


@pytest.mark.parametrize("lengths", [[], (), np.zeros(0), np.zeros(0, np.int32), [3.0, 4.0], range(3), np.uint8([4])])
def test_accepted(lengths: object) -> None:
    problem = DecodeProblem(lengths, 2, 3)
    assert problem.lengths.dtype == np.int64
    assert problem.lengths.tolist() == [int(v) for v in lengths]


@pytest.mark.parametrize("policy", ["hpc-ops", "balanced", "lpt", "fixed_splits(4)", "fixed_chunk(256)"])
@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
def test_nothing_to_do(policy: str, lengths: list[int]) -> None:
    plan = plan_decode(lengths, num_kv_heads=2, num_ctas=4, policy=policy).validate()
    metrics = plan.metrics()
    assert plan.num_descriptors == metrics.tiles == metrics.max_chunks == metrics.kv_bytes == 0
    assert metrics.culprit_request is None
    assert metrics.bound_us == 0
    assert metrics.efficiency == (1.0 if metrics.bins_us == 0 else 0.0)
    assert plan.chunk_counts.shape == (2, len(lengths))


@pytest.mark.parametrize("policy", ["hpc-ops", "balanced", "lpt", "fixed_splits(4)"])
def test_the_longest_length_does_not_overflow(policy: str) -> None:
    longest = 2**31 - 1
    plan = plan_decode([longest, 1], num_kv_heads=16, num_ctas=65_535, policy=policy, tile=32).validate()
    assert int(plan.descriptors["num_tokens"].sum(dtype=np.int64)) == 16 * (longest + 1)
    assert plan.descriptors["first_token"].min() == 0
    assert plan.metrics().kv_bytes == 16 * (longest + 1) * 256
