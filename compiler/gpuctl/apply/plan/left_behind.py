"""Jobs on nodes that leave their pool: their pods keep running there, but new pods do not go to these nodes."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.plan.request import Sees
from gpuctl.apply.state.live_state import OURS
from gpuctl.kube.api_errors import if_allowed
from gpuctl.kube.session import Session
from gpuctl.language.wording import first_few
from gpuctl.objects.api_resources import RESOURCES, labels_of
from gpuctl.objects.ownership_metadata import Records, job_title

_NAMED = 5


def note_jobs_left_behind(session: Session, plan: Plan, steps: Iterable[Step], keys: Records, sees: Sees) -> None:
    """Add a note for each node that leaves a pool whose jobs run on it, whether or not it joins another.

    Nothing is noted where pods may not be listed.

    :param sees: whether a job of a namespace and title may be named.
    """
    changed = f"metadata.labels[{keys.pool}]"
    left: dict[str, list[str]] = {}
    for step in steps:
        for change in step.changes:
            if change.path == changed and change.old is not None:
                left.setdefault(str(change.old), []).append(step.key.name)
    for pool, nodes in sorted(left.items()):
        found = _jobs_by_node(session, pool, keys, sees)
        for node in sorted(nodes):
            jobs = sorted(found.get(node, ()))
            if jobs:
                plan.notes.append(
                    f"node {node} leaves the pool {pool}; jobs on it go on, and their next pods do not start there: "
                    f"{first_few(jobs, _NAMED)}"
                )


def _jobs_by_node(session: Session, pool: str, keys: Records, sees: Sees) -> dict[str, set[str]]:
    labels = f"{OURS},{keys.pool}={pool}"
    found: dict[str, set[str]] = {}
    for pod in if_allowed(lambda: session.list_objects(RESOURCES["Pod"], labels=labels)[0], []):
        node, namespace = pod["spec"].get("nodeName"), pod["metadata"]["namespace"]
        if node is None or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        title = job_title(labels_of(pod), keys) or pod["metadata"]["name"]
        found.setdefault(node, set()).add(f"{title} in {namespace}" if sees(namespace, title) else "jobs of others")
    return found
