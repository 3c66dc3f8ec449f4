"""A cluster as one user reaches it: what all requests to it share."""

from __future__ import annotations

from dataclasses import dataclass

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

    def close(self) -> None:
        """Let go of the sockets that wait for a request."""
        self.transport.close()
