"""The Python library against a real API server: the documented examples, and cases that the document leaves out."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import gpuctl
from control_plane import ControlPlane
from gpuctl.kube.api_errors import Changed
from support.cluster_tools import Place, image, training
from support.pages import blocks

LIBRARY = "docs/library.md"


@pytest.fixture
def default_pool_node(plane: ControlPlane, place: Place) -> Iterator[None]:
    """Add a node for jobs that name no pool; delete it and the examples' namespace after the test."""
    # The namespace of a failed first attempt may still be terminating.
    plane.kubectl("delete", "namespace", "nlp", "--ignore-not-found")
    plane.add_node("library-0", gpus=8, cpu="64", memory="512Gi")
    yield
    plane.kubectl("delete", "namespace", "nlp", "--ignore-not-found", "--wait=false")
    plane.kubectl("delete", "node", "library-0")


@pytest.mark.usefixtures("default_pool_node")
def test_documented_examples_print_what_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "example"}
    printed = ""
    examples = [block for block in blocks(LIBRARY) if block.note == "changes"]
    assert examples
    for example in examples:
        if example.language == "python":
            assert printed == "", f"the document does not show this output:\n{printed}"
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(compile(example.text, LIBRARY, "exec"), names)
            printed = stream.getvalue()
        else:
            assert example.text == printed
            printed = ""
    assert printed == ""


def test_library_returns_the_json_of_the_command(place: Place) -> None:
    """Plan and apply the same documents with the library and with the command line."""
    source = place.file(training("a"))
    shown = place.gpuctl("apply", "-f", source, "--dry-run=server", "-o", "json").value
    plan = gpuctl.plan(source, namespace=place.namespace)
    assert plan.json() == shown
    result = gpuctl.apply(plan)
    assert result.ok
    assert not gpuctl.plan(source, namespace=place.namespace).writes
    assert {step["result"] for step in result.json()["steps"]} == {"done"}
    assert place.gpuctl("diff", "-f", source).out.startswith("unchanged job.batch/a ")


@pytest.mark.slow
def test_apply_refuses_to_delete_more_than_planned(place: Place) -> None:
    """Another client creates an object of the same name between plan and apply."""
    source = place.file(training("a", environment=image("v2")))
    plan = gpuctl.plan(source, namespace=place.namespace)
    assert [step.action for step in plan.steps if not step.shared] == ["create"]
    place.gpuctl("apply", "-f", place.file(training("a"), name="other.yaml"))
    with pytest.raises(Changed, match="more would be deleted than planned"):
        gpuctl.apply(plan, confirm=True)
    assert place.exists("Job", "a")
    again = gpuctl.plan(source, namespace=place.namespace)
    assert [step.action for step in again.steps if not step.shared] == ["replace"]
    heard: list[str] = []
    assert gpuctl.apply(again, confirm=True, done=lambda step: heard.append(step.action)).ok
    assert "replace" in heard


def test_invalid_options_and_refused_plans_raise(place: Place) -> None:
    source = place.file(training("a"))
    with pytest.raises(gpuctl.InvalidOptions, match="needs --set NAME"):
        gpuctl.plan(source, namespace=place.namespace, prune=True)
    plan = gpuctl.plan(source, namespace=place.namespace)
    with pytest.raises(gpuctl.InvalidOptions, match=r"give them to gpuctl\.plan"):
        gpuctl.apply(plan, namespace="elsewhere")
    with pytest.raises(gpuctl.InvalidOptions, match=r"the plan is for https://elsewhere"):
        gpuctl.apply(gpuctl.DocumentPlan(plan.plan, plan.request, "https://elsewhere"))
    gpuctl.apply(plan)
    refused = gpuctl.plan(source, namespace=place.namespace, create_only=True)
    assert refused.errors == [f"job.batch/a in {place.namespace} exists already; `gpuctl apply` changes what exists"]
    assert not refused.ok
    with pytest.raises(gpuctl.Refused, match="exists already"):
        gpuctl.apply(refused)


@pytest.mark.slow
def test_threads_share_one_connection(place: Place) -> None:
    """Use one connection in several threads, as a server does; signal handlers cannot be installed there."""
    cluster = gpuctl.connect()

    def user(number: int) -> tuple[bool, list[str], list[str]]:
        source = gpuctl.Source("job.yaml", _training_text(f"user-{number}"))
        made = gpuctl.plan(source, cluster=cluster, namespace=place.namespace)
        result = gpuctl.apply(made, cluster=cluster)
        assert result.ok, [(step.result, step.error) for step in result.steps]
        changed = json.dumps(training(f"user-{number}", environment=image("v2")))
        replaced = gpuctl.apply(
            gpuctl.Source("job.yaml", changed), cluster=cluster, namespace=place.namespace, confirm=True
        )
        own = [step.key.name for step in replaced.steps if not step.shared]
        return result.ok and replaced.ok, [step.action for step in replaced.steps if not step.shared], own

    with ThreadPoolExecutor(4) as users:
        answers = list(users.map(user, range(4)))
    cluster.close()
    assert answers == [(True, ["replace"], [f"user-{number}"]) for number in range(4)]


@pytest.mark.slow
def test_set_records_the_names_of_text_sources(place: Place) -> None:
    """A text source is identified by its name: pruning is refused if a recorded name is missing from the run."""
    one, two = (gpuctl.Source(f"{name}.yaml", _training_text(name)) for name in ("one", "two"))
    gpuctl.apply([one, two], namespace=place.namespace, set="texts")
    with pytest.raises(gpuctl.Refused, match=r"came from text:two\.yaml too, which this run leaves out"):
        gpuctl.plan([one], namespace=place.namespace, set="texts", prune=True)
    plan = gpuctl.plan([one], namespace=place.namespace, set="texts", prune=True, allow_source=True)
    assert [step.key.name for step in plan.steps if step.action == "prune"] == ["two"]
    assert gpuctl.apply(plan, confirm=True).ok
    assert not place.exists("Job", "two")


def _training_text(name: str) -> str:
    return json.dumps(training(name))
