"""Keep the trainings in a build directory that another version of gpuctl rendered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gpuctl.gitops.kept_trainings import OlderTraining, older_trainings, trusted_trainings, with_kept_files
from gpuctl.gitops.layout import File
from gpuctl.gitops.manifest import MANIFEST
from gpuctl.usecases.revisions.files_at_revision import contents_at


class KeptFiles(NamedTuple):
    """The files of a build, the trainings whose files it keeps, and those that it would render again."""

    files: Mapping[str, File]
    kept: list[OlderTraining]
    anew: list[OlderTraining]


def keep_trainings(directory: Path, files: Mapping[str, File], key: str, base: str | None) -> KeptFiles:
    """Keep trainings in a directory that differ only because another version of gpuctl rendered them.

    :param files: the output of this version.
    :param key: annotation with the digest of what a training was lowered from.
    :param base: revision whose files may be kept; None to keep nothing.
    :raises BuildError: the directory cannot be read.
    :raises RevisionError: the revision does not exist, or the directory is not in a repository.
    """
    older = older_trainings(directory, files, key)
    if base is None:
        return KeptFiles(files, [], older)
    paths = [MANIFEST, *(path for training in older for path in training.files)] if older else []
    kept = trusted_trainings(older, contents_at(base, directory, paths), f"{MANIFEST} at {base}")
    anew = [training for training in older if training not in kept]
    return KeptFiles(with_kept_files(files, kept) if kept else files, kept, anew)
