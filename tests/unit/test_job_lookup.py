"""Lookup of a job's object by its name or id, and of its history."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpuctl.apply.plan.plan import NoSuchJob
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import WORKLOADS, Resource
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.jobs.document_history import read_documents
from gpuctl.reading.jobs.job_lookup import JobNotFound, find_each, workload_of
from gpuctl.reading.jobs.job_objects import Identity, Job, group_by_job, job_id, newest_generation
from gpuctl.reading.jobs.job_rows import JobTableRow
from gpuctl.reading.jobs.status import Status
from gpuctl.usecases.changes.pause_and_resume import PausedJob
from gpuctl.usecases.queries.read_context import context_of
from gpuctl_server.changes import job_revisions
from gpuctl_server.changes.job_changes import JobRef
from gpuctl_server.changes.job_pausing import suspend_each
from gpuctl_server.http.http_problems import problem_of
from gpuctl_server.mirror.job_board import Board, ListedJob

DORA = 'User "dora" cannot list resource "secrets" in API group ""'


def pod(called: str, **owner: Any) -> dict[str, Any]:
    return {"metadata": {"name": called, "ownerReferences": [owner] if owner else []}}


@pytest.mark.parametrize("owner", [{}, {"kind": "Job", "name": "train"}], ids=["no owner", "no controller"])
def test_job_with_only_uncontrolled_pods_is_not_found(owner: dict[str, Any]) -> None:
    with pytest.raises(NoSuchJob, match="only pods of train in n are left") as caught:
        workload_of(Job(Identity("n", "train", "training"), None, [pod("a", **owner)]))
    assert caught.value.hint == "`kubectl delete pod a -n n` ends what runs"


def test_missing_controller_may_not_be_visible_yet() -> None:
    """The hint has no `kubectl delete pod`: an existing controller would recreate the pods."""
    pods = [pod("a", kind="Job", name="train", controller=True)]
    with pytest.raises(NoSuchJob, match="their controller is gone, or not visible yet") as caught:
        workload_of(Job(Identity("n", "train", "training"), None, pods))
    assert "try again" in (caught.value.hint or "")


def test_pods_of_a_controller_that_gpuctl_does_not_know_are_named_with_it() -> None:
    """They run on: neither is their controller gone, nor does Kubernetes delete them."""
    pods = [pod(name, kind="DaemonSet", name="agent", controller=True) for name in "ab"]
    with pytest.raises(NoSuchJob, match="pods of agent in n belong to DaemonSet/agent") as caught:
        workload_of(Job(Identity("n", "agent", "inference"), None, pods))
    assert caught.value.hint == "use the tool that created it"


@pytest.mark.parametrize("kind", ["Job", "StatefulSet"])
def test_id_is_the_same_before_the_main_object_is_visible(kind: str) -> None:
    """Watches of pods may be ahead of those of Jobs; after a deletion, pods remain for some time."""
    identity = Identity("n", "train", "training")
    main = {"kind": kind, "metadata": {"name": "train", "uid": "1f0e"}}
    pods = [pod("train-0", kind=kind, name="train", uid="1f0e", controller=True)]
    pods[0]["metadata"]["uid"] = "77aa"
    assert job_id(Job(identity, None, pods)) == job_id(Job(identity, main, pods))


@pytest.mark.parametrize("owner", [{}, {"kind": "ReplicaSet", "name": "train-6d4", "uid": "1f0e", "controller": True}])
def test_id_without_a_main_object_is_that_of_the_oldest_pod(owner: dict[str, Any]) -> None:
    pods = [pod("train-a", **owner), pod("train-b", **owner)]
    ids = set()
    for uid in ("77aa", "88bb"):
        pods[0]["metadata"]["uid"] = uid
        ids.add(job_id(Job(Identity("n", "train", "training"), None, pods)))
    assert len(ids) == 2


def test_of_two_objects_with_one_app_label_that_of_the_name_is_the_job() -> None:
    keys = records(Settings())

    def deployment(name: str) -> dict[str, Any]:
        labels = {"app": "web", keys.job_type: "inference"}
        return {"kind": "Deployment", "metadata": {"name": name, "namespace": "n", "uid": name, "labels": labels}}

    for names, main in ((["web-v2", "web-v1"], "web-v1"), (["canary", "web"], "web"), (["web", "canary"], "web")):
        job, other = group_by_job(map(deployment, names), [], keys)
        assert workload_of(job)["metadata"]["name"] == main
        assert workload_of(other)["metadata"]["name"] == other.identity.object_name != main
        assert newest_generation([other, job]) is job


def test_pods_of_objects_with_one_app_label_stay_with_their_own() -> None:
    keys = records(Settings())
    labels = {"app": "web", keys.job_type: "inference"}

    def owned(name: str, kind: str, owner: str) -> dict[str, Any]:
        found = pod(name, kind=kind, name=owner, uid=owner, controller=True)
        return {"metadata": {**found["metadata"], "namespace": "n", "uid": name, "labels": labels}}

    mains = [
        {"kind": kind, "metadata": {"name": name, "namespace": "n", "uid": f"{kind}-{name}", "labels": labels}}
        for kind, name in (("Deployment", "web"), ("Deployment", "web-canary"), ("StatefulSet", "web"))
    ]
    pods = [
        owned("a", "ReplicaSet", "web-6d4"),
        owned("b", "ReplicaSet", "web-canary-7f5"),
        owned("c", "StatefulSet", "web"),
        {"metadata": {"name": "d", "namespace": "n", "uid": "d", "labels": labels}},
    ]
    pods[2]["metadata"]["ownerReferences"][0]["uid"] = "StatefulSet-web"
    jobs = group_by_job(mains, pods, keys)
    found = {
        (workload_of(job)["kind"], workload_of(job)["metadata"]["name"]): {
            item["metadata"]["name"] for item in job.pods
        }
        for job in jobs
    }
    assert found == {
        ("Deployment", "web"): {"a", "d"},
        ("Deployment", "web-canary"): {"b"},
        ("StatefulSet", "web"): {"c"},
    }


def test_job_is_shown_once_its_main_object_is_seen() -> None:
    """A client that created a job waits for this: a change of a job of which only pods are seen is refused."""
    identity = Identity("n", "train", "training")
    pods = [pod("train-0", kind="Job", name="train", uid="1f0e", controller=True)]
    main = {"kind": "Job", "metadata": {"name": "train", "uid": "1f0e"}}
    state = Status("Running", "running")
    row = JobTableRow("1f0e", None, identity, state, "0/1", None, None, None, None, (), 0, None, None)
    boards = [Board(ids={"train-1": (ListedJob("train-1", Job(identity, main, pods), row),)}) for main in (None, main)]
    assert [board.shows("train-1") for board in boards] == [False, True]
    assert not boards[1].shows("train-2")


class Lists:
    """A session that lists the objects that a selector names, and counts the lists."""

    namespace = "n"

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.objects = objects
        self.number = 0

    def list_objects(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> tuple[list[dict[str, Any]], str]:
        self.number += 1
        named = re.findall(r"[\w-]+", labels.partition("app")[2])
        found = [
            obj for obj in self.objects if obj["kind"] == resource.kind and obj["metadata"]["labels"]["app"] in named
        ]
        return found, "1"

    def each(self, task: Any, items: Any) -> list[Any]:
        return [task(item) for item in items]


def test_jobs_of_many_names_are_listed_once() -> None:
    keys = records(Settings())

    def main(app: str, name: str = "") -> dict[str, Any]:
        labels = {"app": app, keys.job_type: "training"}
        return {
            "kind": "Job",
            "metadata": {"name": name or app, "namespace": "n", "uid": name or app, "labels": labels},
        }

    session = Lists([main(f"train-{number}") for number in range(40)] + [main("sft", "sft-abcdef")])
    first = group_by_job([main("train-0")], [], keys)[0]
    texts = [f"train-{number}" for number in range(1, 40)] + [job_id(first), "training/train-1", "sft-abcdef"]
    found = find_each(Scope(cast(Session, session), "n"), texts, keys)
    names = [job.identity.object_name for job in found]
    assert names == [f"train-{number}" for number in (*range(1, 40), 0, 1)] + ["sft-abcdef"]
    assert session.number == len(WORKLOADS) + 1


def test_service_lists_the_jobs_that_it_pauses_once() -> None:
    keys = records(Settings())
    mains = [
        {
            "kind": "Job",
            "metadata": {
                "name": f"train-{number}",
                "namespace": "n",
                "uid": str(number),
                "labels": {"app": f"train-{number}", keys.job_type: "training"},
            },
        }
        for number in range(40)
    ]
    session: Any = Lists(mains)
    jobs, acted = group_by_job(mains, [], keys), list[str]()

    def act(_: Session, found: Sequence[Job], settings: Settings) -> Iterator[PausedJob]:
        acted.extend(job.identity.name for job in found)
        return iter(())

    change: Any = SimpleNamespace(
        touched=SimpleNamespace(begin=lambda: None), service=SimpleNamespace(platform=Settings()), dry_run=True
    )
    assert list(suspend_each(change, session, [*jobs, jobs[0]], act)) == []
    assert acted == [job.identity.name for job in jobs]
    assert session.number == len(WORKLOADS) + 1


@pytest.mark.parametrize(
    ("namespace", "hint"),
    [
        (None, "name a namespace that you may read with -n NAMESPACE"),
        ("n", "ask the platform's administrators for this right"),
    ],
)
def test_history_that_may_not_be_read_says_where_it_is(namespace: str | None, hint: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ApiError(403, "Forbidden", f"secrets is forbidden: {DORA} at the cluster scope")

    session: Any = SimpleNamespace(namespace="n", list_objects=refuse)
    with pytest.raises(ApiError) as caught:
        read_documents(Scope(session, namespace), "train", records(Settings()))
    assert caught.value.hint == f"the history of a job is in Secrets of its namespace; {hint}"


@pytest.mark.parametrize("sees", [True, False], ids=["default namespace", "other namespaces"])
def test_rerun_of_an_absent_job_by_a_caller_who_may_not_read_histories(sees: bool) -> None:
    """The answer is 404 with a similar name, as on the command line. A deleted training needs its history: a hint."""
    refusal = ApiError(403, "Forbidden", f'secrets is forbidden: {DORA} in the namespace "n"')

    def listed(resource: Resource, *_: object, **__: object) -> tuple[list[Any], str]:
        if resource.plural == "secrets":
            raise refusal
        return [], "1"

    session: Any = SimpleNamespace(namespace="n", list_objects=listed, each=lambda *given: list(map(*given)))
    service = SimpleNamespace(
        namespace="n",
        platform=Settings(),
        read_context=lambda caller, namespace: nullcontext(context_of(session, Settings(), namespace)),
        live_session=lambda caller: nullcontext(session),
    )
    caller = SimpleNamespace(
        home=None, may=lambda request: SimpleNamespace(allowed=True), sees=lambda namespace: sees, pools=None
    )
    change: Any = SimpleNamespace(service=service, caller=caller)
    absent = JobNotFound("there is no job or pod trian", "did you mean `train`?")
    with pytest.raises(JobNotFound) as caught:
        job_revisions.rerun_removed(change, JobRef("trian"), RunOptions(), absent)
    problem = problem_of(caught.value)
    assert problem is not None
    assert problem.status == 404
    history = "a deleted training runs again only from its history, but user dora may not list secrets in namespace n"
    if sees:
        assert (problem.message, problem.hint) == (absent.message, f"did you mean `train`?; {history}")
