"""Hypothesis strategies: decode problems small enough for the oracle, rich in edges."""

from __future__ import annotations

from hypothesis import strategies as st

from workbench.schedule import DecodeProblem, balanced, cost_model, fixed_chunk, fixed_splits, hpc_ops, lpt

TILE_EDGES = [0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 192, 193, 511, 512, 513, 1024, 4096]


def lengths(most: int = 3000, size: int = 12) -> st.SearchStrategy[list[int]]:
    """Batches: edges of tiles, small and large lengths mixed, possibly empty."""
    one = st.one_of(st.sampled_from(TILE_EDGES), st.integers(0, 200), st.integers(0, most))
    return st.lists(one, min_size=0, max_size=size)


def problems(
    *, tiles: tuple[int, ...] = (32, 64, 128), q_len: int = 5, most: int = 3000
) -> st.SearchStrategy[DecodeProblem]:
    """Whole problems."""
    return st.builds(
        DecodeProblem,
        lengths(most),
        st.integers(1, 4),
        st.one_of(st.integers(1, 12), st.integers(1, 70)),
        st.sampled_from(tiles),
        st.one_of(st.sampled_from([0, 1, 63, 64, 512]), st.integers(0, 2000)),
        st.integers(1, q_len),
    )


def costs() -> st.SearchStrategy[object]:
    """Cost models of every GPU, cache and shape, and some with absurd constants."""
    from dataclasses import replace

    shipped = st.builds(
        cost_model,
        st.sampled_from(["H20", "H100", "H200", "B200", "A100", "L40S"]),
        cache=st.sampled_from(["fp8", "bf16"]),
        group=st.sampled_from([1, 2, 4, 8, 16]),
        head_dim=st.sampled_from([64, 128, 256]),
    )

    def changed(model: object, numbers: list[int]) -> object:
        names = ("descriptor_ns", "partial_ns", "empty_ns", "merge_ns", "merge_chunk_ns", "launch_ns")
        constants = replace(model.constants, **dict(zip(names, numbers, strict=True)))
        return replace(model, constants=constants)

    return st.one_of(shipped, st.builds(changed, shipped, st.lists(st.integers(0, 20_000), min_size=6, max_size=6)))


def policies(tile: int) -> st.SearchStrategy[object]:
    """Every built-in policy."""
    return st.one_of(
        st.just(hpc_ops()),
        st.builds(balanced, costs()),
        st.just(lpt()),
        st.builds(fixed_splits, st.integers(1, 20)),
        st.builds(fixed_chunk, st.integers(1, 40).map(lambda n: n * tile)),
    )
