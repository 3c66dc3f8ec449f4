"""Elastic trainings without a cluster: their range, scaling, the queue, and the document read back from objects."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

import gpuctl
from gpuctl.apply.plan.scale_plan import NotScalable, plan_scale
from gpuctl.backend.gitops_annotations import FLUX_CREATES_ONCE
from gpuctl.language.settings import Settings
from gpuctl.objects.elastic_jobs import is_within_bounds, node_bounds, starts_with_other_size, with_nodes
from gpuctl.objects.hashed_names import changeable_fields, spec_digest
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.recreated_objects import recreatable
from gpuctl.objects.workload_start import is_up
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.jobs.status import job_status
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.explanation import explain

DOCUMENT = """\
kind: training
version: v0.1
job: {name: train, namespace: nlp, retries: RETRIES}
environment: {image: "train:1", command: [torchrun, train.py]}
resources: {gpu: 1, cpu: 1, memory: 1Gi, nodes: NODES}
"""
QUEUED = "kind: platform\nversion: v0.1\ntraining: {queue: {default: team}}\n"
KUEUE = "kueue.x-k8s.io/"
MARK = "argocd.argoproj.io/tracking-id"
NOW = datetime(2026, 11, 28, 5, tzinfo=timezone.utc).timestamp()
POD = {"status": {"containerStatuses": [{"state": {"running": {"startedAt": "2026-11-28T02:00:00Z"}}}]}}


def job(nodes: str = "{min: 2, max: 4}", *, retries: int = 3, more: str = "", platform: str = "") -> dict[str, Any]:
    """Return the live Job or CronJob of a document."""
    result = compiled(nodes, retries, more, platform)
    (found,) = [item for item in result.objects if item["kind"] in ("Job", "CronJob")]
    return {**found, "metadata": {**found["metadata"], "uid": "1"}}


def compiled(nodes: str, retries: int, more: str, platform: str) -> gpuctl.Compilation:
    text = DOCUMENT.replace("NODES", nodes).replace("RETRIES", str(retries)) + more
    given = gpuctl.Source("platform.yaml", platform) if platform else None
    return gpuctl.compile(gpuctl.Source("job.yaml", text), platform=given)


def running(nodes: int, **changes: Any) -> dict[str, Any]:
    """Return an elastic training with this number of running pods."""
    status = {"active": nodes, "startTime": "2026-11-28T02:00:00Z"}
    return {**with_nodes(job(**changes), nodes), "status": status}


@pytest.mark.parametrize(
    ("nodes", "more", "found"),
    [
        ("{min: 2, max: 4}", "", (2, 4)),
        ("{min: 1, max: 10000}", "", (1, 10000)),
        ("{min: 2, max: 4}", 'schedule: "0 2 * * *"\n', (2, 4)),
        ("4", "", None),
        ("1", "", None),
    ],
)
def test_range_is_read_from_the_variables_of_the_pods(nodes: str, more: str, found: object) -> None:
    assert node_bounds(job(nodes, more=more)) == found


@pytest.mark.parametrize("more", ["", 'schedule: "0 2 * * *"\n'])
@pytest.mark.parametrize("platform", ["", QUEUED, "kind: platform\nversion: v0.1\ntraining: {backend: jobset}\n"])
@pytest.mark.parametrize("retries", [0, 3])
def test_document_is_read_back(platform: str, more: str, retries: int) -> None:
    found = compiled("{min: 2, max: 4}", retries, more, platform)
    (document,) = gpuctl.lift(found.objects, found.settings)
    assert document["resources"]["nodes"] == {"min": 2, "max": 4}
    assert document["job"].get("retries", 0) == retries
    assert "env" not in document["environment"]


def test_fixed_training_keeps_variables_that_only_elastic_ones_reserve() -> None:
    text = DOCUMENT.replace("NODES", "2").replace("RETRIES", "0")
    text = text.replace("image:", "env: {PET_MAX_RESTARTS: '2', PET_RDZV_ID: mine}, image:")
    found = gpuctl.compile(gpuctl.Source("job.yaml", text))
    (document,) = gpuctl.lift(found.objects, found.settings)
    assert document["environment"]["env"] == [
        {"name": "PET_MAX_RESTARTS", "value": "2"},
        {"name": "PET_RDZV_ID", "value": "mine"},
    ]


@pytest.mark.parametrize(("live", "same"), [(2, True), (3, True), (4, True), (1, False), (5, False)])
def test_number_within_the_range_is_no_difference(live: int, same: bool) -> None:
    assert is_within_bounds(job(), with_nodes(job(), live)) is same
    assert not is_within_bounds(job("4"), with_nodes(job("4"), live))


def test_unequal_sizes_are_a_difference() -> None:
    live = with_nodes(job(), 3)
    live["spec"]["completions"] = 4
    assert not is_within_bounds(job(), live)


def test_only_kueue_changes_the_number_in_a_queue() -> None:
    """Outside of a queue an apply corrects a number beyond the range in place, and a build names no new object."""
    assert {"parallelism", "completions"} <= set(changeable_fields(job()))
    assert not {"parallelism", "completions"} & set(changeable_fields(job(platform=QUEUED)))
    assert spec_digest([job()]) == spec_digest([with_nodes(job(), 2)])
    assert spec_digest([job()]) != spec_digest([job("{min: 2, max: 5}")])


def test_queued_training_is_created_again_with_all_nodes() -> None:
    queued, alone = job(platform=QUEUED), job()
    assert queued["metadata"]["annotations"][f"{KUEUE}job-min-parallelism"] == "2"
    assert not any(key.startswith(KUEUE) for key in alone["metadata"].get("annotations", {}))
    assert recreatable(with_nodes(queued, 3))["spec"]["completions"] == 4
    assert recreatable(with_nodes(alone, 3))["spec"]["completions"] == 3


def test_plan_names_what_a_running_training_loses() -> None:
    (fewer,) = plan_scale(running(4), [POD], "training/train", 2, NOW, has_kueue=True).confirm
    assert "from 4 to 2 nodes (running for 3h)" in fewer
    assert fewer.endswith("ends 2 pods; torchrun restarts its program on the other nodes, from its last checkpoint")
    (more,) = plan_scale(running(2), [POD], "training/train", 3, NOW, has_kueue=True).confirm
    assert more.endswith("torchrun restarts its program on all nodes, from its last checkpoint")
    (last,) = plan_scale(running(4, retries=0), [POD], "training/train", 3, NOW, has_kueue=True).confirm
    assert last.endswith("ends 1 pod, and then the training, because its `job.retries` is 0")
    assert plan_scale(job(), [], "training/train", 3, NOW, has_kueue=True).confirm == []


def test_training_whose_pods_all_wait_is_scaled_without_a_question() -> None:
    """Its Job counts them as active."""
    waiting: dict[str, Any] = {"status": {"phase": "Pending"}}
    assert plan_scale(running(4), [waiting] * 4, "training/train", 2, NOW, has_kueue=True).confirm == []


def test_plan_sends_the_live_object_with_both_numbers() -> None:
    live = running(4)
    (step,) = plan_scale(live, [POD], "training/train", 2, NOW, has_kueue=False).steps
    assert (step.action, step.method) == ("update", "put")
    assert [(change.path, change.old, change.new) for change in step.changes] == [
        ("spec.parallelism", 4, 2),
        ("spec.completions", 4, 2),
    ]
    assert step.desired is not None
    assert step.desired["spec"] == {**live["spec"], "parallelism": 2, "completions": 2}
    assert live["spec"]["parallelism"] == 4
    (same,) = plan_scale(live, [POD], "training/train", 4, NOW, has_kueue=False).steps
    assert (same.action, same.reason) == ("unchanged", "has 4 nodes already")


def test_gitops_controller_that_sets_the_number_again_is_named() -> None:
    live = running(4)
    live["metadata"]["annotations"] = {MARK: "ml:batch/Job:nlp/train"}
    (note,) = plan_scale(live, [POD], "training/train", 2, NOW, has_kueue=False).notes
    assert "managed by Argo CD (application ml)" in note
    assert "unless it ignores differences of spec.parallelism and spec.completions" in note


def test_flux_that_creates_a_training_once_resets_no_number() -> None:
    live = running(4)
    live["metadata"]["labels"] = {"kustomize.toolkit.fluxcd.io/name": "ml"}
    assert "managed by Flux" in plan_scale(live, [POD], "training/train", 2, NOW, has_kueue=False).notes[0]
    live["metadata"]["annotations"] = FLUX_CREATES_ONCE
    assert plan_scale(live, [POD], "training/train", 2, NOW, has_kueue=False).notes == []


ENDED = {"conditions": [{"type": "Complete", "status": "True"}]}


@pytest.mark.parametrize(
    ("workload", "nodes", "message", "hint"),
    [
        (job(), 5, "has 2 to 4 nodes, and not 5", "set `resources.nodes.max`"),
        (job(), 1, "has 2 to 4 nodes, and not 1", "set `resources.nodes.min`"),
        (job("4"), 3, "has a fixed number of nodes", "write `resources.nodes: {min: 2, max: 4}`"),
        (job("1", retries=0, more="array: 8\n"), 3, "is an array", "set `array.parallelism`"),
        (
            {"kind": "JobSet", "metadata": {"name": "rl", "namespace": "nlp"}, "spec": {"replicatedJobs": [{}, {}]}},
            3,
            "has roles, each with a fixed number of nodes",
            "set `nodes` of the role",
        ),
        (job(more='schedule: "0 2 * * *"\n'), 3, "has a schedule: each run starts with 4 nodes", "apply it"),
        ({**job(), "status": ENDED}, 3, "has finished", "`gpuctl rerun train -n nlp` runs it again"),
        (running(4, platform=QUEUED), 3, "has reserved quota for 4 nodes", "`gpuctl pause train -n nlp`"),
        (
            {"kind": "Deployment", "metadata": {"name": "chat", "namespace": "nlp"}, "spec": {}},
            3,
            "is not a training",
            "set `service.replicas` in its document",
        ),
    ],
)
def test_refusal_says_what_to_do(workload: dict[str, Any], nodes: int, message: str, hint: str) -> None:
    with pytest.raises(NotScalable) as refused:
        plan_scale(workload, [], "training/train", nodes, NOW, has_kueue=True)
    assert message in refused.value.message
    assert hint in (refused.value.hint or "")


def test_notebook_has_no_replicas_to_set() -> None:
    notebook = {"kind": "StatefulSet", "metadata": {"name": "lab", "namespace": "nlp"}, "spec": {}}
    with pytest.raises(NotScalable, match="a notebook has one pod"):
        plan_scale(notebook, [], "notebook/lab", 3, NOW, has_kueue=False)


def test_waiting_training_in_a_queue_is_scaled() -> None:
    waiting = job(platform=QUEUED)
    waiting["spec"]["suspend"] = True
    (step,) = plan_scale(waiting, [], "training/train", 2, NOW, has_kueue=True).steps
    assert step.action == "update"


def test_flux_creates_an_elastic_training_once() -> None:
    """Another apply would set the greatest number of nodes again."""
    made = []
    for nodes in ("{min: 2, max: 4}", "4"):
        source = gpuctl.Source("job.yaml", DOCUMENT.replace("NODES", nodes).replace("RETRIES", "0"))
        objects = gpuctl.compile(source, gitops="flux", job_names="hashed").objects
        (annotations,) = [item["metadata"].get("annotations", {}) for item in objects if item["kind"] == "Job"]
        made.append(annotations.get("kustomize.toolkit.fluxcd.io/ssa"))
    assert made == ["IfNotPresent", None]


def _pods(running: int, pending: int) -> list[dict[str, Any]]:
    phases = ["Running"] * running + ["Pending"] * pending
    return [{"metadata": {"name": str(number)}, "status": {"phase": phase}} for number, phase in enumerate(phases)]


@pytest.mark.parametrize(
    ("running", "word", "reason"),
    [(4, "Running", ""), (3, "Running", "with 3 of 2-4 nodes"), (1, "Partially Running", "1 of 4 pods run; Pending")],
)
def test_training_runs_with_the_least_number_of_nodes(running: int, word: str, reason: str) -> None:
    status = job_status(job(), _pods(running, 4 - running), records(Settings()))
    assert (status.word, status.reason) == (word, reason)
    assert is_up({**job(), "status": {"ready": running}}) is (running >= 2)


def test_training_that_was_scaled_runs_with_fewer_nodes_than_its_document_allows() -> None:
    status = job_status(with_nodes(job(), 3), _pods(3, 0), records(Settings()))
    assert (status.word, status.reason) == ("Running", "with 3 of 2-4 nodes")


@pytest.mark.parametrize(("nodes", "fix"), [(3, "`gpuctl scale train -n nlp --nodes 4` adds nodes"), (4, "")])
def test_why_names_the_command_that_adds_nodes_unless_the_job_has_all(nodes: int, fix: str) -> None:
    """A job with all nodes whose controller has not replaced a pod yet cannot be scaled further."""
    pods = [{**pod, "spec": {"nodeName": "node-1", "containers": []}} for pod in _pods(3, 0)]
    found = Job(Identity("nlp", "train", "training"), running(nodes), pods)
    now = datetime(2026, 11, 28, 3, tzinfo=timezone.utc)
    finding = explain(Evidence(found, records(Settings()), Settings(), now)).finding
    assert (finding.message, finding.fix) == ("nothing is wrong: it runs with 3 of 2-4 nodes", fix)


def test_new_object_starts_with_another_number_of_nodes() -> None:
    assert starts_with_other_size(with_nodes(job(), 2), job())
    assert not starts_with_other_size(job(), job())
    assert not starts_with_other_size(with_nodes(job("4"), 2), job())
    assert not starts_with_other_size(job(more='schedule: "0 2 * * *"\n'), job())
