"""The commands by topic, for ``gpuctl --help``."""

from __future__ import annotations

from typing import NamedTuple


class OverviewLine(NamedTuple):
    """Related commands and a short description."""

    commands: tuple[str, ...]
    text: str


OVERVIEW: dict[str, tuple[OverviewLine, ...]] = {
    "Author": (
        OverviewLine(("init", "new", "validate"), "Starter document; ask for its fields; check."),
        OverviewLine(("explain", "fmt", "render"), "Help; canonical form; compile to manifests."),
        OverviewLine(("set", "import", "schema"), "Set fields; other tools' jobs; JSON Schema."),
    ),
    "Cluster": (
        OverviewLine(("diff", "apply", "create"), "Preview; apply; submit new documents."),
        OverviewLine(("delete", "recover"), "Delete; finish an interrupted apply."),
        OverviewLine(("history", "rollback"), "List a job's revisions; apply one again."),
        OverviewLine(("fit", "snapshot", "usage"), "Check that jobs fit; save a cluster; GPU usage."),
    ),
    "Daily": (
        OverviewLine(("get", "query", "describe"), "List jobs, pools, nodes ...; show one fully."),
        OverviewLine(("why", "logs", "wait"), "Why a job does not run; its logs; wait for it."),
        OverviewLine(("exec", "port-forward"), "Run a command in a pod; reach a job's port."),
        OverviewLine(("open", "pause", "resume"), "Reach a notebook; free a job's GPUs; resume it."),
        OverviewLine(("run", "rerun", "scale"), "Start a run now; run again; change nodes."),
    ),
    "Nodes": (OverviewLine(("label", "add", "remove"), "Label nodes; add them to pools; remove them."),),
    "GitOps": (OverviewLine(("build", "impact", "drift"), "Write manifests; impact of a change; drift."),),
    "Other": (
        OverviewLine(("serve", "login", "logout"), "Run the REST API; log in to one; log out."),
        OverviewLine(("completion", "version"), "Shell completion; versions."),
    ),
}
"""Topic -> its lines; together they list every command. A table, because importing each command for its help would slow
down the start.
"""

COMMANDS = tuple(name for lines in OVERVIEW.values() for line in lines for name in line.commands)
