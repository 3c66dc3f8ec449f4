"""The groups of nodes of a dstack task as roles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gpuctl.frontend.yaml_tree import MAPPING, RawDocument
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.draft import COMMAND, NEED_JOBSET, Draft
from gpuctl.importing.dstack_nodes import NOTES, VARIABLES, take_commands, take_resources
from gpuctl.importing.import_values import Given
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.task_fields import TaskFields
from gpuctl.language.names import nearest_dns_label
from gpuctl.language.role_block import LONGEST_ROLE_NAME
from gpuctl.language.settings import Settings
from gpuctl.objects.quantities import whole_number

_ADDRESS = r"\$\{\{[ \t]*groups\[([0-9]{1,4})\]\.nodes\[([0-9]{1,4})\]\.IP_ADDRESS[ \t]*\}\}"
_RANK = r"\bDSTACK_NODE_RANK\b"
_MASTER = r"\bDSTACK_MASTER_NODE_IP\b"
_FIELDS = {
    COMMAND: "roles[].command",
    "environment.env": "roles[].env",
    "resources.nodes": "roles[].nodes",
    "resources": "roles[].resources",
}
"""Begin of a field of the nodes of a group -> that of its role."""
_OF_JOB = ("environment.workdir", "job.master_port")
"""Fields that roles have from the job."""
_NOT_OF_ROLE = ("environment.args", "environment.image", "podPatch", "storage")
"""Fields that commands of containers set, and that the groups of one job share."""
_NOTES = {
    **NOTES,
    r"^ports": "write `roles[].ports`",
}


class _Group:
    """A group of nodes, read as a task of its own."""

    def __init__(self, raw: RawDocument, index: int, settings: Settings) -> None:
        self.draft = Draft("training", "", "", settings)
        self.tree = ConvertedTree(raw, LineLedger(), self.draft)
        self.task = TaskFields(self.tree, Given())
        self.task.nodes(("nodes",))
        take_resources(self.tree, self.task)
        written = self.tree.text(("name",))
        self.name = nearest_dns_label(written or "", letter_first=True) or ""
        if not 0 < len(self.name) <= LONGEST_ROLE_NAME:
            self.name = f"group-{index}"
        self.tree.taken(("name",), "roles[].name", None if self.name == written else f"the name is `{self.name}`")
        self.variable = f"GPUCTL_{self.name.upper().replace('-', '_')}"

    def addresses(self) -> list[tuple[int, int]]:
        """Return the nodes whose addresses the commands use, as the places of a group and of a node in it."""
        text = "\n".join(self.tree.text(("commands", index)) or "" for index in range(self.tree.items(("commands",))))
        return [(int(place), int(node)) for place, node in dict.fromkeys(re.findall(_ADDRESS, text))]

    def role(self) -> dict[str, Any]:
        """Return the role, with the ports on which its program listens."""
        nodes = {"nodes": self.task.node_count} if self.task.node_count > 1 else {}
        found: dict[str, Any] = {"name": self.name, **nodes}
        for key, field in (("command", COMMAND), ("env", "environment.env")):
            if (value := self.draft.get(field)) is not None:
                found[key] = value
        for index in range(self.tree.items(("ports",))):
            number = whole_number((self.tree.text(("ports", index)) or "").rpartition(":")[2])
            if number is not None:
                found.setdefault("ports", []).append({"name": f"port-{number}", "port": number})
                self.tree.mapped(("ports", index), "roles[].ports")
        resources = {key: value for key, value in (self.draft.get("resources") or {}).items() if key != "nodes"}
        return {**found, **({"resources": resources} if resources else {})}


def take_groups(raw: RawDocument, tree: ConvertedTree, task: TaskFields, shell: str) -> bool:
    """Set a role for each group of nodes.

    Return False if the file has no groups, or if a group has settings that a role has no fields for.
    """
    nodes = [tree.node(("groups", index)) for index in range(tree.items(("groups",)))]
    groups = [
        _Group(raw._replace(root=node), index, task.draft.settings)
        for index, node in enumerate(nodes)
        if node is not None and node.kind == MAPPING
    ]
    is_given = task.given.nodes is not None or task.given.gpus_per_node is not None
    if not groups or is_given or len(groups) < len(nodes) or any(group.task.is_open for group in groups):
        return False
    for index in range(len(groups)):
        _take_commands(groups, index, shell, task.draft)
    if any(len({group.draft.get(path) for group in groups}) > 1 for path in _OF_JOB):
        return False
    if any(group.draft.get(path) is not None for group in groups for path in _NOT_OF_ROLE):
        return False
    draft = task.draft
    for path in _OF_JOB:
        if (value := groups[0].draft.get(path)) is not None:
            draft.set(path, value)
    tree.take_apart(("groups",))
    roles = [group.role() for group in groups]
    for role in _ordered(tree, roles, groups[0].task.node_count):
        draft.append("roles", role, tree.line(("groups",)))
    if tree.text(("stop_criteria",)) == "master-done" and groups[0].task.node_count == 1:
        tree.set(("stop_criteria",), "primary", [groups[0].name])
    draft.head.append(NEED_JOBSET)
    for group, role in zip(groups, roles, strict=True):
        group.tree.drop_rest(_NOTES)
        tree.ledger.extend(group.tree.ledger.renamed(_FIELDS))
        if not {"cpu", "memory"} <= set(role.get("resources") or {}):
            # These nodes get the amounts of the job.
            task.gpus += group.task.gpus
    return True


def _ordered(tree: ConvertedTree, roles: Sequence[dict[str, Any]], masters: int) -> list[dict[str, Any]]:
    """Return the roles with those first that others wait for.

    :param masters: the number of nodes in the group of the master, which alone starts first or last.
    """
    first, *others = roles
    order = tree.text(("startup_order",))
    if masters > 1 or order not in ("master-first", "workers-first"):
        return [first, *others]
    tree.mapped(("startup_order",), "roles[].dependsOn")
    if order == "master-first":
        return [first, *({**role, "dependsOn": [first["name"]]} for role in others)]
    return [*others, {**first, "dependsOn": [role["name"] for role in others]}]


def _take_commands(groups: Sequence[_Group], index: int, shell: str, draft: Draft) -> None:
    """Set the command of a group, in which addresses are those of roles and counts are those of all nodes.

    :param draft: the document, whose variables the nodes have.
    """
    group = groups[index]
    earlier = sum(other.task.node_count for other in groups[:index])
    values: dict[str, int | str] = {
        "DSTACK_RUN_NAME": draft.get("job.name") or "",
        "DSTACK_NODES_NUM": sum(other.task.node_count for other in groups),
        "DSTACK_GPUS_NUM": sum(other.task.node_count * other.task.gpus for other in groups),
    }
    variables = {
        rf"\$\{{\{{[ \t]*groups\[{place}\]\.nodes\[{node}\]\.IP_ADDRESS[ \t]*\}}\}}": _address(groups[place], node)
        for place, node in group.addresses()
        if place < len(groups) and node < groups[place].task.node_count
    }
    variables[_MASTER] = f"{groups[0].variable}_ADDR"
    if group.task.node_count == 1:
        values["DSTACK_NODE_RANK"] = earlier
    elif earlier:
        # The rank of a role counts its own nodes.
        variables[r"\$(?:DSTACK_NODE_RANK\b|\{DSTACK_NODE_RANK\})"] = f"$((NODE_RANK + {earlier}))"
        variables[_RANK] = ""
    variables |= {pattern: new for pattern, new in VARIABLES.items() if pattern not in variables}
    known = [f"{other.variable}_{part}" for other in groups for part in ("ADDR", "HOSTS")]
    known += draft.get("environment.env") or ()
    take_commands(group.tree, group.task, shell, values, variables, known)


def _address(group: _Group, node: int) -> str:
    """Return the address of a node of a group as the shell expands it."""
    if node == 0:
        return f"${{{group.variable}_ADDR}}"
    return f"$(echo ${group.variable}_HOSTS | cut -d, -f{node + 1})"
