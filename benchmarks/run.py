"""Measure gpuctl against its limits, as ratios within one run: first the compiler, then the cluster commands against
kubectl.

A missed limit is marked, and the program exits with 1. Tests do not run this because machines differ. kustomize and
helm are measured on the same objects; the first run builds them into the cache of the control plane.
"""

from __future__ import annotations

import compileall
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import cluster
import collector_scale
import fit_scale
import get_commands
import gpuctl
import hour_rollup_time
import latency
import rest_service
import sample_documents
import submission
import year_of_usage
from timing import medians, piped, seconds, timed

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from control_plane import BUILD, BinariesMissing, find_binaries
from support.kubeconform import LAYOUT, find_kubeconform, schema_directory

ROUNDS = 15
KUSTOMIZE = {1000: 8, 3000: 40}
"""Number of documents -> minimum ratio of kustomize's time to gpuctl's."""
FAILED: list[str] = []


def wall(command: Sequence[str]) -> float:
    """Return the seconds that a command takes; its output is discarded."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def report(what: str, value: str, bar: str, ok: bool | None) -> None:
    """Print one row. ``ok`` is None for informational rows."""
    mark = {True: "ok", False: "MISSED", None: ""}[ok]
    print(f"{what:<75} {value:>55}   {bar:<34} {mark}", flush=True)
    if ok is False:
        FAILED.append(what)


def cold_start(directory: Path) -> None:
    """Report a cold `render`, which has missed its limit since gpuctl has no stand-ins for modules of its libraries.

    Instructions of the process, in millions (cachegrind): imports alone 423; with the libraries that every render
    needs (pydantic's fields, PyYAML, jsonschema-rs) 659; `render` about 1,090, of them 121 for the models of a training
    and 90 for the compile, which builds their schema.
    """
    one = directory / "one.yaml"
    one.write_text(sample_documents.stream(1))
    # `import pydantic` alone loads almost nothing; BaseModel is loaded on first use.
    models = [sys.executable, "-c", "import click; from pydantic import BaseModel"]
    render = [sys.executable, "-m", "gpuctl", "render", "-f", str(one)]
    commands = [models, render]
    for command in commands:
        wall(command)
    # Alternate, so that other load on the machine affects all commands.
    rounds = [[wall(command) for command in commands] for _ in range(ROUNDS)]
    imports, taken = (statistics.median(column) for column in zip(*rounds, strict=True))
    value = f"{taken / imports:.2f}x ({taken * 1000:.0f} ms)"
    title = "1 document, cold process, render / import click, pydantic's BaseModel"
    report(title, value, "<= 2x", taken <= 2 * imports)


def throughput(directory: Path) -> dict[int, float]:
    """Return the seconds for 1,000 and 3,000 documents in a process that has compiled before."""
    script = (
        "import sys, time, gc, gpuctl\n"
        "from gpuctl.backend.emitter import emit_stream\n"
        "gpuctl.compile(sys.argv[1])\n"
        "gc.set_threshold(200_000, 50, 100)\n"
        "start = time.perf_counter()\n"
        "result = gpuctl.compile(sys.argv[2])\n"
        "assert result.ok\n"
        "emit_stream(result.objects)\n"
        "print(time.perf_counter() - start)\n"
    )
    took = {}
    for count in (1000, 3000):
        path = directory / f"{count}.yaml"
        path.write_text(sample_documents.stream(count))
        command = [sys.executable, "-c", script, str(directory / "one.yaml"), str(path)]
        runs = [float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(5)]
        took[count] = min(runs)
    rate = 1000 / took[1000]
    report("1,000 documents, one process, validated", f"{rate:.0f} documents/s", ">= 1500 documents/s", rate >= 1500)
    growth = took[3000] / took[1000]
    report("3,000 documents / 1,000 documents", f"{growth:.2f}x", "<= 3.3x", growth <= 3.3)
    return took


def validation(directory: Path) -> None:
    from gpuctl.backend.schema_validation import schema_validator

    objects = [obj for obj in gpuctl.compile(directory / "1000.yaml").objects if "spec" in obj][:1000]
    validator = schema_validator("1.36")
    start = time.perf_counter()
    assert not any(validator.check(obj) for obj in objects)
    taken = time.perf_counter() - start
    report(f"validation of {len(objects)} objects, in process", f"{taken * 1000:.0f} ms", "<= 500 ms", taken <= 0.5)


def memory(directory: Path) -> None:
    path = directory / "10000.yaml"
    path.write_text(sample_documents.stream(10_000))
    command = [sys.executable, "-m", "gpuctl", "render", "-f", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # Not RUSAGE_CHILDREN: it includes the Go linker if helm was just built.
    _, status, usage_of_process = os.wait4(process.pid, 0)
    assert status == 0
    peak = usage_of_process.ru_maxrss / 1024
    report("10,000 documents, memory", f"{peak:.0f} MB", "<= 350 MB", peak <= 350)


def find_peers() -> dict[str, str]:
    """Return the paths of kustomize and helm: the pinned versions, else the installed ones."""
    found = {}
    for tool in ("kustomize", "helm"):
        result = subprocess.run([str(BUILD), tool], stdout=subprocess.PIPE, text=True)
        program = str(Path(result.stdout.strip()) / tool) if result.returncode == 0 else shutil.which(tool)
        if program is None:
            report(f"{tool} on the same objects", "left out", f"`{BUILD} {tool}` needs Go", False)
        else:
            found[tool] = program
    return found


def peers(directory: Path, took: dict[int, float], programs: Mapping[str, str]) -> None:
    """Report other tools on the objects that the documents compile to."""
    prepared = {"kustomize": _kustomize, "helm": _helm}
    for count in (1000, 3000):
        objects = subprocess.run(
            [sys.executable, "-m", "gpuctl", "render", "-f", str(directory / f"{count}.yaml")],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for tool, program in programs.items():
            command = [program, *prepared[tool](directory / f"{tool}-{count}", objects)]
            taken = wall(command)
            times = taken / took[count]
            least = KUSTOMIZE[count] if tool == "kustomize" else None
            bar, ok = (f">= {least}x ours", times >= least) if least else ("", None)
            report(f"{tool} on the objects of {count} documents", f"{times:.2f}x ours ({taken:.2f} s)", bar, ok)
            if tool == "helm":
                _whole_process(command, directory / f"{count}.yaml", count)


def _whole_process(helm: Sequence[str], path: Path, count: int) -> None:
    """Compare a whole process with `helm template` and kubeconform, which validate the objects as gpuctl does."""
    version = "1.36"
    check = [str(find_kubeconform()), "-strict", "-kubernetes-version", f"{version}.0"]
    check += ["-schema-location", f"{schema_directory(version)}/{LAYOUT}", "-"]
    render = [sys.executable, "-m", "gpuctl", "render", "-f", str(path)]
    rounds = [(piped(helm, check), timed(render)) for _ in range(5)]
    theirs, ours = (medians(column) for column in zip(*rounds, strict=True))
    value = f"{ours.cpu / theirs.cpu:.2f}x {seconds(ours, theirs, 2)}"
    what = f"{count} documents, whole process / helm template | kubeconform, CPU"
    report(what, value, "<= 1x", ours.cpu <= theirs.cpu)


def _kustomize(directory: Path, objects: str) -> list[str]:
    """Return the arguments that make kustomize write the objects."""
    directory.mkdir()
    (directory / "objects.yaml").write_text(objects)
    (directory / "kustomization.yaml").write_text("resources: [objects.yaml]\n")
    return ["build", str(directory)]


def _helm(directory: Path, objects: str) -> list[str]:
    """Return the arguments that make helm write the objects."""
    templates = directory / "templates"
    templates.mkdir(parents=True)
    (directory / "Chart.yaml").write_text("apiVersion: v2\nname: objects\nversion: 0.1.0\n")
    # helm rejects chart files above 5 MiB.
    documents_of = objects.split("\n---\n")
    for start in range(0, len(documents_of), 500):
        (templates / f"{start}.yaml").write_text("\n---\n".join(documents_of[start : start + 500]))
    return ["template", str(directory)]


def main() -> int:
    compileall.compile_dir(Path(gpuctl.__file__).parent, quiet=1)
    try:
        binaries = find_binaries()
    except BinariesMissing as error:
        report("the cluster half beside kubectl", "left out", str(error), False)
        binaries = None
    programs = find_peers()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        cold_start(directory)
        took = throughput(directory)
        validation(directory)
        memory(directory)
        peers(directory, took, programs)
        fit_scale.measure(report)
        hour_rollup_time.measure(report)
        year_of_usage.measure(report)
        if binaries is not None:
            cluster.measure(directory, binaries, report)
            get_commands.measure(directory, binaries, report)
            latency.measure(directory, binaries, report)
            collector_scale.measure(directory, binaries, report)
            submission.measure(directory, binaries, report)
            rest_service.measure(directory, binaries, report)
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
