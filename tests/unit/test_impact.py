"""``gpuctl impact``: every number, computed by hand, and the report for a pull request."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from gpuctl.api.difference_answers import ImpactAnswer
from gpuctl.cli.output.printing import show_value
from gpuctl.gitops.breakages import Breakage
from gpuctl.gitops.declared_state import QuotaKey, QuotaLimit
from gpuctl.gitops.impact_report import markdown
from gpuctl.gitops.impact_rows import QuotaRow
from gpuctl.gitops.object_changes import ObjectKey
from gpuctl.gitops.resource_impact import Impact
from support.repositories import Repository, pool, quota, rendered_by_another_version, service, training

A, B = "gpu-type: A100-80G, gpu-count: 8", "gpu-type: H100-80G, gpu-count: 8"
NOTEBOOK = (
    "kind: notebook\nversion: v0.1\njob: {name: explore, namespace: nlp}\n"
    "environment: {image: registry.example.com/jupyter:v1}\nresources: {pool: a100, gpu: 1}\n"
)
COMPUTE = (
    "kind: compute\nversion: v0.1\njob: {name: web, namespace: nlp}\n"
    "environment: {image: registry.example.com/web:v1}\nservice: {replicas: 3, port: 80, health_check: /}\n"
    "resources: {pool: a100, cpu: 500m, memory: 512Mi}\n"
)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "team")


def impact_of(repository: Repository, before: dict[str, str], after: dict[str, str]) -> dict[str, Any]:
    """Return the JSON report of a change from some files to others, after checking its exit code."""
    for name, content in before.items():
        repository.write(name, content)
    repository.commit()
    for name in before:
        repository.remove(name)
    for name, content in after.items():
        repository.write(name, content)
    found = repository.gpuctl("impact", "--from", "HEAD", "-o", "json")
    assert found.err == ""
    report: dict[str, Any] = json.loads(found.out)
    assert found.code == (0 if report["fits"] else 1)
    assert report["fits"] == (not report["breakages"])
    return report


def gpus_by_pool(report: dict[str, Any]) -> dict[tuple[str, str | None], tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Return (pool, type) -> (least GPUs, most GPUs, capacity) before and after."""
    of = itemgetter("gpus", "gpusAtMost", "capacity")
    return {(row["pool"], row["gpuType"]): (of(row["before"]), of(row["after"])) for row in report["pools"]}


def quota_rows(report: dict[str, Any]) -> dict[tuple[str, str], tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Return (namespace, resource) -> (requested, limit) before and after."""
    amounts = itemgetter("asked", "hard")
    return {
        (row["namespace"], row["resource"]): (amounts(row["before"]), amounts(row["after"])) for row in report["quotas"]
    }


# GPUs ------------------------------------------------------------------------------------------------------


def test_gpus_are_counted_by_pool_and_type(repository: Repository) -> None:
    nodes = pool({"n1": A, "n2": A, "n3": B})
    report = impact_of(
        repository,
        {"pool.yaml": nodes, "a.yaml": training("a", gpu=4, resources=", gpu-type: A100-80G")},
        {
            "pool.yaml": nodes,
            "a.yaml": training("a", gpu=4, resources=", gpu-type: A100-80G, nodes: 2"),
            "b.yaml": training("b", gpu=2, resources=", gpu-type: h100-80g"),
            "c.yaml": training("c", gpu=3),
            "n.yaml": NOTEBOOK,
            "w.yaml": COMPUTE,
        },
    )
    assert gpus_by_pool(report) == {
        ("a100", "A100-80G"): ((4, 4, 16), (8, 8, 16)),
        ("a100", "H100-80G"): ((0, 0, 8), (2, 2, 8)),
        ("a100", "any"): ((0, 0, 24), (4, 4, 24)),
        ("a100", None): ((4, 4, 24), (14, 14, 24)),
    }
    assert report["breakages"] == []
    assert {job["name"]: job["after"]["gpus"] for job in report["jobs"]} == {
        "a": 8,
        "b": 2,
        "c": 3,
        "explore": 1,
        "web": 0,
    }


def test_roles_count_in_their_own_pools(repository: Repository) -> None:
    platform = (
        "kind: platform\nversion: v0.1\ntraining: {backend: jobset}\nprices: {a100: 2, l40s: 1}\npools: [{name: cpu}]\n"
    )
    pools = {"platform.yaml": platform, "a.yaml": pool({"n1": A, "n2": A})}
    pools["l.yaml"] = pool({"n3": "gpu-type: L40S, gpu-count: 4"}, "l40s") + "quota: {maxGpuPerJob: 8, maxJobs: 1}\n"
    job = (
        "kind: training\nversion: v0.1\njob: {{name: {name}, namespace: nlp}}\n"
        "environment: {{image: registry.example.com/rl:v1, command: [run]}}\nresources: {{pool: a100, cpu: 8, memory: 1Gi}}\n"
        "roles:\n- {{name: head, resources: {{pool: cpu}}}}\n- {{name: trainer, nodes: 2, resources: {{gpu: 8}}}}\n"
        "- {{name: rollout, nodes: {nodes}, resources: {{pool: l40s, gpu: 2}}}}\n"
    )
    before = {**pools, "j.yaml": job.format(name="rl", nodes=1)}
    report = impact_of(repository, before, {**pools, "j.yaml": job.format(name="rl", nodes=2)})
    found = gpus_by_pool(report)
    assert found["a100", "any"] == ((16, 16, 16), (16, 16, 16))
    assert found["l40s", "any"] == ((2, 2, 4), (4, 4, 4))
    (row,) = report["jobs"]
    assert (row["after"]["pool"], row["before"]["gpus"], row["after"]["gpus"]) == ("cpu, a100, l40s", 18, 20)
    text = repository.gpuctl("impact", "--from", "HEAD").out
    assert "20 (16 of any type in a100, 4 of any type in l40s)" in text
    assert report["fits"]
    prices = report["pricePerHour"]
    assert (prices["before"]["least"], prices["after"]["least"], prices["withoutPools"]) == (34, 36, [])
    second = {**before, "k.yaml": job.format(name="other", nodes=1)}
    report = impact_of(repository, {}, second)
    assert "pool l40s: 2 unfinished jobs, and it allows 1" in [item["message"] for item in report["breakages"]]


def test_autoscaled_services_have_a_range_of_gpus(repository: Repository) -> None:
    nodes = pool({"n1": A})
    report = impact_of(
        repository,
        {"pool.yaml": nodes, "s.yaml": service("s", gpu=2, least=1, most=3)},
        {"pool.yaml": nodes, "s.yaml": service("s", gpu=2, least=2, most=4)},
    )
    # 2 GPUs per replica: 1 to 3 replicas, then 2 to 4, on one node of 8.
    assert gpus_by_pool(report) == {
        ("a100", "A100-80G"): ((0, 0, 8), (0, 0, 8)),
        ("a100", "any"): ((2, 6, 8), (4, 8, 8)),
        ("a100", None): ((2, 6, 8), (4, 8, 8)),
    }
    assert report["fits"]
    repository.write("s.yaml", service("s", gpu=2, least=2, most=5))
    found = repository.gpuctl("impact", "--from", "HEAD")
    assert found.code == 1
    assert "- pool a100: jobs ask for 4 to 10 GPUs of any type, and it has 8\n" in found.out


def test_arrays_have_a_range_of_gpus(repository: Repository) -> None:
    """One run at least, and at most as many as run at a time."""
    files = {"pool.yaml": pool({"n1": A}) + "quota: {maxGpuPerJob: 6}\n", "q.yaml": quota("gpu: 8")}
    job = training("a", gpu=2, more="array: {size: 100, parallelism: 3}\n")
    report = impact_of(repository, files, {**files, "a.yaml": job})
    assert gpus_by_pool(report)["a100", "any"] == ((0, 0, 8), (2, 6, 8))
    assert quota_rows(report)["nlp", "requests.nvidia.com/gpu"] == ((0, 8), (6, 8))
    assert report["fits"]
    repository.write("a.yaml", training("a", gpu=2, more="array: 100\n"))
    found = repository.gpuctl("impact", "--from", "HEAD")
    assert found.code == 1
    assert "- training a in nlp: asks for 200 GPUs; pool a100 allows 6 per job\n" in found.out
    assert "- pool a100: jobs ask for 2 to 200 GPUs of any type, and it has 8\n" in found.out


def test_unknown_capacity_is_not_a_breakage(repository: Repository) -> None:
    unknown = pool({"n1": A, "n2": "gpu-type: A100-80G"})
    report = impact_of(
        repository,
        {"pool.yaml": unknown},
        {"pool.yaml": unknown, "a.yaml": training("a", gpu=8, resources=", nodes: 9")},
    )
    assert gpus_by_pool(report)["a100", "any"] == ((0, 0, None), (72, 72, None))
    found = repository.gpuctl("impact", "--from", "HEAD", "-o", "markdown")
    assert "| a100 | any | 0 -> 72 | ? |".replace(">", "\\>") in found.out
    assert "`?`: no pool document states their number.\n" in found.out


def test_pool_declared_by_the_platform_has_unknown_capacity(repository: Repository) -> None:
    platform = "kind: platform\nversion: v0.1\npools: [{name: a100, gpu-types: [A100-80G]}]\n"
    report = impact_of(
        repository, {"platform.yaml": platform}, {"platform.yaml": platform, "a.yaml": training("a", gpu=99)}
    )
    assert gpus_by_pool(report) == {("a100", "any"): ((0, 0, None), (99, 99, None))}


def test_gpus_of_nodes_without_a_type_count(repository: Repository) -> None:
    nodes = pool({"n1": A, "n2": "gpu-count: 4", "n3": ""})
    report = impact_of(
        repository, {"pool.yaml": nodes}, {"pool.yaml": nodes, "a.yaml": training("a", gpu=4, resources=", nodes: 3")}
    )
    assert gpus_by_pool(report)["a100", "any"] == ((0, 0, 12), (12, 12, 12))
    assert report["fits"]


def test_removed_node_is_a_breakage(repository: Repository) -> None:
    job = {"a.yaml": training("a", gpu=8, resources=", gpu-type: A100-80G"), "b.yaml": training("b", gpu=8)}
    report = impact_of(
        repository, {"pool.yaml": pool({"n1": A, "n2": B}), **job}, {"pool.yaml": pool({"n1": A}), **job}
    )
    assert gpus_by_pool(report)["a100", None] == ((16, 16, 16), (16, 16, 8))
    assert report["breakages"] == [{"message": "pool a100: jobs ask for 16 GPUs in all, and it has 8", "new": True}]
    assert report["jobs"] == []


def test_single_gpu_type_can_be_short(repository: Repository) -> None:
    nodes = pool({"n1": A, "n2": B, "n3": B})
    jobs = {f"{name}.yaml": training(name, gpu=6, resources=", gpu-type: A100-80G") for name in "ab"}
    report = impact_of(repository, {"pool.yaml": nodes}, {"pool.yaml": nodes, **jobs})
    assert report["breakages"] == [{"message": "pool a100: jobs ask for 12 A100-80G GPUs, and it has 8", "new": True}]


def test_breakages_are_marked_new_or_as_before(repository: Repository) -> None:
    nodes = pool({"n1": A})
    before = {"pool.yaml": nodes, "a.yaml": training("a", gpu=8), "b.yaml": training("b", gpu=1)}
    report = impact_of(repository, before, {**before, "q.yaml": quota("gpu: 8")})
    assert [(item["new"], item["message"]) for item in report["breakages"]] == [
        (False, "pool a100: jobs ask for 9 GPUs of any type, and it has 8"),
        (False, "pool a100: jobs ask for 9 GPUs in all, and it has 8"),
        (True, "namespace nlp: jobs ask for 9 nvidia.com/gpu, and the quota is 8"),
    ]
    found = repository.gpuctl("impact", "--from", "HEAD")
    assert "and it has 8 (as before)\n" in found.out
    assert "and the quota is 8\n" in found.out


def test_pods_too_large_for_the_nodes_are_a_breakage(repository: Repository) -> None:
    # Two nodes of 8: the sum of 15 GPUs fits, but only one pod of 5 fits on each node.
    nodes = pool({"n1": A, "n2": A})
    two = {f"{name}.yaml": training(name, gpu=5) for name in "ab"}
    report = impact_of(
        repository, {"pool.yaml": nodes, **two}, {"pool.yaml": nodes, **two, "c.yaml": training("c", gpu=5)}
    )
    assert gpus_by_pool(report)["a100", None] == ((10, 10, 16), (15, 15, 16))
    assert report["breakages"] == [
        {"message": "pool a100: 3 pods of 5 or more GPUs of any type, and its nodes have room for 2", "new": True}
    ]
    repository.write("c.yaml", training("c", gpu=3))
    assert repository.gpuctl("impact", "--from", "HEAD").code == 0


def test_breakages_name_each_job_for_no_node(repository: Repository) -> None:
    """Also a document on one line, and each job of a sweep: their messages have the position of one document."""
    line = "{kind: training, version: v0.1, job: {name: b, namespace: nlp}, environment: {image: 'x/b:v1'}"
    sweep = training("s", gpu=9) + "sweep: {lr: [1, 2]}\n"
    after = training("a", gpu=8) + f"---\n{line}, resources: {{pool: a100, gpu: 9}}}}\n---\n{sweep}"
    pools = {"pool.yaml": pool({"n1": A})}
    report = impact_of(repository, pools, {**pools, "jobs.yaml": after})
    reason = "the job needs 9 GPUs on one node; the largest node of pool `a100` has 8"
    assert [item["message"] for item in report["breakages"]][:3] == [
        f"training {name} in nlp: {reason}" for name in ("b", "s-0", "s-1")
    ]


def test_gpus_of_a_pod_patch_are_counted(repository: Repository) -> None:
    two = "{nvidia.com/gpu: '2'}"
    helper = f"{{name: helper, image: 'app:1', resources: {{requests: {two}, limits: {two}}}}}"
    patch = f"podPatch: {{containers: [{helper}]}}\n"
    nodes = pool({"n1": A})
    report = impact_of(
        repository,
        {"pool.yaml": nodes, "a.yaml": training("a", gpu=4)},
        {"pool.yaml": nodes, "a.yaml": training("a", gpu=4, more=patch), "q.yaml": quota("gpu: 5")},
    )
    assert gpus_by_pool(report)["a100", "any"] == ((4, 4, 8), (6, 6, 8))
    assert quota_rows(report)["nlp", "requests.nvidia.com/gpu"] == ((4, None), (6, 5))


@pytest.mark.parametrize(("share", "gpus"), [("0.5", 2.5), ("20Gi", None)])
def test_gpu_shares_are_counted_as_fractions(repository: Repository, share: str, gpus: float | None) -> None:
    platform = "kind: platform\nversion: v0.1\ngpu: {sharing: hami}\n"
    base = {"platform.yaml": platform, "pool.yaml": pool({"n1": "gpu-type: T4, gpu-count: 1"})}
    jobs = {f"j{index}.yaml": training(f"j{index}", gpu=1, resources=f", gpu-share: {share}") for index in range(5)}
    report = impact_of(repository, base, {**base, **jobs})
    after = gpus_by_pool(report)["a100", "any"][1]
    if gpus is None:
        assert after == (0, 0, None)
        assert [job["after"]["gpus"] for job in report["jobs"]] == [None] * 5
        assert "parts of cards (any type, a100)" in repository.gpuctl("impact", "--from", "HEAD").out
    else:
        assert after == (gpus, gpus, 1)
        assert not report["fits"]


def test_jobset_counts_all_its_nodes(repository: Repository) -> None:
    base = {
        "platform.yaml": "kind: platform\nversion: v0.1\ntraining: {backend: jobset}\n",
        "pool.yaml": pool({"n1": A, "n2": A}),
        "q.yaml": quota("gpu: 20, cpu: 20, maxJobs: 1"),
    }
    report = impact_of(repository, base, {**base, "a.yaml": training("a", gpu=8, resources=", nodes: 2")})
    assert gpus_by_pool(report)["a100", "any"] == ((0, 0, 16), (16, 16, 16))
    assert quota_rows(report) == {
        ("nlp", "count/jobs.batch"): ((0, 1), (1, 1)),
        ("nlp", "requests.cpu"): ((0, 20), (16, 20)),
        ("nlp", "requests.nvidia.com/gpu"): ((0, 20), (16, 20)),
    }


# Quotas ----------------------------------------------------------------------------------------------------


def test_quotas_count_max_replicas_and_default_requests(repository: Repository) -> None:
    limits = quota("gpu: 16, cpu: 40, memory: 256Gi, maxJobs: 2")
    base = {"pool.yaml": pool({"n1": A, "n2": A}), "q.yaml": limits, "a.yaml": training("a", gpu=4)}
    report = impact_of(
        repository,
        base,
        {**base, "s.yaml": service("s", gpu=2, least=1, most=3), "n.yaml": NOTEBOOK, "w.yaml": COMPUTE},
    )
    gibibyte = 2**30
    # cpu: training 8; 3 replicas of 2; the notebook sets none and gets the LimitRange's 1; 3 of 500m.
    # memory: 64Gi; 3 of 16Gi; 2Gi by default; 3 of 512Mi.
    assert quota_rows(report) == {
        ("nlp", "count/jobs.batch"): ((1, 2), (1, 2)),
        ("nlp", "requests.cpu"): ((8, 40), (16.5, 40)),
        ("nlp", "requests.memory"): (
            (64 * gibibyte, 256 * gibibyte),
            (64 * gibibyte + 48 * gibibyte + 2 * gibibyte + 3 * gibibyte // 2, 256 * gibibyte),
        ),
        ("nlp", "requests.nvidia.com/gpu"): ((4, 16), (11, 16)),
    }
    out = repository.gpuctl("impact", "--from", "HEAD").out
    assert re.search(r"^nlp +cpu +8 -> 16.5 +40$", out, re.MULTILINE)
    assert re.search(r"^nlp +memory +64Gi -> 118272Mi +256Gi$", out, re.MULTILINE)


def test_added_changed_and_removed_quotas(repository: Repository) -> None:
    job = {"pool.yaml": pool({"n1": A}), "a.yaml": training("a", gpu=4)}
    report = impact_of(
        repository,
        {**job, "q.yaml": quota("gpu: 8, maxJobs: 3"), "v.yaml": quota("gpu: 1", "other", "vision")},
        {**job, "q.yaml": quota("gpu: 2, cpu: 8")},
    )
    assert quota_rows(report) == {
        ("nlp", "count/jobs.batch"): ((1, 3), (1, None)),
        ("nlp", "requests.cpu"): ((8, None), (8, 8)),
        ("nlp", "requests.nvidia.com/gpu"): ((4, 8), (4, 2)),
        ("vision", "requests.nvidia.com/gpu"): ((0, 1), (0, None)),
    }
    assert [item["message"] for item in report["breakages"]] == [
        "namespace nlp: jobs ask for 4 nvidia.com/gpu, and the quota is 2"
    ]


QUEUES = {"platform.yaml": "kind: platform\nversion: v0.1\nquota: {backend: kueue}\n"}


def test_quota_of_a_queue_says_what_waits(repository: Repository) -> None:
    jobs = {**QUEUES, "a.yaml": training("a", gpu=8), "b.yaml": training("b", gpu=4, resources=", queue: default")}
    own = {"c.yaml": training("c", gpu=4, resources=", queue: own")}
    report = impact_of(
        repository,
        {**jobs, **own, "q.yaml": quota("gpu: 12, cpu: 40, maxJobs: 9")},
        {**jobs, **own, "q.yaml": quota("gpu: 8, cpu: 40, maxJobs: 2")},
    )
    assert quota_rows(report) == {
        ("nlp", "count/jobs.batch"): ((3, 9), (3, 2)),
        ("nlp", "requests.cpu"): ((16, 40), (16, 40)),
        ("nlp", "requests.nvidia.com/gpu"): ((12, 12), (12, 8)),
    }
    # Jobs wait in the queue, but the namespace takes no more than 2 Jobs.
    assert [item["message"] for item in report["breakages"]] == [
        "namespace nlp: jobs ask for 3 count/jobs.batch, and the quota is 2"
    ]
    [waiting] = report["waiting"]
    assert waiting == (
        "namespace nlp: jobs ask for 12 nvidia.com/gpu at once, and the quota is 8; the rest waits in the queue"
    )
    found = repository.gpuctl("impact", "--from", "HEAD")
    assert f"Waits for quota:\n\n- {waiting}\n" in found.out
    assert re.search(r"^nlp +nvidia.com/gpu +12 +12 -> 8$", found.out, re.MULTILINE)
    repository.commit()
    assert "Waits" not in repository.gpuctl("impact", "--from", "HEAD").out


def test_limits_of_gpu_types_count_the_jobs_that_can_use_them(repository: Repository) -> None:
    jobs = {
        **QUEUES,
        "a.yaml": training("a", gpu=4, resources=", gpu-type: H100"),
        "b.yaml": training("b", gpu=2, resources=", gpu-type: [H100, L40]"),
        "c.yaml": training("c", gpu=4),
        "d.yaml": training("d", gpu=2, resources=", gpu-type: A100"),
    }
    report = impact_of(
        repository,
        {**jobs, "q.yaml": quota("gpu-types: {H100: 8, A100: 8}, borrow: 2")},
        {**jobs, "q.yaml": quota("gpu-types: {H100: 4, A100: 4}, borrow: 1")},
    )
    rows = {row["gpuType"]: (row["before"], row["after"]) for row in report["quotas"]}
    assert rows == {
        "H100": ({"asked": 6, "hard": 8, "borrowed": 2}, {"asked": 6, "hard": 4, "borrowed": 1}),
        "A100": ({"asked": 2, "hard": 8, "borrowed": 2}, {"asked": 2, "hard": 4, "borrowed": 1}),
        None: ({"asked": 12, "hard": 16, "borrowed": 4}, {"asked": 12, "hard": 8, "borrowed": 2}),
    }
    assert report["breakages"] == []
    assert report["waiting"] == [
        f"namespace nlp: jobs ask for {asked} at once, and the quota is {limit} can be borrowed; "
        "the rest waits in the queue"
        for asked, limit in (("12 nvidia.com/gpu", "8, and 2"), ("6 nvidia.com/gpu of type H100", "4, and 1"))
    ]
    assert "4, borrows 1" in repository.gpuctl("impact", "--from", "HEAD").out


@pytest.mark.parametrize("allocation", ["device-plugin", "dra"])
def test_roles_count_for_their_own_gpu_types(repository: Repository, allocation: str) -> None:
    roles = "roles: [{name: a, nodes: 2}, {name: b, resources: {gpu: 1, gpu-type: L40}}]\n"
    jobs = {
        "platform.yaml": f"{QUEUES['platform.yaml']}training: {{backend: jobset}}\ngpu: {{allocation: {allocation}}}\n",
        "a.yaml": training("a", gpu=4, resources=", gpu-type: H100", more=roles),
        "b.yaml": training("b", gpu=4, resources=", gpu-type: H100"),
    }
    report = impact_of(repository, jobs, {**jobs, "q.yaml": quota("gpu-types: {H100: 8, L40: 4}")})
    assert {row["gpuType"]: row["after"]["asked"] for row in report["quotas"]} == {"H100": 12, "L40": 1, None: 13}
    assert {row["gpuType"]: row["after"]["gpusAtMost"] for row in report["pools"]} == {"H100": 12, "L40": 1, None: 13}


@pytest.mark.parametrize("allocation", ["device-plugin", "dra"])
def test_slices_count_in_the_quota_of_a_queue(repository: Repository, allocation: str) -> None:
    jobs = {
        "platform.yaml": f"{QUEUES['platform.yaml']}gpu: {{allocation: {allocation}}}\n",
        "a.yaml": training("a", gpu=2, resources=", gpu-type: A100-80G, gpu-profile: 1g.10gb"),
    }
    before, after = ({**jobs, "q.yaml": quota(f"gpu-profiles: {{1g.10gb: {number}}}")} for number in (4, 2))
    assert quota_rows(impact_of(repository, before, after)) == {
        ("nlp", "requests.nvidia.com/mig-1g.10gb"): ((2, 4), (2, 2)),
    }


def test_job_that_its_queue_never_admits_is_a_breakage(repository: Repository) -> None:
    job = {**QUEUES, "a.yaml": training("a", gpu=8)}
    report = impact_of(repository, {**job, "q.yaml": quota("gpu: 8")}, {**job, "q.yaml": quota("gpu: 4")})
    [item] = report["breakages"]
    assert item["new"]
    assert item["message"] == (
        "training a in nlp: the job asks for 8 nvidia GPUs at once; the quota of namespace `nlp` is 4: "
        "Kueue never admits it"
    )


def test_lower_limit_of_two_quotas_applies(repository: Repository) -> None:
    both = {"a.yaml": quota("gpu: 8, memory: 1Gi", "one"), "b.yaml": quota("gpu: 4, memory: 2Gi", "two")}
    report = impact_of(repository, {"pool.yaml": pool({"n1": A})}, {"pool.yaml": pool({"n1": A}), **both})
    assert quota_rows(report) == {
        ("nlp", "requests.memory"): ((0, None), (0, 2**30)),
        ("nlp", "requests.nvidia.com/gpu"): ((0, None), (0, 4)),
    }


# Prices ----------------------------------------------------------------------------------------------------


def test_price_per_hour_before_and_after(repository: Repository) -> None:
    platform = "kind: platform\nversion: v0.1\nprices: {{a100: {price}}}\n"
    base = {"pool.yaml": pool({"n1": A, "n2": A}), "s.yaml": service("s", gpu=1, least=1, most=4)}
    other = training("b", gpu=2).replace("pool: a100", "pool: spare")
    report = impact_of(
        repository,
        {**base, "platform.yaml": platform.format(price=0.1)},
        {**base, "platform.yaml": platform.format(price=1234567.5), "a.yaml": training("a", gpu=3), "b.yaml": other},
    )
    # Before: 1 to 4 GPUs at 0.1. After: 3 more, at 1234567.5: 4 to 7.
    assert report["pricePerHour"] == {
        "before": {"least": 0.1, "most": 0.4},
        "after": {"least": 4938270, "most": 8641972.5},
        "withoutPools": ["spare"],
    }
    line = "Price per hour: 0.1 to 0.4 -> 4938270 to 8641972.5; without pool spare, which has no price\n"
    assert line in repository.gpuctl("impact", "--from", "HEAD").out


def test_report_without_prices_omits_the_price(repository: Repository) -> None:
    report = impact_of(repository, {"a.yaml": training("a")}, {"a.yaml": training("a", gpu=2)})
    assert report["pricePerHour"] is None
    assert "Price" not in repository.gpuctl("impact", "--from", "HEAD").out


# Objects and jobs ------------------------------------------------------------------------------------------


def test_objects_added_changed_and_removed(repository: Repository) -> None:
    report = impact_of(
        repository,
        {"a.yaml": training("a"), "b.yaml": training("b"), "w.yaml": COMPUTE},
        {"a.yaml": training("a").replace(":v1", ":v2"), "sub/renamed.yaml": training("b"), "n.yaml": NOTEBOOK},
    )
    assert [(item["kind"], item["name"]) for item in report["added"]] == [
        ("StatefulSet", "explore"),
        ("Service", "svc-explore"),
    ]
    assert [(item["kind"], item["name"], item["paths"]) for item in report["changed"]] == [
        ("Job", "a", ["spec.template.spec.containers[0].image"])
    ]
    assert [(item["kind"], item["name"]) for item in report["removed"]] == [
        ("Deployment", "web"),
        ("Service", "svc-web"),
    ]
    assert [(job["kind"], job["name"]) for job in report["jobs"]] == [("compute", "web"), ("notebook", "explore")]


def test_changed_kind_is_one_job_removed_and_one_added(repository: Repository) -> None:
    report = impact_of(repository, {"a.yaml": training("a", gpu=4)}, {"a.yaml": service("a", gpu=1, least=2, most=2)})
    assert [
        (job["kind"], job["before"] and job["before"]["gpus"], job["after"] and job["after"]["gpus"])
        for job in report["jobs"]
    ] == [
        ("inference", None, 2),
        ("training", 4, None),
    ]


def test_platform_change_affects_all_objects(repository: Repository) -> None:
    base = {"a.yaml": training("a"), "b.yaml": training("b"), "platform.yaml": "kind: platform\nversion: v0.1\n"}
    report = impact_of(
        repository, base, {**base, "platform.yaml": "kind: platform\nversion: v0.1\nimage: {pullSecret: login}\n"}
    )
    assert [item["paths"] for item in report["changed"]] == [["spec.template.spec.imagePullSecrets"]] * 2
    assert (report["added"], report["removed"], report["jobs"]) == ([], [], [])


def test_impact_between_two_revisions(repository: Repository) -> None:
    repository.write("a.yaml", training("a", gpu=1))
    repository.commit()
    repository.write("a.yaml", training("a", gpu=2))
    repository.commit()
    repository.write("a.yaml", training("a", gpu=7))

    def gpus(*arguments: str) -> list[int]:
        found = repository.gpuctl("impact", "-o", "json", *arguments)
        (job,) = json.loads(found.out)["jobs"]
        return [job["before"]["gpus"], job["after"]["gpus"]]

    assert gpus("--from", "HEAD~1", "--to", "HEAD") == [1, 2]
    assert gpus("--from", "HEAD", "--to", "HEAD~1") == [2, 1]
    assert gpus("--from", "HEAD") == [2, 7]
    assert gpus("--from", "HEAD~1", "-f", "a.yaml") == [1, 7]


# Exit codes and formats ------------------------------------------------------------------------------------


def test_documents_that_do_not_compile_exit_2(repository: Repository) -> None:
    repository.write("a.yaml", training("a"))
    repository.commit()
    repository.write("a.yaml", training("a", gpu=4).replace("gpu: 4", "gpu: four"))
    repository.write("b.yaml", training("b"))
    after = repository.gpuctl("impact", "--from", "HEAD", "-o", "json")
    assert (after.code, after.out) == (2, "")
    assert "error: the documents on disk do not compile" in after.err
    repository.commit()
    repository.write("a.yaml", training("a"))
    before = repository.gpuctl("impact", "--from", "HEAD")
    assert (before.code, before.out) == (2, "")
    assert re.search(r"--> a.yaml@[0-9a-f]{10}:5:", before.err)
    assert "error: the documents at HEAD do not compile" in before.err


def test_unreadable_file_is_an_error(repository: Repository) -> None:
    repository.write("a.yaml", training("a"))
    repository.commit()
    repository.remove("a.yaml")
    (repository.root / "a.yaml").mkdir()
    (repository.root / "a.yaml" / "b.yaml").symlink_to("nowhere")
    found = repository.gpuctl("impact", "--from", "HEAD", "a.yaml")
    assert (found.code, found.out) == (2, "")
    assert "cannot read" in found.err


def test_strict_makes_warnings_errors(repository: Repository) -> None:
    repository.write("a.yaml", training("a"))
    repository.commit()
    assert repository.gpuctl("impact", "--from", "HEAD").code == 0
    found = repository.gpuctl("impact", "--from", "HEAD", "--strict")
    assert found.code == 2
    assert "GPU401" in found.err


def test_missing_from_or_wrong_output_is_a_usage_error(repository: Repository) -> None:
    assert repository.gpuctl("impact").code == 2
    assert repository.gpuctl("impact", "--from", "HEAD", "-o", "yaml").code == 2


def test_empty_repository_has_no_impact(repository: Repository) -> None:
    repository.commit()
    found = repository.gpuctl("impact", "--from", "HEAD")
    assert (found.code, found.out) == (0, "GPU impact: no change of GPUs; no object changes\n")


def test_markdown_report(repository: Repository) -> None:
    base = {"pool.yaml": pool({"n1": A}), "q.yaml": quota("gpu: 12"), "a.yaml": training("a", gpu=4)}
    impact_of(
        repository, base, {**base, "a.yaml": training("a", gpu=8), "s.yaml": service("s", gpu=1, least=1, most=2)}
    )
    found = repository.gpuctl("impact", "--from", "HEAD", "-o", "markdown")
    assert found.code == 1
    assert found.out == (
        "## GPU impact: +5 to +6 GPUs; 3 objects added, 1 object changed\n\n"
        "Does not fit:\n\n"
        "- pool a100: jobs ask for 9 to 10 GPUs of any type, and it has 8\n"
        "- pool a100: jobs ask for 9 to 10 GPUs in all, and it has 8\n\n"
        "Changed documents:\n\n- training a in nlp: resources.gpu: 4 -\\> 8\n\n"
        "Restarts:\n\n"
        "- training a in nlp: resources.requests.nvidia.com/gpu, resources.limits.nvidia.com/gpu, env\\[3\\].value "
        "and 2 more\n\n"
        "| job | GPUs before | GPUs after |\n| --- | --- | --- |\n"
        "| inference s in nlp | - | 1 to 2 (any type, a100) |\n"
        "| training a in nlp | 4 (any type, a100) | 8 (any type, a100) |\n\n"
        "| pool | GPU type | GPUs requested | GPUs in pool |\n| --- | --- | --- | --- |\n"
        "| a100 | any | 4 -\\> 9 to 10 | 8 |\n"
        "| a100 | all | 4 -\\> 9 to 10 | 8 |\n\n"
        "| namespace | resource | requested at most | quota |\n| --- | --- | --- | --- |\n"
        "| nlp | nvidia.com/gpu | 4 -\\> 10 | 12 |\n\n"
        "<details><summary>Added: 3 objects</summary>\n\n"
        "- `Deployment s in nlp`\n- `HorizontalPodAutoscaler s in nlp`\n- `Service svc-s in nlp`\n\n"
        "</details>\n\n"
        "<details><summary>Changed: 1 object</summary>\n\n"
        "- `Job a in nlp`: `spec.template.spec.containers[0].env[3].value`, "
        "`spec.template.spec.containers[0].env[8].value`, "
        "`spec.template.spec.containers[0].env[11].value`, "
        "`spec.template.spec.containers[0].resources.requests.nvidia.com/gpu` and 1 more\n\n"
        "</details>\n"
    )


def test_changed_image_restarts_a_training(repository: Repository) -> None:
    """A change that apply makes in place is not a restart."""
    base = {name: training(name, gpu=1) for name in ("calm", "image", "told")}
    calm = training("calm", gpu=1).replace("name: calm", "name: calm, description: again, retries: 3")
    image = training("image", gpu=1).replace("train:v1", "train:v2")
    assert image != training("image", gpu=1)
    impact_of(
        repository, {f"{name}.yaml": text for name, text in base.items()}, {"calm.yaml": calm, "image.yaml": image}
    )
    found = repository.gpuctl("impact", "--from", "HEAD", "-o", "json")
    (restart,) = json.loads(found.out)["restarts"]
    assert restart == {"kind": "training", "namespace": "nlp", "name": "image", "reason": "image"}


@pytest.mark.parametrize(
    ("before", "after", "label"),
    [
        ("training: {queue: {a100: team}}", "training: {queue: {a100: other}}", "queue-name"),
        (
            "training: {queue: {a100: team}}",
            "training: {queue: {a100: team}}\nqueues: {priority: workload}",
            "priority-class",
        ),
    ],
)
def test_labels_that_kueue_fixes_restart_trainings_in_git_alone(
    repository: Repository, before: str, after: str, label: str
) -> None:
    """Kueue's webhook rejects the sync of a running Job with another queue. An apply leaves the Job in its queue."""
    head = "kind: platform\nversion: v0.1\n"
    repository.write("platform.yaml", f"{head}{before}\n")
    repository.write("jobs/a.yaml", training("a", gpu=1))
    repository.commit()
    repository.write("platform.yaml", f"{head}{after}\n")

    def restarts(*options: str) -> Any:
        return json.loads(repository.gpuctl("impact", "--from", "HEAD", "-o", "json", *options, "jobs").out)["restarts"]

    reason = f"metadata.labels.kueue.x-k8s.io/{label}"
    assert restarts() == []
    assert [item["reason"] for item in restarts("--gitops", "argocd")] == [reason]
    build = ("build", "jobs", "-o", "rendered", "--gitops", "argocd")
    repository.write("platform.yaml", f"{head}{before}\n")
    assert repository.gpuctl(*build).code == 0
    repository.write("platform.yaml", f"{head}{after}\n")
    assert f"starts anew: training a in nlp: {reason}\n" in repository.gpuctl(*build).out


@pytest.mark.parametrize("options", [(), ("--embed",)])
def test_training_rendered_differently_by_another_version_restarts(
    repository: Repository, options: tuple[str, ...]
) -> None:
    """The names in the output directory identify what runs; another version of gpuctl may have derived them
    differently.
    """
    repository.write("jobs/a.yaml", training("a"))
    repository.write("jobs/b.yaml", training("b"))
    build = ("build", "jobs", "-o", "rendered", "--gitops", "argocd", *options)
    assert repository.gpuctl(*build).code == 0
    assert "starts anew" not in repository.gpuctl(*build).out
    repository.commit()
    assert json.loads(repository.gpuctl("impact", "--from", "HEAD", "-o", "json", "jobs").out)["restarts"] == []
    (path,) = (repository.root / "rendered/nlp").glob("job-a-*.yaml")
    # Without the digest of its document the old object is not kept.
    path.write_text(re.sub(r" +runwhere.ai/lowered-from: .*\n", "", path.read_text()))
    rendered_by_another_version(repository, f"rendered/nlp/{path.name}")
    repository.commit()
    (restart,) = json.loads(repository.gpuctl("impact", "--from", "HEAD", "-o", "json", "jobs").out)["restarts"]
    assert (restart["name"], restart["reason"]) == ("a", "rendered differently by this version of gpuctl")
    shown = repository.gpuctl("impact", "--from", "HEAD", "jobs").out
    assert "Restarts:\n\n- training a in nlp: rendered differently by this version of gpuctl\n" in shown
    reason = "rendered differently by this version of gpuctl" if options else "imagePullPolicy"
    checked = repository.gpuctl(*build, "--check")
    assert f"starts anew: training a in nlp: {reason}\n" in checked.out
    assert f"\nstarts anew: training a in nlp: {reason}\n" in repository.gpuctl(*build).out


def test_name_that_looks_like_a_hashed_job_name_is_not_one(repository: Repository) -> None:
    for name in ("exp", "exp-202401"):
        repository.write(f"jobs/{name}.yaml", training(name))
    assert repository.gpuctl("build", "jobs", "-o", "rendered").code == 0
    assert (repository.root / "rendered/nlp/job-exp-202401.yaml").exists()
    repository.commit()
    assert json.loads(repository.gpuctl("impact", "--from", "HEAD", "-o", "json", "jobs").out)["restarts"] == []


def test_changed_backend_is_the_reason_of_a_restart(repository: Repository) -> None:
    """The document changed as well, and that is the reported reason."""
    repository.write("platform.yaml", "kind: platform\nversion: v0.1\n")
    repository.write("jobs/a.yaml", training("a", gpu=1))
    build = ("build", "jobs", "--platform", "platform.yaml", "-o", "rendered", "--gitops", "argocd")
    assert repository.gpuctl(*build).code == 0
    repository.commit()
    before = training("a", gpu=1)
    repository.write("jobs/a.yaml", before.replace("gpu: 1", "gpu: 1, nodes: 2"))
    repository.write("platform.yaml", "kind: platform\nversion: v0.1\ntraining: {backend: jobset}\n")
    found = json.loads(repository.gpuctl("impact", "--from", "HEAD", "-o", "json", "jobs").out)
    assert [(item["name"], item["reason"]) for item in found["restarts"]] == [("a", "was a Job")]


def impact_with(**fields: Any) -> Impact:
    empty: dict[str, Any] = {
        **{key: [] for key in ("added", "changed", "removed", "jobs", "pools", "quotas", "breakages", "unpriced")},
        "costs": None,
    }
    return Impact(**{**empty, **fields})


def test_names_are_escaped_in_markdown() -> None:
    key = ObjectKey("v1", "Config`Map", "nlp", "a|b")
    found = impact_with(
        added=[key],
        changed=[(key, ["data.`x`", "data.a|b\n# head", "``"])],
        breakages=[Breakage("pool <img src=x> |`*_[y](z) @team", True)],
    )
    lines = markdown(found, [("Evicted:", ["pod |` @x"])]).splitlines()
    assert "- pool \\<img src=x\\> \\|\\`\\*\\_\\[y\\](z) @&#8203;team" in lines
    assert "- ``Config`Map a|b in nlp``" in lines
    assert "- ``Config`Map a|b in nlp``: `` data.`x` ``, `data.a|b\\n# head`, ``` `` ```" in lines
    assert "- pod \\|\\` @&#8203;x" in lines


def test_pipes_are_escaped_in_table_cells(repository: Repository) -> None:
    row = QuotaRow(QuotaKey("a|b", "x`y"), Fraction(1), Fraction(2), None, QuotaLimit(Fraction(3, 2)))
    lines = markdown(impact_with(quotas=[row])).splitlines()
    assert lines[-1] == "| a\\|b | x\\`y | 1 -\\> 2 | none -\\> 1.5 |"


def test_long_report_is_shortened_to_fit_a_comment() -> None:
    keys = [ObjectKey("batch/v1", "Job", "n" * 63, f"{index:04}" + "j" * 59) for index in range(3000)]
    paths = [f"metadata.annotations.{'a' * 300}{index}" for index in range(9)]
    found = impact_with(
        added=keys,
        changed=[(key, paths) for key in keys],
        removed=keys,
        breakages=[Breakage("namespace " + "n" * 200, True)] * 3000,
    )
    out = markdown(found)
    assert len(out) < 65536
    assert out.count("- and 2950 more\n") == 4
    assert len(ImpactAnswer.of(found).as_json()["changed"]) == 3000


def test_json_keeps_non_ascii_text(capsys: pytest.CaptureFixture[str]) -> None:
    show_value(ImpactAnswer.of(impact_with(breakages=[Breakage("资源池不足", True)])).as_json(), "json")
    assert '"message": "资源池不足"' in capsys.readouterr().out


# Linter errors -------------------------------------------------------------------------------------------------


def test_job_larger_than_any_node_is_a_breakage(repository: Repository) -> None:
    small = {"pool.yaml": pool({"n1": "gpu-type: A100-80G, gpu-count: 4"})}
    jobs = {"jobs.yaml": "---\n".join([training("a", gpu=4), training("b", gpu=8), training("c", gpu=2)])}
    report = impact_of(repository, {"pool.yaml": pool({"n1": A, "n2": A}), **jobs}, {**small, **jobs})
    message = "training b in nlp: the job needs 8 GPUs on one node; the largest node of pool `a100` has 4"
    assert report["breakages"][0] == {"message": message, "new": True}
    repository.commit()
    assert '"new": false' in repository.gpuctl("impact", "--from", "HEAD", "-o", "json").out
    repository.write("pool.yaml", pool({"n1": A, "n2": A}))
    found = repository.gpuctl("impact", "--from", "HEAD")
    assert (found.code, found.err) == (0, "")
    assert re.search(r"^a100 +any +14 +4 -> 16$", found.out, re.MULTILINE)


def test_gpu_type_missing_in_the_pool_is_a_breakage(repository: Repository) -> None:
    nodes = {"pool.yaml": pool({"n1": A})}
    report = impact_of(repository, nodes, {**nodes, "a.yaml": training("a", gpu=1, resources=", gpu-type: T4")})
    assert [item["message"] for item in report["breakages"]] == [
        "training a in nlp: the pool `a100` has no GPU of type `T4`",
        "pool a100: jobs ask for 1 T4 GPUs, and it has 0",
    ]


def test_pool_limits_are_checked(repository: Repository) -> None:
    nodes = pool({"n1": A, "n2": A})
    before = {"pool.yaml": nodes, "a.yaml": training("a", gpu=4), "s.yaml": service("s", gpu=2, least=1, most=3)}
    limited = {**before, "pool.yaml": nodes + "quota: {maxJobs: 1, maxGpuPerJob: 5}\n"}
    report = impact_of(repository, before, limited)
    assert report["breakages"] == [
        {"message": "inference s in nlp: asks for 6 GPUs; pool a100 allows 5 per job", "new": True},
        {"message": "pool a100: 2 unfinished jobs, and it allows 1", "new": True},
    ]
    report = impact_of(repository, limited, {**limited, "a.yaml": training("a", gpu=6)})
    assert [(item["message"].partition(":")[0], item["new"]) for item in report["breakages"]] == [
        ("inference s in nlp", False),
        ("training a in nlp", True),
        ("pool a100", False),
    ]


def test_breakages_with_strict_exit_1(repository: Repository) -> None:
    nodes = {"pool.yaml": pool({"n1": A}), "q.yaml": quota("gpu: 4")}
    impact_of(repository, nodes, {**nodes, "a.yaml": training("a", gpu=8)})
    found = repository.gpuctl("impact", "--from", "HEAD", "--strict")
    assert (found.code, found.err) == (1, "")
    assert "- namespace nlp: jobs ask for 8 nvidia.com/gpu, and the quota is 4\n" in found.out
