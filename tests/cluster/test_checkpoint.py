"""Checkpoints: running pods save their progress before gpuctl ends them. If a checkpoint fails, nothing ends without
the user's consent.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from control_plane import ControlPlane
from control_plane.streams import Streams
from control_plane.users import Rule
from gpuctl.apply.run import journal as journals
from gpuctl.apply.run import unfinished_runs
from gpuctl.apply.run.journal_entries import JournalEntry
from gpuctl.kube.configuration import open_session
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.recreated_objects import recreatable
from support.cluster_tools import DOMAIN, Document, Place, compute, image, inference, notebook, outcome, training
from support.command import Start, on_a_terminal

KEYS = records(Settings())
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHECKPOINT = f"{DOMAIN}/checkpoint"


@pytest.fixture
def streams(plane: ControlPlane) -> Streams:
    return plane.start_streams()


class Disk:
    """The file to which each checkpoint of the simulated pods appends its pod."""

    def __init__(self, directory: Path, streams: Streams) -> None:
        self.file = directory / "saved"
        self.file.touch()
        self.gate = directory / "gate"
        self.streams = streams
        self.programs = directory / "programs"
        self.programs.mkdir()

    def script(self, then: str = "exit 0") -> list[str]:
        """Return a command that saves and then runs `then`."""
        return ["sh", "-c", f"echo $POD/$CONTAINER >> {self.file}; {then}"]

    def job(self, then: str = "exit 0", **more: Any) -> dict[str, Any]:
        """Return a `job` block with that checkpoint."""
        return {"checkpoint": {"command": self.script(then), **more}}

    def program(self, name: str, namespace: str, pod: str) -> None:
        """Give a pod a single program, which records its arguments."""
        directory = self.programs / pod
        directory.mkdir()
        script = directory / name
        script.write_text(f'#!/bin/sh\necho {name} "$@" >> {self.file}\n')
        script.chmod(0o755)
        self.streams.equip(namespace, pod, directory)

    @property
    def saved(self) -> list[str]:
        """Containers whose checkpoints ran, one entry per run, in order."""
        return self.file.read_text().splitlines()


@pytest.fixture
def disk(tmp_path: Path, streams: Streams) -> Disk:
    return Disk(tmp_path, streams)


def test_checkpoint_runs_once_in_each_pod_before_a_replacement(place: Place, disk: Disk) -> None:
    """The plan shows the checkpoint; the new object exists afterwards."""
    place.apply(training(job=disk.job(), resources={"nodes": 2}))
    pods = sorted(place.running("train", pods=2))
    uid = place.uid("Job", "train")
    changed = training(job=disk.job(), resources={"nodes": 2}, environment=image("v2"))
    plan = place.plan(changed).value
    (step,) = [step for step in plan["steps"] if step["kind"] == "Job"]
    assert step["checkpoint"].startswith("sh -c 'echo $POD"), step
    assert step["checkpoint"].endswith("(at most 2m)")
    assert disk.saved == []
    refused = place.apply(changed, code=2)
    assert "its progress since its checkpoint is lost; checkpoint runs before: sh -c" in refused.err
    assert disk.saved == []
    done = place.apply(changed, flags=("--yes",))
    assert sorted(disk.saved) == [f"{place.namespace}/{pod}/main" for pod in pods]
    assert f"checkpoint of training/train in {place.namespace} has run in 2 pods\n" in done.err
    assert place.uid("Job", "train") != uid


def test_failed_checkpoint_ends_nothing(place: Place, disk: Disk) -> None:
    """After a non-zero exit code --yes is not enough: only --without-checkpoint ends the job."""
    place.apply(training(job=disk.job("echo step 17; echo disk full >&2; exit 3")), inference("other"))
    (pod,) = place.running("train")
    place.running("other")
    before = place.records()
    changed = training(environment=image("v2"))
    for arguments in (("apply", "-f", place.file(changed), "--yes"), ("delete", "job", "train", "--yes")):
        failed = place.gpuctl(*arguments, code=1)
        told = f"checkpoint of training/train in {place.namespace} failed in pod {pod}: exit code 3: disk full\n"
        assert f"error: {told}  = nothing was ended; with --without-checkpoint" in failed.err
    assert {name: obj for name, obj in place.records().items() if "Lease" not in name} == before
    assert len(disk.saved) == 2
    place.gpuctl("delete", "job", "train", "--yes", "--without-checkpoint")
    assert len(disk.saved) == 2
    assert not place.exists("Job", "train")


@pytest.mark.slow
def test_checkpoint_failure_shows_the_redacted_end_of_its_output(place: Place, disk: Disk) -> None:
    """Credentials and control characters are masked. For an image without the program the message names the program."""
    secret = "ghp_" + "a1B2" * 9
    noisy = f"seq 100000; printf 'token {secret} \\033[2Jat the end\\n' >&2; exit 1"
    place.apply(training(job=disk.job(noisy)), training("bare", job={"checkpoint": {"command": ["python", "save.py"]}}))
    (pod, bare) = place.running("train", "bare")
    disk.streams.equip(place.namespace, bare, disk.programs)
    failed = place.gpuctl("delete", "job", "train", "bare", "--yes", code=1).err
    assert f"failed in pod {pod}: exit code 1: token {'*' * len(secret)} \\x1b[2Jat the end\n" in failed
    assert f"failed in pod {bare}: the container cannot run python: executable file not found in $PATH; " in failed


@pytest.mark.slow
def test_failed_checkpoint_asks_whether_to_lose_progress(place: Place, disk: Disk) -> None:
    """On a terminal the question follows the plan's confirmation, even with --yes."""
    place.apply(training(job=disk.job("exit 3")))
    place.running("train")
    command = ("delete", "job", "train", "-n", place.namespace, "--yes")
    code, shown = on_a_terminal(*command, answer="n")
    assert code == 1, shown
    assert "exit code 3\nContinue and lose progress? [y/N]: " in shown
    assert place.exists("Job", "train")
    code, shown = on_a_terminal("pause", "train", "-n", place.namespace, answer="n")
    assert (code, place.get("Job", "train")["spec"]["suspend"]) == (1, False), shown
    code, shown = on_a_terminal(*command, answer="y")
    assert code == 0, shown
    assert (len(disk.saved), place.exists("Job", "train")) == (3, False)


@pytest.mark.slow
def test_checkpoint_that_exceeds_its_timeout_fails(place: Place, disk: Disk) -> None:
    place.apply(training(job=disk.job("sleep 60", timeout="1s")))
    (pod,) = place.running("train")
    failed = place.gpuctl("pause", "train", code=1)
    assert f"failed in pod {pod}: it has not ended within 1s\n" in failed.err
    assert place.get("Job", "train")["spec"]["suspend"] is False


@pytest.mark.slow
def test_checkpoints_of_all_pods_run_in_parallel(place: Place, disk: Disk) -> None:
    """The checkpoint waits for all processes of the training, so checkpoints that ran in sequence would time out."""
    together = f"while [ $(wc -l < {disk.file}) -lt 12 ]; do sleep 0.1; done"
    place.apply(training(job=disk.job(together, timeout="90s"), resources={"nodes": 12}))
    place.running("train", pods=12)
    place.gpuctl("delete", "job", "train")
    assert len(set(disk.saved)) == 12


@pytest.mark.slow
def test_pending_and_finished_pods_run_no_checkpoint(place: Place, disk: Disk) -> None:
    waits = training("waits", job=disk.job("exit 1"), resources={"gpu-type": "none-such"})
    over = training("over", job={**disk.job("exit 1"), **outcome("complete")})
    place.apply(waits, over)
    place.ended("over")
    place.gpuctl("delete", "job", "waits", "over")
    assert disk.saved == []


@pytest.mark.slow
def test_checkpoint_runs_for_every_kind_and_every_command_that_ends_pods(place: Place, disk: Disk) -> None:
    """Prune, pause, delete with a file, replacement and rolling replacement."""
    service = {"replicas": 2}
    documents = [
        training(job=disk.job()),
        training("other", job=disk.job()),
        inference(job=disk.job(), service=service),
        notebook(job=disk.job()),
        compute(job=disk.job()),
    ]
    place.apply(*documents, flags=("--set", "all"))
    names = {"train": 1, "other": 1, "serve": 2, "note": 1, "comp": 1}
    pods = {name: sorted(place.running(name, pods=number)) for name, number in names.items()}

    def saved(*names: str) -> list[str]:
        return sorted(f"{place.namespace}/{pod}/main" for name in names for pod in pods[name])

    place.gpuctl("pause", "train", "comp")
    assert sorted(disk.saved) == saved("train", "comp")
    # Paused and deleted jobs have nothing to save.
    place.until(lambda: not place.pods("train") | place.pods("comp"), "the pods to go")
    place.gpuctl("pause", "train", "comp")
    place.apply(*documents[1:], flags=("--set", "all", "--prune", "--yes"))
    assert sorted(disk.saved) == saved("train", "comp")
    place.apply(*documents[2:], flags=("--set", "all", "--prune", "--yes"))
    assert sorted(disk.saved) == saved("train", "comp", "other")
    changed = inference(job=disk.job(), service=service, environment=image("v2"))
    place.apply(changed, flags=("--strategy", "rolling", "--yes"))
    assert sorted(disk.saved) == saved("train", "comp", "other", "serve")
    place.gpuctl("delete", "-f", place.file(notebook()), "--yes")
    assert sorted(disk.saved) == saved("train", "comp", "other", "serve", "note")


@pytest.mark.slow
def test_checkpoint_of_the_live_object_is_run(place: Place, disk: Disk) -> None:
    """Adding, changing or removing a checkpoint keeps running pods. The checkpoint of the live object is the one that
    runs.
    """
    place.apply(training(), inference(job=disk.job("echo old")))
    place.running("train", "serve")

    def there() -> dict[str, str]:
        return {**place.uids(), **place.pods("train"), **place.pods("serve")}

    before = there()
    with_one = training(job=disk.job()), inference(job=disk.job("echo new"))
    assert place.plan(*with_one).actions == {
        "Job/train": "update",
        "Deployment/serve": "update",
        "Service/svc-serve": "unchanged",
    }
    place.apply(*with_one)
    assert there() == before
    assert set(place.plan(*with_one).actions.values()) == {"unchanged"}
    assert "echo new" in place.get("Deployment", "serve")["metadata"]["annotations"][CHECKPOINT]
    place.apply(training(), inference(job=disk.job("echo new")))
    assert there() == before
    assert CHECKPOINT not in place.get("Job", "train")["metadata"]["annotations"]
    assert disk.saved == []
    # The document adds a checkpoint and also replaces the job: the running pods do not have the new checkpoint.
    newest = training(job=disk.job("exit 1"), environment=image("v2")), inference(environment=image("v2"))
    plan = place.plan(*newest)
    assert {step["name"]: step["checkpoint"] for step in plan.value["steps"] if step["action"] == "replace"} == {
        "train": None,
        "serve": f"sh -c 'echo $POD/$CONTAINER >> {disk.file}; echo new' (at most 2m)",
    }
    (serving,) = place.pods("serve")
    place.apply(*newest, flags=("--yes",))
    assert disk.saved == [f"{place.namespace}/{serving}/main"]


@pytest.mark.slow
def test_invalid_checkpoint_annotation_is_a_failed_checkpoint(place: Place, disk: Disk) -> None:
    """Any user who can edit a workload can write the annotation: an invalid value is a failure, and no command is run."""
    place.apply(training())
    (pod,) = place.running("train")
    for text in (
        "no json",
        '{"command": "sh -c id"}',
        '{"signal": "KILL", "timeout": "2m"}',
        '{"command": ["x"], "y": 1}',
    ):
        place.patch("Job", "train", {"metadata": {"annotations": {CHECKPOINT: text}}})
        failed = place.gpuctl("delete", "job", "train", "--yes", code=1)
        assert (
            f"checkpoint of training/train in {place.namespace} failed: its annotation {CHECKPOINT} is invalid"
            in failed.err
        )
        # Commands that only read the annotation succeed.
        place.gpuctl("describe", "job", "train")
    assert place.pods("train").keys() == {pod}


def rules_of(*files: str) -> list[Rule]:
    """Return the rules of the cluster roles in files of deploy/."""
    found: list[Rule] = []
    for file in files:
        roles = [item for item in yaml.safe_load_all((DEPLOY / file).read_text()) if item["kind"] == "ClusterRole"]
        found += [rule for role in roles for rule in role["rules"]]
    return found


def test_checkpoint_needs_the_right_to_exec_in_pods(place: Place, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to run commands in pods the checkpoint fails, and the message names the right. The role in
    service/tokens/checkpoints.yaml is sufficient.
    """
    place.apply(training(job=disk.job()), inference(job=disk.job()))
    place.running("train", "serve")
    place.grant("onlooker", rules_of("service/base/rbac.yaml", "service/tokens/writing.yaml"))
    monkeypatch.setenv("KUBECONFIG", str(place.plane.kubeconfig("onlooker")))
    failed = place.gpuctl("delete", "job", "train", "--yes", code=1)
    assert re.search(r"failed in pod train-\w+: user onlooker may not (get|create) pods/exec in namespace ", failed.err)
    assert (place.exists("Job", "train"), disk.saved) == (True, [])
    place.gpuctl("delete", "job", "train", "--without-checkpoint")
    assert (place.exists("Job", "train"), disk.saved) == (False, [])
    place.grant("onlooker", rules_of("service/tokens/checkpoints.yaml"))
    place.gpuctl("pause", "serve")
    assert len(disk.saved) == 1


@pytest.mark.slow
def test_user_who_may_not_create_secrets_is_warned(place: Place, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to create Secrets a killed command leaves no record of the pods that have saved."""
    place.apply(training(job=disk.job()), inference(job=disk.job()), notebook(job=disk.job()))
    place.running("train", "serve", "note")
    rules = rules_of("service/base/rbac.yaml", "service/tokens/writing.yaml", "service/tokens/checkpoints.yaml")
    place.grant("onlooker", [rule for rule in rules if "secrets" not in rule["resources"]])
    monkeypatch.setenv("KUBECONFIG", str(place.plane.kubeconfig("onlooker")))
    said = (
        f"you may not create Secrets in {place.namespace}, so that finished checkpoints are not recorded: if this run"
    )
    assert place.gpuctl("pause", "serve", "note").err.count(said) == 1
    assert place.gpuctl("delete", "job", "train").err.count(said) == 1
    assert (place.exists("Job", "train"), len(disk.saved)) == (False, 3)


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["complete", "fail"])
def test_pod_failure_during_its_checkpoint_keeps_the_job(place: Place, disk: Disk, start: Start, ends: str) -> None:
    """A pod that completes needs no checkpoint; a pod that fails during its checkpoint has not saved."""
    place.apply(training(job=disk.job(f"while [ ! -e {disk.gate} ]; do sleep 0.1; done; exit 137")))
    (pod,) = place.running("train")
    command = start("delete", "job", "train", "--yes", "-n", place.namespace)
    place.until(lambda: disk.saved, "the checkpoint")
    place.plane.annotate(place.namespace, pod, outcome=ends)
    place.ended("train")
    disk.gate.touch()
    if ends == "complete":
        assert command.end() == 0, command.err
        assert not place.exists("Job", "train")
    else:
        assert command.end() == 1, command.err
        assert (
            f"failed in pod {pod}: its container ended during the checkpoint (exit code 1, Error)"
            in command.err.decode()
        )
        assert place.exists("Job", "train")


@pytest.mark.slow
def test_ctrl_c_during_a_checkpoint_ends_nothing(place: Place, disk: Disk, start: Start) -> None:
    """Nothing was ended, and no lease or journal remains."""
    place.apply(training(job=disk.job("sleep 60")), inference())
    place.running("train", "serve")
    before = place.records()
    changed = place.file(training(environment=image("v2")), inference(environment=image("v2")))
    for arguments in (("apply", "-f", changed, "--yes"), ("delete", "-f", changed, "--yes"), ("pause", "train")):
        ran = len(disk.saved)
        command = start(*arguments, "-n", place.namespace)
        place.until(lambda ran=ran: len(disk.saved) > ran, "the checkpoint")
        command.process.send_signal(signal.SIGINT)
        assert command.end() == 130, command.err
        assert place.records() == before


@pytest.mark.slow
def test_checkpoint_signal_waits_for_timeout_or_container_end(place: Place, disk: Disk, start: Start) -> None:
    """The signal is sent with `kill` or a shell. gpuctl waits until the timeout, or until the container has ended."""
    place.apply(training(job={"checkpoint": {"signal": "USR1", "timeout": "1s"}}, resources={"nodes": 2}))
    first, second = sorted(place.running("train", pods=2))
    for pod, program in ((first, "kill"), (second, "sh")):
        disk.program(program, place.namespace, pod)
    place.gpuctl("pause", "train")
    assert sorted(disk.saved) == ["kill -s USR1 1", "sh -c kill -s USR1 1"]
    serving = inference(job={"checkpoint": {"signal": "HUP", "timeout": "1h"}})
    place.apply(serving)
    (pod,) = place.running("serve")
    disk.program("kill", place.namespace, pod)
    command = start("delete", "job", "serve", "-n", place.namespace)
    place.until(lambda: "kill -s HUP 1" in disk.saved, "the signal")
    place.plane.annotate(place.namespace, pod, outcome="crash")
    assert command.end() == 0, command.err


@pytest.mark.slow
def test_checkpoint_signal_that_cannot_be_sent_fails(place: Place, disk: Disk) -> None:
    """The image has no program, or the container's process is not process 1 (shareProcessNamespace)."""
    own = {"checkpoint": {"signal": "USR1", "timeout": "1s"}}
    place.apply(training(job=own), training("shared", podPatch={"shareProcessNamespace": True}))
    (pod,) = place.running("train")
    (shared,) = place.running("shared")
    # gpuctl rejects a document with both `signal` and shareProcessNamespace.
    text = place.get("Job", "train")["metadata"]["annotations"][CHECKPOINT]
    place.patch("Job", "shared", {"metadata": {"annotations": {CHECKPOINT: text}}})
    disk.streams.equip(place.namespace, pod, disk.programs)
    failed = place.gpuctl("delete", "job", "train", "shared", "--yes", code=1).err
    assert (
        f"failed in pod {pod}: the signal needs `kill` or `sh` in the image (the container cannot run kill: executable "
        "file not found in $PATH): use `checkpoint.command` with a program of the image"
    ) in failed
    assert f"failed in pod {shared}: with shareProcessNamespace process 1 is not the container's: use" in failed
    assert place.names() >= {"Job/train", "Job/shared"}


@pytest.mark.slow
def test_confirmation_names_jobs_whose_checkpoints_are_not_run(place: Place, disk: Disk) -> None:
    """Deleting a namespace ends everything in it, and Kubernetes chooses which replicas end."""
    place.apply(training(job=disk.job()), inference(job=disk.job(), service={"replicas": 2}), training("other"))
    place.running("train", "other")
    place.running("serve", pods=2)
    place.until(lambda: place.get("Deployment", "serve")["status"].get("readyReplicas") == 2, "two replicas")
    asked = place.anywhere("delete", "namespace", place.namespace, code=2).err
    assert re.search(
        r"; checkpoints are not run: the progress of training/train \(running for \w+\), inference/serve ", asked
    )
    assert "other" not in asked.partition("checkpoints are not run")[2]
    fewer = inference(job=disk.job(), service={"replicas": 1})
    asked = place.apply(fewer, code=2).err
    assert "scales inference/serve in" in asked
    assert "ends 1 ready pod, whose checkpoints are not run" in asked
    assert disk.saved == []


def write_journal(place: Place, session: Session, name: str, pods: Iterable[str]) -> None:
    """Write the journal of an apply that was killed right after the checkpoint of a training."""
    live = place.get("Job", name)
    entry = JournalEntry(live["metadata"]["uid"], recreatable(live), recreatable(live), "post", saved=frozenset(pods))
    journals.write(session, [entry], KEYS)


@pytest.mark.slow
def test_checkpoints_recorded_in_a_recent_journal_are_not_repeated(
    place: Place, disk: Disk, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods that have just saved do not save again; the other pods do. All pods save again if the record is old."""
    session = open_session(kubeconfig=str(plane.kubeconfig()))
    names = {"all": 1, "half": 2, "late": 1}

    def documents(tag: str) -> list[Document]:
        return [
            training(name, job=disk.job(), resources={"nodes": number}, environment=image(tag))
            for name, number in names.items()
        ]

    place.apply(*documents("v1"))
    pods = {name: place.running(name, pods=number) for name, number in names.items()}
    first, second = sorted(pods["half"])
    write_journal(place, session, "all", pods["all"].values())
    write_journal(place, session, "half", [pods["half"][second]])
    changed = documents("v2")
    done = place.apply(*changed[:2], flags=("--yes",))
    assert disk.saved == [f"{place.namespace}/{first}/main"]
    assert f"checkpoint of training/all in {place.namespace} has just run, in an interrupted run" in done.err
    write_journal(place, session, "late", pods["late"].values())
    monkeypatch.setattr(unfinished_runs, "RECENT", -60.0)
    place.apply(*changed, flags=("--yes",))
    assert disk.saved[1:] == [f"{place.namespace}/{pod}/main" for pod in pods["late"]]
    session.close()


@pytest.mark.slow
def test_checkpoint_arguments_are_passed_without_a_shell(place: Place, disk: Disk) -> None:
    """Each argument reaches the program unchanged. Pods that only have the job's labels run no checkpoint."""
    odd = ["$(id)", "a b", "; true", "*", "", "损失"]
    place.apply(inference(job={"checkpoint": {"command": ["save", *odd]}}))
    (pod,) = place.running("serve")
    disk.program("save", place.namespace, pod)
    labels = place.get("Deployment", "serve")["spec"]["selector"]["matchLabels"]
    containers = [{"name": "main", "image": "registry.example.com/stray:v1"}]
    stray = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stray", "labels": labels}}
    place.create({**stray, "spec": {"containers": containers}})
    place.until(lambda: place.get("Pod", "stray")["status"].get("phase") == "Running", "the stray pod")
    place.gpuctl("delete", "job", "serve")
    assert disk.saved == [f"save {' '.join(odd)}"]


@pytest.mark.slow
def test_rollback_runs_the_checkpoint(place: Place, disk: Disk) -> None:
    place.apply(training())
    place.apply(training(job=disk.job("exit 3"), environment=image("v2")), flags=("--yes",))
    (pod,) = place.running("train")
    plan = place.gpuctl("rollback", "train", "--dry-run", "-o", "json").value
    assert [step["checkpoint"] is None for step in plan["steps"] if step["kind"] == "Job"] == [False]
    failed = place.gpuctl("rollback", "train", "--yes", code=1)
    assert f"failed in pod {pod}: exit code 3" in failed.err
    place.gpuctl("rollback", "train", "--yes", "--without-checkpoint")
    assert disk.saved == [f"{place.namespace}/{pod}/main"]
    assert place.get("Job", "train")["spec"]["template"]["spec"]["containers"][0]["image"].endswith("training:v1")


@pytest.mark.slow
def test_checkpoint_runs_in_the_pods_of_a_jobset(queue_place: Place, tmp_path: Path) -> None:
    """The pods belong to the JobSet through its Jobs."""
    disk = Disk(tmp_path, queue_place.plane.start_streams())
    queue_place.platform("training: {backend: jobset}")
    queue_place.apply(training(job=disk.job(), resources={"nodes": 2}), flags=("--wait", "--timeout", "60"))
    pods = sorted(queue_place.pods("train"))
    queue_place.gpuctl("pause", "train")
    assert sorted(disk.saved) == [f"{queue_place.namespace}/{pod}/main" for pod in pods]
    queue_place.gpuctl("delete", "job", "train")
    assert len(disk.saved) == 2
