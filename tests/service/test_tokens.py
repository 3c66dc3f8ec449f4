"""Tokens: which are accepted, when they stop being valid, and what the service reports about the token file."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from datetime import timedelta
from pathlib import Path

import httpx
import jwt
import pytest

from control_plane import ControlPlane
from gpuctl_server.access.tokens import DamagedTokens, new_token, read_tokens, write_tokens
from support.cluster_tools import Place, training
from support.oidc_provider import AUDIENCE, OidcProvider
from support.served import Served, serving


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Basic YTpi", "Bearer x y", "bearer \xff", "Bearer  ,", "Bearer " + "x" * 5000, "Token abc"],
)
def test_malformed_authorization_headers_get_the_same_401(served: Served, header: str) -> None:
    found = httpx.get(f"{served.url}/api/v1/jobs", headers=[(b"Authorization", header.encode("latin-1"))])
    assert found.status_code == 401
    assert found.json() == {
        "error": "Unauthorized",
        "message": "the token is missing, invalid or expired",
        "details": [],
    }
    assert found.headers["www-authenticate"].startswith("Bearer")


def test_changes_of_the_token_file_apply_without_restart(plane: ControlPlane, tmp_path: Path) -> None:
    """A new token works at once; a removed or expired one is rejected."""
    with serving(tmp_path, plane.kubeconfig(), {"admin": ("admin", None, None)}) as own:
        path = tmp_path / "tokens.json"
        before = read_tokens(path)
        address = f"{own.url}/api/v1/jobs"
        # The token has to be valid until the request is sent, which takes longer on a busy machine.
        for seconds in (2, 10, 60):
            token, entry = new_token("new", "viewer", lasts=timedelta(seconds=seconds))
            ask = {"headers": {"Authorization": f"Bearer {token}"}, "timeout": 60}
            assert httpx.get(address, **ask).status_code == 401
            write_tokens(path, [*before, entry])
            if (found := httpx.get(address, **ask).status_code) == 200:
                break
        assert found == 200
        plane.wait_for(lambda: httpx.get(address, **ask).status_code == 401, "the token to expire")
        lasting, entry = new_token("other", "viewer")
        write_tokens(path, [*before, entry])
        ask = {"headers": {"Authorization": f"Bearer {lasting}"}, "timeout": 60}
        assert httpx.get(address, **ask).status_code == 200
        path.write_text("{")
        assert httpx.get(address, **ask).status_code == 200, "a damaged file changes nothing"
        write_tokens(path, before)
        assert httpx.get(address, **ask).status_code == 401
        assert token not in "".join(own.log)


def _status_for_admin(own: Served) -> int:
    return own.client().get("/jobs").status_code


def test_token_file_with_open_permissions_is_not_read(plane: ControlPlane, tmp_path: Path) -> None:
    """Its tokens are not used, neither at the start nor later. Tokens read before stay valid, and the log states the
    reason.
    """
    with serving(tmp_path, plane.kubeconfig(), {"admin": ("admin", None, None)}) as own:
        path = tmp_path / "tokens.json"
        for number, mode in enumerate((0o604, 0o640 | 0o020, 0o602, 0o620, 0o666), 1):
            token, entry = new_token(f"stranger-{number}", "admin")
            write_tokens(path, [*read_tokens(path), entry])
            path.chmod(mode)
            own.tokens = {**own.tokens, entry.name: token}
            own.get("/jobs", entry.name, status=401)
            assert _status_for_admin(own) == 200
            with pytest.raises(DamagedTokens, match=r"may be (read|written) by (all users|its group)"):
                read_tokens(path)
            said = own.until_told("the token file cannot be read", count=number)
            assert len(said) == number
            assert f"chmod 600 {path}" in said[-1]
            _check_tokens_readable(own, readable=False)
            path.chmod(0o600)
            _check_tokens_readable(own, readable=True)
            own.get("/jobs", entry.name)


def _check_tokens_readable(own: Served, *, readable: bool) -> None:
    """Check that /readyz and /metrics report whether the token file is readable (otherwise revocations have no effect)."""
    assert ("tokensReadable" in httpx.get(f"{own.url}/readyz").json()) is not readable
    headers = {"Authorization": f"Bearer {own.tokens['admin']}"}
    problem = httpx.get(f"{own.url}/readyz", headers=headers).json()["problem"]
    assert (problem is None) is readable
    told = f"gpuctl_server_tokens_readable {float(readable)}"
    assert told in httpx.get(f"{own.url}/metrics", headers=headers).text


def test_missing_token_file_is_reported_until_it_is_back(plane: ControlPlane, tmp_path: Path) -> None:
    """Until then the tokens that were read before stay valid."""
    with serving(tmp_path, plane.kubeconfig(), {"admin": ("admin", None, None)}) as own:
        path = tmp_path / "tokens.json"
        _check_tokens_readable(own, readable=True)
        path.chmod(0o644)
        _check_tokens_readable(own, readable=False)
        path.chmod(0o600)
        _check_tokens_readable(own, readable=True)
        path.rename(tmp_path / "away.json")
        assert _status_for_admin(own) == 200
        _check_tokens_readable(own, readable=False)
        (tmp_path / "away.json").rename(path)
        _check_tokens_readable(own, readable=True)


def test_foreign_and_damaged_token_files_are_ignored(plane: ControlPlane, tmp_path: Path) -> None:
    """Another user's file, a link to one, a pipe, a directory, half a file, unclosed brackets: no new token is
    accepted, no old one is rejected, and no request blocks. A link to a file of the service's own user works:
    Kubernetes mounts Secrets this way.
    """
    with serving(tmp_path, plane.kubeconfig(), {"admin": ("admin", None, None)}) as own:
        path, kept = tmp_path / "tokens.json", tmp_path / "kept.json"
        whole = path.read_text()
        token, entry = new_token("stranger", "admin")
        own.tokens = {**own.tokens, "stranger": token}
        write_tokens(kept, [*read_tokens(path), entry])
        strange = tmp_path / "strange.json"
        write_tokens(strange, [entry])

        def refused() -> None:
            assert _status_for_admin(own) == 200
            own.get("/jobs", "stranger", status=401)
            path.unlink() if not path.is_dir() else path.rmdir()

        refused()
        os.mkfifo(path, 0o600)
        refused()
        path.mkdir(0o700)
        refused()
        for text in (whole[: len(whole) // 2], "", "[" * 100_000, whole.replace(entry.digest[:1], "\u00e9")[:-9]):
            path.touch(0o600)
            path.write_text(text)
            refused()
        digest = json.loads(kept.read_text())
        digest["tokens"][-1]["sha256"] = "\u00e9" * 64
        path.touch(0o600)
        path.write_text(json.dumps(digest))
        refused()
        if os.geteuid() == 0:
            os.chown(strange, 12345, 12345)
            path.symlink_to(strange)
            with pytest.raises(DamagedTokens, match="another user"):
                read_tokens(path)
            refused()
        path.symlink_to(kept)
        own.get("/jobs", "stranger")
        assert not any("Traceback" in text for text in own.log)


def test_kubernetes_users_see_what_rbac_lets_them_list(plane: ControlPlane, tmp_path: Path, place: Place) -> None:
    """Lists contain what the user may list by RBAC; gpuctl's own roles do not apply."""
    place.apply(training("a"), training("b", job={"namespace": "team-b"}))
    with serving(tmp_path, plane.kubeconfig(), {}, auth="kubernetes") as own:
        own.tokens = {name: plane.tokens[name] for name in ("admin", "alice", "bob", "reader")}

        def names(user: str) -> set[str]:
            return {item["name"] for item in own.get("/jobs", user, pageSize=1000)["items"]}

        own.until(
            "/jobs", lambda value: {"a", "b"} <= {item["name"] for item in value["items"]}, "reader", pageSize=1000
        )
        assert "a" not in names("alice")
        assert "b" not in names("alice")
        assert "b" in names("bob")
        assert {item["namespace"] for item in own.get("/jobs", "bob", pageSize=1000)["items"]} == {"team-b"}
        check = {"resource": "jobs", "action": "create", "namespace": "team-a"}
        allowed = {
            user: own.call("POST", "/auth/check", user, json=check)["allowed"]
            for user in ("admin", "alice", "bob", "reader")
        }
        assert allowed == {"admin": True, "alice": True, "bob": False, "reader": False}
        own.tokens = {**own.tokens, "stranger": "not-a-token"}
        own.get("/jobs", "stranger", status=401)
    place.plane.kubectl("delete", "job", "b", "-n", "team-b")


@pytest.mark.slow
def test_oidc_tokens_with_wrong_claims_or_signature_are_rejected(
    plane: ControlPlane, tmp_path: Path, provider: OidcProvider
) -> None:
    """Issuer, audience, times, signature and algorithm are checked; a `system:` user or group of Kubernetes is
    rejected.
    """
    options = {"auth": "oidc", "oidc_issuer": provider.issuer, "oidc_audience": AUDIENCE, "oidc_prefix": ""}
    public = base64.b64encode(hashlib.sha256(b"").digest()).decode()
    now = time.time()
    with serving(tmp_path, plane.kubeconfig(), {}, **options) as own:
        refused = {
            "expired": provider.token(exp=now - 120),
            "not yet": provider.token(nbf=now + 3600),
            "without end": jwt.encode(
                {"iss": provider.issuer, "aud": AUDIENCE, "sub": "a"}, provider.key, "RS256", {"kid": "one"}
            ),
            "of another audience": provider.token(aud="other"),
            "of another issuer": provider.token(iss="https://elsewhere.example.com"),
            "of another key": jwt.encode(
                {"iss": provider.issuer, "aud": AUDIENCE, "sub": "a", "exp": now + 60},
                provider.other,
                "ES256",
                {"kid": "one"},
            ),
            "of an unknown key": jwt.encode(
                {"iss": provider.issuer, "aud": AUDIENCE, "sub": "a", "exp": now + 60},
                provider.key,
                "RS256",
                {"kid": "two"},
            ),
            "signed with a secret": jwt.encode(
                {"iss": provider.issuer, "aud": AUDIENCE, "sub": "a", "exp": now + 60}, public, "HS256", {"kid": "one"}
            ),
            "unsigned": jwt.encode(
                {"iss": provider.issuer, "aud": AUDIENCE, "sub": "a", "exp": now + 60}, None, "none"
            ),
            "of the system": provider.token(sub="system:admin"),
            "in a group of the system": provider.token(groups=["system:masters"]),
            "without a name": provider.token(sub=""),
            "cut": provider.token()[:-10],
        }
        own.tokens = {**refused, "alice": provider.token(), "groupless": provider.token(sub="reader", groups=[])}
        for name in refused:
            own.get("/jobs", name, status=401)
        assert {item["namespace"] for item in own.get("/jobs", "alice")["items"]} <= {"team-a"}
        assert (
            own.call("POST", "/auth/check", "groupless", json={"resource": "nodes", "action": "get"})["allowed"]
            is False
        )
        writing = {"resource": "jobs", "action": "create", "namespace": "team-a"}
        denied = own.call("POST", "/auth/check", "alice", json=writing)
        assert denied["allowed"] is False
        assert "`oidc_impersonation` is off" in denied["message"]
