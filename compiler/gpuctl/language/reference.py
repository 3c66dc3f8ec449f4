"""What can be said about every field: its type in words, its default, its examples, and where it stands.

Derived from the models, and the data behind ``docs/reference.md``, ``gpuctl explain`` and the JSON Schemas. A place
in a document is described by a :class:`Form`, a field by an :class:`Entry`; :func:`look_up` finds entries by paths in
any spelling.
"""

from __future__ import annotations

import difflib
import json
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from pydantic.fields import FieldInfo

from gpuctl.language import fields
from gpuctl.language.fields import Block, Check, Partial, Scalar
from gpuctl.language.kinds import ALIASES, KINDS, model_of
from gpuctl.language.spelling import fold

ITEM, INVENTED = "[]", "NAME"
"""Steps of a path that are no key: an item of a list, and a name that the user invents."""

_UNBOUNDED = (-(2**31), 2**31 - 1)
_BARE = re.compile(r"[A-Za-z/][\w./:@ -]*(?<![: ])\Z|(?:\d+[dhms])+\Z|\d+[KMGTPE]i\Z", re.ASCII)
_NOT_TEXT = re.compile(r"(?i:true|false|yes|no|on|off|y|n|null)\Z|.*: |.* #")

Checks = tuple[Callable[..., Any], ...]


@dataclass(frozen=True, slots=True)
class Single:
    """A single value: how it is read, the checks of its text, its closed list of choices, its range."""

    scalar: Scalar
    checks: Checks = ()
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """What may stand at one place of a document; a union is more than one of a single value, a list and a mapping.

    A mapping is a ``block`` with known keys, the ``partial`` document of a kind, a mapping from invented ``key`` to
    ``value``, or ``free``: somebody else's schema.
    """

    single: Single | None = None
    item: Form | None = None
    block: type[Block] | None = None
    partial: str | None = None
    key: Single | None = None
    value: Form | None = None
    free: bool = False


@dataclass(frozen=True)
class Entry:
    """A field: the kind of document it is in, its path there in canonical spelling, and what the model says of it.

    ``default`` is None where there is none that a person could write. Two entries are about the same thing when they
    are equal but for ``kind``.
    """

    kind: str
    path: tuple[str, ...]
    form: Form
    required: bool
    default: Any
    description: str
    examples: tuple[Any, ...]

    @property
    def key(self) -> str:
        """The field's canonical key."""
        return self.path[-1]

    @property
    def dotted(self) -> str:
        """The path for people: ``storage.workdirs[].path``, ``nodes.NAME.gpu-type``."""
        return ".".join(self.path).replace(f".{ITEM}", ITEM)

    @property
    def topic(self) -> str:
        """The path as :func:`look_up` takes it and a shell leaves it alone: ``storage.workdirs.path``."""
        return ".".join(step for step in self.path if step != ITEM)

    @property
    def type_text(self) -> str:
        """The type in words."""
        return type_name(self.form)

    @property
    def default_text(self) -> str | None:
        """The default as one would write it; None where there is none."""
        return None if self.default is None else in_yaml(self.default, self.form)

    @property
    def summary(self) -> str:
        """The first sentence of the description."""
        return self.description.split(". ")[0].removesuffix(".") + "."

    @property
    def inner(self) -> type[Block] | None:
        """The block whose fields stand below this one, through lists and invented names."""
        return _step(self.form)[1]

    def same_as(self, other: Entry) -> bool:
        """Whether the two are one field that several kinds have."""
        return (self.path, self.form, self.required, self.description) == (
            other.path,
            other.form,
            other.required,
            other.description,
        )


@dataclass(frozen=True, slots=True)
class Match:
    """One field that a topic may mean, and the kinds that have it."""

    kinds: tuple[str, ...]
    entry: Entry


@dataclass(frozen=True, slots=True)
class TopicAnswer:
    """What a topic means: a kind, fields (several when it is ambiguous), or else what looks like it."""

    kind: str | None = None
    matches: tuple[Match, ...] = ()
    suggestions: tuple[str, ...] = ()


# Models to forms -----------------------------------------------------------------------------------------------------


def keys_of(model: type[Block]) -> Iterator[tuple[str, FieldInfo]]:
    """The canonical keys of a block with their fields, in the order of the model."""
    for name, info in model.model_fields.items():
        yield info.alias or name, info


@cache
def _field_form(model: type[Block], key: str) -> Form:
    info = dict(keys_of(model))[key]
    return _form(info.annotation, tuple(info.metadata))


def form_of(model: type[Block], key: str) -> Form:
    """What may stand at a field of a block."""
    return _field_form(model, key)


def _form(annotation: Any, metadata: tuple[Any, ...]) -> Form:
    for item in metadata:
        if isinstance(item, Partial):
            return Form(partial=item.kind)
    if Scalar.FREE in metadata:
        return Form(free=True)
    if any(isinstance(item, Scalar) for item in metadata):
        return Form(single=_single(metadata))
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:
        return _form(arguments[0], (*metadata, *_unpacked(arguments[1:])))
    if origin in (typing.Union, types.UnionType):
        options = [_form(option, metadata) for option in arguments if option is not type(None)]
        return _merged(options)
    if origin is Literal:
        return Form(single=Single(Scalar.TEXT, choices=tuple(str(choice) for choice in arguments)))
    if origin is list:
        return Form(item=_form(arguments[0], ()))
    if origin is dict:
        return Form(key=_form(arguments[0], ()).single, value=_form(arguments[1], ()))
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return Form(block=annotation)
    raise TypeError(f"no form for {annotation!r}")


def _unpacked(metadata: Iterable[Any]) -> Iterator[Any]:
    """Metadata of ``Annotated``, with what ``Field(ge=...)`` stands for in its place."""
    for item in metadata:
        if isinstance(item, FieldInfo):
            yield from item.metadata
        else:
            yield item


def _single(metadata: tuple[Any, ...]) -> Single:
    scalar = next(item for item in metadata if isinstance(item, Scalar))
    checks = tuple(item.func for item in metadata if isinstance(item, Check))
    lower = [item.ge for item in metadata if hasattr(item, "ge")]
    upper = [item.le for item in metadata if hasattr(item, "le")]
    return Single(scalar, checks, (), max(lower, default=None), min(upper, default=None))


def _merged(options: list[Form]) -> Form:
    """A union as one form: the options differ in the YAML node that they are written as."""
    merged = options[0]
    for option in options[1:]:
        merged = Form(
            option.single or merged.single,
            option.item or merged.item,
            option.block or merged.block,
            option.partial or merged.partial,
            option.key or merged.key,
            option.value or merged.value,
            option.free or merged.free,
        )
    return merged


# Types in words ------------------------------------------------------------------------------------------------------


def checks_of(alias: Any) -> Checks:
    """The checks that one of the types of :mod:`gpuctl.language.fields` makes; they identify the type."""
    return tuple(item.func for item in typing.get_args(alias) if isinstance(item, Check))


TEXT_TYPES: dict[Checks, str] = {
    checks_of(alias): name
    for alias, name in (
        (fields.Text, "text"),
        (fields.NonEmpty, "text that is not empty"),
        (fields.JobName, "DNS-1035 label"),
        (fields.DnsLabel, "DNS label"),
        (fields.ObjectName, "Kubernetes object name"),
        (fields.LabelKey, "label key"),
        (fields.LabelValue, "label value"),
        (fields.RequiredLabelValue, "label value that is not empty"),
        (fields.Domain, "DNS domain"),
        (fields.DataKey, "key of a Secret"),
        (fields.Server, "host name or address"),
        (fields.EnvName, "environment variable name"),
        (fields.PortName, "port name"),
        (fields.Quantity, "Kubernetes quantity"),
        (fields.PositiveQuantity, "Kubernetes quantity > 0"),
        (fields.Memory, "Kubernetes quantity >= 4Mi"),
        (fields.Share, "GPU memory or fraction of a card"),
        (fields.Duration, "duration"),
        (fields.PositiveDuration, "duration > 0"),
        (fields.AbsolutePath, "absolute path"),
        (fields.RelativePath, "relative path"),
        (fields.UrlPath, "URL path"),
        (fields.Image, "container image"),
    )
}

_QUANTITIES = tuple(
    checks_of(alias) for alias in (fields.Quantity, fields.PositiveQuantity, fields.Memory, fields.Share)
)


def type_name(form: Form) -> str:
    """A type in words: ``list of text``, ``whole number >= 0``, ``one of high, medium, low``."""
    names = []
    if form.single is not None:
        names.append(_single_name(form.single))
    if form.item is not None:
        names.append(f"list of {_plural(type_name(form.item))}")
    if form.block is not None:
        names.append("block")
    if form.partial is not None:
        names.append(f"partial {form.partial} document")
    if form.key is not None and form.value is not None:
        key, value = _plural(_single_name(form.key)), _plural(type_name(form.value))
        names.append(f"mapping of {key} to {value}")
    if form.free:
        names.append("partial PodSpec")
    return " or ".join(names)


def _single_name(single: Single) -> str:
    if single.choices:
        shown = ", ".join(choice or '""' for choice in single.choices)
        return f"one of {shown}" if len(single.choices) > 1 else f"the text {shown}"
    if single.scalar is Scalar.TEXT:
        return TEXT_TYPES[single.checks]
    if single.scalar is Scalar.BOOLEAN:
        return "true or false"
    noun = "whole number" if single.scalar is Scalar.INTEGER else "number"
    lower = None if single.minimum == _UNBOUNDED[0] else single.minimum
    upper = None if single.maximum == _UNBOUNDED[1] else single.maximum
    if lower is not None and upper is not None:
        return f"{noun} from {lower} to {upper}" if lower != upper else f"the number {lower}"
    if lower is not None:
        return f"{noun} >= {lower:g}"
    return noun if upper is None else f"{noun} <= {upper}"


def _plural(name: str) -> str:
    head, space, rest = name.partition(" that ")
    if head == "text" or not head[-1].isalpha() or " or " in head or head.endswith("s"):
        return name
    return f"{head}s{space}{rest.replace('is not', 'are not')}"


# Values in YAML ------------------------------------------------------------------------------------------------------


def in_yaml(value: Any, form: Form | None = None) -> str:
    """A value on one line, as a person would write it in a document.

    Text that another YAML reader would take for something else is quoted, but not the quantities of ``form``:
    everybody writes ``cpu: 8``.
    """
    if isinstance(value, dict):
        pairs = (f"{in_yaml(key)}: {in_yaml(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(in_yaml(item) for item in value) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    if form is not None and form.single is not None and form.single.checks in _QUANTITIES:
        return value
    return value if _BARE.match(value) and not _NOT_TEXT.match(value) else json.dumps(value, ensure_ascii=False)


def as_written(value: Any, form: Form) -> Any:
    """A default or an example as people write it: a quantity of digits is a number, ``cpu: 8``."""
    if form.single is not None and form.single.checks in _QUANTITIES and isinstance(value, str) and value.isdigit():
        return int(value)
    return value


def snippet(entry: Entry) -> list[str]:
    """The lines of a document that show a field's first example at its place; none where there is no example."""
    if not entry.examples:
        return []
    value: Any = entry.examples[0]
    form: Form | None = entry.form
    lines = _block_lines(value, form)
    inline = not isinstance(value, (dict, list)) or not value
    for position in range(len(entry.path) - 1, -1, -1):
        step = entry.path[position]
        if step == ITEM:
            lines = ["- " + lines[0], *("  " + line for line in lines[1:])]
        else:
            name = _example_name(entry.kind, entry.path[:position]) if step == INVENTED else step
            lines = [f"{name}: {lines[0]}"] if inline else [f"{name}:", *("  " + line for line in lines)]
        inline = False
    return lines


def _block_lines(value: Any, form: Form | None = None) -> list[str]:
    if isinstance(value, dict) and value:
        lines = []
        for key, item in value.items():
            below = _block_lines(item)
            if isinstance(item, (dict, list)) and item:
                lines += [f"{in_yaml(key)}:", *("  " + line for line in below)]
            else:
                lines.append(f"{in_yaml(key)}: {below[0]}")
        return lines
    if isinstance(value, list) and value:
        lines = []
        for item in value:
            first, *rest = _block_lines(item)
            lines += [f"- {first}", *("  " + line for line in rest)]
        return lines
    return [in_yaml(value, form)]


def _example_name(kind: str, path: tuple[str, ...]) -> str:
    """A name such as a user would invent at ``path``, from the example of the mapping."""
    for entry in entries(kind):
        if entry.path == path and entry.examples and isinstance(entry.examples[0], dict):
            return in_yaml(next(iter(entry.examples[0])))
    return INVENTED


# Entries -------------------------------------------------------------------------------------------------------------


@cache
def entries(kind: str) -> tuple[Entry, ...]:
    """Every field of a kind, each block's fields below it. A partial document's fields are those of its kind."""
    return tuple(_entries(kind, model_of(kind), ()))


def fields_of(kind: str, path: tuple[str, ...] = ()) -> list[Entry]:
    """The fields directly below the field at ``path``, or of the whole document."""
    return [
        entry
        for entry in entries(kind)
        if entry.path[: len(path)] == path
        and [step for step in entry.path[len(path) :] if step not in (ITEM, INVENTED)] == [entry.key]
        and len(entry.path) > len(path)
    ]


def _entries(kind: str, model: type[Block], path: tuple[str, ...]) -> Iterator[Entry]:
    # `kind` comes first, as everybody writes it; a subclass's fields come after those it inherits.
    for key, info in sorted(keys_of(model), key=lambda item: item[0] != "kind" or bool(path)):
        is_kind = not path and key == "kind"
        form = Form(single=Single(Scalar.TEXT, choices=names_of(kind))) if is_kind else form_of(model, key)
        # Some models have a default for `kind`; a document always needs one.
        required = info.is_required() or is_kind
        default = None if required or info.default_factory is not None else info.default
        examples = (kind,) if is_kind else tuple(info.examples or ())
        yield Entry(kind, (*path, key), form, required, default, info.description or "", examples)
        steps, block = _step(form)
        if block is not None:
            yield from _entries(kind, block, (*path, key, *steps))


def _step(form: Form) -> tuple[tuple[str, ...], type[Block] | None]:
    """The block below a field, and the steps to it."""
    if form.block is not None:
        return (), form.block
    for step, below in ((ITEM, form.item), (INVENTED, form.value)):
        if below is not None:
            steps, block = _step(below)
            if block is not None:
                return (step, *steps), block
    return (), None


# Looking up ----------------------------------------------------------------------------------------------------------


def look_up(topic: str) -> TopicAnswer:
    """What a path in any spelling means: from the kind down, or any end of a path (``resources.gpu``, ``gpu-type``)."""
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
    """The kind with this name or alias, in any case."""
    kind = ALIASES.get(fold(name), fold(name))
    return kind if kind in KINDS else None


def names_of(kind: str) -> tuple[str, ...]:
    """What a document of the kind may have as its ``kind``."""
    return (kind, *(alias for alias, meant in ALIASES.items() if meant == kind))


def _parts(topic: str) -> list[str]:
    """``environment.env[0].Name`` -> environment, env, name."""
    plain = re.sub(r"\[[^\]]*\]", "", topic.strip())
    return [fold(part.strip()) for part in plain.split(".") if part.strip()]


def _at(kind: str, parts: list[str]) -> Entry | None:
    """The field of a kind at exactly this path; of an invented name (``nodes.node-1``) the mapping that it is in."""
    for entry in entries(kind):
        if _ends(entry.path, parts, whole=True):
            return entry
    for entry in entries(kind):
        if entry.form.value is not None and _ends(entry.path, parts[:-1], whole=True):
            return entry
    return None


def _matches(parts: list[str]) -> tuple[Match, ...]:
    """The fields whose path ends in the parts, each once with all kinds that have it."""
    groups: list[list[Entry]] = []
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
    """Whether the path ends in the parts, or (``whole``) is them.

    Positions in lists and invented names may be left out.
    """
    if not parts:
        return not whole or not path
    if not path:
        return False
    before, step = path[:-1], path[-1]
    if step == ITEM:
        skipped = _ends(before, parts, whole=whole)
        return skipped or (parts[-1].isdigit() and _ends(before, parts[:-1], whole=whole))
    if step == INVENTED:
        skipped = _ends(before, parts, whole=whole)
        return skipped or (len(parts) > 1 and _ends(before, parts[:-1], whole=whole))
    return fold(step) == parts[-1] and _ends(before, parts[:-1], whole=whole)


def _similar(parts: list[str]) -> tuple[str, ...]:
    """Up to three topics that look like a misspelt one: with the kind in front where that was written."""
    with_kind = kind_called(parts[0]) is not None
    candidates: dict[str, str] = {}
    for kind in KINDS:
        candidates.setdefault(kind, kind)
        for entry in entries(kind):
            steps = [step for step in entry.path if step not in (ITEM, INVENTED)]
            options = [f"{kind}.{'.'.join(steps)}"]
            if not with_kind:
                options += [".".join(steps[start:]) for start in range(len(steps))]
            for option in options:
                candidates.setdefault(fold(option), option)
    found = difflib.get_close_matches(".".join(parts), candidates, n=3, cutoff=0.7)
    return tuple(candidates[word] for word in found)
