"""deploy/clickhouse on the engine itself: months that are loaded answer as the store does from which they are."""

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
    """With the months of the store. Loaded twice: the second time in place of the first."""
    directory = tmp_path_factory.mktemp("months")
    engine = ClickHouse(tmp_path_factory.mktemp("clickhouse"))
    export_months(store, directory, unsealed=True)
    for _ in range(2):
        engine.run((SHIPPED / "schema.sql").read_text())
        engine.run((SHIPPED / "load.sql").read_text(), {"directory": str(directory)})
    yield engine
    engine.close()


def asked(clickhouse: ClickHouse, name: str, **parameters: str) -> Sequence[Mapping[str, Any]]:
    """What a query of ours answers."""
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


def same(one: Any, other: Any, where: str) -> None:
    """Equal, numbers to the last digit that is shown: halves are rounded otherwise there."""
    if isinstance(one, Mapping):
        assert isinstance(other, Mapping), where
        assert list(one) == list(other), where
        for key in one:
            same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for number, pair in enumerate(zip(one, other, strict=True)):
            same(*pair, f"{where}[{number}]")
    elif isinstance(one, (int, float)) and not isinstance(one, bool):
        assert isinstance(other, (int, float)), f"{where}: {one} {other}"
        assert math.isclose(one, other, abs_tol=0.0101), f"{where}: {one} {other}"
    else:
        assert one == other, where


def values(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [next(iter(row.values())) for row in rows]


def test_every_answer_is_the_store_s(store: Database, clickhouse: ClickHouse) -> None:
    ours = all_answers(store)
    theirs: dict[str, Any] = {"clusters": values(asked(clickhouse, "clusters"))}
    for cluster in CLUSTERS:
        of = {"cluster": cluster}
        theirs[f"{cluster}/namespaces"] = values(asked(clickhouse, "namespaces", **of))
        for name in ("cluster/hourly-stats", "namespaces/hourly-stats", "snapshots"):
            theirs[f"{cluster}/{name}"] = asked(clickhouse, name.replace("/", "-"), **of)
        [theirs[f"{cluster}/snapshots/latest"]] = asked(clickhouse, "snapshots-latest", **of)
        for level in ("label", "annotation"):
            typed = {**of, "dimension_type": level}
            keys = values(asked(clickhouse, "dimension-keys", **typed))
            theirs[f"{cluster}/{level}/dimension-keys"] = keys
            for key in keys:
                named, keyed = f"{cluster}/{level}/{key}", {**typed, "dimension_key": key}
                theirs[f"{named}/dimension-values"] = values(asked(clickhouse, "dimension-values", **keyed))
                theirs[f"{named}/hourly-stats"] = asked(clickhouse, "labels-hourly-stats", **keyed)
        for order in ("time", "utilization", "allocated_gpu_count"):
            direction = "asc" if order == "time" else "desc"
            rows = asked(clickhouse, "workloads-hourly-stats", **of, order_by=order, order_direction=direction)
            ours[f"{cluster}/workloads/hourly-stats/{order}"] = ours[f"{cluster}/workloads/hourly-stats/{order}"][
                "data"
            ]
            theirs[f"{cluster}/workloads/hourly-stats/{order}"] = rows
    assert set(theirs) == set(ours)
    for name, answer in ours.items():
        same(answer, theirs[name], name)


def test_what_is_asked_for(clickhouse: ClickHouse) -> None:
    """One namespace, one kind, one value, a page; and names are values, never SQL."""
    of = {"cluster": "lab"}
    everything = asked(clickhouse, "workloads-hourly-stats", **of)
    kinds = asked(clickhouse, "workloads-hourly-stats", **of, workload_type="Job", namespace="ml")
    assert kinds == [row for row in everything if (row["workload_type"], row["namespace"]) == ("Job", "ml")]
    assert len(kinds) > 1
    assert asked(clickhouse, "workloads-hourly-stats", **of, limit="2", offset="3") == everything[3:5]
    [one, *_] = asked(clickhouse, "namespaces-hourly-stats", **of, namespace="ml")
    assert one["namespace"] == "ml"
    odd = "' OR 1 = 1 --"
    assert asked(clickhouse, "namespaces-hourly-stats", **of, namespace=odd) == []
    typed = {"dimension_type": "label", "dimension_key": "team", "dimension_value": '=cmd|"x"'}
    found = asked(clickhouse, "labels-hourly-stats", cluster="prod", **typed)
    found += asked(clickhouse, "labels-hourly-stats", cluster="lab", **typed)
    assert {row["dimension_value"] for row in found} == {'=cmd|"x"'}
