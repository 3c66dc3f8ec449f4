"""What Secrets hold that gpuctl writes for itself, read with limits: whoever may create Secrets can write one."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Any

from gpuctl.objects.api_resources import Object


class DamagedSecret(Exception):
    """A Secret that cannot be read; ``str()`` says why."""


def encoded_data(data: dict[str, bytes]) -> dict[str, str]:
    """The ``data`` of a Secret."""
    return {key: base64.b64encode(value).decode() for key, value in data.items()}


def data_of(secret: Object, key: str) -> bytes:
    """What a Secret has under a key.

    :raises DamagedSecret: nothing, or nothing that can be read.
    """
    data = secret.get("data")
    text = data.get(key) if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise DamagedSecret(f"it has no {key}")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise DamagedSecret(f"its {key} cannot be read") from None


def json_of(data: bytes) -> Any:
    """The value of a text in JSON.

    :raises DamagedSecret: it is none.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise DamagedSecret("it cannot be read") from None


def mapping_of(data: bytes) -> dict[str, Any]:
    """As :func:`json_of`, of a mapping."""
    value = json_of(data)
    if not isinstance(value, dict):
        raise DamagedSecret("it cannot be read")
    return value


def decompressed(packed: bytes, most: int) -> bytes:
    """What was compressed by gzip, of ``most`` bytes at most: what a few kB unpack to has no limit of its own.

    :raises DamagedSecret: it cannot be read, or is larger.
    """
    unpacking = zlib.decompressobj(wbits=31)
    try:
        text = unpacking.decompress(packed, most + 1)
    except zlib.error:
        raise DamagedSecret("cannot be read") from None
    if len(text) > most or not unpacking.eof or unpacking.unused_data:
        raise DamagedSecret("is larger than it can be, or cut off")
    return text
