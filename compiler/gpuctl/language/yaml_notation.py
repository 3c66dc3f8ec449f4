"""Values written in YAML as in a document."""

from __future__ import annotations

import json
import re
from typing import Any

from gpuctl.language.value_forms import QUANTITIES, ValueForm

_BARE = re.compile(r"[A-Za-z/][\w./:@ -]*(?<![: ])\Z|(?:\d+[dhms])+\Z|\d+[KMGTPE]i\Z", re.ASCII)
_NOT_TEXT = re.compile(r"(?i:true|false|yes|no|on|off|y|n|null)\Z|.*: |.* #")


def in_yaml(value: Any, form: ValueForm | None = None) -> str:
    """Return a value on one line of YAML, as written in a document.

    Text that another YAML reader would not read as text is quoted, except the quantities of ``form``: ``cpu: 8`` is the
    common notation.
    """
    if isinstance(value, dict):
        pairs = (f"{in_yaml(key)}: {in_yaml(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(in_yaml(item) for item in value) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    if form is not None and form.single is not None and form.single.checks in QUANTITIES:
        return value
    return value if _BARE.match(value) and not _NOT_TEXT.match(value) else json.dumps(value, ensure_ascii=False)


def as_written(value: Any, form: ValueForm) -> Any:
    """Return a default or an example in the usual notation: a quantity of digits is a number, ``cpu: 8``."""
    if form.single is not None and form.single.checks in QUANTITIES and isinstance(value, str) and value.isdigit():
        return int(value)
    return value


def block_lines(value: Any, form: ValueForm | None = None) -> list[str]:
    if isinstance(value, dict) and value:
        lines = []
        for key, item in value.items():
            below = block_lines(item)
            if isinstance(item, (dict, list)) and item:
                lines += [f"{in_yaml(key)}:", *("  " + line for line in below)]
            else:
                lines.append(f"{in_yaml(key)}: {below[0]}")
        return lines
    if isinstance(value, list) and value:
        lines = []
        for item in value:
            first, *rest = block_lines(item)
            lines += [f"- {first}", *("  " + line for line in rest)]
        return lines
    return [in_yaml(value, form)]
