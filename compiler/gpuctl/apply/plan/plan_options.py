"""Options of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Strategy = Literal["replace", "rolling"]


@dataclass(frozen=True)
class PlanOptions:
    """Options of a plan, named like those of `gpuctl apply`.

    :param set_name: the set that the documents form. With ``prune``, objects of the set without a document are deleted.
    :param allow_source: the set may come from other sources than before.
    :param allow_empty: prune even if no document is left.
    :param allow_skipped: prune even if files were not read.
    :param allow_older: the set may come from an older commit than before.
    :param strategy: how changed services are replaced; None: as the live object or the platform has it.
    :param relower: also replace what only a newer gpuctl lowers differently.
    :param adopt: take over fields of other field managers.
    :param no_probe: report rejections of dry-run pods as notes, not as errors.
    :param create_namespace: create namespaces that no document describes.
    :param create_only: reject objects that already exist.
    :param queue: create jobs even if a quota has no room for their pods; they start when it has.
    """

    set_name: str | None = None
    prune: bool = False
    allow_source: bool = False
    allow_empty: bool = False
    allow_skipped: bool = False
    allow_older: bool = False
    strategy: Strategy | None = None
    relower: bool = False
    adopt: bool = False
    no_probe: bool = False
    create_namespace: bool = False
    create_only: bool = False
    queue: bool = False

    @property
    def set_flags(self) -> list[str]:
        """Return the names, without dashes, of the given options that are only about a set."""
        given = {
            "prune": self.prune,
            "allow-source": self.allow_source,
            "allow-empty": self.allow_empty,
            "allow-skipped": self.allow_skipped,
            "allow-older": self.allow_older,
        }
        return [flag for flag, is_given in given.items() if is_given]
