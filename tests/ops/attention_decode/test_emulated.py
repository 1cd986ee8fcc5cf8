"""The kernel's own source on a CPU, from plan to output, against float64; and planted faults are noticed there.

`emulation/common/ptx.cuh` says what that cannot show. A wait that is left out shows in every run; on a GPU, by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import cache

import pytest
import torch

from tests.ops.attention_decode import emulation
from tests.ops.attention_decode.cases import LIMITS, UPLOADED, Case
from tests.ops.attention_decode.judge import GUARD, Reference, judge, room_is_empty
from tests.ops.attention_decode.mutants import MUTANTS, Mutant
from workbench.gpu.source import Source
from workbench.measure.attention_inputs import AttentionInputs
from workbench.ops.attention_decode import AttentionConfig, TaskMap, cuda, upload_plan
from workbench.schedule import plan_decode

pytestmark = pytest.mark.skipif(emulation.why_not() is not None, reason=str(emulation.why_not()))

_SMALL = AttentionConfig(warps=4, stages=3)

USUAL = Case(num_ctas=5, kv_heads=2, lengths=(1100, 300, 0, 1, 64))
# One long request in 18 pieces, which several leaders merge where all CTAs run at once.
SPLIT = Case(num_ctas=7, policy="fixed_chunk(64)", deviation=3.0, lengths=(1100, 0, 1, 65, 16), seed=1)
# Pieces that lead in the middle of a bin are merged at its end; one bin has several.
SCALED = Case(
    precision="fp8, K scale a token, bf16 q", head_dim=64, group=4, q_len=2, kv_heads=2, num_ctas=3, layout="hnd",
    policy="shuffled", config=_SMALL, lengths=(700, 1, 0, 130, 64), seed=2,
)  # fmt: skip
# Stages of four pages; a piece of more than 32 pages reads the table again; the last key rules.
LONG = Case(
    precision="bf16", num_ctas=2, page_size=16, config=_SMALL, deviation=3.0, ruling="last",
    lengths=(2500, 0, 1, 300, 17), seed=3,
)  # fmt: skip
# 48 query rows: two passes over the keys, each of which reads the table from its beginning.
ROWS = Case(
    precision="bf16", group=16, q_len=3, num_ctas=2, page_size=16, policy="hpc-ops", config=_SMALL,
    lengths=(1300, 1, 0, 33, 2), seed=4,
)  # fmt: skip
CASES = {"usual": USUAL, "split": SPLIT, "scaled": SCALED, "long": LONG, "rows": ROWS}

Emulated = Callable[..., tuple[torch.Tensor, torch.Tensor, list[str]]]


@cache
def batch(case: Case) -> tuple[AttentionInputs, Reference]:
    inputs = case.inputs("cpu")
    return inputs, Reference.of(inputs)


def task_map(case: Case) -> TaskMap:
    assert case.num_ctas
    plan = plan_decode(
        case.lengths,
        num_kv_heads=case.kv_heads,
        num_ctas=case.num_ctas,
        policy=UPLOADED.get(case.policy, case.policy),
        tile=case.used_config.tile,
        q_len=case.q_len,
    )
    return upload_plan(plan, "cpu")


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Emulated:
    """Launch a case as the operator does; gives output, LSE and what is wrong with them."""
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(cuda, "_tensor_map", emulation.tensor_map)

    def run(
        case: Case, map_: TaskMap, source: Source, *, resident: int | None = None, seed: int = 0, early: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor, list[str]]:
        resident = resident or map_.num_bins
        kernel = emulation.Kernel(source, case.job.defines, case.job.entry, resident=resident, seed=seed)
        monkeypatch.setattr(cuda, "kernel", lambda *_: kernel)
        monkeypatch.setattr(cuda, "_multiprocessors", lambda _: resident // case.used_config.ctas_per_sm)
        inputs, reference = batch(case)
        q = inputs.q
        around = torch.full((q.numel() + 2 * GUARD,), torch.nan, dtype=torch.bfloat16)
        out = around[GUARD:-GUARD].view(q.shape)
        lse = torch.full(q.shape[:2], torch.nan)
        partial_out, partial_sum = map_.partials(case.shape.rows, case.head_dim)
        troubles = []
        try:
            cuda.launch(
                case.shape, case.used_config, q=q, k_cache=inputs.k_cache, v_cache=inputs.v_cache,
                block_table=inputs.block_table, map_=map_.map, header=map_.header, empties=map_.empties,
                num_bins=map_.num_bins, partial_out=partial_out, partial_sum=partial_sum, out=out, lse=lse,
                q_scale=inputs.q_scale, k_scale=inputs.k_scale, v_scale=inputs.v_scale, scale=case.head_dim**-0.5,
                early_map=early, early_cache=early,
            )  # fmt: skip
        except emulation.Trouble as trouble:
            troubles.append(str(trouble))
        complaints = [*troubles, *judge(out, lse, reference, case.q_len, LIMITS[case.precision]).complaints]
        if not room_is_empty(map_):
            complaints.append("partial results were left behind")
        if not bool(torch.isnan(around[:GUARD]).all() and torch.isnan(around[-GUARD:]).all()):
            complaints.append("something was written outside the output")
        return out, lse, complaints

    return run


@pytest.mark.parametrize("at_once", ["all", "some"])
@pytest.mark.parametrize("name", CASES)
def test_right_and_the_same_bits_in_any_order(name: str, at_once: str, emulated: Emulated) -> None:
    """On one map, whose partial results each call takes away; with all CTAs at once, or some and one."""
    case, source = CASES[name], Source.file(cuda.SOURCE)
    map_ = task_map(case)
    resident = {"all": [map_.num_bins] * 3, "some": [max(1, map_.num_bins // 2), 1]}[at_once]
    results = [emulated(case, map_, source, resident=many, seed=run // 2) for run, many in enumerate(resident)]
    for out, lse, complaints in results:
        assert not complaints
        assert torch.equal(out.view(torch.int16), results[0][0].view(torch.int16))
        assert torch.equal(lse.view(torch.int32), results[0][1].view(torch.int32))


@pytest.mark.parametrize("case", [SPLIT, replace(USUAL, lengths=(90, 3))], ids=["split", "bins without work"])
def test_the_same_bits_when_read_early(case: Case, emulated: Emulated) -> None:
    """Nothing runs ahead here: what must be waited for shows in ``test_gpu_early``."""
    map_, source = task_map(case), Source.file(cuda.SOURCE)
    late, early = (emulated(case, map_, source, early=early) for early in (False, True))
    assert not late[2]
    assert not early[2]
    assert torch.equal(late[0].view(torch.int16), early[0].view(torch.int16))


def _lost(what: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(f"{what} not waited for", edits)


_KERNEL = "attention_decode(const"
_USED = "if (K_SCALE_PER_TOKEN || lane == 0) ptx::arrive(s.empty(stage));"

LOST_WAITS = (
    (_lost("a stage's bytes", (_KERNEL, "ptx::wait_barrier(s.full(stage), parity);", "")), LONG),
    (
        _lost("K scales", ("struct Loader {", "ptx::wait_copies<1>();", "")),
        SCALED,
    ),
    (
        _lost(
            "queries",
            (_KERNEL, "queries.store(s, p.scale);\n    synchronize();\n  }\n\n", "queries.store(s, p.scale);\n  }\n\n"),
        ),
        USUAL,
    ),
    (_lost("other warps' sums", (_KERNEL, "synchronize();\n      uint64_t summed", "uint64_t summed")), ROWS),
    (_lost("who reads the combine buffers", (_KERNEL, "synchronize();  // nobody reads", "// nobody reads")), ROWS),
    (_lost("a piece", ("void add_to(", "waiting() && patience", "false")), SPLIT),
    (_lost("who reads the sums", ("void empty_slots(", "__syncwarp();", "")), SPLIT),
    (_lost("what other warps of a merge have", ("void merge(", "synchronize();", "")), SPLIT),
    (_lost("a stage's last use", ("struct Loader {", "ptx::wait_barrier(s.empty(stage), parity);", "")), LONG),
    (
        _lost(
            "three of the warps that use a stage",
            (
                _KERNEL,
                "K_SCALE_PER_TOKEN ? 32 * kGroupWarps : kGroupWarps",
                "1",
            ),
        ),
        LONG,
    ),
    (
        Mutant(
            "stage refilled while it is read",
            ((_KERNEL, _USED, ""), (_KERNEL, "if (mine < tokens) {", f"{_USED} if (mine < tokens) {{")),
        ),
        LONG,
    ),
)
_BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
WRONG_SUMS = (
    (_BY_NAME["last piece dropped"], SPLIT),
    (_BY_NAME["the only leader has its own piece only"], SPLIT),
    (_BY_NAME["pieces weigh alike"], SPLIT),
    (_BY_NAME["K and V scale swapped"], USUAL),
    (_BY_NAME["no rescale in the online softmax"], LONG),
    (_BY_NAME["NaN guard removed"], SPLIT),
    (_BY_NAME["pages read once"], LONG),
    (Mutant("pages of a later pass not read", (("struct Loader {", "if (pass && ", "if (false && "),)), ROWS),
    (Mutant("a bin's other leaders forgotten", ((_KERNEL, "if (leading > 1) leader", "if (false) leader"),)), SCALED),
)


@pytest.mark.parametrize(
    ("mutant", "case"), [pytest.param(*each, id=each[0].name) for each in (*LOST_WAITS, *WRONG_SUMS)]
)
def test_the_fault_is_noticed(mutant: Mutant, case: Case, emulated: Emulated) -> None:
    """In one order of a few: what is refilled while it is read may be read in time."""
    assert any(emulated(case, task_map(case), mutant.source(), seed=seed)[2] for seed in range(5))
