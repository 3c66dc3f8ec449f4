"""Imports the Kubernetes manifests of a file: PyTorchJobs, TrainJobs and Deployments."""

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


def import_manifests(kind: str) -> Callable[[Source, Given], Imported]:
    """Return the importer of a kind of manifests. Others of the file are dropped, but for Services of a Deployment."""

    def run(source: Source, given: Given) -> Imported:
        raws = read_documents(source)
        wanted = [raw for raw in raws if _kind(raw) == kind]
        if not wanted:
            raise Unreadable(1, f"the file has no {kind}", "name another file, or another tool with --from")
        taken: list[RawDocument] = []
        results: list[Imported] = []
        for raw in wanted:
            services = [item for item in raws if _selects(item, raw)] if kind == "Deployment" else []
            taken += [raw, *services]
            if kind == "Deployment":
                results.append(import_deployment(raw, services, source.name, given))
            else:
                read = import_pytorch_job if kind == "PyTorchJob" else import_train_job
                results.append(read(raw, source.name, given))
        return _joined(kind, results, [raw for raw in raws if not any(raw is item for item in taken)])

    return run


def _kind(raw: RawDocument) -> str | None:
    return SourceTree(raw, LineLedger()).text(("kind",))


def _selects(raw: RawDocument, workload: RawDocument) -> bool:
    """Return True if a document is a Service that selects a workload's pods."""
    service, tree = SourceTree(raw, LineLedger()), SourceTree(workload, LineLedger())
    selector = service.get(("spec", "selector"))
    labels = tree.get(("spec", "template", "metadata", "labels"))
    if service.text(("kind",)) != "Service" or not isinstance(selector, dict) or not isinstance(labels, dict):
        return False
    return bool(selector) and selector.items() <= labels.items()


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
