"""The target of the current command: the clusters of ``--cluster``, the service of ``--server``, and the current
cluster.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

import click

from gpuctl.frontend.platform_file import find_platform
from gpuctl.hints import set_target_options

_CLUSTER = f"{__name__}--cluster"
_SERVER = f"{__name__}--server"
_SERVICE = f"{__name__} service"
_CURRENT = f"{__name__} current"
_CONTEXT = f"{__name__} context"


def note_clusters(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> None:
    """Store the values of ``--cluster`` for the functions that connect."""
    if value:
        context.find_root().meta[_CLUSTER] = tuple(dict.fromkeys(value))


def stated_clusters() -> tuple[str, ...]:
    """Return the values of ``--cluster`` without repetitions."""
    found: tuple[str, ...] = click.get_current_context().find_root().meta.get(_CLUSTER, ())
    return found


def note_server(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Store the value of ``--server``."""
    if value is not None:
        context.find_root().meta[_SERVER] = value


def stated_server(context: click.Context | None = None) -> str | None:
    """Return the value of ``--server``; None if it was not given."""
    stated: str | None = (context or click.get_current_context()).find_root().meta.get(_SERVER)
    return stated


def is_server_stated(context: click.Context | None = None) -> bool:
    """Return True if ``--server`` was given."""
    return stated_server(context) is not None


def note_service() -> None:
    """Store that the command works with a service."""
    click.get_current_context().find_root().meta[_SERVICE] = True


def is_service_chosen() -> bool:
    """Return True if the command works with a service, also with that of a login."""
    return _SERVICE in click.get_current_context().find_root().meta


def platform_files() -> list[str]:
    """Return the platform's files: that of ``--platform``, else those at or above the command's files or the current
    directory.
    """
    given = click.get_current_context().params
    if given.get("platform"):
        return [str(given["platform"])]
    paths = [*(given.get("filenames") or ()), *(given.get("paths") or given.get("arguments") or ())]
    starts = [path if os.path.isdir(path) else os.path.dirname(path) or "." for path in paths if os.path.exists(path)]
    found = {os.path.relpath(file) for file in map(find_platform, starts or ["."]) if file is not None}
    return sorted(found)


def set_current_cluster(name: str) -> None:
    """Store the name of the cluster that the command currently works on, if it works on several."""
    click.get_current_context().find_root().meta[_CURRENT] = name
    note_target()


def note_target() -> None:
    """Let the commands in messages have the options that select the current command's cluster or service."""
    given, root = click.get_current_context().params, click.get_current_context().find_root()
    names = {"kubeconfig": given.get("kubeconfig"), "context": root.meta.get(_CONTEXT) or given.get("context")}
    kubectl = [f"--{option}={value}" for option, value in names.items() if value]
    set_target_options(shlex.join(_target_options()), shlex.join(kubectl))


def note_context(name: str | None) -> None:
    """Store the context that the platform has for the current cluster: kubectl does not know `--cluster` of gpuctl."""
    click.get_current_context().find_root().meta[_CONTEXT] = name
    note_target()


def recover_command(name: str | None = None) -> str:
    """Return the command line that recovers the current command's unfinished changes on the same cluster.

    :param name: the cluster; default: the current one.
    """
    return command_here("recover", cluster=name)


def command_here(*words: str, cluster: str | None = None) -> str:
    """Return a gpuctl command line with the options that select the current command's cluster or service.

    :param cluster: the cluster; default: the current one.
    """
    return shlex.join(["gpuctl", *words, *_target_options(cluster)])


def _target_options(cluster: str | None = None) -> list[str]:
    given = click.get_current_context().params
    current = click.get_current_context().find_root().meta.get(_CURRENT)
    name = cluster or current or next(iter(stated_clusters()), None)
    options = [f"--{option}={given[option]}" for option in ("kubeconfig", "context") if given.get(option)]
    options += [f"--server={server}" for server in (stated_server(),) if server]
    if name is not None:
        options.append(f"--cluster={name}")
    files = platform_files() if given.get("platform") or name is not None else []
    here = find_platform(".")
    if files and (here is None or os.path.realpath(files[0]) != os.path.realpath(here)):
        options.append(f"--platform={files[0]}")
    return options
