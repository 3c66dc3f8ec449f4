"""The manner in which a plan is carried out, and who hears of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuctl.apply.plan.plan import Step
from gpuctl.apply.state.records import Records


@dataclass
class How:
    """The manner of carrying out.

    ``timeout`` in seconds is how long deletions and late quotas are waited for in all; ``force`` ends pods without
    grace; without ``until_gone`` what is deleted and has no successor is not waited for. ``stops`` tells that nothing
    new is to be begun: the process is to end. ``done`` hears of each finished step, ``tell`` of what is waited for,
    ``warn`` of what has to be known.
    """

    keys: Records
    timeout: float = 300.0
    force: bool = False
    until_gone: bool = True
    stops: Callable[[], bool] = lambda: False
    done: Callable[[Step], None] = lambda step: None
    tell: Callable[[str], None] = lambda text: None
    warn: Callable[[str], None] = lambda text: None
