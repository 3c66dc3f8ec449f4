"""Check whether the jobs of documents would fit into a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.fit.fit_with_queues import assumed_defaults
from gpuctl.capacity.fit.job_fit import Fit
from gpuctl.capacity.fit.job_fit import fit as fit_objects
from gpuctl.capacity.fit.suggestions import JobName, Suggestion
from gpuctl.capacity.fit.waiting_fit import fit_waiting as fit_pods
from gpuctl.capacity.pods.demand import is_object_of
from gpuctl.capacity.snapshot.planned_node_labels import with_removed_labels
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.compilation import Compilation
from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document_variant import Variant
from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.frontend.source import Source
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.configuration import session_of
from gpuctl.kube.connection import Connection
from gpuctl.kube.session import Session
from gpuctl.language.sentences import clauses, say
from gpuctl.objects.api_resources import Key, key_of, labels_of
from gpuctl.objects.label_names import AFTER, SWEEP
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.prerequisites import as_released, is_met, outcome_of_all, prerequisites_of
from gpuctl.objects.scheduled_jobs import with_runs
from gpuctl.objects.sweep_ends import Outcome
from gpuctl.objects.sweep_names import number_in_sweep
from gpuctl.objects.workload_state import FAILURE_CONDITIONS
from gpuctl.usecases.documents.change_options import DocumentOptions, InvalidOptions
from gpuctl.usecases.documents.compiling import POOL_UNKNOWN, compiled
from gpuctl.usecases.documents.snapshot_files import read_snapshot, snapshot_limits
from gpuctl.usecases.fit.fit_suggestions import suggest as look

_SETTLED = frozenset({POOL_UNKNOWN, "GPU402", "GPU403"})
"""Diagnostics that nodes decide instead of documents: whether a pool, a GPU type or a large enough node exists."""
_SNAPSHOTS_NAMESPACE = "default"


@dataclass(frozen=True)
class FitResult:
    """The verdicts for the jobs of documents, in the order in which they are placed.

    :param snapshot: the snapshot of the cluster they are based on.
    :param diagnostics: warnings about the documents; never errors.
    :param suggestions: changes with which jobs that do not fit would fit, by namespace and name; None if not requested.
    :param within: the only namespace that could be read; None for all.
    """

    jobs: list[Fit]
    snapshot: Snapshot
    diagnostics: list[Diagnostic]
    suggestions: dict[JobName, list[Suggestion]] | None = None
    within: str | None = None

    @property
    def notes(self) -> list[str]:
        """Return what the verdicts do not take into account, as sentences."""
        part = [
            say("only namespace {namespace} may be read: jobs that wait elsewhere are not shown", namespace=self.within)
        ]
        return [
            *(part if self.within else ()),
            *snapshot_limits(self.snapshot),
            *assumed_defaults(self.snapshot, self.jobs),
        ]

    @property
    def fits(self) -> bool | None:
        """Return True if every job fits, perhaps by evicting others; None if that is unknown for a job."""
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
    profile: str | None = None,
    overrides: Sequence[str] = (),
    suggest: bool = False,
    diagnosed: Callable[[Sequence[Diagnostic], Mapping[str, Source]], None] = lambda diagnostics, sources: None,
) -> FitResult:
    """Return for each job whether all its pods would fit at once, by the rules of the Kubernetes scheduler.

    Jobs are placed one after another, highest priority first, and of equal priority those that run now with all their
    pods. Running pods of a job are subtracted, since an apply replaces them if the document has changed. Nothing is
    changed.

    :param sources: see :func:`gpuctl.compile`, also for ``platform``, ``strict``, ``directory``, ``stdin``, ``profile``
        and ``overrides``.
    :param cluster: connection to read with, which may be shared and stays open; None: the kubeconfig's.
    :param snapshot: file or stream from `gpuctl snapshot`, instead of a cluster.
    :param namespace: namespace of jobs that name none; None: the context's, with a snapshot ``default``.
    :param cluster_name: name of the cluster in the platform: documents placed on other clusters are left out.
    :param suggest: search for the smallest document changes with which jobs that do not fit would fit.
    :param diagnosed: called with diagnostics and sources before the cluster is read.
    :raises InvalidDocuments: the documents have errors.
    :raises ClusterError: the cluster or the snapshot cannot be read.
    :raises InvalidOptions: both a cluster and a snapshot are given.
    """
    if cluster is not None and snapshot is not None:
        raise InvalidOptions("give a cluster or a snapshot, not both")

    documents = DocumentOptions(
        [sources] if isinstance(sources, (str, os.PathLike, Source)) else sources,
        platform,
        strict=strict,
        directory=directory or Path(),
        stdin=stdin,
        cluster=cluster_name,
        variant=Variant(profile, tuple(overrides)),
    )

    def compiled_in(default: str) -> FitDocuments:
        found = compile_for_fit(documents, namespace or default)
        diagnosed(found.diagnostics, found.compilation.sources)
        return found

    if snapshot is not None:
        judged = compiled_in(_SNAPSHOTS_NAMESPACE)
        found = snapshot if isinstance(snapshot, Snapshot) else read_snapshot(snapshot)
        return judged.fit(found, suggest=suggest)
    with session_of(cluster) as session:
        return compiled_in(session.namespace).fit(take_snapshot(session), suggest=suggest)


def fit_waiting(
    *,
    cluster: Connection | None = None,
    snapshot: Snapshot | str | os.PathLike[str] | BinaryIO | None = None,
    namespace: str | None = None,
) -> FitResult:
    """Return for each job with unscheduled pods whether all of them would fit at once. Nothing is changed.

    :param cluster: as for :func:`fit`.
    :param snapshot: as for :func:`fit`.
    :param namespace: report only jobs of this namespace; None for all. A user who may not read all namespaces gets only
        this one, or the context's.
    :raises ClusterError: the cluster or the snapshot cannot be read.
    """
    if snapshot is None:
        with session_of(cluster) as session:
            return fit_waiting_seen(session, namespace, session.namespace)
    found = snapshot if isinstance(snapshot, Snapshot) else read_snapshot(snapshot)
    return FitResult(fit_pods(found, namespace), found, [])


def fit_waiting_seen(session: Session, namespace: str | None, home: str) -> FitResult:
    """Return the same as :func:`fit_waiting`, as far as the user may read.

    :param home: namespace to report if not all may be read and ``namespace`` is None.
    :raises ApiError: not even the pods of that namespace may be listed.
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
    """Weaken a verdict that is based on the pods of one namespace: other pods only take more room."""
    if "nodes" in snapshot.unreadable:
        what = "nodes"
    elif answer.verdict in ("unknown", "never"):
        return answer
    elif answer.verdict == "fits-when-empty":
        return replace(answer, certain=False)
    else:
        what = say("pods of other namespaces")
    reason = say("free resources are unknown: {what} may not be listed", what=what)
    return replace(answer.as_unknown(reason), admitted=None)


@dataclass(frozen=True)
class FitDocuments:
    """Compiled documents to be judged. ``diagnostics`` are warnings; never errors."""

    compilation: Compilation
    diagnostics: list[Diagnostic]

    def fit(self, snapshot: Snapshot, *, suggest: bool = False) -> FitResult:
        """Return the verdicts for a snapshot of a cluster."""
        objects = with_removed_labels(snapshot, self.compilation.objects, records(self.compilation.settings))
        answers = fit_objects(snapshot, as_released(with_runs(objects)))
        answers = _with_prerequisites(answers, self.compilation, snapshot)
        if not suggest:
            return FitResult(answers, snapshot, self.diagnostics)
        found = look(self.compilation, snapshot, answers, _compiled_again)
        return FitResult(answers, snapshot, self.diagnostics, found)


def _with_prerequisites(answers: Sequence[Fit], compilation: Compilation, snapshot: Snapshot) -> list[Fit]:
    """Return the answers with the jobs that a training waits for first. The verdict is that of a start now.

    A training that has pods has been released: it does not wait again.
    """
    after, sweep = compilation.settings.label(AFTER), compilation.settings.label(SWEEP)
    sweeps: dict[tuple[str, str], list[str]] = {}
    for obj in compilation.objects:
        if sweep in labels_of(obj):
            sweeps.setdefault((obj["metadata"]["namespace"], labels_of(obj)[sweep]), []).append(labels_of(obj)["app"])
    waits: dict[Key, list[str]] = {}
    for obj in compilation.objects:
        namespace, left, perhaps = obj["metadata"].get("namespace", ""), [], []
        for name, condition in prerequisites_of(obj, after).items():
            named = sweeps.get((namespace, name), [name])
            numbered = [] if (namespace, name) in sweeps else _numbered_jobs(namespace, name, snapshot)
            outcome = outcome_of_all([_outcome(namespace, job, snapshot) for job in numbered or named])
            if not is_met(condition, outcome):
                left.append(name)
            elif numbered:
                perhaps.append(name)
        texts: list[str] = [say("it waits for {names:few}", names=left)] if left else []
        if perhaps:
            # The snapshot does not have the number of a sweep's jobs.
            texts.append(say("it waits for {names:few}, unless all jobs of the sweep are there", names=perhaps))
        waits[key_of(obj)] = texts
    return [
        one if one.demand.owned else replace(one, reason=clauses(*waits.get(one.demand.key, ()), one.reason))
        for one in answers
    ]


def _numbered_jobs(namespace: str, name: str, snapshot: Snapshot) -> list[str]:
    """Return the trainings of a snapshot that may be the jobs of a sweep; [] if a training has the name itself."""
    places = [*snapshot.jobs_by_name, *snapshot.sets_by_name]
    names = {job for place, job in places if place == namespace}
    names |= {item["app"] for item in snapshot.finished if item["namespace"] == namespace and "app" in item}
    return [] if name in names else sorted(job for job in names if number_in_sweep(job, name) is not None)


def _outcome(namespace: str, name: str, snapshot: Snapshot) -> Outcome | None:
    """Return how a training of a snapshot ended; None if it has not, or does not exist."""
    if (namespace, name) in snapshot.jobs_by_name or (namespace, name) in snapshot.sets_by_name:
        return None
    metadata = {"namespace": namespace, "name": name}
    ends = [
        item
        for item in snapshot.finished
        if item.get("app") == name and is_object_of({"kind": item["kind"], "metadata": metadata}, item)
    ]
    # Of the generations that a GitOps controller has applied, the latest counts.
    latest = max(ends, key=lambda item: item.get("since", ""), default=None)
    return None if latest is None else "failed" if latest["condition"] in FAILURE_CONDITIONS else "ok"


def _compiled_again(sources: list[Source], platform: Source, namespace: str) -> Compilation | None:
    try:
        return compile_for_fit(DocumentOptions(sources, platform), namespace).compilation
    except InvalidDocuments:
        return None


def compile_for_fit(documents: DocumentOptions, namespace: str) -> FitDocuments:
    """Compile documents for :meth:`FitDocuments.fit`, without reading a cluster.

    :param namespace: namespace of jobs that name none.
    :raises InvalidDocuments: the documents have errors.
    """
    result = compiled(documents, namespace, tolerated=_SETTLED)
    return FitDocuments(result, _told(result))


def _told(result: Compilation) -> list[Diagnostic]:
    """Return the diagnostics to report, with errors that nodes decide as warnings.

    :raises InvalidDocuments: there are other errors.
    """
    if any(item.severity is Severity.ERROR and item.code not in _SETTLED for item in result.diagnostics):
        raise InvalidDocuments(result.diagnostics, result.sources)
    return [
        item._replace(severity=Severity.WARNING) if item.code in _SETTLED else item
        for item in result.diagnostics
        if item.code != POOL_UNKNOWN
    ]
