"""`get jobs` and `get pods`: one row per pod, a row for jobs without pods, and a one-word status."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy
from fault_tools.world import Api
from support.cluster_tools import POOL, Place, compute, inference, notebook, outcome, places, training
from support.command import Command, Start
from support.tables import job_rows, table

HEADERS = ["JOB ID", "NAME", "NAMESPACE", "KIND", "STATUS", "READY", "NODE", "IP", "AGE"]
WIDE = [*HEADERS, "POOL", "GPU", "GPU-TYPE", "PRIORITY", "APPLIED BY", "REASON"]


def test_get_jobs_prints_a_row_per_pod_in_nine_columns(place: Place) -> None:
    place.apply(training(), inference(service={"replicas": 2}), notebook(), compute())
    place.running("train", "note", "comp")
    place.running("serve", pods=2)
    printed = place.gpuctl("get", "jobs").out
    assert re.split(r" {2,}", printed.splitlines()[0]) == HEADERS
    found = table(printed)
    assert [(row["NAME"], row["KIND"]) for row in found] == [
        ("comp", "compute"),
        ("note", "notebook"),
        ("serve", "inference"),
        ("serve", "inference"),
        ("train", "training"),
    ]
    pods = {**place.pods("train"), **place.pods("serve"), **place.pods("note"), **place.pods("comp")}
    assert {row["JOB ID"] for row in found} == set(pods)
    for row in found:
        pod = place.get("Pod", row["JOB ID"])
        assert (row["STATUS"], row["READY"], row["NAMESPACE"]) == ("Running", "1/1", place.namespace)
        assert (row["NODE"], row["IP"]) == (pod["spec"]["nodeName"], pod["status"]["podIP"])
        assert re.fullmatch(r"\d+[smh]", row["AGE"])
    wide = table(place.gpuctl("get", "jobs", "-o", "wide").out)
    assert list(wide[0]) == WIDE
    assert [(row["POOL"], row["GPU"], row["PRIORITY"], row["REASON"]) for row in wide] == [
        (POOL, "0", "medium", "-"),
        *[(POOL, "1", "medium", "-")] * 4,
    ]


STATUSES = {
    "image-not-found": ("ErrImagePull|ImagePullBackOff", "pending"),
    "image-slow": ("ContainerCreating", "pending"),
    "missing-secret": ("CreateContainerConfigError", "pending"),
    "oom": ("OOMKilled", "failed"),
    "fail": ("Failed", "failed"),
    "evicted": ("Evicted", "failed"),
    "gpu-unavailable": ("UnexpectedAdmissionError", "failed"),
    "command-not-found": ("StartError", "failed"),
    "complete": ("Succeeded", "succeeded"),
}


def test_status_column_shows_the_outcome_of_a_pod(place: Place) -> None:
    place.apply(*(training(name, job=outcome(name)) for name in STATUSES))

    def as_expected() -> bool:
        items = place.gpuctl("get", "jobs", "-o", "json").value["items"]
        found = {item["name"]: item for item in items}
        return all(
            name in found
            and re.fullmatch(STATUSES[name][0], found[name]["status"])
            and found[name]["phase"] == STATUSES[name][1]
            for name in STATUSES
        )

    place.until(as_expected, "all outcomes")
    failed = {row["NAME"] for row in job_rows(place, "--status", "failed")}
    assert failed == {name for name, (_, phase) in STATUSES.items() if phase == "failed"}
    assert [row["NAME"] for row in job_rows(place, "--status", "oomkilled")] == ["oom"]

    def ended() -> bool:
        jobs = {row["NAME"]: row["STATUS"] for row in job_rows(place, "--jobs")}
        return (jobs["complete"], jobs["fail"], jobs["oom"]) == ("Succeeded", "Failed", "Failed")

    place.until(ended, "the jobs to be over")
    oom = next(row for row in job_rows(place, "-o", "wide") if row["NAME"] == "oom")
    assert oom["REASON"] == "exit code 137"


@pytest.mark.slow
def test_status_of_a_service_follows_the_readiness_of_its_pods(place: Place) -> None:
    place.apply(
        inference("loops", job=outcome("crash")),
        inference("dumb", job=outcome("never-ready")),
        inference("serve", service={"replicas": 2}),
    )
    place.running("serve", pods=2)
    place.until(
        lambda: (
            {row["NAME"]: row["STATUS"] for row in job_rows(place, "--jobs")}
            == {"loops": "CrashLoopBackOff", "dumb": "Pending", "serve": "Running"}
        ),
        "the statuses of the services",
    )
    pods = {row["NAME"]: (row["STATUS"], row["READY"]) for row in job_rows(place)}
    assert pods["dumb"] == ("Running", "0/1")
    assert pods["loops"] == ("CrashLoopBackOff", "0/1")
    # One of two pods stops being ready.
    victim = sorted(place.pods("serve"))[0]
    place.plane.annotate(place.namespace, victim, outcome="crash")
    place.until(
        lambda: [row["STATUS"] for row in job_rows(place, "serve", "--jobs")] == ["PartiallyRunning"],
        "half of it to crash",
    )
    (item,) = place.gpuctl("get", "jobs", "serve", "--jobs", "-o", "json").value["items"]
    assert (item["status"], item["ready"]) == ("Partially Running", "1/2")
    assert item["reason"].startswith("1 of 2 pods run")


@pytest.mark.slow
def test_jobs_without_pods_have_a_row_with_the_reason(place: Place) -> None:
    place.limit(gpu="1")
    place.apply(training("first"))
    place.running("first")
    over = training("over")
    place.gpuctl("apply", "-f", place.file(over), code=1)
    # Create the Job without the check of apply: the dry run admits it, and the quota rejects its pod.
    rendered = place.gpuctl("render", "-f", place.file(over), "-o", "json").value["items"]
    place.create(next(obj for obj in rendered if obj["kind"] == "Job"))
    place.until(lambda: "QuotaExceeded" in {row["STATUS"] for row in job_rows(place)}, "the quota to refuse")
    by_name = {row["NAME"]: row for row in job_rows(place, "-o", "wide")}
    blocked = by_name["over"]
    assert (blocked["JOB ID"], blocked["READY"], blocked["NODE"]) == ("over", "0/1", "-")
    assert blocked["REASON"].startswith("quota few has no room: a pod needs ")
    assert {row["NAME"] for row in table(place.gpuctl("get", "pods").out)} == {"first"}
    place.gpuctl("pause", "over", "first")
    paused = {("over", "Paused", "over"), ("first", "Paused", "first")}
    place.until(
        lambda: {(row["NAME"], row["STATUS"], row["JOB ID"]) for row in job_rows(place)} == paused,
        "the pods to be gone",
    )
    place.patch("Job", "over", {"metadata": {"annotations": {"runwhere.ai/paused": None}}})
    assert {row["NAME"]: row["STATUS"] for row in job_rows(place)} == {"first": "Paused", "over": "Suspended"}


@pytest.mark.slow
def test_missing_pods_have_a_row_with_the_reason(place: Place) -> None:
    place.limit(gpu="1")
    rendered = place.gpuctl("render", "-f", place.file(inference(service={"replicas": 3})), "-o", "json").value["items"]
    place.create(next(obj for obj in rendered if obj["kind"] == "Deployment"))
    place.until(lambda: {row["STATUS"] for row in job_rows(place)} == {"Running", "QuotaExceeded"}, "one pod to run")
    found = {row["STATUS"]: row for row in job_rows(place, "-o", "wide")}
    missing = found["QuotaExceeded"]
    assert (missing["JOB ID"], missing["NAME"], missing["READY"], missing["NODE"], missing["GPU"]) == (
        "serve",
        "serve",
        "0/2",
        "-",
        "2",
    )
    assert missing["REASON"].startswith("quota few has no room: a pod needs ")
    assert missing["REASON"].endswith("(2 of 3 pods are missing)")
    assert len(table(place.gpuctl("get", "pods").out)) == 1, "`get pods` listed more than pods"
    assert len(job_rows(place, "--jobs")) == 1
    assert {row["JOB ID"] for row in job_rows(place, "--status", "quotaexceeded")} == {"serve"}


def test_get_jobs_filters_rows(place: Place) -> None:
    place.apply(training("a", job={"priority": "high"}), inference("b"), notebook("c"))
    place.running("a", "b", "c")
    assert [row["NAME"] for row in job_rows(place, "--kind", "training")] == ["a"]
    assert [row["NAME"] for row in job_rows(place, "--type", "notebook")] == ["c"]
    assert [row["NAME"] for row in job_rows(place, "--pool", POOL)] == ["a", "b", "c"]
    absent = place.gpuctl("get", "jobs", "--pool", POOL[:-1], "--no-headers")
    assert (absent.out, absent.err) == ("", f"There is no pool {POOL[:-1]}: did you mean `{POOL}`?\n")
    elsewhere = place.anywhere("get", "jobs", "-n", f"{place.namespace}s", "--no-headers")
    meant = f"did you mean `{place.namespace}`?"
    assert (elsewhere.out, elsewhere.err) == ("", f"There is no namespace {place.namespace}s: {meant}\n")
    assert place.gpuctl("get", "jobs", "--pool", "default").err.startswith("No matching jobs in "), (
        "a pool without jobs"
    )
    assert [row["NAME"] for row in job_rows(place, "-l", "runwhere.ai/priority=high")] == ["a"]
    assert [row["NAME"] for row in job_rows(place, "b", "c")] == ["b", "c"]
    pod = next(iter(place.pods("b")))
    assert [row["JOB ID"] for row in job_rows(place, pod)] == [pod]
    assert [row["NAME"] for row in job_rows(place, "training/a", "job/b", f"pod/{pod}")] == ["a", "b"]
    other = place.gpuctl("get", "jobs", "training/a", "notebook/b", code=1)
    assert other.err == f"error: b in {place.namespace} is not a notebook but inference/b\n"
    missing = place.gpuctl("get", "jobs", "b", "absent", code=1)
    assert "there is no job or pod absent" in missing.err
    assert missing.out == ""
    assert "hint" in place.gpuctl("get", "jobs", "bb", "-o", "json", code=1).value
    assert "Statuses here: Running." in place.gpuctl("get", "jobs", "--status", "runing").err
    assert place.gpuctl("get", "jobs", "--kind", "pool", code=2).err
    assert "Invalid value for -l" in place.gpuctl("get", "jobs", "-l", "!!", code=2).err


def test_text_that_no_object_can_be_called_is_not_found(place: Place) -> None:
    """The API server refuses selectors of such values, in words of its own."""
    for name in ("train-", "_x", "train,note", "a=b"):
        for words in (["logs"], ["describe", "job"], ["get", "jobs"], ["wait", "--for=done"]):
            refused = place.gpuctl(*words, name, code=1).err
            assert refused.startswith(f"error: there is no job or pod {name} in namespace {place.namespace}\n"), words
        assert place.gpuctl("wait", name, "--for=deleted").out == f"{name} is deleted\n"
        refused = place.gpuctl("delete", "job", name, code=1).err
        assert refused.startswith(f"error: there is no job {name} in namespace {place.namespace}\n")


def test_get_jobs_output_formats(place: Place) -> None:
    place.apply(training("a"), notebook("c"))
    place.running("a", "c")
    value = place.gpuctl("get", "jobs", "--json").value
    assert value["total"] == 2
    item = value["items"][0]
    named = {"jobId", "pod", "name", "namespace", "kind", "status", "ready", "node", "ip", "createdAt", "startedAt"}
    assert set(item) >= named | {"pool", "gpu", "gpuType", "priority", "reason"}
    assert (item["name"], item["gpu"], item["pool"], item["priority"]) == ("a", 1, POOL, "medium")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", item["createdAt"])
    from ruamel.yaml import YAML

    assert YAML(typ="safe").load(place.gpuctl("get", "jobs", "-o", "yaml").out)["items"][1]["name"] == "c"
    assert place.gpuctl("get", "jobs", "-o", "name").out == "training/a\nnotebook/c\n"
    assert place.gpuctl("get", "pods", "-o", "name").out.splitlines()[1] == "pod/c-0"
    lines = place.gpuctl("get", "jobs", "--no-headers").out.splitlines()
    assert [line.split()[1] for line in lines] == ["a", "c"]
    failing = place.anywhere("get", "jobs", "--context", "nowhere", "-o", "json", code=3)
    assert "nowhere" in failing.value["error"]


@pytest.mark.slow
def test_get_jobs_falls_back_to_the_permitted_namespace(
    place: Place,
    plane: ControlPlane,
    api: Api,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place.apply(training("mine"))
    for other in places(plane, api, tmp_path, capsys, monkeypatch, f"{place.namespace}-2"):
        other.apply(training("mine"))
        seen = {
            (row["NAMESPACE"], row["NAME"]) for row in table(place.anywhere("get", "jobs").out) if row["NAME"] == "mine"
        }
        assert seen >= {(place.namespace, "mine"), (other.namespace, "mine")}
        twice = place.anywhere("pause", "mine", code=1).err
        assert f"training/mine in {place.namespace}" in twice
        assert "-n NAMESPACE" in twice
        assert [row["NAMESPACE"] for row in job_rows(place)] == [place.namespace]
        other.grant("alice", "edit")
        # Use a copy, because other tests share the kubeconfig.
        config = tmp_path / "alice.kubeconfig"
        config.write_text(plane.kubeconfig("alice").read_text())
        monkeypatch.setenv("KUBECONFIG", str(config))
        set_namespace = ("config", "set-context", "--current", f"--namespace={other.namespace}")
        subprocess.run([plane.binaries / "kubectl", f"--kubeconfig={config}", *set_namespace], check=True)
        answer = place.anywhere("get", "jobs")
        assert [(row["NAMESPACE"], row["NAME"]) for row in table(answer.out)] == [(other.namespace, "mine")]
        assert f"showing only {other.namespace}" in answer.err
        # The user may be allowed to read jobs of a third namespace, which was not searched.
        absent = place.anywhere("logs", "absent", code=1).err
        assert absent.startswith(f"error: there is no job or pod absent in namespace {other.namespace}\n")
        assert absent.endswith("; another namespace can be named with -n NAMESPACE\n")
        absent = place.anywhere("history", "absent", code=1).err
        assert absent.startswith(f"error: there is no history of absent in {other.namespace}\n")
        refused = place.gpuctl("get", "jobs", code=3)
        assert "may not list" in refused.err


_WORKLOADS = ("cronjobs", "deployments", "jobs", "jobsets", "leaderworkersets", "statefulsets")


@pytest.mark.slow
def test_get_jobs_sends_one_list_request_per_kind(place: Place, proxy: Proxy) -> None:
    place.apply(*(training(f"t{number}") for number in range(3)))
    place.running("t0", "t1", "t2")
    proxy.reset()
    place.anywhere("get", "jobs")
    lists = [record.request.path for record in proxy.records if record.request.method == "GET"]
    kinds = [path.rpartition("/")[2] for path in lists]
    assert sorted(kind for kind in kinds if kind != "events") == sorted([*_WORKLOADS, "pods"])
    assert not any("/namespaces/" in path for path in lists)


@pytest.mark.slow
def test_get_jobs_reads_pods_of_all_namespaces_in_pages(place: Place, api: Api, proxy: Proxy) -> None:
    """1100 pods in twenty namespaces: all rows, and requests per page, not per namespace."""
    names = [f"{place.namespace}-{number}" for number in range(20)]
    metadata = {"labels": {"app": "many", "runwhere.ai/job-type": "compute"}}
    # The scheduler does not exist, so the pods do not change during the test.
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "a"}]}
    try:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(api.create_namespace, names))
            pods = [
                ({"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": f"many-{i}"}, "spec": spec}, name)
                for name in names
                for i in range(55)
            ]
            list(threads.map(lambda pod: api.create(*pod), pods))
        place.apply(training("alone"))
        place.gpuctl("pause", "alone")
        place.until(lambda: [row["STATUS"] for row in job_rows(place)] == ["Paused"], "its pod to be gone")
        proxy.reset()
        found = [
            row for row in table(place.anywhere("get", "jobs").out) if row["NAMESPACE"] in (*names, place.namespace)
        ]
        assert [(row["NAMESPACE"], row["JOB ID"]) for row in found[1:]] == sorted(
            (name, f"many-{i}") for name in names for i in range(55)
        )
        assert (found[0]["NAME"], found[0]["STATUS"]) == ("alone", "Paused")
        lists = [record.request.path.rpartition("/")[2] for record in proxy.records]
        assert lists.count("pods") == len(place.anywhere("get", "pods", "--no-headers").out.splitlines()) // 500 + 1
        assert set(lists) <= {*_WORKLOADS, "pods", "events"}
        assert len(lists) == lists.count("pods") + len(set(lists)) - 1
    finally:
        for name in names:
            api.call("DELETE", f"/api/v1/namespaces/{name}")


def watched_rows(command: Command) -> list[dict[str, Any]]:
    """Return the rows that a watch has printed so far."""
    return [json.loads(line) for line in command.out.decode().splitlines(keepends=True) if line.endswith("\n")]


def test_watch_prints_each_change_once(place: Place, start: Start) -> None:
    place.apply(training("one"))
    place.running("one")
    watching = start("get", "jobs", "-n", place.namespace, "--watch", "-o", "json")
    watching.until(b'"name": "one"')
    place.apply(training("two"))

    def seen(status: str) -> bool:
        return any((row["name"], row["status"]) == ("two", status) for row in watched_rows(watching))

    place.until(lambda: seen("Running"), "the second job to be seen running")
    place.gpuctl("delete", "job", "one")
    place.gpuctl("pause", "two")
    place.until(lambda: seen("Paused"), "the pause to be seen")
    rows = [json.dumps(row) for row in watched_rows(watching)]
    assert len(rows) == len(set(rows))
    watching.process.send_signal(signal.SIGINT)
    assert (watching.end(), watching.err) == (130, b"")


def test_watch_of_an_unknown_name_is_an_error(place: Place) -> None:
    refused = place.gpuctl("get", "jobs", "nothing", "--watch", code=1)
    assert refused.out == ""
    assert refused.err.splitlines()[0] == f"error: there is no job or pod nothing in namespace {place.namespace}"


@pytest.mark.slow
def test_watch_shows_pods_without_a_node(place: Place, start: Start) -> None:
    place.apply(training("wide", resources={"gpu": 100}))
    place.until(lambda: place.pods("wide"), "a pod")
    watching = start("get", "jobs", "-n", place.namespace, "--watch", "--pods", "-o", "json")
    watching.until(b'"name": "wide"')
    assert watched_rows(watching)[0]["status"] == "Pending"
    (pod,) = place.pods("wide")
    (row,) = job_rows(place, pod, "--jobs")
    assert row["NAME"] == "wide"
    by_pod = start("get", "jobs", pod, "-n", place.namespace, "--jobs", "--watch", "-o", "json")
    by_pod.until(b'"name": "wide"')
