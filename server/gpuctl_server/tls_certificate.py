"""The certificate of HTTPS, which is replaced while the service runs: whoever issues it does so every few weeks."""

from __future__ import annotations

import ssl
from pathlib import Path

from gpuctl_server.request_log import LOG


class InvalidCertificate(Exception):
    """A certificate or key that cannot be read, or that do not belong together; ``str()`` is for people."""


class TlsCertificate:
    """A chain and its key, as files. What is replaced is taken up for connections that begin then."""

    def __init__(self, chain: Path, key: Path | None) -> None:
        """
        :param key: None where the file of the chain has it too.
        :raises InvalidCertificate: they cannot be used as they are.
        """
        self.chain = chain
        self.key = key or chain
        self._state = self._look()
        self._check()

    def renew(self, context: ssl.SSLContext) -> None:
        """Take up what was replaced since. What cannot be used changes nothing, and is logged once."""
        state = self._look()
        if state == self._state:
            return
        self._state = state
        try:
            # A key that does not fit would leave the context without any.
            self._check()
            context.load_cert_chain(self.chain, self.key)
        except (InvalidCertificate, OSError) as error:
            LOG.error("the new certificate is not used", extra={"problem": str(error)})
        else:
            LOG.info("the certificate was replaced", extra={"certificate": str(self.chain)})

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        # A Secret that is mounted is replaced by another directory, behind the same name.
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
                f"{self.chain} and {self.key} have to be a certificate chain and its private key, without a "
                "password, as PEM"
            ) from None


def _look(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _no_password() -> str:
    # Without this OpenSSL would ask on the terminal.
    return ""
