"""Modules imported at startup: every command pays for them, and reading a cluster needs no document models."""

from __future__ import annotations

import json
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuctl.language.fields import Block
from gpuctl.language.kinds import KINDS, model_of
from gpuctl.language.platform_document import PlatformDocument
from gpuctl.language.settings import Settings

MODELS = {"pydantic", "pydantic_core", "yaml", "jsonschema_rs", "kubernetes"}
EXPENSIVE = MODELS | {"urllib3", "http"}


def modules_of(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after running code."""
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return {*result.stdout.splitlines()[-1].split()}


def loaded_by(code: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter has loaded after running code."""
    return {name.partition(".")[0] for name in modules_of(code)}


def test_models_of_answers_are_built_when_used() -> None:
    """Most commands print text: the schemas of their JSON would cost more than the rest of their imports."""
    code = "from gpuctl.api.plan_answers import PlanAnswer\nfrom gpuctl.api.base_models import Body\n"
    subprocess.run(
        [sys.executable, "-c", f"{code}assert not PlanAnswer.__pydantic_complete__ | Body.__pydantic_complete__"],
        check=True,
    )


def test_offline_modules_load_no_models_and_no_client() -> None:
    modules = [
        *("gpuctl.language.settings", "gpuctl.language.kinds", "gpuctl.language.names", "gpuctl.language.display_text"),
        *("gpuctl.backend.lowering_context", "gpuctl.cli.main", "gpuctl.cli.output.text"),
    ]
    assert loaded_by(f"import {', '.join(modules)}").isdisjoint(EXPENSIVE)


def test_reading_modules_load_no_models() -> None:
    modules = [
        *(
            "gpuctl.kube.configuration",
            "gpuctl.kube.connection",
            "gpuctl.reading.jobs.job_lookup",
            "gpuctl.reading.jobs.job_rows",
        ),
        *("gpuctl.reading.nodes.inventory", "gpuctl.reading.nodes.node_rows", "gpuctl.reading.nodes.pool_rows"),
    ]
    assert loaded_by(f"import {', '.join(modules)}").isdisjoint(MODELS)


def test_secrets_in_error_messages_are_masked() -> None:
    code = (
        "from gpuctl.kube.api_errors import ClusterError\n"
        "error = ClusterError('password=geheim1 is refused')\n"
        "print(error, repr(error), error.args, error.message)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "geheim1" not in shown
    assert shown.count("password=*") == shown.count(" is refused") == 2


def test_default_settings_load_no_models() -> None:
    code = (
        "from gpuctl.language.settings import Settings\nsettings = Settings()\n"
        "settings.label('pool'), settings.gpus, settings.default_vendor, settings.used_vendors\n"
        "settings.is_rolling, settings.priorities, settings.external_pools, settings.queue_of('a')"
    )
    assert loaded_by(code).isdisjoint(EXPENSIVE)


def test_no_platform_equals_an_empty_platform() -> None:
    none, empty = Settings(), Settings(PlatformDocument())
    for name in (
        "domain",
        "is_rolling",
        "gpus",
        "default_vendor",
        "used_vendors",
        "gpu_types",
        "priorities",
        "external_pools",
        "kubernetes_version",
        "sharing",
    ):
        assert getattr(none, name) == getattr(empty, name), name
    assert none.label("pool") == empty.label("pool")
    assert none.queue_of("a") is empty.queue_of("a") is None
    assert none.defaults_of("training") == empty.defaults_of("training") == {}
    assert none.platform == empty.platform


KUBECONFIG = """{"apiVersion": "v1", "kind": "Config", "current-context": "here",
"contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
"clusters": [{"name": "here", "cluster": {"server": "http://127.0.0.1:9"}}],
"users": [{"name": "me", "user": {"token": "t"}}]}
"""


@pytest.mark.parametrize(
    "arguments",
    [("get", "jobs"), ("get", "nodes"), ("get", "pools"), ("get", "quotas"), ("get", "labels"), ("why", "a"),
     ("logs", "a"), ("wait", "a", "--for", "done")],
)  # fmt: skip
def test_read_commands_import_no_models(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Until the first request to the API server."""
    (tmp_path / "config").write_text(KUBECONFIG)
    code = (
        f"import os, socket, sys\nos.chdir({str(tmp_path)!r})\n"
        "def connect(*_):\n    print(*sys.modules, flush=True)\n    os._exit(0)\nsocket.socket.connect = connect\n"
        f"sys.argv = ['gpuctl', *{arguments!r}, '--kubeconfig', 'config']\nfrom gpuctl.__main__ import main\nmain()"
    )
    found = modules_of(code)
    # A kubeconfig may be YAML.
    assert {name.partition(".")[0] for name in found}.isdisjoint(MODELS - {"yaml"})
    assert arguments != ("get", "jobs") or "gpuctl.reading.nodes.inventory" not in found


@pytest.mark.parametrize(
    "arguments",
    [("get", "jobs"), ("get", "nodes"), ("get", "labels"), ("get", "namespaces"), ("why", "a"), ("logs", "a"),
     ("logs", "a", "-f"), ("wait", "a", "--for", "done")],
)  # fmt: skip
def test_service_commands_import_no_models_and_no_server(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Until the first request to the service."""
    kept = tmp_path / "gpuctl" / "servers.json"
    kept.parent.mkdir()
    url = "http://127.0.0.1:9"
    kept.write_text(json.dumps({"current": url, "servers": {url: {"token": "t"}}}))
    kept.chmod(0o600)
    code = (
        f"import os, socket, sys\nos.chdir({str(tmp_path)!r})\nos.environ['XDG_CONFIG_HOME'] = {str(tmp_path)!r}\n"
        "def connect(*_):\n    print(*sys.modules, flush=True)\n    os._exit(0)\nsocket.socket.connect = connect\n"
        f"sys.argv = ['gpuctl', *{arguments!r}, '--server', {url!r}]\nfrom gpuctl.__main__ import main\nmain()"
    )
    loaded = loaded_by(code)
    assert loaded.isdisjoint(MODELS)
    assert not [name for name in loaded if name.partition(".")[0] in ("gpuctl_server", "fastapi", "kubernetes")]


@pytest.mark.parametrize("command", ["render", "validate", "fmt"])
def test_compile_loads_no_libraries_and_answers_of_other_commands(command: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "kind: training\nversion: v0.1\njob: {name: a, namespace: b}\n"
        "environment: {image: i, command: [x]}\nresources: {gpu: 1}\n"
    )
    (tmp_path / "plugin_of_pydantic.py").touch()
    (tmp_path / "plugin-1.dist-info").mkdir()
    (tmp_path / "plugin-1.dist-info" / "entry_points.txt").write_text("[pydantic]\nplugin = plugin_of_pydantic\n")
    code = (
        f"import os, sys\nos.chdir({str(tmp_path)!r})\nsys.argv = ['gpuctl', {command!r}, 'job.yaml']\n"
        f"sys.path.append({str(tmp_path)!r})\n"
        "from gpuctl.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0, end"
    )
    found = modules_of(code)
    if command != "fmt":
        assert "gpuctl.compilation" in found
        rooms = {".".join(name.split(".")[:2]) for name in found}
        assert {"gpuctl.kube", "gpuctl.usecases", "gpuctl.apply", "gpuctl.reading", "gpuctl_server"}.isdisjoint(rooms)
        assert {"gpuctl.api.document_answers", "plugin_of_pydantic"}.isdisjoint(found)
    others = {"kubernetes", "urllib3", "duckdb", "fastapi", "sqlalchemy", "jsonschema", "deepdiff", "ruamel", "rich"}
    others |= {"asyncio", "kubernetes_validate"}
    assert others.isdisjoint({name.partition(".")[0] for name in found})


def test_service_loads_no_libraries_of_settings_that_are_not_set() -> None:
    """Alembic migrates usage databases, PyJWT verifies tokens of OIDC providers."""
    assert loaded_by("import gpuctl_server.startup").isdisjoint({"alembic", "mako", "pygments", "jwt", "cryptography"})


EXIT_SCRIPT = """
import atexit, sys, threading, time
import gpuctl.__main__, gpuctl.cli.main
class Kept:
    def __del__(self):
        print("taken apart")
kept = Kept()
def run(_):
    def late():
        time.sleep(0.2)
        print("a thread")
    threading.Thread(target=late).start()
    atexit.register(print, "who wants to know", file=sys.stderr)
    print("the answer")
    {ends}
gpuctl.cli.main.run = run
gpuctl.__main__.program()
"""


@pytest.mark.parametrize(
    ("ends", "code", "output", "errors"),
    [
        ("return 3", 3, "the answer\na thread\n", "who wants to know\n"),
        ("sys.exit('why')", 1, "the answer\na thread\ntaken apart\n", "why\nwho wants to know\n"),
    ],
)
def test_process_with_an_exit_code_skips_teardown(ends: str, code: int, output: str, errors: str) -> None:
    """Threads are joined and exit handlers run; an unexpected exit is left to Python."""
    command = [sys.executable, "-c", EXIT_SCRIPT.replace("{ends}", ends)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (code, output, errors)


@pytest.mark.parametrize("kind", KINDS)
def test_model_fields_have_no_builtin_factories(kind: str) -> None:
    """Pydantic inspects a factory's signature; for a function written in C it must parse the signature's text."""
    asked: list[type[Block]] = [model_of(kind)]
    for model in asked:
        for name, field in model.model_fields.items():
            assert field.default_factory not in (list, dict, set), f"{model.__name__}.{name}"
            asked += [part for part in _blocks(field.annotation) if part not in asked]
    assert len(asked) > 1


def _blocks(annotation: Any) -> Iterator[type[Block]]:
    # In Python 3.10, `dict[...]` is a type too.
    if typing.get_origin(annotation) is None and isinstance(annotation, type) and issubclass(annotation, Block):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _blocks(part)
