"""Job ids, ``NAME-xxxxx``: one id for each incarnation of a job. A job that is created again gets another id."""

from __future__ import annotations

import hashlib
import re

_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_DIGITS = 5
_ID = rf"(.+)-[0-9a-z]{{{_DIGITS}}}"


def id_of(namespace: str, kind: str, name: str, uid: str) -> str:
    """Return the id of the job whose main object has this uid. The id is derived, not stored."""
    digest = hashlib.sha256("\0".join((namespace, kind, name, uid)).encode()).digest()
    return f"{name}-{''.join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:_DIGITS])}"


def name_in_id(text: str) -> str | None:
    """Return the job name in a text of the form of an id; None if the text has another form."""
    match = re.fullmatch(_ID, text)
    return match[1] if match else None
