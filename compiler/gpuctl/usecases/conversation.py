"""Whom a use case asks, and who hears of what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuctl.apply.operations import Dialogue, Unasked
from gpuctl.apply.run.how import How
from gpuctl.objects.durations import LONGEST_CHECKPOINT

if TYPE_CHECKING:
    from gpuctl.apply.plan.plan import Plan, Step
    from gpuctl.frontend.diagnostics import Diagnostic
    from gpuctl.frontend.source import Source
    from gpuctl.objects.ownership_metadata import Records
    from gpuctl.usecases.change_options import RunOptions


def ask_nobody(plan: Plan) -> bool:
    """The answer where nobody can be asked: what takes nothing away may go on.

    :raises Unasked: something has to be confirmed.
    """
    if plan.questions:
        raise Unasked(f"this has to be confirmed first: {'; '.join(plan.questions)}", plan)
    return True


@dataclass(frozen=True)
class Conversation:
    """How a use case talks. By default nobody listens, and what has to be confirmed is refused.

    ``confirm`` returns whether a plan may go on. ``diagnosed`` hears what is to be said of documents that are in order,
    with their sources; ``begins`` of each plan before anything of it is done, ``done`` of each finished step; ``wait``
    of what is being waited for, which is of no interest afterwards; ``say`` of what has to be known. ``stops`` tells
    that nothing new is to be begun any more. ``lose`` returns whether jobs may end though their checkpoints failed, as
    the problems say, and ``longest_checkpoint`` is for how many seconds a checkpoint is waited for at most.
    """

    confirm: Callable[[Plan], bool] = ask_nobody
    diagnosed: Callable[[Sequence[Diagnostic], Mapping[str, Source]], None] = lambda diagnostics, sources: None
    begins: Callable[[Plan], None] = lambda plan: None
    done: Callable[[Step], None] = lambda step: None
    wait: Callable[[str], None] = lambda text: None
    say: Callable[[str], None] = lambda text: None
    stops: Callable[[], bool] = lambda: False
    lose: Callable[[Sequence[str]], bool] = lambda problems: False
    longest_checkpoint: float = LONGEST_CHECKPOINT

    def how(self, keys: Records, run: RunOptions) -> How:
        """The manner of carrying a plan out."""
        return How(
            keys,
            timeout=run.timeout,
            force=run.force,
            until_gone=run.until_gone,
            checkpoint=run.checkpoint,
            dry_run=run.dry_run,
            longest_checkpoint=self.longest_checkpoint,
            stops=self.stops,
            begins=self.begins,
            done=self.done,
            wait=self.wait,
            say=self.say,
        )

    def dialogue(self) -> Dialogue:
        """The part of it that a whole operation needs."""
        return Dialogue(self.confirm, self.say, self.lose, self.wait)
