"""The tools of the tests of failures do what they say: a fault that is not injected would let every test pass."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from control_plane import ControlPlane
from fault_tools.documents import NEW, OLD
from fault_tools.proxy import (
    Proxy,
    Upstream,
    after,
    before,
    cut_after,
    cut_before,
    delay,
    first_of,
    hang,
    html,
    matching,
    meanwhile,
    nth,
    on,
    refuse,
    truncate,
    write_kubeconfig,
)
from fault_tools.site import Base, site
from fault_tools.world import FOREIGN, HASH, Api, Seen, Snapshot, foreign_objects, state_of
from fault_tools.zygote import Timeout, Zygote

MAPS = "/api/v1/namespaces/{}/configmaps"


def _map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"}}


class _Client:
    """A client of a proxy that keeps its connection."""

    def __init__(self, proxy: Proxy) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
        self.headers = {"Authorization": f"Bearer {proxy.plane.tokens['admin']}"}

    def send(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        data = json.dumps(body) if body is not None else None
        self.connection.request(method, path, data, {**self.headers, "Content-Type": "application/json"})
        response = self.connection.getresponse()
        return response.status, response.read()


def _kubectl(plane: ControlPlane, proxy: Proxy, config: str, *arguments: str, input: str | None = None) -> str:
    proxy.token = plane.tokens["admin"]
    command = [str(plane.binaries / "kubectl"), f"--kubeconfig={config}", *arguments]
    return subprocess.run(command, input=input, capture_output=True, text=True, check=True, timeout=60).stdout


def test_kubectl_works_through_the_proxy(
    plane: ControlPlane, proxy: Proxy, config: str, api: Api, namespace: Callable[[str], str]
) -> None:
    space = namespace("tool-kubectl")
    _kubectl(plane, proxy, config, "create", "configmap", "one", "--from-literal=a=b", "-n", space)
    assert ("ConfigMap", "one") in api.snapshot(space)
    assert [line.split(" ", 1)[1] for line in proxy.writes()] == [
        f"POST {MAPS.format(space)}?fieldManager=kubectl-create&fieldValidation=Strict -> 201"
    ]
    proxy.reset()
    manifest = json.dumps(_map("two"))
    _kubectl(plane, proxy, config, "create", "-f", "-", "--dry-run=server", "-n", space, input=manifest)
    assert _kubectl(plane, proxy, config, "auth", "can-i", "list", "pods").strip() == "yes"
    assert proxy.count() > 2
    assert proxy.writes() == []
    # A large answer: chunked and compressed on its way.
    assert "horizontalpodautoscalers" in _kubectl(plane, proxy, config, "get", "--raw", "/openapi/v2")


def test_kubectl_watches_through_the_proxy(
    plane: ControlPlane, proxy: Proxy, config: str, api: Api, namespace: Callable[[str], str]
) -> None:
    """Events arrive when they happen, not when the stream ends."""
    space = namespace("tool-watch")
    proxy.token = plane.tokens["admin"]
    command = [str(plane.binaries / "kubectl"), f"--kubeconfig={config}", "get", "cm", "-n", space, "-w", "-o", "name"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "configmap/kube-root-ca.crt\n"
            for name in ("first", "second"):
                api.create(_map(name), space)
                assert process.stdout.readline() == f"configmap/{name}\n"
        finally:
            process.kill()
    assert [record.status for record in proxy.records if record.request.is_watch] == [200]


def test_a_watch_ends_when_the_server_ends_it(proxy: Proxy, api: Api, namespace: Callable[[str], str]) -> None:
    space = namespace("tool-watched")
    api.create(_map("one"), space)
    status, body = _Client(proxy).send("GET", MAPS.format(space) + "?watch=1&timeoutSeconds=1")
    assert status == 200
    assert json.loads(body.splitlines()[0])["type"] == "ADDED"


def test_requests_are_counted_and_connections_kept(proxy: Proxy, namespace: Callable[[str], str]) -> None:
    space = namespace("tool-count")
    client = _Client(proxy)
    assert client.send("POST", MAPS.format(space), _map("one"))[0] == 201
    assert client.send("POST", MAPS.format(space), _map("one"))[0] == 409
    assert client.send("GET", MAPS.format(space) + "/one?x=y")[0] == 200
    assert client.send("DELETE", MAPS.format(space) + "/one")[0] == 200
    assert [str(record) for record in proxy.records] == [
        f"1 POST {MAPS.format(space)} -> 201",
        f"2 POST {MAPS.format(space)} -> 409",
        f"3 GET {MAPS.format(space)}/one?x=y -> 200",
        f"4 DELETE {MAPS.format(space)}/one -> 200",
    ]
    proxy.reset()
    assert proxy.count() == 0


def test_before_and_after_differ_by_what_the_server_did(
    proxy: Proxy, api: Api, namespace: Callable[[str], str]
) -> None:
    space = namespace("tool-moments")
    calls: list[str] = []

    def hook() -> None:
        calls.append("called")

    for action, exists in ((before(hook), False), (after(hook), True), (cut_before, False), (cut_after, True)):
        proxy.reset(on(nth(1, matching("POST")), action))
        with pytest.raises(http.client.RemoteDisconnected):
            _Client(proxy).send("POST", MAPS.format(space), _map("one"))
        assert (("ConfigMap", "one") in api.snapshot(space)) is exists
        assert (len(proxy.writes()) == 1) is exists
        api.delete("ConfigMap", space, "one")
    assert calls == ["called", "called"]


def test_only_the_chosen_request_fails(proxy: Proxy) -> None:
    path = MAPS.format("default")
    proxy.policy = first_of(
        on(nth(2, matching("GET", "/configmaps")), refuse(429, "TooManyRequests", "slow down", Retry_After="1")),
        on(nth(2, matching("GET", "/configmaps"), last=3), html(503)),
    )
    client = _Client(proxy)
    assert client.send("GET", "/version")[0] == 200
    assert [client.send("GET", path)[0] for _ in range(5)] == [200, 429, 503, 503, 200]


def test_answers_that_are_no_answers(proxy: Proxy) -> None:
    path = MAPS.format("default")
    proxy.policy = on(lambda request: True, truncate(framed=True))
    status, body = _Client(proxy).send("GET", path)
    assert status == 200
    with pytest.raises(ValueError, match=r"Expecting|Unterminated|delimiter"):
        json.loads(body)
    proxy.policy = on(lambda request: True, truncate(framed=False))
    with pytest.raises(http.client.IncompleteRead):
        _Client(proxy).send("GET", path)
    proxy.policy = on(lambda request: True, html(200))
    assert b"<html>" in _Client(proxy).send("GET", path)[1]


def test_slow_and_hung_answers(proxy: Proxy) -> None:
    proxy.policy = on(lambda request: True, delay(0.3))
    start = time.monotonic()
    assert _Client(proxy).send("GET", "/version")[0] == 200
    assert time.monotonic() - start >= 0.3
    proxy.policy = on(lambda request: True, hang)
    client = _Client(proxy)
    client.connection.timeout = 0.5
    with pytest.raises(TimeoutError):
        client.send("GET", "/version")
    # The client went away: the proxy lets go of it.
    client.connection.close()
    proxy.drain()


def test_drain_waits_for_what_is_under_way(proxy: Proxy) -> None:
    gate = threading.Event()
    proxy.policy = on(lambda request: True, meanwhile(lambda: gate.wait(60)))
    thread = threading.Thread(target=lambda: _Client(proxy).send("GET", "/version"))
    thread.start()
    while not proxy.count():
        time.sleep(0.005)
    with pytest.raises(TimeoutError):
        proxy.drain(0.05)
    gate.set()
    proxy.drain()
    thread.join()
    assert proxy.records[0].status == 200


def test_an_unreachable_server_cuts_the_connection(plane: ControlPlane, tmp_path: Path) -> None:
    upstream = Upstream(1, plane.directory / "certificates" / "apiserver.crt")
    with Proxy(plane, upstream) as proxy, pytest.raises(http.client.RemoteDisconnected):
        _Client(proxy).send("GET", "/version")


def test_a_zygote_runs_commands(zygote: Zygote, tmp_path: Path) -> None:
    assert zygote.run(["version"]).stdout.startswith("gpuctl ")
    wrong = zygote.run(["nonsense"])
    assert (wrong.code, wrong.stdout) == (2, "")
    assert "There is no command `nonsense`" in wrong.stderr
    starter = zygote.run(["init", "training"]).stdout
    (tmp_path / "job.yaml").write_text(starter)
    from_file = zygote.run(["render", "-f", "job.yaml"], cwd=tmp_path)
    from_stdin = zygote.run(["render", "-f", "-"], stdin=starter)
    assert from_file.code == from_stdin.code == 0
    assert from_file.stdout == from_stdin.stdout
    assert "kind: Job" in from_file.stdout


def test_a_fork_is_as_good_as_a_process(zygote: Zygote, plane: ControlPlane) -> None:
    """The same bytes and exit code as a cold start gives, in an environment that is the command's own."""
    script = "import sys; from gpuctl.__main__ import main; main()"
    for arguments in (["explain", "training"], ["schema", "training"], ["validate", "-f", "/nonexistent"]):
        cold = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": str(Path(__file__).parents[2] / "compiler"), "PATH": "", "HOME": "/nonexistent"},
        )
        assert zygote.run(arguments, env={"PATH": ""}) == (cold.returncode, cold.stdout, cold.stderr)


def test_what_runs_too_long_is_killed(zygote: Zygote) -> None:
    with _endless_file() as file, pytest.raises(Timeout, match="took more than 0 s"):
        zygote.start(["render", "-f", file]).wait(0.2)


def test_the_zygote_leaves_nothing_behind() -> None:
    zygote = Zygote()
    pid = zygote.pid
    with _endless_file() as file:
        child = zygote.start(["render", "-f", file]).pid
        assert _lives(child)
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while _lives(child) and time.monotonic() < deadline:
            time.sleep(0.01)
    zygote.__exit__()
    assert not _lives(child)


@contextmanager
def _endless_file() -> Iterator[str]:
    """A file whose reader waits."""
    reading, writing = os.pipe()
    try:
        yield f"/proc/{os.getpid()}/fd/{reading}"
    finally:
        os.close(reading)
        os.close(writing)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_killed_command_ends_at_once(zygote: Zygote) -> None:
    with _endless_file() as file:
        running = zygote.start(["render", "-f", file])
        running.kill()
    assert running.wait().code == -signal.SIGKILL
    # It has been reaped: nobody takes it for alive.
    assert not Path(f"/proc/{running.pid}").exists()


def test_a_snapshot_compares_between_namespaces(api: Api, namespace: Callable[[str], str]) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": {"runwhere.ai/hash": "abc"}},
        "spec": {
            "template": {
                "metadata": {"labels": {}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "one"}]},
            }
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "svc"},
        "spec": {"type": "NodePort", "selector": {"app": "x"}, "ports": [{"port": 80}]},
    }
    spaces, snapshots = [], []
    for name in ("tool-snapshot-one", "tool-snapshot-two"):
        space = namespace(name)
        job["spec"]["template"]["metadata"]["labels"] = {"space": space}  # type: ignore[index]
        api.create(job, space)
        api.create(service, space)
        spaces.append(space)
        snapshots.append(api.snapshot(space))
    one, two = snapshots
    assert set(one) == {("Job", "train"), ("Service", "svc")}
    for key in one:
        assert one[key].spec == two[key].spec
        assert one[key].uid != two[key].uid
    assert one["Job", "train"].hash == "abc"
    api.patch("Job", spaces[0], "train", {"spec": {"backoffLimit": 1}})
    assert api.snapshot(spaces[0])["Job", "train"].spec != one["Job", "train"].spec
    api.delete("Job", spaces[0], "train")
    api.wait(lambda: ("Job", "train") not in api.snapshot(spaces[0]), "the job to go")


def _as_written(now: Snapshot) -> dict[tuple[str, str], object]:
    """Who has written what in a namespace, apart from the controllers."""
    return {
        key: (
            live.spec,
            [
                {field: value for field, value in entry.items() if field != "time"}
                for entry in live.object["metadata"]["managedFields"]
                if entry["manager"] == "gpuctl"
            ],
        )
        for key, live in now.items()
    }


@pytest.mark.usefixtures("shared_objects")
def test_what_a_site_begins_with_is_what_an_apply_writes(base: Base, tmp_path: Path) -> None:
    """A recording that is written again in another namespace leaves an apply nothing to do there."""
    with site(base, "tool-applied", tmp_path / "applied") as place:
        base.api.create_namespace(place.namespace)
        for obj in foreign_objects():
            base.api.create(obj, place.namespace)
        place.file.write_text(OLD)
        assert place.apply().code == 0
        applied = place.snapshot()
    with site(base, "tool-prepared", tmp_path / "prepared") as place:
        place.prepare(OLD)
        prepared = place.snapshot()
        assert _as_written(prepared) == _as_written(applied)
        assert {key: live.hash for key, live in prepared.items()} != {key: live.hash for key, live in applied.items()}
        assert place.apply().code == 0
        assert place.proxy.writes() == []


@pytest.mark.usefixtures("shared_objects")
def test_namespaces_of_one_state_and_of_others(base: Base, tmp_path: Path) -> None:
    """Journals and leases included: what went the same way is the same, and nothing else is."""
    states = []
    seen = Seen()
    journal = matching("POST", "/secrets", writes=True)
    for name in ("one", "two"):
        with site(base, f"tool-state-{name}", tmp_path / name) as place:
            place.prepare(OLD)
            place.file.write_text(NEW)
            old = place.snapshot()
            hashes = base.recorded(NEW).hashes(place.namespace)
            place.disturb(place.apply_arguments, lambda victim: on(journal, after(lambda: victim().kill())))
            killed = place.snapshot()
            assert any(live.is_journal for live in killed.values())
            states.append(state_of(killed, old, hashes))
            assert seen.is_new(state_of(old, old, hashes)) is (name == "one")
            for change in (
                {"metadata": {"annotations": {HASH: "0" * 32}}},
                {"metadata": {"labels": {"somebody": "else"}}},
                {"metadata": {"finalizers": ["example.com/held"]}},
                {"spec": {"ports": [{"port": 81}]}},
            ):
                base.api.patch("Service", place.namespace, f"{FOREIGN}-service", change)
                assert seen.is_new(state_of(place.snapshot(), old, hashes)) is (name == "one"), change
            base.api.patch("Service", place.namespace, f"{FOREIGN}-service", {"metadata": {"finalizers": None}})
            base.api.delete("Job", place.namespace, "train")
            base.api.wait(lambda: base.api.get("Job", place.namespace, "train") is None, "the job to go")
            assert seen.is_new(state_of(place.snapshot(), old, hashes)) is (name == "one")
            for write in base.recorded(OLD).writes(place.namespace):
                if write.body["kind"] == "Job":
                    base.api.call(write.method, write.path, write.body, write.content_type)
            assert seen.is_new(state_of(place.snapshot(), old, hashes)) is (name == "one")
    assert states[0] == states[1]


def test_kubeconfigs_pass_the_token_through(plane: ControlPlane, proxy: Proxy, zygote: Zygote, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "c", {"server": f"http://127.0.0.1:{proxy.port}"}, "no-such-token", "team-a")
    assert json.loads(path.read_text())["contexts"][0]["context"]["namespace"] == "team-a"
    client = _Client(proxy)
    client.headers = {"Authorization": "Bearer no-such-token"}
    assert client.send("GET", "/api/v1/nodes")[0] == 401
