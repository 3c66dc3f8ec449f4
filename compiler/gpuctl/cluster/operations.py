"""Apply, create and delete from beginning to end: recover what is unfinished, plan, check, ask, carry out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpuctl.cluster import recover as recovery
from gpuctl.cluster.checks import Platform, check
from gpuctl.cluster.connection import Connection
from gpuctl.cluster.errors import Changed
from gpuctl.cluster.execute import Execution, How
from gpuctl.cluster.lease import holding
from gpuctl.cluster.plan import Plan, Refused
from gpuctl.cluster.planner import Request, make_plan
from gpuctl.cluster.resources import Key
from gpuctl.cluster.sets import SetRun, plan_prune

LEASE_WAIT = 20.0
"""Seconds that another run is waited for: a little more than a dead one's lease lasts."""


class Declined(Refused):
    """Somebody was asked, and said no."""


class Unasked(Refused):
    """Somebody has to be asked, and nobody can be."""


@dataclass(frozen=True)
class SetOptions:
    """``--set``: its name and namespace, what its documents came from, and what may be pruned.

    ``allow_skipped`` prunes although files were not read that may hold documents.
    """

    name: str
    namespace: str
    sources: tuple[str, ...]
    prune: bool = False
    allow_source: bool = False
    allow_empty: bool = False
    allow_skipped: bool = False


@dataclass
class Dialogue:
    """How a command talks: ``ask`` returns whether the plan may go on, ``tell`` says what is being waited for."""

    ask: Callable[[Plan], bool]
    tell: Callable[[str], None]


def preview(
    connection: Connection, request: Request, options: SetOptions | None = None, *, server: bool = True
) -> Plan:
    """The plan, checked by the server unless ``server`` is False. Nothing is written."""
    return _plan(connection, request, options, server=server)[0]


def apply(
    connection: Connection, request: Request, how: How, dialogue: Dialogue, options: SetOptions | None = None
) -> Plan:
    """Bring about what documents ask for. The returned plan's steps tell how each went.

    :raises Refused: something stands against it, or somebody was asked and said no; nothing was changed.
    :raises Held: another run is at work; nothing was changed.
    """
    finish_others(connection, request, how, dialogue, options)
    plan, run = _plan(connection, request, options, server=True)
    _refuse(plan)
    if plan.questions and not dialogue.ask(plan):
        raise Declined("not agreed to", plan)
    if not plan.writes and (run is None or run.is_settled):
        Execution(connection, plan, how).run()
        return plan
    return _carry_out(connection, plan, run, request, how, dialogue, options)


def _carry_out(
    connection: Connection,
    plan: Plan,
    run: SetRun | None,
    request: Request,
    how: How,
    dialogue: Dialogue,
    options: SetOptions | None,
) -> Plan:
    leases = Execution(connection, plan, how).lease_keys()
    if run is not None:
        leases.add(run.lease)
        _make_home(connection, plan, run)
    with holding(connection, leases, LEASE_WAIT, dialogue.tell, optional=True) as held, held.interrupts.let_through():
        for attempt in (1, 2):
            try:
                if run is not None:
                    run.write(connection, run.superset)
                Execution(connection, plan, how).run(held)
                break
            except Changed:
                # Planned once more; what takes nothing away that was not agreed to may go on.
                again, run = _plan(connection, request, options, server=True)
                _refuse(again)
                if attempt == 2 or not _deletions(again) <= _deletions(plan):
                    raise
                plan = again
        if run is not None and _all_done(plan):
            run.write(connection, run.final)
    return plan


def execute(connection: Connection, plan: Plan, how: How, dialogue: Dialogue) -> Plan:
    """Carry out a plan that rests on no documents: deletions, and jobs that run once more.

    What a killed apply left is finished before: afterwards it would bring back what is deleted here.
    """
    _refuse(plan)
    _finish(connection, {step.key.namespace for step in plan.steps}, how, dialogue)
    if plan.questions and not dialogue.ask(plan):
        raise Declined("not agreed to", plan)
    check(connection, plan)
    _refuse(plan)
    execution = Execution(connection, plan, how)
    leases = execution.lease_keys()
    with holding(connection, leases, LEASE_WAIT, dialogue.tell, optional=True) as held, held.interrupts.let_through():
        execution.run(held)
    return plan


def finish_others(
    connection: Connection, request: Request, how: How, dialogue: Dialogue, options: SetOptions | None = None
) -> None:
    """Complete or restore what a killed run left in the namespaces concerned.

    With a set these are also those that it has been in: what is on its way there is to be pruned, not forgotten.
    """
    namespaces = {item.object["metadata"].get("namespace") or "" for item in request.lowered}
    if options is not None:
        namespaces |= SetRun.read(connection, options).superset.all_namespaces
    _finish(connection, namespaces, how, dialogue)


def _finish(connection: Connection, namespaces: set[str], how: How, dialogue: Dialogue) -> None:
    found = recovery.unfinished(connection, how.keys, namespaces - {""})
    if not found:
        return
    dialogue.tell("an earlier apply did not finish: recovering what it left")
    results = recovery.recover(connection, how.keys, found, timeout=how.timeout, wait=LEASE_WAIT, tell=dialogue.tell)
    for result in results:
        dialogue.tell(f"{result.key}: {result.message}")
    failed = [result for result in results if result.outcome == "failed"]
    if failed:
        raise Refused(f"an earlier apply could not be finished: {failed[0].key}: {failed[0].message}")


def _plan(
    connection: Connection, request: Request, options: SetOptions | None, *, server: bool
) -> tuple[Plan, SetRun | None]:
    run = None
    if options is not None:
        if options.prune and not options.allow_empty and all(item.shared for item in request.lowered):
            raise Refused(
                f"there is no document left, and --prune would delete all that the set {options.name} contains: "
                "--allow-empty if this is intended"
            )
        run = SetRun.read(connection, options)
        request = replace(request, part_of=run.id)
    absent: int | None = None
    while True:
        plan = make_plan(connection, request)
        if run is not None and options is not None:
            plan.set_name = options.name
            run.cover(request, plan)
            if options.prune:
                plan.steps += plan_prune(connection, run, request, plan)
        try:
            if server and not plan.errors:
                check(connection, plan, Platform(request.keys, request.gpu_resources))
            break
        except Changed:
            # Another run is creating what this one would, object by object: it comes to an end, as this does.
            before, absent = absent, sum(step.action == "create" for step in plan.steps)
            if before is not None and absent >= before:
                raise
    return plan, run


def _make_home(connection: Connection, plan: Plan, run: SetRun) -> None:
    """The set's parent and lease are written before all else, perhaps into a namespace that the plan creates."""
    for step in plan.steps:
        if step.key == Key("Namespace", "", run.options.namespace) and step.action == "create" and step.desired:
            connection.apply(step.desired)
            step.method = "none"


def _refuse(plan: Plan) -> None:
    if plan.obstacles:
        raise Refused("\n".join(plan.obstacles), plan)


def _deletions(plan: Plan) -> set[tuple[str, Key]]:
    return {(step.action, step.key) for step in plan.steps if step.deletes}


def _all_done(plan: Plan) -> bool:
    return all(step.result == "done" for step in plan.steps)
