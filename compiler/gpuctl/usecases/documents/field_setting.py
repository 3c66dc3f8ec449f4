"""`set`: change fields of documents in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuctl.compilation import compile
from gpuctl.frontend.binder import kind_of
from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Severity, format_path
from gpuctl.frontend.document_edits import CannotSet, with_field, without_field
from gpuctl.frontend.field_assignments import Assignment, parse_assignments, plain_data
from gpuctl.frontend.field_shapes import kind_shape
from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.frontend.source import Source
from gpuctl.frontend.spans import value_at
from gpuctl.frontend.variants import fields_replaced
from gpuctl.frontend.yaml_reader import read
from gpuctl.frontend.yaml_tree import MAPPING, SCALAR, SEQUENCE, RawDocument, YamlNode
from gpuctl.gitops.value_change import ValueChange
from gpuctl.gitops.value_comparison import value_changes
from gpuctl.language.display_text import first_few
from gpuctl.language.images import split_reference
from gpuctl.language.kinds import ALIASES, KINDS, WORKLOADS
from gpuctl.usecases.documents.change_options import InvalidOptions

_ARGUMENTS = "PATH=VALUE"
_NAMED = 8


class FieldsSet(NamedTuple):
    """The text of a file with the new values, and the fields that differ, each with the name of its document.

    ``removed``: those that the new values exclude.
    """

    text: str
    changes: list[tuple[str, ValueChange]]
    removed: list[tuple[str, str]]


class _Target(NamedTuple):
    """A document of the file. ``place``: its number in the file."""

    place: int
    kind: str
    name: str
    raw: RawDocument

    @property
    def root(self) -> YamlNode:
        return self.raw.root

    @property
    def shown_name(self) -> str:
        return self.name or self.kind


def set_fields(source: Source, texts: Sequence[str], images: Sequence[str], job: str | None) -> FieldsSet:
    """Return a file's text with fields changed. Nothing is written.

    :param texts: ``PATH=VALUE``, or ``NAME:PATH=VALUE`` for one of several documents.
    :param images: ``NAME=REF``: use this image wherever one is called NAME, without tag and digest.
    :param job: name of the document to change, if there are several.
    :raises InvalidOptions: a text does not name a field, a document or an image of the file.
    :raises InvalidDocuments: the file is not valid, or would not be.
    """
    targets = _targets(source)
    text, removed = _edited(source, _assignments(targets, texts, images, job))
    changed = source._replace(text=text)
    directory = Path(source.path).parent if source.path is not None else None
    result = compile(changed, directory=directory)
    if not result.ok:
        errors = [item for item in result.diagnostics if item.severity is Severity.ERROR]
        raise InvalidDocuments(errors, {**result.sources, source.name: changed})
    after = _targets(changed)
    changes = [found for old, new in zip(targets, after, strict=True) for found in _changes(old, new)]
    return FieldsSet(text, changes, removed)


def edited_text(source: Source, texts: Sequence[str]) -> str:
    """Return a file's text as :func:`set_fields` does, without a check of the values."""
    return _edited(source, _assignments(_targets(source), texts, (), None))[0]


def _edited(source: Source, assignments: Iterable[tuple[_Target, Assignment]]) -> tuple[str, list[tuple[str, str]]]:
    """Return a file's text with the new values, and the fields removed from it, each with the name of its document.

    A field that a new value excludes is removed, as for options and profiles.
    """
    text, removed = source.text, []
    given: dict[int, list[Assignment]] = {}
    try:
        for target, item in assignments:
            text = with_field(source._replace(text=text), target.place, kind_shape(target.kind), item)
            given.setdefault(target.place, []).append(item)
        for target in _targets(source._replace(text=text)):
            for path in fields_replaced(target.raw, target.kind, given.get(target.place, ())):
                text = without_field(source._replace(text=text), target.place, path)
                removed.append((target.shown_name, format_path(path)))
    except CannotSet as error:
        raise InvalidOptions(f"{error}: {error.hint}") from None
    return text, removed


def _changes(old: _Target, new: _Target) -> Iterator[tuple[str, ValueChange]]:
    for change in value_changes(plain_data(old.root), plain_data(new.root)):
        yield old.shown_name, change


def _targets(source: Source) -> list[_Target]:
    """Return gpuctl's documents in a file.

    :raises InvalidDocuments: the file is not YAML.
    """
    diagnostics: list[Diagnostic] = []
    raws = list(read(source, diagnostics))
    if any(item.severity is Severity.ERROR for item in diagnostics):
        raise InvalidDocuments(diagnostics, {source.name: source})
    return [found for place, raw in enumerate(raws) if (found := _target(place, raw)) is not None]


def _target(place: int, raw: RawDocument) -> _Target | None:
    text = kind_of(raw.root)[1] or ""
    kind = ALIASES.get(text, text)
    if kind not in KINDS:
        return None
    name = value_at(raw.root, ("job" if kind in WORKLOADS else kind, "name"))
    return _Target(place, kind, str(name.value) if name is not None and name.kind == SCALAR else "", raw)


def _assignments(
    targets: list[_Target], texts: Sequence[str], images: Sequence[str], job: str | None
) -> Iterator[tuple[_Target, Assignment]]:
    for item in _parsed(texts):
        yield _chosen(targets, item.job or job, item), item
    for text in images:
        name, _, reference = text.partition("=")
        if not name or not reference:
            raise InvalidOptions(f"`--image {text}` is not NAME=REF: write `--image train=registry/train:v2`")
        places = [
            (target, path) for target in targets if job in (None, target.name) for path in _images(target.root, name)
        ]
        if not places:
            raise InvalidOptions(f"there is no image called `{name}`: name it as it is written, without its tag")
        for target, path in places:
            (item,) = _parsed([f"{_written(path)}={reference}"])
            yield target, item


def _parsed(texts: Sequence[str]) -> list[Assignment]:
    """Parse assignments.

    :raises InvalidOptions: one is invalid.
    """
    parsed = parse_assignments(_ARGUMENTS, tuple(texts))
    for error in parsed.diagnostics:
        raise InvalidOptions(f"{error.message}: {error.hint}" if error.hint else error.message)
    return parsed.items


def _chosen(targets: list[_Target], name: str | None, item: Assignment) -> _Target:
    """Return the document to change.

    :raises InvalidOptions: no document has this name, or several may be meant.
    """
    jobs = [target for target in targets if target.kind in WORKLOADS]
    among = [target for target in targets if name == target.name] if name is not None else jobs or targets
    if len(among) == 1:
        return among[0]
    names = first_few([target.shown_name for target in targets], _NAMED)
    if name is None:
        raise InvalidOptions(f"`{format_path(item.path)}`: add `--job NAME`; the file has {names or 'no document'}")
    count = f"{len(among)} documents are" if among else "no document is"
    raise InvalidOptions(f"{count} called `{name}`; the file has {names or 'no document'}")


def _images(node: YamlNode, name: str, path: FieldPath = ()) -> Iterator[FieldPath]:
    """Yield the paths of images with a name: all of it, or its last parts."""
    if node.kind == MAPPING:
        for key, value in node.value:
            yield from _images(value, name, (*path, key.value))
    elif node.kind == SEQUENCE:
        for index, item in enumerate(node.value):
            yield from _images(item, name, (*path, index))
    elif path[-1:] == ("image",) and f"/{split_reference(node.value)[0]}".endswith(f"/{name}"):
        yield path


def _written(path: FieldPath) -> str:
    """Return a path as an assignment takes it."""
    return format_path(tuple(f'"{step}"' if isinstance(step, str) and "." in step else step for step in path))
