"""``gpuctl impact`` with a cluster: running jobs that a change ends, capacity of the nodes, and evictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuctl.apply.plan.evictions import evicted_jobs
from gpuctl.capacity.fit.verdicts import Victim
from gpuctl.capacity.scheduler.scheduler_model import PlacedPod
from gpuctl.capacity.snapshot.snapshot_document import Snapshot, render
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from support.repositories import Outcome, Repository, pool, quota, service, training

A = "gpu-type: A100-80G, gpu-count: 8"
LABELS = {"runwhere.ai/pool": "a100", "runwhere.ai/gpu-type": "A100-80G"}
Object = dict[str, Any]


def node(name: str, gpus: int = 8, labels: dict[str, str] | None = None, **more: Any) -> Object:
    allocatable = {"cpu": "64", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {"name": name, "labels": LABELS if labels is None else labels, "allocatable": allocatable, **more}


def pod(owner: str, on: str, gpus: int, *, started: str = "2026-01-01T00:00:00Z", **more: Any) -> Object:
    """Return a running pod. ``owner`` is written as ``Job/a``."""
    kind, _, name = owner.partition("/")
    own: Object = {"namespace": "nlp", "name": f"{name}-{on}", "node": on, "priority": 500000, "startTime": started}
    requests = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
    return {**own, "requests": requests, "owner": {"kind": kind, "name": name}, "labels": {}, **more}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "team")


def impact_of(
    repository: Repository,
    before: dict[str, str],
    after: dict[str, str],
    nodes: list[Object],
    pods: list[Object],
    output: str = "json",
    finished: tuple[Object, ...] = (),
) -> Outcome:
    """Return the impact of a change from some files to others. The snapshot was taken at 03:00."""
    for name, content in before.items():
        repository.write(name, content)
    repository.commit()
    for name in before.keys() - after.keys():
        repository.remove(name)
    for name, content in after.items():
        repository.write(name, content)
    snapshot = repository.root.parent / "cluster.json"
    snapshot.write_text(render(Snapshot("2026-01-01T03:00:00Z", nodes, pods, finished=list(finished))))
    found = repository.gpuctl("impact", "--from", "HEAD", "--snapshot", str(snapshot), "-o", output)
    assert found.err == ""
    return found


def ended_jobs(found: Outcome) -> dict[str, tuple[str, int]]:
    """Return job name -> (manner, GPUs) of the jobs that end."""
    return {item["name"]: (item["manner"], item["gpus"]) for item in json.loads(found.out)["cluster"]["ended"]}


RUNNING_PODS = [
    pod("Job/a", "n1", 4),
    pod("Job/b", "n1", 2),
    pod("Deployment/s", "n2", 1),
    pod("Deployment/s", "n1", 1),
]
THREE_JOBS = {"a.yaml": training("a"), "b.yaml": training("b", gpu=2), "s.yaml": service("s", gpu=1)}


def test_replaced_running_jobs_are_listed(repository: Repository) -> None:
    after = {
        **THREE_JOBS,
        "a.yaml": training("a").replace(":v1", ":v2"),
        "s.yaml": service("s", gpu=1).replace(":v1", ":v2"),
    }
    found = impact_of(repository, THREE_JOBS, after, [node("n1"), node("n2")], RUNNING_PODS, "text")
    assert found.code == 0
    assert (
        "Running jobs that would be replaced:\n\n"
        "- training a in nlp: running for 3h on 4 GPUs, its progress is lost (containers[main].image)\n"
        "- inference s in nlp: running for 3h on 2 GPUs, it stops serving until its new pods are ready (containers[main].image)\n\n"
    ) in found.out


@pytest.mark.parametrize(
    ("fields", "manner"),
    [
        ("description: mine", None),
        ("retries: 3", None),
        ("ttl: 1h", None),
        ("annotations: {example.com/owner: me}", "replaced"),  # Annotations are set on the pods, too.
        ("priority: high", "replaced"),
        ("max_runtime: 2h", "replaced"),
    ],
)
def test_changes_in_place_do_not_replace_a_job(repository: Repository, fields: str, manner: str | None) -> None:
    after = training("a").replace("job: {", f"job: {{{fields}, ")
    found = impact_of(repository, {"a.yaml": training("a")}, {"a.yaml": after}, [node("n1")], [pod("Job/a", "n1", 4)])
    assert ended_jobs(found) == ({} if manner is None else {"a": (manner, 4)})


QUEUED = "kind: platform\nversion: v0.1\ntraining: {queue: {a100: team}}\n"


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize(
    ("platform", "label"),
    [
        (f"{QUEUED}queues: {{priority: workload}}\n", "priority-class"),
        (QUEUED.replace("team", "other"), "queue-name"),
    ],
)
def test_trainings_that_only_a_controller_recreates(
    repository: Repository, platform: str, label: str, running: bool
) -> None:
    """Kueue's webhook rejects the change of these labels while a job runs, so that they are part of its name in git."""
    files = {"platform.yaml": QUEUED, "jobs/a.yaml": training("a")}
    pods, finished = ([pod("Job/a", "n1", 4)], ()) if running else ([], (finished_training("a"),))
    found = impact_of(repository, files, {**files, "platform.yaml": platform}, [node("n1")], pods, finished=finished)
    (item,) = json.loads(found.out)["cluster"]["ended" if running else "runsAgain"]
    assert (item["name"], item["manner"]) == ("a", "kept")
    assert item["reason"].endswith(f"kueue.x-k8s.io/{label}")


def finished_training(name: str, condition: str = "Complete", app: str = "") -> Object:
    """Return a training that finished two hours ago."""
    entry = {"kind": "Job", "namespace": "nlp", "name": name, "condition": condition, "since": "2026-01-01T01:00:00Z"}
    return {**entry, **({"app": app} if app else {})}


@pytest.mark.parametrize(
    ("old", "new", "manner"),
    [
        (":v1", ":v2", "replaced"),
        ("job: {", "job: {priority: high, ", "replaced"),
        ("job: {", "job: {labels: {cost-center: '42'}, ", "kept"),
        ("job: {", "job: {annotations: {example.com/owner: me}, ", "kept"),
        ("job: {", "job: {ttl: 1h, ", None),
    ],
    ids=["image", "priority", "label", "annotation", "ttl"],
)
@pytest.mark.parametrize(
    "there",
    [finished_training("a"), finished_training("a", "Failed"), finished_training("a-135187", app="a")],
    ids=["", "failed", "built"],
)
def test_changes_that_rerun_a_finished_training(
    repository: Repository, there: Object, old: str, new: str, manner: str | None
) -> None:
    """Apply patches labels and annotations; a GitOps controller reruns the training."""
    before, after = {"a.yaml": training("a")}, {"a.yaml": training("a").replace(old, new)}
    found = impact_of(repository, before, after, [node("n1")], [], finished=(there,))
    items = json.loads(found.out)["cluster"]["runsAgain"]
    assert [(item["name"], item["manner"]) for item in items] == ([("a", manner)] if manner else [])


def test_rerun_trainings_are_listed_with_their_end(repository: Repository) -> None:
    after = {"a.yaml": training("a").replace(":v1", ":v2"), "b.yaml": training("b", gpu=2)}
    before = {"a.yaml": training("a"), "b.yaml": training("b", gpu=2), "c.yaml": training("c", gpu=1)}
    ended = (finished_training("a", "Failed"), finished_training("b"), finished_training("c"))
    found = impact_of(repository, before, after, [node("n1")], [], "text", ended)
    assert (
        "Finished trainings that would run again; their pods and logs are deleted:\n\n"
        "- training a in nlp: finished 2h ago (Failed); containers[main].image\n\n"
    ) in found.out
    assert "training b" not in found.out


def test_finished_trainings_are_unknown_without_the_right_to_list_jobs(repository: Repository) -> None:
    repository.write("a.yaml", training("a"))
    repository.commit()
    repository.write("cluster.json", render(Snapshot("2026-01-01T03:00:00Z", [node("n1")], [], unreadable=["jobs"])))
    arguments = ("impact", "--from", "HEAD", "--snapshot", "cluster.json")
    assert json.loads(repository.gpuctl(*arguments, "-o", "json").out)["cluster"]["runsAgain"] is None
    assert "Unknown: which finished trainings would run again." in repository.gpuctl(*arguments).out


def test_jobs_that_do_not_run_are_not_listed(repository: Repository) -> None:
    waiting = [
        pod("Job/a", "n1", 4, phase="Pending"),
        {**pod("Job/b", "n1", 2), "node": "", "nominatedNode": "n1"},
        pod("Deployment/a", "n2", 1),
        {**pod("Job/a", "n2", 4), "namespace": "vision"},
    ]
    waiting[1].pop("node")
    after = {name: text.replace(":v1", ":v2") for name, text in THREE_JOBS.items()}
    found = impact_of(repository, THREE_JOBS, after, [node("n1"), node("n2")], waiting, "text")
    assert "No running job would be replaced.\n" in found.out


def test_jobs_of_removed_documents_are_listed(repository: Repository) -> None:
    after = {"c.yaml": training("c"), "b.yaml": service("b", gpu=2)}
    found = impact_of(repository, THREE_JOBS, after, [node("n1"), node("n2")], RUNNING_PODS)
    assert ended_jobs(found) == {"a": ("removed", 4), "b": ("removed", 2), "s": ("removed", 2)}
    reasons = {item["name"]: item["reason"] for item in json.loads(found.out)["cluster"]["ended"]}
    assert reasons["b"] == "its name is used by a job of kind inference"
    repository.remove("b.yaml")
    repository.remove("c.yaml")
    found = repository.gpuctl("impact", "--from", "HEAD", "--snapshot", str(repository.root.parent / "cluster.json"))
    assert (
        "Running jobs whose documents are removed; pruning would end them:\n\n- training a in nlp: running for 3h"
        in found.out
    )


def test_platform_change_keeps_running_jobs(repository: Repository) -> None:
    platform = {"platform.yaml": "kind: platform\nversion: v0.1\nimage: {pullSecret: login}\n"}
    found = impact_of(repository, THREE_JOBS, {**THREE_JOBS, **platform}, [node("n1"), node("n2")], RUNNING_PODS)
    assert ended_jobs(found) == {"a": ("kept", 4), "b": ("kept", 2), "s": ("kept", 2)}


def test_rolling_services_are_not_replaced(repository: Repository) -> None:
    platform = {"platform.yaml": "kind: platform\nversion: v0.1\nstrategy: rolling\n"}
    before = {**THREE_JOBS, **platform}
    after = {name: text.replace(":v1", ":v2") for name, text in before.items()}
    found = impact_of(repository, before, after, [node("n1"), node("n2")], RUNNING_PODS)
    assert ended_jobs(found) == {"a": ("replaced", 4), "b": ("replaced", 2)}


def test_pods_on_several_nodes_are_one_job(repository: Repository) -> None:
    pods = [
        pod("Job/a", "n1", 8, started="2026-01-01T02:00:00Z"),
        pod("Job/a", "n2", 8, started="2026-01-01T01:00:00Z"),
    ]
    before = {"a.yaml": training("a", gpu=8, resources=", nodes: 2")}
    found = impact_of(repository, before, {"a.yaml": training("a", gpu=8)}, [node("n1"), node("n2")], pods)
    (item,) = json.loads(found.out)["cluster"]["ended"]
    assert (item["gpus"], item["pods"], item["runningSince"]) == (16, 2, "2026-01-01T01:00:00Z")


# Capacity --------------------------------------------------------------------------------------------------


def capacity_by_pool(found: Outcome) -> dict[tuple[str, str | None], tuple[int | None, int | None]]:
    return {
        (row["pool"], row["gpuType"]): (row["before"]["capacity"], row["after"]["capacity"])
        for row in json.loads(found.out)["pools"]
    }


def test_capacity_is_that_of_the_live_nodes(repository: Repository) -> None:
    before = {"pool.yaml": pool({"n1": A, "n2": A})}
    after = {"pool.yaml": pool({"n1": A, "n3": A, "n4": A}), "a.yaml": training("a", gpu=5)}
    # n2 leaves the pool, n3 joins it, n4 is not in the cluster, n5 is in the pool only by its label.
    nodes = [node("n1", 4), node("n2"), node("n3", labels={}), node("n5", 2, {"runwhere.ai/pool": "a100"})]
    found = impact_of(repository, before, after, nodes, [])
    assert capacity_by_pool(found) == {
        ("a100", "A100-80G"): (12, 12),
        ("a100", "any"): (14, 14),
        ("a100", None): (14, 14),
    }
    cluster = json.loads(found.out)["cluster"]
    assert cluster["absentNodes"] == ["n4"]
    assert [(item["name"], item["verdict"]) for item in cluster["fit"]] == [("a", "fits")]


@pytest.mark.parametrize(
    ("leaves", "platform"), [(True, ""), (False, ""), (True, "gitops: argocd\n")], ids=["leaves", "stays", "argocd"]
)
def test_jobs_do_not_fit_on_nodes_that_leave_their_pool(repository: Repository, leaves: bool, platform: str) -> None:
    """A GitOps controller does not remove the labels of nodes that are no longer in git."""
    before = {"pool.yaml": pool({"n1": A, "n2": A}), "platform.yaml": f"kind: platform\nversion: v0.1\n{platform}"}
    after = {**before, "pool.yaml": pool({"n1": A})} if leaves else before
    nodes = [node("n1", 4), node("n2")]
    found = impact_of(repository, before, {**after, "a.yaml": training("a", gpu=5)}, nodes, [], "text")
    assert ("never fits" in found.out) is (leaves and not platform), found.out


def test_pool_without_a_document_has_its_labelled_nodes(repository: Repository) -> None:
    nodes = [node("n1"), node("n2", 4), node("n3", labels={})]
    found = impact_of(
        repository, {"a.yaml": training("a")}, {"a.yaml": training("a", gpu=8, resources=", nodes: 2")}, nodes, []
    )
    assert capacity_by_pool(found)["a100", "any"] == (12, 12)
    assert found.code == 1
    messages = [item["message"] for item in json.loads(found.out)["breakages"]]
    assert any("jobs ask for 16 GPUs of any type, and it has 12" in message for message in messages)
    assert any(message.startswith("training a in nlp: never fits in the cluster: ") for message in messages)


def test_gpu_types_from_feature_discovery_labels(repository: Repository) -> None:
    types = "gpu: {types: {A100-80G: {nvidia.com/gpu.product: NVIDIA-A100}}}"
    before = {"platform.yaml": f"kind: platform\nversion: v0.1\n{types}\n"}
    nodes = [
        node("n1", 8, {"runwhere.ai/pool": "a100", "nvidia.com/gpu.product": "NVIDIA-A100"}),
        node("n2", labels={}),
    ]
    after = {**before, "a.yaml": training("a", resources=", gpu-type: A100-80G")}
    found = impact_of(repository, before, after, nodes, [])
    assert capacity_by_pool(found) == {("a100", "A100-80G"): (8, 8)}


def test_capacity_of_shared_gpus_comes_from_documents(repository: Repository) -> None:
    before = {
        "platform.yaml": "kind: platform\nversion: v0.1\ngpu: {sharing: hami}\n",
        "pool.yaml": pool({"n1": A}),
    }
    after = {**before, "a.yaml": training("a", gpu=1, resources=", gpu-share: 0.5")}
    found = impact_of(repository, before, after, [node("n1", 80)], [])
    assert capacity_by_pool(found)["a100", "A100-80G"] == (8, 8)


def test_evicted_jobs_are_listed(repository: Repository) -> None:
    lowly = {**pod("Job/lowly", "n1", 6), "priority": 100}
    found = impact_of(
        repository,
        {"q.yaml": quota("gpu: 8")},
        {"q.yaml": quota("gpu: 8"), "a.yaml": training("a")},
        [node("n1")],
        [lowly],
        "text",
    )
    assert found.code == 0
    evicted = "- Job/lowly in nlp (1 pod, running for 3h), of priority 100, for training a in nlp\n"
    assert f"Would be evicted, 1 job with 1 pod:\n\n{evicted}" in found.out
    assert "- training a in nlp: fits by evicting other pods\n" in found.out


def test_evictions_are_counted_for_the_whole_repository(repository: Repository) -> None:
    """Each evicted job is counted once, also if several changed jobs need its room."""
    labels = {"app": "sft", "runwhere.ai/job-type": "training", "creator": "anna"}
    theirs = [{**pod("Job/sft", f"n{number}", 6), "priority": 100, "labels": labels} for number in (1, 2)]
    others = {**pod("Job/other", "n3", 6), "priority": 100}
    patches = {name: {"kubernetes.io/hostname": f"n{number}"} for number, name in enumerate("abc", 1)}
    after = {
        f"{name}.yaml": training(name, gpu=8) + f"podPatch: {{nodeSelector: {json.dumps(where)}}}\n"
        for name, where in patches.items()
    }
    nodes = [node(f"n{number}", labels={**LABELS, "kubernetes.io/hostname": f"n{number}"}) for number in (1, 2, 3)]
    found = impact_of(
        repository, {"q.yaml": quota("gpu: 64")}, {"q.yaml": quota("gpu: 64"), **after}, nodes, [*theirs, others]
    )
    counted = json.loads(found.out)["cluster"]["evictions"]
    assert (counted["jobs"], counted["pods"]) == (2, 3)
    first, second = counted["items"]
    assert (first["job"], first["owner"], second["job"], second["owner"]) == ("Job/other", None, "training/sft", "anna")
    assert sorted(second["pods"]) == ["sft-n1", "sft-n2"]
    assert [[item["name"] for item in by["by"]] for by in (first, second)] == [["c"], ["a", "b"]]


# Usage -----------------------------------------------------------------------------------------------------


def test_report_without_a_cluster_omits_its_section(repository: Repository) -> None:
    repository.commit()
    assert json.loads(repository.gpuctl("impact", "--from", "HEAD", "-o", "json").out)["cluster"] is None
    assert "running" not in repository.gpuctl("impact", "--from", "HEAD").out


def test_snapshot_and_context_exclude_each_other(repository: Repository) -> None:
    repository.commit()
    found = repository.gpuctl("impact", "--from", "HEAD", "--snapshot", "x.json", "--context", "dev")
    assert found.code == 2
    assert "--snapshot replaces the cluster" in found.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "its `kind` is not ClusterSnapshot"),
        (render(Snapshot("yesterday", [], [])), 'takenAt: "yesterday" is not a time'),
        (render(Snapshot("2026-13-01T00:00:00Z", [], [])), "takenAt: "),
        (
            render(Snapshot("2026-01-01T00:00:00Z", [], [pod("Job/a", "n1", 1, started="1 Jan")])),
            'pods[0].startTime: "1 Jan" is not a time',
        ),
    ],
)
def test_damaged_snapshot_exits_3(repository: Repository, text: str, why: str) -> None:
    repository.commit()
    repository.write("cluster.json", text)
    found = repository.gpuctl("impact", "--from", "HEAD", "--snapshot", "cluster.json")
    assert (found.code, found.out) == (3, "")
    assert why in found.err
    assert "Traceback" not in found.err


def test_evicted_pods_of_the_change_itself_are_not_reported() -> None:
    """A pod of the change itself may be evicted again. It does not exist yet, so it is not reported."""
    there = pod("Job/a", "n1", 8)
    snapshot = Snapshot("2026-01-02T00:00:00Z", [node("n1")], [there])
    victims = [Victim(PlacedPod("nlp", name, owner="Job/a"), "n1") for name in (there["name"], "new-0")]
    (job,) = evicted_jobs(victims, snapshot, records(Settings()))
    assert (job.job, job.pods, job.runtime) == ("Job/a", (there["name"],), "24h")


# GitOps controllers ----------------------------------------------------------------------------------------

LESS_IMPORTANT = {
    **pod("Job/lowly", "n1", 4),
    "priority": 100,
    "labels": {"app": "lowly", "runwhere.ai/job-type": "training", "creator": "anna"},
}
OWN_POD = pod("Job/a-0a1b2c", "n1", 4, labels={"app": "a"})
BEFORE = {"q.yaml": quota("gpu: 64"), "a.yaml": training("a")}


def impact_on_training(
    repository: Repository, after: str, *, platform: str = "", option: str = "", output: str = "json"
) -> Outcome:
    """Return the impact of a changed document of training a, whose pod shares a node with a less important one."""
    settings = {"platform.yaml": f"kind: platform\nversion: v0.1\n{platform}\n"}
    impact_of(
        repository,
        {**BEFORE, **settings},
        {**BEFORE, **settings, "a.yaml": after},
        [node("n1")],
        [LESS_IMPORTANT, OWN_POD],
    )
    snapshot = str(repository.root.parent / "cluster.json")
    options = ["--gitops", option] if option else []
    return repository.gpuctl("impact", "--from", "HEAD", "--snapshot", snapshot, "-o", output, *options)


@pytest.mark.parametrize(
    ("platform", "option", "controller"),
    [
        ("", "", None),
        ("", "argocd", "argocd"),
        ("", "flux", "flux"),
        ("gitops: argocd", "", "argocd"),
        ("gitops: flux", "", "flux"),
        ("gitops: argocd", "flux", "flux"),
        ("gitops: argocd", "none", None),
    ],
)
def test_controller_evicts_while_the_old_pods_run(
    repository: Repository, platform: str, option: str, controller: str | None
) -> None:
    """A GitOps controller creates the new Job before the old one has ended; `gpuctl apply` waits for its end."""
    found = impact_on_training(repository, training("a").replace(":v1", ":v2"), platform=platform, option=option)
    cluster = json.loads(found.out)["cluster"]
    assert cluster["gitops"] == controller
    assert [item["verdict"] for item in cluster["fit"]] == ["fits"]
    if controller is None:
        assert cluster["evictions"] == {"jobs": 0, "pods": 0, "items": []}
        return
    assert (cluster["evictions"]["jobs"], cluster["evictions"]["pods"]) == (1, 1)
    (item,) = cluster["evictions"]["items"]
    assert (item["job"], item["owner"], item["whileOldPodsRun"]) == ("training/lowly", "anna", True)
    assert item["by"] == [{"kind": "training", "namespace": "nlp", "name": "a"}]


@pytest.mark.parametrize("output", ["text", "markdown"])
def test_text_report_lists_evictions_by_the_controller(repository: Repository, output: str) -> None:
    found = impact_on_training(repository, training("a").replace(":v1", ":v2"), option="flux", output=output)
    assert "Judged for Flux: new pods of a training are created while its old ones still run.\n" in found.out
    victim = "training/lowly in nlp (owner anna, 1 pod, running for 3h), of priority 100, for training a in nlp"
    assert f"- {victim}, whose old pods still run\n" in found.out
    assert "- training a in nlp: fits now; evicts others while its old pods still run\n" in found.out


@pytest.mark.parametrize("fields", ["description: mine", "retries: 3", "ttl: 1h"])
def test_changes_without_a_new_job_evict_no_pods(repository: Repository, fields: str) -> None:
    found = impact_on_training(repository, training("a").replace("job: {", f"job: {{{fields}, "), option="argocd")
    assert json.loads(found.out)["cluster"]["evictions"]["items"] == []


def test_training_does_not_evict_its_own_old_pods(repository: Repository) -> None:
    """The old pods are less important than the new ones, but end anyway."""
    found = impact_on_training(
        repository, training("a", gpu=8).replace("job: {", "job: {priority: high, "), option="argocd"
    )
    items = json.loads(found.out)["cluster"]["evictions"]["items"]
    assert [item["job"] for item in items] == ["training/lowly"]
    assert items[0]["whileOldPodsRun"] is False, "it needs the whole node in any case"


def test_platform_change_restarts_trainings_under_a_controller(repository: Repository) -> None:
    """`apply` keeps trainings whose documents did not change. A controller applies all that `build` wrote."""
    before = {**BEFORE, "platform.yaml": "kind: platform\nversion: v0.1\n"}
    after = {**before, "platform.yaml": "kind: platform\nversion: v0.1\nimage: {pullSecret: login}\ngitops: flux\n"}
    found = impact_of(repository, before, after, [node("n1")], [LESS_IMPORTANT, OWN_POD])
    cluster = json.loads(found.out)["cluster"]
    assert [(item["name"], item["verdict"]) for item in cluster["fit"]] == [("a", "fits")]
    assert [item["job"] for item in cluster["evictions"]["items"]] == ["training/lowly"]


# Finished trainings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "there", [finished_training("a"), finished_training("a", "Failed"), finished_training("a-135187", app="a")]
)
def test_finished_trainings_are_not_counted(repository: Repository, there: Object) -> None:
    """Their documents stay in git. A training that reruns is counted again. A pool's maxJobs counts unfinished jobs, a
    quota counts all Jobs.
    """
    base = {
        "pool.yaml": pool({"n1": A}) + "quota: {maxJobs: 1}\n",
        "q.yaml": quota("gpu: 8, maxJobs: 9"),
        "a.yaml": training("a", gpu=8),
    }
    found = impact_of(repository, base, {**base, "b.yaml": training("b", gpu=8)}, [node("n1")], [], finished=(there,))
    report = json.loads(found.out)
    assert (found.code, report["breakages"]) == (0, [])
    assert report["cluster"]["finished"] == [{"kind": "training", "namespace": "nlp", "name": "a"}]
    assert {row["resource"]: (row["before"]["asked"], row["after"]["asked"]) for row in report["quotas"]} == {
        "requests.nvidia.com/gpu": (0, 8),
        "count/jobs.batch": (1, 2),
    }
    text = repository.gpuctl("impact", "--from", "HEAD", "--snapshot", str(repository.root.parent / "cluster.json")).out
    assert "1 finished training: not counted against pools and quotas.\n" in text
    both = {**base, "a.yaml": training("a", gpu=8).replace(":v1", ":v2"), "b.yaml": training("b", gpu=8)}
    found = impact_of(repository, base, both, [node("n1")], [], finished=(there,))
    report = json.loads(found.out)
    assert (found.code, report["cluster"]["finished"]) == (1, [])
    assert any("jobs ask for 16" in item["message"] and item["new"] for item in report["breakages"])


@pytest.mark.parametrize(("option", "finished"), [([], ["a"]), (["--gitops", "flux"], [])])
def test_label_change_reruns_finished_training_under_a_controller(
    repository: Repository, option: list[str], finished: list[str]
) -> None:
    after = {"a.yaml": training("a").replace("job: {", "job: {labels: {cost-center: '42'}, ")}
    impact_of(repository, {"a.yaml": training("a")}, after, [node("n1")], [], finished=(finished_training("a"),))
    snapshot = str(repository.root.parent / "cluster.json")
    found = repository.gpuctl("impact", "--from", "HEAD", "--snapshot", snapshot, "-o", "json", *option)
    assert [item["name"] for item in json.loads(found.out)["cluster"]["finished"]] == finished
