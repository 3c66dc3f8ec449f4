"""Checks of notebooks: their password, and that ``notebook.stop_after`` can observe their activity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuctl.frontend.command_lines import Program, Word, command_line, diagnostic_at, option, programs_of
from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document import Document
from gpuctl.language.kinds import Job
from gpuctl.language.sentences import Template, say

APPS = ("ServerApp", "NotebookApp", "LabApp")
TOKEN_OPTIONS = tuple(f"--{app}.token" for app in (*APPS, "IdentityProvider"))
BASE_URL_OPTIONS = tuple(f"--{app}.base_url" for app in APPS)
_OTHERS = frozenset({"code-server", "openvscode-server", "rserver", "ttyd", "marimo", "streamlit", "gradio"})
_TOKEN = "JUPYTER_TOKEN"  # noqa: S105 - a variable
_PASSWORD_OPTIONS = (*(f"--{app}.password" for app in APPS), "--PasswordIdentityProvider.hashed_password")
_WITHOUT_TOKEN = frozenset({"--without-connection-token", "--no-token"})
_ADD_TO_ENV = Template(
    "set `env: [{{name: {name}, secret: NAME, key: {key}}}]` after `kubectl create secret generic NAME "
    "--from-literal={key}=...`"
)
_OPEN = Template("`{name}` lets every client of the Service run programs in this container")
_OPEN_BY_EMPTY = Template("the empty `{name}` lets every client of the Service run programs in this container")


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
        hint = say(_ADD_TO_ENV, name=_TOKEN, key="token")
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


def check_open_notebooks(document: Document, model: Job, programs: Sequence[Program]) -> Iterator[Diagnostic]:
    """Report notebooks without a token or password: every client of the Service gets a shell with GPUs."""
    for program in programs:
        yield from _open_notebook(document, model, program)
    yield from _open_variables(document, model, programs)


def _open_notebook(document: Document, model: Job, program: Program) -> Iterator[Diagnostic]:
    """Report options that turn the password of a notebook off."""
    place: Word | None = None
    what, hint = _OPEN, say("remove it, and set a password")
    name = ""
    if program.name == "code-server":
        auth = option(program.words, "--auth")
        place = auth[0] if auth is not None and auth[1] == "none" else None
        name = "--auth none"
        hint = say("remove it, and {set}", set=say(_ADD_TO_ENV, name="PASSWORD", key="password"))
    elif program.name in ("openvscode-server", "ttyd", "marimo"):
        place = next((word for word in program.words if word.text in _WITHOUT_TOKEN), None)
        name = place.text if place is not None else ""
    elif (found := _empty_token(model, program)) is not None:
        place, name = found
        what = _OPEN_BY_EMPTY
        hint = say("write `{name}=$(TOKEN)`, and {set}", name=name, set=say(_ADD_TO_ENV, name="TOKEN", key="token"))
    if place is not None:
        yield diagnostic_at(document, "GPU515", say(what, name=name), place, hint)


def _empty_token(model: Job, program: Program) -> tuple[Word, str] | None:
    """Return the word and the option that leave Jupyter's token empty, if no password is set; else None."""
    found: tuple[Word, str] | None = None
    empty = {variable.name for variable in model.environment.variables if variable.value == ""}
    for index, word in enumerate(program.arguments):
        name, equals, value = word.text.partition("=")
        if not equals:
            value = program.arguments[index + 1].text if index + 1 < len(program.arguments) else "?"
        is_empty = value.strip("'\"") in ("", "None") or value.strip("${()}") in empty
        if name in _PASSWORD_OPTIONS and not is_empty:
            return None
        if name in TOKEN_OPTIONS:
            found = (word, name) if is_empty else None
    return found


def _open_variables(document: Document, model: Job, programs: Sequence[Program]) -> Iterator[Diagnostic]:
    """Report variables that turn a password off. An option of the command overrides JUPYTER_TOKEN."""
    words = [word for program in programs for word in program.words]
    is_set = any(word.text.partition("=")[0] in (*TOKEN_OPTIONS, *_PASSWORD_OPTIONS) for word in words)
    for position, variable in enumerate(model.environment.variables):
        if variable.value is None:
            continue
        value = variable.value.strip().lower()
        is_open = variable.name == _TOKEN and not value and not is_set
        if is_open or (variable.name == "DISABLE_AUTH" and value in ("true", "1", "yes")):
            in_list = isinstance(model.environment.env, list)
            path = ("environment", "env", position if in_list else variable.name)
            message = say(_OPEN, name=variable.name)
            set_token = say(_ADD_TO_ENV, name=_TOKEN, key="token")
            hint = set_token if is_open else say("remove it, and set a password")
            yield document.diagnostic(Severity.WARNING, "GPU515", message, path, hint)
    for word in [word for program in programs for word in (*program.variables, *program.arguments)]:
        if word.text == "JUPYTER_TOKEN=" and not is_set:
            message = say("an empty JUPYTER_TOKEN lets every client of the Service run programs in this container")
            set_token = say(_ADD_TO_ENV, name=_TOKEN, key="token")
            hint = say("remove it, and {set}", set=set_token)
            yield diagnostic_at(document, "GPU515", message, word, hint)
