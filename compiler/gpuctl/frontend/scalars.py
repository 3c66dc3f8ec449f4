"""Converts YAML scalars to the values of fields, and explains scalars that do not fit."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from gpuctl.frontend.diagnostics import FieldPath
from gpuctl.frontend.field_shapes import ScalarShape
from gpuctl.frontend.yaml_tree import YamlNode
from gpuctl.language.display_text import shorten
from gpuctl.language.fields import Scalar
from gpuctl.language.spelling import nearest

BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
MISFIT = object()
"""Returned in place of a value that the field does not accept."""

_INTEGER = r"(?a)[-+]?[0-9]+\Z|0o[0-7]+\Z|0x[0-9a-fA-F]+\Z"
_FLOAT = r"(?a)[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z"
_LONGEST_NUMBER = 40
_ACCESS_MODES = {
    "RWO": "ReadWriteOnce",
    "RWX": "ReadWriteMany",
    "ROX": "ReadOnlyMany",
    "RWOP": "ReadWriteOncePod",
}
"""Access modes of claims, as kubectl abbreviates them."""
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


def explain(node: YamlNode, shape: ScalarShape, path: FieldPath, field: str) -> tuple[str, str, str]:
    """Return code, message and hint for a scalar that a field does not accept. ``field``: its name in messages."""
    if shape.scalar is Scalar.TEXT:
        return _choice_error(node, shape.choices, path, field)
    if shape.scalar is Scalar.BOOLEAN:
        low = node.value.lower()
        values = "`true`" if low in _LIKE_TRUE else "`false`" if low in _LIKE_FALSE else "`true` or `false`"
        return "GPU202", f"{field} is true or false, not `{shorten(node.value)}`", f"write {values}"
    return _number_error(node, path, field, whole=shape.scalar is Scalar.INTEGER)


def _choice_error(node: YamlNode, choices: tuple[str, ...], path: FieldPath, field: str) -> tuple[str, str, str]:
    named = [choice for choice in choices if choice]
    spelled = _ACCESS_MODES.get(node.value.upper())
    close = spelled if spelled in named else nearest(node.value, named)
    listed = ", ".join(named)
    if close:
        hint = f"did you mean `{close}`?" + (f" (one of {listed})" if len(choices) > 1 else "")
    else:
        hint = f"write one of {listed}" if len(choices) > 1 else f"write `{listed}`"
    code = "GPU104" if path == ("version",) else "GPU211"
    return code, f"`{shorten(node.value)}` is not a value of {field}", hint


def _number_error(node: YamlNode, path: FieldPath, field: str, *, whole: bool) -> tuple[str, str, str]:
    text: str = node.value
    expected = "a whole number" if whole else "a number"
    bare = text.strip()
    if not node.plain and re.match(_INTEGER if whole else _FLOAT, bare):
        return "GPU202", f"{field} is {expected}, not text", f"write {bare} without quotes"
    hint = f"write {expected} such as 8" if whole else f"write {expected} such as 12.5"
    if whole and re.match(_FLOAT, bare) and len(bare) < 20 and math.isfinite(float(bare)):
        hint = f"write {int(float(bare))}"
    elif bare.replace("_", "").replace(",", "").isdecimal() and len(bare) < 20:
        hint = f"write {int(bare.replace('_', '').replace(',', ''))}"
    elif bare.startswith("$"):
        hint += "; gpuctl reads no variables of the shell"
    share = _share_of_a_card(bare) if path[-2:] == ("resources", "gpu") else None
    indexes = re.match(r"(?a)0-(\d{1,5})(?:%([1-9]\d{0,4}))?\Z", bare) if path == ("array",) else None
    if indexes is not None:
        size, most = int(indexes[1]) + 1, indexes[2]
        written = f"{{size: {size}, parallelism: {min(int(most), size)}}}" if most else str(size)
        hint = f"write `{written}`: the indexes begin with 0"
    if share is not None:
        hint = f"write `gpu: 1` and `gpu-share: {share}` for a part of a card"
    return "GPU202", f"{field} is {expected}, not `{shorten(text)}`", hint


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


def as_mapping(text: str, path: FieldPath) -> str | None:
    """Return the hint for a mapping written as one text, as in other tools; None for any other field."""
    block = next((part for part in reversed(path) if isinstance(part, str)), "")
    in_list = bool(path) and isinstance(path[-1], int)
    variable = re.match(r"([A-Za-z_][\w.-]*)=(.*)\Z", text)
    if block == "env" and variable is not None:
        value = _flow_text(variable[2])
        return f"write `{{name: {variable[1]}, value: {value}}}`" if in_list else f"write `{{{variable[1]}: {value}}}`"
    if block == "envFrom" and in_list and text:
        return f"write `{{secret: {_flow_text(text)}}}` or `{{configMap: {_flow_text(text)}}}`"
    if block == "ports" and in_list and text.isascii() and text.isdigit():
        return f"write `{{name: port-{text}, port: {text}}}`, with a name of your choice"
    if block == "workdirs" and in_list and text:
        source, target, mode = [*map(_flow_text, text.split(":")), "", ""][:3]
        mount = f", mountPath: {target}" if target.strip('"') not in ("", source) else ""
        return f"write `{{path: {source}{mount}{', readOnly: true' if mode == 'ro' else ''}}}`"
    if block == "nfs" and re.match(r"[^:/]+:/", text):
        server, _, directory = text.partition(":")
        return f"write `{{server: {server}, path: {_flow_text(directory)}}}`"
    if block in ("pvc", "emptyDir") and text:
        return f"write `{{{'claim' if block == 'pvc' else 'size'}: {_flow_text(text)}}}`"
    return None


def _flow_text(text: str) -> str:
    """Return a text for use inside `{}`, quoted if YAML would not read it as text."""
    plain = re.match(r"(?a)[\w./][\w./-]*\Z", text) is not None
    return text if plain else json.dumps(text, ensure_ascii=False)
