"""Checkpoints: what runs saves its progress before gpuctl ends it, and nothing is ended where that fails unless somebody
agrees."""

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
from gpuctl.objects.workload_state import recreatable
from support.cluster_tools import DOMAIN, Document, Place, compute, image, inference, notebook, outcome, training
from support.command import Start, on_a_terminal

KEYS = records(Settings())
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHECKPOINT = f"{DOMAIN}/checkpoint"


@pytest.fixture
def streams(plane: ControlPlane) -> Streams:
    return plane.start_streams()


class Disk:
    """Where the simulated pods save: a file that each checkpoint adds its pod to."""

    def __init__(self, directory: Path, streams: Streams) -> None:
        self.file = directory / "saved"
        self.file.touch()
        self.gate = directory / "gate"
        self.streams = streams
        self.programs = directory / "programs"
        self.programs.mkdir()

    def script(self, then: str = "exit 0") -> list[str]:
        """A command that saves, and then does something."""
        return ["sh", "-c", f"echo $POD/$CONTAINER >> {self.file}; {then}"]

    def job(self, then: str = "exit 0", **more: Any) -> dict[str, Any]:
        """A `job` block with that checkpoint."""
        return {"checkpoint": {"command": self.script(then), **more}}

    def program(self, name: str, namespace: str, pod: str) -> None:
        """Let a pod have one program and no other, which notes how it was called."""
        directory = self.programs / pod
        directory.mkdir()
        script = directory / name
        script.write_text(f'#!/bin/sh\necho {name} "$@" >> {self.file}\n')
        script.chmod(0o755)
        self.streams.equip(namespace, pod, directory)

    @property
    def saved(self) -> list[str]:
        """The containers whose checkpoints ran, and the times that they did, in order."""
        return self.file.read_text().splitlines()


@pytest.fixture
def disk(tmp_path: Path, streams: Streams) -> Disk:
    return Disk(tmp_path, streams)


def test_before_a_replacement(place: Place, disk: Disk) -> None:
    """What runs saves once in each pod, and the plan has said so; the new object is there afterwards."""
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


def test_a_failure_keeps_everything(place: Place, disk: Disk) -> None:
    """A non-zero exit: nothing is ended, whatever --yes confirms, until somebody says that progress may be lost."""
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
def test_what_is_shown_of_a_failure(place: Place, disk: Disk) -> None:
    """The end of what it wrote, without credentials and control characters; of an image without the program, which."""
    secret = "ghp_" + "a1B2" * 9
    noisy = f"seq 100000; printf 'token {secret} \\033[2Jat the end\\n' >&2; exit 1"
    place.apply(training(job=disk.job(noisy)), training("bare", job={"checkpoint": {"command": ["python", "save.py"]}}))
    (pod, bare) = place.running("train", "bare")
    disk.streams.equip(place.namespace, bare, disk.programs)
    failed = place.gpuctl("delete", "job", "train", "bare", "--yes", code=1).err
    assert f"failed in pod {pod}: exit code 1: token {'*' * len(secret)} \\x1b[2Jat the end\n" in failed
    assert f"failed in pod {bare}: the container cannot run python: executable file not found in $PATH; " in failed


@pytest.mark.slow
def test_somebody_is_asked(place: Place, disk: Disk) -> None:
    """On a terminal, after the plan was confirmed, whatever --yes said of that."""
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
def test_its_time(place: Place, disk: Disk) -> None:
    place.apply(training(job=disk.job("sleep 60", timeout="1s")))
    (pod,) = place.running("train")
    failed = place.gpuctl("pause", "train", code=1)
    assert f"failed in pod {pod}: it has not ended within 1s\n" in failed.err
    assert place.get("Job", "train")["spec"]["suspend"] is False


@pytest.mark.slow
def test_all_pods_at_once(place: Place, disk: Disk) -> None:
    """A checkpoint that waits for all processes of the training ends: none waits for another's turn."""
    together = f"while [ $(wc -l < {disk.file}) -lt 12 ]; do sleep 0.1; done"
    place.apply(training(job=disk.job(together, timeout="90s"), resources={"nodes": 12}))
    place.running("train", pods=12)
    place.gpuctl("delete", "job", "train")
    assert len(set(disk.saved)) == 12


@pytest.mark.slow
def test_what_has_not_begun_or_has_ended(place: Place, disk: Disk) -> None:
    """Pods that wait, and those that are over, have nothing to save."""
    waits = training("waits", job=disk.job("exit 1"), resources={"gpu-type": "none-such"})
    over = training("over", job={**disk.job("exit 1"), **outcome("complete")})
    place.apply(waits, over)
    place.ended("over")
    place.gpuctl("delete", "job", "waits", "over")
    assert disk.saved == []


@pytest.mark.slow
def test_every_kind_and_every_way_to_end(place: Place, disk: Disk) -> None:
    """Pruned, paused, deleted with its file, replaced, and replaced pod by pod."""
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
    # What is paused has nothing to save, and what is gone neither.
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
def test_the_live_object_counts(place: Place, disk: Disk) -> None:
    """A document that gets, changes or loses a checkpoint touches nothing that runs; what runs is saved as it says."""
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
    # A new one in a document that also replaces: what runs is older than that.
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
def test_what_the_annotation_may_say(place: Place, disk: Disk) -> None:
    """Whoever can edit a workload writes it: what cannot be one is a failure, and nothing is run."""
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
        # Nor does reading it end in an error.
        place.gpuctl("describe", "job", "train")
    assert place.pods("train").keys() == {pod}


def rules_of(*files: str) -> list[Rule]:
    """What the cluster roles of files in deploy/ allow."""
    found: list[Rule] = []
    for file in files:
        roles = [item for item in yaml.safe_load_all((DEPLOY / file).read_text()) if item["kind"] == "ClusterRole"]
        found += [rule for role in roles for rule in role["rules"]]
    return found


def test_rights(place: Place, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to run commands in pods the checkpoint has failed, and that is said as such. The role that is
    offered for it is enough."""
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
def test_who_may_not_note_it_is_told(place: Place, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to write Secrets nobody knows which pods have saved, should the command be killed."""
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
def test_a_pod_that_ends_meanwhile(place: Place, disk: Disk, start: Start, ends: str) -> None:
    """What has finished needs no checkpoint; what failed was to be saved, and was not."""
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
def test_ctrl_c(place: Place, disk: Disk, start: Start) -> None:
    """In the middle of a checkpoint nothing has been ended, and nothing is left behind."""
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
def test_a_signal(place: Place, disk: Disk, start: Start) -> None:
    """By a program or a shell; gpuctl waits for its time, or until the container has ended."""
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
def test_a_signal_that_cannot_be_sent(place: Place, disk: Disk) -> None:
    """Images without any program, processes that are not the container's first."""
    own = {"checkpoint": {"signal": "USR1", "timeout": "1s"}}
    place.apply(training(job=own), training("shared", podPatch={"shareProcessNamespace": True}))
    (pod,) = place.running("train")
    (shared,) = place.running("shared")
    # gpuctl takes no document that says both.
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
def test_what_runs_none_says_so_before_it_asks(place: Place, disk: Disk) -> None:
    """A namespace goes with all that is in it, and which of the replicas end is Kubernetes' choice."""
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


def journal(place: Place, session: Session, name: str, pods: Iterable[str]) -> None:
    """What an apply that was killed right after the checkpoint of a training has left."""
    live = place.get("Job", name)
    entry = JournalEntry(live["metadata"]["uid"], recreatable(live), recreatable(live), "post", saved=frozenset(pods))
    journals.write(session, [entry], KEYS)


@pytest.mark.slow
def test_what_the_journal_of_a_killed_run_says(
    place: Place, disk: Disk, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pods that have just saved do not save again; others do, and all do when it was long ago."""
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
    journal(place, session, "all", pods["all"].values())
    journal(place, session, "half", [pods["half"][second]])
    changed = documents("v2")
    done = place.apply(*changed[:2], flags=("--yes",))
    assert disk.saved == [f"{place.namespace}/{first}/main"]
    assert f"checkpoint of training/all in {place.namespace} has just run, in an interrupted run" in done.err
    journal(place, session, "late", pods["late"].values())
    monkeypatch.setattr(unfinished_runs, "RECENT", -60.0)
    place.apply(*changed, flags=("--yes",))
    assert disk.saved[1:] == [f"{place.namespace}/{pod}/main" for pod in pods["late"]]
    session.close()


@pytest.mark.slow
def test_it_is_run_as_it_is(place: Place, disk: Disk) -> None:
    """Arguments reach the program one by one, whatever is in them; and pods that only bear the job's labels stay out."""
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
def test_going_back(place: Place, disk: Disk) -> None:
    """What is replaced by an earlier document saves as well."""
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
def test_a_jobset(queue_place: Place, tmp_path: Path) -> None:
    """Its pods belong to it through its Jobs."""
    disk = Disk(tmp_path, queue_place.plane.start_streams())
    queue_place.platform("training: {backend: jobset}")
    queue_place.apply(training(job=disk.job(), resources={"nodes": 2}), flags=("--wait", "--timeout", "60"))
    pods = sorted(queue_place.pods("train"))
    queue_place.gpuctl("pause", "train")
    assert sorted(disk.saved) == [f"{queue_place.namespace}/{pod}/main" for pod in pods]
    queue_place.gpuctl("delete", "job", "train")
    assert len(disk.saved) == 2
