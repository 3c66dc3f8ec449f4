"""The plan to change the number of nodes of an elastic training."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.apply.plan.gitops_tracking import tracked_by
from gpuctl.apply.plan.lost_work import ended_word, lost_work
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.plan.workload_steps import without_server_fields
from gpuctl.apply.state.compare import FieldOutcome
from gpuctl.backend.gitops_annotations import FLUX_CREATES_ONCE
from gpuctl.hints import JobHint
from gpuctl.kube.api_errors import NotPossible
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import SERVICES, Object, annotations_of, key_of
from gpuctl.objects.array_jobs import is_array
from gpuctl.objects.elastic_jobs import (
    SIZE_FIELDS,
    SIZE_PATHS,
    NodeBounds,
    max_restarts,
    node_bounds,
    node_count,
    with_nodes,
)
from gpuctl.objects.queueing import is_held, queue_of
from gpuctl.objects.role_jobs import has_several_roles
from gpuctl.objects.scheduled_jobs import is_scheduled
from gpuctl.objects.workload_state import end_state


class NotScalable(NotPossible):
    """The number of nodes cannot be changed; nothing was changed."""


def plan_scale(
    workload: Object, pods: Iterable[Object], title: str, nodes: int, now: float, *, has_kueue: bool
) -> Plan:
    """Plan to change the number of nodes of an elastic training.

    :param pods: its pods; if a container of one has started, the change has to be confirmed.
    :param now: the time of the API server, seconds since 1970.
    :param has_kueue: the cluster has Kueue, so that a queue counts.
    :raises NotScalable: the training is not elastic, has ended, may not have this number of nodes, or runs in a queue.
    """
    key = key_of(workload)
    name = say("{job} in {namespace}", job=title, namespace=key.namespace)
    bounds = _bounds_of(workload, name, title)
    _check_state(workload, name)
    _check_range(bounds, name, nodes)
    have = node_count(workload)
    if have == nodes and workload["spec"].get("completions") == nodes:
        return Plan([Step("unchanged", key, say("has {nodes:node} already", nodes=nodes), live=workload, title=title)])
    if has_kueue:
        _check_queue(workload, name)
    step = Step(
        "update",
        key,
        say("{nodes:node} instead of {have}", nodes=nodes, have=have),
        desired=without_server_fields(with_nodes(workload, nodes)),
        live=workload,
        method="put",
        changes=[FieldOutcome(f"spec.{name}", workload["spec"].get(name), nodes) for name in SIZE_FIELDS],
        title=title,
    )
    plan = Plan([step])
    running = lost_work(pods, now)
    if running is not None:
        size = say("from {have} to {nodes:node}", have=have, nodes=nodes)
        plan.confirm.append(
            say(
                "scales {job} {size} ({running}): {effect}",
                job=name,
                size=size,
                running=running,
                effect=_effect(workload, nodes),
            )
        )
    tracker = tracked_by(workload)
    if tracker is not None and not FLUX_CREATES_ONCE.items() <= annotations_of(workload).items():
        plan.notes.append(
            say(
                "{object} is managed by {tracker}: its next sync sets the number of its manifest again, unless it "
                "ignores differences of {paths:and}",
                object=key,
                tracker=tracker,
                paths=list(SIZE_PATHS),
            )
        )
    return plan


def _bounds_of(workload: Object, name: str, title: str) -> NodeBounds:
    """Return the range of nodes of a live elastic training."""
    bounds = node_bounds(workload)
    if bounds is None:
        problem, hint = _fixed_number(workload, title)
        raise NotScalable(say("{job} {problem}", job=name, problem=problem), hint)
    if is_scheduled(workload):
        raise NotScalable(
            say("{job} has a schedule: each run starts with {nodes:node}", job=name, nodes=bounds.most),
            say("set `resources.nodes.max` in its document and apply it"),
        )
    return bounds


def _fixed_number(workload: Object, title: str) -> tuple[str, str]:
    """Return why the number of pods of a job is fixed, and how to change it."""
    if title.startswith("notebook/"):
        return say("is not a training: a notebook has one pod"), say("only elastic trainings can be scaled")
    if workload["kind"] in SERVICES:
        return (
            say("is not a training: its document states the number of its replicas"),
            say("set `service.replicas` in its document and apply it"),
        )
    if is_array(workload):
        return say("is an array"), say(
            "set `array.parallelism`, the number of runs at once, in its document and apply it"
        )
    if has_several_roles(workload):
        return (
            say("has roles, each with a fixed number of nodes"),
            say("set `nodes` of the role in its document and apply it, which replaces the job"),
        )
    return (
        say("has a fixed number of nodes"),
        say("write `resources.nodes: {{min: 2, max: 4}}` in its document and apply it, which replaces the job"),
    )


def _check_state(workload: Object, name: str) -> None:
    ended, key = end_state(workload), key_of(workload)
    if ended is not None:
        again = say("{command} runs it again", command=JobHint("rerun", key.name, key.namespace))
        raise NotScalable(say("{object} has {state}", object=name, state=ended_word(ended)), again)
    if workload["metadata"].get("deletionTimestamp"):
        raise NotScalable(say("{object} is being deleted", object=name))


def _check_range(bounds: NodeBounds, name: str, nodes: int) -> None:
    if not bounds.least <= nodes <= bounds.most:
        field = "min" if nodes < bounds.least else "max"
        raise NotScalable(
            say(
                "{job} has {least} to {most} nodes, and not {nodes}: torchrun reads the range when it starts",
                job=name,
                least=bounds.least,
                most=bounds.most,
                nodes=nodes,
            ),
            say("set `resources.nodes.{field}` in its document and apply it, which replaces the job", field=field),
        )


def _check_queue(workload: Object, name: str) -> None:
    """Raise NotScalable for a training that runs in a queue of Kueue."""
    key = key_of(workload)
    is_suspended = bool(workload["spec"].get("suspend"))
    if queue_of(workload) and not is_held(workload) and not is_suspended:
        raise NotScalable(
            say(
                "{job} runs in Kueue's queue {queue}, which has reserved quota for {nodes:node}: Kueue refuses "
                "another number until the job is suspended",
                job=name,
                queue=queue_of(workload),
                nodes=node_count(workload),
            ),
            say(
                "{pause} ends its pods; scale it then, and {resume} starts it from its last checkpoint",
                pause=JobHint("pause", key.name, key.namespace),
                resume=JobHint("resume", key.name, key.namespace),
            ),
        )


def _effect(workload: Object, nodes: int) -> str:
    """Return what a running training loses by a change of its number of nodes."""
    fewer = node_count(workload) - nodes
    if fewer <= 0:
        return say("torchrun restarts its program on all nodes, from its last checkpoint")
    ends = say("ends {pods:pod}", pods=fewer)
    if max_restarts(workload) == 0:
        return say("{ends}, and then the training, because its `job.retries` is 0", ends=ends)
    return say("{ends}; torchrun restarts its program on the other nodes, from its last checkpoint", ends=ends)
