"""Who computes where the caller leaves it open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from workbench.errors import InvalidArgument
from workbench.ops.router_gemm.providers import PRECISIONS, PROVIDERS, resolve, use_table


@dataclass
class Chooses:
    """A table with one answer."""

    answer: str | None

    def choose(self, m: int, n: int, k: int, precision: str) -> str | None:
        assert (m, n, k) == (3, 192, 4096)
        return self.answer


@pytest.fixture(autouse=True)
def _no_table() -> Iterator[None]:
    yield
    use_table(None)


def test_a_named_provider_is_itself() -> None:
    use_table(Chooses("tf32"))
    assert [resolve(name, 3, 192, 4096) for name in PROVIDERS] == list(PROVIDERS)
    with pytest.raises(InvalidArgument, match="give auto, cuda, triton"):
        resolve("hpc", 3, 192, 4096)


@pytest.mark.parametrize("own", ["cuda", "triton"])
def test_without_a_table_or_an_answer_it_is_our_own(own: str) -> None:
    assert resolve("auto", 3, 192, 4096, own=own) == own
    use_table(Chooses(None))
    assert resolve("auto", 3, 192, 4096, own=own) == own


@pytest.mark.parametrize("precision", PRECISIONS)
def test_without_a_table_precision_is_kept(precision: str) -> None:
    chosen = resolve("auto", 3, 192, 4096, precision)
    assert chosen == ("torch" if precision == "fp32" else "cuda")
    assert min(PRECISIONS[each].rank for each in PROVIDERS[chosen]) <= PRECISIONS[precision].rank


def test_a_precision_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="precision is 'exact'; give fp32"):
        resolve("auto", 3, 192, 4096, "exact")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_table_is_followed_only_to_what_is_precise_enough(provider: str, precision: str) -> None:
    use_table(Chooses(provider))
    if min(PRECISIONS[each].rank for each in PROVIDERS[provider]) <= PRECISIONS[precision].rank:
        assert resolve("auto", 3, 192, 4096, precision) == provider
    else:
        with pytest.raises(InvalidArgument, match="less precise"):
            resolve("auto", 3, 192, 4096, precision)


def test_a_table_that_names_nobody_is_refused() -> None:
    use_table(Chooses("cudnn"))
    with pytest.raises(InvalidArgument, match="the dispatch table chose 'cudnn'"):
        resolve("auto", 3, 192, 4096)
