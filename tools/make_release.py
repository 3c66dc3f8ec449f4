"""Build everything of a release into ``dist/``: ``make release``.

- wheels and sources of gpuctl and of its Python SDK, which must build the same wheel again;
- the command line as one file, and as a directory in an archive, which starts faster;
- the Helm chart;
- bills of materials (CycloneDX), checksums, and their signature if ``RELEASE_KEY`` names a GnuPG key.

The version is that of ``compiler/gpuctl/release.py``. The build rejects a version without a section in the CHANGELOG,
a tag of the commit that names another version, and entries under [Unreleased] if the commit has the version's tag.
Times in archives are those of the commit, so that a second build gives the same files; the program depends on the
machine's Python and libraries.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("", "server", "usage", "all")
"""Extras that are installed into an empty environment each."""
EXAMPLE = ROOT / "examples" / "tour" / "finetune.yaml"
SYSTEM = "macos" if sys.platform == "darwin" else "linux"
PROCESSOR = "arm64" if os.uname().machine in {"aarch64", "arm64"} else "amd64"
PIP = ("-I", "-m", "pip", "--quiet", "--disable-pip-version-check", "install")


class ReleaseError(Exception):
    """A release cannot be made; the text is for the user."""


def version_of_source() -> str:
    """Return the version in ``compiler/gpuctl/release.py``."""
    text = (ROOT / "compiler" / "gpuctl" / "release.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    return str(version)


def check_version(version: str, tags: Sequence[str], changelog: str) -> None:
    """Raise ReleaseError if a tag of the commit names another version, or the CHANGELOG is not ready for this one."""
    others = sorted(tag for tag in tags if re.fullmatch(r"v\d+\.\d+.*", tag) and tag != f"v{version}")
    if others:
        raise ReleaseError(f"the commit has the tag `{others[0]}`, but compiler/gpuctl/release.py says `{version}`")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md has no section `## [{version}] - YYYY-MM-DD`")
    unreleased = re.search(r"^## \[Unreleased\]$(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    # A build of an untagged commit is not published: it may be ahead of the CHANGELOG.
    if f"v{version}" in tags and unreleased is not None and re.search(r"^- ", unreleased[1], re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md has entries under [Unreleased]: move them to the section of {version}")


def run(*command: str | Path, cwd: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    """Run a command. Return its output; raise ReleaseError with its messages if it fails."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        words = " ".join(str(part) for part in command)
        raise ReleaseError(f"`{words}` failed with exit code {done.returncode}:\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def tags_of_commit() -> list[str]:
    """Return the tags of the current commit; empty outside of a git repository."""
    done = subprocess.run(["git", "tag", "--points-at", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split() if done.returncode == 0 else []


def build_environment() -> dict[str, str]:
    """Return the environment of the build: times of the commit, one hash seed, nothing of the user's Python."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
        # The first time that a ZIP archive can hold, for sources without git.
        epoch = done.stdout.strip() or "315532800"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": "1"}


class Release:
    """One build: ``dist`` receives the files, ``work`` is for environments and intermediate files."""

    def __init__(self, dist: Path, work: Path) -> None:
        self.dist = dist
        self.work = work
        self.version = version_of_source()
        self.environment = build_environment()
        self.files: list[Path] = []

    def make(self) -> None:
        """Build and check everything."""
        shutil.rmtree(self.dist, ignore_errors=True)
        shutil.rmtree(self.work, ignore_errors=True)
        self.dist.mkdir(parents=True)
        wheel = self.distributions()
        for extra in EXTRAS:
            self.check_installation(wheel, extra)
        self.program(wheel)
        self.chart()
        for lock in ("cli", "server"):
            self.bill_of_materials(wheel, lock)
        self.checksums()

    def say(self, text: str) -> None:
        """Print a line about a finished step."""
        print(text, flush=True)

    def new_environment(self, name: str) -> Path:
        """Create an empty environment. Return its Python."""
        directory = self.work / name
        run(sys.executable, "-m", "venv", "--clear", directory)
        return directory / "bin" / "python"

    def tools(self) -> Path:
        """Return the Python of an environment with the tools of requirements/release.txt."""
        python = self.work / "tools" / "bin" / "python"
        if not python.exists():
            self.new_environment("tools")
            run(python, *PIP, "--require-hashes", "-r", ROOT / "requirements" / "release.txt")
        return python

    def distributions(self) -> Path:
        """Build the wheels and the sources, and each wheel again from the sources. Return gpuctl's wheel."""
        python = self.tools()
        for project in (ROOT, ROOT / "sdk" / "python"):
            common = (python, "-m", "build", "--no-isolation")
            first = self.work / "wheels" / project.name
            run(*common, "--wheel", "--sdist", "--outdir", first, project, environment=self.environment)
            (wheel,), (sources,) = first.glob("*.whl"), first.glob("*.tar.gz")
            run("tar", "-xzf", sources, cwd=first)
            unpacked = first / sources.name.removesuffix(".tar.gz")
            run(*common, "--wheel", "--outdir", first / "again", unpacked, environment=self.environment)
            if (first / "again" / wheel.name).read_bytes() != wheel.read_bytes():
                raise ReleaseError(f"{sources.name} does not build the same {wheel.name}")
            for file in (wheel, sources):
                self.add(file)
                self.say(f"built {file.name}: {_size(file)}")
        return self.dist / f"gpuctl_k8s-{self.version}-py3-none-any.whl"

    def check_installation(self, wheel: Path, extra: str) -> None:
        """Install the wheel with an extra into an empty environment, and run it there."""
        python = self.new_environment(f"installed-{extra or 'core'}")
        run(python, *PIP, f"{wheel}[{extra}]" if extra else wheel)
        programs = python.parent
        clean = {"PATH": "/usr/bin:/bin", "HOME": str(self.work)}
        shown = run(programs / "gpuctl", "version", cwd=self.work, environment=clean)
        if not shown.startswith(f"gpuctl {self.version} "):
            raise ReleaseError(f"the installed gpuctl prints `{shown.strip()}`")
        rendered = run(programs / "gpuctl", "render", "-f", EXAMPLE, cwd=self.work, environment=clean)
        if "kind: Job" not in rendered:
            raise ReleaseError(f"the installed gpuctl does not render {EXAMPLE.name}")
        if extra in {"server", "all"}:
            run(programs / "gpuctl-server", "--help", cwd=self.work, environment=clean)
        self.say(f"installed {wheel.name}{f'[{extra}]' if extra else ''} into an empty environment")

    def program(self, wheel: Path) -> Path:
        """Build the command line as one file and as an archive of a directory. Return the file."""
        python = self.tools()
        run(python, *PIP, "--no-deps", "--force-reinstall", wheel)
        name = f"gpuctl-{SYSTEM}-{PROCESSOR}"
        built = self.work / "program"
        run(
            *(python, "-m", "PyInstaller", "--noconfirm", "--log-level=WARN", "--distpath", built),
            *("--workpath", self.work / "pyinstaller", ROOT / "tools" / "gpuctl.spec"),
            environment={**self.environment, "GPUCTL_PROGRAM": name},
        )
        shown = run(built / name, "version", cwd=self.work, environment={})
        if not shown.startswith(f"gpuctl {self.version} "):
            raise ReleaseError(f"{name} prints `{shown.strip()}`")
        file = self.add(built / name)
        archive = self.archive(built / "gpuctl", f"{name}.tar.gz")
        self.say(f"built {file.name}: {_size(file)}; {archive.name}: {_size(archive)}")
        return file

    def chart(self) -> Path:
        """Package the Helm chart."""
        archive = self.archive(ROOT / "deploy" / "chart", f"gpuctl-{self.version}.tgz", prefix="gpuctl")
        self.say(f"built {archive.name}: {_size(archive)}")
        return archive

    def bill_of_materials(self, wheel: Path, lock: str) -> Path:
        """Write what an installation from a lock consists of, as CycloneDX JSON."""
        python = self.new_environment(f"bill-{lock}")
        run(python, *PIP, "--require-hashes", "-r", ROOT / "requirements" / f"{lock}.txt")
        run(python, *PIP, "--no-deps", wheel)
        run(python, "-I", "-m", "pip", "--quiet", "uninstall", "--yes", "pip", "setuptools", "wheel")
        file = self.dist / f"gpuctl-{self.version}-{lock}.cdx.json"
        run(
            *(self.tools(), "-m", "cyclonedx_py", "environment", "--output-reproducible", "--output-format=JSON"),
            *("--output-file", file, python),
            environment=self.environment,
        )
        # The wheel's path on this machine.
        text = file.read_text(encoding="utf-8").replace(wheel.as_uri(), wheel.name)
        file.write_text(text, encoding="utf-8")
        self.files.append(file)
        self.say(f"wrote {file.name}")
        return file

    def checksums(self) -> Path:
        """Write SHA256SUMS of all files, and its signature if there is a key."""
        file = self.dist / "SHA256SUMS"
        lines = [f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}" for one in sorted(self.files)]
        file.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
        self.say(f"wrote {file.name} of {len(lines)} files")
        key = os.environ.get("RELEASE_KEY")
        if key:
            run("gpg", "--batch", "--yes", "--armor", "--local-user", key, "--detach-sign", file)
            self.say(f"signed {file.name} with {key}: {file.name}.asc")
        else:
            self.say(f"{file.name} is not signed: set RELEASE_KEY to the id of a GnuPG key")
        return file

    def add(self, file: Path) -> Path:
        """Copy a file to ``dist``. Return the copy."""
        copy = self.dist / file.name
        shutil.copy(file, copy)
        self.files.append(copy)
        return copy

    def archive(self, directory: Path, name: str, prefix: str = "") -> Path:
        """Write an archive of a directory to ``dist``: sorted, without owners, with the time of the commit."""
        file = self.dist / name
        epoch = int(self.environment["SOURCE_DATE_EPOCH"])

        def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = epoch
            entry.mode = 0o755 if entry.mode & 0o100 else 0o644
            return entry

        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
            top = prefix or directory.name
            for path in sorted(path for path in directory.rglob("*") if not path.is_dir()):
                tar.add(path, f"{top}/{path.relative_to(directory)}", filter=plain)
        with file.open("wb") as out, gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=epoch) as packed:
            packed.write(buffer.getvalue())
        self.files.append(file)
        return file


def _size(file: Path) -> str:
    return f"{file.stat().st_size / 1e6:.1f} MB"


def main(arguments: Sequence[str]) -> int:
    """Build a release. Return 1 if it cannot be made."""
    parser = argparse.ArgumentParser(description="Build a release into dist/.")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="directory of the result")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "release", help="directory of the environments")
    options = parser.parse_args(arguments)
    release = Release(options.dist.resolve(), options.work.resolve())
    try:
        check_version(release.version, tags_of_commit(), (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
        release.make()
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
