"""PostgreSQL that is not there, lets nobody in, or ends in the middle: what people are told, and what is kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from random import Random

import psycopg
import pytest

from control_plane.processes import free_ports
from gpuctl.language.settings import Settings
from gpuctl_usage.facts import Holding, WorkloadKey
from gpuctl_usage.gathering.gpu_weights import GpuWeights
from gpuctl_usage.gathering.object_facts import CollectedKeys, FactMaker, PodFacts
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store.engines import DatabaseProblem
from gpuctl_usage.sums import Group, Level, RolledUp, Sums
from support.postgresql_server import PASSWORD, USER, PostgresqlServer, running_postgresql


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresqlServer]:
    """One that may be ended."""
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


def test_what_is_told_of_one_that_cannot_be_used(postgresql: PostgresqlServer) -> None:
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
    # Where a password may stand as well.
    said = problem(f"postgresql://{address}/postgres?user={USER}&password={PASSWORD}x&sslpassword=never")
    assert "password=***" in said.replace("%2A", "*")
    assert "rejects this password" in said


def test_rights_that_are_missing(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
    theirs = url.replace(f"//{USER}:", "//reader:")
    assert "denies this user permission; the user must own the database" in problem(theirs)
    open_database(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    # Who reads needs no more.
    reader = open_database(theirs)
    assert reader.last_seen(1) is None
    with pytest.raises(DatabaseProblem, match="denies this user permission"):
        reader.cluster("uid-1", "lab")
    reader.close()


def test_somebody_elses_tables_are_left_alone(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE theirs (x int)")
    assert "has tables of another program; name another database" in problem(url)


@pytest.mark.slow
def test_one_who_stands_still_is_waited_for_only_so_long(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever holds the lock loses it when it does nothing, and is told so."""
    monkeypatch.setattr("gpuctl_usage.store.engines._LOCK_TIMEOUT", 0.2)
    url = postgresql.new_database()
    one, other = open_database(url), open_database(url)
    cluster = one.cluster("uid-1", "lab")
    with pytest.raises(DatabaseProblem, match=r"was locked by another process for 0\.2 s"), one._writing():
        other.mark_seen(cluster, 1.0)
    with pytest.raises(DatabaseProblem, match="closed the connection"):
        stand_still(one)
    other.mark_seen(cluster, 2.0)
    assert one.last_seen(cluster) == 2.0
    one.close()
    other.close()


def test_whatever_somebody_writes_into_a_pod_can_be_kept(postgresql: PostgresqlServer) -> None:
    """No text of PostgreSQL has a NUL, and its indexes take no long one: nothing could be written from then on."""
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
    facts = FactMaker(CollectedKeys(("team",), ("team",)), GpuWeights(Settings())).of(pod)
    assert isinstance(facts, PodFacts)
    assert facts.owner is not None
    workload = WorkloadKey("n" * 63, facts.owner.kind, facts.owner.name, facts.owner.uid)
    annotations = dict(facts.annotations)
    held = Holding("u1", "ml", "p", workload, "n1", 1.0, "A100", {}, annotations, 1.0, None, None)
    rolled = RolledUp(0, 3600.0, {Group(Level.ANNOTATION, "team", annotations["team"]): Sums(alloc_gpu_s=1)}, "d")
    database = open_database(postgresql.new_database())
    cluster = database.cluster("uid-1", "lab")
    database.put_holdings(cluster, [held], 2.0)
    assert database.put_rolled_up(cluster, rolled, False)
    assert database.open_holdings(cluster) == [held]
    assert annotations["team"].startswith(odd[1:60])
    database.close()


def stand_still(database: Database) -> None:
    with database._writing() as connection:
        time.sleep(0.5)
        connection.exec_driver_sql("UPDATE clusters SET last_seen = 7")


def hour(turn: int) -> RolledUp:
    sums = {Group(Level.WORKLOAD, f"ml/Job/w{number}", "u"): Sums(alloc_gpu_s=turn) for number in range(60)}
    return RolledUp(0, 3600.0, sums, f"digest-{turn}")


def test_a_server_that_starts_again(own: PostgresqlServer) -> None:
    """What was open is known to be gone, without an error."""
    database = open_database(own.new_database())
    cluster = database.cluster("uid-1", "lab")
    database.put_rolled_up(cluster, hour(1), False)
    own.stop()
    with pytest.raises(DatabaseProblem, match=r"connection refused|closed the connection"):
        database.mark_seen(cluster, 1.0)
    own.start()
    assert database.put_rolled_up(cluster, hour(2), False)
    assert database.rolled_up(cluster, 0, 1) == [hour(2)]
    database.close()


@pytest.mark.slow
def test_a_server_that_is_killed_in_the_middle_of_a_write(own: PostgresqlServer) -> None:
    """An hour is there whole, as it was or as it is, and is written once more."""
    database = open_database(own.new_database())
    cluster = database.cluster("uid-1", "lab")
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
    # The last one may be there, although nobody was told so.
    assert found in (hour(done[-1]), hour(done[-1] + 1))
    last = done[-1] + 1
    database.put_rolled_up(cluster, hour(last), False)
    assert database.rolled_up(cluster, 0, 1) == [hour(last)]
    database.close()


def test_questions_are_planned_for_indexes(postgresql: PostgresqlServer) -> None:
    # Whatever the server is set to: with its defaults a month of workloads was read out of all hours that there are.
    database = open_database(postgresql.new_database())
    asked = "SELECT string_agg(setting, ' ' ORDER BY name) FROM pg_settings WHERE name IN ('jit', 'random_page_cost')"
    with database.reading() as connection:
        assert connection.exec_driver_sql(asked).scalar_one() == "off 1.1"
        assert connection.exec_driver_sql("SHOW plan_cache_mode").scalar_one() == "force_custom_plan"
    database.close()
