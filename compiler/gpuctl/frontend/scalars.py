"""Converts YAML scalars to the values of fields, and explains scalars that do not fit."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

from pydantic_core import PydanticCustomError

from gpuctl.frontend.diagnostics import FieldPath
from gpuctl.frontend.field_shapes import ModelShape, ScalarShape, Shape, UnionShape
from gpuctl.frontend.yaml_tree import YamlNode
from gpuctl.language.display_text import shorten
from gpuctl.language.fields import Scalar
from gpuctl.language.sentences import Sentence, say
from gpuctl.language.spelling import nearest, suggest_name
from gpuctl.language.value_forms import ValueForm, form_of, keys_of
from gpuctl.objects.quantities import suggest_quantity

BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
MISFIT = object()
"""Returned in place of a value that the field does not accept."""

_INTEGER = r"(?a)[-+]?[0-9]+\Z|0o[0-7]+\Z|0x[0-9a-fA-F]+\Z"
_FLOAT = r"(?a)[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z"
_LONGEST_NUMBER = 40
_COUNTED = r"(?a)(\d{1,9}) ?(?:[a-zA-Z]+|/[a-z]+|[\u4e00-\u9fff]+)\Z"
"""Matches a number with what it counts: ``8x``, ``8 cards``, ``8000/tcp``."""
_GPU_TYPE = r"[A-Za-z][A-Za-z-]*\d[\w-]*"
_GPUS = (
    rf"(?a)(?:gpu:)?(?P<type>{_GPU_TYPE})(?: ?[:x*] ?(?P<count>\d{{1,4}}))?\Z|gpu:(?P<alone>\d{{1,4}})\Z"
    rf"|(?P<first>\d{{1,4}}) ?[x*] ?(?P<second>{_GPU_TYPE})\Z"
)
"""Matches GPUs as other tools count them: ``A100:8``, ``gpu:8``, ``gpu:a100:8``, ``8xA100``."""
_PORT = r"(?a)\d+(?::\d+)?\Z"
"""Matches a port, and Docker's pair of ports: ``8000``, ``8000:80``."""
_EXAMPLES = {"port": "8000", "user": "1000", "group": "1000", "retries": "3"}
"""Part of a field's name -> an example of its number."""
_ACCESS_MODES = {
    "RWO": "ReadWriteOnce",
    "RWX": "ReadWriteMany",
    "ROX": "ReadOnlyMany",
    "RWOP": "ReadWriteOncePod",
}
"""Access modes of claims, as kubectl abbreviates them."""
_ONLY_FIELDS = {
    "checkpoint": "command: [python, save.py]",
    "emptyDir": "size: {}",
    "model": "name: {}",
    "notify": "failed: true",
    "placement": "clusters: [{}]",
    "pvc": "claim: {}",
}
"""Block -> the field that a single text in its place stands for."""
_LIKE_TRUE = frozenset({"yes", "on", "y", "1", "true"})
_LIKE_FALSE = frozenset({"no", "off", "n", "0", "false"})


def read_scalar(node: YamlNode, shape: ScalarShape) -> Any:
    """Return the value of a scalar node for a field of this shape, or :data:`MISFIT` (see :func:`explain`).

    Text is taken exactly as written. Numbers and booleans must not be quoted.
    """
    text: str = node.value
    scalar = shape.scalar
    if scalar is Scalar.TEXT:
        return text if not shape.choices or text in shape.choices else MISFIT
    if not node.plain:
        return MISFIT
    if scalar is Scalar.BOOLEAN:
        return BOOLEANS.get(text, MISFIT)
    if len(text) > _LONGEST_NUMBER:
        return MISFIT
    if text.isascii() and text.isdecimal():
        return int(text)
    if re.match(_INTEGER, text):
        return _integer(text)
    if scalar is Scalar.NUMBER and re.match(_FLOAT, text) and math.isfinite(float(text)):
        return float(text)
    return MISFIT


def explain(node: YamlNode, shape: ScalarShape, path: FieldPath, field: str) -> tuple[str, Sentence, Sentence]:
    """Return code, message and hint for a scalar that a field does not accept. ``field``: its name in messages."""
    if shape.scalar is Scalar.TEXT:
        return _choice_error(node, shape.choices, path, field)
    if shape.scalar is Scalar.BOOLEAN:
        low = node.value.lower()
        values = ["`true`"] if low in _LIKE_TRUE else ["`false`"] if low in _LIKE_FALSE else ["`true`", "`false`"]
        message = say("{field} is true or false, not `{value}`", field=field, value=shorten(node.value))
        return "GPU202", message, say("write {values:or}", values=values)
    return _number_error(node, path, field, whole=shape.scalar is Scalar.INTEGER)


def _choice_error(
    node: YamlNode, choices: tuple[str, ...], path: FieldPath, field: str
) -> tuple[str, Sentence, Sentence]:
    named = [choice for choice in choices if choice]
    spelled = _ACCESS_MODES.get(node.value.upper())
    close = spelled if spelled in named else nearest(node.value, named)
    several = len(named) > 1
    if close and several:
        hint = say("did you mean `{name}`? (one of {names})", name=close, names=named)
    else:
        known = say("write one of {names}", names=named) if several else say("write `{text}`", text=named[0])
        hint = suggest_name(close) or known
    code = "GPU104" if path == ("version",) else "GPU211"
    return code, say("`{value}` is not a value of {field}", value=shorten(node.value), field=field), hint


def _number_error(node: YamlNode, path: FieldPath, field: str, *, whole: bool) -> tuple[str, Sentence, Sentence]:
    text: str = node.value
    expected = say("a whole number") if whole else say("a number")
    bare = text.strip()
    field_name = str(path[-1]) if path else ""
    if not node.plain and re.match(_INTEGER if whole else _FLOAT, bare):
        message = say("{field} is {expected}, not text", field=field, expected=expected)
        return "GPU202", message, say("write {value} without quotes", value=bare)
    example = next((shown for part, shown in _EXAMPLES.items() if part in field_name.lower()), "8")
    example = example if whole else "12.5"
    hint = say("write {expected} such as {example}", expected=expected, example=example)
    if whole and re.match(_FLOAT, bare) and len(bare) < 20 and (float(bare).is_integer() or 1 < float(bare) < math.inf):
        hint = say("write {value}", value=int(float(bare)))
    elif re.match(r"(?a)\d{1,3}([,_]\d{3})+\Z", bare) and len(bare) < 20:
        hint = say("write {value}", value=int(bare.replace("_", "").replace(",", "")))
    elif re.match(r"(?a)\d+(, ?\d+)+\Z", bare) and field_name in ("gpu", "array"):
        hint = say("write the number of them: {value}", value=bare.count(",") + 1)
    elif (counted := re.match(_COUNTED, bare)) and suggest_quantity(bare) is None:
        hint = say("write {value}", value=int(counted[1]))
    elif bare.startswith("$"):
        hint = say(
            "write {expected} such as {example}; gpuctl reads no variables of the shell",
            expected=expected,
            example=example,
        )
    share = _share_of_a_card(bare) if path[-2:] == ("resources", "gpu") else None
    if path[-2:] == ("resources", "gpu") and (gpus := gpus_of(bare)) is not None:
        hint = say("write {text}", text=gpus)
    limits = re.match(r"(?a)(\d{1,4})(?:-|:|\.\.)(\d{1,4})\Z", bare) if path == ("resources", "nodes") else None
    if limits is not None and 0 < int(limits[1]) < int(limits[2]):
        written = f"{{min: {limits[1]}, max: {limits[2]}}}"
        hint = say("write `{text}` for an elastic training", text=written)
    ports = re.match(r"(?a)(\d{1,5}):(\d{1,5})\Z", bare) if path == ("service", "port") else None
    if ports is not None:
        hint = say("write `port: {port}` and `targetPort: {target}`", port=ports[1], target=ports[2])
    indexes = re.match(r"(?a)([01])-(\d{1,5})(?:%([1-9]\d{0,4}))?\Z", bare) if path == ("array",) else None
    if indexes is not None:
        size, most = int(indexes[2]) - int(indexes[1]) + 1, indexes[3]
        written = f"{{size: {size}, parallelism: {min(int(most), size)}}}" if most else str(size)
        hint = say("write `{text}`: the indexes begin with 0", text=written)
    if share is not None:
        hint = say("write `gpu: 1` and `gpu-share: {share}` for a part of a card", share=share)
    message = say("{field} is {expected}, not `{value}`", field=field, expected=expected, value=shorten(text))
    return "GPU202", message, hint


def gpus_of(text: str) -> Sentence | None:
    """Return the fields for GPUs as other tools write them, with their type or not; None for any other text."""
    match = re.match(_GPUS, text)
    if match is None:
        return None
    if match["alone"]:
        return Sentence(f"`gpu: {match['alone']}`")
    count = match["count"] or match["first"] or 1
    return say("`gpu: {count}` and `gpu-type: {name}`", count=count, name=match["type"] or match["second"])


def _share_of_a_card(text: str) -> str | None:
    """Return the share of a card meant by ``.5`` or ``50%``, which is ``0.5``; None for other text."""
    number = text.removesuffix("%")
    if re.match(_FLOAT, number) is None or len(number) > 8:
        return None
    share = float(number) / (100 if number != text else 1)
    return f"{share:g}" if 0 < share < 1 else None


def _integer(text: str) -> int:
    if text.startswith("0o"):
        return int(text[2:], 8)
    if text.startswith("0x"):
        return int(text[2:], 16)
    return int(text)


def as_mapping(text: str, path: FieldPath, shape: Shape | None) -> Sentence | None:
    """Return the hint for a mapping written as one text, as in other tools; None for any other field."""
    if path and _block(path) == "envFrom" and isinstance(path[-1], int) and text:
        return say("write `{{secret: {name}}}` or `{{configMap: {name}}}`", name=flow_text(text))
    written = mapping_of(text, path, shape)
    if written is not None and _is_port(text, path):
        return say("write `{text}`, with a name of your choice", text=written)
    return say("write `{text}`", text=written) if written is not None else None


def _is_port(text: str, path: FieldPath) -> bool:
    """Return True for a number or a pair of numbers in a list of ports, which lacks a name."""
    return _block(path) == "ports" and isinstance(path[-1], int) and re.match(_PORT, text) is not None


def mapping_of(text: str, path: FieldPath, shape: Shape | None) -> str | None:
    """Return the mapping that a single text stands for: by its form, or as the value of the first required field.

    :param shape: the shape of the mapping.
    """
    block = _block(path)
    in_list = bool(path) and isinstance(path[-1], int)
    variable = re.match(r"([A-Za-z_][\w.-]*)(?:=|: )(.*)\Z", text)
    if block == "env" and variable is not None:
        value = flow_text(variable[2])
        return f"{{name: {variable[1]}, value: {value}}}" if in_list else f"{{{variable[1]}: {value}}}"
    if block == "env" and in_list:
        return f"{{name: {flow_text(text)}, value: VALUE}}"
    if _is_port(text, path):
        port, _, target = text.partition(":")
        return f"{{name: port-{port}, port: {port}{target and f', targetPort: {target}'}}}"
    if path == ("job", "after") and (dependency := re.match(r"(?a)after(ok|any|notok):([a-z][\w-]*)\Z", text)):
        return f"{{{dependency[2]}: {dependency[1].replace('notok', 'failed')}}}"
    if block == "workdirs" and in_list and text:
        source, target, mode = [*map(flow_text, text.split(":")), "", ""][:3]
        mount = f", mountPath: {target}" if target.strip('"') not in ("", source) else ""
        mount += ", readOnly: true" if mode == "ro" else ""
        return f"{{path: {source}{mount}}}"
    if block == "nfs" and re.match(r"[^:/]+:/", text):
        server, _, directory = text.partition(":")
        return f"{{server: {server}, path: {flow_text(directory)}}}"
    if block == "emptyDir" and text in BOOLEANS:
        return "{}"
    if block in _ONLY_FIELDS and not in_list and text:
        return f"{{{_ONLY_FIELDS[block].format(flow_text(text))}}}"
    if block == "network" and text.lower() in ("host", "rdma", "infiniband"):
        return "{hostNetwork: true}" if text.lower() == "host" else "{rdma: true}"
    if path == ("code",) and text:
        is_remote = "://" in text or text.startswith("git@")
        return f"{{git: {flow_text(text)}, ref: COMMIT}}" if is_remote else f"{{local: {flow_text(text)}}}"
    if path == ("storage",) and text.startswith("/"):
        return f"{{workdirs: [{mapping_of(text, ('workdirs', 0), None)}]}}"
    first = first_required(shape)
    return f"{{{first.key}: {flow_text(text)}}}" if first is not None and _is_value(text, first.form) else None


class RequiredField(NamedTuple):
    """A field that a block must have, such as its name."""

    key: str
    form: ValueForm


def first_required(shape: Shape | None) -> RequiredField | None:
    """Return the first field that a block must have; None if the shape is not that of a block with one."""
    block = shape.mapping if isinstance(shape, UnionShape) else shape
    if not isinstance(block, ModelShape):
        return None
    required = (key for key, info in keys_of(block.model) if info.is_required())
    return next((RequiredField(key, form_of(block.model, key)) for key in required), None)


def _is_value(text: str, form: ValueForm) -> bool:
    """Return True if a text is valid for a field of text."""
    if form.single is None or form.single.scalar is not Scalar.TEXT or not text:
        return False
    try:
        for check in form.single.checks:
            check(text)
    except PydanticCustomError:
        return False
    return not form.single.choices or text in form.single.choices


def _block(path: FieldPath) -> str:
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def flow_text(text: str) -> str:
    """Return a text for use inside `{}`, quoted if YAML would not read it as text."""
    plain = re.match(r"(?a)[\w./][\w./-]*\Z", text) is not None
    return text if plain else json.dumps(text, ensure_ascii=False)
