"""Settings of all tests: parallel runs, their order, and the number of retries."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import re
import signal
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Pytest then shows what its assertions compared, as it does for those of tests.
pytest.register_assert_rewrite("fault_tools.expectations")

_ON_A_CLUSTER = frozenset({"cluster", "faults", "service", "usage"})

# Other programs share the machine: a slow draw is no failure. Mutation tests compare runs, which need the same examples.
settings.register_profile(
    "shared-machine",
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize="GPUCTL_SAME_EXAMPLES" in os.environ,
)
settings.load_profile("shared-machine")

MOST_RERUNS = 3
"""Maximum retries of all tests of the cluster half together, and of those of the service. More retries mean a defect,
not a busy machine.
"""

LONGEST = (
    "cluster/test_fit_admission.py",
    "cluster/test_why.py",
    "cluster/test_pages.py",
    "service/test_console_outages.py",
    "service/test_any_request.py",
    "service/test_console.py",
    "service/test_deploy_rights.py",
    "service/test_console_scale.py",
    "faults/test_kill.py",
    "faults/test_foreign.py",
    "faults/test_going_back.py",
    "usage/test_collector_failover.py",
    "unit/test_release.py",
    "unit/test_site.py",
    "unit/test_ci_kit.py",
)
"""Files that take minutes, the longest of a room first: started last, they would keep one worker busy alone."""

SPLIT = frozenset(
    f"{room}/test_{name}.py"
    for room, names in {
        "properties": ("emitter", "lift", "mutations", "strings"),
        "faults": ("build_kill",),
    }.items()
    for name in names
)
"""Files whose tests share nothing, and which would keep one worker for long: each test goes to the next free one."""

TOGETHER = {
    "Kueue": ("cluster/", r"\bqueue_pla[cn]e\b"),
    "a world of nodes": ("cluster/", r"\bworld: ControlPlane\b"),
    "disturbed commands": ("faults/test_(?!kill|build_kill)", ""),
    "collection": ("usage/", r"\bplane: ControlPlane\b|\bplace: Place\b"),
}
"""Files that one worker runs, by their path and text: a start of their control plane costs more than most of them."""

# Ctrl-C is what some tests are about. A script that starts pytest in its background has it ignored, and so would
# everything that pytest starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In CI a test on the control plane may be retried once, and the summary counts retries.

    Six servers share the machine's cores with its other work, so that a single wait can exceed any limit. A defect
    fails twice.
    """
    if os.environ.get("CI"):
        for item in items:
            if item.path.parent.name in _ON_A_CLUSTER:
                item.add_marker(pytest.mark.flaky(reruns=1))
    if _is_worker(config):
        _order(items)


def _order(items: list[pytest.Item]) -> None:
    """One room after the other, and those without control planes last: their files are short, so that all workers end
    together.

    A control plane uses processor time also while it is idle, and ends with its room. Within a room, files with Kueue
    come first, which one worker runs, then those without a control plane, then those with the room's own; of these the
    longest first.
    """
    turns = {name: turn for turn, name in enumerate(LONGEST)}
    rooms = {room: place for place, room in enumerate(dict.fromkeys(item.path.parent for item in items))}
    needed: dict[Path, set[str]] = {}
    for item in items:
        needed.setdefault(item.path, set()).update(getattr(item, "fixturenames", ()))

    def turn(item: pytest.Item) -> tuple[bool, int, bool, bool, int]:
        room, fixtures = item.path.parent, needed[item.path]
        longest = turns.get(f"{room.name}/{item.path.name}", len(turns))
        on_a_cluster = room.name in _ON_A_CLUSTER
        return not on_a_cluster, rooms[room], "queue_plane" not in fixtures, "plane" in fixtures, longest

    items.sort(key=turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Side by side (``-n 6``) a file's tests stay in one worker, which starts at most one control plane for them.

    So do all files that are :data:`TOGETHER`.
    """
    from xdist.scheduler import LoadScopeScheduling

    @cache
    def scope_of(path: str) -> str:
        for name, (place, text) in TOGETHER.items():
            if re.match(f"tests/{place}", path) and re.search(text, (config.rootpath / path).read_text()):
                return name
        return path

    class Files(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return nodeid if path.removeprefix("tests/") in SPLIT else scope_of(path)

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            """Forget a file that is done: at each event of a worker, all tests that are still known are counted."""
            super().mark_test_complete(node, item_index, duration)
            work = self.assigned_work[node]
            file = self._split_scope(self.registered_collections[node][item_index])
            if all(work[file].values()):
                del work[file]

    # Else the files with the most tests come first.
    config.option.loadscopereorder = False
    return Files(config, log)


class Reruns:
    """Fails the run when too many tests had to be run again."""

    def __init__(self) -> None:
        self.names: dict[bool, list[str]] = {True: [], False: []}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Reports of all workers come here."""
        if report.outcome != "rerun":  # type: ignore[comparison-overlap]
            return
        alike = self.names[report.nodeid.startswith("tests/service/")]
        alike.append(report.nodeid)
        if len(alike) > MOST_RERUNS:
            names = "\n".join(alike)
            report.outcome = "failed"
            report.longrepr = (
                f"{report.longreprtext}\n\n{len(alike)} tests were run again, {MOST_RERUNS} may be:\n{names}"
            )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name them also where they are few: each shows where a test rests on a moment."""
        for name in (*self.names[False], *self.names[True]):
            terminalreporter.write_line(f"run again: {name}")


def pytest_configure(config: pytest.Config) -> None:
    """One process counts for all."""
    if not _is_worker(config):
        config.pluginmanager.register(Reruns(), "reruns")


def pytest_sessionstart() -> None:
    """Collect no garbage while tests are collected: a quarter of that time, for objects that all stay."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import a part of the tests first in each worker: of a new clone none is compiled, and each worker needs all."""
    config = session.config
    if not _is_worker(config):
        return
    number, workers = int(config.workerinput["workerid"].removeprefix("gw")), config.workerinput["workercount"]
    places = [config.invocation_params.dir / name.partition("::")[0] for name in config.args]
    files = {path for place in places for path in (place.rglob("test_*.py") if place.is_dir() else (place,))}
    for path in sorted(files)[number::workers]:
        # The collection reports it.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            import_module(".".join(path.relative_to(Path(__file__).parent).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Collect garbage among the objects of tests alone."""
    gc.freeze()
    gc.enable()


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory for PATH with the programs of an installed gpuctl."""
    from support.forked_program import forked_program

    with forked_program(tmp_path_factory.mktemp("programs")) as directory:
        yield directory


@pytest.fixture(autouse=True)
def process_log() -> Iterator[None]:
    """Remove the log handler that a command of the service or the collector gives its process.

    It writes to the standard error of the test that ran the command, which is closed after that test.
    """
    yield
    root = logging.getLogger()
    root.handlers[:] = [handler for handler in root.handlers if type(handler) is not logging.StreamHandler]
