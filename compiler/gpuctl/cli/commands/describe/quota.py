"""``gpuctl describe quota``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from gpuctl.api.quota_answers import Quota, QuotaLimit, quota_answer
from gpuctl.cli.commands.describe import sections
from gpuctl.cli.commands.describe.named import show_named
from gpuctl.cli.options.completion_callbacks import complete_quota
from gpuctl.cli.options.reading_options import ReadingOptions, detail_options, namespace_options, reading_options
from gpuctl.reading.queues.quota_rows import QuotaState, ResourceLimit
from gpuctl.usecases.queries.quota_queries import list_quotas, quota_holders
from gpuctl.usecases.queries.read_context import ReadContext


@click.command(
    "quota",
    short_help="Limits of a user, and what is used.",
    epilog="Example:\n\n  $ gpuctl describe quota zhang-san",
)
@click.argument("name", metavar="USER", shell_complete=complete_quota)
@detail_options
@namespace_options
@reading_options
def command(name: str, output: str, namespace: str | None, reading: ReadingOptions) -> int:
    """Show a user's limits, their use, and the pods that use them.

    The use is what pods request, as Kubernetes counts it. The name of a quota's document selects all its users.
    """
    return show_named(name, output, reading, _find, _answer, _show, namespace)


def _find(read_context: ReadContext, name: str) -> Sequence[QuotaState | Quota]:
    return list_quotas(read_context, [name])


def _answer(quotas: Sequence[QuotaState | Quota]) -> dict[str, Any]:
    return quota_answer(quotas).as_json()


def _show(read_context: ReadContext, quotas: Sequence[QuotaState | Quota]) -> None:
    for number, quota in enumerate(quotas):
        if number:
            click.echo()
        show_quota(read_context, quota)
        sections.show_holders("Used by", quota_holders(read_context, quota.namespace))


def show_quota(read_context: ReadContext, quota: QuotaState | Quota) -> None:
    """Print a quota and its use."""
    defaults = ", ".join(f"{name} {value}" for name, value in sorted(quota.defaults.items()))
    facts = [
        ("User", quota.namespace),
        ("Quota", quota.name if quota.is_ours else f"{quota.name} (not gpuctl's)"),
        ("Description", quota.description or ""),
        ("Status", sections.state(quota.status)),
        ("Created", sections.when(read_context, quota.created_at)),
    ]
    if quota.scopes:
        facts.append(("Only pods in scope", ", ".join(quota.scopes)))
    if defaults:
        facts.append(("Without requests", f"a container counts as {defaults}"))
    sections.show_facts(facts)
    names = Counter(limit.name for limit in quota.limits)
    sections.show_amounts(
        "Limits",
        [(_limit_name(limit, unique=names[limit.name] == 1), limit.total, limit.used) for limit in quota.limits],
    )


def _limit_name(limit: ResourceLimit | QuotaLimit, *, unique: bool) -> str:
    """Return the name of a limit.

    :param unique: no other limit has its name; else add the type or vendor of GPUs, or return Kubernetes' key.
    """
    if limit.name != "gpu":
        return limit.name if unique else limit.resource
    return limit.name if unique and not limit.gpu_type else f"gpu/{limit.gpu_type or limit.vendor}"
