"""Classes of accuracy, and the shapes of the models."""

from __future__ import annotations

import pytest

from workbench.errors import InvalidArgument
from workbench.tables import CLASSES, MODELS, allows, check_class, class_of, parse_shape


def test_a_class_allows_itself_and_what_is_more_accurate():
    order = list(CLASSES)
    assert [[allows(limit, own) for own in order] for limit in order] == [
        [i <= j for i in range(len(order))] for j in range(len(order))
    ]
    assert list(CLASSES.values()) == sorted(CLASSES.values())


@pytest.mark.parametrize(
    ("errors", "declared", "own"),
    [
        ([2e-7], None, "fp32"),
        ([2e-7, 7.2e-6], None, "split"),
        ([2e-7], "tf32", "tf32"),  # an FP32 kernel that answered
        ([2.3e-3], "tf32", "bf16"),  # worse than its design
        ([0.1], "bf16", None),
        ([], "split", "split"),
        ([], None, None),
    ],
)
def test_class_of_errors(errors, declared, own):
    assert class_of(errors, declared) == own


@pytest.mark.parametrize("name", ["", "exact", None, ["fp32"], 3])
def test_unknown_classes_are_refused(name):
    with pytest.raises(InvalidArgument, match="fp32, split, tf32, bf16"):
        check_class(name)


@pytest.mark.parametrize(
    ("text", "k", "n", "name"),
    [
        ("hy3", 4096, 192, "hy3"),
        ("DeepSeek-V3", 7168, 256, "deepseek-v3"),
        ("4096,192", 4096, 192, None),
        ("K6144-N768", 6144, 768, None),
        (" 8 x 16 ", 8, 16, None),
    ],
)
def test_shapes(text, k, n, name):
    found = parse_shape(text)
    assert found[:2] == (k, n)
    assert (found[2].name if found[2] else None) == name


@pytest.mark.parametrize(
    "text", ["", "hy4", "4096", "4096,192,3", "4096,191", "0,8", "8,1048584", "-8,8", "9" * 40 + ",8"]
)
def test_shapes_that_are_refused(text):
    with pytest.raises(InvalidArgument):
        parse_shape(text)


def test_groups_divide_the_experts():
    for model in MODELS.values():
        assert model.n % model.groups == 0
        assert model.top_k <= model.n // model.groups * model.top_groups
        assert model.k % 8 == model.n % 8 == 0
