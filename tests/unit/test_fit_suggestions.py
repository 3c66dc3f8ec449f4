"""``gpuctl fit --suggest``: changes of a document, each of which makes the job fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from gpuctl.capacity.fit.suggestions import RequestedResources, candidates
from gpuctl.capacity.snapshot.snapshot_document import Snapshot, render
from gpuctl.cli.main import cli
from gpuctl.usecases.fit.fit_suggestions import _first

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
CLASSES = [{"name": f"gpuctl-{name}", "value": value} for name, value in (("low", 1), ("medium", 2), ("high", 3))]


def node(name: str, pool: str, gpus: int = 8, gpu_type: str = "") -> Object:
    labels = {"kubernetes.io/hostname": name, "runwhere.ai/pool": pool}
    labels |= {"runwhere.ai/gpu-type": gpu_type} if gpu_type else {}
    return {
        "name": name,
        "labels": labels,
        "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)},
    }


def pod_on(on: str, gpus: int) -> Object:
    """Return another user's pod of the same priority as the job."""
    own = {"namespace": "others", "name": f"on-{on}", "node": on, "priority": 2, "startTime": "2026-01-01T00:00:00Z"}
    return {**own, "labels": {}, "requests": {GPU: str(gpus)}}


def training(name: str = "train", **resources: Any) -> str:
    """Return a document whose ``resources`` start at line 6, in the order of the arguments."""
    lines = [f"  {key.replace('_', '-')}: {value}" for key, value in ({"pool": "a", **resources, "cpu": 1}).items()]
    return (
        f"kind: training\nversion: v0.1\njob: {{name: {name}, namespace: team}}\n"
        'environment: {image: "busybox:1", command: ["true"]}\nresources:\n' + "\n".join(lines) + "\n"
    )


def fit(directory: Path, have: Snapshot, *arguments: str, **documents: str) -> Result:
    """Run ``gpuctl fit`` on documents and a snapshot."""
    (directory / "cluster.json").write_text(render(have))
    given = []
    for name, text in documents.items():
        (directory / f"{name}.yaml").write_text(text)
        given += ["-f", str(directory / f"{name}.yaml")]
    everything = ["fit", *given, "--snapshot", str(directory / "cluster.json"), *arguments]
    return CliRunner().invoke(cli, everything, standalone_mode=False)


def cluster(nodes: list[Object], *pods: Object, **more: Any) -> Snapshot:
    """Return a snapshot with gpuctl's priority classes."""
    return Snapshot("2026-01-01T00:00:00Z", nodes, list(pods), priority_classes=CLASSES, **more)


def suggested(directory: Path, have: Snapshot, name: str = "train", **documents: str) -> dict[str, dict[str, Any]]:
    """Return the suggestions for a job (kind -> field -> value), after checking that each makes the job fit."""
    value = json.loads(fit(directory, have, "--suggest", "-o", "json", **documents).stdout)
    (job,) = [item for item in value["jobs"] if item["name"] == name]
    found = {}
    for suggestion in job["suggestions"]:
        fields = {change["path"].removeprefix("resources."): change["to"] for change in suggestion["changes"]}
        found[suggestion["kind"]] = fields
        (stem,) = {Path(change["file"]).stem for change in suggestion["changes"]}
        changed = fit(
            directory, have, "-o", "json", **{**documents, stem: _edited(documents[stem], suggestion["changes"])}
        )
        verdicts = {item["name"]: item["verdict"] for item in json.loads(changed.stdout)["jobs"]}
        assert verdicts[name] == "fits", suggestion
    return found


def _edited(text: str, changes: list[Object]) -> str:
    """Return the text after a suggestion: changed lines replaced in place, new lines appended."""
    lines = text.splitlines()
    for change in changes:
        key = change["path"].removeprefix("resources.")
        if change["from"] is not None:
            assert lines[change["line"] - 1].strip().replace("gpuType", "gpu-type") == f"{key}: {change['from']}"
            lines[change["line"] - 1] = f"  {key}: {change['to']}" if change["to"] is not None else ""
    added = [
        f"  {change['path'].removeprefix('resources.')}: {change['to']}" for change in changes if change["from"] is None
    ]
    return "\n".join([*lines, *added]) + "\n"


HALF_FREE_POOL = cluster([node("a1", "a"), node("a2", "a"), node("b1", "b")], pod_on("a1", 4), pod_on("a2", 4))


def test_suggests_fewer_gpus_another_pool_and_more_nodes(tmp_path: Path) -> None:
    assert suggested(tmp_path, HALF_FREE_POOL, job=training(gpu=8)) == {
        "fewer GPUs": {"gpu": 4},
        "another pool": {"pool": "b"},
        "more nodes of fewer GPUs": {"nodes": 2, "gpu": 4},
    }


def test_elastic_training_is_suggested_no_fewer_nodes(tmp_path: Path) -> None:
    """It would take them by itself."""
    elastic = training(gpu=8, nodes="{min: 2, max: 3}")
    assert suggested(tmp_path, HALF_FREE_POOL, job=elastic) == {"fewer GPUs": {"gpu": 4}}


def test_suggestion_shows_file_and_line(tmp_path: Path) -> None:
    shown = fit(tmp_path, HALF_FREE_POOL, "--suggest", job=training(gpu=8))
    path = tmp_path / "job.yaml"
    nodes = f"resources.nodes: 2 (not set before; {path}:5), resources.gpu: 4 (was 8; {path}:7)"
    assert shown.stdout.splitlines()[-3:] == [
        f"  fits with fewer GPUs: resources.gpu: 4 (was 8; {path}:7)",
        f"  fits with another pool: resources.pool: b (was a; {path}:6)",
        f"  fits with more nodes of fewer GPUs: {nodes}",
    ]
    assert shown.return_value == 1
    assert "fits with" not in fit(tmp_path, HALF_FREE_POOL, job=training(gpu=8)).stdout


def test_suggests_another_gpu_type_in_the_same_and_another_pool(tmp_path: Path) -> None:
    nodes = [node("a1", "a", gpu_type="A100"), node("a2", "a", gpu_type="H100"), node("b1", "b", gpu_type="L40")]
    have = cluster(nodes, pod_on("a1", 8))
    assert suggested(tmp_path, have, job=training(gpu=8, gpu_type="A100")) == {
        "another GPU type": {"gpu-type": "H100"},
        "another pool": {"pool": "b", "gpu-type": "L40"},
    }
    spelt = training(gpu=8, gpu_type="A100").replace("gpu-type", "gpuType")
    assert suggested(tmp_path, have, job=spelt)["another GPU type"] == {"gpu-type": "H100"}


def test_suggested_pool_without_types_drops_gpu_type(tmp_path: Path) -> None:
    have = cluster([node("a1", "a", gpu_type="A100"), node("b1", "b")], pod_on("a1", 8))
    assert suggested(tmp_path, have, job=training(gpu=8, gpu_type="A100")) == {
        "another pool": {"pool": "b", "gpu-type": None}
    }
    shown = fit(tmp_path, have, "--suggest", job=training(gpu=8, gpu_type="A100")).stdout
    assert "no resources.gpu-type (was A100;" in shown


def test_suggests_fewer_nodes(tmp_path: Path) -> None:
    have = cluster([node(f"a{number}", "a") for number in range(4)], pod_on("a0", 8))
    found = suggested(tmp_path, have, job=training(gpu=8, nodes=4))
    assert found == {"fewer GPUs": {"gpu": 4}, "fewer nodes": {"nodes": 3}}


def test_suggests_fewer_gpus_for_a_short_quota(tmp_path: Path) -> None:
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"namespace": "team", "name": "q"},
        "spec": {"hard": {f"requests.{GPU}": "6"}},
        "status": {"hard": {f"requests.{GPU}": "6"}, "used": {f"requests.{GPU}": "1"}},
    }
    have = cluster([node("a1", "a")], quotas=[quota])
    assert suggested(tmp_path, have, job=training(gpu=8)) == {"fewer GPUs": {"gpu": 5}}


def test_suggestion_does_not_displace_another_job(tmp_path: Path) -> None:
    """Pool b has room for one of the two jobs, so it is not suggested to the other."""
    have = cluster([node("a1", "a"), node("b1", "b")], {**pod_on("a1", 8), "priority": 3})
    both = {
        "job": training(gpu=8).replace("namespace: team", "namespace: team, priority: high"),
        "other": training("other", pool="b", gpu=8),
    }
    assert suggested(tmp_path, have, **both) == {}
    assert "no smaller request, other GPU type or pool makes it fit" in fit(tmp_path, have, "--suggest", **both).stdout


def test_suggestions_use_pool_documents(tmp_path: Path) -> None:
    """The pool document will label node b1, so pool c is suggested."""
    pool = "kind: pool\nversion: v0.1\nmetadata: {name: c}\nnodes: {b1: {gpu-type: L40}}\n"
    have = cluster([node("a1", "a"), node("b1", "b")], pod_on("a1", 8))
    found = suggested(tmp_path, have, job=training(gpu=8), pool=pool)
    assert found == {"another pool": {"pool": "c"}}


def test_suggest_needs_documents_and_skips_jobs_that_fit(tmp_path: Path) -> None:
    value = json.loads(fit(tmp_path, HALF_FREE_POOL, "--suggest", "-o", "json", job=training(gpu=4)).stdout)
    assert [item["suggestions"] for item in value["jobs"]] == [[]]
    assert isinstance(fit(tmp_path, HALF_FREE_POOL, "--suggest").exception, UsageError)


def test_candidates_are_ordered_by_size_of_the_change() -> None:
    found = {
        item.kind: list(item.fields)
        for item in candidates(RequestedResources("a", 3, None, 2), {"a": {"": [8]}, "b": {"": [2]}})
    }
    assert found == {
        "fewer GPUs": [{"gpu": 2}, {"gpu": 1}],
        "another GPU type": [],
        "another pool": [],
        "more nodes of fewer GPUs": [{"nodes": 3, "gpu": 2}, {"nodes": 6, "gpu": 1}],
        "fewer nodes": [{"nodes": 1}],
    }
    shared = {item.kind for item in candidates(RequestedResources("a", 4, None, None, is_shared=True), {"a": {}})}
    assert shared == {"another GPU type", "another pool"}


@pytest.mark.parametrize("first", range(9))
@pytest.mark.parametrize("graded", [False, True])
def test_first_fitting_candidate_is_found(first: int, graded: bool) -> None:
    assert _first(8, lambda place: place >= first, graded=graded) == (first if first < 8 else None)


@pytest.mark.parametrize(
    ("resources", "kind", "written", "was"),
    [
        ({"gpu": 1, "memory": "2Ti"}, "less memory", "resources.memory: 512Gi", "2Ti"),
        ({"gpu": 1, "memory": "600Gi"}, "less memory", "resources.memory: 512Gi", "600Gi"),
    ],
)
def test_suggests_less_memory_than_the_largest_node(
    tmp_path: Path, resources: Object, kind: str, written: str, was: str
) -> None:
    result = fit(tmp_path, Snapshot("2026-01-01T00:00:00Z", [node("a-1", "a")], [], priority_classes=CLASSES), "--suggest",
                 train=training(**resources))  # fmt: skip
    assert f"fits with {kind}: {written} (was {was};" in result.output


def test_suggests_less_cpu(tmp_path: Path) -> None:
    have = Snapshot("2026-01-01T00:00:00Z", [node("a-1", "a")], [], priority_classes=CLASSES)
    text = training(gpu=1).replace("cpu: 1", "cpu: 100")
    assert "fits with less cpu: resources.cpu: 64 (was 100;" in fit(tmp_path, have, "--suggest", train=text).output
