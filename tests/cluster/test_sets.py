"""Sets: which objects are members, what is pruned and never pruned, and what the parent object records."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, cut_after, matching, meanwhile, nth, on, refuse
from fault_tools.world import Api
from gpuctl.apply.state import applyset
from gpuctl.objects.ownership_metadata import PART_OF
from support.cluster_tools import Document, Place, image, inference, nodes_in_no_pool, notebook, training

MACHINE = os.uname().nodename
SCALED = {"enabled": True, "minReplicas": 1, "maxReplicas": 4}


class Repository:
    """A directory of documents that is applied as a set."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.directory = place.directory / "jobs"
        self.directory.mkdir()

    def write(self, **files: Document) -> None:
        for name, document in files.items():
            (self.directory / f"{name}.yaml").write_text(json.dumps(document))

    def remove(self, *names: str) -> None:
        for name in names:
            (self.directory / f"{name}.yaml").unlink()

    def apply(self, *flags: str, name: str = "web", code: int = 0) -> Any:
        return self.place.gpuctl("apply", "-f", str(self.directory), "--set", name, *flags, code=code)

    def prune(self, *flags: str, code: int = 0) -> Any:
        """Apply the set with --prune and --yes."""
        return self.apply("--prune", "--yes", *flags, code=code)

    def parent(self, name: str = "web") -> dict[str, Any]:
        """Return the set's parent object."""
        return self.place.get("Secret", name)

    def recorded(self, name: str = "web") -> tuple[str, str]:
        """Return the kinds and the additional namespaces that the parent records."""
        annotations = self.parent(name)["metadata"]["annotations"]
        return annotations[applyset.GROUP_KINDS], annotations.get(applyset.NAMESPACES, "")

    @property
    def id(self) -> str:
        """The set's id, which is the label value of its members."""
        return applyset.set_id("web", self.place.namespace)


@pytest.fixture
def repository(place: Place) -> Repository:
    """A repository without files."""
    return Repository(place)


def actions(outcome: Any) -> dict[str, str]:
    """Return the action of each ``kind/name`` in the output of an apply, in order."""
    words = [line.split() for line in outcome.out.splitlines()]
    return {line[1]: line[0] for line in words if not line[1].startswith(("namespace/", "priorityclass."))}


def labels(obj: Mapping[str, Any]) -> dict[str, str]:
    return dict(obj["metadata"].get("labels") or {})


# Membership and the parent object.


def test_members_and_parent_carry_the_metadata_of_the_set(place: Place, repository: Repository) -> None:
    repository.write(a=training("a"), b=inference("b", autoscaling=SCALED), c=notebook("c"))
    repository.apply()
    members = place.objects()
    assert set(members) == {
        "Job/a",
        "Deployment/b",
        "Service/svc-b",
        "HorizontalPodAutoscaler/b",
        "StatefulSet/c",
        "Service/svc-c",
    }
    for name, obj in members.items():
        assert labels(obj)[PART_OF] == repository.id, name
        text = json.dumps(obj.get("spec"))
        assert "applyset" not in text, f"{name}: only the top object is labelled"
    parent = repository.parent()
    assert labels(parent) == {applyset.ID: repository.id}
    assert parent["metadata"]["annotations"] == {
        applyset.TOOLING: applyset.OUR_TOOLING,
        applyset.GROUP_KINDS: "Deployment.apps,HorizontalPodAutoscaler.autoscaling,Job.batch,Service,StatefulSet.apps",
        applyset.SOURCES: json.dumps([f"file://{MACHINE}{repository.directory}"]),
    }


@pytest.mark.slow
def test_shared_objects_are_no_members(place: Place, repository: Repository, api: Api) -> None:
    repository.write(a=training("a", job={"priority": "low"}))
    repository.apply()
    shared = [
        api.call("GET", "/apis/scheduling.k8s.io/v1/priorityclasses/gpuctl-low"),
        api.call("GET", f"/api/v1/namespaces/{place.namespace}"),
    ]
    assert not any(PART_OF in labels(obj) for obj in shared)
    assert repository.recorded() == ("Job.batch", "")
    repository.remove("a")
    repository.prune("--allow-empty")
    assert api.request("GET", "/apis/scheduling.k8s.io/v1/priorityclasses/gpuctl-low")[0] == 200
    assert place.names() == set()


def test_second_apply_writes_nothing(repository: Repository, proxy: Proxy) -> None:
    repository.write(a=training("a"), b=inference("b", autoscaling=SCALED), c=notebook("c"))
    repository.apply()
    for flags in ([], ["--prune"]):
        proxy.reset()
        assert set(actions(repository.apply(*flags)).values()) == {"unchanged"}
        assert proxy.writes() == []


@pytest.mark.slow
def test_set_in_a_namespace_that_its_apply_creates(place: Place, repository: Repository, api: Api) -> None:
    new = f"{place.namespace}-new"
    repository.write(a=training("a", job={"namespace": new}))
    place.namespace, before = new, place.namespace
    outcome = repository.apply("-o", "json")
    assert [step["result"] for step in outcome.value["steps"]] == ["done"] * len(outcome.value["steps"])
    (made,) = [step for step in outcome.value["steps"] if step["kind"] == "Namespace"]
    assert (made["action"], made["reason"]) == ("create", "named by a document of kind training")
    assert repository.recorded() == ("Job.batch", "")
    assert place.exists("Job", "a")
    place.namespace = before
    api.call("DELETE", f"/api/v1/namespaces/{new}")


# Pruning.


@pytest.mark.slow
def test_prune_needs_a_set(place: Place, repository: Repository) -> None:
    repository.write(a=training("a"))
    for flag in ("--prune", "--allow-source", "--allow-empty", "--allow-skipped"):
        outcome = place.gpuctl("apply", "-f", str(repository.directory), flag, code=2)
        assert f"{flag} needs --set NAME" in outcome.err
    assert place.names() == set()


def test_prune_is_previewed_confirmed_and_done_last(place: Place, repository: Repository) -> None:
    repository.write(a=training("a"), b=training("b"), c=inference("c"))
    repository.apply()
    place.running("a", "b", "c")
    before = place.uids()
    repository.remove("b", "c")
    repository.write(d=training("d"))

    preview = repository.apply("--prune", "--dry-run=server")
    expected = {"job.batch/a": "unchanged", "job.batch/d": "create"}
    expected |= {"job.batch/b": "prune", "deployment.apps/c": "prune", "service/svc-c": "prune"}
    assert actions(preview) == expected
    asked = repository.apply("--prune", code=2)
    assert f"prunes training/b (job.batch/b in {place.namespace}): running for " in asked.err
    assert asked.err.endswith("error: cannot ask for confirmation: use --yes\n  = nothing was changed\n")
    assert asked.out == ""
    assert place.uids() == before
    difference = place.gpuctl("diff", "-f", str(repository.directory), "--set", "web", "--prune", code=1)
    assert f"--- live/job.batch/b in {place.namespace}\n+++ /dev/null\n" in difference.out
    assert place.uids() == before

    done = repository.prune()
    words = {"create": "created", "prune": "pruned", "unchanged": "unchanged"}
    assert actions(done) == {name: words[action] for name, action in expected.items()}
    assert list(actions(done).values())[-3:] == ["pruned"] * 3
    assert place.names() == {"Job/a", "Job/d"}
    assert place.uid("Job", "a") == before["Job/a"]
    assert repository.recorded() == ("Job.batch", "")


@pytest.mark.slow
def test_apply_without_prune_keeps_members_recorded(place: Place, repository: Repository) -> None:
    repository.write(a=training("a"), b=inference("b"))
    repository.apply()
    repository.remove("b")
    repository.apply()
    assert place.names() == {"Job/a", "Deployment/b", "Service/svc-b"}
    assert repository.recorded() == ("Deployment.apps,Job.batch,Service", "")
    repository.prune()
    assert place.names() == {"Job/a"}
    assert repository.recorded() == ("Job.batch", "")


def test_prune_spares_foreign_shared_and_controlled_objects(place: Place, repository: Repository) -> None:
    """Members of other sets, objects with forged labels, objects of controllers, and shared objects are never pruned."""
    other = {PART_OF: applyset.set_id("other", place.namespace), "app.kubernetes.io/managed-by": "gpuctl"}
    ours = {PART_OF: repository.id, "app.kubernetes.io/managed-by": "gpuctl"}

    def config_map(name: str, manager: str = "somebody", **metadata: Any) -> None:
        place.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}, manager=manager)

    repository.write(a=training("a", resources={"nodes": 2}, environment={"command": ["deepspeed", "train.py"]}))
    repository.apply()
    assert "ConfigMap/a-hostfile" in place.names(), "the set must contain a ConfigMap, or ConfigMaps are not listed"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "0-0", "controller": True}
    config_map("other-set", labels=other)
    config_map("forged", labels={PART_OF: repository.id})
    config_map("forged-helm", labels={**ours, "app.kubernetes.io/managed-by": "Helm"})
    config_map("shared", labels=ours, annotations={"runwhere.ai/shared": "true"})
    config_map("pruned", "gpuctl", labels=ours)
    config_map("copied", labels=ours)
    # The garbage collector deletes objects whose owner does not exist, so the owner must exist.
    owner |= {"name": "a", "uid": place.uid("Job", "a")}
    repository.write(a=training("b"))
    outcome = repository.apply("--prune", "--dry-run=server")
    config_map("controlled", labels=ours, ownerReferences=[owner])
    outcome = repository.apply("--prune", "--dry-run=server")
    pruned = {name for name, action in actions(outcome).items() if action == "prune"}
    assert pruned == {"job.batch/a", "service/a", "configmap/a-hostfile", "configmap/pruned"}
    repository.prune()
    # The garbage collector deletes `controlled` with its owner.
    place.until(lambda: "ConfigMap/controlled" not in place.names(), "the garbage collector")
    assert place.names() == {
        "Job/b",
        *(f"ConfigMap/{name}" for name in ("other-set", "forged", "forged-helm", "shared", "copied")),
    }


@pytest.mark.slow
def test_prune_of_everything_needs_allow_empty(place: Place, repository: Repository) -> None:
    repository.write(a=training("a"), b=training("b"))
    repository.apply()
    repository.remove("a", "b")
    said = (
        "error: there is no document left, and --prune would delete all that the set web contains: --allow-empty if this "
        "is intended\n  = nothing was changed\n"
    )
    for step in range(2):
        assert repository.prune(code=1).err == said
        difference = place.gpuctl("diff", "-f", str(repository.directory), "--set", "web", "--prune", code=2)
        assert difference.err == said
        assert place.names() == {"Job/a", "Job/b"}, step
        # A platform file does not count as a remaining document either.
        (repository.directory / "platform.yaml").write_text("kind: platform\nversion: v0.1\n")
    (repository.directory / "platform.yaml").unlink()
    gone = place.gpuctl(
        "apply", "-f", "nowhere", "--set", "web", "--prune", "--yes", "--allow-empty", "--allow-source", code=1
    )
    assert "cannot read `nowhere`" in gone.err
    assert place.names() == {"Job/a", "Job/b"}
    assert set(actions(repository.prune("--allow-empty")).values()) == {"pruned"}
    assert place.names() == set()
    assert repository.recorded() == ("", "")


@pytest.mark.slow
def test_prune_refuses_while_files_were_not_read(place: Place, repository: Repository) -> None:
    repository.write(a=training("a"), b=training("b"))
    repository.apply()
    document = (repository.directory / "b.yaml").read_text()
    repository.remove("b")
    (place.directory / "elsewhere").mkdir()
    texts = [("b.yaml", ""), ("b.yaml", "# kind: training\n"), ("b.yaml", "replicas: 3\n")]
    texts += [(name, document) for name in ("b.YAML", "b.yaml.bak", "b.json", ".b.yaml")]
    for name, text in (*texts, ("shared", "a link")):
        path = repository.directory / name
        if text == "a link":
            path.symlink_to(place.directory / "elsewhere")
        else:
            path.write_text(text)
        said = (
            f"error: --prune would delete 1 object that is in no document, and these were not read as documents: {path}; "
            "`gpuctl validate` says why. Correct, rename or remove them, or add --allow-skipped if none of them is meant\n"
        )
        assert repository.prune(code=1).err.endswith(f"{said}  = nothing was changed\n")
        assert repository.apply("--prune", "--dry-run=server", code=1).err.endswith(said)
        difference = place.gpuctl("diff", "-f", str(repository.directory), "--set", "web", "--prune", code=2)
        assert difference.err.endswith(said)
        assert place.names() == {"Job/a", "Job/b"}
        assert place.gpuctl("validate", str(repository.directory)).out.count(f"--> {path}:1:1") == 1
        # Without --prune, unread files do not block an apply.
        assert repository.apply().code == 0
        if text != "a link":
            path.unlink()
    repository.prune("--allow-skipped")
    assert place.names() == {"Job/a"}


@pytest.mark.slow
def test_unknown_kind_prunes_nothing(place: Place, repository: Repository) -> None:
    repository.write(a=training("a"), b=training("b"))
    repository.apply()
    repository.write(b={**training("b"), "kind": "Training"})
    assert "unknown kind `Training`" in repository.prune("--allow-skipped", "--allow-empty", code=1).err
    (repository.directory / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\n")
    repository.write(b=training("b"))
    repository.prune()
    assert place.names() == {"Job/b"}


@pytest.mark.slow
def test_directory_without_yaml_names_unread_files(place: Place, repository: Repository) -> None:
    repository.write(a=training("a"))
    repository.apply()
    (repository.directory / "a.yaml").rename(repository.directory / "a.YAML")
    refused = repository.prune("--allow-empty", code=1)
    assert f"were not read as documents: {repository.directory}/a.YAML; " in refused.err
    assert place.names() == {"Job/a"}
    repository.prune("--allow-empty", "--allow-skipped")
    assert place.names() == set()


@pytest.mark.slow
def test_other_sources_are_refused(place: Place, repository: Repository) -> None:
    repository.write(a=training("a"), b=training("b"))
    repository.apply()
    before = place.records()
    part = str(repository.directory / "a.yaml")
    command = ["apply", "-f", part, "--set", "web", "--prune", "--yes"]
    refused = place.gpuctl(*command, code=1)
    assert refused.err == (
        f"error: set web: the set came from file://{MACHINE}{repository.directory}, and this run gives file://{MACHINE}{part} "
        "instead (outside of a git repository with a remote or a commit, a path is valid on one machine only): give the same "
        "sources, or `--allow-source` if this is intended\n  = nothing was changed\n"
    )
    assert place.records() == before
    assert place.gpuctl("diff", "-f", part, "--set", "web", code=2).err == refused.err
    place.gpuctl(*command, "--allow-source")
    assert place.names() == {"Job/a"}
    # These are now the set's recorded sources.
    other = str(repository.directory / "b.yaml")
    refused = place.gpuctl("apply", "-f", other, "--set", "web", "--yes", code=1)
    assert refused.err.startswith(f"error: set web: the set came from file://{MACHINE}{part}, ")
    # A directory that contains the recorded sources adds to the set without --allow-source.
    assert set(actions(repository.apply()).values()) == {"unchanged", "created"}
    assert place.names() == {"Job/a", "Job/b"}


def checkout(place: Place, name: str, remote: str, *jobs: str) -> str:
    """Create a git clone with jobs in team/jobs; return the path of that directory."""
    root = place.directory / name
    directory = root / "team" / "jobs"
    directory.mkdir(parents=True)
    for command in (["init", "--quiet"], ["remote", "add", "origin", remote]):
        subprocess.run(["git", "-C", str(root), *command], check=True)
    for job in jobs:
        (directory / f"{job}.yaml").write_text(json.dumps(training(job)))
    return str(directory)


@pytest.mark.slow
def test_another_repository_with_the_same_paths_is_refused(place: Place) -> None:
    """A platform with another label domain does not change this."""
    first = checkout(place, "first", "https://git.example.com/a/jobs", "a", "b")
    second = checkout(place, "second", "https://git.example.com/b/jobs", "c")
    place.gpuctl("apply", "-f", first, "--set", "web")
    before = place.records()
    platform = place.directory / "platform.yaml"
    platform.write_text("kind: platform\nversion: v0.1\nlabels: {domain: other.example.com}\n")
    for arguments in ([], ["--platform", str(platform)]):
        refused = place.gpuctl("apply", "-f", second, "--set", "web", "--prune", "--yes", *arguments, code=1)
        assert refused.err == (
            "error: set web: the set came from git:git.example.com/a/jobs//team/jobs, and this run gives "
            "git:git.example.com/b/jobs//team/jobs instead: give the same sources, or `--allow-source` if this is "
            "intended\n  = nothing was changed\n"
        )
    assert place.records() == before


@pytest.mark.slow
def test_a_set_without_its_sources_is_not_taken_over(place: Place, repository: Repository) -> None:
    repository.write(a=training("a"), b=training("b"))
    repository.apply()
    place.patch("Secret", "web", {"metadata": {"annotations": {applyset.SOURCES: None}}})
    repository.remove("b")
    for flags in ([], ["--prune", "--yes"]):
        assert "set web: the set does not record its sources" in repository.apply(*flags, code=1).err
    assert place.names() == {"Job/a", "Job/b"}
    repository.prune("--allow-source")
    assert place.names() == {"Job/a"}
    repository.prune()


# Changes to members.


@pytest.mark.slow
def test_replace_and_prune_in_one_run(place: Place, repository: Repository) -> None:
    """The uids change, and new objects are not pruned as old ones."""
    repository.write(a=training("a"), b=inference("b"), c=training("c"))
    repository.apply()
    before = place.uids()
    repository.write(a=training("a", environment=image("v2")), b=inference("b", environment=image("v2")))
    repository.remove("c")
    done = actions(repository.prune())
    assert done["job.batch/a"] == done["deployment.apps/b"] == "replaced"
    assert done["job.batch/c"] == "pruned"
    after = place.objects()
    assert set(after) == {"Job/a", "Deployment/b", "Service/svc-b"}
    assert {name for name, uid in place.uids().items() if uid != before[name]} == {"Job/a", "Deployment/b"}
    assert all(labels(obj)[PART_OF] == repository.id for obj in after.values())
    assert set(actions(repository.prune()).values()) == {"unchanged"}


@pytest.mark.slow
def test_renamed_job_is_created_and_the_old_one_pruned(place: Place, repository: Repository) -> None:
    repository.write(a=inference("old"))
    repository.apply()
    repository.write(a=inference("new"))
    done = actions(repository.prune())
    assert done == {
        "service/svc-new": "created",
        "deployment.apps/new": "created",
        "service/svc-old": "pruned",
        "deployment.apps/old": "pruned",
    }
    assert place.names() == {"Deployment/new", "Service/svc-new"}


@pytest.mark.slow
def test_set_records_the_namespaces_of_moved_jobs(place: Place, repository: Repository, away: str, api: Api) -> None:
    """The parent lists every namespace that may hold a member, and drops it when it holds none."""
    repository.write(a=training("a"), b=training("b"))
    repository.apply()
    assert repository.recorded() == ("Job.batch", "")
    repository.write(a=training("a", job={"namespace": away}))
    repository.apply()
    assert repository.recorded() == ("Job.batch", away)
    assert place.names() == {"Job/a", "Job/b"}
    repository.prune()
    assert place.names() == {"Job/b"}
    assert api.request("GET", f"/apis/batch/v1/namespaces/{away}/jobs/a")[0] == 200
    repository.write(a=training("a"))
    repository.prune()
    assert place.names() == {"Job/a", "Job/b"}
    assert api.request("GET", f"/apis/batch/v1/namespaces/{away}/jobs/a")[0] == 404
    assert repository.recorded() == ("Job.batch", "")


@pytest.mark.slow
def test_quota_freed_only_by_pruning_does_not_count(place: Place, repository: Repository) -> None:
    """Pruning is the last step, so its quota is not free for the new job."""
    repository.write(a=training("old"))
    repository.apply()
    place.limit("jobs", **{"count/jobs.batch": "1"})
    repository.remove("a")
    repository.write(b=training("new"))
    refused = repository.prune(code=1)
    assert "quota jobs: count/jobs.batch would be 2 of 1" in refused.err
    assert place.exists("Job", "old")


@pytest.mark.slow
def test_unchanged_autoscaler_joins_a_set(place: Place, repository: Repository) -> None:
    """The platform would now render it differently, but apply only writes the set's label."""
    repository.write(a=inference(autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 4}))
    place.gpuctl("apply", "-f", str(repository.directory))
    before = place.get("HorizontalPodAutoscaler", "serve")["spec"]
    place.platform(
        "autoscaling: {metrics: {gpu: other_metric}}\npriorities: {medium: {className: gpuctl-mid, value: 500}}"
    )
    repository.apply()
    scaler = place.get("HorizontalPodAutoscaler", "serve")
    assert scaler["metadata"]["labels"]["applyset.kubernetes.io/part-of"]
    assert scaler["spec"] == before


def test_member_of_another_set_is_refused_by_name(place: Place, repository: Repository) -> None:
    repository.write(a=training("a"), b=training("b"))
    repository.apply()
    before = place.records()
    refused = repository.apply(name="api", code=1)
    where = f"in {place.namespace}"
    assert refused.err == (
        f"error: job.batch/a {where}, job.batch/b {where} belong to the set web of namespace {place.namespace}; an object "
        f"is in one set at most. To move them, first take them out: `kubectl label job.batch/a job.batch/b "
        f"-n {place.namespace} {PART_OF}-`\n  = nothing was changed\n"
    )
    assert place.records() == before
    place.kubectl("label", "job.batch/a", "job.batch/b", f"{PART_OF}-")
    assert set(actions(repository.apply(name="api")).values()) == {"updated"}
    assert labels(place.get("Job", "a"))[PART_OF] == applyset.set_id("api", place.namespace)
    # The first set does not prune objects that now belong to another set.
    repository.remove("a")
    repository.prune(code=1)
    assert place.names() == {"Job/a", "Job/b"}


@pytest.mark.slow
def test_apply_without_the_set_keeps_membership(place: Place, repository: Repository) -> None:
    """Membership survives a change in place, a replacement, and a server-side apply, which drops fields not in the
    document.
    """
    repository.write(a=training("a"), b=inference("b", autoscaling=SCALED))
    repository.apply()
    described = training("a", job={"description": "new"})
    changed = inference("b", environment=image("v2"), service={"port": 9000}, autoscaling={**SCALED, "maxReplicas": 5})
    for documents in ((training("a"),), (described,), (training("a", environment=image("v2")),), (changed,)):
        place.apply(*documents, flags=("--yes",))
        members = place.objects()
        assert set(members) == {"Job/a", "Deployment/b", "Service/svc-b", "HorizontalPodAutoscaler/b"}
        assert {labels(obj).get(PART_OF) for obj in members.values()} == {repository.id}


@pytest.mark.slow
def test_existing_objects_join_the_set(place: Place, repository: Repository) -> None:
    place.apply(training("a"), inference("b", autoscaling=SCALED))
    before = place.uids()
    repository.write(a=training("a"), b=inference("b", autoscaling=SCALED))
    joined = repository.apply()
    assert set(actions(joined).values()) == {"updated"}
    assert all(line.endswith("(joins the set)") for line in joined.out.splitlines())
    assert place.uids() == before
    assert {labels(obj).get(PART_OF) for obj in place.objects().values()} == {repository.id}


# Failures and conflicts.


@pytest.mark.slow
def test_failed_apply_leaves_the_superset(place: Place, repository: Repository, proxy: Proxy) -> None:
    """Nothing is pruned, and the next run finds the objects of the failed one."""
    repository.write(a=training("a"), b=training("b"))
    repository.apply()
    repository.remove("b")
    repository.write(c=inference("c"))
    creates = matching("POST", "/deployments", writes=True)
    proxy.reset(on(creates, refuse(422, "Invalid", "deployments.apps is invalid: because of the test")))
    failed = repository.prune(code=1)
    assert "because of the test" in failed.out
    assert "pruned" not in failed.out
    assert place.names() == {"Job/a", "Job/b", "Service/svc-c"}
    assert repository.recorded() == ("Deployment.apps,Job.batch,Service", "")
    proxy.reset()
    repository.prune()
    assert place.names() == {"Job/a", "Deployment/c", "Service/svc-c"}
    repository.remove("c")
    repository.prune()
    assert repository.recorded() == ("Job.batch", "")


def test_parent_lists_the_superset_first_and_the_exact_set_last(
    place: Place, repository: Repository, proxy: Proxy
) -> None:
    repository.write(a=training("a"))
    repository.apply()
    repository.write(a=inference("b"))
    proxy.reset()
    repository.prune()
    writes = [line.split()[1] + " " + line.split()[2].split("?")[0].rsplit("/", 2)[-1] for line in proxy.writes()]
    parent = [index for index, write in enumerate(writes) if write == "PUT web"]
    others = [index for index, write in enumerate(writes) if write in ("POST deployments", "PATCH svc-b", "DELETE a")]
    assert len(parent) == 2
    assert len(others) == 3
    assert parent[0] < min(others)
    assert max(others) < parent[1]


def test_lost_answer_to_the_write_of_the_parent_is_no_failure(
    place: Place, repository: Repository, proxy: Proxy
) -> None:
    """The second PUT records the exact set, after all other steps; the next attempt of it is a conflict."""
    repository.write(a=training("a"))
    repository.apply()
    repository.write(a=inference("b"))
    proxy.reset(on(nth(2, matching("PUT", "/secrets/web", writes=True)), cut_after))
    repository.prune()
    assert sum("PUT" in write for write in proxy.writes()) == 3
    assert repository.recorded() == ("Deployment.apps,Service", "")


@pytest.mark.slow
def test_parent_written_by_another_run_is_merged(place: Place, repository: Repository, proxy: Proxy) -> None:
    """Another run writes the parent first: it is read again, not overwritten, and no error."""
    repository.write(a=training("a"))
    repository.apply()
    repository.write(b=inference("b"))
    parent = matching("PUT", "/secrets/web", writes=True)

    def other_run() -> None:
        kinds = {applyset.GROUP_KINDS: "ConfigMap,Job.batch"}
        place.patch("Secret", "web", {"metadata": {"annotations": kinds}})

    proxy.reset(on(nth(1, parent), meanwhile(other_run)))
    repository.apply()
    assert place.names() == {"Job/a", "Deployment/b", "Service/svc-b"}
    assert repository.recorded() == ("ConfigMap,Deployment.apps,Job.batch,Service", "")


@pytest.mark.slow
def test_foreign_secret_or_set_of_the_name_is_refused(place: Place, repository: Repository) -> None:
    repository.write(a=training("a"))
    place.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}})
    refused = repository.apply(code=1)
    assert refused.err == (
        f"error: secret/web in {place.namespace} exists and is not the parent of a set\n"
        "  = choose another name for the set\n"
    )
    theirs = applyset.ApplySet("web", place.namespace, tooling="kubectl/v1.36.3")
    metadata = applyset.parent_object(theirs, existing=None)["metadata"]
    place.patch("Secret", "web", {"metadata": {"labels": metadata["labels"], "annotations": metadata["annotations"]}})
    assert "is managed by kubectl/v1.36.3" in repository.apply(code=1).err
    assert place.names() == set()


@pytest.mark.slow
def test_json_names_the_set(repository: Repository) -> None:
    repository.write(a=training("a"), b=training("b"))
    repository.apply()
    repository.remove("b")
    value = repository.prune("-o", "json").value
    assert value["set"] == "web"
    steps = {step["name"]: (step["action"], step["result"]) for step in value["steps"] if step["kind"] == "Job"}
    assert steps == {"a": ("unchanged", "done"), "b": ("prune", "done")}
    assert value["summary"]["prune"] == 1


# Pools and quotas in a set.


def pool(name: str, *nodes: str) -> Document:
    """Return a pool's document."""
    return {
        "kind": "pool",
        "version": "v0.1",
        "pool": {"name": name},
        "nodes": {node: {"gpu-type": "a100"} for node in nodes},
    }


def node_labels(api: Api, name: str) -> dict[str, str]:
    """Return a node's pool and GPU type labels."""
    found = labels(api.call("GET", f"/api/v1/nodes/{name}"))
    return {key.rpartition("/")[2]: value for key, value in found.items() if key.startswith("runwhere.ai/")}


@pytest.fixture
def nodes(plane: ControlPlane, place: Place) -> Iterator[list[str]]:
    """Three nodes without a pool."""
    names = [f"{place.namespace}-{number}" for number in range(3)]
    with nodes_in_no_pool(plane, names):
        yield names


@pytest.mark.slow
def test_pruned_pool_releases_its_nodes(place: Place, repository: Repository, nodes: list[str], api: Api) -> None:
    """Its nodes lose the pool label and keep the GPU type; a node that joins another pool in the same run is moved."""
    one, two, three = nodes
    first, second = f"{place.namespace}-x"[-40:].strip("-"), f"{place.namespace}-y"[-40:].strip("-")
    repository.write(
        x=pool(first, one, two), y=pool(second, three), a=training("a", resources={"pool": first, "gpu": 0})
    )
    repository.apply()
    assert repository.recorded() == ("ConfigMap,Job.batch", "gpuctl-system")
    assert node_labels(api, one) == {"pool": first, "gpu-type": "a100"}
    repository.remove("x")
    repository.write(y=pool(second, three, two))
    asked = repository.apply("--prune", code=2)
    assert asked.err.startswith(
        f"prunes pool/{first} (configmap/pool-{first} in gpuctl-system)\n"
        f"deletes pool {first}; jobs that select it keep running but cannot start again: training/a in {place.namespace}\n"
    )
    assert node_labels(api, one) == {"pool": first, "gpu-type": "a100"}
    done = repository.prune()
    assert f"updated   node/{one}  (leaves the pool {first})\n" in done.out
    assert done.out.splitlines()[-1].startswith(f"pruned    configmap/pool-{first} ")
    assert node_labels(api, one) == {"gpu-type": "a100"}
    assert node_labels(api, two) == {"pool": second, "gpu-type": "a100"}
    assert api.request("GET", f"/api/v1/namespaces/gpuctl-system/configmaps/pool-{first}")[0] == 404
    assert set(actions(repository.prune()).values()) == {"unchanged"}
    repository.remove("y")
    repository.prune()
    assert node_labels(api, two) == node_labels(api, three) == {"gpu-type": "a100"}


@pytest.mark.slow
def test_pruned_quota_keeps_the_namespace(place: Place, repository: Repository, away: str, api: Api) -> None:
    """Quota and limits are deleted; the namespace and its contents stay."""
    quota = {"cpu": 100, "memory": "100Gi", "gpu": 8}
    repository.write(
        q={"kind": "quota", "version": "v0.1", "quota": {"name": "q"}, "users": {away: quota}},
        a=training("a", job={"namespace": away}),
    )
    repository.apply()
    assert repository.recorded() == ("Job.batch,LimitRange,ResourceQuota", away)
    repository.remove("q")
    done = actions(repository.prune())
    assert done == {
        "job.batch/a": "unchanged",
        f"limitrange/q-{away}": "pruned",
        f"resourcequota/q-{away}": "pruned",
    }
    assert api.call("GET", f"/api/v1/namespaces/{away}")["status"]["phase"] == "Active"
    assert api.request("GET", f"/apis/batch/v1/namespaces/{away}/jobs/a")[0] == 200
    assert api.call("GET", f"/api/v1/namespaces/{away}/resourcequotas")["items"] == []
    assert repository.recorded() == ("Job.batch", away)


@pytest.mark.slow
def test_relative_paths_of_one_directory_are_one_source(repository: Repository, place: Place) -> None:
    repository.write(a=training("a"))
    for path in ("jobs", "./jobs/", str(Path("jobs").resolve()), "jobs/../jobs"):
        place.gpuctl("apply", "-f", path, "--set", "web")


@pytest.mark.slow
def test_an_older_commit_is_refused(place: Place) -> None:
    """Apply and diff refuse it, also with JSON output; a revert or --allow-older goes back. An unchanged apply records
    its commit.
    """
    jobs = checkout(place, "team", "https://git.example.com/a/jobs", "a")
    root = Path(jobs).parents[1]

    def git(*arguments: str) -> str:
        own = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(["git", "-C", str(root), *own, *arguments], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def apply(*flags: str, code: int = 0) -> Any:
        return place.gpuctl("apply", "-f", jobs, "--set", "st", "--prune", "--yes", *flags, code=code)

    git("add", "-A")
    git("commit", "-q", "-m", "one")
    (Path(jobs) / "b.yaml").write_text(json.dumps(notebook("b")))
    git("add", "-A")
    git("commit", "-q", "-m", "two")
    two = git("rev-parse", "HEAD")
    apply()
    before = place.records()
    git("checkout", "-q", "HEAD~1")
    refused = apply(code=1)
    assert f"set st: it was last applied from commit {two[:10]}" in refused.err
    assert "or add `--allow-older` to go back" in refused.err
    assert place.gpuctl("diff", "-f", jobs, "--set", "st", code=2).err == refused.err
    assert "--allow-older" in apply("-o", "json", code=1).value["error"]
    assert place.records() == before
    git("checkout", "-q", "-b", "next", two)
    git("revert", "--no-edit", "HEAD")
    assert "pruned" in apply().out
    git("commit", "-q", "--allow-empty", "-m", "nothing")
    apply()
    recorded = json.loads(place.get("Secret", "st")["metadata"]["annotations"][applyset.COMMIT])
    assert recorded == {"id": git("rev-parse", "HEAD"), "dirty": False, "repository": "git.example.com/a/jobs"}
    git("checkout", "-q", two)
    assert "created" in apply("--allow-older").out
    assert apply().err == ""
