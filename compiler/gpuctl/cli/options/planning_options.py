"""Options of commands that plan a change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.cli.options.bound_options import bound
from gpuctl.cli.options.document_options import CompileOptions
from gpuctl.usecases.documents.change_options import DocumentOptions

Function = TypeVar("Function", bound=Callable[..., Any])


queue_option = click.option("--queue", is_flag=True, help="Allow a full quota: the pods start when the quota has room.")


def dry_run_option(help: str) -> Callable[[Function], Function]:
    """Return the decorator for ``--dry-run [client|server]``; without a value it means ``server``."""
    kinds = click.Choice(["client", "server"])
    return click.option("--dry-run", type=kinds, is_flag=False, flag_value="server", help=help)


_checking = (
    click.option(
        "--create-namespace", is_flag=True, help="Create the namespace of -n or of the context if it does not exist."
    ),
    click.option("--no-probe", is_flag=True, help="Report a refused dry-run pod as a note, not an error."),
    queue_option,
)
checking_options = bound("planning", PlanOptions, *_checking)
"""Adds the options of commands that check a plan; the command gets :class:`PlanOptions`."""
planning_options = bound(
    "planning",
    PlanOptions,
    click.option(
        "--set",
        "set_name",
        metavar="NAME",
        help="The set of objects for --prune: Secret NAME in the namespace of -n or the context.",
    ),
    click.option("--prune", is_flag=True, help="Delete objects of the set that the documents no longer contain."),
    click.option("--allow-source", is_flag=True, help="Allow other source files than the set's last ones."),
    click.option("--allow-older", is_flag=True, help="Allow an older commit than the set's last one."),
    click.option("--allow-empty", is_flag=True, help="Let --prune delete everything if there are no documents."),
    click.option("--allow-skipped", is_flag=True, help="Let --prune delete although some files were not read."),
    click.option("--strategy", type=click.Choice(["replace", "rolling"]), help="How to update changed services."),
    click.option("--relower", is_flag=True, help="Also replace what differs only because of a newer gpuctl."),
    click.option("--adopt", is_flag=True, help="Take over objects and fields of other field managers."),
    *_checking,
)
"""Adds the options of a plan; the command gets :class:`PlanOptions`."""


def documents_of(options: CompileOptions, inputs: Sequence[str]) -> DocumentOptions:
    """Return the documents of a command that plans a change, with the options of their compilation."""
    return DocumentOptions(inputs, options.platform, options.namespace, options.strict, variant=options.variant)
