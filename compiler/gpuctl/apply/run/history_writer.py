"""The history of jobs: stores each changed document after it has been applied, and removes old ones.

Nothing depends on it: failures become notes of the plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.state.applied_by import caller_of
from gpuctl.apply.state.git_repository import Commit
from gpuctl.apply.state.past_documents import (
    LARGEST,
    Cause,
    PastDocument,
    deletion_mark,
    job_of_secret,
    recorded_digest,
    revision_of,
    secret_name,
    secret_of,
    without_credentials,
)
from gpuctl.frontend.document_variant import PLAIN, Variant
from gpuctl.hints import kubectl_line
from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import RESOURCES, TRAININGS, WORKLOADS, Key, Object, labels_of
from gpuctl.objects.embedded_document import document_of
from gpuctl.objects.json_digest import json_digest
from gpuctl.objects.label_names import MANAGED_BY, MANAGER
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.timestamps import format_timestamp

REVISIONS_KEPT = 10
"""Revisions kept for each job, as many as Helm and Argo CD keep."""
DELETED_JOBS_KEPT = 100
"""Deleted jobs of a namespace whose history is kept, so that they can be restored."""
_ATTEMPTS = 20
_FEW = 20


@dataclass(frozen=True)
class ApplyOrigin:
    """The origin of an apply.

    ``who`` is the user who requested it (None: the session's user at the API server). ``commit`` returns the commit of
    the sources; it is called only if something is written. ``to`` is the revision that a rollback returns to, by the
    job's namespace and name. ``is_back``: it returns to the revision with the same document. ``variants``: the profile
    and the overrides of documents that have any, by the job's namespace and name.
    """

    who: str | None = None
    commit: Callable[[], Commit | None] = lambda: None
    to: dict[tuple[str, str], int] | None = None
    is_back: bool = False
    variants: Mapping[tuple[str, str], Variant] = field(default_factory=dict)


def record_deletions(session: Session, plan: Plan, keys: Records) -> None:
    """Mark the history of the trainings that a plan has deleted, so that the next apply creates them again.

    Only trainings with a ttl are marked: without the mark an apply would presume that the ttl has removed them.
    Failures become notes.
    """
    deleted = [
        step
        for step in plan.steps
        if step.action in ("delete", "prune")
        and step.result == "done"
        and step.live is not None
        and step.key.kind in TRAININGS
        and step.live["spec"].get("ttlSecondsAfterFinished") is not None
    ]

    def mark(step: Step) -> str | None:
        job = labels_of(step.live or {}).get("app", step.key.name)
        try:
            found = session.list_metadata(RESOURCES["Secret"], step.key.namespace, labels=f"{keys.history}={job}")
            newest = max(found, key=lambda secret: revision_of(secret, job) or 0, default=None)
            if newest is not None and revision_of(newest, job) is not None:
                now = format_timestamp(session.server_time())
                metadata = {"uid": newest["metadata"]["uid"], "annotations": {deletion_mark(keys): now}}
                session.patch(Key("Secret", step.key.namespace, newest["metadata"]["name"]), {"metadata": metadata})
        except ClusterError as error:
            return say(
                "the deletion of {job} could not be recorded, and the next apply may presume that its ttl has "
                "removed it: {error}",
                job=step.title,
                error=error.message,
            )
        return None

    plan.notes += [note for note in session.each(mark, deleted) if note is not None]


class _AppliedDocument(NamedTuple):
    """A document that a plan has applied, and the former one. ``version`` is the resourceVersion of the old object, ""
    if none.
    """

    namespace: str
    job: str
    document: dict[str, Any]
    before: dict[str, Any] | None
    version: str
    is_new: bool


class HistoryWriter:
    """Stores the documents that a plan applies, and removes old ones. Failures become notes of the plan.

    A revision that another client has stored since the plan was made is not stored again.
    """

    def __init__(self, session: Session, plan: Plan, keys: Records, origin: ApplyOrigin) -> None:
        self._session = session
        self._plan = plan
        self._keys = keys
        self._origin = origin
        self._histories: dict[str, _NamespaceHistory] = {}

    def add(self, steps: Iterable[Step]) -> None:
        """Store the documents of these steps."""
        applied = [item for step in steps if (item := _applied(step, self._keys)) is not None]
        if not applied:
            return
        if not self._histories:
            self._begin()
        pairs = [(self._histories[item.namespace], item) for item in applied]
        for history, item in pairs:
            history.applied.append(item)
        self._session.each(lambda pair: pair[0].unless_failed(lambda: pair[0].add(pair[1])), pairs)

    def finish(self) -> None:
        """Remove old revisions, and add notes on failures."""
        for history in self._histories.values():
            if not history.applied:
                continue
            history.unless_failed(history.remove_old)
            if history.problem is not None:
                self._plan.notes.append(
                    say("the history of {job} could not be written: {error}", job=history.title, error=history.problem)
                )

    def _begin(self) -> None:
        """List the existing history in all namespaces of the plan."""
        # Running git and asking the server for the user take a moment, so they are done only if something is written.
        author = _Author(self._origin.who or caller_of(self._session), self._origin.commit())
        coming: dict[str, list[_AppliedDocument]] = {}
        for step in self._plan.steps:
            item = _applied(step, self._keys)
            if item is not None:
                coming.setdefault(item.namespace, []).append(item)
        for namespace, items in coming.items():
            self._histories[namespace] = _NamespaceHistory(
                self._session, namespace, items, self._keys, self._origin, author
            )
        self._session.each(lambda history: history.unless_failed(history.list_stored), self._histories.values())


def _applied(step: Step, keys: Records) -> _AppliedDocument | None:
    """Return the document that a step applies, if it differs from the one before."""
    if step.key.kind not in WORKLOADS or step.desired is None or step.action not in ("create", "replace", "update"):
        return None
    document = _document(step.desired, keys)
    before = _document(step.live, keys) if step.live is not None else None
    if document is None or document == before:
        return None
    version = str(step.live["metadata"]["resourceVersion"]) if step.live is not None else ""
    return _AppliedDocument(
        step.key.namespace, document["job"]["name"], document, before, version, step.action == "create"
    )


def _document(obj: Object, keys: Records) -> dict[str, Any] | None:
    """Return the job's document in an object or patch; None without one."""
    found = document_of(obj, keys.document)
    block = found.get("job") if found is not None else None
    return found if isinstance(block, dict) and isinstance(block.get("name"), str) else None


class _Author(NamedTuple):
    """The user who applies, and the commit, if known."""

    who: str | None
    commit: Commit | None


class _NamespaceHistory:
    """The history of a namespace's jobs during an apply.

    ``applied`` are the documents to store so far. ``problem`` is the first error; after it nothing more is done.

    :param coming: all documents that the plan stores.
    """

    def __init__(
        self,
        session: Session,
        namespace: str,
        coming: Sequence[_AppliedDocument],
        keys: Records,
        origin: ApplyOrigin,
        author: _Author,
    ) -> None:
        self.namespace = namespace
        self.applied: list[_AppliedDocument] = []
        self.problem: str | None = None
        self._session = session
        self._coming = coming
        self._keys = keys
        self._author = author
        self._origin = origin
        self._stored: dict[str, list[Object]] = defaultdict(list)

    @property
    def title(self) -> str:
        """Return the names of the jobs in messages."""
        names = [item.job for item in self.applied[:3]]
        if len(self.applied) > 3:
            return say("{names} and others in {namespace}", names=names, namespace=self.namespace)
        return say("{names} in {namespace}", names=names, namespace=self.namespace)

    def unless_failed(self, step: Callable[[], None]) -> None:
        """Run a part, unless an earlier one failed; record its error."""
        if self.problem is not None:
            return
        try:
            step()
        except ClusterError as error:
            self.problem = self.problem or error.message

    def list_stored(self) -> None:
        """List the existing history.

        :raises ClusterError: the request failed.
        """
        names = sorted({item.job for item in self._coming})
        few = not self._grows and len(names) <= _FEW
        # Only metadata is requested; the documents are not needed.
        labels = f"{self._keys.history} in ({','.join(names)})" if few else self._keys.history
        for secret in self._session.list_metadata(RESOURCES["Secret"], self.namespace, labels=labels):
            self._stored[job_of_secret(secret, self._keys)].append(secret)

    @property
    def _grows(self) -> bool:
        """Return True if the plan adds jobs."""
        return any(item.is_new for item in self._coming)

    def add(self, item: _AppliedDocument) -> None:
        """Store a document as the next revision, and remove the oldest.

        :raises ClusterError: a request failed.
        """
        stored = self._stored.get(item.job, [])
        known = {number: secret for secret in stored if (number := revision_of(secret, item.job)) is not None}
        digests = {recorded_digest(secret, self._keys) for secret in known.values()}
        before = without_credentials(item.before) if item.before is not None else None
        number = max(known, default=0) + 1
        if before is not None and json_digest(before[0]) not in digests:
            # The document before is not in the history: store it too, so that a rollback can return to it.
            number = self._write(item, PastDocument(number, *before, cause="found")) + 1
        document, masked = without_credentials(item.document)
        digest = json_digest(document)
        newest = known.get(max(known, default=0))
        # If only credentials differ, the newest stored revision is the document before.
        differs = before is None or json_digest(before[0]) != digest
        if newest is not None and differs and self._is_written(newest, digest, item.version):
            return
        to = (self._origin.to or {}).get((item.namespace, item.job))
        if self._origin.is_back:
            to = max((old for old in known if recorded_digest(known[old], self._keys) == digest), default=None)
        cause: Cause = "rolled back" if to is not None or self._origin.is_back else "applied"
        past = PastDocument(
            number,
            document,
            masked,
            who=self._author.who,
            commit=self._author.commit,
            cause=cause,
            to=to,
            variant=self._origin.variants.get((item.namespace, item.job), PLAIN),
        )
        last = self._write(item, past)
        written = set(range(max(known, default=0) + 1, last + 1))
        self._delete(known[old] for old in sorted(known.keys() | written)[:-REVISIONS_KEPT] if old in known)

    def _write(self, item: _AppliedDocument, past: PastDocument) -> int:
        """Store a document, and return its number: another client may have used the next one."""
        job = item.job
        for number in range(past.revision, past.revision + _ATTEMPTS):
            if number > LARGEST:
                raise ClusterError(
                    say(
                        "its revision numbers are used up: {command}",
                        command=kubectl_line(f"delete secret -l {self._keys.history}={job}"),
                    )
                )
            try:
                self._session.create(secret_of(replace(past, revision=number), self.namespace, job, self._keys))
                return number
            except ApiError as error:
                if not error.exists_already:
                    raise
            taken = self._session.get(Key("Secret", self.namespace, secret_name(job, number)))
            if taken is not None and self._is_written(taken, past.digest, item.version):
                return number
        raise ClusterError(say("too many other clients are writing it"))

    def _is_written(self, secret: Object, digest: str, version: str) -> bool:
        """Return True if a concurrent apply of the same document has stored it: after the old object's version.

        The resourceVersions of a cluster can be compared from Kubernetes 1.35 on.
        """
        written = str(secret["metadata"].get("resourceVersion") or "")
        is_later = written.isdecimal() and version.isdecimal() and int(written) > int(version)
        return is_later and recorded_digest(secret, self._keys) == digest

    def remove_old(self) -> None:
        """Remove the history of deleted jobs beyond the maximum, least recently changed first.

        :raises ClusterError: a request failed.
        """
        names = {item.job for item in self._coming}
        others = {job: found for job, found in self._stored.items() if job not in names}
        if not self._grows or len(others) <= DELETED_JOBS_KEPT:
            return
        labels = f"{MANAGED_BY}={MANAGER}"
        lists = self._session.each(lambda kind: self._workloads(kind, labels), WORKLOADS)
        alive = {labels_of(obj).get("app", obj["metadata"]["name"]) for found in lists for obj in found}
        gone = {job: found for job, found in others.items() if job not in alive}

        def changed(job: str) -> str:
            return max(str(secret["metadata"].get("creationTimestamp") or "") for secret in gone[job])

        for job in sorted(gone, key=changed, reverse=True)[DELETED_JOBS_KEPT:]:
            # Any user can put gpuctl's label on a Secret: only those with a history name are deleted.
            self._delete(secret for secret in gone[job] if revision_of(secret, job) is not None)

    def _workloads(self, kind: str, labels: str) -> list[Object]:
        try:
            return self._session.list_metadata(RESOURCES[kind], self.namespace, labels=labels)
        except ApiError as error:
            if not error.is_missing:
                raise
            return []

    def _delete(self, secrets: Iterable[Object]) -> None:
        for secret in secrets:
            metadata = secret["metadata"]
            key = Key("Secret", self.namespace, metadata["name"])
            self._session.delete(key, metadata["uid"], foreground=False)
