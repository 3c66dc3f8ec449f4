"""Trainings under names with a hash, as a GitOps controller makes them: every command finds them by the job's name."""

from __future__ import annotations

import json

import pytest

from gpuctl.cli.main import run
from support.cluster_tools import Place, outcome, training
from support.generations import NAME, OTHER, TWO, half_replaced, sync, until_active
from support.tables import job_rows


def test_reading_by_the_name_of_the_job(place: Place) -> None:
    name = sync(place, training())
    until_active(place, name)
    (pod,) = place.pods("train")
    (row,) = job_rows(place)
    assert (row["JOB ID"], row["NAME"], row["STATUS"]) == (pod, "train", "Running")
    (row,) = job_rows(place, "--jobs")
    assert (row["JOB ID"], row["NAME"]) == (name, "train")
    for word in ("train", "training/train", name, f"training/{name}", pod):
        assert json.loads(place.gpuctl("describe", "job", word, "-o", "json").out)["name"] == "train"
        (row,) = job_rows(place, word)
        assert row["JOB ID"] == pod
    assert "running" in place.gpuctl("why", "train").out
    assert place.gpuctl("wait", "train", "--for", "running", "--timeout", "120s").code == 0
    assert place.gpuctl("logs", "train").code == 0
    value = place.gpuctl("pause", "train", "-o", "json").value["items"][0]
    assert (value["name"], value["status"]) == ("train", "paused")
    described = place.gpuctl("describe", "job", value["jobId"], "-o", "json").value
    assert (described["jobId"], described["k8sResources"]["jobName"]) == (value["jobId"], name)
    place.gpuctl("resume", "train")
    assert place.get("Job", name)["spec"]["suspend"] is False


@pytest.mark.slow
def test_rerun_and_delete(place: Place) -> None:
    name = sync(place, training(job=outcome("complete")))
    assert place.gpuctl("wait", "train", "--for", "done", "--timeout", "120s").code == 0
    before = place.uid("Job", name)
    place.gpuctl("rerun", "train", "--yes")
    assert place.uid("Job", name) != before
    assert place.gpuctl("delete", "job", "train", "--yes").code == 0
    assert not place.exists("Job", name)


@pytest.mark.slow
def test_two_generations(place: Place) -> None:
    """While a controller replaces one by the other, the newest is meant, and the other is named."""
    old = sync(place, training(), name="old")
    until_active(place, old)
    place.kubectl("patch", "job", old, "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}')
    new = sync(place, training(**OTHER), name="new")
    assert old != new
    until_active(place, new)
    place.kubectl("delete", "job", old, "--wait=false", "--cascade=background")
    found = place.gpuctl("describe", "job", "train", "-o", "json")
    assert [pod["pod"].startswith(new) for pod in found.value["pods"]] == [True]
    assert f"training/train is {new} here, the newer one; {old} is being deleted" in found.err
    found = place.gpuctl("describe", "job", old, "-o", "json")
    assert "newer one" not in found.err
    by_job = {row["JOB ID"]: row["NAME"] for row in job_rows(place, "--jobs")}
    assert by_job == {old: "train", new: "train"}
    place.kubectl("patch", "job", old, "--type=merge", "-p", '{"metadata":{"finalizers":[]}}')


@pytest.mark.slow
def test_deleting_one_generation_leaves_the_other(place: Place) -> None:
    two = {"resources": {"nodes": 2}}
    old = sync(place, training(**two), name="old")
    new = sync(place, training(**two, **OTHER), name="new")
    place.gpuctl("delete", "job", old, "--yes")
    assert not place.exists("Job", old)
    assert not place.exists("Service", old)
    assert place.exists("Job", new)
    assert place.exists("Service", new)
    place.gpuctl("delete", "-f", place.file(training(**two)), "--yes")
    assert not {name for name in place.names() if "train" in name}


@pytest.mark.slow
def test_apply_leaves_what_was_made_from_an_equal_document(place: Place) -> None:
    document = training(resources={"nodes": 2})
    name = sync(place, document)
    uid = place.uid("Job", name)
    plan = place.plan(document)
    assert plan.actions == {f"Job/{name}": "unchanged", f"Service/{name}": "unchanged"}
    place.apply(document)
    assert place.uid("Job", name) == uid
    assert not place.exists("Job", "train")
    assert not place.exists("Service", "train")


def test_apply_replaces_what_was_made_from_another_document(place: Place) -> None:
    two = {"resources": {"nodes": 2}}
    name = sync(place, training(**two))
    until_active(place, name, pods=2)
    document = training(**two, **OTHER)
    assert "running" in place.apply(document, code=2).err
    assert place.exists("Job", name)
    plan = place.plan(document, flags=("--yes",))
    assert plan.actions == {"Job/train": "replace", "Service/train": "create", f"Service/{name}": "delete"}
    place.apply(document, flags=("--yes",))
    assert {"Job/train", "Service/train"} <= place.names()
    assert not {f"Job/{name}", f"Service/{name}"} & place.names()
    assert place.plan(document).actions == {"Job/train": "unchanged", "Service/train": "unchanged"}


@pytest.mark.slow
def test_what_is_beside_a_built_training_joins_its_set_and_leaves_with_it(place: Place) -> None:
    name = sync(place, training(**TWO))
    (directory := place.directory / "jobs").mkdir()
    for document in (training(**TWO), training("other")):
        place.file(document, name=f"jobs/{document['job']['name']}.yaml")
    arguments = ("apply", "-f", str(directory), "--set", "jobs", "--prune", "--yes")
    for _ in range(2):
        place.gpuctl(*arguments)
        assert {f"Job/{name}", f"Service/{name}"} <= place.names()
    (directory / "train.yaml").unlink()
    place.gpuctl(*arguments)
    assert not {name for name in place.names() if "train" in name}


@pytest.mark.slow
def test_what_is_beside_a_built_training_is_taken_over_with_it(place: Place) -> None:
    """Else Argo CD prunes the Service of the ranks when the documents leave its repository."""
    document = training(**TWO)
    name = sync(place, document)
    for kind, group in (("Job", "batch"), ("Service", "")):
        tracking = f"argocd.argoproj.io/tracking-id=app:{group}/{kind}:{place.namespace}/{name}"
        place.kubectl("annotate", kind.lower(), name, tracking)
    place.apply(document, flags=("--adopt", "--yes"))
    for kind in ("Job", "Service"):
        assert not any("argocd" in key for key in place.get(kind, name)["metadata"].get("annotations") or {})


@pytest.mark.slow
def test_what_others_added_to_a_built_training_is_shown_as_lost(place: Place) -> None:
    name = sync(place, training(**TWO))
    place.kubectl("annotate", "job", name, "example.com/owner=me")
    path = place.file(training(**TWO, **OTHER))
    lost = [line for line in place.gpuctl("diff", "-f", path, code=1).out.splitlines() if line.startswith("! lost")]
    assert lost == ['! lost annotation example.com/owner: "me" (from kubectl-annotate)']


@pytest.mark.slow
@pytest.mark.parametrize("command", ["recover", "apply", "delete"])
def test_a_replacement_that_did_not_finish_is_finished(place: Place, command: str) -> None:
    """The journal is of a training that comes back under another name than it had."""
    document = training(**TWO, **OTHER)
    half_replaced(place, document)
    if command == "delete":
        assert "is not restored" in place.gpuctl("delete", "job", "train", "--yes").out
        assert place.gpuctl("recover", "--yes").err == "Nothing to recover.\n"
        assert not place.exists("Job", "train")
        return
    place.gpuctl("recover", "--yes") if command == "recover" else place.apply(document, flags=("--yes",))
    assert {"Job/train", "Service/train"} <= place.names()
    assert place.plan(document).actions == {"Job/train": "unchanged", "Service/train": "unchanged"}
    assert place.gpuctl("recover").err == "Nothing to recover.\n"


@pytest.mark.slow
def test_an_upgrade_that_lowers_otherwise_restarts_nothing_by_apply(place: Place) -> None:
    """The document inside decides where it was embedded: the hash is of another lowering."""
    document = training()
    directory = place.directory / "built"
    run(["build", place.file(document), "-o", str(directory), "--gitops", "argocd", "--embed", "-n", place.namespace])
    (path,) = (directory / place.namespace).glob("job-*.yaml")
    (name,) = set(NAME.findall(path.name))
    path.write_text(path.read_text().replace(name, "train-000000"))
    place.kubectl("apply", "-f", str(path))
    assert place.plan(document).actions == {"Job/train-000000": "unchanged"}
    assert place.plan(document, flags=("--relower",)).actions == {"Job/train": "replace"}


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--job-names", "plain")])
def test_an_overlay_of_kustomize_stays_in_its_namespace(place: Place, flags: tuple[str, ...]) -> None:
    """Nothing that a pod reads leads to the namespace that the base was rendered for."""
    base = place.directory / "base"
    deepspeed = ["deepspeed", "--no_ssh", "--node_rank=$(NODE_RANK)", "--master_addr=$(MASTER_ADDR)", "train.py"]
    document = training(
        job={"namespace": "production"},
        resources={"nodes": 2, "gpu": 1},
        environment={"image": "registry.example.com/train:v1", "command": deepspeed},
    )
    path = place.file(document)
    assert run(["build", path, "-o", str(base), "--kustomization", "--no-shared", "--gitops", "flux", *flags]) == 0
    overlay = place.directory / "overlay"
    overlay.mkdir()
    text = f"namespace: {place.namespace}\nresources: [../base]\n"
    (overlay / "kustomization.yaml").write_text(text)
    manifests = place.plane.kubectl("kustomize", str(overlay))
    assert f"namespace: {place.namespace}" in manifests
    values = [line for line in manifests.splitlines() if "production" in line]
    assert {line.split(":")[0].strip() for line in values} == {"runwhere.ai/namespace"}
    (overlay / "all.yaml").write_text(manifests)
    place.kubectl("apply", "-f", str(overlay / "all.yaml"))
    (job,) = (name.partition("/")[2] for name in place.names() if name.startswith("Job/"))
    pod = place.get("Job", job)["spec"]["template"]["spec"]
    env = {item["name"]: item.get("value") for item in pod["containers"][0]["env"]}
    assert env["MASTER_ADDR"] == env["PET_MASTER_ADDR"] == f"{job}-0.{pod['subdomain']}"
    assert place.get("Service", pod["subdomain"])["spec"]["clusterIP"] == "None"
    hosts = place.get("ConfigMap", f"{job}-hostfile")["data"]["hostfile"].splitlines()
    assert [line.split()[0] for line in hosts] == [f"{job}-{index}.{job}" for index in range(2)]
