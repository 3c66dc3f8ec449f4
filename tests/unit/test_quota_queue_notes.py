"""Jobs in the queue of a quota that a plan deletes together with it."""

from __future__ import annotations

import pytest

from gpuctl.apply.plan.quota_queue_notes import _is_deleted
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
