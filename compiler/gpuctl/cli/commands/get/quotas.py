"""``gpuctl get quotas``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gpuctl.cli.commands.get.listing import ListEntry, show_list, strip_kinds
from gpuctl.cli.options.completion_callbacks import complete_quota
from gpuctl.cli.options.reading_options import (
    ListOptions,
    ReadingOptions,
    list_options,
    namespace_options,
    open_context,
    reading_options,
)
from gpuctl.cli.output.amounts import rounded_amount
from gpuctl.reading.queues.quota_rows import QuotaState

if TYPE_CHECKING:
    from gpuctl.api.quota_answers import Quota

HEADERS = ("USER", "QUOTA", "STATUS", "CPU", "MEMORY", "GPU", "JOBS")
WIDE = ("AGE", "SCOPES", "DESCRIPTION")


@click.command(
    "quotas",
    short_help="Quotas and their use.",
    epilog="Examples:\n\n  $ gpuctl get quotas\n\n  $ gpuctl get quotas zhang-san -o json",
)
@click.argument("names", nargs=-1, metavar="[USER]...", shell_complete=complete_quota)
@list_options
@namespace_options
@reading_options
def command(
    names: tuple[str, ...],
    output_form: ListOptions,
    namespace: str | None,
    reading: ReadingOptions,
) -> int:
    """List quotas and their use.

    A user is a namespace; the name of a quota's document selects all its users. Cells are used/total of requested
    resources. STATUS is full if a resource is used up. A quota with SCOPES (-o wide) limits only the pods in all of
    them.
    """
    from gpuctl.usecases.queries.quota_queries import list_quotas

    with open_context(reading, namespace, as_json=output_form.is_machine) as read_context:
        quotas = list_quotas(read_context, strip_kinds(names))
        entries = []
        for quota in quotas:
            cells = [quota.namespace, quota.name, quota.status, *(cell(quota, name) for name in ("cpu", "memory"))]
            cells += [gpu_cell(quota), cell(quota, "jobs")]
            wide = (read_context.age(quota.created_at), ", ".join(quota.scopes), quota.description or "")
            entries.append(ListEntry(f"quota/{quota.namespace}", cells, wide))
        where = f" in namespace {read_context.scope.searched}" if read_context.scope.searched else ""
        show_list(output_form, partial(_answer, quotas), HEADERS, WIDE, entries, f"There are no quotas{where}.")
    return 0


def _answer(quotas: Sequence[QuotaState | Quota]) -> dict[str, Any]:
    # Imported here: the models take longer to import than a small cluster to list, and a table does not need them.
    from gpuctl.api.quota_answers import QuotaList

    return QuotaList.of(quotas).as_json()


def cell(quota: QuotaState | Quota, name: str) -> str:
    """Return ``used/total`` of a resource; "" without a limit."""
    total, used = quota.amount(name)
    return "" if total is None else f"{rounded_amount(name, used) or '?'}/{rounded_amount(name, total)}"


def gpu_cell(quota: QuotaState | Quota) -> str:
    """Return ``used/total`` of the GPUs, with the GPU type, or the vendor if several vendors have a limit or a use."""
    limits = [limit for limit in quota.limits if limit.name == "gpu"]
    open_ones = [limit for limit in limits if limit.total or limit.used]
    if len(open_ones) <= 1 and not any(limit.gpu_type for limit in limits):
        return cell(quota, "gpu")
    amounts = [(limit, rounded_amount("gpu", limit.used) or "?") for limit in open_ones]
    return ",".join(
        f"{limit.gpu_type or limit.vendor}:{used}/{rounded_amount('gpu', limit.total)}" for limit, used in amounts
    )
