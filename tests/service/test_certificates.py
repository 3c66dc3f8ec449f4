"""HTTPS: replacing the certificate of a running service, and the errors of clients that do not trust it."""

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


def trust_context(pair: Pair) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(pair.certificate))


def mount_pair(pair: Pair, directory: Path) -> None:
    """Put a certificate and key where a Secret would be mounted: behind a symbolic link, atomically, as kubelet does."""
    version = directory / f"..{pair.certificate.stem}"
    version.mkdir(parents=True)
    shutil.copy(pair.certificate, version / "tls.crt")
    shutil.copy(pair.key, version / "tls.key")
    (directory / "..new").symlink_to(version.name)
    (directory / "..new").rename(directory / "..data")
    for name in ("tls.crt", "tls.key"):
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")


def presented_certificate(served: Served) -> str:
    """Return the certificate that the service presents to a new connection."""
    host, port = served.url.removeprefix("https://").split(":")
    return ssl.get_server_certificate((host, int(port)))


def wait_until_presented(served: Served, pair: Pair) -> None:
    end = time.monotonic() + 60
    while presented_certificate(served) != pair.certificate.read_text():
        assert time.monotonic() < end, "".join(served.log)
        time.sleep(0.1)


@pytest.fixture
def mount_directory(tmp_path: Path) -> Path:
    return tmp_path / "tls"


@pytest.fixture
def tls_service(plane: ControlPlane, mount_directory: Path, tmp_path: Path) -> Iterator[Served]:
    """A service with a certificate."""
    first = certified(tmp_path, "first")
    mount_pair(first, mount_directory)
    files = {"tls_certificate": str(mount_directory / "tls.crt"), "tls_key": str(mount_directory / "tls.key")}
    with serving(tmp_path, plane.kubeconfig(), ADMIN, trust_context(first), True, **files) as running:
        yield running


def test_new_certificate_is_used_for_new_connections(
    tls_service: Served, mount_directory: Path, tmp_path: Path
) -> None:
    """New connections get the new certificate; open connections continue."""
    before = tls_service.client()
    assert before.get("/jobs").status_code == 200
    second = certified(tmp_path, "second")
    mount_pair(second, mount_directory)
    wait_until_presented(tls_service, second)
    assert httpx.get(f"{tls_service.url}/healthz", verify=trust_context(second)).status_code == 200
    assert before.get("/jobs").status_code == 200
    tls_service.until_told("the certificate was replaced")


def test_invalid_new_certificate_keeps_the_old_one(tls_service: Served, mount_directory: Path, tmp_path: Path) -> None:
    """With a mismatched key, invalid PEM or a missing file, the old certificate is served until a valid pair is
    present.
    """
    old = presented_certificate(tls_service)
    third = certified(tmp_path, "third")
    for content in (third.certificate.read_text(), "nonsense", None):
        told = sum("the new certificate cannot be used" in line for line in list(tls_service.log))
        (mount_directory / "tls.crt").unlink(missing_ok=True)
        if content is not None:
            (mount_directory / "tls.crt").write_text(content)
        end = time.monotonic() + 60
        while sum("the new certificate cannot be used" in line for line in list(tls_service.log)) == told:
            assert time.monotonic() < end, "".join(tls_service.log)
            time.sleep(0.1)
        assert presented_certificate(tls_service) == old
    shutil.copy(third.key, mount_directory / "third.key")
    (mount_directory / "third.key").rename(mount_directory / "tls.key")
    (mount_directory / "tls.crt").write_text(third.certificate.read_text())
    wait_until_presented(tls_service, third)


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
def test_service_does_not_start_without_usable_certificate(
    plane: ControlPlane, tmp_path: Path, files: dict[str, str], message: str
) -> None:
    """The error says what is wrong, and no token file is created."""
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


def test_command_line_trusts_only_the_given_authority(plane: ControlPlane, tmp_path: Path) -> None:
    """Only certificates of the given authority that are valid for the host and have not expired."""
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
