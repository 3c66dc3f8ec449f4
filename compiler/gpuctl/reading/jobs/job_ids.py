"""Texts that mean a job: ids, and prefixes before a name.

An id, ``NAME-xxxxx``, is that of one incarnation of a job. A job that is created again gets another id.
"""

from __future__ import annotations

import hashlib
import re

_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_DIGITS = 5
POD_PREFIXES = ("pod", "pods", "po")
GENERAL_PREFIXES = frozenset({"job", "jobs", *POD_PREFIXES})
"""Prefixes of names that select no kind of job."""
_ID = rf"(.+)-[0-9a-z]{{{_DIGITS}}}"


def id_of(namespace: str, kind: str, name: str, uid: str) -> str:
    """Return the id of the job whose main object has this uid. The id is derived, not stored."""
    digest = hashlib.sha256("\0".join((namespace, kind, name, uid)).encode()).digest()
    return f"{name}-{''.join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:_DIGITS])}"


def name_in_id(text: str) -> str | None:
    """Return the job name in a text of the form of an id; None if the text has another form."""
    match = re.fullmatch(_ID, text)
    return match[1] if match else None


def without_general_prefix(text: str) -> str:
    """Return a name without ``job/`` or ``pod/``, which select no kind. ``training/NAME`` is returned unchanged."""
    prefix, _, name = text.rpartition("/")
    return name if prefix in GENERAL_PREFIXES else text
