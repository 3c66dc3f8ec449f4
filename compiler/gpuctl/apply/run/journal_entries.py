"""The entries of a journal: the objects that a plan deletes with their successors; and the validation of entries.

Any user who may create Secrets in a namespace can forge a journal, and the user who recovers may have more rights. So
an entry is used only if it has the form that :func:`entries_of` creates, and names nothing outside its own namespace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuctl.apply.plan.plan import Step
from gpuctl.apply.state.live_state import COMPANIONS
from gpuctl.language.display_text import visible
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import (
    RESOURCES,
    TRAINING_FORMS,
    WORKLOADS,
    Key,
    Object,
    annotations_of,
    is_other_form,
    key_of,
    labels_of,
)
from gpuctl.objects.companion_names import is_companion_name
from gpuctl.objects.hashed_names import unhashed_name
from gpuctl.objects.label_names import MANAGED_BY
from gpuctl.objects.ownership_metadata import PART_OF, Records

KINDS = (*WORKLOADS, *COMPANIONS)
_MAIN = (*WORKLOADS, "Service")
_METADATA = frozenset({"name", "generateName", "namespace", "labels", "annotations", "finalizers"})
_BODY = {
    "ConfigMap": frozenset({"data", "binaryData", "immutable"}),
}
_SETS = "applyset.kubernetes.io/"
_SET_ID = re.compile(r"applyset-[A-Za-z0-9_-]{43}-v1")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_DEEPEST = 64


class InvalidEntry(Exception):
    """An entry that gpuctl cannot have written; ``str()`` is the reason."""


@dataclass(frozen=True)
class JournalEntry:
    """One deleted object as it can be created again, and its successor (``new``; None: no successor).

    ``companion_of`` is the workload that it belongs to: it is deleted and restored with it. ``changed_from`` is the
    hash of this workload before it is changed in place, None if it is replaced or stays. ``saved`` are the uids of its
    pods whose checkpoint has just run. A forged list only prevents checkpoints in pods of the same namespace for a few
    minutes.
    """

    uid: str
    old: Object
    new: Object | None
    method: str
    companion_of: Key | None = None
    changed_from: str | None = None
    saved: frozenset[str] = frozenset()

    @property
    def key(self) -> Key:
        """Return the old object's key."""
        return key_of(self.old)

    @property
    def successor(self) -> Key:
        """Return the key of the successor; without one the old object's key."""
        return key_of(self.new) if self.new is not None else self.key


@dataclass(frozen=True)
class CheckpointNote:
    """A workload that is ended without a successor; ``saved``: see :class:`JournalEntry`."""

    uid: str
    key: Key
    saved: frozenset[str]


def checkpoints_not_recorded(namespaces: Iterable[str]) -> str:
    """Return the message for a user who lacks the right to write a :class:`CheckpointNote`."""
    where = ", ".join(sorted(namespaces))
    return say(
        "you may not create Secrets in {namespace}, so that finished checkpoints are not recorded: if this run is "
        "killed, they run again",
        namespace=where,
    )


def entries_of(steps: Iterable[Step], keys: Records) -> list[JournalEntry | CheckpointNote]:
    """Return the entries for a plan's deletions; the steps must have their ``restorable`` objects."""
    steps = list(steps)
    mains = {step.key: step for step in steps}
    result: list[JournalEntry | CheckpointNote] = []
    for step in steps:
        if not step.is_journalled:
            if step.deletes and step.saved and step.live is not None:
                result.append(CheckpointNote(step.live["metadata"]["uid"], key_of(step.live), frozenset(step.saved)))
            continue
        assert step.live is not None
        assert step.restorable is not None
        new = step.desired if step.action == "replace" else None
        main = mains.get(step.companion_of) if step.companion_of is not None else None
        changed = main.live if main is not None and main.action == "update" else None
        result.append(
            JournalEntry(
                step.live["metadata"]["uid"],
                step.restorable,
                new,
                "apply" if step.method == "apply" else "post",
                step.companion_of,
                annotations_of(changed).get(keys.hash) if changed is not None else None,
                frozenset(step.saved),
            )
        )
    return result


def encode_entry(entry: JournalEntry | CheckpointNote) -> Object:
    """Return an entry as JSON."""
    if isinstance(entry, CheckpointNote):
        return {"uid": entry.uid, "ended": list(entry.key), "saved": sorted(entry.saved)}
    return {
        "uid": entry.uid,
        "old": entry.old,
        "new": entry.new,
        "method": entry.method,
        "companionOf": list(entry.companion_of) if entry.companion_of else None,
        "changedFrom": entry.changed_from,
        "saved": sorted(entry.saved),
    }


def decode_entry(value: Any, namespace: str, keys: Records) -> JournalEntry | CheckpointNote:
    """Parse and validate the JSON of an entry in a Secret of a namespace.

    :raises InvalidEntry: gpuctl cannot have written it there.
    """
    fields = _mapping(value, say("an entry"))
    uid = fields.get("uid")
    if not isinstance(uid, str) or not _UID.fullmatch(uid):
        raise InvalidEntry(say("an entry has no uid"))
    if "ended" in fields:
        return _note(fields, uid, namespace)
    old = _object(fields.get("old"), namespace)
    new = None if fields.get("new") is None else _object(fields["new"], namespace)
    changed = fields.get("changedFrom")
    if changed is not None and not isinstance(changed, str):
        raise InvalidEntry(say("{object}: its hash is not a string", object=key_of(old)))
    companion = fields.get("companionOf")
    if companion is not None:
        if new is not None:
            raise InvalidEntry(say("{object}: a companion has no successor", object=key_of(old)))
        return JournalEntry(uid, old, None, "post", _workload_of(companion, old, keys), changed)
    if fields.get("method") not in ("post", "apply"):
        raise InvalidEntry(say("{object}: its method is not post or apply", object=key_of(old)))
    saved = _pods(fields, key_of(old))
    return JournalEntry(uid, old, _successor(old, new, keys), str(fields["method"]), saved=saved)


def _note(fields: Mapping[str, Any], uid: str, namespace: str) -> CheckpointNote:
    ended = fields["ended"]
    if not isinstance(ended, list) or len(ended) != 3 or not all(isinstance(part, str) for part in ended):
        raise InvalidEntry(say("the ended workload is not named"))
    key = Key(*ended)
    if key.kind not in WORKLOADS or key.namespace != namespace or not _NAME.fullmatch(key.name):
        raise InvalidEntry(
            say("{object} is not a job of {namespace}", object=visible(str(key))[:120], namespace=namespace)
        )
    return CheckpointNote(uid, key, _pods(fields, key))


def _pods(fields: Mapping[str, Any], key: Key) -> frozenset[str]:
    """Return the uids of pods whose checkpoint has run; journals of older versions have none."""
    saved = fields.get("saved", [])
    if not isinstance(saved, list) or not all(isinstance(pod, str) and _UID.fullmatch(pod) for pod in saved):
        raise InvalidEntry(say("{object}: the saved pods are not uids", object=key))
    return frozenset(saved)


def _workload_of(value: Any, old: Object, keys: Records) -> Key:
    """Return the workload of a companion, after checking that the companion has the name that lowering gives it."""
    key = key_of(old)
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(part, str) for part in value):
        raise InvalidEntry(say("{object}: its job is not named", object=key))
    main = Key(*value)
    if main.kind not in WORKLOADS or main.namespace != key.namespace or key.kind not in COMPANIONS:
        raise InvalidEntry(
            say(
                "{object}: {kind} {name} has no companion of this kind",
                object=key,
                kind=visible(main.kind),
                name=visible(main.name),
            )
        )
    # Companions of a training that was built under a name with a hash have that hash in their names too.
    if not is_companion_name(key.kind, unhashed_name(old), main.name) or labels_of(old).get("app") != main.name:
        raise InvalidEntry(say("{object} is not a companion of the job {job}", object=key, job=visible(main.name)))
    _must_be_ours(old)
    return main


def _successor(old: Object, new: Object | None, keys: Records) -> Object:
    """Return the successor, after checking that it belongs to the same job."""
    was = key_of(old)
    if new is None:
        raise InvalidEntry(say("{object}: it has no successor", object=was))
    key = key_of(new)
    same = key == was or (key[1:] == was[1:] and is_other_form(key.kind, was.kind)) or _takes_over(key, old, keys)
    if was.kind not in _MAIN or not same:
        raise InvalidEntry(say("{object} is not the successor of {old}", object=key, old=was))
    _must_be_ours(new)
    if labels_of(old).get(MANAGED_BY) == "gpuctl":
        for label in ("app", keys.job_type):
            if labels_of(old).get(label, labels_of(new).get(label)) != labels_of(new).get(label):
                raise InvalidEntry(
                    say("{object}: the label {label} differs from that of the old object", object=key, label=label)
                )
    return new


def _takes_over(key: Key, old: Object, keys: Records) -> bool:
    """Return True if a training under its own name replaces one that was built under a name with a hash."""
    was = key_of(old)
    is_training = labels_of(old).get(MANAGED_BY) == "gpuctl" and labels_of(old).get(keys.job_type) == "training"
    same = key.namespace == was.namespace and {key.kind, was.kind} <= TRAINING_FORMS
    return is_training and same and was.name != key.name and unhashed_name(old) == key.name


def _must_be_ours(obj: Object) -> None:
    # An adopted object gets the label only with its successor.
    if labels_of(obj).get(MANAGED_BY) != "gpuctl":
        raise InvalidEntry(say("{object} lacks the label {label}", object=key_of(obj), label=f"{MANAGED_BY}=gpuctl"))


def _object(value: Any, namespace: str) -> Object:
    obj = _mapping(value, say("an object"))
    kind = obj.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidEntry(say("{kind} is not a kind that jobs consist of", kind=visible(str(kind))[:60]))
    if obj.get("apiVersion") != RESOURCES[kind].api_version:
        raise InvalidEntry(
            say("{kind}: its apiVersion is {version}", kind=kind, version=visible(str(obj.get("apiVersion")))[:60])
        )
    metadata = _mapping(obj.get("metadata"), say("the metadata of a {kind}", kind=kind))
    name = metadata.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidEntry(say("a {kind} has no name", kind=kind))
    title = f"{kind}/{name}"
    if metadata.get("namespace") != namespace:
        where = metadata.get("namespace")
        if not where:
            raise InvalidEntry(
                say("{object} is in no namespace, not in {namespace}", object=title, namespace=namespace)
            )
        other = visible(str(where))[:63]
        raise InvalidEntry(
            say("{object} is in {other}, not in {namespace}", object=title, other=other, namespace=namespace)
        )
    more = sorted(metadata.keys() - _METADATA)
    if more:
        raise InvalidEntry(
            say("{object} has the metadata {fields}", object=title, fields=", ".join(map(visible, more))[:120])
        )
    for part in ("labels", "annotations"):
        texts = _mapping(metadata.get(part, {}), say("{part} of {object}", part=part, object=title))
        if not all(isinstance(text, str) for text in texts.values()):
            raise InvalidEntry(say("{object}: its {part} are not strings", object=title, part=part))
        for key in texts:
            if key.startswith(_SETS) and (part != "labels" or key != PART_OF or not _SET_ID.fullmatch(texts[key])):
                raise InvalidEntry(
                    say("{object} has {key}, which is for the parents of sets", object=title, key=visible(key))
                )
    finalizers = metadata.get("finalizers", [])
    if not isinstance(finalizers, list) or not all(isinstance(item, str) for item in finalizers):
        raise InvalidEntry(say("{object}: its {part} are not strings", object=title, part="finalizers"))
    allowed = _BODY.get(kind, frozenset({"spec"})) | {"apiVersion", "kind", "metadata"}
    more = sorted(obj.keys() - allowed)
    if more:
        raise InvalidEntry(say("{object} has {fields}", object=title, fields=", ".join(map(visible, more))[:120]))
    body = [value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "immutable")]
    if not all(isinstance(value, dict) for value in body):
        raise InvalidEntry(say("{object}: its fields are not mappings", object=title))
    for part in body:
        _stays_inside(part, title, namespace, 0)
    return dict(obj)


def _stays_inside(value: Any, title: str, namespace: str, depth: int) -> None:
    """Check that nothing made from an object is in another namespace or has an owner."""
    if depth > _DEEPEST:
        raise InvalidEntry(say("{object} is nested too deeply", object=title))
    if isinstance(value, list):
        for item in value:
            _stays_inside(item, title, namespace, depth + 1)
    elif isinstance(value, dict):
        inner = value.get("metadata")
        if isinstance(inner, dict):
            if inner.get("namespace") not in (None, "", namespace):
                raise InvalidEntry(
                    say("{object} makes objects in {other}", object=title, other=visible(str(inner["namespace"]))[:63])
                )
            if inner.get("ownerReferences"):
                raise InvalidEntry(say("{object} makes objects with owners", object=title))
        source = value.get("dataSourceRef")
        if isinstance(source, dict) and source.get("namespace") not in (None, "", namespace):
            raise InvalidEntry(
                say("{object} takes data from {other}", object=title, other=visible(str(source["namespace"]))[:63])
            )
        for item in value.values():
            _stays_inside(item, title, namespace, depth + 1)


def _mapping(value: Any, title: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidEntry(say("{title} is not a mapping", title=title))
    return value
