"""Free GPUs that no pod can use."""

from __future__ import annotations

from gpuctl.language.display_text import first_few
from gpuctl.usecases.queries.pool_queries import PoolView


def unavailable_gpus(view: PoolView) -> str:
    """Return how many free GPUs of a pool are on nodes that take no pods, and on which; "" if all can be used."""
    pool, nodes = view
    if not pool.gpu_unavailable:
        return ""
    idle = [f"{node.name} {node.status}" for node in nodes if node.status != "active" and node.gpu_free]
    where = f"on nodes that take no pods ({first_few(idle, 5)})"
    return f"{pool.gpu_unavailable} of {pool.gpu_free} free GPUs are {where}"
