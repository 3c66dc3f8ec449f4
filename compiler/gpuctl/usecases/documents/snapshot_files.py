"""Read files written by `gpuctl snapshot`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.capacity.snapshot.snapshot_loading import DamagedSnapshot, load
from gpuctl.kube.api_errors import ClusterError


def read_snapshot(source: str | os.PathLike[str] | BinaryIO) -> Snapshot:
    """Return the snapshot in a file or binary stream.

    :raises ClusterError: it cannot be read, or is not a snapshot.
    """
    name = "standard input"
    try:
        if isinstance(source, (str, os.PathLike)):
            name = os.fspath(source)
            data = Path(name).read_bytes()
        else:
            data = source.read()
        return load(data.decode(), name)
    except OSError as error:
        raise ClusterError(f"{name} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except DamagedSnapshot as error:
        raise ClusterError(str(error), error.hint) from None
    except UnicodeDecodeError:
        raise ClusterError(f"{name} is not a snapshot: it is not UTF-8 text") from None


def snapshot_limits(snapshot: Snapshot) -> list[str]:
    """Return what a result from a snapshot does not take into account, as sentences."""
    notes = []
    if snapshot.unreadable:
        names = ", ".join(snapshot.unreadable)
        notes.append(f"{names} could not be read; the result does not take them into account")
    return notes
