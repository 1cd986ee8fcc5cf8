"""Decode attention as something to capture."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from workbench.capture.operators import Instrumented, Prepared, Setting, Stamped
from workbench.capture.requests import Request
from workbench.errors import InvalidArgument
from workbench.measure.attention_case import ELEMENT_BYTES, AttentionCase, case_name
from workbench.records import Workload
from workbench.workloads import workload

SHAPE = {"group": 8, "kv_heads": 1, "head_dim": 128, "page_size": 64, "q_len": 1}
"""Shape of the captured call unless the workload says otherwise: one rank of Hy3 under TP8."""


class AttentionDecode:
    """Captures one launch of `workbench.ops.attention_decode`; the task map is made before.

    A workload is an expression of KV lengths such as "32x0.125K+32x4K", or a dict with ``lengths`` (an expression or
    integers), ``dtype`` ("fp8" or "bf16", of query and cache) and any of `SHAPE`.
    """

    providers = ("cuda", "triton")
    default_policy: str | None = "balanced"

    def describe(self, workload: str | Setting) -> Workload:
        """Lengths, element type and shape, checked."""
        case = _case({"lengths": workload} if isinstance(workload, str) else dict(workload))
        return Workload(case=case.name, dtype=case.cache, parameters=case.parameters)

    def identity(self, request: Request) -> tuple[dict[str, Any], str | None]:
        """The configuration with the shape's defaults, checked, and the digest of the kernel's source and headers."""
        from workbench.measure.environment import source_digests

        digest = source_digests().get((request.operator, request.provider))
        return dict(vars(_configuration(request, _recorded_case(request.workload)))), digest

    def prepare(self, request: Request, seed: int) -> Prepared:
        """Random inputs, the task map of the request's policy, and the compiled kernel."""
        import torch

        from workbench.measure.figures import known_gpu
        from workbench.ops.attention_decode import attention_decode, upload_plan
        from workbench.ops.attention_decode.triton import attention_decode_triton
        from workbench.schedule import cost_model, plan_decode

        case = _recorded_case(request.workload)
        config = _configuration(request, case)
        inputs = _inputs(case, seed)
        ours = request.provider == "cuda"
        gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
        known = known_gpu(gpu.name)
        plan = plan_decode(
            case.lengths,
            num_kv_heads=case.kv_heads,
            num_ctas=gpu.multi_processor_count * config.ctas_per_sm,
            policy=request.policy or "balanced",
            tile=getattr(config, "tile", 64),
            q_len=case.q_len,
            cost=cost_model(known, cache=case.cache, group=case.group, head_dim=case.head_dim) if known else None,
        )
        built, function = upload_plan(plan, inputs.q.device), attention_decode if ours else attention_decode_triton

        def call() -> object:
            return function(*inputs.arguments(), **inputs.keywords(), task_map=built, config=config)

        def instrumented() -> Instrumented:
            from workbench.measure.stamps import COLUMNS
            from workbench.measure.timeline import Timeline
            from workbench.measure.timeline_capture import rows_of, stamped_call

            stamps = torch.zeros((built.map.shape[0], len(COLUMNS)), dtype=torch.int64, device=inputs.q.device)
            rows = rows_of(plan, built.map.cpu().numpy())

            def read() -> Stamped:
                timeline = Timeline.from_stamps(plan, stamps.cpu().numpy()[rows])
                return Stamped(timeline.to_npz(), timeline.makespan_us)

            return Instrumented(stamped_call(inputs, built, config, stamps), read)

        return Prepared(call, case.kv_bytes, instrumented if ours else None)


def _case(setting: dict[str, Any]) -> AttentionCase:
    lengths, cache = setting.pop("lengths", None), setting.pop("dtype", "fp8")
    if lengths is None or cache not in ELEMENT_BYTES or not setting.keys() <= SHAPE.keys():
        raise InvalidArgument(
            f"workload of decode attention with {', '.join(map(str, setting)) or 'no more'}, dtype {cache!r} and "
            f"lengths "
            f"{lengths!r}: give lengths such as '64x4K', dtype {' or '.join(ELEMENT_BYTES)}, and any of "
            f"{', '.join(SHAPE)}."
        )
    tokens = workload(lengths)
    name = case_name(lengths if isinstance(lengths, str) else "", tokens)
    return AttentionCase(name, tokens, cache, **{**SHAPE, **setting})


def _recorded_case(work: Workload) -> AttentionCase:
    """The case that a workload of a record describes."""
    given = dict(work.parameters)
    heads, kv_heads = int(str(given["num_q_heads"])), int(str(given["num_kv_heads"]))
    shape = {name: given[name] for name in ("head_dim", "page_size", "q_len")}
    lengths = given.get("lengths") or work.case
    return _case({"lengths": lengths, "dtype": work.dtype, "group": heads // kv_heads, "kv_heads": kv_heads, **shape})


def _inputs(case: AttentionCase, seed: int) -> Any:
    from workbench.measure.attention_inputs import make_inputs

    return make_inputs(
        case.lengths,
        group=case.group,
        kv_heads=case.kv_heads,
        head_dim=case.head_dim,
        page_size=case.page_size,
        q_len=case.q_len,
        cache=case.cache,
        query=case.cache,
        poison=False,
        seed=seed,
    )


def _configuration(request: Request, case: AttentionCase) -> Any:
    """The configuration of a request: the default of the shape with what was given in place of it."""
    from workbench.measure.attention_providers import shape_of
    from workbench.ops.attention_decode import default_config
    from workbench.ops.attention_decode.triton import TritonConfig

    shape = shape_of(case)
    default: Any = default_config(shape) if request.provider == "cuda" else TritonConfig()
    try:
        config = replace(default, **request.configuration)
    except TypeError:
        raise InvalidArgument(
            f"configuration {request.configuration} of {request.provider}: it can have {', '.join(vars(default))}."
        ) from None
    return config.check(shape) if request.provider == "cuda" else config
