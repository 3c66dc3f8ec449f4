"""One apply at a time: waiting for another run, its error message, and acquisition, takeover and release of leases."""

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
from gpuctl.kube import process_identity
from support.cluster_tools import Place, image, inference, training

LEASE = leases.NAMESPACE_LEASE
WAITING = "waiting for carol@far (process 4711), who is applying in {}\n"
ELSEWHERE = "carol@far#4711#123456#00000000-boot-pid:[1]"


@pytest.fixture(scope="module")
def zygote() -> Zygote:
    """A process that forks commands."""
    return shared()


@pytest.fixture
def short_lease_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait one second for another run instead of twenty."""
    monkeypatch.setattr(workflow, "LEASE_WAIT", 1.0)


def create_lease(place: Place, holder: str, *, name: str = LEASE, age: float = 0, **spec: Any) -> None:
    """Create a lease of another holder, renewed ``age`` seconds ago."""
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


def lease_names(place: Place) -> list[str]:
    """Return the leases in the namespace."""
    return sorted(name for name in place.objects(("Lease",)))


def lease_requests(proxy: Proxy) -> list[str]:
    """Return the methods of all requests about leases."""
    return [line.split()[1] for line in map(str, proxy.records) if "/leases" in line]


def requests_without_renewals(proxy: Proxy) -> list[str]:
    """Return the methods without renewals, whose number depends on the duration of the command."""
    return [method for method in lease_requests(proxy) if method != "PUT"]


CHANGED = training("a", environment=image("v2"))


def test_apply_that_deletes_nothing_takes_no_lease(place: Place, proxy: Proxy) -> None:
    """Creations, in-place changes and unchanged objects send no request about leases."""
    for document in (training("a"), training("a"), training("a", job={"description": "new"})):
        place.apply(document)
        assert lease_requests(proxy) == []
    assert lease_names(place) == []


def test_lease_is_acquired_and_released(place: Place, proxy: Proxy) -> None:
    place.apply(training("a"))
    proxy.reset()
    place.apply(CHANGED, flags=("--yes",))
    assert requests_without_renewals(proxy) == ["GET", "POST", "DELETE"]
    assert lease_names(place) == []


def test_second_apply_waits_then_names_the_holder_and_changes_nothing(place: Place, short_lease_wait: None) -> None:
    place.apply(training("a"))
    before = place.records()
    create_lease(place, ELSEWHERE)
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
def test_second_apply_reports_the_holder_as_json(place: Place, short_lease_wait: None) -> None:
    place.apply(training("a"))
    create_lease(place, ELSEWHERE)
    refused = place.apply(CHANGED, flags=("--yes", "-o", "json"), code=1)
    assert refused.value["error"].startswith("carol@far (process 4711) is applying in ")


@pytest.mark.slow
def test_waiting_apply_continues_when_the_lease_is_released(place: Place, proxy: Proxy) -> None:
    place.apply(training("a"))
    create_lease(place, ELSEWHERE)
    look = matching("GET", f"/leases/{LEASE}")
    given_back = meanwhile(lambda: place.kubectl("delete", "lease", LEASE))
    proxy.reset(on(nth(2, look), given_back))
    done = place.apply(CHANGED, flags=("--yes",))
    assert done.err == f"waiting for carol@far (process 4711), who is applying in {place.namespace}\n"
    assert done.out.endswith("(containers[main].image)\n")
    assert lease_names(place) == []


@pytest.mark.slow
def test_lease_of_a_dead_local_process_is_taken_over_at_once(place: Place) -> None:
    """The lease has not expired, but its holder is known to be dead."""
    place.apply(training("a"))
    command = "from gpuctl.kube.process_identity import holder_identity; print(holder_identity())"
    dead = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout.strip()
    assert process_identity.is_dead(dead)
    create_lease(place, dead)
    done = place.apply(CHANGED, flags=("--yes",))
    assert done.err == ""
    assert lease_names(place) == []


@pytest.mark.slow
def test_lease_of_a_living_local_process_is_waited_for(place: Place, short_lease_wait: None) -> None:
    """A process is identified by its start time, because another process may have the same pid."""
    place.apply(training("a"))
    create_lease(place, process_identity.holder_identity())
    refused = place.apply(CHANGED, flags=("--yes",), code=1)
    assert f"@{socket.gethostname()} (process " in refused.err
    who, number, started, machine = process_identity.holder_identity().split("#")
    reused = "#".join((who, number, str(int(started) - 1), machine))
    place.kubectl("delete", "lease", LEASE)
    create_lease(place, reused)
    assert place.apply(CHANGED, flags=("--yes",)).err == ""


@pytest.mark.slow
def test_lease_without_a_holder_is_acquired_at_once(place: Place) -> None:
    for document, holder in ((CHANGED, None), (training("a"), "")):
        place.apply(document, flags=("--yes",))
        create_lease(place, ELSEWHERE, holderIdentity=holder)
        assert place.apply(training("a", environment=image("v3")), flags=("--yes",)).err == ""
        assert lease_names(place) == []


@pytest.mark.slow
def test_lease_that_is_not_renewed_is_taken_over(place: Place) -> None:
    """The timestamps of the holder's clock do not matter."""
    place.apply(training("a"))
    clocks: tuple[dict[str, Any], ...] = (
        {"age": 3600},
        {"age": 0},
        {"age": -3600},
        {"renewTime": None, "acquireTime": None},
    )
    for number, times in enumerate(clocks):
        create_lease(place, ELSEWHERE, leaseDurationSeconds=2, **times)
        started = time.monotonic()
        changed = training("a", environment=image(f"v{number}"))
        assert place.apply(changed, flags=("--yes",)).err == WAITING.format(place.namespace), times
        assert time.monotonic() - started >= 2, times
        assert lease_names(place) == []


@pytest.mark.slow
@pytest.mark.parametrize("behind", [3600, -3600], ids=str)
def test_renewed_lease_is_respected_despite_clock_skew(
    place: Place, behind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timestamps follow the holder's clock; any change of the lease shows that the holder is alive."""
    monkeypatch.setattr(workflow, "LEASE_WAIT", 4.0)
    place.apply(training("a"))
    create_lease(place, ELSEWHERE, age=behind, leaseDurationSeconds=2)
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
def test_suspended_process_checks_its_lease_before_it_deletes(place: Place, proxy: Proxy, zygote: Zygote) -> None:
    """A process suspended for longer than its lease lasts deletes nothing before it has verified that it holds the
    lease.
    """
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


def test_lease_is_released_after_a_failure(place: Place, proxy: Proxy) -> None:
    place.apply(training("a"))
    creates = matching("POST", "/jobs", writes=True)
    proxy.reset(on(nth(1, creates), refuse(422, "Invalid", "because of the test")))
    failed = place.apply(CHANGED, flags=("--yes",), code=1)
    assert "because of the test" in failed.out
    assert "the old one was created again" in failed.out
    assert lease_names(place) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_lease_is_released_after_a_signal(place: Place, proxy: Proxy, zygote: Zygote, number: signal.Signals) -> None:
    """The replacement in progress is finished first."""
    place.apply(training("a"), inference("b"))
    file = place.file(CHANGED, inference("b", environment=image("v2")))
    config = {"KUBECONFIG": str(place.directory / "through-proxy")}
    noticed = threading.Event()
    proxy.reset(on(matching("DELETE", writes=True), meanwhile(lambda: noticed.wait(120))))
    running = zygote.start(["apply", "-f", file, "-n", place.namespace, "--yes"], env=config, cwd=place.directory)
    place.until(lambda: any("DELETE" in line for line in map(str, proxy.records)), "the first delete")
    assert lease_names(place) == [f"Lease/{LEASE}"]
    running.signal(number)
    place.until(lambda: "interrupted: finishing the steps in progress" in running.stderr(), "the signal to be noticed")
    noticed.set()
    result = running.wait()
    assert result.code == 128 + number
    assert place.names() == {"Job/a", "Deployment/b", "Service/svc-b"}
    assert lease_names(place) == []
    assert place.objects(("Secret",)) == {}


@pytest.mark.slow
def test_ctrl_c_while_waiting_for_a_lease_changes_nothing(place: Place, zygote: Zygote) -> None:
    place.apply(training("a"))
    create_lease(place, ELSEWHERE)
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
def test_lease_is_released_after_a_signal_during_a_lease_request(
    place: Place, proxy: Proxy, zygote: Zygote, method: str, path: str, number: signal.Signals
) -> None:
    """The signal arrives while the request is in flight, before the server has processed it: a check would find no
    lease.
    """
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
    assert lease_names(place) == []
    assert place.objects(("Secret",)) == {}
    # The signal before the lease is held changes nothing; the signal during its release comes after all changes.
    image_now = place.get("Job", "a")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image_now.endswith(":v2") == (method == "DELETE")


@pytest.mark.slow
def test_lease_takeover_survives_a_lost_response(place: Place, proxy: Proxy) -> None:
    """The response to the takeover is lost; the repeated request conflicts with the run's own first request."""
    place.apply(training("a"))
    create_lease(place, ELSEWHERE, leaseDurationSeconds=1)
    proxy.reset(on(nth(1, matching("PUT", f"/leases/{LEASE}")), cut_after))
    assert place.apply(CHANGED, flags=("--yes",)).err == WAITING.format(place.namespace)
    assert lease_names(place) == []


@pytest.mark.slow
def test_lease_created_concurrently_by_another_run_is_respected(
    place: Place, proxy: Proxy, short_lease_wait: None
) -> None:
    """The first request is lost and the second one finds a lease, which belongs to another run."""
    place.apply(training("a"))

    def taken(exchange: Exchange) -> None:
        create_lease(place, ELSEWHERE)
        exchange.cut()

    proxy.reset(on(nth(1, matching("POST", "/leases")), taken))
    refused = place.apply(CHANGED, flags=("--yes",), code=1)
    assert "carol@far (process 4711) is applying in" in refused.err
    assert place.get("Lease", LEASE)["spec"]["holderIdentity"] == ELSEWHERE


def test_lease_of_a_killed_local_apply_is_taken_over_at_once(place: Place, proxy: Proxy, zygote: Zygote) -> None:
    """SIGKILL leaves lease and journal; the next apply on this machine does not wait."""
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
    assert lease_names(place) == [f"Lease/{LEASE}"]
    done = zygote.run(command, env={"KUBECONFIG": str(place.plane.kubeconfig())}, cwd=place.directory)
    assert done.code == 0, done.stderr
    assert "waiting for" not in done.stderr
    assert place.get("Job", "a")["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":v2")
    assert lease_names(place) == []


def test_second_of_two_applies_waits_for_the_first(place: Place, proxy: Proxy, zygote: Zygote) -> None:
    """The second apply waits, plans again, and finds nothing left to do."""
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
    assert lease_names(place) == []


@pytest.mark.slow
def test_set_has_its_own_lease(place: Place, short_lease_wait: None) -> None:
    """Runs of one set exclude each other whatever they change, because both write the set's parent."""
    flags = ("--set", "web")
    place.apply(training("a"), flags=flags)
    create_lease(place, ELSEWHERE, name=leases.set_lease("web"))
    assert place.apply(training("a"), flags=flags).out.startswith("unchanged"), "an unchanged set waited for the lease"
    refused = place.apply(training("a"), inference("b"), flags=flags, code=1)
    assert f"carol@far (process 4711) is applying the set web of {place.namespace}, " in refused.err
    assert place.names() == {"Job/a"}
    # Another set is not blocked.
    place.apply(training("c"), flags=("--set", "other"))
    assert place.names() == {"Job/a", "Job/c"}


def wait_for_renewals(place: Place, proxy: Proxy) -> None:
    """Wait until a lease has been renewed three times."""
    place.until(lambda: lease_requests(proxy).count("PUT") >= 3, "renewals")


@pytest.mark.slow
def test_long_run_renews_its_lease(place: Place, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_RENEWAL", 0.1)
    place.apply(training("a"))
    proxy.reset(on(matching("DELETE", "/jobs/a", writes=True), meanwhile(lambda: wait_for_renewals(place, proxy))))
    place.apply(CHANGED, flags=("--yes",))
    assert lease_requests(proxy).count("PUT") >= 3
    assert lease_names(place) == []


@pytest.mark.slow
def test_lost_response_to_a_renewal_keeps_the_lease(
    place: Place, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repeated renewal conflicts with the first one of the same run."""
    monkeypatch.setattr(leases, "_RENEWAL", 0.1)
    place.apply(training("a"), training("b"))
    renewals = nth(1, matching("PUT", "/leases/" + LEASE))
    ends = on(matching("DELETE", "/jobs/a", writes=True), meanwhile(lambda: wait_for_renewals(place, proxy)))
    proxy.reset(first_of(on(renewals, cut_after), ends))
    place.apply(CHANGED, training("b", environment=image("v2")), flags=("--yes",))
    assert lease_requests(proxy).count("PUT") >= 3
    assert lease_names(place) == []


@pytest.mark.slow
def test_apply_that_lost_its_lease_starts_no_further_steps(
    place: Place, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run has taken the lease over: replacements in progress are finished, the remaining steps are not started."""
    monkeypatch.setattr(leases, "_RENEWAL", 0.05)
    jobs = [training(f"a{number:02}", resources={"gpu": 0, "cpu": "10m", "memory": "10Mi"}) for number in range(20)]
    place.apply(*jobs)
    before = place.uids()
    deletes = matching("DELETE", writes=True)

    def taken_over() -> None:
        place.until(
            lambda: sum(deletes(record.request) for record in proxy.records) == 16, "the deletions that run in parallel"
        )
        place.patch("Lease", LEASE, {"spec": {"holderIdentity": ELSEWHERE}})
        place.until(lambda: lease_requests(proxy)[-1] == "GET", "the run to read the lease")
        # The run has received the response by then; give it time to process it.
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
def test_missing_right_to_leases_is_noted(place: Place, proxy: Proxy, verb: str) -> None:
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
    who, number, started, machine = process_identity.holder_identity().split("#")
    assert who.endswith(f"@{socket.gethostname()}")
    assert number.isdigit()
    assert started.isdigit()
    assert machine
    assert not process_identity.is_dead(process_identity.holder_identity())
    assert not process_identity.is_dead(ELSEWHERE), "a process of another machine was reported as dead"
    assert process_identity.describe_holder(ELSEWHERE) == "carol@far (process 4711)"
    assert process_identity.describe_holder("somebody") == "somebody"
    assert json.dumps(process_identity.holder_identity())
