"""The namespace is deleted while a command works in it: the command reports it and ends, and nothing is left to
recover.

At each write of an apply, and at each read after the first write, another process deletes the namespace. In one form a
finalizer keeps it terminating; in the other it has gone when the server acts. `make test` tests a part of the writes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from fault_tools.calls import PARTS, Call, Counter, First, to_the_last
from fault_tools.documents import NEW, OLD
from fault_tools.proxy import meanwhile, on
from fault_tools.site import TIMEOUT, Base, Site, site

WORKERS = 6
WRITES = 14
"""The calls of the apply at which it is disturbed, but for the last one."""
LOOKS = 9
"""Every third of the requests of a delete."""
FALSE = ("Traceback", "gpuctl recover", "metadata.namespace", "another client")
"""Words that must not be in the output: false here, or without meaning for a user."""
DELETE = ("delete", "job", "train")
HELD = {"name": "held", "finalizers": ["example.com/stays"]}


def _phase(base: Base, namespace: str) -> str:
    status, value = base.api.request("GET", f"/api/v1/namespaces/{namespace}")
    return "" if status == 404 else str(value["status"]["phase"])


def _terminate(place: Site, *, held: bool) -> None:
    """Delete the namespace, and wait until it is terminating or gone."""
    if held:
        place.base.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": HELD}, place.namespace)
    place.base.api.call("DELETE", f"/api/v1/namespaces/{place.namespace}")
    if not held:
        # The controller begins after 5 s, and waits for half of the pods' grace period if it still finds pods.
        place.base.api.clear(place.namespace)
    wanted = "Terminating" if held else ""
    place.base.api.wait(lambda: _phase(place.base, place.namespace) == wanted, f"{place.namespace} to go")


def _release(place: Site) -> None:
    if place.base.api.get("ConfigMap", place.namespace, "held") is not None:
        place.base.api.patch("ConfigMap", place.namespace, "held", {"metadata": {"finalizers": None}})


class Run(NamedTuple):
    """The result of a run: whether it reached the call, the exit code, and what was wrong."""

    reached: bool
    code: int
    problems: list[str]


def _run(base: Base, directory: Path, words: Sequence[str], counter: Counter | First, *, held: bool) -> Run:
    """Delete the namespace at a call of a command; look at what that says, and at what a recovery says afterwards."""
    call = counter.call.name if isinstance(counter, Counter) else "first"
    namespace = f"{words[0]}-{'held' if held else 'gone'}-{call}"
    with site(base, namespace, directory / namespace) as place:
        place.prepare(OLD)
        place.file.write_text(NEW)
        arguments = place.apply_arguments if words[0] == "apply" else [*words, "-n", place.namespace, "--yes"]
        result = place.disturb(
            arguments, lambda _: on(counter.is_the_call, meanwhile(lambda: _terminate(place, held=held)))
        )
        if counter.found is None:
            return Run(False, result.code, [])
        said = result.stdout + result.stderr
        problems = [f"it says {word}" for word in FALSE if word in said]
        if result.code and not re.search(
            rf"\b{place.namespace} is being (terminated|deleted)|there is no (namespace|job)", said
        ):
            problems.append("it does not say why")
        if result.code > 1:
            problems.append(f"it ended with {result.code}")
        recovered = place.recover(place.direct)
        last = recovered.stdout + recovered.stderr
        if recovered.code or not re.search(r"Nothing to recover|is terminating, and everything in it is deleted", last):
            problems.append(f"recover ended with {recovered.code}: {last}")
        _release(place)
        problems = [f"{counter.found}: {problem}:\n{said}" for problem in problems]
        return Run(True, result.code, problems)


FORMS = [pytest.param(True, id="held"), pytest.param(False, id="gone", marks=pytest.mark.slow)]


@pytest.mark.usefixtures("shared_objects")
@pytest.mark.parametrize("held", FORMS)
def test_namespace_deleted_during_an_apply(base: Base, tmp_path: Path, held: bool) -> None:
    runs: dict[int, Run] = {}

    def run(number: int) -> list[Run]:
        call = Call("write", number - 1, "before") if number > 1 else Call("look", 1, "before")
        runs[number] = _run(base, tmp_path, ["apply"], Counter(call), held=held)
        return [runs[number]]

    to_the_last(run, WRITES, WORKERS, PARTS)
    problems = [problem for run in runs.values() for problem in run.problems]
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems)
    # What is deleted when all is done has been applied.
    assert {run.code for number, run in runs.items() if number <= 7} == {1}
    assert [run.code for _, run in sorted(runs.items()) if run.reached][-1] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("shared_objects")
@pytest.mark.parametrize("held", FORMS)
def test_namespace_deleted_during_a_delete(base: Base, tmp_path: Path, held: bool) -> None:
    """Objects to delete are deleted; if all had gone before the command read them, it reports that the job does not
    exist.
    """

    def run(number: int) -> list[Run]:
        # Kinds are listed side by side: the first request is not always the list that has the job.
        lists_jobs = First(lambda request: request.path.endswith("/jobs"))
        counter = lists_jobs if number == 1 else Counter(Call("call", 3 * number - 2, "before"))
        return [_run(base, tmp_path, DELETE, counter, held=held)]

    runs = to_the_last(run, LOOKS, WORKERS)
    problems = [problem for run in runs for problem in run.problems]
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems)
    assert [run.code for run in runs] == [0 if held else 1, *[0] * (len(runs) - 1)]
    assert sum(run.reached for run in runs) > 3


@pytest.mark.slow
@pytest.mark.usefixtures("shared_objects")
def test_namespace_deleted_while_an_old_job_ends(base: Base, tmp_path: Path) -> None:
    """Its pod resists longer than the command waits: the command knows before that it cannot create the new job."""
    with site(base, "waiting", tmp_path / "waiting", ("--yes", "--timeout", "1h")) as place:
        place.prepare(OLD)
        place.file.write_text(NEW)
        [pod] = [
            item
            for item in base.api.list_objects("Pod", place.namespace)
            if item["metadata"]["labels"]["app"] == "train"
        ]
        name = pod["metadata"]["name"]
        base.api.patch("Pod", place.namespace, name, {"metadata": {"finalizers": ["example.com/stays"]}})
        running = place.start(place.apply_arguments, place.direct)
        base.api.wait(
            lambda: (
                "deletionTimestamp" in (base.api.get("Job", place.namespace, "train") or {"metadata": {}})["metadata"]
            ),
            "the old job to leave",
        )
        base.api.call("DELETE", f"/api/v1/namespaces/{place.namespace}")
        result = running.wait(TIMEOUT)
        base.api.patch("Pod", place.namespace, name, {"metadata": {"finalizers": None}})
        assert result.code == 1
        goes = f"is not created again: the namespace {place.namespace} is terminating, and everything in it is deleted"
        assert f"failed    job.batch/train -n {place.namespace}  ({goes})" in result.stdout
        assert not [word for word in FALSE if word in result.stdout + result.stderr]
