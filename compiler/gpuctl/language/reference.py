"""Describes every field: its type in words, its default, its examples, and its path.

Derived from the models. It is the source of ``docs/reference.md``, ``gpuctl explain`` and the JSON Schemas. A field is
described by a :class:`FieldEntry`; :func:`look_up` finds entries by paths in any spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpuctl.language.fields import Block, Scalar
from gpuctl.language.kinds import ALIASES, KINDS, model_of
from gpuctl.language.spelling import fold, similar
from gpuctl.language.value_forms import SingleValue, ValueForm, form_of, keys_of, type_name
from gpuctl.language.yaml_notation import block_lines, in_yaml

ITEM, USER_KEY = "[]", "NAME"
"""Path steps that are not keys: an item of a list, and a name that the user chooses."""


def dotted_path(path: Sequence[str]) -> str:
    """Return the path of a field as text: ``storage.workdirs[].path``, ``nodes.NAME.gpu-type``."""
    return ".".join(path).replace(f".{ITEM}", ITEM)


def description_of(model: type[Block]) -> str:
    """Return the docstring of a block on one line: before Python 3.13 its lines are indented."""
    return " ".join((model.__doc__ or "").split())


@dataclass(frozen=True)
class FieldEntry:
    """A field: the kind of its document, its canonical path, and its description in the model.

    ``default`` is None if the field has no default that can be written down. Two entries that differ only in ``kind``
    describe the same field.
    """

    kind: str
    path: tuple[str, ...]
    form: ValueForm
    required: bool
    default: Any
    description: str
    examples: tuple[Any, ...]

    @property
    def key(self) -> str:
        return self.path[-1]

    @property
    def dotted(self) -> str:
        """The path as text."""
        return dotted_path(self.path)

    @property
    def topic(self) -> str:
        """The path as :func:`look_up` takes it, without characters special to a shell: ``storage.workdirs.path``."""
        return ".".join(step for step in self.path if step != ITEM)

    @property
    def type_text(self) -> str:
        return type_name(self.form)

    @property
    def default_text(self) -> str | None:
        """The default as written in a document; None without a default."""
        return None if self.default is None else in_yaml(self.default, self.form)

    @property
    def inner(self) -> type[Block] | None:
        """The block below this field, through lists and user-chosen names, or None."""
        return _step(self.form)[1]

    def same_as(self, other: FieldEntry) -> bool:
        """Return True if both are the same field in different kinds."""
        return (self.path, self.form, self.required, self.description) == (
            other.path,
            other.form,
            other.required,
            other.description,
        )


@dataclass(frozen=True, slots=True)
class Match:
    """A field that a topic may mean, and the kinds that have it."""

    kinds: tuple[str, ...]
    entry: FieldEntry


@dataclass(frozen=True, slots=True)
class TopicAnswer:
    """The meaning of a topic: a kind, or fields (several if it is ambiguous), or else similar topics."""

    kind: str | None = None
    matches: tuple[Match, ...] = ()
    suggestions: tuple[str, ...] = ()


def first_sentence(text: str) -> str:
    """Return the first sentence of an English or Chinese text."""
    return re.split(r"(?<=。)|(?<=\.) ", text, maxsplit=1)[0]


def snippet(entry: FieldEntry) -> list[str]:
    """Return the lines of a document with a field's first example at its place; empty without an example."""
    if not entry.examples:
        return []
    value: Any = entry.examples[0]
    form: ValueForm | None = entry.form
    lines = block_lines(value, form)
    inline = not isinstance(value, (dict, list)) or not value
    for position in range(len(entry.path) - 1, -1, -1):
        step = entry.path[position]
        if step == ITEM:
            lines = ["- " + lines[0], *("  " + line for line in lines[1:])]
        else:
            name = _example_name(entry.kind, entry.path[:position]) if step == USER_KEY else step
            lines = [f"{name}: {lines[0]}"] if inline else [f"{name}:", *("  " + line for line in lines)]
        inline = False
    return lines


def _example_name(kind: str, path: tuple[str, ...]) -> str:
    """Return an example of a user-chosen name at ``path``, from the example of the mapping."""
    for entry in entries(kind):
        if entry.path == path and entry.examples and isinstance(entry.examples[0], dict):
            return in_yaml(next(iter(entry.examples[0])))
    return USER_KEY


@cache
def entries(kind: str) -> tuple[FieldEntry, ...]:
    """Return every field of a kind, each followed by those of its block. A partial document's fields are those of its
    kind.
    """
    return tuple(_entries(kind, model_of(kind), ()))


def fields_of(kind: str, path: tuple[str, ...] = ()) -> list[FieldEntry]:
    """Return the fields directly below the field at ``path``, or of the whole document."""
    return [
        entry
        for entry in entries(kind)
        if entry.path[: len(path)] == path
        and [step for step in entry.path[len(path) :] if step not in (ITEM, USER_KEY)] == [entry.key]
        and len(entry.path) > len(path)
    ]


def _entries(kind: str, model: type[Block], path: tuple[str, ...]) -> Iterator[FieldEntry]:
    # `kind` comes first, as in documents; a subclass's fields follow the inherited ones.
    for key, info in sorted(keys_of(model), key=lambda item: item[0] != "kind" or bool(path)):
        is_kind = not path and key == "kind"
        form = ValueForm(single=SingleValue(Scalar.TEXT, choices=names_of(kind))) if is_kind else form_of(model, key)
        # Some models have a default for `kind`; a document always needs it.
        required = info.is_required() or is_kind
        default = None if required or info.default_factory is not None else info.default
        examples = (kind,) if is_kind else tuple(info.examples or ())
        yield FieldEntry(kind, (*path, key), form, required, default, info.description or "", examples)
        steps, block = _step(form)
        if block is not None:
            yield from _entries(kind, block, (*path, key, *steps))


def _step(form: ValueForm) -> tuple[tuple[str, ...], type[Block] | None]:
    """Return the path steps to the block below a field, and the block or None."""
    if form.block is not None:
        return (), form.block
    for step, below in ((ITEM, form.item), (USER_KEY, form.value)):
        if below is not None:
            steps, block = _step(below)
            if block is not None:
                return (step, *steps), block
    return (), None


def look_up(topic: str) -> TopicAnswer:
    """Look up a path in any spelling: from the kind down, or any end of a path (``resources.gpu``, ``gpu-type``)."""
    parts = _parts(topic)
    if not parts:
        return TopicAnswer()
    if parts[:2] == ["platform", "defaults"] and len(parts) > 3:
        parts = parts[2:]
    elif parts[0] == "defaults" and len(parts) > 2:
        parts = parts[1:]
    kind = kind_called(parts[0])
    if kind is not None and len(parts) == 1:
        return TopicAnswer(kind, _matches([kind]))
    if kind is not None:
        entry = _at(kind, parts[1:])
        if entry is not None:
            return TopicAnswer(matches=(Match((kind,), entry),))
    found = _matches(parts)
    return TopicAnswer(matches=found) if found else TopicAnswer(suggestions=_similar(parts))


def kind_called(name: str) -> str | None:
    """Return the kind with this name or alias, in any case, or None."""
    kind = ALIASES.get(fold(name), fold(name))
    return kind if kind in KINDS else None


def names_of(kind: str) -> tuple[str, ...]:
    """Return the allowed values of ``kind`` for a kind: its name and aliases."""
    return (kind, *(alias for alias, meant in ALIASES.items() if meant == kind))


def _parts(topic: str) -> list[str]:
    """Return the folded keys of a topic: ``environment.env[0].Name`` -> environment, env, name."""
    plain = re.sub(r"\[[^\]]*\]", "", topic.strip())
    return [fold(part.strip()) for part in plain.split(".") if part.strip()]


def _at(kind: str, parts: list[str]) -> FieldEntry | None:
    """Return the field at this path; for a user-chosen name (``nodes.node-1``) the mapping that contains it."""
    for entry in entries(kind):
        if _ends(entry.path, parts, whole=True):
            return entry
    for entry in entries(kind):
        if entry.form.value is not None and _ends(entry.path, parts[:-1], whole=True):
            return entry
    return None


def _matches(parts: list[str]) -> tuple[Match, ...]:
    """Return the fields whose path ends in the parts, each once with all kinds that have it."""
    groups: list[list[FieldEntry]] = []
    for kind in KINDS:
        for entry in entries(kind):
            if not _ends(entry.path, parts):
                continue
            group = next((group for group in groups if group[0].same_as(entry)), None)
            if group is None:
                groups.append([entry])
            else:
                group.append(entry)
    return tuple(Match(tuple(entry.kind for entry in group), group[0]) for group in groups)


def _ends(path: tuple[str, ...], parts: list[str], *, whole: bool = False) -> bool:
    """Return True if the path ends in the parts, or equals them if ``whole``.

    Positions in lists and user-chosen names may be omitted.
    """
    if not parts:
        return not whole or not path
    if not path:
        return False
    before, step = path[:-1], path[-1]
    if step == ITEM:
        skipped = _ends(before, parts, whole=whole)
        return skipped or (parts[-1].isdigit() and _ends(before, parts[:-1], whole=whole))
    if step == USER_KEY:
        skipped = _ends(before, parts, whole=whole)
        return skipped or (len(parts) > 1 and _ends(before, parts[:-1], whole=whole))
    return fold(step) == parts[-1] and _ends(before, parts[:-1], whole=whole)


def _similar(parts: list[str]) -> tuple[str, ...]:
    """Return up to three topics similar to a misspelt one, with the kind if the topic starts with one."""
    with_kind = kind_called(parts[0]) is not None
    candidates: dict[str, None] = {}
    for kind in KINDS:
        candidates.setdefault(kind)
        for entry in entries(kind):
            steps = [step for step in entry.path if step not in (ITEM, USER_KEY)]
            options = [f"{kind}.{'.'.join(steps)}"]
            if not with_kind:
                options += [".".join(steps[start:]) for start in range(len(steps))]
            for option in options:
                candidates.setdefault(option)
    return tuple(similar(".".join(parts), candidates))[:3]
