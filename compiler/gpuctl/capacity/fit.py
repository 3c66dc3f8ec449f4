"""Whether jobs would get their pods placed, all at once, in a cluster as a snapshot shows it; and if not, why.

Jobs that cannot influence each other are judged apart. Of those that can, what holds for every choice that the
scheduler may make is told for certain, and of the rest what most of the ways tried give.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.backend.api_resources import Object
from gpuctl.capacity.components import Component, components
from gpuctl.capacity.demand import Demand, understand
from gpuctl.capacity.every_choice import judge
from gpuctl.capacity.pod_shapes import Landscape
from gpuctl.capacity.quota_admission import QuotaAdmission
from gpuctl.capacity.sampled import Sample
from gpuctl.capacity.scene import Scene, shown
from gpuctl.capacity.snapshot import Snapshot
from gpuctl.capacity.snapshot_cluster import Cluster
from gpuctl.capacity.verdicts import VERDICTS, Fit, Verdict, Victim, named

__all__ = ["VERDICTS", "Fit", "Verdict", "Victim", "fit", "named"]


def fit(snapshot: Snapshot, objects: Sequence[Object]) -> list[Fit]:
    """Judge the workloads among ``objects`` (as lowered, with their namespaces), the most important first."""
    cluster, demands = understand(snapshot, objects)
    owned = [pod for demand in demands for pod in demand.owned]
    cluster = cluster._replace(seats=[seat.without(owned) for seat in cluster.seats])
    quotas = QuotaAdmission(cluster.quotas, demands)
    asking = [[shown(group, cluster.shown) for group, _ in demand.groups] for demand in demands]
    nodes = Landscape(cluster.seats)
    result: dict[int, Fit] = {}
    for part in components(cluster, asking, nodes):
        scene = _scene(cluster, demands, quotas, part, nodes)
        for position, answer in zip(part.demands, _judged(scene), strict=True):
            result[position] = answer
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
