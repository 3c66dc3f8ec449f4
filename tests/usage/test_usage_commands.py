"""Output of ``gpuctl usage`` with a database whose numbers are known."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpuctl.cli.main import run
from gpuctl.cli.output.rounded_sums import round_to_sum
from gpuctl.cli.output.sparkline import BLOCKS, GAP, PLAIN, PLAIN_GAP, sparkline
from gpuctl.kube.api_errors import NotThere
from gpuctl.language.settings import Settings
from gpuctl.objects.durations import HOUR
from gpuctl.reading.usage.usage_records import UsageRange
from gpuctl.usecases.usage.usage_database import UsageDatabase
from gpuctl_usage.answers.hourly_answers import HoursQuery, namespace_hours
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.store.database import open_database
from support.command import on_a_terminal
from support.small_usage import STRANGE, small_world

START = int(datetime(2026, 10, 30, tzinfo=timezone.utc).timestamp())
END = START + 24 * HOUR + 1800
DAY = ("--from", "2026-10-30", "--to", "2026-10-31")


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """Return the words of the lines below the header."""
        return [line.split() for line in self.out.splitlines()[1:]]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a day and half an hour of a small cluster."""
    path = tmp_path_factory.mktemp("usage") / "usage.db"
    small_world(START).collected(path, START, END).close()
    return path


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of two clusters, the first of which is empty. Tests read it only."""
    path = tmp_path_factory.mktemp("both") / "both.db"
    with closing(open_database(str(path))) as database:
        database.put_cluster("uid-0", "empty")
    small_world(START).collected(path, START, END).close()
    return path


Usage = Callable[..., Outcome]


@pytest.fixture
def usage(database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Usage:
    """Run the command with the database, in an empty directory and without a login."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    for name in ("GPUCTL_SERVER", "GPUCTL_SERVER_CONFIG", "GPUCTL_SERVER_USAGE_DATABASE"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str, code: int = 0, where: str | None = str(database)) -> Outcome:
        found = run(["usage", *arguments, *(["--database", where] if where else [])])
        captured = capsys.readouterr()
        assert found == code, captured.err + captured.out
        return Outcome(found, captured.out, captured.err)

    return call


EVERY_COMMAND = [
    ("top",),
    *((name, *DAY) for name in ("cluster", "namespaces", "workloads", "nodes", "models", "waste")),
    ("labels", "team", *DAY),
    ("report", "--month", "2026-10"),
]
"""Every command that queries one cluster."""


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: command[0])
def test_cluster_must_be_named_if_there_are_several(
    usage: Usage, both: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """Without a reachable cluster there is no default, not even the cluster that was collected first."""
    if command[0] == "report":
        monkeypatch.setattr("time.time", lambda: float(END))
    else:
        command = (*command, "-o", "json")
    alone = usage(*command).out
    assert usage(*command, "--cluster", "prod", where=str(both)).out == alone
    said = usage(*command, where=str(both), code=1)
    assert "the database has the usage of 2 clusters, and none of them is that of the kubeconfig" in said.out + said.err
    assert "name one with --cluster: empty, prod" in said.out + said.err


def test_default_cluster_is_that_of_the_kubeconfig(both: Path) -> None:
    asked = UsageRange(START, END)
    with closing(UsageDatabase(str(both), lambda: "uid-1")) as way:
        assert way.clusters() == ["prod", "empty"]
        assert way.snapshot("")["cluster_name"] == way.waste(asked, 5.0, Settings())["cluster"] == "prod"
        assert [row.use.held > 0 for row in way.ledger("cluster", asked, "total")] == [True]
    for uid in ("uid-9", None):
        with closing(UsageDatabase(str(both), lambda uid=uid: uid)) as way:  # type: ignore[misc]
            assert way.clusters() == ["empty", "prod"]
            with pytest.raises(NotThere, match="none of them is that of the kubeconfig"):
                way.snapshot("")


def test_cluster_rows_add_up_to_the_capacity(usage: Usage) -> None:
    rows = {row[0]: row[1:] for row in usage("cluster", *DAY).rows}
    assert rows["capacity"] == ["288.0", "100.0%", "█" * 24]
    # 4 GPUs for 20 hours, 2 for 23.5, 2 for 22, 1 for 21.
    assert rows["held"][:2] == ["192.0", "66.7%"]
    parts = [float(rows[name][0]) for name in ("busy", "held-idle", "held-unknown", "free", "unusable")]
    assert sum(parts) == pytest.approx(288, abs=0.3)
    # One workload was measured only in its first hour, until the first sample of the second.
    assert float(rows["held-unknown"][0]) == 20.0
    assert rows["unusable"][0] == "31.0"
    assert rows["free"][2][-1] > rows["free"][2][0]


def test_namespaces_are_sorted_by_held_gpu_hours(usage: Usage) -> None:
    found = usage("namespaces", *DAY)
    assert found.out.splitlines()[0].split() == [
        *("NAMESPACE", "GPU-HOURS", "SHARE", "USE", "IDLE", "UNKNOWN", "COVERAGE"),
        *("ALLOWED", "OF-ALLOWED", "USE-BY-HOUR"),
    ]
    assert [row[:3] for row in found.rows] == [
        ["nlp", "124.0", "43.1%"],
        ["serving", "47.0", "16.3%"],
        ["vision", "21.0", "7.3%"],
    ]
    serving, vision = found.rows[1], found.rows[2]
    # A quota of 2 since noon, and before that all 12 GPUs of the cluster.
    assert serving[3:] == ["30.0%", "32.9", "0.0", "100%", "168.0", "28.0%", "▃" * 24]
    # An unmeasured hour is a gap, not 0.
    assert vision[-1] == GAP * 3 + "▆" + GAP * 20
    assert vision[6] == "4.8%"
    assert [row[0] for row in usage("namespaces", *DAY, "--sort", "idle").rows] == ["nlp", "serving", "vision"]
    assert [row[0] for row in usage("namespaces", *DAY, "--sort", "use").rows] == ["serving", "nlp", "vision"]
    assert [row[0] for row in usage("namespaces", *DAY, "--sort", "coverage").rows] == ["vision", "nlp", "serving"]
    assert [row[0] for row in usage("ns", *DAY, "-n", "serving", "--no-headers").rows] == []
    assert usage("namespaces", *DAY, "--limit", "1").rows == [found.rows[0]]


def test_namespaces_show_allowed_gpu_hours(usage: Usage, database: Path) -> None:
    """The same numbers as in the API, over the whole range and by steps in days of any time zone. Only namespaces have
    them.
    """
    value = json.loads(usage("namespaces", *DAY, "-o", "json").out)
    told = {item["namespace"]: (item["allowedGpuHours"], item["allocationRate"]) for item in value["items"]}
    assert told == {"nlp": (144, 86.11), "serving": (168, 27.98), "vision": (288, 7.29)}
    assert "allowedGpuHours" not in value["allGroups"]
    assert [row[-4:] for row in usage("namespaces", *DAY, "--step", "day").rows] == [
        ["144.0", "86.1%", "100%", "final"],
        ["168.0", "28.0%", "100%", "final"],
        ["288.0", "7.3%", "100%", "final"],
    ]
    asked = (*DAY, "--step", "day", "--tz", "Asia/Shanghai")
    rows = list(csv.DictReader(io.StringIO(usage("namespaces", *asked, "-o", "csv").out)))
    with closing(open_database(str(database))) as opened:
        hours = HoursQuery("prod", START - 8 * HOUR, START + 16 * HOUR, step=StepUnit.DAY, tz="Asia/Shanghai")
        found = namespace_hours(opened, hours)
    assert isinstance(found, list)
    # 16 hours are stored between the midnights.
    assert [(row["namespace"], float(row["allowedGpuHours"]), float(row["allocationRate"])) for row in rows] == [
        (row["namespace"], 16 * row["total_gpu_capacity"], row["allocation_rate"]) for row in found
    ]
    assert "OF-ALLOWED" not in usage("workloads", *DAY).out
    assert "allowedGpuHours" not in usage("workloads", *DAY, "-o", "csv").out


def test_labels_and_annotations_add_up_to_the_cluster(usage: Usage) -> None:
    held = [float(row[1]) for row in usage("labels", "team", *DAY).rows]
    assert sum(held) == pytest.approx(192)
    value = json.loads(usage("labels", "cost-center", "--annotation", *DAY, "-o", "json").out)
    assert {item["value"]: item["gpuHours"] for item in value["items"]} == {"__unset__": 145.0, STRANGE: 47.0}
    assert value["allGroups"]["gpuHours"] == value["cluster"]["gpuHours"] == 192
    nothing = usage("labels", "nope", *DAY)
    assert nothing.rows == []
    said, why = nothing.err.splitlines()
    assert said == "No usage is recorded for 2026-10-30 00:00 to 2026-10-31 00:00 (UTC)."
    assert why.startswith("note: usage is not collected by the label `nope`, but by team: set `usage_labels`")
    assert "usage_labels" in why
    # For a range without any data there is no note about the key.
    assert usage("labels", "team", "--from", "2030-01-01", "--to", "2030-01-02").err.count("\n") == 1


def test_unknown_usage_of_a_cluster_is_not_zero(usage: Usage) -> None:
    later = ("--from", "2030-01-01", "--to", "2030-01-02")
    assert [row[1:] for row in usage("cluster", *later).rows] == [["-", "-"]] * 7
    assert json.loads(usage("cluster", *later, "--json").out)["cluster"] is None
    assert json.loads(usage("namespaces", *later, "--json").out)["cluster"] is None


def test_missing_cluster_is_reported(usage: Usage) -> None:
    said = usage("cluster", "--cluster", "nope", code=1).err
    assert said == "error: cluster nope does not exist; the database has prod\n"


def test_requested_steps_are_complete(usage: Usage, monkeypatch: pytest.MonkeyPatch) -> None:
    # Fewer than the groups and steps of a day, of which a table would not show how it went.
    monkeypatch.setattr("gpuctl.usecases.usage.usage_views._MOST_STEPS", 5)
    assert "BY-HOUR" not in usage("workloads", *DAY).out
    rows = list(csv.DictReader(io.StringIO(usage("workloads", *DAY, "--step", "hour", "-o", "csv").out)))
    assert sum(float(row["gpuHours"]) for row in rows) == pytest.approx(192)
    assert len(usage("workloads", *DAY, "--step", "hour", "--limit", "0").rows) == len(rows)


def test_workloads_nodes_and_models(usage: Usage) -> None:
    workloads = usage("workloads", *DAY).rows
    assert [row[:4] for row in workloads] == [
        ["pretrain", "nlp", "Job", "80.0"],
        ["chat", "serving", "Deployment", "47.0"],
        ["lab", "nlp", "StatefulSet", "44.0"],
        ["detect", "vision", "Job", "21.0"],
    ]
    assert [row[0] for row in usage("workloads", "-n", "nlp", *DAY).rows] == ["pretrain", "lab"]
    # Shares of the node's own GPUs.
    assert [row[:3] for row in usage("nodes", *DAY).rows] == [["n1", "127.0", "66.1%"], ["n2", "65.0", "67.7%"]]
    assert [row[0] for row in usage("models", *DAY).rows] == ["A100-80G", "H20"]


def test_rows_of_steps(usage: Usage) -> None:
    asked = ("namespaces", "--from", "2026-10-30", "--to", "2026-11-01", "--tz", "Asia/Shanghai")
    days = usage(*asked, "--step", "day", "-n", "nlp").rows
    # In Shanghai the first day began eight hours earlier, and the second has the remaining hours.
    assert [row[:3] for row in days] == [["2026-10-30T00:00", "nlp", "92.0"], ["2026-10-31T00:00", "nlp", "33.0"]]
    value = json.loads(usage(*asked, "--step", "day", "-n", "nlp", "--json").out)
    assert [(item["namespace"], item["gpuHours"]) for item in value["items"]] == [("nlp", 92.0), ("nlp", 33.0)]
    # Shares of the cluster's capacity on the same days.
    whole = json.loads(usage("cluster", *asked[1:], "--step", "day", "--json").out)["items"]
    shares = [
        100 * item["gpuHours"] / there["capacityGpuHours"] for item, there in zip(value["items"], whole, strict=True)
    ]
    assert [item["capacityShare"] for item in value["items"]] == pytest.approx(shares, abs=0.01)
    assert [row[3] for row in days] == [f"{share:.1f}%" for share in shares]
    # The shares of all namespaces add up to the cluster's share.
    every = json.loads(usage(*asked, "--step", "day", "--json").out)["items"]
    first = [item["capacityShare"] for item in every if item["time"] == every[0]["time"]]
    assert sum(first) == pytest.approx(whole[0]["capacityShare"], abs=0.02)
    text = usage("labels", "cost-center", "--annotation", *DAY, "--step", "hour", "-o", "csv").out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 48
    assert sum(float(row["gpuHours"]) for row in rows) == pytest.approx(192)
    assert {row["value"] for row in rows} == {"__unset__", STRANGE}


def test_steps_of_groups_with_gpus_show_capacity(usage: Usage) -> None:
    """Cluster, nodes and models have a capacity; namespaces do not."""
    found = usage("cluster", *DAY, "--step", "day")
    heads = found.out.splitlines()[0].split()
    assert heads == [
        *("TIME", "CLUSTER", "GPU-HOURS", "SHARE", "USE", "IDLE", "UNKNOWN", "COVERAGE"),
        *("CAPACITY", "FREE", "UNUSABLE", "KNOWN", "STATE"),
    ]
    [row] = [dict(zip(heads, row, strict=True)) for row in found.rows]
    assert (row["GPU-HOURS"], row["CAPACITY"], row["SHARE"], row["UNUSABLE"]) == ("192.0", "288.0", "66.7%", "31.0")
    assert sum(float(row[name]) for name in ("GPU-HOURS", "FREE", "UNUSABLE")) == pytest.approx(288)
    assert "CAPACITY" in usage("nodes", *DAY, "--step", "day").out
    assert "CAPACITY" not in usage("namespaces", *DAY, "--step", "day").out


def test_annotation_values_are_printed_unchanged(usage: Usage) -> None:
    assert f"\n{STRANGE}  " in usage("labels", "cost-center", "--annotation", *DAY).out
    assert f"  {STRANGE}  " in usage("labels", "cost-center", "--annotation", *DAY, "--step", "day").out


@pytest.mark.parametrize(
    "arguments",
    [
        ("cluster",),
        ("namespaces", "--step", "day"),
        ("labels", "team"),
        ("workloads", "--step", "hour"),
        ("top",),
        ("waste",),
    ],
)
def test_empty_csv_has_its_columns(arguments: tuple[str, ...], usage: Usage) -> None:
    then = () if arguments == ("top",) else ("--from", "2030-01-01", "--to", "2030-01-02")
    nobody = () if arguments[0] in ("cluster", "labels") else ("-n", "nobody")
    (heads,) = csv.reader(io.StringIO(usage(*arguments, *then, *nobody, "-o", "csv").out))
    if arguments != ("waste",):
        now = () if arguments == ("top",) else DAY
        with_rows = usage(*arguments, *now, "-o", "csv").out.splitlines()
        assert (len(with_rows) > 1, with_rows[0]) == (True, ",".join(heads))
    assert len(heads) == len(set(heads)) > 8


def test_default_range_ends_with_the_running_hour(usage: Usage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: float(END))
    value = json.loads(usage("namespaces", "-o", "json").out)
    assert value["startTime"] == "2026-10-30T01:00:00Z"
    assert value["step"] == "hour"
    assert len(value["items"][0]["steps"]) == 24
    for last in ("2h", "90m"):
        assert json.loads(usage("cluster", "--last", last, "-o", "json").out)["startTime"] == "2026-10-30T23:00:00Z"


def test_top_lists_current_holders(usage: Usage) -> None:
    found = usage("top")
    assert found.rows == [
        ["lab", "nlp", "StatefulSet", "2", "1.0%", "1.0%", "3.0", "100%"],
        ["chat", "serving", "Deployment", "2", "30.0%", "30.0%", "2.1", "100%"],
        ["detect", "vision", "Job", "1", "-", "-", "-", "0.0%"],
    ]
    assert "is `gpuctl usage collect` running?" in found.err
    value = json.loads(usage("top", "-n", "vision", "--json").out)
    assert value["items"][0] | {"uid": ""} == {
        "name": "detect",
        "namespace": "vision",
        "kind": "Job",
        "uid": "",
        "gpus": 1.0,
        "useNow": None,
        "meanUse": None,
        "idleGpuHours": 0.0,
        "gpuHours": 1.5,
        "coverage": 0.0,
    }
    assert usage("top", "--sort", "name", "-o", "csv").out.splitlines()[1].startswith("chat,serving,Deployment,")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cluster", "--last", "1w"), "--last must be a duration such as 24h or 7d, got `1w`."),
        (("cluster", "--from", "yesterday"), "--from must be a time such as 2026-10-01 or 2026-10-01T14:00:00Z"),
        (("cluster", "--from", "2026-10-02", "--to", "2026-10-01"), "--from must be before --to, and before now."),
        (("cluster", "--from", "2026-10-02", "--last", "3h"), "not both"),
        (("rollup", "--from", "2026-10-02", "--to", "2026-10-01T23:59"), "--from must be before --to."),
        (("rollup", "--from", "2026-10-32", "--to", "2026-11-02"), "--from must be a time such as 2026-10-01 or"),
        (("cluster", "--tz", "../etc"), "--tz: there is no time zone `../etc`"),
        (("report", "--month", "2026-13"), "--month must be a month such as 2026-10, got `2026-13`."),
        (("cluster", "--server", "http://localhost:1"), "leave --database and --config out"),
    ],
)
def test_invalid_options_are_rejected(arguments: tuple[str, ...], said: str, usage: Usage) -> None:
    assert said in usage(*arguments, code=2).err


def test_missing_database_or_cluster(usage: Usage, tmp_path: Path) -> None:
    said = usage("cluster", code=3, where=str(tmp_path / "typo.db")).err
    assert said.startswith(f"error: there is no usage database at {tmp_path}/typo.db\n")
    assert not (tmp_path / "typo.db").exists(), "a query does not create the database"
    assert "No database is set: use --database" in usage("cluster", code=2, where=None).err
    assert "cluster other does not exist" in usage("cluster", "--cluster", "other", code=1).err
    value = json.loads(usage("top", "--cluster", "other", "-o", "json", code=1).out)
    assert value["error"].startswith("cluster other does not exist")


def test_database_from_the_settings(usage: Usage, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCTL_SERVER_USAGE_DATABASE", str(database))
    assert len(usage("namespaces", *DAY, where=None).rows) == 3


def test_terminal_output(database: Path, usage: Usage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block characters if the encoding has them, else ASCII; below the table a summary of the range."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    arguments = ("usage", "namespaces", *DAY, "--database", str(database))
    code, shown = on_a_terminal(*arguments)
    assert code == 0
    assert "▃" * 24 in shown
    assert shown.splitlines()[-2:] == [
        "2026-10-30 00:00 to 2026-10-31 00:00 (UTC): 192.0 of 288.0 GPU-hours held (66.7%), 47.6% used, 89.6% measured",
        "all hours are known and final",
    ]
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    _, plain = on_a_terminal(*arguments)
    assert plain.isascii()
    assert ":" * 24 in plain
    assert PLAIN_GAP * 3 + "+" + PLAIN_GAP * 20 in plain


def test_sparklines() -> None:
    assert sparkline([0, 12.4, 12.6, 50, 100, 120, None], 100) == "▁▁▂▅██" + GAP
    assert sparkline([0, 100, None], 100, blocks=False) == PLAIN[0] + PLAIN[-1] + PLAIN_GAP
    assert sparkline([0.0, None], 0) == BLOCKS[0] + GAP
    assert not any(mark.isspace() for mark in (*BLOCKS, *PLAIN, GAP, PLAIN_GAP))


@pytest.mark.parametrize(
    ("amounts", "units"),
    [
        ([1.4, 1.4, 1.2], [2, 1, 1]),
        ([0.5, 0.5], [1, 0]),
        ([0.0, -1e-9, 2.0], [0, 0, 2]),
        ([], []),
    ],
)
def test_rounded_parts_add_up(amounts: list[float], units: list[int]) -> None:
    assert round_to_sum(amounts, 1) == units


def test_untrusted_names_are_escaped_and_cut() -> None:
    """Terminal control characters in names are escaped, and names are cut."""
    from gpuctl.reading.usage.gpu_time import InvalidLedger, ledger_line

    row: dict[str, Any] = {
        "time": "2026-10-30T00:00:00Z",
        "end_time": "2026-10-30T01:00:00Z",
        "value": "a\x1b[2Jb" * 99,
    }
    row |= dict.fromkeys(("allocated_gpu_seconds", "busy_gpu_seconds", "held_idle_gpu_seconds"), 1.0)
    row |= {
        "held_unobserved_gpu_seconds": 0,
        "known_seconds": 3600,
        "allowed_gpu_seconds": None,
        "capacity_gpu_seconds": None,
        "free_gpu_seconds": None,
    }
    found = ledger_line({**row, "unusable_gpu_seconds": None})
    assert "\x1b" not in found.holder.value
    assert len(found.holder.value) < 1000
    with pytest.raises(InvalidLedger):
        ledger_line(row)
