"""Users with few rights: which commands work, which steps are skipped with a note, and what is refused beforehand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import yaml

import gpuctl
from control_plane import ControlPlane
from control_plane.users import USERS
from fault_tools.proxy import Proxy, Upstream, hang, matching, on
from fault_tools.world import Api
from fault_tools.zygote import Zygote, shared
from gpuctl.apply.plan.object_decision import dry_run_copy
from support.cluster_tools import DOMAIN, Document, Place, image, inference, merged, notebook, training

Rule = dict[str, list[str]]
Become = Callable[..., None]

VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]
RESOURCES = {
    "": ["services", "configmaps", "secrets", "pods", "resourcequotas"],
    "batch": ["jobs"],
    "apps": ["deployments", "statefulsets"],
    "autoscaling": ["horizontalpodautoscalers"],
    "coordination.k8s.io": ["leases"],
}
CLASS = "priorityclass.scheduling.k8s.io/gpuctl-medium"
UNKNOWN_EVICTIONS = "note: whether these jobs find room, and which jobs they evict, is not known: this needs the rights to list nodes and all pods\n"
MAY_NOT_READ = "user {} may not get priorityclasses.scheduling.k8s.io in the whole cluster"


@pytest.fixture(scope="module")
def classes(plane: ControlPlane, api: Api) -> None:
    """Create the priority classes as an administrator would."""
    for obj in gpuctl.compile(gpuctl.Source("job.yaml", json.dumps(training()))).objects:
        if obj["kind"] == "PriorityClass":
            api.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", obj)


@pytest.fixture
def become(plane: ControlPlane, place: Place, classes: None, monkeypatch: pytest.MonkeyPatch) -> Become:
    """Return a function that grants a user rights in the namespace, and runs all further commands as that user.

    A user without a token of the API server is impersonated.
    """

    def switch(user: str, rules: Sequence[Rule] | str | None = None) -> None:
        if rules is not None:
            plane.grant(user, place.namespace, rules)
            known = partial(plane.may, user, "get", "statefulsets.apps", place.namespace)
            place.until(known, "the rights to be known")
        path = plane.kubeconfig(user)
        if user not in USERS:
            config = json.loads(plane.kubeconfig().read_text())
            config["users"][0]["user"]["as"] = user
            path = place.directory / f"{user}.kubeconfig"
            path.write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(path))

    return switch


@pytest.fixture
def zygote() -> Zygote:
    """A process that forks commands."""
    return shared()


def all_but(*lacking: tuple[str, str]) -> list[Rule]:
    """Return a tenant's rights without some pairs of verb and resource."""
    return [
        {
            "apiGroups": [group],
            "resources": [resource],
            "verbs": [verb for verb in VERBS if (verb, resource) not in lacking],
        }
        for group, resources in RESOURCES.items()
        for resource in resources
    ]


def steps(out: str) -> dict[str, str]:
    """Return the action of each ``kind/name`` in the output of an apply."""
    lines = [line.split() for line in out.splitlines()]
    return {line[1]: line[0] for line in lines}


JOBS: tuple[Document, ...] = (
    training("a"),
    inference("b", autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 3}),
    notebook("c"),
)
CHANGED: tuple[Document, ...] = (training("a", environment=image("v2")), *JOBS[1:])


def test_edit_role_in_one_namespace_is_enough(place: Place, become: Become) -> None:
    """Create, read, change, prune and delete work, also with a set; only the jobs that would be evicted are unknown."""
    become("alice", "edit")
    skipped = f"skipped   {CLASS}  ({MAY_NOT_READ.format('alice')})"
    created = place.apply(*JOBS)
    assert created.err == UNKNOWN_EVICTIONS
    assert created.out.splitlines()[0] == skipped
    assert set(steps(created.out).values()) == {"skipped", "created"}
    place.running("a", "b", "c")
    before = place.records()
    again = place.apply(*JOBS)
    assert set(steps(again.out).values()) == {"skipped", "unchanged"}
    assert place.gpuctl("diff", "-f", place.file(*JOBS)).err == ""
    assert place.records() == before

    difference = place.gpuctl("diff", "-f", place.file(*CHANGED), code=1)
    assert difference.err == UNKNOWN_EVICTIONS
    assert "+        image: registry.example.com/app:v2\n" in difference.out
    asked = place.apply(*CHANGED, code=2)
    assert f"replaces training/a in {place.namespace}: running for" in asked.err
    replaced = place.apply(*CHANGED, flags=("--yes",))
    assert steps(replaced.out)["job.batch/a"] == "replaced"

    place.apply(*CHANGED, flags=("--set", "mine"))
    file = place.file(*CHANGED[:2])
    pruned = place.gpuctl("apply", "-f", file, "--set", "mine", "--prune", "--yes")
    assert {name for name, word in steps(pruned.out).items() if word == "pruned"} == {
        "service/svc-c",
        "statefulset.apps/c",
    }
    assert place.gpuctl("recover") == (0, "", "Nothing to recover.\n")
    place.gpuctl("delete", "job", "b")
    assert place.names() == {"Job/a"}
    place.gpuctl("delete", "-f", place.file(CHANGED[0]))
    assert place.names() == set()


@pytest.mark.slow
def test_tenant_applies_to_two_namespaces(place: Place, become: Become, api: Api) -> None:
    """Objects that the user may not list in all namespaces are listed in each namespace."""
    second = f"{place.namespace}-b"
    api.create_namespace(second)
    place.plane.grant("alice", second, "edit")
    become("alice", "edit")
    documents = training("a"), inference("b", job={"namespace": second})
    for word in ("created", "unchanged"):
        done = steps(place.apply(*documents).out)
        assert done["job.batch/a"] == done["deployment.apps/b"] == word
    place.gpuctl("delete", "-f", place.file(*documents))
    assert api.call("GET", f"/apis/apps/v1/namespaces/{second}/deployments")["items"] == []
    api.call("DELETE", f"/api/v1/namespaces/{second}")


@pytest.mark.slow
def test_tenant_recovers_a_killed_apply(place: Place, become: Become, zygote: Zygote) -> None:
    become("alice", "edit")
    place.apply(training("a"))
    upstream = Upstream(place.plane.port, place.plane.directory / "certificates" / "apiserver.crt")
    file = place.file(training("a", environment=image("v2")))
    with Proxy(place.plane, upstream) as proxy:
        config = proxy.kubeconfig(place.directory / "slow", token=place.plane.tokens["alice"])
        proxy.reset(on(matching("POST", "/jobs", writes=True), hang))
        command = ["apply", "-f", file, "-n", place.namespace, "--yes"]
        running = zygote.start(command, env={"KUBECONFIG": str(config)}, cwd=place.directory)
        place.until(lambda: not place.exists("Job", "a"), "the old job to be gone")
        running.kill()
        running.wait()
    upstream.close()
    recovered = place.gpuctl("recover", "--yes")
    assert recovered.out == f"job.batch/a in {place.namespace}: the new object was created\n"
    assert place.get("Job", "a")["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":v2")
    assert place.objects(("Secret", "Lease")) == {}


@pytest.mark.slow
def test_missing_priority_class_names_the_administrator(place: Place, become: Become, api: Api) -> None:
    """The priority class does not exist yet: apply is refused, and the message says who can create it."""
    become("alice", "edit")
    platform = "priorities:\n  medium: {className: not-yet-there, value: 770}"
    place.platform(platform)
    refused = place.apply(training("a"), code=1)
    assert refused.err == (
        f"error: job.batch/a in {place.namespace}: its pods would be refused: no PriorityClass with name not-yet-there was "
        "found; an administrator's `gpuctl apply` creates it\n  = nothing was changed\n"
    )
    assert place.names() == set()


def test_another_namespace_is_refused_with_nothing_changed(place: Place, become: Become) -> None:
    become("alice", "edit")
    elsewhere = training("z", job={"namespace": "team-b"})
    message = (
        "error: user alice may not list {} in namespace team-b\n  = ask the platform's administrators for this right\n"
    )
    for command, code in (("apply", 3), ("diff", 3), ("delete", 3)):
        refused = place.gpuctl(command, "-f", place.file(training("a"), elsewhere), code=code)
        assert refused.err == message.format("jobs.batch")
        assert refused.out == ""
    assert place.names() == set()


@pytest.mark.slow
def test_set_without_rights_asks_for_a_namespace(place: Place, become: Become, plane: ControlPlane) -> None:
    """A set is stored in a namespace; the hint asks for it if the default namespace is not readable."""
    become("alice")
    place.namespace = "default"
    refused = place.gpuctl(
        "apply", "-f", place.file(training("a", job={"namespace": "team-a"})), "--set", "web", code=3
    )
    assert refused.err.endswith("secrets in namespace default\n  = give the namespace of the set with -n NAMESPACE\n")


@pytest.mark.parametrize(
    ("command", "resource", "hint"),
    [
        (("recover",), "secrets", "say where with -n NAMESPACE"),
        (("delete", "job", "a"), "jobs.batch", "name a namespace that you may read with -n NAMESPACE"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_commands_without_rights_ask_for_a_namespace(
    place: Place, become: Become, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], resource: str, hint: str
) -> None:
    from gpuctl.cli.main import run

    become("alice")
    assert run(command) == 3
    expected = f"error: user alice may not list {resource} in namespace default\n  = {hint}\n"
    assert capsys.readouterr().err == expected
    assert place.names() == set()


@pytest.mark.slow
def test_unreadable_namespaces_are_noted_once(place: Place, become: Become) -> None:
    """Each command lists four kinds and prints one note."""
    place.apply(training("a"))
    place.running("a")
    become("alice", "edit")
    # kubectl may have rewritten the file as YAML.
    config = yaml.safe_load(place.plane.kubeconfig("alice").read_text())
    config["contexts"][0]["context"]["namespace"] = place.namespace
    own = place.directory / "kubeconfig"
    own.write_text(json.dumps(config))
    for command in (
        ("get", "jobs"),
        ("get", "jobs", "-o", "wide"),
        ("logs", "a"),
        ("wait", "a", "--for", "running"),
        ("why", "a"),
        ("describe", "job", "a"),
    ):
        outcome = place.anywhere(*command, "--kubeconfig", str(own))
        notes = [line for line in outcome.err.splitlines() if "namespace" in line]
        assert notes == [f"note: not all namespaces may be read; showing only {place.namespace}"]
    refused = place.anywhere("delete", "job", "nothing", "--kubeconfig", str(own), code=1).err
    assert refused == (
        f"error: there is no job nothing in namespace {place.namespace}\n"
        f"  = `gpuctl get jobs --kubeconfig={own}` lists the existing ones; another namespace can be named with "
        "-n NAMESPACE\n"
    )
    none = place.anywhere("get", "jobs", "--status", "failed", "--kubeconfig", str(own)).err
    assert f"No matching jobs in namespace {place.namespace}." in none


# Users who may only read.


def test_viewer_is_refused_with_the_missing_rights(place: Place, become: Become) -> None:
    place.apply(*JOBS)
    before = place.records()
    become("reader")
    documents = (training("a", environment=image("v2")), JOBS[1], training("d"))
    refused = place.apply(*documents, flags=("--yes",), code=3)
    where = f"in namespace {place.namespace}"
    assert refused.err == (
        f"error: you may not create, delete or list secrets {where}: a replaced object is kept in one until the new "
        f"object exists\nerror: you may not create or delete jobs.batch {where}\n  = nothing was changed\n"
    )
    assert refused.out == ""
    value = place.apply(*documents, flags=("--yes", "-o", "json"), code=3).value
    assert value["error"].splitlines()[1] == f"you may not create or delete jobs.batch {where}"
    deleted = place.gpuctl("delete", "-f", place.file(JOBS[0]), code=3)
    assert deleted.err == f"error: you may not delete jobs.batch {where}\n  = nothing was changed\n"
    place.gpuctl("delete", "job", "b", code=3)
    assert place.records() == before


SINCE = r"(; )?running for (\d+m)?\d+s"
DIFF_CHANGES: dict[str, tuple[Document, Document]] = {
    "image": (training("a"), training("a", environment=image("v2"))),
    "removed variable": (
        training("a", environment={"env": {"A": "1", "B": "2"}}),
        training("a", environment={"env": {"A": "1"}}),
    ),
    "removed deadline": (training("a", job={"max_runtime": "2h"}), training("a")),
    "description": (training("a"), training("a", job={"description": "new"})),
    "retries": (training("a", job={"retries": 2}), training("a")),
    "probes": (inference("a", service={"health_check": "/up"}), inference("a")),
    "fewer replicas": (inference("a", service={"replicas": 2}), inference("a")),
    "two ports": (
        inference("a", service={"ports": [{"name": "metrics", "port": 9000}]}),
        inference("a"),
    ),
    "selector": (training("a", resources={"gpu-type": "a100"}), training("a")),
    "respelt": (training("a", resources={"memory": "4Gi"}), training("a", resources={"memory": "4096Mi"})),
}


@pytest.mark.slow
def test_diff_of_a_viewer_equals_the_full_diff(place: Place, become: Become) -> None:
    """The comparison without a dry-run uses the document stored in the object, so server defaults are no differences."""
    pairs = [
        [merged(document, {"job": {"name": f"a{number}"}}) for document in pair]
        for number, pair in enumerate(DIFF_CHANGES.values())
    ]
    place.apply(*(old for old, _ in pairs))
    for number, change in enumerate(DIFF_CHANGES):
        if change != "selector":
            place.running(f"a{number}", pods=2 if change == "fewer replicas" else 1)
    every_full = [place.gpuctl("diff", "-f", place.file(new), code=None) for _, new in pairs]
    become("reader")
    for change, (old, new), full in zip(DIFF_CHANGES, pairs, every_full, strict=True):
        local = place.gpuctl("diff", "-f", place.file(new), code=None)
        skipped = f"skip      {CLASS}  ({MAY_NOT_READ.format('reader')})\n"
        # Running times may differ by some seconds. The applying user is shown only to other users.
        told = local.out.replace("; applied by admin)", ")")
        assert ("applied by admin" in local.out) == ("running for" in full.out), change
        assert re.sub(SINCE, "", told) == skipped + re.sub(SINCE, "", full.out), change
        assert local.code == full.code, change
        kind = {"training": "jobs.batch", "inference": "deployments.apps"}[old["kind"]]
        where = f"in namespace {place.namespace}"
        note = f"note: compared without the API server's dry-run: user reader may not create {kind} {where}\n"
        assert local.err.startswith(note), change
        assert "note: this could not be applied: you may not " in local.err, change


@pytest.mark.slow
def test_diff_of_a_viewer_without_changes(place: Place, become: Become) -> None:
    place.apply(*JOBS)
    become("reader")
    looked = place.gpuctl("diff", "-f", place.file(*JOBS))
    assert set(steps(looked.out).values()) == {"skip", "unchanged"}
    assert looked.err == ""


@pytest.mark.slow
def test_full_quota_does_not_show_defaults_as_changes(place: Place) -> None:
    """The quota refuses the dry-run; a new description must still be an update, not a replacement."""
    place.apply(training("a"))
    pods = place.running("a")
    uid = place.uid("Job", "a")
    spec = {"hard": {"count/jobs.batch": "1"}}
    place.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"}, "spec": spec})
    place.until(lambda: place.get("ResourceQuota", "full").get("status", {}).get("used", {}), "the quota to count")
    place.until(
        lambda: place.get("ResourceQuota", "full")["status"]["used"]["count/jobs.batch"] == "1", "the job in it"
    )
    done = place.apply(training("a", job={"description": "new"}))
    assert steps(done.out) == {"job.batch/a": "updated"}
    assert place.uid("Job", "a") == uid
    assert place.running("a") == pods
    assert place.get("Job", "a")["metadata"]["annotations"][f"{DOMAIN}/description"] == "new"


# One missing right.


@pytest.mark.slow
def test_missing_right_is_found_before_any_change(place: Place, become: Become) -> None:
    place.apply(training("a"), inference("b"))
    before = place.records()
    documents = training("a", environment=image("v2")), inference("b", environment=image("v2"), service={"port": 9000})
    for verb, resource, full in (
        ("create", "jobs", "jobs.batch"),
        ("delete", "jobs", "jobs.batch"),
        ("watch", "jobs", "jobs.batch"),
        ("delete", "deployments", "deployments.apps"),
        ("create", "secrets", "secrets"),
        ("list", "secrets", "secrets"),
        ("delete", "secrets", "secrets"),
        ("patch", "services", "services"),
    ):
        become(f"no-{verb}-{resource}", all_but((verb, resource)))
        refused = place.apply(*documents, flags=("--yes",), code=3)
        lines = refused.err.splitlines()
        assert lines[0].startswith(f"error: you may not {verb} {full} in namespace {place.namespace}")
        assert lines[1:] == ["  = nothing was changed"]
        assert place.records() == before
    for resource, full in (("jobs", "jobs.batch"), ("services", "services")):
        user = f"no-list-{resource}"
        become(user, all_but(("list", resource)))
        refused = place.apply(training("a"), inference("b"), code=3)
        assert refused.err.startswith(f"error: user {user} may not list {full} in namespace {place.namespace}\n")


@pytest.mark.slow
def test_apply_works_without_optional_rights(place: Place, become: Become) -> None:
    place.apply(training("a"), inference("b"))
    for number, (note, *lacking) in enumerate(
        (
            ("", ("list", "horizontalpodautoscalers")),
            ("", ("list", "configmaps")),
            ("", ("list", "pods")),
            ("", ("list", "resourcequotas"), ("get", "resourcequotas")),
            ("", ("get", "jobs"), ("get", "services")),
            (
                "note: whether pods would be accepted was not checked: user {} may not create pods in namespace {}\n",
                ("create", "pods"),
            ),
            (
                "user {} may not create leases.coordination.k8s.io in namespace {}, so concurrent applies are not prevented\n",
                ("create", "leases"),
            ),
        )
    ):
        user = f"lacking-{number}"
        become(user, all_but(*lacking))
        done = place.apply(training("a", environment=image(f"v{number}")), inference("b"), flags=("--yes",))
        assert steps(done.out)["job.batch/a"] == "replaced"
        assert steps(done.out)[CLASS] == "skipped"
        assert done.err == note.format(user, place.namespace) + UNKNOWN_EVICTIONS
        (line,) = [line for line in done.out.splitlines() if "job.batch/a" in line]
        # The rights above suffice for gpuctl, but not for reading every kind that may depend on a job.
        assert "persistentvolumeclaims" in line
        assert line.endswith("depend on it could not be checked)")


@pytest.mark.slow
def test_set_needs_the_right_to_create_its_parent(place: Place, become: Become) -> None:
    """The parent is written first, so without it nothing is applied."""
    become("nobody", all_but(("create", "secrets")))
    refused = place.apply(training("a"), flags=("--set", "web"), code=3)
    assert refused.err.startswith(f"error: user nobody may not create secrets in namespace {place.namespace}\n")
    assert place.names() == set()


def test_tenant_cannot_change_pools(place: Place, become: Become) -> None:
    pool: dict[str, Any] = {"kind": "pool", "version": "v0.1", "pool": {"name": "mine"}, "nodes": {}}
    pool["nodes"] = {f"{place.namespace}-0": {"gpu-type": "a100"}}
    become("alice", "edit")
    for command, code in (("apply", 3), ("diff", 3), ("delete", 3)):
        refused = place.gpuctl(command, "-f", place.file(pool), code=code)
        assert refused.err.startswith("error: user alice may not ")
        assert "gpuctl-system" in refused.err


@pytest.mark.slow
def test_dry_run_names_keep_prefix_and_length() -> None:
    """The dry-run name differs from the job's name, which would conflict; long names keep their length, as limits
    apply to it.
    """
    for name in ("x", "ab", "a-name-of-some-length", "n" * 31, "n" * 24 + "-" + "n" * 27, "n" * 63):
        tried = dry_run_copy({"metadata": {"name": name}})["metadata"]["name"]
        assert tried != name
        assert tried[:-6] == name[: max(30, len(name)) - 6].rstrip("-")
        assert len(tried) <= max(30, len(name))
