"""Why a job does not run, as JSON: ``why`` and what ``describe job`` has of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gpuctl.language.masking import masked
from gpuctl.reading.why.finding import Proof

if TYPE_CHECKING:
    from gpuctl.reading.why.answer import Answer


def why_answer(answer: Answer) -> dict[str, Any]:
    """``why -o json``, without credentials; ``notes`` say what could not be looked at."""
    return {**why_value(answer), "notes": masked(list(answer.notes))}


def why_value(answer: Answer) -> dict[str, Any]:
    """The cause, its numbers and evidence, what was ruled out, what helps, without credentials.

    Fixes are not masked: they are made of names alone, and a masked command cannot be copied.
    """
    value: dict[str, Any] = masked(_unmasked(answer))
    also = [{**shown, "fix": item.fix} for shown, item in zip(value["also"], answer.also, strict=True)]
    return {**value, "fix": answer.finding.fix, "also": also}


def _unmasked(answer: Answer) -> dict[str, Any]:
    found, identity = answer.finding, answer.job.identity
    return {
        "job": identity.name,
        "namespace": identity.namespace,
        "kind": identity.kind,
        "cause": found.cause,
        "message": found.message,
        "pod": found.pod,
        "numbers": dict(found.numbers),
        "ruledOut": answer.ruled_out,
        "fix": found.fix,
        "evidence": _evidence(found.sources),
        "also": [
            {"cause": item.cause, "message": item.message, "pod": item.pod, "fix": item.fix} for item in answer.also
        ],
    }


def _evidence(sources: Iterable[Proof]) -> list[dict[str, Any]]:
    """``time`` is RFC 3339."""
    return [{"source": item.kind, "object": item.about, "text": item.text, "time": item.at} for item in sources]
