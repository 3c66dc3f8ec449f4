"""One apply at a time: who waits for whom, what the loser is told, whose lease is taken over, and when it is given back."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from fault_tools.proxy import Exchange, Proxy, cut_after, first_of, hang, matching, meanwhile, nth, on, refuse
from fault_tools.zygote import Running, Zygote, shared
from gpuctl.apply import workflow
from gpuctl.apply.run import lease as leases
from support.cluster_tools import Place, image, inference, training

LEASE = leases.NAMESPACE_LEASE
WAITING = "waiting for carol@far (process 4711), who is applying in {}\n"
ELSEWHERE = "carol@far#4711#123456#00000000-boot-pid:[1]"


@pytest.fixture(scope="module")
def zygote() -> Zygote:
    """A process that forks commands."""
    return shared()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are waited for one second, not twenty."""
    monkeypatch.setattr(workflow, "LEASE_WAIT", 1.0)


def hold(place: Place, holder: str, *, name: str = LEASE, age: float = 0, **spec: Any) -> None:
    """Take a lease in somebody's name, who renewed it ``age`` seconds ago."""
    then = (datetime.now(timezone.utc) - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    body = {"holderIdentity": holder, "leaseDurationSeconds": leases.DURATION, "acquireTime": then, "renewTime": then}
    place.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": {key: value for key, value in {**body, **spec}.items() if value is not None},
        }
    )


def held(place: Place) -> list[str]:
    """The leases in the namespace."""
    return sorted(name for name in place.objects(("Lease",)))


def lease_requests(proxy: Proxy) -> list[str]:
    """The requests about leases, by method."""
    return [line.split()[1] for line in map(str, proxy.records) if "/leases" in line]


def lasting(proxy: Proxy) -> list[str]:
    """Those without renewals: how many there are depends on how long a command takes."""
    return [method for method in lease_requests(proxy) if method != "PUT"]


CHANGED = training("a", environment=image("v2"))


def test_apply_that_deletes_nothing_takes_no_lease(place: Place, proxy: Proxy) -> None:
    """Creates, changes in place and what is unchanged: no request about a lease at all."""
    for document in (training("a"), training("a"), training("a", job={"description": "new"})):
        place.apply(document)
        assert lease_requests(proxy) == []
    assert held(place) == []


def test_lease_is_taken_renewed_and_given_back(place: Place, proxy: Proxy) -> None:
    place.apply(training("a"))
    proxy.reset()
    place.apply(CHANGED, flags=("--yes",))
    assert lasting(proxy) == ["GET", "POST", "DELETE"]
    assert held(place) == []


def test_loser_waits_then_names_the_holder_and_has_changed_nothing(place: Place, impatient: None) -> None:
    place.apply(training("a"))
    before = place.records()
    hold(place, ELSEWHERE)
    started = time.monotonic()
    refused = place.apply(CHANGED, flags=("--yes",), code=1)
    assert time.monotonic() - started >= 1
    waiting, error, hint = refused.err.splitlines()
    assert waiting == f"waiting for carol@far (process 4711), who is applying in {place.namespace}"
    assert re.fullmatch(rf"error: carol@far \(process 4711\) is applying in {place.namespace}, begun \d+s ago", error)
    assert hint == "  = wait until it is done, and run this again"
    assert refused.out == ""
    now = place.records()
    assert now.pop(f"Lease/{LEASE}")["spec"]["holderIdentity"] == ELSEWHERE
    assert now == before
    deleted = place.gpuctl("delete", "-f", place.file(training("a")), code=1)
    assert "carol@far (process 4711) is applying in" in deleted.err
    assert place.names() == {"Job/a"}


@pytest.mark.slow
def test_json_of_the_loser(place: Place, impatient: None) -> None:
    place.apply(training("a"))
    hold(place, ELSEWHERE)
    refused = place.apply(CHANGED, flags=("--yes", "-o", "json"), code=1)
    assert refused.value["error"].startswith("carol@far (process 4711) is applying in ")


@pytest.mark.slow
def test_waiter_goes_on_when_the_lease_is_given_back(place: Place, proxy: Proxy) -> None:
    place.apply(training("a"))
    hold(place, ELSEWHERE)
    look = matching("GET", f"/leases/{LEASE}")
    given_back = meanwhile(lambda: place.kubectl("delete", "lease", LEASE))
    proxy.reset(on(nth(2, look), given_back))
    done = place.apply(CHANGED, flags=("--yes",))
    assert done.err == f"waiting for carol@far (process 4711), who is applying in {place.namespace}\n"
    assert done.out.endswith("(containers[main].image)\n")
    assert held(place) == []


def test_dead_process_of_this_machine_is_replaced_at_once(place: Place) -> None:
    """Its lease would last some seconds more; that it runs no more is known."""
    place.apply(training("a"))
    command = "from gpuctl.apply.run.lease import holder_identity; print(holder_identity())"
    dead = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout.strip()
    assert leases.is_dead(dead)
    hold(place, dead)
    done = place.apply(CHANGED, flags=("--yes",))
    assert done.err == ""
    assert held(place) == []


@pytest.mark.slow
def test_living_process_of_this_machine_is_waited_for(place: Place, impatient: None) -> None:
    """Even if its number is another process's: what counts is when it started."""
    place.apply(training("a"))
    hold(place, leases.holder_identity())
    refused = place.apply(CHANGED, flags=("--yes",), code=1)
    assert f"@{socket.gethostname()} (process " in refused.err
    who, number, started, machine = leases.holder_identity().split("#")
    reused = "#".join((who, number, str(int(started) - 1), machine))
    place.kubectl("delete", "lease", LEASE)
    hold(place, reused)
    assert place.apply(CHANGED, flags=("--yes",)).err == ""


@pytest.mark.slow
@pytest.mark.parametrize("holder", [None, ""], ids=str)
def test_lease_that_nobody_holds_is_taken_at_once(place: Place, holder: str | None) -> None:
    place.apply(training("a"))
    hold(place, ELSEWHERE, holderIdentity=holder)
    assert place.apply(CHANGED, flags=("--yes",)).err == ""
    assert held(place) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "times", [{"age": 3600}, {"age": 0}, {"age": -3600}, {"renewTime": None, "acquireTime": None}], ids=str
)
def test_lease_that_stays_as_it_is_is_taken_over(place: Place, times: dict[str, Any]) -> None:
    """Whatever the clock of its holder says."""
    place.apply(training("a"))
    hold(place, ELSEWHERE, leaseDurationSeconds=2, **times)
    started = time.monotonic()
    assert place.apply(CHANGED, flags=("--yes",)).err == WAITING.format(place.namespace)
    assert time.monotonic() - started >= 2
    assert held(place) == []


@pytest.mark.slow
@pytest.mark.parametrize("behind", [3600, -3600], ids=str)
def test_living_holder_with_another_clock_is_not_taken_for_dead(
    place: Place, behind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it writes is as old, or as new, as its clock has it; that it writes at all tells that it lives."""
    monkeypatch.setattr(workflow, "LEASE_WAIT", 4.0)
    place.apply(training("a"))
    hold(place, ELSEWHERE, age=behind, leaseDurationSeconds=2)
    stop = threading.Event()

    def renew() -> None:
        while not stop.wait(0.5):
            then = datetime.now(timezone.utc) - timedelta(seconds=behind)
            place.patch("Lease", LEASE, {"spec": {"renewTime": then.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}})

    renewal = threading.Thread(target=renew)
    renewal.start()
    try:
        refused = place.apply(CHANGED, flags=("--yes",), code=1)
    finally:
        stop.set()
        renewal.join()
    assert "carol@far (process 4711) is applying in" in refused.err
    assert place.get("Lease", LEASE)["spec"]["holderIdentity"] == ELSEWHERE


@pytest.mark.slow
def test_stopped_process_looks_whether_it_was_taken_for_dead(place: Place, proxy: Proxy, zygote: Zygote) -> None:
    """Stopped for longer than its lease lasts, it deletes nothing before it knows that the lease is still its own."""
    place.apply(training("a"))
    gate = matching("POST", "/secrets", writes=True)
    taken = threading.Event()

    def stopped() -> None:
        running = started.result(60)
        running.signal(signal.SIGSTOP)
        place.patch("Lease", LEASE, {"spec": {"holderIdentity": ELSEWHERE}})
        time.sleep(leases.DURATION + 1)
        running.signal(signal.SIGCONT)
        taken.set()

    started: Future[Running] = Future()
    proxy.reset(on(nth(1, gate), meanwhile(stopped)))
    command = ["apply", "-f", place.file(CHANGED), "-n", place.namespace, "--yes"]
    config = {"KUBECONFIG": str(place.directory / "through-proxy")}
    started.set_result(zygote.start(command, env=config, cwd=place.directory))
    result = started.result().wait()
    assert taken.is_set()
    assert result.code == 1, result
    assert "was taken over by another run" in result.stderr
    assert [line for line in proxy.writes() if " DELETE " in line and "/jobs/" in line] == []


def test_released_after_a_failure(place: Place, proxy: Proxy) -> None:
    place.apply(training("a"))
    creates = matching("POST", "/jobs", writes=True)
    proxy.reset(on(nth(1, creates), refuse(422, "Invalid", "because of the test")))
    failed = place.apply(CHANGED, flags=("--yes",), code=1)
    assert "because of the test" in failed.out
    assert "the old one was created again" in failed.out
    assert held(place) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_released_after_an_interrupt(place: Place, proxy: Proxy, zygote: Zygote, number: signal.Signals) -> None:
    """While something is taken apart: it is put together first."""
    place.apply(training("a"), inference("b"))
    file = place.file(CHANGED, inference("b", environment=image("v2")))
    config = {"KUBECONFIG": str(place.directory / "through-proxy")}
    noticed = threading.Event()
    proxy.reset(on(matching("DELETE", writes=True), meanwhile(lambda: noticed.wait(120))))
    running = zygote.start(["apply", "-f", file, "-n", place.namespace, "--yes"], env=config, cwd=place.directory)
    place.until(lambda: any("DELETE" in line for line in map(str, proxy.records)), "the first delete")
    assert held(place) == [f"Lease/{LEASE}"]
    running.signal(number)
    place.until(lambda: "interrupted: finishing the steps in progress" in running.stderr(), "the signal to be noticed")
    noticed.set()
    result = running.wait()
    assert result.code == 128 + number
    assert place.names() == {"Job/a", "Deployment/b", "Service/svc-b"}
    assert held(place) == []
    assert place.objects(("Secret",)) == {}


@pytest.mark.slow
def test_interrupt_while_waiting(place: Place, zygote: Zygote) -> None:
    place.apply(training("a"))
    hold(place, ELSEWHERE)
    before = place.records()
    config = {"KUBECONFIG": str(place.plane.kubeconfig())}
    running = zygote.start(
        ["apply", "-f", place.file(CHANGED), "-n", place.namespace, "--yes"], env=config, cwd=place.directory
    )
    place.until(lambda: "waiting for" in running.stderr(), "the command to wait")
    running.signal(signal.SIGINT)
    result = running.wait()
    assert result.code == 130
    assert result.stderr.splitlines()[1:] == ["Interrupted."]
    assert place.records() == before


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize(
    ("method", "path"), [("GET", f"/leases/{LEASE}"), ("POST", "/leases"), ("DELETE", f"/leases/{LEASE}")]
)
def test_given_back_when_interrupted_while_it_is_asked_for(
    place: Place, proxy: Proxy, zygote: Zygote, method: str, path: str, number: signal.Signals
) -> None:
    """The request is on its way and the server has not acted yet: whoever looked now would see no lease."""
    place.apply(training("a"))
    started: Future[Running] = Future()

    def interrupt() -> None:
        started.result(60).signal(number)
        time.sleep(0.7)

    proxy.reset(on(nth(1, matching(method, path)), meanwhile(interrupt)))
    command = ["apply", "-f", place.file(CHANGED), "-n", place.namespace, "--yes"]
    config = {"KUBECONFIG": str(place.directory / "through-proxy")}
    started.set_result(zygote.start(command, env=config, cwd=place.directory))
    result = started.result().wait()
    proxy.drain()
    assert result.code == (130 if number == signal.SIGINT else -number), result
    assert held(place) == []
    assert place.objects(("Secret",)) == {}
    # Before it is held nothing was done; when it is given back all is.
    image_now = place.get("Job", "a")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image_now.endswith(":v2") == (method == "DELETE")


@pytest.mark.slow
def test_takes_what_it_has_asked_for_though_the_answer_was_lost(place: Place, proxy: Proxy) -> None:
    """Of a lease that is there, and has to be taken over: asking once more is a conflict with oneself."""
    place.apply(training("a"))
    hold(place, ELSEWHERE, leaseDurationSeconds=1)
    proxy.reset(on(nth(1, matching("PUT", f"/leases/{LEASE}")), cut_after))
    assert place.apply(CHANGED, flags=("--yes",)).err == WAITING.format(place.namespace)
    assert held(place) == []


@pytest.mark.slow
def test_lease_that_another_run_made_in_between_is_not_taken_for_ours(
    place: Place, proxy: Proxy, impatient: None
) -> None:
    """The first request is lost, the second finds a lease: not every lease that is there is ours."""
    place.apply(training("a"))

    def taken(exchange: Exchange) -> None:
        hold(place, ELSEWHERE)
        exchange.cut()

    proxy.reset(on(nth(1, matching("POST", "/leases")), taken))
    refused = place.apply(CHANGED, flags=("--yes",), code=1)
    assert "carol@far (process 4711) is applying in" in refused.err
    assert place.get("Lease", LEASE)["spec"]["holderIdentity"] == ELSEWHERE


def test_killed_holder_is_followed_at_once(place: Place, proxy: Proxy, zygote: Zygote) -> None:
    """SIGKILL leaves lease and journal; the next apply on this machine waits for nobody."""
    place.apply(training("a"))
    file = place.file(CHANGED)
    command = ["apply", "-f", file, "-n", place.namespace, "--yes"]
    proxy.reset(on(matching("POST", "/jobs", writes=True), hang))
    running = zygote.start(command, env={"KUBECONFIG": str(place.directory / "through-proxy")}, cwd=place.directory)
    place.until(
        lambda: any(r.request.is_write and r.request.path.endswith("/jobs") for r in proxy.records), "the create"
    )
    running.kill()
    running.wait()
    assert held(place) == [f"Lease/{LEASE}"]
    done = zygote.run(command, env={"KUBECONFIG": str(place.plane.kubeconfig())}, cwd=place.directory)
    assert done.code == 0, done.stderr
    assert "waiting for" not in done.stderr
    assert place.get("Job", "a")["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":v2")
    assert held(place) == []


def test_two_at_once(place: Place, proxy: Proxy, zygote: Zygote) -> None:
    """The second waits, plans again, and finds that there is nothing left to do, or does its own."""
    place.apply(training("a"))
    config = {"KUBECONFIG": str(place.directory / "through-proxy")}
    runs: list[Running] = []

    def one_waits() -> None:
        place.until(lambda: any("waiting for" in run.stderr() for run in runs), "the other to wait")

    proxy.reset(on(nth(1, matching("DELETE", "/jobs/a", writes=True)), meanwhile(one_waits)))
    file = place.file(CHANGED)
    command = ["apply", "-f", file, "-n", place.namespace, "--yes"]
    runs += [zygote.start(command, env=config, cwd=place.directory) for _ in range(2)]
    results = [run.wait() for run in runs]
    assert [result.code for result in results] == [0, 0], [result.stderr for result in results]
    said = "".join(result.stderr for result in results)
    assert said.count("waiting for") == 1
    deletes = [line for line in proxy.writes() if " DELETE " in line and "/jobs/a" in line]
    assert len(deletes) == 1
    assert held(place) == []


@pytest.mark.slow
def test_set_has_a_lease_of_its_own(place: Place, impatient: None) -> None:
    """Two runs of one set, whatever they change: both write its parent."""
    flags = ("--set", "web")
    place.apply(training("a"), flags=flags)
    hold(place, ELSEWHERE, name=leases.set_lease("web"))
    assert place.apply(training("a"), flags=flags).out.startswith("unchanged"), "nothing to write, nobody to wait for"
    refused = place.apply(training("a"), inference("b"), flags=flags, code=1)
    assert f"carol@far (process 4711) is applying the set web of {place.namespace}, " in refused.err
    assert place.names() == {"Job/a"}
    # Another set is not concerned.
    place.apply(training("c"), flags=("--set", "other"))
    assert place.names() == {"Job/a", "Job/c"}


def renewed(place: Place, proxy: Proxy) -> None:
    """Wait until a lease has been renewed three times."""
    place.until(lambda: lease_requests(proxy).count("PUT") >= 3, "renewals")


@pytest.mark.slow
def test_long_run_renews_its_lease(place: Place, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_RENEWAL", 0.1)
    place.apply(training("a"))
    proxy.reset(on(matching("DELETE", "/jobs/a", writes=True), meanwhile(lambda: renewed(place, proxy))))
    place.apply(CHANGED, flags=("--yes",))
    assert lease_requests(proxy).count("PUT") >= 3
    assert held(place) == []


@pytest.mark.slow
def test_renewal_whose_answer_is_lost_loses_no_lease(
    place: Place, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked once more, which is a conflict with itself."""
    monkeypatch.setattr(leases, "_RENEWAL", 0.1)
    place.apply(training("a"), training("b"))
    renewals = nth(1, matching("PUT", "/leases/" + LEASE))
    ends = on(matching("DELETE", "/jobs/a", writes=True), meanwhile(lambda: renewed(place, proxy)))
    proxy.reset(first_of(on(renewals, cut_after), ends))
    place.apply(CHANGED, training("b", environment=image("v2")), flags=("--yes",))
    assert lease_requests(proxy).count("PUT") >= 3
    assert held(place) == []


@pytest.mark.slow
def test_run_that_lost_its_lease_deletes_nothing_more(
    place: Place, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for dead, and another is at work: what is taken apart is finished, the rest is left alone."""
    monkeypatch.setattr(leases, "_RENEWAL", 0.05)
    jobs = [training(f"a{number:02}", resources={"gpu": 0, "cpu": "10m", "memory": "10Mi"}) for number in range(20)]
    place.apply(*jobs)
    before = place.uids()
    deletes = matching("DELETE", writes=True)

    def taken_over() -> None:
        place.until(lambda: sum(deletes(record.request) for record in proxy.records) == 16, "all that is done at once")
        place.patch("Lease", LEASE, {"spec": {"holderIdentity": ELSEWHERE}})
        place.until(lambda: lease_requests(proxy)[-1] == "GET", "the run to look who has the lease")
        # It has been told by then, and has had the time to hear it.
        time.sleep(2)
        noticed.set()

    noticed = threading.Event()
    proxy.reset(first_of(on(nth(1, deletes), meanwhile(taken_over)), on(deletes, meanwhile(lambda: noticed.wait(120)))))
    changed = [{**job, "environment": {**job["environment"], **image("v2")}} for job in jobs]
    done = place.apply(*changed, flags=("--yes",), code=1)
    words = [line.split("  ")[0] for line in done.out.splitlines()]
    assert words.count("replaced") == 16
    assert words.count("not run") == 4
    assert done.err == (
        f"error: the lease {LEASE} in {place.namespace} was taken over by another run: 4 steps were not started\n"
    )
    assert sum(before[name] == uid for name, uid in place.uids().items()) == 4
    assert place.get("Lease", LEASE)["spec"]["holderIdentity"] == ELSEWHERE


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["get", "create"])
def test_without_the_right_it_is_told(place: Place, proxy: Proxy, verb: str) -> None:
    place.apply(training("a"))
    method = {"get": "GET", "create": "POST"}[verb]
    message = (
        f'leases.coordination.k8s.io "{LEASE}" is forbidden: User "dora" cannot {verb} resource "leases" in API group '
        f'"coordination.k8s.io" in the namespace "{place.namespace}"'
    )
    path = matching(method, f"/leases/{LEASE}" if verb == "get" else "/leases")
    proxy.reset(on(path, refuse(403, "Forbidden", message)))
    done = place.apply(CHANGED, flags=("--yes",))
    assert done.err == (
        f"user dora may not {verb} leases.coordination.k8s.io in namespace {place.namespace}, so concurrent applies are "
        "not prevented\n"
    )
    assert done.out.startswith("replaced  job.batch/a ")


@pytest.mark.slow
def test_identity_names_user_host_and_process() -> None:
    who, number, started, machine = leases.holder_identity().split("#")
    assert who.endswith(f"@{socket.gethostname()}")
    assert number.isdigit()
    assert started.isdigit()
    assert machine
    assert not leases.is_dead(leases.holder_identity())
    assert not leases.is_dead(ELSEWHERE), "of another machine nothing is known"
    assert leases.describe_holder(ELSEWHERE) == "carol@far (process 4711)"
    assert leases.describe_holder("somebody") == "somebody"
    assert json.dumps(leases.holder_identity())
