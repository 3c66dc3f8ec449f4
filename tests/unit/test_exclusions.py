"""Fields that exclude each other: the validators and the JSON Schemas reject the same pairs, and `set` replaces them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from gpuctl.frontend.diagnostics import Severity
from gpuctl.frontend.loading import load_found
from gpuctl.frontend.source import Source, collect
from gpuctl.language.exclusion_checks import place_of
from gpuctl.language.fields import Block
from gpuctl.language.json_schema import schema_of
from gpuctl.language.kinds import KINDS, model_of
from gpuctl.language.value_forms import ValueForm, form_of, keys_of

Step = str | int
RULES = {"GPU213", "GPU231"}
"""Codes of fields that contradict each other; the second one also of limits that need others."""
OTHERWISE = {
    ("Autoscaling", "targetGPUUtilization", "metric"): "a target needs its metric",
    ("RouteSettings", "ingress", "secret"): "the secret needs `tls`",
}
"""Pairs that the compiler alone rejects, because of a value or of a third field."""
EMPTY_OTHERWISE = {
    ("TrainingDocument", "sweep"): "a rule about the number of jobs",
    ("Checkpoint", "command"): "a signal is enough",
}
"""Fields that the compiler alone rejects without entries."""


def blocks(model: type[Block], path: tuple[Step, ...] = ()) -> Iterator[tuple[tuple[Step, ...], type[Block]]]:
    """Yield each block below a model with its path; a list has one item, a mapping the key of its example."""
    yield path, model
    for key, info in keys_of(model):
        form: ValueForm | None = form_of(model, key)
        below: tuple[Step, ...] = (*path, key)
        while form is not None:
            if form.block is not None:
                yield from blocks(form.block, below)
            example = (info.examples or [None])[0]
            step: Step = 0 if form.item is not None else next(iter(example)) if isinstance(example, dict) else "a"
            form, below = form.item or form.value, (*below, step)


def example_of(model: type[Block], key: str) -> Any:
    info = dict(keys_of(model))[key]
    form = form_of(model, key)
    if info.examples:
        return deepcopy(info.examples[0])
    return needed(form.block) if form.block is not None else "x"


def needed(model: type[Block]) -> dict[str, Any]:
    """Return the smallest block of a model."""
    return {key: example_of(model, key) for key, info in keys_of(model) if info.is_required()}


def document(kind: str, path: tuple[Step, ...], block: dict[str, Any]) -> dict[str, Any]:
    """Return a document with a block at a path, and what each block on the way needs."""
    model: type[Block] | None = model_of(kind)
    root: dict[str, Any] = {**needed(model_of(kind)), "kind": kind, "version": "v0.1"}
    node: Any = root
    if kind in ("pool", "quota") and path:
        root[kind] = {"name": "a"}
    if "environment" in root:
        root |= {"job": {"name": "a"}, "environment": {"image": "registry.example.com/a:1"}}
    form = ValueForm(block=model)
    for place, step in enumerate(path, 1):
        if isinstance(step, str) and form.block is not None:
            form = form_of(form.block, step)
        else:
            inner = form.item or form.value
            assert inner is not None
            form = inner
        fresh: Any = [] if 0 in path[place : place + 1] else needed(form.block) if form.block is not None else {}
        if isinstance(step, int):
            node.append(fresh)
        elif not isinstance(node.get(step), type(fresh)):
            node[step] = fresh
        node = node[step]
    node |= block
    return root


@cache
def frontend_errors(text: str) -> set[tuple[str, str]]:
    loaded = load_found(collect([Source("a.yaml", text)]), versions=("1.36",), directory=Path("/"))
    return {(item.code, item.message) for item in loaded.diagnostics if item.severity is Severity.ERROR}


def compiler_errors(text: str) -> set[tuple[str, str]]:
    return {(code, message) for code, message in frontend_errors(text) if code in RULES}


@cache
def validator(kind: str) -> jsonschema_rs.Draft7Validator:
    return jsonschema_rs.Draft7Validator(schema_of(kind))


@cache
def schema_errors(text: str) -> set[tuple[str, str]]:
    value = json.loads(text)
    return {(str(error.instance_path), error.message) for error in validator(value["kind"]).iter_errors(value)}


def inside(name: str, value: Any, model: type[Block]) -> dict[str, Any]:
    """Return a block with a field, by its name with dots, and what the inner blocks need."""
    step, _, rest = name.partition(".")
    if not rest:
        return {step: value}
    inner = inner_block(step, model)
    below = {**needed(inner), **inside(rest, value, inner)}
    return {step.removesuffix("[]"): [below] if step.endswith("[]") else below}


def value_of(name: str, model: type[Block]) -> Any:
    step, _, rest = name.partition(".")
    return value_of(rest, inner_block(step, model)) if rest else example_of(model, step)


def inner_block(step: str, model: type[Block]) -> type[Block]:
    form: ValueForm | None = form_of(model, step.removesuffix("[]"))
    block = (form.item if form and step.endswith("[]") else form or ValueForm()).block
    assert block is not None
    return block


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = {**one, **other}
    for key in one.keys() & other.keys():
        if isinstance(one[key], dict):
            both[key] = merged(one[key], other[key])
    return both


def rejecting(kind: str, path: tuple[Step, ...], one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return which of compiler and schema reject two parts of a block together, and neither alone.

    A part that the compiler rejects alone, because it needs a third field, counts if the schema rejects both.
    """
    both, *alone = (json.dumps(document(kind, path, block)) for block in (merged(one, other), one, other))
    schema, compiler = schema_errors(both), compiler_errors(both)
    found = ["schema"] if schema.difference(*map(schema_errors, alone)) else []
    contradicts = any(code == "GPU213" for code, _ in compiler) and not any(map(compiler_errors, alone))
    if contradicts or (found and compiler):
        found.insert(0, "compiler")
    return found


def blocks_of_their_own(kind: str) -> Iterator[tuple[tuple[Step, ...], type[Block]]]:
    """Yield the blocks of a kind that no earlier kind has."""
    earlier = {model for other in KINDS[: KINDS.index(kind)] for _, model in blocks(model_of(other))}
    found: dict[type[Block], tuple[Step, ...]] = {}
    for path, model in blocks(model_of(kind)):
        if model not in earlier:
            found.setdefault(model, path)
    yield from ((path, model) for model, path in found.items())


@pytest.mark.parametrize("kind", KINDS)
def test_validators_and_schemas_reject_the_same_pairs(kind: str) -> None:
    differing = []
    for path, model in blocks_of_their_own(kind):
        keys = [key for key, info in keys_of(model) if not info.is_required() and key != "kind"]
        for one, other in itertools.combinations(keys, 2):
            found = rejecting(kind, path, *({key: example_of(model, key)} for key in (one, other)))
            if len(found) == 1 and (model.__name__, one, other) not in OTHERWISE:
                differing.append((path, one, other, found))
    assert differing == []


@pytest.mark.parametrize("kind", KINDS)
def test_both_reject_each_exclusion_and_accept_defaults(kind: str) -> None:
    for path, model in blocks_of_their_own(kind):
        for exclusion in model.exclusions:
            for name in exclusion.others:
                own = inside(exclusion.written, exclusion.value or value_of(exclusion.written, model), model)
                for value, expected in (
                    (value_of(name, model), ["compiler", "schema"]),
                    (place_of(model, name).default, []),
                ):
                    if value is not None:
                        found = rejecting(kind, path, own, inside(name, value, model))
                        assert found == expected, (path, exclusion.written, name, value)


@pytest.mark.parametrize("kind", KINDS)
def test_both_reject_the_same_empty_values(kind: str) -> None:
    differing = []
    for path, model in blocks_of_their_own(kind):
        for key, _ in keys_of(model):
            form = form_of(model, key)
            for empty in ([[]] if form.item else []) + ([{}] if form.value else []):
                values: tuple[Any, ...] = (empty, example_of(model, key))
                texts = [json.dumps(document(kind, path, {key: value})) for value in values]
                compiler, filled = (frontend_errors(text) for text in texts)
                schema, schema_filled = (schema_errors(text) for text in texts)
                # Errors of the linker depend on the platform.
                found = {message for code, message in compiler - filled if code < "GPU300"}
                if bool(found) != bool(schema - schema_filled) and (model.__name__, key) not in EMPTY_OTHERWISE:
                    differing.append((path, key, empty, found))
    assert differing == []


@pytest.mark.parametrize(
    ("sources", "hint"), [("{}", "add one of them"), ("{pvc: {claim: a}, nfs: {server: a, path: /a}}", "keep one")]
)
def test_hint_about_the_default_source_of_workdirs(sources: str, hint: str) -> None:
    text = f"kind: platform\nversion: v0.1\nstorage: {{default: {sources}}}\n"
    loaded = load_found(collect([Source("a.yaml", text)]), versions=("1.36",), directory=Path("/"))
    assert [item.hint for item in loaded.diagnostics] == [hint]
