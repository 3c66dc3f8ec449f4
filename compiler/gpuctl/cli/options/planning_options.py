"""From a command line's documents to a request for the cluster half."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from gpuctl.apply.plan.request import Request, SetOptions
    from gpuctl.compilation import Compilation
    from gpuctl.kube.connection import Connection
    from gpuctl.language.settings import Settings

Function = TypeVar("Function", bound=Callable[..., Any])


class Documents(NamedTuple):
    """Which documents, and how they are compiled."""

    inputs: list[str]
    platform: str | None
    namespace: str | None
    strict: bool


class Planning(NamedTuple):
    """How a plan is to be made: the options that ``apply`` and ``diff`` share."""

    set_name: str | None = None
    prune: bool = False
    allow_source: bool = False
    allow_empty: bool = False
    allow_skipped: bool = False
    strategy: str | None = None
    relower: bool = False
    adopt: bool = False
    no_probe: bool = False
    create_namespace: bool = False


def checking_options(function: Function) -> Function:
    """Options of everything that checks a plan."""
    for decorate in (
        click.option("--no-probe", is_flag=True, help="Make it a note, not an error, when a trial pod is refused."),
        click.option(
            "--create-namespace",
            is_flag=True,
            help="Create the namespace of -n or of the context if it is absent.",
        ),
    ):
        function = decorate(function)
    return function


def planning_options(function: Function) -> Function:
    """The options of :class:`Planning`, by the names of its fields."""
    for decorate in (
        checking_options,
        click.option("--adopt", is_flag=True, help="Take over objects and fields that others hold."),
        click.option("--relower", is_flag=True, help="Replace also what only a newer gpuctl lowers otherwise."),
        click.option("--strategy", type=click.Choice(["replace", "rolling"]), help="How changed services are changed."),
        click.option("--allow-skipped", is_flag=True, help="Let --prune delete although some files were not read."),
        click.option("--allow-empty", is_flag=True, help="Let --prune delete all, when there is no document left."),
        click.option("--allow-source", is_flag=True, help="Let the set come from other files than before."),
        click.option("--prune", is_flag=True, help="Delete what the set contains and the documents no longer do."),
        click.option("--set", "set_name", metavar="NAME", help="The set that the documents are, for --prune."),
    ):
        function = decorate(function)
    return function


def compiled(connection: Connection, documents: Documents, *, as_json: bool, empty: bool = False) -> Compilation:
    """Compile for a cluster: nodes included, documents embedded; what is wrong with them ends the command (1).

    :param empty: no document at all is in order.
    """
    from gpuctl.cli.output import json as json_printer
    from gpuctl.cli.output import text
    from gpuctl.compilation import compile

    result = compile(
        documents.inputs,
        platform=documents.platform,
        namespace=documents.namespace or connection.namespace,
        strict=documents.strict,
        nodes=True,
        embed=True,
        namespaces=True,
    )
    if empty and _is_nothing(result, documents.inputs):
        return result
    # Whether a pool exists is asked of the cluster, not of the documents.
    told = [item for item in result.diagnostics if item.code != "GPU401" or not result.ok]
    text.write(told, result.sources, sys.stderr)
    if not result.ok:
        if as_json:
            click.echo(json_printer.render(result.diagnostics), nl=False)
        raise click.exceptions.Exit(1)
    return result


def _is_nothing(result: Compilation, inputs: Sequence[str]) -> bool:
    """Whether the inputs are there and hold no document: an empty directory, or files of somebody else's."""
    from gpuctl.frontend.diagnostics import Severity

    there = all(name == "-" or os.path.exists(name) for name in inputs)
    errors = {item.code for item in result.diagnostics if item.severity is Severity.ERROR}
    return there and not result.documents and errors <= {"GPU009", "GPU013"}


def platform_settings(platform: str | None) -> Settings:
    """The platform's settings for a command without documents; what is wrong with the file ends the command (1)."""
    from gpuctl.frontend.source import find_platform
    from gpuctl.language.settings import Settings

    if platform is None and find_platform(".") is None:
        # What reads and binds a file costs more than all else that a command which only looks does.
        return Settings()
    from gpuctl.backend.validation import VERSIONS
    from gpuctl.cli.output import text
    from gpuctl.frontend.diagnostics import Severity, count
    from gpuctl.frontend.load import load_platform

    loaded = load_platform(platform, versions=VERSIONS)
    text.write(loaded.diagnostics, loaded.sources, sys.stderr)
    if count(loaded.diagnostics, Severity.ERROR):
        raise click.exceptions.Exit(1)
    return loaded.settings


def request_of(
    compilation: Compilation, planning: Planning, *, create_only: bool = False, offline: bool = False
) -> Request:
    """The request for a compilation's objects."""
    from gpuctl.apply.plan.request import Request
    from gpuctl.apply.state.records import records

    settings = compilation.settings
    return Request(
        compilation.lowered,
        records(settings),
        relower=planning.relower,
        adopt=planning.adopt,
        rolling=None if planning.strategy is None else planning.strategy == "rolling",
        create_only=create_only,
        offline=offline,
        platform_rolling=settings.platform.strategy == "rolling",
        no_probe=planning.no_probe,
        create_namespace=planning.create_namespace,
        gpu_resources=frozenset(gpu.resource for gpu in settings.gpus.values()),
        settings=settings,
        unread=tuple(dict.fromkeys(item.span.file for item in compilation.unread if item.span is not None)),
    )


def set_options(connection: Connection, planning: Planning, documents: Documents) -> SetOptions | None:
    """What ``--set`` and its companions say."""
    if planning.set_name is None:
        for flag, given in (
            ("--prune", planning.prune),
            ("--allow-source", planning.allow_source),
            ("--allow-empty", planning.allow_empty),
            ("--allow-skipped", planning.allow_skipped),
        ):
            if given:
                raise click.UsageError(f"{flag} needs --set NAME: only what a set applied earlier can be pruned")
        return None
    from gpuctl.apply.plan.request import SetOptions
    from gpuctl.apply.state.provenance import sources_of
    from gpuctl.language.names import is_dns_label

    name = planning.set_name
    if not is_dns_label(name):
        raise click.UsageError(f"`{name}` is not a legal name of a set: use lower case letters, digits and -")
    return SetOptions(
        name,
        documents.namespace or connection.namespace,
        sources_of(documents.inputs, Path.cwd()),
        prune=planning.prune,
        allow_source=planning.allow_source,
        allow_empty=planning.allow_empty,
        allow_skipped=planning.allow_skipped,
    )
