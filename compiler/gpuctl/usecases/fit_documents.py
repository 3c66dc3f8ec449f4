"""Whether the jobs of documents would find room in a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.fit_with_queues import assumed_defaults
from gpuctl.capacity.job_fit import Fit
from gpuctl.capacity.job_fit import fit as fit_objects
from gpuctl.capacity.snapshot_document import Snapshot
from gpuctl.capacity.suggestions import JobName, Suggestion
from gpuctl.capacity.waiting_fit import fit_waiting as fit_pods
from gpuctl.compilation import Compilation, compile
from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.frontend.source import Source
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.configuration import session_of
from gpuctl.kube.connection import Connection
from gpuctl.kube.session import Session
from gpuctl.usecases.change_options import InvalidOptions
from gpuctl.usecases.compiling import OF_A_CLUSTER
from gpuctl.usecases.fit_suggestions import suggest as look
from gpuctl.usecases.snapshot_files import left_out, read_snapshot

_SETTLED = frozenset({OF_A_CLUSTER, "GPU402", "GPU403"})
"""What nodes know better than documents: whether a pool, a type of GPU, so large a node is there."""
_SNAPSHOTS_NAMESPACE = "default"


@dataclass(frozen=True)
class FitResult:
    """The answers for the jobs of documents, in the order in which they are placed, by a ``snapshot`` of a cluster.

    ``diagnostics`` are what is to be said of the documents, none of them an error. ``notes`` say what could not be
    taken into account. ``suggestions`` are changes with which jobs that do not fit would, by namespace and name; None
    where nobody asked for them. ``within`` is the only namespace that could be looked at.
    """

    jobs: list[Fit]
    snapshot: Snapshot
    diagnostics: list[Diagnostic]
    suggestions: dict[JobName, list[Suggestion]] | None = None
    within: str | None = None

    @property
    def notes(self) -> list[str]:
        """What the answers do not take into account, as sentences."""
        part = [f"only namespace {self.within} could be looked at: what waits elsewhere is not told"]
        return [*(part if self.within else ()), *left_out(self.snapshot), *assumed_defaults(self.snapshot, self.jobs)]

    @property
    def fits(self) -> bool | None:
        """Whether every job finds room, perhaps by evicting others; None when it cannot be told of one."""
        verdicts = {job.verdict for job in self.jobs}
        if verdicts & {"never", "fits-when-empty"}:
            return False
        return None if "unknown" in verdicts else True


def fit(
    sources: Sequence[str | os.PathLike[str] | Source] | str | os.PathLike[str] | Source,
    *,
    cluster: Connection | None = None,
    snapshot: Snapshot | str | os.PathLike[str] | BinaryIO | None = None,
    platform: str | os.PathLike[str] | Source | None = None,
    namespace: str | None = None,
    strict: bool = False,
    directory: Path | None = None,
    stdin: BinaryIO | None = None,
    cluster_name: str | None = None,
    suggest: bool = False,
    diagnosed: Callable[[Sequence[Diagnostic], Mapping[str, Source]], None] = lambda diagnostics, sources: None,
) -> FitResult:
    """Tell of each job whether all its pods would find room at once, as Kubernetes' own scheduler decides.

    Jobs are placed one after another, those with the highest priority first. Pods of a job that runs already count as
    given back: an apply replaces them. Changes nothing.

    :param sources: as :func:`gpuctl.compile` takes them, and so are ``platform``, ``strict``, ``directory`` and
        ``stdin``.
    :param cluster: the connection to look through, which may be shared and stays open; default: the kubeconfig's.
    :param snapshot: stands in for a cluster: what ``gpuctl snapshot`` wrote, as a file or a stream.
    :param namespace: of jobs that name none; default: the cluster's context's, with a snapshot ``default``.
    :param cluster_name: what the platform calls the cluster: documents that belong on others are left out.
    :param suggest: look for the smallest changes of documents with which jobs that do not fit would.
    :param diagnosed: hears, before the cluster is asked, what is to be said of the documents, with their sources.
    :raises InvalidDocuments: there are errors in the documents.
    :raises ClusterError: the cluster, the right to look at it, or the snapshot fails.
    :raises InvalidOptions: a cluster and a snapshot.
    """
    if cluster is not None and snapshot is not None:
        raise InvalidOptions("a snapshot stands in for a cluster: give one of the two")

    def compiled(default: str) -> FitDocuments:
        found = compile_for_fit(
            sources,
            platform=platform,
            namespace=namespace or default,
            strict=strict,
            directory=directory,
            stdin=stdin,
            cluster_name=cluster_name,
        )
        diagnosed(found.diagnostics, found.compilation.sources)
        return found

    if snapshot is not None:
        documents = compiled(_SNAPSHOTS_NAMESPACE)
        found = snapshot if isinstance(snapshot, Snapshot) else read_snapshot(snapshot)
        return documents.fit(found, suggest=suggest)
    with session_of(cluster) as session:
        return compiled(session.namespace).fit(take_snapshot(session), suggest=suggest)


def fit_waiting(
    *,
    cluster: Connection | None = None,
    snapshot: Snapshot | str | os.PathLike[str] | BinaryIO | None = None,
    namespace: str | None = None,
) -> FitResult:
    """Tell of each job whose pods wait for a node whether all of them would find room at once. Changes nothing.

    :param cluster: as for :func:`fit`, and so is ``snapshot``.
    :param namespace: whose jobs are told; default: those of all namespaces. Who may not look at all of them is told of
        this one, or that of the context.
    :raises ClusterError: the cluster, the right to look at it, or the snapshot fails.
    """
    if snapshot is None:
        with session_of(cluster) as session:
            return fit_waiting_seen(session, namespace, session.namespace)
    found = snapshot if isinstance(snapshot, Snapshot) else read_snapshot(snapshot)
    return FitResult(fit_pods(found, namespace), found, [])


def fit_waiting_seen(session: Session, namespace: str | None, home: str) -> FitResult:
    """As :func:`fit_waiting`, as far as whoever asks may look.

    :param home: the namespace that is told of where not all may be looked at and none is named.
    :raises ApiError: not even pods of that namespace may be listed.
    """
    try:
        found = take_snapshot(session)
    except ApiError as error:
        if not error.lacks_permission:
            raise
    else:
        return FitResult(fit_pods(found, namespace), found, [])
    within = namespace or home
    found = take_snapshot(session, within=within)
    answers = [_by_a_part(answer, found) for answer in fit_pods(found, within)]
    return FitResult(answers, found, [], within=within)


def _by_a_part(answer: Fit, snapshot: Snapshot) -> Fit:
    """An answer by the pods of one namespace: those of others only take more room. Without nodes nothing is known."""
    if "nodes" in snapshot.unreadable:
        what = "nodes"
    elif answer.verdict in ("unknown", "never"):
        return answer
    elif answer.verdict == "fits-when-empty":
        return replace(answer, certain=False)
    else:
        what = "pods of other namespaces"
    reason = f"the room that is free is not known: {what} may not be listed"
    return replace(
        answer, verdict="unknown", reason=reason, starts=0, victims=[], certain=False, opening=None, admitted=None
    )


@dataclass(frozen=True)
class FitDocuments:
    """Documents that are judged; ``diagnostics`` are what is to be said of them, none of them an error."""

    compilation: Compilation
    diagnostics: list[Diagnostic]

    def fit(self, snapshot: Snapshot, *, suggest: bool = False) -> FitResult:
        """The answer by a snapshot of a cluster."""
        answers = fit_objects(snapshot, self.compilation.objects)
        if not suggest:
            return FitResult(answers, snapshot, self.diagnostics)
        found = look(self.compilation, snapshot, answers, _compiled_again)
        return FitResult(answers, snapshot, self.diagnostics, found)


def _compiled_again(sources: list[Source], platform: Source, namespace: str) -> Compilation | None:
    try:
        return compile_for_fit(sources, platform=platform, namespace=namespace).compilation
    except InvalidDocuments:
        return None


def compile_for_fit(
    sources: Sequence[str | os.PathLike[str] | Source] | str | os.PathLike[str] | Source,
    *,
    platform: str | os.PathLike[str] | Source | None = None,
    namespace: str,
    strict: bool = False,
    directory: Path | None = None,
    stdin: BinaryIO | None = None,
    cluster_name: str | None = None,
    interrupt: Callable[[], None] = lambda: None,
) -> FitDocuments:
    """The first half of :func:`fit`, which asks no cluster.

    :raises InvalidDocuments: there are errors in the documents.
    """
    result = compile(
        sources,
        platform=platform,
        namespace=namespace,
        strict=strict,
        nodes=True,
        namespaces=True,
        tolerated=_SETTLED,
        cluster=cluster_name,
        directory=directory,
        stdin=stdin,
        interrupt=interrupt,
    )
    return FitDocuments(result, _told(result))


def _told(result: Compilation) -> list[Diagnostic]:
    """What is to be said of documents; errors that nodes settle are warnings.

    :raises InvalidDocuments: there are other errors.
    """
    if any(item.severity is Severity.ERROR and item.code not in _SETTLED for item in result.diagnostics):
        raise InvalidDocuments(result.diagnostics, result.sources)
    return [
        item._replace(severity=Severity.WARNING) if item.code in _SETTLED else item
        for item in result.diagnostics
        if item.code != OF_A_CLUSTER
    ]
