"""Who changed what: a line of JSON for every write, also for those that were refused."""

from __future__ import annotations

import logging
from collections.abc import Sequence

AUDIT = logging.getLogger("gpuctl_server.audit")


def audit(caller: str, action: str, object: str | Sequence[str], result: str) -> None:
    """Note a write.

    :param caller: who asked.
    :param action: what was asked for, such as ``POST /jobs``.
    :param object: what it was about, by name.
    :param result: what became of it.
    """
    objects = [object] if isinstance(object, str) else list(object)
    AUDIT.info("audit", extra={"caller": caller, "action": action, "objects": objects, "result": result})
