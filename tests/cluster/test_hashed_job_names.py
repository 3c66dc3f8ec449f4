"""Trainings with a hash in their object names, as GitOps controllers create them: commands find them by the job name."""

from __future__ import annotations

import json

import pytest

from gpuctl.cli.main import run
from support.cluster_tools import Place, outcome, training
from support.generations import NAME, OTHER, TWO, half_replaced, sync, until_active
from support.tables import job_rows


@pytest.mark.slow
def test_commands_find_a_hashed_job_by_its_job_name(place: Place) -> None:
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
def test_rerun_and_delete_a_hashed_job_by_its_job_name(place: Place) -> None:
    name = sync(place, training(job=outcome("complete")))
    assert place.gpuctl("wait", "train", "--for", "done", "--timeout", "120s").code == 0
    before = place.uid("Job", name)
    place.gpuctl("rerun", "train", "--yes")
    assert place.uid("Job", name) != before
    assert place.gpuctl("delete", "job", "train", "--yes").code == 0
    assert not place.exists("Job", name)


@pytest.mark.slow
def test_newer_of_two_hashed_jobs_is_shown(place: Place) -> None:
    """While a controller replaces one by the other, commands use the newer one and name the older one."""
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
def test_delete_of_one_hashed_job_keeps_the_other(place: Place) -> None:
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
def test_apply_keeps_a_hashed_job_of_an_equal_document(place: Place) -> None:
    document = training(resources={"nodes": 2})
    name = sync(place, document)
    uid = place.uid("Job", name)
    plan = place.plan(document)
    assert plan.actions == {f"Job/{name}": "unchanged", f"Service/{name}": "unchanged"}
    place.apply(document)
    assert place.uid("Job", name) == uid
    assert not place.exists("Job", "train")
    assert not place.exists("Service", "train")


def test_apply_replaces_a_hashed_job_of_another_document(place: Place) -> None:
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
def test_companions_of_a_hashed_job_are_pruned_with_it(place: Place) -> None:
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
def test_companions_of_a_hashed_job_are_adopted_with_it(place: Place) -> None:
    """Otherwise Argo CD would prune the headless Service when the documents leave its repository."""
    document = training(**TWO)
    name = sync(place, document)
    for kind, group in (("Job", "batch"), ("Service", "")):
        tracking = f"argocd.argoproj.io/tracking-id=app:{group}/{kind}:{place.namespace}/{name}"
        place.kubectl("annotate", kind.lower(), name, tracking)
    place.apply(document, flags=("--adopt", "--yes"))
    for kind in ("Job", "Service"):
        assert not any("argocd" in key for key in place.get(kind, name)["metadata"].get("annotations") or {})


@pytest.mark.slow
def test_foreign_annotation_lost_by_a_replacement_is_shown(place: Place) -> None:
    name = sync(place, training(**TWO))
    place.kubectl("annotate", "job", name, "example.com/owner=me")
    path = place.file(training(**TWO, **OTHER))
    lost = [line for line in place.gpuctl("diff", "-f", path, code=1).out.splitlines() if line.startswith("! lost")]
    assert lost == ['! lost annotation example.com/owner: "me" (from kubectl-annotate)']


@pytest.mark.slow
@pytest.mark.parametrize("command", ["recover", "apply", "delete"])
def test_interrupted_replacement_of_a_hashed_job_is_finished(place: Place, command: str) -> None:
    """The journal belongs to a training that is recreated under another object name."""
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
def test_apply_keeps_a_hashed_job_of_another_lowering(place: Place) -> None:
    """The embedded documents are compared, because the hash in the name belongs to another lowering."""
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
def test_kustomize_overlay_stays_in_its_namespace(place: Place, flags: tuple[str, ...]) -> None:
    """No value that a pod reads contains the namespace that the base was rendered for."""
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
