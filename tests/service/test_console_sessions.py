"""Sessions of the console: cookies, CSRF tokens, and requests of other sites. No browser is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from control_plane import ControlPlane
from gpuctl_server.access.tokens import TokenEntry, digest_of, new_token, write_tokens
from gpuctl_server.console.sessions import LIFETIME, BrowserSession, Sessions, TokenTooLong
from support.served import Served, serving

SESSION = "/console/session"


def logged_in(served: Served, name: str = "admin") -> tuple[httpx.Client, dict[str, Any]]:
    """Return a client with the cookie of a user, and the answer to the login."""
    client = httpx.Client(base_url=served.url, timeout=60)
    answer = client.post(SESSION, json={"token": served.tokens[name]})
    assert answer.status_code == 200
    return client, answer.json()


def test_login_sets_a_cookie_that_scripts_and_other_sites_cannot_use(served: Served) -> None:
    answer = httpx.post(f"{served.url}{SESSION}", json={"token": f" {served.tokens['anna']}\n"})
    assert answer.status_code == 200
    value = answer.json()
    assert (value["name"], value["namespaces"], value["pools"]) == ("anna", ["team-a"], None)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("gpuctl-session=")
    flags = [flag.strip() for flag in cookie.split(";")[1:]]
    assert flags == ["HttpOnly", f"Max-Age={LIFETIME}", "Path=/", "SameSite=strict"]
    assert answer.headers["cache-control"] == "no-store"


def test_no_cache_keeps_what_one_user_sees(served: Served) -> None:
    """No answer can be confirmed by a tag of another user, of an earlier time or of another language."""
    client, _ = logged_in(served, "anna")
    tag = httpx.get(served.url).headers["etag"]
    for path in ("/api/v1/jobs", "/api/v1/jobs/absent", "/api/v1/pools", SESSION, "/readyz"):
        first = client.get(path)
        assert (first.headers["cache-control"], first.headers.get("etag")) == ("no-store", None)
        for wrong in ("*", tag, f"W/{tag}", '"', "x" * 7000):
            headers = {"If-None-Match": wrong, "If-Modified-Since": "Wed, 21 Oct 2099 07:28:00 GMT"}
            again = client.get(path, headers=headers)
            assert (again.status_code, len(again.content) > 0) == (first.status_code, True)
    assert httpx.get(f"{served.url}/api/v1/jobs").headers["cache-control"] == "no-store"


def test_session_reads_and_its_csrf_token_writes(served: Served) -> None:
    client, value = logged_in(served)
    assert client.get("/api/v1/pools").status_code == 200
    assert client.get(SESSION).json() == value
    body = {"resource": "jobs", "action": "get"}
    for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": "x" * len(value["csrf"])}):
        refused = client.post("/api/v1/auth/check", json=body, headers=headers)
        assert (refused.status_code, refused.json()["error"]) == (403, "CsrfFailed")
    assert client.post("/api/v1/auth/check", json=body, headers={"X-CSRF-Token": value["csrf"]}).status_code == 200
    # The CSRF token of one user is not that of another.
    _, other = logged_in(served, "anna")
    assert other["csrf"] != value["csrf"]
    assert client.post("/api/v1/auth/check", json=body, headers={"X-CSRF-Token": other["csrf"]}).status_code == 403


def test_token_in_the_header_needs_no_csrf_token_and_takes_precedence(served: Served) -> None:
    client, _ = logged_in(served, "vera")
    headers = {"Authorization": f"Bearer {served.tokens['admin']}"}
    body = {"resource": "pools", "action": "create"}
    answer = client.post("/api/v1/auth/check", json=body, headers=headers)
    assert answer.json()["allowed"] is True
    assert client.get("/api/v1/jobs", headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_logout_removes_the_cookie(served: Served) -> None:
    client, value = logged_in(served)
    assert client.delete(SESSION).status_code == 403
    ended = client.delete(SESSION, headers={"X-CSRF-Token": value["csrf"]})
    assert (ended.status_code, "Max-Age=0" in ended.headers["set-cookie"]) == (204, True)
    assert client.get(SESSION).json() == {"name": None, "auth": "tokens", "provider": False}
    assert client.get("/api/v1/jobs").status_code == 401


@pytest.mark.parametrize("body", [{"token": "wrong"}, {"token": "gpuctl_" + "x" * 4000}])
def test_login_with_a_wrong_token_is_rejected(served: Served, body: dict[str, str]) -> None:
    answer = httpx.post(f"{served.url}{SESSION}", json=body)
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)


def test_another_site_cannot_log_a_browser_in(served: Served) -> None:
    body = {"token": served.tokens["admin"]}
    for site in ("cross-site", "same-site"):
        answer = httpx.post(f"{served.url}{SESSION}", json=body, headers={"Sec-Fetch-Site": site})
        assert answer.status_code == 403
    # A form of another site has no JSON type.
    form = httpx.post(f"{served.url}{SESSION}", content=json.dumps(body), headers={"Content-Type": "text/plain"})
    assert (form.status_code, "set-cookie" in form.headers) == (415, False)


@pytest.mark.parametrize(
    "cookie", ["gpuctl-session=", "gpuctl-session=x", 'gpuctl-session="a\\', "gpuctl-session=\xe9"]
)
def test_damaged_cookie_is_no_session(served: Served, cookie: str) -> None:
    headers = [(b"Cookie", cookie.encode("latin-1"))]
    assert httpx.get(f"{served.url}{SESSION}", headers=headers).json()["name"] is None
    assert httpx.get(f"{served.url}/api/v1/jobs", headers=headers).status_code == 401


def test_session_ends_with_its_token(plane: ControlPlane, tmp_path: Path) -> None:
    with serving(tmp_path, plane.kubeconfig(), {"admin": ("admin", None, None)}) as own:
        client, _ = logged_in(own)
        _, entry = new_token("other", "viewer")
        write_tokens(tmp_path / "tokens.json", [entry])
        assert client.get("/api/v1/jobs").status_code == 401
        assert client.get(SESSION).json()["name"] is None


def test_replicas_share_sessions(plane: ControlPlane, served: Served, tmp_path: Path) -> None:
    client, value = logged_in(served)
    with serving(tmp_path, plane.kubeconfig(), {}) as other:
        write_tokens(tmp_path / "tokens.json", [new_entry(served.tokens["admin"])])
        assert httpx.get(f"{other.url}{SESSION}", cookies=client.cookies).json() == value


def new_entry(token: str) -> TokenEntry:
    """Return the entry of a token in another token file."""
    _, entry = new_token("admin", "admin")
    return entry.model_copy(update={"digest": digest_of(token)})


def test_cookie_needs_https_where_tls_ends_in_front_of_the_service(plane: ControlPlane, tmp_path: Path) -> None:
    users: dict[str, Any] = {"admin": ("admin", None, None)}
    with serving(tmp_path, plane.kubeconfig(), users, insecure_plain_http="true") as own:
        answer = httpx.post(f"{own.url}{SESSION}", json={"token": own.tokens["admin"]})
        assert answer.headers["set-cookie"].startswith("__Host-gpuctl-session=")
        assert answer.headers["set-cookie"].endswith("; Secure")


def test_token_larger_than_a_cookie_is_rejected() -> None:
    with pytest.raises(TokenTooLong):
        Sessions(secure=True).begin(BrowserSession("x" * 3100), Response())


def test_pages_are_compressed_and_kept_by_browsers(served: Served) -> None:
    page = httpx.get(f"{served.url}/")
    assert (page.status_code, page.headers["content-encoding"]) == (200, "gzip")
    assert page.headers["cache-control"] == "no-cache"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert (page.headers["x-frame-options"], page.headers["referrer-policy"]) == ("DENY", "no-referrer")
    assert httpx.get(f"{served.url}/", headers={"If-None-Match": page.headers["etag"]}).status_code == 304
    script = page.text.split('type="module" src="')[1].split('"')[0]
    first = httpx.get(f"{served.url}/{script}")
    assert first.headers["content-type"] == "text/javascript; charset=utf-8"
    assert first.headers["cache-control"] == "public, max-age=31536000, immutable"
    plain = httpx.get(f"{served.url}/{script}", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.text == first.text
    _, digest, name = script.split("/")
    older = httpx.get(f"{served.url}/console/{'0' * len(digest)}/{name}")
    assert (older.status_code, older.headers["cache-control"]) == (200, "no-store")
    for wrong in ("console/x/../../etc/passwd", f"console/{digest}/nothing.js", f"console/{digest}/vendor/preact.d.ts"):
        assert served.untidied("GET", f"/../../{wrong}").status == 404
