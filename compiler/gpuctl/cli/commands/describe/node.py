"""``gpuctl describe node``."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import click

from gpuctl.api.node_answers import NodeReport
from gpuctl.cli.commands.describe import sections
from gpuctl.cli.commands.describe.named import show_named
from gpuctl.cli.options.completion_callbacks import complete_node
from gpuctl.cli.options.reading_options import ReadingOptions, detail_options, reading_options
from gpuctl.language.mig_profiles import profile_of
from gpuctl.objects.selectors import taint_text
from gpuctl.usecases.queries.node_description import describe_node
from gpuctl.usecases.queries.read_context import ReadContext


@click.command(
    "node",
    short_help="Resources, GPUs, labels and jobs of a node.",
    epilog="Example:\n\n  $ gpuctl describe node node-1",
)
@click.argument("name", metavar="NODE", shell_complete=complete_node)
@detail_options
@reading_options
def command(name: str, output: str, reading: ReadingOptions) -> int:
    """Show a node's resources, the pods that request them, its labels, pool and conditions."""
    return show_named(name, output, reading, describe_node, NodeReport.as_json, _show)


def _show(read_context: ReadContext, node: NodeReport) -> None:
    k8s = node.k8s_status
    sections.show_facts(
        [
            ("Name", node.node_name),
            ("Status", f"{sections.state(node.status)} ({node.k8s_state})"),
            ("Pool", ", ".join(node.bound_pools)),
            ("GPU type", _gpu_type(node)),
            ("GPUs", _gpu_line(node)),
            ("Address", node.address or ""),
            ("Created", sections.when(read_context, node.created_at)),
        ]
    )
    sections.show_amounts("Resources", _amounts(node))
    sections.show_holders("Jobs", node.running_jobs, where=False)
    sections.show_lines("Labels", (f"{key}={value}" for key, value in node.labels.items()))
    sections.show_lines("Taints", map(taint_text, k8s.taints))
    headers = ("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE")
    sections.show_section("Conditions", headers, [_condition(read_context, item) for item in k8s.conditions])
    facts = {
        "Kubelet": k8s.kubelet_version,
        "Container runtime": k8s.container_runtime_version,
        "Operating system": k8s.os_image,
        "Kernel": k8s.kernel_version,
        "Architecture": k8s.architecture,
    }
    click.echo()
    sections.show_facts([(name, value or "") for name, value in facts.items()])


def _amounts(node: NodeReport) -> Iterator[tuple[str, Fraction, Fraction | None]]:
    cards = [item for item in node.amounts if item.vendor is not None and profile_of(item.resource) is None]
    several = len(cards) > 1
    for item in node.amounts:
        gpu = profile_of(item.resource) or (f"gpu/{item.vendor}" if several else "gpu")
        used = None if item.used is None else Fraction(str(item.used))
        yield item.resource if item.vendor is None else gpu, Fraction(str(item.total)), used


def _gpu_type(node: NodeReport) -> str:
    labels = [key for key, value in node.gpu_labels.items() if value == node.gpu_type]
    return f"{node.gpu_type} (label {labels[0]})" if labels else node.gpu_type or ""


def _gpu_line(node: NodeReport) -> str:
    gpus = node.resources
    if not gpus.gpu_total and not gpus.gpu_unhealthy:
        return "none"
    vendors = sorted({item.vendor for item in node.amounts if item.vendor is not None})
    parts = [f"{gpus.gpu_total} {'+'.join(vendors)}"]
    if gpus.gpu_used is not None:
        parts.append(f"{gpus.gpu_used} used, {gpus.gpu_free} free")
    if gpus.gpu_unhealthy:
        parts.append(f"{gpus.gpu_unhealthy} more unhealthy")
    return "; ".join(parts)


def _condition(read_context: ReadContext, item: dict[str, Any]) -> tuple[str, ...]:
    since = read_context.age(item.get("lastTransitionTime"))
    return item["type"], item["status"], item.get("reason") or "", since, item.get("message") or ""
