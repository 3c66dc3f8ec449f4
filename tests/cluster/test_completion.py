"""Completion of names by the protocols of bash, zsh and fish, for every command that takes a name."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from gpuctl.cli.commands import delete
from gpuctl.cli.main import cli
from gpuctl.cli.options import completion_callbacks
from properties.scale import part_of
from support.cluster_tools import POOL, Place, training
from support.completion import SHELLS, completed

KIND_OF = {
    completion_callbacks.complete_job: "job",
    completion_callbacks.complete_pool: "pool",
    completion_callbacks.complete_node: "node",
    completion_callbacks.complete_quota: "quota",
    completion_callbacks.complete_namespace: "namespace",
    completion_callbacks.complete_context: "context",
    completion_callbacks.complete_cluster: "cluster",
    completion_callbacks.complete_server: "server",
}
NAMED = {"--namespace", "--pool", "--context", "--cluster", "--server", "job", "name", "names", "nodes"}
"""Options and arguments whose values are names of existing objects."""
NOT_LISTED = {("get", "gpu-types"), ("usage", "--cluster")}
"""Commands and options whose names no request lists quickly: (command, subcommand) or (command, option)."""


def _commands(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield words, command
        return
    context = click.Context(command)
    # `query` is an alias of `get`.
    for name in set(command.list_commands(context)) - {"query"}:
        found = command.get_command(context, name)
        assert found is not None
        yield from _commands(found, (*words, name))


def _slots() -> list[tuple[str, tuple[str, ...]]]:
    """Return the kinds of names, each with the words after which such a name is typed."""
    found = [(kind, ("delete", kind)) for kind in delete._COMPLETE]
    for words, command in _commands(cli):
        for parameter in command.params:
            kind = KIND_OF.get(parameter._custom_shell_complete)  # type: ignore[call-overload]
            if kind is not None:
                found.append((kind, (*words, *(parameter.opts[-1:] if isinstance(parameter, click.Option) else ()))))
    return sorted(found)


def test_every_name_parameter_has_a_completion() -> None:
    missing = []
    for words, command in _commands(cli):
        for parameter in command.params:
            called = {*parameter.opts, *parameter.secondary_opts}
            is_listed = words not in NOT_LISTED and not {(words[0], name) for name in called} & NOT_LISTED
            if NAMED & called and is_listed and parameter._custom_shell_complete is None:
                missing.append((*words, *parameter.opts))
    assert missing == []


@pytest.fixture
def existing_names(place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """One existing name of each kind."""
    place.apply(training("sft-7b"))
    place.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few", "labels": {"runwhere.ai/quota": "few"}},
            "spec": {"hard": {"pods": "90"}},
        }
    )
    kubeconfig = yaml.safe_load(place.plane.kubeconfig().read_text(encoding="utf-8"))
    place.platform(f"clusters:\n  prod: {{server: '{kubeconfig['clusters'][0]['cluster']['server']}'}}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    servers = tmp_path / "config" / "gpuctl" / "servers.json"
    servers.parent.mkdir(parents=True)
    servers.write_text(json.dumps({"current": "", "servers": {"https://gpus.example.com": {"token": "secret"}}}))
    servers.chmod(0o600)
    return {
        "job": "sft-7b",
        "pool": POOL,
        "node": place.plane.kubectl("get", "nodes", "-o", "name").split()[0].removeprefix("node/"),
        "quota": "few",
        "namespace": place.namespace,
        "context": kubeconfig["contexts"][0]["name"],
        "cluster": "prod",
        "server": "https://gpus.example.com",
    }


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_complete_names_of_all_kinds(shell: str, existing_names: dict[str, str]) -> None:
    slots = _slots()
    assert {kind for kind, _ in slots} == set(existing_names)
    # Shells differ only in the protocol and commands only in the kind, so zsh and fish try one command per kind.
    asked = {kind: (kind, words) for kind, words in slots}.values() if shell != "bash" else part_of(slots, 4)
    wrong = [words for kind, words in asked if existing_names[kind] not in completed(shell, *words)]
    assert wrong == []


def test_completion_respects_typed_options_and_prefixes(
    existing_names: dict[str, str], place: Place, tmp_path: Path
) -> None:
    place.apply(training("sft-7b"), training("other"))
    kubeconfig = str(place.plane.kubeconfig())
    assert completed("bash", "why", incomplete="sf") >= {"sft-7b"}
    assert completed("bash", "why", incomplete="sft-7bc") == set()
    assert completed("bash", "logs", "-n", place.namespace) == {"sft-7b", "other"}
    assert completed("bash", "logs", f"--namespace={place.namespace}", "--kubeconfig", kubeconfig) == {
        "sft-7b",
        "other",
    }
    assert completed("bash", "wait", "sft-7b", "-n", place.namespace) == {"sft-7b", "other"}
    assert completed("bash", "pause", "-n", place.namespace, "--cluster", "prod") == {"sft-7b", "other"}
    assert completed("bash", "pause", "-n", place.namespace, "--cluster", "nosuch") == set()
    assert completed("bash", "pause", "-n", place.namespace, "--context", "nosuch") == set()
    # A user without rights gets no names.
    assert completed("bash", "why", "-n", place.namespace, "--as", "stranger") == set()


def test_completion_prints_nothing_without_a_usable_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing or broken kubeconfig, no cluster, a cluster that never answers, a plugin that prompts: no names, no
    text.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    files = {"absent": None, "broken": "contexts: [", "empty": ""}
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as closed:
        ports = {"silent": silent.getsockname()[1], "refusing": closed.getsockname()[1]}
        closed.close()
        files |= {name: _kubeconfig(port, {"token": "abc"}) for name, port in ports.items()}
        plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "IfAvailable"}
        asking = {"exec": {**plugin, "args": ["-c", "echo Password: >&2; read answer; sleep 60"]}}
        files["asking"] = _kubeconfig(ports["silent"], asking)
        for name, text in files.items():
            if text is not None:
                (tmp_path / name).write_text(text)
            for words in (("why",), ("get", "jobs", "--pool"), ("delete", "job"), ("logs", "x", "-n")):
                if name in ("silent", "asking") and words != ("why",):
                    continue
                assert completed("bash", *words, "--kubeconfig", str(tmp_path / name)) == set(), (name, words)
        for shell in SHELLS:
            assert completed(shell, "why", "--server", f"http://127.0.0.1:{ports['silent']}") == set()
    assert completed("bash", "nosuch") == set()
    assert completed("bash", "get", "nosuch") == set()


def _kubeconfig(port: int, user: dict[str, object]) -> str:
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )
