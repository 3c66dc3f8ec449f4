"""The last applied version of an object: its document in an annotation, lowered, or the record of kubectl.

``managedFields`` alone are not enough: fields change owners when another tool writes the object, and a restore gives
all of them to the tool that restores.

Any user who may edit an object can forge both records. So they count for that object alone, and only for fields that
have the recorded value: at worst a forged record removes such a field. The document of a job counts for its Service
only if it yields exactly the object whose hash the Service itself records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpuctl.apply.state.managed_fields import foreign_fields
from gpuctl.apply.state.takeover import AppliedVersion, Claimed, Claims, claim
from gpuctl.backend.lower import lower
from gpuctl.backend.lowering_context import Context, Lowered
from gpuctl.frontend.binder import bind
from gpuctl.frontend.document import Document
from gpuctl.frontend.linker import link
from gpuctl.frontend.source import Source
from gpuctl.frontend.yaml_reader import read
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import POSTED, WORKLOADS, Key, Object, annotations_of, key_of, labels_of
from gpuctl.objects.embedded_document import document_of
from gpuctl.objects.json_digest import json_digest
from gpuctl.objects.ownership_metadata import PART_OF, Records, is_ours
from gpuctl.objects.server_defaults import without_defaults

KUBECTL_RECORD = "kubectl.kubernetes.io/last-applied-configuration"


class LastApplied:
    """The last applied documents of live objects, each parsed once."""

    def __init__(self, live: Mapping[Key, Object], lowered: list[Lowered], settings: Settings, keys: Records) -> None:
        self._live = live
        self._settings = settings
        self._keys = keys
        self._read: dict[Key, list[Object] | None] = {}
        self._mains = {
            (id(item.document), item.object["metadata"].get("namespace")): key_of(item.object)
            for item in lowered
            if keys.document in annotations_of(item.object)
        }
        self._unreadable: list[Key] = []

    @property
    def notes(self) -> list[str]:
        """Return notes on fields that may stay because the last document is unknown."""
        if not self._unreadable:
            return []
        note = say(
            "{objects:few}: this gpuctl cannot read the document last applied; fields that it had, that the new one "
            "does not have, and that another tool has written as well, stay",
            objects=self._unreadable,
        )
        return [note]

    def claim(self, item: Lowered, live: Object, desired: Object) -> tuple[Claims | None, Claimed]:
        """Take over the fields of the last applied version. The claims are None if no field is taken over."""
        if item.shared or not foreign_fields(live):
            return None, Claimed(live, {}, {})
        claims = Claims(self._bases(item, live), desired)
        claimed = claim(live, claims)
        return claims if claimed.fields else None, claimed

    def _bases(self, item: Lowered, live: Object) -> tuple[AppliedVersion, ...]:
        """Return the versions that a live object was last applied from, the latest one last."""
        record = kubectl_record(live)
        is_known = self._keys.hash in annotations_of(live)
        found = [AppliedVersion(record, is_last=not is_known)] if record is not None else []
        if is_known:
            document = self.document(live) if live["kind"] in WORKLOADS else self._beside(item, live)
            last = [AppliedVersion(document, is_last=True)] if document is not None else []
            return (AppliedVersion(self._records_of(live)), *found, *last)
        if is_ours(live) and (not found or live["kind"] in POSTED):
            # Another tool made it from gpuctl's output. For workloads a dry-run shows the defaults.
            found.append(AppliedVersion(self._as_made(live), of_tools=True))
        return tuple(found)

    def document(self, live: Object) -> Object | None:
        """Return the object that the document in a live object's annotation yields; None if it yields none."""
        key = key_of(live)
        objects = self._objects(key, live)
        if objects is None and key not in self._unreadable and self._keys.document in annotations_of(live):
            self._unreadable.append(key)
        return next((obj for obj in objects or () if obj["kind"] == live["kind"]), None)

    def _beside(self, item: Lowered, live: Object) -> Object | None:
        """Return the object that its job's document yielded, if its hash is the one on the live object."""
        main = self._mains.get((id(item.document), live["metadata"].get("namespace")))
        if main is None or main not in self._live:
            return None
        have = annotations_of(live).get(self._keys.hash)
        for obj in self._objects(main, self._live[main]) or ():
            if key_of(obj) == key_of(live) and json_digest(_bare(obj, live, self._keys)) == have:
                return obj
        return None

    def _records_of(self, live: Object) -> Object:
        """Return gpuctl's own labels and annotations of an object: after a restore they belong to another manager."""
        keys = (self._keys.hash, self._keys.lowered_by, self._keys.document, PART_OF)
        return {
            "metadata": {
                part: {key: value for key, value in named.items() if key in keys}
                for part, named in (("labels", labels_of(live)), ("annotations", annotations_of(live)))
            }
        }

    def _as_made(self, live: Object) -> Object:
        """Return the object as the tool that made it may have stated it."""
        body = {key: value for key, value in live.items() if key not in ("metadata", "status")}
        metadata = {
            part: {key: value for key, value in named.items() if not self._keys.is_lasting(key)}
            for part, named in (("labels", labels_of(live)), ("annotations", annotations_of(live)))
        }
        return {**(body if live["kind"] in POSTED else without_defaults(body)), "metadata": metadata}

    def _objects(self, key: Key, live: Object) -> list[Object] | None:
        if key not in self._read:
            data = document_of(live, self._settings.label("document"))
            self._read[key] = None if data is None else document_objects(data, key.namespace, self._settings)
        return self._read[key]


def _bare(obj: Object, live: Object, keys: Records) -> Object:
    """Return the object as it was hashed: with the document if the live object itself carries it."""
    text = annotations_of(live).get(keys.document)
    if text is None:
        return obj
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "annotations": {**annotations_of(obj), keys.document: text}}}


def document_objects(data: dict[str, Any], namespace: str, settings: Settings) -> list[Object] | None:
    """Return the objects that a recorded document yields; None if this gpuctl does not accept it."""
    try:
        for raw in read(Source("live", json.dumps(data)), []):
            bound = bind(raw, [])
            if bound is None or bound.model is None:
                return None
            document = Document(bound.kind, bound.model, raw.chunk, raw.number)
            list(link([document], settings, namespace, complete=False))
            return [item.object for item in lower(Context(settings), [document]) if not item.shared]
    except Exception:
        # An apply must not fail because of the content of an annotation.
        return None
    return None


def kubectl_record(live: Object) -> Object | None:
    """Return gpuctl's output as ``kubectl apply`` or Argo CD last applied it; None if they never did."""
    try:
        found: Any = json.loads(annotations_of(live).get(KUBECTL_RECORD, ""))
        is_record = found["kind"] == live["kind"] and found["metadata"]["name"] == live["metadata"]["name"]
        return found if is_record and labels_of(found) and is_ours(found) else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
