"""Imports Jobs of Kubernetes as trainings."""

from __future__ import annotations

from gpuctl.frontend.yaml_tree import RawDocument
from gpuctl.importing.draft import Draft
from gpuctl.importing.field_values import whole_number
from gpuctl.importing.fields_from_options import set_given_values
from gpuctl.importing.import_result import Imported
from gpuctl.importing.import_values import Given
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.manifest_metadata import take_annotations, take_labels, take_metadata
from gpuctl.importing.pod_fields import DEVICES, PodFields
from gpuctl.importing.source_tree import Path, SourceTree
from gpuctl.importing.training_operator import take_defaults, take_ports, take_suspension, take_time_limits

_KIND = "Job"
_SPEC: Path = ("spec",)
_TEMPLATE: Path = ("spec", "template")
_ENDS: Path = ("spec", "completions")
_WIDTH: Path = ("spec", "parallelism")
_MODE: Path = ("spec", "completionMode")
_SUBDOMAIN: Path = (*_TEMPLATE, "spec", "subdomain")
_BACKOFF = 6
"""Further attempts of a Job that names no number of them."""
_ATTEMPTS = "each further attempt is a new pod: the kubelet restarts no container"
_BESIDE = "it is a sidecar, which ends with the program: a Job waits for the end of all its containers"
_ADDRESS = "the pods are nodes of one training: `MASTER_ADDR` is the first one, and `NODE_RANK` the index of each"
_DEFAULTS = {
    "spec.suspend": "false",
    "spec.manualSelector": "false",
    "spec.completionMode": "NonIndexed",
    "spec.podReplacementPolicy": "TerminatingOrFailed",
}
_NOTES = {
    r"(?:parallelism|completions|completionMode)\Z": "pods that share their work are `array`, or nodes: "
    "`resources.nodes`",
    r"backoffLimit": "`array.retries` is the number of further attempts of each run",
    r"podFailurePolicy|podReplacementPolicy|successPolicy": "`job.retries` counts all failures but evictions",
    r"suspend": "`gpuctl pause NAME` holds a job",
    r"generateName": "--name names the job",
    r"manualSelector|selector": "Kubernetes selects the pods of a Job",
    r"Probe": "the pods of a training have no probes",
    r"valueFrom|volume": "the language has no such volume or variable: use `podPatch`",
    **DEVICES,
    r"hostPort": "`resources.network.hostNetwork` takes the ports of a node",
}


def import_job(raw: RawDocument, source: str, given: Given) -> Imported:
    """Return the training of a Job."""
    ledger = LineLedger()
    tree = SourceTree(raw, ledger)
    draft = Draft("training", source, _KIND)
    take_metadata(tree, draft)
    take_labels(tree, (*_TEMPLATE, "metadata", "labels"), draft)
    take_annotations(tree, (*_TEMPLATE, "metadata", "annotations"), draft)
    pod = PodFields(tree, _TEMPLATE, draft, given)
    nodes = _group_of_nodes(tree) if given.nodes is None else given.nodes
    pod.take(without=("subdomain",) if nodes > 1 else ())
    pod.take_program(_ADDRESS if nodes > 1 else None)
    take_ports(tree, (*pod.container, "ports"), draft)
    for index in range(tree.items((*pod.spec, "containers"))):
        if index != pod.main:
            tree.note((*pod.spec, "containers", index), _BESIDE)
    if nodes > 1:
        draft.set("resources.nodes", nodes, None if given.nodes else tree.line(_ENDS))
        for path in (_ENDS, _WIDTH, _MODE):
            tree.mapped(path, "resources.nodes")
    _take_attempts(tree, draft, is_array=nodes == 1 and _take_runs(tree, draft), nodes=nodes)
    take_time_limits(tree, _SPEC, draft)
    take_suspension(tree, (*_SPEC, "suspend"), draft)
    take_defaults(tree, _DEFAULTS)
    if not tree.flag((*_SPEC, "manualSelector")):
        tree.mapped((*_SPEC, "selector"), None, "Kubernetes wrote it")
    tree.drop_rest(_NOTES)
    missing = set_given_values(draft, given, ledger, tree.line(pod.container), has_gpus=pod.gpus > 0)
    return Imported(_KIND, [draft], ledger.entries(), [*pod.missing, *missing])


def _group_of_nodes(tree: SourceTree) -> int:
    """Return the number of pods that reach each other by the name of a Service; 1 if they do not."""
    number = whole_number(tree.text(_ENDS))
    if number is None or number != whole_number(tree.text(_WIDTH)) or tree.node(_SUBDOMAIN) is None:
        return 1
    tree.changed(_SUBDOMAIN, "resources.nodes", _ADDRESS)
    return number


def _take_runs(tree: SourceTree, draft: Draft) -> bool:
    """Take the number of pods as an array. Return False if there is one pod, or if its end is that of any pod."""
    number, parallel = whole_number(tree.text(_ENDS)), whole_number(tree.text(_WIDTH))
    if (number or 1) == 1 and parallel in (None, 1):
        for path in (_ENDS, _WIDTH, _MODE):
            tree.mapped(path, "kind")
        return False
    if number is None or parallel == 0:
        return False
    draft.set("array", {"size": number, "parallelism": parallel or 1}, tree.line(_ENDS))
    for path in (_ENDS, _WIDTH, _MODE):
        tree.mapped(path, "array")
    for name, field in (("backoffLimitPerIndex", "retries"), ("maxFailedIndexes", "max_failed")):
        amount = whole_number(tree.text((*_SPEC, name)))
        if amount is not None:
            draft.set(f"array.{field}", amount, tree.line((*_SPEC, name)))
            tree.mapped((*_SPEC, name), f"array.{field}")
    return True


def _take_attempts(tree: SourceTree, draft: Draft, *, is_array: bool, nodes: int) -> None:
    """Take the restart policy and the number of further attempts, which nodes of one training do not have alone."""
    policy, limit = (*_TEMPLATE, "spec", "restartPolicy"), (*_SPEC, "backoffLimit")
    in_place = tree.text(policy) == "OnFailure"
    if is_array:
        tree.taken(policy, "array.retries", _ATTEMPTS if in_place else None)
        return
    number = whole_number(tree.text(limit))
    if number is None and tree.node(limit) is None and nodes == 1:
        draft.set("job.retries", _BACKOFF)
        draft.head.append(f"No line sets spec.backoffLimit: Kubernetes makes {_BACKOFF} further attempts.")
    elif number is not None:
        draft.set("job.retries", min(number, 1000), tree.line(limit))
        tree.taken(limit, "job.retries", "1000 at most" if number > 1000 else None)
    tree.taken(policy, "job.retries", _ATTEMPTS if in_place else None)
