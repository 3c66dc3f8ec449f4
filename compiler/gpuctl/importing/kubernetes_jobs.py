"""Imports Jobs of Kubernetes as trainings."""

from __future__ import annotations

from gpuctl.frontend.yaml_tree import RawDocument
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.draft import Draft
from gpuctl.importing.fields_from_options import set_given_values
from gpuctl.importing.import_result import Imported
from gpuctl.importing.import_values import Given
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.manifest_metadata import take_labels, take_metadata
from gpuctl.importing.pod_fields import OF_TRAININGS, PodFields
from gpuctl.importing.source_tree import Path
from gpuctl.importing.training_operator import take_defaults, take_ports, take_suspension, take_time_limits
from gpuctl.language.array_block import MOST_RETRIES, MOST_RUNS

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
    r"manualSelector|selector": "Kubernetes selects the pods of a Job",
    r"Probe": "the pods of a training have no probes",
    **OF_TRAININGS,
}


def import_job(raw: RawDocument, source: str, given: Given) -> Imported:
    """Return the training of a Job."""
    ledger = LineLedger()
    draft = Draft("training", source, _KIND, given.settings)
    tree = ConvertedTree(raw, ledger, draft)
    take_metadata(tree, given)
    nodes = _group_of_nodes(tree) if given.nodes is None else given.nodes
    if nodes > 1:
        draft.set("resources.nodes", nodes, None if given.nodes else tree.line(_ENDS))
    take_labels(tree, (*_TEMPLATE, "metadata"))
    pod = PodFields(tree, _TEMPLATE, given)
    pod.take(without=("subdomain",) if nodes > 1 else ())
    pod.take_program(_ADDRESS if nodes > 1 else None)
    take_ports(tree, pod.container)
    for index in range(tree.items((*pod.spec, "containers"))):
        if index != pod.main:
            tree.note((*pod.spec, "containers", index), _BESIDE)
    if nodes > 1:
        for path in (_ENDS, _WIDTH, _MODE):
            tree.mapped(path, "resources.nodes")
    _take_attempts(tree, is_array=nodes == 1 and _take_runs(tree), nodes=nodes)
    take_time_limits(tree, _SPEC)
    take_suspension(tree, (*_SPEC, "suspend"))
    take_defaults(tree, _DEFAULTS)
    if not tree.flag((*_SPEC, "manualSelector")):
        tree.mapped((*_SPEC, "selector"), None, "Kubernetes wrote it")
    tree.drop_rest(_NOTES)
    missing = set_given_values(draft, given, ledger, tree.line(pod.container), has_gpus=pod.gpus > 0)
    return Imported(_KIND, [draft], ledger.entries(), [*pod.missing, *missing])


def _group_of_nodes(tree: ConvertedTree) -> int:
    """Return the number of pods that reach each other by the name of a Service; 1 if they do not."""
    number = tree.number(_ENDS)
    if number is None or number != tree.number(_WIDTH) or tree.node(_SUBDOMAIN) is None:
        return 1
    tree.changed(_SUBDOMAIN, "resources.nodes", _ADDRESS)
    return number


def _take_runs(tree: ConvertedTree) -> bool:
    """Take the number of pods as an array. Return False if there is one pod, or if its end is that of any pod."""
    number, parallel = tree.number(_ENDS), tree.number(_WIDTH)
    if parallel == 0:
        tree.dropped(_WIDTH, OF_TRAININGS["suspend"])
        parallel = 1
    if number == 0:
        tree.dropped(_ENDS, "a Job of no pods ends at once, and this document runs one pod")
        number = 1
    if number == 1 or (number is None and parallel in (None, 1)):
        for path in (_ENDS, _WIDTH, _MODE):
            tree.mapped(path, "kind")
        return False
    if number is not None and number > MOST_RUNS:
        tree.dropped(_ENDS, f"an array has at most {MOST_RUNS} runs")
        number = None
    if number is None:
        return False
    tree.draft.set("array", {"size": number, "parallelism": min(parallel or 1, number)}, tree.line(_ENDS))
    for path in (_ENDS, _WIDTH, _MODE):
        tree.mapped(path, "array")
    for name, field, most in (
        ("backoffLimitPerIndex", "retries", MOST_RETRIES),
        ("maxFailedIndexes", "max_failed", number),
    ):
        tree.set_number((*_SPEC, name), f"array.{field}", most=most)
    return True


def _take_attempts(tree: ConvertedTree, *, is_array: bool, nodes: int) -> None:
    """Take the restart policy and the number of further attempts, which nodes of one training do not have alone."""
    policy, limit = (*_TEMPLATE, "spec", "restartPolicy"), (*_SPEC, "backoffLimit")
    field = "array.retries" if is_array else "job.retries"
    if tree.node(limit) is None and tree.node((*_SPEC, "backoffLimitPerIndex")) is None:
        is_one = nodes == 1 and not is_array
        rest = "" if is_one else f", this document none: write `{field}`"
        tree.draft.head.append(f"No line sets spec.backoffLimit: Kubernetes makes {_BACKOFF} further attempts{rest}.")
        if is_one:
            tree.draft.set(field, _BACKOFF)
    elif not is_array:
        tree.set_number(limit, field, most=MOST_RETRIES)
    tree.taken(policy, field, _ATTEMPTS if tree.text(policy) == "OnFailure" else None)
