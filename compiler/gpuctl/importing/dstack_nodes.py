"""The resources and the commands of the nodes of a dstack run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpuctl.frontend.yaml_tree import SCALAR
from gpuctl.importing.draft import COMMAND, Draft
from gpuctl.importing.field_values import whole_number
from gpuctl.importing.import_values import Unreadable
from gpuctl.importing.line_ledger import placed
from gpuctl.importing.node_script import convert_node_script, with_constants
from gpuctl.importing.source_tree import Path, SourceTree
from gpuctl.importing.task_fields import TaskFields, is_no_gpu

VARIABLES = {
    r"\bDSTACK_NODES_NUM\b": "NNODES",
    r"\bDSTACK_NODE_RANK\b": "NODE_RANK",
    r"\bDSTACK_MASTER_NODE_IP\b": "MASTER_ADDR",
    r"\bDSTACK_GPUS_PER_NODE\b": "GPUCTL_GPUS_PER_NODE",
    r"(?m)^([ \t]*)fg[ \t]*$": r"\1wait $!",
    r"\$\{\{[^{}\n]*\}\}": "",
    r"\$\{?\bDSTACK_(?!NODES_NUM|NODE_RANK|MASTER_NODE_IP|GPUS_PER_NODE|GPUS_NUM)\w+\}?"
    r"|\bDSTACK_(?!NODES_NUM|NODE_RANK|MASTER_NODE_IP|GPUS_PER_NODE|GPUS_NUM)\w+": "",
}
_RANGE = "the number of GPUs is fixed: the smallest of the range"
_COUNT = r"(\d+)(\.\.\d*)?\Z"
_MEMORY = r"(?i)(?:\d+(?:\.\d+)?[KMGT]B)?(?:\.\.)?(?:\d+(?:\.\d+)?[KMGT]B)?\Z"
_VENDORS = frozenset({"nvidia", "amd"})
_OTHER_VENDORS = frozenset({"google", "tpu", "intel", "tenstorrent"})
_SHELL = r"(?:/\S*/)?(?:ba|da|k|z)?sh"
_LIST = r"&&|\|\|"


def take_resources(tree: SourceTree, draft: Draft, task: TaskFields) -> None:
    """Take the resources of a node."""
    path = ("resources", "gpu")
    text = tree.text(path)
    if text is not None:
        _gpu_text(text, draft, task)
    elif tree.node(path) is not None:
        _gpu_fields(tree, draft, task)
    for source, name, unit in (("cpu", "cpu", ""), ("memory", "memory", "Gi"), ("shm_size", "shm", "Gi")):
        task.amount(("resources", source), name, unit)


def _gpu_fields(tree: SourceTree, draft: Draft, task: TaskFields) -> None:
    """Take GPUs such as ``{name: H100, count: 2..8}``."""
    path: Path = ("resources", "gpu")
    count, kind = (*path, "count"), (*path, "name")
    items = [(*kind, index) for index in range(tree.items(kind))] or [kind]
    names = [name for item in items for name in (tree.text(item) or "").split(",") if name]
    vendor = (tree.text((*path, "vendor")) or "").lower()
    if vendor in _OTHER_VENDORS or (names and all(map(is_no_gpu, names))):
        task.no_gpus(path)
        return
    written = tree.text(count) or tree.text((*count, "min")) or "1"
    smallest = whole_number(written.split("..")[0])
    is_range = ".." in written or bool(tree.keys(count))
    name = names[0] if len(names) == 1 else None
    line = tree.line(path if tree.node(count) is None else count)
    task.set_gpus(count, 1 if smallest is None else smallest, name, _RANGE if is_range else None, line)
    if name is not None:
        draft.set("resources.gpu-type", name, tree.line(kind))
        tree.mapped(kind, "resources.gpu-type")
    if vendor in _VENDORS:
        _vendor(vendor, draft, tree.line((*path, "vendor")))
        tree.mapped((*path, "vendor"), "resources.gpu-vendor")
    tree.dropped((*path, "memory"), "the memory of a card is that of its type: `resources.gpu-type`")


def _vendor(vendor: str, draft: Draft, line: int) -> None:
    if vendor != "nvidia":
        draft.set("resources.gpu-vendor", vendor, line)


def _gpu_text(text: str, draft: Draft, task: TaskFields) -> None:
    """Take GPUs such as ``H100:80GB:8``, ``amd:MI300X:2..4`` or ``24GB..``."""
    path = ("resources", "gpu")
    name, number, notes = None, 1, []
    for part in text.split(":"):
        count = re.match(_COUNT, part)
        if count is not None:
            number = int(count[1])
            notes += [_RANGE] if count[2] else []
        elif part and re.match(_MEMORY, part):
            notes.append(f"the memory of a card is that of its type ({part}): `resources.gpu-type`")
        elif part in _VENDORS:
            _vendor(part, draft, task.tree.line(path))
        elif is_no_gpu(part) or part in _OTHER_VENDORS:
            task.no_gpus(path)
            return
        elif re.match(r"[A-Za-z][\w-]*\Z", part):
            name = part
        else:
            task.ask_for_gpus(path)
            return
    task.set_gpus(path, number, name, "; ".join(notes) or None)


def shell_of(tree: SourceTree) -> str:
    """Take the shell. Without one, dstack runs bash in its own image, and sh in others."""
    written = tree.text(("shell",))
    if written is None:
        return "bash" if tree.node(("image",)) is None else "sh"
    if re.fullmatch(_SHELL, written) is None:
        return "sh"
    note = "dstack starts it with `-i`, and it reads `~/.bashrc`: source that file in the command if it is needed"
    tree.taken(("shell",), COMMAND, note if written.endswith("bash") else None)
    return written


def take_commands(
    tree: SourceTree,
    draft: Draft,
    task: TaskFields,
    shell: str,
    values: Mapping[str, int | str],
    variables: Mapping[str, str] = VARIABLES,
    known: Iterable[str] = (),
    key: str = "commands",
) -> None:
    """Set the command of a document to the commands of a node.

    :param values: variables with known values.
    :param variables: pattern of a variable of dstack -> what stands for it.
    :param known: further variables that the container has.
    :param key: the list of the commands.
    """
    items = tree.items((key,))
    if not items:
        return
    texts = [tree.node((key, index)) for index in range(items)]
    if any(node is None or node.kind != SCALAR for node in texts):
        return
    entrypoint = tree.text(("entrypoint",))
    if entrypoint is not None:
        found = re.match(rf"({_SHELL})[ \t]+-c\Z", entrypoint)
        if found is None or items > 1:
            tree.dropped((key,), "they are arguments of `entrypoint`: write both into `environment.command`")
            return
        shell = found[1]
        tree.mapped(("entrypoint",), COMMAND)
    tree.take_apart((key,))
    # Empty lines keep the lines of the script at those of the file.
    lines: list[str] = []
    written: list[str] = []
    places: list[range] = []
    first = tree.block_line((key, 0))
    for index, node in enumerate(texts):
        line, end = tree.block_line((key, index)), tree.last_line((key, index)) + 1
        gap = line - first - len(lines)
        item = str(node.value).rstrip("\n").split("\n") if node is not None else []
        written += [""] * gap + item
        # YAML may join the lines of an item.
        joined = range(line, end if len(item) < end - line else line + 1)
        places += [range(line, line + 1)] * max(gap, 0) + [joined]
        places += [range(number, number + 1) for number in range(line + 1, line + len(item))]
        # `set -e` does not stop at the commands of a list, but for its last one.
        if len(item) == 1 and index + 1 < items and re.search(_LIST, item[0]) and not re.search(r"&\s*\Z|#", item[0]):
            item = [f"{item[0]} || exit"]
        lines += [""] * gap + item
    text, source = ("\n".join(part) + "\n" for part in (lines, written))
    variables = with_constants(values, text, variables, draft, first)
    size = task.node_count, task.gpus
    # Items of a flow sequence may share a line.
    tree.ledger.lines = draft.lines = dict(enumerate(places, first))
    try:
        convert_node_script(text, first, size, variables, draft, tree.ledger, source, shell, known)
    except Unreadable as error:
        raise error.at(placed(draft.lines, error.problem.line)[0]) from error
    finally:
        tree.ledger.lines = draft.lines = {}
    command = draft.get(COMMAND)
    if items > 1 and command and command[:2] == [shell, "-c"]:
        command[-1] = f"set -e\n{command[-1]}"
        note = "an item runs if the one before it succeeded: `set -e`, which holds inside of an item, too"
        tree.ledger.changed(tree.line((key,)), f"{key}: {items} items", COMMAND, note)
