"""gpuctl: ten lines of YAML about a GPU job, compiled to reviewable Kubernetes manifests.

>>> import gpuctl
>>> result = gpuctl.compile(gpuctl.Source("job.yaml", "kind: compute\\nversion: v0.1\\n..."))
>>> result.objects, result.diagnostics
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuctl.release import __version__

__all__ = [
    "Answer",
    "Compilation",
    "Diagnostic",
    "FitResult",
    "InvalidDocuments",
    "InvalidOptions",
    "Source",
    "__version__",
    "compile",
    "connect",
    "emit_stream",
    "fit",
    "lift",
    "why",
]

if TYPE_CHECKING:
    from gpuctl.backend.emitter import emit_stream
    from gpuctl.backend.lift import lift
    from gpuctl.compilation import Compilation, compile
    from gpuctl.frontend.diagnostics import Diagnostic
    from gpuctl.frontend.invalid_documents import InvalidDocuments
    from gpuctl.frontend.source import Source
    from gpuctl.kube.configuration import connect
    from gpuctl.reading.why.answer import Answer
    from gpuctl.usecases.change_options import InvalidOptions
    from gpuctl.usecases.fit_documents import FitResult, fit
    from gpuctl.usecases.job_queries import why

_HOMES = {
    "Answer": "gpuctl.reading.why.answer",
    "Compilation": "gpuctl.compilation",
    "Diagnostic": "gpuctl.frontend.diagnostics",
    "FitResult": "gpuctl.usecases.fit_documents",
    "InvalidDocuments": "gpuctl.frontend.invalid_documents",
    "InvalidOptions": "gpuctl.usecases.change_options",
    "Source": "gpuctl.frontend.source",
    "compile": "gpuctl.compilation",
    "connect": "gpuctl.kube.configuration",
    "emit_stream": "gpuctl.backend.emitter",
    "fit": "gpuctl.usecases.fit_documents",
    "lift": "gpuctl.backend.lift",
    "why": "gpuctl.usecases.job_queries",
}


def __getattr__(name: str) -> Any:
    """Import the public names where they are first used: ``import gpuctl`` itself stays cheap."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'gpuctl' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
