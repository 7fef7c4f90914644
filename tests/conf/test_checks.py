from dataclasses import dataclass
from typing import Any, Literal

import pytest
from omegaconf import MISSING, OmegaConf

from conf.checks import as_yaml, check_config, matches, nearest
from conf.errors import InputError


class Target:
    def __init__(self, width: int, kind: Literal["a", "b"] = "a", ratio: float | None = None) -> None: ...


class Whole:
    def __init__(self, count: int, parts: list | None = None) -> None: ...


@dataclass
class Options:
    output: str = MISSING
    part: Any = None
    more: Any = None
    sizes: list[int] | None = None
    names: dict[str, float] | None = None


def check(**options):
    check_config(OmegaConf.create(options), Options)


def target(**options):
    return {"_target_": f"{__name__}.Target", **options}


def test_fitting_configuration_passes():
    check(output="x", part=target(width=3, kind="b", ratio=0.5), sizes=[1, 2], names={"a": 0.5})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"output": "x", "prat": 1}, "no option 'prat': did you mean 'part'"),
        ({"output": "???"}, "'output' must be given"),
        (
            {"output": "x", "names": {"a": "${more.b}"}, "more": {"b": "???"}},
            r"option 'more\.b' must be given: add more\.b=VALUE",
        ),
        ({"output": "x", "names": {"a": "${nowhere}"}}, "option 'names' cannot be resolved: .*nowhere"),
        ({"output": 3}, "'output' must be text, but is 3"),
        ({"output": "x", "sizes": 1}, r"'sizes' must be a list of .* null, but is 1: write sizes='\[1\]'"),
        ({"output": "x", "names": ["a"]}, r"'names' must be a mapping of names or null, but is \['a'\]"),
        ({"output": "x", "sizes": [1, "two"]}, "'sizes' must be a list of a whole number or null"),
        ({"output": "x", "part": {"widht": 1}}, "'part' has no option 'widht': did you mean 'width'"),
        ({"output": "x", "part": {"width": 1.5}}, "'part.width' must be a whole number, but is 1.5"),
        ({"output": "x", "part": {"width": True}}, "'part.width' must be a whole number, but is true"),
        ({"output": "x", "part": {"width": 1, "kind": "c"}}, "'part.kind' must be one of 'a', 'b', but is 'c'"),
        ({"output": "x", "part": {"width": 1, "ratio": "much"}}, "'part.ratio' must be a number or null"),
    ],
)
def test_misfit_is_one_sentence_that_names_the_option(options, sentence):
    if isinstance(options.get("part"), dict):
        options = {**options, "part": target(**options["part"])}
    with pytest.raises(InputError, match=sentence):
        check(**options)


def test_target_that_does_not_exist_is_named():
    with pytest.raises(InputError, match=r"conf\.files\.no_such_function"):
        check(output="x", part={"_target_": "conf.files.no_such_function"})


def test_targets_inside_lists_are_checked():
    with pytest.raises(InputError, match=r"'part\[1\]' has no option 'wdth'"):
        check(output="x", part=[target(width=1), target(wdth=1)])


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("optimzer.lr", "optimizer.lr"),
        ("lr", "optimizer.lr"),
        ("zzzz", None),
        ("trainer.zzzz", None),  # a common path alone is no likeness
    ],
)
def test_nearest_option(name, found):
    assert nearest(name, ["optimizer.lr", "trainer.max_steps"]) == found


@pytest.mark.parametrize(
    ("value", "annotation", "fits"),
    [
        (1, float, True),
        (True, int, False),
        (float("nan"), float, False),
        (float("inf"), float | None, False),
        (None, int | None, True),
        ([1, 2], tuple[int, ...], True),
        ([1, 2, 3], tuple[int, int], False),
        ({"a": 1}, dict[str, int], True),
        ("x", list[str], False),
    ],
)
def test_types_of_plain_values(value, annotation, fits):
    assert matches(value, annotation) is fits


def test_a_value_taken_from_another_option_names_that_option():
    with pytest.raises(InputError, match=r"'output' \(taken from \$\{part.width\}\) must be text"):
        check(output="${part.width}", part=target(width=1))


@pytest.mark.parametrize("parts", [None, [target(width="${part.count}"), target(width=1)]])
def test_a_wrong_value_is_named_where_it_was_written_and_not_where_it_is_taken(parts):
    whole = {"_target_": f"{__name__}.Whole", "count": 1.5, "parts": parts}
    with pytest.raises(InputError, match=r"^option 'part.count' must be a whole number, but is 1.5$"):
        check(output="${part.count}", sizes=["${part.count}"], part=whole)


def test_targets_left_to_others_are_not_imported_and_the_rest_is_checked_all_the_same():
    options = {"output": "x", "part": {"_target_": "no_such_module.Target", "wdth": 1}}
    check_config(OmegaConf.create(options), Options, targets=False)
    with pytest.raises(InputError, match="no option 'sises'"):
        check_config(OmegaConf.create(options | {"sises": [1]}), Options, targets=False)
    with pytest.raises(InputError, match="'sizes' must be a list"):
        check_config(OmegaConf.create(options | {"sizes": 1}), Options, targets=False)


def test_values_are_said_as_options_are_written():
    assert [as_yaml(value) for value in (None, True, 5e7, "a")] == ["null", "true", "50000000.0", "'a'"]
    assert as_yaml({"a": [None, False], "b": {}}) == "{a: [null, false], b: {}}"
