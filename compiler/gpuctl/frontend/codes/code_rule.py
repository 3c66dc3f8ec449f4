"""The type of a diagnostic code, and building blocks of the examples."""

from __future__ import annotations

from typing import NamedTuple


class CodeRule(NamedTuple):
    """A diagnostic code. ``severity`` applies without ``--strict``, which turns warnings into errors.

    ``example``: the smallest document that triggers it. ``companion``: the platform document that the example needs.
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
DRA = f"{PLATFORM}gpu: {{allocation: dra}}\n"
HAMI = f"{PLATFORM}gpu: {{sharing: hami}}\n"
CHANNELS = (
    f"{PLATFORM}notify:\n  channels:\n    nlp-team: {{format: slack}}\n"
    "    cv-team: {format: slack, namespaces: [cv]}\n"
)
JOBSET = f"{PLATFORM}training: {{backend: jobset}}\n"
