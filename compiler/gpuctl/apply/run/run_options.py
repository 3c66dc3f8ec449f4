"""The options of a run, and the callbacks by which it asks and reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuctl.apply.plan.plan import ConfirmationMissing, Plan, Step
from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.frontend.source import Source
from gpuctl.objects.durations import MAX_CHECKPOINT_SECONDS


def refuse_questions(plan: Plan) -> bool:
    """Return True for a plan that needs no confirmation.

    :raises ConfirmationMissing: it has questions.
    """
    if plan.questions:
        raise ConfirmationMissing(f"this has to be confirmed first: {'; '.join(plan.questions)}", plan)
    return True


@dataclass(frozen=True)
class RunOptions:
    """Options of a run.

    ``timeout``: seconds for deletions, late quotas and answers together, and with ``wait`` again until everything
    runs; ``rollback`` restores what does not run by then. ``force`` ends pods without their grace
    period. ``until_gone`` waits also for deleted objects without a successor. ``checkpoint`` lets running jobs save
    their progress before they end. ``queue`` lets jobs that run again wait for a quota; for documents
    ``PlanOptions`` has it. ``dry_run`` makes and checks the plan only.
    """

    timeout: float = 300.0
    force: bool = False
    wait: bool = False
    until_gone: bool = True
    rollback: bool = False
    checkpoint: bool = True
    queue: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class RunCallbacks:
    """The caller's part in a run. By default nothing is reported, and what has to be confirmed is refused.

    ``confirm``: return True if a plan may be carried out. ``lose``: return True if jobs may end though their
    checkpoints failed with these problems. ``stops``: return True if nothing new may be started. ``diagnosed``:
    diagnostics of valid documents, with their sources. ``begins``: a plan, before its first step. ``done``: a finished
    step. ``wait``: what is being waited for, a passing message. ``say``: a message to keep. ``longest_checkpoint``:
    the most seconds that one checkpoint may take.
    """

    confirm: Callable[[Plan], bool] = refuse_questions
    on_diagnostics: Callable[[Sequence[Diagnostic], Mapping[str, Source]], None] = lambda diagnostics, sources: None
    on_start: Callable[[Plan], None] = lambda plan: None
    on_step_done: Callable[[Step], None] = lambda step: None
    on_wait: Callable[[str], None] = lambda text: None
    on_message: Callable[[str], None] = lambda text: None
    should_stop: Callable[[], bool] = lambda: False
    accept_lost_progress: Callable[[Sequence[str]], bool] = lambda problems: False
    longest_checkpoint: float = MAX_CHECKPOINT_SECONDS

    def without_repeats(self) -> RunCallbacks:
        """Return callbacks that pass a message to ``say`` only once."""
        said: set[str] = set()

        def say(text: str) -> None:
            if text not in said:
                said.add(text)
                self.on_message(text)

        return replace(self, on_message=say)
