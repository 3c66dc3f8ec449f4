"""Namespace files in a directory of manifests, which outlive the documents that needed them.

A controller that prunes deletes objects that are gone from git. Deleting a Namespace deletes everything in it: volumes,
Secrets, jobs of other users. Therefore a Namespace's file is removed only by name (``--remove-namespace``), not with
the last document.
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
    """Return the Namespaces that a directory has from earlier builds and that this build does not render, lowered anew.

    :param removed: names of Namespaces whose files are to be removed.
    :raises BuildError: the directory cannot be read, or a name in ``removed`` is needed by a document or has no file.
    """
    needed = {item.object["metadata"]["name"] for item in result.lowered if item.object["kind"] == "Namespace"}
    paths = owned_paths(resolve_directory(directory), f"{CLUSTER}/namespace-")
    there = {match[1] for path in paths for match in [_FILE.fullmatch(path)] if match}
    problems = [
        f"--remove-namespace {name}: documents need the namespace; remove them first"
        if name in needed
        else f"--remove-namespace {name}: `{directory}` has no file for this namespace"
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
