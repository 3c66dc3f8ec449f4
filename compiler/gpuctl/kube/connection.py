"""A connection to a cluster as one user, shared by all requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuctl.kube.credentials import Credential, bearer, impersonation_headers
from gpuctl.kube.transport import Transport


@dataclass(frozen=True)
class Connection:
    """A connection to a cluster as one user: configuration, credentials and open sockets.

    ``namespace`` is the context's, ``context`` the name of the kubeconfig's context ("" for a pod's service account). A
    connection is immutable and serves any number of concurrent operations, each with its own
    :class:`~gpuctl.kube.session.Session`. :func:`gpuctl.kube.configuration.connect` makes one.
    """

    transport: Transport
    namespace: str
    context: str

    @property
    def server(self) -> str:
        """The API server's address."""
        return self.transport.server

    def with_token(self, token: str) -> Connection:
        """Return a connection to the same cluster as the owner of a token; the current credentials are not sent.

        :raises ConfigurationError: when a request is made, if the token contains characters that cannot be sent.
        """
        return replace(self, transport=self.transport.with_credential(Credential(bearer(token))))

    def acting_as(self, user: str, groups: Sequence[str] = ()) -> Connection:
        """Return a connection to the same cluster that impersonates another user, which requires the right to
        impersonate.

        :raises ConfigurationError: a name contains characters that cannot be sent.
        """
        return replace(self, transport=self.transport.with_credential(None, impersonation_headers(user, "", groups)))

    def close(self) -> None:
        """Close the idle sockets."""
        self.transport.close()
