"""Answers for arrays: their pods do not wait for each other, so one fits as soon as a single pod has room."""

from __future__ import annotations

from dataclasses import replace

from gpuctl.capacity.fit.verdicts import LACKING, Fit
from gpuctl.language.sentences import say


def needs_single_pod(answer: Fit) -> bool:
    """Return True if none of an array's pods starts, so that the answer for a single pod is needed."""
    return answer.demand.independent and answer.verdict in LACKING and not answer.starts and answer.demand.pods > 1


def with_independent_pods(answer: Fit, single: Fit | None = None) -> Fit:
    """Return the answer for an array from that for all its pods; other answers are returned unchanged.

    :param single: the answer for the array with one pod at a time, if :func:`needs_single_pod`.
    """
    if not answer.demand.independent:
        return answer
    if answer.starts and answer.verdict in LACKING:
        reason = say(
            "{starts} of {pods} pods at once; the other indexes follow when these have ended",
            starts=answer.starts,
            pods=answer.demand.pods,
        )
        now = replace(answer, reason=reason, change=None, opening=None)
        return replace(now, verdict="preempts") if answer.victims else replace(now, verdict="fits")
    if single is not None and needs_single_pod(answer):
        return replace(single, demand=answer.demand)
    return answer
