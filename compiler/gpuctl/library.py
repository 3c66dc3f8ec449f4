"""``gpuctl.plan`` and ``gpuctl.apply``: what ``gpuctl diff`` and ``gpuctl apply`` do, for programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from gpuctl.api.plan_answers import plan_value
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions, refuse_questions
from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.frontend.source import Source
from gpuctl.kube.configuration import session_of
from gpuctl.kube.connection import Connection
from gpuctl.usecases.applying import DocumentRequest, apply_request, preview_request, request_for
from gpuctl.usecases.change_options import DocumentOptions, InvalidOptions, PlanOptions, Strategy
from gpuctl.usecases.compiling import worth_telling

Input: TypeAlias = "str | os.PathLike[str] | Source"
Confirm: TypeAlias = "bool | Callable[[DocumentPlan], bool]"


@dataclass(frozen=True)
class DocumentPlan:
    """What an apply of documents will do to a cluster, or has done.

    ``plan`` has everything, ``request`` what it was made from, ``server`` the address of the cluster.
    """

    plan: Plan
    request: DocumentRequest
    server: str

    @property
    def steps(self) -> list[Step]:
        """What is done to each object, in order: ``action``, ``key``, ``reason``; afterwards ``result``, ``error``."""
        return self.plan.steps

    @property
    def recovery(self) -> list[Step]:
        """What is done first about what killed runs left."""
        return self.plan.recovery

    @property
    def errors(self) -> list[str]:
        """What stands against carrying it out; rights that are lacking, and GitOps controllers, among it."""
        return self.plan.obstacles

    @property
    def questions(self) -> list[str]:
        """What has to be confirmed, because running work would end."""
        return self.plan.questions

    @property
    def notes(self) -> list[str]:
        """What is worth knowing."""
        return self.plan.notes

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Warnings and notes about the documents."""
        return worth_telling(self.request.compilation)

    @property
    def writes(self) -> bool:
        """Whether anything in the cluster changes by it."""
        return self.plan.writes or bool(self.plan.recovery)

    @property
    def ok(self) -> bool:
        """Whether nothing stands against it, and nothing has failed."""
        return not self.errors and all(step.result in ("planned", "done") for step in self.steps)

    def json(self) -> dict[str, Any]:
        """What ``gpuctl apply -o json`` prints, before as with ``--dry-run`` and afterwards; secrets masked."""
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
    offline: bool = False,
) -> DocumentPlan:
    """What an apply of documents would do to a cluster. Nothing is written.

    :param sources: files, directories, ``-`` for standard input, or :class:`gpuctl.Source` texts, in any mix.
    :param cluster: where; default: the one that kubectl would use.
    :param namespace: of jobs that name none; default: the one of the kubeconfig's context.
    :param platform: the platform's file; default: ``platform.yaml`` at or above each source.
    :param strict: warnings are errors.
    :param directory: where standard input and texts belong; default: the current directory.
    :param stdin: what ``-`` reads; default: standard input.
    :param set: the set that the documents are; with ``prune`` what it contains and they no longer do is deleted.
        ``allow_source``: although it came from other sources; ``allow_empty``: although no document is left;
        ``allow_skipped``: although files were not read; ``allow_older``: although it came from a newer commit.
    :param strategy: how changed services are changed, ``replace`` or ``rolling``.
    :param relower: replace also what only a newer gpuctl lowers otherwise.
    :param adopt: take over objects and fields that others hold.
    :param no_probe: make a note, not an error, of a trial pod that is refused.
    :param create_namespace: create the namespace of the jobs if it is absent.
    :param create_only: refuse what exists already.
    :param queue: create jobs also where a quota has no room for their pods: they start when there is.
    :param cluster_name: what the platform calls this cluster: documents that belong on others are left out.
    :param offline: decide without the API server's dry-runs.
    :raises InvalidDocuments: there are errors in the documents.
    :raises InvalidOptions: options contradict each other.
    :raises Refused: no plan can be made, such as of a set that came from other sources.
    :raises ClusterError: the cluster cannot be asked.
    """
    documents = replace(_documents(sources, platform, namespace, strict, directory, stdin), cluster=cluster_name)
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
    """Bring a cluster to what documents say. The returned plan's steps tell how each went.

    It is planned once more, by what is in the cluster now. Of a :class:`DocumentPlan`, only what that plan takes away
    is taken away; its options are those that it was made with.

    :param what: a plan of :func:`plan`, or documents as there. Options that are not here are the plan's.
    :param cluster: where; default: the one that kubectl would use.
    :param confirm: whether running work may end: True, or a function that is given the plan and returns it. Otherwise a
        plan with ``questions`` is refused.
    :param wait: wait until all of it runs, or has finished.
    :param rollback: with ``wait``: bring back as it was what does not run in time.
    :param timeout: in seconds, of deletions and late quotas, and of ``wait``.
    :param force: end pods of what is replaced without their grace period.
    :param checkpoint: let what runs save its progress before it ends; where that fails, nothing is ended.
    :param done: hears of each finished step.
    :param tell: hears of what has to be known meanwhile.
    :raises InvalidDocuments: there are errors in the documents.
    :raises InvalidOptions: options contradict each other, or the plan is another cluster's.
    :raises Refused: something stands against it, or was not confirmed; nothing was changed.
    :raises Changed: it would take away more than the plan said; nothing was changed.
    :raises ClusterError: the cluster cannot be asked, another run is at work, or with ``wait`` it does not run.
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
    """Nobody wants to hear of it."""
