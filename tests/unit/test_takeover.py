"""Which fields of a live object count as gpuctl's when other tools have written it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from gpuctl.apply.plan.last_applied import KUBECTL_RECORD, kubectl_record
from gpuctl.apply.state.compare import compare, without_effect
from gpuctl.apply.state.managed_fields import fields_of, held_by_others, owned_fields
from gpuctl.apply.state.server_defaults import default_paths, without_defaults
from gpuctl.apply.state.takeover import AppliedVersion, Claims, claim
from gpuctl.language.drift_rules import BUILT_IN, DriftRule

Object = dict[str, Any]
PROBE = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5}
HELPER = {"name": "helper", "image": "helper:1"}


def deployment(containers: list[Object], **pod: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "x", "namespace": "n", "labels": {"app": "x"}},
        "spec": {"template": {"spec": {"containers": containers, **pod}}},
    }


def main(**fields: Any) -> Object:
    return {"name": "main", "image": "app:1", **fields}


def held(obj: Object, *managers: str, **others: Object) -> Object:
    """Return a live object: managers that hold all of it, and others that hold the fields of the objects given."""
    trees = [(name, fields_of({key: obj[key] for key in ("metadata", "spec")})) for name in managers]
    trees += [(name.replace("_", "-"), fields_of(part)) for name, part in others.items()]
    entries = [
        {"manager": name, "operation": "Update", "apiVersion": obj["apiVersion"], "fieldsV1": tree}
        for name, tree in trees
    ]
    return {**copy.deepcopy(obj), "metadata": {**obj["metadata"], "managedFields": entries}}


def removed(live: Object, base: Object, wanted: Object) -> list[str]:
    """Return the paths that an apply removes."""
    claimed = claim(live, Claims((AppliedVersion(base, is_last=True),), wanted)).live
    changes = compare("Deployment", wanted, claimed, ours=owned_fields(claimed)).changes
    return [change.path.removeprefix("spec.template.spec.") for change in changes if change.new is None]


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("args", ["--trust-remote-code"], "containers[main].args"),
        ("env", [{"name": "OLD", "value": "1"}], "containers[main].env"),
        ("securityContext", {"privileged": True}, "containers[main].securityContext"),
        ("livenessProbe", PROBE, "containers[main].livenessProbe"),
        ("lifecycle", {"preStop": {"exec": {"command": ["true"]}}}, "containers[main].lifecycle"),
        ("resources", {"limits": {"nvidia.com/gpu": "1"}}, "containers[main].resources"),
        ("volumeMounts", [{"name": "data", "mountPath": "/data"}], "containers[main].volumeMounts"),
    ],
)
@pytest.mark.parametrize(
    "managers", [("kubectl-client-side-apply",), ("gpuctl", "argocd-controller"), ("velero-server",)]
)
def test_a_field_of_the_last_document_goes_whoever_holds_it(
    field: str, value: Any, path: str, managers: tuple[str, ...]
) -> None:
    base = deployment([main(**{field: value})])
    assert removed(held(base, *managers), base, deployment([main()])) == [path]
    # Without the document nothing tells that it was ever ours.
    if "gpuctl" not in managers:
        assert removed(held(base, *managers), deployment([main()]), deployment([main()])) == []


def test_whole_items_go_with_what_the_server_added() -> None:
    base = deployment([main(), HELPER], volumes=[{"name": "data", "hostPath": {"path": "/data"}}])
    live = copy.deepcopy(base)
    live["spec"]["template"]["spec"]["containers"][1] |= {"terminationMessagePath": "/dev/termination-log"}
    live["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["type"] = ""
    assert removed(held(live, "kubectl-client-side-apply"), base, deployment([main()])) == [
        "containers[helper]",
        "volumes",
    ]


@pytest.mark.parametrize(
    ("before", "since", "path"),
    [
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "value": "2"}]}, "containers[main].env[A]"),
        ({"args": ["a"]}, {"args": ["b"]}, "containers[main].args"),
        ({"livenessProbe": PROBE}, {"livenessProbe": {**PROBE, "periodSeconds": 9}}, "containers[main].livenessProbe"),
    ],
)
def test_a_value_that_another_manager_has_changed_since_stays(before: Object, since: Object, path: str) -> None:
    live = held(deployment([main(**since)]), "gpuctl", kubectl_set=deployment([{"name": "main", **since}]))
    claimed = claim(live, Claims((AppliedVersion(deployment([main(**before)]), is_last=True),), deployment([main()])))
    assert dict(claimed.kept) == {f"spec.template.spec.{path}": "kubectl-set"}
    assert str(claimed).startswith(f"keeps {path} (kubectl-set), changed since the last apply")
    assert removed(live, deployment([main(**before)]), deployment([main()])) == []


def test_quantities_and_defaults_do_not_count_as_changed() -> None:
    base = deployment([main(resources={"requests": {"cpu": "1000m"}}, ports=[{"containerPort": 80}])])
    live = deployment([main(resources={"requests": {"cpu": "1"}}, ports=[{"containerPort": 80, "protocol": "TCP"}])])
    assert removed(held(live, "velero-server"), base, deployment([main()])) == [
        "containers[main].resources",
        "containers[main].ports",
    ]


def test_a_map_with_one_owner_to_which_another_has_added_is_not_ours() -> None:
    base = deployment([main()], nodeSelector={"a": "1"})
    entry = {"manager": "kueue", "operation": "Update", "apiVersion": "apps/v1"}
    entry["fieldsV1"] = {"f:spec": {"f:template": {"f:spec": {"f:nodeSelector": {}}}}}  # type: ignore[assignment]
    live = deployment([main()], nodeSelector={"a": "1", "b": "2"})
    live["metadata"]["managedFields"] = [entry]
    assert removed(live, base, deployment([main()])) == []


def test_what_is_taken_over_is_held_by_gpuctl_alone() -> None:
    """As `kubectl apply --server-side` takes over the fields of a client-side apply."""
    base = deployment([main(args=["a"])])
    live = held(base, "kubectl-client-side-apply", other=deployment([{"name": "main", "stdin": True}]))
    live["spec"]["template"]["spec"]["containers"][0]["stdin"] = True
    claimed = claim(live, Claims((AppliedVersion(base),), base))
    assert [name for name, _ in held_by_others(claimed.live)] == ["other"]
    assert live["metadata"]["managedFields"][0]["manager"] == "kubectl-client-side-apply"


def test_only_tools_that_apply_manifests_make_an_object() -> None:
    """What people change by single commands, and controllers, is not taken over with it."""
    live = held(deployment([main()]), "kubectl-create", "kubectl-label", "keda-controller")
    claimed = claim(live, Claims((AppliedVersion(live, of_tools=True),), deployment([main()])))
    assert [name for name, _ in held_by_others(claimed.live)] == ["kubectl-label", "keda-controller"]


@pytest.mark.parametrize(
    "forged",
    ["", "{", "[]", "null", "1", '{"kind": "Deployment"}', '{"kind": "Job", "metadata": {"name": "x"}}', "[" * 9999],
)
def test_a_forged_record_is_no_record(forged: str) -> None:
    live = deployment([main()])
    live["metadata"]["annotations"] = {KUBECTL_RECORD: forged}
    assert kubectl_record(live) is None


@pytest.mark.parametrize(
    "spec", [None, [], "x", {"template": []}, {"template": {"spec": {"containers": [{"name": []}]}}}]
)
def test_a_record_of_any_form_is_read(spec: Any) -> None:
    metadata = {"name": "x", "labels": {"app.kubernetes.io/managed-by": "gpuctl"}}
    live = held(deployment([main()]), "kubectl-client-side-apply")
    live["metadata"]["annotations"] = {
        KUBECTL_RECORD: json.dumps({"kind": "Deployment", "metadata": metadata, "spec": spec})
    }
    record = kubectl_record(live)
    assert record is not None
    assert removed(live, record, deployment([main()])) == []


def test_defaults_of_the_server() -> None:
    """A key of a map that users fill is no field, whatever its name."""
    pod = {"dnsPolicy": "ClusterFirst", "securityContext": {}, "nodeSelector": {"protocol": "TCP"}}
    obj = deployment([main(imagePullPolicy="IfNotPresent"), {**HELPER, "imagePullPolicy": "Always"}], **pod)
    obj["spec"] |= {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}, "replicas": 0}
    found = {path.removeprefix("spec.template.spec.") for path in default_paths(obj)}
    assert {"dnsPolicy", "securityContext", "containers[main].imagePullPolicy", "spec.strategy"} <= found
    assert not {"nodeSelector.protocol", "containers[helper].imagePullPolicy", "spec.replicas"} & found
    assert "strategy" not in without_defaults(obj)["spec"]


@pytest.mark.parametrize(
    ("rule", "covers"),
    [
        (DriftRule(path="spec.template.spec.containers[mesh]"), True),
        (DriftRule(path="spec.template.spec.containers[m*]"), True),
        (DriftRule(path="spec.template"), True),
        (DriftRule(kind="Deployment", manager="istio-*"), True),
        (DriftRule(kind="Job", manager="istio-*"), False),
        (DriftRule(path="spec.template.spec.containers[me]"), False),
        (DriftRule(path="spec.temp"), False),
        (DriftRule(manager="istio"), False),
    ],
)
def test_rules_for_differences_that_are_no_drift(rule: DriftRule, covers: bool) -> None:
    path = "spec.template.spec.containers[mesh].image"
    assert rule.covers("Deployment", path, ["istio-webhook"]) is covers
    if rule.manager is not None:
        assert not rule.covers("Deployment", path, ["istio-webhook", "kubectl-edit"])
        assert not rule.covers("Deployment", path, [])


def test_a_restart_is_no_drift() -> None:
    path = "spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]"
    assert any(rule.covers("StatefulSet", path, ["kubectl-rollout"]) for rule in BUILT_IN)


def test_a_change_without_effect() -> None:
    """The server has returned the object with the old value, or as it was wanted."""
    before, after = deployment([main(args=["a"])]), deployment([main()])
    changes = compare("Deployment", after, before, ours=fields_of(before)).changes
    assert without_effect(changes, before, after) == []
    assert without_effect(changes, before, before) == ["spec.template.spec.containers[main].args"]
    relabelled = {**before, "metadata": {**before["metadata"], "labels": {}}}
    assert without_effect(changes, before, relabelled) == ["spec.template.spec.containers[main].args"]


def test_a_stale_record_hides_nothing_of_the_last_document() -> None:
    """The probe was changed by gpuctl since kubectl wrote it: it is still the last document's."""
    old = {"httpGet": {"path": "/old", "port": 8000}}
    base = deployment([main(livenessProbe=PROBE)])
    live = held(base, "kubectl-client-side-apply")
    bases = (AppliedVersion(deployment([main(livenessProbe=old)])), AppliedVersion(base, is_last=True))
    claimed = claim(live, Claims(bases, deployment([main()])))
    assert claimed.kept == {}
    assert not held_by_others(claimed.live)


def test_an_old_record_takes_no_item_that_another_manager_has_made_anew() -> None:
    live = held(deployment([main(), {**HELPER, "image": "other:2"}]), "kubectl-edit")
    record = deployment([main(), HELPER])
    claimed = claim(
        live, Claims((AppliedVersion(record), AppliedVersion(deployment([main()]), is_last=True)), deployment([main()]))
    )
    changes = compare("Deployment", deployment([main()]), claimed.live, ours=owned_fields(claimed.live)).changes
    assert changes == []


def test_the_manager_that_has_changed_a_part_of_an_item_is_named() -> None:
    base = deployment([main(), HELPER])
    live = deployment([main(), {**HELPER, "image": "other:2"}])
    mine = deployment([{"name": "helper", "image": "other:2"}])
    live = held(
        live, "gpuctl", aaa=deployment([{"name": "helper"}]), kubectl_set=mine, zzz=deployment([{"name": "helper"}])
    )
    claimed = claim(live, Claims((AppliedVersion(base, is_last=True),), deployment([main()])))
    assert dict(claimed.kept) == {"spec.template.spec.containers[helper]": "kubectl-set"}
    assert removed(live, base, deployment([main()])) == []


@pytest.mark.parametrize("documents", [True, False])
def test_fields_of_our_own_server_side_apply_need_no_document(documents: bool) -> None:
    """Services, quotas, ConfigMaps and autoscalers: what another manager applied too is no reason to stay."""
    port = {"name": "debug", "port": 5678, "protocol": "TCP"}
    first = {"name": "main", "port": 80, "protocol": "TCP"}
    service: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "x", "namespace": "n"},
        "spec": {"ports": [first, port]},
    }
    wanted = {**service, "spec": {"ports": [first]}}
    live = held(service, "gpuctl", "argocd-controller")
    live["metadata"]["managedFields"][0]["operation"] = "Apply"
    bases = (AppliedVersion(service, is_last=True),) if documents else ()
    claimed = claim(live, Claims(bases, wanted))
    assert not held_by_others(claimed.live)
    # An added port of another manager is no field of ours.
    live["metadata"]["managedFields"][0]["fieldsV1"] = fields_of({"spec": {"ports": [first]}})
    claimed = claim(live, Claims((), wanted))
    (left,) = held_by_others(claimed.live)
    assert fields_of({"spec": {"ports": [port]}}).items() <= left[1].items()
