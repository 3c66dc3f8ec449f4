"""The command line as a client of the service: what it prints is what it prints with a kubeconfig."""

from __future__ import annotations

import io
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster_tools import POOL, Outcome, Place, inference, training
from support.served import Served


class Remote:
    """The command line of somebody who has no kubeconfig."""

    def __init__(self, place: Place, served: Served, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self.served = served
        self.directory = directory
        self._monkeypatch = monkeypatch

    def login(self, name: str = "admin", code: int | None = 0, url: str = "", token: str = "") -> Outcome:
        """Log in as one of the service's users."""
        return self.typed(
            "login", url or self.served.url, "--token-stdin", text=token or self.served.tokens[name], code=code
        )

    def typed(self, *arguments: str, text: str = "", code: int | None = 0) -> Outcome:
        """Run a command without a kubeconfig; ``text`` is its standard input."""
        with self._monkeypatch.context() as patch:
            patch.setenv("XDG_CONFIG_HOME", str(self.directory))
            patch.setenv("KUBECONFIG", str(self.directory / "no-kubeconfig"))
            patch.setattr("sys.stdin", io.StringIO(text))
            return self.place.anywhere(*arguments, code=code)

    def same(self, *arguments: str, code: int | None = 0) -> Outcome:
        """A command by both ways: what is printed, and the exit code, are the same."""
        near = self.place.gpuctl(*arguments, code=code)
        far = self.typed(*arguments, "-n", self.place.namespace, code=code)
        assert (_timeless(far.out), _timeless(far.err), far.code) == (
            _timeless(near.out),
            _timeless(near.err),
            near.code,
        )
        return far


def _timeless(text: str) -> str:
    """Without ages, which grow from one command to the next."""
    return re.sub(r" +", " ", re.sub(r"\b\d+s\b", "0s", text))


@pytest.fixture
def remote(place: Place, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    """Somebody without a kubeconfig, not logged in."""
    return Remote(place, served, tmp_path / "config", monkeypatch)


def settled(remote: Remote, *names: str) -> None:
    """Wait until the service knows that jobs run."""
    remote.place.running(*names)
    remote.served.until(
        "/jobs",
        lambda value: {item["name"] for item in value["items"] if item["status"] == "running"} == set(names),
        namespace=remote.place.namespace,
    )


def test_log_in_and_out(remote: Remote) -> None:
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
    # A cluster that is named is asked all the same.
    assert remote.typed("get", "jobs", "--context", "nowhere", code=3).err.startswith("error: ")
    assert remote.typed("get", "jobs", "--context", "x", "--server", remote.served.url, code=2)
    path.chmod(0o640)
    assert "others may read it" in remote.typed("get", "jobs", code=3).err
    path.chmod(0o600)
    path.write_text("{}")
    assert "is damaged" in remote.typed("get", "jobs", code=3).err
    path.unlink()
    remote.login()
    remote.typed("logout")
    assert token not in path.read_text()
    remote.typed("logout", code=2)


def test_a_token_that_is_not_accepted_is_not_kept(remote: Remote) -> None:
    said = remote.login(token="gpuctl_wrong", code=3)
    assert said.err == (
        f"error: {remote.served.url} does not accept the token\n"
        f"  = `gpuctl login {remote.served.url}` asks for another\n"
    )
    assert not (remote.directory / "gpuctl" / "servers.json").exists()
    assert remote.typed("login", remote.served.url, code=2).err.endswith("with --token-stdin.\n")
    assert remote.typed("login", remote.served.url, "--token-stdin", code=2)
    assert "without encryption" in remote.login(url="http://gpuctl.example.com", code=3).err
    assert "no user" in remote.login(url="https://anna:secret@gpuctl.example.com", code=3).err
    assert "secret" not in remote.login(url="https://anna:secret@gpuctl.example.com", code=3).err


def test_lists_are_the_same(remote: Remote) -> None:
    remote.login()
    remote.place.apply(training("a"), inference("b"))
    settled(remote, "a", "b")
    for more in ((), ("-o", "wide"), ("-o", "name"), ("-o", "json"), ("-o", "yaml"), ("--jobs",), ("--pods",)):
        remote.same("get", "jobs", *more)
    remote.same("get", "jobs", "--pool", POOL, "--kind", "training", "--status", "running")
    remote.same("get", "jobs", "a", "-l", "app=a")
    remote.same("get", "jobs", "--status", "failed")
    remote.same("get", "jobs", "nope", code=1)
    remote.same("get", "jobs", "nope", "-o", "json", code=1)
    remote.same("get", "pods", "b")


def test_one_job_is_the_same(remote: Remote) -> None:
    remote.login()
    stuck = training("stuck")
    stuck["resources"]["gpu"] = 999
    remote.place.apply(training("a"), inference("b"), stuck, flags=("--yes",), code=None)
    remote.place.running("a", "b")
    remote.served.until("/jobs", lambda value: value["total"] >= 2, namespace=remote.place.namespace)
    for name in ("a", "b", "training/a"):
        for more in ((), ("-o", "json"), ("-o", "yaml")):
            remote.same("describe", "job", name, *more)
            remote.same("why", name, *more)
    for command in (("describe", "job"), ("why",)):
        remote.same(*command, "nope", code=1)
        remote.same(*command, "nope", "-o", "json", code=1)


def test_what_may_not_be_seen_is_not_there(remote: Remote) -> None:
    remote.place.apply(training("a"))
    settled(remote, "a")
    remote.login("anna")
    assert json.loads(remote.typed("get", "jobs", "-o", "json").out)["total"] == 0
    assert "no job" in remote.typed("why", "a", code=1).err
    assert remote.typed("get", "jobs", "-n", remote.place.namespace, code=3).err.startswith("error: anna may not")
    for line in remote.typed("get", "nodes", "-o", "json").out.splitlines():
        assert remote.place.namespace not in line


def test_commands_that_need_a_cluster_say_so(remote: Remote) -> None:
    remote.login()
    for arguments in (("exec", "a", "--", "ls"), ("port-forward", "a", "80"), ("recover",), ("get", "namespaces")):
        said = remote.typed(*arguments, code=1)
        assert "does not work through the service" in said.err
        assert "--context or --kubeconfig" in said.err
    assert os.environ.get("GPUCTL_SERVER") is None
