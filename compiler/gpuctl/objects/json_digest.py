"""Digests of JSON values, for names and annotations of objects."""

from __future__ import annotations

import hashlib
import json
from typing import Any

_TEXT = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode


def json_digest(value: Any) -> str:
    """Return 32 hexadecimal digits that depend on a value alone, not on the order of its keys.

    Clusters and repositories contain them, so that every version of gpuctl must return the same ones.
    """
    return hashlib.sha256(_TEXT(value).encode("utf-8", "surrogatepass")).hexdigest()[:32]
