"""Job ids: ``NAME-xxxxx``, which mean one incarnation of a job. A job that is created again has another id."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuctl.reading.job_rows import Job

_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_DIGITS = 5
_ID = rf"(.+)-[0-9a-z]{{{_DIGITS}}}"


def job_id(job: Job) -> str:
    """Return the id of a job. Nothing is stored for it: it is made of the job's kind, namespace, name and uid.

    The uid is that of the main object, or of the oldest pod where only pods are left; "" where there are none.
    """
    main = job.workload if job.workload is not None else next(iter(job.pods), None)
    if main is None:
        return ""
    identity = job.identity
    told = "\0".join((identity.namespace, identity.kind, identity.name, str(main["metadata"]["uid"])))
    digest = hashlib.sha256(told.encode()).digest()
    return f"{identity.name}-{''.join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:_DIGITS])}"


def name_in_id(text: str) -> str | None:
    """Return the name of the job whose id a text may be, or None if it has not the form of an id."""
    match = re.fullmatch(_ID, text)
    return match[1] if match else None
