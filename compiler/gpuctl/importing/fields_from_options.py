"""Fields of a document from values of the command line."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.importing.draft import Draft
from gpuctl.importing.field_values import number_or_text
from gpuctl.importing.import_values import REASONS, Given, Missing, Unreadable
from gpuctl.importing.line_ledger import LineLedger


def replace_values(draft: Draft, given: Given, ledger: LineLedger) -> None:
    """Set the values of the command line, but for the numbers of nodes and GPUs.

    :param ledger: has the entries of the values that are replaced.
    """
    for option, field, value in (
        ("--name", "job.name", given.name),
        ("--image", "environment.image", given.image),
        ("--cpu", "resources.cpu", given.cpu),
        ("--memory", "resources.memory", given.memory),
        ("--pool", "resources.pool", given.pool),
        ("--workdir", "environment.workdir", given.workdir),
    ):
        if value is not None:
            new = number_or_text(value)
            if draft.get(field) not in (None, new):
                ledger.replaced(field, f"{option} replaces it")
            draft.set(field, new)


def set_given_values(draft: Draft, given: Given, ledger: LineLedger, line: int, *, has_gpus: bool) -> list[Missing]:
    """Set the values of the command line. Return those that neither it nor the source names.

    :param ledger: has the entries of the values that are replaced. Numbers that the source names are set before.
    :param line: the line that calls for them.
    :param has_gpus: CPUs and memory are needed.
    """
    replace_values(draft, given, ledger)
    if given.nodes is not None:
        ledger.replaced("resources.nodes", "--nodes replaces it")
    if given.gpus_per_node is not None:
        ledger.replaced("resources.gpu", "--gpus-per-node replaces the number")
        if given.gpus_per_node and draft.get("resources.gpu") is None:
            draft.set("resources.gpu", given.gpus_per_node)
    needed = [("--name", "job.name", "NAME"), ("--image", "environment.image", "REF")]
    if has_gpus:
        needed += [("--cpu", "resources.cpu", "N"), ("--memory", "resources.memory", "AMOUNT")]
    return [
        Missing(option, shown, line, REASONS[option]) for option, field, shown in needed if draft.get(field) is None
    ]


def check_nodes(given: Given, drafts: Sequence[Draft]) -> None:
    """Check that a number of nodes of the command line has a training that it is for.

    :raises Unreadable: all documents are of other kinds.
    """
    kinds = {draft.kind for draft in drafts}
    if given.nodes is not None and kinds and "training" not in kinds:
        message = f"`--nodes` is for trainings, and the file becomes a document of the kind `{kinds.pop()}`"
        raise Unreadable(1, message, "remove `--nodes`")
