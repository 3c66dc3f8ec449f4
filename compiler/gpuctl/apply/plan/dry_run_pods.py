"""Dry-runs of objects that cannot be created yet: replacements whose name is taken, and pods that controllers make."""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Iterable
from typing import NamedTuple

from gpuctl.apply.plan.new_pods import workload_of_new_pods
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.plan.random_suffix import random_suffix
from gpuctl.hints import NO_PROBE, PRIORITY_CLASS
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.elastic_jobs import node_count
from gpuctl.objects.pod_templates import job_templates, needed_pods, pod_templates
from gpuctl.objects.queueing import POD_PARENT
from gpuctl.objects.scheduled_jobs import KIND

# The maximum length of the prefix of generated pod names. Source: apiserver/pkg/storage/names/generate.go.
_LONGEST_PREFIX = 58


class DryRunPod(NamedTuple):
    """A pod of a workload as the server would create it.

    ``workload`` is the object whose controller creates it, ``pods`` the number of such pods that must run at once.
    ``template`` has the defaults of the server and of LimitRanges; equal templates share one dry-run. ``own`` is the
    template as the workload states it. ``refusal`` is the error of a quota for one pod now.
    """

    step: Step
    workload: Object
    template: Object
    pods: int
    own: Object
    refusal: str = ""


class _DryRunResult(NamedTuple):
    """The result of a pod dry-run: ``error`` is permanent, ``quota`` may change."""

    template: Object
    error: str = ""
    quota: str = ""


def creation_error(session: Session, desired: Object) -> ApiError | None:
    """Return the error with which the server would refuse an object once its name is free; None if it would not.

    The API server validates an object and runs admission before it checks the name, so that a valid object fails only
    with AlreadyExists. Source: apiserver, registry.Store.Create.

    :raises ApiError: the cluster failed, so whether the server would refuse the object is unknown.
    """
    try:
        session.create(desired, dry_run=True)
    except ApiError as error:
        if error.is_outage:
            raise
        return None if error.exists_already else error
    return None


def dry_run_pods(
    session: Session,
    plan: Plan,
    steps: Iterable[Step],
    new_namespaces: set[str],
    *,
    lenient: bool | None,
) -> list[DryRunPod]:
    """Dry-run a pod of each distinct template.

    The dry-run of a Job succeeds even if its pods exceed a quota or a LimitRange, need a missing PriorityClass, or
    violate Pod Security.

    :param lenient: True makes a refusal a note of the plan instead of an error; None if the command has no such option.
    :raises ApiError: the cluster failed.
    """
    wanted = [
        DryRunPod(step, workload, template, count, template)
        for step in steps
        if (workload := workload_of_new_pods(step)) is not None
        for template, count in _pods_to_check(step, workload)
    ]
    distinct = {_fingerprint(pod): pod for pod in wanted}
    classes = {step.key.name for step in steps if step.key.kind == "PriorityClass"}

    def attempt(pod: DryRunPod) -> _DryRunResult:
        namespace = pod.step.key.namespace
        if namespace in new_namespaces or (pod.pods == 0 and pod.step.key.kind == "Job"):
            return _DryRunResult(pod.template)
        body = as_created_by_controller(pod)
        if body["spec"].get("priorityClassName") in classes:
            del body["spec"]["priorityClassName"]
        try:
            answer = session.create(body, dry_run=True)
        except ApiError as error:
            if error.is_outage:
                raise
            said = say("{object}: its pods would be refused: {error}", object=pod.step.key, error=error.message)
            if error.exceeds_quota:
                # The quota counts when a run starts.
                is_later = pod.step.queued or pod.step.key.kind == KIND
                return _DryRunResult(pod.template, quota="" if is_later else said)
            if error.lacks_permission:
                plan.notes.append(say("whether pods would be accepted was not checked: {error}", error=error.message))
                return _DryRunResult(pod.template)
            return _DryRunResult(pod.template, f"{said}{_advice(error, lenient)}")
        gates = answer["spec"].pop("schedulingGates", None)
        if gates and pod.template["spec"].get("schedulingGates"):
            answer["spec"]["schedulingGates"] = pod.template["spec"]["schedulingGates"]
        return _DryRunResult({**pod.template, "spec": answer["spec"]})

    answers = dict(zip(distinct, session.each(attempt, distinct.values()), strict=True))
    (plan.notes if lenient else plan.errors).extend(answer.error for answer in answers.values() if answer.error)
    found = [(pod, answers[_fingerprint(pod)]) for pod in wanted]
    return [pod._replace(template=answer.template, refusal=answer.quota) for pod, answer in found]


def _advice(error: ApiError, lenient: bool | None) -> str:
    if "no PriorityClass" in error.message:
        # If the user may create the class, it is part of the plan.
        return say("{hint}", hint=PRIORITY_CLASS)
    if error.is_policy_refusal and lenient is False:
        return say("{hint}", hint=NO_PROBE)
    return ""


def _pods_to_check(step: Step, desired: Object) -> list[tuple[Object, int]]:
    """Return the pod templates of a workload and how many pods of each need room: all of a training that gets more
    nodes, none of one that gets fewer or is suspended.
    """
    if step.key.kind != "Job" or step.method != "put" or step.live is None:
        return needed_pods(desired)
    grows = node_count(desired) > node_count(step.live) and not desired["spec"].get("suspend")
    return [(template, count if grows else 0) for template, count in pod_templates(desired)]


def as_created_by_controller(pod: DryRunPod) -> Object:
    """Return the pod with the name, owner and labels that its controller would give it, because policies check them.

    The owner does not exist, so that no right to block its deletion is needed.
    """
    template = pod.template.get("metadata") or {}
    owner, prefix, added = _controller(pod)
    prefix = prefix[:_LONGEST_PREFIX]
    metadata: Object = {
        "name": prefix + random_suffix(),
        "generateName": prefix,
        "namespace": pod.step.key.namespace,
        "labels": {**(template.get("labels") or {}), **added},
        # Otherwise Kueue's webhook reads the owner, and refuses the pod because the owner does not exist. Source: Kueue
        # 0.19, ``jobs/pod/pod_webhook.go`` (Default).
        "annotations": {POD_PARENT: pod.step.key.kind.lower(), **(template.get("annotations") or {})},
        "ownerReferences": [{**owner, "uid": str(uuid.uuid4()), "controller": True}],
    }
    if pod.step.key.kind in ("StatefulSet", "LeaderWorkerSet"):
        del metadata["generateName"]
        # The ordinal of an existing pod would be a conflict.
        metadata["name"] = f"{prefix}{1000 + secrets.randbelow(9000)}"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(pod.template["spec"])}


def _controller(pod: DryRunPod) -> tuple[Object, str, dict[str, str]]:
    """Return the owner of a workload's pods, the prefix of their names, and the labels that it adds."""
    workload = pod.workload
    kind, name = workload["kind"], workload["metadata"]["name"]
    if kind == "Deployment":
        revision = random_suffix(10)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-{revision}"}
        return owner, f"{name}-{revision}-", {"pod-template-hash": revision}
    if kind == "StatefulSet":
        return {"apiVersion": "apps/v1", "kind": kind, "name": name}, f"{name}-", {}
    if kind == "LeaderWorkerSet":
        # Its labels are left out: its webhook completes the pods that have them, and needs more of them.
        return {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name}, f"{name}-", {}
    spec = workload["spec"]
    if kind == "JobSet":
        jobs = zip(spec["replicatedJobs"], job_templates(workload), strict=True)
        parts = [(item["name"], job["spec"]) for item, (job, _) in jobs if job["spec"]["template"] is pod.template]
        # JobSet's names of Jobs. Policies of a cluster are assumed not to check other controllers' labels.
        part, spec = parts[0]
        name = f"{name}-{part}-0"
    if kind == KIND:
        spec = spec["jobTemplate"]["spec"]
    index = "0-" if spec.get("completionMode") == "Indexed" else ""
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
    return {"apiVersion": "batch/v1", "kind": "Job", "name": name}, f"{name}-{index}", labels


def _fingerprint(pod: DryRunPod) -> str:
    """Return the fields that admission checks: variables, commands and job names are left out."""
    spec = dict(pod.template["spec"])
    for field in ("hostname", "subdomain"):
        spec.pop(field, None)
    for field in ("initContainers", "containers"):
        spec[field] = [
            {name: value for name, value in container.items() if name not in ("env", "command", "args", "workingDir")}
            for container in spec.get(field) or []
        ]
    metadata = pod.template.get("metadata") or {}
    marks = [
        {key: value for key, value in (metadata.get(part) or {}).items() if value != pod.step.key.name}
        for part in ("labels", "annotations")
    ]
    return json.dumps([pod.step.key.namespace, pod.step.key.kind, marks, spec], sort_keys=True)
