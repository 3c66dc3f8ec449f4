"""A year of commits synchronized by Argo CD and Flux: unchanged jobs do not restart, no namespace is deleted."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from support.repositories import Repository
from support.sync_models import Cluster, Object, SyncFailed

WEEKS = 52
TEAMS = ("nlp", "vision", "speech")


class Training(NamedTuple):
    """A training document; ``image``, ``nodes`` and ``label`` are immutable in the cluster, the other fields are not."""

    image: int = 1
    nodes: int = 1
    label: str = "a"
    description: str = "x"
    retries: int = 0

    @property
    def fixed(self) -> tuple[int, int, str]:
        return self.image, self.nodes, self.label

    def text(self, name: str, team: str) -> str:
        retries = f", retries: {self.retries}" if self.nodes == 1 else ""
        return (
            f"kind: training\nversion: v0.1\njob: {{name: {name}, namespace: {team}, description: {self.description}"
            f"{retries}, labels: {{stage: {self.label}}}}}\n"
            f"environment: {{image: registry.example.com/train:v{self.image}}}\n"
            f"resources: {{gpu: 1, cpu: 1, memory: 1Gi, nodes: {self.nodes}}}\n"
        )


class Week(NamedTuple):
    """The documents in git at the end of a week, and the manifests built from them."""

    documents: dict[tuple[str, str], Training]
    manifests: list[Object]


def commits_of_a_year(root: Path, *flags: str) -> list[Week]:
    """Return a year of weekly commits; each ends with a build into the same directory, as CI requires."""
    chance = random.Random(7)
    repository = Repository(root)
    documents = {("sft", team): Training() for team in TEAMS} | {("pretrain", "nlp"): Training(nodes=2)}
    weeks = []
    for week in range(WEEKS):
        for place, old in list(documents.items()) if week else []:
            documents[place] = _changed(old, chance)
        if week % 9 == 4:
            # The last document of a team is removed, with or without new ones.
            team = chance.choice(TEAMS)
            documents = {place: value for place, value in documents.items() if place[1] != team}
        if week % 5 == 0:
            documents[f"run-{week}", chance.choice(TEAMS)] = Training(image=week)
        if not documents:
            documents["sft", "nlp"] = Training()
        for path in (repository.root / "jobs").glob("*") if week else ():
            path.unlink()
        for (name, team), value in documents.items():
            repository.write(f"jobs/{name}-{team}.yaml", value.text(name, team))
        assert repository.gpuctl("build", "jobs", "-o", "rendered", *flags).code == 0
        rendered = sorted((repository.root / "rendered").rglob("*.yaml"))
        weeks.append(Week(dict(documents), [yaml.load(path.read_text(), yaml.CSafeLoader) for path in rendered]))
    return weeks


def _changed(old: Training, chance: random.Random) -> Training:
    if chance.random() < 0.6:
        return old
    field = chance.choice(["image", "nodes", "label", "description", "retries"])
    if field in ("label", "description"):
        return old._replace(**{field: chance.choice("abcdef")})
    return old._replace(**{field: chance.randint(1, 3)})


def jobs(cluster: Cluster) -> dict[tuple[str, str], list[int]]:
    """Return the uids of each training's Jobs, by its name and namespace."""
    found: dict[tuple[str, str], list[int]] = {}
    for key, live in cluster.live.items():
        if key[0] == "Job":
            found.setdefault((live.object["metadata"]["labels"]["app"], key[1]), []).append(live.uid)
    return found


def unneeded_restarts(weeks: list[Week], sync: str, **options: bool) -> int:
    """Synchronize a year; return how many trainings were recreated without a change of an immutable field."""
    cluster = Cluster()
    unneeded = 0
    before: dict[tuple[str, str], list[int]] = {}
    known: dict[tuple[str, str], Training] = {}
    namespaces: dict[tuple[str, str, str], int] = {}
    for week in weeks:
        for _ in range(2):  # A repeated synchronization must change nothing.
            getattr(cluster, sync)(week.manifests, **options)
            after = jobs(cluster)
            assert after.keys() == week.documents.keys()
            assert all(len(uids) == 1 for uids in after.values())
            for place, document in week.documents.items():
                same = place in known and known[place].fixed == document.fixed
                unneeded += same and before[place] != after[place]
                assert place not in known or same or before[place] != after[place], (
                    "a changed immutable field must recreate the job"
                )
            before, known = after, dict(week.documents)
            there = cluster.uids("Namespace")
            assert namespaces.items() <= there.items(), "a namespace was deleted"
            namespaces = there
    return unneeded


@pytest.fixture(scope="module")
def argocd(tmp_path_factory: pytest.TempPathFactory) -> list[Week]:
    return commits_of_a_year(tmp_path_factory.mktemp("argocd"), "--gitops", "argocd")


@pytest.mark.parametrize("out_of_sync_only", [True, False])
@pytest.mark.parametrize("force", [True, False])
def test_argocd_restarts_no_unchanged_training(argocd: list[Week], out_of_sync_only: bool, force: bool) -> None:
    """With every combination of the Application's options."""
    assert unneeded_restarts(argocd, "sync", out_of_sync_only=out_of_sync_only, force=force) == 0


def test_argocd_with_plain_names_restarts_unchanged_trainings(tmp_path: Path) -> None:
    """The reason for the hash in names: with Force and Replace only ApplyOutOfSyncOnly keeps unchanged jobs."""
    weeks = commits_of_a_year(tmp_path / "team", "--gitops", "argocd", "--job-names", "plain")
    assert unneeded_restarts(weeks, "sync", out_of_sync_only=False) > 100
    # Even then, a changed description makes the object out of sync.
    assert 0 < unneeded_restarts(weeks, "sync", out_of_sync_only=True) < 30


def test_immutable_change_without_replace_fails_the_sync(argocd: list[Week]) -> None:
    """The model rejects what the API server rejects; otherwise the tests above would prove nothing."""
    cluster = Cluster()
    week = argocd[0]
    cluster.sync(week.manifests, out_of_sync_only=False)
    changed = [
        {**obj, "spec": {**obj["spec"], "completions": 5}} if obj["kind"] == "Job" else obj for obj in week.manifests
    ]
    with pytest.raises(SyncFailed, match="immutable"):
        cluster.sync(changed, out_of_sync_only=False)


def test_namespaces_are_kept_by_their_sync_options(argocd: list[Week]) -> None:
    week = argocd[0]
    without = [
        obj for obj in week.manifests if obj["kind"] != "Namespace" and obj["metadata"].get("namespace") != "nlp"
    ]
    cluster = Cluster()
    cluster.sync(week.manifests, out_of_sync_only=True)
    cluster.sync(without, out_of_sync_only=True)
    assert {key[2] for key in cluster.uids("Namespace")} == set(TEAMS)
    bare = [
        {**obj, "metadata": {**obj["metadata"], "annotations": {"argocd.argoproj.io/sync-options": "Delete=false"}}}
        if obj["kind"] == "Namespace"
        else obj
        for obj in week.manifests
    ]
    cluster = Cluster()
    cluster.sync(bare, out_of_sync_only=True)
    cluster.sync([], out_of_sync_only=True)
    assert not cluster.uids("Namespace")


@pytest.mark.parametrize("names", ["hashed", "plain"])
def test_flux_restarts_no_unchanged_training(tmp_path: Path, names: str) -> None:
    """Flux replaces only what cannot be patched, so unchanged jobs are kept under either name."""
    assert (
        unneeded_restarts(commits_of_a_year(tmp_path / "team", "--gitops", "flux", "--job-names", names), "reconcile")
        == 0
    )
