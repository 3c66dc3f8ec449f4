"""`gpuctl rollback`: its confirmation, the objects that it does not change, and the revisions that it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from control_plane import ControlPlane
from gpuctl.apply.state import past_documents
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import PART_OF, records
from support.cluster_tools import Place, image, image_tag, inference, merged, revision_causes, training

Object = dict[str, Any]
KEYS = records(Settings())
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz"


def apply_three_revisions(place: Place) -> None:
    """Apply three revisions of a service; the third is live."""
    place.apply(inference())
    place.apply(inference(environment=image("v2")), flags=("--yes",))
    place.apply(inference(environment=image("v3"), service={"replicas": 2}), flags=("--yes",))


def forge_revision(place: Place, number: int, document: Object, job: str = "serve") -> None:
    """Create a well-formed revision by hand."""
    past = past_documents.PastDocument(number, document, who="admin")
    place.create(past_documents.secret_of(past, place.namespace, job, KEYS))


def test_rollback_to_previous_and_given_revisions(place: Place) -> None:
    apply_three_revisions(place)
    asked = place.gpuctl("rollback", "serve", code=2)
    assert f"rolls back inference/serve in {place.namespace} to revision 2 (" in asked.err
    assert ", admin): environment.image: ...app:v3 -> ...app:v2, service.replicas: 2 -> 1\n" in asked.err
    assert "-  image: registry.example.com/app:v3" in asked.err
    assert "use --yes" in asked.err
    assert image_tag(place) == "v3"
    done = place.gpuctl("rollback", "serve", "--yes")
    assert f"replaced  deployment.apps/serve -n {place.namespace}" in done.out
    assert image_tag(place) == "v2"
    assert revision_causes(place)[0] == (4, "rolled back", 2)
    assert "rolled back to 2" in place.gpuctl("history", "serve").out
    # A second rollback returns to the newer revision, as with `kubectl rollout undo`.
    place.gpuctl("rollback", "serve", "--yes")
    assert image_tag(place) == "v3"
    place.gpuctl("rollback", "inference/serve", "--to", "1", "--yes", "--wait")
    assert image_tag(place) == "v1"
    assert revision_causes(place)[0] == (6, "rolled back", 1)
    # The result equals applying the document's file.
    assert set(place.plan(inference()).actions.values()) == {"unchanged"}
    assert "unchanged" in json.dumps(place.gpuctl("rollback", "serve", "--to", "1", "-o", "json").value)


@pytest.mark.slow
def test_rollback_dry_run_changes_nothing(place: Place) -> None:
    apply_three_revisions(place)
    before = place.records()
    shown = place.gpuctl("rollback", "serve", "--dry-run")
    assert "replace" in shown.out
    assert "will ask: rolls back inference/serve" in shown.err
    value = place.gpuctl("rollback", "serve", "--dry-run", "-o", "json").value
    assert {step["kind"]: step["action"] for step in value["steps"]}["Deployment"] == "replace"
    refused = place.gpuctl("rollback", "serve", "-o", "json", code=2).value
    assert "cannot ask for confirmation" in refused["error"]
    assert place.records() == before
    assert len(revision_causes(place)) == 3


@pytest.mark.slow
def test_rollback_restores_a_deleted_job(place: Place) -> None:
    apply_three_revisions(place)
    place.gpuctl("delete", "job", "serve", "--yes")
    assert place.names() == set()
    asked = place.gpuctl("rollback", "serve", code=2)
    assert "to revision 3" in asked.err
    place.gpuctl("rollback", "serve", "--yes")
    assert image_tag(place) == "v3"
    assert {"Deployment/serve", "Service/svc-serve"} == place.names()


@pytest.mark.slow
def test_rollback_changes_no_other_jobs_or_sets(place: Place) -> None:
    both = (inference(), training())
    place.apply(*both, flags=("--set", "team"))
    place.apply(inference(environment=image("v2")), training(), flags=("--set", "team", "--yes"))
    part = place.get("Deployment", "serve")["metadata"]["labels"][PART_OF]
    uid = place.uid("Job", "train")
    place.gpuctl("rollback", "serve", "--yes")
    assert image_tag(place) == "v1"
    assert place.get("Deployment", "serve")["metadata"]["labels"][PART_OF] == part
    assert place.get("Service", "svc-serve")["metadata"]["labels"][PART_OF] == part
    assert place.uid("Job", "train") == uid
    # The set's files still contain the job, so a prune finds nothing.
    plan = place.plan(*both, flags=("--set", "team", "--prune"))
    assert set(plan.actions.values()) == {"unchanged"}


@pytest.mark.slow
def test_rollback_refuses_revisions_without_their_credentials(place: Place) -> None:
    """Credentials are not stored; a masked value is never applied, and the suggested commands work."""
    with_token = inference(environment={"env": [{"name": "HF_TOKEN", "value": TOKEN}]})
    place.apply(with_token)
    place.apply(merged(with_token, {"environment": image("v2")}), flags=("--yes",))
    refused = place.gpuctl("rollback", "serve", "--yes", code=1)
    assert "revision 1 of serve" in refused.err
    assert "lacks the values of environment.env[HF_TOKEN].value: credentials are not kept" in refused.err
    assert f"`gpuctl history serve -n {place.namespace} --revision 1 > old.yaml`" in refused.err
    assert image_tag(place) == "v2"
    old = place.directory / "old.yaml"
    old.write_text(
        place.gpuctl("history", "serve", "--revision", "1").out.replace("'***'", TOKEN).replace('"***"', TOKEN)
    )
    place.gpuctl("apply", "-f", str(old), "--yes")
    assert image_tag(place) == "v1"
    assert set(place.plan(with_token).actions.values()) == {"unchanged"}


@pytest.mark.slow
def test_rollback_refuses_jobs_managed_by_argo_cd(place: Place) -> None:
    apply_three_revisions(place)
    tracking = f"web:apps/Deployment:{place.namespace}/serve"
    place.patch("Deployment", "serve", {"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": tracking}}})
    refused = place.gpuctl("rollback", "serve", "--yes", code=1)
    assert "is managed by Argo CD (application web), which would undo the change" in refused.err
    assert "change it in its repository" in refused.err
    assert image_tag(place) == "v3"
    place.gpuctl("rollback", "serve", "--yes", "--adopt")
    assert image_tag(place) == "v2"


@pytest.mark.slow
def test_rollback_without_history_is_refused(place: Place) -> None:
    place.apply(inference())
    refused = place.gpuctl("rollback", "serve", "--yes", code=1)
    assert f"no other document of serve in {place.namespace} is kept" in refused.err
    assert "there is no history of nope" in place.gpuctl("rollback", "nope", code=1).err
    assert "there is no revision 7 of serve" in place.gpuctl("rollback", "serve", "--to", "7", code=1).err


def test_forged_revision_shows_its_privileges_and_asks(place: Place) -> None:
    """The revision can only change this job in its own namespace; the admin sees its privileges and must confirm."""
    place.apply(inference())
    patch = {"hostPID": True, "containers": [{"name": "main", "securityContext": {"privileged": True}}]}
    evil = merged(inference(), {"job": {"namespace": place.namespace}, "podPatch": patch})
    forge_revision(place, 2, evil)
    asked = place.gpuctl("rollback", "serve", "--to", "2", code=2)
    assert "; has privileged, processes of the host\n" in asked.err
    assert "+    hostPID: true" in asked.err or "+  hostPID: true" in asked.err
    before = place.records()
    asked = place.gpuctl("rollback", "serve", code=2)
    assert "privileged" in asked.err
    assert place.records() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"job": {"namespace": "kube-system"}},
        {"job": {"name": "other"}},
        {"kind": "pool"},
    ],
)
def test_forged_revision_of_another_object_is_ignored(place: Place, changes: Object) -> None:
    place.apply(inference())
    document = merged(merged(inference(), {"job": {"namespace": place.namespace}}), changes)
    forge_revision(place, 2, document)
    refused = place.gpuctl("rollback", "serve", "--to", "2", "--yes", code=1)
    assert "there is no revision 2 of serve" in refused.err
    assert "no other document of serve" in place.gpuctl("rollback", "serve", "--yes", code=1).err


@pytest.mark.slow
def test_invalid_revision_is_refused(place: Place) -> None:
    """Two spellings of one key that gpuctl and the compiler could read differently, and an unknown field."""
    place.apply(inference())
    own = {"name": "serve", "namespace": place.namespace}
    forge_revision(place, 2, {**inference(job=own), "Job": {"name": "other", "namespace": "kube-system"}})
    forge_revision(place, 3, inference(job=own, resources={"gpus": 1}))
    for number in ("2", "3"):
        refused = place.gpuctl("rollback", "serve", "--to", number, "--yes", code=1)
        assert f"revision {number} of serve:" in refused.err
    assert image_tag(place) == "v1"


def test_rollback_uses_the_rights_of_its_user(plane: ControlPlane, place: Place) -> None:
    apply_three_revisions(place)
    rules = [
        {"apiGroups": [""], "resources": ["secrets", "pods", "services"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps", "batch"], "resources": ["*"], "verbs": ["get", "list"]},
    ]
    place.grant("member", rules)
    refused = place.gpuctl("rollback", "serve", "--yes", "--kubeconfig", str(plane.kubeconfig("member")), code=3)
    assert "you may not create or delete secrets" in refused.err
    assert image_tag(place) == "v3"


def test_rollback_is_of_the_kind_in_the_history(place: Place) -> None:
    """A job of another kind that another tool gave the same name is not taken for the current one."""
    apply_three_revisions(place)
    labels = {"app": "serve", KEYS.job_type: "training"}
    pod = {"containers": [{"name": "main", **image("v1")}], "restartPolicy": "Never"}
    spec = {"suspend": True, "template": {"metadata": {"labels": labels}, "spec": pod}}
    metadata = {"name": "serve", "labels": labels}
    place.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    assert "to revision 2 (" in place.gpuctl("rollback", "serve", code=2).err


def test_rerun_of_a_misspelt_job_says_so_without_the_right_to_read_histories(place: Place) -> None:
    place.kubectl("create", "rolebinding", "viewer", "--clusterrole=view", "--user=viewer")
    said = place.gpuctl("rerun", "trian", "--as", "viewer", code=1).err
    assert said.startswith(f"error: there is no job or pod trian in namespace {place.namespace}\n")
