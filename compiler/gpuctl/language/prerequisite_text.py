"""Sentences about prerequisites (`job.after`)."""

from __future__ import annotations

from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.objects.prerequisites import FAILED, OK, Prerequisite

_UNMET = {
    ("ok", OK): Template("{name} has succeeded, and this waits until it succeeds"),
    ("ok", FAILED): Template("{name} has succeeded, and this waits until it fails"),
    ("failed", OK): Template("{name} has failed, and this waits until it succeeds"),
    ("failed", FAILED): Template("{name} has failed, and this waits until it fails"),
}
"""Outcome and condition of a prerequisite -> why it is unmet."""
_ENDED = {
    "ok": Template("{name} has succeeded"),
    "failed": Template("{name} has failed"),
    None: Template("{name} has not ended"),
}


def describe_prerequisite(one: Prerequisite) -> Sentence:
    """Return how a prerequisite ended, or what is missing; if it is unmet, with what the training waits for."""
    if one.state == "missing" and one.absent_jobs:
        first, others = one.absent_jobs[0], len(one.absent_jobs) - 1
        names = say("{job} and {others} more jobs", job=first, others=others)
        if others <= 1:
            names = say("{jobs:and}", jobs=list(one.absent_jobs))
        number = len(one.absent_jobs)
        return say("{jobs} of the sweep {name} {number:does/do} not exist", jobs=names, name=one.name, number=number)
    if one.may_be_hidden:
        return say("{name} does not exist, or you may not see it", name=one.name)
    if one.state == "missing":
        return say("{name} does not exist", name=one.name)
    template = _UNMET.get((one.outcome or "", one.condition)) if one.state == "unmet" else None
    return say(template or _ENDED[one.outcome], name=one.name)
