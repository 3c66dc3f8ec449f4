"""The limits of a pool hold for every way that changes a workload; a fake session has the pool and its jobs."""

from __future__ import annotations

from typing import Any, cast

import pytest
import yaml

import gpuctl
from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.claim_charges import ClaimCharges
from gpuctl.apply.plan.decision_inputs import DecisionOptions, PendingDecision, Target
from gpuctl.apply.plan.object_decision import decide, decide_with_answer
from gpuctl.apply.plan.plan import Step
from gpuctl.apply.plan.pool_limit_checks import check_pool_limits
from gpuctl.apply.plan.rerun_plan import plan_rerun
from gpuctl.apply.plan.scale_plan import plan_scale
from gpuctl.apply.plan.scheduled_run_plan import plan_run
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key, Object, Resource, key_of
from gpuctl.objects.ownership_metadata import records, stamp

COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
DRA = "gpu: {allocation: dra}\n"
QUEUED = "training: {queue: {default: team}}\n"
GROUPS = "inference: {backend: lws}\n"
NIGHTLY = 'schedule: "0 2 * * *"\n'


def training(gpu: int = 1, *, name: str = "train", pool: str = "small", job: str = "", nodes: str = "1") -> str:
    return f"""\
kind: training
version: v0.1
job: {{name: {name}, namespace: nlp{job}}}
environment: {{image: "train:1", command: [torchrun, train.py]}}
resources: {{gpu: {gpu}, cpu: 1, memory: 1Gi, pool: {pool}, nodes: {nodes}}}
"""


def array(parallelism: int) -> str:
    return training() + f"array: {{size: 9, parallelism: {parallelism}}}\n"


def service(replicas: int = 1, *, most: int | None = None, image: str = "chat:1", nodes: int = 1) -> str:
    scaler = "" if most is None else f"autoscaling: {{enabled: true, minReplicas: 1, maxReplicas: {most}}}\n"
    return f"""\
kind: inference
version: v0.1
job: {{name: chat, namespace: nlp}}
environment: {{image: "{image}", command: [serve]}}
service: {{replicas: {replicas}, port: 80}}
resources: {{gpu: 1, cpu: 1, memory: 1Gi, pool: small, nodes: {nodes}}}
{scaler}"""


def compiled(document: str, platform: str = "") -> tuple[list[Object], Settings]:
    """Return the objects of a document as they are sent, and the platform's settings."""
    given = gpuctl.Source("platform.yaml", f"kind: platform\nversion: v0.1\n{platform}")
    found = gpuctl.compile(gpuctl.Source("job.yaml", document), platform=given, shared=False)
    assert found.objects, found.diagnostics
    return [stamp(obj, records(found.settings), None) for obj in found.objects], found.settings


KEYS = records(compiled(training())[1])


def live(document: str, status: Object | None = None, **metadata: Any) -> list[Object]:
    """Return the objects of a document as they exist in the cluster."""
    more = {"uid": "1", "creationTimestamp": "2026-11-28T02:00:00Z", "generation": 2, **metadata}
    return [{**obj, "metadata": {**obj["metadata"], **more}, "status": status or {}} for obj in compiled(document)[0]]


def paused(document: str) -> list[Object]:
    """Return a live job that is paused."""
    found = live(document)
    for obj in found:
        if obj["kind"] in ("Job", "Deployment"):
            obj["metadata"]["annotations"][KEYS.paused] = "1"
            obj["spec"] |= {"suspend": True} if obj["kind"] == "Job" else {"replicas": 0}
    return found


class Cluster:
    """A session that has a pool's definition and some live objects."""

    def __init__(self, quota: dict[str, int], objects: list[Object], platform: str = "") -> None:
        self.objects, self.platform = objects, platform
        self.pool = {"data": {"pool.yaml": yaml.safe_dump({"kind": "pool", "quota": quota})}}

    def get(self, key: Key) -> Object | None:
        return self.pool if key.name == "pool-small" else None

    def list_objects(self, resource: Resource, namespace: str | None = None, **_: str) -> tuple[list[Object], str]:
        return [obj for obj in self.objects if obj["kind"] == resource.kind], "1"

    def errors(self, steps: list[Step]) -> list[str]:
        """Return the errors of the check for the steps of a plan."""
        session = cast(Session, self)
        request = ApplyRequest(settings=compiled(training(), self.platform)[1])
        return check_pool_limits(session, steps, ClaimCharges(session, steps), request)

    def apply(self, document: str) -> list[str]:
        """Return the errors for the steps that apply a document."""
        wanted, settings = compiled(document, self.platform)
        options, steps = DecisionOptions(ApplyRequest(settings=settings), rolling=True), []
        for desired in wanted:
            target = Target(desired, False, f"job/{desired['metadata']['name']}", False)
            step = decide(target, {key_of(obj): obj for obj in self.objects}.get(target.key), options)
            steps.append(decide_with_answer(step, None, options) if isinstance(step, PendingDecision) else step)
        return self.errors(steps)


@pytest.mark.parametrize(
    ("document", "there", "platform"),
    [
        pytest.param(training(4), [], "", id="created"),
        pytest.param(training(4) + NIGHTLY, [], "", id="created with a schedule"),
        pytest.param(training(4, job=", after: [prepare]"), [], "", id="waits for another job"),
        pytest.param(training(4, job=", after: [prepare]"), [], QUEUED, id="waits for another job in a queue"),
        pytest.param(training(4), paused(training()), "", id="paused"),
        pytest.param(training(4), [], DRA, id="claims devices"),
        pytest.param(training(4), live(training(4, pool="other")), "", id="from another pool"),
        pytest.param(array(4), live(array(1)), "", id="more runs of an array at once"),
        pytest.param(service(4), live(service()), "", id="more replicas"),
        pytest.param(service(4), paused(service()), "", id="more replicas of a paused service"),
        pytest.param(service(most=4), [], "", id="created with an autoscaler"),
        pytest.param(service(most=1, nodes=4), [], GROUPS, id="created with an autoscaler of groups"),
        pytest.param(service(most=4), live(service(most=2)), "", id="higher maximum of an autoscaler"),
        pytest.param(service(most=4), live(service()), "", id="added autoscaler"),
    ],
)
def test_apply_of_too_many_gpus_is_refused(document: str, there: list[Object], platform: str) -> None:
    (error,) = Cluster({"maxGpuPerJob": 3}, there, platform).apply(document)
    assert error.endswith(": asks for 4 GPUs in all; pool small allows 3 per job")
    assert Cluster({"maxGpuPerJob": 4}, there, platform).apply(document) == []


@pytest.mark.parametrize("text", ["nodes: 2024-13-45", "quota: {maxGpuPerJob: true, maxJobs: true}"])
def test_damaged_definition_limits_nothing(text: str) -> None:
    cluster = Cluster({}, live(training(name="other")))
    cluster.pool["data"]["pool.yaml"] = text
    assert cluster.apply(training(4)) == []


def test_scale_to_too_many_gpus_is_refused() -> None:
    """Also of a paused training, which has no pods."""
    document = training(2, nodes="{min: 1, max: 4}")
    for _, job in (live(document), paused(document)):
        job["spec"] |= {"parallelism": 1, "completions": 1}
        for nodes, number in ((2, 1), (1, 0)):
            steps = plan_scale(job, [], "training/train", nodes, 0.0, has_kueue=False).steps
            assert len(Cluster({"maxGpuPerJob": 3}, [job]).errors(steps)) == number


def test_run_and_rerun_of_too_many_gpus_are_refused() -> None:
    """The limit is lower than it was when the job was created."""
    for steps in (
        plan_run(live(training(4) + NIGHTLY)[0], [], "training/train").steps,
        plan_rerun(live(training(4), COMPLETE)[0], "training/train", KEYS).steps,
    ):
        assert len(Cluster({"maxGpuPerJob": 3}, []).errors(steps)) == 1
        assert Cluster({"maxGpuPerJob": 4}, []).errors(steps) == []


def test_job_beyond_a_lowered_limit_may_change_without_asking_for_more() -> None:
    cluster = Cluster({"maxGpuPerJob": 3}, live(service(5)))
    assert cluster.apply(service(4)) == cluster.apply(service(5, image="chat:2")) == []
    assert len(cluster.apply(service(6))) == 1


OTHER = live(training(name="first"), uid="2")


@pytest.mark.parametrize(
    "there",
    [
        pytest.param([], id="created"),
        pytest.param(live(training(pool="other")), id="from another pool"),
        pytest.param(live(training(2), COMPLETE), id="created again after its end"),
    ],
)
def test_apply_of_too_many_jobs_is_refused(there: list[Object]) -> None:
    (error,) = Cluster({"maxJobs": 1}, [*OTHER, *there]).apply(training())
    assert error == "pool small allows 1 unfinished jobs: there are 1, and 1 would be added"
    assert Cluster({"maxJobs": 2}, [*OTHER, *there]).apply(training()) == []


def test_rerun_in_a_full_pool_is_refused() -> None:
    job = live(training(), COMPLETE)
    steps = plan_rerun(job[0], "training/train", KEYS).steps
    (error,) = Cluster({"maxJobs": 1}, [*OTHER, *job]).errors(steps)
    assert error == "pool small allows 1 unfinished jobs: there are 1, and 1 would be added"
    assert Cluster({"maxJobs": 2}, [*OTHER, *job]).errors(steps) == []


def test_move_between_pools_frees_its_place() -> None:
    """Of two trainings that change in one plan, one leaves the full pool and the other enters it."""
    there = [*OTHER, *live(training(pool="other"))]
    assert Cluster({"maxJobs": 1}, there).apply(training(name="first", pool="other") + "---\n" + training()) == []


def test_unfinished_job_that_is_replaced_in_a_full_pool_is_not_one_more() -> None:
    assert Cluster({"maxJobs": 1}, [*OTHER, *live(training())]).apply(training(2)) == []


def test_run_takes_the_place_of_its_schedule() -> None:
    (schedule,) = live(training() + NIGHTLY)
    schedule["spec"]["concurrencyPolicy"] = "Allow"
    (first,) = plan_run(schedule, [], "training/train").steps
    assert first.desired is not None
    assert Cluster({"maxJobs": 1}, [schedule]).errors([first]) == []
    (second,) = plan_run(schedule, [first.desired], "training/train").steps
    (error,) = Cluster({"maxJobs": 1}, [schedule, first.desired]).errors([second])
    assert error == "pool small allows 1 unfinished jobs: there are 1, and 1 would be added"
