"""Differences between the desired and the live object, and what does not count as one."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.decision_inputs import DecisionOptions, metadata_changes
from gpuctl.apply.state.compare import Comparison, FieldOutcome, compare, same_scalar
from gpuctl.apply.state.field_paths import named
from gpuctl.apply.state.managed_fields import applied_fields, foreign_managers, owned_fields, unstated
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records

CONTAINER: dict[str, Any] = {
    "name": "main",
    "image": "app:1",
    "args": ["a", "b"],
    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1"}},
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}
DESIRED: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "x", "namespace": "n", "labels": {"app": "x"}, "annotations": {"note": "1"}},
    "spec": {"replicas": 2, "template": {"spec": {"containers": [CONTAINER], "nodeSelector": {"pool": "a"}}}},
}


def live(**spec: Any) -> dict[str, Any]:
    """Return the object as a server stores it: with defaults, a status and other metadata."""
    result = copy.deepcopy(DESIRED)
    result["metadata"] |= {"uid": "u", "generation": 1}
    result["spec"] |= {"revisionHistoryLimit": 10, **spec}
    pod = result["spec"]["template"]["spec"]
    pod |= {"restartPolicy": "Always", "schedulerName": "default-scheduler"}
    pod["containers"][0] |= {"terminationMessagePath": "/dev/termination-log"}
    result["status"] = {"replicas": 1}
    return result


def container(obj: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = obj["spec"]["template"]["spec"]["containers"][0]
    return found


def paths(changes: list[FieldOutcome]) -> list[str]:
    return [change.path for change in changes]


def test_defaults_and_status_are_no_difference() -> None:
    assert compare("Deployment", DESIRED, live()).changes == []


def test_change_has_its_path_and_both_values() -> None:
    there = live()
    container(there)["image"] = "app:0"
    path = "spec.template.spec.containers[main].image"
    assert compare("Deployment", DESIRED, there).changes == [FieldOutcome(path, "app:0", "app:1")]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("resources", {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"nvidia.com/gpu": 1}}),
        ("env", [*CONTAINER["env"], {"name": "OTHER", "value": "somebody's"}]),
        ("volumeMounts", [*CONTAINER["volumeMounts"], {"name": "token", "mountPath": "/var/run"}]),
    ],
    ids=["equal quantities", "foreign variable", "foreign mount"],
)
def test_equal_quantities_and_foreign_items_are_no_difference(field: str, value: Any) -> None:
    there = live()
    container(there)[field] = value
    assert compare("Deployment", DESIRED, there).changes == []


def test_foreign_device_claim_is_no_difference() -> None:
    """A webhook may add a claim to the pod and to its container."""
    wanted, there = live(), live()
    container(wanted)["resources"] = {"claims": [{"name": "gpu"}]}
    container(there)["resources"] = {"claims": [{"name": "nic"}, {"name": "gpu"}]}
    assert compare("Deployment", wanted, there).changes == []


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        (
            "resources",
            {**CONTAINER["resources"], "limits": {"nvidia.com/gpu": "2"}},
            ".resources.limits[nvidia.com/gpu]",
        ),
        ("args", ["b", "a"], ".args"),
        ("args", ["a"], ".args"),
        ("env", [CONTAINER["env"][0]], ".env[B]"),
        ("env", CONTAINER["env"][::-1], ".env (order)"),
        ("env", [{"name": "A", "value": "9"}, CONTAINER["env"][1]], ".env[A].value"),
        ("volumeMounts", [], ".volumeMounts[/data]"),
    ],
)
def test_changed_field_is_a_difference(field: str, value: Any, path: str) -> None:
    there = live()
    container(there)[field] = value
    assert paths(compare("Deployment", DESIRED, there).changes) == [f"spec.template.spec.containers[main]{path}"]


def test_omitted_empty_values_are_no_difference() -> None:
    desired = copy.deepcopy(DESIRED)
    container(desired)["env"] = [{"name": "A", "value": ""}]
    desired["spec"]["template"]["spec"]["hostNetwork"] = False
    there = live()
    container(there)["env"] = [{"name": "A"}]
    assert compare("Deployment", desired, there).changes == []


def test_removed_field_is_a_difference_only_if_owned() -> None:
    """A foreign field stays; an owned field that the document no longer has is a change."""
    there = live(paused=True, minReadySeconds=5)
    tree = {"f:spec": {"f:minReadySeconds": {}}}
    assert compare("Deployment", DESIRED, there, ours=tree).changes == [FieldOutcome("spec.minReadySeconds", 5, None)]
    item = 'k:{"name":"OLD"}'
    env = {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"main"}': {"f:env": {item: {}}}}}}}}
    container(there)["env"].append({"name": "OLD", "value": "1"})
    expected = "spec.template.spec.containers[main].env[OLD]"
    assert paths(compare("Deployment", DESIRED, there, ours=env).changes) == [expected]


@pytest.mark.parametrize(
    ("names", "merged"),
    [("ABC", "XABC"), ("ACB", "XACB"), ("CAB", "XCAB"), ("BA", "XBA"), ("BDA", "XBDA")],
    ids=["last", "middle", "first", "reversed", "reversed-middle"],
)
def test_new_variables_stand_beside_their_neighbours(names: str, merged: str) -> None:
    """A variable may refer to those before it. ``X`` is another manager's."""
    desired, there = copy.deepcopy(DESIRED), live()
    container(desired)["env"] = [{"name": name, "value": name} for name in names]
    container(there)["env"] = [{"name": name, "value": name} for name in "XAB"]
    found = compare("Deployment", desired, there).merged
    assert "".join(item["name"] for item in container(found)["env"]) == merged


def test_default_is_a_difference_only_if_the_live_field_is_owned() -> None:
    """The answer to a dry run contains defaults. If another manager changed the value of one, gpuctl does not revert
    it.
    """
    answer = live()
    there = live(revisionHistoryLimit=3)
    assert compare("Deployment", answer, there, stated=DESIRED).changes == []
    ours = {"f:spec": {"f:revisionHistoryLimit": {}}}
    found = compare("Deployment", answer, there, stated=DESIRED, ours=ours).changes
    assert found == [FieldOutcome("spec.revisionHistoryLimit", 3, 10)]


def test_fields_of_job_controller_and_kueue_are_no_difference() -> None:
    desired = {"kind": "Job", "spec": {"suspend": False, "template": {"metadata": {"labels": {"app": "x"}}}}}
    labels = {"app": "x", "controller-uid": "u", "batch.kubernetes.io/job-name": "x"}
    there = {
        "spec": {"suspend": True, "selector": {"matchLabels": {"u": "u"}}, "template": {"metadata": {"labels": labels}}}
    }
    owned = {"f:spec": {"f:selector": {}, "f:template": {"f:metadata": {"f:labels": {"f:controller-uid": {}}}}}}
    assert compare("Job", desired, there, ours=owned).changes == []


def test_ignored_paths_are_no_difference() -> None:
    assert compare("Deployment", DESIRED, live(replicas=5), ignored=("spec.replicas",)).changes == []
    assert paths(compare("Deployment", DESIRED, live(replicas=5)).changes) == ["spec.replicas"]


def test_metadata_changes_are_limited_to_owned_keys() -> None:
    there = live()
    there["metadata"]["labels"] = {"app": "y", "theirs": "1", "old": "1"}
    owned = {"f:metadata": {"f:labels": {"f:app": {}, "f:old": {}}}}
    assert compare("Deployment", DESIRED, there, ours=owned).metadata == [
        FieldOutcome("metadata.labels.app", "y", "x"),
        FieldOutcome("metadata.labels.old", "1", None),
    ]


def test_records_of_other_commands_are_not_removed() -> None:
    keys = records(Settings())
    there = live()
    there["metadata"]["annotations"] |= {keys.paused: "2", "old": "1"}
    owned = {"f:metadata": {"f:annotations": {f"f:{keys.paused}": {}, "f:old": {}}}}
    compared = compare("Deployment", DESIRED, there, ours=owned)
    assert paths(metadata_changes(compared, DecisionOptions(ApplyRequest()))) == ["metadata.annotations.old"]


def test_empty_label_is_a_difference() -> None:
    """Unlike an empty field of the API, which is omitted."""
    desired = copy.deepcopy(DESIRED)
    desired["metadata"]["labels"]["empty"] = ""
    assert compare("Deployment", desired, live()).metadata == [FieldOutcome("metadata.labels.empty", None, "")]


def test_fields_of_other_managers_are_listed_with_them() -> None:
    there = live(minReadySeconds=5, progressDeadlineSeconds=600)
    there["metadata"] |= {"finalizers": ["example.com/f"]}
    there["spec"]["template"]["spec"]["nodeSelector"]["zone"] = "b"
    container(there)["env"] += [{"name": "THEIRS", "value": "1"}]
    spec = {"f:minReadySeconds": {}, "f:progressDeadlineSeconds": {}}
    env = {"f:env": {'k:{"name":"THEIRS"}': {".": {}, "f:name": {}, "f:value": {}}}}
    pod = {"f:nodeSelector": {}, "f:containers": {'k:{"name":"main"}': env}}
    tree = {
        "f:metadata": {"f:finalizers": {'v:"example.com/f"': {}}},
        "f:spec": {**spec, "f:template": {"f:spec": pod}},
    }
    found = compare("Deployment", DESIRED, there, others=[("meddler", tree), ("kueue", {"f:spec": spec})]).outcomes
    variable = {"name": "THEIRS", "value": "1"}
    assert sorted(found) == [
        FieldOutcome("metadata.finalizers[example.com/f]", "example.com/f", None, ("meddler",)),
        FieldOutcome("spec.minReadySeconds", 5, None, ("meddler", "kueue")),
        FieldOutcome("spec.progressDeadlineSeconds", 600, None, ("meddler", "kueue"), is_default=True),
        FieldOutcome("spec.template.spec.containers[main].env[THEIRS]", variable, None, ("meddler",)),
        FieldOutcome("spec.template.spec.nodeSelector", {"pool": "a", "zone": "b"}, {"pool": "a"}, ("meddler",)),
    ]


def test_first_of_the_managers_stands_for_a_field() -> None:
    assert FieldOutcome("spec.paused", True, None, ("meddler", "kueue")).manager == "meddler"
    assert FieldOutcome("spec.paused", True, None).manager == ""


def test_conflicts_are_told_by_their_fields() -> None:
    held = {"spec.replicas": ["keda"], "spec.paused": ["meddler", "kueue"]}
    assert Comparison(conflicts=held).held == "spec.paused is held by meddler and kueue; spec.replicas is held by keda"
    assert Comparison().held == ""


def managed(*entries: tuple[str, str, dict[str, Any], str]) -> dict[str, Any]:
    fields = [
        {"manager": manager, "operation": operation, "fieldsV1": tree, "subresource": subresource}
        for manager, operation, tree, subresource in entries
    ]
    return {**live(), "metadata": {**live()["metadata"], "managedFields": fields}}


IMAGE = {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"main"}': {"f:image": {}}}}}}}
REPLICAS = {"f:spec": {"f:replicas": {}}}


def test_owned_fields_and_foreign_managers() -> None:
    obj = managed(
        ("gpuctl", "Update", REPLICAS, ""),
        ("kubectl-client-side-apply", "Update", IMAGE, ""),
        ("kubectl-edit", "Update", {"f:spec": {"f:paused": {}}}, ""),
        ("gpuctl", "Apply", {"f:data": {}}, ""),
        ("kube-controller-manager", "Update", {"f:status": {}}, "status"),
        ("kube-controller-manager", "Update", {"f:metadata": {}}, ""),
    )
    assert owned_fields(obj) == {**REPLICAS, "f:data": {}}
    assert owned_fields(obj, adopted=True) == {"f:spec": {**REPLICAS["f:spec"], **IMAGE["f:spec"]}, "f:data": {}}
    assert applied_fields(obj, "gpuctl") == {"f:data": {}}
    assert foreign_managers(DESIRED, obj) == ["kubectl-client-side-apply"]


def test_manager_of_unstated_fields_is_not_foreign() -> None:
    obj = managed(("kubectl-edit", "Update", {"f:spec": {"f:paused": {}}}, ""))
    assert foreign_managers(DESIRED, obj) == []


def test_manager_of_a_port_without_protocol_is_foreign() -> None:
    port = {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}
    obj = managed(("kubectl-edit", "Update", {"f:spec": {"f:ports": port}}, ""))
    assert foreign_managers({"spec": {"ports": [{"port": 80}]}}, obj) == ["kubectl-edit"]


def test_defaulted_list_keys_count_as_stated() -> None:
    tree = {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}}}
    assert not unstated({"spec": {"ports": [{"port": 80}]}}, tree)
    assert unstated({"spec": {"ports": [{"port": 81}]}}, tree)
    assert unstated({"spec": {}}, tree)


def test_items_without_their_key_are_compared_by_index() -> None:
    """Like in any list, an item without a name cannot be matched."""
    there, desired = live(), copy.deepcopy(DESIRED)
    container(there)["env"] = [{"name": "A", "value": "1"}, {"value": "2"}]
    container(desired)["env"] = [{"name": "A", "value": "1"}, {"value": "3"}]
    assert paths(compare("Deployment", desired, there).changes) == ["spec.template.spec.containers[main].env[1].value"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("metadata.labels.team", "label team"),
        ("metadata.annotations[example.com/owner]", "annotation example.com/owner"),
        ("spec.template.spec.containers[main].image", "containers[main].image"),
        ("spec.replicas", "replicas"),
    ],
)
def test_paths_are_shortened_for_messages(path: str, words: str) -> None:
    assert named(path) == words


@pytest.mark.parametrize(
    ("key", "desired", "live", "same"),
    [
        ("cpu", "500m", "0.5", True),
        ("cpu", 1, "1", True),
        ("cpu", "1", "2", False),
        ("cpu", "one", "one of them", False),
        ("replicas", "1", "1.0", False),
        ("cpu", ["1"], "1", False),
    ],
)
def test_equal_quantities_are_the_same_scalar(key: str, desired: Any, live: Any, same: bool) -> None:
    assert same_scalar(key, desired, live) is same
