"""Jobs in Kueue's queues that request devices of drivers (DRA): what Kueue counts, refuses, and what is unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuctl.capacity.fit.job_fit import Fit
from gpuctl.capacity.fit.waiting_fit import fit_waiting
from gpuctl.capacity.kueue.kueue_configuration import configuration_entry, kueue_configuration
from gpuctl.capacity.kueue.kueue_devices import CountedDevices, KueueDevices
from gpuctl.capacity.snapshot.kueue_entries import workload_entry
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from support.queue_cases import configured, job, judged, queue, snapshot, verdict, workload, world
from support.queue_worlds import GPU

Object = dict[str, Any]
CARDS, CLASS = "example.com/cards", "gpu.example.com"
A100 = f'device.attributes["{CLASS}"].model == "A100"'
MAPPED: Object = {"resources": {"deviceClassMappings": [{"name": CARDS, "deviceClassNames": [CLASS]}]}}


def template(name: str, *requests: Object) -> Object:
    return {"namespace": "team", "name": name, "requests": [[item] for item in requests]}


def request(count: int = 1, device_class: str = CLASS, **rest: Any) -> Object:
    return {"class": device_class, "count": count, **rest}


def devices(*models: str) -> Object:
    """A ResourceSlice of the node that the queue's flavor selects."""
    found = [{"name": f"gpu-{at}", "attributes": {"model": {"string": model}}} for at, model in enumerate(models)]
    pool = {"name": "card", "generation": 1, "slices": 1}
    return {"driver": CLASS, "pool": pool, "node": "card", "devices": found}


def claims(name: str, gpus: int = 0, claim: str = "one", **spec: Any) -> Object:
    """A job whose pod claims devices by a template."""
    found = job(name, "team", gpus, **spec)
    pod = found["spec"]["template"]["spec"]
    pod["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": claim}]
    return found


def cluster(*requests: Object, quota: int = 2, stated: Object | None = None, release: str = "v0.19.2") -> Snapshot:
    """A cluster with 4 devices, a queue with a quota for cards, and the template ``one``."""
    obj, local = queue("team", 4)
    (group,) = obj["spec"]["resourceGroups"]
    group["coveredResources"].append(CARDS)
    group["flavors"][0]["resources"].append({"name": CARDS, "nominalQuota": quota})
    have = snapshot(world((obj, local)))
    have = replace(
        have,
        device_classes=[{"name": CLASS, "selectors": [f'device.driver == "{CLASS}"']}],
        resource_slices=[devices("A100", "A100", "H100", "H100")],
        resource_claim_templates=[template("one", *requests)],
    )
    return configured(have, MAPPED if stated is None else stated, release)


def answer(have: Snapshot, *jobs: Object) -> Fit:
    return judged(have, *jobs)[jobs[-1]["metadata"]["name"]]


def test_claimed_devices_count_with_the_mapped_resource() -> None:
    assert verdict(cluster(request(2)), claims("new")) == ("fits", True)
    found = answer(cluster(request(3)), claims("new"))
    assert (found.verdict, found.certain) == ("never", True)
    assert f"it asks for 3 {CARDS} in all, and 2 is the most" in found.reason
    second = answer(cluster(request(2)), claims("first"), claims("second"))
    assert second.verdict == "fits-when-empty"
    assert f"it asks for 2 {CARDS}, 0 free in flavor card (2 of 2 used)" in second.reason


@pytest.mark.parametrize(
    ("asked", "stated", "reason"),
    [
        (request(), {}, f"Kueue's configuration does not list DeviceClass {CLASS} (resources.deviceClassMappings)"),
        (request(all=True), None, "Kueue does not support claims for all devices of a node (allocationMode All)"),
        (request(uncounted="admin access"), None, "Kueue does not support claims for admin access"),
        (request(alternative=True), None, "Kueue does not support claims with alternatives (firstAvailable)"),
        (
            request(3, selectors=[A100]),
            None,
            f"its pods claim 3 of DeviceClass {CLASS}, and only 2 of its devices match",
        ),
        (
            request(),
            {**MAPPED, "featureGates": {"KueueDRAIntegration": False}},
            "its pods claim devices, and Kueue's feature gate KueueDRAIntegration is off",
        ),
    ],
)
def test_claims_that_kueue_refuses(asked: Object, stated: Object | None, reason: str) -> None:
    found = answer(cluster(asked, stated=stated), claims("new"))
    assert (found.verdict, found.certain) == ("never", True)
    assert f"does not admit it: {reason}" in found.reason


def test_shared_claims_are_refused() -> None:
    new = claims("new")
    new["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "shared"}]
    found = answer(cluster(request()), new)
    assert (found.verdict, "ResourceClaims that pods share" in found.reason) == ("never", True)


def test_what_kueue_counts_is_unknown_without_its_configuration_or_release() -> None:
    """The reason says what is missing."""
    have = cluster(request())
    lists = {name: item for name, item in (have.kueue or {}).items() if name != "configuration"}
    found = answer(replace(have, kueue=lists), claims("new"))
    assert (found.verdict, found.certain) == ("unknown", False)
    assert "ConfigMap kueue-manager-config in kueue-system) could not be read" in found.reason
    for release in ("", "v0.17.3"):
        found = answer(cluster(request(), release=release), claims("new"))
        assert (found.verdict, "Kueue's release is unknown or before 0.18" in found.reason) == ("unknown", True)
    sources = [{"counter": {"name": "memory", "driver": CLASS}}]
    mapping = {"name": CARDS, "deviceClassNames": [CLASS], "sources": sources}
    found = answer(cluster(request(), stated={"resources": {"deviceClassMappings": [mapping]}}), claims("new"))
    assert (found.verdict, "by counters or capacities of its devices" in found.reason) == ("unknown", True)


def test_request_of_an_unknown_form_is_not_counted() -> None:
    have = replace(cluster(), resource_claim_templates=[{"namespace": "team", "name": "one", "requests": [[]]}])
    found = answer(have, claims("new"))
    assert (found.verdict, "has a request of an unknown form" in found.reason) == ("unknown", True)


def test_claims_do_not_count_if_both_gates_are_off() -> None:
    gates = {"KueueDRAIntegration": False, "KueueDRARejectWorkloadsWhenDRADisabled": False}
    assert verdict(cluster(request(3), stated={"featureGates": gates}), claims("new")) == ("fits", True)


def counted(gpus: int, mappings: Object, release: str, classes: list[Object]) -> CountedDevices:
    entry = configuration_entry({"kind": "Configuration", **mappings}, release)
    have = replace(cluster(request()), device_classes=classes)
    configuration = kueue_configuration({"configuration": entry})
    spec = {"containers": [{"resources": {"requests": {GPU: str(gpus)}}}]}
    return KueueDevices(have, configuration).of(spec, "team")


def test_extended_resources_of_device_classes() -> None:
    """Kueue counts them with the mapped resource since 0.19; without a mapping with their own name."""
    offered = [{"name": CLASS, "extendedResource": GPU}]
    assert counted(2, MAPPED, "v0.19.0", offered) == CountedDevices({CARDS: 2}, frozenset({GPU}))
    assert counted(2, MAPPED, "v0.18.5", offered) == CountedDevices()
    gate = {"featureGates": {"KueueDRAIntegrationExtendedResource": True}}
    assert counted(2, {**MAPPED, **gate}, "v0.18.5", offered).added == {CARDS: 2}
    for gate_name in ("KueueDRAIntegration", "KueueDRAIntegrationExtendedResource"):
        off = {"featureGates": {gate_name: False}}
        assert counted(2, {**MAPPED, **off}, "v0.19.0", offered) == CountedDevices()
    assert "its release is unknown" in counted(2, MAPPED, "", offered).unknown_reason
    assert counted(2, {}, "", offered) == CountedDevices()
    assert counted(2, MAPPED, "", []) == CountedDevices()
    two = [*offered, {"name": "other", "extendedResource": GPU}]
    assert f"several DeviceClasses offer {GPU}" in counted(2, MAPPED, "v0.19.0", two).unknown_reason


def test_slices_of_device_plugins_are_plain_resources() -> None:
    """MIG slices: the quota of the ClusterQueue covers them or not."""
    slices = "nvidia.com/mig-1g.10gb"
    obj, local = queue("team", 4)
    (group,) = obj["spec"]["resourceGroups"]
    new = job("new", "team", 0)
    (container,) = new["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {slices: "2"}, "limits": {slices: "2"}}
    have = snapshot(world((obj, local)))
    have = replace(have, nodes=[{**node, "allocatable": {**node["allocatable"], slices: "2"}} for node in have.nodes])
    found = answer(have, new)
    assert (found.verdict, found.certain) == ("never", True)
    assert f"has no quota for {slices}, which the job asks for" in found.reason
    group["coveredResources"].append(slices)
    group["flavors"][0]["resources"].append({"name": slices, "nominalQuota": 2})
    covered = snapshot(world((obj, local)))
    assert verdict(replace(covered, nodes=have.nodes), new) == ("fits", True)


def test_waiting_jobs_with_claims() -> None:
    """Kueue's recorded sums and its refusal are used; without them the claims are counted."""
    have = cluster(request(2))

    def waiting(**more: Any) -> Fit:
        item = workload("old", "team", 0)
        item["spec"]["podSets"][0]["template"] = claims("old")["spec"]["template"]
        item["status"].update(more)
        lists = {**(have.kueue or {}), "workloads": [workload_entry(item)]}
        (found,) = [fit for fit in fit_waiting(replace(have, kueue=lists)) if fit.demand.name == "old"]
        return found

    assert (waiting().verdict, waiting().certain) == ("fits", True)
    recorded = waiting(resourceRequests=[{"name": "main", "resources": {CARDS: "3"}}])
    assert f"it asks for 3 {CARDS} in all, and 2 is the most" in recorded.reason
    said = 'spec.podSets[0].template.spec.resourceClaims[0]: Not found: "DeviceClass other is not mapped"'
    condition = {"type": "QuotaReserved", "status": "False", "message": said}
    assert f"does not admit it: {said}" in waiting(conditions=[condition]).reason
    said = "spec.podSets[0].template.spec.resourceClaims[0]: Internal error: failed to get claim spec: timed out"
    retried = waiting(conditions=[{**condition, "message": said}])
    assert (retried.verdict, retried.certain) == ("fits", True)
