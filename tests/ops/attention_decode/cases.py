"""The shapes that decode attention is tested with: a grid that holds every kernel shape, and ragged batches."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from workbench.gpu.ahead import Job
from workbench.measure.attention_inputs import AttentionInputs, make_inputs
from workbench.ops.attention_decode import AttentionConfig, AttentionShape, TaskMap, build_task_map, default_config
from workbench.ops.attention_decode import upload_plan as upload
from workbench.ops.attention_decode.config import GROUPS, HEAD_DIMS, PAGE_SIZES, space
from workbench.ops.attention_decode.cuda import job
from workbench.schedule import plan_decode

PRECISIONS: dict[str, dict[str, Any]] = {
    "bf16": {"cache": "bf16", "query": "bf16"},
    "fp8": {"cache": "fp8", "query": "fp8"},
    "fp8, bf16 q": {"cache": "fp8", "query": "bf16"},
    "fp8, K scale a token": {"cache": "fp8", "query": "fp8", "k_scale_per_token": True},
    "fp8, K scale a token, bf16 q": {"cache": "fp8", "query": "bf16", "k_scale_per_token": True},
}

LIMITS = {precision: 0.0025 if precision == "bf16" else 0.004 for precision in PRECISIONS}
"""Largest relative error against float64 on the quantised operands."""

SMS = 132


def shuffled(lengths: Any, num_kv_heads: int, num_ctas: int, tile: int) -> list[list[tuple[int, int, int, int]]]:
    """A user's scheduler that no pattern of ours fits: pieces of random size, dealt to random CTAs in random order."""
    rng = np.random.default_rng(len(lengths))
    pieces = []
    for head, request in itertools.product(range(num_kv_heads), range(len(lengths))):
        tiles, first = -(-int(lengths[request]) // tile), 0
        while first < tiles:
            count = min(int(rng.integers(1, 8)), tiles - first)
            pieces.append((head, request, first, count))
            first += count
    rng.shuffle(pieces)
    bins: list[list[tuple[int, int, int, int]]] = [[] for _ in range(num_ctas)]
    for piece in pieces:
        bins[int(rng.integers(num_ctas))].append(tuple(map(int, piece)))
    return bins


ON_GPU = ("balanced", "hpc-ops")
UPLOADED: dict[str, Any] = {
    "lpt": "lpt",
    "fixed_splits(3)": "fixed_splits(3)",
    "fixed_chunk(512)": "fixed_chunk(512)",
    "shuffled": shuffled,
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One call of decode attention."""

    precision: str = "fp8"
    head_dim: int = 128
    group: int = 8
    q_len: int = 1
    kv_heads: int = 1
    page_size: int = 64
    layout: str = "nhd"
    deviation: float = 1.0
    ruling: str | None = None
    policy: str = "balanced"
    config: AttentionConfig | None = None
    num_ctas: int | None = None
    lengths: tuple[int, ...] = ()
    seed: int = 0

    @property
    def shape(self) -> AttentionShape:
        """What the kernel is compiled for."""
        return AttentionShape(head_dim=self.head_dim, group=self.group, q_len=self.q_len, **self._kind)

    @property
    def _kind(self) -> dict[str, Any]:
        return PRECISIONS[self.precision]

    @property
    def used_config(self) -> AttentionConfig:
        """The configuration that runs."""
        return self.config or default_config(self.shape)

    @property
    def job(self) -> Job:
        """The kernel to compile."""
        return job(self.shape, self.used_config)

    def __str__(self) -> str:
        c = self.used_config
        ruling = f"-{self.ruling} key" if self.ruling else ""
        return (
            f"{self.precision}-D{self.head_dim}-G{self.group}-q{self.q_len}-h{self.kv_heads}-page{self.page_size}"
            f"-{self.layout}-dev{self.deviation:g}{ruling}-{self.policy}-w{c.warps}s{c.stages}c{c.ctas_per_sm}t{c.tile}"
            f"-seed{self.seed}"
        )

    def inputs(self, device: str = "cuda", **changes: Any) -> AttentionInputs:
        """Random inputs with NaN wherever the kernel must not look."""
        arguments: dict[str, Any] = {
            "group": self.group,
            "kv_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "page_size": self.page_size,
            "q_len": self.q_len,
            "layout": self.layout,
            "score_deviation": self.deviation,
            "ruling_key": self.ruling,
            "seed": self.seed,
            "device": device,
        }
        made = make_inputs(self.lengths, **{**arguments, **self._kind, **changes})
        if made.v_scale is None:
            return made
        # Far from K's scale, and another one for each head, so that a mixed-up scale shows.
        return replace(made, v_scale=made.v_scale * (3 + torch.arange(made.v_scale.numel(), device=device)))

    def task_map(self, inputs: AttentionInputs) -> TaskMap:
        """The map of this case's policy, built on the GPU or uploaded."""
        config = self.used_config
        num_ctas = self.num_ctas or SMS * config.ctas_per_sm
        if self.policy in ON_GPU:
            return build_task_map(
                inputs.seq_lens,
                num_kv_heads=self.kv_heads,
                max_seq_len=max(self.lengths, default=0),
                q_len=self.q_len,
                num_ctas=num_ctas,
                policy=self.policy,
                config=config,
            )
        plan = plan_decode(
            self.lengths,
            num_kv_heads=self.kv_heads,
            num_ctas=num_ctas,
            policy=UPLOADED[self.policy],
            tile=config.tile,
            q_len=self.q_len,
        )
        return upload(plan, inputs.seq_lens.device)


def ragged(rng: np.random.Generator, longest: int) -> tuple[int, ...]:
    """Lengths around every edge (empty, one token, slab, page, tile), some middling ones and a long one, shuffled."""
    edges = [0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 128, 129]
    lengths = [*rng.choice(edges, 8, replace=False), *rng.integers(1, 300, 3), *rng.integers(500, 3000, 2)]
    lengths.append(rng.integers(longest // 2, longest))
    rng.shuffle(lengths)
    return tuple(map(int, lengths))


class Deal:
    """Deals values so that each comes equally often, in an order of no pattern."""

    def __init__(self, rng: np.random.Generator, **values: tuple[Any, ...]) -> None:
        self._rng, self._values = rng, values
        self._left: dict[str, list[Any]] = {name: [] for name in values}

    def __call__(self) -> dict[str, Any]:
        dealt = {}
        for name, left in self._left.items():
            if not left:
                left.extend(self._values[name][i] for i in self._rng.permutation(len(self._values[name])))
            dealt[name] = left.pop()
        return dealt


def grid() -> list[Case]:
    """Every kernel shape twice, with its default configuration and with another one; the rest is dealt evenly."""
    rng = np.random.default_rng(20)
    deal = Deal(
        rng,
        page_size=PAGE_SIZES,
        kv_heads=(1, 2, 3, 4),
        layout=("nhd", "hnd", "combined"),
        deviation=(0.06, 1.0, 3.0),
        ruling=(None, None, "first", "middle", "last"),
        policy=(*ON_GPU, *ON_GPU, *UPLOADED),
    )
    shapes = list(itertools.product(PRECISIONS, HEAD_DIMS, GROUPS, (1, 2, 3, 4)))
    cases = []
    for number, (precision, head_dim, group, q_len) in enumerate(shapes * 2):
        case = Case(
            precision=precision, head_dim=head_dim, group=group, q_len=q_len, seed=number, lengths=ragged(rng, 9000),
            num_ctas=(None, 7)[int(rng.random() < 0.2)], **deal(),
        )  # fmt: skip
        if number >= len(shapes):
            usual = default_config(case.shape)
            others = [config for config in space(case.shape) if config != usual]
            case = replace(case, config=others[int(rng.integers(len(others)))])
        cases.append(case)
    return cases


def random_batches(count: int = 60) -> list[Case]:
    """Batches of up to 400 requests, uniform, heavy-tailed, mostly empty, or of one length, on a few kernels."""
    rng = np.random.default_rng(21)
    cases = []
    for number in range(count):
        batch = int(rng.integers(1, 400))
        lengths = (
            rng.integers(0, 700, batch),
            np.minimum(rng.lognormal(4.5, 1.8, batch), 60_000),
            rng.integers(1, 3000, batch) * (rng.random(batch) < 0.1),
            np.full(batch, int(rng.integers(1, 900))),
        )[number % 4]
        cases.append(
            Case(
                precision=tuple(PRECISIONS)[number % 5],
                q_len=(1, 2)[number // 5 % 2],
                kv_heads=int(rng.choice([1, 2, 4])),
                page_size=int(rng.choice(PAGE_SIZES)),
                deviation=(0.06, 1.0, 3.0)[number % 3],
                policy=(*ON_GPU, *UPLOADED)[number % 6],
                lengths=tuple(map(int, lengths)),
                seed=number,
            )
        )
    return cases


def serving_batches() -> list[Case]:
    """The batches whose times are published, in the precisions of their table."""
    batches = {
        "64x0.5K": [512] * 64,
        "64x4K": [4096] * 64,
        "32x0.125K+32x4K": [128] * 32 + [4096] * 32,
        "2x32K+30x4K": [32768] * 2 + [4096] * 30,
        "1x64K+15x4K": [65536] + [4096] * 15,
        "1x128K+31x4K": [131072] + [4096] * 31,
    }
    return [
        Case(precision=precision, policy=policy, lengths=tuple(lengths), seed=seed)
        for seed, (lengths, precision, policy) in enumerate(
            itertools.product(batches.values(), ("bf16", "fp8"), ("balanced", "hpc-ops", "fixed_chunk(512)"))
        )
    ]
