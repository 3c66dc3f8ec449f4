"""The cluster that a command works on: the clusters in platform.yaml, compared with the target of the connection."""

from __future__ import annotations

import io
import json
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest

import gpuctl
from control_plane import ControlPlane
from fault_tools.proxy import Proxy, cut_after, cut_before, from_the_first, matching, meanwhile, nth, on, refuse
from fault_tools.world import Api
from gpuctl.usecases.documents.change_options import InvalidOptions
from support.cluster_tools import MERGE_PATCH, Place, image, inference, merged, outcome, training
from support.command import Start, on_a_terminal
from support.repositories import Repository
from support.repositories import gpuctl as gpuctl_in
from support.two_clusters import BOTH, Pair, pairs

OTHER = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def uid(api: Api) -> str:
    """The uid that identifies the cluster: that of the namespace kube-system."""
    return str(api.call("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"])


@pytest.fixture
def server(plane: ControlPlane) -> str:
    """The API server's URL."""
    return str(_config(plane)["clusters"][0]["cluster"]["server"])


def _config(plane: ControlPlane) -> dict[str, Any]:
    return dict(json.loads(plane.kubeconfig().read_text()))


def _list_clusters(place: Place, **clusters: dict[str, str]) -> None:
    place.platform(f"clusters: {json.dumps(clusters)}")


def _context(plane: ControlPlane) -> str:
    return str(_config(plane)["current-context"])


def test_cluster_option_matches_server_context_and_uid(
    place: Place, plane: ControlPlane, server: str, uid: str
) -> None:
    context = _context(plane)
    # URLs are compared after normalization: upper case, trailing slash.
    _list_clusters(
        place,
        all={"server": server.replace("https", "HTTPS") + "/", "context": context, "uid": uid},
        uid={"uid": uid},
    )
    file = place.file(training())
    for name in ("all", "uid"):
        place.gpuctl("diff", "-f", file, "--cluster", name, code=1)
    place.gpuctl("apply", "-f", file, "--cluster", "all", "--context", context)
    place.gpuctl("get", "jobs", "--cluster", "uid", "--platform", str(place.directory / "platform.yaml"))


def test_wrong_server_is_rejected_before_any_request(place: Place, proxy: Proxy) -> None:
    context = json.loads((place.directory / "through-proxy").read_text())["current-context"]
    _list_clusters(place, prod={"server": "https://127.0.0.1:1", "context": context})
    file = place.file(training())
    for command in (("apply",), ("diff",), ("delete",), ("apply", "--dry-run=server"), ("fit",)):
        said = place.gpuctl(*command, "-f", file, "--cluster", "prod", code=3).err
        assert "error: this is not the cluster prod: its server is https://127.0.0.1:1, and the context" in said
        assert "  = nothing was read or written; correct the kubeconfig, or what" in said
    assert proxy.records == []


@pytest.mark.slow
def test_wrong_uid_is_rejected_after_one_request(place: Place, proxy: Proxy, uid: str) -> None:
    _list_clusters(place, prod={"uid": OTHER})
    file = place.file(training())
    said = place.gpuctl("apply", "-f", file, "--cluster", "prod", code=3).err
    assert f"error: this is not the cluster prod: its uid is {OTHER}, and that of" in said
    assert uid in said
    assert [(record.request.method, record.request.path) for record in proxy.records] == [
        ("GET", "/api/v1/namespaces/kube-system")
    ]


@pytest.mark.slow
def test_wrong_cluster_is_reported_as_one_json_value(place: Place) -> None:
    _list_clusters(place, prod={"uid": OTHER})
    told = place.gpuctl("apply", "-f", place.file(training()), "--cluster", "prod", "-o", "json", code=3).value
    assert told["steps"] == []
    assert told["error"].startswith("this is not the cluster prod: its uid is ")


@pytest.mark.slow
def test_cluster_whose_uid_the_user_may_not_read_is_rejected(
    place: Place, plane: ControlPlane, uid: str, monkeypatch: Any
) -> None:
    """A cluster given by --cluster is rejected. Without the option its uid is not needed."""
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig("nobody")))
    _list_clusters(place, prod={"uid": uid})
    file = place.file(training())
    said = place.gpuctl("apply", "-f", file, "--cluster", "prod", code=3).err
    assert "is the cluster prod: this user may not read the namespace kube-system, whose uid identifies it" in said
    assert "grant this user `get` on the namespace kube-system, or name the cluster by its server or context in" in said
    assert "none of the clusters" not in place.gpuctl("apply", "-f", file, code=3).err
    assert not place.exists("Job", "train")


@pytest.mark.slow
def test_unlisted_cluster_is_rejected_for_changes_and_noted_for_reads(place: Place, proxy: Proxy) -> None:
    """Commands that change the cluster are rejected, commands that read it print a note."""
    _list_clusters(place, prod={"server": "https://127.0.0.1:1"}, staging={"context": "staging"})
    file = place.file(training())
    said = place.gpuctl("apply", "-f", file, code=3).err
    assert "which is not one of the clusters in" in said
    assert "not one of the clusters in platform.yaml: prod, staging" in said
    assert "  = choose one with --cluster, or add this one to `clusters` in that file" in said
    assert proxy.records == []
    platform = str(place.directory / "platform.yaml")
    for command in ("pause", "open", "port-forward"):
        place.gpuctl(command, "train", "--platform", platform, code=3)
        assert proxy.records == []
    looked = place.gpuctl("get", "jobs", "--platform", platform)
    assert "note: the context" in looked.err
    assert "which is not one of the clusters in" in looked.err


@pytest.mark.slow
def test_cluster_listed_by_uid_needs_no_option(place: Place, uid: str) -> None:
    _list_clusters(place, other={"uid": OTHER}, here={"uid": uid})
    place.apply(training())
    _list_clusters(place, other={"uid": OTHER})
    said = place.gpuctl("apply", "-f", place.file(training("more")), code=3).err
    assert "which is not one of the clusters in" in said
    assert not place.exists("Job", "more")


@pytest.mark.slow
def test_cluster_option_selects_the_context(place: Place, plane: ControlPlane, monkeypatch: Any) -> None:
    config = _config(plane)
    context = config["contexts"][0]
    away = {"name": "away", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}}
    config["clusters"].append(away)
    config["contexts"] = [
        {"name": "here", "context": context["context"]},
        {"name": "away", "context": {**context["context"], "cluster": "away"}},
    ]
    config["current-context"] = "away"
    path = place.directory / "two-contexts"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    _list_clusters(place, prod={"context": "here"}, dev={"context": "away"})
    file = place.file(training())
    place.gpuctl("apply", "-f", file, "--cluster", "prod")
    assert place.exists("Job", "train")
    said = place.gpuctl("apply", "-f", file, "--cluster", "prod", "--context", "away", code=2).err
    assert "--context away and --cluster prod contradict each other: the context of prod is here" in said


@pytest.mark.parametrize(
    ("clusters", "name", "says"),
    [
        ({"prod": {"uid": OTHER}, "staging": {"uid": OTHER}}, "prd", "did you mean `prod`? it names prod, staging"),
        ({"prod": {"uid": OTHER}, "staging": {"uid": OTHER}}, "zzzz", "there are prod, staging"),
        ({}, "prod", "names no clusters: write `clusters: {prod: {server: URL}}` there"),
    ],
)
def test_unknown_cluster_name_is_rejected(place: Place, clusters: dict[str, Any], name: str, says: str) -> None:
    _list_clusters(place, **clusters)
    assert says in place.gpuctl("apply", "-f", place.file(training()), "--cluster", name, code=2).err


@pytest.fixture
def pair(
    plane: ControlPlane, queue_plane: ControlPlane, place: Place, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pair]:
    """Two control planes with the same namespace."""
    yield from pairs(plane, queue_plane, place, monkeypatch)


def placed(document: dict[str, Any], *clusters: str) -> dict[str, Any]:
    """Return the document with a `placement` on clusters."""
    return {**document, "placement": {"clusters": list(clusters)}}


def test_several_clusters_are_planned_together_and_changed_in_order(pair: Pair) -> None:
    place = pair.here
    file = place.file(training("a"), placed(training("b"), "staging"), placed(training("c"), "prod"))
    shown = place.gpuctl("diff", "-f", file, *BOTH, code=1)
    first, second = shown.out.split("cluster staging (")
    assert first.startswith("cluster prod (http://")
    assert "job.batch/c" in first
    assert "job.batch/b" not in first
    assert "job.batch/b" in second
    assert "job.batch/c" not in second
    assert "note: not for the cluster prod, by `placement`: training/b (staging)" in shown.err
    judged = place.gpuctl("fit", "-f", file, "--cluster", "staging", "-o", "json", code=None).value
    assert {job["name"] for job in judged["jobs"]} == {"a", "b"}
    told = place.gpuctl("apply", "-f", file, *BOTH, "--dry-run=server", "-o", "json").value
    assert [(item["cluster"], item["state"]) for item in told["clusters"]] == [
        ("prod", "planned"),
        ("staging", "planned"),
    ]
    assert pair.proxy.writes() == []
    done = place.gpuctl("apply", "-f", file, *BOTH)
    assert "cluster prod: 3 created" in done.err or "cluster prod: 2 created" in done.err
    assert {name for name in place.names() if name.startswith("Job/")} == {"Job/a", "Job/c"}
    assert pair.jobs_there == {"a", "b"}
    told = place.gpuctl("apply", "-f", file, *BOTH, "-o", "json").value
    assert {item["state"] for item in told["clusters"]} == {"done"}
    assert {step["action"] for item in told["clusters"] for step in item["steps"]} == {"unchanged"}
    # --cluster selects one of the two clusters; documents of the other one are reported as left out.
    place.gpuctl("delete", "-f", file, "--cluster", "staging", "--yes")
    assert pair.jobs_there == set()
    assert place.exists("Job", "a")
    place.gpuctl("delete", "-f", file, *BOTH, "--yes")
    assert not place.exists("Job", "a")


def test_placement_selects_the_clusters_of_documents(pair: Pair) -> None:
    place = pair.here
    small, large = training("same"), training("same", environment={"image": "registry.example.com/other:2"})
    file = place.file(placed(small, "prod"), placed(large, "staging"))
    place.gpuctl("apply", "-f", file)
    assert place.exists("Job", "same")
    assert pair.jobs_there == {"same"}
    mixed = place.file(placed(training("x"), "prod"), training("y"), name="mixed.yaml")
    said = place.gpuctl("apply", "-f", mixed, code=2).err
    assert "some documents have a `placement` (prod), others do not: training/y" in said
    only = place.file(placed(training("only"), "staging"), name="only.yaml")
    place.gpuctl("apply", "-f", only)
    assert pair.jobs_there == {"same", "only"}
    assert not place.exists("Job", "only")


@pytest.mark.slow
def test_standard_input_is_read_once_for_all_clusters(pair: Pair, monkeypatch: Any) -> None:
    """Documents of standard input have the same set source for several clusters as for one."""
    place = pair.here
    for flags in (BOTH, ()):
        documents = placed(training("typed"), "prod", "staging") if not flags else training("typed")
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(documents).encode())))
        place.gpuctl("apply", "-f", "-", *flags, "--set", "typed")
        assert place.exists("Job", "typed")
        assert pair.jobs_there == {"typed"}


@pytest.mark.slow
def test_a_pipe_is_read_once(place: Place) -> None:
    """The file is a pipe, as in a shell's `<(...)`."""
    for document, code in ((training("piped"), 0), (placed(training("other"), "prod"), 2)):
        reader, writer = os.pipe()
        os.write(writer, json.dumps(document).encode())
        os.close(writer)
        said = place.gpuctl("apply", "-f", f"/dev/fd/{reader}", code=code)
        os.close(reader)
        assert ("remove `placement`, or name the cluster" in said.err) == bool(code)
    assert place.exists("Job", "piped")
    assert not place.exists("Job", "other")


@pytest.mark.slow
def test_obstacle_on_one_cluster_leaves_all_clusters_unchanged(pair: Pair) -> None:
    place = pair.here
    pair.there.create_namespace("elsewhere-away")
    pair.proxy.policy = on(lambda request: request.is_write or "dryRun" in request.target, refuse(422, "Invalid", "no"))
    said = place.gpuctl("apply", "-f", place.file(training("a")), *BOTH, code=1)
    assert "error: cluster staging: " in said.err
    assert said.err.endswith("no cluster was changed\n")
    assert not place.exists("Job", "a")
    pair.proxy.reset(on(lambda request: True, cut_before))
    said = place.gpuctl("apply", "-f", place.file(training("a")), *BOTH, "--timeout", "3s", code=3)
    assert "error: cluster staging: " in said.err
    assert not place.exists("Job", "a")


@pytest.mark.slow
def test_second_cluster_that_becomes_unreachable_can_be_recovered(pair: Pair) -> None:
    """The first cluster is changed; the command that the message suggests finishes the second one."""
    place = pair.here
    old, new = training("a"), training("a", environment={"image": "registry.example.com/other:2"})
    place.gpuctl("apply", "-f", place.file(old), *BOTH)
    gone = matching("DELETE", "/jobs/a")
    pair.proxy.reset(from_the_first(gone, cut_after))
    ended = place.gpuctl("apply", "-f", place.file(new), *BOTH, "--yes", "--timeout", "5s", code=3)
    assert "cluster prod: 1 replaced" in ended.err
    assert "cluster staging: failed" in ended.err
    assert place.get("Job", "a")["spec"]["template"]["spec"]["containers"][0]["image"].endswith("other:2")
    command = re.search(r"`(gpuctl recover[^`]*)`", ended.err)
    assert command is not None
    assert command[1] == "gpuctl recover --cluster=staging"
    assert "`gpuctl recover`" not in ended.out + ended.err
    pair.proxy.reset()
    place.anywhere(*command[1].split()[1:], "--yes")
    assert pair.jobs_there == {"a"}


def test_clusters_after_a_failed_one_are_not_run(pair: Pair) -> None:
    place = pair.here
    turned = ("--cluster", "staging", "--cluster", "prod")
    pair.proxy.policy = on(lambda request: request.is_write, cut_before)
    told = place.gpuctl("apply", "-f", place.file(training("a")), *turned, "--timeout", "3s", "-o", "json", code=3)
    assert [(item["cluster"], item["state"]) for item in told.value["clusters"]] == [
        ("staging", "failed"),
        ("prod", "not-run"),
    ]
    assert "cluster prod: not run, nothing was changed" in told.err
    assert not place.exists("Job", "a")


@pytest.mark.slow
def test_rollback_restores_jobs_on_the_failed_cluster(pair: Pair) -> None:
    """Jobs are restored on the cluster where they ran, whatever their placements are. The clusters after it are not
    changed.
    """
    place = pair.here
    good = [placed(inference("one"), "prod"), placed(inference("two"), "staging", "prod")]
    place.gpuctl("apply", "-f", place.file(*good), *BOTH)
    place.running("one", "two")
    bad = {"environment": image("nope"), "job": outcome("image-not-found")}
    file = place.file(*(merged(document, bad) for document in good))
    back = ("--wait", "--rollback", "--timeout", "6s", "--yes")
    told = place.gpuctl("apply", "-f", file, *BOTH, *back, code=1)
    for name in ("one", "two"):
        assert f"error: cluster prod: deployment.apps/{name} in {place.namespace} was restored\n" in told.err
        containers = place.get("Deployment", name)["spec"]["template"]["spec"]["containers"]
        assert containers[0]["image"] == good[0]["environment"]["image"]
    assert told.err.splitlines()[-2] == "cluster prod: failed: 2 rolled back, 2 unchanged"
    assert told.err.splitlines()[-1] == "cluster staging: not run, nothing was changed"
    assert place.plan(*good, flags=("--cluster", "prod")).actions["Deployment/two"] == "unchanged"


@pytest.mark.slow
def test_one_confirmation_covers_all_clusters(pair: Pair) -> None:
    place = pair.here
    place.gpuctl("apply", "-f", place.file(training("a")), *BOTH)
    place.running("a")
    new = place.file(training("a", environment={"image": "registry.example.com/other:2"}))
    ended = place.gpuctl("apply", "-f", new, *BOTH, code=2)
    assert "cluster prod: replaces training/a" in ended.err
    assert ended.err.endswith("error: cannot ask for confirmation: use --yes\n  = no cluster was changed\n")
    told = place.gpuctl("apply", "-f", new, *BOTH, "-o", "json", code=2).value
    assert told["error"] == "cannot ask for confirmation: use --yes"


@pytest.mark.slow
def test_disruption_found_after_the_confirmation_is_asked_about(pair: Pair) -> None:
    """There are as many disruptions as were confirmed, but one of them is different."""
    place, namespace = pair.here, pair.here.namespace
    serve = inference(service={"replicas": 1})
    place.gpuctl("apply", "-f", place.file(training("a"), serve), *BOTH)
    place.running("a")
    pair.until_running("a", "serve")
    deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/serve"

    def between() -> None:
        pair.there.call("DELETE", f"/apis/batch/v1/namespaces/{namespace}/jobs/a?propagationPolicy=Background")
        place.until(lambda: pair.jobs_there == set(), "the job to go")
        pair.there.call("PATCH", deployment, {"spec": {"replicas": 3}}, MERGE_PATCH)
        place.until(lambda: pair.there.call("GET", deployment)["status"].get("readyReplicas") == 3, "three pods")

    new = place.file(training("a", environment=image("v2")), serve)
    code, shown = on_a_terminal("apply", "-f", new, *BOTH, "-n", namespace, answer="y\nn", meanwhile=between)
    assert "cluster staging: replaces training/a" in shown
    assert f"scales inference/serve in {namespace} from 3 to 1: ends 2 ready pods\nContinue? [y/N]: " in shown, shown
    assert code == 1
    assert "cluster prod: 1 replaced" in shown
    assert pair.there.call("GET", deployment)["spec"]["replicas"] == 3


@pytest.mark.slow
def test_delete_keeps_a_job_recreated_after_the_confirmation(pair: Pair) -> None:
    """A deletion ends the objects that it has shown, not objects that another client has created since."""
    place, namespace = pair.here, pair.here.namespace
    file = place.file(training("a"))
    place.gpuctl("apply", "-f", file, *BOTH)
    place.running("a")
    pair.until_running("a")

    def between() -> None:
        pair.there.call("DELETE", f"/apis/batch/v1/namespaces/{namespace}/jobs/a?propagationPolicy=Background")
        place.until(lambda: pair.jobs_there == set(), "the job to go")
        place.gpuctl("apply", "-f", file, "--cluster", "staging")

    code, shown = on_a_terminal("delete", "-f", file, *BOTH, "-n", namespace, answer="y", meanwhile=between)
    assert "error: cluster staging: the cluster has changed: more would be deleted than planned" in shown
    assert "cluster prod: 1 deleted" in shown
    assert code == 3
    assert pair.jobs_there == {"a"}
    assert not place.exists("Job", "a")


TURNED = ("--cluster", "staging", "--cluster", "prod")


def scaled(most: int) -> dict[str, Any]:
    """Return a model server with an autoscaler, which is changed after the jobs."""
    return inference(autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": most})


@pytest.mark.slow
def test_ctrl_c_finishes_started_steps_and_skips_other_clusters(pair: Pair, start: Start) -> None:
    """The remaining steps and the other cluster are reported as not run."""
    place = pair.here
    place.gpuctl("apply", "-f", place.file(training("a"), scaled(4)), *BOTH)
    new = place.file(training("a", environment=image("v2")), scaled(6))
    command = start("apply", "-f", new, *TURNED, "--yes", "-n", place.namespace)
    stop = meanwhile(lambda: command.process.send_signal(signal.SIGINT))
    pair.proxy.reset(on(matching("DELETE", "/jobs/a"), stop))
    assert command.end() == 130, command.err
    said = command.err.decode()
    assert "interrupted: finishing the steps in progress" in said
    # The step that runs in parallel with the deletion may have finished by then.
    assert re.search(r"\ncluster staging: interrupted: 1 replaced, .*[12] not run", said), said
    assert "\ncluster prod: not run, nothing was changed\n" in said
    left = "interrupt again to leave them to `gpuctl recover --cluster=staging`"
    assert "`gpuctl recover" not in said.rpartition(left)[2]
    assert not place.get("Job", "a")["spec"]["template"]["spec"]["containers"][0]["image"].endswith("v2")
    pair.proxy.reset()
    assert "cluster prod: 1 replaced" in place.gpuctl("apply", "-f", new, *TURNED, "--yes").err


@pytest.mark.slow
def test_second_ctrl_c_leaves_started_steps_to_recover(pair: Pair, start: Start) -> None:
    """The message names the command that finishes the unfinished changes."""
    place = pair.here
    place.gpuctl("apply", "-f", place.file(training("a")), *BOTH)
    new = place.file(training("a", environment=image("v2")))
    command = start("apply", "-f", new, *TURNED, "--yes", "-n", place.namespace)

    def stop() -> None:
        command.process.send_signal(signal.SIGINT)
        command.until(b"interrupted: finishing the steps in progress")
        command.process.send_signal(signal.SIGINT)
        command.process.wait(120)

    pair.proxy.reset(on(matching("DELETE", "/jobs/a"), meanwhile(stop)))
    assert command.end() == 130, command.err
    said = command.err.decode()
    assert (
        "\ncluster staging: interrupted: 1 failed; `gpuctl recover --cluster=staging` finishes the unfinished changes\n"
        in said
    )
    assert "\ncluster prod: not run, nothing was changed\n" in said
    pair.proxy.drain()
    pair.proxy.reset()
    place.gpuctl("recover", "--cluster", "staging", "--yes")
    assert pair.jobs_there == {"a"}


@pytest.mark.slow
@pytest.mark.parametrize("output", ["text", "json"])
def test_ctrl_c_between_two_clusters_skips_the_second(pair: Pair, start: Start, output: str) -> None:
    place = pair.here
    place.gpuctl("apply", "-f", place.file(training("a")), *BOTH)
    new = place.file(training("a", environment=image("v2")))
    uid = place.uid("Job", "a")
    begun = nth(1, lambda request: place.exists("Job", "a") and place.uid("Job", "a") != uid)
    command = start("apply", "-f", new, *BOTH, "--yes", "-n", place.namespace, "-o", output)
    pair.proxy.reset(on(begun, meanwhile(lambda: command.process.send_signal(signal.SIGINT))))
    assert command.end() == 130, command.err
    said = command.err.decode()
    assert "\ncluster prod: 1 replaced" in f"\n{said}"
    assert said.endswith("\ncluster staging: not run, nothing was changed\nInterrupted.\n")
    assert pair.proxy.writes() == []
    if output == "json":
        assert [item["state"] for item in json.loads(command.out)["clusters"]] == ["done", "not-run"]


@pytest.mark.slow
def test_set_is_pruned_on_each_cluster(pair: Pair) -> None:
    place = pair.here
    flags = ("--set", "jobs", "--prune", "--yes")
    place.gpuctl("apply", "-f", place.file(training("a"), training("b")), *BOTH, *flags)
    # A job that moves to another cluster is pruned on its former cluster.
    place.gpuctl("apply", "-f", place.file(training("a"), placed(training("b"), "staging")), *BOTH, *flags)
    assert not place.exists("Job", "b")
    assert pair.jobs_there == {"a", "b"}


@pytest.mark.slow
def test_library_rejects_placement_without_the_cluster_name(place: Place) -> None:
    """Documents with a `placement` need the cluster's name, which the library cannot find out."""
    source = gpuctl.Source("job.yaml", json.dumps(placed(training(), "prod")))
    with pytest.raises(InvalidOptions, match="the name of this cluster is unknown"):
        gpuctl.plan(source, namespace=place.namespace)
    there = gpuctl.plan(source, namespace=place.namespace, cluster_name="prod")
    assert [step.key.kind for step in there.steps if step.action == "create"] == ["Job"]
    assert [step.key.kind for step in gpuctl.plan(source, namespace=place.namespace, cluster_name="other").steps] == []


@pytest.mark.slow
def test_single_cluster_commands_reject_several_clusters_and_a_service(place: Place, uid: str) -> None:
    _list_clusters(place, prod={"uid": uid}, staging={"uid": OTHER})
    platform = ("--platform", str(place.directory / "platform.yaml"))
    said = place.gpuctl("get", "jobs", *platform, "--cluster", "prod", "--cluster", "staging", code=2).err
    assert "works on one cluster: give --cluster once, and call it for each" in said
    said = place.gpuctl("get", "jobs", "--cluster", "prod", "--server", "https://gpuctl.example.com", code=2).err
    assert "--server selects the service of one cluster: leave --cluster out" in said


@pytest.mark.slow
def test_impact_and_diff_compare_documents_of_one_cluster(pair: Pair) -> None:
    """`impact` and `diff --against` leave out documents placed on other clusters."""
    place = pair.here
    repository = Repository(place.directory / "repository")
    platform = ("--platform", str(place.directory / "platform.yaml"))

    def write(tag: str) -> None:
        documents = [placed(training(name, environment=image(tag)), name) for name in ("prod", "staging")]
        documents = [merged(document, {"job": {"namespace": place.namespace}}) for document in documents]
        repository.write("jobs.yaml", "\n---\n".join(map(json.dumps, documents)))

    def typed(*arguments: str, code: int) -> Any:
        done = gpuctl_in(repository.root, *arguments, *platform)
        assert done.code == code, done
        return done

    write("v1")
    repository.commit()
    typed("apply", "-f", "jobs.yaml", "--yes", code=0)
    place.running("prod")
    pair.until_running("staging")
    write("v2")
    for name, other in (("prod", "staging"), ("staging", "prod")):
        shown = typed("diff", "-f", "jobs.yaml", "--against", "git:HEAD", "--cluster", name, code=1).out
        assert f"Job {name} in " in shown
        assert f"Job {other} in " not in shown
        typed("build", "jobs.yaml", "-o", f"rendered/{name}", "--cluster", name, code=0)
        typed("diff", "-f", "jobs.yaml", "--against", f"rendered/{name}", "--cluster", name, code=0)
        told = json.loads(
            typed("impact", "--from", "HEAD", "-f", "jobs.yaml", "--cluster", name, "-o", "json", code=0).out
        )
        assert [item["name"] for item in told["cluster"]["ended"]] == [name]
    both = ("--cluster", "prod", "--cluster", "staging")
    for arguments in (("impact", "--from", "HEAD"), ("diff", "--against", "git:HEAD")):
        assert "works on one cluster" in typed(*arguments, "-f", "jobs.yaml", *both, code=2).err
