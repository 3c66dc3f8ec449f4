"""Documents compiled for a cluster, and what is asked of the cluster by them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuctl.frontend.load import Loaded


def read_platform(platform: str | os.PathLike[str] | None, directory: Path | None = None) -> Loaded:
    """The platform for those who have no documents: its ``settings``, and ``diagnostics`` that are no errors.

    :param platform: its file; default: ``platform.yaml`` in ``directory`` or above, no higher than the git root.
    :raises InvalidDocuments: there are errors in it.
    """
    from gpuctl.backend.validation import VERSIONS
    from gpuctl.frontend.diagnostics import Severity, count
    from gpuctl.frontend.load import load_platform

    loaded = load_platform(platform, versions=VERSIONS, directory=directory)
    if count(loaded.diagnostics, Severity.ERROR):
        from gpuctl.frontend.invalid_documents import InvalidDocuments

        raise InvalidDocuments(loaded.diagnostics, loaded.sources)
    return loaded
