"""The rules of ``gpuctl why`` on what was recorded from a control plane, whole and in part, and on words of others."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuctl.api.job_cause_answers import job_cause, why_answer
from gpuctl.cli.commands.why import lines
from gpuctl.cli.output.paragraphs import wrapped_lines
from gpuctl.cli.output.table import width_of
from gpuctl.language.masking import redact
from gpuctl.objects.durations import rough_duration
from gpuctl.reading.event_rows import of_job
from gpuctl.reading.job_rows import Identity, Job
from gpuctl.reading.why import log_diagnosis as log
from gpuctl.reading.why.containers import failed_image, registry_of
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.explanation import explain
from gpuctl.reading.why.finding import CAUSES
from support.why_records import RECORDED, dump, load

DOCS = Path(__file__).parents[2] / "docs" / "daily.md"
RECORDS = sorted(path.stem for path in RECORDED.glob("*.json"))
NOT_RECORDED = {"image-pull-failed"}
SERVING = ["services", "endpoint_slices", "scaler", "preemptors"]
# What a cause may be taken for by who sees less: always something true.
POORER: dict[str, set[str]] = {
    "events": {"unknown", "starting", "quota-exceeded", "killed", "application-error", "queued", "running"},
    "snapshot": {"node-selector", "taint", "cordoned", "unknown", "gpu-shortage"},
    "logs": {"application-error", "shm-exhausted"},
    "nodes": {"running"},
    "claims": {"claim-missing", "claim-unbound"},
    "services": {"running"},
    "endpoint_slices": {"running"},
    "scaler": {"running"},
}


def recorded(cause: str) -> Evidence:
    """What was seen when a cause was told."""
    return load(RECORDED / f"{cause}.json")[0]


def test_every_cause_has_been_recorded() -> None:
    assert set(RECORDS) == set(CAUSES) - NOT_RECORDED


@pytest.mark.parametrize("cause", RECORDS)
def test_the_cause_is_told_again(cause: str) -> None:
    evidence, told = load(RECORDED / f"{cause}.json")
    answer = explain(evidence)
    assert answer.finding.cause == told == cause
    value = job_cause(answer).as_json()
    assert list(value)[:5] == ["job", "namespace", "kind", "cause", "message"]
    assert set(value) >= {"numbers", "ruledOut", "fix", "evidence", "also"}
    assert json.loads(json.dumps(value)) == value
    assert value["message"] == value["message"].strip()
    assert value["evidence"] or cause in ("starting", "succeeded", "unknown")


@pytest.mark.parametrize("cause", RECORDS)
@pytest.mark.parametrize("width", [40, 80, None])
def test_the_text_fits(cause: str, width: int | None) -> None:
    answer = explain(recorded(cause))
    text = list(lines(why_answer(answer), width=width))
    assert text[0].endswith(cause)
    words = {word for line in text for word in line.split()}
    assert set(answer.finding.message.split()) <= words
    if width is not None:
        # A word is never broken, so that it can be copied.
        assert all(width_of(line) <= width or len(line[2:].split("  ")[-1].split()) == 1 for line in text[1:])


@pytest.mark.parametrize("cause", RECORDS)
@pytest.mark.parametrize(
    "part", ["events", "snapshot", "logs", "nodes", "claims", "quotas", "namespace_pods", *SERVING]
)
def test_who_sees_less_is_never_told_something_wrong(cause: str, part: str) -> None:
    """Each list in turn may not be read: the cause stays, or becomes one that is true of less."""
    nothing: Any = {} if part in ("logs", "nodes", "claims", "preemptors") else None
    answer = explain(replace(recorded(cause), **{part: nothing}))
    assert answer.finding.cause in {cause, *POORER.get(part, ())}


@pytest.mark.parametrize("cause", RECORDS)
def test_who_sees_only_the_job_and_its_pods(cause: str) -> None:
    found = recorded(cause)
    bare = Evidence(found.job, found.keys, found.settings, found.now)
    assert explain(bare).finding.cause in {cause}.union(*POORER.values())


def test_records_are_read_as_they_are_written() -> None:
    evidence, cause = load(RECORDED / "gpu-shortage.json")
    assert dump(evidence, cause) == (RECORDED / "gpu-shortage.json").read_text()


def test_the_documentation_lists_every_cause() -> None:
    text = DOCS.read_text()
    assert [cause for cause in CAUSES if f"`{cause}`" not in text] == []


LOGS = {
    "RuntimeError: CUDA error: out of memory": "cuda-out-of-memory",
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB": "cuda-out-of-memory",
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`": "cuda-out-of-memory",
    "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB": "cuda-out-of-memory",
    "caught CUDA out of memory, halving the batch\nstep 9\nKeyError: 'labels'": "",
    "RuntimeError: DataLoader worker (pid 41) is killed by signal: Bus error. It is possible that dataloader's workers "
    "are out of shared memory. Please try to raise your shared memory limit.": "shm-exhausted",
    "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"
    "Traceback (most recent call last):\nRuntimeError: DataLoader worker (pid(s) 41) exited unexpectedly": "shm-exhausted",
    "RuntimeError: unable to write to file </torch_41_7>: No space left on device (28)": "shm-exhausted",
    "OSError: [Errno 28] No space left on device: '/output/checkpoint-9'": "disk-full",
    "OSError: [Errno 28] No space left on device: '/dev/shm/x'": "shm-exhausted",
    "[rank3]:[E1122] [PG 0 Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41)": "nccl-error",
    "torch.distributed.DistBackendError: NCCL error in: x.cpp:268, unhandled system error": "nccl-error",
    "CUDA out of memory. Tried to allocate 2.00 GiB\nNCCL watchdog timeout": "cuda-out-of-memory",
    "NCCL error: remote process exited\nKeyError: 'x'": "",
    "NCCL INFO Bootstrap : Using eth0": "",
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=41, GPU has fallen off the bus.": "gpu-hardware-error",
    "RuntimeError: CUDA error: uncorrectable ECC error encountered\nValueError: x": "gpu-hardware-error",
    "checking for Xid errors: none\nKeyError: 'x'": "",
    "CUDA error: CUDA driver version is insufficient for CUDA runtime version": "gpu-driver-error",
    "RuntimeError: No CUDA GPUs are available\ncudaGetDeviceCount: no CUDA-capable device is detected": "gpu-driver-error",
    "bus error handler installed\nAssertionError": "",
    "Segmentation fault (core dumped)": "",
    "": "",
}


@pytest.mark.parametrize(("text", "cause"), LOGS.items())
def test_logs(text: str, cause: str) -> None:
    assert log.diagnose(text.splitlines()).cause == cause


def test_the_line_of_a_log_that_tells_most() -> None:
    wrapped = ["ValueError: bad shape", "E0612 x", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"]
    assert log.diagnose(wrapped).line == "ValueError: bad shape"
    assert log.diagnose(["loading", "panic: nil map", "goroutine 1 [running]:"]).line == "panic: nil map"
    assert log.diagnose(["one", "two", ""]).line == "two"
    assert log.diagnose(["\x1b[31mKeyError\x1b[0m: 'x'"]).line.count("\x1b") == 0


@pytest.mark.parametrize(
    "line",
    [
        "OSError: 401 token=hf_abcdefghijkl",
        "ConnectionError: https://user?api_key=tops3cret&x=1",
        'ValueError: {"password": "tops3cret"}',
        "Error: Authorization: Bearer tops3cret",
    ],
)
def test_what_looks_like_a_secret_is_not_shown(line: str) -> None:
    shown = log.printable(line)
    assert "***" in shown
    assert "tops3cret" not in shown
    assert "hf_abc" not in shown


PULLS = {
    "failed to resolve reference: x: not found": "image-not-found",
    "manifest unknown: manifest tagged by v1 is not found": "image-not-found",
    "unexpected status from HEAD request to https://r/v2/x: 403 Forbidden": "image-unauthorised",
    "failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized": "image-unauthorised",
    "unexpected status code 429: toomanyrequests: You have reached your pull rate limit": "image-unreachable",
    "dial tcp 10.0.0.9:443: connect: connection refused": "image-unreachable",
    "tls: failed to verify certificate: x509: certificate signed by unknown authority": "image-unreachable",
    "no match for platform in manifest: not found": "image-platform",
    "failed to extract layer sha256:403401: write /var/x: no space left on device": "image-pull-failed",
    "something that nobody has seen": "image-pull-failed",
}


@pytest.mark.parametrize(("text", "cause"), PULLS.items())
@pytest.mark.parametrize("name", ["registry.example.com/a:v1", "team/not-found-denied:429"])
def test_errors_of_registries(text: str, cause: str, name: str) -> None:
    """The image's own name says nothing, whatever words it is made of."""
    evidence = recorded("image-not-found")
    pod = json.loads(json.dumps(evidence.job.pods[0]))
    pod["spec"]["containers"][0]["image"] = name
    message = (
        f'Back-off pulling image "{name}": ErrImagePull: failed to pull and unpack image "docker.io/{name}": {text}'
    )
    pod["status"]["containerStatuses"][0]["state"]["waiting"] = {"reason": "ImagePullBackOff", "message": message}
    found = failed_image(replace(evidence, job=replace(evidence.job, pods=[pod]), events=[]))
    assert found is not None
    assert found.cause == cause


def test_registries() -> None:
    assert registry_of("busybox:1") == "docker.io"
    assert registry_of("team/app") == "docker.io"
    assert registry_of("localhost/app") == "localhost"
    assert registry_of("10.0.0.1:5000/app@sha256:00") == "10.0.0.1:5000"


def test_durations() -> None:
    assert [rough_duration(seconds) for seconds in (-1, 59.9, 90, 120, 3600, 90000, 172800)] == [
        *("0s", "59s", "90s", "2m", "1h", "25h", "2d")
    ]


def test_lines_break_between_wide_characters() -> None:
    text = "描述：通义千问二点五七十二亿参数全量微调 on a100-80g-very-long-name"
    found = list(wrapped_lines(text, 20))
    assert all(width_of(line) <= 20 or " " not in line for line in found)
    assert "".join(found).replace(" ", "") == text.replace(" ", "")
    assert "a100-80g-very-long-name" in found


def test_events_of_a_job_whose_name_goes_on_with_a_number_are_not_this_ones() -> None:
    def event(name: str) -> dict[str, Any]:
        about = {"kind": "Pod", "namespace": "n", "name": name}
        return {"involvedObject": about, "metadata": {}, "lastTimestamp": "2026-01-01T00:00:01Z"}

    def found(spec: dict[str, Any]) -> list[str]:
        workload = {"kind": "Job", "metadata": {"name": "train", "namespace": "n"}, "spec": spec}
        events = [event(name) for name in ("train-abcde", "train-2-abcde", "training-abcde")]
        job = Job(Identity("n", "train", "training"), workload)
        return [
            item["involvedObject"]["name"] for item in of_job(events, job.identity.namespace, job.workload, job.pods)
        ]

    assert found({}) == ["train-abcde"]
    assert found({"completionMode": "Indexed"}) == ["train-2-abcde"]


@pytest.mark.parametrize("cause", RECORDS)
def test_commands_stand_between_backquotes_and_name_what_there_is(cause: str) -> None:
    """So that tests find and run them (tests/cluster/test_why.py), and people copy them."""
    answer = explain(recorded(cause))
    for fix in (answer.finding.fix, *(item.fix for item in answer.also)):
        rest = re.sub(r"`[^`]*`", "", fix or "")
        assert "kubectl " not in rest
        assert "gpuctl " not in rest
        for command in re.findall(r"`((?:gpuctl|kubectl) [^`]*)`", fix or ""):
            assert not {"NODE", "NAME", "NUMBER", "KEY"} & set(shlex.split(command))


@pytest.mark.parametrize("cause", RECORDS)
def test_no_mask_changes_a_fix(cause: str) -> None:
    """In the text, in JSON (the command's, `describe job`'s and REST's are made of one value), and in a log."""
    answer = explain(recorded(cause))
    fixes = [answer.finding.fix, *(item.fix for item in answer.also)]
    value = why_answer(answer).as_json()
    assert [value["fix"], *(item["fix"] for item in value["also"])] == fixes
    assert (answer.finding.fix or "") in " ".join(" ".join(lines(why_answer(answer))).split())
    assert [redact(fix or "") for fix in fixes] == [fix or "" for fix in fixes]


@pytest.mark.parametrize("kind", ["secret", "configmap"])
def test_the_command_that_makes_a_missing_secret(kind: str) -> None:
    """It has the keys that the variables use, and stays whole whatever they are called."""
    evidence = recorded("config-missing")
    (pod,) = json.loads(json.dumps(evidence.job.pods))
    field = {"secret": "secretKeyRef", "configmap": "configMapKeyRef"}[kind]
    container = pod["spec"]["containers"][0]
    keys = ("token", "api-key", "token")
    container["env"] = [
        {"name": f"V{number}", "valueFrom": {field: {"name": "hf", "key": key}}} for number, key in enumerate(keys)
    ]
    reason = {"reason": "CreateContainerConfigError", "message": f'{kind} "hf" not found'}
    pod["status"]["containerStatuses"][0]["state"] = {"waiting": reason}
    answer = explain(replace(evidence, job=replace(evidence.job, pods=[pod])))
    create = {"secret": "secret generic", "configmap": "configmap"}[kind]
    namespace = evidence.job.identity.namespace
    command = f"`kubectl create {create} hf -n {namespace} --from-literal=token=... --from-literal=api-key=...`"
    for fix in (answer.finding.fix, why_answer(answer).as_json()["fix"], redact(answer.finding.fix or "")):
        assert fix is not None
        assert fix.startswith(command)


def changed(evidence: Evidence, **status: Any) -> Evidence:
    """The same with parts of the first pod's status replaced."""
    pods = json.loads(json.dumps(evidence.job.pods))
    pods[0]["status"].update(status)
    return replace(evidence, job=replace(evidence.job, pods=pods))


def test_what_has_a_cause_is_not_ruled_out() -> None:
    """A sidecar that has started says nothing of the container whose image is missing."""
    found = recorded("image-not-found")
    held = found.job.pods[0]["status"]["containerStatuses"][0]
    sidecar = {"name": "sidecar", "ready": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    answer = explain(changed(found, containerStatuses=[sidecar, held]))
    assert answer.finding.cause == "image-not-found"
    assert [item for item in answer.ruled_out if "image" in item] == []


def test_a_command_is_never_made_of_the_words_of_an_event() -> None:
    found = recorded("priority-class-missing")
    name = "no PriorityClass with name x;reboot was found"
    events = json.loads(json.dumps(found.events))
    for event in events:
        event["message"] = f"Error creating: pods is forbidden: {name}"
    workload = json.loads(json.dumps(found.job.workload))
    for item in workload["status"].get("conditions") or []:
        item["message"] = name
    answer = explain(replace(found, events=events, job=replace(found.job, workload=workload)))
    assert answer.finding.cause == "admission-refused"
    assert "reboot" not in str(answer.finding.fix)


def test_a_quota_that_is_not_there_refuses_nothing() -> None:
    """An event may name any."""
    found = recorded("quota-exceeded")
    assert found.quotas
    workload, events = (
        json.loads(json.dumps(item).replace("quota: team", "quota: forged"))
        for item in (found.job.workload, found.events)
    )
    answer = explain(replace(found, events=events, job=replace(found.job, workload=workload)))
    assert answer.finding.cause == "admission-refused"


NO_DRIVER = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to "
    "start container process: error during container init: error running prestart hook #0: exit status 1, stderr: "
    "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown"
)


def test_a_container_runtime_without_a_driver() -> None:
    found = recorded("config-invalid")
    (held,) = found.job.pods[0]["status"]["containerStatuses"]
    waiting = {"waiting": {"reason": "RunContainerError", "message": NO_DRIVER}}
    answer = explain(changed(found, containerStatuses=[{**held, "state": waiting}]))
    assert answer.finding.cause == "gpu-driver-error"
    assert "driver not loaded" in answer.finding.message
    started = recorded("command-not-found")
    (ended,) = started.job.pods[0]["status"]["containerStatuses"]
    for field in ("state", "lastState"):
        if "terminated" in ended.get(field, {}):
            ended[field]["terminated"].update(reason="StartError", message=NO_DRIVER)
    assert explain(changed(started, containerStatuses=[ended])).finding.cause == "gpu-driver-error"


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x0c"])
def test_what_is_no_end_of_a_line_is_a_part_of_it(mark: str) -> None:
    """Python's splitlines would leave a half of what the program said; a progress bar before it is no part of it."""
    found = recorded("application-error")
    (ended,) = found.job.pods[0]["status"]["containerStatuses"]
    for field in ("state", "lastState"):
        if "terminated" in ended.get(field, {}):
            ended[field]["terminated"]["message"] = f"90%\r100%\rValueError: no such{mark}token\r\n"
    said = explain(replace(changed(found, containerStatuses=[ended]), logs={})).finding.message
    assert "ValueError: no such" in said
    assert "token" in said.partition("ValueError: no such")[2]
    assert "100%" not in said


def test_of_ranks_the_one_that_ended_first_counts() -> None:
    """The others lose their connection to it, and say so."""
    found = recorded("application-error")
    workload = json.loads(json.dumps(found.job.workload))
    workload["spec"].update(parallelism=2, completions=2)
    first, second = (json.loads(json.dumps(found.job.pods[0])) for _ in range(2))
    second["metadata"].update(name="rank-1", uid="1")
    for pod, at in ((first, "2026-01-01T00:00:01Z"), (second, "2026-01-01T00:00:09Z")):
        pod["status"]["containerStatuses"][0]["state"] = {
            "terminated": {"exitCode": 1, "reason": "Error", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": at}
        }
    container = first["status"]["containerStatuses"][0]["name"]
    lost, own = ["NCCL error in: x.cpp:1, remote process exited"], ["ValueError: no samples left"]

    def told(first_log: list[str], second_log: list[str]) -> tuple[str, str | None]:
        logs = {(first["metadata"]["name"], container): first_log, ("rank-1", container): second_log}
        job = replace(found.job, workload=workload, pods=[first, second])
        finding = explain(replace(found, job=job, logs=logs)).finding
        return finding.cause, finding.pod

    assert told(own, lost) == ("application-error", first["metadata"]["name"])
    assert told(lost, own) == ("nccl-error", first["metadata"]["name"])
    assert told(lost, lost) == ("nccl-error", first["metadata"]["name"])


def test_a_pod_that_was_refused_is_history_when_another_has_taken_its_place() -> None:
    found, held = recorded("node-refused"), recorded("image-not-found").job.pods[0]
    workload = json.loads(json.dumps(found.job.workload))
    workload["status"].pop("conditions", None)
    job = replace(found.job, workload=workload, pods=[*found.job.pods, held])
    assert explain(replace(found, job=job)).finding.cause == "image-not-found"


def test_a_node_that_ran_short_is_told_from_a_limit_of_the_pod() -> None:
    found = recorded("evicted")
    limits = {
        "Pod ephemeral local storage usage exceeds the total limit of containers 10Gi. ": "`podPatch`",
        'Container main exceeded its local ephemeral storage limit "10Gi". ': "`podPatch`",
        'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ': "the sizeLimit of the volume scratch above 1Gi",
        "The node was low on resource: pids. Threshold quantity: 10, available: 3. ": "administrators",
    }
    for message, fix in limits.items():
        assert fix in str(explain(changed(found, message=message)).finding.fix)


def test_an_eviction_is_history_when_another_pod_has_taken_its_place() -> None:
    """What keeps the new pod comes first; pods of a Deployment that were evicted stay for days."""
    found, held = recorded("evicted"), recorded("image-not-found").job.pods[0]
    workload = json.loads(json.dumps(found.job.workload))
    workload["status"].pop("conditions", None)
    answer = explain(replace(found, job=replace(found.job, workload=workload, pods=[*found.job.pods, held])))
    assert answer.finding.cause == "image-not-found"
    assert [item.cause for item in answer.also] == ["evicted"]
    crashed = recorded("application-error").job.pods[0]
    answer = explain(replace(found, job=replace(found.job, workload=workload, pods=[*found.job.pods, crashed])))
    assert answer.finding.cause == "application-error"
