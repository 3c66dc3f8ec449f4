"""The journal reader accepts only entries in the form that gpuctl writes. No content of a Secret makes it crash."""

from __future__ import annotations

import base64
import contextlib
import copy
import gzip
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from gpuctl.apply.run import journal as journals
from gpuctl.apply.run import journal_secrets
from gpuctl.apply.run.journal_entries import CheckpointNote, InvalidEntry, JournalEntry, decode_entry, encode_entry
from gpuctl.apply.run.journal_secrets import Journal
from gpuctl.apply.run.recovery_plan import finished_outcome
from gpuctl.kube.api_errors import ClusterError
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key
from gpuctl.objects.ownership_metadata import FINISHED_INDEXES, records

Object = dict[str, Any]

KEYS = records(Settings())
NAMESPACE = "team-a"
RUN = "0123456789"
UID = "00000000-0000-4000-8000-00000000000{}"


def job(name: str, image: str = "v1", **metadata: Any) -> Object:
    labels = {"app": name, "app.kubernetes.io/managed-by": "gpuctl", KEYS.job_type: "training"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": labels,
            "annotations": {KEYS.hash: image},
            **metadata,
        },
        "spec": {"template": {"metadata": {"labels": labels}, "spec": {"containers": [{"image": image}]}}},
    }


def service(name: str) -> Object:
    labels = {"app": name, "app.kubernetes.io/managed-by": "gpuctl", KEYS.job_type: "training"}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"clusterIP": "None"}}


def entries(number: int = 3) -> list[JournalEntry]:
    """Return entries of replaced jobs, and of a companion object of the first."""
    saved = frozenset({UID.format(7)})
    result = [JournalEntry(UID.format(n), job(f"a{n}"), job(f"a{n}", "v2"), "post", saved=saved) for n in range(number)]
    return [*result, JournalEntry(UID.format(9), service("a0"), None, "delete", Key("Job", NAMESPACE, "a0"))]


def secrets_of(
    group: Sequence[JournalEntry | CheckpointNote], namespace: str = NAMESPACE, run: str = RUN
) -> list[Object]:
    """Return the Secrets of a journal as the API server returns them, the index first."""
    index, parts = journal_secrets.secrets_of(run, namespace, list(group), KEYS)
    found = copy.deepcopy([index, *parts])
    for number, secret in enumerate(found):
        secret["metadata"] |= {"uid": str(number), "resourceVersion": "1"}
    return found


def read_secrets(found: list[Object]) -> Journal:
    return journal_secrets.read_journal(RUN, NAMESPACE, found, KEYS)


@pytest.fixture
def one_entry_per_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit a part of the journal to one entry."""
    monkeypatch.setattr(journal_secrets, "_PACKED", 100)


def test_object_that_recovery_would_refuse_is_not_deleted() -> None:
    """Otherwise the object would be deleted, and recovery could not restore it."""
    away = {**job("b"), "metadata": {**job("b")["metadata"], "namespace": "team-b"}}
    group = [*entries(1), JournalEntry(UID.format(5), away, away, "post")]
    assert journals._by_namespace(group, KEYS) == {NAMESPACE: group[:2], "team-b": group[2:]}
    strange = JournalEntry(UID.format(6), job("c", labels={}), job("c", labels={}), "post")
    with pytest.raises(
        ClusterError, match=f"job.batch/c in {NAMESPACE} would be lost if this were interrupted"
    ) as caught:
        journals._by_namespace([*group, strange], KEYS)
    assert "lacks the label" in caught.value.message
    assert caught.value.hint == "nothing was deleted; delete the object yourself to continue"


def test_written_journal_is_read() -> None:
    (secret,) = secrets_of(entries())
    journal = read_secrets([secret])
    assert journal.invalid_reason is None
    assert journal.committed
    assert journal.whole
    assert [entry.key for entry in journal.entries] == [entry.key for entry in entries()]
    assert [entry.new for entry in journal.entries] == [entry.new for entry in entries()]


SAVED_NOTE = CheckpointNote(UID.format(4), Key("Job", NAMESPACE, "gone"), frozenset({UID.format(7)}))


@pytest.mark.usefixtures("one_entry_per_part")
def test_checkpoint_note_restores_nothing() -> None:
    found = secrets_of([*entries(1), SAVED_NOTE])
    journal = read_secrets(found)
    assert journal.notes == [SAVED_NOTE]
    assert journal.saved == {UID.format(0): SAVED_NOTE.saved, SAVED_NOTE.uid: SAVED_NOTE.saved}
    assert [entry.key.name for entry in journal.entries] == ["a0", "a0"]
    # A note restores nothing, so its part is not reported as lost.
    del found[3]
    assert read_secrets(found).lost == []


@pytest.mark.parametrize(
    "change",
    [
        {"ended": ["Job", "team-b", "gone"]},
        {"ended": ["Secret", NAMESPACE, "gone"]},
        {"ended": ["Job", NAMESPACE, "../gone"]},
        {"ended": "Job"},
        {"uid": "all"},
        {"saved": ["all"]},
        {"saved": None},
    ],
)
def test_malformed_checkpoint_note_is_rejected(change: Object) -> None:
    assert decode_entry(encode_entry(SAVED_NOTE), NAMESPACE, KEYS) == SAVED_NOTE
    with pytest.raises(InvalidEntry):
        decode_entry({**encode_entry(SAVED_NOTE), **change}, NAMESPACE, KEYS)


@pytest.mark.usefixtures("one_entry_per_part")
def test_parts_are_read_in_any_order() -> None:
    found = secrets_of(entries())
    assert len(found) == 5
    journal = read_secrets(found[::-1])
    assert journal.invalid_reason is None
    assert [entry.key for entry in journal.entries] == [entry.key for entry in entries()]


@pytest.mark.usefixtures("one_entry_per_part")
def test_missing_part_and_its_entries_are_named() -> None:
    found = secrets_of(entries())
    del found[2]
    journal = read_secrets(found)
    assert journal.invalid_reason is None
    assert not journal.whole
    assert journal.missing == [f"gpuctl-journal-{RUN}-2"]
    assert [loss.key.name for loss in journal.lost] == ["a1"]
    assert [entry.key.name for entry in journal.entries] == ["a0", "a2", "a0"]


@pytest.mark.usefixtures("one_entry_per_part")
@pytest.mark.parametrize(
    "data", [None, {}, {"part": "!", "entries": "!"}, {"part": "", "entries": ""}, [], "x"], ids=str
)
def test_damaged_part_counts_as_missing(data: Any) -> None:
    found = secrets_of(entries())
    found[1]["data"] = data
    journal = read_secrets(found)
    assert journal.missing == [f"gpuctl-journal-{RUN}-1"]
    assert [entry.key.name for entry in journal.entries] == ["a1", "a2", "a0"]


@pytest.mark.usefixtures("one_entry_per_part")
def test_part_of_another_run_counts_as_missing() -> None:
    found, other = secrets_of(entries()), secrets_of(entries(4))
    found[1] = other[1]
    assert read_secrets(found).entries, "the part is identical"
    found[2] = secrets_of([JournalEntry(UID.format(5), job("x"), job("x", "v3"), "post"), *entries()])[1]
    found[2]["metadata"]["name"] = f"gpuctl-journal-{RUN}-2"
    journal = read_secrets(found)
    assert journal.missing == [f"gpuctl-journal-{RUN}-2"]
    assert [entry.key.name for entry in journal.entries] == ["a0", "a2", "a0"]


@pytest.mark.usefixtures("one_entry_per_part")
def test_journal_without_index_is_uncommitted() -> None:
    journal = read_secrets(secrets_of(entries())[1:])
    assert (journal.committed, journal.whole, journal.invalid_reason) == (False, True, None)
    assert len(journal.entries) == 4
    journal = read_secrets(secrets_of(entries())[2:])
    assert (journal.committed, journal.whole, journal.invalid_reason) == (False, False, None)


@pytest.mark.usefixtures("one_entry_per_part")
def test_parts_of_different_runs_are_not_mixed() -> None:
    found, other = secrets_of(entries())[1:], secrets_of(entries(5))[1:]
    journal = read_secrets([*found[:2], *other[2:]])
    assert journal.entries == []
    assert "not the parts of one journal" in str(journal.invalid_reason)


def test_copied_part_under_another_name_is_rejected() -> None:
    (secret,) = secrets_of(entries())
    other = copy.deepcopy(secret)
    other["metadata"]["name"] = "gpuctl-journal-copy"
    journal = read_secrets([secret, other])
    assert journal.entries == []
    assert "Secret gpuctl-journal-copy: its name is not that of a part" in str(journal.invalid_reason)


@pytest.mark.parametrize("data", [None, {}, [], {"index": 1}, {"index": "e30="}, {"index": "bnVsbA=="}], ids=str)
def test_malformed_index_is_rejected(data: Any) -> None:
    (secret,) = secrets_of(entries())
    secret["data"] = data
    journal = read_secrets([secret])
    assert journal.entries == []
    assert journal.invalid_reason is not None
    assert f"Secret gpuctl-journal-{RUN}" in journal.invalid_reason


def index_with_entries(packed: bytes) -> Object:
    """Return an index Secret with other entries and a matching digest."""
    (secret,) = secrets_of(entries())
    index = json.loads(base64.b64decode(secret["data"]["index"]))
    index["parts"][0]["digest"] = hashlib.sha256(packed).hexdigest()
    secret["data"] = {
        "index": base64.b64encode(json.dumps(index).encode()).decode(),
        "entries": base64.b64encode(packed).decode(),
    }
    return secret


@pytest.mark.parametrize(
    "packed",
    [
        gzip.compress(b"[" + b" " * (journal_secrets._UNPACKED + 10) + b"]"),
        gzip.compress(b"[" * 200_000),
        gzip.compress(b'[{"uid": ' + b"9" * 100_000 + b"}]"),
        gzip.compress(b"[]")[:-4],
        gzip.compress(b"[]") + b"more",
        gzip.compress(b"{}"),
        gzip.compress(b"[null]"),
        gzip.compress(b'["x", 1, [], {}]'),
        b"[]",
        b"",
    ],
    ids=[
        "bomb",
        "deep",
        "digits",
        "truncated",
        "trailing data",
        "not a list",
        "null",
        "wrong items",
        "not gzip",
        "empty",
    ],
)
def test_malformed_entries_are_rejected(packed: bytes) -> None:
    journal = read_secrets([index_with_entries(packed)])
    assert journal.entries == []
    assert journal.invalid_reason is not None
    assert f"Secret gpuctl-journal-{RUN}" in journal.invalid_reason


def test_entries_with_another_digest_are_rejected() -> None:
    (secret,) = secrets_of(entries())
    secret["data"]["entries"] = secrets_of(entries(2))[0]["data"]["entries"]
    assert "its checksum differs" in str(read_secrets([secret]).invalid_reason)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    result = copy.copy(value)
    result[path[0]] = replaced(value[path[0]], path[1:], new)
    return result


@pytest.mark.parametrize("wrong", [None, True, 7, 1.5, "x", "", [], {}, ["x"], {"x": 1}, [[[]]]], ids=str)
def test_wrong_type_in_any_entry_field(wrong: Any) -> None:
    """Decoding returns an entry of this namespace or raises InvalidEntry."""
    for entry in entries(1):
        value = json.loads(json.dumps(encode_entry(entry)))
        for path in paths(value):
            with contextlib.suppress(InvalidEntry):
                found = decode_entry(replaced(value, path, wrong), NAMESPACE, KEYS)
                assert found.key.namespace == found.successor.namespace == NAMESPACE


def test_wrong_type_in_any_index_field() -> None:
    (secret,) = secrets_of(entries(1))
    index = json.loads(base64.b64decode(secret["data"]["index"]))
    for path in paths(index):
        for wrong in (None, True, 7, "x", [], {}, ["x"]):
            text = json.dumps(replaced(index, path, wrong)).encode()
            other = {**secret, "data": {**secret["data"], "index": base64.b64encode(text).decode()}}
            journal = read_secrets([other])
            assert bool(journal.invalid_reason) != bool(journal.entries)


def change_field(path: str, value: Any, part: str = "new") -> Callable[[Object], Object]:
    return lambda entry: replaced(entry, (part, *path.split(".")), value)


def change_old_and_new(change: Callable[[Object], Object]) -> Callable[[Object], Object]:
    return lambda entry: {**entry, "old": change(entry["old"]), "new": change(entry["new"])}


OTHER = {
    "apiVersion": "v1",
    "metadata": {"name": "a0", "namespace": NAMESPACE, "labels": job("a0")["metadata"]["labels"]},
}
FORGED_ENTRIES: dict[str, tuple[Callable[[Object], Object], str]] = {
    "other namespace": (
        change_old_and_new(lambda obj: replaced(obj, ("metadata", "namespace"), "kube-system")),
        "is in kube-system, not",
    ),
    "other namespace of the successor": (
        change_field("metadata.namespace", "kube-system"),
        "is in kube-system, not in team-a",
    ),
    "no namespace": (change_field("metadata.namespace", None), "is in no namespace"),
    "secret": (
        change_old_and_new(lambda obj: {**OTHER, "kind": "Secret"}),
        "Secret is not a kind that jobs consist of",
    ),
    "cluster role": (
        change_old_and_new(lambda obj: {**OTHER, "kind": "ClusterRoleBinding"}),
        "ClusterRoleBinding is not a kind",
    ),
    "priority class": (
        change_old_and_new(lambda obj: {**OTHER, "kind": "PriorityClass"}),
        "PriorityClass is not a kind",
    ),
    "pod": (change_old_and_new(lambda obj: {**OTHER, "kind": "Pod"}), "Pod is not a kind"),
    "config map for a job": (
        change_old_and_new(lambda obj: {**OTHER, "kind": "ConfigMap", "data": {}}),
        "is not the successor",
    ),
    "api version": (change_field("apiVersion", "batch/v9"), "its apiVersion is batch/v9"),
    "other name": (change_field("metadata.name", "other"), "is not the successor of job.batch/a0"),
    "other kind": (
        lambda entry: {**entry, "new": {**entry["new"], "kind": "Deployment", "apiVersion": "apps/v1"}},
        "deployment.apps/a0 in team-a is not the successor",
    ),
    "owner reference": (
        lambda entry: {**entry, "new": job("a0", ownerReferences=[{"kind": "Namespace", "name": "kube-system"}])},
        "has the metadata ownerReferences",
    ),
    "uid": (lambda entry: {**entry, "new": job("a0", uid=UID.format(1))}, "has the metadata uid"),
    "not managed by gpuctl": (
        change_field("metadata.labels", {"app": "a0"}),
        "lacks the label app.kubernetes.io/managed-by=gpuctl",
    ),
    "another job": (
        lambda entry: replaced(entry, ("new", "metadata", "labels"), {**job("a0")["metadata"]["labels"], "app": "b"}),
        "the label app differs",
    ),
    "annotation of a set's parent": (
        lambda entry: {**entry, "new": job("a0", annotations={"applyset.kubernetes.io/tooling": "kubectl/v1"})},
        "which is for the parents of sets",
    ),
    "invalid set label": (
        lambda entry: replaced(
            entry,
            ("new", "metadata", "labels"),
            {**job("a0")["metadata"]["labels"], "applyset.kubernetes.io/part-of": "other"},
        ),
        "which is for the parents of sets",
    ),
    "template in another namespace": (
        change_field("spec.template.metadata", {"namespace": "kube-system"}),
        "makes objects in kube-system",
    ),
    "claims in another namespace": (
        change_field("spec", {"volumeClaimTemplates": [{"metadata": {"name": "x", "namespace": "other"}}]}),
        "makes objects in other",
    ),
    "data source in another namespace": (
        change_field("spec", {"volumeClaimTemplates": [{"spec": {"dataSourceRef": {"namespace": "other"}}}]}),
        "takes data from other",
    ),
    "status": (change_field("status", {}), "has status"),
    "no successor": (lambda entry: {**entry, "new": None}, "it has no successor"),
    "invalid uid": (lambda entry: {**entry, "uid": "x"}, "an entry has no uid"),
    "unknown method": (lambda entry: {**entry, "method": "delete"}, "its method is not post or apply"),
    "invalid saved pods": (lambda entry: {**entry, "saved": ["../x"]}, "the saved pods are not uids"),
}


@pytest.mark.parametrize("form", FORGED_ENTRIES)
def test_forged_entry_is_rejected(form: str) -> None:
    change, why = FORGED_ENTRIES[form]
    value = json.loads(json.dumps(encode_entry(entries(1)[0])))
    if form == "status":
        value["new"]["status"] = None
    with pytest.raises(InvalidEntry, match=r".") as refused:
        decode_entry(change(value), NAMESPACE, KEYS)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("main", "obj"),
    [
        (["Job", "kube-system", "a0"], service("a0")),
        (["Secret", NAMESPACE, "a0"], service("a0")),
        (["Job", NAMESPACE, "a1"], service("a0")),
        (["Job", NAMESPACE, "a0"], job("a0")),
        (["Job", NAMESPACE], service("a0")),
        (["Job", NAMESPACE, "a0"], {**service("a0"), "metadata": {"name": "a0", "namespace": NAMESPACE}}),
        (["Job", NAMESPACE, "a0"], {**service("kubernetes")}),
    ],
    ids=[
        "other namespace",
        "not a workload",
        "another job",
        "itself",
        "too short",
        "not managed by gpuctl",
        "other name",
    ],
)
def test_forged_companion_is_rejected(main: Any, obj: Object) -> None:
    value = {**encode_entry(entries(1)[1]), "companionOf": main, "old": obj}
    with pytest.raises(InvalidEntry):
        decode_entry(value, NAMESPACE, KEYS)


def test_every_written_form_is_accepted() -> None:
    """A training that becomes a JobSet or loses its name hash, an adopted object, a member of a set, a headless
    Service.
    """
    jobset = {**job("a"), "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    adopted = {**job("a"), "metadata": {"name": "a", "namespace": NAMESPACE, "labels": {"team": "nlp"}}}
    member = job("a", "v2")
    member["metadata"]["labels"] = {
        **member["metadata"]["labels"],
        "applyset.kubernetes.io/part-of": "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1",
    }
    built = job("a")
    built["metadata"] = {**built["metadata"], "name": "a-3f9a1c"}
    forms = ((job("a"), jobset), (adopted, job("a")), (job("a"), member), (service("a"), service("a")))
    for old, new in (*forms, (built, job("a")), (built, jobset)):
        entry = JournalEntry(UID.format(1), old, new, "post")
        assert decode_entry(encode_entry(entry), NAMESPACE, KEYS) == entry


def test_array_whose_new_run_was_not_started_is_named() -> None:
    """A killed ``rerun --failed`` leaves it suspended: nothing else would start it."""
    again = job("a0", annotations={KEYS.hash: "v1", FINISHED_INDEXES: "0-3"})
    entry = JournalEntry(UID.format(1), job("a0"), again, "post")
    live = copy.deepcopy(again)
    live["metadata"]["uid"] = UID.format(2)
    resume = "the new object exists, suspended; `gpuctl resume a0 -n team-a` starts it"
    assert finished_outcome(entry, {entry.key: live}, KEYS) == ("new", resume)


def test_finished_rerun_is_not_taken_for_the_old_job() -> None:
    """The new object of a rerun has the annotations of the old one, except for the finished indexes until it starts."""
    ended = job("a0")
    ended["spec"]["suspend"] = True
    entry = JournalEntry(
        UID.format(1), ended, job("a0", annotations={KEYS.hash: "v1", FINISHED_INDEXES: "0-3"}), "post"
    )
    resume = "had been created again, suspended; `gpuctl resume a0 -n team-a` starts it"
    for live, outcome in (
        (job("a0"), ("new", "the new object exists")),
        (ended, ("old", resume)),
        (job("a0", "v2"), ("new", "a later version exists")),
    ):
        live = copy.deepcopy(live)
        live["metadata"]["uid"] = UID.format(2)
        assert finished_outcome(entry, {entry.key: live}, KEYS) == outcome


def test_written_and_accepted_sizes_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part one byte above the reader's limit is not written."""
    (entry,) = entries(1)[:1]
    size = len(json.dumps([encode_entry(entry)], ensure_ascii=False, separators=(",", ":")).encode())
    monkeypatch.setattr(journal_secrets, "_UNPACKED", size)
    assert read_secrets(secrets_of([entry])).entries == [entry]
    monkeypatch.setattr(journal_secrets, "_UNPACKED", size - 1)
    with pytest.raises(ClusterError, match="is too large for the journal"):
        secrets_of([entry])
