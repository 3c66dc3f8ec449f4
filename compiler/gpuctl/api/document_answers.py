"""Diagnostics, and ``gpuctl version``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import Field

from gpuctl.api.base_models import ApiModel, SharedModel
from gpuctl.backend.schema_validation import VERSIONS
from gpuctl.frontend.diagnostics import Diagnostic, Severity, SourceSpan, count, format_path
from gpuctl.language.kinds import VERSION
from gpuctl.release import __version__


class RelatedPlace(ApiModel):
    """Another place to which a diagnostic refers. Lines and columns count from 1."""

    message: str = Field(examples=["the first is here"])
    file: str = Field(examples=["yamlContent"])
    line: int = Field(examples=[3])
    column: int = Field(examples=[1])
    end_line: int = Field(examples=[3])
    end_column: int = Field(examples=[4])


class DocumentWarning(ApiModel):
    """A diagnostic of a valid document, in the form of ``gpuctl validate -o json``; ``file`` is the request's field."""

    severity: str = Field(examples=["warning"])
    code: str = Field(examples=["GPU501"])
    message: str = Field(examples=["the image has the tag `latest`"])
    file: str | None = Field(examples=["yamlContent"])
    line: int | None = Field(examples=[7])
    column: int | None = Field(examples=[10])
    end_line: int | None = Field(examples=[7])
    end_column: int | None = Field(examples=[22])
    path: str = Field(examples=["environment.image"])
    hint: str | None = Field(examples=["name a version"])
    related: list[RelatedPlace]

    @classmethod
    def of(cls, diagnostic: Diagnostic) -> DocumentWarning:
        """Return a diagnostic. ``file`` and the position are null if it is not in a file."""
        return cls(
            severity=diagnostic.severity.value,
            code=diagnostic.code,
            message=diagnostic.message,
            **_place(diagnostic.span),
            path=format_path(diagnostic.path),
            hint=diagnostic.hint,
            related=[RelatedPlace(message=item.message, **_place(item.span)) for item in diagnostic.related],
        )


class DiagnosticsAnswer(ApiModel):
    """``gpuctl validate -o json``. Lines and columns count from 1, in code points."""

    diagnostics: list[DocumentWarning]
    errors: int
    warnings: int

    @classmethod
    def of(cls, diagnostics: Iterable[Diagnostic]) -> DiagnosticsAnswer:
        """Return diagnostics, with the number of errors and warnings."""
        found = list(diagnostics)
        return cls(
            diagnostics=list(map(DocumentWarning.of, found)),
            errors=count(found, Severity.ERROR),
            warnings=count(found, Severity.WARNING),
        )


class SetField(ApiModel):
    """A field that ``gpuctl set`` changes. ``document``: the name of its document."""

    document: str
    path: str
    old: Any = Field(alias="from")
    new: Any = Field(alias="to")


class SetAnswer(ApiModel):
    """``gpuctl set -o json``. ``written``: False with ``--check``, and if nothing changes."""

    file: str
    written: bool
    changes: list[SetField]


class VersionAnswer(SharedModel):
    """``gpuctl version -o json``: versions of gpuctl and of the language, and supported Kubernetes versions."""

    gpuctl: str = __version__
    language: str = VERSION
    kubernetes: tuple[str, ...] = VERSIONS


def _place(span: SourceSpan | None) -> dict[str, Any]:
    return dict.fromkeys(SourceSpan._fields) if span is None else span._asdict()
