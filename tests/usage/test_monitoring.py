"""deploy/monitoring: every dashboard query returns data, sums are correct, and each alert fires only when it should."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import monitoring
import pytest
import yaml

from control_plane import ControlPlane
from fault_tools.world import Api
from gpuctl.objects.api_resources import Key
from gpuctl.objects.durations import HOUR
from gpuctl_usage.collector_metrics import metrics_of
from gpuctl_usage.facts import Capacity, CapacityState, EndReason, Holding, UsageKeys, WorkloadKey
from gpuctl_usage.hour_scheduling import HourRoller
from gpuctl_usage.store.database import open_database
from support.adapter_rules import adapter_rules
from support.cluster_tools import GPU
from support.collecting import Collecting, collecting
from support.deployments import DEPLOY
from support.prometheus_server import Exporter, prometheus_programs, running_prometheus
from support.usage_health import busy_health

RULES = [DEPLOY / "monitoring" / "rules" / f"{name}.yaml" for name in ("recording", "alerts")]
DASHBOARDS = sorted((DEPLOY / "monitoring" / "dashboards").glob("*.json"))
NAMESPACE, NODE = "monitored", "monitored-0"


def expressions() -> Iterator[tuple[str, str]]:
    """Yield the place and text of every dashboard query, including those of variables."""
    for path in DASHBOARDS:
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                yield f"{dashboard['title']}: {panel['title']} {target['refId']}", target["expr"]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
                assert found is not None
                yield f"{dashboard['title']}: ${variable['name']}", f"group by ({found[2]}) ({found[1]})"


# Shipped files --------------------------------------------------------------------------------------------------


def test_generated_files_are_current() -> None:
    assert monitoring.main(["--check"]) == 0
    for path in RULES:
        made = yaml.safe_load((DEPLOY / "monitoring" / "operator" / path.name).read_text())
        assert made["spec"] == yaml.safe_load(path.read_text())


def test_promtool_accepts_the_rules() -> None:
    command = [prometheus_programs() / "promtool", "check", "rules", *RULES]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_kustomize_builds_the_objects(plane: ControlPlane) -> None:
    made = list(yaml.safe_load_all(plane.kubectl("kustomize", str(DEPLOY / "monitoring"))))
    assert sorted(obj["kind"] for obj in made) == ["ConfigMap", "PrometheusRule", "PrometheusRule"]
    [boards] = [obj for obj in made if obj["kind"] == "ConfigMap"]
    assert boards["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {name: json.loads(text) for name, text in boards["data"].items()} == {
        path.name: json.loads(path.read_text()) for path in DASHBOARDS
    }


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboard_is_well_formed(path: Path) -> None:
    """Queries use the dashboard's data source and cluster variable; every panel has a unit and does not overlap
    another.
    """
    dashboard = json.loads(path.read_text())
    assert (dashboard["uid"], dashboard["schemaVersion"]) == (path.stem, 39)
    variables = {item["name"]: item for item in dashboard["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    source = {"type": "prometheus", "uid": "${datasource}"}
    places: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        assert panel["datasource"] == source
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["title"]
        where = panel["gridPos"]
        assert where["x"] + where["w"] <= 24
        own = {(where["x"] + x, where["y"] + y) for x in range(where["w"]) for y in range(where["h"])}
        assert not own & places, panel["title"]
        places |= own
        for target in panel["targets"]:
            assert target["datasource"] == source
            assert 'cluster=~"$cluster"' in target["expr"]
            assert not re.search(r'cluster="', target["expr"])
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= set(variables)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert all(item["datasource"] == source for item in variables.values() if item["type"] == "query")


def test_queries_use_existing_series() -> None:
    """No query uses kube-state-metrics, or a gpuctl series that neither the collector nor a recording rule produces."""
    recorded = {
        rule["record"]
        for path in RULES
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
        if "record" in rule
    }
    told = set(re.findall(r"^(gpuctl_usage_\w+)\{", metrics_of(busy_health()).decode(), re.MULTILINE))
    rules = " ".join(
        rule["expr"]
        for path in RULES
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    )
    for text in (rules, *(query for _, query in expressions())):
        assert set(re.findall(r"\bgpuctl:\w+:\w+", text)) <= recorded
        assert set(re.findall(r"\bgpuctl_usage_\w+", text)) <= told
        assert "kube_" not in text


def test_top_ten_panels_show_ten_series(tmp_path: Path) -> None:
    """The order changes within the range: the panel shows the ten largest at its end, each over the whole range."""
    begin, count = 1_717_236_000, 15
    names = {
        "namespace_held": 'namespace="n{0}"',
        "workload_observed": 'namespace="a",workload_kind="Job",workload="n{0}"',
    }
    names["workload_busy"] = names["workload_observed"]
    lines = []
    for name, labels in names.items():
        lines.append(f"# TYPE gpuctl:{name}:gpus gauge")
        for number in range(count):
            own = f'cluster="lab",{labels.format(number)}'
            values = [0 if name == "workload_busy" else 1 + (number + minute) % count for minute in range(61)]
            lines += [f"gpuctl:{name}:gpus{{{own}}} {value} {begin + 60 * at}" for at, value in enumerate(values)]
    panels = [(where, query) for where, query in expressions() if "topk" in query]
    assert len(panels) == 2
    with running_prometheus(tmp_path, history="\n".join(lines)) as url:
        for where, query in panels:
            asked = {"query": query.replace("$cluster", "lab"), "start": begin, "end": begin + 3600, "step": 60}
            found = httpx.get(f"{url}/api/v1/query_range", params=asked).json()["data"]["result"]
            shown = {one["metric"].get("workload", one["metric"]["namespace"]): len(one["values"]) for one in found}
            largest = sorted(range(count), key=lambda number: -((number + 60) % count))[:10]
            assert shown == {f"n{number}": 61 for number in largest}, where


# On a real Prometheus -------------------------------------------------------------------------------------------


class Monitored(NamedTuple):
    """A Prometheus that scrapes a collector and an exporter and evaluates the rules."""

    client: httpx.Client
    collector: Collecting

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Return the current series of a query."""
        answer = self.client.get("/api/v1/query", params={"query": query})
        assert answer.status_code == 200, f"{query}: {answer.text}"
        return list(answer.json()["data"]["result"])

    def value(self, query: str) -> float | None:
        """Return the value of a query that returns one series; None if it returns no series."""
        found = self.ask(query)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None


def pod(name: str, gpus: int, **labels: str) -> dict[str, Any]:
    amount = {GPU: str(gpus)}
    main = {"name": "main", "image": "x", "resources": {"limits": amount, "requests": amount}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"nodeName": NODE, "containers": [main]},
    }


def dcgm(name: str, value: float | str, gpu: int, **labels: str) -> str:
    own = {"gpu": str(gpu), "Hostname": NODE, "UUID": f"GPU-{gpu}", **labels}
    inside = ",".join(f'{key}="{item}"' for key, item in own.items())
    return f"{name}{{{inside}}} {value}"


def exported() -> list[str]:
    """Return exporter lines: two GPUs of pod `busy` with labels renamed by Prometheus, one of `lazy`, and one of no
    pod.
    """
    renamed = {"exported_namespace": NAMESPACE, "exported_pod": "busy", "namespace": "gpu-operator", "pod": "dcgm-1"}
    kept = {"namespace": NAMESPACE, "pod": "lazy"}
    exporters = {"namespace": "gpu-operator", "pod": "dcgm-1"}
    return [
        dcgm("DCGM_FI_DEV_GPU_UTIL", 30, 0, **renamed),
        dcgm("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.8, 0, **renamed),
        dcgm("DCGM_FI_DEV_GPU_UTIL", 50, 1, **renamed),
        dcgm("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "NaN", 1, **renamed),
        dcgm("DCGM_FI_DEV_FB_USED", 60 * 1024, 0, **renamed),
        dcgm("DCGM_FI_DEV_FB_FREE", 20 * 1024, 0, **renamed),
        dcgm("DCGM_FI_DEV_FB_USED", 2.0**63, 1, **renamed),
        dcgm("DCGM_FI_DEV_GPU_UTIL", 0, 2, **kept),
        dcgm("DCGM_FI_DEV_FB_USED", 8 * 1024, 2, **kept),
        dcgm("DCGM_FI_DEV_FB_FREE", 72 * 1024, 2, **kept),
        dcgm("DCGM_FI_DEV_GPU_UTIL", 0, 3, **exporters),
        f'vllm:num_requests_waiting{{namespace="{NAMESPACE}",pod="lazy",model_name="m"}} 4',
    ]


def write_rolled_up_hour(path: Path, uid: str) -> None:
    """Write a database whose last hour is not rolled up yet, and the hour before it is."""
    database = open_database(str(path))
    number = database.put_cluster(uid, "lab")
    before = int(time.time()) // HOUR * HOUR - 2.0 * HOUR
    until = before + 2 * HOUR - 100
    workload = WorkloadKey("a", "Pod", "p", "u1")
    held = Holding(
        "u1", "a", "p", workload, "n1", 2, "m", {}, {}, before + 600, before + 600, until, EndReason.FINISHED
    )
    database.put_changes(
        number, until, capacities=[Capacity("n1", "m", 8, CapacityState.READY, before - 100, until)], holdings=[held]
    )
    roller = HourRoller(database, number, None, 15, UsageKeys((), ()))
    roller.begin(until)
    roller.roll(int(before), until)
    database.close()


@pytest.fixture(scope="module")
def world(plane: ControlPlane, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    plane.add_node(NODE, gpus=8, cpu="512", memory="4Ti", labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
    plane.wait_for_nodes()
    api.create_namespace(NAMESPACE)
    for obj in (pod("busy", 2, team="vision"), pod("lazy", 1, team="speech"), pod("unseen", 1)):
        api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", obj)
    directory = tmp_path_factory.mktemp("monitored")
    write_rolled_up_hour(
        directory / "usage.db", api.call("GET", Key("Namespace", "", "kube-system").path)["metadata"]["uid"]
    )
    exporter = Exporter()
    exporter.lines += exported()
    settings = {"usage_cluster": "lab", "usage_metrics": "127.0.0.1:0"}
    with collecting(directory, plane.kubeconfig(), **settings) as collector:
        [port] = [line["port"] for line in collector.log if line["message"] == "serving metrics"]
        # Relabel the targets as the Prometheus Operator does.
        operators = {"namespace": "monitoring", "pod": "some-pod", "service": "s", "endpoint": "e", "container": "c"}
        relabelled = [{"target_label": name, "replacement": text} for name, text in operators.items()]
        how = {"honor_labels": True, "relabel_configs": relabelled}
        targets = [exporter.address, f"127.0.0.1:{port}"]
        with (
            running_prometheus(directory, targets=targets, how=how, rules=RULES) as url,
            httpx.Client(base_url=url, timeout=30) as client,
        ):
            yield Monitored(client, collector)
    exporter.close()
    api.call("DELETE", Key("Node", "", NODE).path)


def test_every_query_returns_data(world: Monitored) -> None:
    filled = {"cluster": "lab", "namespace": NAMESPACE, "workload": ".*"}
    queries = {where: re.sub(r"\$(\w+)", lambda name: filled[name[1]], query) for where, query in expressions()}
    assert len(queries) == len(list(expressions())) > 40
    silent = set(queries)

    def answered() -> bool:
        silent.difference_update({where for where in silent if world.ask(queries[where])})
        return not silent

    try:
        world.collector.until(answered, "all queries")
    except AssertionError:
        pytest.fail(f"no answer: {sorted(silent)}")


def test_recorded_sums_match_the_input(world: Monitored) -> None:
    """The first metric that measures a GPU counts, invalid values do not. A GPU without measurements is not idle."""
    one = f'{{namespace="{NAMESPACE}"}}'
    expected = {
        f"gpuctl:namespace_held:gpus{one}": 4,
        f"gpuctl:namespace_observed:gpus{one}": 3,
        f"gpuctl:namespace_busy:gpus{one}": 2 * (0.8 + 0.5) / 2,
        'gpuctl:workload_busy:gpus{workload="lazy"}': 0,
        'gpuctl:workload_observed:gpus{workload="unseen"} or vector(-1)': -1,
        'gpuctl:team_busy:gpus{label_team="vision"}': 1.3,
        f'gpuctl:node_left:gpus{{node="{NODE}"}}': 4,
        'sum(gpuctl:pod_gpu_memory_used:bytes{workload="busy"})': 60 * 2**30,
        'gpuctl:gpu_memory_total:bytes{pod="lazy"}': 80 * 2**30,
        f'count(gpuctl:gpu_utilization:percent{{node="{NODE}"}})': 4,
        f"count(gpuctl:pod_gpu_utilization:percent{one})": 3,
        "gpuctl:cluster_capacity:gpus - (gpuctl:cluster_held:gpus + gpuctl:cluster_free:gpus + gpuctl:cluster_unusable:gpus)": 0,
    }
    found: dict[str, float | None] = {}

    def agrees() -> bool:
        found.update({query: world.value(query) for query in expected})
        return found == pytest.approx(expected, abs=1e-9)

    try:
        world.collector.until(agrees, "the sums")
    except AssertionError:
        assert found == expected
    labels = world.ask('gpuctl:pod_gpu_utilization:percent{pod="busy",gpu="0"}')[0]["metric"]
    assert {key: labels[key] for key in ("cluster", "node", "workload_kind", "workload")} == {
        "cluster": "lab",
        "node": NODE,
        "workload_kind": "Pod",
        "workload": "busy",
    }


def test_adapter_rules_return_metrics_of_their_pods(world: Monitored) -> None:
    """Each adapter rule returns exactly the pods whose labels it matches."""
    found: dict[tuple[str, str], float] = {}
    for rule in adapter_rules():
        assert world.collector.until(lambda series=rule.series: world.ask(series), rule.series)
        for item in world.ask(rule.query(NAMESPACE, "busy", "lazy")):
            key = rule.metric, item["metric"][rule.labels["pod"]]
            assert key not in found
            found[key] = float(item["value"][1])
    assert found == pytest.approx(
        {
            ("DCGM_FI_DEV_GPU_UTIL", "busy"): 40,
            ("DCGM_FI_DEV_GPU_UTIL", "lazy"): 0,
            ("gpu_memory_used_percent", "busy"): found["gpu_memory_used_percent", "busy"],
            ("gpu_memory_used_percent", "lazy"): 10,
            ("vllm:num_requests_waiting", "lazy"): 4,
        }
    )


# Alerts ---------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """Input series with one value a minute (promtool notation); the labels and value of the alert at time `at`, None if
    silent.
    """

    alert: str
    series: dict[str, str]
    at: str
    fires: tuple[dict[str, str], str] | None


POD = 'gpuctl_usage_pod_gpus{cluster="lab",namespace="a",pod="p",node="n",workload_kind="Deployment",workload="w"}'
UTIL = 'DCGM_FI_DEV_GPU_UTIL{Hostname="n",gpu="0",namespace="a",pod="p"}'
SHARED = 'DCGM_FI_DEV_GPU_UTIL{Hostname="n",gpu="1",exported_namespace="a",exported_pod="p",namespace="x",pod="y"}'
NODES = 'gpuctl_usage_node_gpus{cluster="lab",node="n",model="m",state="ready"}'
IDLE = ({"cluster": "lab", "namespace": "a", "workload_kind": "Deployment", "workload": "w", "severity": "info"}, "2")
QUARTER = (IDLE[0], "0.25")
OTHER_POD, OTHERS = POD.replace('"p"', '"q"').replace('"w"', '"v"'), UTIL.replace('"p"', '"q"')
COLLECTING, SAMPLES = 'gpuctl_usage_collecting{cluster="lab"}', 'gpuctl_usage_samples_total{cluster="lab"}'
COVERAGE = 'gpuctl_usage_last_hour_coverage_ratio{cluster="lab"}'
LAG, OPEN = 'gpuctl_usage_rollup_lag_seconds{cluster="lab"}', 'gpuctl_usage_open_ledgers{cluster="lab"}'
LAB = {"cluster": "lab"}
CASES = (
    Case("GpuctlIdleGpusHeld", {POD: "2x200", UTIL: "1x200", SHARED: "3x200"}, "2h10m", IDLE),
    Case("GpuctlIdleGpusHeld", {POD: "2x200", UTIL: "1x200", SHARED: "3x200"}, "1h50m", None),
    Case("GpuctlIdleGpusHeld", {POD: "2x200", UTIL: "1x100 60x5 1x100", SHARED: "3x200"}, "2h10m", None),
    Case("GpuctlIdleGpusHeld", {POD: "2x200", UTIL: "1x200", SHARED: "40x200"}, "2h10m", None),
    Case("GpuctlIdleGpusHeld", {POD: "2x200"}, "2h10m", None),
    # Only one of eight GPUs is measured: the others are unknown, not idle.
    Case("GpuctlIdleGpusHeld", {POD: "8x200", UTIL: "1x200"}, "2h10m", None),
    # Processes on a quarter of a card use 4 % of the card, which is 16 % of the quarter; another pod uses more.
    Case(
        "GpuctlIdleGpusHeld", {POD: "0.25x200", OTHER_POD: "0.25x200", UTIL: "4x200", OTHERS: "30x200"}, "2h10m", None
    ),
    # The exporter copies the card's utilization to both pods: each quarter has the card's utilization.
    Case("GpuctlIdleGpusHeld", {POD: "0.25x200", UTIL: "4x200", OTHERS: "4x200"}, "2h10m", QUARTER),
    Case("GpuctlUsageNotCollected", {COLLECTING: "1x5 0x30"}, "20m", ({**LAB, "severity": "critical"}, "0")),
    Case("GpuctlUsageNotCollected", {"other": "1x30"}, "20m", ({"severity": "critical"}, "1")),
    Case("GpuctlUsageNotCollected", {COLLECTING: "1x10 0x5 1x30"}, "20m", None),
    Case(
        "GpuctlUsageNoSamples",
        {POD: "2x60", NODES: "8x60", SAMPLES: "7x60"},
        "40m",
        ({**LAB, "severity": "warning"}, "2"),
    ),
    Case("GpuctlUsageNoSamples", {POD: "2x60", NODES: "8x60", SAMPLES: "0+0x4 5+5x56"}, "40m", None),
    Case("GpuctlUsageNoSamples", {NODES: "8x60", SAMPLES: "7x60"}, "40m", None),
    Case("GpuctlUsageCoverageLow", {COVERAGE: "0.5x200"}, "2h10m", ({**LAB, "severity": "info"}, "0.5")),
    Case("GpuctlUsageCoverageLow", {COVERAGE: "0.5x60 0.99x60 0.5x80"}, "2h10m", None),
    Case("GpuctlUsageBehind", {LAG: "8000x60"}, "30m", ({**LAB, "severity": "warning"}, "8000")),
    Case("GpuctlUsageBehind", {LAG: "90+60x58 90+60x58"}, "1h5m", None),
    Case("GpuctlUsageLedgerOpen", {OPEN: "0x10 2x60"}, "40m", ({**LAB, "severity": "critical"}, "2")),
    Case("GpuctlUsageLedgerOpen", {OPEN: "0x10 1x10 0x60"}, "40m", None),
)


def promtool_test(case: Case, annotations: dict[str, str]) -> dict[str, Any]:
    expected = []
    if case.fires is not None:
        labels, value = case.fires
        told = {
            name: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda label: labels.get(label[1], ""), text).replace(
                "{{ $value }}", value
            )
            for name, text in annotations.items()
        }
        assert not any("{{" in text for text in told.values())
        expected = [{"exp_labels": labels, "exp_annotations": told}]
    return {
        "name": f"{case.alert} at {case.at}",
        "interval": "1m",
        "input_series": [{"series": name, "values": text} for name, text in case.series.items()],
        "alert_rule_test": [{"alertname": case.alert, "eval_time": case.at, "exp_alerts": expected}],
    }


def test_alerts_fire_only_when_they_should(tmp_path: Path) -> None:
    """Each alert fires in a case with the expected labels and annotations, and is silent in a similar case."""
    rules = [rule for group in yaml.safe_load(RULES[1].read_text())["groups"] for rule in group["rules"]]
    annotations = {rule["alert"]: rule["annotations"] for rule in rules}
    for name in annotations:
        assert {case.fires is None for case in CASES if case.alert == name} == {True, False}, name
        assert annotations[name].keys() == {"summary", "runbook"}
    tests = {
        "rule_files": list(map(str, RULES)),
        "evaluation_interval": "5m",
        "tests": [promtool_test(case, annotations[case.alert]) for case in CASES],
    }
    path = tmp_path / "alerts.yaml"
    path.write_text(yaml.safe_dump(tests))
    command = [prometheus_programs() / "promtool", "test", "rules", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
