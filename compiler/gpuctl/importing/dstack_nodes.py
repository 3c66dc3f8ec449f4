"""The resources and the commands of the nodes of a dstack run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpuctl.frontend.yaml_tree import SCALAR
from gpuctl.importing.card_resources import CardKind, set_card_kind, set_types
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.draft import COMMAND
from gpuctl.importing.node_script import convert_node_script, with_constants
from gpuctl.importing.source_tree import Path
from gpuctl.importing.task_fields import TaskFields, is_no_gpu

NOTES = {
    r"^resources\.gpu\.(total_)?memory": "the memory of a card is that of its type: `resources.gpu-type`",
    r"^resources\.disk": "scratch space is `storage.workdirs: [{path: /scratch, emptyDir: {}}]`",
}
"""Pattern of a field of a node that a document does not have -> the hint."""
_OTHER_VARIABLE = r"\bDSTACK_(?!NODES_NUM|NODE_RANK|MASTER_NODE_IP|GPUS_PER_NODE|GPUS_NUM|RUN_NAME)\w+"
VARIABLES = {
    r"\bDSTACK_NODES_NUM\b": "NNODES",
    r"\bDSTACK_NODE_RANK\b": "NODE_RANK",
    r"\bDSTACK_MASTER_NODE_IP\b": "MASTER_ADDR",
    r"\bDSTACK_GPUS_PER_NODE\b": "GPUCTL_GPUS_PER_NODE",
    r"(?m)^([ \t]*)fg[ \t]*$": r"\1wait $!",
    r"\$\{\{[^{}\n]*\}\}": "",
    rf"\$\{{?{_OTHER_VARIABLE}\}}?|{_OTHER_VARIABLE}": "",
}
_GPU: Path = ("resources", "gpu")
_RANGE = "the number of GPUs is fixed: the smallest of the range"
_ANY = "dstack takes any of these types; the document prefers the first one"
_NAMES = r"[A-Za-z][\w-]*(?:,[A-Za-z][\w-]*)*\Z"
_COUNT = r"(?a)(\d{1,9})(\.\.\d*)?\Z"
_MEMORY = r"(?i)(?=.*B)(?:\d+(?:\.\d+)?[KMGT]B)?(?:\.\.)?(?:\d+(?:\.\d+)?[KMGT]B)?\Z"
_VENDORS = frozenset({"nvidia", "amd"})
_OTHER_VENDORS = frozenset({"google", "tpu", "intel", "tenstorrent", "tt"})
_SHELL = r"(?:/\S*/)?(?:ba|da|k|z)?sh"
_LIST = r"&&|\|\|"


class _Gpus(NamedTuple):
    """The GPUs of a node, in the words of the source."""

    vendor: str = ""
    names: Sequence[str] = ()
    memory: str = ""
    number: str = "1"


def take_resources(tree: ConvertedTree, task: TaskFields) -> None:
    """Take the resources of a node."""
    if tree.node(_GPU) is not None:
        _take_gpus(tree, task)
    for source, name, unit in (("cpu", "cpu", ""), ("memory", "memory", "Gi"), ("shm_size", "shm", "Gi")):
        task.amount(("resources", source), name, unit)


def _take_gpus(tree: ConvertedTree, task: TaskFields) -> None:
    text = tree.text(_GPU)
    gpus = _gpus_of_fields(tree) if text is None else _gpus_of_text(text)
    if gpus is not None and (gpus.vendor in _OTHER_VENDORS or (gpus.names and all(map(is_no_gpu, gpus.names)))):
        task.no_gpus(_GPU)
        return
    count = re.match(_COUNT, gpus.number) if gpus is not None else None
    if gpus is None or count is None:
        task.ask_for_gpus(_GPU)
        return
    is_range, is_choice = [_RANGE] if count[2] else [], [_ANY] if len(gpus.names) > 1 else []
    number, kind, vendor = ((*_GPU, key) if text is None else _GPU for key in ("count", "name", "vendor"))
    if text is not None:
        memory = [f"the memory of a card is that of its type ({gpus.memory}): `resources.gpu-type`"]
        notes = [*(memory if gpus.memory else []), *is_range, *is_choice]
        task.set_gpus(_GPU, int(count[1]), gpus.names, "; ".join(notes) or None, vendor=gpus.vendor)
    else:
        line = tree.line(_GPU if tree.node(number) is None else number)
        task.set_gpus(number, int(count[1]), note="".join(is_range) or None, line=line)
        of_types = [*is_choice, set_types(tree.draft, gpus.names, tree.line(kind), gpus.vendor)]
        if gpus.names:
            tree.taken(kind, "resources.gpu-type", "; ".join(filter(None, of_types)) or None)
        if gpus.vendor in _VENDORS:
            tree.mapped(vendor, "resources.gpu-vendor")
    if gpus.vendor in _VENDORS:
        set_card_kind(tree.draft, CardKind(gpus.vendor, None), tree.line(vendor))


def _gpus_of_fields(tree: ConvertedTree) -> _Gpus:
    """Return GPUs such as ``{name: [A100, H100], count: 2..8}``."""
    count, kind = (*_GPU, "count"), (*_GPU, "name")
    items = [(*kind, index) for index in range(tree.items(kind))] or [kind]
    names = [name for item in items for name in (tree.text(item) or "").split(",") if name]
    written = tree.text(count) or (f"{tree.text((*count, 'min')) or ''}.." if tree.keys(count) else "1")
    return _Gpus((tree.text((*_GPU, "vendor")) or "").lower(), names, number=written)


def _gpus_of_text(text: str) -> _Gpus | None:
    """Return GPUs such as ``H100:80GB:8``, ``amd:MI300X:2..4`` or ``24GB..``; None if the text is something else."""
    gpus = _Gpus()
    for part in text.replace(" ", "").split(":"):
        if part.lower() in _VENDORS | _OTHER_VENDORS:
            gpus = gpus._replace(vendor=part.lower())
        elif re.match(_NAMES, part):
            gpus = gpus._replace(names=part.split(","))
        elif part and re.match(_MEMORY, part):
            gpus = gpus._replace(memory=part)
        elif re.match(_COUNT, part):
            gpus = gpus._replace(number=part)
        else:
            return None
    return gpus


def shell_of(tree: ConvertedTree) -> str:
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
    tree: ConvertedTree,
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
    draft, items = tree.draft, tree.items((key,))
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
    first = tree.lines_of_text((key, 0))[0].start
    for index, node in enumerate(texts):
        own = tree.lines_of_text((key, index))
        line = own[0].start
        gap = line - first - len(lines)
        item = str(node.value).rstrip("\n").split("\n") if node is not None else []
        written += [""] * gap + item
        places += [range(line, line + 1)] * max(gap, 0) + own
        # `set -e` does not stop at the commands of a list, but for its last one.
        if len(item) == 1 and index + 1 < items and re.search(_LIST, item[0]) and not re.search(r"&\s*\Z|#", item[0]):
            item = [f"{item[0]} || exit"]
        lines += [""] * gap + item
    text, source = ("\n".join(part) + "\n" for part in (lines, written))
    variables = with_constants(values, text, variables, draft, first)
    size = task.node_count, task.gpus
    convert_node_script(text, places, size, variables, draft, tree.ledger, source, shell, known)
    command = draft.get(COMMAND)
    if items > 1 and command and command[:2] == [shell, "-c"]:
        command[-1] = f"set -e\n{command[-1]}"
        note = "an item runs if the one before it succeeded: `set -e`, which holds inside of an item, too"
        tree.ledger.changed(tree.line((key,)), f"{key}: {items} items", COMMAND, note)
