"""Options that name documents, and options of compilation and delivery."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from gpuctl.cli.options.bound_options import bound
from gpuctl.cli.options.completion_callbacks import complete_cluster, complete_namespace
from gpuctl.cli.options.platform_option import platform_option
from gpuctl.frontend.document_variant import OPTION, Variant
from gpuctl.language.names import is_dns_label, nearest_dns_label

Function = TypeVar("Function", bound=Callable[..., Any])


input_options = bound(
    "inputs",
    lambda filenames, paths: [*filenames, *paths],
    click.option(
        "-f",
        "--filename",
        "filenames",
        multiple=True,
        metavar="FILE",
        help="A file, a directory (recursive), or - for standard input; repeatable.",
    ),
    click.argument("paths", nargs=-1, type=click.Path(), metavar="[FILE]..."),
)
"""Adds ``-f`` (repeatable) and the FILE arguments; the command gets the ``inputs`` in order."""


def check_namespace_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check the syntax of a namespace's name."""
    if value is not None and not is_dns_label(value):
        legal = nearest_dns_label(value)
        hint = f" Did you mean `{legal}`?" if legal else ""
        raise click.BadParameter(f"`{value}` is not a legal namespace name.{hint}", context, parameter)
    return value


def namespace_option(help: str, default: str | None = None) -> Callable[[Function], Function]:
    """Return the decorator for ``-n``."""
    return click.option(
        "-n",
        "--namespace",
        default=default,
        metavar="NAME",
        callback=check_namespace_name,
        shell_complete=complete_namespace,
        help=help,
    )


only_namespace_option = namespace_option("Only this namespace. Default: all.")
"""Adds ``-n`` to a command that reads several namespaces."""
job_namespace_option = namespace_option("Namespace of the job. Default: all are searched; the name must be unique.")
"""Adds ``-n`` to a command that takes the names of jobs."""


class CompileOptions(NamedTuple):
    """Options of compilation.

    :param namespace: namespace of jobs that set none; None: the context's.
    """

    platform: str | None
    namespace: str | None
    strict: bool
    variant: Variant

    @property
    def offline_namespace(self) -> str:
        """The namespace of jobs that set none, for commands without a cluster."""
        return self.namespace or "default"

    def for_compile(self) -> dict[str, Any]:
        """Return the arguments of :func:`gpuctl.compile` for commands without a cluster."""
        return {
            "platform": self.platform,
            "namespace": self.offline_namespace,
            "strict": self.strict,
            "profile": self.variant.profile,
            "overrides": self.variant.overrides,
        }


def _compile_options_of(
    platform: str | None, namespace: str | None, strict: bool, profile: str | None, overrides: Sequence[str] = ()
) -> CompileOptions:
    return CompileOptions(platform, namespace, strict, Variant(profile, tuple(overrides)))


def _compile_options(namespace: str | None, help: str) -> Callable[..., Any]:
    return bound(
        "compiling",
        _compile_options_of,
        namespace_option(help, namespace),
        platform_option("The platform's settings. Default: platform.yaml at or above the files, up to the git root."),
        click.option("--strict", is_flag=True, help="Treat warnings as errors."),
        click.option(
            "--profile", metavar="NAME", help="Merge this entry of `profiles` into the documents that have profiles."
        ),
    )


compile_options = _compile_options(None, "Namespace of jobs that set none. Default: the context's.")
"""Adds the options of commands that compile for a cluster; the command gets :class:`CompileOptions`."""
offline_compile_options = _compile_options("default", "Namespace of jobs that set none.")
"""Adds the options of commands that compile without a cluster; the command gets :class:`CompileOptions`."""


def override_option(function: Function) -> Function:
    """Add ``--with`` to the options of :data:`compile_options`."""
    return click.option(
        OPTION,
        "overrides",
        multiple=True,
        metavar="[JOB:]PATH=VALUE",
        help="Override a field for this run, such as resources.gpu=8; repeatable.",
    )(function)


def placement_option(function: Function) -> Function:
    """Add ``--cluster`` to a command that does not connect to a cluster."""
    return click.option(
        "--cluster",
        metavar="NAME",
        callback=_checked_cluster,
        shell_complete=complete_cluster,
        help="Compile only documents for this cluster, by their `placement`.",
    )(function)


def _checked_cluster(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check the syntax of a cluster's name; whether the platform defines it is checked after the platform was read."""
    if value is not None and not is_dns_label(value):
        raise click.BadParameter(f"`{value}` is not a legal name of a cluster.", context, parameter)
    return value


CONTROLLERS = ["argocd", "flux", "none"]
"""Values of ``--gitops``."""


def delivery_options(default: str) -> Callable[[Function], Function]:
    """Return the decorator for ``--gitops`` and ``--job-names``.

    :param default: the default of ``--gitops``, for its help text.
    """

    def decorated(function: Function) -> Function:
        return _delivery_options(function, default)

    return decorated


def _delivery_options(function: Function, default: str) -> Function:
    for decorate in (
        click.option(
            "--job-names",
            type=click.Choice(["hashed", "plain"]),
            help="With --gitops: put a hash into the names of a training's objects, so that a controller replaces only "
            "changed trainings. Default: hashed.",
        ),
        click.option(
            "--gitops",
            type=click.Choice(CONTROLLERS),
            help=f"Adapt the output to this GitOps controller. Default: {default}.",
        ),
    ):
        function = decorate(function)
    return function


def check_delivery_options(gitops: str | None, job_names: str | None) -> None:
    """Reject hashed names without a GitOps controller: nothing would delete the objects with the previous name."""
    if job_names == "hashed" and gitops in (None, "none"):
        raise click.UsageError(
            "--job-names hashed needs --gitops: nothing else removes objects with the previous names."
        )


def require_inputs(inputs: Sequence[str], example: str) -> None:
    """Raise a usage error with an example if no input is named."""
    if not inputs:
        raise click.UsageError(f"Name a file, a directory, or - for standard input: `{example}`")
