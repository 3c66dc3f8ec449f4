"""Advice of shared code, in the words of whoever is told it: no command is printed to who has no command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuctl.answers.advice import by_service, for_rest, reworded

SOURCES = Path(__file__).parents[2] / "compiler" / "gpuctl"
ROOMS = ("apply", "acts", "reading", "usecases", "kube")
# What reaches no client of the REST API: sets, kubeconfigs, git, the command line as a client, words for the terminal.
ELSEWHERE = (
    "apply/plan/sets.py",
    "apply/operations.py",
    "apply/state/provenance.py",
    "apply/state/repository.py",
    "kube/configuration.py",
    "kube/credentials.py",
    "kube/kubeconfig.py",
    "usecases/compiling.py",
    "usecases/idle_policy.py",
    "usecases/kept_servers.py",
    "usecases/month_reports.py",
    "usecases/placing.py",
    "usecases/pod_access.py",
    "usecases/revisions.py",
    "usecases/rolling_back.py",
    "usecases/bringing_back.py",
    "usecases/revision_pairs.py",
    "usecases/service_",
    "usecases/usage_ways.py",
    "reading/running.py",
    "reading/access.py",
    # Fixes are told as the command line tells them: `GET /jobs/{jobId}/why` is its answer.
    "reading/why/",
)
ADVICE = r"`gpuctl |(?<![-\\w])--[a-z]"
"""What a text that advises has: a command, or an option of one."""
# Beside advice: what gpuctl itself did, or the log of the process.
SAID = ("not by `gpuctl pause`", "once more leaves it to `gpuctl recover`")


@pytest.fixture(scope="module")
def advice() -> list[tuple[str, str]]:
    """Every text of the rooms that advises, after where it stands; what is put in is called x."""
    return [
        (where, text)
        for room in ROOMS
        for path in sorted((SOURCES / room).rglob("*.py"))
        if not (where := str(path.relative_to(SOURCES))).startswith(ELSEWHERE)
        for text in texts(path.read_text())
    ]


def texts(source: str) -> Iterator[str]:
    """The texts of a file that advise."""
    # Most files have no advice, and a tree of each is seconds.
    if not re.search(ADVICE, source):
        return
    tree = ast.parse(source)
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            text = node.value
        else:
            continue
        if re.search(ADVICE, text) and "``" not in text:
            yield text


def test_there_is_advice(advice: list[tuple[str, str]]) -> None:
    assert len(advice) > 20


def test_no_command_reaches_a_client_of_the_api(advice: list[tuple[str, str]]) -> None:
    wrong = []
    for where, text in advice:
        told = for_rest(text)
        for said in SAID:
            told = told.replace(said, "")
        if re.search(r"`gpuctl |(?<![-\w])--[a-z]", told):
            wrong.append((where, told))
    assert wrong == []


def test_who_has_no_kubeconfig_is_told_what_works(advice: list[tuple[str, str]]) -> None:
    assert [(where, text) for where, text in advice if "--adopt" in by_service(text)] == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("`gpuctl recover -n a` and `gpuctl recover` do", "`POST /recoveries?namespace=a` and `POST /recoveries` do"),
        ("`gpuctl rerun a -n b` runs it again", "`POST /jobs/a/rerun?namespace=b` runs it again"),
        ("`gpuctl delete job a -n b --force` gives it up", "`DELETE /jobs/a?namespace=b&force=true` gives it up"),
        ("`gpuctl resume` goes on with it", "`POST /jobs/{jobId}/resume` goes on with it"),
        ("`gpuctl get pools` shows them", "`GET /pools` shows them"),
        ("`gpuctl get labels node-1` lists them", "`GET /nodes/node-1/labels` lists them"),
        ("x is there already; nothing to do", "x is there already; nothing to do"),
    ],
)
def test_requests_for_commands(text: str, told: str) -> None:
    assert for_rest(text) == told
    assert by_service(text) == text
    assert reworded({text: [text, 1, None]}, for_rest) == {text: [told, 1, None]}
