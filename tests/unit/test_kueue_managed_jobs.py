"""Jobs that Kueue manages by its Configuration, and by labels of namespaces that cannot be listed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuctl.capacity.fit.waiting_fit import fit_waiting
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from support.queue_cases import configured, job, judged, queue, snapshot, verdict, workload, world

FITS, UNKNOWN = ("fits", True), ("unknown", False)
BY_NAME = {"matchLabels": {"kubernetes.io/metadata.name": "team"}}
BY_LABEL = {"matchLabels": {"kueue": "yes"}}


def unread(have: Snapshot) -> Snapshot:
    """Return the snapshot of a user who may not list namespaces."""
    return replace(have, namespaces=[], unreadable=["namespaces"])


def test_unlisted_namespace_matches_only_selectors_of_its_name() -> None:
    chosen, other = (queue("team", 4, namespaceSelector=item) for item in (BY_NAME, BY_LABEL))
    assert verdict(unread(snapshot(world(chosen))), job("new", "team", 1)) == FITS
    assert verdict(snapshot(world(other)), job("new", "team", 1)) == ("never", True)
    assert verdict(unread(snapshot(world(other))), job("new", "team", 1)) == UNKNOWN
    stopped = queue("team", 4, namespaceSelector=BY_LABEL, stopPolicy="Hold")
    assert verdict(unread(snapshot(world(stopped))), job("new", "team", 1)) == ("never", True)


def test_fit_is_uncertain_if_an_older_workload_may_match() -> None:
    """It is unknown whether the waiting workload blocks the queue."""
    free, chosen = queue("free", 0, cohortName="lab"), queue("team", 4, cohortName="lab", namespaceSelector=BY_LABEL)
    old = workload("old", "team", 2, created="2025-01-01T00:00:00Z")
    have = unread(snapshot(world(free, chosen), old))
    assert not judged(have, job("new", "free", 3))["new"].certain
    assert [(answer.verdict, answer.certain) for answer in fit_waiting(have)] == [UNKNOWN]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, FITS),
        ({"managedJobsNamespaceSelector": BY_NAME}, FITS),
        ({"managedJobsNamespaceSelector": BY_LABEL}, UNKNOWN),
        ({"namespace": "team"}, UNKNOWN),
        ({"integrations": {"frameworks": ["batch/job"]}}, FITS),
        ({"integrations": {"frameworks": ["jobset.x-k8s.io/jobset"]}}, UNKNOWN),
    ],
)
def test_configuration_decides_which_jobs_kueue_manages(settings: dict[str, Any], expected: tuple[str, bool]) -> None:
    have = configured(snapshot(world(queue("team", 4))), settings)
    assert verdict(have, job("new", "team", 1)) == expected


def test_empty_configuration_manages_only_batch_jobs() -> None:
    have = configured(snapshot(world(queue("team", 0))), {})
    inner = job("x", "team", 1)
    roles = [{"name": "main", "replicas": 1, "template": {"spec": inner["spec"]}}]
    found = {**inner, "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": roles}}
    assert verdict(have, found) == UNKNOWN
    # Without a Configuration every kind is managed: the Configuration of a default installation lists them.
    assert verdict(snapshot(world(queue("team", 0))), found) == ("never", True)


@pytest.mark.parametrize(("timestamp", "first"), [("Creation", "early"), ("Eviction", "late")])
def test_requeuing_timestamp_orders_evicted_workloads(timestamp: str, first: str) -> None:
    early, late = (
        workload(name, "team", 1, created=f"{year}-01-01T00:00:00Z") for name, year in (("early", 2024), ("late", 2025))
    )
    evicted = {
        "type": "Evicted",
        "status": "True",
        "reason": "PodsReadyTimeout",
        "lastTransitionTime": "2025-06-01T00:00:00Z",
    }
    early["status"]["conditions"] = [evicted, {"type": "Requeued", "status": "True"}]
    settings = {"waitForPodsReady": {"requeuingStrategy": {"timestamp": timestamp}}}
    have = configured(snapshot(world(queue("team", 1)), early, late), settings)
    starts = [answer.demand.name for answer in fit_waiting(have) if answer.admitted]
    assert starts == [first]
    assert all(answer.certain for answer in fit_waiting(have))


def test_job_without_requests_gets_no_flavor() -> None:
    found = job("new", "team", 1)
    found["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    fit = judged(snapshot(world(queue("team", 4))), found)["new"]
    assert fit.reason == "Kueue's queue team (ClusterQueue team) admits it"
