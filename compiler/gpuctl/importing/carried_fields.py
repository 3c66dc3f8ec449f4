"""Parts of a pod that the language has no field for, carried in `podPatch`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.source_tree import Path
from gpuctl.language.names import MAIN_CONTAINER

PATCHED = "`podPatch` carries it as it is; the platform may refuse it"
SET_BY_GPUCTL = {
    "imagePullPolicy": "IfNotPresent",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "FallbackToLogsOnError",
}
"""Fields of each container that gpuctl sets, or leaves at Kubernetes' default -> their values."""
_FILE = "gpuctl shows the end of the log if the file is empty"


class PodPatch:
    """Adds parts of a pod to the `podPatch` of a document, each with its entry in the ledger."""

    def __init__(self, tree: ConvertedTree) -> None:
        self.tree = tree
        self.draft = tree.draft

    def field(self, path: Path, name: str) -> None:
        """Carry a field of the pod."""
        self.draft.set(f"podPatch.{name}", self.tree.typed(path), self.tree.line(path))
        self.tree.changed(path, f"podPatch.{name}", PATCHED)

    def of_container(self, path: Path, field: str, value: Any, name: str = MAIN_CONTAINER) -> None:
        """Carry a field of a container; items of a list are added to those that are there.

        :param name: the container's; init containers and sidecars are `initContainers`.
        """
        group, entry = self._entry(name)
        entry[field] = [*entry.get(field, []), *value] if isinstance(value, list) else value
        self.tree.changed(path, f"podPatch.{group}[].{field}", PATCHED)

    def set_by_gpuctl(self, path: Path, field: str, name: str = MAIN_CONTAINER) -> None:
        """Carry a field that gpuctl sets, if it has another value.

        :param name: the container's.
        """
        value = self.tree.text(path)
        if value == SET_BY_GPUCTL[field]:
            self.tree.mapped(path, None, "gpuctl sets it")
        elif field == "terminationMessagePolicy":
            self.tree.changed(path, None, _FILE)
        elif value:
            self.of_container(path, field, value, name)

    def resource(self, path: Path, group: str, name: str, note: str, container: str) -> None:
        """Carry an amount that a container requests.

        :param group: ``requests`` or ``limits``.
        """
        containers, entry = self._entry(container)
        entry.setdefault("resources", {}).setdefault(group, {})[name] = self.tree.text(path)
        self.tree.changed(path, f"podPatch.{containers}[].resources", note)

    def volume(self, path: Path) -> None:
        """Carry a volume, once."""
        value = self.tree.typed(path)
        if value not in (self.draft.get("podPatch.volumes") or []):
            self.draft.append("podPatch.volumes", value)
        self.tree.changed(path, "podPatch.volumes", PATCHED)

    def mounted(self, volume: dict[str, Any], mount: dict[str, Any]) -> None:
        """Add a volume that the program mounts; the caller adds its entry to the ledger."""
        self.draft.append("podPatch.volumes", volume)
        _, entry = self._entry(MAIN_CONTAINER)
        entry["volumeMounts"] = [*entry.get("volumeMounts", []), {"name": volume["name"], **mount}]

    def rename_containers(self, names: Mapping[str | None, str]) -> None:
        """Have references to containers, such as those of `resourceFieldRef`, use the names of the document.

        :param names: name of a container in the source -> that in the document.
        """
        values = [self.draft.get("podPatch")]
        for value in values:
            if isinstance(value, dict):
                if isinstance(name := value.get("containerName"), str):
                    value["containerName"] = names.get(name, name)
                values += value.values()
            elif isinstance(value, list):
                values += value

    def _entry(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return the list of a container in the patch, and its entry there."""
        group = "containers" if name == MAIN_CONTAINER else "initContainers"
        entries: list[dict[str, Any]] = self.draft.get(f"podPatch.{group}") or []
        found = next((entry for entry in entries if entry["name"] == name), None)
        if found is None:
            found = {"name": name}
            self.draft.append(f"podPatch.{group}", found)
        return group, found
