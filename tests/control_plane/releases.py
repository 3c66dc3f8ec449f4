"""The releases of the programs that tests run: those of the modules in ``tests/binaries``."""

from __future__ import annotations

import re
from pathlib import Path

BINARIES = Path(__file__).resolve().parents[1] / "binaries"
_MODULES = {
    "kubernetes": "k8s.io/kubernetes",
    "kueue": "sigs.k8s.io/kueue",
    "jobset": "sigs.k8s.io/jobset",
    "lws": "sigs.k8s.io/lws",
}


def releases() -> dict[str, str]:
    """Return the release of each program: ``kueue`` -> ``0.19.2``."""
    found = {}
    for name, module in _MODULES.items():
        match = re.search(rf"{re.escape(module)} v(\S+)", (BINARIES / name / "go.mod").read_text())
        if match is None:
            raise ValueError(f"tests/binaries/{name}/go.mod has no {module}")
        found[name] = match[1]
    return found
