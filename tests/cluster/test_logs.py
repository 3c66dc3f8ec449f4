"""`gpuctl logs` through the real API server: reading and following the logs of every kind of job."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, Request, cut_stream, meanwhile, nth, on
from gpuctl.kube.configuration import open_session
from gpuctl.reading.logs.log_parsing import instant
from gpuctl.reading.logs.log_streams import ContainerLog, LogOptions
from gpuctl.reading.logs.log_tail import LogTail, TailEnded
from support.cluster_tools import Place, inference, notebook, training
from support.command import Start


def write(place: Place, pod: str, text: str | bytes, **options: bool) -> None:
    place.plane.write_log(place.namespace, pod, text, **options)


def only_pod(place: Place, name: str) -> str:
    [pod] = place.running(name)
    return pod


def test_logs_of_one_pod(place: Place) -> None:
    place.apply(training())
    pod = only_pod(place, "train")
    write(place, pod, "first\nloss 0.5\nLoss 0.4\n")
    assert place.gpuctl("logs", "train").out == "first\nloss 0.5\nLoss 0.4\n"
    for name in ("training/train", pod, f"pod/{pod}"):
        assert place.gpuctl("logs", name, "--tail", "1").out == "Loss 0.4\n"
    assert place.gpuctl("logs", "train", "--tail=0").out == ""
    assert place.gpuctl("logs", "train", "--grep", r"loss \d").out == "loss 0.5\n"
    assert place.gpuctl("logs", "train", "--grep", "loss", "-i").out == "loss 0.5\nLoss 0.4\n"
    short = pod.removeprefix("train-")
    assert place.gpuctl("logs", "train", "--tail=1", "--prefix").out == f"{short} | Loss 0.4\n"
    stamped = place.gpuctl("logs", "train", "--timestamps").out.splitlines()
    times = [line.split(" ", 1)[0] for line in stamped]
    assert [line.split(" ", 1)[1] for line in stamped] == ["first", "loss 0.5", "Loss 0.4"]
    value = place.gpuctl("logs", "train", "--tail=2", "-o", "json").value
    assert value == {
        "logs": [
            {"pod": pod, "container": "main", "timestamp": times[1], "text": "loss 0.5"},
            {"pod": pod, "container": "main", "timestamp": times[2], "text": "Loss 0.4"},
        ],
        "lastTimestamp": times[2],
        "problems": [],
    }
    assert place.gpuctl("logs", "train", "--since-time", "2030-01-01T00:00:00Z").out == ""
    assert place.gpuctl("logs", "train", "--since", "1h").out == "first\nloss 0.5\nLoss 0.4\n"


@pytest.mark.slow
def test_invalid_log_options_are_refused(place: Place) -> None:
    place.apply(training())
    pod = only_pod(place, "train")
    wrong = place.gpuctl("logs", "train", "--grep", "loss(", code=2)
    assert "--grep `loss(` is not a regular expression: missing ), unterminated subpattern at character 5" in wrong.err
    assert "`10x` is not a duration" in place.gpuctl("logs", "train", "--since", "10x", code=2).err
    assert "`gestern` is not a time" in place.gpuctl("logs", "train", "--since-time", "gestern", code=2).err
    assert "cannot be followed" in place.gpuctl("logs", "train", "-f", "-p", code=2).err
    missing = place.gpuctl("logs", "train", "-c", "side", code=1)
    assert missing.err == f"error: pod {pod} has no container side\n  = it has main\n"
    other = place.gpuctl("logs", "train", "--pod", "zzz", code=1)
    assert other.err == f"error: training/train has no pod zzz\n  = it has {pod}\n"
    absent = place.gpuctl("logs", "trian", "-o", "json", code=1)
    assert absent.value["hint"].startswith("did you mean `train`?")
    previous = place.gpuctl("logs", "train", "--previous", code=1)
    assert previous.err == f"error: pod {pod}: it has not been restarted: there is no run before this one\n"


def test_several_pods_are_merged_by_time(place: Place) -> None:
    place.apply(training(resources={"nodes": 3}))
    pods = sorted(place.running("train", pods=3))
    for pod in pods:
        write(place, pod, "".join(f"{pod} {number}\n" for number in range(200)))
    lines = place.gpuctl("logs", "train", "--timestamps").out.splitlines()
    found: dict[str, list[str]] = {}
    times = []
    for line in lines:
        prefix, rest = line.split(" | ")
        time_, pod, number = rest.split(" ")
        assert prefix == pod.removeprefix("train-")
        times.append(instant(time_))
        found.setdefault(pod, []).append(number)
    assert times == sorted(times)
    assert found == {pod: [str(number) for number in range(200)] for pod in pods}
    one = place.gpuctl("logs", "train", "--pod", pods[1].removeprefix("train-"), "--tail", "1")
    assert one.out == f"{pods[1]} 199\n"
    index = place.gpuctl("logs", "train", "--pod", "2", "--tail", "1", "--prefix")
    assert index.out == f"{pods[2].removeprefix('train-')} | {pods[2]} 199\n"


@pytest.mark.slow
def test_logs_of_a_waiting_pod_name_its_state(place: Place) -> None:
    place.apply(training(job={"annotations": {"gpuctl.test/outcome": "image-not-found"}}))
    place.until(lambda: "ImagePullBackOff" in place.kubectl("get", "pods"), "the image to fail")
    [pod] = place.pods("train")
    refused = place.gpuctl("logs", "train", code=1)
    assert refused.err.startswith(
        f"error: training/train has no log yet: its pod {pod} is Pending: ImagePullBackOff: Back-off pulling image"
    )
    assert refused.err.endswith(
        f"\n  = `gpuctl why train -n {place.namespace}` shows the cause; `gpuctl logs -f` waits for it\n"
    )
    assert "ImagePullBackOff" in place.gpuctl("logs", "train", "--json", code=1).value["error"]


@pytest.mark.slow
def test_logs_of_a_job_scaled_to_zero(place: Place) -> None:
    place.apply(notebook())
    place.running("note")
    place.patch("StatefulSet", "note", {"spec": {"replicas": 0}})
    place.until(lambda: not place.exists("Pod", "note-0"), "the end of the pod")
    refused = place.gpuctl("logs", "note", code=1)
    assert refused.err.startswith("error: notebook/note has no log yet: it has no pods: ScaledToZero: ")


@pytest.mark.slow
def test_logs_of_a_pod_rejected_by_the_kubelet(place: Place) -> None:
    place.apply(training(job={"annotations": {"gpuctl.test/outcome": "gpu-unavailable"}}))
    place.until(lambda: "UnexpectedAdmissionError" in place.kubectl("get", "pods"), "the refusal")
    pod = next(iter(place.pods("train")))
    refused = place.gpuctl("logs", pod, code=1)
    assert refused.out == ""
    assert refused.err.startswith(
        f"error: pod {pod}: it is UnexpectedAdmissionError and has no log: Pod was rejected: Allocate failed"
    )


@pytest.mark.slow
def test_unreachable_node_does_not_hide_logs_of_other_pods(place: Place) -> None:
    silent = f"{place.namespace}-silent"
    for node in (place.namespace, silent):
        place.plane.add_node(node, labels={"runwhere.ai/pool": place.namespace}, gpus=1)
    place.plane.wait_for_nodes()
    place.apply(inference(resources={"pool": place.namespace}, service={"replicas": 2}))
    pods = {place.get("Pod", pod)["spec"]["nodeName"]: pod for pod in place.running("serve", pods=2)}
    endpoint = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}}
    place.plane.kubectl("patch", "node", silent, "--subresource=status", "-p", json.dumps(endpoint))
    write(place, pods[place.namespace], "still here\n")
    message = f"node {silent} does not answer: connection refused"
    outcome = place.gpuctl("logs", "serve", code=1)
    assert outcome.out == f"{pods[place.namespace][-5:]} | still here\n"
    assert outcome.err == f"error: pod {pods[silent]}: {message}\n"
    value = place.gpuctl("logs", "serve", "--json", code=1).value
    assert [(item["pod"], item["text"]) for item in value["logs"]] == [(pods[place.namespace], "still here")]
    assert value["problems"] == [{"pod": pods[silent], "message": message}]
    place.plane.kubectl("delete", "node", place.namespace, silent)


def test_follow_waits_for_a_node_that_does_not_answer(place: Place, start: Start) -> None:
    node = f"{place.namespace}-silent"
    place.plane.add_node(node, labels={"runwhere.ai/pool": place.namespace}, gpus=1)
    place.plane.wait_for_nodes()
    place.apply(training(resources={"pool": place.namespace}))
    pod = only_pod(place, "train")
    write(place, pod, "before\n")

    def move_kubelet(port: int) -> None:
        endpoint = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}}
        place.plane.kubectl("patch", "node", node, "--subresource=status", "-p", json.dumps(endpoint))

    port = place.plane.get("node", node)["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    move_kubelet(1)
    command = start("logs", "train", "-f", "-n", place.namespace)
    reason = f"node {node} does not answer: connection refused"
    command.until(f"note: the log of {pod} is interrupted, and tried again: {reason}\n".encode())
    move_kubelet(port)
    command.until(b"before\n")
    place.plane.annotate(place.namespace, pod, outcome="complete")
    # Nothing is missing.
    assert command.end() == 0
    assert command.out == b"before\n"
    assert command.err.endswith(f"note: the log of {pod} continues\nnote: training/train has finished\n".encode())
    place.plane.kubectl("delete", "node", node)


def test_logs_need_the_right_to_get_pods_log(
    place: Place, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.apply(training())
    write(place, only_pod(place, "train"), "secret\n")
    workloads = {"apiGroups": ["", "batch", "apps", "jobset.x-k8s.io"], "resources": ["*"], "verbs": ["list"]}
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig("nobody")))
    denied = place.gpuctl("logs", "train", code=3)
    assert "user nobody may not list" in denied.err
    rules = [{**workloads, "resources": ["pods", "jobs", "deployments", "statefulsets", "jobsets"]}]
    plane.grant("nobody", place.namespace, rules)
    place.until(lambda: "pods/log" in place.gpuctl("logs", "train", code=3).err, "the right to list")
    denied = place.gpuctl("logs", "train", code=3)
    assert f"error: user nobody may not get pods/log in namespace {place.namespace}\n" in denied.err
    assert "secret" not in denied.out
    told = place.gpuctl("logs", "train", "-o", "json", code=3).value
    assert told["error"] == f"user nobody may not get pods/log in namespace {place.namespace}"
    plane.grant("nobody", place.namespace, "view")
    place.until(lambda: place.gpuctl("logs", "train", code=None).out == "secret\n", "the right to read logs")


@pytest.mark.slow
def test_follow_ends_with_a_finished_training(place: Place) -> None:
    place.apply(training(), training("broken"))
    for name, outcome in (("train", "complete"), ("broken", "fail")):
        pod = only_pod(place, name)
        write(place, pod, f"{name} 1\n{name} 2\n")
        place.plane.annotate(place.namespace, pod, outcome=outcome)
    place.until(lambda: (place.get("Job", "train")["status"]).get("succeeded"), "the end of the training")
    place.until(
        lambda: len(place.pods("broken")) and place.gpuctl("get", "jobs", "broken").out.count("Failed"), "failure"
    )
    finished = place.gpuctl("logs", "train", "-f")
    assert (finished.out, finished.err) == ("train 1\ntrain 2\n", "note: training/train has finished\n")
    assert place.gpuctl("logs", "train").out == "train 1\ntrain 2\n"
    assert "broken 1\nbroken 2\n" in place.gpuctl("logs", "broken", "--no-prefix").out


def test_follow_prints_new_lines(place: Place, start: Start) -> None:
    place.apply(training())
    pod = only_pod(place, "train")
    write(place, pod, "old 1\nold 2\n")
    command = start("logs", "train", "-f", "--tail=1", "-n", place.namespace)
    command.until(b"old 2\n")
    write(place, pod, "new 1\n")
    command.until(b"new 1\n")
    place.plane.annotate(place.namespace, pod, outcome="complete")
    assert command.end() == 0
    assert command.out == b"old 2\nnew 1\n"
    assert command.err == b"note: training/train has finished\n"


def test_follow_resumes_broken_streams_without_loss_or_repeat(place: Place, proxy: Proxy, start: Start) -> None:
    place.apply(training())
    pod = only_pod(place, "train")
    write(place, pod, "".join(f"line {number}\n" for number in range(500)))

    def is_log(request: Request) -> bool:
        return request.path.endswith("/log")

    breaks = nth(1, is_log, last=6)
    # Each stream is cut later than the previous one, because a resumed stream repeats the whole last second.
    lengths = iter(range(3000, 30_000, 3000))
    proxy.reset(lambda request: cut_stream(next(lengths)) if breaks(request) else None)
    command = start("logs", "train", "-f", "--tail=all", "-n", place.namespace)
    command.until(b"line 100\n")
    write(place, pod, "".join(f"line {number}\n" for number in range(500, 600)))
    command.until(b"line 599\n")
    place.plane.annotate(place.namespace, pod, outcome="complete")
    assert command.end() == 0
    assert command.out.decode() == "".join(f"line {number}\n" for number in range(600))
    # One request after each break. The number of requests after the end depends on when the pod is seen to have ended.
    assert sum(is_log(record.request) for record in proxy.records) > 6


@pytest.mark.slow
def test_logs_resume_a_broken_download(place: Place, proxy: Proxy) -> None:
    place.apply(training())
    pod = only_pod(place, "train")
    write(place, pod, "".join(f"line {number}\n" for number in range(500)))
    breaks = nth(1, lambda request: request.path.endswith("/log"), last=2)
    proxy.reset(lambda request: cut_stream(9000) if breaks(request) else None)
    outcome = place.gpuctl("logs", "train")
    assert outcome.out == "".join(f"line {number}\n" for number in range(500))
    assert outcome.err == ""
    assert sum(record.request.path.endswith("/log") for record in proxy.records) == 3


def test_follow_continues_after_a_container_restart(place: Place, start: Start) -> None:
    place.apply(inference())
    pod = only_pod(place, "serve")
    write(place, pod, "before\n", previous=True)
    write(place, pod, "before\n")
    command = start("logs", "serve", "-f", "-n", place.namespace)
    command.until(b"before\n")
    # Simulated lines carry the start time of a run, in whole seconds: two runs must not start in the same second.
    time.sleep(1.1)
    place.plane.annotate(place.namespace, pod, outcome="crash", exit_code="3")
    command.until(b"was restarted (Error, exit code 3)")
    # The new run writes the same lines again, then more.
    write(place, pod, "after\n")
    command.until(b"after\n")
    assert command.out == b"before\nbefore\nafter\n"
    assert place.gpuctl("logs", "serve", "--previous").out == "before\n"


@pytest.mark.slow
def test_follow_switches_to_the_replacement_pod(place: Place, start: Start) -> None:
    place.apply(inference())
    old = only_pod(place, "serve")
    write(place, old, "old\n")
    command = start("logs", "serve", "-f", "-n", place.namespace)
    command.until(b"old\n")
    place.kubectl("delete", "pod", old)
    place.until(lambda: set(place.pods("serve")) - {old}, "another pod")
    [new] = set(place.pods("serve")) - {old}
    write(place, new, "new 1\nnew 2\nnew 3\n")
    command.until(b"new 3\n")
    command.until(f"note: {new} is new\n".encode())
    place.gpuctl("delete", "job", "serve", "--yes")
    assert command.end() == 0
    # The lines before the test writes the new pod's log depend on timing.
    assert command.out.startswith(b"old\n")
    assert command.out.decode().endswith(f"\n{new[-5:]} | new 3\n")
    assert b"note: inference/serve is gone\n" in command.err


@pytest.mark.parametrize("by_pod", [False, True], ids=["job", "pod"])
def test_pod_that_is_deleted_before_the_watch_begins_has_ended(
    place: Place, proxy: Proxy, start: Start, by_pod: bool
) -> None:
    place.apply(inference())
    old = only_pod(place, "serve")

    def begins_to_follow(request: Request) -> bool:
        return request.path.endswith("/pods") and "job-type=inference" in request.query.get("labelSelector", "")

    def replace_pod() -> None:
        place.kubectl("delete", "pod", old)
        place.until(lambda: set(place.pods("serve")) - {old}, "the replacement pod")

    proxy.reset(on(nth(1, begins_to_follow), meanwhile(replace_pod)))
    command = start("logs", old if by_pod else "serve", "-f", "-n", place.namespace)
    if by_pod:
        assert command.end() == 0
        assert command.err.decode() == f"note: pod {old} is gone\n"
        return
    [new] = place.until(lambda: set(place.pods("serve")) - {old}, "the replacement pod")
    command.until(f"note: {new} is new\n".encode())


def test_tail_ends_when_a_pod_of_the_same_name_replaces_it(place: Place, proxy: Proxy) -> None:
    """The next pod of a StatefulSet has the same name, and the reader may not have seen it yet."""
    place.apply(notebook())
    pod = place.get("Pod", only_pod(place, "note"))
    uid = pod["metadata"]["uid"]
    write(place, "note-0", "first\n")

    def wait_for_another() -> None:
        place.until(lambda: place.pods("note").get("note-0") not in (None, uid), "another pod")
        place.running("note")

    def reads_the_pod(request: Request) -> bool:
        return request.method == "GET" and "/pods/note-0" in request.path

    # The first request reads the log while the old pod still exists.
    proxy.reset(on(nth(2, reads_the_pod, last=99), meanwhile(wait_for_another)))
    messages: queue.Queue[Any] = queue.Queue()
    session = open_session()
    source = ContainerLog(session, pod, "main", LogOptions())
    tail = LogTail(source, messages)
    tail.update_pod(pod, over=False, gone=False)
    tail.start()
    lines = messages.get(timeout=60)
    place.kubectl("delete", "pod", "note-0")
    end = messages.get(timeout=60)
    session.close()
    assert [line.text for line in lines.lines] == [b"first"]
    assert end == TailEnded(source, None)


@pytest.mark.slow
def test_follow_prints_all_lines_of_a_later_pod(place: Place, start: Start) -> None:
    """--tail applies to existing lines only: the log of a pod that starts later is printed in full."""
    place.apply(notebook())
    place.running("note")
    lines = [f"line {number}" for number in range(5)]
    write(place, "note-0", "".join(f"{line}\n" for line in lines))
    command = start("logs", "note", "-f", "--tail=1", "--no-prefix", "-n", place.namespace)
    command.until(b"line 4\n")
    # The next pod has the same name here, and therefore the same log from the beginning.
    place.kubectl("delete", "pod", "note-0")
    command.until(b"line 4\nline 0\nline 1\nline 2\nline 3\nline 4\n")
    command.process.send_signal(signal.SIGINT)
    assert command.end() == 130
    assert command.out.decode().splitlines() == ["line 4", *lines]


@pytest.mark.slow
def test_logs_pass_through_binary_and_long_lines(place: Place, start: Start) -> None:
    place.apply(training())
    pod = only_pod(place, "train")
    every = bytes(range(256)).replace(b"\n", b"")
    text = every + b"\n" + b"x" * 1_000_000 + b"\n\n\x1b[2J\x1b]0;title\x07end\n"
    write(place, pod, text)
    command = start("logs", "train", "-n", place.namespace)
    assert command.end() == 0
    assert command.out == text
    value = place.gpuctl("logs", "train", "--json").value
    assert value["logs"][1]["text"] == "x" * 1_000_000


@pytest.mark.slow
def test_logs_exit_141_when_the_pipe_closes(place: Place) -> None:
    place.apply(training())
    write(place, only_pod(place, "train"), "".join(f"line {number}\n" for number in range(50_000)))
    for options in ("", "-f --tail=all"):
        script = f'{{ "$0" -m gpuctl logs train {options} -n {place.namespace}; echo "exit $?" >&2; }} | head -n 1'
        result = subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, text=True, timeout=120)
        assert (result.stdout, result.stderr) == ("line 0\n", "exit 141\n")


@pytest.mark.slow
def test_follow_exits_when_the_pipe_closes_without_new_lines(place: Place) -> None:
    place.apply(training())
    write(place, only_pod(place, "train"), "only line\n")
    script = f'{{ "$0" -m gpuctl logs train -f -n {place.namespace}; echo "exit $?" >&2; }} | head -n 1'
    result = subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, text=True, timeout=120)
    assert (result.stdout, result.stderr) == ("only line\n", "exit 141\n")


@pytest.mark.slow
def test_follow_exits_130_on_interrupt(place: Place, start: Start) -> None:
    place.apply(training())
    write(place, only_pod(place, "train"), "only line\n")
    command = start("logs", "train", "-f", "-n", place.namespace)
    command.until(b"only line\n")
    command.process.send_signal(signal.SIGINT)
    assert command.end() == 130
    assert (command.out, command.err) == (b"only line\n", b"")
