"""Averages, rates and percentiles, computed from sums when they are read.

None means unknown; numbers are not rounded.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate

from gpuctl_usage.sums import Sums


def mean_over(amount_s: float, seconds: float) -> float | None:
    """Return the mean of a quantity that is stored times seconds; None if ``seconds`` is 0.

    :param amount_s: ``alloc_gpu_s`` or ``cap_gpu_s`` for GPUs, ``pod_s`` for pods.
    :param seconds: known length of the hour or day.
    """
    return amount_s / seconds if seconds > 0 else None


def allocated_gpu_count(sums: Sums, seconds: float) -> float | None:
    """Return the average number of GPUs held."""
    return mean_over(sums.alloc_gpu_s, seconds)


def total_gpu_capacity(sums: Sums, seconds: float) -> float | None:
    """Return the average number of GPUs available."""
    return mean_over(sums.cap_gpu_s, seconds)


def avg_replica_count(sums: Sums, seconds: float) -> float | None:
    """Return the average number of pods that held GPUs."""
    return mean_over(sums.pod_s, seconds)


def allocation_rate(sums: Sums) -> float | None:
    """Return the allocated part of the capacity in percent; more than 100 if the ledger does not close."""
    return rate_of(sums.alloc_gpu_s, sums.cap_gpu_s)


def rate_of(held_gpu_s: float, capacity_gpu_s: float) -> float | None:
    """Return the held part of a capacity in percent; more than 100 if a quota was lowered below what pods held."""
    return 100 * held_gpu_s / capacity_gpu_s if capacity_gpu_s > 0 else None


def coverage(sums: Sums) -> float | None:
    """Return the measured part of the held GPU time, 0 to 1."""
    return sums.obs_gpu_s / sums.alloc_gpu_s if sums.alloc_gpu_s > 0 else None


def avg_utilization(sums: Sums) -> float | None:
    """Return the mean utilization of the measured GPU time, percent."""
    return sums.util_gpu_s / sums.obs_gpu_s if sums.obs_gpu_s > 0 else None


def avg_gpu_memory_used(sums: Sums) -> float | None:
    """Return the average used memory of one GPU, GiB."""
    return sums.memory_used_gpu_s / sums.memory_obs_gpu_s if sums.memory_obs_gpu_s > 0 else None


def avg_gpu_memory_total(sums: Sums) -> float | None:
    """Return the average total memory of one GPU, GiB."""
    return sums.memory_total_gpu_s / sums.memory_obs_gpu_s if sums.memory_obs_gpu_s > 0 else None


def percentile(histogram: Mapping[int, int] | None, rank: float) -> int | None:
    """Return the nearest-rank percentile: the lowest percent that ``rank`` percent of the minutes do not exceed.

    :param histogram: percent -> minutes, of one hour or of several added up.
    :param rank: above 0, at most 100.
    """
    if not histogram:
        return None
    percents = sorted(histogram)
    counted = list(accumulate(map(histogram.__getitem__, percents)))
    if not counted[-1]:
        return None
    # 1e-9 absorbs floating point error: a count of 57.00000000000001 means 57.
    place = bisect_left(counted, max(1, math.ceil(rank * counted[-1] / 100 - 1e-9)))
    if place == len(percents):
        raise ValueError(f"percentile rank {rank} is not between 0 and 100")
    return percents[place]


def utilization_percentile(sums: Sums, rank: float) -> float | None:
    """Return the percentile, limited to the exact lowest and highest minute: the histogram has whole percent only."""
    percent = percentile(sums.histogram, rank)
    if percent is None or sums.util_min is None or sums.util_max is None:
        return percent
    return min(max(float(percent), sums.util_min), sums.util_max)
