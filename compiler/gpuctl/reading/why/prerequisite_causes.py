"""Rules for trainings that wait for other jobs (`job.after`)."""

from __future__ import annotations

from gpuctl.language.display_text import first_few
from gpuctl.objects.api_resources import annotations_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.prerequisites import Prerequisite
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof

_DROP = "remove the name from `job.after` and apply again"


def waiting(evidence: Evidence) -> Finding | None:
    """The training has not been released: its prerequisites have not ended, do not exist, or ended otherwise."""
    job = evidence.job
    if job.workload is None or job.status(evidence.keys).word not in ("Waiting", "DependencyFailed"):
        return None
    states = job.prerequisites
    numbers = {"prerequisites": [{"name": one.name, "condition": one.condition, "state": one.state} for one in states]}
    told = _proofs(evidence, evidence.keys)
    unmet = [one for one in states if one.state == "unmet"]
    if unmet:
        text = "; ".join(map(str, unmet))
        return Finding("dependency-failed", text, numbers, _how_to_meet(unmet[0], evidence), told)
    missing = [one for one in states if one.state == "missing"]
    if missing:
        names = first_few(name for one in missing for name in one.absent_jobs or (one.name,))
        several = len(missing) > 1 or len(missing[0].absent_jobs) > 1
        sweep = f" of the sweep {missing[0].name}" if missing[0].absent_jobs and len(missing) == 1 else ""
        message = f"it waits for {names}{sweep}, which {'do' if several else 'does'} not exist"
        return Finding("dependency-missing", message, numbers, _how_to_create(missing[0], evidence), told)
    left = [one for one in states if one.state == "waiting"]
    if not left:
        message = "its prerequisites are met, and it has not been started yet"
        fix = "wait a moment if the service runs; otherwise apply its document with --wait"
        return Finding("waiting-for-jobs", message, numbers, fix, told)
    others = f"; {len(states) - len(left)} of {len(states)} prerequisites are met" if len(states) > 1 else ""
    fix = f"`gpuctl why {left[0].name} -n {job.identity.namespace}` shows what that job does"
    if left[0].is_sweep:
        fix = f"`gpuctl get jobs --sweep {left[0].name} -n {job.identity.namespace}` lists the jobs of that sweep"
    return Finding(
        "waiting-for-jobs", f"it waits for {first_few(one.name for one in left)}{others}", numbers, fix, told
    )


def _how_to_create(one: Prerequisite, evidence: Evidence) -> str:
    where = evidence.job.identity.namespace
    if one.absent_jobs:
        again = f"`gpuctl rerun {one.absent_jobs[0]} -n {where}` if a ttl or a user has removed it"
        return f"apply the document of {one.name} again, or {again}; otherwise {_DROP}"
    return f"`gpuctl rerun {one.name} -n {where}` or apply its document; otherwise {_DROP}"


def _how_to_meet(one: Prerequisite, evidence: Evidence) -> str:
    where = evidence.job.identity.namespace
    if one.failed_jobs:
        again = f"`gpuctl why {one.failed_jobs[0]} -n {where}` shows why; "
        again += f"`gpuctl rerun --sweep {one.name} --failed -n {where}` runs its failed jobs again"
        return f"{again}; or write `{one.name}: any` in `job.after` and apply again"
    if one.outcome == "failed":
        again = f"`gpuctl why {one.name} -n {where}` shows why; `gpuctl rerun {one.name} -n {where}` runs it again"
        return f"{again}; or write `{one.name}: any` in `job.after` and apply again"
    return f"it waits for a failure: `gpuctl delete job {evidence.job.identity.name} -n {where}`, or {_DROP}"


def _proofs(evidence: Evidence, keys: Records) -> tuple[Proof, ...]:
    workload = evidence.job.workload
    assert workload is not None
    about = f"{workload['kind'].lower()}/{workload['metadata']['name']}"
    stated = Proof("spec", about, f"{keys.after}: {annotations_of(workload)[keys.after]}")
    return (stated, *(Proof("status", one.name, str(one)) for one in evidence.job.prerequisites))
