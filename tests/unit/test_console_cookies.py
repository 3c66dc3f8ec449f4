"""Cookies of the console beside those of other applications on the host."""

from __future__ import annotations

import base64

import pytest
from starlette.responses import Response

from gpuctl_server.access.oidc_login import LoginAttempt
from gpuctl_server.console.sessions import BrowserSession, Sessions


@pytest.mark.parametrize("other", ['a={"x": 1}', "foo[bar]=1", "flag", "a=b c", 'a="x'])
def test_session_is_found_beside_any_cookie(other: str) -> None:
    sessions = Sessions(secure=False)
    response = Response()
    sessions.begin(BrowserSession("secret"), response)
    cookie = response.headers["set-cookie"].split(";", 1)[0]
    assert sessions.find(f"{other}; {cookie}") == BrowserSession("secret")


def test_attempt_is_that_of_this_host_at_any_path() -> None:
    sessions = Sessions(secure=True)
    response = Response()
    sessions.begin_attempt("value", response, 600)
    cookie, *flags = response.headers["set-cookie"].split("; ")
    assert cookie == "__Host-gpuctl-login=value"
    assert {"Path=/", "Secure", "HttpOnly", "SameSite=lax"} <= set(flags)
    assert sessions.attempt(cookie) == "value"


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "[" * 2900, '{"state": "a"}'),
        '{"state": 1, "nonce": "b", "verifier": "c"}',
        '{"state": "\\ud800", "nonce": "b", "verifier": "c"}',
    ],
)
def test_damaged_cookie_of_an_attempt_is_ignored(text: str) -> None:
    attempt = LoginAttempt.new()
    assert LoginAttempt.of(attempt.text()) == attempt
    assert LoginAttempt.of(base64.urlsafe_b64encode(text.encode()).decode()) is None
