"""The TLS certificate, reloaded when its files are replaced, as by cert-manager every few weeks."""

from __future__ import annotations

import ssl
from pathlib import Path

from gpuctl_server.request_log import LOG


class InvalidCertificate(Exception):
    """A certificate or key cannot be read, or they do not belong together; ``str()`` is a message for the user."""


class TlsCertificate:
    """A certificate chain and its key, as files. Replaced files are used for new connections."""

    def __init__(self, chain: Path, key: Path | None) -> None:
        """
        :param key: None if the file of the chain also has the key.
        :raises InvalidCertificate: the files cannot be used.
        """
        self.chain = chain
        self.key = key or chain
        self._state = self._look()
        self._check()

    def renew(self, context: ssl.SSLContext) -> None:
        """Load the files if they were replaced. If they cannot be used, keep the old ones and log the problem once."""
        state = self._look()
        if state == self._state:
            return
        self._state = state
        try:
            # Checked first: loading a key that does not fit would leave the context without a certificate.
            self._check()
            context.load_cert_chain(self.chain, self.key)
        except (InvalidCertificate, OSError) as error:
            LOG.error("the new certificate cannot be used; the old one stays in use", extra={"problem": str(error)})
        else:
            LOG.info("the certificate was replaced", extra={"certificate": str(self.chain)})

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        # Kubernetes updates a mounted Secret by replacing a directory behind a symbolic link.
        return tuple(map(_look, (self.chain, self.key)))

    def _check(self) -> None:
        for path in (self.chain, self.key):
            try:
                path.open("rb").close()
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise InvalidCertificate(f"{path} cannot be read: {reason}") from None
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.chain, self.key, password=_no_password)
        except (ssl.SSLError, ValueError):
            raise InvalidCertificate(
                f"{self.chain} and {self.key} must be a certificate chain and its private key, PEM, without a password"
            ) from None


def _look(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _no_password() -> str:
    # Otherwise OpenSSL would ask on the terminal.
    return ""
