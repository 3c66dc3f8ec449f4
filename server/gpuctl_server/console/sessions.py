"""Sessions of the web console: a cookie with the token of the API. No replica holds state or needs a key."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass

from starlette.requests import cookie_parser
from starlette.responses import Response

from gpuctl.objects.durations import HOUR

LIFETIME = 12 * HOUR
"""Time after which the browser removes the cookie, seconds."""
COOKIE = "gpuctl-session"
_ATTEMPT = "gpuctl-login"
CALLBACK = "/console/oidc/callback"
CSRF_HEADER = "x-csrf-token"
SESSION = "session"
"""Key of the session in the state of a request's scope."""
_LONGEST_COOKIE = 4000
"""Browsers drop a cookie of more than 4,096 bytes, with its name and attributes."""
_CSRF_PURPOSE = b"csrf token of the gpuctl console"


class TokenTooLong(ValueError):
    """The token does not fit into a cookie."""


@dataclass(frozen=True)
class BrowserSession:
    """A logged-in browser."""

    token: str

    @property
    def csrf(self) -> str:
        """The value that must be sent with writes. Other sites cannot read it."""
        return hmac.new(self.token.encode(), _CSRF_PURPOSE, hashlib.sha256).hexdigest()

    def permits(self, csrf: str) -> bool:
        """Return True if a write has the session's CSRF token."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode())


class Sessions:
    """Writes and reads the cookies of sessions.

    :param secure: browsers send the cookie with HTTPS only.
    """

    def __init__(self, *, secure: bool) -> None:
        self._secure = secure
        # A page of a sibling domain can set a cookie, but none with this prefix.
        prefix = "__Host-" if secure else ""
        self._cookie, self._attempt = f"{prefix}{COOKIE}", f"{prefix}{_ATTEMPT}"

    def begin(self, session: BrowserSession, response: Response) -> None:
        """Add the cookie of a session to a response.

        :raises TokenTooLong: the cookie would be too large for browsers.
        """
        value = base64.urlsafe_b64encode(session.token.encode()).decode().rstrip("=")
        if len(value) > _LONGEST_COOKIE:
            raise TokenTooLong
        self._set(response, value, LIFETIME)

    def end(self, response: Response) -> None:
        """Let the browser remove the cookie."""
        self._set(response, "", 0)

    def begin_attempt(self, value: str, response: Response, age: int) -> None:
        """Add the cookie of an attempt to log in at a provider; an empty value removes it.

        The provider's redirect comes from another site, so that the cookie cannot be strict.
        """
        response.set_cookie(
            self._attempt, value, max_age=age, path="/", secure=self._secure, httponly=True, samesite="lax"
        )

    def attempt(self, header: str) -> str:
        """Return the value of the attempt of a Cookie header; "" without one."""
        return cookie_parser(header).get(self._attempt, "")

    def _set(self, response: Response, value: str, age: int) -> None:
        response.set_cookie(
            self._cookie, value, max_age=age, path="/", secure=self._secure, httponly=True, samesite="strict"
        )

    def find(self, header: str) -> BrowserSession | None:
        """Return the session of a Cookie header; None without a valid one."""
        if self._cookie not in header:
            return None
        # `http.cookies` ignores all cookies if another application on the host has one that it cannot read.
        value = cookie_parser(header).get(self._cookie, "")
        try:
            token = base64.b64decode(value + "=" * (-len(value) % 4), b"-_", validate=True).decode("ascii")
        except (ValueError, binascii.Error):
            return None
        return BrowserSession(token) if token.isprintable() and token.strip() == token != "" else None
