"""The journal of a plan: the old and the new objects, written before the first delete, so that no object can be lost.

It is stored in Secrets (specs may have passwords in variables) of the affected namespaces: parts, each with some of the
entries, and the index, which is written last. Nothing is deleted before the index exists. A small journal is only an
index. Progress is not written: the uids in the cluster show it.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable

from gpuctl.apply.run.journal_entries import CheckpointNote, InvalidEntry, JournalEntry, decode_entry, encode_entry
from gpuctl.apply.run.journal_secrets import Journal, index_name, read_journal, secrets_of
from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import RESOURCES, Object, key_of, labels_of
from gpuctl.objects.ownership_metadata import Records


def write(session: Session, entries: Iterable[JournalEntry | CheckpointNote], keys: Records) -> list[Journal]:
    """Write a journal of the entries for each namespace. When this returns, the objects may be deleted.

    :raises ClusterError: a recovery would reject an entry; nothing was written.
    """
    identifier = secrets.token_hex(5)
    namespaces = _by_namespace(entries, keys)
    planned = {namespace: secrets_of(identifier, namespace, group, keys) for namespace, group in namespaces.items()}
    try:
        written = session.each(session.create, [part for _, parts in planned.values() for part in parts])
        result = []
        for namespace in namespaces:
            index = session.create(planned[namespace][0])
            own = [part for part in written if part["metadata"]["namespace"] == namespace]
            result.append(Journal(identifier, namespace, secrets=[index, *own]))
        return result
    except BaseException:
        # Nothing was deleted yet. If a create was cut off, it is unknown which Secrets exist.
        for secret in [secret for index, parts in planned.values() for secret in (index, *parts)]:
            with contextlib.suppress(ClusterError):
                _take_back(session, secret)
        raise


def _take_back(session: Session, secret: Object) -> None:
    written = session.get(key_of(secret))
    if written is not None and written.get("data") == secret["data"]:
        session.delete(key_of(secret), written["metadata"]["uid"], foreground=False)


def remove(session: Session, journal: Journal) -> None:
    """Remove the journal of a finished plan. The index comes last, because it lists the contents of missing parts."""
    name = index_name(journal.id)
    for secret in sorted(journal.secrets, key=lambda secret: secret["metadata"]["name"] == name):
        session.delete(key_of(secret), secret["metadata"]["uid"], foreground=False)


def find(session: Session, keys: Records, namespaces: Iterable[str] | None, *, strict: bool = False) -> list[Journal]:
    """Return the journals in some namespaces, or in all (None), including invalid ones; newer ones first.

    A namespace whose Secrets the user may not list is skipped, unless ``strict``: another user must finish its
    journals.
    """
    resource = RESOURCES["Secret"]
    found: list[Object] = []
    for namespace in [None] if namespaces is None else sorted(set(namespaces)):
        try:
            found += session.list_objects(resource, namespace, labels=keys.journal)[0]
        except ApiError as error:
            if strict or namespace is None or not error.lacks_permission:
                raise
    groups: dict[tuple[str, str], list[Object]] = {}
    for secret in found:
        groups.setdefault((secret["metadata"]["namespace"], labels_of(secret)[keys.journal]), []).append(secret)
    journals = [
        read_journal(identifier, namespace, group, keys) for (namespace, identifier), group in sorted(groups.items())
    ]
    return sorted(journals, key=lambda journal: (journal.namespace, -journal.created))


def _by_namespace(
    entries: Iterable[JournalEntry | CheckpointNote], keys: Records
) -> dict[str, list[JournalEntry | CheckpointNote]]:
    """Return the entries by namespace.

    :raises ClusterError: a recovery would reject one of them.
    """
    namespaces: dict[str, list[JournalEntry | CheckpointNote]] = {}
    for entry in entries:
        namespaces.setdefault(entry.key.namespace, []).append(entry)
        try:
            decode_entry(encode_entry(entry), entry.key.namespace, keys)
        except InvalidEntry as error:
            raise ClusterError(
                say(
                    "{object} would be lost if this were interrupted, because a recovery would refuse it: {error}",
                    object=entry.key,
                    error=error,
                ),
                say("nothing was deleted; delete the object yourself to continue"),
            ) from None
    return namespaces
