"""Order of the platform's default variables: before document variables that refer to them, else after all of them."""

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


def variable_order(own: str, defaults: str, kind: str = "compute") -> list[str]:
    """Return the names of the document's and the platform's variables in the pod, in order."""
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
def test_referenced_defaults_precede_document_variables(own: str, wanted: list[str], defaults: str) -> None:
    assert variable_order(own, defaults) == wanted


@pytest.mark.parametrize("kind", ["training", "inference", "notebook", "compute"])
def test_referenced_defaults_precede_in_every_kind(kind: str) -> None:
    assert variable_order("{X: $(X1)}", DEFAULTS[0], kind) == ["X1", "X", "X2"]


def test_defaults_of_a_referenced_default_precede_too() -> None:
    assert variable_order("{X: $(X2)}", "{X1: a, X2: $(X1)/b, X3: c}") == ["X1", "X2", "X", "X3"]


def test_default_that_refers_to_a_document_variable_follows_it() -> None:
    assert variable_order("{X: c}", "{X1: $(X)/d}") == ["X", "X1"]


@pytest.mark.parametrize("source", ["secret: s, key: k", "configMap: c, key: k", "fieldRef: status.podIP"])
@pytest.mark.parametrize("own", ["{X: c}", "[{name: X, value: c}]"], ids=["mapping", "list"])
def test_default_with_a_source_joins_both_forms(own: str, source: str) -> None:
    assert variable_order(own, f"[{{name: X1, {source}}}]") == ["X", "X1"]
