"""TLS as Go does it: which server is trusted under which name, and the client's certificate."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path
from typing import NamedTuple

from gpuctl.kube.api_errors import ConfigurationError
from gpuctl.kube.credentials import ClientCertificate


class TlsSettings(NamedTuple):
    """``authority`` are the certificates (PEM) that servers are held against, None for the system's.

    ``name`` is the server's, "" when it is that of its address; ``origin`` tells where the authority stands.
    """

    authority: bytes | None = None
    name: str = ""
    verify: bool = True
    origin: str = ""

    def context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        """What a connection is made with.

        :raises ConfigurationError: a certificate or key cannot be read.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.hostname_checks_common_name = False
        # Go trusts every certificate that it is given, be it a root or not.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.authority is None:
            context.load_default_certs()
        else:
            try:
                # Bundles have comments in any encoding; a certificate in PEM form is ASCII.
                context.load_verify_locations(cadata=self.authority.decode("ascii", "ignore"))
            except (ssl.SSLError, ValueError):
                raise ConfigurationError(
                    f"{self.origin} holds no certificate in PEM form", "it begins with -----BEGIN CERTIFICATE-----"
                ) from None
        if certificate is not None:
            _present(context, certificate)
        return context


def _present(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """Load a client certificate: Python's ssl takes it from a file only, which is in memory where that can be."""
    data = certificate.certificate.rstrip() + b"\n" + certificate.key
    try:
        if hasattr(os, "memfd_create"):
            with os.fdopen(os.memfd_create("client-certificate"), "wb") as stream:
                stream.write(data)
                stream.flush()
                context.load_cert_chain(f"/proc/self/fd/{stream.fileno()}", password=_no_password)
        else:
            with tempfile.TemporaryDirectory(prefix="gpuctl-") as directory:
                path = Path(directory) / "client-certificate"
                path.touch(0o600)
                path.write_bytes(data)
                context.load_cert_chain(path, password=_no_password)
    except (ssl.SSLError, ValueError):
        raise ConfigurationError(
            "the client certificate and key of the user do not belong together, or one of them is not in PEM form",
            "check client-certificate and client-key in the kubeconfig; a key must not be encrypted",
        ) from None


def _no_password() -> bytes:
    """Instead of OpenSSL's own question."""
    return b""
