"""JSON Schemas of the kinds, for editors, generated from the models.

One property matters most: everything that the binder accepts validates. A false error in an editor is worse than an
error that only the compiler finds, so every rule is exact or looser, never stricter. Consequences that the models do
not show:

- Every spelling of a key is accepted. ``properties`` has the canonical keys, which editors complete;
  ``patternProperties`` has all other spellings, with the same definition.
- Text fields accept numbers and booleans, because the binder keeps the text as written; never null.
- In workloads, fields that a platform's ``defaults`` can supply are not required, not even ``environment.image``.
  Required are ``kind``, ``job.name``, and the required fields of list items and mapping entries.
- Text of ``environment`` and ``service`` may hold ``{{...}}`` templates, whose value no editor can evaluate.

Dialect: draft-07, with ``definitions``. Every editor supports it, few support 2020-12 (yaml-language-server, the most
common one, since 1.20), and nothing used here has another meaning in 2020-12. Other spellings are matched with
``patternProperties``, not ``propertyNames``, because yaml-language-server resolves YAML's ``<<`` only for the former.
``errorMessage``, ``markdownDescription`` and ``defaultSnippets`` are extensions of language servers; other tools ignore
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeGuard

from gpuctl.language.display_text import and_list
from gpuctl.language.exclusion_checks import place_of
from gpuctl.language.fields import Block, Scalar
from gpuctl.language.kinds import KINDS, WORKLOADS, model_of
from gpuctl.language.reference import ITEM, USER_KEY, description_of, dotted_path, names_of
from gpuctl.language.schema_rules import NEEDS, NUMERIC_KEY, TEMPLATE, TEXT_RULES
from gpuctl.language.spelling import spelling_pattern
from gpuctl.language.value_forms import SingleValue, Size, ValueForm, form_of, keys_of, type_name
from gpuctl.language.workload import TEMPLATED_BLOCKS, UNTEMPLATED_FIELDS
from gpuctl.language.yaml_notation import as_written, in_yaml

Schema = dict[str, Any]
DIALECT = "http://json-schema.org/draft-07/schema#"

_TYPES = ("null", "boolean", "number", "string", "array", "object")

_DEFAULTS, _PROFILES = "defaults", "profiles"
_LEFT_OUT: dict[str, set[tuple[str, ...]]] = {
    "": set(),
    # Every job would share the value.
    _DEFAULTS: {("job", "name"), ("job", "namespace"), ("job", "sweep"), ("sweep",), ("profiles",)},
    # They identify the document.
    _PROFILES: {("kind",), ("version",), ("job", "name"), ("profiles",)},
}
"""Fields that a partial document cannot have, by the field that contains it; "" is a whole document."""


def schema_of(kind: str) -> Schema:
    """Return the JSON Schema of a kind in :data:`gpuctl.language.kinds.KINDS`."""
    builder = _Builder()
    root = builder.document(kind)
    return {"$schema": DIALECT, "title": f"gpuctl {kind}", **root, "definitions": builder.definitions}


def combined_schema() -> Schema:
    """Return one JSON Schema for all kinds: ``kind`` selects the rules of a document.

    For files with several documents, and directories with several kinds.
    """
    builder = _Builder()
    key = spelling_pattern("kind")
    names = [name for kind in KINDS for name in names_of(kind)]
    branches = []
    for kind in KINDS:
        builder.prefix = (kind,)
        root = builder.document(kind)
        builder.definitions[kind] = {"title": f"gpuctl {kind}", **root}
        is_other = {"patternProperties": {key: {"not": {"enum": list(names_of(kind))}}}}
        branches.append({"if": {"not": is_other}, "then": {"$ref": f"#/definitions/{kind}"}})
    builder.definitions["kind"] = {"title": "kind", "description": "The kind of document.", "enum": names}
    reference = {"$ref": "#/definitions/kind"}
    return {
        "$schema": DIALECT,
        "title": "gpuctl",
        "description": "A gpuctl document of any kind.",
        "type": "object",
        "properties": {"kind": reference},
        "patternProperties": {_other_spellings("kind"): reference},
        "allOf": [_wants(("kind",)), *branches],
        "definitions": builder.definitions,
    }


def to_json(schema: Schema) -> str:
    """Return a schema as the text of a file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


class _Builder:
    """Collects the definitions of one schema, one per field, named by its path.

    Equal definitions are stored once: kinds share most of their blocks.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}
        self.prefix: tuple[str, ...] = ()
        self._known: dict[str, str] = {}

    def document(self, kind: str, *, partial: str = "") -> Schema:
        """Return the schema of a document. ``partial``: the field that contains it, ``defaults`` or ``profiles``."""
        return self._block(model_of(kind), _Place(kind, partial=partial, fillable=kind in WORKLOADS))

    def _define(self, name: str, schema: Schema) -> Schema:
        """Return a reference to a definition, reusing an equal existing one."""
        text = json.dumps(schema, ensure_ascii=False)
        known = self._known.get(text)
        if known is None:
            # A reference is a URI, which cannot contain brackets.
            known = ".".join((*self.prefix, name.replace(ITEM, "")))
            assert known not in self.definitions, "two definitions have one name"
            self._known[text] = known
            self.definitions[known] = schema
        return {"$ref": f"#/definitions/{known}"}

    def _block(self, model: type[Block], place: _Place) -> Schema:
        properties: Schema = {}
        patterns: Schema = {}
        rules: list[Schema] = []
        for key, info in sorted(keys_of(model), key=lambda item: item[0] != "kind" or bool(place.path)):
            inner = place.below(key)
            if inner.path in _LEFT_OUT[place.partial]:
                continue
            reference = self._define(inner.name, self._field(model, key, inner))
            properties[key] = reference
            patterns[_other_spellings(key)] = reference
            if (info.is_required() or inner.path == ("kind",)) and not inner.may_be_left_out:
                rules.append(_wants((key,)))
        if not place.fillable:
            rules += [_need(*need) for need in NEEDS.get(model, ())]
        rules += _exclusions(model, is_whole=not place.partial)
        schema = {
            "description": description_of(model),
            "type": "object",
            "properties": properties,
            "patternProperties": patterns,
            "additionalProperties": False,
        }
        return {**schema, "allOf": rules} if rules else schema

    def _field(self, model: type[Block], key: str, place: _Place) -> Schema:
        info = dict(keys_of(model))[key]
        is_kind = place.path == ("kind",)
        form = (
            ValueForm(single=SingleValue(Scalar.TEXT, choices=names_of(place.kind))) if is_kind else form_of(model, key)
        )
        rules = self._form(form, place)
        schema: Schema = {"title": place.name, "description": info.description or ""}
        facts = "" if form.block is not None else f"\n\n*{type_name(form)}*"
        default = None if is_kind or info.is_required() or info.default_factory is not None else info.default
        if default is not None:
            facts += f", default `{in_yaml(default, form)}`"
        schema["markdownDescription"] = f"{info.description}{facts}"
        # Editors propose every default and example; for a field with choices these are the only proposals. When they
        # insert a whole block they insert its defaults, which hides the fields that it requires.
        is_choice = "enum" in rules
        needy = any(below.is_required() for _, below in keys_of(model)) and not is_choice
        if default is not None and not needy and rules.get("enum") != [default]:
            schema["default"] = as_written(default, form)
        if _is_nested(info.examples):
            schema["defaultSnippets"] = [{"label": f"{key}: example", "body": info.examples[0]}]
        elif info.examples and not is_choice:
            schema["examples"] = [as_written(example, form) for example in info.examples]
        rules.pop("description", None)
        return {**schema, **rules}

    def _form(self, form: ValueForm, place: _Place) -> Schema:
        """Return the rules of a form. A union needs no ``anyOf``: every keyword applies to one type of value."""
        parts: list[Schema] = []
        if form.single is not None:
            is_union = form.item is not None or form.block is not None
            parts.append(_single(form.single, templated=place.templated, is_union=is_union))
        if form.item is not None:
            items = self._form(form.item, place.below(ITEM))
            parts.append({"type": "array", "items": items, **_limits(form.list_size, "Items")})
        if form.block is not None:
            parts.append(self._block(form.block, place))
        if form.partial is not None:
            parts.append(self._partial(form.partial, place.path[0]))
        if form.key is not None and form.value is not None:
            entries = _mapping(form.key, self._form(form.value, place.below(USER_KEY)))
            parts.append({**entries, **_limits(form.mapping_size, "Properties")})
        if form.free:
            parts.append({"type": "object"})
        if len(parts) == 1:
            return _without_boolean(parts[0])
        types: list[str] = []
        merged: Schema = {}
        for part in parts:
            own = part.pop("type")
            types += own if isinstance(own, list) else [own]
            merged |= part
        # The message of one part would be shown for errors in the others.
        merged.pop("errorMessage", None)
        return _without_boolean({"type": types, **merged})

    def _partial(self, kind: str, field: str) -> Schema:
        before, self.prefix = self.prefix, (*self.prefix, field, *((kind,) if field == _DEFAULTS else ()))
        schema = self.document(kind, partial=field)
        self.prefix = before
        return schema


def _single(single: SingleValue, *, templated: bool, is_union: bool = False) -> Schema:
    if single.choices and is_union:
        # An enum would apply to the other forms, too.
        return {"type": "string", "pattern": f"^(?:{'|'.join(single.choices)})$"}
    if single.choices:
        return {"enum": list(single.choices)}
    if single.scalar is not Scalar.TEXT:
        schema: Schema = {"type": single.scalar.value}
        if single.minimum is not None:
            schema["minimum"] = single.minimum
        if single.maximum is not None:
            schema["maximum"] = single.maximum
        return schema
    rule = TEXT_RULES[single.checks]
    schema = {"type": list(rule.types) if len(rule.types) > 1 else rule.types[0]}
    if rule.pattern is not None:
        schema["pattern"] = rule.pattern + (TEMPLATE if templated else "")
    if rule.longest is not None and not templated:
        schema["maxLength"] = rule.longest
    if rule.minimum is not None:
        schema["minimum"] = rule.minimum
    if rule.says is not None:
        schema["errorMessage"] = rule.says
    return schema


def _without_boolean(schema: Schema) -> Schema:
    """Return an equivalent schema for text that may look like a boolean, which rejects all other types instead.

    If a schema lists the boolean type, editors propose ``true`` and ``false`` for a text field.
    """
    types = schema.get("type")
    if not isinstance(types, list) or "boolean" not in types:
        return schema
    refused = {"if": {"type": [name for name in _TYPES if name not in types]}, "then": {"type": types[0]}}
    return {**refused, **{key: value for key, value in schema.items() if key != "type"}}


def _is_nested(examples: list[Any] | None) -> TypeGuard[list[Any]]:
    """Return True if the first example is a mapping with nested values, which editors insert well only as a snippet."""
    if not examples or not isinstance(examples[0], dict):
        return False
    return any(isinstance(value, (dict, list)) for value in examples[0].values())


def _mapping(key: SingleValue, value: Schema) -> Schema:
    pattern = TEXT_RULES[key.checks].pattern
    assert pattern is not None, "every name that users invent has a rule"
    return {"type": "object", "patternProperties": {pattern + NUMERIC_KEY: value}, "additionalProperties": False}


def _limits(size: Size, entries: str) -> Schema:
    """Return the rules for the number of ``Items`` or ``Properties``."""
    limits = {f"min{entries}": size.minimum, f"max{entries}": size.maximum}
    return {key: limit for key, limit in limits.items() if limit is not None}


def _other_spellings(key: str) -> str:
    """Return a pattern for every spelling but the canonical one, whose errors would otherwise be shown twice."""
    return spelling_pattern(key).replace("^", f"^(?!{key}$)", 1)


def _wants(keys: tuple[str, ...]) -> Schema:
    """Return a rule that requires one of the keys, in any spelling; the message names the first."""
    return {"if": _none_of(keys), "then": {"required": [keys[0]]}}


def _need(present: tuple[str, ...], wants: tuple[str, ...]) -> Schema:
    return {"if": {"not": _none_of(present)}, "then": _wants(wants)} if present else _wants(wants)


def _exclusions(model: type[Block], *, is_whole: bool) -> list[Schema]:
    """Return rules for the fields of a block that exclude each other.

    :param is_whole: False for a part of a document, which only the validators check.
    """
    rules: list[Schema] = []
    known: set[frozenset[str]] = set()
    for exclusion in model.exclusions:
        others = [name for name in exclusion.others if frozenset((exclusion.written, name)) not in known]
        known.update(frozenset((exclusion.written, name)) for name in others)
        if others and (is_whole or exclusion.message is not None):
            shown = exclusion.written if exclusion.value is None else f"{exclusion.written}: {exclusion.value}"
            message = f"`{shown}` cannot stand beside {and_list(f'`{name}`' for name in others)}: keep one."
            absent = _none_written(model, others)
            rules.append(
                {
                    "if": {"not": _none_written(model, [exclusion.written], exclusion.value)},
                    "then": {**absent, "errorMessage": message},
                }
            )
    return rules


def _none_written(model: type[Block], names: Iterable[str], value: str | None = None) -> Schema:
    """Return a rule that holds if fields are absent or have their defaults, or if they have not this value."""
    rule: Schema = {}
    for name in names:
        *outer, last = name.split(".")
        place = rule.setdefault("patternProperties", {})
        for step in outer:
            inner = place.setdefault(spelling_pattern(step.removesuffix(ITEM)), {})
            place = (inner.setdefault("items", {}) if step.endswith(ITEM) else inner).setdefault(
                "patternProperties", {}
            )
        last, default = spelling_pattern(last), place_of(model, name).default
        place[last] = {"not": {"const": value}} if value is not None else default is not None and {"const": default}
    return rule


def _none_of(keys: Iterable[str]) -> Schema:
    """Return a rule that holds if none of the keys is present, in any spelling."""
    return {"patternProperties": {spelling_pattern(key): False for key in keys}}


class _Place(NamedTuple):
    """The builder's position in a document."""

    kind: str
    path: tuple[str, ...] = ()
    partial: str = ""
    fillable: bool = False

    @property
    def name(self) -> str:
        """The path as text."""
        return dotted_path(self.path)

    @property
    def templated(self) -> bool:
        """True if text at this place may hold templates."""
        return self.kind in WORKLOADS and self.path[0] in TEMPLATED_BLOCKS and self.path not in UNTEMPLATED_FIELDS

    @property
    def may_be_left_out(self) -> bool:
        """True if a required field may be missing, because a platform's defaults, or the document, supply it."""
        return self.fillable and (self.partial != "" or self.path not in (("kind",), ("job",), ("job", "name")))

    def below(self, step: str) -> _Place:
        """Return the place one step below. Defaults supply fields, but not list items and mapping entries.

        A profile is merged into mapping entries too.
        """
        is_whole = step == ITEM or (step == USER_KEY and self.partial != _PROFILES)
        return self._replace(path=(*self.path, step), fillable=self.fillable and not is_whole)
