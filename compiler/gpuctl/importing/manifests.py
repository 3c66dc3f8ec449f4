"""Imports the Kubernetes manifests of a file: PyTorchJobs, TrainJobs, Deployments and StatefulSets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuctl.frontend.source import Source
from gpuctl.frontend.yaml_tree import RawDocument
from gpuctl.importing.import_values import Given, Missing, Unreadable
from gpuctl.importing.imported import Imported
from gpuctl.importing.line_ledger import LineLedger, in_source_order
from gpuctl.importing.service_manifests import import_deployment
from gpuctl.importing.source_tree import SourceTree, read_documents
from gpuctl.importing.training_operator import import_pytorch_job, import_train_job

_DEPLOYMENT, _STATEFUL = "Deployment", "StatefulSet"


def import_manifests(kind: str) -> Callable[[Source, Given], Imported]:
    """Return the importer of a kind of manifests. Others of the file are dropped.

    StatefulSets go with Deployments, and Services with those that they select.
    """

    def run(source: Source, given: Given) -> Imported:
        raws = read_documents(source)
        kinds = (kind, _STATEFUL) if kind == _DEPLOYMENT else (kind,)
        wanted = [raw for raw in raws if _kind(raw) in kinds]
        if not wanted:
            raise Unreadable(1, f"the file has no {kind}", "name another file, or another tool with --from")
        taken: set[int] = set()
        results: list[Imported] = []
        selectors = _Selectors(raws) if kind == _DEPLOYMENT else None
        for raw in wanted:
            services = selectors.services_of(raw) if selectors is not None else []
            taken.update(map(id, [raw, *services]))
            if kind == _DEPLOYMENT:
                results.append(import_deployment(raw, services, source.name, given))
            else:
                read = import_pytorch_job if kind == "PyTorchJob" else import_train_job
                results.append(read(raw, source.name, given))
        return _joined(kind, results, [raw for raw in raws if id(raw) not in taken])

    return run


def _kind(raw: RawDocument) -> str | None:
    return SourceTree(raw, LineLedger()).text(("kind",))


class _Selectors:
    """The Services of a file by one of the labels that each selects."""

    def __init__(self, raws: Sequence[RawDocument]) -> None:
        self._by_label: dict[tuple[str, str], list[tuple[int, RawDocument, dict[str, str]]]] = {}
        for index, raw in enumerate(raws):
            tree = SourceTree(raw, LineLedger())
            selector = tree.get(("spec", "selector")) if tree.text(("kind",)) == "Service" else None
            if isinstance(selector, dict) and selector and all(isinstance(value, str) for value in selector.values()):
                self._by_label.setdefault(next(iter(selector.items())), []).append((index, raw, selector))

    def services_of(self, workload: RawDocument) -> list[RawDocument]:
        """Return the Services that select a workload's pods, in the order of the file."""
        labels = SourceTree(workload, LineLedger()).get(("spec", "template", "metadata", "labels"))
        if not isinstance(labels, dict):
            return []
        items = [(key, value) for key, value in labels.items() if isinstance(value, str)]
        known = dict(items)
        found = [entry for item in items for entry in self._by_label.get(item, ())]
        return [
            raw for _, raw, selector in sorted(found, key=lambda entry: entry[0]) if selector.items() <= known.items()
        ]


def _joined(tool: str, results: Sequence[Imported], others: Sequence[RawDocument]) -> Imported:
    """Return the results as one, with the other documents dropped."""
    ledger = LineLedger()
    for raw in others:
        tree = SourceTree(raw, ledger)
        note = "gpuctl imports no such object: keep its manifest, or describe it in the document"
        tree.dropped((), note)
    entries = [entry for result in results for entry in result.entries] + ledger.entries()
    missing: list[Missing] = [item for result in results for item in result.missing]
    return Imported(tool, [draft for result in results for draft in result.drafts], in_source_order(entries), missing)
