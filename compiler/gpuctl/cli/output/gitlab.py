"""Diagnostics as GitLab's Code Quality report, which is shown in the diff of a merge request."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable

from gpuctl.cli.output.repository_paths import repository_path
from gpuctl.frontend.diagnostics import Diagnostic, Severity

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def render(diagnostics: Iterable[Diagnostic]) -> str:
    """Return a JSON list with the fields that GitLab requires of each entry.

    A diagnostic without a file is left out, because an entry needs a path; standard error and the exit code have it.
    """
    entries = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for diagnostic in diagnostics:
        if diagnostic.span is None:
            continue
        path = repository_path(diagnostic.span.file)
        # The line is not part of the fingerprint: a finding stays the same when lines are added above it.
        identity = (diagnostic.code, path, diagnostic.message)
        seen[identity] += 1
        text = diagnostic.message + (f" ({diagnostic.hint})" if diagnostic.hint else "")
        entries.append(
            {
                "description": text,
                "check_name": diagnostic.code,
                "fingerprint": hashlib.sha256(json.dumps([*identity, seen[identity]]).encode()).hexdigest(),
                "severity": _SEVERITIES[diagnostic.severity],
                "location": {"path": path, "lines": {"begin": diagnostic.span.line}},
            }
        )
    return json.dumps(entries, ensure_ascii=False, indent=2) + "\n"
