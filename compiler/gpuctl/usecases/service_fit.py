"""Whether jobs would find room, as the service tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpuctl.capacity.told_fit import ToldFit, told_fit
from gpuctl.frontend.diagnostics import Diagnostic, in_source_order
from gpuctl.frontend.source import Source
from gpuctl.usecases.service_client import ServiceClient
from gpuctl.usecases.service_documents import gather, worded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuctl.usecases.change_options import DocumentOptions
    from gpuctl.usecases.fit_documents import FitResult


class ToldFits(NamedTuple):
    """As :class:`~gpuctl.usecases.fit_documents.FitResult`."""

    jobs: list[ToldFit]
    notes: list[str]
    fits: bool | None
    diagnostics: list[Diagnostic]
    platform: str


def told_fits(result: FitResult, platform: str) -> ToldFits:
    """An answer as it is told; ``platform`` says that the one beside the documents is not used."""
    jobs = [told_fit(item) for item in result.jobs]
    return ToldFits(jobs, result.notes, result.fits, result.diagnostics, platform)


def fit_by_service(
    service: ServiceClient,
    documents: DocumentOptions,
    diagnosed: Callable[[Sequence[Diagnostic], Mapping[str, Source]], None],
) -> ToldFits:
    """As :func:`gpuctl.usecases.fit_documents.fit`.

    :raises InvalidDocuments: there are errors in the documents.
    """
    found = gather(documents)
    with worded(found.sources):
        told = service.ask("fit", ToldFits, documents=found.sent)
    diagnosed(in_source_order([*found.notes, *told.diagnostics]), found.sources)
    return told
