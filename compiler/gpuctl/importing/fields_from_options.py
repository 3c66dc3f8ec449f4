"""Fields of a document from values of the command line, for all importers but that of Slurm."""

from __future__ import annotations

from gpuctl.importing.draft import Draft
from gpuctl.importing.field_values import number_or_text
from gpuctl.importing.import_values import REASONS, Given, Missing
from gpuctl.importing.line_ledger import LineLedger


def set_given_values(draft: Draft, given: Given, ledger: LineLedger, line: int, *, has_gpus: bool) -> list[Missing]:
    """Set the values of the command line. Return those that neither it nor the source names.

    :param ledger: has the entries of the values that are replaced. The numbers of nodes and GPUs are set before.
    :param line: the line that calls for them.
    :param has_gpus: CPUs and memory are needed.
    """
    missing: list[Missing] = []
    for option, field, value, shown, is_needed in (
        ("--name", "job.name", given.name, "NAME", True),
        ("--image", "environment.image", given.image, "REF", True),
        ("--cpu", "resources.cpu", given.cpu, "N", has_gpus),
        ("--memory", "resources.memory", given.memory, "AMOUNT", has_gpus),
        ("--pool", "resources.pool", given.pool, "POOL", False),
        ("--workdir", "environment.workdir", given.workdir, "DIR", False),
    ):
        if value is not None:
            new = number_or_text(value)
            if draft.get(field) not in (None, new):
                ledger.replaced(field, f"{option} replaces it")
            draft.set(field, new)
        elif is_needed and draft.get(field) is None:
            missing.append(Missing(option, shown, line, REASONS[option]))
    if given.nodes is not None:
        ledger.replaced("resources.nodes", "--nodes replaces it")
    if given.gpus_per_node is not None:
        ledger.replaced("resources.gpu", "--gpus-per-node replaces the number")
    return missing
