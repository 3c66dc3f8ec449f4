"""``gpuctl describe node``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from gpuctl.api.node_answers import node_answer
from gpuctl.cli.commands.describe import sections
from gpuctl.cli.commands.describe.named import show_named
from gpuctl.cli.options.completing import complete_node
from gpuctl.cli.options.reading_options import detail_options, reading_options
from gpuctl.objects.api_resources import labels_of
from gpuctl.objects.workload_state import age
from gpuctl.reading.node_gpus import Gpus
from gpuctl.reading.node_rows import NodeState
from gpuctl.usecases.looking import Reader
from gpuctl.usecases.node_queries import describe_node


@click.command(
    "node",
    short_help="Resources, GPUs, labels and jobs of a node.",
    epilog="Example:\n\n  $ gpuctl describe node node-1",
)
@click.argument("name", metavar="NODE", shell_complete=complete_node)
@detail_options
@reading_options
def command(name: str, output: str, as_json: bool, **where: str | None) -> int:
    """Show what a node has, what of it is requested and by whom, its labels, pool and condition."""
    return show_named(name, "json" if as_json else output, where, describe_node, node_answer, _show)


def _show(looking: Reader, node: NodeState) -> None:
    gpus = Gpus(looking.settings)
    labels = sorted(labels_of(node.object).items())
    status, taints = node.object.get("status") or {}, (node.object.get("spec") or {}).get("taints") or []
    info = status.get("nodeInfo") or {}
    sections.show_facts(
        [
            ("Name", node.name),
            ("Status", f"{sections.state(node.status)} ({node.kubernetes})"),
            ("Pool", node.pool),
            ("GPU type", _gpu_type(node)),
            ("GPUs", _gpu_line(node, gpus)),
            ("Address", node.address or ""),
            ("Created", sections.when(node.created_at)),
        ]
    )
    cards = [name for name in node.total if name in gpus.vendors]
    names = {name: "gpu" if len(cards) == 1 else f"gpu/{gpus.vendors[name]}" for name in cards}
    names |= {"cpu": "cpu", "memory": "memory"}
    names |= {name: name for name in sorted(node.total) if "/" in name and name not in names}
    sections.show_amounts("Resources", [(shown, *node.amount(name)) for name, shown in names.items()])
    sections.show_holders("Jobs", node.holders, where=False)
    sections.show_lines("Labels", (f"{key}={value}" for key, value in labels))
    sections.show_lines("Taints", map(_taint, taints))
    sections.show_section("Conditions", ("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"), _conditions(status))
    facts = {
        "Kubelet": info.get("kubeletVersion"),
        "Container runtime": info.get("containerRuntimeVersion"),
        "Operating system": info.get("osImage"),
        "Kernel": info.get("kernelVersion"),
        "Architecture": info.get("architecture"),
    }
    click.echo()
    sections.show_facts([(name, str(value or "")) for name, value in facts.items()])


def _gpu_type(node: NodeState) -> str:
    labels = [key for key, value in node.gpu_labels.items() if value == node.gpu_type]
    return f"{node.gpu_type} (label {labels[0]})" if labels else node.gpu_type or ""


def _gpu_line(node: NodeState, gpus: Gpus) -> str:
    if not node.gpu_total and not node.broken_gpus:
        return "none"
    vendors = sorted({gpus.vendors[name] for name in node.total if name in gpus.vendors})
    parts = [f"{node.gpu_total} {'+'.join(vendors)}"]
    if node.gpu_used is not None:
        parts.append(f"{node.gpu_used} used, {node.gpu_free} free")
    if node.broken_gpus:
        parts.append(f"{node.broken_gpus} more out of order")
    return "; ".join(parts)


def _taint(taint: dict[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _conditions(status: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for item in status.get("conditions") or []:
        since = age(item["lastTransitionTime"]) if item.get("lastTransitionTime") else ""
        yield item["type"], item["status"], item.get("reason") or "", since, item.get("message") or ""
