"""Programs that tests run: of the machine, or built with Go or fetched once into the cache outside the tree."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class ProgramMissing(Exception):
    """There is no such program, and none can be built."""


def cache_directory() -> Path:
    """Return the directory for builds and derived files that outlast a test run, outside of the project's trees."""
    chosen = os.environ.get("GPUCTL_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuctl"


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """One test process at a time: what several would build at once, the first builds for all."""
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_program(path: Path) -> bool:
    """Return True if a file is executable."""
    return path.is_file() and os.access(path, os.X_OK)


def named_program(name: str) -> Path | None:
    """The program that the variable of its name (``ACTIONLINT``) leads to, or the one on PATH."""
    found = os.environ.get(name.upper()) or shutil.which(name)
    return Path(found) if found else None


def debian_packages(directory: Path, *packages: str) -> Path:
    """Unpack Debian's packages below a directory, uninstalled: no service is started, and no rights are needed.

    :raises ProgramMissing: they cannot be downloaded.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise ProgramMissing(f"no {packages[0]}: put its programs on PATH")
    for command in (
        ["apt-get", "download", *packages],
        ["sh", "-c", "for package in *.deb; do dpkg -x $package unpacked || exit 1; done"],
    ):
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ProgramMissing(f"{packages[0]} cannot be fetched: {done.stderr.strip()[-300:]}")
    return directory / "unpacked"


def built_program(package: str, release: str) -> Path:
    """A package's program of a release: one built before, or one built now with Go."""
    name = package.rpartition("/")[2]
    built = cache_directory() / name / f"{name}-{release}"
    if is_program(built):
        return built
    go = shutil.which("go")
    if go is None:
        raise ProgramMissing(f"no {name}: set {name.upper()}, or put it or `go` on PATH")
    built.parent.mkdir(parents=True, exist_ok=True)
    with alone(built.parent), tempfile.TemporaryDirectory(dir=built.parent) as directory:
        if is_program(built):
            return built
        done = subprocess.run(
            [go, "install", f"{package}@{release}"],
            env={**os.environ, "GOBIN": directory, "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ProgramMissing(f"{name} {release} cannot be built: {done.stderr.strip()}")
        # Moved as a whole, so that another process never runs a part of it.
        os.replace(Path(directory) / name, built)
    return built
