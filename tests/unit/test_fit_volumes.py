"""``fit`` of claims whose volume is bound with the first pod, by the rules of the scheduler's volume plugins."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.snapshot.snapshot_entries import claim_entry, volume_entry
from support.fit_objects import cluster, job, node, running

Object = dict[str, Any]
DRIVER = "csi.example.com"
LATE_BINDING: Object = {"name": "late", "provisioner": DRIVER, "bindingMode": "WaitForFirstConsumer"}
LOCAL: Object = {**LATE_BINDING, "name": "local", "provisioner": "kubernetes.io/no-provisioner"}


def claim(name: str = "data", storage: str = "local", **more: Any) -> Object:
    """Return a pending claim."""
    own = {"namespace": "team", "name": name, "phase": "Pending", "storageClass": storage, "size": "10Gi"}
    return {**own, "accessModes": ["ReadWriteOnce"], **more}


def hostname_terms(*hosts: str) -> list[Object]:
    """Return the node affinity terms of a volume."""
    return [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [*hosts]}]}]


def volume(name: str, *hosts: str, **more: Any) -> Object:
    """Return an available volume."""
    own = {
        "name": name,
        "labels": {},
        "nodeTerms": hostname_terms(*hosts),
        "phase": "Available",
        "storageClass": "local",
    }
    return {**own, "size": "10Gi", "accessModes": ["ReadWriteOnce"], **more}


def job_with_claims(*claims: str, name: str = "train", **more: Any) -> Object:
    """Return a job that mounts claims."""
    return job(name, volumes=[{"name": item, "persistentVolumeClaim": {"claimName": item}} for item in claims], **more)


def fit_with_volumes(*jobs: Object, nodes: str = "ab", pods: list[Object] | None = None, **have: Any) -> list[Fit]:
    """Return the answers for jobs on nodes of 8 GPUs."""
    storage = have.pop("storage_classes", [LATE_BINDING, LOCAL])
    return fit(cluster([node(name) for name in nodes], pods, storage_classes=storage, **have), jobs)


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({}, "fits"),
        ({"size": "9Gi"}, "never"),
        ({"accessModes": ["ReadWriteMany"]}, "never"),
        ({"storageClass": "other"}, "never"),
        ({"phase": "Released"}, "never"),
        ({"block": True}, "never"),
        ({"attributesClass": "fast"}, "never"),
        ({"deleting": True}, "never"),
        ({"nodeTerms": hostname_terms("c")}, "never"),
        ({"claim": {"namespace": "team", "name": "other"}}, "never"),
        ({"claim": {"namespace": "team", "name": "data"}}, "fits"),
        ({"claim": {"namespace": "team"}}, "never"),
    ],
)
def test_existing_volume_must_match_the_claim(more: Object, verdict: str) -> None:
    (found,) = fit_with_volumes(job_with_claims("data"), claims=[claim()], volumes=[{**volume("v", "a"), **more}])
    assert (found.verdict, found.certain) == (verdict, True)


def test_claim_selector_matches_volume_labels() -> None:
    wanted = claim(selector={"matchLabels": {"kind": "nvme"}})
    volumes = [volume("v", "a"), volume("w", "b", labels={"kind": "nvme"})]
    full = [running("other", "b", 8, 200)]
    assert fit_with_volumes(job_with_claims("data"), claims=[wanted], volumes=volumes)[0].verdict == "fits"
    assert (
        fit_with_volumes(job_with_claims("data"), claims=[wanted], volumes=volumes, pods=full)[0].verdict
        == "fits-when-empty"
    )


def test_missing_volumes_are_the_reason() -> None:
    (found,) = fit_with_volumes(job_with_claims("data"), claims=[claim()])
    assert found.reason == "no node takes one of its pods: 2 excluded by volumes"


@pytest.mark.parametrize(
    ("storage", "capacities", "verdict"),
    [
        ({}, [], "never"),
        ({"topologies": [[{"key": "zone", "values": ["b"]}]]}, [("20Gi", "a")], "never"),
        (
            {"topologies": [[{"key": "zone", "values": ["b"]}], [{"key": "zone", "values": ["a"]}]]},
            [("20Gi", "a")],
            "fits",
        ),
        ({}, [("9Gi", "a")], "never"),
        ({}, [("20Gi", "b"), ("10Gi", "a")], "fits"),
        ({"provisioner": "other.example.com"}, [], "fits"),
    ],
)
def test_storage_capacity_limits_provisioning(storage: Object, capacities: list[tuple[str, str]], verdict: str) -> None:
    offered = [
        {"storageClass": "late", "size": size, "topology": {"matchLabels": {"zone": zone}}} for size, zone in capacities
    ]
    (found,) = fit_with_volumes(
        job_with_claims("data"),
        claims=[claim(storage="late")],
        storage_classes=[{**LATE_BINDING, **storage}],
        csi_drivers=[{"name": DRIVER, "storageCapacity": True}],
        storage_capacities=offered,
    )
    assert found.verdict == verdict


def test_selected_node_annotation_is_kept() -> None:
    chosen = claim(storage="late", selectedNode="b")
    assert fit_with_volumes(job_with_claims("data"), claims=[chosen])[0].verdict == "fits"
    full = [running("other", "b", 8, 200)]
    assert fit_with_volumes(job_with_claims("data"), claims=[chosen], pods=full)[0].verdict == "fits-when-empty"


def test_pods_that_share_a_claim_run_where_its_volume_is() -> None:
    have = {"claims": [claim()], "volumes": [volume("v", "a"), volume("w", "b")]}
    (found,) = fit_with_volumes(job_with_claims("data", pods=2, gpus=4), **have)
    assert (found.verdict, found.certain) == ("fits", True)
    (found,) = fit_with_volumes(job_with_claims("data", pods=2, gpus=5), **have)
    assert (found.verdict, found.starts) == ("never", 1)
    assert "pods that share claim data must run where its volume is" in found.reason
    wide = {"claims": [claim()], "volumes": [volume("v", "a", "b")]}
    assert fit_with_volumes(job_with_claims("data", pods=2, gpus=5), **wide)[0].verdict == "fits"


def test_shared_claim_makes_the_choice_of_node_uncertain() -> None:
    """One node has room for both pods, the other for one. The scheduler may bind the claim on either."""
    have = {"claims": [claim()], "volumes": [volume("v", "a"), volume("w", "b")]}
    (found,) = fit_with_volumes(job_with_claims("data", pods=2, gpus=4), pods=[running("other", "b", 4, 200)], **have)
    assert not found.certain


@pytest.mark.parametrize(("keys", "verdict"), [([], "fits"), (["zone"], "unknown"), (None, "unknown")])
def test_topology_of_a_new_volume_is_unknown(keys: list[str] | None, verdict: str) -> None:
    driver = {"name": DRIVER, **({} if keys is None else {"topologyKeys": keys})}
    have = {"claims": [claim(storage="late")], "csi_nodes": [{"name": name, "drivers": [driver]} for name in "ab"]}
    (found,) = fit_with_volumes(job_with_claims("data", pods=2, gpus=5), **have)
    assert found.verdict == verdict
    if verdict == "unknown":
        reason = "the nodes that can reach a new volume are unknown until it is provisioned: data (csi.example.com)"
        assert found.reason == reason
    (found,) = fit_with_volumes(job_with_claims("data", pods=2, gpus=4), **have)
    assert (found.verdict, found.certain) == ("fits", True)
    (found,) = fit_with_volumes(job_with_claims("data", pods=2, gpus=9), **have)
    assert found.verdict == "never"


def test_jobs_compete_for_volumes() -> None:
    claims = [claim(name) for name in ("one", "two", "three")]
    jobs = [job_with_claims(item["name"], name=f"train-{item['name']}", priority="low") for item in claims]
    found = fit_with_volumes(*jobs, claims=claims, volumes=[volume("v", "a"), volume("w", "a")])
    assert sorted(item.verdict for item in found) == ["fits", "fits", "fits-when-empty"]
    assert all(item.depends and not item.certain for item in found)
    assert all(
        item.certain
        for item in fit_with_volumes(*jobs[:2], claims=claims, volumes=[volume("v", "a"), volume("w", "b")])
    )


def test_claims_of_different_sizes_make_binding_unknown() -> None:
    claims = [claim("small", size="1Gi"), claim("large")]
    jobs = [job_with_claims("small", name="one"), job_with_claims("large", name="two")]
    found = fit_with_volumes(*jobs, claims=claims, volumes=[volume("v", "a", "b"), volume("w", "b", size="2Gi")])
    assert {item.verdict for item in found} == {"unknown"}
    assert "another claim may get its volume" in found[0].reason


def test_each_pod_needs_its_own_ephemeral_volume() -> None:
    spec = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
    }
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
    here = [volume("v", "a"), volume("w", "a"), volume("x", "b")]
    assert fit_with_volumes(job(pods=3, gpus=1, volumes=volumes), volumes=here)[0].verdict == "fits"
    (found,) = fit_with_volumes(job(pods=4, gpus=1, volumes=volumes), volumes=here)
    assert (found.verdict, found.starts) == ("never", 3)


@pytest.mark.parametrize(("taken", "verdict"), [(False, "fits"), (True, "fits-when-empty")])
def test_read_write_once_pod_claim_is_used_by_one_pod(taken: bool, verdict: str) -> None:
    own = {"namespace": "team", "name": "data", "volume": "v", "accessModes": ["ReadWriteOncePod"]}
    pods = [running("other", "a", 1, 200, claims=["data"])] if taken else []
    found = fit_with_volumes(job_with_claims("data"), claims=[own], volumes=[{"name": "v", "labels": {}}], pods=pods)
    assert found[0].verdict == verdict
    (found,) = fit_with_volumes(job_with_claims("data", pods=2), claims=[own], volumes=[{"name": "v", "labels": {}}])
    assert (found.verdict, found.starts) == ("never", 1)


def test_user_of_a_read_write_once_pod_claim_is_evicted() -> None:
    own = {"namespace": "team", "name": "data", "volume": "v", "accessModes": ["ReadWriteOncePod"]}
    pods = [running("other", "a", 1, 0, claims=["data"])]
    (found,) = fit_with_volumes(job_with_claims("data"), claims=[own], volumes=[{"name": "v", "labels": {}}], pods=pods)
    assert (found.verdict, [victim.pod.name for victim in found.victims]) == ("preempts", ["other"])


@pytest.mark.parametrize(("count", "verdict"), [(1, "never"), (2, "fits")])
def test_volumes_of_a_migrated_in_tree_plugin_count_toward_the_limit_of_its_driver(count: int, verdict: str) -> None:
    """One volume exists, the other one is created for the first pod."""
    csi_nodes = [{"name": "a", "drivers": [{"name": "ebs.csi.aws.com", "count": count, "topologyKeys": []}]}]
    existing = volume_entry(
        {
            "metadata": {"name": "v"},
            "spec": {"awsElasticBlockStore": {"volumeID": "aws://eu-1a/vol-1"}},
            "status": {"phase": "Bound"},
        }
    )
    claims = [claim("one", "late", volume="v", phase="Bound"), claim("two", "late")]
    classes = [{**LATE_BINDING, "provisioner": "kubernetes.io/aws-ebs"}]
    have: Object = {"claims": claims, "csi_nodes": csi_nodes, "volumes": [existing], "storage_classes": classes}
    (found,) = fit_with_volumes(job_with_claims("one", "two"), nodes="a", **have)
    assert found.verdict == verdict


@pytest.mark.parametrize(("count", "verdict"), [(1, "never"), (2, "fits")])
def test_unbound_claims_count_toward_attach_limits(count: int, verdict: str) -> None:
    csi_nodes = [{"name": "a", "drivers": [{"name": DRIVER, "count": count, "topologyKeys": []}]}]
    claims = [claim("one", "late"), claim("two", "late")]
    (found,) = fit_with_volumes(job_with_claims("one", "two"), nodes="a", claims=claims, csi_nodes=csi_nodes)
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("labels", "verdict"),
    [
        ({"topology.kubernetes.io/zone": "a__b"}, "fits"),
        ({"topology.kubernetes.io/zone": "b"}, "never"),
        ({"failure-domain.beta.kubernetes.io/zone": "a"}, "fits"),
        ({"failure-domain.beta.kubernetes.io/zone": "b"}, "never"),
        ({"topology.kubernetes.io/region": "west"}, "never"),
    ],
)
def test_zone_labels_of_a_volume_restrict_nodes(labels: dict[str, str], verdict: str) -> None:
    own = {"namespace": "team", "name": "data", "volume": "v"}
    volumes = [{"name": "v", "labels": labels}]
    here = cluster([node("a", labels={"topology.kubernetes.io/zone": "a"})], claims=[own], volumes=volumes)
    (found,) = fit(here, [job_with_claims("data")])
    assert found.verdict == verdict
    (found,) = fit(cluster([node("a")], claims=[own], volumes=volumes), [job_with_claims("data")])
    assert found.verdict == "fits"


def test_topology_spread_counts_nodes_that_a_volume_excludes() -> None:
    """A volume is not part of the pod's own node affinity, so nodes that cannot reach it count as empty domains."""
    rule = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    spread = [{**rule, "labelSelector": {"matchLabels": {"app": "train"}}}]
    own = {"namespace": "team", "name": "data", "volume": "v"}
    bound = [{"name": "v", "labels": {}, "nodeTerms": hostname_terms("a")}]
    (found,) = fit_with_volumes(
        job_with_claims("data", pods=2, topologySpreadConstraints=spread), claims=[own], volumes=bound
    )
    assert (found.verdict, found.starts) == ("never", 1)


def test_claim_of_the_same_documents_is_used() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "data", "namespace": "team"}
    planned = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    assert fit_with_volumes(job_with_claims("data"), planned)[0].verdict == "fits"
    assert fit_with_volumes(job_with_claims("data"))[0].reason == "claim data was not found in team"
    del spec["storageClassName"]
    assert fit_with_volumes(job_with_claims("data"), planned)[0].verdict == "unknown"
    storage = [{**LATE_BINDING, "default": True}]
    assert fit_with_volumes(job_with_claims("data"), planned, storage_classes=storage)[0].verdict == "fits"


def test_unreadable_resources_are_named_in_the_reason() -> None:
    have = cluster(
        [node("a")], claims=[claim(storage="late")], storage_classes=[LATE_BINDING], unreadable=["csiDrivers"]
    )
    (found,) = fit(have, [job_with_claims("data")])
    assert (found.verdict, found.reason.endswith("(storage class late), and csiDrivers could not be read")) == (
        "unknown",
        True,
    )


@pytest.mark.parametrize(
    ("named", "annotations", "verdict"),
    [(None, {}, "fits"), ("", {}, "unknown"), (None, {"volume.beta.kubernetes.io/storage-class": ""}, "unknown")],
    ids=["none", "empty", "empty annotation"],
)
def test_claim_with_an_empty_class_gets_no_volume_of_the_default_class(
    named: str | None, annotations: dict[str, str], verdict: str
) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": named}
    metadata = {"namespace": "team", "name": "data", "annotations": annotations}
    entry = claim_entry({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})
    (found,) = fit_with_volumes(
        job_with_claims("data"), claims=[entry], storage_classes=[{**LATE_BINDING, "default": True}]
    )
    assert found.verdict == verdict


def test_snapshot_entries_of_claims_and_volumes() -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeMode": "Block",
        "selector": {"matchLabels": {"kind": "nvme"}},
    }
    annotations = {
        "volume.beta.kubernetes.io/storage-class": "late",
        "volume.kubernetes.io/selected-node": "a",
    }
    metadata = {"namespace": "team", "name": "data", "annotations": annotations}
    assert claim_entry({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}) == {
        "namespace": "team",
        "name": "data",
        "phase": "Pending",
        "storageClass": "late",
        "accessModes": ["ReadWriteOnce"],
        "size": "1Gi",
        "block": True,
        "selector": {"matchLabels": {"kind": "nvme"}},
        "selectedNode": "a",
    }
    bound = {"metadata": metadata, "spec": {**spec, "volumeName": "v"}, "status": {"phase": "Bound"}}
    kept = {"namespace", "name", "volume", "storageClass", "accessModes"}
    assert set(claim_entry(bound)) == kept
    volume_spec = {"capacity": {"storage": "1Gi"}, "storageClassName": "late", "accessModes": ["ReadWriteOnce"]}
    reference = {"namespace": "team", "name": "data"}
    one = {"metadata": {"name": "v"}, "spec": {**volume_spec, "claimRef": reference}, "status": {"phase": "Available"}}
    assert volume_entry(one)["claim"] == reference
    one["spec"] = {**volume_spec, "claimRef": {**reference, "uid": "1"}}
    assert volume_entry(one)["claim"] == {"namespace": "team"}
    one["status"] = {"phase": "Bound"}
    assert volume_entry(one) == {"name": "v", "labels": {}}
