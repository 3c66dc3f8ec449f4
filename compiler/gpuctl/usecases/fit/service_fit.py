"""`fit` through a service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpuctl.api.fit_answers import FitAnswer
from gpuctl.frontend.diagnostics import Diagnostic, in_source_order
from gpuctl.frontend.source import Source
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.documents.service_documents import compiler_errors, diagnostic_of, gather_documents
from gpuctl.usecases.service.service_client import ServiceClient


def fit_by_service(
    service: ServiceClient,
    documents: DocumentOptions,
    diagnosed: Callable[[Sequence[Diagnostic], Mapping[str, Source]], None],
    said: Callable[[str], None],
    *,
    suggest: bool = False,
) -> FitAnswer:
    """Return the fit of the jobs of documents, as :func:`gpuctl.usecases.fit.fit_documents.fit`.

    :param said: called with messages, such as that the platform beside the documents is not used.
    :raises InvalidDocuments: there are errors in the documents.
    """
    found = gather_documents(documents)
    query = {**found.query, "suggest": "true" if suggest else ""}
    with compiler_errors(found.sources), service.reading():
        answer = FitAnswer.model_validate(service.request("POST", "/fit", found.body, query=query))
        warnings = list(map(diagnostic_of, answer.warnings))
    diagnosed(in_source_order([*found.notes, *warnings]), found.sources)
    for message in answer.messages:
        said(message)
    return answer


def fit_waiting_by_service(service: ServiceClient, namespace: str | None) -> FitAnswer:
    """Return the fit of visible waiting jobs, as :func:`gpuctl.usecases.fit.fit_documents.fit_waiting`."""
    with service.reading() as get:
        return FitAnswer.model_validate(get("/fit", namespace=namespace or ""))
