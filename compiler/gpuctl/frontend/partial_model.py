"""A model of a document that has mistakes, for the checks that do not rest on them: all mistakes in one run.

What is wrong is taken out, and stands in the model as a value that nobody can use: a check that looks at it ends
there, and says nothing that might follow from the mistake alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from pydantic import BaseModel, ValidationError

from gpuctl.frontend.diagnostics import Diagnostic, FieldPath
from gpuctl.frontend.field_shapes import ModelShape

_MOST_ROUNDS = 4
"""How often something more is taken out: rules between fields are looked at when the fields are right."""
_REQUIRED = {"job": {"name": "x"}, "environment": {"image": "x"}}


class UnknownFieldRead(Exception):
    """A check needs a value that is not known."""


class _Unknown:
    """A value that was given, and cannot be used. ``is None`` is all that may be asked of it."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise UnknownFieldRead

    __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = __getattr__ = __str__ = __format__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __hash__ = __int__ = __index__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __call__ = _refuse


_UNKNOWN = _Unknown()


def partial_model(shape: ModelShape, data: dict[str, Any], bad: Iterable[FieldPath]) -> BaseModel | None:
    """The model of what is right in the ``data`` of a job; None when there is too little.

    :param bad: the paths, in canonical spelling, of what was found to be wrong already.
    """
    unknown = {path for path in (_in_mappings(path) for path in bad) if path}
    data = _copy(data)
    for _ in range(_MOST_ROUNDS):
        for path in unknown:
            _take_out(data, path)
        for name, fields in _REQUIRED.items():
            block = data.setdefault(name, {})
            missing = fields.keys() - block.keys()
            unknown |= {(name, key) for key in missing}
            block.update((key, fields[key]) for key in missing)
        try:
            model = shape.model.model_validate(data)
        except ValidationError as error:
            found = set(_wrong_paths(error, data)) - unknown
            if not found:
                return None
            unknown |= found
            continue
        for path in unknown:
            _mark(model, path)
        return model
    return None


def until_unknown(checks: Iterable[Iterator[Diagnostic]]) -> Iterator[Diagnostic]:
    """What checks say before they come to a value that is not known."""
    for check in checks:
        try:
            yield from check
        except UnknownFieldRead:
            continue


def _in_mappings(path: FieldPath) -> FieldPath:
    """The path without what is inside a list: with an entry taken out, the places of the others would be wrong."""
    for index, part in enumerate(path):
        if isinstance(part, int):
            return path[:index]
    return path


def _copy(value: Any) -> Any:
    """The mappings copied; everything else is not changed here."""
    return {key: _copy(item) for key, item in value.items()} if isinstance(value, dict) else value


def _take_out(data: Any, path: FieldPath) -> None:
    for part in path[:-1]:
        data = data.get(part) if isinstance(data, dict) else None
    if isinstance(data, dict):
        data.pop(path[-1], None)


def _wrong_paths(error: ValidationError, data: dict[str, Any]) -> Iterator[FieldPath]:
    """Where pydantic finds something wrong: as deep as the data goes, without the names of union branches."""
    for item in error.errors(include_url=False, include_input=False):
        node: Any = data
        path: FieldPath = ()
        for part in (*item["loc"], *item.get("ctx", {}).get("path", ())):
            if isinstance(node, dict) and part in node:
                node, path = node[part], (*path, part)
            elif isinstance(part, int):
                break
        if path:
            yield path


def _mark(model: BaseModel, path: FieldPath) -> None:
    """Put the unknown value at a path, or at the nearest block around it that the model has."""
    at: Any = model
    for position, part in enumerate(path):
        name = next((name for name, info in type(at).model_fields.items() if (info.alias or name) == part), None)
        if name is None:
            return
        inner = at.__dict__.get(name)
        # Some releases of pydantic read an attribute of the instance in isinstance, which an unknown value refuses.
        if position + 1 == len(path) or inner is _UNKNOWN or not isinstance(inner, BaseModel):
            at.__dict__[name] = _UNKNOWN
            return
        at = inner
