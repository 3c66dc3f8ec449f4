"""A real PostgreSQL: the machine's, or Debian's fetched once into the cache outside the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

from control_plane.processes import Process, free_ports
from support.go_programs import ProgramMissing, alone, cache_directory, debian_packages, is_program, named_program
from support.missing_parts import required

PASSWORD = "never-to-be-shown"
USER = "usage"
_VERSION = "15"
_PACKAGES = (f"postgresql-{_VERSION}", f"postgresql-client-{_VERSION}", "libpq5")
_NEEDED = ("initdb", "postgres", "pg_dump", "pg_restore")
_STARTS_IN = 60.0
_NOBODY = 65534
_NUMBERS = count(1)
# Most servers do not sort by bytes.
_ENGLISH = "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
# What a machine that fails would lose, no test asks for.
_SETTINGS = {
    "fsync": "off",
    "shared_buffers": "16MB",
    "max_connections": "40",
    "autovacuum": "off",
    "max_wal_senders": "0",
    "wal_level": "minimal",
    "jit": "off",
}


@required(ProgramMissing)
def postgresql_programs() -> Path:
    """The directory with PostgreSQL's programs; without them a test is skipped, in CI it fails."""
    named = named_program("initdb")
    if named is not None and all(is_program(named.resolve().parent / name) for name in _NEEDED):
        return named.resolve().parent
    installed = Path(f"/usr/lib/postgresql/{_VERSION}/bin")
    unpacked = cache_directory() / "postgresql" / "usr" / "lib" / "postgresql" / _VERSION / "bin"
    for directory in (installed, unpacked):
        if all(is_program(directory / name) for name in _NEEDED):
            return directory
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with alone(cache), tempfile.TemporaryDirectory(dir=cache) as temporary:
        if not is_program(unpacked / "initdb"):
            # Moved as a whole, so that another process never reads a part of it.
            os.replace(debian_packages(Path(temporary), *_PACKAGES), cache / "postgresql")
    return unpacked


class PostgresqlServer:
    """A server with its own data directory and port. It refuses to run as root, so root starts it as the user `nobody`."""

    def __init__(self) -> None:
        programs = postgresql_programs()
        self.directory = Path(tempfile.mkdtemp(prefix="gpuctl-postgresql-"))
        self._as: list[str] = []
        self._environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "HOME": str(self.directory)}
        if os.geteuid() == 0:
            self._as = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
            programs = self._readable(programs)
        self.programs = programs
        libraries = programs.parents[4] / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
        if libraries.parents[2] != Path("/"):
            self._environment["LD_LIBRARY_PATH"] = str(libraries)
        [self.port] = free_ports(1)
        secret = self.directory / "password"
        secret.write_text(PASSWORD)
        if self._as:
            for path in (self.directory, secret):
                os.chown(path, _NOBODY, _NOBODY)
        how = ["--username", USER, "--pwfile", str(secret), "--auth", "scram-sha-256", "--no-sync", "--no-locale"]
        self._run([str(programs / "initdb"), "-D", str(self._data), "--encoding", "UTF8", *how])
        self._process: Process | None = None

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _readable(self, programs: Path) -> Path:
        """Return the programs where the user `nobody` can run them: copied, if they are in a private home directory."""
        found = subprocess.run([*self._as, "test", "-x", str(programs / "initdb")], check=False)
        if found.returncode == 0:
            return programs
        self.directory.chmod(0o755)
        shutil.copytree(programs.parents[3], self.directory / "usr", symlinks=True)
        return self.directory / "usr" / programs.relative_to(programs.parents[3])

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(
            [*self._as, *command],
            cwd=self.directory,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr or done.stdout

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {**_SETTINGS, "port": str(self.port), "listen_addresses": "127.0.0.1"}
        settings["unix_socket_directories"] = str(self.directory)
        given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        environment = [f"{name}={value}" for name, value in self._environment.items()]
        command = ["env", *environment, str(self.programs / "postgres"), "-D", str(self._data), *given]
        # The parent-death signal is cleared when the user changes, so it is set afterwards.
        before = [*self._as, "--pdeathsig=KILL"] if self._as else []
        end = time.monotonic() + _STARTS_IN
        while True:
            if self._process is None or self._process.ended:
                # After a kill processes of the server's own may still be about to notice.
                self._process = Process([*before, *command], self.directory / "log", self.directory)
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < end, self._process.tail()
                time.sleep(0.02)

    def kill(self) -> None:
        """End it as a machine does that fails; its own processes notice that it has gone."""
        assert self._process is not None
        self._process.stop(kill=True)

    def stop(self) -> None:
        """Stop it cleanly, without waiting for connected clients."""
        if self._process is not None and not self._process.ended:
            self._process.process.send_signal(2)
            self._process.process.wait(30)

    def url(self, database: str, password: str = PASSWORD) -> str:
        """Return the URL of a database."""
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"usage_{next(_NUMBERS)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" {_ENGLISH}')
        return self.url(name)

    def run(self, program: str, *arguments: str) -> None:
        """Run one of its programs."""
        self._run([str(self.programs / program), *arguments])

    def close(self) -> None:
        """End it, and leave nothing behind."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextmanager
def running_postgresql() -> Iterator[PostgresqlServer]:
    """A server, for as long as the block lasts."""
    server = PostgresqlServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


def dumped(url: str) -> list[str]:
    """Everything that is in a database: definitions, then rows."""
    found: list[str] = []
    with psycopg.connect(url) as connection:
        columns = (
            "SELECT table_name, column_name, data_type, is_nullable, collation_name FROM information_schema.columns "
            "WHERE table_schema = 'public' ORDER BY table_name, ordinal_position"
        )
        found += [repr(row) for row in connection.execute(columns)]
        indexes = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname"
        found += [repr(row) for row in connection.execute(indexes)]
        names = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
        for (name,) in connection.execute(names).fetchall():
            found += sorted(repr(row) for row in connection.execute(f'SELECT * FROM "{name}"'))  # type: ignore[arg-type]
    return found
