"""Digest of exactly the inputs of an hour's rollup: if it has not changed, the sums have not changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from gpuctl_usage.rollup.clipped_intervals import ClippedCapacity, ClippedHolding, PodKey
from gpuctl_usage.rollup.sample_series import SampleSeries

RULES_VERSION = 1
"""Version of the rollup rules. Increase it when the same inputs give other sums; then every hour that is not final is
written again.
"""


def digest_of(
    frame: tuple[object, ...],
    horizon: float,
    clipped_holdings: Iterable[ClippedHolding],
    clipped_capacities: Iterable[ClippedCapacity],
    measured: Mapping[PodKey, Sequence[SampleSeries]],
) -> str:
    """Return the digest of what counts within the hour. Whether a holding continues after the horizon does not change
    it.

    :param horizon: seconds after the start of the hour up to which inputs count: the hour plus the reach of a
    measurement.
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
