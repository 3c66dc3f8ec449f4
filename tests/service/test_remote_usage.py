"""`gpuctl usage` through the service prints what it prints from the database, and the commands that free idle GPUs
work.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

import pytest

from control_plane import ControlPlane
from gpuctl.objects.durations import HOUR
from gpuctl.usecases.queries.read_context import ReadContext
from gpuctl_usage.facts import WorkloadKey
from gpuctl_usage.store.database import open_database
from support.cluster_tools import Outcome, Place, inference, training
from support.remote import Remote
from support.served import Served, serving
from support.small_usage import Worker, small_world

START = int(datetime(2026, 10, 30, tzinfo=timezone.utc).timestamp())
END = START + 24 * HOUR + 1800
DAY = ("--from", "2026-10-30", "--to", "2026-10-31")
USERS = {
    "admin": ("admin", None, None),
    "vera": ("viewer", None, None),
    "nell": ("user", ("nlp",), None),
    "anna": ("user", ("team-a",), None),
}
PLATFORM = "kind: platform\nversion: v0.1\nusage: {prices: {currency: CNY, models: {A100-80G: 20, H20: 10}}}\n"


class World(NamedTuple):
    """A service with a usage database, and the command line with the service and with the database."""

    served: Served
    database: Path
    platform: Path
    place: Place
    remote: Remote

    def near(self, *arguments: str, code: int | None = 0) -> Outcome:
        """Run a `usage` command with the database."""
        return self.place.anywhere("usage", *arguments, "--database", str(self.database), code=code)

    def far(self, *arguments: str, code: int | None = 0) -> Outcome:
        """Run a `usage` command with the service."""
        return self.remote.typed("usage", *arguments, code=code)

    def same(self, *arguments: str, priced: bool = False) -> Outcome:
        """Run a `usage` command with both; assert that the output is the same."""
        platform = ("--platform", str(self.platform)) if priced else ()
        near, far = self.near(*arguments, *platform), self.far(*arguments)
        assert (near.out, near.err) == (far.out, far.err)
        return far


@pytest.fixture
def world(place: Place, plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The usage of a small cluster; two of its workloads are idle jobs that run in the control plane."""
    place.apply(training("idle"), inference("serve"))
    place.running("idle", "serve")
    uids = {kind: place.get(kind, name)["metadata"]["uid"] for kind, name in (("Job", "idle"), ("Deployment", "serve"))}
    keys = [
        WorkloadKey(place.namespace, kind, name, uids[kind])
        for kind, name in (("Job", "idle"), ("Deployment", "serve"))
    ]
    idle = [
        Worker(keys[0], "n1", 2, (80.0, 0.5), START, None, {"creator": "anna"}),
        Worker(keys[1], "n2", 1, (0.0,), START + 20 * HOUR, None),
    ]
    uid = plane.get("namespace", "kube-system")["metadata"]["uid"]
    database, platform = tmp_path / "usage.db", tmp_path / "prices" / "platform.yaml"
    platform.parent.mkdir()
    platform.write_text(PLATFORM)
    # The cluster that was collected first is not the service's own.
    with closing(open_database(str(database))) as both:
        both.put_cluster("uid-1", "elsewhere")
    small_world(START, idle).collected(database, START, END, uid).close()
    settings = {"usage_database": str(database), "platform": str(platform)}
    with serving(tmp_path, plane.kubeconfig(), USERS, **settings) as served:  # type: ignore[arg-type]
        remote = Remote(place, served, tmp_path / "config", monkeypatch)
        remote.login()
        served.until("/jobs", lambda value: {item["name"] for item in value["items"]} >= {"idle", "serve"})
        yield World(served, database, platform, place, remote)


def test_usage_commands_print_the_same_as_with_the_database(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _check_tables(world)
    with monkeypatch.context() as patch:
        patch.setattr(ReadContext, "now", lambda _: float(END))
        _check_usage_of_a_job(world, patch)
    _check_access_rights(world)
    _check_freeing_idle_gpus(world)


def _check_tables(world: World) -> None:
    for command in ("cluster", "namespaces", "workloads", "nodes", "models"):
        for more in ((), ("-o", "json"), ("-o", "csv", "--step", "hour")):
            world.same(command, *DAY, *more)
    world.same("labels", "team", *DAY)
    world.same("workloads", *DAY, "-n", "nlp", "--sort", "idle")
    assert len(world.same("top", "--json").value["items"]) == 5
    for output in ("markdown", "html"):
        page = world.near("report", "--month", "2026-10", "-o", output, "--platform", str(world.platform)).out
        near = world.near("report", "--month", "2026-10", "-o", output).out
        far = world.far("report", "--month", "2026-10", "-o", output, "--platform", str(world.platform)).out
        assert _without_time(page) == _without_time(far), "prices come from the local platform document"
        assert page != near
        chinese = ("report", "--month", "2026-10", "-o", output, "--lang", "zh")
        pages = [re.sub(r"\d\d:\d\d（UTC）", "", asks(*chinese).out) for asks in (world.near, world.far)]
        assert pages[0] == pages[1]
        assert "GPU 的去向" in pages[1]
    assert world.far("cluster", "--cluster", "nope", code=1).err.startswith(
        "error: cluster nope does not exist; the database has elsewhere, prod"
    )
    assert "leave --database and --config out" in world.near("cluster", "--server", world.served.url, code=2).err
    refused = world.remote.typed("--server", world.served.url, "usage", "collect", code=2)
    assert "does not use a service" in refused.err


def _without_time(page: str) -> str:
    """Return a report without the time of its creation."""
    return re.sub(r"\d\d:\d\d \(UTC\), with", "(UTC), with", page)


def _check_usage_of_a_job(world: World, patch: pytest.MonkeyPatch) -> None:
    """The usage is that of the job's own uid, without the hours of an earlier job of the same name."""
    asked = ("describe", "job", "idle", "-n", world.place.namespace)
    assert world.place.anywhere(*asked, "-o", "json").value["usage"] is None
    far = world.remote.typed(*asked).out.partition("\nUsage:\n")[2].splitlines()
    assert [" ".join(line.split()) for line in far[:3]] == [
        "GPU-hours: 47.0 held, 46.8 idle, 0.0 not measured",
        "Mean use: 0.5% of what was measured (100%)",
        "Last 24 hours: " + "▁" * 24,
    ]
    patch.setenv("GPUCTL_SERVER_USAGE_DATABASE", str(world.database))
    near = world.place.anywhere(*asked).out.partition("\nUsage:\n")[2].splitlines()
    value = world.place.anywhere(*asked, "-o", "json").value["usage"]
    assert value == world.remote.typed(*asked, "-o", "json").value["usage"]
    assert (value["name"], value["gpuHours"], len(value["steps"])) == ("idle", 47.0, 24)
    patch.setenv("GPUCTL_SERVER_USAGE_DATABASE", str(world.database.with_name("typo.db")))
    assert "note: its GPU usage is unknown: there is no usage database at" in world.place.anywhere(*asked).err
    assert near[:3] == far[:3]


def _check_access_rights(world: World) -> None:
    world.remote.login("nell")
    (row,) = world.far("namespaces", *DAY, "--no-headers").out.splitlines()
    # The user learns nothing about the whole cluster, not even its size.
    assert row.split()[:4] == ["nlp", "124.0", "-", "54.0%"]
    said = world.far("cluster", *DAY, code=3)
    assert said.err.startswith("error: nell may not get the usage of all namespaces together")
    assert json.loads(world.far("cluster", *DAY, "--json", code=3).out)["error"].startswith("nell may not")
    (idle,) = world.far("waste", *DAY, "-o", "json").value["items"]
    assert (idle["name"], idle["pause"]) == ("lab", None)
    assert world.far("waste", *DAY, "-o", "json").value["idleGpuHours"] is None
    # Users without the right to pause a job do not get the command.
    world.remote.login("vera")
    assert {item["pause"] for item in world.far("waste", *DAY, "--json").value["items"]} == {None}
    world.remote.login()


def _check_freeing_idle_gpus(world: World) -> None:
    namespace = world.place.namespace
    found = world.far("waste", *DAY)
    near = world.near("waste", *DAY, "--platform", str(world.platform))
    # The command that pauses a job needs the platform that was named: it may have another label prefix.
    named = f" --platform={world.platform}"
    assert (near.out.replace(named, ""), near.err) == (found.out, found.err)
    assert near.out.count(named) == near.out.count("gpuctl pause ") == 2
    lines = [re.split(r"\s{3,}", line) for line in found.out.splitlines()]
    assert lines[0][-2:] == ["IDLE-GPU-HOURS", "COST-CNY"]
    # Two GPUs for 23.5 hours, two for 20.5, one for 4.5. That is half an hour more than the queried day; in its first
    # hours they were not idle, but not fully used either.
    assert [line[:6] for line in lines[1:4]] == [
        ["idle", namespace, "Job", "anna", "2", "23h"],
        ["lab", "nlp", "StatefulSet", "research", "2", "20h"],
        ["serve", namespace, "Deployment", "-", "1", "4h"],
    ]
    assert [line[7:] for line in lines[1:4]] == [["46.2", "923.40"], ["41.4", "414.00"], ["4.0", "40.00"]]
    day = {"start_time": "2026-10-30T00:00:00Z", "end_time": "2026-10-31T00:00:00Z"}
    whole, *pages = (
        world.served.get("/gpu-aggregation/waste", **day, **query)["data"]
        for query in ({}, *({"page": page, "page_size": 2} for page in (1, 2)))
    )
    assert {page["total"] for page in (whole, *pages)} == {3}
    assert [page["workloads"] for page in pages] == [whole["workloads"][:2], whole["workloads"][2:]]
    printed = found.out.partition("To free them:\n")[2].splitlines()
    assert printed == [f"gpuctl pause idle -n {namespace}", f"gpuctl pause serve -n {namespace}"]
    for line in printed:
        program, *arguments = shlex.split(line)
        assert program == "gpuctl"
        world.remote.typed(*arguments)
    # A paused job gets no advice, although its release of the GPUs has not been collected yet.
    world.served.until(
        "/gpu-aggregation/waste",
        lambda value: [item["pause"] for item in value["data"]["workloads"]] == [None] * 3,
        **day,
    )
    assert "gpuctl pause" not in world.near("waste", *DAY).out
    assert world.far("waste", *DAY, "--below", "0.1").out.splitlines()[1].startswith("serve ")
    said = world.far("waste", *DAY, "-n", "vision").err.splitlines()
    assert said[0] == "No workload that holds GPUs has been idle for an hour or longer."
    assert re.fullmatch(r"note: the list of GPU holders is \d+d old; is `gpuctl usage collect` running\?", said[1])
    assert "platform" in world.far("waste", "--platform", str(world.platform), code=2).err
