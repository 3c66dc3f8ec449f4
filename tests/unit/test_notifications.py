"""Events of jobs, their messages, and requests to webhooks."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gpuctl
from gpuctl.kube import webhook_request
from gpuctl.kube.api_errors import ClusterError
from gpuctl.language.notify_block import Channel, parse_notify
from gpuctl.language.settings import Settings
from gpuctl.language.translation_files import sentences_in
from gpuctl.objects.api_resources import Key
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.prerequisites import Prerequisite
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.why.finding import Finding
from gpuctl_server.notifications import notifier
from gpuctl_server.notifications.delivery_record import CLAIM, RETRIES, DeliveryRecord
from gpuctl_server.notifications.job_events import SETTLING, JobEvent, job_events
from gpuctl_server.notifications.messages import Surroundings, message_about, rejection, request_of
from gpuctl_server.notifications.notifier import Notifier
from gpuctl_server.notifications.webhooks import NoAddress, Webhooks
from support.webhook_receiver import Receiver, receiving

KEYS = records(Settings())
NOW = 1_800_000_000.0
ALL = {"done": True, "failed": True, "waiting": "2h"}


def at(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(
    name: str = "train",
    notify: Any = None,
    kind: str = "Job",
    conditions: dict[str, float] | None = None,
    pods: list[dict[str, Any]] | None = None,
    labels: dict[str, str] | None = None,
    created: float = -36000,
    **more: Any,
) -> Job:
    """A job with conditions: type -> time."""
    annotations = {KEYS.notify: notify if isinstance(notify, str) else json.dumps(ALL if notify is None else notify)}
    metadata = {"name": name, "namespace": "nlp", "uid": f"uid-{name}", "creationTimestamp": at(created)}
    found = [
        {"type": kind, "status": "True", "lastTransitionTime": at(time), "reason": "Why", "message": "because"}
        for kind, time in (conditions or {}).items()
    ]
    main = {
        "kind": kind,
        "metadata": {**metadata, "annotations": annotations, "labels": labels or {}},
        "spec": {"template": {"spec": {"containers": []}}, **more.pop("spec", {})},
        "status": {"conditions": found, "startTime": at(-7200)},
    }
    return Job(Identity("nlp", name, "training"), main, pods or [], **more)


def pod(phase: str = "Pending", created: float = -10000, **status: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "nlp", "uid": "u", "creationTimestamp": at(created)}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase, **status}}


def events(*jobs: Job) -> list[JobEvent]:
    return list(job_events([(one, one.status(KEYS)) for one in jobs], KEYS))


def summary(*jobs: Job) -> list[tuple[str, float, float]]:
    return [(event.kind, event.began - NOW, event.due - NOW) for event in events(*jobs)]


def test_end_is_reported_when_the_last_condition_is_there() -> None:
    assert summary(job(conditions={"FailureTarget": -9})) == []
    assert summary(job(conditions={"FailureTarget": -9, "Failed": -5})) == [("failed", -5, -5)]
    assert summary(job(conditions={"SuccessCriteriaMet": -9, "Complete": -8})) == [("done", -8, -8)]
    assert summary(job(kind="JobSet", conditions={"Completed": -8})) == [("done", -8, -8)]


def test_only_named_events_are_reported() -> None:
    assert summary(job(notify={"done": True}, conditions={"Failed": -5})) == []
    assert summary(job(notify={"failed": True}, conditions={"Complete": -5})) == []
    assert summary(job(notify={"failed": True}, pods=[pod()])) == []


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"done": "yes"}',
        '{"done": 1}',
        '{"done": true, "url": "http://x"}',
        '{"waiting": "1s"}',
        json.dumps({"done": True, "channels": [f"c{number}" for number in range(11)]}),
        "[" * 4000,
        "x" * 5000,
    ],
)
def test_annotations_that_users_have_written_report_nothing(text: str) -> None:
    assert parse_notify(text) is None
    assert summary(job(notify=text, conditions={"Failed": -5})) == []


def test_waiting_begins_with_the_pods_or_the_last_suspension() -> None:
    assert summary(job(pods=[pod(created=-8000), pod(created=-9000)])) == [("waiting", -9000, -1800)]
    assert summary(job(created=-500)) == [("waiting", -500, 6700)]
    queued = job(conditions={"Suspended": -300}, labels={"kueue.x-k8s.io/queue-name": "q"}, spec={"suspend": True})
    assert summary(queued) == [("waiting", -300, 6900)]


def test_jobs_that_run_crash_or_are_paused_do_not_wait() -> None:
    restarted = {"name": "main", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    assert summary(job(pods=[pod("Running")])) == []
    assert summary(job(pods=[pod("Running", containerStatuses=[restarted])])) == []
    paused = job(spec={"suspend": True})
    paused.workload["metadata"]["annotations"][KEYS.paused] = "1"  # type: ignore[index]
    assert summary(paused) == []
    deleted = job(pods=[pod()])
    deleted.workload["metadata"]["deletionTimestamp"] = at(-1)  # type: ignore[index]
    assert summary(deleted) == []


def test_waiting_for_other_jobs_counts_only_if_it_would_never_end() -> None:
    def after(state: Any, outcome: Any = None) -> Job:
        found = job(spec={"suspend": True}, prerequisites=[Prerequisite("prep", "ok", state, outcome)])
        found.workload["metadata"]["annotations"][KEYS.after] = '{"prep": "ok"}'  # type: ignore[index]
        return found

    assert summary(after("waiting")) == []
    assert [kind for kind, *_ in summary(after("missing"))] == ["waiting"]
    assert [kind for kind, *_ in summary(after("unmet", "failed"))] == ["waiting"]


def test_sweep_is_reported_once_when_its_last_job_has_ended() -> None:
    assert summary(sweep_job(0, conditions={"Failed": -90}), sweep_job(1, pods=[pod("Running")])) == []
    ended = [sweep_job(0, conditions={"Failed": -90}), sweep_job(1, conditions={"Complete": -50})]
    (event,) = events(*ended)
    assert (event.kind, event.jobs, event.bad, event.sweep, event.key) == ("failed", 2, 1, "tune", "nlp/tune/end")
    assert event.due - NOW == SETTLING - 50
    assert event.job.identity.name == "tune-0"


def sweep_job(number: int, size: int = 0, **more: Any) -> Job:
    """A job of the sweep `tune`. ``size``: the number of jobs that it states."""
    found = job(f"tune-{number}", labels={KEYS.sweep: "tune"}, **more)
    if size:
        found.workload["metadata"]["annotations"][KEYS.sweep_size] = str(size)  # type: ignore[index]
    return found


def test_sweep_that_lacks_jobs_has_not_ended() -> None:
    """As for `job.after`: its apply was interrupted, or jobs were deleted."""
    first, second = sweep_job(0, 3, conditions={"Complete": -90}), sweep_job(1, conditions={"Complete": -50})
    assert summary(first, second) == []
    assert summary(second) == []
    (event,) = events(first, second, sweep_job(2, conditions={"Complete": -10}))
    assert (event.kind, event.jobs, event.began - NOW) == ("done", 3, -10)
    # A job that reports nothing is one of the sweep as well.
    silent = sweep_job(2, notify="", conditions={"Complete": -10})
    assert [event.kind for event in events(first, second, silent)] == ["done"]


def test_sweep_whose_ttl_removes_jobs_is_reported() -> None:
    spec = {"ttlSecondsAfterFinished": 60}
    jobs = [sweep_job(number, 2, conditions={"Complete": -50}, spec=spec) for number in (0, 1)]
    (event,), (later,) = events(*jobs), events(jobs[1])
    assert (later.key, later.began) == (event.key, event.began)
    bare = sweep_job(0, kind="JobSet", conditions={"Completed": -5})
    del bare.workload["spec"]  # type: ignore[union-attr]
    assert [event.kind for event in events(bare)] == ["done"]


def test_sweep_waits_only_if_none_of_its_jobs_runs() -> None:
    def member(number: int, one: dict[str, Any]) -> Job:
        return job(f"tune-{number}", labels={KEYS.sweep: "tune"}, pods=[one])

    assert summary(member(0, pod()), member(1, pod("Running"))) == []
    (event,) = events(member(0, pod(created=-8000)), member(1, pod(created=-9000)))
    assert (event.kind, event.jobs, event.bad, event.began - NOW) == ("waiting", 2, 2, -9000)


def test_each_run_of_a_schedule_is_reported() -> None:
    main = job(kind="CronJob", spec={"schedule": "0 2 * * *"})
    owner = [{"kind": "CronJob", "uid": "uid-train", "controller": True, "name": "train"}]
    for name, ends in (("train-1", {"Complete": -90}), ("train-2", {"Failed": -5})):
        run = job(name, notify="", conditions=ends).workload
        assert run is not None
        run["metadata"]["ownerReferences"] = owner
        main.runs.append(run)
    found = [(event.kind, event.key) for event in events(main)]
    assert found == [("done", "uid-train-1/end"), ("failed", "uid-train-2/end")]


HOSTILE = '<!channel> <at user_id="all">x</at> <@all> @all [a](http://x) ' + "é" * 5000


def told(form: Any, language: Any = "en", message: str = HOSTILE, secret: str | None = None) -> tuple[Any, Any]:
    (event,) = events(job(conditions={"Failed": -5}))
    cause = Finding("application-error", message)
    with sentences_in(language):
        found = message_about(event, "id-1", cause, Surroundings(KEYS, "prod", "https://gpu.example.com/"))
    return request_of(found, form, secret, NOW)


def test_json_has_the_documented_fields() -> None:
    body, parameters = told("json", message="exit code 1")
    assert parameters == {}
    assert body == {
        "version": 1,
        "id": "id-1",
        "event": "failed",
        "time": at(-5),
        "cluster": "prod",
        "namespace": "nlp",
        "kind": "training",
        "job": "train",
        "run": "train",
        "sweep": None,
        "jobs": 1,
        "affectedJobs": 1,
        "status": "Failed",
        "cause": "application-error",
        "message": "exit code 1",
        "appliedBy": None,
        "url": "https://gpu.example.com/#/jobs/nlp/train",
    }


@pytest.mark.parametrize("form", ["dingtalk", "feishu", "wecom"])
def test_robots_get_no_mentions_and_short_texts(form: str) -> None:
    body, _ = told(form, "zh")
    text = json.dumps(body, ensure_ascii=False)
    assert not set("<>@") & set(text)
    assert len(text.encode()) < 2500
    assert "训练任务 nlp/train 已失败" in text
    assert body.get("msgtype", body.get("msg_type")) in ("text", "post")


def test_long_causes_leave_room_for_the_link() -> None:
    body, _ = told("wecom", "zh", "原因" * 2000)
    assert "…" in body["text"]["content"]
    assert body["text"]["content"].endswith("详情：https://gpu.example.com/#/jobs/nlp/train")


def test_slack_gets_plain_text_and_an_escaped_fallback() -> None:
    body, _ = told("slack")
    assert {block["text"]["type"] for block in body["blocks"]} == {"plain_text"}
    assert all(len(block["text"]["text"]) < 3000 for block in body["blocks"])
    assert body["text"] == "[gpuctl] training nlp/train has failed"


def test_credentials_in_output_of_programs_are_masked() -> None:
    body, _ = told("json", message="login with password=hunter2hunter2 failed")
    assert "hunter2" not in json.dumps(body)


def test_dingtalk_and_feishu_are_signed() -> None:
    _, parameters = told("dingtalk", secret="SEC1")
    text = f"{round(NOW * 1000)}\nSEC1"
    wanted = base64.b64encode(hmac.new(b"SEC1", text.encode(), hashlib.sha256).digest()).decode()
    assert parameters == {"timestamp": str(round(NOW * 1000)), "sign": wanted}
    body, _ = told("feishu", secret="SEC1")
    text = f"{int(NOW)}\nSEC1"
    assert body["sign"] == base64.b64encode(hmac.new(text.encode(), b"", hashlib.sha256).digest()).decode()
    assert body["timestamp"] == str(int(NOW))


@pytest.mark.parametrize(
    ("form", "answer", "problem"),
    [
        ("slack", "ok", None),
        ("slack", "<html>", "Slack did not answer `ok`"),
        ("dingtalk", '{"errcode": 0}', None),
        ("dingtalk", '{"errcode": 310000, "errmsg": "token t0ken"}', "the robot reports errcode 310000"),
        ("wecom", '{"errcode": 45009}', "the robot reports errcode 45009"),
        ("feishu", '{"code": 0, "msg": "success"}', None),
        ("feishu", '{"StatusCode": 0}', None),
        ("feishu", '{"code": 19021}', "the robot reports code 19021"),
        ("feishu", "[]", "the answer has no `code`"),
        ("json", "anything", None),
    ],
)
def test_answers_of_robots(form: Any, answer: str, problem: str | None) -> None:
    try:
        value = json.loads(answer)
    except ValueError:
        value = None
    assert rejection(form, answer.encode(), value) == problem


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


def webhooks(directory: Path, form: Any, address: str) -> Webhooks:
    (directory / "team.url").write_text(address + "\n")
    return Webhooks({"team": Channel(format=form)}, directory, {})


def message() -> Any:
    (event,) = events(job(conditions={"Failed": -5}))
    return message_about(event, "id-1", None, Surroundings(KEYS))


def test_redirects_are_not_followed(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answers["/s3cret"] = [(302, "", {"Location": f"{receiver.url}/other"})]
    with pytest.raises(ClusterError, match="status 302") as caught:
        webhooks(tmp_path, "json", f"{receiver.url}/s3cret").send("team", message())
    assert "s3cret" not in caught.value.message
    assert receiver.at("/other") == []


def test_endless_answers_end(receiver: Receiver, tmp_path: Path) -> None:
    receiver.always["/hook"] = "x" * 1_000_000
    webhooks(tmp_path, "json", f"{receiver.url}/hook").send("team", message())
    assert len(receiver.at("/hook")) == 1


@contextlib.contextmanager
def streaming(first: bytes, then: bytes) -> Iterator[int]:
    """Yield the port of a server that answers with `first`, and then sends `then` without an end."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client, contextlib.suppress(OSError):
                client.recv(65536)
                client.sendall(first)
                while not over.wait(0.02):
                    client.sendall(then)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize(
    ("scheme", "first", "then"),
    [
        ("http", b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        ("http", b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        ("http", b"", b""),
        ("https", b"", b""),
        # A record of 16 KiB in a TLS handshake.
        ("https", b"\x16\x03\x03\x40\x00\x02", b"\0"),
        ("proxy", b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    ],
)
def test_answer_that_does_not_begin_ends_in_time(
    scheme: str, first: bytes, then: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte arrives within the timeout of a read."""
    monkeypatch.setattr(webhook_request, "WITHIN", 0.5)
    with streaming(first, then) as port:
        address = f"{scheme}://127.0.0.1:{port}/s3cret"
        if scheme == "proxy":
            monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
            monkeypatch.setenv("no_proxy", "")
            address = "https://hooks.example.com/s3cret"
        with pytest.raises(ClusterError, match="does not answer") as caught:
            webhooks(tmp_path, "json", address).send("team", message())
        requests = [thread for thread in threading.enumerate() if thread.name == "gpuctl-webhook"]
        for thread in requests:
            thread.join(30)
        assert not any(thread.is_alive() for thread in requests)
    assert "s3cret" not in caught.value.message


@pytest.mark.parametrize("length", ["", "Content-Length: 100000\r\n"])
def test_message_is_delivered_if_only_the_end_of_the_answer_is_missing(
    length: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt would post it twice."""
    monkeypatch.setattr(webhook_request, "WITHIN", 0.5)
    with streaming(f"HTTP/1.1 200 OK\r\n{length}\r\n".encode(), b"x") as port:
        webhooks(tmp_path, "json", f"http://127.0.0.1:{port}/s3cret").send("team", message())


def test_proxy_gets_the_whole_address(receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, receiver.url)
    monkeypatch.setenv("NO_PROXY", "")
    webhooks(tmp_path, "json", "http://hooks.example.com/hook").send("team", message())
    assert len(receiver.at("/hook")) == 1


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("http://hooks.invalid/s3cret", "name"),
        ("http://127.0.0.1:1/s3cret", "connection refused"),
        ("https://PLAIN/s3cret", "wrong version number"),
    ],
)
def test_failed_connections_say_why(receiver: Receiver, tmp_path: Path, address: str, reason: str) -> None:
    address = address.replace("PLAIN", receiver.url.removeprefix("http://"))
    with pytest.raises(ClusterError, match=reason) as caught:
        webhooks(tmp_path, "json", address).send("team", message())
    assert "s3cret" not in caught.value.message


def test_addresses_come_from_files_or_the_environment(tmp_path: Path) -> None:
    channels = {"nlp-team": Channel(format="json")}
    environment = {"GPUCTL_NOTIFY_NLP_TEAM_URL": "https://a.example/x", "GPUCTL_NOTIFY_NLP_TEAM_SECRET": "s"}
    hooks = Webhooks(channels, tmp_path, environment)
    assert hooks.webhook("nlp-team") == ("https://a.example/x", "s")
    (tmp_path / "nlp-team.url").write_text("https://b.example/y\n")
    assert hooks.webhook("nlp-team").address == "https://b.example/y"
    assert "b.example" not in repr(hooks.webhook("nlp-team"))


def test_malformed_headers_do_not_log_the_address(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.recv(65536)
                client.sendall(b"HTTP/1.1 200 OK\r\nno header\r\n\r\n")
                client.shutdown(socket.SHUT_WR)
                # A socket that is closed with unread data resets the connection.
                while client.recv(65536):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        webhooks(tmp_path, "json", f"http://127.0.0.1:{server.getsockname()[1]}/s3cret").send("team", message())
        thread.join()
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    "address", ["", "ftp://x", "hooks.example.com/s3cret", "https://", "https://[s3cret", "https://a\tb/s3cret"]
)
def test_addresses_that_cannot_be_used_are_not_printed(tmp_path: Path, address: str) -> None:
    with pytest.raises(NoAddress) as caught:
        webhooks(tmp_path, "json", address).webhook("team")
    assert "s3cret" not in str(caught.value)
    assert "team" in str(caught.value)


class Server:
    """A session with the record alone, whose server's clock is far from the local one."""

    def __init__(self) -> None:
        self.time = NOW

    def server_time(self) -> float:
        return self.time

    def get(self, key: Key) -> None:
        return None

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        return body

    replace = create


def test_claims_and_attempts_follow_the_clock_of_the_api_server() -> None:
    """Events have its times, and replicas may have different clocks."""
    server: Any = Server()
    record = DeliveryRecord(server)
    record.open(["team"], NOW)
    server.time = NOW + 10
    claim = record.claim("id", NOW + 5, NOW + 5, "team")
    assert claim is not None
    assert record.claim("id", NOW + 5, NOW + 5, "team") is None
    assert not record.is_open("id", NOW + 5, NOW + 5, NOW + 9 + CLAIM, "team")
    assert record.is_open("id", NOW + 5, NOW + 5, NOW + 10 + CLAIM, "team")
    record.failed(claim)
    assert not record.is_open("id", NOW + 5, NOW + 5, NOW + 9 + RETRIES[0], "team")
    assert record.is_open("id", NOW + 5, NOW + 5, NOW + 10 + RETRIES[0], "team")
    record.delivered(claim)
    assert not record.is_open("id", NOW + 5, NOW + 5, NOW + 1000, "team")


@pytest.mark.parametrize(("passed", "posted"), [(299.0, []), (301.0, ["train"])])
def test_event_is_due_by_the_clock_of_the_api_server(
    passed: float, posted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, server, begun = job(notify={"waiting": "5m"}, created=0), Server(), list[str]()
    monkeypatch.setattr(notifier, "Session", lambda *_, **__: server)
    monkeypatch.setattr(
        Notifier, "_begin", lambda _self, _name, _sender, event, _now: begun.append(event.job.identity.name)
    )
    text = "kind: platform\nnotify: {channels: {team: {format: json}}, default: [team]}\n"
    listed = SimpleNamespace(job=waits, row=SimpleNamespace(state=waits.status(KEYS)))
    board: Any = SimpleNamespace(now=lambda: SimpleNamespace(jobs=[listed]))
    platform = gpuctl.compile([], platform=gpuctl.Source("platform.yaml", text)).settings
    unused: Any = None
    found = Notifier(
        unused, board, platform, Webhooks(platform.notify.channels, tmp_path, {}), unused, unused, unused, None
    )
    found._look()
    server.time += passed
    found._look()
    assert begun == posted
