"""kwok's stages, made of the tables in :mod:`control_plane.outcomes`.

A stage says which pods it takes (``selector``), how long it waits and what it does: events, a patch of the status. No
two stages take the same pod: kwok would choose by chance.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from control_plane import outcomes
from control_plane.outcomes import BACK_OFFS, ENDS, PULL_ERRORS, WAITING, End, Event
from control_plane.statuses import (
    BACK_OFF_EVENT,
    Step,
    event_step,
    init_fails,
    node_state,
    over,
    restarts,
    runs,
    starts_again,
    status_patch,
    waits,
)

Stage = dict[str, Any]
Rule = dict[str, Any]

# kubelet waits 10 s between the two states of a failed pull; a test need not.
PULL_BACK_OFF_MILLISECONDS = 500
SLOW_TERMINATION = "3s"


def _rule(key: str, operator: str, *values: str) -> Rule:
    return {"key": key, "operator": operator, "values": list(values)} if values else {"key": key, "operator": operator}


def _annotation(name: str) -> str:
    return f".metadata.annotations[{json.dumps(name)}]"


def _outcome(*names: str) -> Rule:
    return _rule(_annotation(outcomes.OUTCOME), "In", *names)


_KEPT = _rule(".metadata.deletionTimestamp", "DoesNotExist")
_DELETED = _rule(".metadata.deletionTimestamp", "Exists")
_BOUND = _rule(".spec.nodeName", "Exists")
_PENDING = _rule(".status.phase", "In", "Pending")
_RUNNING = _rule(".status.phase", "In", "Running")
_WAITING_REASON = ".status.containerStatuses.[].state.waiting.reason"
_CONTAINER_RUNS = _rule(".status.containerStatuses.[].state.running.startedAt", "Exists")
_NOT_WAITING = _rule(_WAITING_REASON, "DoesNotExist")


def _stage(name: str, rules: Iterable[Rule], steps: Sequence[Step], delay: Any = None, kind: str = "Pod") -> Stage:
    spec: dict[str, Any] = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": list(rules)},
        "steps": list(steps),
    }
    if delay is not None:
        spec["delay"] = delay
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def _node_stages() -> list[Stage]:
    condition = '.status.conditions.[] | select( .type == "Ready" ) | .status'
    wanted = _annotation(outcomes.READY)
    return [
        _stage(
            "node-ready",
            [_rule(condition, "NotIn", "True"), _rule(wanted, "NotIn", "false")],
            [node_state(True)],
            kind="Node",
        ),
        _stage(
            "node-not-ready",
            [_rule(condition, "NotIn", "False"), _rule(wanted, "In", "false")],
            [node_state(False)],
            kind="Node",
        ),
    ]


def _start_stages(events: bool) -> list[Stage]:
    """From bound to running, or to what keeps a pod from it."""
    special = (*PULL_ERRORS, *WAITING, outcomes.NEVER_READY, outcomes.REJECTED, outcomes.INIT_FAILS)
    # kubelet/images/image_manager.go, kubelet/kuberuntime/kuberuntime_container.go.
    present = 'printf "Container image %q already present on machine and can be accessed by the pod" .image'
    told = (
        Event("Normal", "Pulled", present),
        Event("Normal", "Created", '"Container created"'),
        Event("Normal", "Started", '"Container started"'),
    )
    started = [event_step(event) for event in told] if events else []
    rejected = Event("Warning", outcomes.REJECTION_REASON, outcomes.REJECTION_MESSAGE)
    rejection = f"""
phase: Failed
reason: {outcomes.REJECTION_REASON}
message: {{{{ with first .spec.containers }}}}{{{{ printf "Pod was rejected: %s" ({outcomes.REJECTION_MESSAGE}) | Quote }}}}{{{{ end }}}}
"""
    bound = [_KEPT, _BOUND, _PENDING]
    stages = [
        _stage(
            "pod-running",
            [*bound, _rule(_annotation(outcomes.OUTCOME), "NotIn", *special)],
            [*started, runs(True)],
        ),
        _stage(
            "pod-never-ready",
            [*bound, _outcome(outcomes.NEVER_READY)],
            [*started, runs(False), event_step(outcomes.NOT_READY_EVENT)],
        ),
        _stage("pod-init-fails", [*bound, _NOT_WAITING, _outcome(outcomes.INIT_FAILS)], [init_fails()]),
        _stage("pod-rejected", [*bound, _outcome(outcomes.REJECTED)], [event_step(rejected), status_patch(rejection)]),
    ]
    for name, waiting in WAITING.items():
        steps = [event_step(event, waiting.variables) for event in waiting.events]
        # kubelet makes the sandbox when the volumes are there.
        patch = waits(waiting, sandbox=name not in ("missing-mount", "no-sandbox"))
        stages.append(_stage(f"pod-{name}", [*bound, _NOT_WAITING, _outcome(name)], [*steps, patch]))
    for name, error in PULL_ERRORS.items():
        first, second = outcomes.pull_failed(error), outcomes.pull_backs_off(error)
        stages.append(
            _stage(
                f"pod-{name}",
                [*bound, _NOT_WAITING, _outcome(name)],
                [*map(event_step, first.events), waits(first, sandbox=True)],
            )
        )
        stages.append(
            _stage(
                f"pod-{name}-again",
                [*bound, _rule(_WAITING_REASON, "In", first.reason), _outcome(name)],
                [*map(event_step, second.events), waits(second, sandbox=True)],
                {"durationMilliseconds": PULL_BACK_OFF_MILLISECONDS},
            )
        )
    return stages


def _end_stages() -> list[Stage]:
    """From running to over, or to a restart."""
    after = {"durationFrom": {"expressionFrom": _annotation(outcomes.DURATION)}, "durationMilliseconds": 0}
    stages = []
    for name, end in ENDS.items():
        succeeds = end.reason == "Completed"
        restarting = ("Always",) if succeeds else ("Always", "OnFailure")
        running = [_KEPT, _RUNNING, _CONTAINER_RUNS, _outcome(name)]
        told = [event_step(event) for event in end.events]
        stages += [
            _stage(
                f"pod-{name}",
                [*running, _rule(".spec.restartPolicy", "NotIn", *restarting)],
                [*told, over(end, "Succeeded" if succeeds else "Failed")],
                after,
            ),
            _stage(
                f"pod-{name}-restarts",
                [*running, _rule(".spec.restartPolicy", "In", *restarting)],
                [*told, event_step(BACK_OFF_EVENT), restarts(end)],
                after,
            ),
        ]
    back_off = f"{json.dumps(BACK_OFFS)}[[.status.containerStatuses[0].restartCount - 1, {len(BACK_OFFS) - 1}] | min]"
    stages.append(
        _stage(
            "pod-starts-again",
            [_KEPT, _RUNNING, _rule(_WAITING_REASON, "In", "CrashLoopBackOff")],
            [starts_again()],
            {"durationFrom": {"expressionFrom": back_off}},
        )
    )
    message = f"{{{{ with first .spec.containers }}}}{{{{ {outcomes.EVICTION_MESSAGE} | Quote }}}}{{{{ end }}}}"
    # kubelet/eviction/eviction_manager.go, synchronize.
    disruption = f"""
- type: DisruptionTarget
  status: "True"
  reason: TerminationByKubelet
  message: {message}
  lastTransitionTime: {{{{ $now | Quote }}}}
"""
    evicted = over(End('"137"', "Error"), "Failed", f"reason: Evicted\nmessage: {message}", disruption)
    stages.append(
        _stage(
            "pod-evicted",
            [_KEPT, _RUNNING, _outcome(outcomes.EVICTED)],
            [event_step(Event("Warning", "Evicted", outcomes.EVICTION_MESSAGE)), evicted],
            after,
        )
    )
    usage = f"message: {{{{ {outcomes.VOLUME_FULL_MESSAGE} | Quote }}}}"
    full = over(End('"137"', "Error"), "Failed", f"reason: Evicted\n{usage}", variables=outcomes.VOLUME_FULL_VARIABLES)
    stages.append(_stage("pod-volume-full", [_KEPT, _RUNNING, _outcome(outcomes.VOLUME_FULL)], [full], after))
    shutdown = over(_STOPPED, "Failed", f"reason: {outcomes.SHUTDOWN_REASON}\nmessage: {outcomes.SHUTDOWN_MESSAGE}")
    stages.append(_stage("pod-shutdown", [_KEPT, _RUNNING, _outcome(outcomes.SHUTDOWN)], [shutdown], after))
    overdue = over(_STOPPED, "Failed", f"reason: {outcomes.OVERDUE_REASON}\nmessage: {outcomes.OVERDUE_MESSAGE}")
    told = Event("Normal", outcomes.OVERDUE_REASON, json.dumps(outcomes.OVERDUE_MESSAGE))
    stages.append(
        _stage("pod-overdue", [_KEPT, _RUNNING, _outcome(outcomes.OVERDUE)], [event_step(told), overdue], after)
    )
    return stages


# 143 is what SIGTERM makes of a process; for a container that never ran see kubelet/status/status_manager.go.
_RAN = '(hasKey $status.state "running")'
_STOPPED = End(f'ternary "143" "137" {_RAN}', f'{{{{ ternary "Error" "ContainerStatusUnknown" {_RAN} }}}}')


def _deletion_stages() -> list[Stage]:
    """kubelet stops the containers, writes the last status, then removes the pod; finalizers are not its business."""
    stopping = _annotation(outcomes.TERMINATION)
    slow = f'{{"slow": "{SLOW_TERMINATION}"}}[{stopping} // ""] // "0s"'
    return [
        _stage(
            "pod-stopped",
            [_DELETED, _BOUND, _rule(".status.phase", "In", "Pending", "Running"), _rule(stopping, "NotIn", "stuck")],
            [over(_STOPPED, "Failed")],
            {"durationFrom": {"expressionFrom": slow}},
        ),
        _stage(
            "pod-removed",
            [
                _DELETED,
                _rule(".status.phase", "In", "Succeeded", "Failed"),
                # Zero since it was removed: only finalizers keep it.
                _rule(".metadata.deletionGracePeriodSeconds | tostring", "NotIn", "0"),
            ],
            [{"delete": True}],
        ),
    ]


def stages(*, events: bool = False) -> list[Stage]:
    """Return all stages; with ``events`` a starting pod also writes its three events, as kubelet does.

    By default they are left out: three more writes a pod are most of the work of a test with 1,000 pods.
    """
    return [*_node_stages(), *_start_stages(events), *_end_stages(), *_deletion_stages()]
