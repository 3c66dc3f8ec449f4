"""PostgreSQL that is unreachable, denies access or stops during a write: error messages, and the data that remains."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from random import Random

import psycopg
import pytest

from control_plane.processes import free_ports
from gpuctl.language.settings import Settings
from gpuctl_usage.facts import Holding, UsageKeys, WorkloadKey
from gpuctl_usage.gathering.gpu_weights import GpuWeights
from gpuctl_usage.gathering.object_facts import FactMaker, PodFacts
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.engines import DatabaseProblem
from gpuctl_usage.sums import Group, Level, RolledUp, Sums
from support.postgresql_server import PASSWORD, USER, PostgresqlServer, running_postgresql


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresqlServer]:
    """A PostgreSQL server that the test may stop."""
    with running_postgresql() as running:
        yield running


def problem(url: str) -> str:
    with pytest.raises(DatabaseProblem) as raised:
        open_database(url).close()
    said = str(raised.value)
    assert PASSWORD not in said
    assert "never" not in said
    assert "\n" not in said
    return said


def test_errors_of_unusable_databases(postgresql: PostgresqlServer) -> None:
    address = f"127.0.0.1:{postgresql.port}"
    shown = f"the usage database postgresql://{USER}:***@{address}"
    [nobody] = free_ports(1)
    assert problem(f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{nobody}/x") == (
        f"the usage database postgresql://{USER}:***@127.0.0.1:{nobody}/x cannot be reached: connection refused; "
        "check that it is running, and its host and port"
    )
    assert problem(postgresql.url("postgres", "never-right")).startswith(f"{shown}/postgres rejects this password")
    assert problem(f"postgres://{USER}@{address}/postgres").startswith(
        f"the usage database postgresql://{USER}@{address}/postgres needs a password; set it in PGPASSWORD"
    )
    assert problem(postgresql.url("missing")).startswith(f"{shown}/missing does not exist, or its user does not")
    assert "cannot be reached: its host name cannot be resolved" in problem(
        f"postgresql://{USER}:{PASSWORD}@db.invalid/x"
    )
    # Other places in the URL where a password may stand.
    said = problem(f"postgresql://{address}/postgres?user={USER}&password={PASSWORD}x&sslpassword=never")
    assert "password=***" in said.replace("%2A", "*")
    assert "rejects this password" in said


def test_missing_permissions(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
    theirs = url.replace(f"//{USER}:", "//reader:")
    assert "denies this user permission; the user must own the database" in problem(theirs)
    open_database(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    # Reading needs no other permission.
    reader = open_database(theirs)
    assert reader.last_seen(1) is None
    with pytest.raises(DatabaseProblem, match="denies this user permission"):
        reader.put_cluster("uid-1", "lab")
    reader.close()


def test_foreign_tables_are_not_touched(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE theirs (x int)")
    assert "has tables of another program; name another database" in problem(url)


@pytest.mark.slow
def test_wait_for_a_lock_is_limited(postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle holder of the lock loses it and gets an error."""
    monkeypatch.setattr("gpuctl_usage.store.engines.LOCK_TIMEOUT", 0.2)
    url = postgresql.new_database()
    one, other = open_database(url), open_database(url)
    cluster = one.put_cluster("uid-1", "lab")
    with pytest.raises(DatabaseProblem, match=r"was locked by another process for 0\.2 s"), one._writing():
        other.put_changes(cluster, 1.0)
    with pytest.raises(DatabaseProblem, match="closed the connection"):
        hold_lock_idle(one)
    other.put_changes(cluster, 2.0)
    assert one.last_seen(cluster) == 2.0
    one.close()
    other.close()


def test_odd_pod_metadata_can_be_stored(postgresql: PostgresqlServer) -> None:
    """PostgreSQL rejects NUL in text and long index entries; without care, one such value would block all further
    writes.
    """
    random = Random(1)
    odd = "\0" + "".join(chr(random.randint(0x10000, 0x10FFF)) for _ in range(300))
    owner = {"controller": True, "apiVersion": "v1", "kind": odd, "name": odd, "uid": odd}
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "ml",
            "uid": "u1",
            "creationTimestamp": "2026-11-05T00:00:00Z",
            "annotations": {"team": odd},
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "m", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running"},
    }
    facts = FactMaker(UsageKeys(("team",), ("team",)), GpuWeights(Settings())).of(pod)
    assert isinstance(facts, PodFacts)
    assert facts.owner is not None
    workload = WorkloadKey("n" * 63, facts.owner.kind, facts.owner.name, facts.owner.uid)
    annotations = dict(facts.annotations)
    held = Holding("u1", "ml", "p", workload, "n1", 1.0, "A100", {}, annotations, 1.0, None, None)
    rolled = RolledUp(0, 3600.0, {Group(Level.ANNOTATION, "team", annotations["team"]): Sums(alloc_gpu_s=1)}, "d")
    database = open_database(postgresql.new_database())
    cluster = database.put_cluster("uid-1", "lab")
    database.put_changes(cluster, 2.0, holdings=[held])
    assert database.put_rolled_up(cluster, rolled, False)
    assert database.open_holdings(cluster) == [held]
    assert annotations["team"].startswith(odd[1:60])
    database.close()


def hold_lock_idle(database: Database) -> None:
    with database._writing() as connection:
        time.sleep(0.5)
        connection.exec_driver_sql("UPDATE clusters SET last_seen = 7")


def hour(turn: int) -> RolledUp:
    sums = {Group(Level.WORKLOAD, f"ml/Job/w{number}", "u"): Sums(alloc_gpu_s=turn) for number in range(60)}
    return RolledUp(0, 3600.0, sums, f"digest-{turn}")


def test_server_restart(own: PostgresqlServer) -> None:
    """The next write replaces the lost connection without an error."""
    database = open_database(own.new_database())
    cluster = database.put_cluster("uid-1", "lab")
    database.put_rolled_up(cluster, hour(1), False)
    own.stop()
    with pytest.raises(DatabaseProblem, match=r"connection refused|closed the connection"):
        database.put_changes(cluster, 1.0)
    own.start()
    assert database.put_rolled_up(cluster, hour(2), False)
    assert database.rolled_up(cluster, 0, 1) == [hour(2)]
    database.close()


@pytest.mark.slow
def test_server_killed_during_a_write(own: PostgresqlServer) -> None:
    """After the crash the hour is complete, with its old or its new values, and can be written again."""
    database = open_database(own.new_database())
    cluster = database.put_cluster("uid-1", "lab")
    done: list[int] = []
    problems: list[str] = []

    def write(database: Database) -> None:
        try:
            for turn in range(1, 10_000):
                database.put_rolled_up(cluster, hour(turn), False)
                done.append(turn)
        except DatabaseProblem as error:
            problems.append(str(error))

    thread = threading.Thread(target=write, args=(database,))
    thread.start()
    while len(done) < 3:
        time.sleep(0.001)
    own.kill()
    thread.join()
    assert len(problems) == 1
    assert PASSWORD not in problems[0]
    assert "closed the connection" in problems[0] or "connection refused" in problems[0]
    own.start()
    [found] = database.rolled_up(cluster, 0, 1)
    # The last commit may have succeeded although its confirmation was lost.
    assert found in (hour(done[-1]), hour(done[-1] + 1))
    last = done[-1] + 1
    database.put_rolled_up(cluster, hour(last), False)
    assert database.rolled_up(cluster, 0, 1) == [hour(last)]
    database.close()


def test_planner_settings_prefer_indexes(postgresql: PostgresqlServer) -> None:
    # Independent of the server's settings: with its defaults, a month of workloads was read by scanning all hours.
    database = open_database(postgresql.new_database())
    asked = "SELECT string_agg(setting, ' ' ORDER BY name) FROM pg_settings WHERE name IN ('jit', 'random_page_cost')"
    with database.reading() as connection:
        assert connection.exec_driver_sql(asked).scalar_one() == "off 1.1"
        assert connection.exec_driver_sql("SHOW plan_cache_mode").scalar_one() == "force_custom_plan"
    database.close()
