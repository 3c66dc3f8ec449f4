"""Hints are values: each surface (command line, REST) renders commands and options in its own form."""

from __future__ import annotations

import ast
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from urllib3.exceptions import ReadTimeoutError

from gpuctl import hints
from gpuctl.cli.command_target import note_context
from gpuctl.hints import (
    JOB_ACTIONS,
    JobHint,
    ListHint,
    NextStep,
    NodeLabelsHint,
    Phrase,
    RecoverHint,
    RevisionHint,
    Surface,
    kubectl_line,
    set_request_surface,
    set_target_options,
)
from gpuctl.kube.connection import Connection
from gpuctl.kube.credentials import Credential, StaticCredential
from gpuctl.kube.session import Session
from gpuctl.kube.tls_settings import TlsSettings
from gpuctl.kube.transport import ServerAccess, Transport
from gpuctl_server.http.request_middleware import _server_option

SOURCES = Path(__file__).parents[2] / "compiler" / "gpuctl"
CHECKED_PACKAGES = ("apply", "acts", "reading", "usecases", "kube", "capacity")
# Modules whose texts are not shown to REST clients: sets, kubeconfigs, git, the command line and its options.
EXEMPT_MODULES = (
    "apply/plan/set_run.py",
    "apply/complete_plan.py",
    "apply/state/provenance.py",
    "apply/state/git_repository.py",
    "kube/configuration.py",
    "kube/credentials.py",
    "kube/kubeconfig.py",
    "usecases/documents/compiling.py",
    "usecases/documents/field_setting.py",
    "usecases/policies/idle_policy.py",
    "usecases/service/",
    "usecases/usage/month_report_queries.py",
    "usecases/documents/document_placement.py",
    "usecases/revisions/files_at_revision.py",
    "usecases/changes/service_",
    "usecases/documents/service_",
    "usecases/fit/service_",
    "usecases/queries/service_",
    "usecases/usage/usage_backends.py",
    "usecases/usage/usage_database.py",
    # `why` prints commands to type; `GET /jobs/{jobId}/why` returns the same texts.
    "reading/why/",
    "capacity/snapshot/snapshot_loading.py",
)
ADVICE = r"`gpuctl |(?<![-\w])--[a-z]|(?<![-\w])-[nf]\b(?! [{x])"
"""Matches a command of gpuctl or an option, but not ``-n x`` of a kubectl command."""
NOT_ADVICE = ("not by `gpuctl pause`",)
"""Texts that mention a command of gpuctl without advising it."""
RENDERED_HINTS: list[tuple[Any, str, str]] = [
    *(
        (JobHint(action, "a", "b"), f"`gpuctl {words} a -n b`", f"`{method} /jobs/a{below}?namespace=b`")
        for action, (words, method, below) in JOB_ACTIONS.items()
    ),
    (JobHint("resume"), "`gpuctl resume`", "`POST /jobs/{jobId}/resume`"),
    (
        JobHint("logs", "a", options=(("previous", ""), ("pod", "a-0"))),
        "`gpuctl logs a --previous --pod a-0`",
        "`GET /jobs/a/logs?previous=true&pod=a-0`",
    ),
    (
        JobHint("delete", "a", "b", (("force", ""),)),
        "`gpuctl delete job a -n b --force`",
        "`DELETE /jobs/a?namespace=b&force=true`",
    ),
    *((ListHint(name), f"`gpuctl get {name}`", f"`GET /{name}`") for name in ("jobs", "nodes", "pools", "quotas")),
    (NodeLabelsHint("n1"), "`gpuctl get labels n1`", "`GET /nodes/n1/labels`"),
    (RecoverHint(), "`gpuctl recover`", "`POST /recoveries`"),
    (RecoverHint("a"), "`gpuctl recover -n a`", "`POST /recoveries?namespace=a`"),
    (
        RevisionHint("a", "b", 3),
        "`gpuctl history a -n b --revision 3 > old.yaml`",
        "`GET /jobs/a/history/3?namespace=b`",
    ),
]
PHRASES = {name: value for name, value in vars(hints).items() if isinstance(value, Phrase)}


@pytest.fixture(params=[Surface.REST, Surface.SERVICE_COMMAND_LINE])
def service_surface(request: pytest.FixtureRequest) -> Iterator[Surface]:
    """Each surface of the service."""
    set_request_surface(request.param)
    yield request.param
    set_request_surface(Surface.COMMAND_LINE)


@pytest.fixture
def rest_surface() -> Iterator[None]:
    set_request_surface(Surface.REST)
    yield
    set_request_surface(Surface.COMMAND_LINE)


@pytest.mark.parametrize(("hint", "command", "request_line"), RENDERED_HINTS)
def test_hint_renders_as_a_command(hint: Any, command: str, request_line: str) -> None:
    assert f"{hint}" == command


@pytest.mark.parametrize(("hint", "command", "request_line"), RENDERED_HINTS)
def test_hint_renders_as_a_request_in_rest(rest_surface: None, hint: Any, command: str, request_line: str) -> None:
    assert f"{hint}" == request_line


@pytest.mark.parametrize(("hint", "command", "request_line"), RENDERED_HINTS)
def test_command_of_a_hint_acts_on_the_same_cluster(hint: Any, command: str, request_line: str) -> None:
    set_target_options("--context=other")
    try:
        main, file, name = command.strip("`").partition(" > ")
        assert f"{hint}" == f"`{main} --context=other{file}{name}`"
        set_request_surface(Surface.SERVICE_COMMAND_LINE)
        assert f"{hint}" == command
        # The option that a caller of the service needs.
        set_request_surface(Surface.SERVICE_COMMAND_LINE, "--server=https://gpu")
        assert f"{hint}" == f"`{main} --server=https://gpu{file}{name}`"
    finally:
        set_target_options("")
        set_request_surface(Surface.COMMAND_LINE)


@pytest.mark.parametrize(
    ("address", "option"),
    [
        ("https://gpu.example.com/a", "--server=https://gpu.example.com/a"),
        ("https://gpu/a'b", "'--server=https://gpu/a'\"'\"'b'"),
        ("", ""),
        ("https://user:secret@gpu", ""),
        ("https://gpu/`x y`", ""),
        ("https://gpu/" + 1000 * "a", ""),
    ],
)
def test_service_names_itself_by_the_address_of_its_caller(address: str, option: str) -> None:
    assert _server_option(address) == option


def test_kubectl_command_acts_on_the_same_cluster() -> None:
    assert kubectl_line("delete pvc", "data") == "`kubectl delete pvc data`"
    set_target_options("--cluster=prod", "--context=prod-admin")
    try:
        assert kubectl_line("delete pvc", "data") == "`kubectl delete pvc data --context=prod-admin`"
        set_request_surface(Surface.REST)
        assert kubectl_line("delete pvc", "data") == "`kubectl delete pvc data`"
    finally:
        set_target_options("")
        set_request_surface(Surface.COMMAND_LINE)


def test_kubectl_gets_the_context_of_a_cluster_of_the_platform() -> None:
    with click.Context(click.Command("apply")) as context:
        context.params = {"kubeconfig": "k c"}
        note_context("prod-admin")
    try:
        assert kubectl_line("get pods") == "`kubectl get pods '--kubeconfig=k c' --context=prod-admin`"
        assert f"{RecoverHint()}" == "`gpuctl recover '--kubeconfig=k c'`"
    finally:
        set_target_options("")


def test_every_hint_class_is_covered() -> None:
    kinds = {value for value in vars(hints).values() if isinstance(value, type) and hasattr(value, "_fields")}
    assert kinds - {Phrase, NextStep} == {type(hint) for hint, _, _ in RENDERED_HINTS}
    assert len(PHRASES) > 10


@pytest.mark.parametrize("name", PHRASES)
def test_rest_phrases_contain_no_command(rest_surface: None, name: str) -> None:
    assert not re.search(ADVICE, f"{PHRASES[name]}")


@pytest.mark.parametrize("name", PHRASES)
def test_service_command_line_phrases_do_not_advise_adopt(name: str) -> None:
    phrase = PHRASES[name]
    assert ("--adopt" in f"{phrase}") == (phrase.service is not None)
    set_request_surface(Surface.SERVICE_COMMAND_LINE)
    try:
        assert f"{phrase}" == (phrase.command_line if phrase.service is None else phrase.service)
    finally:
        set_request_surface(Surface.COMMAND_LINE)


def test_threads_of_a_request_use_its_surface(rest_surface: None) -> None:
    session = Session(Connection(transport(), "default", "context"))
    assert session.each(lambda name: f"{RecoverHint(name)}", ["a", "b"]) == [
        "`POST /recoveries?namespace=a`",
        "`POST /recoveries?namespace=b`",
    ]


def transport() -> Transport:
    access = ServerAccess(
        "https://10.0.0.1:6443", TlsSettings(None, "", True, ""), StaticCredential(Credential("")), (), None, "context"
    )
    return Transport(access)


def certificate_error(code: int) -> ssl.SSLCertVerificationError:
    """Return a certificate verification error with OpenSSL's code."""
    error = ssl.SSLCertVerificationError("self-signed")
    error.verify_code, error.verify_message = code, "self-signed"
    return error


TLS_AND_SOCKET_ERRORS = [
    (ssl.SSLError("wrong version"), "does not speak TLS as expected"),
    (ConnectionRefusedError("refused"), "cannot be reached"),
    (certificate_error(18), "is not trusted"),
    (certificate_error(62), "is for another name"),
]


@pytest.mark.parametrize(("error", "words"), TLS_AND_SOCKET_ERRORS)
def test_service_errors_hide_the_cluster_address(service_surface: Surface, error: Exception, words: str) -> None:
    failure = transport()._failure(error, 10)
    assert failure.message == "the Kubernetes API server cannot be reached"
    assert failure.hint == "try again in a moment; administrators find the reason in the log of the service"
    assert "10.0.0.1" in failure.detail
    assert words in failure.detail


@pytest.mark.parametrize(("error", "words"), TLS_AND_SOCKET_ERRORS)
def test_kubeconfig_errors_show_the_cluster_address(error: Exception, words: str) -> None:
    failure = transport()._failure(error, 10)
    assert "https://10.0.0.1:6443" in failure.message
    assert words in failure.message


def test_service_timeout_hides_the_cluster_address(service_surface: Surface) -> None:
    failure = transport()._failure(ReadTimeoutError(None, "/", "late"), 10)
    assert (failure.message, failure.hint) == ("the Kubernetes API server gave no answer within 10 s", None)


def advising_texts(source: str) -> Iterator[str]:
    """Yield the strings of a source file that advise a command. Interpolated values are replaced by x."""
    # Most files contain no advice; parsing all of them would take seconds.
    if not re.search(ADVICE, source):
        return
    tree = ast.parse(source)
    spoken = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in spoken:
            # Skip docstrings.
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            text = node.value
        else:
            continue
        if re.search(ADVICE, text):
            yield text


def test_no_text_contains_a_literal_command() -> None:
    wrong = []
    for room in CHECKED_PACKAGES:
        for path in sorted((SOURCES / room).rglob("*.py")):
            where = str(path.relative_to(SOURCES))
            if where.startswith(EXEMPT_MODULES):
                continue
            for text in advising_texts(path.read_text()):
                for fact in NOT_ADVICE:
                    text = text.replace(fact, "")
                if re.search(ADVICE, text):
                    wrong.append((where, text))
    assert wrong == []
