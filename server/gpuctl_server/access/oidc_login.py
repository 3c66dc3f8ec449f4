"""Login of browsers at an OpenID Connect provider: the authorization code flow with PKCE (RFC 7636).

What must survive the redirect is in a short-lived cookie, so that any replica can answer the provider's redirect.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpuctl.kube.api_errors import ClusterError, ConnectionFailed
from gpuctl.language.ip_addresses import is_loopback
from gpuctl.language.sentences import say
from gpuctl_server.request_log import LOG

ATTEMPT_LIFETIME = 600
"""Time for logging in at the provider, seconds."""
PROVIDER_TIMEOUT = 10
"""Timeout of requests to the provider, seconds."""
_BYTES = 32
_LARGEST = 1024 * 1024


class LoginFailed(Exception):
    """The login failed; ``str()`` is a word that the login page explains: denied, expired or token."""


@dataclass(frozen=True)
class LoginAttempt:
    """The secrets of one attempt to log in."""

    state: str
    nonce: str
    verifier: str

    @staticmethod
    def new() -> LoginAttempt:
        """Return an attempt with random values."""
        return LoginAttempt(*(secrets.token_urlsafe(_BYTES) for _ in range(3)))

    @property
    def challenge(self) -> str:
        """The hash of the verifier, which the provider compares later."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def text(self) -> str:
        """Return the value of a cookie."""
        return base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()

    @staticmethod
    def of(text: str) -> LoginAttempt | None:
        """Return the attempt of a cookie; None if it is missing or damaged."""
        try:
            value = json.loads(base64.urlsafe_b64decode(text))
            attempt = LoginAttempt(**value)
        except (ValueError, TypeError, RecursionError):
            return None
        is_valid = all(isinstance(item, str) and item.isascii() for item in asdict(attempt).values())
        return attempt if is_valid else None


@dataclass(frozen=True)
class CodeFlow:
    """The client of a provider.

    :param redirect: URL of the service to which the provider sends the browser back.
    :param secret: file with the client's secret; None for a public client.
    """

    issuer: str
    client: str
    redirect: str
    scopes: str
    secret: Path | None = None

    def address(self, attempt: LoginAttempt) -> str:
        """Return the URL at which the user logs in.

        :raises ClusterError: the provider cannot be reached.
        """
        query = {
            "response_type": "code",
            "client_id": self.client,
            "redirect_uri": self.redirect,
            "scope": self.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        found = provider_address(self.issuer, "authorization_endpoint")
        return f"{found}{'&' if '?' in found else '?'}{urllib.parse.urlencode(query)}"

    def token(self, attempt: LoginAttempt, answer: Mapping[str, str]) -> str:
        """Return the ID token for the provider's answer, the query of its redirect. Its signature is not checked here.

        :raises LoginFailed: the user or the provider has refused, or the answer belongs to another attempt.
        """
        # It loads much of a library for cryptography, which services with another login do not need.
        import jwt

        if not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
            raise LoginFailed("expired")
        if "code" not in answer:
            raise LoginFailed("denied")
        form = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "redirect_uri": self.redirect,
            "client_id": self.client,
            "code_verifier": attempt.verifier,
        }
        try:
            if self.secret is not None:
                form["client_secret"] = self.secret.expanduser().read_text().strip()
            address = provider_address(self.issuer, "token_endpoint")
            request = urllib.request.Request(  # noqa: S310 - checked by `provider_address`
                address, urllib.parse.urlencode(form).encode(), {"Accept": "application/json"}
            )
            token = str(read_json(request).get("id_token"))
            nonce = jwt.decode(token, options={"verify_signature": False}).get("nonce")
        except (OSError, ClusterError, jwt.InvalidTokenError) as error:
            LOG.warning("login at the provider failed", extra={"problem": str(error)})
            raise LoginFailed("token") from None
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), attempt.nonce.encode()):
            raise LoginFailed("token")
        return token


def provider_address(issuer: str, field: str) -> str:
    """Return an address in a provider's OpenID configuration, whose ``issuer`` must be equal (OpenID Connect Discovery
    1.0, section 4.3).

    :raises ClusterError: the configuration cannot be read, or is not valid.
    """
    found = read_json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if found.get("issuer") != issuer:
        raise ClusterError(
            say("{issuer}: its OpenID configuration has another `issuer` than the setting `oidc_issuer`", issuer=issuer)
        )
    address = found.get(field)
    if not isinstance(address, str) or not is_address(address):
        raise ClusterError(say("{issuer}: its OpenID configuration has no valid `{field}`", issuer=issuer, field=field))
    return address


def is_address(text: str) -> bool:
    """Return True if keys may be fetched from an address: HTTPS, or HTTP on the local machine."""
    parts = urllib.parse.urlsplit(text)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def read_json(address: str | urllib.request.Request) -> dict[str, Any]:
    """Return the JSON object at an address; an empty one if the answer is something else.

    :raises ConnectionFailed: there is no answer, or an error.
    """
    try:
        with urllib.request.urlopen(address, timeout=PROVIDER_TIMEOUT) as answer:  # noqa: S310 - checked when set up
            found = json.loads(answer.read(_LARGEST))
    except (urllib.error.URLError, OSError, ValueError) as error:
        where = address if isinstance(address, str) else address.full_url
        raise ConnectionFailed(say("{address} cannot be read: {error}", address=where, error=error)) from None
    return found if isinstance(found, dict) else {}
