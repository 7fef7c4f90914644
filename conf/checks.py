"""Structured checks of a composed configuration: unknown options, wrong types, missing values.

What a node may hold is not written down twice: a node with `_target_` may hold the parameters of that class or
function, the top level of a command the fields of its options dataclass. Must not import the project's other packages
by name (targets are located by the configuration itself).
"""

import dataclasses
import difflib
import importlib
import inspect
import math
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from omegaconf import DictConfig, ListConfig, Node, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from conf.errors import InputError

HYDRA_KEYS = frozenset({"_target_", "_partial_", "_convert_", "_recursive_", "_args_"})


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `name`, or None when nothing is alike.

    A dotted name is compared as a whole and by its last part, so that `optimzer.lr` finds `optimizer.lr` and
    `trainer.max_step` finds `trainer.max_steps`.
    """
    pool = list(dict.fromkeys(candidates))
    tail = name.rsplit(".", 1)[-1]
    for close in difflib.get_close_matches(name, pool, n=5, cutoff=0.6):
        # A long common path alone is no likeness: the last parts must be alike too.
        if difflib.SequenceMatcher(None, tail, close.rsplit(".", 1)[-1]).ratio() >= 0.6:
            return close
    same_tail = [candidate for candidate in pool if candidate.rsplit(".", 1)[-1] == tail]
    return same_tail[0] if len(same_tail) == 1 else None


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """A clause for an error sentence: the nearest candidate, or the list of them when none is near."""
    pool = sorted(set(candidates))
    close = nearest(name, pool)
    if close is not None:
        return f"did you mean '{close}'?"
    return f"the options here are {', '.join(pool) if pool else '(none)'}"


def check_config(config: DictConfig, schema: type, targets: bool = True) -> None:
    """Check a composed configuration against a command's options.

    Args:
        config: the configuration of one command, without Hydra's own node.
        schema: a dataclass whose fields are the options of the command's top level.
        targets: whether groups are checked against the signatures of their `_target_`s, which imports these.

    Raises:
        InputError: an option that does not exist, has the wrong type, or has no value; the sentence names the option
            and, where there is one, the nearest that exists.
    """
    hints = typing.get_type_hints(schema)
    unchecked = set() if targets else {str(name) for name in config if _is_target(config, name)}
    # A wrong value is met where it was written first, and only then where another option takes it from there.
    for interpolated in (False, True):
        _check_mapping(config, hints, "", "this command", interpolated, unchecked)


def locate(target: str, path: str) -> Callable[..., Any]:
    """The class or function a `_target_` names.

    Raises:
        InputError: no such module or attribute; `path` (the option that holds the target) is named.
    """
    module_name, _, attribute = target.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"option '{path}._target_' names '{target}', which cannot be imported: {error}") from error
    if not callable(found):
        raise InputError(f"option '{path}._target_' names '{target}', which is not a class or function")
    return typing.cast(Callable[..., Any], found)


def _is_target(config: DictConfig, key: Any) -> bool:
    if OmegaConf.is_missing(config, key) or OmegaConf.is_interpolation(config, key):
        return False
    return isinstance(config[key], DictConfig) and "_target_" in config[key]


def _check_mapping(
    config: DictConfig,
    hints: Mapping[str, Any],
    path: str,
    owner: str,
    interpolated: bool,
    unchecked: Collection[str] = (),
) -> None:
    for key in config:
        name = str(key)
        option = f"{path}.{name}" if path else name
        if name in HYDRA_KEYS or name in unchecked:
            continue
        if name not in hints:
            raise InputError(f"{owner} has no option '{option}': {suggestion(name, hints)}")
        _check_value(config, name, option, hints[name], interpolated)


def _check_value(config: DictConfig, key: str, option: str, annotation: Any, interpolated: bool) -> None:
    if not interpolated and OmegaConf.is_interpolation(config, key):
        return
    if OmegaConf.is_missing(config, key):
        raise InputError(f"option '{option}' must be given: add {option}=VALUE to the command line")
    try:
        value = config[key]
    except OmegaConfBaseException as error:
        raise InputError(_unresolved(option, error)) from error
    if isinstance(value, DictConfig) and "_target_" in value:
        _check_target(value, option, interpolated)
        return
    if isinstance(value, DictConfig) and dataclasses.is_dataclass(annotation):
        _check_mapping(value, typing.get_type_hints(annotation), option, f"'{option}'", interpolated)
        return
    is_node = isinstance(value, DictConfig | ListConfig)
    if interpolated or not is_node or "${" not in str(OmegaConf.to_container(value, resolve=False)):
        try:
            plain = OmegaConf.to_container(value, resolve=True) if is_node else value
        except OmegaConfBaseException as error:
            raise InputError(_unresolved(option, error)) from error
        if not matches(plain, annotation):
            node = config._get_node(key) if OmegaConf.is_interpolation(config, key) else None
            source = f" (taken from {node._value()})" if isinstance(node, Node) else ""
            mended = f": write {option}='[{plain}]'" if matches([plain], annotation) else ""
            raise InputError(
                f"option '{option}'{source} must be {describe(annotation)}, but is {as_yaml(plain)}{mended}"
            )
    if is_node:
        _check_nested_targets(value, option, interpolated)


def _unresolved(option: str, error: OmegaConfBaseException) -> str:
    """What is wrong with an option that takes its value, or a part of it, from another one."""
    first = str(error).splitlines()[0]
    _, missing, name = first.partition("Missing mandatory value: ")
    if missing:
        return f"option '{name}' must be given: add {name}=VALUE to the command line"
    return f"option '{option}' cannot be resolved: {first}"


def _check_nested_targets(value: DictConfig | ListConfig, option: str, interpolated: bool) -> None:
    places = range(len(value)) if isinstance(value, ListConfig) else list(value)
    for place in places:
        if OmegaConf.is_missing(value, place) or (not interpolated and OmegaConf.is_interpolation(value, place)):
            continue
        item = value[place]
        if isinstance(item, DictConfig) and "_target_" in item:
            name = f"{option}[{place}]" if isinstance(value, ListConfig) else f"{option}.{place!s}"
            _check_target(item, name, interpolated)


def check_target(node: DictConfig, path: str) -> None:
    """Check one `_target_` node against its target's signature (recursively).

    Raises:
        InputError: an unknown or missing parameter, or a value of another type; the option is named.
    """
    for interpolated in (False, True):
        _check_target(node, path, interpolated)


def _check_target(node: DictConfig, path: str, interpolated: bool) -> None:
    target = locate(str(node["_target_"]), path)
    function = target.__init__ if inspect.isclass(target) else target
    signature = inspect.signature(target)
    try:
        annotations = typing.get_type_hints(function)
    except NameError:  # an annotation that only a type checker can see: nothing to check against
        annotations = {}
    parameters = signature.parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = {name for name, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    for key in node:
        name = str(key)
        if name in HYDRA_KEYS:
            continue
        option = f"{path}.{name}"
        if name not in named and not open_ended:
            raise InputError(f"'{path}' has no option '{name}': {suggestion(name, named)}")
        _check_value(node, name, option, annotations.get(name, Any), interpolated)


def matches(value: Any, annotation: Any) -> bool:
    """Whether a plain value (of YAML) fits an annotation. Annotations this cannot judge accept everything."""
    if annotation is Any or annotation is inspect.Parameter.empty or isinstance(annotation, typing.TypeVar):
        return True
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return any(matches(value, option) for option in get_args(annotation))
    if origin is Literal:
        return value in get_args(annotation)
    if annotation is None or annotation is types.NoneType:
        return value is None
    if annotation is bool:
        return isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if annotation in (str, Path):
        return isinstance(value, str)
    if origin in (list, tuple, set) or (isinstance(origin, type) and issubclass(origin, Iterable)):
        if origin is dict or (isinstance(origin, type) and issubclass(origin, Mapping)):
            return isinstance(value, dict)
        arguments = get_args(annotation)
        if not isinstance(value, list):
            return False
        if not arguments or (origin is tuple and Ellipsis not in arguments):
            return not arguments or len(value) == len(arguments)
        return all(isinstance(item, dict) or matches(item, arguments[0]) for item in value)
    if annotation in (list, dict):
        return isinstance(value, annotation)
    return True


def as_yaml(value: Any) -> str:
    """A plain value as an option's is written: null, true and false, and text in quotes."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_yaml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {as_yaml(item)}' for key, item in value.items())}}}"
    return repr(value)


def describe(annotation: Any) -> str:
    """An annotation in words a user knows, for an error sentence."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(describe(option) for option in get_args(annotation))
    if origin is Literal:
        return "one of " + ", ".join(repr(option) for option in get_args(annotation))
    if origin in (list, tuple):
        inner = get_args(annotation)
        return f"a list of {describe(inner[0])}" if inner else "a list"
    if origin is dict:
        return "a mapping of names"
    words = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "text",
        Path: "a path",
        types.NoneType: "null",
    }
    return words.get(annotation, getattr(annotation, "__name__", str(annotation)))
