"""The service posts events of jobs (`job.notify`) to the channels of the platform."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from gpuctl.kube.configuration import connect
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Key
from gpuctl_server.notifications.delivery_record import DeliveryRecord
from support.cluster_tools import DOMAIN, Place, training
from support.served import Served, serving
from support.webhook_receiver import Receiver, receiving

ANNOTATION = f"{DOMAIN}/notify"
RECORD = Key("ConfigMap", "gpuctl-system", "gpuctl-notifications")
SECRET = "SEC0123456789abcdef"


def reported(name: str, notify: dict[str, Any], ends: str | None = None, **changes: Any) -> dict[str, Any]:
    """A training with notifications, whose pods have an outcome."""
    document = training(name, **changes)
    document["job"]["notify"] = notify
    if ends is not None:
        document["job"]["annotations"] = {"gpuctl.test/outcome": ends}
    return document


@contextmanager
def channels(directory: Path, receiver: Receiver, place: Place, text: str, **secrets: str) -> Iterator[dict[str, str]]:
    """Write a platform with channels, and secrets: file -> content. Yield settings of a service."""
    place.platform(f"notify: {text}")
    folder = directory / "notify"
    folder.mkdir()
    for name, content in secrets.items():
        (folder / name.replace("__", ".").replace("_", "-")).write_text(content + "\n")
    yield {"platform": str(place.directory / "platform.yaml"), "notify_secrets": str(folder)}


@pytest.fixture(scope="module", autouse=True)
def _system_namespace(plane: ControlPlane) -> Iterator[None]:
    """The namespace of the record, as deploy/ creates it."""
    plane.kubectl("create", "namespace", RECORD.namespace, check=False)
    yield
    plane.kubectl("delete", "configmap", RECORD.name, "-n", RECORD.namespace, "--ignore-not-found")


@contextmanager
def notifying(place: Place, directory: Path, settings: dict[str, str], *names: str) -> Iterator[Served]:
    """Yield a service that reports events from now on."""
    directory.mkdir()
    with serving(directory, place.plane.kubeconfig(), {}, **settings) as served:
        place.until(lambda: names_in_record(place) >= set(names), f"the channels {names}")
        yield served


def names_in_record(place: Place) -> set[str]:
    """The channels that are in use."""
    status, record = place.api.request("GET", RECORD.path)
    return set(json.loads(record["data"]["channels"])) if status == 200 and record.get("data") else set()


def test_events_are_posted_once_by_all_replicas_and_after_a_restart(place: Place, tmp_path: Path) -> None:
    space, names = place.namespace, ("programs", "chat")
    text = "{channels: {programs: {format: json}, chat: {format: dingtalk, language: zh}}, default: [programs, chat]}"
    with receiving() as receiver:
        receiver.always["/robot/send"] = '{"errcode": 0, "errmsg": "ok"}'
        urls = {
            "programs__url": f"{receiver.url}/programs",
            "chat__url": f"{receiver.url}/robot/send?access_token=t0ken",
        }
        with channels(tmp_path, receiver, place, text, **urls, chat__secret=SECRET) as settings:
            with (
                notifying(place, tmp_path / "1", settings, *names) as first,
                notifying(place, tmp_path / "2", settings, *names) as second,
            ):
                place.apply(
                    reported("good", {"done": True, "failed": True}, "complete"),
                    reported("bad", {"done": True, "failed": True}, "fail"),
                    reported("silent", {"done": True}, "fail"),
                )
                receiver.until("/programs", 2)
                receiver.until("/robot/send", 2)
            with notifying(place, tmp_path / "3", settings, *names) as third:
                place.apply(reported("later", {"done": True, "channels": ["programs"]}, "complete"))
                receiver.until("/programs", 3)
            logs = [*first.log, *second.log, *third.log]
        found = {post.body["job"]: post.body for post in receiver.at("/programs")}
        assert sorted(post.body["job"] for post in receiver.at("/programs")) == ["bad", "good", "later"]
        assert found["good"]["event"] == "done"
        assert (found["bad"]["event"], found["bad"]["namespace"], found["bad"]["kind"]) == ("failed", space, "training")
        assert found["bad"]["cause"] == "application-error"
        assert "exit code 1" in found["bad"]["message"]
        chat = sorted(post.body["text"]["content"] for post in receiver.at("/robot/send"))
        assert [text.split("\n")[0] for text in chat] == [
            f"[gpuctl] 训练任务 {space}/bad 已失败",
            f"[gpuctl] 训练任务 {space}/good 已成功",
        ]
        assert "原因：程序在 Pod" in chat[0]
        assert "exited" not in chat[0]
        assert all(post.query.keys() == {"access_token", "timestamp", "sign"} for post in receiver.at("/robot/send"))
        assert not any(secret in line for line in logs for secret in (SECRET, "t0ken", "/programs"))


def test_hanging_and_failing_webhooks_delay_no_other_channel(place: Place, tmp_path: Path) -> None:
    names = ("quick", "hanging", "failing", "absent", "closed")
    text = (
        "{channels: {quick: {format: json}, hanging: {format: json}, failing: {format: slack}, absent: {format: json}, "
        "closed: {format: json, namespaces: [elsewhere]}}, default: [quick]}"
    )
    with receiving() as receiver:
        receiver.hanging.add("/hanging")
        receiver.answers["/failing"] = [(500, f"{receiver.url}/failing", {})]
        urls = {f"{name}__url": f"{receiver.url}/{name}" for name in names if name != "absent"}
        with (
            channels(tmp_path, receiver, place, text, **urls) as settings,
            notifying(place, tmp_path / "1", settings, *names) as served,
        ):
            everywhere = ["hanging", "failing", "absent", "quick"]
            place.apply(reported("first", {"failed": True, "channels": everywhere}, "fail"))
            receiver.until("/hanging")
            receiver.until("/quick")
            (warning,) = served.until_told("could not be reported", '"channel": "failing"')
            assert "status 500" in warning
            assert "/failing" not in warning
            assert len(receiver.at("/failing")) == 1
            served.until_told("channel absent has no address")
            # The owner may write any annotation: a channel of other namespaces is not used.
            place.apply(reported("second", {"done": True}, "complete"))
            receiver.until("/quick", 2)
            notify = json.dumps({"done": True, "channels": ["closed", "nowhere", "quick"]})
            place.apply(training("third"))
            place.running("third")
            place.patch("Job", "third", {"metadata": {"annotations": {ANNOTATION: notify}}})
            (pod,) = place.pods("third")
            place.patch("Pod", pod, {"metadata": {"annotations": {"gpuctl.test/outcome": "complete"}}})
            receiver.until("/quick", 3)
        assert [post.body["job"] for post in receiver.at("/quick")] == ["first", "second", "third"]
        assert receiver.at("/closed") == []


@pytest.mark.slow
def test_job_that_waits_for_long_is_reported_once(place: Place, tmp_path: Path) -> None:
    """The shortest limit is a minute."""
    with receiving() as receiver, channels(
        tmp_path, receiver, place, "{channels: {team: {format: json}}, default: [team]}",
        team__url=f"{receiver.url}/team",
    ) as settings, notifying(place, tmp_path / "1", settings, "team"):  # fmt: skip
        place.apply(
            reported("large", {"waiting": "1m"}, resources={"gpu": 1000}),
            reported("patient", {"waiting": "2h"}, resources={"gpu": 1000}),
            reported("quick", {"waiting": "1m"}),
            code=None,
        )
        place.running("quick")
        (found,) = [post.body for post in receiver.until("/team")]
        assert (found["event"], found["job"], found["cause"]) == ("waiting", "large", "gpu-shortage")
        # A later event shows that no second post came before it.
        place.apply(reported("end", {"done": True}, "complete"))
        receiver.until("/team", 2)
    assert [post.body["job"] for post in receiver.at("/team")] == ["large", "end"]


@pytest.mark.slow
def test_sweeps_and_arrays_are_reported_once(place: Place, tmp_path: Path) -> None:
    with receiving() as receiver, channels(
        tmp_path, receiver, place, "{channels: {team: {format: json}}, default: [team]}",
        team__url=f"{receiver.url}/team",
    ) as settings, notifying(place, tmp_path / "1", settings, "team"):  # fmt: skip
        document = reported("tune", {"done": True, "failed": True}, "fail", sweep={"seed": ["1", "2", "3"]})
        document["environment"]["env"] = {"SEED": "{{sweep.seed}}"}
        array = reported("many", {"done": True, "failed": True}, "complete", array=4)
        place.apply(document, array)
        receiver.until("/team", 2)
    found = {post.body["job"]: post.body for post in receiver.at("/team")}
    assert sorted(post.body["job"] for post in receiver.at("/team")) == ["many", "tune"]
    assert (found["tune"]["event"], found["tune"]["jobs"], found["tune"]["affectedJobs"]) == ("failed", 3, 3)
    assert (found["tune"]["sweep"], found["many"]["event"], found["many"]["jobs"]) == ("tune", "done", 1)


def test_full_record_forgets_the_oldest_events(plane: ControlPlane) -> None:
    """A namespace with very many events does not keep those of others from being reported."""
    plane.kubectl("delete", "configmap", RECORD.name, "-n", RECORD.namespace, "--ignore-not-found")
    now = float(int(time.time()))
    times = [now - 10_000 + number for number in range(10_000)]
    metadata = {"name": RECORD.name, "namespace": RECORD.namespace}
    data = {
        "channels": json.dumps({"full": [now - 50_000]}),
        "events": json.dumps({f"old-{number}": [due, due, -1, 0] for number, due in enumerate(times)}),
    }
    with closing(Session(connect(kubeconfig=str(plane.kubeconfig())))) as session:
        session.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        one, other = DeliveryRecord(session), DeliveryRecord(session)
        for record in (one, other):
            record.open(["full"], now)
        claim = one.claim("new", now, now, "full")
        assert claim is not None
        assert one.claim("new", now, now, "full") is None
        assert other.claim("newer", now, now, "full") is not None
        assert not any(other.is_open(f"old-{number}", due, due, now, "full") for number, due in enumerate(times))
        one.delivered(claim)
        assert not one.is_open("new", now, now, now + 100, "full")
        found = session.get(RECORD)
        assert found is not None
        assert len(json.loads(found["data"]["events"])) == 9_001


def test_a_changed_notify_restarts_nothing(place: Place) -> None:
    place.platform("notify: {channels: {team: {format: json}, chat: {format: slack}}, default: [team]}")
    place.apply(reported("train", {"failed": True}))
    pods = place.running("train")
    uid = place.uid("Job", "train")
    changed = reported("train", {"done": True, "waiting": "2h", "channels": ["chat"]})
    assert place.plan(changed).actions == {"Job/train": "update"}
    place.apply(changed)
    assert (place.uid("Job", "train"), place.pods("train")) == (uid, pods)
    described = place.gpuctl("describe", "job", "train")
    assert "done, waiting 2h to chat" in described.out
    value = place.gpuctl("describe", "job", "train", "-o", "json").value
    assert value["notify"] == {"events": ["done", "waiting 2h"], "channels": ["chat"]}
    assert "waiting: 2h" in value["yamlContent"]
    # Removing the field removes the annotation.
    place.apply(training("train"))
    assert ANNOTATION not in place.get("Job", "train")["metadata"]["annotations"]
