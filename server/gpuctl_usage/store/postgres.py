"""What is particular to PostgreSQL: its URLs, its transactions, and what its errors mean for people."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

DRIVER = "postgresql+psycopg"
CONNECT_ARGS = {"connect_timeout": 10, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
"""As libpq has them: a host that has gone is noticed after a minute."""
_WRITERS = 0x67707563
"""`gpuc`: the advisory lock that whoever writes, or makes the tables, holds until the end of its transaction."""
_PLANS = {"random_page_cost": "1.1", "plan_cache_mode": "force_custom_plan", "jit": "off"}
_OF_INDEXES = text("SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in _PLANS.items()))
_SECRETS = ("password", "sslpassword")

_STATES = {
    "25006": "may only be read (it is a replica, or is set to read-only); name the server that takes writes",
    "28000": "lets nobody in as this user from here; see pg_hba.conf on the server",
    "28P01": "does not take this password; see PGPASSWORD, PGPASSFILE, or the URL",
    "3D000": "does not exist; create it: CREATE DATABASE ... OWNER ...",
    "42501": "does not let this user do that; it has to own the database and its tables",
    "53100": "cannot grow: the disk of the server is full",
    "53300": "has no connection left; raise max_connections, or end what holds them",
    "55P03": "was locked by another process for {patience:g} s; end what holds it, or try again",
    "57P03": "is not ready: the server starts, stops or recovers; try again",
    "XX001": "is damaged; restore a copy",
    "XX002": "has a damaged index; REINDEX it, or restore a copy",
}
_SIGNS = {
    "password authentication failed": _STATES["28P01"],
    "no password supplied": "asks for a password; see PGPASSWORD, PGPASSFILE, or the URL",
    "pg_hba.conf": _STATES["28000"],
    "connection refused": "cannot be reached: nobody listens there; is it running, and are host and port right?",
    "resolve host": "cannot be reached: its host has no address; is the name right?",
    "timeout expired": "cannot be reached: its host does not answer",
    "no route to host": "cannot be reached: there is no way to its host",
    "starting up": _STATES["57P03"],
    "shutting down": _STATES["57P03"],
    "recovery mode": _STATES["57P03"],
    "too many clients": _STATES["53300"],
    "remaining connection slots": _STATES["53300"],
    "does not exist": "does not exist, or its user does not; create it: CREATE DATABASE ... OWNER ...",
}
_GONE = "has ended the connection: the server was stopped, or has ended; what was not written yet is written again"


def with_driver(url: URL) -> URL:
    """The URL with the driver that is installed with us."""
    return url.set(drivername=DRIVER)


def masked(url: URL) -> str:
    """A URL for people, without what is secret in it."""
    hidden = {name: "***" for name in _SECRETS if name in url.query}
    return url.set(drivername="postgresql").update_query_dict(hidden).render_as_string(hide_password=True)


def begin_to_read(connection: Connection) -> None:
    """Have the rows of an hour be found by their index, for they stand together, whatever the server is set to.

    By default it may read all the hours that there are for a month of workloads, above all once it makes one plan for
    all times; and it may compile what takes less time than to compile it.
    """
    connection.execute(_OF_INDEXES)


def begin_to_write(connection: Connection, patience: float) -> None:
    """Wait for others that write, as SQLite does. Whoever stands still in a transaction loses it, and its lock.

    :param patience: seconds that it waits at most.
    """
    limits = {"waits": f"{patience:g}s", "stands": f"{2 * patience:g}s"}
    connection.execute(
        text(
            "SELECT set_config('lock_timeout', :waits, true), "
            "set_config('idle_in_transaction_session_timeout', :stands, true)"
        ),
        limits,
    )
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _WRITERS})


def describe_error(error: Any, patience: float) -> str | None:
    """What an error of the driver says of a database, for people; None of one that is not known.

    States are asked first: servers tell their messages in many languages. Before it is connected there is text alone.
    """
    state = getattr(error, "sqlstate", None)
    if state in _STATES:
        return _STATES[state].format(patience=patience)
    said = str(error).lower()
    found = next((told for sign, told in _SIGNS.items() if sign in said), None)
    if found is not None and state is None:
        return found
    ended = (state or "").startswith(("08", "57P", "25P03")) or "closed the connection" in said or "is lost" in said
    return _GONE if ended else None
