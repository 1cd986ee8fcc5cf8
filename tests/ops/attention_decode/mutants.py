"""Wrong kernels: each is the real one with one planted fault that the judge has to notice."""

from __future__ import annotations

from dataclasses import dataclass

from tests.ops.attention_decode.cases import Case
from workbench.gpu.ahead import Job
from workbench.gpu.source import Source
from workbench.ops.attention_decode.cuda import SOURCE


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
        real = Source.file(SOURCE)
        text = real.text
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
    # More than eight pieces a request, scores far apart.
    Case(precision="fp8, K scale a token", group=4, kv_heads=2, num_ctas=40, deviation=3.0, lengths=_LENGTHS, seed=2),
    # Two passes over the keys.
    Case(precision="bf16", group=16, q_len=4, num_ctas=30, page_size=32, ruling="last", lengths=_LENGTHS, seed=3),
    Case(precision="fp8, bf16 q", q_len=3, num_ctas=30, ruling="first", policy="hpc-ops", lengths=_LENGTHS, seed=4),
)
"""Between them these notice every fault; each fault is tried on all."""

MUTANTS = (
    _mutant(
        "pieces weigh alike",
        (
            "void merge(",
            "factor = rescale(piece[i].x, most);\n          sum += piece[i].y * factor;",
            "factor = 1.0f / piece[i].y;\n          sum += 1.0f;",
        ),
    ),
    _mutant("merge without maximum", ("void merge(", "factor = rescale(piece[i].x, most)", "factor = 1.0f")),
    _mutant(
        "maximum of earlier pieces kept",
        ("void merge(", "factor = rescale(most, grown)", "factor = most == kMinusInfinity ? 0.0f : 1.0f"),
    ),
    _mutant("last piece dropped", ("void merge(", "if (c + i < d.num_chunks)", "if (c + i + 1 < d.num_chunks)")),
    _mutant("first piece dropped", ("void merge(", "if (c + i < d.num_chunks)", "if (c + i && c + i < d.num_chunks)")),
    _mutant(
        "no rescale in the online softmax",
        ("void slab(", "grown == kMinusInfinity ? 1.0f : ptx::exp2(current - grown)", "1.0f"),
    ),
    _mutant("warps without maximum", ("void finish(", "factor = rescale(piece.x, most)", "factor = 1.0f")),
    _mutant(
        "K and V scale swapped",
        ("struct Queries {", "p.k_scale", "p.v_scale"),
        ("void store_output(", "p.v_scale)", "p.k_scale)"),
        ("void store_output(", "__ldg(p.v_scale +", "__ldg(p.k_scale +"),
    ),
    _mutant("q scale dropped", ("struct Queries {", "if (p.q_scale)", "if (false)")),
    _mutant("V scale of the first head", ("void store_output(", "(p.v_scale_per_head ? kv_head : 0)", "0")),
    _mutant("K scales of other tokens", ("void slab(", "[t + 4 * i];", "[4 * t + i];")),
    _mutant("power of two of q lost", ("struct Queries {", "p.scale * shift", "p.scale")),
    _mutant("one key too many", ("void slab(", "length - Q_LEN + 1 + (pass", "length - Q_LEN + 2 + (pass")),
    _mutant("one key too few", ("void slab(", "length - Q_LEN + 1 + (pass", "length - Q_LEN + (pass")),
    _mutant(
        "no causal tail",
        ("void slab(", "visible = length - Q_LEN + 1 + (pass * kRowsAPass + row) / GROUP", "visible = length"),
    ),
    _mutant("tail in a full slab not masked", ("void slab(", "kSlab > length - Q_LEN + 1", "kSlab > length")),
    _mutant(
        "rows that see nothing divided by zero", ("void store_output(", "sum > 0.0f ? 1.0f / sum : 0.0f", "1.0f / sum")
    ),
    _mutant("maximum of nothing subtracted", ("void slab(", "current == kMinusInfinity ? 0.0f : current", "current")),
    _mutant("piece that saw nothing rescaled", ("float rescale(", "max == kMinusInfinity ? 0.0f : ", "")),
    _mutant(
        "NaN guard removed",
        ("struct Loader {", "bytes = row < valid ? 16 : 0", "bytes = 16"),
        ("struct Loader {", "source = row < valid ? row : 0", "source = row"),
    ),
    _mutant("pages read once", ("struct Loader {", "if (step && (step & 31) == 0) read_pages();", "")),
    _mutant("K of the first head", ("struct Loader {", "kv_head * p.k_head_stride", "0")),
    _mutant("V of the first head", ("struct Loader {", "kv_head * p.v_head_stride", "0")),
    _mutant("two tokens of P exchanged", ("void slab(", "pack(x[0][0], x[0][1])", "pack(x[0][1], x[0][0])")),
    _mutant("LSE to base two", ("void store_output(", " * kLn2", "")),
    _mutant(
        "queries of the first pass",
        (
            "attention_decode(const",
            "queries.load(p, d.request, d.kv_head, pass + 1)",
            "queries.load(p, d.request, d.kv_head, 0)",
        ),
    ),
    _mutant(
        "queries of the request before",
        ("attention_decode(const", "else if (has_after) queries.store(p, s, after.request, after.kv_head, 0);", ""),
    ),
    _mutant("counter not reset", ("attention_decode(const", "if (last) *counter = 0;", "")),
    _mutant("empty requests not written", ("attention_decode(const", "write_empties(p, num_empty);", "")),
)

LOW_OFFSETS = _mutant(
    "page offsets of 32 bits",
    ("struct Loader {", "page * p.k_page_stride", "uint32_t(page * p.k_page_stride)"),
    ("struct Loader {", "page * p.v_page_stride", "uint32_t(page * p.v_page_stride)"),
)
"""Noticed only where the cache exceeds 4 GiB; it stays inside the cache."""
