"""``gpuctl build``: compile documents to a directory of manifests."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuctl.apply.state.git_repository import repository_id
from gpuctl.backend.lowering_context import OutputOptions
from gpuctl.cli.options.document_options import (
    CompileOptions,
    check_delivery_options,
    delivery_options,
    input_options,
    offline_compile_options,
    placement_option,
    require_inputs,
)
from gpuctl.cli.output import text
from gpuctl.compilation import compile
from gpuctl.gitops import writer
from gpuctl.gitops.build_error import BuildError, RevisionError
from gpuctl.gitops.comparison import unified
from gpuctl.gitops.kept_namespaces import keep_namespaces
from gpuctl.gitops.kept_trainings import relowering_error
from gpuctl.gitops.layout import files_of, with_kustomization
from gpuctl.gitops.sources import build_sources, source_names
from gpuctl.gitops.writer import BuildOutcome
from gpuctl.language.display_text import visible
from gpuctl.objects.hashed_names import LOWERED_FROM
from gpuctl.usecases.revisions.kept_training_files import KeptFiles, keep_trainings

if TYPE_CHECKING:
    from gpuctl.compilation import Compilation
    from gpuctl.gitops.restarts import Restart


@click.command(
    "build",
    short_help="Compile documents to a directory of manifests, for git.",
    epilog="Examples:\n\n  $ gpuctl build training.yaml -o rendered\n\n"
    "  $ gpuctl build training.yaml -o rendered --check",
)
@input_options
@offline_compile_options
@placement_option
@click.option("-o", "--output", "directory", required=True, type=click.Path(), metavar="DIR", help="The directory.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 with the differences when DIR is out of date.")
@click.option("--force", is_flag=True, help="Also overwrite files that were edited by hand since the last build.")
@click.option("--allow-source", is_flag=True, help="Also remove the files of sources that this build does not read.")
@click.option(
    "--base",
    metavar="REV",
    help="Keep trainings that another version of gpuctl rendered from the same input, if this revision contains their "
    "files. Name a reviewed revision.",
)
@click.option("--relower", is_flag=True, help="Render such trainings again; they restart.")
@click.option("--kustomization", is_flag=True, help="Write a kustomization.yaml that lists the manifests.")
@click.option("--nodes", is_flag=True, help="Include the pools' Node labels. Never `kubectl delete` them.")
@click.option("--no-shared", is_flag=True, help="Omit the objects that jobs share: PriorityClasses and Namespaces.")
@click.option(
    "--remove-namespace",
    "removed",
    multiple=True,
    metavar="NAME",
    help="Remove the file of a namespace that no document needs; repeatable.",
)
@delivery_options("that of platform.yaml, else none")
@click.option("--embed", is_flag=True, help="Add each source document to its object as an annotation.")
def command(
    inputs: list[str],
    compiling: CompileOptions,
    cluster: str | None,
    directory: str,
    check: bool,
    force: bool,
    allow_source: bool,
    base: str | None,
    relower: bool,
    kustomization: bool,
    nodes: bool,
    no_shared: bool,
    removed: tuple[str, ...],
    gitops: str | None,
    job_names: str | None,
    embed: bool,
) -> int:
    """Compile documents to a directory of manifests, one object per file: NAMESPACE/KIND-NAME.yaml.

    Files that earlier builds wrote and this one does not are removed, except the files of namespaces: deleting a
    namespace deletes everything in it, so its file stays until --remove-namespace names it. Other files are never
    touched. Each file is replaced atomically. If a build is killed, --check reports it and the next build completes
    DIR.

    A training that another version of gpuctl rendered from the same input would get a new name in this version, and
    restart. --base keeps its files if they are in that revision; --relower renders it again. Without either option the
    build is refused.
    """
    if check and force:
        raise click.UsageError("--check writes nothing, so there is nothing to --force.")
    check_delivery_options(gitops, job_names)
    delivery: Any = {None: "platform", "none": None}.get(gitops, gitops)
    require_inputs(inputs, "gpuctl build jobs/ -o rendered")
    result = compile(
        inputs,
        **compiling.for_compile(),
        nodes=nodes,
        shared=not no_shared,
        gitops=delivery,
        embed=embed,
        namespaces=True,
        job_names=job_names,  # type: ignore[arg-type]
        # The directory may be among the inputs; its manifests are output, not sources.
        without=writer.resolve_directory(directory),
        cluster=cluster,
    )
    text.write(result.diagnostics, result.sources, sys.stderr)
    if not result.ok:
        return 1
    try:
        kept = keep_namespaces(directory, result, removed, OutputOptions(gitops=delivery))
        trainings = KeptFiles(files_of(result.lowered, source_names(inputs), kept=kept), [], [])
        if not relower:
            key = result.settings.label(LOWERED_FROM)
            trainings = keep_trainings(writer.resolve_directory(directory), trainings.files, key, base)
        if trainings.anew and base is None and not check:
            raise relowering_error(trainings.anew)
        files = with_kustomization(trainings.files) if kustomization else trainings.files
        sources = build_sources(
            inputs, writer.resolve_directory(directory), cluster, _identity, compiling.variant.profile
        )
        outcome = (
            writer.check(directory, files, sources=sources, allow_source=allow_source)
            if check
            else writer.build(directory, files, sources=sources, allow_source=allow_source, force=force)
        )
    except (BuildError, RevisionError) as error:
        for problem in getattr(error, "problems", [str(error)]):
            click.echo(f"error: {problem}", err=True)
        return 1
    for obj in kept:
        _note_kept_namespace(obj["metadata"]["name"])
    for training in trainings.kept:
        click.echo(f"kept: {training}: rendered by another version of gpuctl; --relower renders it again")
    if check and base is None and trainings.anew:
        click.echo(f"note: {relowering_error(trainings.anew)}", err=True)
    anew = [f"starts anew: {item.job}: {item.reason}" for item in _restarts(outcome, result.settings.label("document"))]
    code = _report_check(outcome, directory, anew) if check else _report(outcome, directory, anew)
    _warn_of_unread(outcome, result, check=check)
    return code


def _identity(root: Path) -> str | None:
    return repository_id(root)


def _warn_of_unread(outcome: BuildOutcome, result: Compilation, *, check: bool) -> None:
    """Warn if files are removed while some inputs were not read: their documents may be missing by mistake."""
    gone = [change.path for change in outcome.files if change.action == "remove"]
    if not gone or not result.unread:
        return
    files = dict.fromkeys(item.span.file for item in result.unread if item.span is not None)
    words = "would be removed" if check else "removed"
    click.echo(
        f"warning: {', '.join(gone)}: {words}, and these were not read as documents: {', '.join(files)}; "
        "if a document in them is meant to be compiled, the objects above are missing by mistake",
        err=True,
    )


def _restarts(outcome: BuildOutcome, document_key: str) -> list[Restart]:
    jobs = [change for change in outcome.files if change.path.rpartition("/")[2].startswith(("job-", "jobset-"))]
    from gpuctl.gitops.restarts import objects_of, renamed_trainings

    before = objects_of(change.before for change in jobs if change.before is not None)
    after = objects_of(change.after for change in jobs if change.after is not None)
    return renamed_trainings(before, after, document_key)


def _note_kept_namespace(name: str) -> None:
    click.echo(
        f"note: no document needs the namespace {name}; its file stays, because without it a controller may delete the "
        f"namespace and everything in it: `--remove-namespace {name}` removes the file",
        err=True,
    )


def _report(outcome: BuildOutcome, directory: str, anew: Sequence[str]) -> int:
    words = {"create": "created", "change": "changed", "remove": "removed"}
    for change in outcome.files:
        click.echo(f"{words[change.action]} {change.path}")
    for line in anew:
        click.echo(line)
    counts = [(sum(change.action == action for change in outcome.files), word) for action, word in words.items()]
    said = [f"{number} {word}" for number, word in (*counts, (outcome.unchanged, "unchanged")) if number]
    click.echo(f"{visible(directory)}: {', '.join(said) or 'nothing to do'}")
    return 0


def _report_check(outcome: BuildOutcome, directory: str, anew: Sequence[str]) -> int:
    name = visible(directory)
    if not outcome.changes:
        click.echo(f"{name} is up to date")
        return 0
    click.echo(f"{name} is out of date:")
    words = {"create": "missing", "change": "differs", "remove": "stale"}
    for change in outcome.changes:
        by_hand = " (edited by hand)" if change.path in outcome.edited else ""
        click.echo(f"  {words[change.action]:<7} {change.path}{by_hand}")
    for line in anew:
        click.echo(f"  {line}")
    for change in outcome.files:
        sys.stdout.writelines(unified(change, f"{name} (now)", f"{name} (built)"))
    return 1
