"""The command line with recorded answers of an earlier service: its output does not change."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpuctl.cli.main import run
from support.cluster_tools import POOL, inference, training
from support.remote import Remote, settled, standard_input
from support.rest_records import (
    COMMANDS,
    NEW_FIELD,
    RECORDED,
    Answered,
    Asked,
    Record,
    answering,
    comparable,
    forwarded,
)

_NAMES = sorted(path.stem for path in RECORDED.glob("*.json"))
_TOKEN = "token"


def test_every_command_is_recorded() -> None:
    assert set(_NAMES) == set(COMMANDS)


@pytest.mark.parametrize("name", [name for name in _NAMES if name != "login"])
def test_output_for_recorded_answers_is_unchanged(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output for recorded answers is unchanged, although each object has an additional, unknown field."""
    record, login = (Record.read(RECORDED / f"{name}.json") for name in (name, "login"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))
    record.exchanges += login.exchanges
    with answering(record.answers()) as url:
        monkeypatch.setattr("sys.stdin", standard_input(_TOKEN))
        assert run(["login", url, "--token-stdin"]) == 0
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", standard_input(record.stdin))
        code = run(record.arguments)
    out, err = capsys.readouterr()
    assert comparable(out) == comparable(record.out)
    assert comparable(err) == comparable(record.err)
    assert code == record.code
    assert NEW_FIELD not in out + err


@pytest.mark.skipif("REST_RECORDS" not in os.environ, reason="REST_RECORDS=DIRECTORY writes records")
def test_write_records(remote: Remote, pytestconfig: pytest.Config) -> None:
    """Run each command with a real service and record its answers."""
    place, directory = remote.place, pytestconfig.invocation_params.dir / os.environ["REST_RECORDS"]
    directory.mkdir(parents=True, exist_ok=True)
    stuck = training("stuck", resources={"gpu": 999})
    place.apply(stuck, flags=("--yes",), code=None)
    hard = {"pods": "90", "requests.cpu": "40500m", "requests.nvidia.com/gpu": "9999"}
    metadata = {"name": "few", "labels": {"runwhere.ai/quota": "few"}}
    place.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    place.apply(training("a"), inference("b"))
    place.apply(inference("b", environment={"image": "registry.example.com/app:v2"}), flags=("--yes",))
    settled(remote, "a", "b")
    [pod] = place.pods("a")
    place.plane.write_log(place.namespace, pod, "first line\nsecond line\n")
    values = {"node": f"{POOL}-0", "pool": POOL, "namespace": place.namespace}
    stdin = json.dumps(training("new"), indent=1)
    for name, text in COMMANDS.items():
        record = Record(name, [], 0, "", "")

        def answer(asked: Asked, record: Record = record) -> Answered:
            found = forwarded(remote.served.url)(asked)
            record.exchanges.append((asked.method, asked.target, found))
            return found

        with answering(answer) as url:
            told = remote.login(url=url)
            if name != "login":
                record.exchanges.clear()
                record.stdin = stdin if " -f - " in text else ""
                record.arguments = text.format(**values).split()
                told = remote.typed(*record.arguments, text=record.stdin, code=None)
            record.code, record.out, record.err = told
        record.write(directory)
