"""`apply`, `create` and `diff`: compile documents, plan, and carry the plan out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gpuctl.apply.complete_plan import preview
from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.background_history import BackgroundHistory
from gpuctl.apply.run.history_writer import ApplyOrigin
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.run.wait_running import NotRunning, wait_until_running
from gpuctl.apply.state.git_repository import Checkout, Commit, commit_of
from gpuctl.apply.workflow import apply
from gpuctl.compilation import Compilation
from gpuctl.frontend.document_variant import OPTION
from gpuctl.frontend.source import Source
from gpuctl.frontend.work_tree import work_tree
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key
from gpuctl.objects.ownership_metadata import Records
from gpuctl.reading.jobs.job_lookup import find_job
from gpuctl.reading.why.cause_summary import cause_of
from gpuctl.usecases.changes.rollback_on_timeout import restore_late_workloads
from gpuctl.usecases.documents.change_options import DocumentOptions, InvalidOptions
from gpuctl.usecases.documents.compiling import compile_and_report, request_of, set_options


@dataclass(frozen=True)
class DocumentRequest:
    """Documents compiled for a cluster, with the apply request.

    :param origin: author and commit that the history records; None: the commit of the sources and the authenticated
        user.
    """

    compilation: Compilation
    request: ApplyRequest
    origin: ApplyOrigin | None = None


def request_for(
    session: Session,
    documents: DocumentOptions,
    planning: PlanOptions,
    callbacks: RunCallbacks,
    *,
    offline: bool = False,
) -> DocumentRequest:
    """Compile documents for a cluster.

    :param offline: decide without the API server's dry-runs.
    :raises InvalidOptions: the options contradict each other.
    :raises InvalidDocuments: there are errors in the documents.
    """
    options = set_options(session, planning, documents)
    compilation = compile_and_report(session, documents, callbacks, empty=planning.allow_empty or planning.prune)
    if options is not None:
        options = replace(options, checkout=checkout_of_sources(compilation.sources.values()))
    return DocumentRequest(compilation, request_of(compilation, planning, options, offline=offline))


def preview_request(
    session: Session, wanted: DocumentRequest, callbacks: RunCallbacks, *, checkpoint: bool = True
) -> Plan:
    """Return the plan of an apply. Nothing is written.

    :param checkpoint: see :class:`RunOptions`.
    """
    callbacks.on_wait("comparing with the cluster ...")
    return preview(session, wanted.request, checkpoint=checkpoint)


def apply_request(
    session: Session,
    wanted: DocumentRequest,
    run: RunOptions,
    callbacks: RunCallbacks,
    seen: Plan | None = None,
) -> Plan:
    """Apply the documents. Each step of the returned plan has its result.

    :param seen: an earlier plan that was confirmed: nothing else may be deleted or overwritten.
    :raises Changed: more than that would be deleted or overwritten; nothing was changed.
    :raises Refused: a check failed, or the user did not confirm; nothing was changed.
    :raises LeaseHeld: another run is active; nothing was changed.
    :raises NotRunning: with ``wait``: the documents were applied, but a workload does not run.
    :raises InvalidOptions: the options contradict each other.
    """
    if run.rollback and not run.wait:
        raise InvalidOptions(say("rollback needs wait: it restores workloads that do not run in time"))
    request = wanted.request
    with BackgroundHistory(session, request.keys, partial(_origin, wanted)) as recorder:
        plan = apply(session, request, run, recorder.follow(callbacks), seen)
        recorder.finish()
    if run.wait and plan.is_done:
        _await(session, plan, wanted, run, callbacks)
    return plan


def _await(session: Session, plan: Plan, wanted: DocumentRequest, run: RunOptions, callbacks: RunCallbacks) -> None:
    """Wait until a plan's workloads run. With ``rollback``, restore those that do not run in time."""
    keys, settings = wanted.request.keys, wanted.request.settings
    explain = failure_explainer(session, keys, settings)
    try:
        wait_until_running(session, plan, keys, run.timeout, callbacks.on_wait, explain, each=run.rollback)
    except NotRunning as error:
        if not run.rollback:
            raise
        who = wanted.origin.who if wanted.origin is not None else None
        raise restore_late_workloads(session, wanted.request, error, run, callbacks, who) from None


def _origin(wanted: DocumentRequest) -> ApplyOrigin:
    """Return author and commit for the history."""

    def commit() -> Commit | None:
        own = wanted.request.set_options
        known = own.checkout if own is not None else None
        checkout = known or checkout_of_sources(wanted.compilation.sources.values())
        return None if checkout is None else checkout.commit

    origin = wanted.origin or ApplyOrigin(commit=commit)
    if origin.variants:
        return origin
    variants = {
        (item.namespace, item.name): item.overlay.variant
        for item in wanted.compilation.documents
        if item.overlay is not None
    }
    return replace(origin, variants=variants)


def checkout_of_sources(sources: Iterable[Source]) -> Checkout | None:
    """Return the commit that files were read from; None for texts, and for files of several repositories or of none.

    The texts of `--with` do not count: the history lists them.
    """
    paths = [
        None if source.path is None else Path(os.path.realpath(source.path))
        for source in sources
        if source.name != OPTION
    ]
    roots = {None if path is None else work_tree(path) for path in paths}
    root = roots.pop() if len(roots) == 1 else None
    commit = None if root is None else commit_of(root, [path for path in paths if path is not None])
    return None if root is None or commit is None else Checkout(root, commit)


def failure_explainer(session: Session, keys: Records, settings: Settings) -> Callable[[Key], str]:
    """Return a function that returns the cause of `gpuctl why` for a workload; "" if unknown."""

    def explain(key: Key) -> str:
        scope = Scope(session, key.namespace)
        try:
            job, _ = find_job(scope, key.name, keys)
        except ClusterError:
            return ""
        return cause_of(scope, job, keys, settings)

    return explain
