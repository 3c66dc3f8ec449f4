"""What is asked about pools."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.reading import inventory
from gpuctl.reading.pool_rows import PoolState, read_pools
from gpuctl.usecases.looking import Reader, check_names


def list_pools(reader: Reader, names: Sequence[str] = ()) -> list[PoolState]:
    """The pools by name, ``default`` last, or those of the names.

    :raises NotThere: there is none of a name.
    """
    if reader.service is not None:
        return reader.service.ask("list-pools", list[PoolState], reader.scope, names=list(names))
    found = inventory.take(reader.scope, reader.keys, definitions=True, gpus=reader.settings.gpu_resources)
    pools = read_pools(found, reader.settings, reader.keys)
    check_names("pool", names, [pool.name for pool in pools])
    return [pool for pool in pools if not names or pool.name in names]


def describe_pool(reader: Reader, name: str) -> PoolState:
    """One pool.

    :raises NotThere: there is none of the name.
    """
    (pool,) = list_pools(reader, [name])
    return pool
