"""Certificates for tests: authorities of their own, and what they sign."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

HERE = "IP:127.0.0.1"
_FORM = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Pair(NamedTuple):
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


def certified(directory: Path, name: str, *, host: str = HERE) -> Pair:
    """A certificate that signs itself, for a host (``IP:...`` or ``DNS:...``)."""
    made = Pair(directory / f"{name}.pem", directory / f"{name}.key")
    names = ("-subj", f"/CN={name}", "-addext", f"subjectAltName={host}")
    _openssl("req", "-x509", *_FORM, *names, "-days", "2", "-keyout", made.key, "-out", made.certificate)
    return made


def self_signed(directory: Path) -> Pair:
    """A certificate for this machine, whatever its name."""
    return certified(directory, "localhost")


def expired(directory: Path, name: str) -> Pair:
    """A certificate for this machine that signs itself, and whose time was over yesterday."""
    made = Pair(directory / f"{name}.pem", directory / f"{name}.key")
    request, extensions = directory / f"{name}.csr", directory / f"{name}.ext"
    (directory / f"{name}.db").write_text("")
    (directory / f"{name}.serial").write_text("01\n")
    extensions.write_text(f"subjectAltName={HERE}\nbasicConstraints=CA:TRUE\n")
    settings = directory / f"{name}.cnf"
    settings.write_text(
        f"[ca]\ndefault_ca = own\n[own]\ndatabase = {directory}/{name}.db\nserial = {directory}/{name}.serial\n"
        f"new_certs_dir = {directory}\ndefault_md = sha256\npolicy = any\n[any]\ncommonName = supplied\n"
    )
    _openssl("req", *_FORM, "-subj", f"/CN={name}", "-keyout", made.key, "-out", request)
    times = ("-startdate", "20200101000000Z", "-enddate", "20200201000000Z")
    signing = ("-config", settings, "-selfsign", "-keyfile", made.key, "-extfile", extensions, "-batch", "-notext")
    _openssl("ca", *signing, *times, "-in", request, "-out", made.certificate)
    return made


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
