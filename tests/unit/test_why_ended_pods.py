"""``gpuctl why`` for pods that have ended, are being deleted or have no controller, and for their sidecars."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpuctl.objects.timestamps import format_timestamp
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.explanation import explain
from support.why_records import RECORDED, load

Object = dict[str, Any]


def recorded(cause: str, *, controlled: bool = True) -> tuple[Evidence, Object]:
    """Return recorded evidence with its first pod only, and that pod.

    :param controlled: False: the job's workload is gone.
    """
    found = load(RECORDED / f"{cause}.json")[0]
    pod = copy.deepcopy(found.job.pods[0])
    workload = copy.deepcopy(found.job.workload) if controlled else None
    return replace(found, job=replace(found.job, workload=workload, pods=[pod])), pod


def add_sidecar(found: Evidence, pod: Object, code: int, reason: str) -> None:
    """Add a native sidecar that ended, and waits to start again."""
    then = format_timestamp(found.now - timedelta(seconds=30))
    ended = {"exitCode": code, "reason": reason, "startedAt": then, "finishedAt": then}
    pod["spec"]["initContainers"] = [{"name": "proxy", "image": "r/proxy:1", "restartPolicy": "Always"}]
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    status = {"name": "proxy", "state": waits, "lastState": {"terminated": ended}, "restartCount": 4}
    pod["status"]["initContainerStatuses"] = [status]


def test_exit_code_of_a_sidecar_in_a_succeeded_pod_is_no_cause() -> None:
    found, pod = load(RECORDED / "backoff-limit.json")[0], recorded("application-error")[1]
    add_sidecar(found, pod, 137, "Error")
    pod["status"]["initContainerStatuses"][0]["state"] = {"terminated": {"exitCode": 137, "reason": "Error"}}
    pod["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    pod["status"]["phase"] = "Succeeded"
    answer = explain(replace(found, job=replace(found.job, pods=[pod])))
    assert (answer.finding.cause, answer.also) == ("backoff-limit", [])


@pytest.mark.parametrize(
    ("code", "reason", "message", "fix"),
    [
        (0, "Completed", "but a sidecar has to keep running", "write it in `init` if it only prepares the program"),
        (137, "OOMKilled", "used more than the memory that its node had", "set `sidecars[].resources.memory`"),
    ],
)
def test_fix_for_a_sidecar_names_its_own_field(code: int, reason: str, message: str, fix: str) -> None:
    found, pod = recorded("running")
    add_sidecar(found, pod, code, reason)
    finding = explain(found).finding
    assert "container proxy" in finding.message
    assert message in finding.message
    assert fix in str(finding.fix)


@pytest.mark.parametrize(
    ("controlled", "command"),
    [
        (True, "`gpuctl delete job {job} -n {namespace} --force`"),
        (False, "`kubectl delete pod {pod} -n {namespace} --force`"),
    ],
    ids=["job", "only pods"],
)
@pytest.mark.parametrize("cause", ["node-lost", "terminating"])
def test_forced_deletion_works_without_a_workload(cause: str, controlled: bool, command: str) -> None:
    found, pod = recorded(cause, controlled=controlled)
    if cause == "terminating":
        pod["metadata"]["deletionTimestamp"] = format_timestamp(found.now - timedelta(seconds=90))
        if found.job.workload is not None:
            found.job.workload["metadata"]["finalizers"] = ["foregroundDeletion"]
    silent = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
    name = pod["spec"]["nodeName"]
    nodes = {name: {"kind": "Node", "metadata": {"name": name}, "status": {"conditions": [silent]}}}
    finding = explain(replace(found, nodes=nodes if cause == "node-lost" else {})).finding
    names = {"job": found.job.identity.name, "namespace": found.job.identity.namespace, "pod": pod["metadata"]["name"]}
    assert finding.cause == cause
    assert command.format(**names) in str(finding.fix)


def test_pod_that_stays_while_it_is_deleted_is_named() -> None:
    found, pod = recorded("running")
    pod["metadata"]["deletionTimestamp"] = format_timestamp(found.now - timedelta(minutes=30))
    finding = explain(replace(found, events=[], now=found.now + timedelta(hours=1))).finding
    assert (finding.cause, finding.pod) == ("unknown", pod["metadata"]["name"])
    assert finding.message == (
        f"its pod {finding.pod} is still being deleted, 1h past its grace period, and no other has been created"
    )


def test_pod_without_a_controller_is_not_said_to_be_created_again() -> None:
    found, pod = recorded("running", controlled=False)
    nodes = {pod["spec"]["nodeName"]: None}
    assert explain(replace(found, nodes=nodes)).finding.fix == (
        "wait: Kubernetes removes the pod within a minute; no controller creates its pods: apply its document"
    )
