"""Whether jobs would find room, as the service tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gpuctl.capacity.suggestions import JobName, Suggestion
from gpuctl.capacity.told_fit import ToldFit, told_fit
from gpuctl.frontend.diagnostics import Diagnostic, in_source_order
from gpuctl.frontend.source import Source
from gpuctl.usecases.change_options import DocumentOptions
from gpuctl.usecases.fit_documents import FitResult
from gpuctl.usecases.service_client import ServiceClient
from gpuctl.usecases.service_documents import gather, worded


class SuggestedChanges(NamedTuple):
    """The changes with which the job of a document would fit."""

    namespace: str
    name: str
    changes: list[Suggestion]


class ToldFits(NamedTuple):
    """As :class:`~gpuctl.usecases.fit_documents.FitResult`."""

    jobs: list[ToldFit]
    notes: list[str]
    fits: bool | None
    diagnostics: list[Diagnostic]
    platform: str
    suggested: list[SuggestedChanges] | None

    @property
    def suggestions(self) -> dict[JobName, list[Suggestion]] | None:
        """As of :class:`~gpuctl.usecases.fit_documents.FitResult`."""
        return None if self.suggested is None else {(it.namespace, it.name): it.changes for it in self.suggested}


def told_fits(result: FitResult, platform: str = "") -> ToldFits:
    """An answer as it is told; ``platform`` says that the one beside the documents is not used."""
    jobs = [told_fit(item) for item in result.jobs]
    suggested = None
    if result.suggestions is not None:
        suggested = [SuggestedChanges(*name, changes) for name, changes in result.suggestions.items()]
    return ToldFits(jobs, result.notes, result.fits, result.diagnostics, platform, suggested)


def fit_by_service(
    service: ServiceClient,
    documents: DocumentOptions,
    diagnosed: Callable[[Sequence[Diagnostic], Mapping[str, Source]], None],
    *,
    suggest: bool = False,
) -> ToldFits:
    """As :func:`gpuctl.usecases.fit_documents.fit`.

    :raises InvalidDocuments: there are errors in the documents.
    """
    found = gather(documents)
    with worded(found.sources):
        told = service.ask("fit", ToldFits, documents=found.sent, suggest=suggest)
    diagnosed(in_source_order([*found.notes, *told.diagnostics]), found.sources)
    return told


def fit_waiting_by_service(service: ServiceClient, namespace: str | None) -> ToldFits:
    """As :func:`gpuctl.usecases.fit_documents.fit_waiting`, of the jobs that may be seen."""
    return service.ask_about(namespace, "fit-waiting", ToldFits)
