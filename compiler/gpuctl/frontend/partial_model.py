"""Builds a partial model of a document with errors, so that other checks run too and all errors appear in one run.

Invalid values are removed and replaced in the model by a placeholder. A check that reads the placeholder ends there, so
that it reports nothing that only follows from the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from pydantic import BaseModel, ValidationError

from gpuctl.frontend.diagnostics import Diagnostic, FieldPath
from gpuctl.frontend.field_shapes import ModelShape
from gpuctl.frontend.model_errors import document_path

_MOST_ROUNDS = 4
"""Maximum number of validation rounds: rules between fields are checked only when the fields are valid."""
_REQUIRED = {"job": {"name": "x"}, "environment": {"image": "x"}}


class UnknownFieldRead(Exception):
    """A check needs a value that is not known."""


class _Unknown:
    """Placeholder for an invalid value. Every operation on it except ``is None`` raises :class:`UnknownFieldRead`."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise UnknownFieldRead

    __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = __getattr__ = __str__ = __format__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __hash__ = __int__ = __index__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __call__ = _refuse


_UNKNOWN = _Unknown()


def partial_model(shape: ModelShape, data: dict[str, Any], bad: Iterable[FieldPath]) -> BaseModel | None:
    """Return the model of the valid part of a job's ``data``; None if too little of it is valid.

    :param bad: canonical paths of the fields known to be invalid.
    """
    unknown = {path for path in (_up_to_list(path) for path in bad) if path}
    data = _copy(data)
    for _ in range(_MOST_ROUNDS):
        for path in unknown:
            _remove(data, path)
        for name, fields in _REQUIRED.items():
            block = data.setdefault(name, {})
            missing = fields.keys() - block.keys()
            unknown |= {(name, key) for key in missing}
            block.update((key, fields[key]) for key in missing)
        try:
            model = shape.model.model_validate(data)
        except ValidationError as error:
            paths = (
                document_path(data, (*item["loc"], *item.get("ctx", {}).get("path", ())))
                for item in error.errors(include_url=False, include_input=False)
            )
            found = {path for path in map(_up_to_list, paths) if path} - unknown
            if not found:
                return None
            unknown |= found
            continue
        for path in unknown:
            _set_unknown(model, path)
        return model
    return None


def until_unknown(checks: Iterable[Iterator[Diagnostic]]) -> Iterator[Diagnostic]:
    """Yield the diagnostics of the checks; each check ends when it reads an unknown value."""
    for check in checks:
        try:
            yield from check
        except UnknownFieldRead:
            continue


def _up_to_list(path: FieldPath) -> FieldPath:
    """Return the path up to its first list: removing one entry would change the indices of the others."""
    for index, part in enumerate(path):
        if isinstance(part, int):
            return path[:index]
    return path


def _copy(value: Any) -> Any:
    """Return a copy of nested mappings; other values are shared."""
    return {key: _copy(item) for key, item in value.items()} if isinstance(value, dict) else value


def _remove(data: Any, path: FieldPath) -> None:
    for part in path[:-1]:
        data = data.get(part) if isinstance(data, dict) else None
    if isinstance(data, dict):
        data.pop(path[-1], None)


def _set_unknown(model: BaseModel, path: FieldPath) -> None:
    """Set the placeholder at a path, or at the nearest enclosing block of the model."""
    at: Any = model
    for position, part in enumerate(path):
        name = next((name for name, info in type(at).model_fields.items() if (info.alias or name) == part), None)
        if name is None:
            return
        inner = at.__dict__.get(name)
        # Some releases of pydantic read an attribute of the instance in isinstance, which the placeholder does not
        # allow.
        if position + 1 == len(path) or inner is _UNKNOWN or not isinstance(inner, BaseModel):
            at.__dict__[name] = _UNKNOWN
            return
        at = inner
