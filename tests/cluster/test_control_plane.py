"""The stages, logs and users that other tests rely on are what they say, and a sandbox leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from control_plane import ControlPlane
from control_plane.outcomes import INIT_FAILS, OUTCOMES
from gpuctl_usage.store.database import open_database

NAMESPACE = "outcomes"
LABEL = {"gpuctl.test/for": "outcomes"}
TESTS = Path(__file__).resolve().parents[1]
Object = dict[str, Any]


class Expected(NamedTuple):
    """What becomes of a pod: phase, the state of its container, words of the state's message or the pod's."""

    phase: str
    state: str
    reason: str | None = None
    words: str = ""
    exit_code: int | None = None


BACK_OFF = Expected("Running", "waiting", "CrashLoopBackOff", "back-off 10s restarting failed container=main pod=")
PULL = r'Back-off pulling image "team/train:v1": ErrImagePull: rpc error: code = \w+ desc = failed to pull and unpack '
REFERENCE = '"docker.io/team/train:v1"'
NEVER: dict[str, Expected] = {
    "": Expected("Running", "running"),
    "complete": Expected("Succeeded", "terminated", "Completed", exit_code=0),
    "fail": Expected("Failed", "terminated", "Error", exit_code=3),
    "crash": Expected("Failed", "terminated", "Error", exit_code=3),
    "oom": Expected("Failed", "terminated", "OOMKilled", exit_code=137),
    "probe-killed": Expected("Failed", "terminated", "Error", exit_code=137),
    "command-not-found": Expected(
        "Failed", "terminated", "StartError", r'exec: "torchrun": executable file not found in \$PATH$', 128
    ),
    "evicted": Expected("Failed", "terminated", "Error", r"^The node was low on resource: memory\. ", 137),
    "volume-full": Expected("Failed", "terminated", "Error", r'^Usage of EmptyDir volume "" exceeds the limit', 137),
    "shutdown": Expected(
        "Failed", "terminated", "Error", r"^Pod was terminated in response to imminent node shutdown", 143
    ),
    "overdue": Expected("Failed", "terminated", "Error", exit_code=143),
    "gpu-unavailable": Expected(
        "Failed",
        "",
        words=r"^Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia\.com/gpu\. "
        r"Requested: 2, Available: 0, which is unexpected$",
    ),
    "never-ready": Expected("Running", "running"),
    "image-slow": Expected("Pending", "waiting", "ContainerCreating"),
    "missing-mount": Expected("Pending", "waiting", "ContainerCreating"),
    "no-sandbox": Expected("Pending", "waiting", "ContainerCreating"),
    "missing-key": Expected(
        "Pending", "waiting", "CreateContainerConfigError", r"^couldn't find key token in Secret [\w-]+/hf-token$"
    ),
    "root-refused": Expected(
        "Pending",
        "waiting",
        "CreateContainerConfigError",
        r'^container has runAsNonRoot and image will run as root \(pod: "\S+", container: main\)$',
    ),
    "image-name-invalid": Expected(
        "Pending",
        "waiting",
        "InvalidImageName",
        '^Failed to apply default image tag "team/train:v1": couldn\'t parse image name "team/train:v1": ',
    ),
    "missing-secret": Expected("Pending", "waiting", "CreateContainerConfigError", '^secret "hf-token" not found$'),
    "image-not-found": Expected(
        "Pending",
        "waiting",
        "ImagePullBackOff",
        f"^{PULL}image {REFERENCE}: failed to resolve reference {REFERENCE}: docker.io/team/train:v1: not found$",
    ),
    "image-unauthorised": Expected("Pending", "waiting", "ImagePullBackOff", f"^{PULL}.*: pull access denied, "),
    "image-unreachable": Expected(
        "Pending", "waiting", "ImagePullBackOff", f"^{PULL}.*: dial tcp: lookup .*no such host$"
    ),
    "image-platform": Expected(
        "Pending", "waiting", "ImagePullBackOff", f"^{PULL}image {REFERENCE}: no match for platform in manifest: "
    ),
}
"""Outcome -> what becomes of a pod that is not to be restarted."""
ALWAYS: dict[str, Expected] = dict.fromkeys(("complete", "fail", "crash", "oom", "probe-killed"), BACK_OFF)
"""Outcome -> what becomes of a pod whose containers are to be restarted."""
EVENTS = {
    "image-slow": 'Normal Pulling Pulling image "team/train:v1"',
    "image-not-found": 'Normal BackOff Back-off pulling image "team/train:v1"',
    "missing-secret": 'Warning Failed Error: secret "hf-token" not found',
    "missing-mount": 'Warning FailedMount MountVolume.SetUp failed for volume "data" : '
    "hostPath type check failed: /data/x is not a directory",
    "no-sandbox": "Warning FailedCreatePodSandBox Failed to create pod sandbox: rpc error: code = Unknown desc = failed "
    'to setup network for sandbox: plugin type="calico" failed (add): error getting ClusterInformation: connection is '
    "unauthorized: Unauthorized",
    "overdue": "Normal DeadlineExceeded Pod was active on the node longer than the specified deadline",
    "probe-killed": "Normal Killing Container main failed liveness probe",
    "never-ready": "Warning Unhealthy Readiness probe failed: HTTP probe failed with statuscode: 503",
    "evicted": "Warning Evicted The node was low on resource: memory. Threshold quantity: 100Mi, available: 71236Ki. "
    "Container main was using 96636764Ki, request is 1Gi, has larger consumption of memory. ",
}
"""Outcome -> an event that is told."""


def _spec(policy: str = "Never") -> Object:
    container = {
        "name": "main",
        "image": "team/train:v1",
        "command": ["torchrun", "train.py"],
        "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}}],
        "resources": {"requests": {"memory": "1Gi"}, "limits": {"nvidia.com/gpu": "2"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {
        "restartPolicy": policy,
        "containers": [container],
        "volumes": [{"name": "data", "hostPath": {"path": "/data/x", "type": "Directory"}}],
        "nodeSelector": LABEL,
        "tolerations": [{"key": "gpuctl.test/for", "operator": "Exists"}],
    }


def _annotations(outcome: str, **others: str) -> dict[str, str]:
    values = {"outcome": outcome, "exit-code": "3", **{key.replace("_", "-"): value for key, value in others.items()}}
    return {f"gpuctl.test/{key}": value for key, value in values.items() if value}


def _pod(name: str, outcome: str = "", policy: str = "Never", **others: str) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": _annotations(outcome, **others)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(policy)}


def _job(name: str, outcome: str = "", policy: str = "Never", **spec: Any) -> Object:
    template = {"metadata": {"annotations": _annotations(outcome)}, "spec": _spec(policy)}
    metadata = {"name": name, "namespace": NAMESPACE}
    spec = {"backoffLimit": 0, **spec, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _deployment(name: str, outcome: str) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels, "annotations": _annotations(outcome)}, "spec": _spec("Always")}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


IGNORE_DISRUPTION = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}
# Deleted, evicted, followed and so on by one test each.
OTHERS = (
    _pod("slow", termination="slow"),
    _pod("stuck", termination="stuck"),
    _pod("later", "complete", duration="1h"),
    _pod("timed", "fail", duration="1s"),
    _pod("followed"),
    _job("completes", "complete"),
    _job("fails", "fail"),
    _job("restarts", "crash", "OnFailure"),
    _job("evicted", podFailurePolicy=IGNORE_DISRUPTION),
    _job("deleted"),
    _deployment("serves", ""),
    _deployment("unready", "never-ready"),
)


@pytest.fixture(scope="module")
def outcomes(plane: ControlPlane) -> Iterator[ControlPlane]:
    """A node of its own, and all pods of this module at once: they take their time together."""
    taint = {"key": "gpuctl.test/for", "value": "outcomes", "effect": "NoSchedule"}
    plane.add_node("outcomes", labels=LABEL, gpus=128, taints=[taint])
    plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    pods = [_pod(f"never-{outcome or 'default'}", outcome) for outcome in NEVER]
    pods += [_pod(f"always-{outcome}", outcome, "Always") for outcome in ALWAYS]
    plane.create(*pods, *OTHERS)
    yield plane
    plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    plane.kubectl("delete", "pods", "--all", "-n", NAMESPACE, "--force", "--grace-period=0", "--wait=false")
    plane.kubectl("delete", "node", "outcomes")


def _get(plane: ControlPlane, kind: str, name: str) -> Object:
    result: Object = plane.get(kind, name, "-n", NAMESPACE)
    return result


def _found(plane: ControlPlane, name: str) -> bool:
    return name in plane.kubectl("get", "pods", "-n", NAMESPACE, "-o", "name")


def _summary(pod: Object) -> tuple[str, str, str | None]:
    """Phase, state and reason."""
    status = pod["status"]
    containers = status.get("containerStatuses") or [{"state": {}}]
    state = next(iter(containers[0]["state"].items()), ("", {}))
    return status["phase"], state[0], state[1].get("reason")


@pytest.fixture(scope="module")
def settled(outcomes: ControlPlane) -> dict[str, Object]:
    """The pods of the two tables as they were when they had become what they shall become, by name."""
    wanted = {f"never-{outcome or 'default'}": item for outcome, item in NEVER.items()}
    wanted |= {f"always-{outcome}": item for outcome, item in ALWAYS.items()}
    pods: dict[str, Object] = {}
    there: set[str] = set()
    deadline = time.monotonic() + 120
    while len(there) < len(wanted) and time.monotonic() < deadline:
        for pod in outcomes.get("pods", "-n", NAMESPACE)["items"]:
            name = pod["metadata"]["name"]
            # A pod in CrashLoopBackOff goes on after 10 s: the first time counts.
            if name in wanted and name not in there:
                pods[name] = pod
                if _summary(pod) == wanted[name][:3]:
                    there.add(name)
        time.sleep(0.2)
    return pods


def test_every_outcome_is_tested() -> None:
    # What needs an init container of a pod that is restarted is brought about where `why` looks at it.
    assert set(NEVER) - {""} == set(OUTCOMES) - {INIT_FAILS}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((f"never-{outcome or 'default'}", expected) for outcome, expected in NEVER.items()),
        *((f"always-{outcome}", expected) for outcome, expected in ALWAYS.items()),
    ],
)
def test_outcome(settled: dict[str, Object], name: str, expected: Expected) -> None:
    pod = settled[name]
    status = pod["status"]
    assert _summary(pod) == expected[:3]
    container = (status.get("containerStatuses") or [{"state": {"": {}}}])[0]
    state = next(iter(container["state"].values()))
    assert re.search(expected.words, state.get("message") or status.get("message") or "")
    assert state.get("exitCode") == expected.exit_code
    ready = {item["type"]: item["status"] for item in status["conditions"]}.get("Ready")
    is_ready = expected.state == "running" and name != "never-never-ready"
    assert (ready == "True") == container.get("ready", False) == is_ready


def test_details_of_statuses(settled: dict[str, Object]) -> None:
    restarted = settled["always-oom"]["status"]["containerStatuses"][0]
    assert restarted["restartCount"] == 1
    assert restarted["lastState"]["terminated"]["reason"] == "OOMKilled"
    assert settled["never-evicted"]["status"]["reason"] == "Evicted"
    conditions = {item["type"]: item for item in settled["never-evicted"]["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "TerminationByKubelet"
    assert settled["never-gpu-unavailable"]["status"]["reason"] == "UnexpectedAdmissionError"
    message = {item["type"]: item for item in settled["never-never-ready"]["status"]["conditions"]}["Ready"]["message"]
    assert message == "containers with unready status: [main]"
    addresses = [pod["status"]["podIP"] for pod in settled.values() if pod["status"].get("podIP")]
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize("outcome", EVENTS)
def test_event(outcomes: ControlPlane, settled: dict[str, Object], outcome: str) -> None:
    selector = f"involvedObject.name=never-{outcome}"

    def told() -> bool:
        items = outcomes.get("events", "-n", NAMESPACE, f"--field-selector={selector}")["items"]
        return EVENTS[outcome] in [f"{item['type']} {item['reason']} {item['message']}" for item in items]

    outcomes.wait_for(told, f"the event of {outcome}")


def test_duration(outcomes: ControlPlane) -> None:
    def finished() -> Object | None:
        pod = _get(outcomes, "pod", "timed")
        return pod if pod["status"]["phase"] == "Failed" else None

    ended = outcomes.wait_for(finished, "the end of a pod after its duration")
    state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["startedAt"] < state["finishedAt"]
    assert _summary(_get(outcomes, "pod", "later")) == ("Running", "running", None)


def _condition(plane: ControlPlane, job: str) -> str | None:
    conditions = _get(plane, "job", job)["status"].get("conditions") or []
    return next(
        (f"{item['type']} {item['reason']}" for item in conditions if item["type"] in ("Complete", "Failed")), None
    )


def test_job_controller_counts_outcomes(outcomes: ControlPlane) -> None:
    names = ("completes", "fails", "restarts")
    ended = outcomes.wait_for(
        lambda: (found := [_condition(outcomes, name) for name in names]) and all(found) and found, "the jobs"
    )
    assert ended == ["Complete CompletionsReached", "Failed BackoffLimitExceeded", "Failed BackoffLimitExceeded"]


def _pods_of(plane: ControlPlane, job: str) -> list[Object]:
    items: list[Object] = plane.get("pods", "-n", NAMESPACE, "-l", f"job-name={job}")["items"]
    return items


def _running_pod_of(plane: ControlPlane, job: str, but: str = "") -> str:
    def running() -> str | None:
        pods = [pod for pod in _pods_of(plane, job) if pod["status"]["phase"] == "Running"]
        return next((name for pod in pods if (name := pod["metadata"]["name"]) != but), None)

    name: str = plane.wait_for(running, f"a running pod of {job}")
    return name


def test_job_replaces_an_evicted_pod_and_counts_a_deleted_one(outcomes: ControlPlane) -> None:
    evicted, deleted = _running_pod_of(outcomes, "evicted"), _running_pod_of(outcomes, "deleted")
    outcomes.annotate(NAMESPACE, evicted, outcome="evicted")
    outcomes.kubectl("delete", "pod", deleted, "-n", NAMESPACE, "--wait=false")
    outcomes.wait_for(lambda: _condition(outcomes, "deleted"), "the end of the job whose pod was deleted")
    assert _condition(outcomes, "deleted") == "Failed BackoffLimitExceeded"
    _running_pod_of(outcomes, "evicted", but=evicted)
    assert _condition(outcomes, "evicted") is None


def test_deployment_is_available_when_its_pods_are_ready(outcomes: ControlPlane) -> None:
    outcomes.wait_for(lambda: _get(outcomes, "deployment", "serves")["status"].get("readyReplicas") == 2, "readiness")
    outcomes.wait_for(
        lambda: _get(outcomes, "deployment", "unready")["status"].get("unavailableReplicas") == 2, "its own pods"
    )
    assert _get(outcomes, "deployment", "unready")["status"].get("readyReplicas", 0) == 0


def test_termination(outcomes: ControlPlane) -> None:
    start = time.monotonic()
    outcomes.kubectl("delete", "pod", "slow", "stuck", "never-default", "-n", NAMESPACE, "--wait=false")
    outcomes.wait_for(lambda: not _found(outcomes, "pod/never-default"), "the deletion of a pod")
    outcomes.wait_for(lambda: not _found(outcomes, "pod/slow"), "the deletion of a slow pod")
    assert time.monotonic() - start >= 3
    assert _get(outcomes, "pod", "stuck")["status"]["phase"] == "Running"
    outcomes.annotate(NAMESPACE, "stuck", termination=None)
    outcomes.wait_for(lambda: not _found(outcomes, "pod/stuck"), "the deletion of a pod that was stuck")


def _logs(plane: ControlPlane, *arguments: str) -> str:
    return plane.kubectl("logs", "-n", NAMESPACE, *arguments, check=False)


def test_logs(outcomes: ControlPlane, settled: dict[str, Object]) -> None:
    # It may have run over a second's edge, and then it counted one.
    assert _logs(outcomes, "never-complete").splitlines()[0] == "simulated container main: torchrun train.py"
    outcomes.write_log(NAMESPACE, "always-crash", "step 1\nValueError: no", previous=True)
    outcomes.write_log(NAMESPACE, "always-crash", "other container", container="sidecar")
    assert _logs(outcomes, "always-crash", "--previous") == "step 1\nValueError: no\n"
    outcomes.write_log(NAMESPACE, "never-oom", "one\ntwo\nthree")
    assert _logs(outcomes, "never-oom", "--tail=2") == "two\nthree\n"
    assert _logs(outcomes, "never-oom", "--limit-bytes=5") == "one\nt"
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z three\n", _logs(outcomes, "never-oom", "--tail=1", "--timestamps")
    )
    assert _logs(outcomes, "never-oom", "--since-time=2999-01-01T00:00:00Z") == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["never-image-slow"], "is waiting to start: ContainerCreating"),
        (["never-image-not-found"], "is waiting to start: trying and failing to pull image"),
        (["later", "--previous"], 'previous terminated container "main" in pod "later" not found'),
        (["never-gpu-unavailable"], 'container "main" in pod "never-gpu-unavailable" is not available'),
    ],
)
def test_there_is_no_log(outcomes: ControlPlane, settled: dict[str, Object], arguments: list[str], words: str) -> None:
    output = _logs(outcomes, *arguments)
    assert output.startswith("Error from server (BadRequest): ")
    assert words in output


def test_following_a_log_ends_with_the_container(outcomes: ControlPlane) -> None:
    _running(outcomes, "followed")
    outcomes.write_log(NAMESPACE, "followed", "first")
    config = f"--kubeconfig={outcomes.kubeconfig()}"
    command = [str(outcomes.binaries / "kubectl"), config, "logs", "-f", "followed", "-n", NAMESPACE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "first\n"
        outcomes.write_log(NAMESPACE, "followed", "second")
        assert following.stdout.readline() == "second\n"
        outcomes.annotate(NAMESPACE, "followed", outcome="complete")
        assert following.communicate(timeout=60)[0] == ""
        assert following.returncode == 0


def _running(plane: ControlPlane, name: str) -> None:
    plane.wait_for(lambda: _summary(_get(plane, "pod", name))[0] == "Running", name)


def test_exec_and_port_forward(outcomes: ControlPlane) -> None:
    _running(outcomes, "later")
    assert outcomes.kubectl("exec", "later", "-n", NAMESPACE, "--", "echo", "hello") == "hello\n"
    config = f"--kubeconfig={outcomes.kubeconfig()}"
    command = [str(outcomes.binaries / "kubectl"), config, "port-forward", "pod/later", ":80", "-n", NAMESPACE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forwarding:
        assert forwarding.stdout is not None
        address = re.search(r"127\.0\.0\.1:\d+", forwarding.stdout.readline())
        assert address
        page = subprocess.run(["curl", "-s", "-m", "60", f"http://{address[0]}/"], capture_output=True, text=True)
        forwarding.kill()
    assert page.stdout == "a simulated pod\n"


def _may(plane: ControlPlane, user: str, verb: str, resource: str, namespace: str) -> bool:
    return plane.kubectl("auth", "can-i", verb, resource, "-n", namespace, user=user, check=False).strip() == "yes"


@pytest.mark.parametrize(
    ("user", "verb", "resource", "namespace", "allowed"),
    [
        ("admin", "delete", "nodes", "default", True),
        ("alice", "create", "jobs.batch", "team-a", True),
        ("alice", "get", "jobs.batch", "team-b", False),
        ("bob", "create", "jobs.batch", "team-b", True),
        ("reader", "list", "pods", "default", True),
        ("reader", "delete", "pods", "default", False),
        ("nobody", "get", "pods", "default", False),
        ("deployer", "create", "namespaces", "default", True),
        ("deployer", "create", "jobs.batch", "default", True),
        ("deployer", "delete", "nodes", "default", False),
    ],
)
def test_users(plane: ControlPlane, user: str, verb: str, resource: str, namespace: str, allowed: bool) -> None:
    assert _may(plane, user, verb, resource, namespace) == allowed


def test_grant(plane: ControlPlane) -> None:
    plane.grant("nobody", "team-a", [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}])
    everywhere = plane.grant("nobody", None, [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}])
    plane.wait_for(lambda: _may(plane, "nobody", "get", "configmaps", "team-a"), "the rights")
    plane.wait_for(lambda: _may(plane, "nobody", "list", "nodes", "default"), "the rights")
    assert not _may(plane, "nobody", "get", "configmaps", "team-b")
    # Other tests count on it that this user may do nothing.
    plane.kubectl("delete", "clusterrolebinding,clusterrole", everywhere)
    plane.wait_for(lambda: not _may(plane, "nobody", "list", "nodes", "default"), "the rights to have gone")


def test_a_node_that_is_not_ready(plane: ControlPlane) -> None:
    plane.add_node("broken", annotations={"gpuctl.test/ready": "false"})
    try:
        conditions = plane.wait_for(lambda: plane.get("node", "broken")["status"].get("conditions"), "the node")
        assert [(item["type"], item["status"], item["reason"]) for item in conditions] == [
            ("Ready", "False", "KubeletNotReady")
        ]
    finally:
        plane.kubectl("delete", "node", "broken")


def test_programs_stop_stand_still_and_come_back(plane: ControlPlane) -> None:
    """In a control plane of its own: whoever has lost its API server tries again ever more slowly."""
    with ControlPlane(plane.binaries) as own:
        own.pause("kube-apiserver")
        try:
            with pytest.raises(RuntimeError, match="kubectl get nodes"):
                own.kubectl("get", "nodes", "--request-timeout=1s")
        finally:
            own.resume("kube-apiserver")
        own.stop_program("kube-scheduler", kill=True)
        own.restart_api_server(kill=True)
        own.start_program("kube-scheduler")
        assert own.get("namespace", "team-a")["status"]["phase"] == "Active"


def _mentions(directory: Path) -> list[int]:
    """Processes whose command line names a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(directory).encode() in command:
            found.append(int(entry.name))
    return found


def test_sandboxes_run_side_by_side_and_leave_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    """One is stopped with Ctrl-C, the other is killed."""
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent / 'compiler'}"}
    homes = [tmp_path / "one", tmp_path / "two"]
    sandboxes = [
        subprocess.Popen(
            [sys.executable, "-m", "control_plane.sandbox", f"--directory={home}", "--usage-days=1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for home in homes
    ]
    try:
        for home, sandbox in zip(homes, sandboxes, strict=True):
            _check_sandbox(home, sandbox)
        with closing(open_database(str(homes[0] / "usage.db"))) as usage:
            plane.wait_for(lambda: len(usage.hours(1, 0, 2**40)) >= 24, "the day of usage that is made up")
            plane.wait_for(lambda: len(usage.open_capacities(1)) == 4, "the nodes that are there now")
        sandboxes[0].send_signal(signal.SIGINT)
        output, _ = sandboxes[0].communicate(timeout=60)
        assert output == "\nsandbox: stopped, everything is removed\n"
        assert sandboxes[0].returncode == 130
        assert not homes[0].exists()
        assert len(_mentions(homes[1])) >= 6
        sandboxes[1].kill()
        sandboxes[1].communicate(timeout=60)
        plane.wait_for(lambda: not _mentions(homes[1]), "the end of what a killed sandbox ran")
        assert _mentions(homes[0]) == []
    finally:
        for sandbox in sandboxes:
            sandbox.kill()
            sandbox.wait()


def _check_sandbox(home: Path, sandbox: subprocess.Popen[str]) -> None:
    assert sandbox.stdout is not None
    lines = []
    for line in sandbox.stdout:
        lines.append(line.rstrip("\n"))
        if line.startswith("Ctrl-C here"):
            break
    text = "\n".join(lines)
    assert f"export KUBECONFIG={home / 'kubeconfig'}" in text, text
    assert f"export GPUCTL_SERVER_USAGE_DATABASE={home / 'usage.db'}" in text, text
    assert (home / "kubeconfig").stat().st_mode & 0o777 == 0o600
    kubectl = [str(home / "bin" / "kubectl"), f"--kubeconfig={home / 'kubeconfig'}", f"--cache-dir={home / 'cache'}"]
    nodes = subprocess.run([*kubectl, "get", "nodes", "-o", "json"], capture_output=True, text=True, check=True)
    pools = {
        item["metadata"]["name"]: item["metadata"]["labels"].get("runwhere.ai/pool")
        for item in json.loads(nodes.stdout)["items"]
    }
    assert pools == {
        "gpu-1": "training-pool",
        "gpu-2": "training-pool",
        "gpu-3": "serving-pool",
        "gpu-4": None,
        "cpu-1": None,
    }
