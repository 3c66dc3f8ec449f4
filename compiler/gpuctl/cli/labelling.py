"""What is worth knowing of a label that was set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuctl.usecases.looking import Reader


def notes(looking: Reader, labels: Mapping[str, str | None]) -> list[str]:
    """That jobs do not select on a label that looks as if they did, and that a pool has no definition."""
    from gpuctl.backend.api_resources import Key
    from gpuctl.backend.pool import config_map_name
    from gpuctl.kube.api_errors import ApiError
    from gpuctl.language.names import DEFAULT_POOL, SYSTEM_NAMESPACE
    from gpuctl.reading.node_gpus import Gpus

    gpus = Gpus(looking.settings)
    said = []
    for key, value in labels.items():
        if value is None:
            continue
        if gpus.is_label(key) and not gpus.selects(key):
            said.append(f"jobs select GPU types by {gpus.key}, not by {key}: set that too if they shall find it")
        elif key.rpartition("/")[2] == "pool" and key != looking.keys.pool:
            said.append(f"jobs select pools by {looking.keys.pool}, not by {key}")
        elif key == looking.keys.pool and value not in ("", DEFAULT_POOL):
            try:
                there = looking.scope.connection.get(Key("ConfigMap", SYSTEM_NAMESPACE, config_map_name(value)))
            except ApiError:
                continue
            if there is None:
                said.append(f"pool {value} has no definition, only nodes; `gpuctl create -f pool.yaml` gives it one")
    return said
