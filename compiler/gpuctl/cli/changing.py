"""What the commands that change a cluster have in common: connect, compile, plan, ask, print."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

from gpuctl.apply.operations import Dialogue, apply, execute, preview
from gpuctl.apply.plan.plan import NoSuchJob, Plan, Step
from gpuctl.apply.plan.request import Request
from gpuctl.apply.run.execute import How
from gpuctl.apply.state.records import Records, records
from gpuctl.backend.api_resources import Key
from gpuctl.cli.options.connecting import NotTold, Progress, agreed, cluster_errors, connected
from gpuctl.cli.options.planning_options import (
    Documents,
    Planning,
    compiled,
    platform_settings,
    request_of,
    set_options,
)
from gpuctl.cli.output import plan_lines as printer
from gpuctl.cli.output.markdown import fold
from gpuctl.compilation import Compilation
from gpuctl.kube.connection import Connection
from gpuctl.language.masking import redact

SIGNALLED = 128


@dataclass(frozen=True)
class Manner:
    """How a command was called."""

    kubeconfig: str | None
    context: str | None
    yes: bool
    timeout: float
    as_json: bool
    dry_run: str | None = None
    force: bool = False
    wait: bool = False


def apply_documents(documents: Documents, manner: Manner, planning: Planning, *, create_only: bool = False) -> int:
    """``apply`` and ``create``."""
    progress = Progress()
    with cluster_errors(as_json=manner.as_json):
        connection = connected(manner.kubeconfig, manner.context)
        options = set_options(connection, planning, documents)
        empty = planning.allow_empty or planning.prune
        compilation = compiled(connection, documents, as_json=manner.as_json, empty=empty)
        request = request_of(compilation, planning, create_only=create_only, offline=manner.dry_run == "client")
        try:
            if manner.dry_run is not None:
                progress.wait("comparing with the cluster ...")
                plan = preview(connection, request, options, server=manner.dry_run == "server")
                progress.clear()
                return _show_plan(plan, manner)
            how = how_of(request.keys, manner, progress)
            plan = apply(connection, request, how, dialogue_of(manner, progress), options)
            if manner.wait and all(step.result == "done" for step in plan.steps):
                from gpuctl.apply.run.wait_gone import wait_until_running

                explain = _explaining(connection, request)
                wait_until_running(connection, plan, request.keys, manner.timeout, progress.wait, explain)
            progress.clear()
            return show_result(plan, manner)
        finally:
            progress.clear()
            connection.close()


def _explaining(connection: Connection, request: Request) -> Callable[[Key], str]:
    """What `gpuctl why` says of a workload, for a wait that has come to nothing."""

    def explain(key: Key) -> str:
        from gpuctl.kube.api_errors import ClusterError
        from gpuctl.kube.scope import Scope
        from gpuctl.reading.find import find_job
        from gpuctl.reading.why.sentence import cause_of

        scope = Scope(connection, key.namespace)
        try:
            job, _ = find_job(scope, key.name, request.keys)
        except ClusterError:
            return ""
        return cause_of(scope, job, request.keys, request.settings)

    return explain


def diff_documents(
    documents: Documents, kubeconfig: str | None, context: str | None, planning: Planning, *, output: str
) -> int:
    """``diff`` against the cluster."""
    as_json = output == "json"
    progress = Progress()
    with cluster_errors(as_json=as_json, refusal=NotTold):
        connection = connected(kubeconfig, context)
        options = set_options(connection, planning, documents)
        empty = planning.allow_empty or planning.prune
        compilation = _compiled_for_diff(connection, documents, as_json=as_json, empty=empty)
        if compilation is None:
            return 2
        request = request_of(compilation, planning)
        progress.wait("comparing with the cluster ...")
        plan = preview(connection, request, options)
        progress.clear()
        connection.close()
    if as_json:
        click.echo(printer.render_json(plan, error="\n".join(plan.errors) or None), nl=False)
    else:
        _show_diff(plan, request.keys, markdown=output == "markdown")
    _tell_notes(plan)
    for obstacle in (*plan.tracked, *plan.lacking):
        click.echo(f"note: this could not be applied: {obstacle}", err=True)
    for error in dict.fromkeys(plan.errors):
        click.echo(f"error: {error}", err=True)
    if plan.errors:
        return 2
    return 1 if plan.writes or plan.recovery else 0


def _show_diff(plan: Plan, keys: Records, *, markdown: bool) -> None:
    coloured = not markdown and _is_coloured(sys.stdout)
    if markdown:
        click.echo(f"{printer.summary_line(plan)}.")
    for step in plan.recovery:
        line = printer.recovery_line(step, coloured=coloured)
        diff = printer.diff_text(step, keys, coloured=coloured) if step.action == "create" else []
        if markdown:
            click.echo(fold(line, "".join(diff)), nl=False)
        else:
            click.echo(line)
            sys.stdout.writelines(diff)
    for step in plan.steps:
        line = printer.planned_line(step, coloured=coloured)
        diff = printer.diff_text(step, keys, coloured=coloured)
        if step.action in ("unchanged", "skip"):
            if printer.is_worth_a_line(step) and not markdown:
                click.echo(line)
        elif markdown:
            click.echo(fold(line, "".join(diff)), nl=False)
        else:
            click.echo(line)
            sys.stdout.writelines(diff)


def _compiled_for_diff(
    connection: Connection, documents: Documents, *, as_json: bool, empty: bool
) -> Compilation | None:
    """As :func:`compiled`, but wrong documents mean that the difference cannot be determined."""
    try:
        return compiled(connection, documents, as_json=as_json, empty=empty)
    except click.exceptions.Exit:
        return None


def delete_documents(documents: Documents, manner: Manner, *, keep_labels: bool) -> int:
    """``delete -f``."""
    from gpuctl.apply.plan.deletion import plan_delete

    with cluster_errors(as_json=manner.as_json):
        connection = connected(manner.kubeconfig, manner.context)
        compilation = compiled(connection, documents, as_json=manner.as_json)
        keys = records(compilation.settings)
        plan = plan_delete(connection, compilation.lowered, keys, keep_labels=keep_labels)
        return _execute(connection, plan, keys, manner)


def delete_jobs(names: Sequence[str], namespace: str | None, platform: str | None, manner: Manner) -> int:
    """``delete job NAME``; a pod's name, or KIND/NAME, means its job."""
    from gpuctl.apply.plan.deletion import plan_delete_job

    with cluster_errors(as_json=manner.as_json):
        connection = connected(manner.kubeconfig, manner.context)
        keys = records(platform_settings(platform))
        steps: dict[Key, Step] = {}
        for name in dict.fromkeys(names):
            for step in _deletion(plan_delete_job, connection, name, namespace, keys).steps:
                steps.setdefault(step.key, step)
        return _execute(connection, Plan(list(steps.values())), keys, manner)


def _deletion(
    plan: Callable[[Connection, str, str | None, Records], Plan],
    connection: Connection,
    name: str,
    namespace: str | None,
    keys: Records,
) -> Plan:
    """The plan for a job's name; where there is no such job, for that of the pod."""
    from gpuctl.apply.plan.deletion import not_ours
    from gpuctl.apply.state.records import is_ours
    from gpuctl.kube.scope import Scope
    from gpuctl.reading.find import find_job, workload_of

    if "/" not in name:
        try:
            return plan(connection, name, namespace, keys)
        except NoSuchJob as error:
            steps = _deleted_already(connection, name, namespace, keys)
            if steps:
                return Plan(steps)
            refusal = error
    try:
        job, _ = find_job(Scope(connection, namespace), name, keys)
    except NoSuchJob:
        if "/" in name:
            raise
        raise refusal from None
    if not is_ours(workload_of(job)):
        raise not_ours(workload_of(job), f"{job.identity.kind}/{job.identity.name}")
    # Of two generations, that of the pod or object that was named.
    by_name = name.rpartition("/")[2] == job.identity.name
    meant = job.identity.name if by_name else job.identity.object_name
    return plan(connection, meant, job.identity.namespace, keys)


def _deleted_already(connection: Connection, name: str, namespace: str | None, keys: Records) -> list[Step]:
    """Steps for a job that a killed apply had deleted, and would bring back; none where there are none, or several."""
    from gpuctl.apply.plan.deletion import plan_delete_rest
    from gpuctl.apply.run import recovery
    from gpuctl.apply.run.pending import Pending
    from gpuctl.kube.api_errors import ClusterError

    with contextlib.suppress(ClusterError):
        steps = Pending(recovery.find(connection, keys, namespace)).gone(connection, name)
        places = {step.key.namespace for step in steps}
        if len(places) == 1:
            return [*steps, *plan_delete_rest(connection, name, places.pop(), keys)]
    return []


def rerun_jobs(names: Sequence[str], namespace: str | None, platform: str | None, manner: Manner) -> int:
    """``rerun``."""
    from gpuctl.apply.plan.run_again import plan_rerun
    from gpuctl.kube.kueue import find_workload
    from gpuctl.kube.scope import Scope
    from gpuctl.reading.find import find_job, workload_of

    with cluster_errors(as_json=manner.as_json):
        connection = connected(manner.kubeconfig, manner.context)
        keys = records(platform_settings(platform))
        steps: dict[Key, Step] = {}
        for name in names:
            job, _ = find_job(Scope(connection, namespace), name, keys)
            live = workload_of(job)
            queued = find_workload(connection, live)
            for step in plan_rerun(live, f"{job.identity.kind}/{job.identity.name}", queued).steps:
                steps.setdefault(step.key, step)
        return _execute(connection, Plan(list(steps.values())), keys, manner)


def _execute(connection: Connection, plan: Plan, keys: Records, manner: Manner) -> int:
    progress = Progress()
    try:
        if manner.force and any(step.deletes for step in plan.steps):
            progress.say("warning: without their grace period processes may still hold their GPUs for a while")
        execute(connection, plan, how_of(keys, manner, progress), dialogue_of(manner, progress))
        progress.clear()
        return show_result(plan, manner)
    finally:
        progress.clear()
        connection.close()


def how_of(keys: Records, manner: Manner, progress: Progress) -> How:
    """How a plan is carried out: a line for each step that is finished."""

    def done(step: Step) -> None:
        progress.clear()
        if manner.as_json or not printer.is_worth_a_line(step):
            return
        # A reader that went away (`| head`) must not stop a plan half way; the exit tells of it.
        with contextlib.suppress(OSError, ValueError):
            click.echo(printer.result_line(step, coloured=_is_coloured(sys.stdout)))

    return How(keys, timeout=manner.timeout, force=manner.force, done=done, tell=progress.wait, warn=progress.say)


def dialogue_of(manner: Manner, progress: Progress) -> Dialogue:
    """How questions are asked and progress is reported."""

    def ask(plan: Plan) -> bool:
        progress.clear()
        return agreed(plan, yes=manner.yes)

    return Dialogue(ask, progress.say)


def _show_plan(plan: Plan, manner: Manner) -> int:
    if manner.as_json:
        click.echo(printer.render_json(plan, error="\n".join(plan.obstacles) or None), nl=False)
    else:
        for step in plan.recovery:
            click.echo(printer.recovery_line(step, coloured=_is_coloured(sys.stdout)))
        for step in plan.steps:
            if printer.is_worth_a_line(step):
                click.echo(printer.planned_line(step, coloured=_is_coloured(sys.stdout)))
        _tell_notes(plan)
        if not plan.obstacles:
            for question in plan.questions:
                click.echo(f"asks first: {question}", err=True)
            click.echo(f"{printer.summary_line(plan)} ({manner.dry_run} dry run, nothing was changed)", err=True)
    for error in plan.obstacles:
        click.echo(f"error: {error}", err=True)
    return 1 if plan.errors or plan.tracked else 3 if plan.lacking else 0


def show_result(plan: Plan, manner: Manner) -> int:
    """Print what became of a plan; the exit code."""
    if manner.as_json:
        click.echo(printer.render_json(plan), nl=False)
    elif sys.stdout.isatty():
        click.echo(printer.summary_line(plan, done=True), err=True)
    _tell_notes(plan)
    failed = [step for step in plan.steps if step.result in ("failed", "restored")]
    undone = [step for step in plan.steps if step.result == "not-run"]
    if failed:
        said = f"{len(failed)} of {len(plan.steps)} steps failed"
        if undone:
            said += f", and {len(undone)} were not begun"
        click.echo(f"error: {said}", err=True)
        if plan.outage and not manner.as_json:
            for error in dict.fromkeys(step.error for step in failed if step.error):
                click.echo(f"error: {error}", err=True)
        if plan.unfinished:
            click.echo("What was begun is remembered: `gpuctl recover`, or the next apply, finishes it.", err=True)
        return 3 if plan.outage else 1
    if plan.interrupted and undone:
        click.echo(f"Interrupted: {len(undone)} steps were not begun.", err=True)
    elif undone:
        click.echo(f"error: {undone[0].error}: {len(undone)} steps were not begun", err=True)
    # As a shell says it: 130 after Ctrl-C, 143 after SIGTERM.
    return SIGNALLED + plan.interrupted if plan.interrupted else 1 if undone else 0


def _tell_notes(plan: Plan) -> None:
    for note in dict.fromkeys(plan.notes):
        click.echo(f"note: {redact(note)}", err=True)


def _is_coloured(stream: object) -> bool:
    isatty = getattr(stream, "isatty", lambda: False)
    return bool(isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
