"""Check that the activity of a notebook with ``notebook.stop_after`` can be observed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuctl.frontend.command_lines import Program, command_line, option, programs_of
from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.listening_checks import ADD_TO_ENV
from gpuctl.language.kinds import Job
from gpuctl.language.sentences import say

APPS = ("ServerApp", "NotebookApp", "LabApp")
TOKEN_OPTIONS = tuple(f"--{app}.token" for app in (*APPS, "IdentityProvider"))
BASE_URL_OPTIONS = tuple(f"--{app}.base_url" for app in APPS)
_OTHERS = frozenset({"code-server", "openvscode-server", "rserver", "ttyd", "marimo", "streamlit", "gradio"})
_TOKEN = "JUPYTER_TOKEN"  # noqa: S105 - a variable


def check_notebook(document: Document, model: Job) -> Iterator[Diagnostic]:
    """Report a notebook whose activity is always unknown, so that ``stop_after`` never pauses it."""
    if model.kind != "notebook" or model.notebook is None or model.notebook.stop_after is None:
        return
    programs = programs_of(command_line(model))
    other = next((program.name for program in programs if program.name in _OTHERS), None)
    if other is not None:
        message = say(
            "`stop_after` never pauses this notebook: {program} does not report its activity as Jupyter does",
            program=other,
        )
        hint = say("remove it; `max_lifetime` works for every notebook")
    elif not _has_token(model, programs):
        message = say(
            "`stop_after` never pauses this notebook: Jupyter generates its token, and reports activity only to a "
            "request with the token"
        )
        hint = say(ADD_TO_ENV, name=_TOKEN, key="token")
    else:
        return
    yield document.diagnostic(Severity.WARNING, "GPU523", message, ("notebook", "stop_after"), hint, key=True)


def _has_token(model: Job, programs: Sequence[Program]) -> bool:
    """Return True if the document states the token, or a source of variables that may contain it."""
    if model.environment.envFrom or any(variable.name == _TOKEN for variable in model.environment.variables):
        return True
    words = [word for program in programs for word in (*program.words, *program.variables)]
    assigned = any(word.text.startswith(f"{_TOKEN}=") for word in words)
    return assigned or any(word.is_open for word in words) or option(words, *TOKEN_OPTIONS) is not None
