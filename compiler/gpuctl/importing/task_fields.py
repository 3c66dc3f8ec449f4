"""Fields that tasks of SkyPilot and dstack have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuctl.frontend.yaml_tree import MAPPING
from gpuctl.importing.card_resources import set_types
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.environment_variables import take_variable
from gpuctl.importing.field_values import number_or_text
from gpuctl.importing.fields_from_options import set_given_values
from gpuctl.importing.import_values import Given, Missing
from gpuctl.importing.source_tree import Path, SourceTree, dotted_path
from gpuctl.language.names import is_env_name

_AMOUNT = r"(\d+(?:\.\d*[1-9])?)(?:\.?0+)?\s*(?:([KMGT])i?B?)?(\+|\.\.\d*\s*(?:[KMGT]i?B?)?)?\Z"
_NO_GPU = r"(?i)(?:tpu[\w-]*|v\d+[a-z]*(?:pod)?-\d+|gaudi\w*|inferentia\w*|trainium\w*|tt-[\w-]+|[np][13]00[abd]?)\Z"
"""Types of accelerators of vendors whose cards gpuctl does not count."""
_INTERPOLATED = "${{"
"""Begin of a value that dstack inserts, such as ``${{ secrets.token }}``."""
AS_PROBES = "it becomes a startup, a readiness and a liveness probe"
_NO_VALUE = "its value is not in the file: write it into `environment.env`, or name a Secret there"


class TaskFields:
    """Adds fields of a task to a document."""

    def __init__(self, tree: ConvertedTree, given: Given) -> None:
        self.tree = tree
        self.draft = tree.draft
        self.given = given
        self.node_count = 1
        self.gpus = given.gpus_per_node or 0
        self._asked: list[Missing] = []
        self._open: list[Missing] = []

    def nodes(self, path: Path) -> None:
        """Take the number of nodes of a training; other kinds have one."""
        number = self.tree.number(path)
        if self.draft.kind != "training":
            if number != 1:
                self.tree.dropped(path, f"only a training has several nodes, and the kind is `{self.draft.kind}`")
            self.tree.mapped(path, None)
            return
        self._open = open_nodes(self.tree, [path], self.given)
        self.node_count = self.given.nodes or number or 1
        if self.node_count > 1:
            self.draft.set("resources.nodes", self.node_count, None if self.given.nodes else self.tree.line(path))
        if number is None and self.given.nodes is None:
            self.tree.dropped(path, "it is not a number of nodes: add `--nodes`")
        else:
            self.tree.mapped(path, "resources.nodes")

    def set_gpus(
        self,
        path: Path,
        number: int,
        types: Sequence[str] = (),
        note: str | None = None,
        line: int = 0,
        vendor: str = "",
    ) -> None:
        """Take the GPUs of a node.

        :param types: in order of preference.
        :param note: what differs.
        :param line: the line of the number, if no value is at the path.
        :param vendor: the one that the task names.
        """
        line = line or self.tree.line(path)
        self.gpus = number if self.given.gpus_per_node is None else self.given.gpus_per_node
        self.draft.set("resources.gpu", self.gpus, line)
        notes = note, set_types(self.draft, types, line, vendor)
        self.tree.taken(path, "resources.gpu", "; ".join(filter(None, notes)) or None)

    def no_gpus(self, path: Path) -> None:
        """Drop accelerators that are no GPUs."""
        self.tree.dropped(path, "gpuctl counts GPUs only: `podPatch` can request another resource")

    def ask_for_gpus(self, path: Path) -> None:
        """Take the GPUs of the command line, or ask for them: the task does not name one number of them."""
        if self.given.gpus_per_node is not None:
            self.set_gpus(path, self.given.gpus_per_node)
            return
        self.tree.changed(path, "resources.gpu", "--gpus-per-node names the number")
        reason = "the task does not name one number of GPUs"
        self._asked.append(Missing("--gpus-per-node", "N", self.tree.line(path), reason))

    def amount(self, path: Path, name: str, unit: str) -> None:
        """Take an amount of CPUs or memory, of which a range has its smallest value.

        :param unit: of a number without one.
        """
        text = self.tree.text(path)
        # dstack writes the architecture before the number: `arm:8..`.
        machine, _, written = (text or "").rpartition(":")
        found = amount_of(written, unit) if machine in ("", "arm", "x86") else None
        if text is None:
            return
        if found is None:
            self.tree.dropped(path, f"`{text}` is not an amount: write `resources.{name}`")
            return
        value, is_range = found
        notes = [f"requests are exact: `{value}`"] if is_range else []
        notes += [f"nodes with {machine} CPUs are selected by `resources.pool`"] if machine else []
        if (amount := number_or_text(value)) == 0:
            self.tree.dropped(path, f"write an amount: `resources.{name}`")
        else:
            self.tree.set(path, f"resources.{name}", amount, "; ".join(notes) or None)

    def variables(self, path: Path, without: str = r"\Z") -> None:
        """Take variables: a mapping, or a list of ``NAME=VALUE``.

        :param without: pattern of names that are not taken.
        """
        node = self.tree.node(path)
        if node is None:
            return
        if node.kind == MAPPING:
            for name in self.tree.keys(path):
                if re.match(without, name) is not None:
                    continue
                value = self.tree.python_text((*path, name))
                if value is not None and is_env_name(name) and _INTERPOLATED not in value:
                    self._variable((*path, name), name, value)
                elif value is not None:
                    self.tree.dropped((*path, name), _NO_VALUE)
                elif self.tree.get((*path, name)) is None:
                    self.tree.dropped_null((*path, name), _NO_VALUE)
            return
        for index in range(self.tree.items(path)):
            name, equals, value = (self.tree.text((*path, index)) or "").partition("=")
            if equals and is_env_name(name) and _INTERPOLATED not in value:
                self._variable((*path, index), name, value)
            else:
                self.tree.dropped((*path, index), _NO_VALUE)

    def _variable(self, path: Path, name: str, value: str) -> None:
        field, note = take_variable(self.draft, name, value, self.tree.line(path))
        if note is None and self.tree.text(path) not in (value, f"{name}={value}"):
            self.tree.mapped(path, field, "it is the text that Python makes of this value")
        self.tree.taken(path, field, note)

    @property
    def is_open(self) -> bool:
        """True if the task does not name a number of nodes or GPUs."""
        return bool(self._asked or self._open)

    def missing_values(self) -> list[Missing]:
        """Set the values of the command line. Return those that nothing names."""
        line = self.tree.line(("resources",))
        has_gpus = self.gpus > 0 or bool(self._asked)
        missing = set_given_values(self.draft, self.given, self.tree.ledger, line, has_gpus=has_gpus)
        return [*self._open, *self._asked, *missing]


def open_nodes(tree: SourceTree, paths: Sequence[Path], given: Given) -> list[Missing]:
    """Return what is missing if a number of nodes is not a number, as in templates."""
    for path in paths:
        if given.nodes is None and tree.node(path) is not None and tree.number(path) is None:
            reason = f"`{dotted_path(path[-1:])}: {tree.written(path)}` is not a number of nodes"
            return [Missing("--nodes", "N", tree.line(path), reason)]
    return []


def is_no_gpu(name: str) -> bool:
    """Return True for a type of other accelerators, such as ``tpu-v5e-8``, ``v5litepod-8`` or ``gaudi2``."""
    return re.match(_NO_GPU, name) is not None


def amount_of(text: str, unit: str) -> tuple[str, bool] | None:
    """Return an amount such as ``64GB``, ``32+`` or ``64GB..128GB`` as (smallest quantity, True if it is a range)."""
    match = re.match(_AMOUNT, text.strip(), re.IGNORECASE)
    if match is None:
        return None
    return f"{match[1]}{match[2].upper() + 'i' if match[2] else unit}", match[3] is not None
