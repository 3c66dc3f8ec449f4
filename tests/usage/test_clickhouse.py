"""deploy/clickhouse on a real engine: loaded months give answers equal to those of the store that exported them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuctl_usage.parquet_export import export_months
from gpuctl_usage.store.database import Database, open_database
from support.clickhouse_engine import ClickHouse
from support.usage_history import BEGIN, CLUSTERS, END, all_answers, put_history

SHIPPED = Path(__file__).resolve().parents[2] / "deploy" / "clickhouse"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    found = open_database(str(tmp_path_factory.mktemp("store") / "usage.db"), lambda: 1_793_500_000.0)
    put_history(found)
    yield found
    found.close()


@pytest.fixture(scope="module")
def clickhouse(store: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    """ClickHouse with the months of the store, loaded twice: the second load replaces the first."""
    directory = tmp_path_factory.mktemp("months")
    engine = ClickHouse(tmp_path_factory.mktemp("clickhouse"))
    export_months(store, directory, unsealed=True)
    for _ in range(2):
        engine.run((SHIPPED / "schema.sql").read_text())
        engine.run((SHIPPED / "load.sql").read_text(), {"directory": str(directory)})
    yield engine
    engine.close()


def query_rows(clickhouse: ClickHouse, name: str, **parameters: str) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a shipped query."""
    given = {
        "start_time": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(BEGIN)),
        "end_time": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(END)),
        "limit": "1000",
        "offset": "0",
        "order_by": "time",
        "order_direction": "asc",
        **dict.fromkeys(("namespace", "dimension_value", "workload_name", "workload_type"), ""),
    }
    return clickhouse.run((SHIPPED / "queries" / f"{name}.sql").read_text(), {**given, **parameters})


def assert_same(one: Any, other: Any, where: str) -> None:
    """Assert that values are equal, numbers up to the last digit shown: ClickHouse rounds halves differently."""
    if isinstance(one, Mapping):
        assert isinstance(other, Mapping), where
        assert list(one) == list(other), where
        for key in one:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for number, pair in enumerate(zip(one, other, strict=True)):
            assert_same(*pair, f"{where}[{number}]")
    elif isinstance(one, (int, float)) and not isinstance(one, bool):
        assert isinstance(other, (int, float)), f"{where}: {one} {other}"
        assert math.isclose(one, other, abs_tol=0.0101), f"{where}: {one} {other}"
    else:
        assert one == other, where


def values(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [next(iter(row.values())) for row in rows]


def test_queries_answer_like_the_store(store: Database, clickhouse: ClickHouse) -> None:
    ours = all_answers(store)
    theirs: dict[str, Any] = {"clusters": values(query_rows(clickhouse, "clusters"))}
    for cluster in CLUSTERS:
        of = {"cluster": cluster}
        theirs[f"{cluster}/namespaces"] = values(query_rows(clickhouse, "namespaces", **of))
        for name in ("cluster/hourly-stats", "namespaces/hourly-stats", "snapshots"):
            theirs[f"{cluster}/{name}"] = query_rows(clickhouse, name.replace("/", "-"), **of)
        [theirs[f"{cluster}/snapshots/latest"]] = query_rows(clickhouse, "snapshots-latest", **of)
        for level in ("label", "annotation"):
            typed = {**of, "dimension_type": level}
            keys = values(query_rows(clickhouse, "dimension-keys", **typed))
            theirs[f"{cluster}/{level}/dimension-keys"] = keys
            for key in keys:
                named, keyed = f"{cluster}/{level}/{key}", {**typed, "dimension_key": key}
                theirs[f"{named}/dimension-values"] = values(query_rows(clickhouse, "dimension-values", **keyed))
                theirs[f"{named}/hourly-stats"] = query_rows(clickhouse, "labels-hourly-stats", **keyed)
        for order in ("time", "utilization", "allocated_gpu_count"):
            direction = "asc" if order == "time" else "desc"
            rows = query_rows(clickhouse, "workloads-hourly-stats", **of, order_by=order, order_direction=direction)
            ours[f"{cluster}/workloads/hourly-stats/{order}"] = ours[f"{cluster}/workloads/hourly-stats/{order}"][
                "data"
            ]
            theirs[f"{cluster}/workloads/hourly-stats/{order}"] = rows
    assert set(theirs) == set(ours)
    for name, answer in ours.items():
        assert_same(answer, theirs[name], name)


def test_query_filters_and_pages(clickhouse: ClickHouse) -> None:
    """One namespace, kind, value or page; names are parameters, never SQL."""
    of = {"cluster": "lab"}
    everything = query_rows(clickhouse, "workloads-hourly-stats", **of)
    kinds = query_rows(clickhouse, "workloads-hourly-stats", **of, workload_type="Job", namespace="ml")
    assert kinds == [row for row in everything if (row["workload_type"], row["namespace"]) == ("Job", "ml")]
    assert len(kinds) > 1
    assert query_rows(clickhouse, "workloads-hourly-stats", **of, limit="2", offset="3") == everything[3:5]
    [one, *_] = query_rows(clickhouse, "namespaces-hourly-stats", **of, namespace="ml")
    assert one["namespace"] == "ml"
    odd = "' OR 1 = 1 --"
    assert query_rows(clickhouse, "namespaces-hourly-stats", **of, namespace=odd) == []
    typed = {"dimension_type": "label", "dimension_key": "team", "dimension_value": '=cmd|"x"'}
    found = query_rows(clickhouse, "labels-hourly-stats", cluster="prod", **typed)
    found += query_rows(clickhouse, "labels-hourly-stats", cluster="lab", **typed)
    assert {row["dimension_value"] for row in found} == {'=cmd|"x"'}
