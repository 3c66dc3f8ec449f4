"""The generated part of the Python SDK: ``models.py``, and the operations of both clients."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from pydantic.alias_generators import to_camel
from rest_api import TEXTS, Api, Field, Model, Operation, Shape

TARGET = Path("sdk/python/gpuctl_sdk")
_HEAD = '# Written by tools/sdk.py from schemas/rest/openapi.json: `make schemas`.\n"""{text}"""\n\n'
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "any": "Any"}
_IMPORTS = """\
from __future__ import annotations

from typing import Any

from pydantic import Field

from gpuctl_sdk.answer import Answer

"""
_OPERATIONS = """\
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from gpuctl_sdk import models
from gpuctl_sdk.calls import Call, given, idempotency, segment
from gpuctl_sdk.documents import Documents, as_yaml

"""


def python_files(api: Api) -> dict[Path, str]:
    """Return the content of each file by path."""
    return {TARGET / "models.py": _models(api), TARGET / "operations.py": _operations(api)}


def _models(api: Api) -> str:
    parts = [
        _HEAD.format(text="Response models. Unknown fields are ignored, and nullable ones may be absent."),
        _IMPORTS,
    ]
    parts += [_class(model) for model in api.models]
    # A field may refer to a model defined below it.
    parts += ["\n", *(f"{model.name}.model_rebuild()\n" for model in api.models)]
    return "".join(parts)


def _class(model: Model) -> str:
    lines = [f"\nclass {model.name}(Answer):", _docstring(model.text or model.name, 4)]
    if model.fields:
        lines.append("")
    for field in model.fields:
        lines += _field(field)
    return "\n".join(lines) + "\n\n"


def _field(field: Field) -> Iterator[str]:
    kind = type_of(field.shape, "")
    default = ""
    # A service of the previous minor version does not send new fields, which are nullable.
    if not field.required or field.shape.nullable:
        default = {"array": " = Field(default_factory=list)", "map": " = Field(default_factory=dict)"}.get(
            field.shape.form if not field.shape.nullable else "", " = None"
        )
        if default == " = None" and not kind.endswith("| None"):
            kind += " | None"
    alias = f'alias="{field.name}"'
    if to_camel(snake(field.name)) != field.name:
        given = "default=None, " if default == " = None" else ""
        default = f"{default[:-1]}, {alias})" if default.endswith(")") else f" = Field({given}{alias})"
    yield f"    {snake(field.name)}: {kind}{default}"
    if field.text:
        yield _docstring(field.text, 4)


def type_of(shape: Shape, module: str = "models.") -> str:
    """Return a type in Python."""
    if shape.form == "model":
        found = module + shape.name
    elif shape.form == "union":
        found = " | ".join(type_of(option, module) for option in shape.options)
    elif shape.of is not None:
        item = type_of(shape.of, module)
        found = f"list[{item}]" if shape.form == "array" else f"dict[str, {item}]"
    else:
        found = _SCALARS[shape.form]
    return f"{found} | None" if shape.nullable and found != "Any" else found


def _operations(api: Api) -> str:
    parts = [_HEAD.format(text="The operations of the API, as methods."), _OPERATIONS]
    for is_async in (False, True):
        parts.append(_mixin(is_async))
        for operation in api.operations:
            parts.append(_method(operation, is_async=is_async))
            if operation.pages is not None:
                parts.append(_iterator(operation, operation.pages, is_async=is_async))
        parts.append("\n")
    return "".join(parts)


def _mixin(is_async: bool) -> str:
    prefix, word = ("Async", "async ") if is_async else ("", "")
    return f'''
class {prefix}Operations(ABC):
    """Every operation of the API.

    A job is named by its jobId, its name, or the name of one of its pods. Documents are YAML text or mappings, one or
    several. All methods raise :class:`~gpuctl_sdk.errors.ServiceError` for an error response, and
    :class:`~gpuctl_sdk.errors.Unreachable` if there is no response.
    """

    @abstractmethod
    {word}def send(self, call: Call) -> Any:
        """Send a request and return its response, of the type ``call.answer``."""

'''


def _method(operation: Operation, *, is_async: bool) -> str:
    name, answer = snake(operation.name), type_of(operation.answer)
    word, wait = ("async ", "await ") if is_async else ("", "")
    lines = [f"    {word}def {name}({', '.join(_arguments(operation))}) -> {answer}:"]
    lines.append(_docstring(f"See :meth:`Operations.{name}`." if is_async else _described(operation), 8))
    lines.append(f"        found: {answer} = {wait}self.send(Call({', '.join(_sent(operation))}))")
    lines.append("        return found")
    return "\n".join(lines) + "\n\n"


def _iterator(operation: Operation, item: Shape, *, is_async: bool) -> str:
    """Return the method that iterates over all items of all pages."""
    name = snake(operation.name)
    below = name.partition("_")[2]
    word, wait, kind = ("async ", "await ", "AsyncIterator") if is_async else ("", "", "Iterator")
    given = [field for field in operation.in_query if field.name not in ("page", "pageSize")]
    passed = [f"{snake(field.name)}={snake(field.name)}" for field in (*operation.in_path, *given)]
    head = _arguments(operation, leave_out=("page", "pageSize"), more=["page_size: int = 500"])
    items = (
        "            for item in found.items:\n                yield item"
        if is_async
        else "            yield from found.items"
    )
    passing = ", ".join([*passed, "page=number", "page_size=page_size"])
    text = (
        f"See :meth:`Operations.all_{below}`."
        if is_async
        else f"Iterate over the items of all pages of :meth:`{name}`, which are requested on demand.\n\n"
        "Items that are added or removed during the iteration can shift the pages."
    )
    return f"""\
    {word}def all_{below}({", ".join(head)}) -> {kind}[{type_of(item)}]:
{_docstring(text, 8)}
        number, seen = 1, 0
        while True:
            found = {wait}self.{name}({passing})
{items}
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

"""


def _arguments(operation: Operation, leave_out: tuple[str, ...] = (), more: list[str] | None = None) -> list[str]:
    body = operation.body.fields if operation.body else ()
    first = [f"{snake(field.name)}: {_parameter_type(field)}" for field in operation.in_path]
    first += [_documents(field) for field in body if field.name in TEXTS]
    named = [field for field in body if field.name not in TEXTS]
    in_body = {field.name for field in body}
    named += [field for field in operation.in_query if field.name not in (*in_body, *leave_out)]
    must = [f"{snake(field.name)}: {_parameter_type(field)}" for field in named if field.required]
    may = [f"{snake(field.name)}: {_optional(_parameter_type(field))} = None" for field in named if not field.required]
    keys = ["idempotency_key: str | None = None"] if operation.has_key else []
    rest = [*must, *may, *keys, *(more or [])]
    return ["self", *first, *(["*", *rest] if rest else [])]


def _documents(field: Field) -> str:
    return "documents: Documents" if field.name == TEXTS[0] else "documents: Sequence[Documents]"


def _parameter_type(field: Field) -> str:
    # A part of a body is passed as in JSON.
    kind = re.sub(r"models\.\w+", "Mapping[str, Any]", type_of(field.shape))
    return kind.replace("list[", "Sequence[")


def _optional(kind: str) -> str:
    return kind if kind.endswith("| None") else f"{kind} | None"


def _sent(operation: Operation) -> Iterator[str]:
    yield f'"{operation.method}"'
    path = re.sub(r"\{(\w+)\}", lambda match: f"{{segment({snake(match[1])})}}", operation.path)
    yield f'f"{path}"' if "{" in path else f'"{path}"'
    yield type_of(operation.answer)
    body = operation.body.fields if operation.body else ()
    in_body = {field.name for field in body}
    query = [field for field in operation.in_query if field.name not in in_body]
    if query:
        yield f"query={_given(query)}"
    if body:
        yield f"body={_given(body)}"
    if operation.has_key:
        yield "headers=idempotency(idempotency_key)"
    if not operation.idempotent:
        yield "repeatable=False"
    if operation.waits:
        yield "waits=True"


def _given(fields: list[Field] | tuple[Field, ...]) -> str:
    return "given({" + ", ".join(f'"{field.name}": {_value(field)}' for field in fields) + "})"


def _value(field: Field) -> str:
    if field.name == TEXTS[0]:
        return "as_yaml(documents)"
    if field.name == TEXTS[1]:
        return "[as_yaml(entry) for entry in documents]"
    name = snake(field.name)
    if field.shape.form != "array":
        return name
    return f"list({name})" if field.required else f"None if {name} is None else list({name})"


def _described(operation: Operation) -> str:
    body = operation.body.fields if operation.body else ()
    fields = [field for field in body if field.name not in TEXTS]
    known = {field.name for field in fields}
    fields += [field for field in operation.in_query if field.name not in known]
    lines = [operation.text]
    told = [
        f":param {snake(field.name)}: {_clean(field.text)}" for field in (*operation.in_path, *fields) if field.text
    ]
    if operation.has_key:
        told.append(":param idempotency_key: Key of this request; default: a random one, so that it can be retried.")
    return "\n".join([*lines, *(["", *told] if told else [])])


def _clean(text: str) -> str:
    return text.replace("\\", "\\\\")


def _docstring(text: str, indent: int) -> str:
    blank = " " * indent
    lines: list[str] = []
    for line in text.split("\n"):
        lines += textwrap.wrap(line, 116 - indent, subsequent_indent="    " if line.startswith(":") else "") or [""]
    if len(lines) == 1 and len(lines[0]) <= 110 - indent:
        return f'{blank}"""{lines[0]}"""'
    body = "\n".join(f"{blank}{line}".rstrip() for line in lines)
    return f'{blank}"""{body.lstrip()}\n{blank}"""'


def snake(name: str) -> str:
    """Return a JSON name as a Python name."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
