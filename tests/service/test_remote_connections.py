"""Connection problems of clients without a kubeconfig: restarts, proxies, wrong addresses, other platform documents."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.certificates import self_signed
from support.cluster_tools import training
from support.flaky_proxy import FlakyProxy, flaky
from support.remote import Remote, settled
from support.rest_records import Answered, answering

BAD_GATEWAY = Answered(502, "text/html", "<html>bad gateway</html>")


@pytest.fixture
def breakable_connection(remote: Remote) -> Iterator[FlakyProxy]:
    """A connection to the service that the test can cut; the command line has logged in through it."""
    with flaky(remote.served.url) as made:
        remote.login(url=made.url)
        yield made


def test_followed_log_survives_interruptions(remote: Remote, breakable_connection: FlakyProxy) -> None:
    """Each line is printed once, also after the service or the connection was interrupted."""
    place = remote.place
    place.apply(training("a"))
    settled(remote, "a")
    [pod] = place.pods("a")
    place.plane.write_log(place.namespace, pod, "".join(f"line {number}\n" for number in range(100)))
    command = remote.start("logs", "a", "-f", "-n", place.namespace)
    command.until(b"line 99\n")
    breakable_connection.cut_all()
    place.plane.write_log(place.namespace, pod, "line 100\n")
    command.until(b"line 100\n")
    breakable_connection.close()
    place.plane.write_log(place.namespace, pod, "line 101\n")
    assert command.process.poll() is None
    breakable_connection.reopen()
    command.until(b"line 101\n")
    place.plane.annotate(place.namespace, pod, outcome="complete")
    assert command.end() == 0
    assert command.out.decode() == "".join(f"line {number}\n" for number in range(102))
    assert command.err == b"note: training/a has finished\n"


def test_wait_survives_interruptions(remote: Remote, breakable_connection: FlakyProxy) -> None:
    place = remote.place
    place.apply(training("a"))
    settled(remote, "a")
    [pod] = place.pods("a")
    command = remote.start("wait", "a", "--for=done", "-n", place.namespace)
    watched = remote.start("get", "jobs", "-w", "-n", place.namespace)
    watched.until(b"Running")
    breakable_connection.close()
    place.plane.annotate(place.namespace, pod, outcome="complete")
    place.until(lambda: place.get("Job", "a")["status"].get("succeeded"), "the job to end")
    assert command.process.poll() is None
    breakable_connection.reopen()
    assert (command.end(), command.out, command.err) == (0, b"training/a is done\n", b"")
    watched.until(b"Succeeded")


def test_apply_without_answer_advises_to_run_it_again(remote: Remote, breakable_connection: FlakyProxy) -> None:
    place = remote.place
    path = place.file(training("a"))
    breakable_connection.plan = ["cut"] * 99
    said = remote.typed("apply", "-f", path, "-n", place.namespace, code=3)
    assert "; it is unknown whether the service has carried it out\n  = run the same command again" in said.err
    breakable_connection.plan.clear()
    assert "unchanged" in remote.typed("apply", "-f", path, "-n", place.namespace).out
    assert place.exists("Job", "a")
    breakable_connection.close()
    said = remote.typed("apply", "-f", path, "-n", place.namespace, code=3)
    assert "not known" not in said.err
    assert "cannot be reached" in said.err


@pytest.mark.slow
def test_confirmation_holds_when_running_time_changes(remote: Remote) -> None:
    """The question contains the job's running time, which is longer when the answer arrives."""
    remote.login()
    place = remote.place
    place.apply(training("a"))
    settled(remote, "a")
    for gpus in (2, 3, 4):
        path = place.file(training("a", resources={"gpu": gpus}))
        assert "replaced" in remote.typed("apply", "-f", path, "-n", place.namespace, "--yes").out
        place.running("a")


def test_different_local_platform_is_reported(remote: Remote) -> None:
    """The service uses its own platform document; a warning names a different one beside the documents."""
    remote.login()
    place = remote.place
    path = place.file(training("a"))
    (place.directory / ".git").mkdir()
    warning = "warning: {} is not used: the service has its own platform, which differs in labels\n"
    place.platform("labels: {domain: example.com}")
    here = ("-n", place.namespace)
    told = warning.format(place.directory / "platform.yaml")
    for words in (("diff", "-f", path), ("apply", "-f", path, "--dry-run=server"), ("fit", "-f", path)):
        said = remote.typed(*words, *here, code=None)
        assert told in said.err, said.err
        assert said.err.count("warning") == 1
    # Also if the platform is among the documents, as when a directory is applied.
    said = remote.typed("apply", "-f", str(place.directory), *here)
    assert "platform.yaml is not used" in said.err
    assert place.get("Job", "a")["metadata"]["labels"]["runwhere.ai/pool"]
    assert "platform.yaml is not used" in remote.typed("delete", "-f", path, "--yes", *here).err
    # An equal or empty platform causes no warning; an invalid one is an error, as with a kubeconfig.
    place.platform("")
    assert "platform" not in remote.typed("diff", "-f", path, *here, code=1).err
    place.platform("labls: {}")
    assert "platform.yaml:" in remote.typed("diff", "-f", path, *here, code=2).err
    # Reading commands need no platform.
    remote.typed("get", "jobs", *here)
    (place.directory / "platform.yaml").unlink()
    said = remote.typed("get", "jobs", "--platform", "x.yaml", code=2)
    assert said.err.endswith(
        "--platform does not apply to a service, which uses the platform that it was started with\n"
    )


def test_forms_and_precedence_of_service_addresses(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    url, token = remote.served.url, remote.served.tokens["admin"]
    for text in (f"{url}/", f"{url}/api/v1", f"{url}/api/v1/", url.replace("http", "HTTP")):
        assert f"Logged in to {url}:" in remote.login(url=text).err
    remote.typed("get", "jobs", "--server", f"{url}/api/v1")
    remote.typed("--server", url, "get", "jobs")
    # The default scheme is https://, which this service does not speak.
    said = remote.login(url=url.removeprefix("http://"), code=3).err
    assert "does not speak TLS" in said
    assert "http:// or https://" in said
    assert "is not the address of a service" in remote.login(url="ftp://x", code=3).err
    monkeypatch.setenv("GPUCTL_SERVER", "http://127.0.0.1:9")
    assert "there is no token for http://127.0.0.1:9" in remote.typed("get", "jobs", code=3).err
    # An option that names a cluster or another service takes precedence.
    assert "http://127.0.0.1:9" not in remote.typed("get", "jobs", "--context", "nowhere", code=3).err
    remote.typed("get", "jobs", "--server", url)
    assert token not in remote.typed("get", "jobs", "--server", url).err


def test_logins_to_two_services_are_independent(remote: Remote, breakable_connection: FlakyProxy) -> None:
    remote.login("anna", url=remote.served.url)
    assert "anna may not" in remote.typed("get", "jobs", "-n", remote.place.namespace, code=3).err
    remote.typed("get", "jobs", "-n", remote.place.namespace, "--server", breakable_connection.url)
    remote.typed("logout", remote.served.url)
    # After the logout no other service is used instead.
    assert remote.typed("get", "jobs", "--server", remote.served.url, code=3).err.startswith("error: there is no token")
    remote.typed("get", "jobs", "-n", remote.place.namespace, "--server", breakable_connection.url)


def test_no_proxy_of_the_environment_is_respected(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    remote.login()
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    remote.typed("get", "jobs")


def test_bad_gateway_of_a_proxy_is_reported(remote: Remote) -> None:
    with answering(lambda asked: BAD_GATEWAY) as url:
        said = remote.login(url=url, token="gpuctl_x", code=3).err
        assert said == (
            f"error: the service at {url} is unavailable: a proxy returned status 502\n"
            "  = it may be starting: try again in a moment, or ask its administrators\n"
        )


def test_self_signed_certificate_needs_its_authority(remote: Remote, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with answering(lambda asked: BAD_GATEWAY, context) as url:
        said = remote.login(url=url, token="gpuctl_x", code=3).err
        assert "is not trusted" in said
        advised = re.search(r"`gpuctl (login \S+ --certificate-authority) FILE`", said)
        assert advised is not None
        words = [*advised[1].split(), str(certificate), "--token-stdin"]
        # With the certificate trusted, the client finds that the server is not a gpuctl service.
        assert "returned status 502" in remote.typed(*words, text="gpuctl_x", code=3).err
