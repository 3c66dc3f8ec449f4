"""Configured clients of the official Kubernetes package: the library authenticates to the API server as the same user."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as kubernetes
from kubernetes import config as loading

import gpuctl
from control_plane import ControlPlane
from fault_tools.world import Api
from gpuctl.kube.session import Session
from support.pages import blocks

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
BODY = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@pytest.fixture
def settings(plane: ControlPlane) -> Any:
    """Return a client configuration loaded from the control plane's kubeconfig."""
    configuration = kubernetes.Configuration()
    loading.load_kube_config(str(plane.kubeconfig()), client_configuration=configuration, persist_config=False)
    return configuration


def identity(review: Any) -> dict[str, Any]:
    """Return the user of a SelfSubjectReview, without the fields that differ per connection."""
    user = review["status"]["userInfo"]
    return {name: user.get(name) for name in ("username", "groups", "uid")}


def library_user(client: Any) -> dict[str, Any]:
    """Return the user that the server authenticates for the library."""
    connection = gpuctl.connect(client=client)
    session = Session(connection, alone=True)
    try:
        return identity(session.request("POST", REVIEW, body=BODY))
    finally:
        session.close()


def official_client_user(client: Any) -> dict[str, Any]:
    """Return the user that the server authenticates for the official client."""
    return identity(
        kubernetes.AuthenticationV1Api(client).create_self_subject_review(BODY, _preload_content=False).json()
    )


@pytest.fixture
def apis() -> Iterator[list[Any]]:
    """A list of clients that are closed after the test."""
    made: list[Any] = []
    yield made
    for client in made:
        client.close()


def test_token_authenticates_the_same_user(settings: Any, apis: list[Any]) -> None:
    apis.append(client := kubernetes.ApiClient(settings))
    assert library_user(client) == official_client_user(client)
    assert library_user(client)["username"] == "admin"


def test_client_certificate_authenticates_the_same_user(
    plane: ControlPlane, settings: Any, apis: list[Any], tmp_path: Path
) -> None:
    certificate, key = plane.client_certificate("carol", "dogs")
    (tmp_path / "carol.crt").write_text(certificate)
    (tmp_path / "carol.key").write_text(key)
    settings.api_key, settings.refresh_api_key_hook = {}, None
    settings.cert_file, settings.key_file = str(tmp_path / "carol.crt"), str(tmp_path / "carol.key")
    apis.append(client := kubernetes.ApiClient(settings))
    assert library_user(client) == official_client_user(client)
    assert (library_user(client)["username"], library_user(client)["groups"]) == (
        "carol",
        ["dogs", "system:authenticated"],
    )


def test_impersonation_headers_are_sent(settings: Any, apis: list[Any]) -> None:
    apis.append(client := kubernetes.ApiClient(settings))
    client.set_default_header("Impersonate-User", "bob")
    client.set_default_header("Impersonate-Group", "cats")
    assert library_user(client) == official_client_user(client)
    assert library_user(client)["username"] == "bob"


def test_refused_token_is_renewed_by_the_hook(plane: ControlPlane, settings: Any, apis: list[Any]) -> None:
    """The server rejects the first token; the library calls the hook again and repeats the request."""
    tokens = iter(["revoked", plane.tokens["alice"], plane.tokens["alice"]])

    def refresh(configuration: Any) -> None:
        configuration.api_key["authorization"] = f"Bearer {next(tokens)}"

    settings.api_key, settings.refresh_api_key_hook = {"authorization": ""}, refresh
    apis.append(client := kubernetes.ApiClient(settings))
    assert library_user(client)["username"] == "alice"


def test_documented_example_prints_its_output(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(plane.kubeconfig()))
    example, expected = (block for block in blocks("docs/library.md") if block.note == "client")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(example.text, "docs/library.md", "exec"), {"gpuctl": gpuctl})
    assert printed.getvalue() == expected.text


def test_plan_through_an_official_client(api: Api, settings: Any, apis: list[Any]) -> None:
    if api.request("GET", "/api/v1/namespaces/official-client")[0] == 404:
        api.create_namespace("official-client")
    apis.append(client := kubernetes.ApiClient(settings))
    connection = gpuctl.connect(client=client)
    text = "kind: compute\nversion: v0.1\njob: {name: a}\nenvironment: {image: i, command: [x]}\n"
    document = gpuctl.Source("a.yaml", text)
    plan = gpuctl.plan(document, cluster=connection, namespace="official-client")
    connection.close()
    assert plan.ok
    assert plan.server == settings.host
    assert "create" in {step.action for step in plan.steps}
