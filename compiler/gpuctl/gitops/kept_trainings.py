"""Trainings in a built directory that another version of gpuctl rendered differently from the same document.

This version gives their objects other names, so a GitOps controller would restart them. A build can keep their files. A
pull request can write any file and its line in the manifest, so the directory itself is not trusted: a file is kept
only if a revision that the user trusts has the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpuctl.gitops.build_error import BuildError
from gpuctl.gitops.directory_state import read_plain
from gpuctl.gitops.layout import File, in_order
from gpuctl.gitops.manifest import MANIFEST, OwnedHashes, digest, parse_manifest
from gpuctl.gitops.object_changes import read_object
from gpuctl.objects.hashed_names import CHANGEABLE, job_of_hashed_name, without_suffix

_KINDS = {kind.lower(): kind for kind in ("JobSet", "Job", "Service", "ConfigMap", "ResourceClaimTemplate")}
_FILE = re.compile(rf"([^/]+)/({'|'.join(_KINDS)})-(.+)\.yaml")
_MAIN = frozenset(kind.lower() for kind in CHANGEABLE)
_NAMED = 3


class Generation(NamedTuple):
    """The objects of a training with one hash in their names."""

    namespace: str
    name: str

    @property
    def job(self) -> tuple[str, str | None]:
        """The namespace and name of the training."""
        return self.namespace, job_of_hashed_name(self.name)


class OlderTraining(NamedTuple):
    """A training in a directory that another version of gpuctl rendered differently.

    ``files``: its files in the directory. ``replacing``: the paths that this version writes instead.
    """

    namespace: str
    name: str
    files: Mapping[str, File]
    replacing: Sequence[str]

    def __str__(self) -> str:
        return f"training {self.name} in {self.namespace}"


def older_trainings(directory: Path, files: Mapping[str, File], key: str) -> list[OlderTraining]:
    """Return the trainings of a directory that this version of gpuctl renders differently from the same document.

    Trainings with files edited since their build are left out.

    :param files: the files that this version renders.
    :param key: the annotation with the digest of the training's input.
    :raises BuildError: the manifest of the directory is damaged, or a file cannot be read.
    """
    anew = {
        path: generation
        for path in files
        for generation in [_generation(path)]
        if generation is not None and _is_main(path) and not (directory / path).is_file()
    }
    if not anew:
        return []
    owned = parse_manifest(read_plain(directory / MANIFEST), str(directory / MANIFEST))
    there, wanted = _by_generation(owned), _by_generation(files)
    by_job: dict[tuple[str, str | None], list[Generation]] = {}
    for generation in there:
        by_job.setdefault(generation.job, []).append(generation)
    found = []
    for path, generation in anew.items():
        namespace, name = generation.namespace, str(job_of_hashed_name(generation.name))
        source = files[path].source
        lowered_from = _annotation(read_object(files[path].data), key)
        for other in by_job.get(generation.job, []):
            old = _standing(directory, there[other], owned, name, source)
            mains = [file for file in old.values() if _is_main(file.path)]
            if len(mains) != 1 or old.keys() & files.keys():
                continue
            if lowered_from is not None and _annotation(mains[0].object, key) == lowered_from:
                replacing = [each for each in wanted[generation] if files[each].source == source]
                found.append(OlderTraining(namespace, name, old, replacing))
                break
    return sorted(found, key=str)


def trusted_trainings(trainings: Iterable[OlderTraining], at: Mapping[str, bytes], name: str) -> list[OlderTraining]:
    """Return the trainings whose files a trusted revision of the directory has, byte for byte and in its manifest.

    :param at: path -> content at that revision, the manifest included.
    :param name: the name of the manifest, for messages.
    :raises BuildError: the manifest of the revision is damaged.
    """
    owned = parse_manifest(at.get(MANIFEST, b""), name)
    whole = _by_generation(owned)

    def is_vouched(training: OlderTraining) -> bool:
        # All files of a training must match: a pull request can also remove one of them.
        generations = {generation for generation in map(_generation, training.files) if generation is not None}
        paths = {path for generation in generations for path in whole.get(generation, ())}
        files = training.files.values()
        return paths == training.files.keys() and all(
            at.get(file.path) == file.data and _is_owned(file.path, file.data, owned) for file in files
        )

    return list(filter(is_vouched, trainings))


def with_kept_files(files: Mapping[str, File], kept: Iterable[OlderTraining]) -> dict[str, File]:
    """Return the files of a build that keeps the directory's files of some trainings."""
    result = dict(files)
    for training in kept:
        for path in training.replacing:
            del result[path]
        result.update(training.files)
    return in_order(result.values())


def relowering_error(trainings: Sequence[OlderTraining]) -> BuildError:
    """Return the error for a build that would restart trainings although their documents did not change."""
    more = [f"{len(trainings) - _NAMED} more"] if len(trainings) > _NAMED else []
    names = ", ".join([*map(str, trainings[:_NAMED]), *more])
    return BuildError(
        f"{names}: another version of gpuctl rendered this, and the document is unchanged; with the files of this "
        "version it restarts: keep the files of a reviewed revision with `--base REV`, such as "
        "`--base origin/main`, or render them anew with --relower"
    )


def _by_generation(paths: Iterable[str]) -> dict[Generation, list[str]]:
    """Return paths by training generation; paths of objects without a hash in their name are left out."""
    found: dict[Generation, list[str]] = {}
    for path in paths:
        generation = _generation(path)
        if generation is not None:
            found.setdefault(generation, []).append(path)
    return found


def _generation(path: str) -> Generation | None:
    match = _FILE.fullmatch(path)
    name = without_suffix(_KINDS[match[2]], match[3]) if match is not None else ""
    return Generation(match[1], name) if match is not None and job_of_hashed_name(name) is not None else None


def _is_main(path: str) -> bool:
    match = _FILE.fullmatch(path)
    return match is not None and match[2] in _MAIN


def _standing(
    directory: Path, paths: Iterable[str], owned: OwnedHashes, job: str, source: str | None
) -> dict[str, File]:
    """Return the files of a training generation in a directory; empty if one is missing or was edited."""
    found = {}
    for path in paths:
        data = read_plain(directory / path)
        obj = read_object(data)
        if not _is_owned(path, data, owned) or obj is None:
            return {}
        if (obj["metadata"].get("labels") or {}).get("app") == job:
            found[path] = File(path, data, source, obj)
    return found


def _is_owned(path: str, data: bytes, owned: OwnedHashes) -> bool:
    return digest(data) in owned.get(path, ())


def _annotation(obj: Any, key: str) -> str | None:
    found = ((obj or {}).get("metadata", {}).get("annotations") or {}).get(key)
    return found if isinstance(found, str) else None
