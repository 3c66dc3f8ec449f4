"""Rules for differences that do not count as drift."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple


class DriftRule(NamedTuple):
    """A rule. All parts that are set must match; ``*`` in a path or manager stands for any text."""

    kind: str | None = None
    path: str | None = None
    manager: str | None = None

    def covers(self, kind: str, path: str, managers: Sequence[str]) -> bool:
        """Return True if a field of an object is expected to differ.

        :param managers: the managers that own the field; a rule with a manager covers it if all of them match.
        """
        if self.kind is not None and self.kind != kind:
            return False
        if self.path is not None and not re.fullmatch(rf"{_pattern(self.path)}([.\[].*)?", path):
            return False
        return self.manager is None or (
            bool(managers) and all(re.fullmatch(_pattern(self.manager), name) for name in managers)
        )


def _pattern(text: str) -> str:
    return ".*".join(re.escape(part) for part in text.split("*"))


BUILT_IN = (DriftRule(path="spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]"),)
"""Rules of every platform: ``kubectl rollout restart``."""
