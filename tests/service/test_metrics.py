"""`GET /jobs/{jobId}/metrics`: values that were written to a real Prometheus."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path

import pytest

from control_plane import ControlPlane
from gpuctl_server.metric_queries import DEFAULTS, MetricQuery
from gpuctl_server.server_settings import ServerSettings
from gpuctl_usage.layered_settings import SettingsProblem
from properties.scale import part_of
from support.cluster_tools import POOL, Place, training
from support.prometheus_server import Exporter, running_prometheus
from support.rest_records import Answered, answering_in_turn
from support.served import Served, serving

USERS = {"admin": ("admin", None, None), "anna": ("user", ("team-a",), None)}
BEGIN = 1_717_236_000
"""2024-06-01T10:00:00Z."""


def at(seconds: int) -> str:
    return datetime.fromtimestamp(BEGIN + seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def labelled(name: str, value: float, when: int | None = None, **labels: object) -> str:
    inside = ",".join(f'{key}="{item}"' for key, item in labels.items())
    return f"{name}{{{inside}}} {value}" + ("" if when is None else f" {BEGIN + when}")


def test_metrics_are_the_averages_of_the_jobs_gpus(plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    """Two pods with two GPUs each, whose labels Prometheus has renamed; pods of other jobs do not count."""
    place.apply(training(resources={"nodes": 2, "gpu": 2}))
    pods = sorted(place.running("train", pods=2))
    shares, used = [], []
    for minute in range(61):
        for number, pod in enumerate(pods):
            for gpu in range(2):
                names = {"gpu": gpu, "Hostname": f"node-{number}"}
                # The second pod keeps the exporter's own labels.
                own = {"namespace": place.namespace, "pod": pod}
                other = {"exported_namespace": place.namespace, "exported_pod": pod, "namespace": "x", "pod": "dcgm-1"}
                names |= own if number else other
                value = 40 + 10 * number + 5 * gpu + minute * 0.5
                shares.append(labelled("DCGM_FI_DEV_GPU_UTIL", value, minute * 60, **names))
                used.append(labelled("DCGM_FI_DEV_FB_USED", 1024 * (60 + gpu), minute * 60, **names))
        near = {"exported_namespace": place.namespace, "exported_pod": pods[0] + "x"}
        far = {"exported_namespace": "elsewhere", "exported_pod": pods[0]}
        for names in (near, far):
            shares.append(labelled("DCGM_FI_DEV_GPU_UTIL", 1, minute * 60, gpu=0, **names))
    # DCGM's value for "unknown".
    blank = {"exported_namespace": place.namespace, "exported_pod": pods[0], "gpu": 7}
    shares.append(labelled("DCGM_FI_DEV_GPU_UTIL", 2.0**63, 600, **blank))
    used.append(labelled("DCGM_FI_DEV_FB_USED", 2.0**63, 600, **blank))
    history = "\n".join(["# TYPE DCGM_FI_DEV_GPU_UTIL gauge", *shares, "# TYPE DCGM_FI_DEV_FB_USED gauge", *used])
    with (
        running_prometheus(tmp_path, history=history) as url,
        serving(tmp_path, plane.kubeconfig(), USERS, prometheus=url) as own,
    ):
        own.pods_of(place, "train", 2)
        path = "/jobs/train/metrics"
        value = own.get(path, namespace=place.namespace, startTime=at(0), endTime=at(3600))
        assert value.keys() == {"gpuUtilization", "memoryUsage"}
        points = {point["timestamp"]: point["value"] for point in value["gpuUtilization"]}
        assert len(points) == 241
        for minute in range(61):
            assert points[at(minute * 60)] == pytest.approx(47.5 + minute * 0.5, abs=0.01)
        assert {point["value"] for point in value["memoryUsage"]} == {60.5}
        one = own.get(path, namespace=place.namespace, metric="memoryUsage", startTime=at(0), endTime=at(60))
        assert one == {"memoryUsage": [{"timestamp": at(n), "value": 60.5} for n in (0, 15, 30, 45, 60)]}
        # A `+` that was decoded as a space.
        lost = own.get(path, namespace=place.namespace, startTime="2024-06-01T18:00:00 08:00", endTime=at(60))
        assert lost == own.get(path, namespace=place.namespace, startTime=at(0), endTime=at(60))
        long = own.get(path, namespace=place.namespace, startTime=at(0), endTime=at(30 * 86400))
        assert 0 < len(long["gpuUtilization"]) <= 500
        assert own.get(path, namespace=place.namespace, metric="throughput") == {"throughput": []}
        assert own.get(path, namespace=place.namespace)["gpuUtilization"] == []
        for query in (
            {"metric": "nothing"},
            {"metric": "memoryTotal"},
            {"startTime": "yesterday"},
            {"endTime": "2024-13-01T00:00:00Z"},
            {"startTime": at(60), "endTime": at(0)},
        ):
            refused = own.get(path, status=400, namespace=place.namespace, **query)
            assert refused["error"] == "InvalidRequest", query
        assert own.get(path, "anna", status=404)["message"] == "there is no job train"
        own.get(path, "anna", status=403, namespace=place.namespace)
        own.get(path, "", status=401)


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    running = Exporter()
    yield running
    running.close()


@pytest.mark.slow
def test_node_gpu_details_show_current_metrics(
    plane: ControlPlane, place: Place, tmp_path: Path, exporter: Exporter
) -> None:
    node = f"{POOL}-0"
    for gpu, (share, used) in enumerate(((89.2, 72), (0, 0))):
        names = {"gpu": gpu, "Hostname": node}
        exporter.lines += [
            labelled("DCGM_FI_DEV_GPU_UTIL", share, **names),
            labelled("DCGM_FI_DEV_FB_USED", used * 1024, **names),
            labelled("DCGM_FI_DEV_FB_FREE", (80 - used) * 1024, **names),
        ]
    with (
        running_prometheus(tmp_path, targets=[exporter.address]) as url,
        serving(tmp_path, plane.kubeconfig(), USERS, prometheus=url) as own,
    ):
        value = own.until(
            "/nodes/gpu-detail",
            # Each GPU is a separate query to Prometheus, which may have been sent before the scrape.
            lambda value: any(
                gpu["utilization"] and gpu["memoryUsage"] == "72Gi/80Gi"
                for item in value["items"]
                if item["nodeName"] == node
                for gpu in item["gpus"]
            ),
            pageSize=1000,
        )
        [item] = [item for item in value["items"] if item["nodeName"] == node]
        found = {gpu["gpuId"]: (gpu["utilization"], gpu["memoryUsage"]) for gpu in item["gpus"]}
        assert found["gpu-0"] == (89.2, "72Gi/80Gi")
        assert found["gpu-1"] == (0, "0Gi/80Gi")
        assert found["gpu-2"] == (None, None)
        other = next(item for item in value["items"] if item["nodeName"] != node)
        assert other["gpus"][0]["utilization"] is None
        own.until(
            f"/nodes/{node}",
            lambda value: [gpu["utilization"] for gpu in value["gpuDetail"] if gpu["gpuId"] == "gpu-0"] == [89.2],
        )


def test_job_details_show_current_metrics(
    plane: ControlPlane, place: Place, tmp_path: Path, exporter: Exporter
) -> None:
    """The job's description contains them, together with the result of a configured query."""
    place.apply(training(resources={"gpu": 2}))
    [pod] = place.running("train")
    for gpu, (share, used) in enumerate(((80, 68), (98.4, 67))):
        names = {"gpu": gpu, "exported_namespace": place.namespace, "exported_pod": pod}
        exporter.lines += [
            labelled("DCGM_FI_DEV_GPU_UTIL", share, **names),
            labelled("DCGM_FI_DEV_FB_USED", used * 1024, **names),
            labelled("DCGM_FI_DEV_FB_TOTAL", 80 * 1024, **names),
        ]
    exporter.lines.append(labelled("tokens", 1234567.5, pod=pod))
    queries = {
        "throughput": {"query": 'sum(tokens{pod=~"$pods"})', "text": "{value} tokens/sec"},
        "networkLatency": {"query": 'avg(latency{pod=~"$pods"})'},
        "twice": {"query": 'DCGM_FI_DEV_GPU_UTIL{exported_pod=~"$pods"}'},
    }
    with (
        running_prometheus(tmp_path, targets=[exporter.address]) as url,
        serving(tmp_path, plane.kubeconfig(), USERS, prometheus=url, metrics=json.dumps(queries)) as own,
    ):
        measured = {
            "gpuUtilization": 89.2,
            "memoryUsage": "68Gi/80Gi",
            "networkLatency": None,
            "throughput": "1234567.5 tokens/sec",
        }
        own.until("/jobs/train", lambda value: value["metrics"] == measured, namespace=place.namespace)
        path = "/jobs/train/metrics"
        # There is one point every 15 s since the start of the job.
        found = own.until(path, lambda value: value["throughput"], namespace=place.namespace, metric="throughput")
        points = found["throughput"]
        assert {point["value"] for point in points} == {1234567.5}
        several = own.get(path, status=503, namespace=place.namespace, metric="twice")
        assert "its query returns 2 series" in several["message"]


def test_unset_prometheus_is_reported(served: Served, place: Place) -> None:
    place.apply(training())
    served.pods_of(place, "train")
    refused = served.get("/jobs/train/metrics", status=503, namespace=place.namespace)
    assert refused["error"] == "ServiceUnavailable"
    assert "GPUCTL_SERVER_PROMETHEUS" in refused["message"]
    assert served.get("/jobs/nothing/metrics", status=404)["error"] == "NotFound"
    assert served.get(f"/nodes/{POOL}-0")["gpuDetail"][0]["utilization"] is None


JSON = "application/json"
REDIRECT = (302, "", "returned status 302")
INVALID = [
    (200, "<html>", "returned status 200"),
    (200, '{"status": "success", "data": {"result": [{"values": 3}]}}', "returned an invalid response"),
    (200, " " * (9 * 2**20), "more than 8 MiB"),
    (422, '{"status": "error", "error": "query timed out\\u001b[2J"}', "returned status 422: query timed out"),
]


@pytest.mark.parametrize(("status", "body", "said"), [REDIRECT, *part_of(INVALID, 4)])
def test_invalid_prometheus_answers_are_reported(
    plane: ControlPlane, place: Place, tmp_path: Path, status: int, body: str, said: str
) -> None:
    place.apply(training())
    with ExitStack() as stack:
        elsewhere, never = stack.enter_context(answering_in_turn(Answered(200, JSON, "{}")))
        redirect = {"Location": f"{elsewhere}/api/v1/query_range"}
        url, asked = stack.enter_context(answering_in_turn(Answered(status, JSON, body, redirect)))
        token = tmp_path / "prometheus-token"
        token.write_text("secret-of-prometheus\n")
        settings = {"prometheus": f"{url}/base/", "prometheus_token": str(token)}
        with serving(tmp_path, plane.kubeconfig(), USERS, **settings) as own:
            own.pods_of(place, "train")
            # A job's details query its metrics, too.
            asked.clear()
            refused = own.get("/jobs/train/metrics", status=503, namespace=place.namespace)
            assert said in refused["message"]
            assert "\x1b" not in refused["message"]
            assert asked[0].target == "/base/api/v1/query_range"
            assert asked[0].headers["Authorization"] == "Bearer secret-of-prometheus"
            assert asked[0].body.startswith(b"query=")
            assert never == []
            assert "secret-of-prometheus" not in json.dumps(refused) + "".join(own.log)
            assert own.get(f"/nodes/{POOL}-0")["gpuDetail"][0]["utilization"] is None


@pytest.mark.slow
def test_silent_prometheus_delays_requests_only_briefly(plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with serving(tmp_path, plane.kubeconfig(), USERS, prometheus=url) as own:
            for _ in range(20):
                begun = time.monotonic()
                assert own.get(f"/nodes/{POOL}-0")["gpuDetail"][0]["utilization"] is None
                # The timeout is two seconds; the rest is for a loaded machine.
                assert time.monotonic() < begun + 20


def test_names_are_escaped_in_queries() -> None:
    """Names are escaped: none can change the query around it."""
    query = MetricQuery(query='avg(up{a="$job",b=~"x$job",pod=~"$pods"})')
    filled = query.filled({"job": 'a"} or vector(1) #', "pods": ["a.b", 'c"\\', "d|.*"], "namespace": "", "nodes": []})
    assert filled == (
        'avg(up{a="a\\"} or vector(1) #",b=~"xa\\\\\\"\\\\}\\\\ or\\\\ vector\\\\(1\\\\)\\\\ \\\\#",'
        'pod=~"a\\\\.b|c\\\\\\"\\\\\\\\|d\\\\|\\\\.\\\\*"})'
    )
    for wrong in ("up{a=$job}", "up{a='$job'}", 'up{a="$what"}', 'up{pod="$pods"}', "vector($pods)"):
        with pytest.raises(SettingsProblem):
            ServerSettings.made({"metrics": {"throughput": {"query": wrong}}})
    for name, wrong in (("a b", "up"), ("x" * 64, "up"), ('a"', "up")):
        with pytest.raises(SettingsProblem):
            ServerSettings.made({"metrics": {name: {"query": wrong}}})
    assert all(MetricQuery.model_validate(item.model_dump()) == item for item in DEFAULTS.values())


@pytest.mark.parametrize("name", ['a"} or vector(1) or up{b="', "a\\", "a\nb", "a.b|c", "(", "ä$1", "{{}}", "`'"])
def test_prometheus_accepts_every_escaped_name(tmp_path: Path, name: str) -> None:
    """The real PromQL parser accepts the query and returns exactly that series."""
    from gpuctl_usage.prometheus import Prometheus

    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    history = f'# TYPE m gauge\nm{{pod="{escaped}"}} 3 {BEGIN}\nm{{pod="other"}} 5 {BEGIN}\nm{{pod="axb"}} 7 {BEGIN}\n'
    with running_prometheus(tmp_path, history=history) as url:
        prometheus = Prometheus(url)
        for text in ('m{pod=~"$pods"}', 'm{pod="$job"}', 'm{pod=~"$job"}'):
            query = MetricQuery(query=text).filled({"job": name, "pods": [name], "namespace": "", "nodes": []})
            [series] = prometheus.query_range(query, BEGIN, BEGIN, 15, 30)
            assert (series.labels["pod"], series.samples[0].value) == (name, 3)
