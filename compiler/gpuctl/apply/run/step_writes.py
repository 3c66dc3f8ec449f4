"""The requests of a plan's steps: delete the old object, create the new one, or restore the old one."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpuctl.apply.plan import pool_labels as nodes
from gpuctl.apply.plan.gitops_tracking import tracking_marks
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.run.create_with_quota_retry import create_unless_exists
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.state.compare import without_effect
from gpuctl.apply.state.controller_changes import BY_ANOTHER, change_of, is_unchanged
from gpuctl.apply.state.field_paths import named, steps_of
from gpuctl.apply.state.managed_fields import holders_of, holdings_of
from gpuctl.apply.state.takeover import claim
from gpuctl.hints import JobHint, RecoverHint
from gpuctl.kube.api_errors import ApiError, Changed, ClusterError, is_outage
from gpuctl.kube.session import MANAGER, Session
from gpuctl.kube.version_conflicts import retried_on_conflict
from gpuctl.language.sentences import clauses, say
from gpuctl.objects.api_resources import (
    CLAIM,
    CREATED_ONCE,
    RESOURCES,
    SERVICES,
    WORKLOADS,
    Object,
    annotations_of,
    identity_of_shared,
    key_of,
    labels_of,
)
from gpuctl.objects.label_managers import POOLS_MANAGER
from gpuctl.objects.ownership_metadata import Records, is_ours
from gpuctl.objects.queueing import queue_of
from gpuctl.objects.workload_state import end_state, is_pod_of, pod_labels

_QUOTA_PAUSE = 0.2
_SLOWEST_PAUSE = 5.0
_WEBHOOK_PAUSE = 1.0
_ATTEMPTS = 5
_LATE = 2.0
"""Seconds to wait for a delayed quota after the timeout: a deleted object must get a chance to be replaced."""
_KUEUE_HEARS = 1.0
"""Seconds until Kueue has processed the deletion of a Workload. Before that it may match the old Workload to a new job
of the same name, and start that job with the old admission, on the old nodes.
Source: Kueue's ``pkg/controller/jobframework/reconciler.go``, FindMatchingWorkloads.
"""
_METADATA = ("labels", "annotations")


class _NameTaken(ClusterError):
    """An object cannot be created: a different object has its name."""


class StepWrites:
    """The requests of single steps; thread-safe.

    ``leaving`` are namespaces that are terminating or gone: nothing can be created in them. ``deadline`` limits the
    wait for delayed quotas. ``is_journalled`` is set if the plan deletes objects, so that the usage of quotas is
    updated late.
    """

    def __init__(
        self, session: Session, plan: Plan, keys: Records, options: RunOptions, callbacks: RunCallbacks
    ) -> None:
        self.session = session
        self.plan = plan
        self.keys = keys
        self.options = options
        self.callbacks = callbacks
        self.deadline = float("inf")
        self.is_journalled = False
        self._changes_quotas = any(step.key.kind == "ResourceQuota" for step in plan.steps)
        self.leaving: set[str] = set()

    def delete_live(self, step: Step) -> str:
        """Delete the live object; return ``gone``, or ``deleted`` if the deletion is still in progress."""
        assert step.live is not None
        live = key_of(step.live)
        if not self.session.delete(live, step.live["metadata"]["uid"], grace=0 if self.options.force else None):
            return "gone"
        if self.options.force:
            try:
                self._end_pods(step.live)
            except ClusterError as error:
                # The deletion has started, so it is awaited and the object replaced anyway.
                self.callbacks.on_message(
                    say(
                        "warning: the pods of {object} may take their grace period: {error}",
                        object=live,
                        error=error.message,
                    )
                )
        return "deleted"

    def _end_pods(self, live: Object) -> None:
        """Delete the workload's pods with grace period 0: that of a Job or Deployment does not apply to its pods."""
        if live["kind"] not in WORKLOADS:
            return
        labels = pod_labels(live)
        if not labels:
            return
        pods, _ = self.session.list_objects(RESOURCES["Pod"], live["metadata"]["namespace"], labels=labels)
        for pod in pods:
            if is_pod_of(pod, live):
                self.session.delete(key_of(pod), pod["metadata"]["uid"], grace=0, foreground=False)

    def write_desired(self, step: Step) -> str:
        """Create the object, or update it in place.

        :raises ClusterError: the object that the server returned does not have the changes.
        """
        assert step.desired is not None
        returned = None
        if step.claims is not None:
            self._claim(step)
        if step.method == "post":
            self.create(step.desired)
        elif step.method == "apply":
            returned, created = self._apply(step, step.desired)
            if step.action == "create" and not created:
                step.reason = say("another client created it as wanted")
        elif step.method == "labels":
            node = retried_on_conflict(lambda: self._label_node(step))
            gone = [steps_of(change.path)[-1] for change in step.changes if change.new is None]
            step.reason = clauses(step.reason, *nodes.remaining_label_notes(node, gone))
        elif step.method == "patch":
            returned = self._patch(step)
        elif step.method == "put":
            returned = self._write_version(
                step, lambda live: self.session.replace(_rolled(step, live)), by_users=_keeps_replicas(step)
            )
        if step.action == "update" and step.live is not None:
            returned = self._untrack(step, step.live) or returned
            if returned is not None:
                _check_effect(step, returned)
        return "done"

    def _apply(self, step: Step, desired: Object) -> tuple[Object, bool]:
        """Apply an object; return it, and True if that created it.

        An autoscaler is tried again if it is refused: a webhook may not know yet that its predecessor is deleted.
        """
        succeeds = step.key in self.plan.succeeding_autoscalers
        for attempt in range(_ATTEMPTS):
            try:
                return self.session.apply(desired, force=step.adopt)
            except ApiError as error:
                if not succeeds or not error.is_policy_refusal or attempt == _ATTEMPTS - 1:
                    raise
            time.sleep(_WEBHOOK_PAUSE)
        raise AssertionError("the last attempt returns or raises")

    def _label_node(self, step: Step) -> Object:
        """Write the labels of a node's current version, and return it. Applies of other pools have the same manager.

        :raises Changed: one of the labels has changed since the plan was made.
        """
        assert step.desired is not None
        node = self.session.get(step.key)
        now = labels_of(node) if node is not None else {}
        if node is None or any(now.get(steps_of(one.path)[-1]) not in (one.old, one.new) for one in step.changes):
            raise _changed(step)
        metadata = {**step.desired["metadata"], "resourceVersion": node["metadata"]["resourceVersion"]}
        if step.method == "patch":
            return self.session.patch(step.key, {"metadata": metadata})
        return self.session.apply({**step.desired, "metadata": metadata}, manager=POOLS_MANAGER, force=step.adopt)[0]

    def _claim(self, step: Step) -> None:
        """Move the fields of the last document from other managers to gpuctl in ``managedFields``.

        After that, a server-side apply removes those that the document does not state, without conflicts.
        """
        assert step.claims is not None
        was, claims = step.live, step.claims
        assert was is not None

        def write() -> None:
            live = self.session.get(step.key)
            if live is None or not is_unchanged(was, live, self.keys):
                raise _changed(step)
            claimed = claim(live, claims)
            if claimed.fields and live["metadata"].get("managedFields"):
                metadata = {key: claimed.live["metadata"][key] for key in ("uid", "resourceVersion", "managedFields")}
                self.session.patch(step.key, {"metadata": metadata})

        retried_on_conflict(write)

    def _untrack(self, step: Step, live: Object) -> Object | None:
        """Remove the marks of a GitOps controller from an object that is taken over, and return it; None without any.

        An apply does not remove them, because they were never its fields.
        """
        marks = tracking_marks(live)
        removed = {change.path for change in step.changes if change.new is None}
        if not any(f"metadata.{part}[{name}]" in removed for part, names in marks.items() for name in names):
            return None
        return self.session.patch(step.key, {"metadata": {part: dict.fromkeys(names) for part, names in marks.items()}})

    def _patch(self, step: Step) -> Object | None:
        """Patch an object, and return it; None if another run has made the same change of its spec.

        Labels and annotations that the plan does not change are not sent: another client may have changed them since.
        """
        assert step.desired is not None
        if step.key.kind == "Node":
            return retried_on_conflict(lambda: self._label_node(step))
        metadata = {**step.desired["metadata"], **{part: _planned_changes(step, part) for part in _METADATA}}
        if "spec" not in step.desired:
            return self.session.patch(step.key, {"metadata": metadata})
        spec = step.desired["spec"]

        def send(live: Object) -> Object:
            version = live["metadata"]["resourceVersion"]
            return self.session.patch(step.key, {"metadata": {**metadata, "resourceVersion": version}, "spec": spec})

        return self._write_version(step, send, by_users=True)

    def _write_version(self, step: Step, send: Callable[[Object], Object], *, by_users: bool) -> Object | None:
        """Update a workload that users have not changed since the plan, and return it; None if another run has made the
        same change.

        The changes are applied to the current version, because controllers update the status all the time.

        :param send: sends the changes of a version, and names the version.
        :param by_users: see :func:`is_unchanged`.
        """
        assert step.desired is not None
        planned = step.live
        assert planned is not None
        was, wanted = (annotations_of(obj).get(self.keys.hash) for obj in (planned, step.desired))

        def write() -> Object | None:
            live = self.session.get(step.key)
            if live is None:
                raise _changed(step)
            if is_unchanged(planned, live, self.keys, by_users=by_users):
                return send(live)
            if was == wanted or annotations_of(live).get(self.keys.hash) != wanted:
                raise _changed(step, change_of(planned, live, self.keys))
            step.reason = say("another run made the same change")
            return None

        return retried_on_conflict(write)

    def create_successor(self, step: Step) -> str:
        """Create the new object in place of the deleted one; if that fails, create the old one again."""
        assert step.desired is not None
        assert step.live is not None
        assert step.restorable is not None
        if queue_of(step.live):
            time.sleep(_KUEUE_HEARS)
        try:
            self.create(step.desired, apply=step.method == "apply")
        except ClusterError as error:
            step.error = say("{object} could not be created: {error}", object=step.key, error=error.message)
            if step.key.namespace in self.leaving:
                raise ClusterError(step.error) from None
            if isinstance(error, _NameTaken):
                raise ClusterError(
                    step.error, say("{command} finishes it when that object is gone", command=RecoverHint())
                ) from None
            try:
                self.create(step.restorable)
            except ClusterError as second:
                self.plan.outage = self.plan.outage or is_outage(second)
                step.error += say("; nor could the old one: {error}", error=second.message)
                raise ClusterError(
                    step.error, say("{command} creates it when the cause is removed", command=RecoverHint())
                ) from None
            suspended = end_state(step.live) and not (step.live.get("spec") or {}).get("suspend")
            resume = JobHint("resume", step.live["metadata"]["name"], step.key.namespace)
            step.error += say("; the old one was created again") + (
                say(", suspended because it had finished: {command} starts it", command=resume) if suspended else ""
            )
            return "restored"
        return "done"

    def create(self, obj: Object, *, apply: bool = False) -> None:
        """Create an object; wait for a quota that still counts a deleted one."""
        deadline = max(self.deadline, time.monotonic() + _LATE)
        pause = _QUOTA_PAUSE
        # After a deletion, or a change of a quota, by this run the quota's usage is updated late.
        lagging = self.is_journalled or self._changes_quotas

        def wait() -> bool:
            nonlocal pause
            if not lagging or time.monotonic() + pause > deadline:
                return False
            self.callbacks.on_wait(f"waiting until the quota in {obj['metadata'].get('namespace')} has room again")
            time.sleep(pause)
            pause = min(pause * 1.5, _SLOWEST_PAUSE)
            return True

        try:
            is_new = create_unless_exists(self.session, obj, apply=apply, wait=wait)
        except ApiError as error:
            if error.lacks_namespace:
                self.leaving.add(obj["metadata"]["namespace"])
            raise
        if not is_new:
            self._must_be_there(obj)

    def _must_be_there(self, obj: Object) -> None:
        """Check that the existing object of this name is the wanted one, created by another run.

        :raises _NameTaken: it is a different one.
        """
        live = self.session.get(key_of(obj))
        if not self._is_same(obj, live):
            if live is not None and not is_ours(live):
                raise _NameTaken(say("the existing object of this name is not gpuctl's"))
            raise _NameTaken(say("the existing object of this name differs"))

    def _is_same(self, obj: Object, live: Object | None) -> bool:
        if live is not None and obj["kind"] in CREATED_ONCE:
            # It is shared and has no record of a document.
            return bool(identity_of_shared(live) == identity_of_shared(obj))
        if live is None:
            return False
        if obj["kind"] == CLAIM:
            # gpuctl never changes an existing claim.
            return True
        keys, mine, theirs = self.keys, annotations_of(obj), annotations_of(live)
        same_request = mine.get(keys.request) in (None, theirs.get(keys.request))
        return same_request and keys.hash in mine and theirs.get(keys.hash) == mine[keys.hash]


def _changed(step: Step, change: str | None = None) -> Changed:
    change = change or say(BY_ANOTHER)
    return Changed(say("{object} {change}", object=step.key, change=change), say("check it, and run again"))


def _check_effect(step: Step, returned: Object) -> None:
    """Check that the object which the server returned has the changes of a step.

    :raises ClusterError: some are missing.
    """
    assert step.live is not None
    paths = without_effect(step.changes, step.live, returned)
    if paths:
        holdings = holdings_of(returned)
        holders = {one.manager for path in paths for one in holders_of(path, holdings)} - {MANAGER}
        raise ClusterError(
            say(
                "{object} was written, and the API server returned it without the change of {paths}: {holders:and} "
                "sets the old value",
                object=step.key,
                paths=[*map(named, paths)],
                holders=sorted(holders) or ["admission"],
            )
        )


def _rolled(step: Step, live: Object) -> Object:
    """Return the planned object with the live version, metadata of other managers, and unplanned replicas."""
    assert step.desired is not None
    assert step.live is not None
    spec = dict(step.desired["spec"])
    if "replicas" in live["spec"] and _keeps_replicas(step):
        spec["replicas"] = live["spec"]["replicas"]
    metadata = {**live["metadata"]}
    for part in _METADATA:
        planned, was = step.desired["metadata"].get(part) or {}, step.live["metadata"].get(part) or {}
        now = {key: value for key, value in (metadata.get(part) or {}).items() if key in planned or key not in was}
        metadata[part] = {**now, **_planned_changes(step, part)}
    return {**live, "metadata": metadata, "spec": spec}


def _planned_changes(step: Step, part: str) -> dict[str, str | None]:
    """Return the labels or annotations that a step changes, with their new values; None removes one."""
    assert step.desired is not None
    assert step.live is not None
    was = step.live["metadata"].get(part) or {}
    return {key: value for key, value in (step.desired["metadata"].get(part) or {}).items() if was.get(key) != value}


def _keeps_replicas(step: Step) -> bool:
    """Return True if a step changes a service and not its number of replicas, which an autoscaler may change."""
    return step.key.kind in SERVICES and not any(change.path == "spec.replicas" for change in step.changes)
