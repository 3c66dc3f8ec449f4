"""``fit`` and the real kube-scheduler on the same random clusters: they agree, and each rule matters in some cluster.

`make test` compares ``fit`` with recorded outcomes of the scheduler: ``unit/test_recorded_fit.py``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from control_plane import ControlPlane
from gpuctl.api.fit_answers import fit_job
from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.fit import job_fit as fit_module
from gpuctl.capacity.fit.job_fit import VERDICTS
from gpuctl.capacity.snapshot import snapshot_document
from gpuctl.capacity.snapshot.snapshot_entries import pod_entry
from gpuctl.cli.main import cli
from gpuctl.cli.options.connection_options import ClusterFailure
from gpuctl.kube.configuration import open_session
from properties.scale import at_least, part_of
from support.fit_oddities import oddity
from support.fit_records import TELLING, TELLING_ODDITIES
from support.fit_trials import Trial, Trials, disagreements
from support.fit_worlds import world
from support.hasty_scheduler import scheduler_alone

Object = dict[str, Any]

SHORT = (
    *(233, 242, 243, 248, 259, 260, 263, 265, 267, 272, 278, 280, 285, 288, 302, 313, 323, 345, 367, 370, 378, 383),
    *(388, 394, 410, 414, 427, 429, 435, 450, 460, 463, 467, 489),
)
"""Seeds of worlds with jobs that fit only into the empty cluster, which are rare among random worlds."""
WORLDS = part_of(sorted({*range(at_least(230)), *SHORT, *TELLING}), 16)
"""`make test` runs a sixteenth, a full run runs all; with ``GPUCTL_PROPERTIES=5`` the scheduler gets a thousand worlds.
"""
ODDITIES = part_of([200_000 + seed for seed in sorted({*range(at_least(120)), *TELLING_ODDITIES})], 16)
"""Seeds outside the range of `WORLDS`, because node names contain the seed and must be unique."""
AT_LEAST, FEW = 30, 15
DOCUMENT = """\
kind: training
version: v0.1
job: {name: train}
environment: {image: "busybox:1", command: ["true"]}
resources: {pool: no-such-pool, gpu: 1, cpu: 1, memory: 1Gi}
"""


@pytest.fixture(scope="module")
def scheduling_plane() -> Iterator[ControlPlane]:
    """A control plane where only the scheduler runs. Other controllers would change statuses, taints and quotas."""
    with scheduler_alone() as plane:
        yield plane


@pytest.fixture(scope="module")
def trials(scheduling_plane: ControlPlane) -> list[Trial]:
    """The scheduler's outcomes of all worlds."""
    return Trials(scheduling_plane).run([world(seed) for seed in WORLDS])


@pytest.fixture(scope="module")
def odd_trials(trials: list[Trial], scheduling_plane: ControlPlane) -> list[Trial]:
    """The scheduler's outcomes for terminating, pending and nominated pods, and for rare specs."""
    return Trials(scheduling_plane).run([oddity(seed) for seed in ODDITIES], shared=False)


def _print(trial: Trial) -> str:
    answers = [fit_job(answer).as_json() for answer in trial.answers().values()]
    parts = {"seed": trial.world.seed, "features": sorted(trial.world.features), "now": trial.now, "empty": trial.empty}
    return json.dumps({**parts, "answers": answers, "jobs": trial.world.jobs}, default=sorted, indent=1)


def _assert_agreed(trials: list[Trial]) -> None:
    """Assert that disagreements occur only in few worlds, and only where an answer depends on the scheduling order."""
    apart = {trial.world.seed: found for trial in trials if (found := disagreements(trial))}
    worlds = [trial for trial in trials if trial.world.seed in apart]
    shown = f"{len(apart)} of {len(trials)} worlds differ: {json.dumps(apart, indent=1)}\n" + "\n".join(
        map(_print, worlds[:3])
    )
    assert all(any(answer.depends for answer in trial.answers().values()) for trial in worlds), shown
    assert len(worlds) <= max(1, len(trials) // 50), shown


@pytest.mark.slow
def test_fit_agrees_with_the_scheduler(trials: list[Trial]) -> None:
    _assert_agreed(trials)


@pytest.mark.slow
def test_fit_agrees_for_terminating_nominated_and_rare_pods(odd_trials: list[Trial]) -> None:
    _assert_agreed(odd_trials)


@pytest.mark.slow
def test_worlds_cover_every_rule(trials: list[Trial]) -> None:
    features = Counter(feature for trial in trials for feature in trial.world.features)
    rare = {feature: number for feature, number in features.items() if number * 10 < len(trials)}
    assert not rare, f"of {len(trials)} worlds: {dict(features)}"
    verdicts = Counter(answer.verdict for trial in trials for answer in trial.answers().values())
    # Unknown answers are rarer: their reasons do not depend on the scheduler's choices.
    assert all(verdicts[verdict] >= (FEW if verdict == "unknown" else AT_LEAST) for verdict in VERDICTS), dict(verdicts)


@pytest.mark.slow
def test_most_predicted_victims_are_certain(trials: list[Trial]) -> None:
    """If `fit` marked all its answers as uncertain, it would agree with any scheduler."""
    every = [answer for trial in trials for answer in trial.answers().values()]
    preempting = [answer for answer in every if answer.verdict == "preempts"]
    assert sum(answer.certain for answer in preempting) * 10 >= 8 * len(preempting)
    assert sum(answer.depends for answer in every) * 4 <= len(every)


@pytest.mark.slow
def test_finished_pods_hold_no_room(trials: list[Trial]) -> None:
    """Snapshots leave finished pods out; with them ``fit`` would be wrong."""

    def with_ended(trial: Trial) -> Trial:
        ended = [pod for pod, status in trial.world.fillers if status["status"]["phase"] != "Running"]
        pods = [
            pod_entry({**pod, "metadata": {**pod["metadata"], "namespace": trial.world.namespace}}) for pod in ended
        ]
        assert not {pod["name"] for pod in pods} & {pod["name"] for pod in trial.snapshot.pods}
        return trial._replace(snapshot=replace(trial.snapshot, pods=[*trial.snapshot.pods, *pods]))

    assert any(disagreements(with_ended(trial)) for trial in trials)


def _command(plane: ControlPlane, name: str, user: str, *arguments: str) -> Result:
    options = ["--kubeconfig", str(plane.kubeconfig(user)), *arguments]
    # Invoke the group instead of the command: click would cache the command's help without the group's `-h`.
    return CliRunner().invoke(cli, [name, *options], standalone_mode=False)


@pytest.mark.slow
def test_snapshot_and_fit_commands_read_the_cluster(
    trials: list[Trial], scheduling_plane: ControlPlane, tmp_path: Path
) -> None:
    taken = _command(scheduling_plane, "snapshot", "deployer")
    assert taken.return_value == 0
    assert "note: runtimeClasses may not be read and are omitted" in taken.stderr
    nodes = {node["name"] for node in snapshot_document.load(taken.stdout).nodes}
    assert nodes >= {node["metadata"]["name"] for trial in trials for node in trial.world.nodes}
    document = tmp_path / "job.yaml"
    document.write_text(DOCUMENT)
    found = _command(scheduling_plane, "fit", "admin", "-f", str(document), "--json")
    (answer,) = json.loads(found.stdout)["jobs"]
    assert (found.return_value, answer["verdict"], answer["namespace"]) == (1, "never", "default")


def test_snapshot_needs_the_right_to_list_nodes(scheduling_plane: ControlPlane) -> None:
    refused = _command(scheduling_plane, "snapshot", "alice")
    assert isinstance(refused.exception, ClusterFailure)
    assert "user alice may not list nodes in the whole cluster" in refused.exception.message
    assert refused.stdout == ""


def _volume(name: str, node: str) -> list[dict[str, Any]]:
    """Return a claim and its volume, which is local to one node."""
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": "local"}
    claim_ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "volumes", "name": name}
    volume = {
        **common,
        "capacity": {"storage": "1Gi"},
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        "claimRef": claim_ref,
    }
    claim = {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    metadata = {"name": name, "namespace": "volumes", "annotations": bound}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim},
    ]


def test_job_with_a_local_volume_fits_only_on_its_node(scheduling_plane: ControlPlane) -> None:
    """Jobs with a claim run on the volume's node or not at all; for a missing claim the answer is unknown."""
    plane = scheduling_plane
    plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volumes"}})
    for name, cpu in (("volumes-a", "8"), ("volumes-b", "2")):
        plane.add_node(name, labels={"example.com/world": "volumes"}, cpu=cpu)
        plane.kubectl("patch", "node", name, "--type=merge", "-p", '{"spec":{"taints":[]}}')
    plane.create(*_volume("on-a", "volumes-a"), *_volume("on-b", "volumes-b"))
    bound = '{"status":{"phase":"Bound"}}'
    jobs = []
    for claim in ("on-a", "on-b", "nowhere"):
        plane.kubectl("patch", "pvc", claim, "-n", "volumes", "--subresource=status", "-p", bound, check=False)
        spec = {
            "nodeSelector": {"example.com/world": "volumes"},
            "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "4"}}}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": claim, "namespace": "volumes"}, "spec": spec}
        jobs.append(pod)
    session = open_session(kubeconfig=str(plane.kubeconfig()))
    have = take_snapshot(session)
    session.close()
    verdicts = {item.demand.name: item.verdict for pod in jobs for item in fit_module.fit(have, [pod])}
    assert verdicts == {"on-a": "fits", "on-b": "never", "nowhere": "unknown"}
    plane.create(*jobs)

    def told() -> dict[str, str] | None:
        pods = plane.get("pods", "-n", "volumes")["items"]
        conditions = [item for pod in pods for item in pod["status"].get("conditions", [])]
        if [item["type"] for item in conditions].count("PodScheduled") < len(jobs):
            return None
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}

    assert plane.wait_for(told, "the scheduler to report on all pods") == {
        "on-a": "volumes-a",
        "on-b": "",
        "nowhere": "",
    }
