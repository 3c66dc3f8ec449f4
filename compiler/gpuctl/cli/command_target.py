"""The target of the current command: the clusters of ``--cluster``, the service of ``--server``, and the current
cluster.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

import click

from gpuctl.frontend.platform_file import find_platform

_CLUSTER = f"{__name__}--cluster"
_SERVER = f"{__name__}--server"
_SERVICE = f"{__name__} service"
_CURRENT = f"{__name__} current"


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
    """Store the name of the cluster that the command currently changes, if it changes several."""
    click.get_current_context().find_root().meta[_CURRENT] = name


def with_recover_options(text: str) -> str:
    """Return a text whose `gpuctl recover` commands name the current cluster."""
    if "`gpuctl recover" not in text or not (
        stated_clusters() or _CURRENT in click.get_current_context().find_root().meta
    ):
        return text
    return text.replace("`gpuctl recover", f"`{recover_command()}")


def recover_command(name: str | None = None) -> str:
    """Return the command line that recovers the current command's unfinished changes on the same cluster.

    :param name: the cluster; default: the current one.
    """
    return command_here("recover", cluster=name)


def command_here(*words: str, cluster: str | None = None) -> str:
    """Return a gpuctl command line with the options that select the current command's cluster or service.

    :param cluster: the cluster; default: the current one.
    """
    given = click.get_current_context().params
    current = click.get_current_context().find_root().meta.get(_CURRENT)
    name = cluster or current or next(iter(stated_clusters()), None)
    line = ["gpuctl", *words]
    line += [f"--{option}={given[option]}" for option in ("kubeconfig", "context") if given.get(option)]
    line += [f"--server={server}" for server in (stated_server(),) if server]
    if name is not None:
        line.append(f"--cluster={name}")
    files = platform_files() if given.get("platform") or name is not None else []
    here = find_platform(".")
    if files and (here is None or os.path.realpath(files[0]) != os.path.realpath(here)):
        line.append(f"--platform={files[0]}")
    return " ".join(map(shlex.quote, line))
