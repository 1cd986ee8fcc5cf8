"""Development run on a GPU: task maps equal to the CPU, errors against float64, first times."""

from __future__ import annotations

import itertools
import os
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import torch

from workbench.measure.attention_inputs import make_inputs
from workbench.measure.timing import time_interleaved
from workbench.ops.attention_decode import (
    AttentionConfig, AttentionShape, attention_decode, attention_reference, build_task_map, upload_plan, write_dense,
)
from dataclasses import replace

from workbench.schedule import balanced, cost_model, fixed_splits, plan_decode

CASES = {
    "64x0.5K": [512] * 64,
    "64x4K": [4096] * 64,
    "32x0.125K+32x4K": [128] * 32 + [4096] * 32,
    "2x32K+30x4K": [32768] * 2 + [4096] * 30,
    "1x64K+15x4K": [65536] + [4096] * 15,
    "1x128K+31x4K": [131072] + [4096] * 31,
}


def rel(a, b):
    a, b = a.double(), b.double()
    return float((a - b).norm() / b.norm()) if float(b.norm()) > 0 else float((a - b).norm())


def maps():
    rng = np.random.default_rng(1)
    bad = 0
    n = 0
    t0 = time.time()
    for trial in range(300):
        B = int(rng.choice([0, 1, 2, 3, 7, 33, 64, 200, 513, 2048, 5000, 16384], p=[.02,.08,.1,.1,.15,.15,.15,.1,.08,.03,.02,.02]))
        kind = trial % 5
        L = {0: lambda: rng.integers(0, 9000, B), 1: lambda: np.minimum(rng.lognormal(6, 2, B), 131072),
             2: lambda: rng.choice([0, 1, 63, 64, 65, 127, 128, 129, 4096], B), 3: lambda: np.full(B, 4096),
             4: lambda: rng.integers(0, 40, B)}[kind]().astype(np.int64)
        if B and kind == 0 and trial % 2:
            L[rng.integers(B)] = 100000
        h = int(rng.choice([1, 2, 4, 8])); C = int(rng.choice([132, 264, 396, 528])); m = int(rng.choice([0, 64, 512, 1024]))
        tile = int(rng.choice([32, 64, 128])); q = int(rng.integers(1, 5))
        seq = torch.tensor(L, dtype=torch.int32, device="cuda")
        for policy in ("hpc-ops", "balanced"):
            n += 1
            cfg = AttentionConfig(tile=tile)
            tm = build_task_map(seq, num_kv_heads=h, max_seq_len=131072, num_ctas=C, min_process_len=m, policy=policy, q_len=q, config=cfg)
            cpu = plan_decode(L, num_kv_heads=h, num_ctas=C, min_process_len=m, policy=policy, tile=tile, q_len=q)
            gpu = tm.plan(L)
            ok = np.array_equal(cpu.bin_offsets, gpu.bin_offsets) and np.array_equal(cpu.descriptors, gpu.descriptors)
            if ok and policy == "hpc-ops" and tile == 64:
                ok = np.array_equal(write_dense(tm, seq).cpu().numpy(), cpu.encode())
            if not ok:
                bad += 1
                if bad < 8:
                    print("MAP DIFF", policy, "B", B, "h", h, "C", C, "m", m, "tile", tile, "kind", kind, "chosen", tm.header.tolist())
    print(f"maps: {n} compared, {bad} differ, {time.time()-t0:.1f}s")
    golden = Path("golden.npz") if Path("golden.npz").exists() else Path(".carry/golden.npz")
    if golden.exists():
        z = np.load(golden); ok = 0; ks = sorted({k[:3] for k in z.files})
        for k in ks:
            h, q, m, inc, C = map(int, z[k + "_args"]); L = z[k + "_lengths"].astype(np.int64) + (0 if inc else q)
            seq = torch.tensor(L, dtype=torch.int32, device="cuda")
            tm = build_task_map(seq, num_kv_heads=h, max_seq_len=int(L.max()), num_ctas=C, min_process_len=m, policy="hpc-ops", q_len=q)
            ok += np.array_equal(write_dense(tm, seq).cpu().numpy(), z[k + "_buffer"])
        print(f"golden: {ok} of {len(ks)}")


def errors(limit_s=30):
    rng = np.random.default_rng(0)
    t0 = time.time()
    worst = {}
    n = 0
    combos = list(itertools.product((128, 64, 256), (8, 4, 1, 2, 16), (1, 2, 3, 4), ("fp8", "bf16", "mixed", "token")))
    rng.shuffle(combos)
    for i, (D, G, Q, kind) in enumerate(combos):
        D, G, Q = int(D), int(G), int(Q)
        if time.time() - t0 > limit_s:
            print("time limit at", i, "of", len(combos)); break
        page = int(rng.choice([16, 32, 64, 128])); H = int(rng.choice([1, 2, 4])); layout = str(rng.choice(["nhd", "hnd", "combined"]))
        dev = float(rng.choice([0.06, 1, 3])); ruling = [None, "first", "middle", "last"][int(rng.integers(4))]
        L = np.concatenate([rng.integers(0, 300, 5), rng.integers(500, 6000, 3), [0, 1, 2, 16, 17, 63, 64, 65, int(rng.integers(8000, 20000))]])
        kw = dict(fp8=dict(cache="fp8", query="fp8"), bf16=dict(cache="bf16", query="bf16"), mixed=dict(cache="fp8", query="bf16"), token=dict(cache="fp8", query="fp8", k_scale_per_token=True))[str(kind)]
        try:
            x = make_inputs(L, group=G, kv_heads=H, head_dim=D, page_size=page, q_len=Q, layout=layout, score_deviation=dev, ruling_key=ruling, seed=i, **kw)
            ref, ref_lse = attention_reference(*x.arguments(), **x.keywords())
            policy = ["balanced", "hpc-ops"][i % 2]
            tm = build_task_map(x.seq_lens, num_kv_heads=H, max_seq_len=int(L.max()), q_len=Q, policy=policy)
            out = torch.full(x.q.shape, float("nan"), dtype=torch.bfloat16, device="cuda")
            o, lse = attention_decode(*x.arguments(), **x.keywords(), task_map=tm, out=out, return_lse=True)
            torch.cuda.synchronize()
            e = rel(o, ref); fin = torch.isfinite(ref_lse)
            el = float((lse[fin].double() - ref_lse[fin]).abs().max()) if fin.any() else 0.0
            same = bool((torch.isfinite(lse) == fin).all()); nan = int(torch.isnan(o).sum())
            cnt = int(sum((r.view(torch.int32) != -1).sum() for pr in tm._partials.values() for r in pr))
            n += 1
            limit = 0.0025 if kind == "bf16" else 0.004
            key = (str(kind), D)
            worst[key] = max(worst.get(key, 0), e)
            if not e <= limit or el > 2e-3 or not same or nan or cnt:
                print("BAD", D, G, Q, kind, "page", page, "H", H, layout, "dev", dev, ruling, policy, f"err {e:.4g} lse {el:.3g} same {same} nan {nan} counters {cnt}")
        except Exception as ex:
            print("EXC", D, G, Q, kind, repr(ex)[:600]); n_exc = worst.get("exc", 0) + 1; worst["exc"] = n_exc
            if n_exc > 5: raise 
            if "launch" in repr(ex) or "illegal" in repr(ex): traceback.print_exc(); return
    print(f"errors: {n} combinations in {time.time()-t0:.1f}s; worst", {k: f"{v:.2e}" for k, v in sorted(worst.items())})


def times():
    torch.cuda.synchronize()
    for dtype in ("fp8", "bf16"):
        print(dtype)
        for name, L in CASES.items():
            element = 1 if dtype == "fp8" else 2
            sets = max(2, min(24, -(-int(3e8) // (sum(L) * 256 * element))))
            xs = [make_inputs(L, cache=dtype, query=dtype, seed=s, poison=False, score_deviation=1.0) for s in range(sets)]
            A = AttentionConfig
            cost = cost_model("H200", cache=dtype)
            cal = balanced(replace(cost, constants=replace(cost.constants, cta_bytes_per_us=70000, descriptor_ns=1200, partial_ns=300, merge_ns=1200, merge_chunk_ns=10)))
            if dtype == "fp8":
                runs = [("s6", A(stages=6), 132, "balanced"), ("s4 cal", A(stages=4), 132, cal), ("s3 cal", A(stages=3), 132, cal), ("s3 hpc", A(stages=3), 132, "hpc-ops"), ("s3 cal nopdl", A(stages=3, pdl=False), 132, cal),
                        ("s3c2/132 cal", A(stages=3, ctas_per_sm=2), 132, cal), ("s3c2/264 cal", A(stages=3, ctas_per_sm=2), 264, cal), ("s2c2/132 cal", A(stages=2, ctas_per_sm=2), 132, cal), ("s2c2/264 cal", A(stages=2, ctas_per_sm=2), 264, cal),
                        ("w4s5c2/264 cal", A(warps=4, stages=5, ctas_per_sm=2), 264, cal),
                        ("s3 cal t32", A(stages=3, tile=32), 132, cal)]
            else:
                runs = [("s3", A(stages=3), 132, "balanced"), ("s3 cal", A(stages=3), 132, cal), ("s2 cal", A(stages=2), 132, cal), ("s2 hpc", A(stages=2), 132, "hpc-ops"), ("s2 cal nopdl", A(stages=2, pdl=False), 132, cal), ("w4s3c2/132 cal", A(warps=4, stages=3, ctas_per_sm=2), 132, cal), ("w4s3c2/264 cal", A(warps=4, stages=3, ctas_per_sm=2), 264, cal), ("s2 cal t32", A(stages=2, tile=32), 132, cal)]
            for n in (2, 4, 8, 16, 32):
                runs.append((f"splits{n}", A(stages=3 if dtype == "fp8" else 2), 132, fixed_splits(n)))
            variants = {}
            for label, cfg, ctas, policy in runs:
                calls = []
                for x in xs:
                    if isinstance(policy, fixed_splits):
                        tm = upload_plan(plan_decode(L, num_kv_heads=1, num_ctas=ctas, policy=policy, tile=cfg.tile))
                    else:
                        tm = build_task_map(x.seq_lens, num_kv_heads=1, max_seq_len=max(L), policy=policy, config=cfg, num_ctas=ctas)
                    out = torch.empty(x.q.shape, dtype=torch.bfloat16, device="cuda")
                    calls.append(lambda x=x, tm=tm, out=out, c=cfg: attention_decode(*x.arguments(), **x.keywords(), task_map=tm, out=out, config=c))
                variants[label] = calls
            calls = []
            for x in xs:
                tm = build_task_map(x.seq_lens, num_kv_heads=1, max_seq_len=max(L))
                calls.append(lambda x=x, tm=tm: build_task_map(x.seq_lens, num_kv_heads=1, max_seq_len=max(L), out=tm))
            variants["map"] = calls
            try:
                r = time_interleaved(variants)
                print(f"{name:18s}", " ".join(f"{k} {v.median_us:.1f}" for k, v in r.items()), flush=True)
            except Exception as ex:
                print(name, "EXC", repr(ex)[:500]); traceback.print_exc(); return
            del xs, variants, calls
    for n, label in ((64, "64x4K"), (2048, "2048x4K")):
        seqs = [torch.tensor([4096] * n, dtype=torch.int32, device="cuda") for _ in range(8)]
        for policy in ("balanced", "hpc-ops"):
            for C in (132, 528):
                calls = []
                for q in seqs:
                    tm = build_task_map(q, num_kv_heads=1, max_seq_len=4096, num_ctas=C, policy=policy)
                    calls.append(lambda q=q, tm=tm: build_task_map(q, num_kv_heads=1, max_seq_len=4096, num_ctas=C, policy=policy, out=tm))
                r = time_interleaved({"m": calls})
                print("map", label, policy, C, f"{r['m'].median_us:.2f}")


def phases():
    from workbench.ops.attention_decode.cuda import launch
    from workbench.ops.attention_decode import default_config
    for dtype, only in (("fp8", None), ("bf16", ("64x4K",))):
        for name, L in CASES.items():
            if only and name not in only:
                continue
            xs = [make_inputs(L, cache=dtype, query=dtype, seed=s, poison=False) for s in range(8)]
            shape = AttentionShape(cache=dtype, query=dtype)
            cfgs = [("balanced", default_config(shape)), ("hpc-ops", default_config(shape))]
            for policy, cfg in cfgs:
                tms = [build_task_map(x.seq_lens, num_kv_heads=1, max_seq_len=max(L), policy=policy, config=cfg) for x in xs]
                outs = [torch.empty(x.q.shape, dtype=torch.bfloat16, device="cuda") for x in xs]
                tls = [torch.zeros((tm.map.shape[0], 8), dtype=torch.int64, device="cuda") for tm in tms]
                for _ in range(2):
                    for x, tm, out, tl in zip(xs, tms, outs, tls):
                        po, ps = tm.partials(shape.rows, 128)
                        launch(shape, cfg, q=x.q, k_cache=x.k_cache, v_cache=x.v_cache, block_table=x.block_table, map_=tm.map, header=tm.header,
                               empties=tm.empties, num_bins=tm.num_bins, partial_out=po, partial_sum=ps,
                               out=out, lse=None, q_scale=x.q_scale, k_scale=x.k_scale, v_scale=x.v_scale, scale=128**-0.5, timeline=tl)
                torch.cuda.synchronize()
                rows = []
                for tm, tl in zip(tms[2:], tls[2:]):
                    t = tl.cpu().numpy(); t = t[t[:, 4] > 0]; t0 = t[:, 0].min()
                    a = t[:, :5] - t0
                    first = t[np.argsort(t[:, 0])]
                    d = np.diff(a, axis=1) / 1000
                    rows.append([a[:, 0].max() / 1000 if len(t) <= tm.num_bins else 0, *np.median(d, axis=0), *d.max(axis=0), a[:, 3].max() / 1000, a[:, 4].max() / 1000, len(t), int(t[:, 6].sum())])
                r = np.median(np.array(rows), axis=0)
                print(f"{dtype} {name:16s} {policy[:4]} start<= {r[0]:.2f} | median: data {r[1]:.2f} stream {r[2]:.2f} combine {r[3]:.2f} end {r[4]:.2f} | max: {r[5]:.2f} {r[6]:.2f} {r[7]:.2f} {r[8]:.2f} | combined at {r[9]:.2f} end {r[10]:.2f} us, {int(r[11])} descriptors {int(r[12])} merges", flush=True)


def profile_map():
    from workbench.gpu.compile import compile_kernel
    from workbench.gpu.launch import Kernel
    from workbench.ops.attention_decode import task_map as T
    T.map_kernel = lambda entry, k=Kernel(compile_kernel("attention_decode/task_map.cu", "build_task_map", defines={"PROFILE": 1})): k
    for n in (64, 2048):
        for C in (132, 528):
            s = torch.tensor([4096] * n, dtype=torch.int32, device="cuda")
            tm = None
            for _ in range(4):
                tm = build_task_map(s, num_kv_heads=1, max_seq_len=4096, num_ctas=C, policy="balanced", out=tm)
            torch.cuda.synchronize()
            print("stamps", n, C, "scan, cuts, fullest, longest, written (ns):", tm.header.tolist()[3:])


def cold():
    from workbench.ops.attention_decode.cuda import launch
    from workbench.ops.attention_decode import default_config
    shape = AttentionShape()
    for label, L in (("2112x128", [128] * 2112), ("1056x512", [512] * 1056)):
        xs = [make_inputs(L, seed=s, poison=False) for s in range(6)]
        cfg = default_config(shape)
        tms = [build_task_map(x.seq_lens, num_kv_heads=1, max_seq_len=max(L), policy="hpc-ops", config=cfg) for x in xs]
        outs = [torch.empty(x.q.shape, dtype=torch.bfloat16, device="cuda") for x in xs]
        tls = [torch.zeros((tm.map.shape[0], 8), dtype=torch.int64, device="cuda") for tm in tms]
        for _ in range(2):
            for x, tm, out, tl in zip(xs, tms, outs, tls):
                po, ps = tm.partials(shape.rows, 128)
                launch(shape, cfg, q=x.q, k_cache=x.k_cache, v_cache=x.v_cache, block_table=x.block_table, map_=tm.map, header=tm.header,
                       empties=tm.empties, num_bins=tm.num_bins, partial_out=po, partial_sum=ps,
                       out=out, lse=None, q_scale=x.q_scale, k_scale=x.k_scale, v_scale=x.v_scale, scale=128**-0.5, timeline=tl)
        torch.cuda.synchronize()
        t = tls[-1].cpu().numpy(); t = t[t[:, 4] > 0]
        d = np.diff(t[:, :5], axis=1) / 1000
        rank = np.zeros(len(t), int)
        for c in np.unique(t[:, 7]):
            m = np.flatnonzero(t[:, 7] == c); rank[m[np.argsort(t[m, 0])]] = np.arange(len(m))
        for r in range(min(8, rank.max() + 1)):
            print(label, "descriptor", r, "of its bin: data, stream, combine, end", np.round(np.median(d[rank == r], axis=0), 2), "n", int((rank == r).sum()))


def floors():
    from workbench.measure.floors import read_bytes
    for mb in (3, 8.4, 34.6, 67.1, 134):
        n = int(mb * 1e6) // 16 * 16
        xs = [torch.randint(0, 255, (n,), dtype=torch.uint8, device="cuda") for _ in range(max(2, min(24, int(400 / mb))))]
        e = [torch.zeros(16, dtype=torch.uint8, device="cuda")]
        r = time_interleaved({"pdl": [lambda x=x: read_bytes(x) for x in xs], "nopdl": [lambda x=x: read_bytes(x, pdl=False) for x in xs],
                              "empty": [lambda: read_bytes(e[0])], "empty nopdl": [lambda: read_bytes(e[0], pdl=False)]})
        print("read", mb, "MB", {k: round(v.median_us, 2) for k, v in r.items()})


if __name__ == "__main__":
    p = torch.cuda.get_device_properties(0)
    print(p.name, p.multi_processor_count, torch.__version__)
    t = time.time()
    for what in sys.argv[1:] or ["maps", "errors", "times"]:
        try:
            globals()[what]()
        except Exception:
            traceback.print_exc()
        print(f"[{what} done at {time.time()-t:.0f}s]", flush=True)
