"""Whether an hour would be rolled up to what it was before: a digest of all that it is made of, and of nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from gpuctl_usage.rollup.clipped_intervals import ClippedCapacity, ClippedHolding, PodKey
from gpuctl_usage.rollup.sample_series import SampleSeries

RULES_VERSION = 1
"""Of these rules. One more when the same inputs give other sums: then every hour that is still open is written anew."""


def digest_of(
    frame: tuple[object, ...],
    horizon: float,
    clipped_holdings: Iterable[ClippedHolding],
    clipped_capacities: Iterable[ClippedCapacity],
    measured: Mapping[PodKey, Sequence[SampleSeries]],
) -> str:
    """Of what counts within the hour: that a pod or node goes on after it, or ends later, changes nothing.

    :param horizon: how long after its begin things still count, in seconds: a little longer than the hour.
    """
    digest = hashlib.sha256(repr((RULES_VERSION, *frame)).encode())
    for clipped in clipped_holdings:
        digest.update(repr(_digest_line(clipped, horizon)).encode())
    for capacity, low, high in clipped_capacities:
        line = (capacity.node, capacity.model, float(capacity.gpus), capacity.state.value, low, high)
        digest.update(repr(line).encode())
    for place, tracks in measured.items():
        for track in tracks:
            digest.update(repr((place, track.gpu, len(track.times), track.memory is None)).encode())
            for values in (track.times, track.utilization, *(track.memory or ())):
                digest.update(values.tobytes())
            if track.process_flags is not None:
                digest.update(track.process_flags.tobytes())
    return digest.hexdigest()


def _digest_line(clipped: ClippedHolding, horizon: float) -> tuple[object, ...]:
    holding = clipped.holding
    return (
        *(clipped.place, holding.pod_uid, tuple(holding.workload), float(holding.gpus), holding.model),
        *(sorted(holding.labels.items()), sorted(holding.annotations.items())),
        *(clipped.begin, min(clipped.finish, horizon), clipped.running_s),
    )
