"""``gpuctl.plan`` and ``gpuctl.apply``: what ``gpuctl diff`` and ``gpuctl apply`` do, for programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from gpuctl.api.plan_answers import plan_value
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.plan.plan_options import PlanOptions, Strategy
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions, refuse_questions
from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.frontend.document_variant import Variant
from gpuctl.frontend.source import Source
from gpuctl.kube.configuration import session_of
from gpuctl.kube.connection import Connection
from gpuctl.usecases.changes.applying import DocumentRequest, apply_request, preview_request, request_for
from gpuctl.usecases.documents.change_options import DocumentOptions, InvalidOptions
from gpuctl.usecases.documents.compiling import reportable_diagnostics

Input: TypeAlias = "str | os.PathLike[str] | Source"
Confirm: TypeAlias = "bool | Callable[[DocumentPlan], bool]"


@dataclass(frozen=True)
class DocumentPlan:
    """The plan of an apply, or after :func:`apply` its outcome.

    ``plan``: the full plan. ``request``: the documents and options it was made from. ``server``: address of the
    cluster.
    """

    plan: Plan
    request: DocumentRequest
    server: str

    @property
    def steps(self) -> list[Step]:
        """The change to each object, in order: ``action``, ``key``, ``reason``; after the run also ``result``,
        ``error``.
        """
        return self.plan.steps

    @property
    def recovery(self) -> list[Step]:
        """Steps that first complete or undo interrupted runs."""
        return self.plan.recovery

    @property
    def errors(self) -> list[str]:
        """Reasons why the plan cannot be applied, including missing permissions and GitOps controllers."""
        return self.plan.obstacles

    @property
    def questions(self) -> list[str]:
        """Points to confirm, because running work would end."""
        return self.plan.questions

    @property
    def notes(self) -> list[str]:
        """Notes on the plan."""
        return self.plan.notes

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Warnings and notes about the documents."""
        return reportable_diagnostics(self.request.compilation)

    @property
    def writes(self) -> bool:
        """True if the plan changes anything in the cluster."""
        return self.plan.writes or bool(self.plan.recovery)

    @property
    def ok(self) -> bool:
        """True if nothing prevents the plan, and no step has failed."""
        return not self.errors and all(step.result in ("planned", "done") for step in self.steps)

    def json(self) -> dict[str, Any]:
        """Return the output of ``gpuctl apply -o json``, before a run as with ``--dry-run``; secrets are masked."""
        return plan_value(self.plan, error="\n".join(self.errors) or None)


def plan(
    sources: Sequence[Input] | Input,
    *,
    cluster: Connection | None = None,
    namespace: str | None = None,
    platform: Input | None = None,
    strict: bool = False,
    directory: Path | None = None,
    stdin: BinaryIO | None = None,
    set: str | None = None,
    prune: bool = False,
    allow_source: bool = False,
    allow_empty: bool = False,
    allow_skipped: bool = False,
    allow_older: bool = False,
    strategy: Strategy | None = None,
    relower: bool = False,
    adopt: bool = False,
    no_probe: bool = False,
    create_namespace: bool = False,
    create_only: bool = False,
    queue: bool = False,
    cluster_name: str | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    offline: bool = False,
) -> DocumentPlan:
    """Plan an apply of documents to a cluster. Nothing is written.

    :param sources: files, directories, ``-`` for standard input, or :class:`gpuctl.Source` texts, in any mix.
    :param cluster: the cluster; default: the one that kubectl would use.
    :param namespace: for jobs that name none; default: the namespace of the kubeconfig's context.
    :param platform: the platform's file; default: ``platform.yaml`` at or above each source.
    :param strict: report warnings as errors.
    :param directory: the directory of standard input and texts; default: the current directory.
    :param stdin: stream read for ``-``; default: standard input.
    :param set: name of the set that the documents form.
    :param prune: delete objects of the set that are no longer in the documents.
    :param allow_source: accept other sources than the set had before.
    :param allow_empty: prune although no document remains.
    :param allow_skipped: prune although files were not read.
    :param allow_older: accept an older commit than the one the set was applied from.
    :param strategy: how changed services are changed, ``replace`` or ``rolling``.
    :param relower: also replace objects that differ only because a newer gpuctl lowers them differently.
    :param adopt: take over objects and fields that another manager owns.
    :param no_probe: report a rejected trial pod as a note, not an error.
    :param create_namespace: create the namespace of the jobs if it does not exist.
    :param create_only: reject objects that exist.
    :param queue: create jobs even if a quota has no room for their pods; they start when it has.
    :param cluster_name: the platform's name of this cluster: documents of other clusters are left out.
    :param profile: merge this profile into the documents that have `profiles`.
    :param overrides: fields to override, each as ``PATH=VALUE`` or ``JOB:PATH=VALUE``.
    :param offline: plan without the API server's dry-runs.
    :raises InvalidDocuments: the documents have errors.
    :raises InvalidOptions: options contradict each other.
    :raises Refused: no plan can be made, for example for a set from other sources.
    :raises ClusterError: the cluster cannot be reached.
    """
    documents = replace(
        _documents(sources, platform, namespace, strict, directory, stdin),
        cluster=cluster_name,
        variant=Variant(profile, tuple(overrides)),
    )
    options = PlanOptions(
        set_name=set,
        prune=prune,
        allow_source=allow_source,
        allow_empty=allow_empty,
        allow_skipped=allow_skipped,
        allow_older=allow_older,
        strategy=strategy,
        relower=relower,
        adopt=adopt,
        no_probe=no_probe,
        create_namespace=create_namespace,
        create_only=create_only,
        queue=queue,
    )
    silent = RunCallbacks()
    with session_of(cluster) as session:
        request = request_for(session, documents, options, silent, offline=offline)
        return DocumentPlan(preview_request(session, request, silent), request, session.server)


def apply(
    what: DocumentPlan | Sequence[Input] | Input,
    *,
    cluster: Connection | None = None,
    confirm: Confirm = False,
    wait: bool = False,
    rollback: bool = False,
    timeout: float = 300.0,
    force: bool = False,
    checkpoint: bool = True,
    done: Callable[[Step], None] | None = None,
    tell: Callable[[str], None] | None = None,
    namespace: str | None = None,
    platform: Input | None = None,
    strict: bool = False,
    set: str | None = None,
    prune: bool = False,
) -> DocumentPlan:
    """Apply documents to a cluster. The returned plan's steps contain their results.

    The plan is computed again from the current state of the cluster. If ``what`` is a :class:`DocumentPlan`, nothing is
    removed beyond what that plan removes, and its options apply.

    :param what: a plan of :func:`plan`, or documents as there. Options that are missing here are those of the plan.
    :param cluster: the cluster; default: the one that kubectl would use.
    :param confirm: True if running work may end, or a function that receives the plan and returns the decision.
        Otherwise a plan with ``questions`` is rejected.
    :param wait: wait until everything runs or has finished.
    :param rollback: with ``wait``: restore the previous state of objects that do not run in time.
    :param timeout: seconds, for deletions, for quotas that are released late, and for ``wait``.
    :param force: end the pods of replaced objects without their grace period.
    :param checkpoint: let running jobs save their progress before they end; if that fails, nothing is ended.
    :param done: called with each finished step.
    :param tell: called with messages during the run.
    :raises InvalidDocuments: the documents have errors.
    :raises InvalidOptions: options contradict each other, or the plan is for another cluster.
    :raises Refused: the plan has errors or was not confirmed; nothing was changed.
    :raises Changed: more would be removed than the plan contains; nothing was changed.
    :raises ClusterError: the cluster cannot be reached, another run is active, or with ``wait`` the jobs do not run.
    """
    with session_of(cluster) as session:
        callbacks = RunCallbacks(on_step_done=done or _ignore, on_message=tell or _ignore)
        if isinstance(what, DocumentPlan):
            if (namespace, platform, strict, set, prune) != (None, None, False, None, False):
                raise InvalidOptions("the options of a plan are those that it was made with: give them to gpuctl.plan")
            if what.server != session.server:
                raise InvalidOptions(f"the plan is for {what.server}, and the cluster is {session.server}")
            request = replace(what.request, request=replace(what.request.request, offline=False))
            seen: Plan | None = what.plan
        else:
            documents = _documents(what, platform, namespace, strict, None, None)
            options = PlanOptions(set_name=set, prune=prune)
            request, seen = request_for(session, documents, options, callbacks), None
        callbacks = replace(callbacks, confirm=_confirming(confirm, request, session.server))
        run = RunOptions(timeout, force, wait, checkpoint=checkpoint, rollback=rollback)
        return DocumentPlan(apply_request(session, request, run, callbacks, seen), request, session.server)


def _documents(
    sources: Sequence[Input] | Input,
    platform: Input | None,
    namespace: str | None,
    strict: bool,
    directory: Path | None,
    stdin: BinaryIO | None,
) -> DocumentOptions:
    listed = [sources] if isinstance(sources, (str, os.PathLike, Source)) else list(sources)
    return DocumentOptions(listed, platform, namespace, strict, directory or Path(), stdin)


def _confirming(confirm: Confirm, request: DocumentRequest, server: str) -> Callable[[Plan], bool]:
    if callable(confirm):
        return lambda made: confirm(DocumentPlan(made, request, server))
    return (lambda made: True) if confirm else refuse_questions


def _ignore(_: object) -> None:
    """Accept and drop a value, as the default callback."""
