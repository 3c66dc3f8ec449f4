"""The Grafana dashboards of ``deploy/monitoring``: their panels and the recorded series of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

CLUSTER = 'cluster=~"$cluster"'
NAMESPACES = f'{CLUSTER}, namespace=~"$namespace"'
WORKLOADS = f'{NAMESPACES}, workload=~"$workload"'
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH = 24


class Panel(NamedTuple):
    """A panel. ``kind`` and ``unit`` are Grafana's; ``queries`` are expressions with their legends."""

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "none"
    kind: str = "timeseries"
    width: int = 12
    stacked: bool = False
    text: str = ""


class Dashboard(NamedTuple):
    """A dashboard. ``variables`` are names, each with the query that returns its values."""

    uid: str
    title: str
    text: str
    variables: Sequence[tuple[str, str]]
    panels: Sequence[Panel]


def _stat(title: str, query: str, unit: str = "none", text: str = "") -> Panel:
    return Panel(title, [(query, "{{cluster}}")], unit, "stat", 4, text=text)


def _share(part: str, whole: str, labels: str, by: str = "cluster") -> str:
    """Return the expression of a percentage of two sums; never a mean of means."""
    return f"100 * sum by ({by}) ({part}{{{labels}}}) / sum by ({by}) ({whole}{{{labels}}})"


def _of(level: str, what: str) -> str:
    return f"gpuctl:{level}_{what}:gpus"


def _use(level: str, labels: str, by: str) -> str:
    return _share(_of(level, "busy"), _of(level, "observed"), labels, by)


def _idle(level: str, labels: str, by: str, at: str = "") -> str:
    busy, observed = (f"sum by ({by}) ({_of(level, what)}{{{labels}}}{at})" for what in ("busy", "observed"))
    return f"{observed} - {busy}"


def _ten(query: str, at_end: str) -> str:
    """Return a query of the ten series that are largest at the end of the displayed range.

    `topk` alone selects ten series at each point, so that more than ten lines appear and disappear.
    """
    return f"{query} and topk(10, {at_end})"


_UNIT = "percent"
_WORKLOADS_BY = "cluster, namespace, workload_kind, workload"
_ALL = ("cluster", "label_values(gpuctl:cluster_capacity:gpus, cluster)")
_NAMESPACE = ("namespace", f"label_values(gpuctl:namespace_held:gpus{{{CLUSTER}}}, namespace)")
_WORKLOAD = ("workload", f"label_values(gpuctl:workload_held:gpus{{{NAMESPACES}}}, workload)")

DASHBOARDS = (
    Dashboard(
        "gpuctl-cluster",
        "GPU cluster",
        "The parts of the capacity.",
        [_ALL],
        [
            _stat("GPUs", f"sum by (cluster) (gpuctl:cluster_capacity:gpus{{{CLUSTER}}})"),
            _stat("Held", f"sum by (cluster) (gpuctl:cluster_held:gpus{{{CLUSTER}}})"),
            _stat("Allocation", _share(_of("cluster", "held"), _of("cluster", "capacity"), CLUSTER), _UNIT),
            _stat("Utilization", _use("cluster", CLUSTER, "cluster"), _UNIT, "Of held and measured GPUs."),
            _stat("Measured", _share(_of("cluster", "observed"), _of("cluster", "held"), CLUSTER), _UNIT),
            _stat("Held idle", _idle("cluster", CLUSTER, "cluster")),
            Panel(
                "Parts of the capacity",
                [
                    (f"sum(gpuctl:cluster_busy:gpus{{{CLUSTER}}})", "busy"),
                    (
                        f"sum(gpuctl:cluster_observed:gpus{{{CLUSTER}}}) - sum(gpuctl:cluster_busy:gpus{{{CLUSTER}}})",
                        "held idle",
                    ),
                    (
                        f"sum(gpuctl:cluster_held:gpus{{{CLUSTER}}}) - sum(gpuctl:cluster_observed:gpus{{{CLUSTER}}})",
                        "held unobserved",
                    ),
                    (f"sum(gpuctl:cluster_free:gpus{{{CLUSTER}}})", "free"),
                    (f"sum(gpuctl:cluster_unusable:gpus{{{CLUSTER}}})", "unusable"),
                    (f"sum(gpuctl:cluster_unsized:gpus{{{CLUSTER}}})", "unsized"),
                ],
                stacked=True,
                width=24,
                text="Their sum is the number of GPUs of the cluster.",
            ),
            Panel(
                "GPUs by model",
                [(f"sum by (cluster, model) (gpuctl:node_capacity:gpus{{{CLUSTER}}})", "{{cluster}} {{model}}")],
                stacked=True,
            ),
            Panel(
                "GPUs by state of their node",
                [(f"sum by (cluster, state) (gpuctl:node_capacity:gpus{{{CLUSTER}}})", "{{cluster}} {{state}}")],
                stacked=True,
            ),
            Panel(
                "Most GPUs held",
                [
                    (
                        _ten(
                            f"gpuctl:namespace_held:gpus{{{CLUSTER}}}",
                            f"gpuctl:namespace_held:gpus{{{CLUSTER}}} @ end()",
                        ),
                        "{{cluster}} {{namespace}}",
                    )
                ],
                stacked=True,
                text="The ten namespaces that hold most at the end of the displayed range.",
            ),
            Panel(
                "Most GPUs held idle",
                [
                    (
                        _ten(
                            _idle("workload", CLUSTER, _WORKLOADS_BY),
                            _idle("workload", CLUSTER, _WORKLOADS_BY, " @ end()"),
                        ),
                        "{{namespace}}/{{workload}}",
                    )
                ],
                text="The ten workloads with most idle GPUs at the end of the displayed range.",
            ),
            Panel(
                "Nodes",
                [
                    (f"sum by (cluster, node, model, state) (gpuctl:node_capacity:gpus{{{CLUSTER}}})", "GPUs"),
                    (f"sum by (cluster, node, model, state) (gpuctl:node_left:gpus{{{CLUSTER}}})", "not held"),
                ],
                kind="table",
                width=24,
            ),
        ],
    ),
    Dashboard(
        "gpuctl-namespaces",
        "GPU namespaces",
        "GPUs held by each namespace, and their use.",
        [_ALL, _NAMESPACE],
        [
            Panel(
                "GPUs held, by namespace",
                [(f"sum by (namespace) (gpuctl:namespace_held:gpus{{{NAMESPACES}}})", "{{namespace}}")],
                stacked=True,
            ),
            Panel(
                "Utilization, by namespace",
                [(_use("namespace", NAMESPACES, "namespace"), "{{namespace}}")],
                _UNIT,
            ),
            Panel(
                "GPUs held idle, by namespace",
                [(_idle("namespace", NAMESPACES, "namespace"), "{{namespace}}")],
                stacked=True,
            ),
            Panel(
                "Measured, by namespace",
                [
                    (
                        _share(_of("namespace", "observed"), _of("namespace", "held"), NAMESPACES, "namespace"),
                        "{{namespace}}",
                    )
                ],
                _UNIT,
            ),
            Panel(
                "GPUs held, by team",
                [(f"sum by (label_team) (gpuctl:team_held:gpus{{{CLUSTER}}})", "{{label_team}}")],
                stacked=True,
                text="All namespaces, by the label `team`.",
            ),
            Panel("Utilization, by team", [(_use("team", CLUSTER, "label_team"), "{{label_team}}")], _UNIT),
            Panel(
                "Workloads",
                [
                    (
                        f"sum by (namespace, workload_kind, workload) (gpuctl:workload_held:gpus{{{NAMESPACES}}})",
                        "GPUs",
                    ),
                    (_use("workload", NAMESPACES, "namespace, workload_kind, workload"), "utilization, %"),
                ],
                kind="table",
                width=24,
            ),
        ],
    ),
    Dashboard(
        "gpuctl-workload",
        "GPU workload",
        "One workload and each of its cards.",
        [_ALL, _NAMESPACE, _WORKLOAD],
        [
            _stat("GPUs held", f"sum by (cluster) (gpuctl:workload_held:gpus{{{WORKLOADS}}})"),
            _stat("Utilization", _use("workload", WORKLOADS, "cluster"), _UNIT),
            _stat("Measured", _share(_of("workload", "observed"), _of("workload", "held"), WORKLOADS), _UNIT),
            _stat("Held idle", _idle("workload", WORKLOADS, "cluster")),
            _stat("Pods", f"count by (cluster) (gpuctl:pod_held:gpus{{{WORKLOADS}}})"),
            _stat("Memory in use", f"sum by (cluster) (gpuctl:pod_gpu_memory_used:bytes{{{WORKLOADS}}})", "bytes"),
            Panel(
                "Utilization of each card",
                [(f"gpuctl:pod_gpu_utilization:percent{{{WORKLOADS}}}", "{{pod}} {{node}} {{gpu}}")],
                _UNIT,
                width=24,
            ),
            Panel(
                "Memory of each card",
                [(f"gpuctl:pod_gpu_memory_used:bytes{{{WORKLOADS}}}", "{{pod}} {{node}} {{gpu}}")],
                "bytes",
            ),
            Panel(
                "GPUs held and busy",
                [
                    (f"sum(gpuctl:workload_held:gpus{{{WORKLOADS}}})", "held"),
                    (f"sum(gpuctl:workload_busy:gpus{{{WORKLOADS}}})", "busy"),
                ],
            ),
        ],
    ),
    Dashboard(
        "gpuctl-collector",
        "GPU usage collector",
        "Whether usage data is complete.",
        [("cluster", "label_values(gpuctl_usage_collecting, cluster)")],
        [
            _stat("Collecting", f"max by (cluster) (gpuctl_usage_collecting{{{CLUSTER}}})", "bool_yes_no"),
            _stat(
                "Last write",
                f"time() - max by (cluster) (gpuctl_usage_last_write_timestamp_seconds{{{CLUSTER}}})",
                "s",
                "At least one every ten seconds.",
            ),
            _stat(
                "Roll-up lag",
                f"min by (cluster) (gpuctl_usage_rollup_lag_seconds{{{CLUSTER}}})",
                "s",
                "Up to one hour and 90 seconds is normal.",
            ),
            _stat(
                "Ledgers that do not balance",
                f"max by (cluster) (gpuctl_usage_open_ledgers{{{CLUSTER}}})",
                text="Hours of the last day. Must be 0.",
            ),
            _stat(
                "Measured in the last hour",
                f"100 * max by (cluster) (gpuctl_usage_last_hour_coverage_ratio{{{CLUSTER}}})",
                _UNIT,
            ),
            _stat("Database", f"max by (cluster) (gpuctl_usage_database_bytes{{{CLUSTER}}})", "bytes"),
            Panel(
                "Known until",
                [
                    (
                        f"time() - max by (cluster) (gpuctl_usage_known_until_timestamp_seconds{{{CLUSTER}}})",
                        "{{cluster}}",
                    )
                ],
                "s",
                text="Age of the last time up to which all data is stored.",
            ),
            Panel(
                "Measurements",
                [(f"sum by (cluster) (rate(gpuctl_usage_samples_total{{{CLUSTER}}}[15m]))", "{{cluster}}")],
                "cps",
                text="Read in intervals of five minutes.",
            ),
            Panel(
                "Measurements of the last hour",
                [
                    (f"max by (cluster) (gpuctl_usage_last_hour_samples{{{CLUSTER}}})", "{{cluster}} counted"),
                    (f"max by (cluster) (gpuctl_usage_last_hour_dropped_samples{{{CLUSTER}}})", "{{cluster}} dropped"),
                ],
                "short",
                text="Dropped: measurements of pods that held no GPU on that node.",
            ),
            Panel(
                "Failures",
                [
                    (
                        f"sum by (cluster) (increase(gpuctl_usage_unanswered_queries_total{{{CLUSTER}}}[1h]))",
                        "{{cluster}} unanswered queries",
                    ),
                    (
                        f"sum by (cluster) (increase(gpuctl_usage_write_failures_total{{{CLUSTER}}}[1h]))",
                        "{{cluster}} failed writes",
                    ),
                ],
                "short",
            ),
            Panel(
                "Watch restarts",
                [
                    (
                        f"sum by (cluster, kind) (increase(gpuctl_usage_watch_restarts_total{{{CLUSTER}}}[1h]))",
                        "{{cluster}} {{kind}}",
                    )
                ],
                "short",
                text="The API server ends each watch once or twice an hour.",
            ),
            Panel(
                "Hours behind, over time",
                [(f"min by (cluster) (gpuctl_usage_rollup_lag_seconds{{{CLUSTER}}}) / 3600", "{{cluster}}")],
                "h",
            ),
        ],
    ),
)


def grafana(dashboard: Dashboard) -> dict[str, Any]:
    """Return a dashboard as Grafana imports it, for any Prometheus data source and any cluster."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.text,
        "tags": ["gpuctl"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "",
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "GPU",
                "tags": ["gpuctl"],
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "templating": {"list": [_data_source(), *(_variable(name, query) for name, query in dashboard.variables)]},
        "panels": list(_placed(dashboard.panels)),
    }


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1}


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _placed(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    """Yield the panels with their positions, from left to right, row by row."""
    x = y = height = 0
    for number, panel in enumerate(panels, 1):
        own = 4 if panel.kind == "stat" else 8
        if x + panel.width > _WIDTH:
            x, y, height = 0, y + height, 0
        yield {
            "id": number,
            "gridPos": {"x": x, "y": y, "w": panel.width, "h": own},
            **_panel(panel),
        }
        x, height = x + panel.width, max(height, own)


def _panel(panel: Panel) -> dict[str, Any]:
    custom: dict[str, Any] = {"fillOpacity": 20 if panel.stacked else 0}
    if panel.stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "custom": custom if panel.kind == "timeseries" else {}}
    if panel.unit == "percent":
        defaults["max"] = 100
    shown: dict[str, Any] = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [_target(panel, place, *query) for place, query in enumerate(panel.queries)],
    }
    if panel.kind == "table":
        names = {f"Value #{chr(65 + place)}": legend for place, (_, legend) in enumerate(panel.queries)}
        shown["transformations"] = [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": names}},
        ]
    if panel.kind == "stat":
        shown["options"] = {"reduceOptions": {"calcs": ["lastNotNull"], "values": False}, "colorMode": "none"}
    return shown


def _target(panel: Panel, place: int, expression: str, legend: str) -> dict[str, Any]:
    target: dict[str, Any] = {"refId": chr(65 + place), "datasource": _SOURCE, "expr": expression}
    if panel.kind == "table":
        return {**target, "instant": True, "range": False, "format": "table"}
    if panel.kind == "stat":
        return {**target, "instant": True, "range": False, "legendFormat": legend}
    return {**target, "legendFormat": legend}
