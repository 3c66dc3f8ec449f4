"""``fit`` counts MIG slices that a driver creates on demand: devices that take parts of a card from shared counters."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.snapshot.device_entries import (
    resource_claim_entry,
    resource_claim_template_entry,
    resource_slice_entry,
)
from gpuctl.capacity.snapshot.snapshot_document import Snapshot, render
from gpuctl.capacity.snapshot.snapshot_loading import load
from support.device_nodes import divisible_slices
from support.fit_objects import claim_template, cluster, exactly, job, node, running

Object = dict[str, Any]
DRIVER, CARDS, SLICES = "gpu.nvidia.com", "gpu.nvidia.com", "mig.nvidia.com"


def snapshot(*held: tuple[str, str], cards: int = 1) -> Snapshot:
    """A node with cards that can be divided; ``held``: request and device of each running pod."""
    pods, claims, templates = [], [], []
    for request, device in held:
        name = device.replace(".", "")
        claim = {"name": "gpu", "resourceClaimTemplateName": request.replace(".", "")}
        pods.append({**running(name, "a", 0, owner={"kind": "Job", "name": name}), "deviceClaims": [claim]})
        one = {"driver": DRIVER, "pool": "a", "device": device}
        claims.append({"namespace": "team", "name": name, "devices": [one], "pods": [name]})
        templates.append(request)
    of_type = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == '
    classes = [{"name": CARDS, "selectors": [of_type + '"gpu"']}, {"name": SLICES, "selectors": [of_type + '"mig"']}]
    return cluster(
        [node("a", 0)],
        pods,
        device_classes=classes,
        resource_slices=[resource_slice_entry({"spec": item}) for item in divisible_slices("a", cards)],
        resource_claims=claims,
        resource_claim_templates=[resource_claim_template_entry(template(name)) for name in dict.fromkeys(templates)],
    )


def template(request: str, count: int = 1) -> Object:
    """A template of claims for whole cards (`card`), or for slices of a profile."""
    own = f'device.attributes["{DRIVER}"].profile'
    selectors = () if request == "card" else (f'has({own}) && {own} == "{request}"',)
    of = CARDS if request == "card" else SLICES
    return claim_template(exactly(count, *selectors, of=of), name=request.replace(".", ""))


def answers(have: Snapshot, *wanted: tuple[str, int]) -> list[Fit]:
    """Return the answers for jobs that claim so many devices each."""
    objects: list[Object] = []
    for number, (request, count) in enumerate(wanted):
        named = template(request, count)
        named["metadata"]["name"] += f"-{number}"
        claims = [{"name": "gpu", "resourceClaimTemplateName": named["metadata"]["name"]}]
        objects += [named, job(f"job-{number}", gpus=0, resourceClaims=claims)]
    return fit(have, objects)


def verdicts(have: Snapshot, *wanted: tuple[str, int]) -> list[str]:
    return [item.verdict for item in answers(have, *wanted)]


@pytest.mark.parametrize(("request_", "most"), [("1g.10gb", 7), ("3g.40gb", 2), ("7g.80gb", 1), ("card", 1)], ids=str)
def test_card_has_room_for_so_many_slices_of_one_profile(request_: str, most: int) -> None:
    for cards in (1, 2):
        have = snapshot(cards=cards)
        assert verdicts(have, (request_, most * cards)) == ["fits"]
        (found,) = answers(have, (request_, most * cards + 1))
        assert (found.verdict, found.certain) == ("never", True)


def test_slices_in_use_leave_room_for_others() -> None:
    have = snapshot(("3g.40gb", "gpu-0-mig-3g40gb-4"), cards=2)
    assert verdicts(have, ("3g.40gb", 3)) == ["fits"]
    assert verdicts(have, ("3g.40gb", 4)) == ["fits-when-empty"]
    # Memory slices 0 to 3 of the first card are free.
    assert verdicts(have, ("1g.10gb", 11)) == ["fits"]
    assert verdicts(have, ("card", 1)) == ["fits"]
    (found,) = answers(have, ("1g.10gb", 12))
    assert (found.verdict, "on a, other devices hold parts of the cards" in found.reason) == ("unknown", True)
    assert verdicts(have, ("card", 2)) == ["unknown"]


def test_shared_card_in_use_leaves_no_room_for_slices() -> None:
    """Its first share takes the counters of the whole card. Source: IsDeviceAllocated in allocatedstate.go."""
    have = snapshot(cards=2)
    (card,) = (item for one in have.resource_slices for item in one["devices"] if item["name"] == "gpu-0")
    card["uncounted"] = "devices that several claims share"
    share = {"driver": DRIVER, "pool": "a", "device": "gpu-0", "shareID": "1"}
    status = {"allocation": {"devices": {"results": [share]}}, "reservedFor": [{"resource": "pods", "name": "p"}]}
    have.resource_claims.append(
        resource_claim_entry({"metadata": {"namespace": "team", "name": "one"}, "status": status})
    )
    for one in (have, load(render(have))):
        assert verdicts(one, ("1g.10gb", 7)) == ["fits"]
        assert verdicts(one, ("1g.10gb", 8)) == ["unknown"]


def test_slices_of_several_profiles_at_once_depend_on_the_scheduler() -> None:
    (one, other) = answers(snapshot(), ("1g.10gb", 1), ("3g.40gb", 1))
    assert (one.verdict, other.verdict) == ("unknown", "unknown")
    assert "some requests divide the same cards of a" in one.reason


def test_snapshot_keeps_counters() -> None:
    have = load(render(snapshot(("1g.10gb", "gpu-0-mig-1g10gb-0"))))
    assert verdicts(have, ("1g.10gb", 6)) == ["fits"]
    assert verdicts(have, ("1g.10gb", 7)) == ["fits-when-empty"]


ODD = {"first": {"x": "1"}, "second": {"x": "1", "y": "1"}, "third": {"y": "1"}}
"""Devices of a card with one x and one y: the second leaves no room for the others."""


def with_odd_devices(*held: str) -> Snapshot:
    have = snapshot(*(("odd", name) for name in held))
    named = {"type": {"string": "mig"}, "profile": {"string": "odd"}}
    devices = [{"name": name, "attributes": named, "consumes": {"c": part}} for name, part in ODD.items()]
    pool = {"name": "a", "generation": 1, "slices": 1}
    one = {"driver": DRIVER, "node": "a", "pool": pool, "counters": {"c": {"x": "1", "y": "1"}}, "devices": devices}
    have.resource_slices[:] = [one]
    return have


def test_devices_that_can_be_combined_in_several_ways_are_unknown() -> None:
    have = with_odd_devices()
    assert verdicts(have, ("odd", 1)) == ["fits"]
    (found,) = answers(have, ("odd", 2))
    assert (found.verdict, "in several ways" in found.reason) == ("unknown", True)
    assert verdicts(have, ("odd", 1), ("odd", 1)) == ["fits", "unknown"]
    assert verdicts(with_odd_devices("second"), ("odd", 2)) == ["unknown"]
