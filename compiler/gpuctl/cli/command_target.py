"""The clusters, and the service, that the current command was given by name, and the one that it is at work on."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

import click

from gpuctl.frontend.platform_file import find_platform

_CLUSTER = f"{__name__}--cluster"
_SERVER = f"{__name__}--server"
_CURRENT = f"{__name__} current"


def note_clusters(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> None:
    """What ``--cluster`` was given, for whoever connects."""
    if value:
        context.find_root().meta[_CLUSTER] = tuple(dict.fromkeys(value))


def stated_clusters() -> tuple[str, ...]:
    """The names that ``--cluster`` was given, each once."""
    found: tuple[str, ...] = click.get_current_context().find_root().meta.get(_CLUSTER, ())
    return found


def note_server(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Note what ``--server`` was given."""
    if value is not None:
        context.find_root().meta[_SERVER] = value


def stated_server(context: click.Context | None = None) -> str | None:
    """Return what ``--server`` was given."""
    stated: str | None = (context or click.get_current_context()).find_root().meta.get(_SERVER)
    return stated


def is_server_stated(context: click.Context | None = None) -> bool:
    """Return True if ``--server`` was given."""
    return stated_server(context) is not None


def platform_files() -> list[str]:
    """The platform's files: that of ``--platform``, else those at or above the files that the command names, or the
    current directory."""
    given = click.get_current_context().params
    if given.get("platform"):
        return [str(given["platform"])]
    paths = [*(given.get("filenames") or ()), *(given.get("paths") or given.get("arguments") or ())]
    starts = [path if os.path.isdir(path) else os.path.dirname(path) or "." for path in paths if os.path.exists(path)]
    found = {os.path.relpath(file) for file in map(find_platform, starts or ["."]) if file is not None}
    return sorted(found)


def set_current_cluster(name: str) -> None:
    """Note on which of several clusters the command is at work."""
    click.get_current_context().find_root().meta[_CURRENT] = name


def with_recover_options(text: str) -> str:
    """A text whose advice to recover is for the cluster that the command is at work on."""
    if "`gpuctl recover" not in text or not (
        stated_clusters() or _CURRENT in click.get_current_context().find_root().meta
    ):
        return text
    return text.replace("`gpuctl recover", f"`{recover_command()}")


def recover_command(name: str | None = None) -> str:
    """Return the command that finishes on the same cluster what the current command began.

    :param name: the cluster; default: the one that the command is at work on.
    """
    return command_here("recover", cluster=name)


def command_here(*words: str, cluster: str | None = None) -> str:
    """Return a gpuctl command line for the cluster, or the service, that the current command was given.

    :param cluster: the cluster; default: the one that the command is at work on.
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
