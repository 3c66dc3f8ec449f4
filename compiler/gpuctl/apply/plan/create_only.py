"""Requests that only create: an object that exists is an error, unless an earlier attempt has created it."""

from __future__ import annotations

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.state.live_state import COMPANIONS, LiveState
from gpuctl.hints import APPLY
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import WORKLOADS, Key, annotations_of, key_of


def created_before(request: ApplyRequest, live: LiveState) -> frozenset[Key]:
    """Return the objects that an earlier attempt of the same request has created; with a workload, all objects of its
    job.
    """
    if request.mark is None:
        return frozenset()
    there = [item for item in request.lowered if not item.shared and key_of(item.object) in live.objects]
    has_mark = {
        key_of(item.object)
        for item in there
        if annotations_of(live.objects[key_of(item.object)]).get(request.keys.request) == request.mark
    }
    jobs = {id(item.document) for item in there if key_of(item.object) in has_mark and item.object["kind"] in WORKLOADS}
    return frozenset(has_mark | {key_of(item.object) for item in there if id(item.document) in jobs})


def leftover_companions(request: ApplyRequest, live: LiveState) -> frozenset[Key]:
    """Return companions without a workload, left by an interrupted request. If requests are marked, they do not prevent
    the next one, which could not remove them.
    """
    if request.mark is None:
        return frozenset()
    keys = [(item.document, key_of(item.object)) for item in request.lowered if not item.shared]
    there = {id(document) for document, key in keys if key.kind in WORKLOADS and key in live.objects}
    return frozenset(key for document, key in keys if key.kind in COMPANIONS and id(document) not in there)


def refuse_existing(plan: Plan, own: frozenset[Key]) -> None:
    """Add an error for each object that exists already.

    :param own: objects that may exist.
    """
    for step in plan.steps:
        if step.live is not None and not step.shared and step.key.kind != "Node" and step.key not in own:
            plan.existing.append(step.key)
            plan.errors.append(
                say("{object} exists already; {command} changes what exists", object=step.key, command=APPLY)
            )
