"""What the command line changes as a client: the same plans, asked about before anything is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import Any

from gpuctl.api.failures import meaning_of
from gpuctl.apply.plan.confirmations import all_confirmed
from gpuctl.apply.plan.deletion import absent_job
from gpuctl.apply.plan.differences import before_and_after, masked_change
from gpuctl.apply.plan.plan import WRITING, Plan, Step
from gpuctl.apply.run.options import RunCallbacks, RunOptions
from gpuctl.apply.state.compare import Change
from gpuctl.kube.api_errors import ClusterError, NotPossible
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.masking import redact
from gpuctl.objects.api_resources import WORKLOADS, Key
from gpuctl.objects.ownership_metadata import Records
from gpuctl.reading.document_history import NoHistory
from gpuctl.reading.find import Absent
from gpuctl.reading.job_rows import Job, job_row, labels
from gpuctl.usecases.applying import apply_request, preview_request
from gpuctl.usecases.change_options import LONGEST_BY_SERVICE, PlanOptions
from gpuctl.usecases.compiling import worth_telling
from gpuctl.usecases.deleting import delete_jobs, rerun_jobs
from gpuctl.usecases.service_changes import ToldChange, ToldPauses, ToldPlan
from gpuctl.usecases.service_client import Refusal
from gpuctl.usecases.service_documents import SentDocuments, unlike
from gpuctl.usecases.suspending import PausedJob
from gpuctl_server.access.rights import Action, Wish
from gpuctl_server.changing import changing, talking
from gpuctl_server.command_line import Asked, found_job, slim
from gpuctl_server.earlier_documents import earlier_document, visible_history
from gpuctl_server.job_pausing import pausing_with, resuming_with
from gpuctl_server.lookups import demand
from gpuctl_server.others import seen_names
from gpuctl_server.problems import Problem
from gpuctl_server.service import Service
from gpuctl_server.submissions import (
    Submission,
    compile_documents,
    demand_documents,
    demand_homes,
)


class Asks(Exception):
    """A plan has to be confirmed first."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan


class Listener:
    """Callbacks that collect what they are given, and confirm what was confirmed before."""

    def __init__(self, asked: Asked, confirmed: Iterable[str]) -> None:
        self._confirmed = list(confirmed)
        self._stops = asked.service.writes.is_ending
        self._touched = asked.touched
        self.finished: list[Step] = []
        self.said: list[str] = []

    def callbacks(self) -> RunCallbacks:
        """For a use case."""
        return RunCallbacks(
            confirm=self._confirm,
            begins=lambda plan: self._touched.begin(),
            done=self.finished.append,
            say=self.said.append,
            stops=self._stops,
            longest_checkpoint=LONGEST_BY_SERVICE,
        )

    def places(self, plan: Plan) -> list[int]:
        """The steps of a plan that were finished, in that order, by their places in it."""
        places = {id(step): place for place, step in enumerate(plan.steps)}
        return [places[id(step)] for step in self.finished if id(step) in places]

    def _confirm(self, plan: Plan) -> bool:
        if not all_confirmed(masked_texts([*plan.questions, *plan.courtesies]), self._confirmed):
            raise Asks(plan)
        return True


def preview(asked: Asked, documents: SentDocuments, planning: PlanOptions, checkpoint: bool) -> ToldChange:
    """What applying documents would do; nothing is written."""
    demand(asked.caller, Wish("create", "plans"))
    with asked.service.asking(asked.caller) as session:
        submission = compiled(asked, session, documents, planning)
        demand_documents(asked.caller, "create", submission.documents, jobs="plans")
        plan = preview_request(session, submission.wanted, RunCallbacks(), checkpoint=checkpoint)
    told = told_plan(plan, submission.wanted.request.keys)
    return ToldChange(
        told,
        diagnostics=worth_telling(submission.wanted.compilation),
        platform=unlike(documents, asked.service.platform),
    )


def apply(
    asked: Asked, documents: SentDocuments, planning: PlanOptions, run: RunOptions, confirmed: list[str]
) -> ToldChange:
    """Bring about what documents say."""
    with changing(asked.service, asked.caller) as session:
        submission = compiled(asked, session, documents, planning)
        actions: Sequence[Action] = ("create",) if planning.create_only else ("create", "update")
        told = _applied(asked, session, submission, actions, run, confirmed)
    return told._replace(platform=unlike(documents, asked.service.platform))


def _applied(
    asked: Asked,
    session: Session,
    submission: Submission,
    actions: Sequence[Action],
    run: RunOptions,
    confirmed: list[str],
) -> ToldChange:
    """Apply a submission, where the caller may do all of ``actions``."""
    asked.touched.extend(submission.titles)
    for action in actions:
        demand_documents(asked.caller, action, submission.documents)
    demand_homes(asked.caller, session, submission.documents)
    told = carried_out(
        asked,
        session,
        confirmed,
        lambda callbacks: apply_request(session, submission.wanted, bounded(run), callbacks),
        submission.wanted.request.keys,
    )
    return told._replace(diagnostics=worth_telling(submission.wanted.compilation))


def delete(asked: Asked, names: list[str], where: str | None, run: RunOptions, confirmed: list[str]) -> ToldChange:
    """Delete jobs by name."""
    return _named(asked, "delete", delete_jobs, (names, where), run, confirmed)


def rerun(asked: Asked, names: list[str], where: str | None, run: RunOptions, confirmed: list[str]) -> ToldChange:
    """Run trainings again that have ended."""
    seeing = partial(rerun_jobs, sees=seen_names(asked.caller))
    try:
        return _named(asked, "update", seeing, (names, where), run, confirmed)
    except Absent as absent:
        if len(names) > 1:
            raise
        try:
            with changing(asked.service, asked.caller) as session:
                submission = _earlier(asked, session, names[0], where, None, PlanOptions(queue=run.queue), again=True)
                return _applied(asked, session, submission, ("create", "update"), run, confirmed)
        except NoHistory:
            raise absent from None


def rollback(
    asked: Asked,
    name: str,
    where: str | None,
    to: int | None,
    planning: PlanOptions,
    run: RunOptions,
    confirmed: list[str],
) -> ToldChange:
    """Apply an earlier document of a job again."""
    with changing(asked.service, asked.caller) as session:
        submission = _earlier(asked, session, name, where, to, planning)
        return _applied(asked, session, submission, ("create", "update"), run, confirmed)


def preview_rollback(
    asked: Asked, name: str, where: str | None, to: int | None, planning: PlanOptions, checkpoint: bool
) -> ToldChange:
    """What applying an earlier document of a job would do; nothing is written."""
    demand(asked.caller, Wish("create", "plans"))
    with asked.service.asking(asked.caller) as session:
        submission = _earlier(asked, session, name, where, to, planning)
        demand_documents(asked.caller, "create", submission.documents, jobs="plans")
        plan = preview_request(session, submission.wanted, RunCallbacks(), checkpoint=checkpoint)
    told = told_plan(plan, submission.wanted.request.keys)
    return ToldChange(told, diagnostics=worth_telling(submission.wanted.compilation))


def _earlier(
    asked: Asked,
    session: Session,
    name: str,
    where: str | None,
    to: int | None,
    planning: PlanOptions,
    *,
    again: bool = False,
) -> Submission:
    _refuse_sets(planning)
    with asked.service.looking(asked.caller, where) as reader:
        history = visible_history(asked.service, asked.caller, reader, name)
    return earlier_document(asked.service, asked.caller, session, history, to, planning, again=again)


def suspend(asked: Asked, names: list[str], pausing: bool, checkpoint: bool, confirmed: bool = False) -> ToldPauses:
    """Pause or resume jobs, one after another, as far as that goes."""
    with changing(asked.service, asked.caller) as session:
        jobs = _meant(asked, "update", names, asked.namespace)
        done: list[PausedJob] = []
        if pausing:
            act = pausing_with(asked.service, checkpoint=checkpoint)
        else:
            act = resuming_with(asked.caller, talking(asked.service, confirmed=confirmed, by="--yes confirms it"))
        asked.touched.begin()
        try:
            for job in jobs:
                scope = Scope(session, job.identity.namespace)
                for paused in act(scope, [f"{job.identity.kind}/{job.identity.object_name}"], asked.service.platform):
                    done.append(paused._replace(job=slim(paused.job)))
        except ClusterError as error:
            return ToldPauses(done, refusal_of(error))
        await_seen(asked.service, session, [paused.result.key for paused in done])
    return ToldPauses(done, None)


def _named(
    asked: Asked,
    action: Action,
    use_case: Callable[..., Plan],
    meant: tuple[list[str], str | None],
    run: RunOptions,
    confirmed: list[str],
) -> ToldChange:
    """Carry out a use case about jobs that are named, all in one namespace."""
    names, where = meant
    with changing(asked.service, asked.caller) as session:
        jobs = _meant(asked, action, names, where)
        namespaces = {job.identity.namespace for job in jobs}
        if len(namespaces) > 1:
            raise NotPossible("these jobs are in several namespaces", "name those of one at a time, with -n NAMESPACE")
        (namespace,) = namespaces
        settings = asked.service.platform
        return carried_out(
            asked,
            session,
            confirmed,
            lambda callbacks: use_case(session, names, namespace, settings, bounded(run), callbacks),
            asked.service.keys,
        )


def _meant(asked: Asked, action: Action, names: Sequence[str], where: str | None) -> list[Job]:
    """The jobs of names, which somebody may do this to."""
    demand(asked.caller, Wish(action, "jobs", where))
    known = labels(asked.service.platform, asked.service.keys)
    jobs = []
    with asked.service.looking(asked.caller, where) as reader:
        for name in names:
            try:
                job = found_job(asked._replace(reader=reader, scope=reader.scope), name)
            except Absent:
                if action != "delete" or "/" in name:
                    raise
                raise absent_job(name, where) from None
            identity = job.identity
            demand(asked.caller, Wish(action, "jobs", identity.namespace, job_row(job, known).pool))
            asked.touched.append(f"{identity.kind}/{identity.name} in {identity.namespace}")
            jobs.append(job)
    return jobs


def compiled(asked: Asked, session: Session, documents: SentDocuments, planning: PlanOptions) -> Submission:
    """Documents that somebody has sent.

    :raises InvalidDocuments: there are errors in them.
    :raises Problem: 400, 403.
    """
    _refuse_sets(planning)
    if planning.create_namespace:
        demand(asked.caller, Wish("create", "namespaces", documents.namespace))
    sources = [source._replace(path=None) for source in documents.sources]
    return compile_documents(
        asked.service,
        asked.caller,
        session,
        "",
        namespace=documents.namespace,
        planning=planning,
        sources=sources,
        strict=documents.strict,
    )


def _refuse_sets(planning: PlanOptions) -> None:
    if planning.set_name is not None or planning.adopt or planning.prune:
        raise Problem(400, "sets and --adopt are for those who reach the cluster itself")


def bounded(run: RunOptions) -> RunOptions:
    """How a plan is carried out here: for so long at most, and without a wait that whoever asks does by questions."""
    return replace(run, timeout=min(run.timeout, LONGEST_BY_SERVICE), wait=False)


def carried_out(
    asked: Asked, session: Session, confirmed: list[str], act: Callable[[RunCallbacks], Plan], keys: Records
) -> ToldChange:
    """Carry a plan out as far as it was confirmed."""
    listener = Listener(asked, confirmed)
    try:
        plan = act(listener.callbacks())
    except Asks as asks:
        return ToldChange(told_plan(asks.plan, keys), asks=True)
    except ClusterError as error:
        refused = getattr(error, "plan", None)
        told = told_plan(refused, keys) if isinstance(refused, Plan) else None
        finished = listener.places(refused) if isinstance(refused, Plan) else []
        return ToldChange(told, refusal=refusal_of(error), finished=finished, said=listener.said)
    await_seen(asked.service, session, [step.key for step in plan.steps if step.result == "done" and step.desired])
    return ToldChange(told_plan(plan, keys), finished=listener.places(plan), said=listener.said)


def await_seen(service: Service, session: Session, keys: Iterable[Key]) -> None:
    """Wait until what was written is what is read next, as far as it is of jobs."""
    with suppress(ClusterError):
        found = session.each(session.get, [key for key in keys if key.kind in WORKLOADS])
        service.wait_until_seen(obj for obj in found if obj is not None)


def refusal_of(error: ClusterError) -> Refusal:
    """An error that a use case has ended with, as it is told."""
    meaning = meaning_of(error)
    assert meaning is not None
    return Refusal(meaning.status, meaning.name, error.message, error.hint)


def told_plan(plan: Plan, keys: Records) -> ToldPlan:
    """A plan without objects and credentials; with the differences that are shown, and the questions."""
    values: dict[str, Any] = {field.name: getattr(plan, field.name) for field in fields(Plan)}
    values |= {
        "steps": [told_step(step, keys) for step in plan.steps],
        "recovery": [told_step(step, keys) for step in plan.recovery],
        "notes": masked_texts(plan.notes),
        "errors": masked_texts(plan.errors),
        "tracked": masked_texts(plan.tracked),
    }
    return ToldPlan(**values, asked=masked_texts(plan.questions), polite=masked_texts(plan.courtesies))


def told_step(step: Step, keys: Records) -> Step:
    """A step without objects and credentials."""
    return replace(
        step,
        desired=None,
        live=None,
        restorable=None,
        claims=None,
        shown=before_and_after(step, keys) if step.action in WRITING else (None, None),
        changes=[masked_change(change) for change in step.changes],
        lost=[_told_loss(field) for field in step.lost],
        error=None if step.error is None else redact(step.error),
    )


def _told_loss(lost: Any) -> Any:
    hidden = masked_change(Change(lost.path, lost.value, lost.new))
    return lost._replace(value=hidden.old, new=hidden.new)


def masked_texts(texts: Iterable[str]) -> list[str]:
    """Texts without credentials."""
    return [redact(text) for text in texts]


CHANGES: dict[str, Callable[..., Any]] = {
    "apply": apply,
    "delete-jobs": delete,
    "rerun-jobs": rerun,
    "rollback": rollback,
    "suspend-jobs": suspend,
}
"""Name of a use case that changes something -> what carries it out."""
