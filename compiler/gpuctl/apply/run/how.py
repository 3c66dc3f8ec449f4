"""The manner in which a plan is carried out, and who hears of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.objects.durations import LONGEST_CHECKPOINT
from gpuctl.objects.ownership_metadata import Records


@dataclass
class How:
    """The manner of carrying out.

    ``timeout`` in seconds is how long deletions and late quotas are waited for in all; ``force`` ends pods without
    grace; without ``until_gone`` what is deleted and has no successor is not waited for. ``dry_run`` makes and checks
    the plan, and carries nothing out. ``checkpoint`` lets what runs
    save its progress before it ends, each job for ``longest_checkpoint`` seconds at most. ``stops`` tells that nothing
    new is to be begun: the process is to end. ``begins`` hears of a plan before anything of it is done, ``done`` of
    each finished step, ``wait`` of what is waited for, which is of no interest afterwards, ``say`` of what has to be
    known.
    """

    keys: Records
    timeout: float = 300.0
    force: bool = False
    until_gone: bool = True
    checkpoint: bool = True
    dry_run: bool = False
    longest_checkpoint: float = LONGEST_CHECKPOINT
    stops: Callable[[], bool] = lambda: False
    begins: Callable[[Plan], None] = lambda plan: None
    done: Callable[[Step], None] = lambda step: None
    wait: Callable[[str], None] = lambda text: None
    say: Callable[[str], None] = lambda text: None
