"""Wrong kernels: each is the real one with one planted fault that the judge has to notice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.ops.attention_decode.cases import Case
from workbench.gpu.ahead import Job
from workbench.gpu.source import Source
from workbench.ops.attention_decode.cuda import SOURCE


def whole_kernel() -> str:
    """The kernel with the headers of its own folder put in place, each once."""
    seen: set[str] = set()

    def put(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return ""
        seen.add(name)
        return expand(Source.file(name).text.replace("#pragma once\n", ""))

    def expand(text: str) -> str:
        return re.sub(rf'#include "({Path(SOURCE).parent}/\w+\.cuh)"\n', put, text)

    return expand(Source.file(SOURCE).text)


@dataclass(frozen=True)
class Mutant:
    """A fault: in the functions that begin with ``edits``' first items, replace one text by another.

    Attributes
    ----------
    name : str
    edits : tuple of (str, str, str)
        Start of the function, the text there, what replaces each of its occurrences.
    """

    name: str
    edits: tuple[tuple[str, str, str], ...]

    def source(self) -> Source:
        """The kernel with the fault.

        Raises
        ------
        AssertionError
            When the kernel no longer holds a text: the fault has to be planted anew.
        """
        text = whole_kernel()
        for function, old, new in self.edits:
            start = text.find(function)
            assert start >= 0, f"{self.name}: the kernel has no {function!r}"
            end = text.find("\n}", start)
            body = text[start:end]
            assert old in body, f"{self.name}: {function!r} no longer holds {old!r}"
            text = text[:start] + body.replace(old, new) + text[end:]
        return Source.inline(text, f"attention_decode/mutant {self.name}.cu")

    def job(self, case: Case) -> Job:
        """The wrong kernel for a case."""
        return Job(source=self.source(), entry=case.job.entry, defines=case.job.defines)


def _mutant(name: str, *edits: tuple[str, str, str]) -> Mutant:
    return Mutant(name, edits)


_LENGTHS = (20_000, 0, 1, 2, 5, 16, 17, 64, 333, 2000, 0, 31)

CASES = (
    # Long pieces, two heads, a causal tail.
    Case(precision="fp8", q_len=2, kv_heads=2, num_ctas=3, page_size=16, lengths=_LENGTHS, seed=1),
    # So many pieces that they are merged in groups, and the last of them holds the ruling key.
    Case(
        precision="fp8, K scale a token",
        group=4,
        kv_heads=2,
        deviation=3.0,
        ruling="last",
        policy="fixed_chunk(512)",
        lengths=(40_000, *_LENGTHS[1:]),
        seed=2,
    ),
    # Two passes over the keys.
    Case(precision="bf16", group=16, q_len=4, num_ctas=30, page_size=32, lengths=_LENGTHS, seed=3),
    Case(precision="fp8, bf16 q", q_len=3, num_ctas=30, ruling="first", policy="hpc-ops", lengths=_LENGTHS, seed=4),
)
"""Between them these notice every fault; each fault is tried on all."""

_DIVIDED = "make_float4(x.o.x / x.sum, x.o.y / x.sum, x.o.z / x.sum, x.o.w / x.sum)"

MUTANTS = (
    _mutant(
        "pieces weigh alike",
        ("void store_partial(", "present(x.o)", f"present({_DIVIDED})"),
        ("void store_partial(", "make_float2(x.reference, x.sum)", "make_float2(0.0f, 1.0f)"),
    ),
    _mutant(
        "merge without references",
        ("void add_to(", "add(total, o[i], sum[i])", "add(total, o[i], make_float2(total.reference, sum[i].y))"),
    ),
    _mutant(
        "warps without references",
        (
            "uint64_t combine(",
            "add(total, part[w], piece[w])",
            "add(total, part[w], make_float2(total.reference, piece[w].y))",
        ),
    ),
    _mutant(
        "last piece dropped",
        ("void merge(", "? d.slot_base + d.num_chunks : 0", "? d.slot_base + d.num_chunks - 1 : 0"),
        ("struct Others {", "end(d.slot_base + d.num_chunks", "end(d.slot_base + d.num_chunks - 1"),
    ),
    _mutant("first piece dropped", ("void merge(", "from = d.slot_base + part", "from = d.slot_base + part + 1")),
    _mutant(
        "pieces behind a lane's first ones dropped",
        ("void merge(", "done += kMergeAtOnce * parts", "done = d.num_chunks"),
    ),
    _mutant("what other warps of a merge have dropped", ("void merge(", "i = quad / each", "i = 0 * quad")),
    _mutant("a strip of each share dropped", ("void merge(", "* kStrips - first;", "* kStrips - first - 1;")),
    _mutant("the only leader has its own piece only", ("struct Others {", "end(d.slot_base + d.num_chunks", "end(0")),
    _mutant(
        "no rescale in the online softmax",
        ("void move_reference(", "ptx::exp2(reference.x - most_x)", "1.0f"),
        ("void move_reference(", "ptx::exp2(reference.y - most_y)", "1.0f"),
    ),
    _mutant("reference never moved", ("constexpr float kLazyRescale", "= 8.0f", "= 1000.0f")),
    _mutant(
        "K and V scale swapped",
        ("struct Queries {", "p.k_scale", "p.v_scale"),
        ("attention_decode(const", "p.v_scale ? __ldcg(p.v_scale + ", "p.k_scale ? __ldcg(p.k_scale + "),
    ),
    _mutant("q scale dropped", ("struct Queries {", "if (p.q_scale)", "if (false)")),
    _mutant(
        "V scale of the first head",
        ("attention_decode(const", "(p.v_scale_per_head ? word(words, 1) : 0)", "0"),
        ("attention_decode(const", "(p.v_scale_per_head ? d.kv_head : 0)", "0"),
    ),
    _mutant(
        "K scales of other tokens",
        ("void slab(", "k_scales[g], high = k_scales[g + 8]", "k_scales[g + 8], high = k_scales[g]"),
    ),
    _mutant("power of two of q lost", ("struct Queries {", "* k_scale * shift", "* k_scale")),
    _mutant("one key too many", ("void slab(", "length - Q_LEN + 1 + ", "length - Q_LEN + 2 + ")),
    _mutant("one key too few", ("void slab(", "length - Q_LEN + 1 + ", "length - Q_LEN + ")),
    _mutant("no causal tail", ("void slab(", "length - Q_LEN + 1 + ", "length + 0 * ")),
    _mutant("tail in a full slab not masked", ("void slab(", "kSlab > length - Q_LEN + 1", "kSlab > length")),
    _mutant(
        "rows that see nothing divided by zero",
        ("void store_output(", "x.sum > 0.0f ? __fdividef(v_scale, x.sum) : 0.0f", "__fdividef(v_scale, x.sum)"),
    ),
    _mutant(
        "reference of nothing subtracted",
        ("void slab(", "acc.reference[n].x == kMinusInfinity ? 0.0f : ", ""),
        ("void slab(", "acc.reference[n].y == kMinusInfinity ? 0.0f : ", ""),
    ),
    _mutant("piece that saw nothing rescaled", ("float rescale(", "from == kMinusInfinity ? 0.0f : ", "")),
    _mutant(
        "NaN guard removed",
        (
            "attention_decode(const",
            "if (length - token < kSlab) clear_tail(k + kFetchBytes, length - token, lane);",
            "",
        ),
    ),
    _mutant(
        "pages read once",
        ("struct Loader {", "if (inside && (first_box & 31) == 0) read_pages(p, now, first_box, lane);", ""),
    ),
    _mutant(
        "K of the first head", ("struct Loader {", "&p.k_map, barrier, dim, now.kv_head", "&p.k_map, barrier, dim, 0")
    ),
    _mutant(
        "V of the first head", ("struct Loader {", "&p.v_map, barrier, dim, now.kv_head", "&p.v_map, barrier, dim, 0")
    ),
    _mutant(
        "halves of a slab of P exchanged",
        (
            "void slab(",
            "make_uint2(ptx::transpose_8x8(pack(x[0], x[1])), ptx::transpose_8x8(pack(x[2], x[3])))",
            "make_uint2(ptx::transpose_8x8(pack(x[2], x[3])), ptx::transpose_8x8(pack(x[0], x[1])))",
        ),
    ),
    _mutant("LSE to base two", ("void store_output(", " * kLn2", "")),
    _mutant(
        "queries of the first pass",
        (
            "attention_decode(const",
            "queries.load(p, word(words, 0), word(words, 1), pass + 1)",
            "queries.load(p, word(words, 0), word(words, 1), 0)",
        ),
    ),
    _mutant(
        "queries of the request before",
        ("attention_decode(const", "if (!last_pass || has_after) {", "if (!last_pass) {"),
    ),
    _mutant(
        "used slots not emptied",
        ("void empty_slots(", "slot < end", "false"),
    ),
    _mutant("empty requests not written", ("attention_decode(const", "write_empties(p, num_empty);", "")),
)

LOW_PAGES = _mutant("page numbers of 18 bits", ("struct Loader {", "in_page, page);", "in_page, page & 0x3ffff);"))
"""With pages of 16 KB: addresses that wrap at 4 GiB. Noticed only where a cache is larger."""
