"""Fields of a live object that count as gpuctl's after other tools have written it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from gpuctl.apply.plan.last_applied import KUBECTL_RECORD, kubectl_record
from gpuctl.apply.state.compare import compare, without_effect
from gpuctl.apply.state.managed_fields import fields_of, held_by_others, owned_fields
from gpuctl.apply.state.takeover import AppliedVersion, Claims, claim
from gpuctl.language.drift_rules import BUILT_IN, DriftRule
from gpuctl.objects.server_defaults import without_defaults

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


def live_object(obj: Object, *managers: str, **others: Object) -> Object:
    """Return a live object: each of `managers` owns all of its fields, each of `others` those of the given object."""
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
def test_field_of_the_last_document_is_removed_for_any_manager(
    field: str, value: Any, path: str, managers: tuple[str, ...]
) -> None:
    base = deployment([main(**{field: value})])
    assert removed(live_object(base, *managers), base, deployment([main()])) == [path]
    # Without the document nothing shows that gpuctl ever set the field.
    if "gpuctl" not in managers:
        assert removed(live_object(base, *managers), deployment([main()]), deployment([main()])) == []


def test_items_are_removed_with_their_server_defaults() -> None:
    base = deployment([main(), HELPER], volumes=[{"name": "data", "hostPath": {"path": "/data"}}])
    live = copy.deepcopy(base)
    live["spec"]["template"]["spec"]["containers"][1] |= {"terminationMessagePath": "/dev/termination-log"}
    live["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["type"] = ""
    assert removed(live_object(live, "kubectl-client-side-apply"), base, deployment([main()])) == [
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
def test_value_changed_by_another_manager_since_is_kept(before: Object, since: Object, path: str) -> None:
    live = live_object(deployment([main(**since)]), "gpuctl", kubectl_set=deployment([{"name": "main", **since}]))
    claimed = claim(live, Claims((AppliedVersion(deployment([main(**before)]), is_last=True),), deployment([main()])))
    assert dict(claimed.kept) == {f"spec.template.spec.{path}": "kubectl-set"}
    assert str(claimed).startswith(f"keeps {path} (kubectl-set), changed since the last apply")
    assert removed(live, deployment([main(**before)]), deployment([main()])) == []


def test_equal_quantities_and_defaults_are_not_changes() -> None:
    base = deployment([main(resources={"requests": {"cpu": "1000m"}}, ports=[{"containerPort": 80}])])
    live = deployment([main(resources={"requests": {"cpu": "1"}}, ports=[{"containerPort": 80, "protocol": "TCP"}])])
    assert removed(live_object(live, "velero-server"), base, deployment([main()])) == [
        "containers[main].resources",
        "containers[main].ports",
    ]


def test_atomic_map_owned_by_another_manager_is_not_removed() -> None:
    base = deployment([main()], nodeSelector={"a": "1"})
    entry = {"manager": "kueue", "operation": "Update", "apiVersion": "apps/v1"}
    entry["fieldsV1"] = {"f:spec": {"f:template": {"f:spec": {"f:nodeSelector": {}}}}}  # type: ignore[assignment]
    live = deployment([main()], nodeSelector={"a": "1", "b": "2"})
    live["metadata"]["managedFields"] = [entry]
    assert removed(live, base, deployment([main()])) == []


def test_taken_over_fields_are_managed_by_gpuctl_alone() -> None:
    """Like `kubectl apply --server-side`, which takes over the fields of a client-side apply."""
    base = deployment([main(args=["a"])])
    live = live_object(base, "kubectl-client-side-apply", other=deployment([{"name": "main", "stdin": True}]))
    live["spec"]["template"]["spec"]["containers"][0]["stdin"] = True
    claimed = claim(live, Claims((AppliedVersion(base),), base))
    assert [name for name, _ in held_by_others(claimed.live)] == ["other"]
    assert live["metadata"]["managedFields"][0]["manager"] == "kubectl-client-side-apply"


def test_only_fields_of_manifest_tools_are_taken_over() -> None:
    """Changes made by single commands and by controllers are not taken over."""
    live = live_object(deployment([main()]), "kubectl-create", "kubectl-label", "keda-controller")
    claimed = claim(live, Claims((AppliedVersion(live, of_tools=True),), deployment([main()])))
    assert [name for name, _ in held_by_others(claimed.live)] == ["kubectl-label", "keda-controller"]


@pytest.mark.parametrize(
    "forged",
    ["", "{", "[]", "null", "1", '{"kind": "Deployment"}', '{"kind": "Job", "metadata": {"name": "x"}}', "[" * 9999],
)
def test_invalid_kubectl_record_is_ignored(forged: str) -> None:
    live = deployment([main()])
    live["metadata"]["annotations"] = {KUBECTL_RECORD: forged}
    assert kubectl_record(live) is None


@pytest.mark.parametrize(
    "spec", [None, [], "x", {"template": []}, {"template": {"spec": {"containers": [{"name": []}]}}}]
)
def test_kubectl_record_with_a_malformed_spec_is_read(spec: Any) -> None:
    metadata = {"name": "x", "labels": {"app.kubernetes.io/managed-by": "gpuctl"}}
    live = live_object(deployment([main()]), "kubectl-client-side-apply")
    live["metadata"]["annotations"] = {
        KUBECTL_RECORD: json.dumps({"kind": "Deployment", "metadata": metadata, "spec": spec})
    }
    record = kubectl_record(live)
    assert record is not None
    assert removed(live, record, deployment([main()])) == []


def test_server_defaults_are_recognized() -> None:
    """A key of a user-defined map is not a field, whatever its name."""
    pod = {"dnsPolicy": "ClusterFirst", "securityContext": {}, "nodeSelector": {"protocol": "TCP"}}
    obj = deployment([main(imagePullPolicy="IfNotPresent"), {**HELPER, "imagePullPolicy": "Always"}], **pod)
    obj["spec"] |= {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}, "replicas": 0}
    assert without_defaults(obj)["spec"] == {
        "replicas": 0,
        "template": {
            "spec": {
                "containers": [main(), {**HELPER, "imagePullPolicy": "Always"}],
                "nodeSelector": {"protocol": "TCP"},
            }
        },
    }


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
def test_drift_rules_match_kind_path_and_manager(rule: DriftRule, covers: bool) -> None:
    path = "spec.template.spec.containers[mesh].image"
    assert rule.covers("Deployment", path, ["istio-webhook"]) is covers
    if rule.manager is not None:
        assert not rule.covers("Deployment", path, ["istio-webhook", "kubectl-edit"])
        assert not rule.covers("Deployment", path, [])


def test_rollout_restart_is_not_drift() -> None:
    path = "spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]"
    assert any(rule.covers("StatefulSet", path, ["kubectl-rollout"]) for rule in BUILT_IN)


def test_without_effect_lists_changes_that_the_server_ignored() -> None:
    """The server returned the object with the old value, or with the wanted one."""
    before, after = deployment([main(args=["a"])]), deployment([main()])
    changes = compare("Deployment", after, before, ours=fields_of(before)).changes
    assert without_effect(changes, before, after) == []
    assert without_effect(changes, before, before) == ["spec.template.spec.containers[main].args"]
    relabelled = {**before, "metadata": {**before["metadata"], "labels": {}}}
    assert without_effect(changes, before, relabelled) == ["spec.template.spec.containers[main].args"]


def test_stale_record_does_not_hide_the_last_document() -> None:
    """gpuctl changed the probe after kubectl's record was written: the field belongs to the last document."""
    old = {"httpGet": {"path": "/old", "port": 8000}}
    base = deployment([main(livenessProbe=PROBE)])
    live = live_object(base, "kubectl-client-side-apply")
    bases = (AppliedVersion(deployment([main(livenessProbe=old)])), AppliedVersion(base, is_last=True))
    claimed = claim(live, Claims(bases, deployment([main()])))
    assert claimed.kept == {}
    assert not held_by_others(claimed.live)


def test_old_record_does_not_claim_an_item_recreated_by_others() -> None:
    live = live_object(deployment([main(), {**HELPER, "image": "other:2"}]), "kubectl-edit")
    record = deployment([main(), HELPER])
    claimed = claim(
        live, Claims((AppliedVersion(record), AppliedVersion(deployment([main()]), is_last=True)), deployment([main()]))
    )
    changes = compare("Deployment", deployment([main()]), claimed.live, ours=owned_fields(claimed.live)).changes
    assert changes == []


def test_manager_that_changed_an_item_is_named() -> None:
    base = deployment([main(), HELPER])
    live = deployment([main(), {**HELPER, "image": "other:2"}])
    mine = deployment([{"name": "helper", "image": "other:2"}])
    live = live_object(
        live, "gpuctl", aaa=deployment([{"name": "helper"}]), kubectl_set=mine, zzz=deployment([{"name": "helper"}])
    )
    claimed = claim(live, Claims((AppliedVersion(base, is_last=True),), deployment([main()])))
    assert dict(claimed.kept) == {"spec.template.spec.containers[helper]": "kubectl-set"}
    assert removed(live, base, deployment([main()])) == []


@pytest.mark.parametrize("documents", [True, False])
def test_fields_of_gpuctls_server_side_apply_need_no_document(documents: bool) -> None:
    """Services, quotas, ConfigMaps and autoscalers: the field is removed even if another manager applied it, too."""
    port = {"name": "debug", "port": 5678, "protocol": "TCP"}
    first = {"name": "main", "port": 80, "protocol": "TCP"}
    service: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "x", "namespace": "n"},
        "spec": {"ports": [first, port]},
    }
    wanted = {**service, "spec": {"ports": [first]}}
    live = live_object(service, "gpuctl", "argocd-controller")
    live["metadata"]["managedFields"][0]["operation"] = "Apply"
    bases = (AppliedVersion(service, is_last=True),) if documents else ()
    claimed = claim(live, Claims(bases, wanted))
    assert not held_by_others(claimed.live)
    # A port added by another manager is not gpuctl's.
    live["metadata"]["managedFields"][0]["fieldsV1"] = fields_of({"spec": {"ports": [first]}})
    claimed = claim(live, Claims((), wanted))
    (left,) = held_by_others(claimed.live)
    assert fields_of({"spec": {"ports": [port]}}).items() <= left[1].items()
