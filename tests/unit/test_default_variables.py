"""Default variables of the platform stand before those of a document that refer to them, and else behind."""

from __future__ import annotations

import pytest

import gpuctl
from gpuctl.frontend.source import Source

PLATFORM = """\
kind: platform
version: v0.1
defaults:
  {kind}:
    environment:
      env: {env}
"""
DOCUMENT = """\
kind: {kind}
version: v0.1
job: {{name: a}}
environment: {{image: 'reg.io/a:1', command: [x], env: {env}}}
resources: {{cpu: 1, memory: 1Gi}}
{more}"""
MORE = {"inference": "service: {port: 80}\n", "notebook": "service: {port: 80}\n"}


def order(own: str, defaults: str, kind: str = "compute") -> list[str]:
    """The names of the user's variables in the pod."""
    platform = Source("platform.yaml", PLATFORM.format(kind=kind, env=defaults))
    text = DOCUMENT.format(kind=kind, env=own, more=MORE.get(kind, ""))
    result = gpuctl.compile(Source("a.yaml", text), platform=platform)
    assert result.ok, result.diagnostics
    pods = [item["spec"]["template"]["spec"] for item in result.objects if "template" in item.get("spec", {})]
    return [item["name"] for item in pods[0]["containers"][0]["env"] if item["name"].startswith("X")]


DEFAULTS = ("{X1: a, X2: b}", "[{name: X1, value: a}, {name: X2, value: b}]")


@pytest.mark.parametrize("defaults", DEFAULTS, ids=["mapping", "list"])
@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ("{X: c}", ["X", "X1", "X2"]),
        ("{X: $(X1)/d}", ["X1", "X", "X2"]),
        ("[{name: X, value: $(X2)}]", ["X2", "X", "X1"]),
        ("{X: $(X2) $(X1)}", ["X1", "X2", "X"]),
        ("{X: $$(X1)}", ["X", "X1", "X2"]),
        ("{X: $(X9)}", ["X", "X1", "X2"]),
        ("{X1: own, X: $(X1)}", ["X1", "X", "X2"]),
    ],
)
def test_order(own: str, wanted: list[str], defaults: str) -> None:
    assert order(own, defaults) == wanted


@pytest.mark.parametrize("kind", ["training", "inference", "notebook", "compute"])
def test_every_kind(kind: str) -> None:
    assert order("{X: $(X1)}", DEFAULTS[0], kind) == ["X1", "X", "X2"]


def test_what_a_needed_default_refers_to_comes_along() -> None:
    assert order("{X: $(X2)}", "{X1: a, X2: $(X1)/b, X3: c}") == ["X1", "X2", "X", "X3"]


def test_a_default_that_refers_to_the_document_stays_behind() -> None:
    assert order("{X: c}", "{X1: $(X)/d}") == ["X", "X1"]
