"""``gpuctl describe namespace``."""

from __future__ import annotations

from typing import Any

import click

from gpuctl.api.namespace_answers import NamespaceAnswer, NamespaceDetail
from gpuctl.cli.commands.describe import sections
from gpuctl.cli.commands.describe.named import show_named
from gpuctl.cli.commands.describe.quota import show_quota
from gpuctl.cli.options.completion_callbacks import complete_namespace
from gpuctl.cli.options.reading_options import ReadingOptions, detail_options, reading_options
from gpuctl.reading.queues.namespace_rows import Namespace
from gpuctl.usecases.queries.quota_queries import describe_namespace
from gpuctl.usecases.queries.read_context import ReadContext


@click.command(
    "namespace",
    short_help="Quota and jobs of a namespace.",
    epilog="Example:\n\n  $ gpuctl describe namespace zhang-san",
)
@click.argument("name", metavar="NAMESPACE", shell_complete=complete_namespace)
@detail_options
@reading_options
def command(name: str, output: str, reading: ReadingOptions) -> int:
    """Show a namespace's quotas, and its running and waiting jobs."""
    return show_named(name, output, reading, describe_namespace, _answer, _show)


def _answer(namespace: Namespace | NamespaceDetail) -> dict[str, Any]:
    return NamespaceAnswer.model_validate(namespace).as_json()


def _show(read_context: ReadContext, namespace: Namespace | NamespaceDetail) -> None:
    sections.show_facts(
        [
            ("Name", namespace.name),
            ("Status", namespace.status or ""),
            ("Created", sections.when(read_context, namespace.created_at)),
            ("Jobs", f"{namespace.jobs} of {namespace.all_jobs} have not ended" if namespace.all_jobs else "none"),
            ("GPUs used", str(namespace.gpu_used)),
            ("Labels", "\n".join(f"{key}={value}" for key, value in sorted((namespace.labels or {}).items()))),
        ]
    )
    for quota in namespace.quotas:
        click.echo()
        show_quota(read_context, quota)
    sections.show_holders("Running", namespace.running_jobs)
    if namespace.waiting_jobs:
        sections.show_holders("Waiting", namespace.waiting_jobs, where=False)
