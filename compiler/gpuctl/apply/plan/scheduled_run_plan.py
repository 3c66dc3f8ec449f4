"""The plan to start a run of a scheduled training now, and the unfinished runs in other plans."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.plan.random_suffix import random_suffix
from gpuctl.hints import JobHint
from gpuctl.kube.api_errors import NotPossible
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import TRAINING_FORMS, Object, key_of
from gpuctl.objects.scheduled_jobs import MANUAL, is_scheduled, run_of, runs_of
from gpuctl.objects.workload_state import end_state


class NotSchedulable(NotPossible):
    """No run can be started; nothing was changed."""


def plan_run(workload: Object, runs: list[Object], title: str) -> Plan:
    """Plan to create a Job from a CronJob's template, as ``kubectl create job --from`` does.

    :param runs: the runs of the CronJob.
    :raises NotSchedulable: the job has no schedule, is being deleted, or may not run beside an unfinished run.
    """
    key = key_of(workload)
    if not is_scheduled(workload):
        again = say("{command} runs a training again that has ended", command=JobHint("rerun", key.name, key.namespace))
        raise NotSchedulable(
            say("{job} in {namespace} has no schedule", job=title, namespace=key.namespace),
            again if key.kind in TRAINING_FORMS else None,
        )
    if workload["metadata"].get("deletionTimestamp"):
        raise NotSchedulable(say("{job} in {namespace} is being deleted", job=title, namespace=key.namespace))
    unfinished = [run["metadata"]["name"] for run in runs if end_state(run) is None]
    if unfinished and workload["spec"].get("concurrencyPolicy") != "Allow":
        raise NotSchedulable(
            say(
                "{job} in {namespace} has the unfinished run {run}",
                job=title,
                namespace=key.namespace,
                run=unfinished[-1],
            ),
            say("wait until it has ended, or set `schedule.concurrency: allow`"),
        )
    # The `r` makes it differ from a hash and from a time.
    run = run_of(workload, f"{key.name}-r{random_suffix()}")
    run["metadata"]["annotations"] = {**(run["metadata"].get("annotations") or {}), MANUAL: "manual"}
    plan = Plan([Step("create", key_of(run), say("a run of the schedule"), desired=run, method="post", title=title)])
    if workload["spec"].get("concurrencyPolicy") != "Allow" and not workload["spec"].get("suspend"):
        # Source: ``pkg/controller/cronjob/cronjob_controllerv2.go``, syncCronJob, which counts ``status.active``.
        plan.notes.append(
            say(
                "{job} in {namespace}: Kubernetes does not count a run that a user starts, so that a run of the "
                "schedule that is due before it has ended starts beside it; {command} stops the schedule",
                job=title,
                namespace=key.namespace,
                command=JobHint("pause", key.name, key.namespace),
            )
        )
    return plan


def note_unfinished_runs(steps: Iterable[Step], objects: Collection[Object]) -> None:
    """Add the unfinished runs to the steps of scheduled trainings: an update keeps them, a deletion ends them.

    :param objects: live objects, with the runs.
    """
    for step in steps:
        if step.live is None or not is_scheduled(step.live):
            continue
        unfinished = [run for run in runs_of(step.live, objects) if end_state(run) is None]
        if step.action == "update" and step.changes and unfinished:
            step.reason += say("; the unfinished run {run} stays as it is", run=unfinished[-1]["metadata"]["name"])
        elif step.deletes and unfinished:
            step.unfinished_run = unfinished[-1]
