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
    spells: Iterable[ClippedHolding],
    stocks: Iterable[ClippedCapacity],
    measured: Mapping[PodKey, Sequence[SampleSeries]],
) -> str:
    """Of what counts within the hour: that a pod or node goes on after it, or ends later, changes nothing.

    :param horizon: how long after its begin things still count, in seconds: a little longer than the hour.
    """
    digest = hashlib.sha256(repr((RULES_VERSION, *frame)).encode())
    for spell in spells:
        digest.update(repr(_of_spell(spell, horizon)).encode())
    for capacity, low, high in stocks:
        line = (capacity.node, capacity.model, float(capacity.gpus), capacity.state.value, low, high)
        digest.update(repr(line).encode())
    for place, tracks in measured.items():
        for track in tracks:
            digest.update(repr((place, track.gpu, len(track.times), track.memory is None)).encode())
            for values in (track.times, track.utilization, *(track.memory or ())):
                digest.update(values.tobytes())
            if track.apart is not None:
                digest.update(track.apart.tobytes())
    return digest.hexdigest()


def _of_spell(spell: ClippedHolding, horizon: float) -> tuple[object, ...]:
    holding = spell.holding
    return (
        *(spell.place, holding.pod_uid, tuple(holding.workload), float(holding.gpus), holding.model),
        *(sorted(holding.labels.items()), sorted(holding.annotations.items())),
        *(spell.begin, min(spell.finish, horizon), spell.running_s),
    )
