"""Failing servers and networks: nothing is lost, and messages are clear.

After any failure the exit code has the kind of error, there is no traceback and no raw response in the output, and
after `gpuctl recover` every object is the old or the new one.
"""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from control_plane.processes import free_ports
from fault_tools.documents import NEW, OLD
from fault_tools.expectations import (
    CLUSTER,
    assert_clear,
    assert_converges,
    assert_recoverable,
    assert_unchanged,
    assert_wanted,
)
from fault_tools.proxy import (
    Action,
    Exchange,
    Predicate,
    after,
    before,
    cut_after,
    cut_before,
    from_the_first,
    hang,
    html,
    matching,
    meanwhile,
    nth,
    on,
    refuse,
    respond,
    truncate,
    write_kubeconfig,
)
from fault_tools.site import Base, Site, ends_workload, makes_job, site
from fault_tools.world import Snapshot, lost, path_of, rest, touched
from fault_tools.zygote import Result, Running

SOON = 45.0
"""Time limit in seconds for work that runs at the same time: shorter than a client waits for a silent server."""

pytestmark = pytest.mark.usefixtures("shared_objects")


@pytest.fixture
def place(base: Base, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A namespace where the old documents run; the file holds the new ones."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    # What distinguishes tests is at the end of their names.
    with site(base, f"s-{name[-45:].strip('-')}", tmp_path) as made:
        made.prepare(OLD)
        made.file.write_text(NEW)
        yield made


# A server that cannot be reached, or used: nothing happens, and the message says why. ``cluster/test_connection.py`` has
# the messages.


def test_connection_refused(place: Site) -> None:
    old = place.snapshot()
    port = free_ports(1)[0]
    config = write_kubeconfig(place.directory / "c", {"server": f"https://127.0.0.1:{port}"}, "token")
    for arguments in (place.apply_arguments, place.recover_arguments):
        assert_clear(place.run(arguments, str(config)), CLUSTER, f"https://127.0.0.1:{port}", "connection refused")
    assert_unchanged(place, old)


INVALID_ANSWERS: dict[str, Action] = {
    "html": html(200),
    "html-error": html(502),
    "truncated": truncate(framed=True),
    "cut-in-the-middle": truncate(framed=False),
    "cut": cut_before,
    "no-json-object": respond(200, b"[]", "application/json"),
    "empty": respond(200),
    "redirect": respond(302, b"", Location="https://login.example.com/"),
}
# What a message says when not the address: there was an answer, and it came from somewhere.
SAID = {"html-error": "status 502", "redirect": "status 302"}


@pytest.mark.parametrize("form", INVALID_ANSWERS)
def test_invalid_answers_change_nothing(place: Site, form: str) -> None:
    """Each request in vain: what comes back is never taken for an empty cluster."""
    old = place.snapshot()
    place.proxy.reset(on(lambda request: True, INVALID_ANSWERS[form]))
    for arguments in (place.apply_arguments, place.recover_arguments):
        assert_clear(place.run(arguments), CLUSTER, SAID.get(form, f"127.0.0.1:{place.proxy.port}"))
    assert_unchanged(place, old)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/jobs", "/services", "/secrets"])
@pytest.mark.parametrize("form", ["truncated", "no-json-object"])
def test_invalid_list_changes_nothing(place: Site, path: str, form: str) -> None:
    """One list of many comes back broken: taken for empty, it would make everything new, or forget a journal."""
    old = place.snapshot()
    place.proxy.reset(on(matching("GET", path, watch=False), INVALID_ANSWERS[form]))
    assert_clear(place.apply(), CLUSTER)
    assert_unchanged(place, old)


def test_failed_apply_prints_json(place: Site) -> None:
    """`-o json` prints one value on stdout, whatever happens."""
    place.proxy.reset(on(lambda request: True, html(502)))
    result = place.apply(None, "-o", "json")
    assert result.code == CLUSTER
    assert isinstance(json.loads(result.stdout), dict)


# Failures in the middle: what was deleted is remembered. Those that take their time are in `test_waiting`.


CREATES: dict[str, Action] = {
    "truncated": truncate(framed=True),
    "html": html(200),
    "cut-after": cut_after,
}


@pytest.mark.parametrize("form", CREATES)
def test_lost_answer_to_a_create(place: Site, wanted: Snapshot, form: str) -> None:
    """The old object is gone, and it is unknown whether the new one exists."""
    old = place.snapshot()
    place.proxy.reset(on(nth(1, makes_job("v2")), CREATES[form]))
    place.apply()
    assert place.base.api.get("Job", place.namespace, "train") is not None
    assert_recoverable(place, old, wanted)


def test_rejected_create_restores_the_old_job(place: Site, wanted: Snapshot) -> None:
    """The old one is created again, and the message says both."""
    old = place.snapshot()
    place.proxy.reset(on(makes_job("v2"), refuse(403, "Forbidden", "denied the request: not on a Friday")))
    assert_clear(place.apply(), 1, "job.batch/train", "not on a Friday", "the old one was created again")
    now = place.snapshot()
    assert now["Job", "train"].spec == old["Job", "train"].spec
    assert now["Job", "train"].uid != old["Job", "train"].uid
    assert [*lost(now, old, wanted), *rest(now), *touched(now, old)] == []
    assert_converges(place, old, wanted)


def test_quota_lowered_during_a_replacement(place: Site, wanted: Snapshot) -> None:
    """Neither the new object nor the old one is taken until the quota allows a job again; then `recover` helps."""
    old = place.snapshot()
    api = place.base.api
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tight"},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    }

    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "one"}]}}
    other = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "other"}, "spec": {"template": template}}

    def takes_jobs() -> bool:
        # The API server learns of a quota, and of its end, a moment after it is written.
        status, _ = api.request("POST", f"{path_of('Job', place.namespace)}?dryRun=All", other)
        return status == 201

    def tighten() -> None:
        api.create(quota, place.namespace)
        api.wait(lambda: not takes_jobs(), "the quota to be in force")

    # At another workload's deletion, the Job could be replaced before the quota is in force.
    place.proxy.reset(on(nth(1, matching("DELETE", "/jobs/train")), meanwhile(tighten)))
    assert_clear(place.apply(None, "--timeout", "3s"), 1, "job.batch/train", "quota", "recover")
    assert api.get("Job", place.namespace, "train") is None
    # As long as the quota is what it is, nothing helps, and the journal stays.
    assert place.run([*place.recover_arguments, "--timeout", "1s"]).code != 0
    assert [live for live in place.snapshot().values() if live.is_journal]
    api.delete("ResourceQuota", place.namespace, "tight")
    api.wait(takes_jobs, "the quota to be forgotten")
    assert_recoverable(place, old, wanted)


def test_finalizer_delays_a_replacement(place: Site, wanted: Snapshot) -> None:
    """The message names the finalizer; once it is gone `recover` creates the new object."""
    api = place.base.api
    finalizers = ["example.com/backup"]
    api.patch("Job", place.namespace, "train", {"metadata": {"finalizers": finalizers}})
    old = place.snapshot()
    assert_clear(place.apply(None, "--timeout", "2s"), 1, "job.batch/train", "example.com/backup", "recover")
    live = api.get("Job", place.namespace, "train")
    assert live is not None
    api.patch("Job", place.namespace, "train", {"metadata": {"finalizers": None}})
    assert_recoverable(place, old, wanted)


# Interrupted.


def _signalled(
    place: Site, predicate: Predicate, number: int, action: Callable[[Callable[[], None]], Action]
) -> Result:
    """Apply, and send a signal at the first request that a predicate finds."""
    return place.disturb(
        place.apply_arguments, lambda victim: on(nth(1, predicate), action(lambda: victim().signal(number)))
    )


def _act_then(hook: Callable[[], None]) -> Action:
    """The server acts and answers; the hook is called before the client learns of it."""

    def act(exchange: Exchange) -> None:
        response = exchange.forward()
        hook()
        exchange.answer(response)

    return act


def test_ctrl_c_while_planning(place: Site) -> None:
    old = place.snapshot()
    result = _signalled(place, matching("GET", "/jobs"), signal.SIGINT, _act_then)
    assert_clear(result, 130)
    assert place.proxy.writes() == []
    assert_unchanged(place, old)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
def test_interrupted_after_the_first_delete(place: Site, wanted: Snapshot, number: int) -> None:
    """Deleted objects are created again before the command ends, and nothing is left for `recover`."""
    old = place.snapshot()
    result = _signalled(place, ends_workload, number, _act_then)
    assert_clear(result, 130 if number == signal.SIGINT else 143)
    now = place.snapshot()
    assert [*lost(now, old, wanted), *rest(now), *touched(now, old)] == []
    assert_recoverable(place, old, wanted)


def test_second_ctrl_c_ends_at_once(place: Site, wanted: Snapshot) -> None:
    """The first waits for what was deleted, which a finalizer holds; the second ends at once."""
    old = place.snapshot()
    api = place.base.api
    api.patch("Job", place.namespace, "train", {"metadata": {"finalizers": ["example.com/backup"]}})
    running = place.start(place.apply_arguments)
    api.wait(lambda: _is_going(place), "the job to be deleted")
    running.signal(signal.SIGINT)
    api.wait(lambda: "recover" in running.stderr(), "the first Ctrl-C to be noticed")
    running.signal(signal.SIGINT)
    result = running.wait(SOON)
    assert_clear(result, 130, "recover")
    assert result.stderr.splitlines()[-2:] == [
        "Interrupted.",
        "note: the journal is kept: `gpuctl recover`, or the next apply, finishes the run",
    ]
    api.patch("Job", place.namespace, "train", {"metadata": {"finalizers": None}})
    assert_recoverable(place, old, wanted)


def _is_going(place: Site) -> bool:
    live = place.base.api.get("Job", place.namespace, "train")
    return live is not None and "deletionTimestamp" in live["metadata"]


@pytest.mark.slow
def test_ctrl_c_while_the_server_hangs(place: Site) -> None:
    old = place.snapshot()
    place.proxy.reset(on(matching("GET"), hang))
    running = place.start(place.apply_arguments)
    place.base.api.wait(place.proxy.count, "the first request")
    running.signal(signal.SIGINT)
    assert_clear(running.wait(SOON), 130)
    assert_unchanged(place, old)


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 3, 4])
def test_ctrl_c_while_recovering(place: Site, wanted: Snapshot, number: int) -> None:
    """The recovery ends at once, and none of its work continues after the lease is released."""
    old = place.snapshot()
    api = place.base.api
    api.patch("Job", place.namespace, "train", {"metadata": {"finalizers": ["example.com/backup"]}})
    job = matching("DELETE", "/jobs/train")
    place.disturb(place.apply_arguments, lambda victim: on(job, after(lambda: victim().kill())))
    assert _is_going(place)
    result = place.disturb(
        place.recover_arguments,
        lambda victim: on(nth(number, matching("GET", "/jobs/train")), before(lambda: victim().signal(signal.SIGINT))),
    )
    assert_clear(result, 130)
    assert not any(live.held for (kind, _), live in place.snapshot().items() if kind == "Lease")
    api.patch("Job", place.namespace, "train", {"metadata": {"finalizers": None}})
    assert_recoverable(place, old, wanted)


# A server that takes requests and answers none: commands that were given a time keep to it, and to a few seconds more.

TIMEOUT_OPTION = ("--timeout", "2s")
COMMANDS_WITH_TIMEOUT: dict[str, tuple[str, ...]] = {
    "apply": ("apply", "-f", "jobs.yaml", "--yes"),
    "dry-run": ("apply", "-f", "jobs.yaml", "--dry-run", "server"),
    "delete-file": ("delete", "-f", "jobs.yaml", "--yes"),
    "delete-job": ("delete", "job", "train", "--yes"),
    "rerun": ("rerun", "train", "--yes"),
    "recover": ("recover", "--yes"),
    "wait": ("wait", "train", "--for=done"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS_WITH_TIMEOUT)
def test_timeout_if_the_server_never_answers(place: Site, name: str) -> None:
    old = place.snapshot()
    place.proxy.reset(on(matching(), hang))
    command, *arguments = COMMANDS_WITH_TIMEOUT[name]
    # A request that is waited for by itself takes a minute.
    result = place.start([command, *arguments, "-n", place.namespace, *TIMEOUT_OPTION]).wait(SOON)
    assert_clear(result, CLUSTER, "gave no answer within")
    assert_unchanged(place, old)


@pytest.mark.slow
@pytest.mark.parametrize("wait", [False, True], ids=["", "wait"])
def test_server_hangs_after_the_first_delete(place: Site, wanted: Snapshot, wait: bool) -> None:
    """The rest is tried, but not for long; it is remembered."""
    old = place.snapshot()
    place.proxy.reset(from_the_first(ends_workload, hang))
    result = place.start([*place.apply_arguments, *TIMEOUT_OPTION, *(["--wait"] if wait else [])]).wait(SOON)
    assert_clear(result, CLUSTER, "gave no answer within", "recover")
    assert_recoverable(place, old, wanted)


@pytest.mark.slow
def test_server_hangs_during_a_recovery(place: Site, wanted: Snapshot) -> None:
    old = place.snapshot()
    place.disturb(place.apply_arguments, lambda victim: on(nth(1, ends_workload), after(lambda: victim().kill())))
    place.proxy.reset(from_the_first(matching("POST"), hang))
    assert_clear(place.start([*place.recover_arguments, *TIMEOUT_OPTION]).wait(SOON), CLUSTER, "gave no answer within")
    assert_recoverable(place, old, wanted)


# Two at once.


def test_second_apply_waits_for_the_first(place: Site, wanted: Snapshot) -> None:
    """Two want the same: one replaces, the other waits and then finds nothing left to do."""
    old = place.snapshot()
    second: list[Running] = []

    def begin_second() -> None:
        second.append(place.start(place.apply_arguments, place.direct))
        place.base.api.wait(lambda: "waiting for" in second[0].stderr(), "the second apply to wait")

    place.proxy.reset(on(nth(1, ends_workload), meanwhile(begin_second)))
    first = place.apply()
    assert first.code == 0, first.stderr
    other = second[0].wait()
    assert other.code == 0, other.stderr
    assert_wanted(place, old, wanted)
    assert_converges(place, old, wanted)


@pytest.mark.slow
def test_two_applies_of_new_documents_converge(base: Base, tmp_path: Path) -> None:
    """Nothing is deleted, so nothing is locked: both runs create the same object."""
    for round in range(6):
        with site(base, f"two-at-once-{round}", tmp_path / str(round)) as place:
            place.file.write_text(OLD)
            arguments = [*place.apply_arguments, "--create-namespace"]
            both = [place.start(arguments, place.direct) for _ in range(2)]
            results = [running.wait() for running in both]
            assert [result.code for result in results] == [0, 0], results
            place.proxy.reset()
            assert place.apply().code == 0
            assert place.proxy.writes() == []


# The API server itself. Last: until it is back everything else would fail too.


def test_api_server_restarts_during_a_replacement(place: Site, wanted: Snapshot) -> None:
    """In the middle of a replacement: the apply waits for the server and continues."""
    old = place.snapshot()
    plane = place.base.plane
    down = threading.Event()

    def stop() -> None:
        plane.stop_api_server(kill=True)
        down.set()

    place.proxy.reset(on(nth(1, ends_workload), _act_then(stop)))
    running = place.start(place.apply_arguments)
    assert down.wait(120)
    # In this thread: a process ends with the thread that started it.
    plane.start_api_server()
    plane.restart_controllers()
    result = running.wait(120)
    assert result.code == 0, f"{result.stderr}{result.stdout}"
    assert_wanted(place, old, wanted)
    assert_converges(place, old, wanted)


@pytest.mark.slow
def test_api_server_stays_down_beyond_the_timeout(place: Site, wanted: Snapshot) -> None:
    """For longer than the apply has time; `recover` completes it later."""
    old = place.snapshot()
    plane = place.base.plane
    place.proxy.reset(on(nth(1, ends_workload), _act_then(lambda: plane.stop_api_server(kill=True))))
    running = place.start([*place.apply_arguments, "--timeout", "3s"])
    result = running.wait(120)
    plane.start_api_server()
    plane.restart_controllers()
    assert_clear(result, CLUSTER, "cannot be reached", "recover")
    assert_recoverable(place, old, wanted)
