"""The format of a journal's Secrets: parts, each with some of the entries, and the index that lists them.

Everything that is read is validated: any user who may create Secrets can write one.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple

from gpuctl.apply.run.journal_entries import (
    KINDS,
    CheckpointNote,
    InvalidEntry,
    JournalEntry,
    decode_entry,
    encode_entry,
)
from gpuctl.apply.state.secret_data import DamagedSecret, data_of, decompressed, encoded_data, json_of, mapping_of
from gpuctl.hints import kubectl_line
from gpuctl.kube.api_errors import ClusterError
from gpuctl.language.display_text import visible
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Key, Object
from gpuctl.objects.label_names import managed_labels
from gpuctl.objects.ownership_metadata import Records, is_ours
from gpuctl.objects.timestamps import format_timestamp, parse_timestamp

# A Secret may hold 1 MiB (core/v1 MaxSecretSize).
_PACKED = 256 * 1024
# A few kB of a forged part could decompress to any size.
_UNPACKED = 4 * 1024 * 1024
_ALL_UNPACKED = 64 * 1024 * 1024
_MOST_PARTS = 10_000
_ENTRIES, _INDEX, _PART = "entries", "index", "part"


class MissingPart(NamedTuple):
    """An object in a part that is missing or damaged. ``companion``: it was deleted with its job."""

    key: Key
    uid: str
    companion: bool


@dataclass
class Journal:
    """The entries of one plan in one namespace, and their Secrets.

    ``committed``: the index exists; before that nothing was deleted. ``whole``: no part is missing. ``missing`` are the
    names of missing Secrets, ``lost`` the objects in them that the index lists. ``invalid_reason``: why the journal is
    rejected; then it has no entries. ``notes`` are workloads that are not restored.
    """

    id: str
    namespace: str
    entries: list[JournalEntry] = field(default_factory=list)
    secrets: list[Object] = field(default_factory=list)
    committed: bool = True
    whole: bool = True
    missing: list[str] = field(default_factory=list)
    lost: list[MissingPart] = field(default_factory=list)
    invalid_reason: str | None = None
    notes: list[CheckpointNote] = field(default_factory=list)

    @property
    def created(self) -> float:
        """Return the creation time of its first Secret by the server's clock, in seconds since 1970."""
        stamps = (item["metadata"]["creationTimestamp"] for item in self.secrets)
        return min(parse_timestamp(stamp).timestamp() for stamp in stamps)

    @property
    def saved(self) -> dict[str, frozenset[str]]:
        """Return the pods whose checkpoints ran before the plan started, by the uid of their workload."""
        found = [(item.uid, item.saved) for item in self.entries] + [(item.uid, item.saved) for item in self.notes]
        return {uid: pods for uid, pods in found if pods}

    @property
    def state(self) -> frozenset[tuple[str, str]]:
        """Return the uids and resourceVersions of its Secrets, to detect changes."""
        return frozenset((item["metadata"]["uid"], item["metadata"]["resourceVersion"]) for item in self.secrets)

    @property
    def removal(self) -> str:
        """Return the command that deletes its Secrets."""
        names = (item["metadata"]["name"] for item in self.secrets)
        return kubectl_line(f"delete secret -n {self.namespace}", *names)


def secrets_of(
    identifier: str, namespace: str, entries: list[JournalEntry | CheckpointNote], keys: Records
) -> tuple[Object, list[Object]]:
    """Return the index, and the parts to write before it.

    :raises ClusterError: the entries are too large.
    """
    packed = list(_packed(entries))
    digests = [hashlib.sha256(data).hexdigest() for data, _ in packed]
    checksum = _checksum(identifier, namespace, digests)
    index = {
        "run": identifier,
        "namespace": namespace,
        # gpuctl 0.1.0 refuses a journal without it.
        "written": format_timestamp(datetime.now(timezone.utc)),
        "parts": [
            {
                "digest": digest,
                "objects": [
                    [*entry.key, entry.uid, entry.companion_of is not None]
                    for entry in group
                    if isinstance(entry, JournalEntry)
                ],
            }
            for digest, (_, group) in zip(digests, packed, strict=True)
        ],
    }

    def secret(name: str, data: dict[str, bytes]) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {**managed_labels(), keys.journal: identifier},
                # The checksum identifies the Secret after a create without a response.
                "annotations": {f"{keys.journal}-checksum": checksum},
            },
            "type": "Opaque",
            "data": encoded_data(data),
        }

    main = {_INDEX: json.dumps(index, separators=(",", ":")).encode()}
    if len(packed) == 1:
        return secret(index_name(identifier), {**main, _ENTRIES: packed[0][0]}), []
    parts = []
    for number, (data, _) in enumerate(packed, 1):
        part = {"run": identifier, "namespace": namespace, "number": number, "count": len(packed)}
        head = json.dumps({**part, "checksum": checksum}).encode()
        parts.append(secret(_part_name(identifier, number), {_PART: head, _ENTRIES: data}))
    return secret(index_name(identifier), main), parts


def _packed(
    entries: list[JournalEntry | CheckpointNote],
) -> Iterator[tuple[bytes, list[JournalEntry | CheckpointNote]]]:
    """Yield groups of entries, each compressed by itself, so that each part can be read without the others."""
    texts = [json.dumps(encode_entry(entry), ensure_ascii=False, separators=(",", ":")).encode() for entry in entries]
    if sum(map(len, texts)) > _ALL_UNPACKED:
        raise ClusterError(say("these are too many objects for one journal"), say("apply them in several portions"))
    pending = [(texts, entries)]
    while pending:
        some, group = pending.pop(0)
        size = sum(map(len, some)) + len(some) + 1
        data = gzip.compress(b"[" + b",".join(some) + b"]", 6, mtime=0) if size <= _UNPACKED else b""
        if (size > _UNPACKED or len(data) > _PACKED) and len(some) > 1:
            half = len(some) // 2
            pending[:0] = [(some[:half], group[:half]), (some[half:], group[half:])]
        elif not data:
            raise ClusterError(say("{object} is too large for the journal", object=group[0].key))
        else:
            yield data, group


def index_name(identifier: str) -> str:
    """Return the name of the index Secret, which is written last and removed last."""
    return f"gpuctl-journal-{identifier}"


def _part_name(identifier: str, number: int) -> str:
    return f"{index_name(identifier)}-{number}"


def _checksum(identifier: str, namespace: str, digests: list[str]) -> str:
    return hashlib.sha256("\n".join([identifier, namespace, *digests]).encode()).hexdigest()


class _Part(NamedTuple):
    number: int
    of: int
    checksum: str
    digest: str
    packed: bytes
    name: str


class _Index(NamedTuple):
    digests: list[str]
    objects: list[list[MissingPart]]


def read_journal(identifier: str, namespace: str, found: list[Object], keys: Records) -> Journal:
    """Parse the Secrets with one journal id; an invalid journal has an ``invalid_reason``."""
    journal = Journal(identifier, namespace, secrets=found)
    name = ""
    index: _Index | None = None
    parts: list[_Part] = []
    try:
        for secret in found:
            name = secret["metadata"]["name"]
            if not re.fullmatch(r"[0-9a-f]{4,40}", identifier) or not is_ours(secret):
                raise DamagedSecret(say("gpuctl did not write it"))
            if name == index_name(identifier):
                index, inside = _index(secret, identifier, namespace)
                parts += inside
            elif re.fullmatch(rf"{index_name(identifier)}-[1-9][0-9]{{0,4}}", name):
                # A damaged part counts as missing; the other parts may still be valid.
                with contextlib.suppress(DamagedSecret):
                    parts.append(_part(secret, identifier, namespace))
            else:
                raise DamagedSecret(say("its name is not that of a part"))
        name = ""
        _fill(journal, index, parts, keys)
    except DamagedSecret as error:
        journal.entries, journal.notes = [], []
        journal.invalid_reason = say("Secret {name}: {reason}", name=name, reason=error) if name else str(error)
    return journal


def _fill(journal: Journal, index: _Index | None, parts: list[_Part], keys: Records) -> None:
    """Add the entries of the parts to a journal, and record the missing parts."""
    count = len(index.digests) if index is not None else max((part.of for part in parts), default=0)
    if index is not None:
        intact = {part.number: part for part in parts if [part.digest] == index.digests[part.number - 1 : part.number]}
    else:
        journal.committed = False
        journal.missing.append(index_name(journal.id))
        if not parts or len({(part.of, part.checksum) for part in parts}) > 1:
            raise DamagedSecret(say("Secret {names}: not the parts of one journal", names=_names(journal.secrets)))
        intact = {part.number: part for part in parts}
    numbers = range(1, count + 1)
    for number in numbers:
        if number not in intact:
            journal.whole = False
            journal.missing.append(_part_name(journal.id, number))
            journal.lost += index.objects[number - 1] if index is not None else []
    digests = [intact[number].digest for number in numbers if number in intact]
    if index is None and journal.whole and parts[0].checksum != _checksum(journal.id, journal.namespace, digests):
        raise DamagedSecret(say("Secret {names}: their checksum differs", names=_names(journal.secrets)))
    budget = _ALL_UNPACKED
    for number in sorted(intact):
        entries, size = _entries(intact[number], journal.namespace, keys, budget)
        budget -= size
        journal.entries += [entry for entry in entries if isinstance(entry, JournalEntry)]
        journal.notes += [entry for entry in entries if isinstance(entry, CheckpointNote)]
    if len({entry.key for entry in journal.entries}) < len(journal.entries):
        raise DamagedSecret(say("Secret {names}: an object is in it several times", names=_names(journal.secrets)))


def _names(found: list[Object]) -> list[str]:
    return [secret["metadata"]["name"] for secret in found]


def _index(secret: Object, identifier: str, namespace: str) -> tuple[_Index, list[_Part]]:
    """Parse an index, and the entries of a small journal, which are in it."""
    value = mapping_of(data_of(secret, _INDEX))
    listed = value.get("parts")
    if (value.get("run"), value.get("namespace")) != (identifier, namespace):
        raise DamagedSecret(say("its run or namespace differs"))
    if not isinstance(listed, list) or not listed:
        raise DamagedSecret(say("its list of parts is invalid"))
    digests, objects = [], []
    for item in listed:
        if not isinstance(item, dict) or not isinstance(item.get("digest"), str):
            raise DamagedSecret(say("its list of parts is invalid"))
        digests.append(item["digest"])
        objects.append(_losses(item.get("objects"), namespace))
    checksum = _checksum(identifier, namespace, digests)
    inside = []
    if _ENTRIES in secret["data"]:
        packed = data_of(secret, _ENTRIES)
        digest = hashlib.sha256(packed).hexdigest()
        if digests != [digest]:
            raise DamagedSecret(say("its checksum differs"))
        inside.append(_Part(1, 1, checksum, digest, packed, secret["metadata"]["name"]))
    return _Index(digests, objects), inside


def _losses(value: Any, namespace: str) -> list[MissingPart]:
    """Parse the list of a part's objects, which is used only to name missing ones."""
    if not isinstance(value, list):
        raise DamagedSecret(say("its list of parts is invalid"))
    losses = []
    for item in value:
        if not isinstance(item, list) or len(item) != 5 or not all(isinstance(text, str) for text in item[:4]):
            raise DamagedSecret(say("its list of parts is invalid"))
        kind, where, name, uid, companion = item
        if kind not in KINDS or where != namespace:
            raise DamagedSecret(
                say("it names {kind} in {namespace}", kind=visible(kind)[:60], namespace=visible(where)[:63])
            )
        losses.append(MissingPart(Key(kind, where, visible(name)[:253]), uid, companion is True))
    return losses


def _part(secret: Object, identifier: str, namespace: str) -> _Part:
    value = mapping_of(data_of(secret, _PART))
    number, count, checksum = value.get("number"), value.get("count"), value.get("checksum")
    name = secret["metadata"]["name"]
    if (value.get("run"), value.get("namespace")) != (identifier, namespace):
        raise DamagedSecret(say("its run or namespace differs"))
    if type(number) is not int or type(count) is not int or not isinstance(checksum, str) or not 0 < number <= count:
        raise DamagedSecret(say("its part number is invalid"))
    if name != _part_name(identifier, number) or count > _MOST_PARTS:
        raise DamagedSecret(say("its part number and its name differ"))
    packed = data_of(secret, _ENTRIES)
    return _Part(number, count, checksum, hashlib.sha256(packed).hexdigest(), packed, name)


def _entries(
    part: _Part, namespace: str, keys: Records, budget: int
) -> tuple[list[JournalEntry | CheckpointNote], int]:
    """Return the entries of a part, and their decompressed size in bytes."""
    most = min(_UNPACKED, budget)
    try:
        text = decompressed(part.packed, most)
        value = json_of(text)
        if not isinstance(value, list):
            raise InvalidEntry(say("it has no list of entries"))
        return [decode_entry(item, namespace, keys) for item in value], len(text)
    except InvalidEntry as error:
        raise DamagedSecret(say("Secret {name} cannot be gpuctl's: {reason}", name=part.name, reason=error)) from None
    except DamagedSecret as error:
        raise DamagedSecret(say("Secret {name}: {reason}", name=part.name, reason=error)) from None
