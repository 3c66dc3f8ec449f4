"""Rules for pods that no node can take because of labels: the pool, the GPU type, or another selector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from gpuctl.capacity.devices.device_counts import offered_by_drivers
from gpuctl.capacity.devices.device_requests import CLASS_PREFIX
from gpuctl.capacity.scheduler.scheduler_model import NodeInfo
from gpuctl.hints import command_line
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.language.sentences import Sentence, clauses, say
from gpuctl.language.spelling import nearest
from gpuctl.objects.api_resources import Object
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.why import scheduler_message
from gpuctl.reading.why.finding import Finding
from gpuctl.reading.why.pending_pods import PendingPods, capacity_of, other_vendor

_LISTED = 4


def pool(pending: PendingPods) -> Finding | None:
    """No node is in the pool."""
    if pending.pool_nodes or pending.pool is None:
        return None
    pools = Counter(pending.pool_of(node_info) for node_info in pending.node_infos)
    message = say(
        "{prefix}no node is in {where}; there are {pools:few4}",
        prefix=pending.prefix,
        where=pending.where,
        pools=_counted(pools),
    )
    numbers = {"pool": pending.pool, "nodes": 0, "pools": dict(pools)}
    meant = nearest(pending.pool, sorted(pools))
    if meant is not None:
        fix = say("did you mean `resources.pool: {pool}`?", pool=meant)
        return pending.finding("unknown-pool", message, {**numbers, "didYouMean": meant}, fix)
    fix = say("use another `resources.pool`: {pools} shows them", pools=command_line("get pools"))
    free = [
        node_info
        for node_info in pending.node_infos
        if pending.pool_of(node_info) == DEFAULT_POOL and _is_large_enough(pending, node_info)
    ]
    if free:
        label = f"{pending.evidence.keys.pool}={pending.pool}"
        fix = say(
            "{fix}; or put a node of no pool into it: {command}",
            fix=fix,
            command=command_line("label node", free[0].node.name, label),
        )
    return pending.finding("unknown-pool", message, numbers, fix)


def selector(pending: PendingPods) -> Finding | None:
    """No node of the pool has the selected labels, most often the GPU type."""
    if pending.selected_nodes:
        return None
    of_volume = scheduler_message.cause_in_message(pending)
    if of_volume is not None and of_volume.cause == "volume-node":
        return of_volume
    return _gpu_type(pending) or _other_labels(pending)


def _other_labels(pending: PendingPods) -> Finding:
    own = {name: value for name, value in pending.incoming.node_selector.items() if name != pending.evidence.keys.pool}
    alone = [
        f"{name}={value}"
        for name, value in own.items()
        if not any(node_info.node.labels.get(name) == value for node_info in pending.pool_nodes)
    ]
    labels = alone or [f"{name}={value}" for name, value in own.items()]
    which = (
        say("the label {labels:few}", labels=labels)
        if alone
        else say("the labels {labels:few} together", labels=labels)
        if own
        else say("what its node affinity asks for ({affinity})", affinity=pending.affinity)
        if pending.affinity
        else say("what its node affinity asks for")
    )
    message = say("{prefix}no node of {where} has {which}", prefix=pending.prefix, where=pending.where, which=which)
    shown = command_line("get labels")
    fix = say("{command} shows what the nodes have; change the selector, or label nodes", command=shown)
    return pending.finding("node-selector", message, _numbers(pending), fix)


def _gpu_type(pending: PendingPods) -> Finding | None:
    """No node of the pool has the GPU type in the platform's label."""
    settings, wanted = pending.evidence.settings, pending.gpu_type
    key = settings.label("gpu-type")
    names = wanted.split(" or ") if wanted is not None else []
    if not names or any(node_info.node.labels.get(key) in names for node_info in pending.pool_nodes):
        return None
    first = names[0]
    gpus = PlatformGpus(settings)
    # Count types as `gpuctl get gpu-types` does; nodes without GPUs have none. Nodes do not report GPUs of drivers.
    asked = [*settings.gpu_resources, *(CLASS_PREFIX + name for name in settings.gpu_classes)]
    offered = offered_by_drivers(pending.evidence.snapshot, asked) if pending.evidence.snapshot is not None else {}
    holders = [
        node_info
        for node_info in pending.pool_nodes
        if key in node_info.node.labels
        or node_info.node.name in offered
        or any(capacity_of(node_info, resource) for resource in settings.gpu_resources)
    ]
    types = Counter(gpus.type_of(_node(node_info)) or "" for node_info in holders)
    numbers = {**_numbers(pending), "gpuType": wanted, "gpuTypes": dict(types)}
    elsewhere = Counter(
        pending.pool_of(node_info) for node_info in pending.node_infos if node_info.node.labels.get(key) in names
    )
    parts = [
        say(
            "{prefix}no node of {where} has the GPU type {type}",
            prefix=pending.prefix,
            where=pending.where,
            type=wanted,
        )
    ]
    # A node that has another type in the platform's label keeps it: other jobs select the node by it.
    others = {
        node_info.node.name: label
        for node_info in holders
        if not node_info.node.labels.get(key)
        for label in _labels_like(gpus, node_info, first)
    }
    listed = Counter({name: number for name, number in types.items() if name not in names})
    if listed:
        parts.append(say("it has {types:few4}", types=_counted(listed)))
    elif not others:
        parts.append(say("it has no GPUs"))
    if elsewhere:
        parts.append(say("{type} is in {pools:few4}", type=wanted, pools=_counted(elsewhere)))
        fix = Sentence(f"`resources.pool: {next(iter(elsewhere))}`")
        return pending.finding("node-selector", clauses(*parts), numbers, fix)
    if others:
        said, fix, more = _by_another_label(pending, key, first, others, holders)
        return pending.finding("node-selector", clauses(*parts, *said), {**numbers, **more}, fix)
    fix = _type_to_ask_for(gpus, key, first, holders)
    return pending.finding("node-selector", clauses(*parts), numbers, fix)


def _by_another_label(
    pending: PendingPods, key: str, wanted: str, others: Mapping[str, tuple[str, str]], holders: Sequence[NodeInfo]
) -> tuple[list[Sentence], Sentence, dict[str, object]]:
    """Return sentences about nodes that name the type in a label on which jobs do not select, the fix, and numbers.

    :param others: node -> that label and its value.
    """
    label, value = next(iter(others.values()))
    nodes = [name for name, other in others.items() if other == (label, value)]
    said = [
        say(
            "{nodes:few4} {number:has/have} it by the label {label}, and `resources.gpu-type` selects nodes by {key}",
            nodes=nodes,
            number=len(nodes),
            label=f"{label}={value}",
            key=key,
        )
    ]
    fix = say(
        "`{command}`, or in platform.yaml `{setting}`",
        command=f"gpuctl label node {' '.join(nodes[:_LISTED])} {key}={wanted}",
        setting=f"gpu: {{types: {{{wanted}: {{{label}: {value}}}}}}}",
    )
    found = other_vendor(pending, [node_info for node_info in holders if node_info.node.name in nodes])
    if found is not None and len(found[2]) == len(nodes):
        said.append(
            say(
                "{number:it has/they have} {resource}, which the job does not ask for",
                number=len(nodes),
                resource=found[1],
            )
        )
        fix = say("`resources.gpu-vendor: {vendor}`, and {fix}", vendor=found[0], fix=fix)
    return said, fix, {"label": label, "labelledNodes": nodes}


def _type_to_ask_for(gpus: PlatformGpus, key: str, wanted: str, holders: Sequence[NodeInfo]) -> Sentence:
    """Return the advice to ask for a type that the nodes have, or to label nodes without one."""
    untyped = [node_info.node.name for node_info in holders if not gpus.labels(_node(node_info))]
    labelled = Counter(node_info.node.labels[key] for node_info in holders if node_info.node.labels.get(key))
    alike = Counter({name: number for name, number in labelled.items() if _names_type(name, wanted)})
    offered = (alike or labelled).most_common(1)
    fix = Sentence("".join(f"`resources.gpu-type: {name}`" for name, _ in offered))
    if untyped:
        way = say(
            "label the nodes that have it: {command}", command=command_line("label node", untyped[0], f"{key}={wanted}")
        )
        fix = say("{fix}, or {way}", fix=fix, way=way) if offered else way
    elif not offered:
        shown = command_line("get gpu-types")
        fix = say("another `resources.gpu-type`: {command} shows what nodes have", command=shown)
    return fix


def _labels_like(gpus: PlatformGpus, node_info: NodeInfo, wanted: str) -> list[tuple[str, str]]:
    """Return a label of the node that names the type but that jobs do not select on, as Tesla-T4-SHARED names T4."""
    found = gpus.labels(_node(node_info)).items()
    return [(key, value) for key, value in found if not gpus.selects(key) and _names_type(value, wanted)][:1]


def _names_type(label: str, wanted: str) -> bool:
    """Return True if a label has all words of the wanted type, as A100-80G has those of a100."""
    return set(_words(wanted)) <= set(_words(label))


def _words(name: str) -> list[str]:
    return name.casefold().replace("_", "-").split("-")


def _node(node_info: NodeInfo) -> Object:
    return {"metadata": {"labels": dict(node_info.node.labels)}}


def _is_large_enough(pending: PendingPods, node_info: NodeInfo) -> bool:
    return all(capacity_of(node_info, name) >= amount for name, amount in pending.incoming.pod.requests.items())


def _numbers(pending: PendingPods) -> dict[str, object]:
    return {"pool": pending.pool, "nodes": len(pending.pool_nodes), "selector": dict(pending.incoming.node_selector)}


def _counted(found: Counter[str]) -> list[Sentence]:
    """Return ``a100 (2 nodes)`` and ``no type (1 node)``, the most frequent name first."""
    return [
        say("{name} ({nodes:node})", name=name or say("no type"), nodes=number) for name, number in found.most_common()
    ]
