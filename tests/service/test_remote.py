"""The command line as a client of the service: it prints what it prints with a kubeconfig."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from support.cluster_tools import inference, training
from support.remote import Remote, settled
from support.rest_records import Answered, answering_in_turn

JSON = "application/json"


def test_login_and_logout(remote: Remote) -> None:
    place = remote.place
    refused = remote.typed("get", "jobs", "--server", remote.served.url, code=3)
    assert refused.err == (
        f"error: there is no token for {remote.served.url}\n  = `gpuctl login {remote.served.url}` asks for one\n"
    )
    token = remote.served.tokens["admin"]
    said = remote.login()
    path = remote.directory / "gpuctl" / "servers.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert token in path.read_text()
    assert token not in said.out + said.err
    place.apply(training("a"))
    settled(remote, "a")
    assert [item["name"] for item in remote.same("get", "jobs", "-o", "json").value["items"]] == ["a"]
    # An option that names a cluster takes precedence over the login.
    assert remote.typed("get", "jobs", "--context", "nowhere", code=3).err.startswith("error: ")
    assert remote.typed("get", "jobs", "--context", "x", "--server", remote.served.url, code=2)
    path.chmod(0o640)
    assert "other users may read it" in remote.typed("get", "jobs", code=3).err
    path.chmod(0o600)
    path.write_text("{}")
    assert "is damaged" in remote.typed("get", "jobs", code=3).err
    path.unlink()
    remote.login()
    remote.typed("logout")
    assert token not in path.read_text()
    remote.typed("logout", code=2)


def test_commands_in_hints_repeat_the_stated_server(remote: Remote) -> None:
    """The service makes the hints: the command line sends it the address that the user gave."""
    remote.login()
    url, words = remote.served.url, ("delete", "job", "nope", "-n", remote.place.namespace, "--yes")
    assert "`gpuctl get jobs` lists" in remote.typed(*words, code=1).err
    assert f"`gpuctl get jobs --server={url}` lists" in remote.typed(*words, "--server", url, code=1).err
    assert "`gpuctl get jobs` lists" in remote.typed(*words, code=1).err


def test_rejected_token_is_not_saved(remote: Remote) -> None:
    said = remote.login(token="gpuctl_wrong", code=3)
    assert said.err == (
        f"error: {remote.served.url} does not accept the token\n"
        f"  = `gpuctl login {remote.served.url}` asks for another\n"
    )
    assert not (remote.directory / "gpuctl" / "servers.json").exists()
    assert remote.typed("login", remote.served.url, code=2).err.endswith("Use --token-stdin.\n")
    assert remote.typed("login", remote.served.url, "--token-stdin", code=2)
    assert "without encryption" in remote.login(url="http://gpuctl.example.com", code=3).err
    assert "no user" in remote.login(url="https://anna:secret@gpuctl.example.com", code=3).err
    assert "secret" not in remote.login(url="https://anna:secret@gpuctl.example.com", code=3).err


def test_invisible_jobs_do_not_exist_for_the_user(remote: Remote) -> None:
    remote.place.apply(training("a"))
    settled(remote, "a")
    remote.login("anna")
    # Jobs of anna's own namespace may exist.
    seen = json.loads(remote.typed("get", "jobs", "-o", "json").out)["items"]
    assert {item["namespace"] for item in seen} <= {"team-a"}
    assert "no job" in remote.typed("why", "a", code=1).err
    assert remote.typed("get", "jobs", "-n", remote.place.namespace, code=3).err.startswith("error: anna may not")
    for line in remote.typed("get", "nodes", "-o", "json").out.splitlines():
        assert remote.place.namespace not in line


def test_plans_and_results_equal_those_with_a_kubeconfig(remote: Remote) -> None:
    remote.login()
    place = remote.place
    path = place.file(training("a"), inference("b"))
    for more in ((), ("-o", "json"), ("-o", "markdown")):
        remote.same("diff", "-f", path, *more, code=1)
    remote.same("apply", "-f", path, "--dry-run=server")
    remote.same("apply", "-f", path, "--dry-run=server", "-o", "json")
    far = remote.typed("apply", "-f", path, "-n", place.namespace)
    assert f"created   job.batch/a -n {place.namespace}" in far.out
    near = place.gpuctl("apply", "-f", path)
    assert "unchanged" in near.out
    assert remote.same("apply", "-f", path).out == near.out
    settled(remote, "a", "b")
    changed = training("a")
    changed["resources"]["cpu"] = 3
    path = place.file(changed)
    remote.same("diff", "-f", path, code=1)
    # Ending running work needs confirmation, and there is no terminal to ask.
    remote.same("apply", "-f", path, code=2)
    remote.same("apply", "-f", path, "-o", "json", code=2)
    before = place.uid("Job", "a")
    said = remote.typed("apply", "-f", path, "-n", place.namespace, "--yes")
    assert "replaced" in said.out
    assert place.uid("Job", "a") != before
    remote.same("create", "-f", path, code=1)


def test_logs_equal_those_with_a_kubeconfig(remote: Remote) -> None:
    remote.login()
    remote.place.apply(training("a"), inference("b"))
    settled(remote, "a", "b")
    [pod] = remote.place.pods("a")
    # A simulated container's own log would grow between the two commands.
    remote.place.plane.write_log(remote.place.namespace, pod, "one\ntwo\nthree\n")
    for more in ((), ("-o", "json"), ("--timestamps", "--tail", "2"), ("--prefix",), ("-c", "nope")):
        near = remote.place.gpuctl("logs", "a", *more, code=None)
        far = remote.typed("logs", "a", *more, "-n", remote.place.namespace, code=near.code)
        assert (far.out, far.err) == (near.out, near.err)
    remote.same("logs", "nope", code=1)
    remote.login("anna")
    assert "no job" in remote.typed("logs", "a", code=1).err


def test_commands_of_the_service_guide_work(remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs" / "service.md").read_text()
    block = re.search(r"<!-- typed -->\n```bash\n(.*?)```", text, re.DOTALL)
    assert block is not None
    document = training("hello")
    document["job"]["namespace"] = remote.place.namespace
    remote.place.file(document, name="job.yaml")
    monkeypatch.chdir(remote.place.directory)
    for line in block[1].splitlines():
        _, *arguments = line.replace("$URL", remote.served.url).partition(" <")[0].split()
        remote.typed(*arguments, text=remote.served.tokens["admin"] if "<" in line else "")


def test_login_to_another_server_fails_without_leaking_the_token(remote: Remote) -> None:
    token = "gpuctl_" + "x" * 43
    with answering_in_turn(Answered(200, "text/html", "<html>welcome</html>")) as (url, heard):
        said = remote.login(url=url, token=token, code=3)
        assert said.err.startswith(f"error: the server at {url} returned status 200, and is not a gpuctl service")
        assert token not in said.err
        redirect = Answered(302, "text/html", "", {"Location": f"{url}/elsewhere"})
        with answering_in_turn(redirect) as (redirecting, _):
            assert "returned a redirect" in remote.login(url=redirecting, token=token, code=3).err
        # The token was not sent to the target of the redirect.
        assert len(heard) == 1
    with answering_in_turn(Answered(200, JSON, '{"allowed"', {"Content-Length": "99"})) as (broken, _):
        assert broken in remote.login(url=broken, token=token, code=3).err
    assert "cannot be reached" in remote.login(url="http://127.0.0.1:9", token=token, code=3).err


def test_busy_incompatible_and_failing_services_are_reported(remote: Remote) -> None:
    def problem(status: int, error: str, message: str, **headers: str) -> Answered:
        return Answered(status, JSON, json.dumps({"error": error, "message": message, "details": []}), headers)

    busy = problem(429, "TooManyRequests", "the service is busy", **{"Retry-After": "1"})
    well = Answered(200, JSON, '{"allowed": true, "message": "x"}')
    lost = problem(404, "NotFound", "no such path", **{"Gpuctl-Unknown-Path": "true"})
    odd = Answered(200, JSON, '{"version": "9.9.9", "lines": []}')
    text = '{"error": "Unreachable", "message": "the cluster cannot be reached", "details": [], "hint": "h"}'
    away, expired = Answered(503, JSON, text), problem(401, "Unauthorized", "m")
    with answering_in_turn(busy, well, lost, odd, away, expired) as (url, heard):
        remote.login(url=url, token="gpuctl_x")
        assert len(heard) == 2
        assert "incompatible versions: gpuctl" in remote.typed("get", "jobs", code=3).err
        assert "incompatible versions: gpuctl" in remote.typed("get", "jobs", code=3).err
        assert remote.typed("get", "jobs", code=3).err == "error: the cluster cannot be reached\n  = h\n"
        said = remote.typed("get", "jobs", "-o", "json", code=3)
        assert said.value["hint"] == f"`gpuctl login {url}` asks for another"


def test_profiles_and_overrides_equal_those_with_a_kubeconfig(remote: Remote) -> None:
    remote.login()
    file = remote.place.file(training("a", profiles={"long": {"job": {"retries": 3}}}))
    options = ("--profile", "long", "--with", "resources.gpu=2")
    remote.same("diff", "-f", file, *options, code=1)
    remote.same("fit", "-f", file, *options)
    remote.same("apply", "-f", file, "--dry-run", "--profile", "night", code=1)
    remote.same("apply", "-f", file, "--dry-run", "--with", "resources.gpus=2", code=1)
    remote.typed("apply", "-f", file, *options, "-n", remote.place.namespace)
    (row,) = json.loads(remote.same("history", "a", "-o", "json").out)["items"]
    assert (row["profile"], row["overrides"]) == ("long", ["resources.gpu=2"])
