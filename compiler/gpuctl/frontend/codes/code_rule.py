"""What is said of a code, and the pieces that examples are made of."""

from __future__ import annotations

from typing import NamedTuple


class CodeRule(NamedTuple):
    """A code. ``severity`` is its usual one: ``--strict`` makes warnings errors.

    ``example`` triggers it, ``companion`` is the platform document that the example needs.
    """

    code: str
    severity: str
    title: str
    explanation: str
    fix: str
    example: str | None = None
    companion: str | None = None


def job_document(kind: str, rest: str = "", *, job: str = "name: demo", environment: str = "image: app:1") -> str:
    return f"kind: {kind}\nversion: v0.1\njob: {{{job}}}\nenvironment: {{{environment}}}\n{rest}"


POOL = "kind: pool\nversion: v0.1\npool: {name: train}\nnodes:\n  n1: {gpu-type: A100, gpu-count: 8}\n"
WHOLE_NODE = "resources: {pool: train, gpu: 8, cpu: 1, memory: 1Gi}\n"
PLATFORM = "kind: platform\nversion: v0.1\n"
