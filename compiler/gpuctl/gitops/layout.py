"""The file of each object: ``{namespace | _cluster}/{kind}-{name}.yaml``, in lower case.

A path depends on its object alone, so a reviewer finds it, and a change of one document changes one file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from gpuctl.backend.emitter import emit_object
from gpuctl.backend.lowering_context import Lowered
from gpuctl.backend.object_order import sort_key
from gpuctl.gitops.build_error import BuildError
from gpuctl.language.display_text import visible
from gpuctl.objects.api_resources import Object

CLUSTER = "_cluster"
"""The directory of cluster-scoped objects. No namespace can have this name."""
KUSTOMIZATION = "kustomization.yaml"
# All common file systems limit file names to 255 bytes.
_LONGEST_NAME = 255
# Names that Windows rejects; the repository may be checked out there.
_ILLEGAL = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]|[. ]\Z|\A[. ]')
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|\Z)")


class File(NamedTuple):
    """A file to write. ``source``: the place of its document; None if several documents share the object.

    ``object`` is None for ``kustomization.yaml``, which is not applied to a cluster.
    """

    path: str
    data: bytes
    source: str | None = None
    object: Object | None = None


def files_of(
    lowered: Iterable[Lowered],
    source_name: Callable[[str], str],
    *,
    kept: Iterable[Object] = (),
) -> dict[str, File]:
    """Return path -> file for all objects, in the order of application.

    :param source_name: maps the name of a source to a name that is the same on every machine.
    :param kept: objects that no document needs and whose files stay.
    :raises BuildError: two objects would share a file, or a file system rejects a name.
    """
    files = {path_of(obj): File(path_of(obj), emit_object(obj).encode(), None, obj) for obj in kept}
    owners: dict[str, Lowered] = {}
    problems: list[str] = []
    for item in lowered:
        path = path_of(item.object)
        reason = illegal(path)
        if reason is not None:
            problems.append(f"{_place(item)}: {_title(item.object)} would be the file `{visible(path)}`, and {reason}")
            continue
        other = owners.setdefault(path, item)
        if other is not item:
            first, second = sorted((other, item), key=_place)
            problems.append(
                f"{_place(second)}: {_title(second.object)} and {_title(first.object)} of {_place(first)} "
                f"would both be the file `{path}`: rename one of the two"
            )
            continue
        source = None if item.shared else source_name(item.document.file)
        files[path] = File(path, emit_object(item.object).encode(), source, item.object)
    if problems:
        raise BuildError(*problems)
    return in_order(files.values())


def in_order(files: Iterable[File]) -> dict[str, File]:
    """Return path -> file, in the order of application."""
    return {file.path: file for file in sorted(files, key=lambda file: sort_key(file.object or {}))}


def with_kustomization(files: Mapping[str, File]) -> dict[str, File]:
    """Return the files and a ``kustomization.yaml`` that lists them."""
    return {**files, KUSTOMIZATION: File(KUSTOMIZATION, _kustomization(files))}


def path_of(obj: Object) -> str:
    """Return the path of an object's file, relative to the directory, with ``/``."""
    metadata = obj["metadata"]
    return f"{metadata.get('namespace') or CLUSTER}/{obj['kind']}-{metadata['name']}.yaml".lower()


@lru_cache(maxsize=2**14)
def illegal(path: str) -> str | None:
    """Return why ``build`` must not write a path, as a clause; None if it may.

    The path may leave the directory, or file systems may reject it.
    """
    if path == KUSTOMIZATION:
        return None
    parts = path.split("/")
    if len(parts) != 2 or not path.endswith(".yaml"):
        return "gpuctl never writes such a path: rename the object"
    for part in parts:
        if not part or _ILLEGAL.search(part) or _RESERVED.match(part):
            return f"file systems reject the name `{visible(part)}`: rename the object or its namespace"
        if len(part.encode("utf-8", "surrogateescape")) > _LONGEST_NAME:
            return f"a file's name has at most {_LONGEST_NAME} bytes: shorten the object's name"
    return None


def _kustomization(files: Iterable[str]) -> bytes:
    resources = list(files)
    value: Object = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources}
    return emit_object(value).encode()


def _place(item: Lowered) -> str:
    return visible(str(item.document.span()))


def _title(obj: Object) -> str:
    return f"{obj['kind']} `{visible(obj['metadata']['name'])}`"
