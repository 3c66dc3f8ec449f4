"""What the command line asks as a client: the use cases that it would carry out itself with a kubeconfig.

A question has the name of a use case, and is answered with its value (:mod:`gpuctl.usecases.wire`), without what
whoever asks may not see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from typing import Any, NamedTuple, TypeVar, get_type_hints

from gpuctl.kube.scope import Scope
from gpuctl.language.masking import masked
from gpuctl.reading.describe_job import JobDetail
from gpuctl.reading.find import find_job
from gpuctl.reading.job_rows import Job
from gpuctl.reading.why.answer import Answer
from gpuctl.release import __version__
from gpuctl.usecases import job_queries
from gpuctl.usecases.job_queries import GpuUse, JobQuery, ListedRows
from gpuctl.usecases.looking import Reader
from gpuctl.usecases.wire import NotOfThisForm, decode, encode, refuse_unknown_fields
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import Wish
from gpuctl_server.audit import AuditTrail
from gpuctl_server.lookups import demand
from gpuctl_server.others import told_together
from gpuctl_server.problems import Problem, UnknownPath
from gpuctl_server.service import Service

Value = TypeVar("Value")


class Asked(NamedTuple):
    """Who asks what service about which namespace (None: all that they may see). ``scope`` takes up notes, ``touched``
    the names of what a change is about."""

    service: Service
    caller: Caller
    scope: Scope
    reader: Reader
    touched: AuditTrail

    @property
    def namespace(self) -> str | None:
        """As it was said."""
        return self.scope.namespace


class CommandQuestion(NamedTuple):
    """A question: the name of a use case, where, and with which arguments."""

    name: str
    namespace: str | None
    arguments: dict[str, Any]


def answer_question(
    service: Service,
    caller: Caller,
    asking: CommandQuestion,
    questions: Mapping[str, Callable[..., Any]],
    touched: AuditTrail | None = None,
) -> dict[str, Any]:
    """The answer to a question of the command line.

    :param questions: name of a use case -> what answers it.
    :raises Problem: 400, 403, 404, and whatever the use case raises.
    """
    question, namespace, arguments = asking
    function = questions.get(question)
    if function is None:
        raise UnknownPath
    with asked_by(service, caller, namespace, touched) as asked:
        value = called(function, asked, arguments)
        told = told_together(encode(value))
        return {"version": __version__, "answer": told, "notes": asked.scope.notes}


@contextmanager
def asked_by(
    service: Service, caller: Caller, namespace: str | None, touched: AuditTrail | None = None
) -> Iterator[Asked]:
    """A look at what somebody may see, for a question about a namespace."""
    with service.looking(caller, namespace) as reader:
        # Without a trail it is a question.
        yield Asked(service, caller, reader.scope, reader, AuditTrail(preview=True) if touched is None else touched)


def called(function: Callable[..., Value], asked: Asked, arguments: dict[str, Any]) -> Value:
    """What a function answers to arguments as they were sent.

    :raises Problem: 400, they are not its own.
    """
    return function(asked, **_arguments(function, arguments))


def _arguments(function: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    wanted = {name: kind for name, kind in get_type_hints(function).items() if name not in ("asked", "return")}
    try:
        refuse_unknown_fields(given, wanted)
        defaults = {name for name, item in signature(function).parameters.items() if item.default is not item.empty}
        missing = set(wanted) - set(given) - defaults
        if missing:
            raise NotOfThisForm(f"`{min(missing)}` is missing")
        return {name: decode(kind, given[name], asks=True) for name, kind in wanted.items() if name in given}
    except NotOfThisForm as error:
        raise Problem(
            400,
            f"the arguments are not those of gpuctl {__version__}: {error}",
            error="InvalidRequest",
            hint="the command line has to be of the same version as the service",
        ) from None


def _list_jobs(asked: Asked, query: JobQuery) -> ListedRows:
    demand(asked.caller, Wish("get", "jobs", asked.namespace))
    if not query.reasons:
        listing = job_queries.list_jobs(asked.reader, query)
        rows = list(listing.rows)
        return ListedRows(rows, listing.statuses, listing.stuck)
    # For what a job waits is told by the cluster itself, where everybody's pods count.
    with asked.service.weighing(asked.caller, asked.namespace) as reader:
        listing = job_queries.list_jobs(asked.reader, query, weighing=reader)
        rows = list(listing.rows)
        for note in reader.scope.notes:
            asked.scope.note(note)
    return ListedRows(rows, listing.statuses, listing.stuck)


def _gpu_use(asked: Asked) -> GpuUse:
    demand(asked.caller, Wish("get", "jobs", asked.namespace))
    listing = job_queries.list_jobs(asked.reader, JobQuery())
    list(listing.rows)
    return job_queries.gpu_use(asked.reader, listing.jobs)


def _describe_job(asked: Asked, name: str) -> JobDetail:
    return _of_job(asked, name, job_queries.describe_job, _told)


def _explain_job(asked: Asked, name: str) -> Answer:
    return _of_job(asked, name, job_queries.explain_job, _told_why)


def _of_job(asked: Asked, name: str, use_case: Callable[[Reader, str], Value], told: Callable[[Value], Value]) -> Value:
    """What a use case says of a job that may be seen: looked at in the cluster itself, where everybody's pods count."""
    demand(asked.caller, Wish("get", "jobs", asked.namespace))
    job = found_job(asked, name)
    identity = job.identity
    with asked.service.weighing(asked.caller, identity.namespace) as reader:
        value = use_case(reader, f"{identity.kind}/{identity.object_name}" if job.workload is not None else name)
        for note in reader.scope.notes:
            asked.scope.note(note)
        return told(value)


def found_job(asked: Asked, name: str) -> Job:
    """The job that a name means, among those that may be seen.

    :raises NoSuchJob: there is none, or there are several.
    """
    job, _ = find_job(asked.scope, name, asked.reader.keys)
    return job


def _told(detail: JobDetail) -> JobDetail:
    """A detail without credentials, and of its objects what is shown."""
    return replace(
        detail,
        job=slim(detail.job),
        answer=_told_why(detail.answer),
        document=None if detail.document is None else masked(detail.document),
    )


def _told_why(answer: Answer) -> Answer:
    return replace(answer, job=slim(answer.job))


def slim(job: Job) -> Job:
    """A job without its objects but for what is shown of them."""
    if job.workload is None:
        return Job(job.identity, None)
    # By its uid it is known who held GPUs.
    metadata = {name: job.workload["metadata"][name] for name in ("name", "uid")}
    status = {"conditions": (job.workload.get("status") or {}).get("conditions") or []}
    return Job(job.identity, {"kind": job.workload["kind"], "metadata": metadata, "status": status})


QUESTIONS: dict[str, Callable[..., Any]] = {
    "list-jobs": _list_jobs,
    "gpu-use": _gpu_use,
    "describe-job": _describe_job,
    "explain-job": _explain_job,
}
"""Name of a use case -> what answers it."""
