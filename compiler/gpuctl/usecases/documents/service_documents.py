"""Documents as sent to the service, which compiles them with its own platform."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from gpuctl.api.document_answers import DocumentWarning, RelatedPlace
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.backend.schema_validation import VERSIONS
from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity, SourceSpan
from gpuctl.frontend.document_variant import OPTION
from gpuctl.frontend.field_assignments import parse_assignments
from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.frontend.platform_loading import open_platform
from gpuctl.frontend.source import Source, collect
from gpuctl.language.sentences import Sentence
from gpuctl.language.settings import Settings
from gpuctl.usecases.documents.change_options import DocumentOptions, InvalidOptions
from gpuctl.usecases.service.service_client import NeedsKubeconfig, ServiceRefusal

_WITH_KUBECONFIG = "or name a cluster with --context or --kubeconfig"
_INSTEAD = {
    "--platform": "leave it out: the service has the platform that it was started with",
    "--set": "a set remembers the files that it came from, and pruning deletes what others have applied to it: apply "
    f"without --set, and delete what is not to stay with `gpuctl delete -f FILE` or by name; {_WITH_KUBECONFIG}",
    "--adopt": "fields of other managers are not taken over for you: ask their owners to release them, "
    f"{_WITH_KUBECONFIG}",
    "--rollback": f"apply with --wait, and go back with `gpuctl rollback JOB` if it does not run; {_WITH_KUBECONFIG}",
}
"""Option that the service does not offer -> what to do instead."""


class GatheredDocuments(NamedTuple):
    """Documents that were read: ``sent`` go to the service with the compiler's ``options``.

    ``platform`` is the platform beside them as JSON; "" without one. ``sources`` are all files that were read,
    ``notes`` are diagnostics about files that were not.
    """

    sent: list[Source]
    options: DocumentOptions
    platform: str
    platform_name: str
    sources: dict[str, Source]
    notes: list[Diagnostic]

    @property
    def body(self) -> dict[str, Any]:
        """Return the documents as a request body."""
        body: dict[str, Any] = {"files": [_file(source) for source in self.sent]}
        if self.options.variant.overrides:
            body["overrides"] = list(self.options.variant.overrides)
        if self.platform:
            body["platform"] = {"name": self.platform_name, "value": json.loads(self.platform)}
        return body

    @property
    def query(self) -> dict[str, str]:
        """Return the compiler options as query parameters."""
        return {
            "namespace": self.options.namespace or "",
            "strict": "true" if self.options.strict else "",
            "profile": self.options.variant.profile or "",
        }


def gather_documents(documents: DocumentOptions, planning: PlanOptions | None = None) -> GatheredDocuments:
    """Read documents and their platform file.

    :raises NeedsKubeconfig: an option works only with a cluster.
    :raises InvalidDocuments: files cannot be read, or the platform has errors.
    :raises InvalidOptions: no documents were found.
    """
    planning = planning or PlanOptions()
    given = {
        "--platform": documents.platform is not None,
        "--set": planning.set_name is not None,
        "--adopt": planning.adopt,
    }
    refuse_options(given)
    for flag in planning.set_flags:
        raise NeedsKubeconfig(f"--{flag} does not work through the service", _INSTEAD["--set"])
    found = collect(documents.sources, documents.stdin)
    loaded, early, _ = open_platform(found, platform=None, versions=VERSIONS, directory=documents.directory)
    if any(item.severity is Severity.ERROR for item in loaded.diagnostics):
        raise InvalidDocuments(loaded.diagnostics, loaded.sources)
    sources = [source for source in found.sources if not early.is_platform_alone(source)]
    if not sources:
        raise InvalidOptions("the given sources contain no documents")
    beside = [name for name in loaded.sources if name not in {source.name for source in sources}]
    if documents.variant.overrides:
        # To show the lines of diagnostics.
        texts = parse_assignments(OPTION, documents.variant.overrides).source
        loaded.sources[texts.name] = texts
    platform, name = platform_text(loaded.settings), beside[0] if beside else ""
    return GatheredDocuments(sources, documents, platform, name, loaded.sources, found.diagnostics)


def _file(source: Source) -> dict[str, Any]:
    file = {"name": source.name, "text": source.text}
    return file if source.direct else {**file, "inDirectory": True}


def refuse_options(given: Mapping[str, bool]) -> None:
    """Check that no option is given that works only with a cluster.

    :raises NeedsKubeconfig: such an option is given.
    """
    for option, is_given in given.items():
        if is_given:
            raise NeedsKubeconfig(f"{option} does not work through the service", _INSTEAD[option])


def platform_text(settings: Settings) -> str:
    """Return a platform as canonical JSON, equal for platforms with equal content; "" for an empty one."""
    return json.dumps(_said(settings), sort_keys=True) if not settings.is_default else ""


def platform_message(here: Mapping[str, Any], name: str, settings: Settings) -> str:
    """Return a warning about a platform file that differs from the service's platform; "" if it does not.

    :param here: the file's content without kind and version, and its ``name``.
    """
    there = _said(settings)
    names = sorted(key for key in {*here, *there} if here.get(key) != there.get(key))
    if not names:
        return ""
    return f"warning: {name} is not used: the service has its own platform, which differs in {', '.join(names)}"


def _said(settings: Settings) -> dict[str, Any]:
    dumped: dict[str, Any] = settings.platform.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return {name: value for name, value in dumped.items() if name not in ("kind", "version")}


@contextmanager
def compiler_errors(sources: Mapping[str, Source]) -> Iterator[None]:
    """Raise errors of the service about documents as the compiler raises them.

    :raises InvalidDocuments: the documents have errors.
    :raises InvalidOptions: the options contradict each other.
    """
    try:
        yield
    except ServiceRefusal as error:
        if error.name == "InvalidDocuments" and error.details:
            found = map(DocumentWarning.model_validate, error.details)
            raise InvalidDocuments(list(map(diagnostic_of, found)), dict(sources)) from None
        if error.name == "InvalidOptions":
            raise InvalidOptions(error.message) from None
        raise


def diagnostic_of(warning: DocumentWarning) -> Diagnostic:
    """Return the diagnostic of an answer; its path stays one string."""
    related = tuple(
        Related(Sentence(item.message), span) for item in warning.related if (span := _span(item)) is not None
    )
    return Diagnostic(
        Severity(warning.severity),
        warning.code,
        Sentence(warning.message),
        _span(warning),
        (warning.path,) if warning.path else (),
        Sentence(warning.hint) if warning.hint is not None else None,
        related,
    )


def _span(place: DocumentWarning | RelatedPlace) -> SourceSpan | None:
    return None if place.file is None else SourceSpan(*(getattr(place, name) for name in SourceSpan._fields))
