"""What answers tell, made of sums when it is read. None is what nobody knows; numbers are not rounded."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate

from gpuctl_usage.sums import Sums


def mean_over(amount_s: float, seconds: float) -> float | None:
    """The mean of something times seconds: GPUs held or there, of ``alloc_gpu_s`` or ``cap_gpu_s``; pods, of ``pod_s``.

    :param seconds: of the hour or day, how much there has been of it.
    """
    return amount_s / seconds if seconds > 0 else None


def allocated_gpu_count(sums: Sums, seconds: float) -> float | None:
    """GPUs that were held, on average."""
    return mean_over(sums.alloc_gpu_s, seconds)


def total_gpu_capacity(sums: Sums, seconds: float) -> float | None:
    """GPUs that there were, on average."""
    return mean_over(sums.cap_gpu_s, seconds)


def avg_replica_count(sums: Sums, seconds: float) -> float | None:
    """Pods that held GPUs, on average."""
    return mean_over(sums.pod_s, seconds)


def allocation_rate(sums: Sums) -> float | None:
    """Percent of the GPUs that there were; more than 100 where the ledger does not close."""
    return rate_of(sums.alloc_gpu_s, sums.cap_gpu_s)


def rate_of(held_gpu_s: float, capacity_gpu_s: float) -> float | None:
    """Percent of a capacity; of a quota more than 100 where it was lowered while pods held more."""
    return 100 * held_gpu_s / capacity_gpu_s if capacity_gpu_s > 0 else None


def coverage(sums: Sums) -> float | None:
    """The part, 0 to 1, of what was held of which it is known what it did."""
    return sums.obs_gpu_s / sums.alloc_gpu_s if sums.alloc_gpu_s > 0 else None


def avg_utilization(sums: Sums) -> float | None:
    """Percent, of what was observed: the rest is neither idle nor busy."""
    return sums.util_gpu_s / sums.obs_gpu_s if sums.obs_gpu_s > 0 else None


def avg_gpu_memory_used(sums: Sums) -> float | None:
    """GiB of one GPU."""
    return sums.memory_used_gpu_s / sums.memory_obs_gpu_s if sums.memory_obs_gpu_s > 0 else None


def avg_gpu_memory_total(sums: Sums) -> float | None:
    """GiB of one GPU."""
    return sums.memory_total_gpu_s / sums.memory_obs_gpu_s if sums.memory_obs_gpu_s > 0 else None


def percentile(histogram: Mapping[int, int] | None, rank: float) -> int | None:
    """By nearest rank: the least percent that so many percent of the minutes do not exceed.

    :param histogram: percent -> minutes, of an hour, or of several added up.
    :param rank: more than 0, to 100.
    """
    if not histogram:
        return None
    percents = sorted(histogram)
    counted = list(accumulate(map(histogram.__getitem__, percents)))
    if not counted[-1]:
        return None
    # What is 57.00000000000001 for the machine is meant to be 57.
    place = bisect_left(counted, max(1, math.ceil(rank * counted[-1] / 100 - 1e-9)))
    if place == len(percents):
        raise ValueError(f"no percentile has the rank {rank}: it is from 0 to 100")
    return percents[place]


def utilization_percentile(sums: Sums, rank: float) -> float | None:
    """The percentile, of whole percent, but not beyond the least and the most of the minutes, which are not whole."""
    percent = percentile(sums.histogram, rank)
    if percent is None or sums.util_min is None or sums.util_max is None:
        return percent
    return min(max(float(percent), sums.util_min), sums.util_max)
