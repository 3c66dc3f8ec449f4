"""Certificates that nobody but tests trusts."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple


class SelfSigned(NamedTuple):
    """Files of a certificate for 127.0.0.1 and of its key."""

    certificate: Path
    key: Path


def self_signed(directory: Path) -> SelfSigned:
    """Make one."""
    found = SelfSigned(directory / "certificate.pem", directory / "key.pem")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    form = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command = ["openssl", "req", "-x509", *form, *names, "-keyout", str(found.key), "-out", str(found.certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return found
