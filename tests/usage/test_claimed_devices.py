"""GPUs of dynamic resource allocation: devices offered by drivers and claimed by pods, read from API objects."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import pytest

from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl_usage.facts import CapacityState, EndReason, Holding, UsageKeys, WorkloadKey
from gpuctl_usage.gathering.claimed_devices import ClaimedDevices, Device, Offer, claimed_gpus, offered_gpus
from gpuctl_usage.gathering.gpu_weights import DEVICES, UNSIZED_DEVICES, GpuWeights
from gpuctl_usage.gathering.object_facts import FactMaker, NodeFacts, PodFacts
from gpuctl_usage.gathering.open_intervals import OpenIntervals
from gpuctl_usage.gathering.tracked_objects import Belonging
from gpuctl_usage.rollup.aggregation import CLUSTER
from gpuctl_usage.rollup.hour import roll_up
from gpuctl_usage.rollup.ledger import discrepancies

Object = dict[str, Any]
DRIVER = "gpu.nvidia.com"
T0 = 1_717_236_000


def resource_slice(*devices: Object, driver: str = DRIVER, generation: int = 1, **more: Any) -> Object:
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": 1}
    return {"spec": {"driver": driver, "nodeName": "n1", "pool": pool, "devices": list(devices), **more}}


def typed(name: str, kind: str) -> Object:
    return {"name": name, "attributes": {"type": {"string": kind}}}


@pytest.mark.parametrize(
    ("slices", "names"),
    [
        ([resource_slice({"name": "gpu-0"}, {"name": "gpu-1"})], ["gpu-0", "gpu-1"]),
        ([resource_slice(typed("gpu-0", "gpu"), typed("gpu-0-mig-1g", "mig"), typed("v", "vfio"))], ["gpu-0"]),
        # Drivers may write the type in other letters.
        ([resource_slice(typed("gpu-0", "GPU"))], ["gpu-0"]),
        ([resource_slice({"name": "whole"}, {"name": "part", "consumesCounters": [{}]})], ["whole"]),
        # A device in v1beta1.
        ([resource_slice({"name": "gpu-0", "basic": {"attributes": {"type": {"string": "gpu"}}}})], ["gpu-0"]),
        # A newer generation of a pool replaces the older one.
        ([resource_slice({"name": "old"}), resource_slice({"name": "new"}, generation=2)], ["new"]),
        ([resource_slice({"name": "nic-0"}, driver="dra.net")], []),
        ([resource_slice({"name": "channel-0"}, driver="compute-domain.nvidia.com")], []),
        ([resource_slice({"name": "a"}, driver="gpu.amd.com")], ["a"]),
        ([resource_slice({"name": "far"}, nodeName=None, allNodes=True)], []),
        ([{}, {"spec": None}], []),
    ],
)
def test_whole_gpus_offered_by_drivers(slices: list[Object], names: list[str]) -> None:
    assert sorted(device.name for device in offered_gpus(slices)) == names


def mig(name: str, profile: str, **more: Any) -> Object:
    attributes = {"type": {"string": "mig"}, "gpu.nvidia.com/profile": {"string": profile}}
    return {"name": name, "attributes": attributes, **more}


def test_slices_have_the_resource_of_their_profile() -> None:
    on_demand = mig("b", "3g.40gb", consumesCounters=[{}])
    found = offered_gpus([resource_slice(mig("a", "1g.10gb+me"), on_demand, mig("c", "odd"))])
    assert {device.name: offer for device, offer in found.items()} == {
        "a": Offer("n1", "nvidia.com/mig-1g.10gb.me"),
        "b": Offer("n1", "nvidia.com/mig-3g.40gb", on_demand=True),
    }


def claim(*devices: str, reserved: int = 1, **more: Any) -> Object:
    results = [{"driver": DRIVER, "pool": "n1", "device": name, **more} for name in devices]
    owners = [{"resource": "pods", "name": f"p{number}", "uid": f"u{number}"} for number in range(reserved)]
    return {"status": {"allocation": {"devices": {"results": results}}, "reservedFor": owners}}


SLICE = "nvidia.com/mig-1g.10gb"
WHOLE = {
    Device(DRIVER, "n1", "gpu-0"): DEVICES,
    Device(DRIVER, "n1", "gpu-1"): DEVICES,
    Device(DRIVER, "n1", "gpu-2-mig-1g.10gb"): SLICE,
}


@pytest.mark.parametrize(
    ("given", "whole", "gpus"),
    [
        (claim("gpu-0", "gpu-1"), WHOLE, [DEVICES, DEVICES]),
        (claim("gpu-0", "gpu-2-mig-1g.10gb"), WHOLE, [DEVICES, SLICE]),
        (claim("gpu-0", "gpu-1"), None, [DEVICES, DEVICES]),
        (claim("gpu-0-mig-1g.10gb"), WHOLE, None),
        (claim("gpu-0-mig-1g.10gb"), None, None),
        (claim("gpu-0", shareID="x"), WHOLE, None),
        (claim("gpu-0", reserved=2), WHOLE, None),
        (claim("gpu-0", adminAccess=True), WHOLE, []),
        ({"status": {}}, WHOLE, []),
        ({}, WHOLE, []),
    ],
)
def test_claimed_gpus_of_a_claim(given: Object, whole: dict[Device, str] | None, gpus: list[str] | None) -> None:
    assert claimed_gpus(given, whole) == gpus


WEIGHTS = GpuWeights(Settings())
MAKER = FactMaker(UsageKeys((), ()), WEIGHTS)


def node() -> NodeFacts:
    """A node without extended resources."""
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-06-01T09:00:00Z"}]
    metadata = {"uid": "n1", "name": "n1", "creationTimestamp": "2024-06-01T09:00:00Z"}
    found = MAKER.of({"kind": "Node", "metadata": metadata, "spec": {}, "status": {"conditions": ready}})
    assert isinstance(found, NodeFacts)
    return found


def pod(number: int, **more: Any) -> PodFacts:
    """A pod bound at T0; ``more`` goes into its spec or status."""
    bound = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2024-06-01T10:00:00Z"}]
    spec = {"nodeName": "n1", "containers": [{"name": "main", **more.pop("container", {})}]}
    metadata = {
        "uid": f"u{number}",
        "name": f"p{number}",
        "namespace": "a",
        "creationTimestamp": "2024-06-01T10:00:00Z",
    }
    for part in ("resourceClaims",):
        if part in more:
            spec[part] = more.pop(part)
    status = {"phase": "Running", "conditions": bound, **more}
    found = MAKER.of({"kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
    assert isinstance(found, PodFacts)
    return found


EXTENDED = {
    "container": {"resources": {"limits": {"nvidia.com/gpu": "4"}}},
    "extendedResourceClaimStatus": {"resourceClaimName": "p-extended", "requestMappings": []},
}
NAMED = {
    "resourceClaims": [
        {"name": "gpu", "resourceClaimTemplateName": "two"},
        {"name": "nic", "resourceClaimName": "nic"},
    ],
    "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p2-gpu-x7"}],
}


def test_claims_of_a_pod() -> None:
    assert (pod(1, **EXTENDED).by_claim, pod(1, **EXTENDED).gpu_requests) == (True, (("nvidia.com/gpu", 4.0),))
    assert pod(1, **EXTENDED).claims == ("p-extended",)
    assert pod(2, **NAMED).claims == ("nic", "p2-gpu-x7")
    by_class = {"container": {"resources": {"limits": {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "4"}}}}
    assert pod(3, **{**EXTENDED, **by_class}).claims == ("p-extended",)


@pytest.mark.parametrize("offered", [{"n1": 8.0}, {}], ids=["slices are readable", "slices are not readable"])
def test_ledger_balances_with_claimed_devices(offered: dict[str, float]) -> None:
    """GPUs by extended resources and by claims: none missing, none negative."""
    intervals = OpenIntervals(WEIGHTS)
    intervals.put_devices(offered, T0 - 10.0)
    intervals.put_node(node(), T0 - 9.0)
    intervals.all_listed(T0 - 8.0)
    claimed = pod(2, **NAMED)._replace(gpu_requests=((DEVICES, 2.0),), by_claim=True)
    for facts in (pod(1, **EXTENDED), claimed):
        intervals.put_pod(facts, Belonging(WorkloadKey("a", "Pod", facts.name, facts.uid)), T0 + 1.0)
    assert sum(item.gpus for item in intervals.open_holdings()) == 6
    assert [item.gpus for item in intervals.open_capacities()] == [offered.get("n1", 6.0)]
    changes = intervals.take()
    rolled = roll_up(T0, 600, changes.holdings, changes.capacities, [], 15)
    assert discrepancies(rolled) == []
    assert rolled.sums[CLUSTER].alloc_gpu_s == 6 * 600
    assert rolled.sums[CLUSTER].free_gpu_s == (2 * 600 if offered else 0)


def test_claimed_partition_has_an_unknown_size() -> None:
    intervals = OpenIntervals(WEIGHTS)
    intervals.put_devices({"n1": 8.0}, T0 - 10.0)
    intervals.put_node(node(), T0 - 9.0)
    intervals.all_listed(T0 - 8.0)
    facts = pod(2, **NAMED)._replace(gpu_requests=((UNSIZED_DEVICES, 1.0),), by_claim=True)
    intervals.put_pod(facts, Belonging(WorkloadKey("a", "Pod", "p2", "u2")), T0 + 1.0)
    assert intervals.open_holdings() == []
    assert [item.state for item in intervals.open_capacities()] == [CapacityState.UNSIZED]


class Answers:
    """A session with the objects of an API server, by path. A status in place of an object is an error."""

    def __init__(self, objects: dict[str, Object | int], version: str = "v1") -> None:
        self.objects = objects
        self.version = version
        self.paths: list[str] = []

    def request(self, _: str, path: str) -> Object:
        """Return an object."""
        version, name = path.removeprefix("/apis/resource.k8s.io/").split("/", 1)
        self.paths.append(path)
        found = self.objects.get(name, 404) if version == self.version else 404
        if isinstance(found, int):
            raise ApiError(found, "", "")
        return found


def claims_of(*names: str) -> Object:
    return {"resourceClaims": [{"name": name, "resourceClaimName": name} for name in names]}


def devices_of(answers: Answers) -> ClaimedDevices:
    return ClaimedDevices(cast(Session, answers), WEIGHTS)


SLICES = {"items": [resource_slice(*({"name": device.name} for device in WHOLE))]}
EXTENDED_CLAIM = "namespaces/a/resourceclaims/p-extended"
ONE, OTHER = (f"namespaces/a/resourceclaims/{name}" for name in ("one", "other"))


@pytest.mark.parametrize("slices", [SLICES, 403])
@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_claims_are_read_in_the_version_that_is_served(version: str, slices: Object | int) -> None:
    found = devices_of(Answers({"resourceslices": slices, ONE: claim("gpu-0", "gpu-1")}, version))
    with suppress(ApiError):
        found.offered()
    assert found.with_devices(pod(0, **claims_of("one"))).gpu_requests == ((DEVICES, 2.0),)
    assert found.uncertain_pods() == []


@pytest.mark.parametrize(
    ("found", "requests"),
    [
        (claim("gpu-0", "gpu-1", "gpu-2", "gpu-3"), ((DEVICES, 4.0),)),
        (claim("gpu-0", shareID="x"), ((UNSIZED_DEVICES, 1.0),)),
        (claim("part"), ((SLICE, 1.0),)),
        (403, (("nvidia.com/gpu", 4.0),)),
    ],
    ids=["cards", "share", "slice", "not readable"],
)
def test_extended_resource_counts_as_the_devices_of_its_claim(found: Object | int, requests: tuple[Any, ...]) -> None:
    cards = [{"name": f"gpu-{number}"} for number in range(4)]
    slices = {"items": [resource_slice(*cards, mig("part", "1g.10gb"))]}
    devices = devices_of(Answers({"resourceslices": slices, EXTENDED_CLAIM: found}))
    devices.offered()
    assert devices.with_devices(pod(0, **EXTENDED)).gpu_requests == requests


def test_device_of_a_node_that_has_just_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ResourceSlices are read again for it, but not for each of many pods."""
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    answers = Answers({"resourceslices": {"items": []}, ONE: claim("gpu-0", "gpu-1")})
    found, facts = devices_of(answers), pod(0, **claims_of("one"))
    found.offered()
    assert found.with_devices(facts).gpu_requests == ((UNSIZED_DEVICES, 1.0),)
    assert found.uncertain_pods() == [facts]
    assert answers.paths.count("/apis/resource.k8s.io/v1/resourceslices") == 1
    now += 2
    answers.objects["resourceslices"] = SLICES
    assert found.with_devices(facts).gpu_requests == ((DEVICES, 2.0),)
    assert found.uncertain_pods() == []


def test_listed_device_of_unknown_size_is_certain() -> None:
    part = {"items": [resource_slice({"name": "gpu-0", "consumesCounters": [{}]})]}
    found = devices_of(Answers({"resourceslices": part, ONE: claim("gpu-0")}))
    found.offered()
    assert found.with_devices(pod(0, **claims_of("one"))).gpu_requests == ((UNSIZED_DEVICES, 1.0),)
    assert found.uncertain_pods() == []


def test_claim_that_is_shared_or_created_again() -> None:
    answers = Answers({"resourceslices": SLICES, ONE: claim("gpu-0")})
    found = devices_of(answers)
    found.offered()
    assert found.with_devices(pod(0, **claims_of("one"))).gpu_requests == ((DEVICES, 1.0),)
    answers.objects[ONE] = claim("gpu-0", reserved=2)
    assert found.with_devices(pod(1, **claims_of("one"))).gpu_requests == ((UNSIZED_DEVICES, 1.0),)
    assert found.with_devices(pod(0, **claims_of("one"))).gpu_requests == ((DEVICES, 1.0),)
    # Of another pod: the claim of this one is not allocated yet.
    assert found.with_devices(pod(7, **claims_of("one"))).gpu_requests == ()


@pytest.mark.parametrize("unread", [500, {"status": {}}], ids=["error", "not allocated"])
def test_part_of_the_claims_is_not_stored(unread: Object | int) -> None:
    answers = Answers({"resourceslices": SLICES, ONE: claim("gpu-0"), OTHER: unread})
    found, facts = devices_of(answers), pod(0, **claims_of("one", "other"))
    found.offered()
    assert found.with_devices(facts).gpu_requests == ()
    assert found.uncertain_pods() == [facts]
    answers.objects[OTHER] = claim("gpu-1")
    assert found.with_devices(facts).gpu_requests == ((DEVICES, 2.0),)
    assert found.uncertain_pods() == []


@pytest.mark.parametrize("forgotten", [True, False], ids=["deleted", "ended"])
def test_pod_that_is_over_is_not_read_again(forgotten: bool) -> None:
    found, facts = devices_of(Answers({"resourceslices": SLICES})), pod(0, **claims_of("one"))
    found.with_devices(facts)
    assert found.uncertain_pods() == [facts]
    if forgotten:
        found.forget(facts)
    else:
        found.with_devices(facts._replace(over=True))
    assert found.uncertain_pods() == []


def test_pod_that_ended_while_no_collector_ran_keeps_its_gpus() -> None:
    """Its claims are released by then, so that they have no GPUs."""
    key = WorkloadKey("a", "Pod", "p2", "u2")
    held = Holding("u2", "a", "p2", key, "n1", 2.0, node().model, {}, {}, T0 + 1.0, T0 + 1.0, None)
    intervals = OpenIntervals(WEIGHTS, known_until=T0 + 100.0)
    intervals.restore([held], [])
    intervals.put_node(node(), T0 + 900.0)
    facts = pod(2, **NAMED)._replace(over=True, finished=T0 + 200.0, written=T0 + 260.0)
    intervals.put_pod(facts, Belonging(key), T0 + 900.0)
    intervals.all_listed(T0 + 901.0)
    assert intervals.take().holdings == [held._replace(end=T0 + 200.0, ending=EndReason.FINISHED)]


def test_pods_hold_their_devices_again_after_their_node_has_returned() -> None:
    """The node is listed before its driver has published the ResourceSlices."""
    intervals = OpenIntervals(WEIGHTS)
    intervals.put_devices({"n1": 8.0}, T0 - 10.0)
    intervals.put_node(node(), T0 - 9.0)
    intervals.all_listed(T0 - 8.0)
    facts = pod(2, **NAMED)._replace(gpu_requests=((DEVICES, 2.0),), by_claim=True)
    intervals.put_pod(facts, Belonging(WorkloadKey("a", "Pod", "p2", "u2")), T0 + 1.0)
    intervals.drop_node("n1", T0 + 100.0)
    intervals.put_devices({}, T0 + 110.0)
    intervals.put_node(node(), T0 + 200.0)
    assert intervals.open_holdings() == []
    intervals.put_devices({"n1": 8.0}, T0 + 300.0)
    assert [(item.start, item.gpus) for item in intervals.open_holdings()] == [(T0 + 300.0, 2.0)]
    changes = intervals.take()
    assert discrepancies(roll_up(T0, 600, changes.holdings, changes.capacities, [], 15)) == []
