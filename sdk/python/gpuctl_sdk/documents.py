"""Documents as text: YAML text is passed on, values are converted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

Documents = str | Mapping[str, Any] | Iterable[str | Mapping[str, Any]]
"""YAML with one or more documents, a document as a mapping, or several of either."""

_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that are valid in JSON, but must be escaped in YAML."""


def as_yaml(documents: Documents) -> str:
    """Return documents as one YAML text. Mappings become JSON, which is valid YAML."""
    if isinstance(documents, str):
        return documents
    if isinstance(documents, Mapping):
        text = json.dumps(documents, ensure_ascii=False, allow_nan=False)
        return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"
    return "---\n".join(_ended(as_yaml(document)) for document in documents)


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"
