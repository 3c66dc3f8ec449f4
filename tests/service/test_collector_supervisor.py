"""``gpuctl serve --usage``: the collector process beside the service. A failure of one does not stop the other, and the
collector exits with the service.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from control_plane import ControlPlane
from support.cluster_tools import GPU, POOL, Place, training
from support.served import Rights, Served, refused_start, serving

USERS: dict[str, Rights] = {
    "prometheus": ("metrics", None, None),
    "admin": ("admin", None, None),
    "anna": ("user", ("team-a",), None),
    "vera": ("viewer", None, None),
    "paula": ("admin", None, ("some-pool",)),
}

NO_DATABASE = (
    "collecting usage needs a database: set `usage_database` (GPUCTL_SERVER_USAGE_DATABASE) to a file, or use "
    "--usage-database"
)


def running_children(pid: int) -> list[int]:
    """Return the running child processes of a process."""
    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [child for child in found if stat(child)[1] == str(pid) and is_running(child)]


def stat(pid: int) -> list[str]:
    """Return the state and the parent of a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return ["", ""]


def is_running(pid: int) -> bool:
    return stat(pid)[0] not in ("", "Z")


def usage(served: Served, name: str = "") -> Any:
    """Return the usage part of /readyz; the service is ready whatever its value is."""
    headers = {"Authorization": f"Bearer {served.tokens[name]}"} if name else {}
    answer = httpx.get(f"{served.url}/readyz", headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()["usage"]


def metrics(served: Served, name: str) -> list[str]:
    """Return the lines of /metrics, each with its labels sorted."""
    answer = httpx.get(f"{served.url}/metrics", headers={"Authorization": f"Bearer {served.tokens[name]}"}, timeout=30)
    assert answer.status_code == 200, answer.text
    return [
        re.sub(r"\{(.*)\}", lambda found: "{" + ",".join(sorted(found[1].split(","))) + "}", line)
        for line in answer.text.splitlines()
    ]


def test_service_answers_while_the_collector_fails_and_restarts(
    plane: ControlPlane, place: Place, tmp_path: Path
) -> None:
    """With a damaged database or a killed collector the service still answers, and reports the state of the collector."""
    place.apply(training(resources={"gpu": 2}))
    place.running("train")
    amount = {GPU: "1"}
    main = {"name": "main", "image": "x", "resources": {"limits": amount, "requests": amount}}
    system = {"metadata": {"name": place.namespace}, "spec": {"nodeName": f"{POOL}-0", "containers": [main]}}
    place.api.call("POST", "/api/v1/namespaces/kube-system/pods", {"apiVersion": "v1", "kind": "Pod", **system})
    database = tmp_path / "usage.db"
    database.write_text("something else, long enough to be no empty file\n" * 100)
    settings = {"usage": "true", "usage_database": str(database), "usage_cluster": "lab"}
    with serving(tmp_path, plane.kubeconfig(), USERS, **settings) as own:
        own.until_told("usage cannot be collected", "is not an SQLite database")
        assert "gpuctl_usage_collecting 0.0" in metrics(own, "admin")
        assert usage(own, "admin") == {"collecting": False, "knownSecondsAgo": None, "problem": None}
        own.until_told("the usage collector has exited; it is restarted", '"exit": 3')
        database.unlink()
        place.until(lambda: usage(own) == {"collecting": True}, "usage to be collected")
        assert usage(own, "anna") == {"collecting": True}
        told = usage(own, "admin")
        assert told == {"collecting": True, "knownSecondsAgo": told["knownSecondsAgo"], "problem": None}
        own.until("/gpu-aggregation/clusters", lambda value: value["data"] == ["lab"])

        place.until(lambda: any('namespace="kube-system"' in line for line in metrics(own, "admin")), "both pods")
        whole = metrics(own, "prometheus")
        [held] = [line for line in whole if f'namespace="{place.namespace}",' in line]
        own_labels = f'cluster="lab",label_app="train",model="unknown",namespace="{place.namespace}"'
        assert own_labels in held
        assert held.endswith('workload="train",workload_kind="Job"} 2.0')
        assert [line for line in whole if 'namespace="kube-system"' in line]
        assert 'gpuctl_usage_collecting{cluster="lab"} 1.0' in whole
        # Metrics count the requests and objects of all namespaces and pools.
        for name in ("anna", "paula"):
            token = {"Authorization": f"Bearer {own.tokens[name]}"}
            assert httpx.get(f"{own.url}/metrics", headers=token).status_code == 403, name
        for path in ("/jobs", "/nodes", "/quotas", "/namespaces"):
            assert "only reads the metrics" in own.get(path, "prometheus", status=403)["message"]
        seen = metrics(own, "vera")
        assert held in seen
        assert not [line for line in seen if 'namespace="kube-system"' in line]
        with ThreadPoolExecutor(8) as several:
            assert all(held in lines for lines in several.map(lambda _: metrics(own, "admin"), range(16)))

        [collector] = running_children(own.process.pid)
        os.kill(collector, signal.SIGKILL)
        own.until_told("the usage collector has exited; it is restarted", '"exit": -9')
        assert own.get("/jobs", namespace=place.namespace)["total"] == 1
        place.until(lambda: usage(own)["collecting"], "usage to be collected again")
        [again] = running_children(own.process.pid)
        assert again != collector

        assert own.stop() == 0
        assert not is_running(again)
    place.api.call("DELETE", f"/api/v1/namespaces/kube-system/pods/{place.namespace}")
    assert any("stopped collecting usage" in line for line in own.log), "the collector was stopped, not killed"
    assert not any("Traceback" in line for line in own.log)


@pytest.mark.slow
def test_collector_exits_when_the_service_is_killed(plane: ControlPlane, tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom gpuctl_server.server_settings import ServerSettings\n"
        "from gpuctl_server.collector_supervisor import CollectorSupervisor\n"
        "own = CollectorSupervisor(ServerSettings.made({'usage_database': sys.argv[1]}))\nown.start()\n"
        "while not own.state()['collecting']: time.sleep(0.05)\nprint('collecting', flush=True)\ntime.sleep(600)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "usage.db")],
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig())},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "collecting\n"
        [collector] = running_children(parent.pid)
    finally:
        parent.kill()
        parent.wait()
    end = time.monotonic() + 60
    while is_running(collector):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_start_fails_without_a_usage_database(plane: ControlPlane, tmp_path: Path) -> None:
    code, said = refused_start(tmp_path, plane.kubeconfig(), usage="true")
    assert (code, said) == (3, f"gpuctl-server: {NO_DATABASE}\n")
