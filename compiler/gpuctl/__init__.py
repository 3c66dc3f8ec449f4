"""gpuctl: ten lines of YAML about a GPU job, compiled to reviewable Kubernetes manifests.

>>> import gpuctl
>>> result = gpuctl.compile(gpuctl.Source("job.yaml", "kind: compute\\nversion: v0.1\\n..."))
>>> result.objects, result.diagnostics
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Compilation", "Diagnostic", "Source", "__version__", "compile", "emit_stream", "lift"]

if TYPE_CHECKING:
    from gpuctl.backend.emitter import emit_stream
    from gpuctl.backend.lift import lift
    from gpuctl.compilation import Compilation, compile
    from gpuctl.frontend.diagnostics import Diagnostic
    from gpuctl.frontend.source import Source

_HOMES = {
    "Compilation": "gpuctl.compilation",
    "Diagnostic": "gpuctl.frontend.diagnostics",
    "Source": "gpuctl.frontend.source",
    "compile": "gpuctl.compilation",
    "emit_stream": "gpuctl.backend.emitter",
    "lift": "gpuctl.backend.lift",
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
