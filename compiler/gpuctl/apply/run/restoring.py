"""How what a plan takes away comes back where its successor cannot be created."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.apply.plan.plan import Step
from gpuctl.apply.state.queueing import was_admitted
from gpuctl.apply.state.records import Records
from gpuctl.apply.state.workload import restorable
from gpuctl.kube.kueue import find_workloads
from gpuctl.kube.session import Session


def remember(session: Session, steps: Iterable[Step], keys: Records) -> None:
    """Note in each step the old object as it can be created again.

    Kueue's Workloads, which tell where jobs might run before they were admitted, go with the jobs.

    :raises ClusterError: they cannot be listed.
    """
    leaving = [(step, step.live) for step in steps if step.is_remembered and step.live is not None]
    admitted = find_workloads(session, [live for _, live in leaving if was_admitted(live)])
    for step, live in leaving:
        step.restorable = restorable(live, keys, admitted.get(live["metadata"]["uid"]))
