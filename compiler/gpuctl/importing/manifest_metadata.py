"""The metadata of a Kubernetes manifest as fields of a document."""

from __future__ import annotations

from gpuctl.frontend.platform_restrictions import is_reserved_key
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.import_values import Given
from gpuctl.importing.source_tree import Path
from gpuctl.language.workload import RESERVED_LABELS
from gpuctl.objects.queueing import TOPOLOGIES

_QUEUE = "kueue.x-k8s.io/queue-name"
_PRIORITY = "kueue.x-k8s.io/priority-class"
OUR_LABELS = {"app": None, "app.kubernetes.io/name": None, "app.kubernetes.io/managed-by": "gpuctl"}
"""Label that gpuctl sets -> its value, None for the name of the job."""
_TOPOLOGY = "name a level with this label in `topology.levels` of the platform, and write `resources.topology`"
_UNQUEUED = "without a queue, the other pods follow the first one"
_OF_JOBS = "batch.kubernetes.io/"
"""Prefix of the labels and annotations that Kubernetes gives to Jobs and their pods."""
_WRITTEN_BY_SERVER = frozenset(
    {
        *("clusterName", "creationTimestamp", "generation", "managedFields"),
        *("resourceVersion", "selfLink", "uid", "ownerReferences"),
    }
)


def take_metadata(tree: ConvertedTree, given: Given) -> None:
    """Add name, namespace, labels and annotations."""
    base: Path = ("metadata",)
    tree.mapped(("apiVersion",), "kind")
    tree.mapped(("kind",), "kind")
    tree.set_name((*base, "name"), given)
    tree.set_text((*base, "namespace"), "job.namespace")
    take_labels(tree, base)
    for key in _WRITTEN_BY_SERVER:
        tree.mapped((*base, key), None, "the API server wrote it")
    tree.mapped(("status",), None, "the API server wrote it")


def _take_annotations(tree: ConvertedTree, base: Path) -> None:
    for key in tree.keys(base):
        path, value = (*base, key), tree.text((*base, key)) or ""
        known = (tree.draft.get("job.annotations") or {}).get(key, value)
        if key.startswith(("kubectl.kubernetes.io/", "deployment.kubernetes.io/", _OF_JOBS)):
            tree.mapped(path, None, "Kubernetes wrote it")
        elif known != value:
            tree.dropped(path, f"a job and its pods have the same annotations: `{known}` stays")
        elif key in TOPOLOGIES.values() and len(base) > 2:
            _take_topology(tree, path, key)
        elif is_reserved_key(key, tree.draft.settings):
            tree.dropped(path, _TOPOLOGY if "-topology" in key else "documents cannot set this annotation")
        else:
            tree.set_item(path, "job.annotations", key, value)


def _take_topology(tree: ConvertedTree, path: Path, key: str) -> None:
    """Take the level of closeness that pods request from Kueue."""
    draft = tree.draft
    levels = {label: name for name, label in draft.settings.topology_labels.items()}
    level = levels.get(tree.text(path) or "")
    if draft.get("resources.nodes") is None:
        tree.dropped(path, "`resources.topology` places the nodes of one training")
    elif level is None:
        tree.dropped(path, _TOPOLOGY)
    else:
        topology = level if key == TOPOLOGIES["required"] else {"preferred": level}
        tree.set(path, "resources.topology", topology, None if draft.get("resources.queue") else _UNQUEUED)


def take_labels(tree: ConvertedTree, base: Path) -> None:
    """Add the labels and annotations of a job or of its pods, which have the same ones.

    :param base: the path of the metadata.
    """
    _take_labels(tree, (*base, "labels"))
    _take_annotations(tree, (*base, "annotations"))


def _take_labels(tree: ConvertedTree, base: Path) -> None:
    """Add the labels at a path, of which a queue is a field of its own."""
    draft = tree.draft
    for key in tree.keys(base):
        path, value = (*base, key), tree.text((*base, key)) or ""
        if key == _QUEUE:
            tree.set(path, "resources.queue", value)
        elif key == _PRIORITY:
            tree.dropped(path, "`job.priority` is high, medium or low")
        elif is_reserved_key(key, draft.settings):
            _reserved_label(tree, path, key)
        elif (draft.get("job.labels") or {}).get(key, value) != value:
            tree.dropped(path, f"a job and its pods have the same labels: `{draft.get('job.labels')[key]}` stays")
        else:
            tree.set_item(path, "job.labels", key, value)


def _reserved_label(tree: ConvertedTree, path: Path, key: str) -> None:
    """Take a label that documents cannot set."""
    if key in RESERVED_LABELS - {"app"} or key.startswith(_OF_JOBS):
        tree.mapped(path, None, "Kubernetes wrote it")
    elif key in OUR_LABELS:
        ours = OUR_LABELS[key] or tree.draft.get("job.name") or ""
        tree.taken(path, None, None if tree.text(path) == ours else f"gpuctl sets it to `{ours}`")
    else:
        tree.dropped(path, "documents cannot set this label")
