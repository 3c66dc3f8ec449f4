"""Users of an OpenID Connect provider, authenticated by signed tokens whose keys the provider publishes.

Rules: OpenID Connect Core 1.0, section 3.1.3.7; RFC 8725. Only asymmetric algorithms are accepted, so that a public key
is never taken for a shared secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jwt

from gpuctl.kube.connection import Connection
from gpuctl.language.sentences import say
from gpuctl_server.access.kubernetes import ClusterCaller, Reviewer, User
from gpuctl_server.access.oidc_keys import ProviderKeys
from gpuctl_server.access.rights import AccessRequest, Decision, denied

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LEEWAY = 30
"""Tolerated clock difference, seconds."""
_RESERVED = "system:"
"""Prefix of Kubernetes' own users and groups. A token must not yield such a name."""


class Provider(NamedTuple):
    """The provider whose tokens are accepted.

    :param username: claim with the user's name.
    :param groups: claim with the user's groups.
    :param prefix: prepended to names of users and groups, so that they cannot equal names from another source.
    :param impersonates: write on behalf of users by Kubernetes impersonation.
    """

    issuer: str
    audience: str
    username: str = "sub"
    groups: str = "groups"
    prefix: str = "oidc:"
    impersonates: bool = False


@dataclass(frozen=True)
class ProviderCaller(ClusterCaller):
    """A user of the provider. Kubernetes knows only the name, so writes need impersonation."""

    impersonates: bool = False

    def may(self, access: AccessRequest) -> Decision:
        if access.action != "get" and access.resource != "plans" and not self.impersonates:
            return denied(self.name, access, say("the setting `oidc_impersonation` is off"))
        return super().may(access)


class ProviderUsers:
    """Authenticates the tokens of a provider."""

    def __init__(self, connection: Connection, provider: Provider) -> None:
        self._connection = connection
        self._provider = provider
        self._reviewer = Reviewer(connection)
        self._keys = ProviderKeys(provider.issuer)

    def caller(self, token: str) -> ProviderCaller | None:
        user = self._user(token)
        if user is None:
            return None
        own = self._connection.acting_as(user.name, user.groups)
        return ProviderCaller(user, self._reviewer, own, self._provider.impersonates)

    def _user(self, token: str) -> User | None:
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in _ALGORITHMS:
                return None
            key = self._keys.find(header.get("kid"))
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=[str(header["alg"])],
                audience=self._provider.audience,
                issuer=self._provider.issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.InvalidTokenError, jwt.PyJWKError):
            return None
        return self._named(claims)

    def _named(self, claims: dict[str, Any]) -> User | None:
        provider = self._provider
        name, groups = claims.get(provider.username), claims.get(provider.groups) or []
        if isinstance(groups, str):
            groups = [groups]
        if not isinstance(name, str) or not name or not isinstance(groups, list):
            return None
        named = [provider.prefix + item for item in (name, *map(str, groups))]
        if any(item.startswith(_RESERVED) or not item.isprintable() for item in named):
            return None
        # The API server adds this group to every user that it authenticates itself.
        return User(named[0], groups=(*sorted(named[1:]), "system:authenticated"))
