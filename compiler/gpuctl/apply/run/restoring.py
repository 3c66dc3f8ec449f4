"""How what a plan takes away comes back where its successor cannot be created."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuctl.apply.plan.plan import Step
from gpuctl.kube.kueue import find_workloads
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import key_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.queueing import was_admitted
from gpuctl.objects.workload_state import restorable


def remember(session: Session, steps: Iterable[Step], keys: Records, warn: Callable[[str], None]) -> None:
    """Note in each step the old object as it can be created again.

    Kueue's Workloads, which tell where jobs might run before they were admitted, go with the jobs. It is a warning that
    they may not be read.

    :raises ClusterError: they cannot be listed.
    """
    leaving = [(step, step.live) for step in steps if step.is_remembered and step.live is not None]
    admitted = find_workloads(session, [live for _, live in leaving if was_admitted(live)])
    for step, live in leaving:
        step.restorable = restorable(live, keys, admitted.by_job.get(live["metadata"]["uid"]))
        if live["metadata"]["namespace"] in admitted.hidden and was_admitted(live):
            warn(
                f"warning: you may not list Kueue's workloads there: if {key_of(live)} is created again as it was, it "
                "keeps to the nodes of the flavor that it was admitted to"
            )
