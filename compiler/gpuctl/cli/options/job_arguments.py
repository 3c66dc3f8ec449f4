"""Arguments and options of commands that act on jobs named on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gpuctl.cli.options.completion_callbacks import complete_job
from gpuctl.cli.options.connection_options import json_option
from gpuctl.cli.options.document_options import job_namespace_option
from gpuctl.cli.options.reading_options import reading_options
from gpuctl.cli.options.sweep_option import sweep_option

Function = TypeVar("Function", bound=Callable[..., Any])


def job_arguments(function: Function) -> Function:
    """Add the JOB arguments, ``--sweep``, ``-n``, ``-o`` and the connection options."""
    for decorate in (
        json_option,
        job_namespace_option,
        sweep_option(),
        click.argument("names", nargs=-1, metavar="[JOB]...", shell_complete=complete_job),
        reading_options,
    ):
        function = decorate(function)
    return function
