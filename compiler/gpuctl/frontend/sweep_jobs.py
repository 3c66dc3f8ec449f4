"""Expands the sweep of a training to the data of its jobs, one for each combination of values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity
from gpuctl.frontend.findings import Findings
from gpuctl.frontend.model_errors import report_model_errors
from gpuctl.frontend.templates import references
from gpuctl.language.names import is_dns_1035_label, shortened
from gpuctl.language.sentences import say
from gpuctl.language.sweep_block import Combination, Sweep, described, longest_sweep_name
from gpuctl.language.workload import TEMPLATED_BLOCKS
from gpuctl.objects.label_names import LABEL_MAX
from gpuctl.objects.sweep_names import job_name


def job_data(findings: Findings, data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the data of each job of a training with a sweep. ``sweep`` holds its values, for the templates.

    Empty, after a diagnostic, if the sweep is invalid.
    """
    combinations = _combinations(findings, data.get("sweep"))
    job = data.get("job", {})
    if "sweep" in job:
        message = say("the jobs of this sweep are part of it, and of no other")
        findings.at_path("GPU213", message, ("job", "sweep"), say("remove `job.sweep`, or `sweep`"), key=True)
    if not combinations:
        return []
    _report_unused(findings, data, combinations[0])
    name = job.get("name", "")
    if not is_dns_1035_label(name):
        # The error for this name is the one to report.
        return [{**data, "sweep": combinations[0]}]
    # A longer name of a job is no name; what the job becomes may allow less (`document_checks`).
    longest, reason = longest_sweep_name(len(combinations), LABEL_MAX)
    if len(name) > longest:
        message = say(
            "the name has {length} characters; that of this sweep can have {longest}, because {reason}",
            length=len(name),
            longest=longest,
            reason=reason,
        )
        findings.at_path(
            "GPU217",
            message,
            ("job", "name"),
            say("shorten it, such as to `{shorter}`", shorter=shortened(name, longest)),
        )
        return []
    return [
        {
            **data,
            "job": {**job, "name": job_name(name, index), "sweep": {"name": name, "values": combination}},
            "sweep": combination,
        }
        for index, combination in enumerate(combinations)
    ]


def _combinations(findings: Findings, values: dict[str, Any] | None) -> list[Combination]:
    if values is None or findings.is_reported(("sweep",)) or any(path[0] == "sweep" for path in findings.bad):
        return []
    data = {"sweep": values}
    try:
        return Sweep.model_validate(data).combinations
    except ValidationError as error:
        report_model_errors(findings, error, data)
        return []


def _report_unused(findings: Findings, data: dict[str, Any], combination: Combination) -> None:
    """Warn about each parameter that no template refers to."""
    texts = _texts([data[place] for place in TEMPLATED_BLOCKS if place in data])
    used = {path[1] for text in texts for path in references(text) if path[0] == "sweep"}
    if used - combination.keys():
        # A misspelt reference is an error of its own.
        return
    for name in combination:
        if name not in used:
            message = say(
                "no text of this document refers to the parameter `{name}`: jobs that differ only in it are equal",
                name=name,
            )
            hint = say("write `{{{{sweep.{name}}}}}` in `command`, `args` or `env`", name=name)
            path = ("sweep", name)
            span = findings.span(path, key=True)
            findings.diagnostics.append(Diagnostic(Severity.WARNING, "GPU517", message, span, path, hint))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def with_job(findings: Findings, diagnostics: list[Diagnostic], combination: Combination) -> list[Diagnostic]:
    """Return the diagnostics of one job of a sweep, with its values."""
    note = Related(say("with {values}", values=described(combination)), findings.span(("sweep",), key=True))
    return [item._replace(related=(*item.related, note)) for item in diagnostics]
