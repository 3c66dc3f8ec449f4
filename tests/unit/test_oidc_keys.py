"""Requests to an OpenID Connect provider that is slow, fails, changes its keys, or gives a wrong configuration."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpuctl.kube.api_errors import ClusterError, ConnectionFailed
from gpuctl_server.access import oidc_keys
from gpuctl_server.access.oidc_keys import ProviderKeys
from gpuctl_server.access.oidc_login import CodeFlow, LoginAttempt, LoginFailed
from support.oidc_provider import OidcProvider


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    running = OidcProvider()
    yield running
    running.server.shutdown()
    running.server.server_close()


def test_known_key_is_not_delayed_by_a_slow_provider(provider: OidcProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc_keys, "_LAST", 0.0)
    monkeypatch.setattr(oidc_keys, "_WAIT", 0.1)
    keys = ProviderKeys(provider.issuer)
    assert keys.find("one") is not None
    asked, answered, published = threading.Event(), threading.Event(), provider.keys()

    def slow_keys() -> dict[str, object]:
        asked.set()
        answered.wait(30)
        return published

    monkeypatch.setattr(provider, "keys", slow_keys)
    monkeypatch.setattr(oidc_keys, "_PAUSE", 0.0)
    with ThreadPoolExecutor(1) as pool:
        refreshing = pool.submit(keys.find, "one")
        assert asked.wait(30)
        begun = time.monotonic()
        assert keys.find("one") is not None
        assert time.monotonic() - begun < 5
        keys._next_for_unknown = 0.0
        with pytest.raises(ConnectionFailed, match="still being fetched"):
            keys.find("new")
        answered.set()
        assert refreshing.result() is not None


def test_last_keys_stay_valid_while_the_provider_fails(provider: OidcProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc_keys, "_LAST", 0.0)
    monkeypatch.setattr(oidc_keys, "_PAUSE", 0.0)
    keys = ProviderKeys(provider.issuer)
    assert keys.find("one") is not None
    assert keys.find("two") is None
    good = provider.keys()
    monkeypatch.setattr(provider, "keys", lambda: {"keys": []})
    assert keys.find("one") is not None
    with pytest.raises(ConnectionFailed, match="cannot be fetched"):
        keys.find("two")
    # Not asked again at once, and known a moment later.
    monkeypatch.setattr(provider, "keys", lambda: {"keys": [{**good["keys"][0], "kid": "two"}]})
    with pytest.raises(ConnectionFailed):
        keys.find("two")
    keys._next_for_unknown = 0.0
    assert keys.find("two") is not None
    assert keys.find("one") is None


def test_requests_do_not_wait_one_after_another_for_a_provider_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = []

    def fail(issuer: str, field: str) -> str:
        fetched.append(field)
        time.sleep(0.3)
        raise ConnectionFailed("no answer")

    monkeypatch.setattr(oidc_keys, "provider_address", fail)
    keys = ProviderKeys("https://sso.example.com")
    begun = time.monotonic()
    with ThreadPoolExecutor(20) as pool:
        asking = [pool.submit(keys.find, "one") for _ in range(20)]
    assert all(isinstance(one.exception(), ConnectionFailed) for one in asking)
    assert len(fetched) == 1
    assert time.monotonic() - begun < 3


def test_configuration_of_another_issuer_is_rejected(provider: OidcProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its token endpoint must not receive the code, the verifier and the client's secret."""
    flow, attempt = CodeFlow(provider.issuer, "gpuctl", "http://127.0.0.1/callback", "openid"), LoginAttempt.new()
    description = {**provider.description(), "issuer": "https://other.example.com"}
    monkeypatch.setattr(provider, "description", lambda: description)
    with pytest.raises(LoginFailed, match="token"):
        flow.token(attempt, {"state": attempt.state, "code": "once"})
    assert provider.forms == []
    with pytest.raises(ClusterError, match="another `issuer`"):
        flow.address(attempt)
    with pytest.raises(ClusterError, match="another `issuer`"):
        ProviderKeys(provider.issuer).find("one")
