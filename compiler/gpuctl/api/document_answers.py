"""The JSON of diagnostics and of ``gpuctl version``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import Field

from gpuctl.api.base_models import ApiModel
from gpuctl.backend.schema_validation import VERSIONS
from gpuctl.frontend.diagnostics import Diagnostic, Severity, count
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


def diagnostics_answer(diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    """Return the JSON of ``validate -o json``; lines and columns count from 1, in code points."""
    told = list(diagnostics)
    return {
        "diagnostics": [diagnostic.to_dict() for diagnostic in told],
        "errors": count(told, Severity.ERROR),
        "warnings": count(told, Severity.WARNING),
    }


def version_answer() -> dict[str, Any]:
    """Return the JSON of ``version -o json``: versions of gpuctl and of the language, and supported Kubernetes
    versions.
    """
    return {"gpuctl": __version__, "language": VERSION, "kubernetes": list(VERSIONS)}
