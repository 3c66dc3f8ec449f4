"""Whether jobs would get their pods placed, all at once, in a cluster as a snapshot shows it; and if not, why.

Jobs that cannot influence each other are judged apart. Of those that can, what holds for every choice that the
scheduler may make is told for certain, and of the rest what most of the ways tried give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuctl.backend.api_resources import QUEUE_LABEL, Object, labels_of
from gpuctl.capacity.claimed_volumes import with_volumes
from gpuctl.capacity.components import Component, components
from gpuctl.capacity.demand import Demand, understand
from gpuctl.capacity.every_choice import Scene, judge, shown
from gpuctl.capacity.openings import with_openings
from gpuctl.capacity.pod_shapes import Landscape
from gpuctl.capacity.quota_admission import QuotaAdmission
from gpuctl.capacity.sampled import Sample
from gpuctl.capacity.snapshot import Snapshot
from gpuctl.capacity.snapshot_cluster import Cluster
from gpuctl.capacity.verdicts import VERDICTS, Fit, Verdict, Victim, agreed, named, with_remarks

__all__ = ["VERDICTS", "Fit", "Verdict", "Victim", "fit", "named"]


def fit(snapshot: Snapshot, objects: Sequence[Object]) -> list[Fit]:
    """Judge the workloads among ``objects`` (as lowered, with their namespaces), the most important first."""
    cluster, demands = understand(snapshot, objects)
    owned = [pod for demand in demands for pod in demand.owned]
    cluster = cluster._replace(seats=[seat.without(owned) for seat in cluster.seats])
    least = with_volumes(cluster, demands, snapshot)
    answers = [with_remarks(answer) for answer in _answers(least.cluster, least.demands, snapshot.taken_at)]
    if least.drivers:
        most = with_volumes(cluster, demands, snapshot, apart=False)
        answers = agreed(answers, _answers(most.cluster, most.demands, snapshot.taken_at), least.drivers)
    # When a queue lets a job start is the queue's to decide.
    queued = {_key(obj) for obj in objects if QUEUE_LABEL in labels_of(obj)}
    return [replace(one, opening=None) if tuple(one.demand[:3]) in queued else one for one in answers]


def _key(obj: Object) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _answers(cluster: Cluster, demands: Sequence[Demand], now: str) -> list[Fit]:
    quotas = QuotaAdmission(cluster.quotas, demands)
    asking = [[shown(group, cluster.shown) for group, _ in demand.groups] for demand in demands]
    nodes = Landscape(cluster.seats)
    result: dict[int, Fit] = {}
    awaited = {index for pod in cluster.waiting for index in nodes.open_to(pod)}
    for part in components(cluster, asking, nodes):
        scene = _scene(cluster, demands, quotas, part, nodes)
        answers = _judged(scene)
        if awaited.isdisjoint(part.seats):
            answers = with_openings(scene, answers, now)
        result.update(zip(part.demands, answers, strict=True))
    return [result[position] for position in range(len(demands))]


def _scene(
    cluster: Cluster, demands: Sequence[Demand], quotas: QuotaAdmission, part: Component, nodes: Landscape
) -> Scene:
    seats = [cluster.seats[index] for index in part.seats]
    places = {index: place for place, index in enumerate(part.seats)}
    nominated = [(places[index], pod) for index, pod in cluster.nominated if index in places]
    waiting = [cluster.waiting[number] for number in part.waiting]
    own = cluster._replace(seats=seats, nominated=nominated, waiting=waiting)
    mine = [demands[position] for position in part.demands]
    around = set(part.seats)
    for demand in mine:
        around.update(index for group, _ in demand.groups for index in nodes.selected_by(group.incoming))
    return Scene(
        own,
        mine,
        [quotas.admissions[position] for position in part.demands],
        quotas,
        part.demands,
        [cluster.seats[index] for index in sorted(around)],
        cluster.seats,
    )


def _judged(scene: Scene) -> list[Fit]:
    answers = judge(scene)
    if None not in answers:
        return [answer for answer in answers if answer is not None]
    sample = Sample(scene, len(scene.whole))
    return [answer or sample.answer(position) for position, answer in enumerate(answers)]
