"""Options and manners of the commands that talk to a cluster."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpuctl.api.error_meanings import failure_value, meaning_of
from gpuctl.cli.command_target import stated_clusters
from gpuctl.cli.options.cluster_choice import (
    check_known_cluster,
    chosen_context,
    cluster_option,
    platform_clusters,
    stated_cluster,
)
from gpuctl.cli.options.command_help import ConnectionOption
from gpuctl.cli.options.local_completion import complete_context
from gpuctl.cli.options.service_choice import chosen_service, server_option
from gpuctl.cli.output.printing import show_value
from gpuctl.cli.output.terminal import columns_of
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.cluster_identity import check_cluster
from gpuctl.kube.configuration import Impersonation, open_session
from gpuctl.kube.session import Session
from gpuctl.language.masking import shown
from gpuctl.language.settings import Settings
from gpuctl.objects.durations import format_duration
from gpuctl.usecases.service_client import ServiceClient, not_by_service

if TYPE_CHECKING:
    from gpuctl.frontend.invalid_documents import InvalidDocuments

Function = TypeVar("Function", bound=Callable[..., Any])
_LONG = 3
"""Seconds after which a wait says how long it has taken."""
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def cluster_options(function: Function) -> Function:
    """Which cluster, as whom; or which service instead."""
    for decorate in (
        _impersonating("--as-uid", "UID", "The uid of the user to act as."),
        _impersonating("--as-group", "GROUP", "Act as a member of this group; repeatable.", multiple=True),
        _impersonating("--as", "USER", "Act as another user; the API server asks for the right to impersonate."),
        server_option,
        cluster_option,
        kubeconfig_options,
    ):
        function = decorate(function)
    return function


def kubeconfig_options(function: Function) -> Function:
    """``--kubeconfig`` and ``--context``."""
    for decorate in (
        click.option(
            "--context",
            cls=ConnectionOption,
            metavar="NAME",
            shell_complete=complete_context,
            help="Context of the kubeconfig. Default: its current one.",
        ),
        click.option(
            "--kubeconfig",
            cls=ConnectionOption,
            type=click.Path(),
            metavar="FILE",
            help="Default: $KUBECONFIG, or ~/.kube/config.",
        ),
    ):
        function = decorate(function)
    return function


def _impersonating(name: str, metavar: str, text: str, *, multiple: bool = False) -> Callable[[Function], Function]:
    """An option that every connection of the command takes up, without the command's hearing of it."""

    def note(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value:
            context.find_root().meta[f"{__name__}{name}"] = value

    return click.option(
        name, cls=ConnectionOption, metavar=metavar, help=text, multiple=multiple, expose_value=False, callback=note
    )


def changing_options(function: Function) -> Function:
    """Options of commands that change the cluster."""
    for decorate in (
        click.option("-y", "--yes", is_flag=True, help="Confirm everything that would be asked."),
        click.option(
            "--timeout",
            default="5m",
            show_default=True,
            callback=parse_duration_option,
            metavar="TIME",
            help="How long deletions, late quotas and answers are waited for, as in 90s or 10m.",
        ),
        json_option,
    ):
        function = decorate(function)
    return function


def checkpoint_option(function: Function) -> Function:
    """``--without-checkpoint``."""
    return click.option(
        "--without-checkpoint",
        is_flag=True,
        help="Do not run the checkpoints of jobs that end: their progress is lost.",
    )(function)


def json_option(function: Function) -> Function:
    """``-o json``, and ``--json`` for the same."""
    function = click.option("--json", "as_json", is_flag=True, help="The same as -o json.")(function)
    return click.option(
        "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Format."
    )(function)


def secrets_option(function: Function) -> Function:
    """``--show-secrets``."""
    return click.option(
        "--show-secrets",
        is_flag=True,
        expose_value=False,
        callback=_show_secrets,
        help="Do not mask credentials; on a terminal only.",
    )(function)


def _show_secrets(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if not value:
        return
    if not sys.stdout.isatty():
        raise click.UsageError(
            "--show-secrets works on a terminal only: what is in a file or a log stays there", context
        )
    context.with_resource(shown())


def parse_duration_option(context: click.Context, parameter: click.Parameter, value: str) -> float:
    """The seconds of an option such as ``--timeout 5m``."""
    match = re.fullmatch(r"(\d{1,9})([smh]?)", value)
    if match is None or int(match[1]) == 0:
        raise click.BadParameter(f"`{value}` is not a time such as 90s, 5m or 1h", context, parameter)
    return float(match[1]) * _SECONDS[match[2] or "s"]


def open_cluster(
    kubeconfig: str | None,
    context: str | None,
    *,
    changes: bool = False,
    settings: Settings | None = None,
    cluster: str | None = None,
) -> Session:
    """A session with the cluster that the options name. Errors become those of the command line.

    :param cluster: the one that is meant; default: that of ``--cluster``.
    :param changes: the command changes the cluster, and refuses one that the platform does not name.
    :param settings: the platform's, where they have been read.
    :raises NeedsKubeconfig: a service is to be asked, which this command cannot.
    :raises WrongCluster: it is another cluster than the one that is meant.
    """
    if (service := selected_service(kubeconfig, context)) is not None:
        raise not_by_service(service.url, f"`gpuctl {click.get_current_context().info_name}`")
    return open_named_cluster(cluster or stated_cluster(), kubeconfig, context, changes=changes, settings=settings)


def open_named_cluster(
    name: str | None,
    kubeconfig: str | None,
    context: str | None,
    *,
    changes: bool = False,
    settings: Settings | None = None,
) -> Session:
    """Open a session with the named cluster, or (None) with the one kubectl would use; see :func:`open_cluster`."""
    meta = click.get_current_context().find_root().meta
    user, groups, uid = (meta.get(f"{__name__}{name}") for name in ("--as", "--as-group", "--as-uid"))
    clusters = platform_clusters(settings)
    cluster = clusters.find(name) if name is not None else None
    if name is not None and cluster is not None:
        context = chosen_context(name, cluster, context)
    session = open_session(
        kubeconfig=kubeconfig, context=context, impersonated=Impersonation(user or "", groups or (), uid or "")
    )
    try:
        if name is not None and cluster is not None:
            check_cluster(session, name, cluster, file=clusters.file)
        elif clusters.by_name:
            check_known_cluster(session, clusters, changes=changes)
    except BaseException:
        session.close()
        raise
    return session


def selected_service(kubeconfig: str | None, context: str | None) -> ServiceClient | None:
    """The service that the options name, or that commands ask otherwise; None when they name a cluster.

    :raises ConfigurationError: nobody has logged in to it, or its address is none.
    """
    meta = click.get_current_context().find_root().meta
    given = {"--kubeconfig": kubeconfig is not None, "--context": context is not None}
    given["--cluster"] = bool(stated_clusters())
    given |= {name: bool(meta.get(f"{__name__}{name}")) for name in ("--as", "--as-group", "--as-uid")}
    return chosen_service([name for name, is_given in given.items() if is_given])


class ClusterFailure(click.ClickException):
    """A failure of the cluster, of the way to it, or of the user's rights in it: exit code 3."""

    exit_code = 3

    def show(self, file: Any = None) -> None:
        for line in self.message.splitlines():
            click.echo(line if line.startswith(" ") else f"{error_prefix()}: {line}", err=True)


class RefusedFailure(ClusterFailure):
    """The answer is no, and nothing was changed: exit code 1."""

    exit_code = 1


class UndeterminedFailure(ClusterFailure):
    """What has to be asked first can be asked nobody, or a difference cannot be determined: exit code 2."""

    exit_code = 2


_FAILURES = {failure.exit_code: failure for failure in (ClusterFailure, RefusedFailure, UndeterminedFailure)}


def error_prefix() -> str:
    """The word that every error on standard error begins with."""
    return click.style("error", fg="red") if _coloured() else "error"


def _coloured() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@contextmanager
def cluster_errors(*, as_json: bool = False, refusal: int = 1, of_plan: bool = True) -> Iterator[None]:
    """Turn failures of ours into messages and exit codes; with ``as_json`` also into one value on stdout.

    ``refusal`` is the exit code of a no; ``of_plan`` tells that the value is a plan, not an error alone.
    """
    try:
        yield
    except Exception as error:
        meaning = meaning_of(error)
        if meaning is None:
            raise
        code = refusal if meaning.exit_code == 1 else meaning.exit_code
        if isinstance(error, ClusterError):
            if as_json:
                _show_failure(error, of_plan=of_plan)
            raise _FAILURES[code](error.message + (f"\n  = {error.hint}" if error.hint else "")) from None
        if meaning.name == "InvalidOptions":
            raise click.UsageError(str(error)) from None
        from gpuctl.frontend.invalid_documents import InvalidDocuments

        if isinstance(error, InvalidDocuments):
            _show_invalid(error, as_json=as_json)
            raise click.exceptions.Exit(code) from None
        raise


def _show_failure(error: ClusterError, *, of_plan: bool) -> None:
    if not of_plan:
        show_value(failure_value(error), "json")
        return
    from gpuctl.api.plan_answers import plan_value
    from gpuctl.apply.plan.plan import Plan

    show_value(plan_value(getattr(error, "plan", None) or Plan(), error=error.message), "json")


def _show_invalid(error: InvalidDocuments, *, as_json: bool) -> None:
    from gpuctl.cli.output import json, text

    text.write(error.diagnostics, error.sources, sys.stderr)
    if as_json:
        click.echo(json.render(error.diagnostics), nl=False)


class Progress:
    """What is being waited for: one line that is rewritten on a terminal, and nothing in a pipe. A wait that has taken
    some seconds says how long.

    ``say`` prints a line that stays, to standard error; ``wait`` shows one that goes away again.
    """

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = 0
        self._last = ""
        self._since: float | None = None
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        with self._lock:
            self._clear()
            click.echo(text, err=True)

    def wait(self, text: str) -> None:
        if not self._terminal:
            return
        self._since = self._since or time.monotonic()
        elapsed = int(time.monotonic() - self._since)
        if elapsed >= _LONG:
            text = f"{format_duration(elapsed)}: {text}"
        if text == self._last:
            return
        with self._lock:
            self._clear()
            width = max(20, columns_of(sys.stderr)) - 1
            shown = text[:width]
            sys.stderr.write(shown)
            sys.stderr.flush()
            self._shown, self._last = len(shown), text

    def clear(self) -> None:
        self._since = None
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._shown, self._last = 0, ""
