"""Imports the Kubernetes manifests of a file: PyTorchJobs, TrainJobs, Jobs, Deployments and StatefulSets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from gpuctl.frontend.source import Source
from gpuctl.frontend.yaml_tree import MAPPING, RawDocument
from gpuctl.importing.import_result import Imported
from gpuctl.importing.import_values import Given, Missing, Unreadable
from gpuctl.importing.kubernetes_jobs import import_job
from gpuctl.importing.line_ledger import LineLedger, in_source_order
from gpuctl.importing.service_manifests import import_deployment
from gpuctl.importing.source_tree import SourceTree, read_documents
from gpuctl.importing.training_operator import import_pytorch_job, import_train_job

_DEPLOYMENT, _STATEFUL = "Deployment", "StatefulSet"
KINDS = {
    _DEPLOYMENT: "deployment",
    _STATEFUL: "deployment",
    "PyTorchJob": "pytorchjob",
    "TrainJob": "trainjob",
    "Job": "job",
}
_READERS = {"PyTorchJob": import_pytorch_job, "TrainJob": import_train_job, "Job": import_job}
"""Kind of a manifest -> its importer."""
_SCALER = "HorizontalPodAutoscaler"
_NO_IMPORT = "gpuctl imports no such object: keep its manifest, or describe it in the document"
_KEPT = {
    **dict.fromkeys(("ConfigMap", "Secret", "PersistentVolumeClaim"), "keep its manifest: documents name it"),
    "PersistentVolume": "keep its manifest: a claim of the document is bound to it",
    "Namespace": "keep its manifest, or make the namespace before",
    "Ingress": "keep its manifest, with the Service `svc-NAME`, or write `service.route`",
    "Service": "keep its manifest: it selects no pods of these jobs",
    _SCALER: "it scales none of these jobs: keep its manifest, or write `autoscaling`",
    **dict.fromkeys(
        ("TrainingRuntime", "ClusterTrainingRuntime"),
        "it is not read: write its image, command, variables and resources into the document",
    ),
    "PodDisruptionBudget": "write `service.disruption`",
}
"""Kind of an object that no importer reads -> what to do."""


def import_manifests(kind: str) -> Callable[[Source, Given], Imported]:
    """Return the importer of a kind of manifests. Others of the file are dropped.

    StatefulSets go with Deployments, and Services with those that they select.
    """

    def run(source: Source, given: Given) -> Imported:
        of_lists = LineLedger()
        raws = list(_objects(read_documents(source), of_lists))
        kinds = (kind, _STATEFUL) if kind == _DEPLOYMENT else (kind,)
        wanted = [raw for raw in raws if _kind(raw) in kinds]
        if not wanted:
            raise Unreadable(1, f"the file has no {kind}", "name another file, or another tool with --from")
        taken: set[int] = set()
        results: list[Imported] = []
        scalers = _scalers(raws) if kind == _DEPLOYMENT else {}
        selectors = _Selectors(raws) if kind == _DEPLOYMENT else None
        for index, raw in enumerate(wanted):
            own = given.of_job(index, len(wanted))
            services = selectors.services_of(raw) if selectors is not None else []
            scaler = scalers.get((_kind(raw), SourceTree(raw).text(("metadata", "name"))))
            taken.update(map(id, [raw, *services, *([] if scaler is None else [scaler])]))
            if kind == _DEPLOYMENT:
                results.append(import_deployment(raw, services, scaler, source.name, own))
            else:
                results.append(_READERS[kind](raw, source.name, own))
        return _joined(kind, results, [raw for raw in raws if id(raw) not in taken], of_lists)

    return run


def _kind(raw: RawDocument) -> str | None:
    return SourceTree(raw).text(("kind",))


def _objects(raws: Iterable[RawDocument], ledger: LineLedger) -> Iterator[RawDocument]:
    """Yield the objects of a file, with those of its lists in place of the lists."""
    for raw in raws:
        tree = SourceTree(raw, ledger)
        if re.match(r"\w*List\Z", tree.text(("kind",)) or "") is None:
            yield raw
            continue
        for path in (("apiVersion",), ("kind",)):
            tree.mapped(path, None, "the objects of the list are read one by one")
        for name in ("resourceVersion", "selfLink"):
            tree.mapped(("metadata", name), None, "the API server wrote it")
        nodes = [tree.node(("items", index)) for index in range(tree.items(("items",)))]
        for index, node in enumerate(nodes):
            if node is not None and node.kind == MAPPING:
                tree.take_apart(("items", index))
                yield from _objects([raw._replace(root=node)], ledger)
        tree.drop_rest({})


def _scalers(raws: Iterable[RawDocument]) -> dict[tuple[str | None, ...], RawDocument]:
    """Return the autoscalers of a file by the kind and the name of what they scale."""
    found: dict[tuple[str | None, ...], RawDocument] = {}
    for raw in raws:
        tree = SourceTree(raw)
        if tree.text(("kind",)) == _SCALER:
            found.setdefault(tuple(tree.text(("spec", "scaleTargetRef", name)) for name in ("kind", "name")), raw)
    return found


class _Selectors:
    """The Services of a file by one of the labels that each selects."""

    def __init__(self, raws: Sequence[RawDocument]) -> None:
        self._by_label: dict[tuple[str, str], list[tuple[int, RawDocument, dict[str, str]]]] = {}
        for index, raw in enumerate(raws):
            tree = SourceTree(raw)
            selector = tree.get(("spec", "selector")) if tree.text(("kind",)) == "Service" else None
            if isinstance(selector, dict) and selector and all(isinstance(value, str) for value in selector.values()):
                self._by_label.setdefault(next(iter(selector.items())), []).append((index, raw, selector))

    def services_of(self, workload: RawDocument) -> list[RawDocument]:
        """Return the Services that select a workload's pods, in the order of the file."""
        labels = SourceTree(workload).get(("spec", "template", "metadata", "labels"))
        if not isinstance(labels, dict):
            return []
        items = [(key, value) for key, value in labels.items() if isinstance(value, str)]
        known = dict(items)
        found = [entry for item in items for entry in self._by_label.get(item, ())]
        return [
            raw for _, raw, selector in sorted(found, key=lambda entry: entry[0]) if selector.items() <= known.items()
        ]


def _joined(tool: str, results: Sequence[Imported], others: Sequence[RawDocument], ledger: LineLedger) -> Imported:
    """Return the results as one, with the other documents dropped.

    :param ledger: that of the lists.
    """
    for raw in others:
        kind = _kind(raw) or ""
        own = KINDS.get(kind)
        note = f"another import reads it: `--from {own}`" if own is not None else _KEPT.get(kind, _NO_IMPORT)
        tree = SourceTree(raw, ledger)
        if kind == "Secret":
            tree.dropped_secret((), f"Secret {tree.text(('metadata', 'name')) or ''}", note)
        else:
            tree.dropped((), note)
    entries = [entry for result in results for entry in result.entries] + ledger.entries()
    missing: list[Missing] = [item for result in results for item in result.missing]
    return Imported(tool, [draft for result in results for draft in result.drafts], in_source_order(entries), missing)
