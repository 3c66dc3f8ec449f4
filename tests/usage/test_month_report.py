"""``gpuctl usage report``: its numbers equal the ledger's and add up, and hostile names are harmless."""

from __future__ import annotations

import html
import json
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import pytest

from gpuctl.cli.main import run
from gpuctl.cli.output import usage_report
from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.answers.hourly_answers import HoursQuery
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.day_scheduling import DayRoller
from gpuctl_usage.facts import RetentionDays, WorkloadKey
from gpuctl_usage.store.database import Database, open_database
from gpuctl_usage.store_transfer import import_store
from gpuctl_usage.sums import Group, Level, RolledUp, Sums
from support.month_tables import Table, cents, tables_of_markdown
from support.small_usage import STRANGE, UsageWorld, Worker, small_world

START = int(datetime(2026, 10, 30, tzinfo=timezone.utc).timestamp())
END = START + 26 * HOUR
PRICES = "kind: platform\nversion: v0.1\nusage: {{prices: {{currency: CNY, models: {{A100-80G: {}, H20: {}}}}}}}\n"
SECTIONS = {"By namespace": (Level.NAMESPACE, ""), "By model": (Level.MODEL, "")}
HELD = {"held": 1, "of capacity": 2, "busy": 3, "idle": 4, "unknown": 5}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of 26 hours at the end of October with thirty small workloads beside the others."""
    path = tmp_path_factory.mktemp("report") / "usage.db"
    keys = [WorkloadKey("many", "Job", f"w{number:02}", f"uid-{number}") for number in range(30)]
    starts = [START + number * HOUR // 3 for number in range(30)]
    many = [
        Worker(key, "n1", 1, (33.3, 7.7), float(start), start + 700.0, {"team": "many"})
        for key, start in zip(keys, starts, strict=True)
    ]
    small_world(START, many).collected(path, START, END).close()
    return path


Report = Callable[..., str]


@pytest.fixture
def report(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Report:
    """Run the report of October with prices of both models and return its output."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("GPUCTL_SERVER", raising=False)

    def make(*arguments: str, a100: str = "20", h20: str = "20") -> str:
        (tmp_path / "platform.yaml").write_text(PRICES.format(a100, h20))
        code = run(["usage", "report", "--month", "2026-10", "--database", str(database), *arguments])
        captured = capsys.readouterr()
        assert (code, captured.err) == (0, "")
        return captured.out

    return make


class Page(HTMLParser):
    """A parsed HTML page: the tables by title, and all tags and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, Table] = {}
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self._title = self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self._inside = tag
        if tag == "h2":
            self._title = ""
        elif tag == "tr":
            self.tables.setdefault(self._title, []).append([])
        elif tag in ("td", "th"):
            self.tables[self._title][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "h2":
            self._title += data
        elif self._inside in ("td", "th"):
            self.tables[self._title][-1][-1] += data


def tables_of_page(text: str) -> dict[str, Table]:
    """Return title -> the text cells of the rows below the header."""
    return {title: rows[1:] for title, rows in Page(text).tables.items()}


def ledger_of(database: Path, level: Level, key: str = "") -> dict[str, dict[str, float]]:
    """Return name -> GPU-hours of the ledger."""
    opened = open_database(str(database))
    hours = HoursQuery("", START - 30 * 24 * HOUR, float(START + 48 * HOUR), step=StepUnit.TOTAL)
    rows = ledger(opened, hours, level, key)
    opened.close()
    assert isinstance(rows, list)
    names = {"held": "allocated", "busy": "busy", "idle": "held_idle", "unknown": "held_unobserved"}
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        name = row["name"] if level is Level.WORKLOAD else row["value"] or "all"
        found[name] = {short: row[f"{long}_gpu_seconds"] / HOUR for short, long in names.items()}
        found[name]["capacity"] = (row["capacity_gpu_seconds"] or 0.0) / HOUR
    return found


@pytest.mark.parametrize("output", ["markdown", "html"])
def test_report_numbers_equal_the_ledger_and_add_up(output: str, report: Report, database: Path) -> None:
    text = report("-o", output)
    tables = tables_of_page(text) if output == "html" else tables_of_markdown(text)
    whole = ledger_of(database, Level.CLUSTER)["all"]
    parts = tables["GPU capacity and use"]
    assert [row[0] for row in parts] == ["busy", "held, idle", "held, unknown", "free", "unusable", "capacity"]
    assert sum(tenths(row[2]) for row in parts[:-1]) == tenths(parts[-1][2]) == round(10 * whole["capacity"])
    for title, level, key in (
        ("By namespace", Level.NAMESPACE, ""),
        ("By team", Level.LABEL, "team"),
        ("Workloads that held the most", Level.WORKLOAD, ""),
        ("Workloads that left the most idle", Level.WORKLOAD, ""),
    ):
        wide = 3 if level is Level.WORKLOAD else 1
        *rows, last = [[row[0], *row[wide:]] for row in tables[title]]
        of_ledger = ledger_of(database, level, key)
        for row in rows:
            known = of_ledger.get(row[0])
            for name, column in HELD.items():
                # A number equals the ledger's, rounded up or down.
                if known is not None and name in known:
                    assert abs(float(row[column]) - known[name]) < 0.1, (title, row)
        for name, column in HELD.items():
            if name in whole:
                total = sum(tenths(row[column]) for row in rows)
                assert total == tenths(last[column]) == round(10 * whole[name]), (title, name)
        # Costs are compared in hundredths; all models have one price.
        assert sum(cents(row[-2]) for row in rows) == cents(last[-2]) == round(100 * 20 * whole["held"])
        assert sum(cents(row[-1]) for row in rows) == cents(last[-1]) == round(100 * 20 * whole["idle"])
    assert len(tables["Workloads that held the most"]) == 22
    assert tables["Workloads that held the most"][-2][0] == "14 others"
    models = tables["By model"]
    assert sum(cents(row[-3]) for row in models[:-1]) == cents(models[-1][-3]) == round(100 * 20 * whole["held"])


def tenths(text: str) -> int:
    assert re.fullmatch(r"\d+\.\d", text), text
    return int(text.replace(".", ""))


HELD_BY = {
    # GPU-hours on n1 (A100-80G) and n2 (H20), then the idle ones; computed by hand from `small_world`.
    "nlp": ((80.0, 48.0), (15.6, 45.36)),
    "serving": ((51.0, 0.0), (35.7, 0.0)),
    "vision": ((0.0, 23.0), (0.0, 0.3)),
}


@pytest.mark.parametrize("prices", [("20", "20"), ("20", "10"), ("12.5", "0.3")], ids=["one", "two", "broken"])
def test_costs_of_several_models(prices: tuple[str, str], report: Report, database: Path) -> None:
    """Costs of namespaces, labels and workloads add up to the costs of the models, and follow the models' prices."""
    text = report(a100=prices[0], h20=prices[1])
    tables = tables_of_markdown(text)
    models = tables["By model"]
    whole = [cents(cell) for cell in models[-1][-3:-1]]
    for title in ("By namespace", "By team", "Workloads that held the most", "Workloads that left the most idle"):
        *rows, last = tables[title]
        for number in (-2, -1):
            assert sum(cents(row[number]) for row in rows) == cents(last[number]) == whole[number], title
    a100, h20 = map(float, prices)
    for row in tables["By namespace"][:-1]:
        if row[0] in HELD_BY:
            for number, (one, other) in zip((-2, -1), HELD_BY[row[0]], strict=True):
                assert cents(row[number]) / 100 == pytest.approx(one * a100 + other * h20, abs=0.011)
    held, idle, free = (ledger_of_models(database, name) for name in ("allocated", "held_idle", "free"))
    for column, amounts in ((-3, held), (-2, idle), (-1, free)):
        cost = a100 * amounts["A100-80G"] + h20 * amounts["H20"]
        assert cents(models[-1][column]) == pytest.approx(100 * cost, abs=1)


def ledger_of_models(database: Path, name: str) -> dict[str, float]:
    """Return model -> GPU-hours."""
    with closing(open_database(str(database))) as opened:
        rows = ledger(opened, HoursQuery("", START - DAY, float(START + 2 * DAY), step=StepUnit.TOTAL), Level.MODEL)
    assert isinstance(rows, list)
    return {row["value"]: row[f"{name}_gpu_seconds"] / HOUR for row in rows}


def test_print_style_of_the_page(report: Report) -> None:
    """Wide tables fit a printed page: landscape, names wrap, numbers do not, and print rules follow the screen rules."""
    page = report("-o", "html")
    style = page[page.index("<style>") : page.index("</style>")]
    screen, paper = style.split("@media print")
    assert "@page { size: landscape; margin: 12mm; }" in screen, (
        "without a name it is A4, or Letter, as the printer has it"
    )
    assert "font: 15px" in screen
    assert "font-size: 8.5pt" in paper, "a rule before that of the screen would do nothing"
    assert re.search(r"th, td \{[^}]*overflow-wrap: break-word", screen)
    assert re.search(r"td\.name \{ min-width: 9em;[^}]*overflow-wrap: anywhere", screen)
    assert re.search(r"td\.n \{ white-space: nowrap; \}", screen)
    assert ".wide { overflow: visible; }" in paper
    for rule in ("tr { break-inside: avoid; }", "display: table-header-group", "h2 {", "break-after: avoid"):
        assert rule in screen
    names = re.findall(r'<td class="(\w+)">pretrain</td>', page)
    assert set(names) == {"name"}
    assert page.count("<table>") == page.count('<div class="wide"><table>') == page.count("</table></div>")


def test_unknown_cost_is_a_dash(report: Report, database: Path, tmp_path: Path) -> None:
    """The cost is unknown if a model has no price, or if intervals are missing, as for days with pruned hours."""
    (last,) = [row for row in tables_of_markdown(report(a100="20, B200: 5", h20="10"))["By model"] if row[0] == "all"]
    assert "-" not in last[-3:], "the price of an unused model changes nothing"
    assert "A cost is `-`" not in report(h20="10")
    (tmp_path / "other").mkdir()
    platform = tmp_path / "other" / "platform.yaml"
    platform.write_text("kind: platform\nversion: v0.1\nusage: {prices: {models: {A100-80G: 20}}}\n")
    text = report("--platform", str(platform))
    tables = tables_of_markdown(text)
    costs = {row[0]: row[-2:] for row in tables["By namespace"]}
    assert costs["nlp"] == costs["vision"] == costs["all"] == ["-", "-"]
    assert "-" not in costs["serving"]
    assert tables["By model"][-1][-3:] == ["-", "-", "1423.33"], "the free GPUs are all of the model with a price"
    assert "A cost is `-` if a GPU model has no price" in text
    assert "1 of the models have no price" in text
    path = tmp_path / "pruned.db"
    path.write_bytes(database.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM holdings WHERE start >= ?", (START + 2 * HOUR,))
        connection.commit()
    rows = {row[0]: row[-2:] for row in tables_of_markdown(report("--database", str(path), h20="10"))["By namespace"]}
    assert rows["nlp"] == rows["vision"] == rows["all"] == ["-", "-"]
    assert "-" not in rows["serving"]


def test_idle_costs_of_a_workload_with_several_prices(report: Report, tmp_path: Path) -> None:
    """Allocated GPUs have a cost, but which of the GPUs were idle is unknown."""
    both = WorkloadKey("nlp", "Job", "both", "w-both")
    workers = [
        Worker(both, node, 1, (50.0,), float(START), START + 4.0 * HOUR, {"team": team})
        for node, team in (("n1", "mixed"), ("n2", "mixed"))
    ]
    workers[1] = replace(workers[1], labels={"team": "other"}, start=float(START + 4 * HOUR), end=START + 8.0 * HOUR)
    path = tmp_path / "mixed.db"
    small_world(START, workers).collected(path, START, END).close()
    tables = tables_of_markdown(report("--database", str(path), h20="10"))
    assert [row[-2:] for row in tables["Workloads that held the most"] if row[0] == "both"] == [["120.00", "-"]]
    teams = {row[0]: row[-2:] for row in tables["By team"]}
    assert (teams["mixed"], teams["other"]) == (["80.00", "40.00"], ["40.00", "20.00"]), (
        "each team used GPUs of one price"
    )
    assert {row[0]: row[-1] for row in tables["By namespace"]}["nlp"] == "-"
    assert tables["By team"][-1][-1] != "-"


def test_page_does_not_execute_names(report: Report) -> None:
    """Annotation values that would be a script, a table row or a link."""
    page = report("-o", "html", "--by", "team")
    parsed = Page(page)
    assert parsed.tags.isdisjoint({"script", "link", "img", "a", "iframe", "object", "foreignobject", "use", "image"})
    assert not {name for name in parsed.attributes if name.startswith("on") or name in ("href", "src", "style")}
    assert "url(" not in page
    assert "@import" not in page
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    # The page with its plots is well-formed XML.
    root = ElementTree.fromstring(page.split("\n", 1)[1])
    plots = [item for item in root.iter("{http://www.w3.org/2000/svg}svg") if item.get("role") == "img"]
    assert [plot.get("aria-label") for plot in plots] == ["Use of the capacity", "GPU-hours of each day"]
    assert len(list(plots[1].iter("{http://www.w3.org/2000/svg}rect"))) >= 8
    marks = [item for item in plots[1].iter("{http://www.w3.org/2000/svg}text") if item.get("class") == "gap"]
    assert len(marks) == 29, "of October two days are known; of the others nothing is drawn"


def test_report_by_annotation(report: Report, database: Path) -> None:
    """Same options as `usage labels KEY --annotation`. Workloads without the annotation get a row, so that the parts
    add up.
    """
    text = report("--by", "cost-center", "--annotation")
    *rows, last = tables_of_markdown(text)["By cost-center"]
    assert {row[0] for row in rows} == {STRANGE, "__unset__"}
    assert tenths(last[1]) == round(10 * ledger_of(database, Level.CLUSTER)["all"]["held"])
    assert r"\_\_unset\_\_ is what workloads without this annotation held." in text
    assert "ledger is open" not in text


@pytest.mark.parametrize(
    ("arguments", "code", "said", "fix"),
    [
        (["--by", "nosuch"], 1, "usage is not collected by the label `nosuch`", "with --by: team"),
        (["--by", "Team"], 1, "usage is not collected by the label `Team`", "with --by: team"),
        (["--by", "nosuch", "--annotation"], 1, "by the annotation `nosuch`", "with --by: cost-center"),
        (["--by", "cost-center"], 1, "`cost-center` is the key of a collected annotation", "add --annotation"),
        (["--by", "team", "--annotation"], 1, "`team` is the key of a collected label", "leave --annotation out"),
        (["--annotation"], 2, "--annotation needs --by KEY", "--by KEY"),
    ],
)
def test_uncollected_key_is_rejected(
    arguments: list[str], code: int, said: str, fix: str, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["usage", "report", "--month", "2026-10", "--database", str(database), *arguments]) == code
    captured = capsys.readouterr()
    assert (captured.out, said in captured.err, fix in captured.err) == ("", True, True), captured.err


@pytest.mark.parametrize("kind", ["label", "annotation"])
def test_key_collected_only_since_later_hours(kind: str, report: Report, database: Path, tmp_path: Path) -> None:
    """Earlier hours count as `__unset__`, and the ledger closes."""
    path = tmp_path / "later.db"
    path.write_bytes(database.read_bytes())
    key, more = ("project", []) if kind == "label" else ("project-id", ["--annotation"])
    with closing(open_database(str(path))) as opened:
        [rolled] = opened.rolled_up(1, END - HOUR, END)
        rolled.sums[Group(Level(kind), key, "__unset__")] = rolled.sums[Group(Level.CLUSTER)]
        assert opened.put_rolled_up(1, replace(rolled, digest="later"), False)
    text = report("--by", key, *more, "--database", str(path))
    [row, _] = tables_of_markdown(text)[f"By {key}"]
    assert (row[0], tenths(row[1])) == ("__unset__", round(10 * ledger_of(path, Level.CLUSTER)["all"]["held"]))
    assert "ledger is open" not in text


def test_report_without_the_default_label(report: Report, tmp_path: Path) -> None:
    """The report then has no table by label."""
    path = tmp_path / "bare.db"
    with closing(open_database(str(path))) as opened:
        cluster = opened.put_cluster("uid-1", "prod")
        sums = Sums(alloc_gpu_s=HOUR, cap_gpu_s=2 * HOUR, free_gpu_s=HOUR)
        opened.put_rolled_up(cluster, RolledUp(START, HOUR, {Group(Level.CLUSTER): sums}, "d"), False)
    assert "By team" not in report("--database", str(path))


def test_hostile_values_are_escaped(database: Path) -> None:
    """Markdown and HTML escape a value that any user may have written into an annotation."""
    from gpuctl.cli.output.usage_report import render_report
    from gpuctl.reading.usage.gpu_time import GpuHolder, GpuTime, KnownTime
    from gpuctl.reading.usage.month_report import MonthReport
    from gpuctl.reading.usage.usage_records import GroupUse

    use = GpuTime(3600, 1800, 1800, 0, 7200, 3600, 0)
    names = [
        STRANGE,
        "a`b``c",
        "| x |",
        "[x](http://evil)",
        "@everyone",
        "<img src=x onerror=alert(1)>",
        "\u202eabc",
        "\n# h",
    ]
    groups = [GroupUse(GpuHolder(name, name, name, name), use) for name in names]
    whole = GpuTime(*(8 * (value or 0) for value in use))
    stamp = "2026-10-01T00:00:00Z"
    made = MonthReport(
        "2026-10", "UTC", STRANGE, START, END, whole, [(stamp, whole), ("", None)], groups, STRANGE, "label", groups, groups, groups, {},
        KnownTime(741 * 3600.0, stamp, stamp, False), 741 * 3600.0, float(END), {}, STRANGE,
    )  # fmt: skip
    page = render_report(made, "html")
    assert Page(page).tags.isdisjoint({"script", "img"})
    assert [row[0] for row in tables_of_page(page)["By namespace"][:-1]] == names
    ElementTree.fromstring(page.split("\n", 1)[1])
    text = render_report(replace(made, cluster="@everyone https://evil www.evil a@evil"), "markdown")
    assert "- Known: 741 of 26 hours" in text
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    for sign in ("<", "@everyone", "](http", "://", "www.", "a@evil"):
        assert not re.search(rf"(?<!\\){re.escape(sign)}", outside), sign
    rows = tables_of_markdown(text)["By namespace"]
    assert len(rows) == len(names) + 1
    assert {len(row) for row in rows} == {8}, "no name is a column, or a row, of its own"
    assert html.unescape(rows[0][0]) == STRANGE


def test_report_without_jinja(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "gpuctl.cli.output.usage_report", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert run(["usage", "report", "--month", "2026-10"]) == 3
    assert capsys.readouterr().err == (
        "error: the packages for reports are not installed (jinja2)\n  = install them: `pip install 'gpuctl-k8s[usage]'`\n"
    )


def test_report_is_deterministic(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the line with the time and the prices differs."""
    for output in ("markdown", "html"):
        first = report("-o", output)
        with monkeypatch.context() as patch:
            patch.setattr("time.time", lambda: 4e9)
            second = report("-o", output)
        assert "Made: 2096-10-02 07:06 (UTC), with the prices in platform.yaml at that time" in second
        made = re.compile(r"Made: \d{4}-\d\d-\d\d \d\d:\d\d")
        assert made.sub("", second) == made.sub("", first)


def test_report_states_the_known_hours(report: Report, capsys: pytest.CaptureFixture[str], database: Path) -> None:
    text = report("--tz", "Asia/Shanghai")
    known = "26 of 744 hours, 2026-10-30 08:00 to 2026-10-31 10:00"
    assert f"- Known: {known}\n- State: final\n" in text
    assert f"- {known} are known; the figures cover only these." in text
    assert run(["usage", "report", "--month", "2026-09", "--database", str(database)]) == 1
    assert capsys.readouterr().err.startswith("error: no usage is known of 2026-09\n")


def test_provisional_month_is_marked(report: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    opened = small_world(START).collected(path, START, END)
    opened.set_hour_provisional(1, END - HOUR, provisional=True)
    opened.close()
    where = ("--database", str(path))
    assert "- State: provisional, late measurements may still change some hours\n" in report(*where)
    monkeypatch.setattr("time.time", lambda: END - 60.0)
    assert "- State: provisional, the month is not over\n" in report(*where)


def test_figures_agree_between_tables(report: Report) -> None:
    """The capacity table and the tables by namespace, label and workload show the same busy, idle and unknown
    GPU-hours.
    """
    tables = tables_of_markdown(report())
    parts = {row[0]: row[2] for row in tables["GPU capacity and use"]}
    for title, column in (("By namespace", 2), ("By team", 2), ("Workloads that held the most", 4)):
        busy, idle, unknown = tables[title][-1][column + 1 :][:3]
        assert (parts["busy"], parts["held, idle"], parts["held, unknown"]) == (busy, idle, unknown)


@pytest.mark.parametrize("address", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
def test_report_is_unchanged_after_pruning(
    address: str, report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Report, tables and SQL return the same as before pruning, also for an earlier year: all use the same rows."""
    start = int(datetime(2025, 10, 28, tzinfo=timezone.utc).timestamp())
    end = start + 4 * DAY
    world = small_world(start)
    database = (
        world.collected(Path(address), start, end)
        if "://" not in address
        else _in_postgresql(address, world, start, end)
    )
    days = DayRoller(database, 1)
    days.begin(end + 7 * HOUR)
    days.roll_due(end + 7.0 * HOUR)
    october = ("--month", "2025-10", "--database", address)
    made = re.compile(r"Made: .*")
    before = made.sub("", report(*october))
    totals = _usage(capsys, "models", address), _sql(capsys, address)
    assert "- Known: 96 of 744 hours, 2025-10-28 00:00 to 2025-11-01 00:00" in before
    # All hours, those of half of the days, and those of one.
    for kept_days in (4, 2, 1):
        while database.prune(1, RetentionDays(1, 1, kept_days, 4000), end + 7.0 * HOUR):
            pass
        hours = database.hours(1, 0, 2**40)
        assert len({hour // DAY for hour in hours}) == kept_days
        assert made.sub("", report(*october)) == before
        assert (_usage(capsys, "models", address), _sql(capsys, address)) == totals
        # UTC days that a zone's days cut are in the totals but not in the daily figures.
        text = report(*october, "--tz", "Asia/Shanghai")
        assert ("known hours are not drawn" in text) == (kept_days < 4)
    database.close()


def _in_postgresql(address: str, world: UsageWorld, start: int, end: int) -> Database:
    """Return the same data in PostgreSQL."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "usage.db"
        world.collected(file, start, end).close()
        import_store(file, address)
    return open_database(address)


def _usage(capsys: pytest.CaptureFixture[str], what: str, address: str) -> object:
    arguments = ["--from", "2025-10-01", "--to", "2025-11-01", "--step", "month", "-o", "json"]
    assert run(["usage", what, *arguments, "--database", address]) == 0
    return json.loads(capsys.readouterr().out)


def _sql(capsys: pytest.CaptureFixture[str], address: str) -> object:
    question = (
        "SELECT level, key, value, round(sum(alloc_gpu_s), 3) AS held, round(sum(cap_gpu_s), 3) AS there, "
        "round(sum(util_gpu_s), 3) AS used, sum(samples) AS samples FROM hours GROUP BY ALL ORDER BY ALL"
    )
    assert run(["usage", "sql", question, "-o", "json", "--database", address]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("output", ["markdown", "html"])
@pytest.mark.parametrize("by", [("team",), ("cost-center", "--annotation")], ids=["label", "annotation"])
def test_report_in_chinese(
    output: str, by: tuple[str, ...], report: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only names and units stay English, and every figure is at its place."""
    monkeypatch.setattr("time.time", lambda: 4e9)
    (tmp_path / "other").mkdir()
    platform = tmp_path / "other" / "platform.yaml"
    platform.write_text("kind: platform\nversion: v0.1\nusage: {prices: {currency: CNY, models: {A100-80G: 20}}}\n")
    arguments = ("--by", *by, "-o", output, "--tz", "Asia/Shanghai", "--platform", str(platform))
    english, chinese = report(*arguments), report(*arguments, "--lang", "zh")
    names = {"prod", by[0], "GPU", "CNY", "Pod", "UTC", "Asia/Shanghai", "platform.yaml", "__unset__"}
    texts = _texts_of(chinese, output, names)
    assert "的去向" in texts
    assert [text for text in texts if re.search("[A-Za-z]", text)] == []
    assert sorted(re.findall(r"\d+(?:\.\d+)?%?", english)) == sorted(re.findall(r"\d+(?:\.\d+)?%?", chinese))
    tables = [tables_of_page(text) if output == "html" else tables_of_markdown(text) for text in (english, chinese)]
    for one, other in zip(*(found.values() for found in tables), strict=True):
        assert [row[-2:] for row in one] == [row[-2:] for row in other]
    assert ('<html lang="zh-CN">' in chinese) == (output == "html")


def _texts_of(text: str, output: str, names: set[str]) -> list[str]:
    """Return the texts of a report, without the cells in which users' names stand, and without ``names``."""
    if output == "html":
        text = text[text.index("<body>") :]
        text = re.sub(r'<td class="name">.*?</td>', "", text, flags=re.DOTALL)
        found = re.findall(r'aria-label="(.*?)"', text) + re.split(r"<[^>]*>", text)
    else:
        found = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text.replace("\\_", "_")).splitlines()
    pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return [re.sub(pattern, "", html.unescape(text)).strip(" #") for text in found]


@pytest.mark.parametrize("output", ["markdown", "html"])
def test_rare_notes_in_chinese(output: str) -> None:
    """An open ledger, days that are not drawn, no prices, no capacity."""
    from gpuctl.reading.usage.gpu_time import GpuHolder, GpuTime, KnownTime
    from gpuctl.reading.usage.month_report import MonthReport
    from gpuctl.reading.usage.usage_records import GroupUse

    use = GpuTime(3600, 0, 0, 3600, None, None, None)
    groups = [GroupUse(GpuHolder("1", "1", "1", "1"), GpuTime(9000, 0, 0, 9000, None, None, None))]
    made = MonthReport(
        "2026-10", "UTC", "1", START, END, use, [("", None)], groups, "1", "annotation", groups, groups, groups, {},
        KnownTime(7200.0, "", "", True), 0.0, float(END - 1), [], "", "zh",
    )  # fmt: skip
    text = usage_report.render_report(made, output)
    texts = _texts_of(text, output, {"GPU", "UTC", "Pod", "platform.yaml", "usage.prices.models", "__unset__"})
    assert [item for item in texts if re.search("[A-Za-z]", item)] == []
    for said in ("账本不平", "没有设置价格", "没有画出", "当月尚未结束", "占用：未知", "26 小时中的 2 小时"):
        assert said in text, said
