"""Restarts of Kubeflow's training operator as further attempts of a training.

The operator leaves restarts to the kubelet, which restarts one container. The operator counts the restarts of all
containers up to `backoffLimit`; without one there is no limit. With `Never` the first failed pod ends the job, whatever
the limit is.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.source_tree import Path, dotted_path
from gpuctl.language.array_block import MOST_RETRIES

_EACH = "the operator restarts one container and counts the restarts of all; each further attempt restarts all pods"
_WRITE = "write `job.retries`, the number of further attempts"
_ENDLESS = f"without a limit failed containers restart endlessly: {_WRITE}"
_EXIT_CODE = "every failure counts; the operator restarts pods with exit codes from 128 on alone"


def take_restarts(tree: ConvertedTree, policies: Sequence[Path], limit: Path, *, in_place: bool = True) -> None:
    """Take the restart policies of groups of pods, and the limit of their restarts.

    :param policies: the path of each group's policy. A policy that is not written is ``OnFailure``.
    :param in_place: False if a Job starts new pods up to the limit, whatever the policies are, as that of MPI does.
    """
    written = [tree.text(path) for path in policies]
    number = tree.number(limit)
    if all(policy == "Never" for policy in written) and (in_place or number is None):
        for path in policies:
            tree.mapped(path, "job.retries")
        tree.changed(limit, None, "with `Never` the operator starts no failed pod again, and neither does gpuctl")
        return
    tree.set_number(limit, "job.retries", _EACH, MOST_RETRIES)
    for path, policy in zip(policies, written, strict=True):
        if policy == "Never":
            tree.changed(path, "job.retries", "every failure counts: all pods restart together")
        elif number is None:
            tree.dropped(path, _ENDLESS if in_place else _WRITE)
        else:
            tree.changed(path, "job.retries", _EXIT_CODE if policy == "ExitCode" else _EACH)
    if in_place and number is None and all(policy is None for policy in written):
        names = ", ".join(dotted_path(path) for path in policies)
        tree.draft.head.append(f"No line sets {names}, so it is OnFailure: {_ENDLESS}.")
