"""A YAML document of another tool, of which values become fields of a document."""

from __future__ import annotations

from typing import Any

from gpuctl.frontend.yaml_tree import RawDocument
from gpuctl.importing.draft import Draft
from gpuctl.importing.field_values import at_most
from gpuctl.importing.import_values import Given
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.source_tree import Path, SourceTree


class ConvertedTree(SourceTree):
    """The values of a document by path, and the draft that they become. Each value that is set is taken."""

    def __init__(self, raw: RawDocument, ledger: LineLedger, draft: Draft) -> None:
        super().__init__(raw, ledger)
        self.draft = draft

    def set(self, path: Path, field: str, value: Any, note: str | None = None) -> None:
        """Set a field to what a value means.

        :param note: what differs.
        """
        self.draft.set(field, value, self.lines(path))
        self.taken(path, field, note)

    def set_item(self, path: Path, field: str, key: str, value: Any, note: str | None = None) -> None:
        """Set an entry of a mapping, such as a label."""
        self.draft.set_item(field, key, value, self.line(path))
        self.taken(path, f"{field}.{key}", note)

    def append(self, path: Path, field: str, item: Any, note: str | None = None) -> None:
        """Add an item to a list."""
        self.draft.append(field, item, self.line(path))
        self.taken(path, field, note)

    def set_text(self, path: Path, field: str) -> None:
        """Set a field to a text, if there is one."""
        if (text := self.text(path)) is not None:
            self.set(path, field, text)

    def set_name(self, path: Path, given: Given, job: str = "") -> None:
        """Set the name of the job, if the command line or a value has letters for one.

        :param job: the name of which the value is one part.
        """
        written = "-".join(filter(None, [job, self.text(path)]))
        name, note = given.job_name(written)
        if name is None:
            if written:
                self.dropped(path, "it has no letters for a name: --name names the job")
            return
        self.draft.set("job.name", name, self.line(path) if self.text(path) and given.name is None else None)
        self.taken(path, "job.name", note)

    def set_directory(self, path: Path) -> None:
        """Set the directory of the program, if it is an absolute path."""
        if (self.text(path) or "").startswith("/"):
            self.set_text(path, "environment.workdir")

    def set_switch(self, path: Path, field: str) -> None:
        """Set a field to true if a value is; false is its default."""
        if self.flag(path):
            self.set(path, field, True)
        elif self.flag(path) is not None:
            self.mapped(path, field)

    def set_number(self, path: Path, field: str, note: str | None = None, most: int | None = None) -> None:
        """Set a field to a whole number, if there is one.

        :param note: what differs.
        :param most: the maximum, which replaces larger numbers.
        """
        if (number := self.number(path)) is not None:
            self.set(path, field, *at_most(number, number if most is None else most, note))
