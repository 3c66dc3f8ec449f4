"""Login to the console at an OpenID Connect provider: the code flow with PKCE."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from control_plane import ControlPlane
from control_plane.processes import free_ports
from support.browser import visiting
from support.oidc_provider import AUDIENCE, OidcProvider
from support.served import Served, serving

LOGIN, CALLBACK = "/console/oidc/login", "/console/oidc/callback"


@pytest.fixture(scope="module")
def service(plane: ControlPlane, provider: OidcProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service whose users log in at the provider."""
    directory: Path = tmp_path_factory.mktemp("provider")
    (directory / "secret").write_text("shared\n")
    [port] = free_ports(1)
    options = {
        "auth": "oidc",
        "oidc_issuer": provider.issuer,
        "oidc_audience": AUDIENCE,
        "oidc_client_secret": str(directory / "secret"),
        "console_url": f"http://127.0.0.1:{port}/",
        "port": str(port),
    }
    with serving(directory, plane.kubeconfig(), {}, **options) as running:  # type: ignore[arg-type]
        yield running


def sent_back(service: Served, provider: OidcProvider, client: httpx.Client) -> httpx.URL:
    """Begin a login, and return where the provider sends the browser."""
    begun = client.get(f"{service.url}{LOGIN}")
    assert begun.status_code == 303
    asked = {name: values[0] for name, values in parse_qs(urlsplit(begun.headers["location"]).query).items()}
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert asked["redirect_uri"] == f"{service.url}{CALLBACK}"
    return httpx.URL(httpx.get(begun.headers["location"]).headers["location"])


def test_user_of_the_provider_is_logged_in(service: Served, provider: OidcProvider, browser: Any) -> None:
    with visiting(browser, service) as visit:
        visit.page.goto(service.url)
        visit.page.click("text=Log in at your identity provider")
        visit.page.locator(".user").get_by_text("oidc:alice").wait_for()
        assert visit.page.evaluate("document.cookie") == ""
        assert provider.forms[-1]["client_secret"] == "shared"
        # The provider is another host, and alice has no rights in the cluster.
        foreign = [trouble for trouble in visit.troubles if "another host" in trouble]
        assert all(provider.issuer in trouble for trouble in foreign)
        visit.troubles.clear()


def test_answer_to_another_attempt_is_rejected(service: Served, provider: OidcProvider) -> None:
    """A link with an attacker's code must not log a victim in as the attacker."""
    with httpx.Client() as attacker, httpx.Client() as victim:
        link = sent_back(service, provider, attacker)
        for client in (victim, httpx.Client()):
            if client is victim:
                victim.get(f"{service.url}{LOGIN}")
            answer = client.get(link)
            assert (answer.status_code, answer.headers["location"]) == (303, "../../#/?problem=expired")
            assert "gpuctl-session" not in answer.headers.get("set-cookie", "")


@pytest.mark.parametrize(
    ("refusal", "nonce", "problem"), [("access_denied", "", "denied"), ("", "of-another-login", "token")]
)
def test_failed_login_is_explained(
    service: Served, provider: OidcProvider, refusal: str, nonce: str, problem: str
) -> None:
    provider.refusal, provider.nonce = refusal, nonce
    try:
        with httpx.Client() as client:
            answer = client.get(sent_back(service, provider, client))
    finally:
        provider.refusal = provider.nonce = ""
    assert answer.headers["location"] == f"../../#/?problem={problem}"
    assert "gpuctl-session" not in answer.headers["set-cookie"]


def test_provider_is_not_offered_without_its_settings(served: Served) -> None:
    assert httpx.get(f"{served.url}/console/session").json()["provider"] is False
    assert httpx.get(f"{served.url}{LOGIN}").status_code == 404
