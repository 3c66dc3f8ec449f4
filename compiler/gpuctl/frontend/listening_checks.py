"""Checks of servers: their port and their listen address."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuctl.frontend.command_lines import Program, Word, command_line, diagnostic_at, number, option, programs_of
from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document import Document, service_of
from gpuctl.frontend.launcher_checks import has_loopback_host
from gpuctl.frontend.notebook_checks import check_open_notebooks
from gpuctl.language.kinds import Job
from gpuctl.language.sentences import say

_PORTS = ("--port", "--ServerApp.port", "--NotebookApp.port", "--server.port", "--http-port")
_BINDS = ("-b", "--bind", "--bind-addr")
_HOSTS = (
    *("--host", "--hostname", "--ip", "--ServerApp.ip", "--NotebookApp.ip", "--address", "--server.address"),
    *("--server-name", "--listen", "--listen-address"),
)


class _Server(NamedTuple):
    """A server that listens on 127.0.0.1 by default.

    ``option``: the option to add. ``address_options`` and ``variable`` set its address. ``command``:
    the argument that makes the program a server.
    """

    option: str
    address_options: tuple[str, ...] = ()
    variable: str = ""
    command: str = ""


_JUPYTER = _Server("--ip=0.0.0.0", ("--ip", "--ServerApp.ip", "--NotebookApp.ip", "--config"))
_LOCAL = {
    "uvicorn": _Server("--host=0.0.0.0", ("--host", "--uds", "--fd"), "UVICORN_HOST"),
    "gunicorn": _Server("--bind=0.0.0.0:$(PORT)", ("-b", "--bind", "-c", "--config"), "PORT"),
    "hypercorn": _Server("--bind=0.0.0.0:$(PORT)", ("-b", "--bind", "-c", "--config")),
    "flask": _Server("--host=0.0.0.0", ("--host", "-h"), "FLASK_RUN_HOST", "run"),
    "sglang.launch_server": _Server("--host=0.0.0.0", ("--host", "--config")),
    "tensorboard": _Server("--bind_all", ("--bind_all", "--host")),
    "mlflow": _Server("--host=0.0.0.0", ("--host", "-h"), "MLFLOW_HOST", "server"),
    "llama-server": _Server("--host=0.0.0.0", ("--host",), "LLAMA_ARG_HOST"),
    "code-server": _Server("--bind-addr=0.0.0.0:$(PORT)", ("--bind-addr", "--host", "--config", "--socket")),
    **dict.fromkeys(("jupyter-lab", "jupyter-notebook", "jupyter-server", "jupyterlab", "notebook"), _JUPYTER),
}
_JUPYTER_COMMANDS = frozenset({"lab", "notebook", "server"})
_FILTERS = frozenset({"tee", "cat", "sed", "grep", "awk", "ts"})
# Images of docker-stacks configure Jupyter to listen on all addresses.
_LISTENING_IMAGES = ("jupyter/", "docker.io/jupyter/", "quay.io/jupyter/")


def check_servers(document: Document, model: Job) -> Iterator[Diagnostic]:
    """Report servers that the Service does not reach, and notebooks without a password."""
    if service_of(model) is None:
        return
    programs = programs_of(command_line(model))
    # A server beside background programs may be reached through one of them. A script ends with its server.
    if not any(program.background for program in programs):
        yield from _ports(document, model, programs)
        for program in [program for program in programs if program.name not in _FILTERS][-1:]:
            yield from _addresses(document, model, program)
    yield from check_open_notebooks(document, model, programs)


def _ports(document: Document, model: Job, programs: Sequence[Program]) -> Iterator[Diagnostic]:
    service = service_of(model)
    given = [found for program in programs for found in _given_ports(program)]
    if service is None or not given:
        return
    field = "port" if service.targetPort is None else "targetPort"
    target = service.targetPort or service.port
    targets = [target, *(extra.targetPort or extra.port for extra in service.ports)]
    if any(port in targets for port, _ in given):
        return
    port, word = given[-1]
    message = say(
        "the program listens on port {port}, and the service sends to port {target}", port=port, target=target
    )
    hint = say(
        "set `service.{field}: {port}`, or start the program with port {target}", field=field, port=port, target=target
    )
    if document.is_written(("service", field)):
        yield document.diagnostic(Severity.WARNING, "GPU502", message, ("service", field), hint)
    else:
        yield diagnostic_at(document, "GPU502", message, word, hint)


def _given_ports(program: Program) -> Iterator[tuple[int, Word]]:
    """Yield the ports that options name, and the words that name them."""
    port, bind = option(program.words, *_PORTS), option(program.words, *_BINDS)
    found = [port] if port is not None else []
    found += [(bind[0], bind[1].rpartition(":")[2])] if bind is not None and ":" in bind[1] else []
    for word, text in found:
        if (given := number(text)) is not None:
            yield given, word


def _addresses(document: Document, model: Job, program: Program) -> Iterator[Diagnostic]:
    given = option(program.words, *_HOSTS, *_BINDS)
    if given is not None:
        if has_loopback_host(given[1]):
            port = re.search(r":\d+\Z", given[1])
            better = f"0.0.0.0{port[0] if port else ''}"  # noqa: S104 - in a container that is what is wanted
            message = say(
                "the program listens on `{address}`, where neither the Service nor a probe reaches it", address=given[1]
            )
            hint = say("write `{text}`", text=given[0].text.replace(given[1], better))
            yield diagnostic_at(document, "GPU514", message, given[0], hint)
        return
    server = _local_server(program)
    if server is None or any(word.is_open for word in program.words) or option(program.words, *server.address_options):
        return
    names = {word.text.partition("=")[0] for word in (*program.words, *program.variables)}
    names |= {variable.name for variable in model.environment.variables}
    if names & {*server.address_options, server.variable} or (
        server is _JUPYTER and model.environment.image.startswith(_LISTENING_IMAGES)
    ):
        return
    service = service_of(model)
    number = (service.targetPort or service.port) if service is not None else 0
    message = say(
        "{name} listens on 127.0.0.1 by default, where neither the Service nor a probe reaches it", name=program.name
    )
    hint = say("add `{name}`", name=server.option.replace("$(PORT)", str(number)))
    yield diagnostic_at(document, "GPU514", message, program.words[0], hint)


def _local_server(program: Program) -> _Server | None:
    """Return the entry of a server that listens on 127.0.0.1 by default; None for any other program."""
    commands = {word.text for word in program.arguments[:4]}
    if program.name == "jupyter":
        return _JUPYTER if commands & _JUPYTER_COMMANDS else None
    server = _LOCAL.get(program.name)
    return server if server is not None and (not server.command or server.command in commands) else None
