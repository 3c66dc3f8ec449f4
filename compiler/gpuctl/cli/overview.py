"""The commands by topic, for ``gpuctl --help``, and hints for command names of other tools."""

from __future__ import annotations

from typing import NamedTuple


class OverviewLine(NamedTuple):
    """Related commands and a short description."""

    commands: tuple[str, ...]
    text: str


OVERVIEW: dict[str, tuple[OverviewLine, ...]] = {
    "Author": (
        OverviewLine(("init", "explain", "schema"), "Start a document; explain fields; for editors."),
        OverviewLine(("validate", "fmt"), "Report every problem; canonical spelling."),
        OverviewLine(("render",), "Compile documents to Kubernetes manifests."),
    ),
    "Cluster": (
        OverviewLine(("diff", "apply", "create"), "Preview; bring about; submit what is new."),
        OverviewLine(("delete", "recover"), "Delete; finish what a killed apply left."),
        OverviewLine(("history", "rollback"), "What was applied of a job; apply it again."),
        OverviewLine(("fit", "snapshot"), "Whether jobs fit; what a cluster has, saved."),
    ),
    "Daily": (
        OverviewLine(("get", "query", "describe"), "List jobs, pools, nodes ...; show all of one."),
        OverviewLine(("why", "logs", "wait"), "Why it does not run; its output; wait for it."),
        OverviewLine(("exec", "port-forward"), "Run a command in a pod; reach a job's port."),
        OverviewLine(("pause", "resume", "rerun"), "Free a job's GPUs; go on; run it again."),
    ),
    "Nodes": (OverviewLine(("label", "add", "remove"), "Label nodes; put them into pools; take out."),),
    "GitOps": (OverviewLine(("build", "impact", "drift"), "Manifests; what a change does; what differs."),),
    "Other": (
        OverviewLine(("serve", "login", "logout"), "A REST API; use one instead of a kubeconfig."),
        OverviewLine(("usage",), "Who holds GPUs, what they do; collect it."),
        OverviewLine(("completion", "version"), "Completion for a shell; versions."),
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
    "start": "`gpuctl apply -f FILE` starts a job; `gpuctl resume JOB` goes on with one that is paused.",
    "run": "`gpuctl apply -f FILE` starts a job.",
    "submit": "`gpuctl apply -f FILE` starts a job.",
    "ps": "`gpuctl get jobs` lists jobs.",
    "ls": "`gpuctl get jobs` lists jobs.",
    "list": "`gpuctl get jobs` lists jobs.",
    "jobs": "`gpuctl get jobs` lists jobs.",
    "undo": "`gpuctl rollback JOB` applies the document again that a job had before.",
    "revert": "`gpuctl rollback JOB` applies the document again that a job had before.",
    "queue": "`gpuctl get jobs --status pending` lists what waits.",
    "status": "`gpuctl get jobs` lists jobs; `gpuctl describe job JOB` shows all about one.",
    "show": "`gpuctl describe job JOB` shows all about a job.",
    "events": "`gpuctl describe job JOB` shows a job's events; `gpuctl why JOB` what they mean.",
    "top": "`gpuctl usage top` shows who holds GPUs now; `gpuctl get nodes` how many of each node are used.",
    "nodes": "`gpuctl get nodes` lists nodes.",
    "pools": "`gpuctl get pools` lists pools.",
    "quotas": "`gpuctl get quotas` lists quotas.",
    "scale": "Set `service.replicas` in the document, and `gpuctl apply -f FILE`.",
    "edit": "Change the document, and `gpuctl apply -f FILE`.",
    "log": "`gpuctl logs JOB` shows what a job's pods print.",
    "attach": "`gpuctl exec -it JOB -- bash` opens a shell in a job's pod.",
    "ssh": "`gpuctl exec -it JOB -- bash` opens a shell in a job's pod.",
    "shell": "`gpuctl exec -it JOB -- bash` opens a shell in a job's pod.",
    "plan": "`gpuctl diff -f FILE` shows what apply would do.",
    "lint": "`gpuctl validate FILE` reports every problem of a document.",
    "help": "`gpuctl --help` lists the commands, `gpuctl COMMAND --help` tells about one.",
}
"""A command name of other tools -> the gpuctl command that does it."""
