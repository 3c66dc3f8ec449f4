"""The keys with which an OpenID Connect provider signs tokens, fetched from its discovery document."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import jwt

from gpuctl.kube.api_errors import ClusterError, ConnectionFailed
from gpuctl.language.sentences import say
from gpuctl_server.access.oidc_login import PROVIDER_TIMEOUT, provider_address

_LAST = 300.0
"""Seconds after which keys are fetched again."""
_PAUSE = 30.0
"""Seconds between two fetches because of unknown keys: callers without a token can name any key."""
_PAUSE_AFTER_FAILURE = 5.0
_WAIT = 2.0
"""Seconds for which a request with an unknown key waits for keys that another request fetches."""


class ProviderKeys:
    """The published keys. One request at a time fetches them, and the others use the last ones: a provider that does
    not respond delays only requests with new keys.
    """

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._fetching = threading.Lock()
        self._client: jwt.PyJWKClient | None = None
        self._keys: Sequence[jwt.PyJWK] = ()
        self._failure: ClusterError | None = None
        self._next = 0.0
        self._next_for_unknown = 0.0

    def find(self, name: object) -> jwt.PyJWK | None:
        """Return the key of a name, the header ``kid``; None if the provider has no such key.

        :raises ClusterError: no key of this name is known, and the keys cannot be fetched.
        """
        known = self._known(name)
        if self._is_due(known):
            if self._fetching.acquire(timeout=_WAIT if known is None else 0):
                try:
                    known = self._known(name)
                    if self._is_due(known):
                        self._fetch()
                finally:
                    self._fetching.release()
            elif known is None:
                raise ConnectionFailed(
                    say("the keys of {issuer} are still being fetched; try again in a moment", issuer=self._issuer)
                )
            known = self._known(name)
        if known is None and self._failure is not None:
            raise self._failure.with_traceback(None)
        return known

    def _known(self, name: object) -> jwt.PyJWK | None:
        return next((key for key in self._keys if key.key_id == name), None)

    def _is_due(self, known: jwt.PyJWK | None) -> bool:
        return time.monotonic() >= (self._next_for_unknown if known is None else self._next)

    def _fetch(self) -> None:
        """Fetch the keys. After a failure the last ones stay valid, as the tokens have a time of their own."""
        pause, pause_for_unknown = _LAST, _PAUSE
        try:
            self._keys, self._failure = self._published(), None
        except ClusterError as error:
            self._failure = error
            pause = pause_for_unknown = _PAUSE_AFTER_FAILURE
        self._next, self._next_for_unknown = time.monotonic() + pause, time.monotonic() + pause_for_unknown

    def _published(self) -> Sequence[jwt.PyJWK]:
        if self._client is None:
            self._client = jwt.PyJWKClient(provider_address(self._issuer, "jwks_uri"), timeout=PROVIDER_TIMEOUT)
        try:
            return self._client.get_signing_keys(refresh=True)
        except (jwt.PyJWKClientError, jwt.PyJWKSetError, jwt.PyJWKError, OSError, ValueError) as error:
            raise ConnectionFailed(
                say("the keys of {issuer} cannot be fetched: {error}", issuer=self._issuer, error=error)
            ) from None
