"""Jobs in the queue of a quota that a plan deletes together with it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.plan.quota_queue_notes import _is_deleted, check_queue_deletions
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Key, Object

DEPLOYMENT = Key("Deployment", "nlp", "web")


def workload(kind: str, name: str, namespace: str = "nlp") -> Object:
    owner = {"kind": kind, "name": name, "uid": "u", "controller": True}
    return {"metadata": {"name": "w", "namespace": namespace, "ownerReferences": [owner]}}


@pytest.mark.parametrize(
    ("one", "deleted"),
    [
        (workload("Pod", "web-6d4f8c7b9-x2x4z"), True),
        (workload("Deployment", "web"), True),
        # Of a Deployment `web-2`, of a Deployment with a hash that is cut off, and of another namespace.
        (workload("Pod", "web-2-6d4f8c7b9-x2x4z"), False),
        (workload("Pod", "web-6d4f8x2x4z"), True),
        (workload("Pod", "web-6d4f8c7b9-x2x4z", "cv"), False),
        (workload("Job", "web"), False),
    ],
)
def test_pods_of_a_deleted_deployment_do_not_keep_its_queue(one: Object, deleted: bool) -> None:
    assert _is_deleted(one, {DEPLOYMENT}) is deleted


class Kueue:
    """A session whose server answers a list of Workloads with an error."""

    def __init__(self, error: ApiError) -> None:
        self.error = error

    def request(self, *_: Any) -> Object:
        return {"preferredVersion": {"version": "v1beta2"}}

    def list_objects(self, *_: Any) -> tuple[list[Object], str]:
        raise self.error


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (ApiError(404, "NotFound", "the server could not find the requested resource"), "delete"),
        (ApiError(403, "Forbidden", 'User "ada" cannot list resource "workloads" in API group "x"'), "skip"),
    ],
)
def test_queue_without_a_kind_of_workloads_is_not_in_use(error: ApiError, action: str) -> None:
    """If Workloads may not be read, the status of the queue counts."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "nlp"}}
    live = {"metadata": {"name": "q"}, "spec": {"namespaceSelector": selector}, "status": {"reservingWorkloads": 1}}
    step = Step("delete", Key("ClusterQueue", "", "q"), live=live, method="delete")
    check_queue_deletions(cast(Session, Kueue(error)), Plan([step]), [step])
    assert step.action == action
