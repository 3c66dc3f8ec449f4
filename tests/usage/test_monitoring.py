"""deploy/monitoring: every query of every dashboard answers, sums are what was put in, and each alert fires when it should
and stays silent when it should not."""

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
from gpuctl_usage.collector_metrics import metrics_of
from gpuctl_usage.facts import HOUR, Capacity, CapacityState, EndReason, Holding, WorkloadKey
from gpuctl_usage.hour_rollup import ConfiguredKeys, HourRoller
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
    """Every query of every dashboard, of variables as well, with where it stands."""
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


# What is shipped ------------------------------------------------------------------------------------------------


def test_what_is_generated_is_what_it_is_made_of() -> None:
    assert monitoring.main(["--check"]) == 0
    for path in RULES:
        made = yaml.safe_load((DEPLOY / "monitoring" / "operator" / path.name).read_text())
        assert made["spec"] == yaml.safe_load(path.read_text())


def test_promtool_takes_the_rules() -> None:
    command = [prometheus_programs() / "promtool", "check", "rules", *RULES]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_kustomize_makes_objects_of_it(plane: ControlPlane) -> None:
    made = list(yaml.safe_load_all(plane.kubectl("kustomize", str(DEPLOY / "monitoring"))))
    assert sorted(obj["kind"] for obj in made) == ["ConfigMap", "PrometheusRule", "PrometheusRule"]
    [boards] = [obj for obj in made if obj["kind"] == "ConfigMap"]
    assert boards["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {name: json.loads(text) for name, text in boards["data"].items()} == {
        path.name: json.loads(path.read_text()) for path in DASHBOARDS
    }


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_well_formed(path: Path) -> None:
    """Of any data source and any cluster; every panel has a unit, and its own place."""
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


def test_series_that_there_are() -> None:
    """Nothing is asked of kube-state-metrics, and nothing of ours that nobody makes."""
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


def test_panels_of_ten_have_ten_lines(tmp_path: Path) -> None:
    """Over a range in which the order changes: the ten that are largest at its end, each from begin to end."""
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
    """A Prometheus that has it all."""

    client: httpx.Client
    collector: Collecting

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The series of a query now."""
        answer = self.client.get("/api/v1/query", params={"query": query})
        assert answer.status_code == 200, f"{query}: {answer.text}"
        return list(answer.json()["data"]["result"])

    def value(self, query: str) -> float | None:
        """The value of a query of one series; None without one."""
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
    """Two cards of `busy`, whose labels Prometheus has renamed, one of `lazy`, and one that nobody has."""
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


def with_a_past(path: Path, uid: str) -> None:
    """A database in which hour rolled up, and the next one is not."""
    database = open_database(str(path))
    number = database.cluster(uid, "lab")
    before = int(time.time()) // HOUR * HOUR - 2.0 * HOUR
    until = before + 2 * HOUR - 100
    workload = WorkloadKey("a", "Pod", "p", "u1")
    held = Holding(
        "u1", "a", "p", workload, "n1", 2, "m", {}, {}, before + 600, before + 600, until, EndReason.FINISHED
    )
    database.put_capacities(number, [Capacity("n1", "m", 8, CapacityState.READY, before - 100, until)], until)
    database.put_holdings(number, [held], until)
    roller = HourRoller(database, number, None, 15, ConfiguredKeys((), ()))
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
    with_a_past(directory / "usage.db", api.call("GET", Key("Namespace", "", "kube-system").path)["metadata"]["uid"])
    exporter = Exporter()
    exporter.lines += exported()
    settings = {"usage_cluster": "lab", "usage_metrics": "127.0.0.1:0"}
    with collecting(directory, plane.kubeconfig(), **settings) as collector:
        [port] = [line["port"] for line in collector.log if line["message"] == "serving metrics"]
        # As the Prometheus Operator labels what a pod tells.
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


def test_every_query_answers(world: Monitored) -> None:
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


def test_sums_are_what_was_put_in(world: Monitored) -> None:
    """The first metric that measures a card counts; what is no measurement does not; what nobody measures is not idle."""
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


def test_what_autoscalers_are_told(world: Monitored) -> None:
    """Each of the adapter's rules serves the pods whose labels it is for, and no others."""
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
    """Series (every minute, as promtool writes them), and with which labels and value an alert fires at a time."""

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
    # Of eight GPUs one is measured: what the others do is unknown.
    Case("GpuctlIdleGpusHeld", {POD: "8x200", UTIL: "1x200"}, "2h10m", None),
    # A quarter of a card whose processes use 4 % of the card is used by 16 %; another pod of the card uses more.
    Case(
        "GpuctlIdleGpusHeld", {POD: "0.25x200", OTHER_POD: "0.25x200", UTIL: "4x200", OTHERS: "30x200"}, "2h10m", None
    ),
    # Where the use of the card is copied to both, each quarter is used as much.
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


def test_alerts(tmp_path: Path) -> None:
    """Each fires in a case of its own, with labels and words that say of what, and does not in another that is like it."""
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
