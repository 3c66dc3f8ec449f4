"""Rules for trainings that wait for other jobs (`job.after`)."""

from __future__ import annotations

from typing import Any

from gpuctl.language.prerequisite_text import describe_prerequisite
from gpuctl.language.sentences import Sentence, clauses, say
from gpuctl.objects.api_resources import annotations_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.prerequisites import Prerequisite
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof
from gpuctl.reading.why.stopped_jobs import command


def waiting(evidence: Evidence) -> Finding | None:
    """The training has not been released: its prerequisites have not ended, do not exist, or ended otherwise."""
    job = evidence.job
    if job.workload is None or job.status(evidence.keys).word not in ("Waiting", "DependencyFailed"):
        return None
    states = job.prerequisites
    numbers = {"prerequisites": [_as_json(one) for one in states]}
    told = _proofs(evidence, evidence.keys)
    unmet = [one for one in states if one.state == "unmet"]
    if unmet:
        text = clauses(*map(describe_prerequisite, unmet))
        return Finding("dependency-failed", text, numbers, _how_to_meet(unmet[0], evidence), told)
    missing = [one for one in states if one.state == "missing"]
    if missing and missing[0].may_be_hidden:
        message = say("it waits for {name}, which does not exist, or you may not see it", name=missing[0].name)
        fix = say("ask an administrator, who sees all pools, about {name}", name=missing[0].name)
        return Finding("dependency-missing", message, numbers, fix, told)
    if missing:
        names = [name for one in missing for name in one.absent_jobs or (one.name,)]
        is_of_sweep = bool(missing[0].absent_jobs) and len(missing) == 1
        message = say(
            "it waits for {names:few}{sweep}, which {number:does/do} not exist",
            names=names,
            number=len(names),
            sweep=say(" of the sweep {name}", name=missing[0].name) if is_of_sweep else "",
        )
        return Finding("dependency-missing", message, numbers, _how_to_create(missing[0], evidence), told)
    left = [one for one in states if one.state == "waiting"]
    if not left:
        message = say("its prerequisites are met, and it has not been started yet")
        fix = say("wait a moment if the service runs; otherwise apply its document with --wait")
        return Finding("waiting-for-jobs", message, numbers, fix, told)
    fix = say("{why} shows what that job does", why=command("why", evidence, job=left[0].name))
    if left[0].is_sweep:
        jobs = command("get jobs --sweep", evidence, job=left[0].name)
        fix = say("{jobs} lists the jobs of that sweep", jobs=jobs)
    met = {"met": len(states) - len(left), "total": len(states)}
    message = say(
        "it waits for {names:few}{others}",
        names=[one.name for one in left],
        others=say("; {met} of {total} prerequisites are met", **met) if len(states) > 1 else "",
    )
    return Finding("waiting-for-jobs", message, numbers, fix, told)


def _as_json(one: Prerequisite) -> dict[str, Any]:
    flags = {"isSweep": one.is_sweep, "mayBeHidden": one.may_be_hidden}
    stated = {name: True for name, is_true in flags.items() if is_true}
    return {"name": one.name, "condition": one.condition, "state": one.state, **stated}


def _how_to_create(one: Prerequisite, evidence: Evidence) -> Sentence:
    if one.absent_jobs:
        return say(
            "apply the document of {name} again, or {rerun} if a ttl or a user has removed it; otherwise remove the "
            "name from `job.after` and apply again",
            name=one.name,
            rerun=command("rerun", evidence, job=one.absent_jobs[0]),
        )
    return say(
        "{rerun} or apply its document; otherwise remove the name from `job.after` and apply again",
        rerun=command("rerun", evidence, job=one.name),
    )


def _how_to_meet(one: Prerequisite, evidence: Evidence) -> Sentence:
    if one.failed_jobs:
        return say(
            "{why} shows why; {rerun} runs its failed jobs again; or write `{name}: any` in `job.after` and apply "
            "again",
            why=command("why", evidence, job=one.failed_jobs[0]),
            rerun=command("rerun --sweep", evidence, "--failed", job=one.name),
            name=one.name,
        )
    if one.outcome == "failed":
        return say(
            "{why} shows why; {rerun} runs it again; or write `{name}: any` in `job.after` and apply again",
            why=command("why", evidence, job=one.name),
            rerun=command("rerun", evidence, job=one.name),
            name=one.name,
        )
    return say(
        "it waits for a failure: {delete}, or remove the name from `job.after` and apply again",
        delete=command("delete job", evidence),
    )


def _proofs(evidence: Evidence, keys: Records) -> tuple[Proof, ...]:
    workload = evidence.job.workload
    assert workload is not None
    about = f"{workload['kind'].lower()}/{workload['metadata']['name']}"
    stated = Proof("spec", about, f"{keys.after}: {annotations_of(workload)[keys.after]}")
    return (stated, *(Proof("status", one.name, describe_prerequisite(one)) for one in evidence.job.prerequisites))
