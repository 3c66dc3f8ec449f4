"""Kueue's objects in a snapshot: why they refuse a job, and why that is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuctl.capacity.admission.limit_ranges import is_rejected_by_kueue
from gpuctl.capacity.devices.device_requests import with_planned_templates
from gpuctl.capacity.kueue.cohorts import cohort_of
from gpuctl.capacity.kueue.job_queues import KUEUE_COUNTS
from gpuctl.capacity.kueue.kueue_configuration import PREFERENCE, TOPOLOGY, KueueConfiguration
from gpuctl.capacity.kueue.kueue_devices import CountedDevices, KueueDevices
from gpuctl.capacity.kueue.kueue_requests import NamespaceDefaults, kueue_units, total_requests
from gpuctl.capacity.kueue.namespace_labels import NamespaceLabels
from gpuctl.capacity.kueue.queue_messages import QueuePath, queue_refusal, stopped_queue
from gpuctl.capacity.kueue.queue_state import ClusterQueueRules, PodSet, pod_set
from gpuctl.capacity.pods.demand import Demand
from gpuctl.capacity.scheduler.scheduler_model import Units
from gpuctl.capacity.snapshot.kueue_entries import asks_for_topology
from gpuctl.capacity.snapshot.pod_requests import pod_requests
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.language.sentences import Template, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.elastic_jobs import MIN_PARALLELISM
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.prerequisites import ADMISSION_GATES
from gpuctl.objects.selectors import selector_matches

DIFFERS_BY_RELEASE = Template("differs between releases of Kueue, and its release is unknown or old")


class QueueChecks:
    """Kueue's objects in a snapshot, with those that are about to be created.

    ``queues``: ClusterQueues by name. ``local``: LocalQueues by namespace and name. ``ranks``: values of
    WorkloadPriorityClasses; ``knows_ranks`` is False if they could not be read.
    """

    def __init__(self, snapshot: Snapshot, objects: Sequence[Object], configuration: KueueConfiguration) -> None:
        lists = snapshot.kueue or {}
        self.configuration = configuration
        self.flavors = {item["name"]: item for item in lists["resourceflavors"]}
        self.queues = {item["name"]: item for item in lists["clusterqueues"]}
        self.local = {(item["namespace"], item["name"]): item for item in lists["localqueues"]}
        planned = {obj["metadata"]["name"]: obj["value"] for obj in objects if obj["kind"] == "WorkloadPriorityClass"}
        self.ranks = planned | {item["name"]: item["value"] for item in lists.get("workloadpriorityclasses") or ()}
        self.knows_ranks = "workloadpriorityclasses" in lists
        self.devices = KueueDevices(with_planned_templates(snapshot, objects), configuration)
        self.defaults = NamespaceDefaults(snapshot.limit_ranges, snapshot.runtime_classes)
        self._spaces = NamespaceLabels(snapshot, objects)

    def queue_refusal(self, local: Object, queue: Object, namespace: str) -> tuple[str, str]:
        """Return why the queues take no job of a namespace, and why that is unknown."""
        labels, selector = self._spaces.of(namespace), queue["spec"].get("namespaceSelector")
        path = QueuePath(local["name"], queue["name"], cohort_of(queue))
        if self._spaces.suffice_for(selector, namespace):
            return queue_refusal(path, local, queue, labels, namespace), ""
        refusal = stopped_queue(path, local, queue)
        unknown_reason = say(
            "its ClusterQueue selects namespaces, and the labels of {namespace} could not be read", namespace=namespace
        )
        return refusal, "" if refusal else unknown_reason

    def refusal(self, demand: Demand, obj: Object, queue: Object, devices: Iterable[CountedDevices]) -> str:
        """Return why Kueue rejects a job's requests: its own message, its topology or devices, or a LimitRange."""
        if "refused" in obj:
            return str(obj["refused"])
        if self.asks_in_vain(obj, queue) and self.configuration.is_enabled(TOPOLOGY):
            return say("it asks for a topology, and no flavor of the queue has one")
        for item in devices:
            if item.refusal:
                return item.refusal
        ranges = self.defaults.ranges(demand.namespace)
        for template, _ in pod_templates(obj):
            if is_rejected_by_kueue(self.defaults.added(template["spec"], demand.namespace), ranges):
                return say("its pods violate the LimitRanges of {namespace}", namespace=demand.namespace)
        return ""

    def unmanaged(self, demand: Demand) -> str:
        """Return why it is unknown whether Kueue manages a job."""
        selector, settings = dict(self.configuration.namespaces), say("Kueue's configuration")
        if not self.configuration.manages(demand.kind):
            return say(
                "{settings} has no integration for {kind}: it may start without quota",
                settings=settings,
                kind=demand.kind,
            )
        if not self._spaces.suffice_for(selector, demand.namespace):
            return say(
                "{settings} selects namespaces, and the labels of {namespace} could not be read",
                settings=settings,
                namespace=demand.namespace,
            )
        if not selector_matches(selector, self._spaces.of(demand.namespace)):
            return say(
                "{settings} excludes the jobs of {namespace} (managedJobsNamespaceSelector)",
                settings=settings,
                namespace=demand.namespace,
            )
        return ""

    def unknown_reason(self, demand: Demand, obj: Object, queue: Object) -> str:
        """Return a factor of the decision that is not in a snapshot, or not supported."""
        asked = [name for group, _ in demand.groups for name in group.incoming.pod.requests]
        transformed = self.configuration.transforms(asked)
        if transformed:
            return say(
                "Kueue converts {resources:and} to other resources (resources.transformations)",
                resources=transformed,
            )
        annotations = obj["metadata"].get("annotations") or {}
        if MIN_PARALLELISM in annotations:
            return say("Kueue may admit it with fewer pods (job-min-parallelism)")
        if annotations.get(ADMISSION_GATES):
            return say("Kueue does not admit it before its gates are removed ({gates})", gates=ADMISSION_GATES)
        several = any(len(group["flavors"]) > 1 for group in queue["spec"]["resourceGroups"])
        preference = (queue["spec"].get("flavorFungibility") or {}).get("preference")
        if several and preference and not self.configuration.has(PREFERENCE):
            return say("the meaning of flavorFungibility.preference {differ}", differ=say(DIFFERS_BY_RELEASE))
        return ""

    def counted_devices(self, demand: Demand, obj: Object) -> list[CountedDevices]:
        """Return the devices of each pod template that Kueue has not counted yet."""
        return [
            self.devices.of(template["spec"], demand.namespace) if asked is None else CountedDevices()
            for (template, _), asked in zip(pod_templates(obj), _counts(demand, obj), strict=True)
        ]

    def pod_sets(
        self, demand: Demand, obj: Object, rules: ClusterQueueRules, devices: Iterable[CountedDevices]
    ) -> Iterable[PodSet]:
        """Yield the pod sets of a job that is not in the cluster yet."""
        parts = zip(demand.groups, pod_templates(obj), _counts(demand, obj), devices, strict=True)
        for (_, count), (template, _), asked, own in parts:
            if asked is None:
                each = kueue_units(pod_requests(self.defaults.added(template["spec"], demand.namespace)))
                asked = total_requests(own.in_requests(self.configuration.counted(each)), count)
            yield pod_set("", asked, count, template["spec"], rules, self.flavors, self.configuration)

    def is_unknown_usage(self, part: Object) -> bool:
        """Return True if a pod set of a waiting Workload may get other quota than it requests."""
        converts = "sums" not in part and bool(self.configuration.transforms(part["pod"]["requests"]))
        return converts or bool({"minCount", "byTopology"} & part.keys())

    def asks_in_vain(self, obj: Object, queue: Object) -> bool:
        """Return True for a job that asks for a topology in a queue whose flavors have none."""
        return not self.topologies(queue) and any(asks_for_topology(template) for template, _ in pod_templates(obj))

    def topologies(self, queue: Object) -> list[str]:
        """Return the flavors of a ClusterQueue with topology-aware scheduling."""
        names = [item["name"] for group in queue["spec"]["resourceGroups"] for item in group["flavors"]]
        return [name for name in names if self.flavors.get(name, {}).get("topology")]


def _counts(demand: Demand, obj: Object) -> list[Units | None]:
    """Return the requests that Kueue has counted for each pod template; None for those that it has not."""
    counts: list[Units | None] = obj.get(KUEUE_COUNTS) or [None] * len(demand.groups)
    return counts
