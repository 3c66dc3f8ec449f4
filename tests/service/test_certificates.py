"""HTTPS: certificates that are replaced while the service runs, and what clients say of those that they do not trust."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from control_plane import ControlPlane
from support.certificates import Pair, certified, expired
from support.served import Served, refused_start, serving

ADMIN = {"admin": ("admin", None, None)}


def trusting(pair: Pair) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(pair.certificate))


def placed(pair: Pair, directory: Path) -> None:
    """Put a pair where a Secret would be mounted: in one step, behind a link, as kubelet does it."""
    version = directory / f"..{pair.certificate.stem}"
    version.mkdir(parents=True)
    shutil.copy(pair.certificate, version / "tls.crt")
    shutil.copy(pair.key, version / "tls.key")
    (directory / "..new").symlink_to(version.name)
    (directory / "..new").rename(directory / "..data")
    for name in ("tls.crt", "tls.key"):
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")


def shown(served: Served) -> str:
    """The certificate that a new connection is shown."""
    host, port = served.url.removeprefix("https://").split(":")
    return ssl.get_server_certificate((host, int(port)))


def until_shown(served: Served, pair: Pair) -> None:
    end = time.monotonic() + 60
    while shown(served) != pair.certificate.read_text():
        assert time.monotonic() < end, "".join(served.log)
        time.sleep(0.1)


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    return tmp_path / "tls"


@pytest.fixture
def secure(plane: ControlPlane, mounted: Path, tmp_path: Path) -> Iterator[Served]:
    """A service with a certificate."""
    first = certified(tmp_path, "first")
    placed(first, mounted)
    files = {"tls_certificate": str(mounted / "tls.crt"), "tls_key": str(mounted / "tls.key")}
    with serving(tmp_path, plane.kubeconfig(), ADMIN, trusting(first), True, **files) as running:
        yield running


def test_a_new_certificate_is_taken_up(secure: Served, mounted: Path, tmp_path: Path) -> None:
    """By connections that begin then; those that are open go on."""
    before = secure.client()
    assert before.get("/jobs").status_code == 200
    second = certified(tmp_path, "second")
    placed(second, mounted)
    until_shown(secure, second)
    assert httpx.get(f"{secure.url}/healthz", verify=trusting(second)).status_code == 200
    assert before.get("/jobs").status_code == 200
    secure.until_told("the certificate was replaced")


def test_one_that_cannot_be_used_changes_nothing(secure: Served, mounted: Path, tmp_path: Path) -> None:
    """A key of another certificate, nonsense, nothing: the old one is shown until there is one that can be."""
    old = shown(secure)
    third = certified(tmp_path, "third")
    for content in (third.certificate.read_text(), "nonsense", None):
        told = sum("the new certificate cannot be used" in line for line in list(secure.log))
        (mounted / "tls.crt").unlink(missing_ok=True)
        if content is not None:
            (mounted / "tls.crt").write_text(content)
        end = time.monotonic() + 60
        while sum("the new certificate cannot be used" in line for line in list(secure.log)) == told:
            assert time.monotonic() < end, "".join(secure.log)
            time.sleep(0.1)
        assert shown(secure) == old
    shutil.copy(third.key, mounted / "third.key")
    (mounted / "third.key").rename(mounted / "tls.key")
    (mounted / "tls.crt").write_text(third.certificate.read_text())
    until_shown(secure, third)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"tls_key": "first.key"}, "tls_key needs tls_certificate"),
        ({"tls_certificate": "absent.pem", "tls_key": "first.key"}, "absent.pem cannot be read: no such file"),
        (
            {"tls_certificate": "first.pem", "tls_key": "second.key"},
            "must be a certificate chain and its private key",
        ),
        ({"tls_certificate": "first.pem"}, "must be a certificate chain and its private key"),
    ],
)
def test_a_start_without_a_certificate(
    plane: ControlPlane, tmp_path: Path, files: dict[str, str], message: str
) -> None:
    """It says what is wrong, and makes no tokens."""
    certified(tmp_path, "first")
    certified(tmp_path, "second")
    paths = {name: str(tmp_path / file) for name, file in files.items()}
    code, said = refused_start(tmp_path, plane.kubeconfig(), **paths)
    assert code == 3
    assert said.startswith("gpuctl-server: ")
    assert message in said
    assert "Traceback" not in said
    assert not (tmp_path / "tokens.json").exists()


def login(directory: Path, url: str, token: str, authority: Path | None) -> subprocess.CompletedProcess[str]:
    options = [] if authority is None else ["--certificate-authority", str(authority)]
    return subprocess.run(
        [sys.executable, "-m", "gpuctl", "login", url, "--token-stdin", *options],
        env={**os.environ, "XDG_CONFIG_HOME": str(directory / "config")},
        input=token,
        capture_output=True,
        text=True,
        check=False,
    )


def test_whom_the_command_line_trusts(plane: ControlPlane, tmp_path: Path) -> None:
    """The authority that was named, for the very host, as long as the certificate lasts; and nobody else."""
    good, other = certified(tmp_path, "good"), certified(tmp_path, "other")
    for pair, authority, message in (
        (good, good.certificate, ""),
        (good, None, "is not trusted: self-signed certificate"),
        (good, other.certificate, "is not trusted: self-signed certificate"),
        (
            elsewhere := certified(tmp_path, "elsewhere", host="DNS:gpu.example.com"),
            elsewhere.certificate,
            "not valid for",
        ),
        (old := expired(tmp_path, "old"), old.certificate, "is not trusted: certificate has expired"),
    ):
        files = {"tls_certificate": str(pair.certificate), "tls_key": str(pair.key)}
        with serving(tmp_path, plane.kubeconfig(), ADMIN, False, True, **files) as own:
            found = login(tmp_path, own.url, own.tokens["admin"], authority)
        assert (found.returncode == 0) == (not message), found.stderr
        if message:
            assert message in found.stderr
            assert ("--certificate-authority" in found.stderr) == ("is not trusted" in message)
            assert "Traceback" not in found.stderr
