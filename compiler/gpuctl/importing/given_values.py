"""Values of the command line in a document whose importer reads no resources from other places."""

from __future__ import annotations

from gpuctl.importing.draft import Draft
from gpuctl.importing.import_values import REASONS, Given, Missing
from gpuctl.importing.slurm.slurm_values import whole_number


def set_given_values(draft: Draft, given: Given, line: int, *, has_gpus: bool) -> list[Missing]:
    """Set the values of the command line. Return those that neither it nor the source names.

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
            number = whole_number(value)
            draft.set(field, value if number is None else number)
        elif is_needed and draft.get(field) is None:
            missing.append(Missing(option, shown, line, REASONS[option]))
    return missing
