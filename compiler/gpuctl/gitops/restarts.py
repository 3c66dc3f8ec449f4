"""Jobs that a change restarts.

A training restarts if fields differ that cannot change in place, because its objects then get other names. A service
restarts if its pod template differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gpuctl.gitops.declared_state import DeclaredState, JobId
from gpuctl.gitops.object_changes import ObjectKey, by_key, differences, read_object
from gpuctl.gitops.value_comparison import value_changes
from gpuctl.language.display_text import first_few
from gpuctl.objects.api_resources import SERVICES, TRAINING_FORMS, Object
from gpuctl.objects.embedded_document import is_same_document
from gpuctl.objects.hashed_names import (
    CHANGEABLE,
    changeable_fields,
    fixed_labels,
    hashed_name,
    is_hashed_name,
    spec_digest,
    unhashed_name,
)
from gpuctl.objects.pod_templates import short_path

RELOWERED = "rendered differently by this version of gpuctl"
"""The reason of a restart without a change of the document."""

RenderedNames = frozenset[tuple[str, str]]
"""Namespaces and names of the Jobs and JobSets in directories of manifests."""


_POD = re.compile(
    r"spec\.(?:template|leaderWorkerTemplate|selector|serviceName|podManagementPolicy|volumeClaimTemplates)\b"
)
"""Fields of a service whose change replaces all pods."""


class Restart(NamedTuple):
    """A job that restarts, and the reason."""

    job: JobId
    reason: str


def restarts(
    before: DeclaredState,
    after: DeclaredState,
    rendered: RenderedNames = frozenset(),
    kept: RenderedNames = frozenset(),
    *,
    by_controller: bool = False,
) -> list[Restart]:
    """Return the jobs of both states that restart.

    :param rendered: the trainings built from ``before``, perhaps by another version of gpuctl.
    :param kept: those of ``rendered`` that a build keeps if their documents do not change.
    :param by_controller: a GitOps controller applies the change, also where no directory of the repository shows it.
    """
    found = []
    was, becomes = _trainings(before), _trainings(after)
    for job in sorted(was.keys() & becomes.keys()):
        # Another training may have the name of a generation: exp-202401 beside exp.
        own = (name for place, name in rendered if place == job.namespace and job._replace(name=name) not in was)
        names = {name for name in own if is_hashed_name(name, job.name)}
        in_git = by_controller or bool(names)
        old, new = (spec_digest(state[job], in_git=in_git) for state in (was, becomes))
        if was[job] == becomes[job] and any((job.namespace, name) in kept for name in names):
            continue
        if names and hashed_name(job.name, new) not in names:
            found.append(Restart(job, RELOWERED if old == new else _reason(was[job], becomes[job])))
        elif not names and old != new:
            found.append(Restart(job, _reason(was[job], becomes[job])))
    return sorted([*found, *_services(before, after)])


def _services(before: DeclaredState, after: DeclaredState) -> Iterator[Restart]:
    """Yield the services of both states whose pods are replaced."""
    for key, new in after.objects.items():
        old = before.objects.get(key)
        if old is None or key.kind not in SERVICES:
            continue
        paths = [change.path for change in value_changes(old.get("spec"), new.get("spec"), "spec")]
        paths = [path for path in paths if _POD.match(path)]
        kind = next((job.kind for job in after.jobs if job[1:] == (key.namespace, key.name)), None)
        if paths and kind is not None:
            yield Restart(JobId(kind, key.namespace, key.name), _shown(paths))


def renamed_trainings(
    before: Mapping[ObjectKey, Object], after: Mapping[ObjectKey, Object], document_key: str
) -> list[Restart]:
    """Return the trainings of a built directory that get other names, without their documents.

    :param document_key: the annotation that shows whether a document changed.
    """
    found = []
    for change in differences(dict(before), dict(after)):
        if change.before is None or change.after is None or change.key.kind not in CHANGEABLE:
            continue
        if change.before["metadata"]["name"] == change.after["metadata"]["name"]:
            continue
        is_relowered = is_same_document(change.before, change.after, document_key) and (
            _is_hashed(change.before) and _is_hashed(change.after)
        )
        job = JobId("training", change.key.namespace, unhashed_name(change.after))
        found.append(Restart(job, RELOWERED if is_relowered else differing_fields(change.before, change.after)))
    return found


def _trainings(state: DeclaredState) -> dict[JobId, list[Object]]:
    """Return the objects of each training."""
    found: dict[JobId, list[Object]] = {job: [] for job in state.jobs if job.kind == "training"}
    for key, obj in state.objects.items():
        job = JobId("training", key.namespace, (obj["metadata"].get("labels") or {}).get("app") or "")
        if job in found:
            found[job].append(obj)
    return found


def _reason(before: list[Object], after: list[Object]) -> str:
    old, new = (next(obj for obj in objects if obj["kind"] in TRAINING_FORMS) for objects in (before, after))
    return f"was a {old['kind']}" if old["kind"] != new["kind"] else differing_fields(old, new)


def differing_fields(before: Object, after: Object) -> str:
    """Return the first few fields that differ and cannot change in place."""
    kept = {f"spec.{field}" for field in changeable_fields(after)}
    paths = [change.path for change in value_changes(before.get("spec"), after.get("spec"), "spec")]
    paths += [change.path for change in value_changes(fixed_labels(before), fixed_labels(after), "metadata.labels")]
    named = "its name has a hash now"
    if _is_hashed(before):
        named = RELOWERED if _is_hashed(after) else "its name has no hash now"
    return _shown([path for path in paths if path not in kept]) or named


def _is_hashed(obj: Object) -> bool:
    return unhashed_name(obj) != str(obj["metadata"]["name"])


def _shown(paths: Iterable[str]) -> str:
    """Return the first few paths in short form."""
    # Environment variables come last: they often follow from another field.
    named = list(dict.fromkeys(short_path(path).removeprefix("containers[0].") for path in paths))
    named.sort(key=lambda path: path.startswith("env["))
    return first_few(named)


def objects_of(files: Iterable[bytes]) -> dict[ObjectKey, Object]:
    """Return the objects in manifests that gpuctl wrote; unreadable ones are skipped."""
    return by_key(filter(None, map(read_object, files)))
