"""gpuctl: ten lines of YAML about a GPU job, compiled to reviewable Kubernetes manifests.

>>> import gpuctl
>>> result = gpuctl.compile(gpuctl.Source("job.yaml", "kind: compute\\nversion: v0.1\\n..."))
>>> result.objects, result.diagnostics
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpuctl.release import __version__

__all__ = [
    "Changed",
    "ClusterError",
    "Compilation",
    "Connection",
    "Diagnostic",
    "DocumentPlan",
    "Explanation",
    "FitResult",
    "InvalidDocuments",
    "InvalidOptions",
    "Refused",
    "Source",
    "__version__",
    "apply",
    "compile",
    "connect",
    "emit_stream",
    "fit",
    "lift",
    "plan",
    "why",
]

if TYPE_CHECKING:
    from gpuctl.apply.plan.plan import Refused
    from gpuctl.backend.emitter import emit_stream
    from gpuctl.backend.lift import lift
    from gpuctl.compilation import Compilation, compile
    from gpuctl.frontend.diagnostics import Diagnostic
    from gpuctl.frontend.invalid_documents import InvalidDocuments
    from gpuctl.frontend.source import Source
    from gpuctl.kube.api_errors import Changed, ClusterError
    from gpuctl.kube.configuration import connect
    from gpuctl.kube.connection import Connection
    from gpuctl.library import DocumentPlan, apply, plan
    from gpuctl.reading.why.explanation import Explanation
    from gpuctl.usecases.documents.change_options import InvalidOptions
    from gpuctl.usecases.fit.fit_documents import FitResult, fit
    from gpuctl.usecases.queries.one_job import why

_HOMES = {
    "Changed": "gpuctl.kube.api_errors",
    "ClusterError": "gpuctl.kube.api_errors",
    "Compilation": "gpuctl.compilation",
    "Connection": "gpuctl.kube.connection",
    "Diagnostic": "gpuctl.frontend.diagnostics",
    "DocumentPlan": "gpuctl.library",
    "Explanation": "gpuctl.reading.why.explanation",
    "FitResult": "gpuctl.usecases.fit.fit_documents",
    "InvalidDocuments": "gpuctl.frontend.invalid_documents",
    "InvalidOptions": "gpuctl.usecases.documents.change_options",
    "Refused": "gpuctl.apply.plan.plan",
    "Source": "gpuctl.frontend.source",
    "compile": "gpuctl.compilation",
    "connect": "gpuctl.kube.configuration",
    "emit_stream": "gpuctl.backend.emitter",
    "fit": "gpuctl.usecases.fit.fit_documents",
    "lift": "gpuctl.backend.lift",
    "plan": "gpuctl.library",
    "why": "gpuctl.usecases.queries.one_job",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``import gpuctl`` stays cheap."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'gpuctl' has no attribute {name!r}")
    value = _public(home, name)
    globals()[name] = value
    return value


def _public(home: str, name: str) -> Any:
    from importlib import import_module

    return getattr(import_module(home), name)


class _Package(ModuleType):
    """The package. Otherwise the subpackage `gpuctl.apply`, once imported, would replace the function of that name."""

    @property
    def apply(self) -> Any:
        return _public("gpuctl.library", "apply")

    @apply.setter
    def apply(self, room: ModuleType) -> None:
        """Ignore the subpackage; it is found in `sys.modules`."""


sys.modules[__name__].__class__ = _Package
