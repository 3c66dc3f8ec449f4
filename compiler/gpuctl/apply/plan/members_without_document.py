"""Members of sets that no document contains."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from gpuctl.apply.plan.plan import Step
from gpuctl.apply.state import applyset
from gpuctl.apply.state.live_state import COMPANIONS
from gpuctl.apply.state.provenance import list_sources
from gpuctl.gitops.sources import covers
from gpuctl.kube.api_errors import ApiError, if_allowed
from gpuctl.kube.scope import is_absent
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import QUOTA_KINDS, RESOURCES, SHARED_KINDS, WORKLOADS, Key, Object, key_of, labels_of
from gpuctl.objects.ownership_metadata import PART_OF, is_controlled

_KINDS = (*WORKLOADS, *COMPANIONS, *QUOTA_KINDS)


def find_members_without_document(
    session: Session, steps: Iterable[Step], wanted: Collection[Key], sources: Sequence[str]
) -> tuple[list[Key], list[str]]:
    """Return the members without a document of the sets that the documents' objects are in; and notes.

    If a set has sources that were not given, its other members are not reported.

    :param sources: the inputs of the documents.
    """
    live = [step.live for step in steps if step.live is not None and step.key.kind not in SHARED_KINDS]
    sets = sorted({labels_of(obj)[PART_OF] for obj in live if PART_OF in labels_of(obj)})
    if not sets:
        return [], []
    known = {step.key for step in steps} | set(wanted)
    namespaces = sorted({key_of(obj).namespace for obj in live})
    found: dict[str, list[Key]] = {}
    for kind in _KINDS:
        for obj in _members(session, kind, f"{PART_OF} in ({','.join(sets)})", namespaces):
            key = Key(kind, obj["metadata"].get("namespace") or "", obj["metadata"]["name"])
            if key not in known and not is_controlled(obj):
                found.setdefault(labels_of(obj)[PART_OF], []).append(key)
    members, notes = [], []
    parents = _parents(session, sorted(found), namespaces)
    for identity, keys in sorted(found.items()):
        parent = parents.get(identity)
        missing = [] if parent is None else [one for one in parent.sources if not covers(sources, one)]
        if parent is not None and missing:
            notes.append(
                say(
                    "the set {set} came from {sources} too, so that members which are in none of the documents given "
                    "are not reported: give all of its sources",
                    set=parent.name,
                    sources=list_sources(missing),
                )
            )
            continue
        members += keys
        if parent is None:
            notes.append(
                say(
                    "whether the documents given are all of the set's is not known: its Secret does not exist, or you "
                    "may not read it"
                )
            )
    return members, list(dict.fromkeys(notes))


def _parents(session: Session, sets: Sequence[str], namespaces: Sequence[str]) -> dict[str, applyset.ApplySet]:
    """Return the sets with these ids that the user may read. Only metadata of Secrets is requested."""
    found: dict[str, applyset.ApplySet] = {}
    labels = f"{applyset.ID} in ({','.join(sets)})"
    for where in (None, *dict.fromkeys((session.namespace, *namespaces))) if sets else ():
        secrets = if_allowed(partial(session.list_metadata, RESOURCES["Secret"], where, labels=labels), None)
        if secrets is None:
            continue
        for secret in secrets:
            try:
                found[labels_of(secret)[applyset.ID]] = applyset.parse_parent(secret)
            except applyset.NotOurSet:
                continue
        if where is None:
            break
    return found


def _members(session: Session, kind: str, labels: str, namespaces: Sequence[str]) -> list[Object]:
    """Return the metadata of all objects with these labels: in all namespaces, or if that is forbidden, in the known
    ones.
    """
    try:
        return session.list_metadata(RESOURCES[kind], labels=labels)
    except ApiError as error:
        if error.is_missing and is_absent(kind, error):
            return []
        if not error.lacks_permission:
            raise
    try:
        return [obj for name in namespaces for obj in session.list_metadata(RESOURCES[kind], name, labels=labels)]
    except ApiError as error:
        if is_absent(kind, error):
            return []
        raise
