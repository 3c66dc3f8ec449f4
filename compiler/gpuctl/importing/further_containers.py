"""The init containers and sidecars of a pod as `init` and `sidecars` of a document."""

from __future__ import annotations

from typing import Any

from gpuctl.importing.carried_fields import SET_BY_GPUCTL, PodPatch
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.environment_variables import CARDS, refers_to, shows_cards, source_of_variable
from gpuctl.importing.manifest_volumes import VOLUME_FIELDS, PodVolumes
from gpuctl.importing.source_tree import Path
from gpuctl.language.names import MAIN_CONTAINER

HELPER_CALLED_MAIN = f"{MAIN_CONTAINER}-1"
"""Name in the document of a container beside the program that has the name of the program's there."""
_PLAIN = ("name", "image", "command", "args")
_AMOUNTS = {"cpu", "memory"}


def take_further_containers(tree: ConvertedTree, spec: Path, main: int, volumes: PodVolumes) -> None:
    """Take the containers beside the program.

    :param main: the place of the container with the program.
    """
    for base, is_first in (((*spec, "initContainers"), True), ((*spec, "containers"), False)):
        for index in range(tree.items(base)):
            path: Path = (*base, index)
            if is_first or index != main:
                is_init = is_first and tree.text((*path, "restartPolicy")) != "Always"
                _container(tree, path, "init" if is_init else "sidecars", volumes)


def _container(tree: ConvertedTree, path: Path, field: str, volumes: PodVolumes) -> None:
    entry: dict[str, Any] = {}
    for key in _PLAIN:
        value = tree.get((*path, key))
        if value is not None:
            entry[key] = value
    if entry.get("name") == MAIN_CONTAINER:
        entry["name"] = HELPER_CALLED_MAIN
        tree.changed((*path, "name"), f"{field}[].name", f"the program's container is called `{MAIN_CONTAINER}`")
    for key in entry:
        tree.mapped((*path, key), f"{field}[].{key}")
    tree.draft.append(field, entry, tree.line(path))
    name = str(entry.get("name", ""))
    patch = PodPatch(tree)
    _variables(tree, path, field, entry, patch)
    _amounts(tree, path, field, entry)
    volumes.take_further(path, name)
    for key in tree.keys(path):
        part = (*path, key)
        if key == "restartPolicy" and field == "sidecars":
            tree.mapped(part, field)
        elif key in SET_BY_GPUCTL:
            patch.set_by_gpuctl(part, key, name)
        elif key not in (*_PLAIN, *VOLUME_FIELDS, "env", "resources") and tree.typed(part) not in (None, {}, []):
            patch.of_container(part, key, tree.typed(part), name)


def _variables(tree: ConvertedTree, path: Path, field: str, entry: dict[str, Any], patch: PodPatch) -> None:
    carried: list[str] = []
    for index in range(tree.items((*path, "env"))):
        variable: Path = (*path, "env", index)
        name = tree.text((*variable, "name"))
        source = source_of_variable(tree, (*variable, "valueFrom"))
        value = source or tree.get((*variable, "value")) or ""
        if name is None:
            continue
        if shows_cards(name, source or tree.text((*variable, "value"))):
            tree.dropped(variable, CARDS)
            continue
        is_carried = source is None and tree.node((*variable, "valueFrom")) is not None
        if is_carried or refers_to(value, carried):
            patch.of_container(variable, "env", [tree.typed(variable)], str(entry.get("name", "")))
            carried.append(name)
            continue
        entry.setdefault("env", {})[name] = value
        tree.mapped(variable, f"{field}[].env")


def _amounts(tree: ConvertedTree, path: Path, field: str, entry: dict[str, Any]) -> None:
    asked, limited = (
        {key: tree.text((*path, "resources", group, key)) for key in tree.keys((*path, "resources", group))}
        for group in ("requests", "limits")
    )
    amounts: dict[str, Any] = {**asked, **limited}
    differs = any(asked[key] != limited.get(key) for key in _AMOUNTS & asked.keys())
    kept = {key: amounts[key] for key in ("cpu", "memory") if key in amounts}
    if kept:
        entry["resources"] = kept
    base: Path = (*path, "resources")
    note = "requests and limits are one: the limits if there are any" if differs else None
    if set(amounts) <= _AMOUNTS:
        tree.taken(base, f"{field}[].resources", note)
        return
    for group in ("requests", "limits"):
        for key in sorted(_AMOUNTS & set(tree.keys((*base, group)))):
            tree.taken((*base, group, key), f"{field}[].resources", note)
