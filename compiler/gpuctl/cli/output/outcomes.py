"""What became of several nodes, for people and for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gpuctl.acts.node_labels import Report

OUTAGE = 3


def show_report(report: Report, done: str, *, as_json: bool) -> int:
    """Print it; the exit code: 0, 1 when a node could not be done, 3 when that is the cluster's fault.

    :param done: what was done, as a participle.
    """
    total = len(report.done) + len(report.failed)
    if as_json:
        said = f"{len(report.done)} of {total} nodes {done}"
        value = {
            "success": [item.name for item in report.done],
            "failed": [item.json() for item in report.failed],
            "message": said + ("; see `failed`" if report.failed else ""),
            "notes": report.notes,
        }
        click.echo(json.dumps(value, ensure_ascii=False, indent=2))
    else:
        for item in report.done:
            click.echo(f"node/{item.name}  {item.text}")
    for problem in report.failed:
        click.echo(f"error: {problem.message}", err=True)
    for note in dict.fromkeys(report.notes):
        click.echo(f"note: {note}", err=True)
    if not report.failed:
        return 0
    return OUTAGE if any(item.is_outage for item in report.failed) else 1
