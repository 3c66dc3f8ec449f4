"""The history of jobs: user, time and changes of each revision, without credentials. Forged revisions are ignored."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import threading
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Exchange, Proxy, first_of, nth, on
from gpuctl.apply.run import history_writer
from gpuctl.apply.state import past_documents
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from support.cluster_tools import DOMAIN, Place, image, inference, training
from support.command import Start

Object = dict[str, Any]
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz"
KEYS = records(Settings())


def revisions(place: Place, name: str = "train") -> list[dict[str, Any]]:
    """Return the history as JSON."""
    found: list[dict[str, Any]] = place.gpuctl("history", name, "-o", "json").value["items"]
    return found


def history_secrets(place: Place, name: str) -> list[Object]:
    """Return the Secrets of a job's history."""
    path = f"/api/v1/namespaces/{place.namespace}/secrets?labelSelector={DOMAIN}%2Fhistory%3D{name}"
    items: list[Object] = place.api.call("GET", path)["items"] or []
    return items


def content(secret: Object) -> str:
    """Return the decompressed content of a history Secret."""
    return gzip.decompress(base64.b64decode(secret["data"]["entry"])).decode()


def git(place: Place, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    done = subprocess.run(["git", *identity, *arguments], cwd=place.directory, check=True, capture_output=True)
    return done.stdout.decode().strip()


def test_history_shows_user_time_and_changes(place: Place) -> None:
    place.apply(training())
    place.apply(training(resources={"gpu": 2}, environment=image("v2")), flags=("--yes",))
    newest, first = revisions(place)
    assert (first["revision"], first["cause"], first["changes"]) == (1, "applied", [])
    assert newest["revision"] == 2
    assert newest["who"] == "admin"
    assert newest["changes"] == [
        {"path": "environment.image", "from": "registry.example.com/training:v1", "to": "registry.example.com/app:v2"},
        {"path": "resources.gpu", "from": 1, "to": 2},
    ]
    assert newest["createdAt"].endswith("Z")
    table = place.gpuctl("history", "training/train").out.splitlines()
    assert table[0].split() == ["REVISION", "WHEN", "WHO", "COMMIT", "CHANGE"]
    assert "environment.image: ...training:v1 -> ...app:v2, resources.gpu: 1 -> 2" in table[1]
    assert table[2].endswith("created")
    shown = place.gpuctl("history", "train", "--revision", "1").out
    assert "image: registry.example.com/training:v1" in shown
    again = place.file(json.loads(place.gpuctl("history", "train", "--revision", "1", "-o", "json").out)["document"])
    assert place.gpuctl("apply", "-f", again, "--dry-run=server", "-o", "json").actions["Job/train"] == "replace"
    compared = place.gpuctl("history", "train", "--diff", "1").out
    assert "-  gpu: 1" in compared
    assert "+  gpu: 2" in compared
    assert place.gpuctl("history", "train", "--diff", "2..1", "-o", "json").value["changes"][1]["to"] == 1
    assert "there are 2, 1" in place.gpuctl("history", "train", "--revision", "9", code=1).err


@pytest.mark.slow
def test_unchanged_apply_adds_no_revision(place: Place) -> None:
    place.apply(training())
    before = place.api.snapshot(place.namespace)
    place.apply(training())
    place.apply(training(), flags=("--dry-run=server",))
    assert place.api.snapshot(place.namespace).keys() == before.keys()
    assert len(revisions(place)) == 1
    assert "there is 1\n" in place.gpuctl("history", "train", "--revision", "9", code=1).err


def test_history_keeps_ten_revisions(place: Place) -> None:
    for number in range(1, 13):
        place.apply(inference(job={"description": f"number {number}"}))
    found = revisions(place, "serve")
    assert [item["revision"] for item in found] == list(range(12, 2, -1))
    assert len(history_secrets(place, "serve")) == 10
    assert found[0]["changes"] == [{"path": "job.description", "from": "number 11", "to": "number 12"}]
    assert "no longer kept" in place.gpuctl("history", "serve").out.splitlines()[-1]


@pytest.mark.slow
def test_history_records_the_git_commit(place: Place) -> None:
    git(place, "init", "-q")
    git(place, "remote", "add", "origin", "https://me:secret@example.com/team/jobs.git")
    path = place.file(training())
    git(place, "add", "jobs.yaml")
    git(place, "commit", "-qm", "one")
    commit = git(place, "rev-parse", "HEAD")
    place.gpuctl("apply", "-f", path)
    place.apply(training(job={"description": "not committed"}))
    newest, first = revisions(place)
    assert first["commit"] == {"id": commit, "dirty": False, "repository": "example.com/team/jobs"}
    assert newest["commit"] == {"id": commit, "dirty": True, "repository": "example.com/team/jobs"}
    table = place.gpuctl("history", "train").out
    assert f" {commit[:10]}-dirty " in table
    assert "secret@" not in json.dumps([content(secret) for secret in history_secrets(place, "train")])


def test_history_contains_no_credentials(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials are masked even while the user displays them."""
    from gpuctl.language import masking

    env = [{"name": "HF_TOKEN", "value": TOKEN}, {"name": "MODE", "value": "fast"}]
    with masking.shown():
        place.apply(
            training(environment={"env": env, "args": ["--password", "hunter22", f"--url=https://u:{TOKEN}@h"]})
        )
    (secret,) = history_secrets(place, "train")
    assert TOKEN not in content(secret)
    assert "hunter22" not in content(secret)
    assert "fast" in content(secret)
    assert secret["immutable"] is True
    (first,) = revisions(place)
    assert first["masked"] == ["environment.args[1]", "environment.args[2]", "environment.env[HF_TOKEN].value"]
    shown = place.gpuctl("history", "train", "--revision", "1")
    assert "***" in shown.out
    assert "environment.env[HF_TOKEN].value are credentials and are not kept" in shown.err
    # A changed credential is a change, although it is masked.
    env[0] = {"name": "HF_TOKEN", "value": TOKEN[::-1]}
    place.apply(
        training(environment={"env": env, "args": ["--password", "hunter22", f"--url=https://u:{TOKEN}@h"]}),
        flags=("--yes",),
    )
    assert len(revisions(place)) == 2
    assert "masked values or no change" in place.gpuctl("history", "train").out


@pytest.mark.slow
def test_live_document_without_history_becomes_a_revision(place: Place) -> None:
    """The job was applied before there was a history, or by a run that was killed before it wrote the history."""
    place.apply(training())
    for secret in history_secrets(place, "train"):
        place.kubectl("delete", "secret", secret["metadata"]["name"])
    place.apply(training(environment=image("v2")), flags=("--yes",))
    newest, first = revisions(place)
    assert (first["cause"], first["who"], first["revision"]) == ("found", None, 1)
    assert newest["changes"][0]["from"] == "registry.example.com/training:v1"
    assert place.gpuctl("history", "train").out.splitlines()[2].endswith("existed already")


@pytest.mark.slow
def test_history_outlives_the_job(place: Place) -> None:
    place.apply(training())
    place.gpuctl("delete", "job", "train", "--yes")
    assert [item["revision"] for item in revisions(place)] == [1]
    place.apply(training())
    assert [item["revision"] for item in revisions(place)] == [2, 1]


def test_missing_right_to_write_history_is_noted(plane: ControlPlane, place: Place) -> None:
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "list", "get"]},
        {"apiGroups": [""], "resources": ["services", "configmaps"], "verbs": ["list"]},
    ]
    place.grant("member", rules)
    applied = place.gpuctl("apply", "-f", place.file(training()), "--kubeconfig", str(plane.kubeconfig("member")))
    assert f"note: the history of train in {place.namespace} could not be written: " in applied.err
    assert place.exists("Job", "train")
    refused = place.gpuctl("history", "train", "--kubeconfig", str(plane.kubeconfig("member")), code=3)
    assert "secrets" in refused.err


@pytest.mark.slow
def test_history_is_written_before_all_jobs_are_replaced(place: Place, start: Start) -> None:
    """The revision of a replaced job is not lost if the command is killed while another job is still being replaced."""
    place.apply(training(), training("held"))
    mark = "example.com/hold"
    place.patch("Job", "held", {"metadata": {"finalizers": [mark]}})
    changed = {"environment": image("v2")}
    documents = place.file(training(**changed), training("held", **changed))
    command = start("apply", "-f", documents, "-n", place.namespace, "--yes")
    place.until(lambda: len(history_secrets(place, "train")) == 2, "the history of the replaced job")
    assert command.process.poll() is None
    assert len(history_secrets(place, "held")) == 1
    others = [name for name in place.get("Job", "held")["metadata"]["finalizers"] if name != mark]
    place.patch("Job", "held", {"metadata": {"finalizers": others}})
    assert command.end() == 0, command.err
    assert [len(history_secrets(place, name)) for name in ("train", "held")] == [2, 2]


@pytest.mark.slow
def test_concurrent_applies_get_distinct_revisions(place: Place, start: Start) -> None:
    place.apply(inference())
    paths = [place.file(inference(job={"description": text}), name=f"{text}.yaml") for text in ("one", "two")]
    commands = [start("apply", "-f", path, "-n", place.namespace) for path in paths]
    assert all(command.end() in (0, 3) for command in commands)
    found = revisions(place, "serve")
    assert [item["revision"] for item in found] == list(range(len(found), 0, -1))
    live = json.loads(place.get("Deployment", "serve")["metadata"]["annotations"][f"{DOMAIN}/document"])
    kept_texts = {
        json.loads(content(secret))["document"]["job"].get("description") for secret in history_secrets(place, "serve")
    }
    assert live["job"]["description"] in kept_texts


class Hold:
    """Hold a request back until it is released."""

    def __init__(self) -> None:
        self.reached, self.released = threading.Event(), threading.Event()

    def __call__(self, exchange: Exchange) -> None:
        self.reached.set()
        self.released.wait(120)
        exchange.pass_on()


@pytest.mark.slow
@pytest.mark.parametrize("both", [False, True])
def test_concurrent_equal_applies_record_one_revision(place: Place, proxy: Proxy, start: Start, both: bool) -> None:
    """Both runs have planned the change. One revision is written, even if neither has read the other's revision."""
    place.apply(inference())
    path = place.file(inference(job={"description": "new"}))
    changes, writes = Hold(), Hold()
    change = on(nth(1, lambda request: request.is_write and request.path.endswith("/deployments/serve")), changes)
    write = on(nth(1, lambda request: request.is_write and request.path.endswith("/secrets")), writes)
    proxy.reset(first_of(change, write) if both else change)
    slower = start("apply", "-f", path, "-n", place.namespace)
    place.until(changes.reached.is_set, "the change")
    faster = start("apply", "-f", path, "-n", place.namespace)
    if both:
        place.until(writes.reached.is_set, "the history")
        changes.released.set()
        assert slower.end() == 0, slower.err
        writes.released.set()
        assert faster.end() == 0, faster.err
    else:
        assert faster.end() == 0, faster.err
        changes.released.set()
        assert slower.end() == 0, slower.err
    assert [item["revision"] for item in revisions(place, "serve")] == [2, 1]
    assert "could not be written" not in (slower.err + faster.err).decode()
    # A document that is applied again later is a new revision.
    place.apply(inference())
    place.apply(inference(job={"description": "new"}))
    assert [item["revision"] for item in revisions(place, "serve")] == [4, 3, 2, 1]


@pytest.mark.slow
def test_history_of_a_hundred_deleted_jobs_is_kept(place: Place) -> None:
    """The most recently changed ones are kept, and the history of every existing job."""
    place.apply(training("there"))

    def gone(name: str) -> Object:
        document = {"kind": "training", "job": {"name": name, "namespace": place.namespace}}
        past = past_documents.PastDocument(1, document)
        return place.create(past_documents.secret_of(past, place.namespace, name, KEYS))

    oldest = [gone(f"oldest-{number}")["metadata"]["creationTimestamp"] for number in range(3)]

    def is_later() -> bool:
        """Return True if new objects have a later creation timestamp; timestamps have whole seconds."""
        path = f"/api/v1/namespaces/{place.namespace}/configmaps"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "clock-"}}
        return bool(place.api.call("POST", path, body)["metadata"]["creationTimestamp"] > max(oldest))

    place.until(is_later, "the next second")
    later = {f"later-{number}" for number in range(history_writer.DELETED_JOBS_KEPT)}
    for name in later:
        gone(name)
    place.apply(training("new"))
    path = f"/api/v1/namespaces/{place.namespace}/secrets?labelSelector={DOMAIN}%2Fhistory"
    kept_of = {item["metadata"]["labels"][f"{DOMAIN}/history"] for item in place.api.call("GET", path)["items"]}
    assert kept_of == later | {"there", "new"}


def create_forged_revision(place: Place, document: Object, changes: Object) -> None:
    """Create a well-formed revision 7 that gpuctl has not written."""
    past = past_documents.PastDocument(7, document, who="admin")
    secret = past_documents.secret_of(past, place.namespace, "train", KEYS)
    if changes:
        entry = {**json.loads(content(secret)), **changes}
        secret["data"]["entry"] = base64.b64encode(gzip.compress(json.dumps(entry).encode())).decode()
    place.create(secret)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "changes", "says"),
    [
        ({"kind": "training", "job": {"name": "train", "namespace": "kube-system"}}, {}, "the namespace kube-system"),
        ({"kind": "training", "job": {"name": "train"}}, {}, "the namespace None"),
        ({"kind": "quota", "job": {"name": "train"}}, {}, "of kind quota, which is not a job"),
        ({"kind": "training", "job": {"name": "other"}}, {}, "of another job: other"),
        ({"kind": "training", "job": {"name": "train"}}, {"document": "x"}, "it has no document"),
        ({"kind": "training", "job": {"name": "train"}}, {"namespace": "x"}, "its job, namespace or revision differs"),
        ({"kind": "training", "job": {"name": "train"}}, {"document": [0] * 2_500_000}, "too large, or truncated"),
    ],
)
def test_forged_revision_is_ignored_with_a_note(place: Place, document: Object, changes: Object, says: str) -> None:
    place.apply(training())
    create_forged_revision(place, document, changes)
    looked = place.gpuctl("history", "train")
    assert len(looked.out.splitlines()) == 2
    assert f"note: Secret gpuctl-history-train.v7 in {place.namespace} is marked as history" in looked.err
    assert says in looked.err
    # The next revision has a higher number than the forged one.
    place.apply(training(job={"description": "new"}))
    assert [item["revision"] for item in revisions(place)] == [8, 1]


@pytest.mark.slow
def test_foreign_secret_with_the_history_label_is_left_alone(place: Place) -> None:
    """gpuctl neither reads nor deletes it."""
    labels = {f"{DOMAIN}/history": "train"}
    place.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "database", "labels": labels}})
    for number in range(12):
        place.apply(training(job={"description": str(number)}))
    assert place.exists("Secret", "database")
    assert "Secret database" in place.gpuctl("history", "train").err


@pytest.mark.slow
def test_missing_history_and_invalid_options_are_errors(place: Place) -> None:
    missing = place.gpuctl("history", "nope", code=1)
    assert f"there is no history of nope in {place.namespace}" in missing.err
    assert place.gpuctl("history", "../x", code=1).err.startswith("error: `../x` is not the name of a job")
    assert "is not a revision (3) or two (3..5)" in place.gpuctl("history", "x", "--diff", "a", code=2).err
    assert "not both" in place.gpuctl("history", "x", "--diff", "1", "--revision", "1", code=2).err


def test_history_records_the_profile_and_the_overrides(place: Place) -> None:
    document = training(profiles={"long": {"job": {"retries": 3}, "resources": {"cpu": "2"}}})
    options = ("--profile", "long", "--with", "resources.gpu=2", "--with", "environment.env.DB_PASSWORD=hunter2 x")
    done = place.apply(document, flags=options)
    assert "note[GPU114]: `resources.gpu` is `2` for this run, not `1`" in done.err
    assert "hunter2" not in done.out + done.err
    (row,) = revisions(place)
    assert (row["profile"], row["overrides"]) == ("long", ["resources.gpu=2", "environment.env.DB_PASSWORD=***"])
    assert "created (profile long, with resources.gpu=2, with environment" in place.gpuctl("history", "train").out
    (secret,) = history_secrets(place, "train")
    assert "hunter2" not in content(secret)
    job = place.get("Job", "train")
    assert job["spec"]["backoffLimit"] == 3
    assert job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    # The stored document is the merged one: `rerun`, `rollback` and `drift` need no option.
    stored = json.loads(content(secret))["document"]
    assert (stored["job"]["retries"], stored["resources"]["gpu"], "profiles" in stored) == (3, 2, False)
