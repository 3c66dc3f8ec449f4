"""The rules of ``gpuctl why``, on evidence recorded from a control plane (complete and in part) and on forged texts."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from translations import ENGLISH

from gpuctl.api.job_cause_answers import job_cause, why_answer
from gpuctl.cli.commands.why import lines
from gpuctl.cli.output.paragraphs import wrapped_lines
from gpuctl.cli.output.table import width_of
from gpuctl.language.masking import redact
from gpuctl.language.sentences import Translation, say, set_translation
from gpuctl.language.translation_files import chinese_sentences
from gpuctl.objects.durations import rough_duration
from gpuctl.objects.role_jobs import REPLICATED_JOB_LABEL
from gpuctl.objects.timestamps import format_timestamp
from gpuctl.reading.jobs.events_of_jobs import of_job
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.why import log_diagnosis as log
from gpuctl.reading.why.container_exits import has_ended_container
from gpuctl.reading.why.crashes import INDEX
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.explanation import explain
from gpuctl.reading.why.finding import CAUSES
from gpuctl.reading.why.image_pulls import failed_image, registry_of
from support.why_records import RECORDED, load

DOCS = Path(__file__).parents[2] / "docs" / "daily.md"
RECORDS = sorted(path.stem for path in RECORDED.glob("*.json"))
NOT_RECORDED = {"image-pull-failed"}
SERVING = ["services", "endpoint_slices", "scaler", "preemptors"]
# Causes that are allowed if a part of the evidence cannot be read: each is true, but less specific.
CAUSES_WITH_LESS_EVIDENCE: dict[str, set[str]] = {
    "events": {"unknown", "starting", "quota-exceeded", "killed", "application-error", "queued", "running"},
    "snapshot": {"node-selector", "taint", "cordoned", "unknown", "gpu-shortage"},
    "logs": {"application-error", "shm-exhausted"},
    "nodes": {"running"},
    "claims": {"claim-missing", "claim-unbound"},
    "services": {"running"},
    "endpoint_slices": {"running"},
    "scaler": {"running"},
}


def recorded_evidence(cause: str) -> Evidence:
    """Return the recorded evidence of a cause."""
    return load(RECORDED / f"{cause}.json")[0]


def test_every_cause_has_been_recorded() -> None:
    assert set(RECORDS) == set(CAUSES) - NOT_RECORDED


@pytest.mark.parametrize("cause", RECORDS)
def test_recorded_evidence_gives_the_recorded_cause(cause: str) -> None:
    evidence, told = load(RECORDED / f"{cause}.json")
    answer = explain(evidence)
    assert answer.finding.cause == told == cause
    value = job_cause(answer).as_json()
    assert list(value)[:5] == ["job", "namespace", "kind", "cause", "message"]
    assert set(value) >= {"numbers", "ruledOut", "fix", "evidence", "also"}
    assert json.loads(json.dumps(value)) == value
    assert value["message"] == value["message"].strip()
    assert value["evidence"] or cause in ("starting", "succeeded", "unknown")


@pytest.fixture
def chinese() -> Iterator[Translation]:
    """A request of a client that prefers Chinese."""
    translation = Translation(chinese_sentences())
    set_translation(translation)
    yield translation
    set_translation(None)


def commands_in(text: str) -> list[str]:
    """Return what is in backquotes."""
    return sorted(re.findall("`[^`]+`", text))


@pytest.mark.parametrize("cause", RECORDS)
def test_recorded_cause_and_its_fix_are_chinese_on_request(cause: str, chinese: Translation) -> None:
    evidence = recorded_evidence(cause)
    found = explain(evidence)
    set_translation(None)
    english = explain(evidence)
    assert found.finding.numbers.keys() == english.finding.numbers.keys()
    assert [(one.kind, one.about, one.at) for one in found.finding.sources] == [
        (one.kind, re.sub(r"(.+) in (.+)", r"\1（\2）", one.about), one.at) for one in english.finding.sources
    ]
    for one, other in zip(found.finding.sources, english.finding.sources, strict=True):
        # The words of Kubernetes and of programs stay as they are.
        assert one.text == other.text or re.search("[\u4e00-\u9fff]", one.text)
        assert one.text == other.text or one.kind not in ("log", "condition")
    assert re.search("[\u4e00-\u9fff]", found.finding.message)
    for item, other in zip([found.finding, *found.also], [english.finding, *english.also], strict=True):
        assert commands_in(item.fix or "") == commands_in(other.fix or "")
        # What remains of a fix without its commands and names is Chinese.
        assert not ENGLISH.search(re.sub("`[^`]+`|\\S+/\\S+ in \\S+", "", item.fix or ""))
    for text, other in zip(found.ruled_out, english.ruled_out, strict=True):
        assert text != other


def test_sentences_word_numbers_lists_and_spaces_by_language(chinese: Translation) -> None:
    template, values = "it waits for {names:few}{others}", {"others": ""}
    names = [["a"], ["a", "b", "c"], ["a", "b", "c", "d"]]
    assert [say(template, names=each, **values) for each in names] == [
        "它在等待 a",
        "它在等待 a、b、c",
        "它在等待 a、b、c 等 4 个",
    ]
    assert say("{parts:;}", parts=["一", "二"]) == "一；二"
    assert say("wait for {names:or} to end", names=["a", "b"]) == "等待 a 或 b 结束"
    about_nodes = "{prefix}no node of {where} has {which}"
    said = [say(about_nodes, prefix="", where=where, which="标签 a") for where in ("默认资源池", "资源池 p", "p（q）")]
    assert said == [
        "默认资源池中没有节点带有标签 a",
        "资源池 p 中没有节点带有标签 a",
        "p（q）中没有节点带有标签 a",
    ]
    assert [say("free {parts}", parts=part) for part in ("node-1 上的 2 GPU", "全部", "")] == [
        "腾出 node-1 上的 2 GPU",
        "腾出全部",
        "腾出",
    ]
    assert say("{names:few}", names=["p（q）"] * 4) == "p（q）、p（q）、p（q）等 4 个"
    set_translation(None)
    assert [say(template, names=each, **values) for each in names] == [
        "it waits for a",
        "it waits for a, b, c",
        "it waits for a, b, c and 1 more",
    ]
    for number, text in ((1, "1 node has"), (2, "2 nodes have")):
        assert say("{nodes:node} {nodes:has/have}", nodes=number) == text
    assert say("{names:and}; {names:or}; {names}; {names:list}", names=["a", "b", "c"]) == (
        "a and b and c; a or b or c; a, b, c; a, b and c"
    )


@pytest.mark.parametrize("cause", RECORDS)
def test_text_fits_the_terminal_width(cause: str) -> None:
    answer = explain(recorded_evidence(cause))
    for width in (40, 80, None):
        text = list(lines(why_answer(answer), width=width))
        assert text[0].endswith(cause)
        words = {word for line in text for word in line.split()}
        assert set(answer.finding.message.split()) <= words
        if width is not None:
            # A word is never broken, so that it can be copied.
            assert all(width_of(line) <= width or len(line[2:].split("  ")[-1].split()) == 1 for line in text[1:])


@pytest.mark.parametrize("cause", RECORDS)
def test_missing_evidence_gives_the_same_or_a_less_specific_cause(cause: str) -> None:
    """One list at a time cannot be read, then only the job and its pods can."""
    found = recorded_evidence(cause)
    for part in ("events", "snapshot", "logs", "nodes", "claims", "quotas", "namespace_pods", *SERVING):
        nothing: Any = {} if part in ("logs", "nodes", "claims", "preemptors") else None
        answer = explain(replace(found, **{part: nothing}))
        assert answer.finding.cause in {cause, *CAUSES_WITH_LESS_EVIDENCE.get(part, ())}, part
    bare = Evidence(found.job, found.keys, found.settings, found.now)
    assert explain(bare).finding.cause in {cause}.union(*CAUSES_WITH_LESS_EVIDENCE.values())


def test_documentation_lists_every_cause() -> None:
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
def test_log_lines_give_the_expected_cause(text: str, cause: str) -> None:
    assert log.diagnose(text.splitlines()).cause == cause


def test_most_informative_log_line_is_chosen() -> None:
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
        "cannot connect to postgres://user:tops3cret@db/x",
        # The line is cut after 240 characters.
        f"{'x' * 200} postgres://user:tops3cret{'t' * 40}@db/x",
    ],
)
def test_secrets_in_log_lines_are_masked(line: str) -> None:
    shown = log.masked_excerpt(line)
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
def test_registry_errors_give_the_expected_cause(text: str, cause: str, name: str) -> None:
    """The image's own name never affects the cause."""
    evidence = recorded_evidence("image-not-found")
    pod = json.loads(json.dumps(evidence.job.pods[0]))
    pod["spec"]["containers"][0]["image"] = name
    message = (
        f'Back-off pulling image "{name}": ErrImagePull: failed to pull and unpack image "docker.io/{name}": {text}'
    )
    pod["status"]["containerStatuses"][0]["state"]["waiting"] = {"reason": "ImagePullBackOff", "message": message}
    found = failed_image(replace(evidence, job=replace(evidence.job, pods=[pod]), events=[]))
    assert found is not None
    assert found.cause == cause


def test_registry_is_parsed_from_the_image_name() -> None:
    assert registry_of("busybox:1") == "docker.io"
    assert registry_of("team/app") == "docker.io"
    assert registry_of("localhost/app") == "localhost"
    assert registry_of("10.0.0.1:5000/app@sha256:00") == "10.0.0.1:5000"


def test_rough_durations() -> None:
    assert [rough_duration(seconds) for seconds in (-1, 59.9, 90, 120, 3600, 90000, 172800)] == [
        *("0s", "59s", "90s", "2m", "1h", "25h", "2d")
    ]


def test_lines_break_between_wide_characters() -> None:
    text = "描述：通义千问二点五七十二亿参数全量微调 on a100-80g-very-long-name"
    found = list(wrapped_lines(text, 20))
    assert all(width_of(line) <= 20 or " " not in line for line in found)
    assert "".join(found).replace(" ", "") == text.replace(" ", "")
    assert "a100-80g-very-long-name" in found


def test_punctuation_stays_with_its_wide_character() -> None:
    text = "排队：等待配额（另有“训练”在前），请稍候。"
    for width in range(8, 40):
        for line in wrapped_lines(text, width):
            assert line[0] not in "，。、：）”", (width, line)
            assert line[-1] not in "（“", (width, line)


def test_events_of_a_job_with_a_longer_name_are_excluded() -> None:
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
def test_commands_in_fixes_are_quoted_without_placeholders_and_not_redacted(cause: str) -> None:
    """So that tests can find and run them (tests/cluster/test_why.py), and users can copy them from text, from JSON (the
    command, `describe job` and REST share one value), and from a log line.
    """
    answer = explain(recorded_evidence(cause))
    fixes = [answer.finding.fix, *(item.fix for item in answer.also)]
    for fix in fixes:
        rest = re.sub(r"`[^`]*`", "", fix or "")
        assert "kubectl " not in rest
        assert "gpuctl " not in rest
        for command in re.findall(r"`((?:gpuctl|kubectl) [^`]*)`", fix or ""):
            assert not {"NODE", "NAME", "NUMBER", "KEY"} & set(shlex.split(command))
    value = why_answer(answer).as_json()
    assert [value["fix"], *(item["fix"] for item in value["also"])] == fixes
    assert (answer.finding.fix or "") in " ".join(" ".join(lines(why_answer(answer))).split())
    assert [redact(fix or "") for fix in fixes] == [fix or "" for fix in fixes]


@pytest.mark.parametrize("kind", ["secret", "configmap"])
def test_fix_for_a_missing_secret_creates_all_used_keys(kind: str) -> None:
    """The command is not masked, whatever the keys are called."""
    evidence = recorded_evidence("config-missing")
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


def with_pod_status(evidence: Evidence, **status: Any) -> Evidence:
    """Return the evidence with parts of the first pod's status replaced."""
    pods = json.loads(json.dumps(evidence.job.pods))
    pods[0]["status"].update(status)
    return replace(evidence, job=replace(evidence.job, pods=pods))


def test_crash_in_a_role_is_not_hidden_by_another_role() -> None:
    """The pods of each role are numbered from 0."""
    found = recorded_evidence("application-error")
    pods = []
    for name, reason in (("actor", "Error"), ("reward", "Completed")):
        pod = json.loads(json.dumps(found.job.pods[0]))
        pod["metadata"] |= {"name": f"cuda-{name}-0", "uid": name}
        pod["metadata"]["labels"] |= {REPLICATED_JOB_LABEL: name, INDEX: "0"}
        if reason == "Completed":
            pod["status"]["phase"] = "Succeeded"
            pod["status"]["containerStatuses"][0]["state"]["terminated"] |= {"exitCode": 0, "reason": reason}
        pods.append(pod)
    answer = explain(replace(found, job=replace(found.job, pods=pods)))
    assert (answer.finding.cause, answer.finding.pod) == ("application-error", "cuda-actor-0")


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ({}, "unknown"),
        # It waited for GPUs before.
        ({"startTime": 10}, "starting"),
        ({"initContainerStatuses": [{"name": "download", "state": {"running": {}}}]}, "starting"),
        ({"initContainerStatuses": [{"name": "sidecar", "state": {"running": {}}}]}, "unknown"),
    ],
    ids=["in setup for long", "just placed", "its init container runs", "only its sidecar runs"],
)
def test_pod_in_setup_is_starting_while_it_makes_progress(status: dict[str, Any], cause: str) -> None:
    found = recorded_evidence("image-slow")
    pods = json.loads(json.dumps(found.job.pods[:1]))
    pods[0]["spec"]["initContainers"] = [{"name": "download"}, {"name": "sidecar", "restartPolicy": "Always"}]
    ages = {"startTime": 3000, **status}
    pods[0]["status"].update(
        {**status, "startTime": format_timestamp(found.now - timedelta(seconds=ages["startTime"]))}
    )
    pods[0]["metadata"]["creationTimestamp"] = format_timestamp(found.now - timedelta(seconds=3600))
    answer = explain(replace(found, events=[], job=replace(found.job, pods=pods)))
    assert answer.finding.cause == cause


def test_cause_is_not_listed_as_ruled_out() -> None:
    """A running sidecar does not rule out that the main container's image is missing."""
    found = recorded_evidence("image-not-found")
    held = found.job.pods[0]["status"]["containerStatuses"][0]
    sidecar = {"name": "sidecar", "ready": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    answer = explain(with_pod_status(found, containerStatuses=[sidecar, held]))
    assert answer.finding.cause == "image-not-found"
    assert [item for item in answer.ruled_out if "image" in item] == []


def test_fix_contains_no_text_from_event_messages() -> None:
    found = recorded_evidence("priority-class-missing")
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


def test_nonexistent_quota_in_an_event_is_not_the_cause() -> None:
    """The text of an event may name any quota."""
    found = recorded_evidence("quota-exceeded")
    assert found.quotas
    workload, events = (
        json.loads(json.dumps(item).replace("quota: team", "quota: forged"))
        for item in (found.job.workload, found.events)
    )
    answer = explain(replace(found, events=events, job=replace(found.job, workload=workload)))
    assert answer.finding.cause == "admission-refused"


NO_DRIVER = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to "
    "start container process: error during container init: error running prestart hook #0: exit status 1, stderr: "
    "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown"
)


def test_pod_that_claims_devices_requests_a_gpu() -> None:
    """The devices of a claim (DRA) are not among the limits of the container."""
    evidence = recorded_evidence("gpu-not-requested")
    pods = [
        {**pod, "spec": {**pod["spec"], "containers": [_claiming(item) for item in pod["spec"]["containers"]]}}
        for pod in evidence.job.pods
    ]
    found = explain(replace(evidence, job=replace(evidence.job, pods=pods))).finding
    assert (found.cause, found.numbers["gpuResources"]) == ("gpu-driver-error", [])


def _claiming(container: dict[str, Any]) -> dict[str, Any]:
    return {**container, "resources": {**container.get("resources", {}), "claims": [{"name": "gpus"}]}}


def test_claimed_gpus_of_a_pod_with_a_running_sidecar_are_held() -> None:
    evidence = recorded_evidence("sidecar-running")
    for pod in evidence.job.pods:
        for item in pod["spec"]["containers"]:
            item["resources"] = {"claims": [{"name": "gpus"}]}
    claimed = {pod["metadata"]["uid"]: 4 for pod in evidence.job.pods}
    assert all(map(has_ended_container, evidence.job.pods))
    assert not any(map(has_ended_container, recorded_evidence("running").job.pods))
    found = explain(replace(evidence, claimed_gpus=claimed)).finding
    assert ", and holds 4 GPUs" in found.message
    assert (found.cause, found.numbers["gpus"]) == ("sidecar-running", 4)


def test_holders_of_a_scoped_quota_are_in_its_scope() -> None:
    evidence = recorded_evidence("quota-exceeded")
    (quota,) = evidence.quotas or []
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    scoped = {**quota, "spec": {**quota["spec"], "scopeSelector": selector}}
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": "4"}}}
    pods = [
        {
            "kind": "Pod",
            "metadata": {"name": name, "namespace": evidence.job.identity.namespace},
            "spec": {"priorityClassName": name, "containers": [container]},
        }
        for name in ("low", "high")
    ]
    found = explain(replace(evidence, quotas=[scoped], namespace_pods=pods)).finding
    assert (found.cause, found.numbers["heldBy"]) == ("quota-exceeded", [{"job": "pod/high", "amount": "4"}])


def test_runtime_error_without_driver_is_gpu_driver_error() -> None:
    found = recorded_evidence("config-invalid")
    (held,) = found.job.pods[0]["status"]["containerStatuses"]
    waiting = {"waiting": {"reason": "RunContainerError", "message": NO_DRIVER}}
    answer = explain(with_pod_status(found, containerStatuses=[{**held, "state": waiting}]))
    assert answer.finding.cause == "gpu-driver-error"
    assert "driver not loaded" in answer.finding.message
    started = recorded_evidence("command-not-found")
    (ended,) = started.job.pods[0]["status"]["containerStatuses"]
    for field in ("state", "lastState"):
        if "terminated" in ended.get(field, {}):
            ended[field]["terminated"].update(reason="StartError", message=NO_DRIVER)
    assert explain(with_pod_status(started, containerStatuses=[ended])).finding.cause == "gpu-driver-error"


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x0c"])
def test_unicode_line_separators_do_not_split_an_error_message(mark: str) -> None:
    """Python's splitlines would cut the program's message; a progress bar before it is left out."""
    found = recorded_evidence("application-error")
    (ended,) = found.job.pods[0]["status"]["containerStatuses"]
    for field in ("state", "lastState"):
        if "terminated" in ended.get(field, {}):
            ended[field]["terminated"]["message"] = f"90%\r100%\rValueError: no such{mark}token\r\n"
    said = explain(replace(with_pod_status(found, containerStatuses=[ended]), logs={})).finding.message
    assert "ValueError: no such" in said
    assert "token" in said.partition("ValueError: no such")[2]
    assert "100%" not in said


def test_rank_that_failed_first_gives_the_cause() -> None:
    """The other ranks log that they lost the connection to it."""
    found = recorded_evidence("application-error")
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


def test_refused_pod_with_a_replacement_is_not_the_cause() -> None:
    found, held = recorded_evidence("node-refused"), recorded_evidence("image-not-found").job.pods[0]
    workload = json.loads(json.dumps(found.job.workload))
    workload["status"].pop("conditions", None)
    job = replace(found.job, workload=workload, pods=[*found.job.pods, held])
    assert explain(replace(found, job=job)).finding.cause == "image-not-found"


def test_eviction_distinguishes_node_pressure_from_pod_limits() -> None:
    found = recorded_evidence("evicted")
    limits = {
        "Pod ephemeral local storage usage exceeds the total limit of containers 10Gi. ": "`podPatch`",
        'Container main exceeded its local ephemeral storage limit "10Gi". ': "`podPatch`",
        'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ': "the sizeLimit of the volume scratch above 1Gi",
        "The node was low on resource: pids. Threshold quantity: 10, available: 3. ": "administrators",
    }
    for message, fix in limits.items():
        assert fix in str(explain(with_pod_status(found, message=message)).finding.fix)


def test_evicted_pod_with_a_replacement_is_not_the_main_cause() -> None:
    """The cause of the new pod comes first; evicted pods of a Deployment are kept for days."""
    found, held = recorded_evidence("evicted"), recorded_evidence("image-not-found").job.pods[0]
    workload = json.loads(json.dumps(found.job.workload))
    workload["status"].pop("conditions", None)
    answer = explain(replace(found, job=replace(found.job, workload=workload, pods=[*found.job.pods, held])))
    assert answer.finding.cause == "image-not-found"
    assert [item.cause for item in answer.also] == ["evicted"]
    crashed = recorded_evidence("application-error").job.pods[0]
    answer = explain(replace(found, job=replace(found.job, workload=workload, pods=[*found.job.pods, crashed])))
    assert answer.finding.cause == "application-error"


@pytest.mark.parametrize(
    ("volume", "error", "message"),
    [
        (
            {"configMap": {"name": "settings"}},
            "configmap references non-existent config key: run.yaml",
            "the ConfigMap settings has no key run.yaml, which the volume mount-0 mounts",
        ),
        (
            {"secret": {"secretName": "ssh-key"}},
            "references non-existent secret key: id_rsa",
            "the Secret ssh-key has no key id_rsa, which the volume mount-0 mounts",
        ),
        (
            {"configMap": {"name": "settings"}},
            'configmap "settings" not found',
            "there is no ConfigMap settings, which the volume mount-0 mounts",
        ),
    ],
)
def test_mount_without_its_object_or_key_names_both(volume: dict[str, Any], error: str, message: str) -> None:
    evidence = recorded_evidence("mount-failed")
    evidence.pods[0]["spec"]["volumes"] = [{"name": "mount-0", **volume}]
    for event in evidence.events:
        if event["reason"] == "FailedMount":
            event["message"] = f'MountVolume.SetUp failed for volume "mount-0" : {error}'
    finding = explain(evidence).finding
    assert (finding.cause, finding.message) == ("mount-failed", message)


def test_missing_secret_of_env_from_names_the_field() -> None:
    evidence = recorded_evidence("config-missing")
    container = evidence.pods[0]["spec"]["containers"][0]
    container["env"], container["envFrom"] = [], [{"secretRef": {"name": "hf-token"}}]
    finding = explain(evidence).finding
    namespace = evidence.job.identity.namespace
    assert finding.message == f"there is no Secret hf-token in {namespace}, which `environment.envFrom` names"
