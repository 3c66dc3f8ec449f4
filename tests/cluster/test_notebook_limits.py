"""`notebook.stop_after` and `notebook.max_lifetime`: `gpuctl usage idle` pauses notebooks that are unused, or too old.

Simulated pods run nothing: the tests write the lines that the sidecar would print.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from control_plane import ControlPlane
from gpuctl.objects.timestamps import format_timestamp
from support.cluster_tools import Document, Outcome, Place, notebook
from support.idle_usage import events, worker, write_usage

HOUR = 3600.0
DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "usage" / "idle"


def limited(name: str, gpu: int = 0, **limits: str) -> Document:
    """Return a notebook with limits, whose token is in a Secret."""
    env = [{"name": "JUPYTER_TOKEN", "secret": "tokens", "key": name}]
    return notebook(name, notebook=limits, resources={"gpu": gpu, "cpu": 1, "memory": "1Gi"}, environment={"env": env})


def started(place: Place, name: str, hours: float) -> None:
    """Let the pod of a notebook have started some hours ago."""
    place.running(name)
    time_text = format_timestamp(time.time() - hours * HOUR)
    place.patch("Pod", f"{name}-0", {"status": {"startTime": time_text}}, subresource="status")


def report(plane: ControlPlane, place: Place, name: str, **line: Any) -> None:
    """Write a line of a notebook's sidecar, printed now."""
    text = json.dumps({"time": format_timestamp(time.time()), **line})
    plane.write_log(place.namespace, f"{name}-0", text, container="gpuctl-activity")


def used(hours: float, busy: int = 0) -> dict[str, Any]:
    """Return the activity of a notebook that was last used some hours ago."""
    return {"last_activity": format_timestamp(time.time() - hours * HOUR), "kernels": 1, "busy": busy}


def idle(place: Place, *flags: str, code: int = 0) -> Outcome:
    return place.gpuctl("usage", "idle", "-o", "json", *flags, code=code)


def actions(found: Outcome) -> dict[str, str]:
    return {item["name"]: item["action"] for item in found.value["items"]}


def test_unused_notebook_is_paused_and_opened_again(place: Place, plane: ControlPlane) -> None:
    """Without a policy of the platform and without a usage database, because the notebooks have no GPUs."""
    place.apply(*(limited(name, stop_after="2h") for name in ("unused", "busy", "fresh", "silent", "locked")))
    for name in ("unused", "busy", "silent", "locked"):
        started(place, name, 5)
    place.running("fresh")
    assert actions(idle(place)) == dict.fromkeys(("unused", "busy", "silent", "locked"), "unknown")
    report(plane, place, "unused", **used(3))
    report(plane, place, "busy", **used(3, busy=1))
    report(plane, place, "fresh", **used(3))
    report(plane, place, "locked", unknown="Jupyter answered with status 403")
    found = idle(place)
    assert actions(found) == {"unused": "pause", "silent": "unknown", "locked": "unknown"}
    assert "note: locked -n" in found.err
    assert "its activity is unknown: Jupyter answered with status 403" in found.err
    assert actions(idle(place, "--yes"))["unused"] == "paused"
    assert place.get("StatefulSet", "unused")["spec"]["replicas"] == 0
    assert place.get("StatefulSet", "busy")["spec"]["replicas"] == 1
    reason = "no activity for 3h, since "
    (event,) = events(place, "PausedIdle")
    assert event["message"].startswith(reason)
    assert event["message"].endswith(f"the job is paused; `gpuctl resume unused -n {place.namespace}` continues it")
    place.until(lambda: not place.pods("unused"), "its pod to go")
    (row,) = place.gpuctl("get", "jobs", "unused", "-o", "json").value["items"]
    assert row["status"] == "Paused"
    assert row["reason"].startswith(reason)
    assert "`notebook.stop_after: 2h`" in place.gpuctl("describe", "job", "unused").out
    assert "it was paused: no activity for 3h" in place.gpuctl("why", "unused").out
    # The reason stays while the notebook is paused, and goes with the pause.
    place.apply(limited("unused", stop_after="2h"))
    assert place.gpuctl("get", "jobs", "unused", "-o", "json").value["items"][0]["reason"].startswith(reason)
    assert actions(idle(place)) == {"silent": "unknown", "locked": "unknown"}
    place.gpuctl("resume", "unused")
    assert "runwhere.ai/pause-reason" not in place.get("StatefulSet", "unused")["metadata"]["annotations"]


def test_exec_counts_as_use(place: Place, plane: ControlPlane) -> None:
    plane.start_streams()
    place.apply(limited("shell", stop_after="2h"))
    started(place, "shell", 5)
    report(plane, place, "shell", **used(3))
    assert actions(idle(place)) == {"shell": "pause"}
    place.gpuctl("exec", "shell", "--", "true")
    place.until(lambda: actions(idle(place)) == {}, "the record of the use")
    assert "unchanged" in place.apply(limited("shell", stop_after="2h")).out
    # A time in the future is not believed.
    mark = {"metadata": {"annotations": {"runwhere.ai/last-used": "2099-01-01T00:00:00Z"}}}
    place.patch("StatefulSet", "shell", mark)
    assert actions(idle(place)) == {"shell": "pause"}


def test_lifetime_warns_and_then_pauses(place: Place) -> None:
    """Whatever the notebook does, and once. Under Argo CD its owner is warned instead."""
    place.apply(
        *(limited(name, max_lifetime="10h") for name in ("young", "old", "tracked")),
        limited("ending", max_lifetime="10h"),
    )
    # `ending` has 29 min 58 s left: a minute for what follows.
    for name, hours in (("young", 8.5), ("old", 11), ("tracked", 11), ("ending", 9.5005)):
        started(place, name, hours)
    tracking = {"argocd.argoproj.io/tracking-id": f"app:apps/StatefulSet:{place.namespace}/tracked"}
    place.patch("StatefulSet", "tracked", {"metadata": {"annotations": tracking}})
    wanted = {"ending": "warned", "old": "paused", "tracked": "warned"}
    assert actions(idle(place, "--yes")) == wanted
    (warning,) = [item for item in events(place, "LifetimeEnds") if item["involvedObject"]["name"] == "ending"]
    assert warning["message"].startswith("it is paused in 29m, at ")
    assert "(`notebook.max_lifetime: 10h`); save your work before" in warning["message"]
    described = place.gpuctl("describe", "job", "ending").out
    assert "Running: it is paused in 29m, at " in described
    assert "LifetimeEnds" in described
    rows = {item["name"]: item["reason"] for item in place.gpuctl("get", "jobs", "-o", "json").value["items"]}
    assert rows["ending"].startswith("it is paused in 29m, at ")
    assert not rows["young"]
    assert [item["involvedObject"]["name"] for item in events(place, "LifetimeEnded")] == ["old"]
    assert actions(idle(place, "--yes")) == {"ending": "warned already", "tracked": "warned already"}
    assert place.get("StatefulSet", "tracked")["spec"]["replicas"] == 1
    assert "it ran for 11h" in place.gpuctl("why", "old").out


def test_gpus_in_use_keep_a_notebook(place: Place, plane: ControlPlane, tmp_path: Path) -> None:
    """A notebook with GPUs is paused only if they are measured, and idle for as long."""
    names = ("still", "training", "dark")
    place.apply(*(limited(name, gpu=1, stop_after="2h") for name in names))
    for name in names:
        started(place, name, 5)
        report(plane, place, name, **used(3))
    unmeasured = idle(place)
    assert actions(unmeasured) == dict.fromkeys(names, "unknown")
    assert "the use of its GPUs is unknown: no usage database is set" in unmeasured.err
    database = tmp_path / "usage.db"
    uses: dict[str, list[float | None]] = {"still": [0.0], "training": [0.0, 0.0, 0.0, 0.0, 0.0, 80.0], "dark": [None]}
    write_usage(database, place, [worker(place, "StatefulSet", name, *use) for name, use in uses.items()])
    found = idle(place, "--database", str(database))
    assert actions(found) == {"still": "pause", "dark": "unknown"}
    # The collector is behind: nothing is known of GPUs, and other notebooks are judged.
    place.apply(limited("plain", stop_after="2h"))
    started(place, "plain", 5)
    report(plane, place, "plain", **used(3))
    write_usage(database, place, [worker(place, "StatefulSet", "still", 0.0)], until=time.time() - HOUR)
    assert actions(idle(place, "--database", str(database)))["plain"] == "pause"
    # A policy of the platform warns; the notebook's own limit pauses.
    place.platform("usage: {idle: {after: 2h, then: warn}}")
    write_usage(database, place, [worker(place, "StatefulSet", "still", 0.0)])
    found = idle(place, "--database", str(database))
    assert [item["action"] for item in found.value["items"] if item["name"] == "still"] == ["pause"]


@pytest.mark.slow
def test_rights_of_the_deployed_account(place: Place, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs need a role of their own; without it the activity is unknown. The lifetime needs none."""
    place.apply(limited("unused", stop_after="2h"), limited("old", max_lifetime="10h"))
    for name in ("unused", "old"):
        started(place, name, 11)
    report(plane, place, "unused", **used(3))

    def rules(file: str) -> list[Any]:
        roles = yaml.safe_load_all((DEPLOY / file).read_text())
        return next(role["rules"] for role in roles if role["kind"] == "ClusterRole")

    plane.grant("onlooker", None, [rules("rbac.yaml")[0]])
    place.grant("onlooker", rules("rbac.yaml")[1:])
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig("onlooker")))
    found = idle(place, "--yes")
    assert actions(found) == {"unused": "unknown", "old": "paused"}
    assert "its activity cannot be read" in found.err
    plane.grant("onlooker", place.namespace, rules("notebooks.yaml"))
    place.until(lambda: actions(idle(place)) == {"unused": "pause"}, "the right to read logs")
