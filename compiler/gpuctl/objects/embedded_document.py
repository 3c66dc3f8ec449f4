"""The document in an object's annotation: writes its text, plain or compressed, and reads it back.

Anyone who may write objects in a namespace can write this annotation, so a reader limits the unpacked size.
"""

from __future__ import annotations

import base64
import bz2
import json
from collections.abc import Mapping
from typing import Any

MAX_ANNOTATION_BYTES = 240 * 1024
"""Maximum size of the annotations that gpuctl writes, bytes. Kubernetes' limit is 256 KiB (TotalAnnotationSizeLimitB);
the rest is for records of an apply and for other tools.
"""
MAX_DOCUMENT_BYTES = 2 * 2**20
"""Size of the largest document that is embedded or read, bytes. No API server stores an object of that size."""
_PLAIN = 128 * 1024
"""Size of the largest document that is embedded uncompressed, bytes."""
_PACKED = "bz2:"
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def document_text(document: dict[str, Any], beside: Mapping[str, str]) -> str | None:
    """Return the annotation's text for a document; None if it does not fit.

    :param beside: the object's other annotations.
    """
    text = _COMPACT(document)
    data = text.encode("utf-8", "surrogatepass")
    used = sum(len(key) + len(value.encode("utf-8", "surrogatepass")) for key, value in beside.items())
    if len(data) <= _PLAIN and used + len(data) <= MAX_ANNOTATION_BYTES:
        return text
    if len(data) > MAX_DOCUMENT_BYTES:
        return None
    # Imported here: few documents need these modules. Unlike zlib, all builds of bzip2 compress to the same bytes.
    packed = _PACKED + base64.b64encode(bz2.compress(data)).decode()
    return packed if used + len(packed) <= MAX_ANNOTATION_BYTES else None


def document_of(obj: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    """Return the document in an object's annotation ``key``; None if it is absent or invalid."""
    text = ((obj.get("metadata") or {}).get("annotations") or {}).get(key)
    if not isinstance(text, str):
        return None
    try:
        found = json.loads(_unpacked(text) if text.startswith(_PACKED) else text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_same_document(one: Mapping[str, Any], other: Mapping[str, Any], key: str) -> bool:
    """Return True if two objects contain equal documents, compressed or not."""
    texts = [((obj.get("metadata") or {}).get("annotations") or {}).get(key) for obj in (one, other)]
    if texts[0] is None or texts[1] is None:
        return False
    if texts[0] == texts[1]:
        return True
    document = document_of(one, key)
    return document is not None and document == document_of(other, key)


def _unpacked(text: str) -> bytes:
    """Return the unpacked bytes.

    :raises ValueError: the data is damaged, or larger than :data:`MAX_DOCUMENT_BYTES`.
    """
    unpacking = bz2.BZ2Decompressor()
    try:
        data = unpacking.decompress(base64.b64decode(text[len(_PACKED) :], validate=True), MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise ValueError("damaged") from error
    if len(data) > MAX_DOCUMENT_BYTES or not unpacking.eof:
        raise ValueError("too large, or cut off")
    return data
