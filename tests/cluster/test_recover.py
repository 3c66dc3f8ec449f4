"""Recovery after a killed apply: which journals are trusted, what is shown and confirmed, and how commands use them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.world import Api
from gpuctl.apply.run import journal as journals
from gpuctl.apply.run import journal_secrets
from gpuctl.apply.run import lease as leases
from gpuctl.apply.run.journal_entries import JournalEntry
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.configuration import open_session
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.recreated_objects import recreatable
from gpuctl.objects.timestamps import parse_timestamp
from gpuctl.usecases.changes import run_recovery
from support.cluster_tools import DOMAIN, HASH, Place, image, inference, outcome, training

Object = dict[str, Any]

KEYS = records(Settings())
NO_UID = "00000000-0000-4000-8000-000000000000"
SMALL = {"gpu": 0, "cpu": "10m", "memory": "10Mi"}


@pytest.fixture
def session(plane: ControlPlane) -> Iterator[Session]:
    """A session with the API server as the admin."""
    made = open_session(kubeconfig=str(plane.kubeconfig()))
    yield made
    made.close()


def new_image_entries(place: Place, *names: str, kind: str = "Job", tag: str = "v2") -> list[JournalEntry]:
    """Return the journal entries of an apply that gives jobs another image."""
    found = []
    for name in names:
        live = place.get(kind, name)
        new = copy.deepcopy(recreatable(live))
        new["spec"]["template"]["spec"]["containers"][0]["image"] = image(tag)["image"]
        new["metadata"]["annotations"][HASH] = "0" * 32
        found.append(JournalEntry(live["metadata"]["uid"], recreatable(live), new, "post"))
    return found


def delete_jobs(place: Place, *names: str, kind: str = "Job") -> None:
    """Delete jobs as the killed apply did."""
    for name in names:
        place.kubectl("delete", kind.lower(), name, "--wait=true")


def leave_killed_apply(place: Place, session: Session, *names: str) -> list[JournalEntry]:
    """Leave the state of an apply that was killed after its deletes; the new image is v2."""
    entries = new_image_entries(place, *names)
    journals.write(session, entries, KEYS)
    delete_jobs(place, *names)
    return entries


def forge_journal(place: Place, obj: Object, *, namespace: str | None = None) -> str:
    """Create a well-formed journal by hand; return the Secret's name."""
    entry = JournalEntry(NO_UID, obj, obj, "post")
    index, _ = journal_secrets.secrets_of("abcdef0123", place.namespace, [entry], KEYS)
    index["metadata"]["namespace"] = namespace or place.namespace
    place.create(index)
    return str(index["metadata"]["name"])


def deployment(name: str, namespace: str, **spec: Any) -> Object:
    labels = {"app": name, "app.kubernetes.io/managed-by": "gpuctl", f"{DOMAIN}/job-type": "compute"}
    containers = [{"name": "main", "image": "registry.example.com/x:v1", "securityContext": {"privileged": True}}]
    volumes = [{"name": "host", "hostPath": {"path": "/etc"}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": containers, "volumes": volumes, "serviceAccountName": "admin", **spec},
            },
        },
    }


def secrets_of(place: Place) -> set[str]:
    """Return the names of the namespace's Secrets."""
    return {name.partition("/")[2] for name in place.objects(("Secret",))}


def created(place: Place, name: str) -> float:
    return parse_timestamp(place.get("Job", name)["metadata"]["creationTimestamp"]).timestamp()


def image_of(place: Place, name: str) -> str:
    return str(place.get("Job", name)["spec"]["template"]["spec"]["containers"][0]["image"]).rpartition(":")[2]


def test_apply_does_not_take_a_deletion_of_a_killed_apply_for_the_ttl(place: Place, session: Session) -> None:
    job = training(job={"ttl": "1s"})
    place.apply(job)
    place.running("train")
    place.until(lambda: session.server_time() > created(place, "train") + 1, "the ttl")
    leave_killed_apply(place, session, "train")
    assert place.plan(job).actions["Job/train"] == "create"
    place.apply(job)
    assert image_of(place, "train") == "v1"
    assert secrets_of(place) == set()


def test_apply_of_another_form_takes_the_place_of_a_deleted_job(place: Place, session: Session) -> None:
    """The recovery does not create the old form beside it; its pause lasts."""
    place.platform("training: {backend: jobset}")
    place.apply(training())
    place.gpuctl("pause", "train")
    leave_killed_apply(place, session, "train")
    place.apply(training(resources={"nodes": 2}), flags=("--yes",))
    assert place.get("JobSet", "train")["spec"]["suspend"] is True
    assert not place.exists("Job", "train")
    assert secrets_of(place) == set()


@pytest.mark.parametrize("nodes", [1, 2])
def test_job_of_a_later_apply_is_kept_if_that_was_killed_too(place: Place, session: Session, nodes: int) -> None:
    """It was killed after it had created the job, before it removed the first journal: the old Service does not come
    back, nor does the old form.
    """
    place.platform("training: {backend: jobset}")
    place.apply(training("train"))
    (entry,) = new_image_entries(place, "train")
    labels = entry.old["metadata"]["labels"]
    metadata = {"name": "train", "namespace": place.namespace, "labels": labels}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"clusterIP": "None"}}
    entries = [entry, JournalEntry(NO_UID, service, None, "post", entry.key)]
    delete_jobs(place, "train")
    place.apply(training(resources={"nodes": nodes}, environment=image("v3")))
    journals.write(session, entries, KEYS)

    def uids() -> dict[str, str]:
        return {name: obj["metadata"]["uid"] for name, obj in place.objects(("Job", "JobSet", "Service")).items()}

    before = uids()
    place.gpuctl("recover", "-n", place.namespace, "--yes")
    assert uids() == before
    assert secrets_of(place) == set()


def test_newer_journal_of_a_job_counts(place: Place, session: Session) -> None:
    """The run after a killed one failed for another job, which left the first journal; the third was killed."""
    place.apply(training("train"))
    first = new_image_entries(place, "train", tag="v2")
    delete_jobs(place, "train")
    place.apply(training(environment=image("v3")))
    journals.write(session, first, KEYS)
    place.until(lambda: session.server_time() > created(place, "train") + 2, "a second")
    journals.write(session, new_image_entries(place, "train", tag="v4"), KEYS)
    delete_jobs(place, "train")
    place.gpuctl("recover", "-n", place.namespace, "--yes")
    assert image_of(place, "train") == "v4"
    assert secrets_of(place) == set()


def test_journal_that_cannot_be_written_whole_is_removed(place: Place, session: Session) -> None:
    """The second namespace does not exist: the Secret in the first one goes again."""
    place.apply(training("train"))
    (entry,) = new_image_entries(place, "train")
    old, new = (copy.deepcopy(obj) for obj in (entry.old, entry.new))
    old["metadata"]["namespace"] = new["metadata"]["namespace"] = f"{place.namespace}-z"
    with pytest.raises(ApiError, match="there is no namespace"):
        journals.write(session, [entry, JournalEntry(NO_UID, old, new, "post")], KEYS)
    assert secrets_of(place) == set()


def test_recover_refuses_a_forged_journal_and_names_it(place: Place, api: Api) -> None:
    """Otherwise, a user who may create Secrets in a namespace could make an admin create any object."""
    labels = {"app.kubernetes.io/managed-by": "gpuctl", "app": "evil"}
    metadata = {"name": "evil", "namespace": place.namespace, "labels": labels}
    forged: list[dict[str, Any]] = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "evil"},
            "value": 1,
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {**metadata, "annotations": {"kubernetes.io/service-account.name": "default"}},
        },
    ]
    for obj in forged:
        name = forge_journal(place, obj)
        assert f"Secret {name}" in place.gpuctl("recover", "--yes", code=1).err, obj["kind"]
        place.kubectl("delete", "secret", "-n", place.namespace, name)
    assert place.objects(("Secret",)) == {}
    name = forge_journal(place, deployment("evil", "kube-system"))
    before = place.records()
    for arguments, code in (
        (("recover", "--yes"), 1),
        (("recover", "--yes", "-o", "json"), 1),
        (("recover", "--dry-run"), 1),
        (("apply", "-f", place.file(training("a")), "--yes"), 1),
        (("apply", "-f", place.file(training("a")), "--dry-run=server"), 1),
        (("diff", "-f", place.file(training("a"))), 2),
    ):
        refused = place.gpuctl(*arguments, code=code)
        assert f"Secret {name}" in refused.err, arguments
        assert f"kubectl delete secret -n {place.namespace} {name}" in refused.err
        assert place.records() == before, arguments
    assert api.get("Deployment", "kube-system", "evil") is None
    assert api.request("GET", "/apis/scheduling.k8s.io/v1/priorityclasses/evil")[0] == 404
    place.kubectl("delete", "secret", "-n", place.namespace, name)
    place.apply(training("a"))


def test_recover_shows_the_whole_object_and_asks(place: Place) -> None:
    """Any user can forge a Deployment in their own namespace; Pod Security stops that user, but not the admin who
    recovers.
    """
    forge_journal(place, deployment("evil", place.namespace))
    before = place.records()
    stands_out = "privileged, path of the host /etc, service account admin"
    asked = place.gpuctl("recover", code=2)
    assert f"creates deployment.apps/evil in {place.namespace}: an interrupted apply had deleted it" in asked.err
    assert stands_out in asked.err
    assert "+          privileged: true" in asked.err
    assert "use --yes" in asked.err
    assert asked.out == ""
    shown = place.gpuctl("recover", "--dry-run")
    assert f"recover   deployment.apps/evil -n {place.namespace}  (" in shown.out
    assert "+          privileged: true" in shown.out
    for flags in (("--dry-run",), ()):
        value = place.gpuctl("recover", "-o", "json", *flags, code=0 if flags else 2).value
        (step,) = value["planned"]
        assert (step["action"], step["name"]) == ("create", "evil")
        assert step["object"]["spec"]["template"]["spec"]["volumes"][0]["hostPath"] == {"path": "/etc"}
        assert value["recovered"] == []
    told = place.gpuctl("diff", "-f", place.file(training("a")), code=1)
    assert "+          privileged: true" in told.out
    refused = place.gpuctl("apply", "-f", place.file(training("a")), code=2)
    assert stands_out in refused.err
    assert place.records() == before
    done = place.gpuctl("recover", "--yes")
    assert done.out == f"deployment.apps/evil in {place.namespace}: the new object was created\n"
    assert secrets_of(place) == set()


@pytest.mark.slow
def test_recover_shows_the_fallback_object_too(place: Place, session: Session) -> None:
    """Otherwise an invalid new object would let a forged old object be created without being shown."""
    old, new = (deployment("evil", place.namespace, restartPolicy=policy) for policy in ("Always", "Never"))
    new["spec"]["template"]["spec"].pop("serviceAccountName")
    new["spec"]["template"]["spec"]["containers"][0].pop("securityContext")
    index, _ = journal_secrets.secrets_of("abcdef0123", place.namespace, [JournalEntry(NO_UID, old, new, "post")], KEYS)
    session.create(index)
    asked = place.gpuctl("recover", code=2).err
    assert "the old one, created if this is refused: privileged, service account admin" in asked
    assert "+++ if refused/deployment.apps/evil" in asked
    assert "+          privileged: true" in asked
    (step,) = place.gpuctl("recover", "--dry-run", "-o", "json").value["planned"]
    assert step["ifRefused"]["spec"]["template"]["spec"]["serviceAccountName"] == "admin"
    assert "serviceAccountName" not in step["object"]["spec"]["template"]["spec"]
    done = place.gpuctl("recover", "--yes").out
    assert "the old object was created again, because the new one is refused: " in done


def test_recover_masks_credentials(place: Place) -> None:
    obj = deployment("train", place.namespace)
    container = obj["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "HF_TOKEN", "value": "hf_do_not_show"}]
    forge_journal(place, obj)
    for arguments, code in (
        (("recover",), 2),
        (("recover", "--dry-run"), 0),
        (("recover", "--dry-run", "-o", "json"), 0),
    ):
        shown = place.gpuctl(*arguments, code=code)
        assert "HF_TOKEN" in shown.out + shown.err
        assert "hf_do_not_show" not in shown.out + shown.err


def test_missing_journal_part_is_named_and_the_rest_restored(
    place: Place, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_secrets, "_PACKED", 600)
    names = [f"a{number:02}" for number in range(8)]
    documents = [training(name, resources=SMALL) for name in names]
    place.apply(*documents)
    leave_killed_apply(place, session, *names)
    parts = sorted(secrets_of(place))
    assert len(parts) > 4
    part = next(name for name in parts if name.endswith("-3"))
    (journal,) = journals.find(session, KEYS, {place.namespace})
    place.kubectl("delete", "secret", part)
    (left,) = journals.find(session, KEYS, {place.namespace})
    lost = {loss.key.name for loss in left.lost}
    assert lost
    assert len(journal.entries) == len(left.entries) + len(lost)
    preview = place.gpuctl("recover", "--dry-run", code=1)
    assert preview.out.count("recover   job.batch/") == len(names) - len(lost)
    for _ in range(2):
        done = place.gpuctl("recover", "--yes", code=1)
        assert f"Secret {part} is missing" in done.err
        for name in lost:
            assert f"job.batch/{name} in {place.namespace}" in done.err
        assert secrets_of(place) == set(parts) - {part}
        assert {name.partition("/")[2] for name in place.objects(("Job",))} == set(names) - lost
    for command in ("apply", "diff"):
        refused = place.gpuctl(command, "-f", place.file(documents[0]), code={"apply": 1, "diff": 2}[command])
        assert f"Secret {part} is missing" in refused.err
    # Nothing is lost if the documents of the lost jobs are applied again.
    place.apply(*documents, flags=("--yes",))
    assert {name.partition("/")[2] for name in place.objects(("Job",))} == set(names)
    assert secrets_of(place) == set()


@pytest.mark.slow
def test_missing_journal_part_of_existing_jobs_is_no_error(
    place: Place, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is the state after a run was killed while it deleted its journal."""
    monkeypatch.setattr(journal_secrets, "_PACKED", 100)
    place.apply(training("a", resources=SMALL), training("b", resources=SMALL))
    (journal,) = journals.write(session, new_image_entries(place, "a", "b"), KEYS)
    place.kubectl("delete", "secret", f"gpuctl-journal-{journal.id}-2")
    done = place.gpuctl("recover", "--yes")
    assert f"job.batch/a in {place.namespace}: was not deleted yet" in done.out
    assert secrets_of(place) == set()


@pytest.mark.slow
@pytest.mark.parametrize("delete", [False, True], ids=["untouched", "deleted"])
def test_journal_without_index_is_recovered(
    place: Place, session: Session, monkeypatch: pytest.MonkeyPatch, delete: bool
) -> None:
    """A run deletes objects only after it wrote the index; if an object is missing anyway, recover shows it and asks."""
    monkeypatch.setattr(journal_secrets, "_PACKED", 100)
    place.apply(training("a", resources=SMALL), training("b", resources=SMALL))
    before = place.uids()
    (journal,) = journals.write(session, new_image_entries(place, "a", "b"), KEYS)
    place.kubectl("delete", "secret", f"gpuctl-journal-{journal.id}")
    if delete:
        delete_jobs(place, "b")
        assert "creates job.batch/b" in place.gpuctl("recover", code=2).err
        place.gpuctl("recover", "--yes")
    else:
        assert "was not deleted yet" in place.gpuctl("recover").out
    assert secrets_of(place) == set()
    assert place.names() == {"Job/a", "Job/b"}
    assert place.uid("Job", "a") == before["Job/a"]


@pytest.mark.slow
@pytest.mark.parametrize("data", [None, {"index": "e30="}, {"x": "eA=="}], ids=str)
def test_invalid_journal_does_not_block_other_namespaces(place: Place, away: str, data: Any, session: Session) -> None:
    """The invalid journal is named, and jobs in other namespaces are recovered."""
    place.apply(training("a"))
    leave_killed_apply(place, session, "a")
    labels = {f"{DOMAIN}/journal": "abcdef0123"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine", "labels": labels}, "data": data}
    session.create({**secret, "metadata": {**secret["metadata"], "namespace": away}})
    done = place.anywhere("recover", "--yes", code=1)
    assert f"job.batch/a in {place.namespace}: the new object was created" in done.out
    assert f"a journal in {away} is not gpuctl's" in done.err
    assert "Secret mine: gpuctl did not write it" in done.err
    assert image_of(place, "a") == "v2"
    assert session.get(Key("Secret", away, "mine")) is not None


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_recover_skips_a_terminating_namespace(
    place: Place, away: str, session: Session, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Nothing can be created in the namespace; other namespaces are recovered, and recover succeeds."""
    place.apply(training("a"))
    place.anywhere("apply", "-f", place.file(training("b", job={"namespace": away})))
    other = recreatable(json.loads(place.plane.kubectl("get", "job", "b", "-n", away, "-o", "json")))
    leave_killed_apply(place, session, "a")
    journals.write(session, [JournalEntry(NO_UID, other, other, "post")], KEYS)
    place.plane.kubectl("delete", "job", "b", "-n", away)
    finalizers = {"metadata": {"finalizers": ["example.com/stays"]}}
    held = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": away, **finalizers["metadata"]},
    }
    session.create(held)

    def terminate() -> None:
        place.plane.kubectl("delete", "namespace", away, "--wait=false")

    # A finalizer keeps the journal; otherwise the namespace controller would delete it.
    journal = f"/api/v1/namespaces/{away}/secrets?labelSelector={DOMAIN}%2Fjournal"
    (index,) = (item for item in place.api.call("GET", journal)["items"])
    session.patch(Key("Secret", away, index["metadata"]["name"]), finalizers)
    if when == "before":
        terminate()
        shown = place.anywhere("recover", "--dry-run").out
        assert f"the namespace {away} is terminating, and everything in it is deleted" in shown
        assert "job.batch/b" in shown
    else:
        look = run_recovery.plan_recovery

        def look_and_lose(*arguments: Any, **options: Any) -> Any:
            found = look(*arguments, **options)
            terminate()
            return found

        monkeypatch.setattr(run_recovery, "plan_recovery", look_and_lose)
    done = place.anywhere("recover", "--yes")
    assert f"job.batch/b in {away}: the namespace {away} is terminating" in done.out
    assert f"job.batch/a in {place.namespace}: the new object was created" in done.out
    assert done.err == ""
    for kind, name in (("Secret", index["metadata"]["name"]), ("ConfigMap", "held")):
        session.patch(Key(kind, away, name), {"metadata": {"finalizers": None}})


def test_held_lease_blocks_only_its_own_namespace(
    place: Place, away: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_recovery, "LEASE_WAIT", 1.0)
    place.apply(training("a"))
    place.anywhere("apply", "-f", place.file(training("b", job={"namespace": away})))
    entries = leave_killed_apply(place, session, "a")
    other = json.loads(place.plane.kubectl("get", "job", "b", "-n", away, "-o", "json"))
    entries = [JournalEntry(other["metadata"]["uid"], recreatable(other), recreatable(other), "post")]
    journals.write(session, entries, KEYS)
    place.plane.kubectl("delete", "job", "b", "-n", away)
    now = "2026-01-01T00:00:00.000000Z"
    holder = {"holderIdentity": "carol@far#4711#1#x", "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now}
    metadata = {"name": leases.NAMESPACE_LEASE, "namespace": away}
    session.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": holder})
    done = place.anywhere("recover", "--yes", code=1)
    assert f"job.batch/a in {place.namespace}: the new object was created" in done.out
    assert f"carol@far (process 4711) is applying in {away}" in done.err
    assert image_of(place, "a") == "v2"
    assert session.get(Key("Job", away, "b")) is None


@pytest.mark.slow
def test_journal_stays_while_a_foreign_job_has_the_name(place: Place, session: Session) -> None:
    """The foreign job is not mistaken for the recovered one; the journal stays until the name is free."""
    place.apply(training("a", resources=SMALL), training("b", resources=SMALL))
    leave_killed_apply(place, session, "a", "b")
    journal = secrets_of(place)
    pod = {"containers": [{"name": "main", "image": "registry.example.com/theirs:v1"}], "restartPolicy": "Never"}
    spec = {"suspend": True, "template": {"spec": pod}}
    place.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec})
    theirs = place.records()["Job/a"]
    said = f"job.batch/a in {place.namespace} cannot be created again: the existing object of this name is not gpuctl's"
    shown = place.gpuctl("recover", "--dry-run", code=1)
    assert said in shown.err
    assert "recover   job.batch/b" in shown.out
    (command,) = re.findall(r"`(kubectl delete [^`]*)`", shown.err)
    done = place.gpuctl("recover", "--yes", code=1)
    assert said in done.err
    assert image_of(place, "b") == "v2"
    assert said in place.apply(training("c", resources=SMALL), flags=("--dry-run=server",), code=1).err
    assert said in place.apply(training("c", resources=SMALL), code=1).err
    assert (place.records()["Job/a"], secrets_of(place)) == (theirs, journal)
    place.plane.kubectl(*command.split()[1:], "--dry-run=server")
    place.kubectl("delete", "job", "a")
    place.gpuctl("recover", "--yes")
    assert (image_of(place, "a"), secrets_of(place)) == ("v2", set())


@pytest.mark.slow
def test_diff_shows_pending_recovery(place: Place, session: Session) -> None:
    """The file of one job is gone, but the job is recovered; diff and apply show this before."""
    place.apply(training("a"), training("b"))
    leave_killed_apply(place, session, "b")
    told = place.gpuctl("diff", "-f", place.file(training("a")), code=1)
    assert f"recover   job.batch/b -n {place.namespace}  (an interrupted apply had deleted it)" in told.out
    assert "+  name: b" in told.out
    value = place.gpuctl("diff", "-f", place.file(training("a")), "-o", "json", code=1).value
    assert [(step["action"], step["name"]) for step in value["recovery"]] == [("create", "b")]
    markdown = place.gpuctl("diff", "-f", place.file(training("a")), "-o", "markdown", code=1).out
    assert "recover   job.batch/b" in markdown
    for dry in ("server", "client"):
        shown = place.apply(training("a"), flags=(f"--dry-run={dry}",))
        assert "recover   job.batch/b" in shown.out
        assert f"will ask: creates job.batch/b in {place.namespace}: an interrupted apply" in shown.err
        assert "1 to recover" in shown.err
    assert "creates job.batch/b" in place.apply(training("a"), code=2).err
    assert not place.exists("Job", "b")
    done = place.apply(training("a"), flags=("--yes", "-o", "json"))
    assert [(step["name"], step["result"]) for step in done.value["recovery"]] == [("b", "done")]
    assert image_of(place, "b") == "v2"
    assert secrets_of(place) == set()
    assert place.gpuctl("diff", "-f", place.file(training("a"))).out.startswith("unchanged")


@pytest.mark.slow
def test_apply_does_not_recover_jobs_that_it_creates(place: Place, session: Session) -> None:
    """A recovered job would run briefly and be replaced at once. The new job stays paused."""
    place.apply(training("a"))
    place.gpuctl("pause", "a")
    leave_killed_apply(place, session, "a")
    preview = place.plan(training("a", environment=image("v3")))
    assert preview.actions == {"Job/a": "create"}
    done = place.apply(training("a", environment=image("v3")))
    assert done.out.startswith("created   job.batch/a")
    assert image_of(place, "a") == "v3"
    assert place.get("Job", "a")["spec"]["suspend"] is True
    assert secrets_of(place) == set()


@pytest.mark.slow
def test_refused_apply_suggests_recover(place: Place, session: Session) -> None:
    place.apply(training("a"))
    leave_killed_apply(place, session, "a")
    place.kubectl("create", "quota", "none", "--hard=count/jobs.batch=0")
    place.until(lambda: place.get("ResourceQuota", "none").get("status", {}).get("hard"), "the quota")
    refused = place.apply(training("a", environment=image("v3")), code=1)
    assert f"`gpuctl recover -n {place.namespace}` restores them" in refused.err
    assert secrets_of(place)
    place.kubectl("delete", "quota", "none")
    # The admission plugin learns about the deleted quota through a watch.
    trial = ("create", "job", "trial", "--image=x", "--dry-run=server")
    place.until(lambda: "created" in place.kubectl(*trial, check=False), "the quota to be gone")
    place.gpuctl("recover", "--yes")
    assert image_of(place, "a") == "v2"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["job", "file"])
def test_delete_of_a_job_in_the_journal_drops_its_entry(place: Place, session: Session, form: str) -> None:
    """The job does not exist, and is not created again."""
    place.apply(training("a"), training("b"))
    leave_killed_apply(place, session, "a", "b")
    what = ("job", "a") if form == "job" else ("-f", place.file(training("a")))
    asked = place.gpuctl("delete", *what, code=2)
    assert "creates job.batch/b" in asked.err
    assert "creates job.batch/a" not in asked.err
    done = place.gpuctl("delete", *what, "--yes")
    assert f"skipped   job.batch/a -n {place.namespace}" in done.out
    assert place.names() == {"Job/b"}
    assert secrets_of(place) == set()
    assert place.gpuctl("recover").err == "Nothing to recover.\n"


@pytest.mark.slow
def test_autoscaler_is_restored_only_for_an_unchanged_deployment(place: Place, session: Session) -> None:
    """A workload changed in place has no journal entry; if it is unchanged, its autoscaler is created again."""
    place.apply(inference("b", autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 3}))
    main, scaler = place.get("Deployment", "b"), place.get("HorizontalPodAutoscaler", "b")
    entry = JournalEntry(
        scaler["metadata"]["uid"],
        recreatable(scaler),
        None,
        "post",
        Key("Deployment", place.namespace, "b"),
        main["metadata"]["annotations"][HASH],
    )
    journals.write(session, [entry], KEYS)
    place.kubectl("delete", "hpa", "b")
    assert "creates horizontalpodautoscaler.autoscaling/b" in place.gpuctl("recover", code=2).err
    place.gpuctl("recover", "--yes")
    assert place.exists("HorizontalPodAutoscaler", "b")
    # If the Deployment is the new one, the autoscaler is not created again.
    journals.write(session, [entry], KEYS)
    place.kubectl("delete", "hpa", "b")
    place.patch("Deployment", "b", {"metadata": {"annotations": {HASH: "0" * 32}}})
    assert "was deleted by the change, as planned" in place.gpuctl("recover").out
    assert not place.exists("HorizontalPodAutoscaler", "b")
    assert secrets_of(place) == set()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["untouched", "deleted", "being deleted"])
def test_pruned_job_is_not_recovered(place: Place, session: Session, form: str) -> None:
    """The job's document was removed after the killed apply."""
    (directory := place.directory / "jobs").mkdir()
    for name in ("a", "b"):
        place.file(training(name, resources=SMALL), name=f"jobs/{name}.yaml")
    arguments = ("apply", "-f", str(directory), "--set", "jobs", "--prune", "--yes")
    place.gpuctl(*arguments)
    journals.write(session, new_image_entries(place, "a"), KEYS)
    (directory / "a.yaml").unlink()
    if form == "deleted":
        delete_jobs(place, "a")
    elif form == "being deleted":
        place.kubectl("patch", "job", "a", "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}')
        place.kubectl("delete", "job", "a", "--wait=false")
        place.gpuctl(*arguments, "--timeout", "2s", code=1)
        place.kubectl("patch", "job", "a", "--type=merge", "-p", '{"metadata":{"finalizers":[]}}')
        place.until(lambda: not place.exists("Job", "a"), "the job to go")
    place.gpuctl(*arguments)
    assert place.names() & {"Job/a", "Job/b"} == {"Job/b"}
    assert place.gpuctl("recover").err == "Nothing to recover.\n"


def test_pruned_job_is_not_offered_for_recovery_beside_another(place: Place, session: Session) -> None:
    """The killed apply had deleted two jobs; the document of one was removed, and the plan creates the other."""
    (directory := place.directory / "jobs").mkdir()
    for name in ("a", "b"):
        place.file(training(name, resources=SMALL), name=f"jobs/{name}.yaml")
    arguments = ("apply", "-f", str(directory), "--set", "jobs", "--prune", "--yes")
    place.gpuctl(*arguments)
    journals.write(session, [*new_image_entries(place, "a"), *new_image_entries(place, "b")], KEYS)
    (directory / "a.yaml").unlink()
    delete_jobs(place, "a", "b")
    applied = place.gpuctl(*arguments)
    assert "`gpuctl recover`" not in applied.err
    assert place.names() & {"Job/a", "Job/b"} == {"Job/b"}
    assert place.gpuctl("recover").err == "Nothing to recover.\n"


@pytest.mark.slow
def test_autoscaler_of_a_deleted_job_is_not_recovered(place: Place, session: Session) -> None:
    """The killed apply had deleted the autoscaler first; it is not created again for a job that is being deleted."""
    place.apply(inference("serve", autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 3}))
    (entry,) = new_image_entries(place, "serve", kind="Deployment")
    scaler = place.get("HorizontalPodAutoscaler", "serve")
    companion = JournalEntry(scaler["metadata"]["uid"], recreatable(scaler), None, "post", entry.key)
    journals.write(session, [entry, companion], KEYS)
    place.kubectl("delete", "hpa", "serve")
    place.gpuctl("delete", "job", "serve", "--yes")
    assert "serve" not in " ".join(place.names())
    assert place.gpuctl("recover").err == "Nothing to recover.\n"


@pytest.mark.slow
def test_rerun_removes_the_journal_of_its_job(place: Place, session: Session) -> None:
    """Otherwise, a user who deletes the job with kubectl would see it created again."""
    place.apply(training("a", job=outcome("complete"), resources=SMALL))
    place.gpuctl("wait", "a", "--for", "done", "--timeout", "120s")
    journals.write(session, new_image_entries(place, "a"), KEYS)
    before = place.uid("Job", "a")
    place.gpuctl("rerun", "a", "--yes")
    assert place.uid("Job", "a") != before
    assert secrets_of(place) == set()


@pytest.mark.slow
def test_delete_removes_the_service_of_a_missing_job(place: Place, session: Session) -> None:
    place.apply(training("a", resources={**SMALL, "nodes": 2}))
    leave_killed_apply(place, session, "a")
    assert place.exists("Service", "a")
    place.gpuctl("delete", "job", "a", "--yes")
    assert not {name for name in place.names() if name.endswith("/a")}
    assert place.gpuctl("recover").err == "Nothing to recover.\n"


def test_commands_for_a_missing_job_name_the_recovery(place: Place, session: Session) -> None:
    """`gpuctl recover` would create the job; a user who may not read journals gets the answer for any missing job."""
    place.apply(training("a", resources=SMALL))
    job_id = place.gpuctl("get", "jobs", "--jobs", "--no-headers").out.split()[0]
    leave_killed_apply(place, session, "a")
    place.until(lambda: not place.kubectl("get", "pods", "-o", "name"), "the end of the pods")
    hint = f"  = an interrupted apply had deleted it: `gpuctl recover -n {place.namespace}` creates it again\n"
    for arguments in (
        ("why", "a"),
        ("why", job_id),
        ("describe", "job", "training/a"),
        ("get", "job", "a"),
        ("logs", "a"),
        ("rerun", "--failed", "a"),
        ("wait", "a", "--for", "done"),
    ):
        assert place.gpuctl(*arguments, code=None).err.endswith(hint), arguments
    for missing in ("compute/a", "b", "pod/a"):
        assert "interrupted" not in place.gpuctl("why", missing, code=1).err
    place.kubectl("create", "rolebinding", "viewer", "--clusterrole=view", "--user=viewer")
    assert "interrupted" not in place.gpuctl("why", "a", "--as", "viewer", code=1).err
    place.gpuctl("recover", "--yes")
    assert image_of(place, "a") == "v2"


@pytest.mark.parametrize("name", ["a", "training/a", "job/a"])
def test_delete_ends_the_recovery_of_a_missing_job(place: Place, session: Session, name: str) -> None:
    place.apply(training("a", resources=SMALL))
    leave_killed_apply(place, session, "a")
    place.until(lambda: not place.kubectl("get", "pods", "-o", "name"), "the end of the pods")
    for missing in ("compute/a", "pod/a"):
        assert "there is no job or pod a " in place.gpuctl("delete", "job", missing, "--yes", code=1).err
    assert "it is not restored" in place.gpuctl("delete", "job", name, "--yes").out
    assert place.gpuctl("recover").err == "Nothing to recover.\n"
