"""The options of a run, and the callbacks for its questions and reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuctl.apply.plan.plan import ConfirmationMissing, Plan, Step
from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.frontend.source import Source
from gpuctl.language.sentences import say
from gpuctl.objects.durations import MAX_CHECKPOINT_SECONDS


def refuse_questions(plan: Plan) -> bool:
    """Return True for a plan that needs no confirmation.

    :raises ConfirmationMissing: it has questions.
    """
    if plan.questions:
        raise ConfirmationMissing(say("this has to be confirmed first: {questions:;}", questions=plan.questions), plan)
    return True


@dataclass(frozen=True)
class RunOptions:
    """Options of a run.

    ``timeout``: seconds for deletions, delayed quotas and responses together; with ``wait`` the same again until
    everything runs. ``rollback`` restores what does not run by then. ``force`` ends pods without their grace period.
    ``until_gone`` also waits for deleted objects without a successor. ``checkpoint`` lets running jobs save their
    progress before they end. ``queue`` lets rerun jobs wait for a quota; for documents ``PlanOptions`` has it.
    ``dry_run`` only plans and checks.
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
    """Callbacks of a run. By default nothing is reported, and plans with questions are refused.

    ``confirm(plan)``: return True if the plan may be carried out. ``accept_lost_progress(problems)``: return True if
    jobs may end though their checkpoints failed. ``should_stop()``: polled before each step; return True to start no
    further step. ``on_diagnostics``: diagnostics of valid documents, with their sources. ``on_start(plan)``: called
    before the first step. ``on_step_done(step)``: a finished step. ``on_wait``: a transient message about what is
    awaited, which only terminals show, so it needs no Chinese. ``on_message``: a message to keep.
    ``longest_checkpoint``: maximum seconds of one checkpoint.
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
        """Return callbacks that pass each message to ``on_message`` only once."""
        said: set[str] = set()

        def say(text: str) -> None:
            if text not in said:
                said.add(text)
                self.on_message(text)

        return replace(self, on_message=say)
