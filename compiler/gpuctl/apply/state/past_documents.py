"""The history of a job: its applied documents, each in a Secret of the job's namespace.

A Secret is immutable and named after the job and a revision number, so that two concurrent writers get two numbers.
Credentials in the document are masked before it is stored. Only the creation time comes from the server. All other
content comes from the writer, and any user who may create Secrets in the namespace can write it.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from gpuctl.apply.state.git_repository import Commit, parse_commit
from gpuctl.apply.state.secret_data import DamagedSecret, data_of, decompressed, encoded_data, mapping_of
from gpuctl.frontend.document_variant import PLAIN, Variant
from gpuctl.language.display_text import visible
from gpuctl.language.kinds import WORKLOADS as JOB_KINDS
from gpuctl.language.masking import hidden, masked
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object, annotations_of, labels_of
from gpuctl.objects.json_digest import json_digest
from gpuctl.objects.label_names import managed_labels
from gpuctl.objects.ownership_metadata import Records, is_ours
from gpuctl.release import __version__

Cause = Literal["applied", "rolled back", "found"]
"""``found``: the document was in the cluster and not in the history, so the user who applied it is unknown."""

LARGEST = 999_999_999
_ENTRY = "entry"
_NAME = re.compile(r"gpuctl-history-(?P<job>[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)\.v(?P<number>[1-9][0-9]{0,8})")
_UNPACKED = 4 * 2**20
_LONGEST = 200


@dataclass(frozen=True)
class PastDocument:
    """One applied version of a job's document, without its credentials.

    ``masked`` are the paths of the masked fields. ``when`` is the server's time (RFC 3339), "" before it is
    written. ``who``, ``commit`` and ``gpuctl`` (version) come from the writer. ``to`` is the revision that a
    rollback returned to. ``variant``: the profile and the overrides that the document was made with. ``deleted``:
    gpuctl has deleted the job since. ``invalid_reason``: why the entry is rejected; such an entry has no document.
    """

    revision: int
    document: dict[str, Any]
    masked: tuple[str, ...] = ()
    when: str = ""
    who: str | None = None
    commit: Commit | None = None
    gpuctl: str = __version__
    cause: Cause = "applied"
    to: int | None = None
    variant: Variant = PLAIN
    invalid_reason: str | None = None
    deleted: bool = False
    secret: str = ""

    @property
    def digest(self) -> str:
        """Return the digest of the stored document."""
        return json_digest(self.document)


def without_credentials(document: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a copy of a document with masked credentials, and the paths of the masked fields."""
    with hidden():
        result: dict[str, Any] = masked(document)
    return result, tuple(_differing(document, result, ""))


def _differing(one: Any, other: Any, path: str) -> Iterator[str]:
    """Yield the paths at which two values of the same structure differ; items that have a name are shown by it."""
    if one == other:
        return
    if isinstance(one, dict):
        for key in one:
            yield from _differing(one[key], other[key], f"{path}.{key}" if path else str(key))
    elif isinstance(one, list):
        for index, (item, shown) in enumerate(zip(one, other, strict=True)):
            name = item.get("name") if isinstance(item, dict) else None
            yield from _differing(item, shown, f"{path}[{name if isinstance(name, str) else index}]")
    else:
        yield path


def secret_of(past: PastDocument, namespace: str, job: str, keys: Records) -> Object:
    """Return the Secret that stores a document."""
    commit = past.commit
    entry = {
        "job": job,
        "namespace": namespace,
        "revision": past.revision,
        "document": past.document,
        "masked": list(past.masked),
        "who": past.who,
        "commit": None if commit is None else {**commit._asdict()},
        "gpuctl": past.gpuctl,
        "cause": past.cause,
        "to": past.to,
        **({"variant": past.variant._asdict()} if past.variant != PLAIN else {}),
    }
    text = json.dumps(entry, separators=(",", ":")).encode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(job, past.revision),
            "namespace": namespace,
            "labels": {**managed_labels(), keys.history: job},
            # The digest identifies the Secret after a create without a response, and the document without reading it.
            "annotations": {f"{keys.history}-digest": past.digest},
        },
        "type": "Opaque",
        "immutable": True,
        "data": encoded_data({_ENTRY: gzip.compress(text, 6, mtime=0)}),
    }


def secret_name(job: str, revision: int) -> str:
    """Return the name of the Secret that stores a revision of a job."""
    return f"gpuctl-history-{job}.v{revision}"


def revision_of(secret: Object, job: str) -> int | None:
    """Return the revision number in the name of a job's history Secret (or its metadata); None for any other Secret."""
    match = _NAME.fullmatch(secret["metadata"]["name"])
    return int(match["number"]) if match is not None and match["job"] == job else None


def recorded_digest(secret: Object, keys: Records) -> str:
    """Return the digest in a Secret's annotation."""
    return annotations_of(secret).get(f"{keys.history}-digest", "")


def deletion_mark(keys: Records) -> str:
    """Return the annotation of a job's newest history Secret that records when gpuctl deleted the job."""
    return f"{keys.history}-deleted"


def job_of_secret(secret: Object, keys: Records) -> str:
    """Return the job in a history Secret's label."""
    return labels_of(secret).get(keys.history, "")


def read_history(secrets: Iterable[Object], job: str, keys: Records) -> list[PastDocument]:
    """Return the history in Secrets, newest first; invalid entries come last."""
    found = [_read(secret, job, keys) for secret in secrets]
    return sorted(found, key=lambda past: (past.invalid_reason is not None, -past.revision, past.secret))


def _read(secret: Object, job: str, keys: Records) -> PastDocument:
    metadata = secret["metadata"]
    number, name = revision_of(secret, job), visible(metadata["name"])
    when = str(metadata.get("creationTimestamp") or "")
    try:
        if number is None or not is_ours(secret) or job_of_secret(secret, keys) != job:
            raise DamagedSecret(say("gpuctl did not write it"))
        entry = mapping_of(decompressed(data_of(secret, _ENTRY), _UNPACKED))
        past = _past(entry, number, job, metadata["namespace"], when, name)
        return replace(past, deleted=deletion_mark(keys) in annotations_of(secret))
    except DamagedSecret as error:
        return PastDocument(number or 0, {}, when=when, gpuctl="", invalid_reason=str(error), secret=name)


def _past(entry: dict[str, Any], number: int, job: str, namespace: str, when: str, secret: str) -> PastDocument:
    """Validate an entry and return the document in it.

    :raises DamagedSecret: gpuctl cannot have written the entry to this Secret.
    """
    if (entry.get("job"), entry.get("namespace"), entry.get("revision")) != (job, namespace, number):
        raise DamagedSecret(say("its job, namespace or revision differs"))
    document, cause, to = entry.get("document"), entry.get("cause"), entry.get("to")
    if not isinstance(document, dict):
        raise DamagedSecret(say("it has no {key}", key="document"))
    _check_identity(document, job, namespace)
    hidden_fields = entry.get("masked")
    if not isinstance(hidden_fields, list) or not all(isinstance(path, str) for path in hidden_fields):
        raise DamagedSecret(say("its list of masked fields is invalid"))
    if cause not in ("applied", "rolled back", "found") or not (to is None or type(to) is int):
        raise DamagedSecret(say("its cause is invalid"))
    who = entry.get("who")
    return PastDocument(
        number,
        document,
        tuple(visible(path)[:_LONGEST] for path in hidden_fields),
        when,
        visible(who)[:_LONGEST] if isinstance(who, str) else None,
        parse_commit(entry.get("commit")),
        visible(str(entry.get("gpuctl")))[:_LONGEST],
        cause,
        to,
        _variant(entry.get("variant")),
        secret=secret,
    )


def _variant(value: Any) -> Variant:
    """Return the variant in an entry; invalid parts, which gpuctl cannot have written, are left out."""
    known = value if isinstance(value, dict) else {}
    profile, overrides = known.get("profile"), known.get("overrides")
    return Variant(
        visible(profile)[:_LONGEST] if isinstance(profile, str) else None,
        tuple(visible(text)[:_LONGEST] for text in overrides if isinstance(text, str))
        if isinstance(overrides, list)
        else (),
    )


def _check_identity(document: dict[str, Any], job: str, namespace: str) -> None:
    """Check that a document is of this job and kind.

    :raises DamagedSecret: it is not.
    """
    kind, block = document.get("kind"), document.get("job")
    if kind not in JOB_KINDS:
        raise DamagedSecret(say("its document is of kind {kind}, which is not a job", kind=visible(str(kind))[:60]))
    own = block if isinstance(block, dict) else {}
    if own.get("name") != job:
        raise DamagedSecret(say("its document is of another job: {job}", job=visible(str(own.get("name")))[:63]))
    if own.get("namespace") != namespace:
        raise DamagedSecret(
            say("its document is for the namespace {namespace}", namespace=visible(str(own.get("namespace")))[:63])
        )
