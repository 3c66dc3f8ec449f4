"""Errors of comparisons with revisions: messages, and the exit code of what cannot be compared."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from gpuctl.api.error_meanings import UNDETERMINED
from gpuctl.cli.output import text
from gpuctl.gitops.build_error import BuildError, RevisionError


@contextmanager
def revision_errors() -> Iterator[None]:
    """Turn errors in revisions, manifests and documents into messages that end the command."""
    from gpuctl.usecases.revisions.revision_pairs import InvalidRevisionDocuments

    try:
        yield
    except RevisionError as error:
        raise click.UsageError(str(error)) from None
    except BuildError as error:
        for problem in error.problems:
            click.echo(f"error: {problem}", err=True)
        raise click.exceptions.Exit(UNDETERMINED) from None
    except InvalidRevisionDocuments as error:
        text.write(error.diagnostics, error.sources, sys.stderr)
        if error.side:
            click.echo(f"error: the documents {error.side} do not compile", err=True)
        raise click.exceptions.Exit(UNDETERMINED) from None
