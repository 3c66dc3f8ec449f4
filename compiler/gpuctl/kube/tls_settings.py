"""TLS settings as in Go: trusted certificates, the server's name, the client certificate."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path
from typing import NamedTuple

from gpuctl.kube.api_errors import ConfigurationError
from gpuctl.kube.credentials import ClientCertificate


class TlsSettings(NamedTuple):
    """The TLS settings of a server.

    ``authority``: trusted certificates (PEM), None for the system's. ``name``: the name on the server's certificate, ""
    for the host of its address. ``origin``: where ``authority`` comes from, for messages.
    """

    authority: bytes | None = None
    name: str = ""
    verify: bool = True
    origin: str = ""

    def context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        """Return an SSL context with these settings and a client certificate.

        :raises ConfigurationError: a certificate or key cannot be read.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.hostname_checks_common_name = False
        # Go trusts every given certificate, also one that is not a root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.authority is None:
            context.load_default_certs()
        else:
            try:
                # Bundles contain comments in any encoding; a PEM certificate is ASCII.
                context.load_verify_locations(cadata=self.authority.decode("ascii", "ignore"))
            except (ssl.SSLError, ValueError):
                raise ConfigurationError(
                    f"{self.origin} holds no certificate in PEM form", "it begins with -----BEGIN CERTIFICATE-----"
                ) from None
        if certificate is not None:
            _present(context, certificate)
        return context


def _present(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """Load a client certificate. Python's ssl reads it from a file only; the file is in memory where possible."""
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
    """Return an empty password, so that OpenSSL does not prompt for one."""
    return b""
