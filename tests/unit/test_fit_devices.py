"""``fit`` counts devices of dynamic resource allocation (DRA): extended resources of a DeviceClass, and claims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from gpuctl.apply.plan import evictions
from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.evictions import add_fit_results
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.capacity.devices.device_selectors import UnknownMatch, selector_of_device
from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.scheduler.scheduler_model import HOST_NAME
from gpuctl.capacity.snapshot.device_entries import device_class_entry, resource_claim_entry, with_taint_rules
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import key_of
from support.fit_objects import (
    GPU,
    GPU_CLASS,
    claim_template,
    cluster,
    device_class,
    device_option,
    exactly,
    job,
    node,
    resource_claim,
    resource_slice,
    running,
)

Object = dict[str, Any]
CLAIMS = [{"name": "cards", "resourceClaimTemplateName": "cards"}]
H100 = {"attributes": {"productName": {"string": "H100"}}, "capacity": {"memory": "80Gi"}}
A100 = {"attributes": {"productName": {"string": "A100"}}, "capacity": {"memory": "40Gi"}}
IS_H100 = f'device.attributes["{GPU_CLASS}"].productName == "H100"'
IS_A100 = f'device.attributes["{GPU_CLASS}"].productName == "A100"'
LARGE = f'device.capacity["{GPU_CLASS}"].memory.compareTo(quantity("80Gi")) >= 0'
MORE = f'device.capacity["{GPU_CLASS}"].memory.isGreaterThan(quantity("40Gi"))'
TAINT = {"key": "broken", "effect": "NoSchedule"}


def answer(snapshot: Snapshot, *objects: Object) -> Fit:
    """Return the answer for a single job."""
    (found,) = fit(snapshot, objects)
    return found


def device_cluster(*slices: Object, pods: list[Object] | None = None, **more: Any) -> Snapshot:
    """A node ``plugin`` with 2 GPUs of a device plugin, and nodes whose driver offers devices."""
    nodes = [
        node("plugin", 2),
        *(node(name, 0) for name in sorted({item["node"] for item in slices if "node" in item})),
    ]
    return cluster(nodes, pods, **{"device_classes": [device_class()], "resource_slices": list(slices), **more})


def claiming(**spec: Any) -> Object:
    return job(gpus=0, resourceClaims=CLAIMS, **spec)


def holder(name: str, on: str, gpus: int, priority: int = 100) -> Object:
    """A pod that got its GPUs from a driver."""
    return running(name, on, gpus, priority, owner={"kind": "Job", "name": name})


@pytest.mark.parametrize(
    ("gpus", "verdict"), [(2, "fits"), (4, "fits"), (5, "never")], ids=["plugin", "driver", "too-many"]
)
def test_extended_resource_is_offered_by_a_plugin_or_a_driver(gpus: int, verdict: str) -> None:
    found = answer(device_cluster(resource_slice("dra", 4)), job(gpus=gpus))
    assert (found.verdict, found.certain) == (verdict, True)


def test_devices_of_running_pods_are_taken() -> None:
    holds = device_cluster(
        resource_slice("dra", 4),
        pods=[holder("one", "dra", 3)],
        resource_claims=[resource_claim("one", "dra", 0, 1, 2)],
    )
    assert answer(holds, job(gpus=2)).verdict == "fits"
    found = answer(holds, job(gpus=4))
    assert (found.verdict, found.certain) == ("fits-when-empty", True)
    assert [(item.owner, item.amount) for item in found.balance.held_by] == [("Job/one", 3)]


def test_scheduler_evicts_no_pod_for_devices() -> None:
    """A plugin's GPUs are freed by evictions, devices of a driver are not."""
    low = holder("one", "dra", 4, priority=0)
    held = device_cluster(
        resource_slice("dra", 4), pods=[low], resource_claims=[resource_claim("one", "dra", 0, 1, 2, 3)]
    )
    assert answer(held, job(gpus=4, priority="high")).verdict == "fits-when-empty"
    on_plugin = device_cluster(resource_slice("dra", 4), pods=[running("x", "plugin", 2)])
    assert answer(
        on_plugin, job(gpus=2, priority="high", nodeSelector={"kubernetes.io/hostname": "plugin"})
    ).verdict == ("preempts")


@pytest.mark.parametrize(
    ("requests", "verdict"),
    [
        ([exactly(4)], "fits"),
        ([exactly(5)], "never"),
        ([exactly(4, IS_H100)], "fits"),
        ([exactly(2, IS_A100)], "fits"),
        ([exactly(3, IS_A100)], "never"),
        ([exactly(4, LARGE)], "fits"),
        ([exactly(1, IS_A100, LARGE)], "never"),
        ([exactly(4, MORE)], "fits"),
        ([exactly(1, IS_A100, MORE)], "never"),
        ([exactly(2, IS_H100), exactly(2, LARGE)], "fits"),
        ([exactly(2, IS_H100), exactly(3, LARGE)], "never"),
        ([{"firstAvailable": [device_option(2, IS_H100), device_option(2, IS_A100)]}], "fits"),
        ([{"firstAvailable": [device_option(5, IS_H100), device_option(5, IS_A100)]}], "never"),
        ([exactly(allocationMode="All")], "unknown"),
        ([exactly(1, IS_A100, allocationMode="All")], "fits"),
        ([{"firstAvailable": [device_option(2, IS_H100), device_option(1, IS_A100)]}], "unknown"),
        ([exactly(1, "device.driver.size() > 3")], "unknown"),
        ([exactly(1, 'device.attributes["other.com"].kind == "x"')], "unknown"),
        ([exactly(1, adminAccess=True)], "unknown"),
        ([exactly(1, capacity={"requests": {"memory": "10Gi"}})], "unknown"),
        ([exactly(1, of="absent")], "unknown"),
        ([exactly(33)], "unknown"),
    ],
)
def test_requests_of_claims(requests: list[Object], verdict: str) -> None:
    """The node ``h`` has 4 H100, the node ``a`` has 2 A100. Requests that match all of them use these devices."""
    have = device_cluster(resource_slice("h", 4, **H100), resource_slice("a", 2, **A100))
    found = answer(have, claim_template(*requests), claiming())
    assert found.verdict == verdict


def test_first_unknown_class_of_a_request_is_named() -> None:
    have = device_cluster(resource_slice("dra", 4))
    options = [device_option(1), device_option(1, of="absent"), device_option(1, of="gone")]
    found = answer(have, claim_template({"firstAvailable": options}), claiming())
    assert found.reason == "DeviceClass absent of the ResourceClaimTemplate cards was not found"


def test_template_of_the_cluster_is_used() -> None:
    option = {"class": GPU_CLASS, "count": 4}
    template = {"namespace": "team", "name": "cards", "requests": [[option]]}
    have = device_cluster(resource_slice("dra", 4), resource_claim_templates=[template])
    assert answer(have, claiming()).verdict == "fits"
    # The documents change the template.
    assert answer(have, claim_template(exactly(5)), claiming()).verdict == "never"
    absent = answer(device_cluster(resource_slice("dra", 4)), claiming())
    assert (absent.verdict, absent.reason) == (
        "unknown",
        "the ResourceClaimTemplate cards of its pods was not found in team",
    )


def test_claims_and_extended_resources_take_the_same_devices() -> None:
    objects = [claim_template(exactly(3, IS_H100)), claiming(), job("other", gpus=2, priority="polite")]
    have = device_cluster(resource_slice("h", 4, **H100), pods=[running("x", "plugin", 2, 100)])
    assert [(item.demand.name, item.verdict) for item in fit(have, objects)] == [
        ("other", "fits"),
        ("train", "fits-when-empty"),
    ]
    holds = device_cluster(
        resource_slice("h", 4, **H100),
        pods=[running("x", "plugin", 2, 100), running("c", "h", 0, 100)],
        resource_claims=[resource_claim("c", "h", 2, 3)],
    )
    assert answer(holds, job(gpus=2)).verdict == "fits"
    assert answer(holds, job(gpus=3)).verdict == "fits-when-empty"


def test_request_that_matches_a_part_of_the_devices_of_another_is_unknown() -> None:
    """Which devices the others get on that node depends on the scheduler."""
    mixed = resource_slice("mixed", 4, **H100)
    mixed["devices"][3] |= A100
    objects = [claim_template(exactly(3, IS_H100)), claiming(), job("other", gpus=3)]
    answers = {item.demand.name: item.verdict for item in fit(device_cluster(mixed), objects)}
    assert answers == {"train": "unknown", "other": "unknown"}


@pytest.mark.parametrize(
    ("slices", "reason"),
    [
        ([resource_slice("dra", 4, taints=[TAINT])], None),
        ([resource_slice("dra", 4, pool={"generation": 1}), resource_slice("dra", 2, pool={"generation": 2})], None),
        ([resource_slice("dra", 4, pool={"slices": 2})], "the pool dra of the driver gpu.example.com is incomplete"),
        ([resource_slice(None, 4)], "gpuctl does not count devices of several nodes"),
        ([resource_slice("dra", 4, uncounted="partitions of a card")], "gpuctl does not count partitions of a card"),
        ([resource_slice("dra", 4, driver="other.example.com")], None),
    ],
    ids=["taint", "older-generation", "incomplete", "network", "partitions", "other-driver"],
)
def test_devices_that_cannot_be_allocated_are_not_counted(slices: list[Object], reason: str | None) -> None:
    found = answer(device_cluster(*slices), job(gpus=4))
    assert found.verdict == ("never" if reason is None else "unknown")
    assert reason is None or reason in found.reason


@pytest.mark.parametrize(("where", "verdict"), [({}, "unknown"), ({HOST_NAME: "h"}, "fits")], ids=["open", "closed"])
def test_selector_that_fails_on_an_open_node_is_unknown(where: Object, verdict: str) -> None:
    """The scheduler then gives up on the pod (dynamicresources.go, Filter): not on nodes that the pod excludes."""
    have = device_cluster(resource_slice("h", 4, **H100), resource_slice("a", 2))
    found = answer(have, claim_template(exactly(1, IS_H100)), claiming(nodeSelector=where))
    assert (found.verdict, found.certain) == (verdict, verdict == "fits")
    assert ("has no known result: there is no" in found.reason) is (verdict == "unknown")


@pytest.mark.parametrize(("where", "verdict"), [("plugin", "unknown"), ("driver", "fits")])
def test_claims_beside_the_gpus_of_a_device_plugin_are_unknown(where: str, verdict: str) -> None:
    """The scheduler fails to bind such a pod: its claim for extended resources is empty (1.36)."""
    nodes = [node("plugin", 2), node("driver", 0)]
    network = [resource_slice(item["name"], 1, driver="net.example.com", pool={"name": item["name"]}) for item in nodes]
    classes = [device_class(), {"name": "net", "selectors": ['device.driver == "net.example.com"']}]
    slices = [resource_slice("driver", 2), *network]
    have = cluster(nodes, device_classes=classes, resource_slices=slices)
    pod = job(gpus=1, resourceClaims=CLAIMS, nodeSelector={HOST_NAME: where})
    found = answer(have, claim_template(exactly(of="net")), pod)
    assert (found.verdict, found.certain) == (verdict, verdict == "fits")
    assert ("from a device plugin" in found.reason) is (verdict == "unknown")


def test_all_devices_are_claimed_only_if_no_open_node_has_an_incomplete_pool() -> None:
    broken = resource_slice("b", 2, driver="other.example.com", pool={"slices": 2})
    have, template = device_cluster(resource_slice("a", 4), broken), claim_template(exactly(allocationMode="All"))
    found = answer(have, template, claiming())
    assert (found.verdict, found.reason.partition(" of the")[0]) == ("unknown", "the pool b")
    assert answer(have, template, claiming(nodeSelector={HOST_NAME: "a"})).verdict == "fits"


@pytest.mark.parametrize(("number", "verdict"), [(32, "fits"), (33, "unknown")])
def test_claim_has_at_most_32_devices(number: int, verdict: str) -> None:
    template = claim_template(exactly(allocationMode="All"))
    assert answer(device_cluster(resource_slice("a", number)), template, claiming()).verdict == verdict


def test_job_whose_devices_are_not_counted_makes_the_others_uncertain() -> None:
    """It may get a device that a certain answer counts on."""
    mixed = resource_slice("a", 4, **H100)
    mixed["devices"][3] |= A100
    either = {"firstAvailable": [device_option(3, IS_H100), device_option(3, IS_A100)]}
    train = [claim_template(either), claiming()]
    claims = [{"name": "four", "resourceClaimTemplateName": "four"}]
    four = [claim_template(exactly(4), name="four"), job("other", gpus=0, resourceClaims=claims)]
    answers = {item.demand.name: item for item in fit(device_cluster(mixed), [*train, *four])}
    assert (answers["train"].verdict, answers["other"].verdict) == ("unknown", "fits")
    assert (answers["other"].certain, answer(device_cluster(mixed), *four).certain) == (False, True)


def test_tolerated_taint_of_a_device() -> None:
    have = device_cluster(resource_slice("dra", 4, taints=[TAINT]))
    request = exactly(4, tolerations=[{"key": "broken", "operator": "Exists"}])
    assert answer(have, claim_template(request), claiming()).verdict == "fits"
    assert answer(have, claim_template(exactly(4)), claiming()).verdict == "never"


RULE_TAINT = {"key": "broken", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("selector", "verdict"),
    [
        ({"driver": GPU_CLASS, "pool": "dra", "device": "gpu-0"}, "never"),
        ({"device": "gpu-9"}, "fits"),
        ({"driver": "other.example.com"}, "fits"),
        ({"pool": "dra"}, "never"),
        (None, "never"),
        ({"driver": GPU_CLASS, "selectors": [{"cel": {"expression": "true"}}]}, "unknown"),
    ],
)
def test_device_taint_rules_taint_the_devices_that_they_select(selector: Object | None, verdict: str) -> None:
    rule = {"taint": RULE_TAINT, **({"deviceSelector": selector} if selector is not None else {})}
    have = device_cluster(*with_taint_rules([resource_slice("dra", 4)], [rule]))
    assert answer(have, job(gpus=4)).verdict == verdict
    request = exactly(4, tolerations=[{"key": "broken", "operator": "Exists"}])
    tolerant = answer(have, claim_template(request), claiming())
    assert tolerant.verdict == ("unknown" if verdict == "unknown" else "fits")


def test_devices_of_a_claim_without_a_pod_are_taken() -> None:
    have = device_cluster(resource_slice("dra", 4), resource_claims=[resource_claim("left", "dra", 0, pods=[])])
    assert answer(have, job(gpus=3)).verdict == "fits"
    found = answer(have, job(gpus=4))
    assert (found.verdict, "ResourceClaim left in team" in found.reason) == ("unknown", True)


def test_devices_of_admin_access_and_shares_are_not_taken() -> None:
    """Other claims can get them, too."""
    forms = {"held": {}, "watched": {"adminAccess": True}, "shared": {"shareID": "1"}}
    results = [{"driver": GPU_CLASS, "pool": "dra", "device": name, **more} for name, more in forms.items()]
    claim = {
        "metadata": {"namespace": "team", "name": "one"},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    entry = resource_claim_entry(claim)
    assert {key: [item["device"] for item in entry[key]] for key in ("devices", "shared")} == {
        "devices": ["held"],
        "shared": ["shared"],
    }


def test_snapshot_has_the_selectors_and_the_extended_resource_of_a_device_class() -> None:
    selectors = [{"cel": {"expression": IS_H100}}, {"cel": {"expression": LARGE}}]
    spec = {"selectors": selectors, "extendedResourceName": GPU}
    assert device_class_entry({"metadata": {"name": "large"}, "spec": spec}) == {
        "name": "large",
        "extendedResource": GPU,
        "selectors": [IS_H100, LARGE],
    }
    assert device_class_entry({"metadata": {"name": "any"}, "spec": {}}) == {"name": "any"}


@pytest.mark.parametrize("name", ["deviceClasses", "resourceSlices", "deviceTaintRules", "resourceClaims"])
def test_unreadable_lists_make_a_shortage_unknown(name: str) -> None:
    have = device_cluster(resource_slice("dra", 4), unreadable=[name])
    assert answer(have, job(gpus=2)).verdict == "fits"
    assert answer(have, job(gpus=4)).verdict == "unknown"
    assert answer(have, claim_template(exactly()), claiming()).verdict == "unknown"


def test_two_classes_of_an_extended_resource_are_unknown() -> None:
    have = device_cluster(resource_slice("dra", 4), device_classes=[device_class("a"), device_class("b")])
    assert answer(have, job(gpus=4)).verdict == "unknown"


def test_devices_do_not_help_jobs_excluded_by_another_rule() -> None:
    """If no node has the labels, cpu or memory, the job never fits, with or without devices."""
    have = device_cluster(resource_slice("dra", 4), unreadable=["resourceClaims"])
    for asked in ({"cpu": "256"}, {"memory": "4Ti"}):
        assert answer(have, job(gpus=4, amounts=asked)).verdict == "never"
    found = answer(have, job(gpus=4, nodeSelector={"gpu-type": "h100"}))
    assert (found.verdict, "excluded by node-selector" in found.reason) == ("never", True)
    taken = device_cluster(resource_slice("dra", 4), pods=[running("x", "plugin", 2, 0)], unreadable=["resourceClaims"])
    evicts = answer(taken, job(gpus=2, priority="high"))
    assert (evicts.verdict, evicts.certain, len(evicts.victims)) == ("preempts", False, 1)


def test_job_without_quota_waits_whether_or_not_uncounted_devices_have_room() -> None:
    hard, used = {f"requests.{GPU}": "3"}, {f"requests.{GPU}": "2"}
    quota = {"kind": "ResourceQuota", "metadata": {"namespace": "team", "name": "few"}, "spec": {"hard": hard}}
    pods = [running("x", "plugin", 2, 100)]
    have = device_cluster(resource_slice("dra", 4), pods=pods, unreadable=["resourceClaims"])
    assert answer(have, job(gpus=2)).verdict == "unknown"
    quotas = [{**quota, "status": {"hard": hard, "used": used}}]
    limited = device_cluster(resource_slice("dra", 4), pods=pods, unreadable=["resourceClaims"], quotas=quotas)
    found = answer(limited, job(gpus=2))
    assert (found.verdict, "quota few" in found.reason) == ("fits-when-empty", True)


def test_quota_limits_jobs_that_devices_could_run() -> None:
    """A job above its quota's limit never starts; a job that the used quota leaves no room for waits."""
    hard, used = {f"requests.{GPU}": "3"}, {f"requests.{GPU}": "2"}
    quota = {"kind": "ResourceQuota", "metadata": {"namespace": "team", "name": "few"}}
    quotas = [{**quota, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}}]
    have = device_cluster(resource_slice("dra", 4), quotas=quotas)
    assert answer(have, job(gpus=4)).verdict == "never"
    assert answer(have, job(gpus=2)).verdict == "fits-when-empty"


def test_selector_of_at_most_2000_characters_is_evaluated() -> None:
    longest = f'device.driver == "{GPU_CLASS}"'.ljust(2000)
    assert selector_of_device(longest, GPU_CLASS, {})
    with pytest.raises(UnknownMatch, match="too long"):
        selector_of_device(f"{longest} ", GPU_CLASS, {})


def test_plan_notes_that_jobs_with_claims_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their pods request no extended resource."""
    have = cluster([node("a", 0)], device_classes=[device_class()], resource_slices=[resource_slice("a", 4)])
    held = replace(have, pods=[holder("one", "a", 4)], resource_claims=[resource_claim("one", "a", 0, 1, 2, 3)])
    monkeypatch.setattr(evictions, "take_snapshot", lambda *_, **__: held)

    class Classes:
        def list_objects(self, *_: Any, **__: Any) -> tuple[list[Object], str]:
            return [], ""

    new = claiming(priority="")
    del new["spec"]["template"]["spec"]["containers"][0]["resources"]
    steps = [Step("create", key_of(obj), desired=obj, method="post") for obj in (claim_template(exactly(2)), new)]
    add_fit_results(cast(Session, Classes()), Plan(steps), ApplyRequest())
    assert [wait.cause for wait in steps[1].waits] == ["room"]
