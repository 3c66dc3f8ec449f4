"""`gpuctl wait` on a real control plane: conditions that are met, that can never be met, and timeouts."""

from __future__ import annotations

import signal
import time

import pytest

from fault_tools.proxy import Proxy, cut_stream, matching, nth, on, respond
from support.cluster_tools import Place, inference, notebook, training
from support.command import Start


def wait_for_watches(place: Place, proxy: Proxy) -> None:
    """Wait until the command has opened its watches: four kinds of workloads, and pods."""
    place.until(lambda: number_of_watches(proxy) >= 5, "the watches")


def number_of_watches(proxy: Proxy) -> int:
    """Return the number of watch requests so far."""
    return sum(record.request.is_watch for record in proxy.records)


def test_wait_returns_if_the_condition_holds(place: Place) -> None:
    place.apply(training(), inference(), notebook())
    place.running("train", "serve", "note")
    running = place.gpuctl("wait", "train", "serve", "note", "--for=running")
    assert sorted(running.out.splitlines()) == [
        "inference/serve is running",
        "notebook/note is running",
        "training/train is running",
    ]
    ready = place.gpuctl("wait", "train", "inference/serve", "--for=ready", "-o", "json")
    assert [(item["name"], item["kind"], item["met"], item["status"]) for item in ready.value["items"]] == [
        ("train", "training", True, "Running"),
        ("serve", "inference", True, "Running"),
    ]
    assert place.gpuctl("wait", "nothing", "--for=deleted").out == "nothing is deleted\n"


def test_wait_for_done_reports_failed_jobs(place: Place, proxy: Proxy, start: Start) -> None:
    place.apply(training("good"), training("bad"))
    place.running("good", "bad")
    command = start("wait", "good", "bad", "--for=done", "-n", place.namespace)
    wait_for_watches(place, proxy)
    assert (command.out, command.err) == (b"", b"")
    for name, outcome in (("good", "complete"), ("bad", "fail")):
        for pod in place.pods(name):
            place.plane.annotate(place.namespace, pod, outcome=outcome)
    assert command.end() == 1
    assert command.out == b"training/good is done\n"
    cause = place.gpuctl("why", "bad", "-o", "json").value["message"]
    assert "exit code 1" in cause
    assert command.err.decode() == (
        f"error: training/bad failed: {cause}\n  = `gpuctl why bad -n {place.namespace}` shows the cause\n"
    )
    # A finished job satisfies `running`; a failed job will never be ready.
    assert place.gpuctl("wait", "good", "--for=running").out == "training/good is done\n"
    assert "training/bad failed" in place.gpuctl("wait", "bad", "--for=ready", code=1).err


@pytest.mark.slow
def test_wait_reports_the_cause_of_why(place: Place, proxy: Proxy, start: Start) -> None:
    """The message names the cause in the program, not the Job's failure condition."""
    place.apply(training("big"))
    place.running("big")
    followed = start("logs", "-f", "big", "-n", place.namespace)
    waiting = start("wait", "big", "--for=done", "-n", place.namespace)
    wait_for_watches(place, proxy)
    for pod in place.pods("big"):
        place.plane.annotate(place.namespace, pod, outcome="oom")
    assert waiting.end() == 1
    cause = place.gpuctl("why", "big", "-o", "json").value
    assert cause["cause"] == "out-of-memory"
    assert f"error: training/big failed: {cause['message']}\n" in waiting.err.decode()
    followed.end()
    assert f"note: training/big failed: {cause['message']}\n" in followed.err.decode()
    again = training("big", environment={"image": "app:2", "command": ["x"]})
    started = start("apply", "-f", place.file(again), "--yes", "--wait", "-n", place.namespace)
    place.until(lambda: place.pods("big"), "the new pod")
    place.running("big")
    started.end()


@pytest.mark.slow
def test_wait_for_done_refuses_services(place: Place) -> None:
    place.apply(inference())
    refused = place.gpuctl("wait", "serve", "--for=done", code=1)
    assert "error: inference/serve serves until it is deleted: it is never done\n" in refused.err


def test_wait_timeout_reports_the_reason(place: Place) -> None:
    place.apply(training(job={"annotations": {"gpuctl.test/outcome": "image-not-found"}}))
    place.until(lambda: "ImagePullBackOff" in place.kubectl("get", "pods"), "the image to fail")
    late = place.gpuctl("wait", "train", "--for=running", "--timeout=1s", code=1)
    assert late.err.startswith(
        "error: training/train is not running after 1 s: the registry registry.example.com has no"
    )
    assert late.err.endswith(f"  = `gpuctl why train -n {place.namespace}` shows the cause\n")
    value = place.gpuctl("wait", "train", "--for=ready", "--timeout=0s", "--json", code=1).value
    assert [(item["met"], item["status"]) for item in value["items"]] == [(False, "ImagePullBackOff")]


@pytest.mark.slow
def test_running_service_is_not_ready_before_its_probe(place: Place) -> None:
    place.apply(inference(job={"annotations": {"gpuctl.test/outcome": "never-ready"}}))
    assert place.gpuctl("wait", "serve", "--for=running", "--timeout=120s").out == "inference/serve is running\n"
    late = place.gpuctl("wait", "serve", "--for=ready", "--timeout=1s", code=1)
    assert "inference/serve is not ready after 1 s: " in late.err


@pytest.mark.slow
def test_wait_counts_missing_pods(place: Place) -> None:
    place.apply(inference(service={"replicas": 2}))
    place.running("serve", pods=2)
    place.limit(pods="2")
    place.patch("Deployment", "serve", {"spec": {"replicas": 4}})
    late = place.gpuctl("wait", "serve", "--for=running", "--timeout=1s", code=1)
    assert "(2 of 4 pods are missing)" in late.err


def test_wait_for_deleted_includes_the_pods(place: Place, proxy: Proxy, start: Start) -> None:
    place.apply(training(), notebook())
    [pod] = place.running("train")
    place.running("note")
    command = start("wait", "train", "note", "--for=deleted", "-n", place.namespace)
    wait_for_watches(place, proxy)
    place.plane.annotate(place.namespace, pod, termination="stuck")
    place.gpuctl("delete", "job", "note", "--yes")
    command.until(b"notebook/note is deleted\n")
    place.kubectl("delete", "job", "train", "--wait=false")
    place.until(lambda: not place.exists("Job", "train"), "the job to go before its pod")
    time.sleep(0.5)
    assert b"training/train" not in command.out
    place.plane.annotate(place.namespace, pod, termination=None)
    assert command.end() == 0
    assert command.out == b"notebook/note is deleted\ntraining/train is deleted\n"
    assert not place.exists("Pod", pod)


@pytest.mark.slow
def test_wait_fails_if_the_job_is_deleted(place: Place, proxy: Proxy, start: Start) -> None:
    place.apply(training())
    place.running("train")
    command = start("wait", "train", "--for=done", "-n", place.namespace)
    wait_for_watches(place, proxy)
    place.kubectl("delete", "job", "train")
    assert command.end() == 1
    assert command.err == b"error: training/train was deleted: it will not be done\n"


@pytest.mark.slow
def test_invalid_wait_options_are_refused(place: Place) -> None:
    assert "there is no job or pod nothing" in place.gpuctl("wait", "nothing", "--for=done", code=1).err
    assert "Missing option '--for'" in place.gpuctl("wait", "train", code=2).err
    assert "`soon` is not a duration" in place.gpuctl("wait", "train", "--for=done", "--timeout=soon", code=2).err


def test_wait_resumes_broken_watches(place: Place, proxy: Proxy, start: Start) -> None:
    place.apply(training())
    [pod] = place.running("train")
    breaks = nth(1, matching(watch=True), last=6)
    proxy.reset(lambda request: cut_stream(1) if breaks(request) else None)
    command = start("wait", "train", "--for=done", "--timeout=120s", "-n", place.namespace)
    place.until(lambda: number_of_watches(proxy) > 2, "broken watches to be opened again")
    place.plane.annotate(place.namespace, pod, outcome="complete")
    assert command.end() == 0
    assert command.out == b"training/train is done\n"


@pytest.mark.slow
def test_wait_exits_130_on_interrupt(place: Place, proxy: Proxy, start: Start) -> None:
    place.apply(training())
    place.running("train")
    command = start("wait", "train", "--for=done", "-n", place.namespace)
    wait_for_watches(place, proxy)
    command.process.send_signal(signal.SIGINT)
    assert command.end() == 130
    assert (command.out, command.err) == (b"", b"")


EXPIRED = b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}\n'


@pytest.mark.slow
@pytest.mark.parametrize("body", [b"", EXPIRED])
def test_wait_backs_off_when_watches_end_at_once(place: Place, proxy: Proxy, start: Start, body: bytes) -> None:
    """A load balancer that ends every watch, or a server without history, must not be flooded with requests."""
    place.apply(training())
    place.running("train")
    proxy.reset(on(matching(watch=True), respond(200, body, "application/json")))
    command = start("wait", "train", "--for=done", "-n", place.namespace)
    wait_for_watches(place, proxy)
    time.sleep(3)
    watches = [record.request for record in proxy.records if record.request.is_watch]
    assert len(watches) < 60, "expected few watches; without backoff there are thousands"
    assert all(request.query["allowWatchBookmarks"] == "true" for request in watches)
    proxy.reset()
    for pod in place.pods("train"):
        place.plane.annotate(place.namespace, pod, outcome="complete")
    assert command.end() == 0
    assert command.out == b"training/train is done\n"
