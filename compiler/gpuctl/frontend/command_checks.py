"""Checks of a workload's command line and variables against the rest of its document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from gpuctl.frontend.command_lines import Program, Word, command_line, programs_of
from gpuctl.frontend.credential_checks import check_credentials
from gpuctl.frontend.diagnostics import MAX_DIAGNOSTICS, Diagnostic, FieldPath, Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.launcher_checks import DEEPSPEED, LLAMA_FACTORY, check_launchers
from gpuctl.frontend.listening_checks import check_servers
from gpuctl.frontend.role_views import PodCheck, check_pods
from gpuctl.frontend.shell_checks import check_words
from gpuctl.language.kinds import Job
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings

HOSTFILE_DIRECTORY = "/job"
"""Directory of DeepSpeed's hostfile, /job/hostfile."""


def llama_factory_words(argv: Sequence[str]) -> list[str] | None:
    """Return the words of LLaMA-Factory's program in a command, under any of its names; None if the command does not
    run it.
    """
    for program in _programs(argv):
        if program.name in LLAMA_FACTORY:
            return [word.text for word in program.words]
    return None


def uses_deepspeed(argv: Sequence[str]) -> bool:
    """Return True if the command starts DeepSpeed's launcher, which uses ssh by default."""
    return any(program.name in DEEPSPEED for program in _programs(argv))


def _programs(argv: Sequence[str]) -> list[Program]:
    return programs_of([Word(text, ()) for text in argv])


def command_checks(document: Document, model: Job, settings: Settings) -> Iterator[Iterator[Diagnostic]]:
    """Yield the checks of a workload's command line and variables, each as an iterator of its own."""
    checks: list[PodCheck] = [
        lambda view, part: check_words(view, part, settings),
        check_launchers,
        check_servers,
        check_credentials,
        _dollars,
    ]
    for check in checks:
        # Each one has to be located in the text, and no more are shown; the last one makes the report say so.
        yield islice(check_pods(document, model, check), MAX_DIAGNOSTICS + 1)


def _dollars(document: Document, model: Job) -> Iterator[Diagnostic]:
    texts = command_line(model)
    for position, variable in enumerate(model.environment.variables):
        in_list = isinstance(model.environment.env, list)
        path: FieldPath = ("environment", "env", position, "value")
        texts.append(Word(variable.value or "", path if in_list else ("environment", "env", variable.name)))
    for word in texts:
        if "$$" in word.text:
            diagnostic = document.diagnostic(
                Severity.NOTE,
                "GPU508",
                say("Kubernetes turns `$$` into `$` in commands, arguments and variables"),
                word.path,
                say("write `$$$$` where the program should see `$$`"),
            )
            yield document.within(diagnostic, "$$")
