"""A journal that is read is believed only when it is of the form that is written; nothing in a Secret breaks reading."""

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
from gpuctl.kube.api_errors import ClusterError
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key
from gpuctl.objects.ownership_metadata import records

Object = dict[str, Any]

KEYS = records(Settings())
SPACE = "team-a"
RUN = "0123456789"
UID = "00000000-0000-4000-8000-00000000000{}"


def job(name: str, image: str = "v1", **metadata: Any) -> Object:
    labels = {"app": name, "app.kubernetes.io/managed-by": "gpuctl", KEYS.job_type: "training"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": SPACE, "labels": labels, "annotations": {KEYS.hash: image}, **metadata},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": {"containers": [{"image": image}]}}},
    }


def service(name: str) -> Object:
    labels = {"app": name, "app.kubernetes.io/managed-by": "gpuctl", KEYS.job_type: "training"}
    metadata = {"name": name, "namespace": SPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"clusterIP": "None"}}


def entries(number: int = 3) -> list[JournalEntry]:
    """Jobs that are replaced, and the companion of the first."""
    saved = frozenset({UID.format(7)})
    result = [JournalEntry(UID.format(n), job(f"a{n}"), job(f"a{n}", "v2"), "post", saved=saved) for n in range(number)]
    return [*result, JournalEntry(UID.format(9), service("a0"), None, "delete", Key("Job", SPACE, "a0"))]


def secrets_of(group: Sequence[JournalEntry | CheckpointNote], namespace: str = SPACE, run: str = RUN) -> list[Object]:
    """The Secrets of a journal, as the server gives them: the index is the first."""
    index, parts = journal_secrets.secrets_of(run, namespace, list(group), KEYS)
    found = copy.deepcopy([index, *parts])
    for number, secret in enumerate(found):
        secret["metadata"] |= {"uid": str(number), "resourceVersion": "1"}
    return found


def read(found: list[Object]) -> Journal:
    return journal_secrets.read_journal(RUN, SPACE, found, KEYS)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part for each entry."""
    monkeypatch.setattr(journal_secrets, "_PACKED", 100)


def test_what_a_recovery_would_refuse_is_not_remembered() -> None:
    """Else it would be deleted, and could not be brought back."""
    away = {**job("b"), "metadata": {**job("b")["metadata"], "namespace": "team-b"}}
    group = [*entries(1), JournalEntry(UID.format(5), away, away, "post")]
    assert journals._by_namespace(group, KEYS) == {SPACE: group[:2], "team-b": group[2:]}
    strange = JournalEntry(UID.format(6), job("c", labels={}), job("c", labels={}), "post")
    with pytest.raises(ClusterError, match=f"job.batch/c in {SPACE} would be lost if this were interrupted") as caught:
        journals._by_namespace([*group, strange], KEYS)
    assert "lacks the label" in caught.value.message
    assert caught.value.hint == "nothing was deleted; delete the object yourself to continue"


def test_what_is_written_is_read() -> None:
    (secret,) = secrets_of(entries())
    journal = read([secret])
    assert journal.invalid_reason is None
    assert journal.committed
    assert journal.whole
    assert [entry.key for entry in journal.entries] == [entry.key for entry in entries()]
    assert [entry.new for entry in journal.entries] == [entry.new for entry in entries()]


NOTE = CheckpointNote(UID.format(4), Key("Job", SPACE, "gone"), frozenset({UID.format(7)}))


@pytest.mark.usefixtures("small")
def test_a_note_of_what_has_saved_brings_nothing_back() -> None:
    found = secrets_of([*entries(1), NOTE])
    journal = read(found)
    assert journal.notes == [NOTE]
    assert journal.saved == {UID.format(0): NOTE.saved, NOTE.uid: NOTE.saved}
    assert [entry.key.name for entry in journal.entries] == ["a0", "a0"]
    # Its part is missed by nobody.
    del found[3]
    assert read(found).lost == []


@pytest.mark.parametrize(
    "change",
    [
        {"ended": ["Job", "team-b", "gone"]},
        {"ended": ["Secret", SPACE, "gone"]},
        {"ended": ["Job", SPACE, "../gone"]},
        {"ended": "Job"},
        {"uid": "all"},
        {"saved": ["all"]},
        {"saved": None},
    ],
)
def test_a_note_that_no_gpuctl_writes(change: Object) -> None:
    assert decode_entry(encode_entry(NOTE), SPACE, KEYS) == NOTE
    with pytest.raises(InvalidEntry):
        decode_entry({**encode_entry(NOTE), **change}, SPACE, KEYS)


@pytest.mark.usefixtures("small")
def test_parts_in_any_order() -> None:
    found = secrets_of(entries())
    assert len(found) == 5
    journal = read(found[::-1])
    assert journal.invalid_reason is None
    assert [entry.key for entry in journal.entries] == [entry.key for entry in entries()]


@pytest.mark.usefixtures("small")
def test_a_missing_part_is_named_and_so_is_what_was_in_it() -> None:
    found = secrets_of(entries())
    del found[2]
    journal = read(found)
    assert journal.invalid_reason is None
    assert not journal.whole
    assert journal.missing == [f"gpuctl-journal-{RUN}-2"]
    assert [loss.key.name for loss in journal.lost] == ["a1"]
    assert [entry.key.name for entry in journal.entries] == ["a0", "a2", "a0"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "data", [None, {}, {"part": "!", "entries": "!"}, {"part": "", "entries": ""}, [], "x"], ids=str
)
def test_a_damaged_part_is_as_good_as_missing(data: Any) -> None:
    found = secrets_of(entries())
    found[1]["data"] = data
    journal = read(found)
    assert journal.missing == [f"gpuctl-journal-{RUN}-1"]
    assert [entry.key.name for entry in journal.entries] == ["a1", "a2", "a0"]


@pytest.mark.usefixtures("small")
def test_a_part_of_another_run_under_the_same_id() -> None:
    found, other = secrets_of(entries()), secrets_of(entries(4))
    found[1] = other[1]
    assert read(found).entries, "the part is the same"
    found[2] = secrets_of([JournalEntry(UID.format(5), job("x"), job("x", "v3"), "post"), *entries()])[1]
    found[2]["metadata"]["name"] = f"gpuctl-journal-{RUN}-2"
    journal = read(found)
    assert journal.missing == [f"gpuctl-journal-{RUN}-2"]
    assert [entry.key.name for entry in journal.entries] == ["a0", "a2", "a0"]


@pytest.mark.usefixtures("small")
def test_without_its_index_a_journal_was_never_finished() -> None:
    journal = read(secrets_of(entries())[1:])
    assert (journal.committed, journal.whole, journal.invalid_reason) == (False, True, None)
    assert len(journal.entries) == 4
    journal = read(secrets_of(entries())[2:])
    assert (journal.committed, journal.whole, journal.invalid_reason) == (False, False, None)


@pytest.mark.usefixtures("small")
def test_without_an_index_parts_of_different_runs_are_not_mixed() -> None:
    found, other = secrets_of(entries())[1:], secrets_of(entries(5))[1:]
    journal = read([*found[:2], *other[2:]])
    assert journal.entries == []
    assert "not the parts of one journal" in str(journal.invalid_reason)


def test_a_copy_of_a_part_under_another_name() -> None:
    (secret,) = secrets_of(entries())
    other = copy.deepcopy(secret)
    other["metadata"]["name"] = "gpuctl-journal-copy"
    journal = read([secret, other])
    assert journal.entries == []
    assert "Secret gpuctl-journal-copy: its name is not that of a part" in str(journal.invalid_reason)


@pytest.mark.parametrize("data", [None, {}, [], {"index": 1}, {"index": "e30="}, {"index": "bnVsbA=="}], ids=str)
def test_an_index_that_is_none(data: Any) -> None:
    (secret,) = secrets_of(entries())
    secret["data"] = data
    journal = read([secret])
    assert journal.entries == []
    assert journal.invalid_reason is not None
    assert f"Secret gpuctl-journal-{RUN}" in journal.invalid_reason


def with_entries(packed: bytes) -> Object:
    """An index with other entries, and the digest of these."""
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
    ids=["bomb", "deep", "digits", "cut", "more", "no list", "null", "items", "plain", "empty"],
)
def test_entries_that_are_none(packed: bytes) -> None:
    journal = read([with_entries(packed)])
    assert journal.entries == []
    assert journal.invalid_reason is not None
    assert f"Secret gpuctl-journal-{RUN}" in journal.invalid_reason


def test_entries_whose_digest_is_another() -> None:
    (secret,) = secrets_of(entries())
    secret["data"]["entries"] = secrets_of(entries(2))[0]["data"]["entries"]
    assert "its checksum differs" in str(read([secret]).invalid_reason)


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
def test_wrong_types_at_every_field(wrong: Any) -> None:
    """What is read is an entry or none; nothing else happens."""
    for entry in entries(1):
        value = json.loads(json.dumps(encode_entry(entry)))
        for path in paths(value):
            with contextlib.suppress(InvalidEntry):
                found = decode_entry(replaced(value, path, wrong), SPACE, KEYS)
                assert found.key.namespace == found.successor.namespace == SPACE


def test_wrong_types_at_every_field_of_the_index() -> None:
    (secret,) = secrets_of(entries(1))
    index = json.loads(base64.b64decode(secret["data"]["index"]))
    for path in paths(index):
        for wrong in (None, True, 7, "x", [], {}, ["x"]):
            text = json.dumps(replaced(index, path, wrong)).encode()
            other = {**secret, "data": {**secret["data"], "index": base64.b64encode(text).decode()}}
            journal = read([other])
            assert bool(journal.invalid_reason) != bool(journal.entries)


def changed(path: str, value: Any, part: str = "new") -> Callable[[Object], Object]:
    return lambda entry: replaced(entry, (part, *path.split(".")), value)


def both(change: Callable[[Object], Object]) -> Callable[[Object], Object]:
    return lambda entry: {**entry, "old": change(entry["old"]), "new": change(entry["new"])}


OTHER = {"apiVersion": "v1", "metadata": {"name": "a0", "namespace": SPACE, "labels": job("a0")["metadata"]["labels"]}}
FORGED: dict[str, tuple[Callable[[Object], Object], str]] = {
    "elsewhere": (both(lambda obj: replaced(obj, ("metadata", "namespace"), "kube-system")), "is in kube-system, not"),
    "new elsewhere": (changed("metadata.namespace", "kube-system"), "is in kube-system, not in team-a"),
    "nowhere": (changed("metadata.namespace", None), "is in no namespace"),
    "secret": (both(lambda obj: {**OTHER, "kind": "Secret"}), "Secret is not a kind that jobs consist of"),
    "cluster role": (both(lambda obj: {**OTHER, "kind": "ClusterRoleBinding"}), "ClusterRoleBinding is not a kind"),
    "priority class": (both(lambda obj: {**OTHER, "kind": "PriorityClass"}), "PriorityClass is not a kind"),
    "pod": (both(lambda obj: {**OTHER, "kind": "Pod"}), "Pod is not a kind"),
    "config map for a job": (
        both(lambda obj: {**OTHER, "kind": "ConfigMap", "data": {}}),
        "is not the successor",
    ),
    "api version": (changed("apiVersion", "batch/v9"), "its apiVersion is batch/v9"),
    "other name": (changed("metadata.name", "other"), "is not the successor of job.batch/a0"),
    "other kind": (
        lambda entry: {**entry, "new": {**entry["new"], "kind": "Deployment", "apiVersion": "apps/v1"}},
        "deployment.apps/a0 in team-a is not the successor",
    ),
    "owned": (
        lambda entry: {**entry, "new": job("a0", ownerReferences=[{"kind": "Namespace", "name": "kube-system"}])},
        "has the metadata ownerReferences",
    ),
    "uid": (lambda entry: {**entry, "new": job("a0", uid=UID.format(1))}, "has the metadata uid"),
    "not ours": (changed("metadata.labels", {"app": "a0"}), "lacks the label app.kubernetes.io/managed-by=gpuctl"),
    "another job": (
        lambda entry: replaced(entry, ("new", "metadata", "labels"), {**job("a0")["metadata"]["labels"], "app": "b"}),
        "the label app differs",
    ),
    "parent of a set": (
        lambda entry: {**entry, "new": job("a0", annotations={"applyset.kubernetes.io/tooling": "kubectl/v1"})},
        "which is for the parents of sets",
    ),
    "no set": (
        lambda entry: replaced(
            entry,
            ("new", "metadata", "labels"),
            {**job("a0")["metadata"]["labels"], "applyset.kubernetes.io/part-of": "other"},
        ),
        "which is for the parents of sets",
    ),
    "template elsewhere": (
        changed("spec.template.metadata", {"namespace": "kube-system"}),
        "makes objects in kube-system",
    ),
    "claims elsewhere": (
        changed("spec", {"volumeClaimTemplates": [{"metadata": {"name": "x", "namespace": "other"}}]}),
        "makes objects in other",
    ),
    "data from elsewhere": (
        changed("spec", {"volumeClaimTemplates": [{"spec": {"dataSourceRef": {"namespace": "other"}}}]}),
        "takes data from other",
    ),
    "more fields": (changed("status", {}), "has status"),
    "nothing new": (lambda entry: {**entry, "new": None}, "it has no successor"),
    "uid of none": (lambda entry: {**entry, "uid": "x"}, "an entry has no uid"),
    "manner": (lambda entry: {**entry, "method": "delete"}, "its method is not post or apply"),
    "saved": (lambda entry: {**entry, "saved": ["../x"]}, "the saved pods are not uids"),
}


@pytest.mark.parametrize("form", FORGED)
def test_what_no_gpuctl_writes_is_not_believed(form: str) -> None:
    change, why = FORGED[form]
    value = json.loads(json.dumps(encode_entry(entries(1)[0])))
    if form == "more fields":
        value["new"]["status"] = None
    with pytest.raises(InvalidEntry, match=r".") as refused:
        decode_entry(change(value), SPACE, KEYS)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("main", "obj"),
    [
        (["Job", "kube-system", "a0"], service("a0")),
        (["Secret", SPACE, "a0"], service("a0")),
        (["Job", SPACE, "a1"], service("a0")),
        (["Job", SPACE, "a0"], job("a0")),
        (["Job", SPACE], service("a0")),
        (["Job", SPACE, "a0"], {**service("a0"), "metadata": {"name": "a0", "namespace": SPACE}}),
        (["Job", SPACE, "a0"], {**service("kubernetes")}),
    ],
    ids=["elsewhere", "no workload", "another", "itself", "short", "not ours", "other name"],
)
def test_companions_of_other_jobs_are_not_believed(main: Any, obj: Object) -> None:
    value = {**encode_entry(entries(1)[1]), "companionOf": main, "old": obj}
    with pytest.raises(InvalidEntry):
        decode_entry(value, SPACE, KEYS)


def test_forms_that_are_believed() -> None:
    """A training in its other form or without the hash of its name, an adopted object, a member of a set, a Service that goes headless."""
    jobset = {**job("a"), "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    adopted = {**job("a"), "metadata": {"name": "a", "namespace": SPACE, "labels": {"team": "nlp"}}}
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
        assert decode_entry(encode_entry(entry), SPACE, KEYS) == entry


def test_what_is_written_is_as_large_as_what_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the byte: a part that is one byte too large would not be read again."""
    (entry,) = entries(1)[:1]
    size = len(json.dumps([encode_entry(entry)], ensure_ascii=False, separators=(",", ":")).encode())
    monkeypatch.setattr(journal_secrets, "_UNPACKED", size)
    assert read(secrets_of([entry])).entries == [entry]
    monkeypatch.setattr(journal_secrets, "_UNPACKED", size - 1)
    with pytest.raises(ClusterError, match="is too large for the journal"):
        secrets_of([entry])
