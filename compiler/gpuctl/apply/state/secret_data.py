"""The data of gpuctl's own Secrets, read with limits: any user who may create Secrets can write such a Secret."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Any

from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object


class DamagedSecret(Exception):
    """A Secret whose data is invalid; ``str()`` is the reason."""


def encoded_data(data: dict[str, bytes]) -> dict[str, str]:
    """Return the ``data`` of a Secret."""
    return {key: base64.b64encode(value).decode() for key, value in data.items()}


def data_of(secret: Object, key: str) -> bytes:
    """Return the value of a key in a Secret's ``data``.

    :raises DamagedSecret: the key is missing or its value is not base64.
    """
    data = secret.get("data")
    text = data.get(key) if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise DamagedSecret(say("it has no {key}", key=key))
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise DamagedSecret(say("its {key} cannot be read", key=key)) from None


def json_of(data: bytes) -> Any:
    """Parse JSON.

    :raises DamagedSecret: it is not valid JSON.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise DamagedSecret(say("it cannot be read")) from None


def mapping_of(data: bytes) -> dict[str, Any]:
    """Parse JSON that must be a mapping; see :func:`json_of`."""
    value = json_of(data)
    if not isinstance(value, dict):
        raise DamagedSecret(say("it cannot be read"))
    return value


def decompressed(packed: bytes, most: int) -> bytes:
    """Decompress gzip data to at most ``most`` bytes: a few kB can decompress to any size.

    :raises DamagedSecret: it is not gzip data, or is larger.
    """
    unpacking = zlib.decompressobj(wbits=31)
    try:
        text = unpacking.decompress(packed, most + 1)
    except zlib.error:
        raise DamagedSecret(say("it cannot be read")) from None
    if len(text) > most or not unpacking.eof or unpacking.unused_data:
        raise DamagedSecret(say("it is too large, or truncated"))
    return text
