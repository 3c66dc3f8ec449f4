"""The commands by topic, for ``gpuctl --help``, and hints for command names of other tools."""

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

COMMAND_HINTS: dict[str, str] = {
    "stop": "`gpuctl pause JOB` frees a job's GPUs and keeps it; `gpuctl delete job JOB` deletes it.",
    "cancel": "`gpuctl delete job JOB` deletes a job; `gpuctl pause JOB` frees its GPUs and keeps it.",
    "kill": "`gpuctl delete job JOB` deletes a job; `gpuctl pause JOB` frees its GPUs and keeps it.",
    "rm": "`gpuctl delete job JOB` deletes a job.",
    "restart": "`gpuctl rerun JOB` runs a training again; `gpuctl pause JOB`, then `gpuctl resume JOB`, restarts a "
    "service.",
    "start": "`gpuctl apply -f FILE` starts a job; `gpuctl resume JOB` resumes a paused one.",
    "submit": "`gpuctl apply -f FILE` starts a job.",
    "ps": "`gpuctl get jobs` lists jobs.",
    "ls": "`gpuctl get jobs` lists jobs.",
    "list": "`gpuctl get jobs` lists jobs.",
    "jobs": "`gpuctl get jobs` lists jobs.",
    "undo": "`gpuctl rollback JOB` applies a job's previous document again.",
    "revert": "`gpuctl rollback JOB` applies a job's previous document again.",
    "queue": "`gpuctl get jobs --status pending` lists waiting jobs.",
    "status": "`gpuctl get jobs` lists jobs; `gpuctl describe job JOB` shows one in detail.",
    "show": "`gpuctl describe job JOB` shows a job in detail.",
    "events": "`gpuctl describe job JOB` shows a job's events; `gpuctl why JOB` what they mean.",
    "top": "`gpuctl usage top` shows who holds GPUs now; `gpuctl get nodes` how many of each node are used.",
    "nodes": "`gpuctl get nodes` lists nodes.",
    "pools": "`gpuctl get pools` lists pools.",
    "quotas": "`gpuctl get quotas` lists quotas.",
    "edit": "`gpuctl set FILE PATH=VALUE` changes the document; `gpuctl apply -f FILE` applies it.",
    "log": "`gpuctl logs JOB` prints the logs of a job's pods.",
    "attach": "`gpuctl exec -it JOB -- bash` opens a shell in a job's pod.",
    "ssh": "`gpuctl exec -it JOB -- bash` opens a shell in a job's pod.",
    "shell": "`gpuctl exec -it JOB -- bash` opens a shell in a job's pod.",
    "plan": "`gpuctl diff -f FILE` shows what apply would do.",
    "lint": "`gpuctl validate FILE` reports every problem of a document.",
    "sbatch": "`gpuctl import FILE` prints the document of a batch script; `gpuctl apply -f FILE` starts its job.",
    "srun": "`gpuctl apply -f FILE` starts a job; `gpuctl exec -it JOB -- bash` opens a shell in a running one.",
    "salloc": "`gpuctl init notebook` prints a document for interactive work; `gpuctl apply -f FILE` starts it.",
    "squeue": "`gpuctl get jobs` lists jobs; `gpuctl why JOB` shows why one waits.",
    "sprio": "`gpuctl why JOB` shows why a job waits.",
    "scancel": "`gpuctl delete job JOB` deletes a job; `gpuctl pause JOB` frees its GPUs and keeps it.",
    "scontrol": "`gpuctl describe job JOB` shows a job; `gpuctl pause JOB` holds it, `gpuctl resume JOB` releases it.",
    "sinfo": "`gpuctl get pools` and `gpuctl get nodes` show GPUs and how many are free.",
    "sacct": "`gpuctl get jobs` lists jobs; `gpuctl usage workloads` shows the GPU hours of past ones.",
    "help": "`gpuctl --help` lists the commands, `gpuctl COMMAND --help` describes one.",
}
"""A command name of other tools -> the gpuctl command that does it."""
