"""A cluster as one user reaches it: what all requests to it share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuctl.kube.credentials import Credential, bearer, impersonation_headers
from gpuctl.kube.transport import Transport


@dataclass(frozen=True)
class Connection:
    """The way to a cluster, as one user: configuration, credentials and open sockets.

    ``namespace`` is the context's, ``context`` the name of the kubeconfig's context ("" in a cluster). It does not
    change, and is for any number of operations at once, each of which has a :class:`~gpuctl.kube.session.Session` of
    its own. :func:`gpuctl.kube.configuration.connect` makes one.
    """

    transport: Transport
    namespace: str
    context: str

    @property
    def server(self) -> str:
        """The API server's address."""
        return self.transport.server

    def with_token(self, token: str) -> Connection:
        """The same cluster as the owner of a token; none of our credentials go along.

        :raises ConfigurationError: it is none that can be sent, when a request is made.
        """
        return replace(self, transport=self.transport.with_credential(Credential(bearer(token))))

    def acting_as(self, user: str, groups: Sequence[str] = (), uid: str = "") -> Connection:
        """The same cluster, asking to act as somebody else, which takes the right to impersonate.

        :raises ConfigurationError: a name that cannot be sent.
        """
        return replace(self, transport=self.transport.with_credential(None, impersonation_headers(user, uid, groups)))

    def close(self) -> None:
        """Let go of the sockets that wait for a request."""
        self.transport.close()
