"""The Go SDK: its format, its own tests, and its tests against the running service."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster_tools import POOL, Place, training
from support.documents_sent import text_of
from support.flaky_proxy import flaky
from support.served import Served

MODULE = Path(__file__).resolve().parents[2] / "sdk" / "go"

pytestmark = pytest.mark.skipif(shutil.which("go") is None and not os.environ.get("CI"), reason="Go is not installed")


def go(*arguments: str, **environment: str) -> str:
    """Run a `go` command without downloads and return its output; it must succeed."""
    own = {**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local", **environment}
    done = subprocess.run(["go", *arguments], cwd=MODULE, env=own, capture_output=True, text=True)
    assert done.returncode == 0, f"go {' '.join(arguments)}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_go_sdk_is_formatted_and_uses_only_the_standard_library() -> None:
    """gofmt and go vet report nothing, and only the standard library is imported."""
    assert subprocess.run(["gofmt", "-l", "."], cwd=MODULE, capture_output=True, text=True, check=True).stdout == ""
    go("vet", "./...")
    assert go("list", "-m", "all").split() == ["github.com/gpuctl/gpuctl/sdk/go"]


@pytest.fixture
def service_environment(served: Served, place: Place) -> Iterator[dict[str, str]]:
    """The environment of the tests that call the service, partly through a proxy that fails twice."""
    with flaky(served.url) as proxy:
        proxy.plan = ["cut", 503]
        yield {
            "GPUCTL_URL": served.url,
            "GPUCTL_FLAKY_URL": proxy.url,
            "GPUCTL_TOKEN": served.tokens["admin"],
            "GPUCTL_OTHER_TOKEN": served.tokens["anna"],
            "GPUCTL_NAMESPACE": place.namespace,
            "GPUCTL_POOL": POOL,
            "GPUCTL_NODE": f"{POOL}-1",
        }
        assert proxy.failed == 2


@pytest.mark.slow
def test_go_tests_pass_against_the_service(served: Served, place: Place, service_environment: dict[str, str]) -> None:
    """All tests, including those that call the service; only that of logs is skipped (see the next test)."""
    printed = go("test", "-count=1", "-v", "./...", **service_environment)
    assert [line.split()[2] for line in printed.splitlines() if line.startswith("--- SKIP")] == ["TestServiceLogs"]
    assert "--- PASS: TestServiceCreatesOnce" in printed
    left = ["go-b", "go-c", "go-d", "go-e", "go-g"]
    served.until(
        "/jobs",
        lambda value: sorted(item["name"] for item in value["items"]) == left,
        namespace=place.namespace,
        kind="compute",
    )


@pytest.mark.slow
def test_go_client_follows_logs_over_a_broken_connection(served: Served, place: Place) -> None:
    """Follow a log by Server-Sent Events while the connection breaks: every line once, until the job ends."""
    sent = {"json": {"yamlContent": text_of(training("a"), namespace=place.namespace)}}
    made = served.call("POST", "/jobs", status=201, **sent)
    [pod] = place.running("a")
    served.until(f"/jobs/{made['jobId']}", lambda value: value["status"] == "running")
    place.plane.write_log(place.namespace, pod, "one\n")
    with flaky(served.url) as proxy:

        def write_and_cut() -> None:
            place.plane.write_log(place.namespace, pod, "two\n")
            proxy.cut_all()
            place.plane.write_log(place.namespace, pod, "three\n")
            place.plane.annotate(place.namespace, pod, outcome="complete")

        timer = threading.Timer(1.5, write_and_cut)
        timer.start()
        environment = {"GPUCTL_LOG_URL": proxy.url, "GPUCTL_TOKEN": served.tokens["admin"]}
        go("test", "-count=1", "-run", "TestServiceLogs", "./...", **environment, GPUCTL_LOG_JOB=made["jobId"])
        timer.join()
