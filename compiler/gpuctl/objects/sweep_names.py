"""Names and numbers of the jobs of a sweep."""

from __future__ import annotations

import re

MOST_SWEEP_JOBS = 1000
"""Maximum number of jobs of a sweep."""


def job_name(sweep: str, number: int) -> str:
    """Return the name of a job of a sweep."""
    return f"{sweep}-{number}"


def number_in_sweep(name: str, sweep: str) -> int | None:
    """Return the number of a job of a sweep; None for a name that another rule made."""
    text = name.removeprefix(f"{sweep}-")
    is_number = re.fullmatch(r"(?a)0|[1-9]\d{0,2}", text) is not None and job_name(sweep, int(text)) == name
    return int(text) if is_number else None
