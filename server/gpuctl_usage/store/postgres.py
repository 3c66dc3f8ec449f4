"""PostgreSQL: URLs, transactions and error messages."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

DRIVER = "postgresql+psycopg"
CONNECT_ARGS = {"connect_timeout": 10, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
"""Parameters of libpq; a lost host is noticed after one minute."""
_WRITER_LOCK = 0x67707563
"""`gpuc`: key of the advisory lock that writers and migrations hold until the end of their transaction."""
_PLANNER_SETTINGS = {"random_page_cost": "1.1", "plan_cache_mode": "force_custom_plan", "jit": "off"}
_SET_PLANNER = text(
    "SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in _PLANNER_SETTINGS.items())
)
_SECRETS = ("password", "sslpassword")

_STATE_MESSAGES = {
    "25006": "is read-only (a replica, or set to read-only); name the primary server",
    "28000": "rejects this user from this host; see pg_hba.conf on the server",
    "28P01": "rejects this password; check PGPASSWORD, PGPASSFILE, or the URL",
    "3D000": "does not exist; create it: CREATE DATABASE ... OWNER ...",
    "42501": "denies this user permission; the user must own the database and its tables",
    "53100": "cannot grow: the disk of the server is full",
    "53300": "has no connections left; raise max_connections, or close other connections",
    "55P03": "was locked by another process for {patience:g} s; stop that process, or try again",
    "57P03": "is not ready: the server is starting, stopping or recovering; try again",
    "XX001": "is corrupt; restore a backup",
    "XX002": "has a corrupt index; REINDEX it, or restore a backup",
}
_TEXT_MESSAGES = {
    "password authentication failed": _STATE_MESSAGES["28P01"],
    "no password supplied": "needs a password; set it in PGPASSWORD, PGPASSFILE, or the URL",
    "pg_hba.conf": _STATE_MESSAGES["28000"],
    "connection refused": "cannot be reached: connection refused; check that it is running, and its host and port",
    "resolve host": "cannot be reached: its host name cannot be resolved; check the name",
    "timeout expired": "cannot be reached: its host does not respond",
    "no route to host": "cannot be reached: there is no route to its host",
    "starting up": _STATE_MESSAGES["57P03"],
    "shutting down": _STATE_MESSAGES["57P03"],
    "recovery mode": _STATE_MESSAGES["57P03"],
    "too many clients": _STATE_MESSAGES["53300"],
    "remaining connection slots": _STATE_MESSAGES["53300"],
    "does not exist": "does not exist, or its user does not; create it: CREATE DATABASE ... OWNER ...",
}
_CONNECTION_LOST = "closed the connection: the server was stopped or crashed; pending data will be written again"


def masked(url: URL) -> str:
    """Return a URL for messages, without secrets."""
    hidden = {name: "***" for name in _SECRETS if name in url.query}
    return url.set(drivername="postgresql").update_query_dict(hidden).render_as_string(hide_password=True)


def begin_to_read(connection: Connection) -> None:
    """Make the planner use indexes, whatever the server's settings: the rows of an hour are adjacent.

    By default it may scan all hours to find a month of workloads, above all with a generic plan, and JIT compilation
    may take longer than the query.
    """
    connection.execute(_SET_PLANNER)


def begin_to_write(connection: Connection, patience: float) -> None:
    """Wait for other writers, as SQLite does. A transaction that stays idle is ended by the server, which releases its
    lock.

    :param patience: maximum wait in seconds.
    """
    limits = {"waits": f"{patience:g}s", "stands": f"{2 * patience:g}s"}
    connection.execute(
        text(
            "SELECT set_config('lock_timeout', :waits, true), "
            "set_config('idle_in_transaction_session_timeout', :stands, true)"
        ),
        limits,
    )
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _WRITER_LOCK})


def describe_error(error: Any, patience: float) -> str | None:
    """Return the message for a driver error, to follow the name of the database; None if it is unknown.

    SQLSTATE codes come first because server messages are localized. Errors before the connection have only a text.
    """
    state = getattr(error, "sqlstate", None)
    if state in _STATE_MESSAGES:
        return _STATE_MESSAGES[state].format(patience=patience)
    said = str(error).lower()
    found = next((told for sign, told in _TEXT_MESSAGES.items() if sign in said), None)
    if found is not None and state is None:
        return found
    ended = (state or "").startswith(("08", "57P", "25P03")) or "closed the connection" in said or "is lost" in said
    return _CONNECTION_LOST if ended else None
