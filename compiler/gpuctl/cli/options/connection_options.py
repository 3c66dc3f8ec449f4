"""Options that select a cluster, the session they lead to, and the output of errors and progress."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from gpuctl.api.error_meanings import UNDETERMINED, failure_value, meaning_of
from gpuctl.cli.command_target import note_context, note_target, stated_clusters
from gpuctl.cli.options.bound_options import bound
from gpuctl.cli.options.cluster_choice import (
    check_known_cluster,
    chosen_context,
    cluster_option,
    platform_clusters,
    several_clusters_option,
    stated_cluster,
)
from gpuctl.cli.options.command_help import ConnectionOption
from gpuctl.cli.options.completion_callbacks import complete_context
from gpuctl.cli.options.server_option import hidden_server_option, server_option
from gpuctl.cli.options.service_choice import chosen_service
from gpuctl.cli.output.printing import show_value
from gpuctl.cli.output.terminal import columns_of, is_coloured
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.cluster_identity import check_cluster
from gpuctl.kube.configuration import Impersonation, open_session
from gpuctl.kube.session import Session
from gpuctl.language.masking import shown
from gpuctl.language.settings import Settings
from gpuctl.objects.durations import format_duration
from gpuctl.usecases.service.service_client import ServiceClient, not_offered_by_service

if TYPE_CHECKING:
    from gpuctl.frontend.invalid_documents import InvalidDocuments

Function = TypeVar("Function", bound=Callable[..., Any])
_LONG = 3
"""Seconds after which the progress line shows how long the wait has taken."""


class ConnectionOptions(NamedTuple):
    """The kubeconfig and its context; None: kubectl's defaults."""

    kubeconfig: str | None = None
    context: str | None = None


def _impersonating(name: str, metavar: str, text: str, *, multiple: bool = False) -> Callable[[Function], Function]:
    """Return the decorator for an impersonation option. Its value is stored for the connection and is not a parameter
    of the command.
    """

    def note(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value:
            context.find_root().meta[f"{__name__}{name}"] = value

    return click.option(
        name, cls=ConnectionOption, metavar=metavar, help=text, multiple=multiple, expose_value=False, callback=note
    )


def _connection(kubeconfig: str | None = None, context: str | None = None) -> ConnectionOptions:
    note_target()
    return ConnectionOptions(kubeconfig, context)


kubeconfig_options = bound(
    "connection",
    _connection,
    click.option(
        "--kubeconfig",
        cls=ConnectionOption,
        type=click.Path(),
        metavar="FILE",
        help="Default: $KUBECONFIG, or ~/.kube/config.",
    ),
    click.option(
        "--context",
        cls=ConnectionOption,
        metavar="NAME",
        shell_complete=complete_context,
        help="Context of the kubeconfig. Default: the current one.",
    ),
)
"""Adds ``--kubeconfig`` and ``--context``; the command gets :class:`ConnectionOptions`."""


def _connection_options(
    cluster: Callable[[Function], Function], server: Callable[[Function], Function]
) -> Callable[[Function], Function]:
    """Return the decorator for the options that select the cluster and the user to act as, or a service. The command
    gets a :class:`ConnectionOptions`.
    """

    def decorate(function: Function) -> Function:
        for option in (
            _impersonating("--as-uid", "UID", "Uid of the user to act as."),
            _impersonating("--as-group", "GROUP", "Act as a member of this group; repeatable.", multiple=True),
            _impersonating("--as", "USER", "Act as another user; requires the right to impersonate."),
            server,
            cluster,
            kubeconfig_options,
        ):
            function = option(function)
        return function

    return decorate


cluster_options = _connection_options(cluster_option, server_option)
"""Adds the options that select a cluster or a service."""
several_clusters_options = _connection_options(several_clusters_option, server_option)
"""Adds the options that select clusters or a service."""
kubeconfig_cluster_options = _connection_options(cluster_option, hidden_server_option)
"""Adds the options that select a cluster, for a command that no service offers."""


def checkpoint_option(function: Function) -> Function:
    """Add ``--without-checkpoint``."""
    return click.option(
        "--without-checkpoint",
        is_flag=True,
        help="Do not run the checkpoints of jobs that end: their progress is lost.",
    )(function)


json_flag = click.option("--json", "as_json", is_flag=True, help="The same as -o json.")


def named_format(output: str, as_json: bool) -> str:
    """Return the format that ``-o`` and ``--json`` select."""
    return "json" if as_json else output


json_option = bound(
    "as_json",
    lambda output, as_json: as_json or output == "json",
    click.option(
        "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Format."
    ),
    json_flag,
)
"""Adds ``-o text|json`` and ``--json``; the command gets ``as_json``."""


def secrets_option(function: Function) -> Function:
    """Add ``--show-secrets``."""
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


def open_cluster(
    connection: ConnectionOptions,
    *,
    changes: bool = False,
    settings: Settings | None = None,
    cluster: str | None = None,
) -> Session:
    """Open a session with the cluster that the options select.

    :param cluster: the intended cluster; default: that of ``--cluster``.
    :param changes: the command changes the cluster; a cluster that the platform does not define is refused.
    :param settings: the platform's, if they have been read.
    :raises NeedsKubeconfig: a service is selected, which cannot do this command.
    :raises WrongCluster: the connection leads to another cluster.
    """
    if (service := selected_service(connection)) is not None:
        raise not_offered_by_service(service.url, f"`gpuctl {click.get_current_context().info_name}`")
    return open_named_cluster(cluster or stated_cluster(), connection, changes=changes, settings=settings)


def open_named_cluster(
    name: str | None,
    connection: ConnectionOptions,
    *,
    changes: bool = False,
    settings: Settings | None = None,
) -> Session:
    """Open a session with the named cluster, or (None) with the one kubectl would use; see :func:`open_cluster`."""
    meta = click.get_current_context().find_root().meta
    user, groups, uid = (meta.get(f"{__name__}{name}") for name in ("--as", "--as-group", "--as-uid"))
    clusters = platform_clusters(settings)
    cluster = clusters.find(name) if name is not None else None
    kubeconfig, context = connection
    if name is not None and cluster is not None:
        context = chosen_context(name, cluster, context)
        note_context(context)
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


def selected_service(connection: ConnectionOptions) -> ServiceClient | None:
    """Return the selected service: that of the options, else the default one. None if the options select a cluster.

    :raises ConfigurationError: there is no login for the service, or its address is not a URL.
    """
    meta = click.get_current_context().find_root().meta
    given = {"--kubeconfig": connection.kubeconfig is not None, "--context": connection.context is not None}
    given["--cluster"] = bool(stated_clusters())
    given |= {name: bool(meta.get(f"{__name__}{name}")) for name in ("--as", "--as-group", "--as-uid")}
    return chosen_service([name for name, is_given in given.items() if is_given])


class ClusterFailure(click.ClickException):
    """A failure of the cluster, the connection or the user's rights: exit code 3."""

    exit_code = 3

    def show(self, file: Any = None) -> None:
        for line in self.message.splitlines():
            click.echo(line if line.startswith(" ") else f"{error_prefix()}: {line}", err=True)


class RefusedFailure(ClusterFailure):
    """A refusal; nothing was changed: exit code 1."""

    exit_code = 1


class UndeterminedFailure(ClusterFailure):
    """A confirmation is needed and the user cannot be asked, or a difference cannot be determined: exit code 2."""

    exit_code = UNDETERMINED


_FAILURES = {failure.exit_code: failure for failure in (ClusterFailure, RefusedFailure, UndeterminedFailure)}


def error_prefix() -> str:
    """Return the prefix of every error message, coloured on a terminal."""
    return click.style("error", fg="red") if is_coloured(sys.stderr) else "error"


@contextmanager
def cluster_errors(*, as_json: bool = False, refusal: int = 1, of_plan: bool = True) -> Iterator[None]:
    """Turn gpuctl's exceptions into messages and exit codes; with ``as_json`` also print one value on stdout.

    :param refusal: the exit code of a refusal.
    :param of_plan: the printed value is a plan with the error, not the error alone.
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
    """Progress on standard error: one line that is rewritten on a terminal, nothing in a pipe. After some seconds it
    shows how long the wait has taken.

    ``say`` prints a line that stays; ``wait`` shows one that disappears again. If standard error is closed, such as
    after the terminal is, nothing is printed: that must not stop a change between a deletion and a creation.
    """

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = 0
        self._last = ""
        self._since: float | None = None
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        with self._lock, suppress(OSError, ValueError):
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
        with self._lock, suppress(OSError, ValueError):
            self._clear()
            width = max(20, columns_of(sys.stderr)) - 1
            shown = text[:width]
            sys.stderr.write(shown)
            sys.stderr.flush()
            self._shown, self._last = len(shown), text

    def clear(self) -> None:
        self._since = None
        with self._lock, suppress(OSError, ValueError):
            self._clear()

    def _clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._shown, self._last = 0, ""
