"""Namespaces in a directory of manifests: their files outlive the documents that needed them.

A controller that prunes deletes what is gone from git, and a Namespace takes all that is in it along: volumes, Secrets,
jobs that others started. So a Namespace's file goes when somebody names it, and not with the last document.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from gpuctl.backend import shared_objects
from gpuctl.backend.gitops_annotations import annotate
from gpuctl.backend.lowering_context import Context, OutputOptions
from gpuctl.compilation import Compilation
from gpuctl.gitops.build_error import BuildError
from gpuctl.gitops.directory_state import owned_paths
from gpuctl.gitops.layout import CLUSTER
from gpuctl.gitops.writer import resolve_directory
from gpuctl.objects.api_resources import Object

_FILE = re.compile(rf"{CLUSTER}/namespace-(.+)\.yaml")


def keep_namespaces(
    directory: str | os.PathLike[str], result: Compilation, removed: Collection[str], options: OutputOptions
) -> list[Object]:
    """The Namespaces whose files a directory has from earlier builds and this one does not yield, as lowered today.

    :param removed: the names of those whose files are to go.
    :raises BuildError: the directory cannot be read; a document needs a namespace that is to go, or it has no file.
    """
    needed = {item.object["metadata"]["name"] for item in result.lowered if item.object["kind"] == "Namespace"}
    paths = owned_paths(resolve_directory(directory), f"{CLUSTER}/namespace-")
    there = {match[1] for path in paths for match in [_FILE.fullmatch(path)] if match}
    problems = [
        f"--remove-namespace {name}: documents need the namespace; remove them first"
        if name in needed
        else f"--remove-namespace {name}: `{directory}` has no file of such a namespace"
        for name in removed
        if name in needed or name not in there
    ]
    if problems:
        raise BuildError(*problems)
    kept: list[Object] = []
    names = sorted(there - needed - set(removed))
    context = Context(result.settings, options)
    for name in names:
        namespace = shared_objects.namespace(context, name)
        if namespace is not None:
            if context.options.gitops is not None:
                annotate(context, namespace)
            kept.append(namespace)
    return kept
