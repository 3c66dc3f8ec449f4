"""Pod requests, pod counts, quota charges and quota errors, rule by rule.

``tests/cluster/test_quota_agreement.py`` shows that the rules are the API server's.
"""

from __future__ import annotations

import copy
from datetime import datetime, timezone
from fractions import Fraction
from typing import Any

import pytest

from gpuctl.capacity.admission.quota_charges import (
    ChargedObjects,
    Shortfall,
    Unspecified,
    as_pod,
    charged_objects,
    charges,
    parse_exceeded,
    parse_unspecified,
    shortfalls,
    unspecified,
)
from gpuctl.capacity.snapshot.pod_requests import (
    amounts,
    container_limits,
    container_requests,
    has_pod_resources,
    is_best_effort,
    pod_limits,
    pod_requests,
)
from gpuctl.kube.api_errors import is_quota_refusal
from gpuctl.objects.pod_templates import pod_templates, pods_left, replicas
from gpuctl.objects.quantities import format_amount, quantity

Object = dict[str, Any]


# --- quantities -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", Fraction(0)),
        ("2", Fraction(2)),
        (2, Fraction(2)),
        (0.5, Fraction(1, 2)),
        ("+2", Fraction(2)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("5.k", Fraction(5000)),
        ("250m", Fraction(1, 4)),
        ("1u", Fraction(1, 1000)),
        ("1n", Fraction(1, 1000)),
        ("1000001u", Fraction(1001, 1000)),
        ("1000001n", Fraction(2, 1000)),
        ("5k", Fraction(5000)),
        ("5M", Fraction(5 * 10**6)),
        ("5G", Fraction(5 * 10**9)),
        ("5T", Fraction(5 * 10**12)),
        ("5P", Fraction(5 * 10**15)),
        ("5E", Fraction(5 * 10**18)),
        ("5Ki", Fraction(5 * 2**10)),
        ("5Mi", Fraction(5 * 2**20)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("5Ti", Fraction(5 * 2**40)),
        ("5Pi", Fraction(5 * 2**50)),
        ("5Ei", Fraction(5 * 2**60)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("15e-1", Fraction(3, 2)),
        ("1e+2", Fraction(100)),
        # The API server caps only binary quantities.
        ("9Ei", Fraction(2**63 - 1)),
        ("20E", Fraction(20 * 10**18)),
    ],
)
def test_quantity(text: str | int | float, value: Fraction) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "Gi", "1 Gi", "1GB", "1K", "1ki", "1e", "1.5.5", "0x1", "1_000", "inf", "٣", True]
)
def test_invalid_quantities_raise_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity(text)


# --- pods -------------------------------------------------------------------------------------------------------------


def _container(requests: Object | None = None, limits: Object | None = None, **rest: Any) -> Object:
    resources = {name: value for name, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {"name": "c", "resources": resources, **rest}


def _sidecar(requests: Object | None = None, limits: Object | None = None) -> Object:
    return _container(requests, limits, restartPolicy="Always")


def _spec(*containers: Object, init: list[Object] | None = None, **rest: Any) -> Object:
    return {"containers": list(containers) or [_container()], **({"initContainers": init} if init else {}), **rest}


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        pytest.param(_spec({"name": "c"}), {}, id="nothing"),
        pytest.param(_spec({"name": "c", "resources": None}, overhead=None, resources=None), {}, id="nulls"),
        pytest.param(_spec(_container({"cpu": "1"}), _container({"cpu": "500m"})), {"cpu": "1500m"}, id="sum"),
        pytest.param(_spec(_container({"cpu": "1500u"}), _container({"cpu": "1500u"})), {"cpu": "4m"}, id="rounded"),
        pytest.param(
            _spec(_container({"cpu": "1"}, {"cpu": "2", "nvidia.com/gpu": 4})),
            {"cpu": "1", "nvidia.com/gpu": "4"},
            id="limit without request",
        ),
        pytest.param(_spec(_container({"cpu": "0"}, {"cpu": "2"})), {"cpu": "0"}, id="request of zero"),
        pytest.param(
            _spec(_container({"cpu": "2", "memory": "1Gi"}), init=[_container({"cpu": "1", "memory": "4Gi"})]),
            {"cpu": "2", "memory": "4Gi"},
            id="init container peak",
        ),
        pytest.param(
            _spec(_container({"cpu": "1"}), init=[_container({"cpu": "3"}), _container({"cpu": "2"})]),
            {"cpu": "3"},
            id="init containers one after another",
        ),
        pytest.param(
            _spec(_container({"cpu": "1"}), init=[_container({"memory": "1Gi"})]),
            {"cpu": "1", "memory": "1Gi"},
            id="request of the init container only",
        ),
        pytest.param(
            _spec(_container({"cpu": "2"}), init=[_sidecar({"cpu": "1"}), _sidecar({"cpu": "1"})]),
            {"cpu": "4"},
            id="sidecars add up",
        ),
        pytest.param(
            _spec(_container({"cpu": "1"}), init=[_sidecar({"cpu": "2"}), _container({"cpu": "5"})]),
            {"cpu": "7"},
            id="init container beside an earlier sidecar",
        ),
        pytest.param(
            _spec(_container({"cpu": "1"}), init=[_container({"cpu": "5"}), _sidecar({"cpu": "2"})]),
            {"cpu": "5"},
            id="init container before a sidecar",
        ),
        pytest.param(
            _spec(_container({"cpu": "1"}), init=[_container({"cpu": "5"}, restartPolicy="Never"), _sidecar()]),
            {"cpu": "5"},
            id="other restart policies make no sidecar",
        ),
        pytest.param(
            _spec(_container({"cpu": "1"}), overhead={"cpu": "250m", "memory": "1Mi"}),
            {"cpu": "1250m", "memory": "1Mi"},
            id="overhead",
        ),
        pytest.param(
            _spec(
                _container({"cpu": "1", "memory": "1Gi"}),
                resources={"requests": {"cpu": "4"}},
                overhead={"cpu": "1"},
            ),
            {"cpu": "5", "memory": "1Gi"},
            id="the pod's own request",
        ),
        pytest.param(
            _spec(
                _container({"cpu": "1"}), _container({"cpu": "1"}), resources={"limits": {"cpu": "4", "memory": "1Gi"}}
            ),
            {"cpu": "2", "memory": "1Gi"},
            id="the pod's own limit is a request if no container has one",
        ),
        pytest.param(
            _spec(_container({"memory": "1Gi"}), resources={"limits": {"cpu": "4"}}),
            {"cpu": "4", "memory": "1Gi"},
            id="the pod's own limit of one resource",
        ),
        pytest.param(
            _spec(resources={"requests": {"nvidia.com/gpu": 4, "cpu": "1"}}),
            {"cpu": "1"},
            id="pod-level resources are cpu, memory and huge pages",
        ),
        pytest.param(
            _spec(_container({"cpu": "1"}, {"hugepages-2Mi": "4Mi"}), resources={"limits": {"hugepages-2Mi": "8Mi"}}),
            {"cpu": "1", "hugepages-2Mi": "8Mi"},
            id="the pod's own huge pages",
        ),
    ],
)
def test_pod_requests(spec: Object, requests: Object) -> None:
    before = copy.deepcopy(spec)
    assert pod_requests(spec) == amounts(requests)
    assert spec == before


@pytest.mark.parametrize(
    ("spec", "limits"),
    [
        pytest.param(_spec(_container({"cpu": "1"})), {}, id="requests are not limits"),
        pytest.param(_spec(_container(None, {"cpu": "1"}), _container(None, {"cpu": "2"})), {"cpu": "3"}, id="sum"),
        pytest.param(
            _spec(_container(None, {"cpu": "1"}), init=[_sidecar(None, {"cpu": "2"}), _container(None, {"cpu": "5"})]),
            {"cpu": "7"},
            id="init container beside a sidecar",
        ),
        pytest.param(
            _spec(_container(None, {"cpu": "1", "memory": "0"}), overhead={"cpu": "1", "memory": "1Gi", "x": "1"}),
            {"cpu": "2", "memory": "0"},
            id="overhead only for resources with a limit",
        ),
        pytest.param(
            _spec(_container(None, {"cpu": "1", "memory": "1Gi"}), resources={"limits": {"cpu": "8"}}),
            {"cpu": "8", "memory": "1Gi"},
            id="the pod's own limit",
        ),
        pytest.param(
            _spec(_container(None, {"cpu": "1"}), resources={"requests": {"cpu": "8"}}),
            {"cpu": "1"},
            id="the pod's own request is not a limit",
        ),
        pytest.param(
            _spec(_container(None, {"nvidia.com/gpu": "1"}), resources={"limits": {"cpu": "8", "nvidia.com/gpu": "4"}}),
            {"cpu": "8", "nvidia.com/gpu": "1"},
            id="pod-level resources are cpu, memory and huge pages",
        ),
    ],
)
def test_pod_limits(spec: Object, limits: Object) -> None:
    assert pod_limits(spec) == amounts(limits)


def test_huge_page_limits_of_containers_become_pod_requests() -> None:
    """``hugepages`` cannot be overcommitted: with pod-level resources, the containers' limits become pod requests."""
    container = _container({"cpu": "1"}, {"hugepages-2Mi": "4Mi"})
    spec = _spec(
        container, init=[_container({"cpu": "1"}, {"hugepages-2Mi": "8Mi"})], resources={"requests": {"cpu": "2"}}
    )
    assert pod_requests(spec) == amounts({"cpu": "2", "hugepages-2Mi": "8Mi"})
    assert pod_limits(spec) == amounts({"hugepages-2Mi": "8Mi"})
    spec["resources"]["requests"]["hugepages-2Mi"] = "16Mi"
    assert pod_requests(spec) == amounts({"cpu": "2", "hugepages-2Mi": "16Mi"})
    assert pod_limits(spec) == amounts({"hugepages-2Mi": "8Mi"})


def test_container_requests_and_limits() -> None:
    container = _container({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"})
    assert container_requests(container) == amounts({"cpu": "1", "memory": "1Gi"})
    assert container_limits(container) == amounts({"cpu": "2", "memory": "1Gi"})


@pytest.mark.parametrize(
    ("spec", "best_effort", "has_own"),
    [
        (_spec(), True, False),
        (_spec(_container({"cpu": "0"}, {"nvidia.com/gpu": 1})), True, False),
        (_spec(_container({"cpu": "1m"})), False, False),
        (_spec(_container(None, {"memory": "1"})), False, False),
        (_spec(_container({"cpu": "0"}, {"cpu": "1"})), False, False),
        (_spec(init=[_container({"cpu": "1m"})]), False, False),
        # Pod-level resources, if present, decide alone.
        (_spec(_container({"cpu": "1m"}), resources={}), True, False),
        (_spec(_container({"cpu": "1m"}), resources=None), False, False),
        (_spec(resources={"requests": {"cpu": "1m"}}), False, True),
        (_spec(resources={"limits": {"memory": "1Mi"}}), False, True),
        (_spec(_container(None, {"hugepages-2Mi": "2Mi"}), resources={"limits": {"hugepages-2Mi": "2Mi"}}), True, True),
        (_spec(resources={"limits": {"nvidia.com/gpu": 1}}), True, False),
    ],
)
def test_is_best_effort_and_has_pod_resources(spec: Object, best_effort: bool, has_own: bool) -> None:
    assert is_best_effort(spec) is best_effort
    assert has_pod_resources(spec) is has_own


# --- workloads --------------------------------------------------------------------------------------------------------

TEMPLATE: Object = {"metadata": {"labels": {"a": "b"}}, "spec": _spec(_container(None, {"nvidia.com/gpu": 2}))}


def _workload(kind: str, **spec: Any) -> Object:
    return {"kind": kind, "metadata": {"name": "x"}, "spec": {"template": TEMPLATE, **spec}}


def _jobset(*jobs: tuple[Object, Object], **spec: Any) -> Object:
    replicated = [{**item, "template": {"spec": {"template": TEMPLATE, **job}}} for item, job in jobs]
    return {"kind": "JobSet", "metadata": {"name": "x"}, "spec": {"replicatedJobs": replicated, **spec}}


@pytest.mark.parametrize(
    ("workload", "pods"),
    [
        (_workload("Job"), 1),
        (_workload("Job", parallelism=None, completions=None, suspend=False), 1),
        (_workload("Job", parallelism=3), 3),
        (_workload("Job", completions=3), 1),
        (_workload("Job", parallelism=4, completions=2), 2),
        (_workload("Job", parallelism=2, completions=4), 2),
        (_workload("Job", parallelism=0), 0),
        (_workload("Job", parallelism=3, suspend=True), 0),
        (_workload("Deployment"), 1),
        (_workload("Deployment", replicas=0), 0),
        (_workload("Deployment", replicas=3), 3),
        (_workload("StatefulSet"), 1),
        (_workload("StatefulSet", replicas=2), 2),
        (_jobset(({}, {})), 1),
        (_jobset(({"replicas": 2}, {"parallelism": 3}), ({}, {"parallelism": 4, "completions": 2})), 8),
        (_jobset(({"replicas": 2}, {"parallelism": 3, "suspend": True})), 6),
        (_jobset(({"replicas": 2}, {"parallelism": 3}), suspend=True), 0),
        ({"kind": "Pod", "spec": TEMPLATE["spec"]}, 1),
        ({"kind": "Service", "spec": {}}, 0),
        ({"kind": "ConfigMap"}, 0),
    ],
)
def test_replicas_is_the_number_of_pods(workload: Object, pods: int) -> None:
    assert replicas(workload) == pods
    for template, _ in pod_templates(workload):
        assert template["spec"] is TEMPLATE["spec"]


def _partly_done(workload: Object, **status: Any) -> Object:
    return {**workload, "status": status}


_NAMED = _jobset(({"name": "driver"}, {}), ({"name": "worker", "replicas": 3}, {"parallelism": 2, "completions": 2}))


@pytest.mark.parametrize(
    ("workload", "pods", "left"),
    [
        (_partly_done(_workload("Job", parallelism=4, completions=4), succeeded=3), 4, 1),
        (_partly_done(_workload("Job", parallelism=2, completions=8), succeeded=3), 2, 2),
        (_partly_done(_workload("Job", parallelism=4, completions=4), succeeded=5), 4, 0),
        (_partly_done(_workload("Job", parallelism=4, completions=4), failed=3), 4, 4),
        (_partly_done(_workload("Job", parallelism=4, completions=4, suspend=True), succeeded=3), 0, 0),
        # Without `completions` no pod is started after the first success.
        (_partly_done(_workload("Job", parallelism=4), succeeded=1), 4, 0),
        (_partly_done(_workload("Job", parallelism=4), succeeded=1, active=2), 4, 2),
        (_partly_done(_workload("Job", parallelism=4), active=2), 4, 4),
        (_partly_done(_NAMED, replicatedJobsStatus=[{"name": "worker", "succeeded": 2, "ready": 1}]), 7, 3),
        (_partly_done(_NAMED, replicatedJobsStatus=[{"name": "driver", "succeeded": 1}, {"name": "worker"}]), 7, 6),
        (_partly_done(_NAMED, replicatedJobsStatus=[{"name": "worker", "succeeded": 9}]), 7, 1),
    ],
)
def test_pods_left_excludes_succeeded_pods(workload: Object, pods: int, left: int) -> None:
    assert (replicas(workload), pods_left(workload)) == (pods, left)
    assert sum(number for _, number in pod_templates(workload)) == left


def test_suspended_workload_has_templates_with_zero_pods() -> None:
    assert pod_templates(_workload("Job", suspend=True)) == [(TEMPLATE, 0)]
    assert pod_templates(_jobset(({}, {}), ({}, {}), suspend=True)) == [(TEMPLATE, 0), (TEMPLATE, 0)]


# --- what counts ------------------------------------------------------------------------------------------------------


def _pod(spec: Object | None = None, **rest: Any) -> Object:
    return {"kind": "Pod", "metadata": {"name": "x"}, "spec": spec or _spec(), **rest}


def _ports(*node_ports: int) -> list[Object]:
    return [{"port": 80 + index, "nodePort": port} for index, port in enumerate(node_ports)]


def _service(**spec: Any) -> Object:
    return {"kind": "Service", "metadata": {"name": "x"}, "spec": spec}


def _claim(annotations: Object | None = None, status: Object | None = None, **spec: Any) -> Object:
    return {"kind": "PersistentVolumeClaim", "metadata": {"annotations": annotations}, "spec": spec, "status": status}


GOLD = "gold.storageclass.storage.k8s.io/"


@pytest.mark.parametrize(
    ("obj", "counted"),
    [
        ({"kind": "ConfigMap"}, {"configmaps": 1, "count/configmaps": 1}),
        ({"kind": "Secret"}, {"secrets": 1, "count/secrets": 1}),
        ({"kind": "ResourceQuota"}, {"resourcequotas": 1, "count/resourcequotas": 1}),
        ({"kind": "Job"}, {"count/jobs.batch": 1}),
        ({"kind": "Deployment"}, {"count/deployments.apps": 1}),
        ({"kind": "StatefulSet"}, {"count/statefulsets.apps": 1}),
        ({"kind": "ReplicaSet"}, {"count/replicasets.apps": 1}),
        ({"kind": "ControllerRevision"}, {"count/controllerrevisions.apps": 1}),
        ({"kind": "HorizontalPodAutoscaler"}, {"count/horizontalpodautoscalers.autoscaling": 1}),
        ({"kind": "JobSet"}, {"count/jobsets.jobset.x-k8s.io": 1}),
        ({"kind": "Namespace"}, {}),
        ({"kind": "PriorityClass"}, {}),
        (_service(ports=_ports(0, 0)), {"services.nodeports": 0, "services.loadbalancers": 0}),
        (_service(type="NodePort", ports=_ports(0, 0)), {"services.nodeports": 2, "services.loadbalancers": 0}),
        (_service(type="LoadBalancer", ports=_ports(0, 0)), {"services.nodeports": 2, "services.loadbalancers": 1}),
        (
            _service(type="LoadBalancer", allocateLoadBalancerNodePorts=False, ports=_ports(0, 30000)),
            {"services.nodeports": 1, "services.loadbalancers": 1},
        ),
        (
            _service(type="NodePort", allocateLoadBalancerNodePorts=False, ports=_ports(0, 0)),
            {"services.nodeports": 2, "services.loadbalancers": 0},
        ),
        (_service(type="NodePort"), {"services.nodeports": 0, "services.loadbalancers": 0}),
        (_service(type="ExternalName"), {"services.nodeports": 0, "services.loadbalancers": 0}),
        (_claim(), {"persistentvolumeclaims": 1, "count/persistentvolumeclaims": 1}),
        (
            _claim(resources={"requests": {"storage": "1500m"}}, storageClassName="gold"),
            {
                "persistentvolumeclaims": 1,
                "count/persistentvolumeclaims": 1,
                "requests.storage": 2,
                f"{GOLD}persistentvolumeclaims": 1,
                f"{GOLD}requests.storage": 2,
            },
        ),
        (
            _claim(
                {"volume.beta.kubernetes.io/storage-class": "gold"},
                {"allocatedResources": {"storage": "4"}},
                resources={"requests": {"storage": "3"}},
                storageClassName="silver",
            ),
            {
                "persistentvolumeclaims": 1,
                "count/persistentvolumeclaims": 1,
                "requests.storage": 4,
                f"{GOLD}persistentvolumeclaims": 1,
                f"{GOLD}requests.storage": 4,
            },
        ),
        (_pod(), {"pods": 1, "count/pods": 1}),
        (_pod(status={"phase": "Running"}), {"pods": 1, "count/pods": 1}),
        (_pod(TEMPLATE["spec"], status={"phase": "Succeeded"}), {"count/pods": 1}),
        (_pod(TEMPLATE["spec"], status={"phase": "Failed"}), {"count/pods": 1}),
        (
            _pod(_spec(_container({"cpu": 1, "memory": 2, "ephemeral-storage": 3}))),
            {
                "pods": 1,
                "count/pods": 1,
                "cpu": 1,
                "memory": 2,
                "ephemeral-storage": 3,
                "requests.cpu": 1,
                "requests.memory": 2,
                "requests.ephemeral-storage": 3,
            },
        ),
        (
            _pod(_spec(_container({"cpu": 0, "memory": 0}, {"cpu": 1, "memory": 2}))),
            {
                "pods": 1,
                "count/pods": 1,
                "cpu": 0,
                "memory": 0,
                "requests.cpu": 0,
                "requests.memory": 0,
                "limits.cpu": 1,
                "limits.memory": 2,
            },
        ),
        (
            _pod(
                _spec(_container(None, {"nvidia.com/gpu": 2, "hugepages-2Mi": 4, "x.kubernetes.io/y": 5, "storage": 6}))
            ),
            {
                "pods": 1,
                "count/pods": 1,
                "requests.nvidia.com/gpu": 2,
                "hugepages-2Mi": 4,
                "requests.hugepages-2Mi": 4,
            },
        ),
        (
            _pod(_spec(_container({"deviceclass.resource.kubernetes.io/gpu": 2}))),
            {"pods": 1, "count/pods": 1, "requests.deviceclass.resource.kubernetes.io/gpu": 2},
        ),
    ],
)
def test_charges_by_kind(obj: Object, counted: dict[str, int]) -> None:
    if obj["kind"] == "Service":
        counted = {"services": 1, "count/services": 1, **counted}
    assert charges(obj) == counted


def test_charges_of_an_unknown_kind_raise_key_error() -> None:
    with pytest.raises(KeyError):
        charges({"kind": "CronTab"})


def test_pod_past_its_deletion_grace_period_is_not_charged() -> None:
    """The grace period counts twice: it is part of deletionTimestamp, and is added to it."""
    pod = _pod(TEMPLATE["spec"])
    pod["metadata"] |= {"deletionTimestamp": "2026-03-01T12:00:30Z", "deletionGracePeriodSeconds": 30}
    on_time = datetime(2026, 3, 1, 12, 1, 0, tzinfo=timezone.utc)
    assert charges(_pod(), on_time) == {"count/pods": 1, "pods": 1}
    without_grace = _pod(metadata={"deletionTimestamp": "2020-03-01T12:00:30Z"})
    assert charges(without_grace, on_time) == {"count/pods": 1, "pods": 1}
    assert charges(pod)["requests.nvidia.com/gpu"] == 2
    assert charges(pod, on_time)["requests.nvidia.com/gpu"] == 2
    assert charges(pod, on_time.replace(second=1)) == {"count/pods": 1}
    quota = _quota({"requests.nvidia.com/gpu": "2"}, used={"requests.nvidia.com/gpu": "2"})
    assert shortfalls([quota], [ChargedObjects(_pod(TEMPLATE["spec"]))], [ChargedObjects(pod)], on_time) == []
    assert (
        len(
            shortfalls(
                [quota], [ChargedObjects(_pod(TEMPLATE["spec"]))], [ChargedObjects(pod)], on_time.replace(second=1)
            )
        )
        == 1
    )


def test_charged_objects_include_child_objects() -> None:
    def kinds(obj: Object) -> list[tuple[str, int]]:
        return [(usage.object["kind"], usage.number) for usage in charged_objects(obj)]

    assert kinds({"kind": "Service", "spec": {}}) == [("Service", 1)]
    assert kinds(_pod()) == [("Pod", 1)]
    assert kinds(_workload("Job", parallelism=3)) == [("Job", 1), ("Pod", 3)]
    assert kinds(_workload("Deployment")) == [("Deployment", 1), ("ReplicaSet", 1), ("Pod", 1)]
    assert kinds(_workload("StatefulSet")) == [("StatefulSet", 1), ("ControllerRevision", 1), ("Pod", 1)]
    jobset = _jobset(({"replicas": 2}, {"parallelism": 3}), ({}, {}))
    assert kinds(jobset) == [("JobSet", 1), ("Job", 3), ("Service", 1), ("Pod", 6), ("Pod", 1)]
    jobset["spec"]["network"] = {"enableDNSHostnames": False}
    assert kinds(jobset) == [("JobSet", 1), ("Job", 3), ("Pod", 6), ("Pod", 1)]
    better: Object = {"metadata": {}, "spec": _spec()}
    assert charged_objects(_workload("Deployment"), [(better, 7)])[-1] == ChargedObjects(as_pod(better), 7)
    assert as_pod(TEMPLATE) == {"apiVersion": "v1", "kind": "Pod", **TEMPLATE}
    assert as_pod({"spec": _spec()}) == as_pod({"metadata": None, "spec": _spec()}) == as_pod(better)


# --- sums -------------------------------------------------------------------------------------------------------------


def _quota(hard: Object, used: Object | None = None, status_hard: Object | None = None, **spec: Any) -> Object:
    status = {} if used is None else {"hard": hard if status_hard is None else status_hard, "used": used}
    return {"metadata": {"name": "team-a"}, "spec": {"hard": hard, **spec}, "status": status}


GPU = "requests.nvidia.com/gpu"
GPU_POD = ChargedObjects(_pod(TEMPLATE["spec"]))


def _verdicts(quota: Object, added: list[ChargedObjects], freed: list[ChargedObjects] | None = None) -> list[str]:
    return [str(item) for item in shortfalls([quota], added, freed or [])]


def test_shortfalls_subtract_released_usage() -> None:
    quota = _quota({GPU: "8"}, {GPU: "8"})
    assert _verdicts(quota, [GPU_POD._replace(number=4)], [GPU_POD._replace(number=2)]) == [
        "quota team-a: requests.nvidia.com/gpu would be 12 of 8 (in use 8, released 4, needed 8)"
    ]
    assert _verdicts(quota, [GPU_POD, GPU_POD], [GPU_POD]) == [
        "quota team-a: requests.nvidia.com/gpu would be 10 of 8 (in use 8, released 2, needed 4)"
    ]
    assert _verdicts(quota, [GPU_POD]) == [
        "quota team-a: requests.nvidia.com/gpu would be 10 of 8 (in use 8, needed 2)"
    ]
    assert _verdicts(quota, [GPU_POD], [GPU_POD]) == []
    assert _verdicts(quota, [GPU_POD._replace(number=0)]) == []


def test_shortfalls_are_per_quota_and_resource() -> None:
    names = ("count/pods", "cpu", "limits.cpu", "memory", "pods", "requests.cpu", "requests.memory")
    first = _quota(dict.fromkeys((*names, "secrets"), "1"), dict.fromkeys(names, "0"))
    second = {**_quota({"pods": "1"}, {"pods": "1"}), "metadata": {"name": "b"}}
    pod = ChargedObjects(_pod(_spec(_container({"cpu": 1, "memory": 1}, {"cpu": 1}))))
    found = shortfalls([first, second], (pod for _ in range(3)), (pod for _ in range(1)))
    assert [(item.quota, item.resource, item.freed, item.total) for item in found] == [
        *(("team-a", name, 0, 3) for name in names),
        ("b", "pods", 1, 3),
    ]


def test_usage_that_does_not_rise_is_no_shortfall() -> None:
    quota = _quota({"pods": "1", GPU: "1"}, {"pods": "1", GPU: "5"})
    assert _verdicts(quota, [ChargedObjects({"kind": "ConfigMap"})]) == []
    # A request of zero does not raise the usage either.
    zero = ChargedObjects(_pod(_spec(_container({"nvidia.com/gpu": 0}))))
    assert [item.resource for item in shortfalls([quota], [zero])] == ["pods"]


def test_smaller_limit_of_spec_and_status_applies() -> None:
    used = {"pods": "2"}
    assert _verdicts(_quota({"pods": "3"}, used, {"pods": "2"}), [GPU_POD]) != []
    assert _verdicts(_quota({"pods": "2"}, used, {"pods": "3"}), [GPU_POD]) != []
    assert _verdicts(_quota({"pods": "3"}, used, {"pods": "3"}), [GPU_POD]) == []
    # The quota controller has not updated the status yet, or not since a limit was removed.
    assert _verdicts(_quota({"pods": "0"}), [GPU_POD]) == ["quota team-a: pods would be 1 of 0 (in use 0, needed 1)"]
    assert _verdicts(_quota({}, used, {"pods": "2"}), [GPU_POD]) != []
    assert _verdicts({"metadata": {"name": "x"}, "spec": {"hard": {"pods": "0"}}}, [GPU_POD]) != []


def test_released_amount_is_at_most_the_used_amount() -> None:
    quota = _quota({GPU: "1"}, {GPU: "1"})
    assert shortfalls([quota], [GPU_POD], [GPU_POD]) == [
        Shortfall("team-a", GPU, Fraction(1), Fraction(1), Fraction(1), Fraction(2))
    ]


def test_update_is_charged_by_its_increase() -> None:
    def service(kind: str, ports: int) -> Object:
        return _service(type=kind, ports=_ports(*[0] * ports))

    quota = _quota({"services": "0", "services.nodeports": "3"}, {"services": "1", "services.nodeports": "2"})
    plain, two, three, four = service("ClusterIP", 9), *(service("NodePort", number) for number in (2, 3, 4))
    assert _verdicts(quota, [ChargedObjects(three, before=two)]) == []
    assert _verdicts(quota, [ChargedObjects(plain, before=two)]) == []
    assert [item.needed for item in shortfalls([quota], [ChargedObjects(four, before=two)])] == [2]
    assert [item.needed for item in shortfalls([quota], [ChargedObjects(two, before=plain)])] == [2]
    # An update that lowers the usage frees nothing for another update: the decrease is counted later.
    assert len(_verdicts(quota, [ChargedObjects(plain, before=two), ChargedObjects(two, before=plain)])) == 1
    grown = ChargedObjects(_pod(TEMPLATE["spec"]), before=_pod())
    assert [item.needed for item in shortfalls([_quota({GPU: "0", "pods": "0"}, {GPU: "0"})], [grown])] == [2]
    # A pod that enters the scope of a quota counts in full.
    scoped = _quota({"pods": "0"}, {"pods": "0"}, scopes=["Terminating"])
    ending = _pod(_spec(activeDeadlineSeconds=5))
    assert len(_verdicts(scoped, [ChargedObjects(ending, before=_pod())])) == 1
    assert _verdicts(scoped, [ChargedObjects(ending, before=ending)]) == []


def _priority(name: str | None) -> Object:
    return _spec(**({"priorityClassName": name} if name is not None else {}))


def _affine(side: str, term: Object, *, weighted: bool = False) -> Object:
    if weighted:
        rule: Object = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    else:
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return _spec(affinity={side: rule})


def _select(operator: str, *values: str) -> Object:
    expression = {"scopeName": "PriorityClass", "operator": operator, **({"values": list(values)} if values else {})}
    return {"scopeSelector": {"matchExpressions": [expression]}}


ENDING, REQUESTING = _spec(activeDeadlineSeconds=5), _spec(_container({"cpu": "1"}))


@pytest.mark.parametrize(
    ("scopes", "inside", "outside"),
    [
        ({"scopes": ["Terminating"]}, [ENDING], [_spec()]),
        ({"scopes": ["NotTerminating"]}, [_spec()], [ENDING]),
        ({"scopes": ["BestEffort"]}, [_spec()], [REQUESTING]),
        ({"scopes": ["NotBestEffort"]}, [REQUESTING], [_spec()]),
        ({"scopes": ["PriorityClass"]}, [_priority("a")], [_priority(None), _priority("")]),
        (_select("Exists"), [_priority("a")], [_priority(None)]),
        (_select("DoesNotExist"), [_priority(None)], [_priority("a")]),
        (_select("In", "a", "b"), [_priority("a"), _priority("b")], [_priority("c"), _priority(None)]),
        (_select("NotIn", "a", "b"), [_priority("c"), _priority(None)], [_priority("a"), _priority("b")]),
        (
            {"scopes": ["CrossNamespacePodAffinity"]},
            [
                _affine("podAffinity", {"namespaces": ["x"]}),
                _affine("podAntiAffinity", {"namespaceSelector": {}}),
                _affine("podAffinity", {"namespaceSelector": {}}, weighted=True),
            ],
            [_spec(), _affine("podAffinity", {"namespaces": []}), _spec(affinity={"nodeAffinity": {}})],
        ),
        # All scopes have to hold.
        (
            {"scopes": ["Terminating"], **_select("In", "a")},
            [{**ENDING, "priorityClassName": "a"}],
            [ENDING, _priority("a")],
        ),
        ({"scopes": ["VolumeAttributesClass"]}, [], [_spec(), _affine("podAffinity", {"namespaces": ["x"]})]),
    ],
)
def test_quota_scopes_select_pods(scopes: Object, inside: list[Object], outside: list[Object]) -> None:
    quota = _quota({"pods": "0"}, {"pods": "0"}, **scopes)
    assert [len(_verdicts(quota, [ChargedObjects(_pod(spec))])) for spec in inside] == [1] * len(inside)
    assert [len(_verdicts(quota, [ChargedObjects(_pod(spec))])) for spec in outside] == [0] * len(outside)
    # Only usage in the scope is released, and scopes apply only to pods.
    quota = _quota({"pods": "1", "services": "0"}, {"pods": "1"}, **scopes)
    for spec in inside:
        assert [
            len(_verdicts(quota, [ChargedObjects(_pod(spec))], [ChargedObjects(_pod(other))])) for other in outside
        ] == [1] * len(outside)
    assert _verdicts(quota, [ChargedObjects(_service())]) == []


def test_qos_class_of_a_live_pod_decides_its_scope() -> None:
    quota = _quota({"pods": "0"}, {"pods": "0"}, scopes=["BestEffort"])
    assert len(_verdicts(quota, [ChargedObjects(_pod(REQUESTING, status={"qosClass": "BestEffort"}))])) == 1
    assert len(_verdicts(quota, [ChargedObjects(_pod(status={"qosClass": "Burstable"}))])) == 0


def test_unspecified_lists_containers_without_required_resources() -> None:
    def pod(*containers: Object, **rest: Any) -> ChargedObjects:
        return ChargedObjects(_pod(_spec(*containers, **rest)))

    quota = _quota({"limits.cpu": "9", "requests.memory": "9", GPU: "1", "requests.ephemeral-storage": "9"})
    bare, full = {"name": "bare"}, {"name": "full", "resources": {"limits": {"cpu": "1", "memory": "1"}}}
    assert unspecified([quota], [pod(full)]) == []
    assert unspecified([quota], [pod(full, bare), pod(full, init=[{**bare, "name": "init"}])]) == [
        Unspecified("team-a", "limits.cpu", ("bare", "init")),
        Unspecified("team-a", "requests.memory", ("bare", "init")),
    ]
    many = [{"name": name} for name in "gfedcba"]
    assert [str(item) for item in unspecified([_quota({"cpu": "1"})], [pod(full, *many)])] == [
        "quota team-a: every container must set cpu, and these do not: a, b, c, d, e, f, g"
    ]
    assert unspecified([quota], [pod(bare, resources={"limits": {"cpu": "1"}})]) == []
    assert len(unspecified([quota], [pod(bare, resources={})])) == 2
    assert unspecified([quota], [pod(bare)._replace(number=0)]) == []
    assert unspecified([quota], [ChargedObjects({"kind": "ConfigMap"})]) == []
    assert unspecified([_quota({"pods": "1"})], [pod(bare)]) == []
    assert unspecified([{**quota, "spec": {**quota["spec"], "scopes": ["Terminating"]}}], [pod(bare)]) == []
    for resource in ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"):
        assert unspecified([_quota({resource: "1"})], [pod(bare)]) == [Unspecified("team-a", resource, ("bare",))]


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("pods", 0, "0"),
        ("requests.memory", 0, "0"),
        (GPU, 4096, "4096"),
        ("requests.cpu", Fraction(3, 2), "1500m"),
        ("limits.cpu", 2000, "2000"),
        ("memory", 64 * 2**30, "64Gi"),
        ("requests.memory", 3 * 2**29, "1536Mi"),
        ("requests.storage", 500 * 10**9, "500G"),
        ("limits.ephemeral-storage", 1500, "1500"),
        ("limits.ephemeral-storage", 15000, "15k"),
        ("memory", 3 * 10**18, "3E"),
        ("memory", 10**6, "1M"),
        ("memory", 10**12, "1T"),
        ("memory", 10**15, "1P"),
        ("memory", Fraction(1, 10), "100m"),
        ("hugepages-2Mi", 4 * 2**20, "4Mi"),
        (f"{GOLD}requests.storage", 2**40, "1Ti"),
        (f"{GOLD}persistentvolumeclaims", 2048, "2048"),
    ],
)
def test_format_amount(resource: str, amount: int | Fraction, text: str) -> None:
    assert format_amount(resource, Fraction(amount)) == text


EXCEEDED = (
    'pods "x" is forbidden: exceeded quota: team-a.gpu, requested: limits.memory=20Gi,requests.nvidia.com/gpu=8, used: '
    "limits.memory=1500m,requests.nvidia.com/gpu=4, limited: limits.memory=1e3,requests.nvidia.com/gpu=8"
)
MISSING = 'pods "x" is forbidden: failed quota: q: must specify limits.cpu for: c,d; requests.cpu for: c'
UNKNOWN = 'pods "x" is forbidden: status unknown for quota: q, resources: pods'


@pytest.mark.parametrize("message", [EXCEEDED, f"Error creating: {EXCEEDED}.", f"({EXCEEDED})", f"{EXCEEDED}\nmore"])
def test_parse_exceeded_quota_message(message: str) -> None:
    found = parse_exceeded(message)
    assert found == [
        Shortfall("team-a.gpu", "limits.memory", Fraction(1000), Fraction(3, 2), Fraction(0), Fraction(20 * 2**30)),
        Shortfall("team-a.gpu", GPU, Fraction(8), Fraction(4), Fraction(0), Fraction(8)),
    ]
    assert str(found[1]) == "quota team-a.gpu: requests.nvidia.com/gpu would be 12 of 8 (in use 4, needed 8)"
    assert is_quota_refusal(message)
    assert parse_unspecified(message) is None


def test_parse_exceeded_accepts_every_quantity_suffix() -> None:
    suffixes = ("", "n", "u", "m", *"kMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "e-3", "E+3")
    requested = ",".join(f"r{index}=5{suffix}" for index, suffix in enumerate(suffixes))
    found = parse_exceeded(f"exceeded quota: q, requested: {requested}, used: r0=0, limited: r0=1.5k")
    assert found is not None
    assert [item.needed for item in found] == [quantity(f"5{suffix}") for suffix in suffixes]
    assert {item.used for item in found} == {0}
    assert found[0].hard == 1500


def test_parse_exceeded_with_empty_usage() -> None:
    found = parse_exceeded("exceeded quota: q, requested: pods=1, used: , limited: pods=0")
    assert found == [Shortfall("q", "pods", Fraction(0), Fraction(0), Fraction(0), Fraction(1))]


def test_parse_must_specify_message() -> None:
    expected = [Unspecified("q", "limits.cpu", ("c", "d")), Unspecified("q", "requests.cpu", ("c",))]
    assert parse_unspecified(MISSING) == expected
    assert parse_unspecified(f"Error creating: {MISSING}") == expected
    # Waiting does not resolve this error.
    assert not is_quota_refusal(MISSING)
    assert parse_exceeded(MISSING) is None


@pytest.mark.parametrize(
    "message",
    [
        "",
        'pods is forbidden: User "a" cannot create resource "pods" in API group "" in the namespace "b"',
        'pods "x" is forbidden: insufficient quota to consume: requests.nvidia.com/gpu',
        "exceeded quota",
    ],
)
def test_other_messages_are_not_quota_errors(message: str) -> None:
    assert not is_quota_refusal(message)
    assert parse_exceeded(message) is None
    assert parse_unspecified(message) is None


def test_unknown_quota_status_is_a_quota_refusal() -> None:
    assert is_quota_refusal(UNKNOWN)
    assert parse_exceeded(UNKNOWN) is None
    assert parse_unspecified(UNKNOWN) is None
