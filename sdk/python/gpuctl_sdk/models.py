# Written by tools/sdk.py from schemas/rest/openapi.json: `make schemas`.
"""Response models. Fields that only a newer service has are ignored."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gpuctl_sdk.answer import Answer


class Administered(Answer):
    """The result of creating or deleting a pool or quota. A dry run has the plan."""

    name: str
    status: str
    message: str
    notes: list[str] = Field(default_factory=list)
    """Notes about the change."""
    plan: PlanAnswer | None = None
    """Plan of a dry run: what would be done to which objects."""


class AllocationDetails(Answer):
    """Who held GPUs at a moment; nothing where that was left out, or is not known any more."""

    namespaces: dict[str, HeldInNamespace] = Field(default_factory=dict)
    """Namespace -> what was held in it."""
    annotations: dict[str, str] = Field(default_factory=dict)


class AllocationHistory(Answer):
    """Snapshots, the earliest first."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or what has to be said about it."""
    data: list[ListedSnapshot] | SnapshotPage


class AuditLine(Answer):
    """A write, or the attempt of one."""

    time: str
    caller: str
    """Who asked; "" where nobody was recognised."""
    action: str
    objects: list[str]
    """The names of the objects that it changed."""
    result: str
    """The status, and the name of the error; `begun` while it goes on, `interrupted` without an end."""
    request_id: str


class AuditPage(Answer):
    """Lines of the audit, the newest first."""

    total: int
    items: list[AuditLine]
    source: str
    """`file`: the setting `audit`; `memory`: the last lines of the replica that answers."""
    complete: bool
    """Whether nothing is known to be missing: older lines, those of files that were rotated away, those of other
    replicas.
    """
    left_out: int
    """Lines that cannot be read."""


class Batch(Answer):
    """The result of a batch."""

    success: list[BatchItem]
    failed: list[BatchFailure]


class BatchFailure(Answer):
    """An entry of a batch that was not: its place (from 0), the error's name and what it says."""

    index: int
    name: str | None
    error: str
    message: str
    details: list[Any] = Field(default_factory=list)


class BatchItem(Answer):
    """A job of a batch that was created, or with ``dryRun`` would be (``jobId`` is null then)."""

    notes: list[str] = Field(default_factory=list)
    """Remarks that do not stop the request, such as a pool or a Secret that does not exist."""
    questions: list[str] = Field(default_factory=list)
    """Only in a dry run: what the real request has to confirm with `?confirm=true`."""
    job_id: str | None
    name: str
    message: str
    warnings: list[DocumentWarning] = Field(default_factory=list)
    """Diagnostics of the entry."""


class BatchReport(Answer):
    """The result of a change of several nodes."""

    success: list[str]
    failed: list[NodeFailure]
    message: str
    notes: list[str]
    nodes: list[ChangedNode] = Field(default_factory=list)
    """The change of each node in `success`."""


class ChangedJob(Answer):
    """A job that was changed, or (status ``validated``) would be, with the plan."""

    job_id: str | None
    name: str
    namespace: str | None
    kind: str
    pool: str | None
    status: str
    created_at: str | None
    message: str
    plan: PlanAnswer
    warnings: list[DocumentWarning] = Field(default_factory=list)
    """Diagnostics of the documents."""


class ChangedNode(Answer):
    """A node that was changed."""

    node_name: str
    message: str


class ChangedPool(Answer):
    """The result of changing a pool, with the plan. The status of a dry run is ``validated``."""

    name: str
    status: str
    message: str
    notes: list[str] = Field(default_factory=list)
    """Notes about the change."""
    plan: PlanAnswer


class ClusterHour(Answer):
    """A cluster in an hour."""

    id: int
    """The id of the row. It does not change when the hour is computed again."""
    cluster_name: str = Field(alias="cluster_name")
    stat_hour: str = Field(alias="stat_hour")
    """Where the hour or step begins, UTC."""
    end_time: str | None = Field(default=None, alias="end_time")
    """Where a step that is not an hour ends, UTC; the first and the last one are cut."""
    known_seconds: float = Field(alias="known_seconds")
    """Seconds of the hour or step for which usage is known. All other figures cover only these: less than the whole if
    the step is still running, no collector ran, or its hours were pruned.
    """
    provisional: bool
    """True if figures may still change: the hour has just ended, or measurements are missing."""
    avg_utilization: float | None = Field(alias="avg_utilization")
    """Percent; the mean of all GPUs that were measured, for as long as they were; null where none was."""
    max_utilization: float | None = Field(alias="max_utilization")
    """Highest one-minute average utilization, percent."""
    min_utilization: float | None = Field(alias="min_utilization")
    p50_utilization: float | None = Field(alias="p50_utilization")
    """Median of the one-minute averages, rounded to a whole percent."""
    p95_utilization: float | None = Field(alias="p95_utilization")
    coverage: float | None
    """Measured part of the allocated GPU-seconds, 0 to 1; null if none were allocated."""
    created_at: str = Field(alias="created_at")
    updated_at: str = Field(alias="updated_at")
    """When it was computed last."""
    total_gpu_capacity: float | None = Field(alias="total_gpu_capacity")
    """GPUs that there were, on the average."""
    allocated_gpu_count: float | None = Field(alias="allocated_gpu_count")
    """GPUs that were held, on the average."""
    allocation_rate: float | None = Field(alias="allocation_rate")
    """Percent of the capacity."""
    sample_count: int = Field(alias="sample_count")
    """Pieces of five minutes in which something was measured."""


class ClusterHourPage(Answer):
    """A page of rows."""

    total: int
    """Rows of all pages."""
    page: int
    page_size: int = Field(alias="page_size")
    total_pages: int = Field(alias="total_pages")
    data: list[ClusterHour]


class ClusterHoursAfter(Answer):
    """Rows after others."""

    page_size: int = Field(alias="page_size")
    next_cursor: str | None = Field(alias="next_cursor")
    """The `cursor` of the next page; null after the last row."""
    data: list[ClusterHour]


class ClusterUsage(Answer):
    """Hours of the cluster: all, or a page of them where pages are asked for."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or what has to be said about it."""
    data: list[ClusterHour] | ClusterHourPage | ClusterHoursAfter


class CreatedQuota(Answer):
    """The result of creating quotas, with their users."""

    name: str
    status: str
    message: str
    notes: list[str] = Field(default_factory=list)
    """Notes about the change."""
    plan: PlanAnswer | None = None
    """Plan of a dry run: what would be done to which objects."""
    users: list[str]


class DatedLabel(Answer):
    """A label, and since when it has been like this at the latest."""

    key: str
    value: str
    created_at: str | None
    last_updated_at: str | None


class DeletedLabel(Answer):
    """A label that was deleted."""

    node_name: str
    label_key: str
    message: str
    notes: list[str]


class Dependent(Answer):
    """An object that goes with another."""

    kind: str
    name: str


class DocumentCommit(Answer):
    """The commit that a document was applied from."""

    id: str
    dirty: bool
    """True if the files differed from the commit."""
    repository: str | None


class DocumentWarning(Answer):
    """A diagnostic of a document that is in order, as ``gpuctl validate -o json`` has it; ``file`` is the field."""

    severity: str
    code: str
    message: str
    file: str | None
    line: int | None
    column: int | None
    end_line: int | None
    end_column: int | None
    path: str
    hint: str | None
    related: list[RelatedPlace]


class EventsAlike(Answer):
    """An event, or several of the same words."""

    type: str
    reason: str
    object: str
    message: str
    count: int
    time: str


class FitAnswer(Answer):
    """``gpuctl fit``, with what it prints beside the jobs."""

    jobs: list[FitJob]
    notes: list[str]
    """What the answer does not take into account."""
    warnings: list[DocumentWarning] = Field(default_factory=list)
    """Diagnostics of the documents."""
    messages: list[str] = Field(default_factory=list)
    """Remarks about the request itself."""


class FitEnding(Answer):
    """Work that ends."""

    namespace: str
    job: str
    ends_by: str | None
    """The latest time at which it has left its nodes; null if several jobs are merged."""


class FitJob(Answer):
    """The answer about a job. Amounts have their units in the names: `cpuCores`, `memoryBytes`, `nvidia.com/gpu`."""

    name: str
    namespace: str
    kind: str
    verdict: str
    """fits, preempts, fits-when-empty, never or unknown."""
    victims: list[FitVictim]
    victims_certain: bool
    """True if exactly these pods are evicted."""
    certain: bool
    """True if no choice of the scheduler changes the verdict, the pods or the victims."""
    likelihood: float | None
    """1 if no other order of pods changes the verdict; null if that is not known."""
    pods: int
    starting_pods: int
    held_by_starting_pods: dict[str, float]
    """Resources that the pods that start hold while the others of their job have no room."""
    need: dict[str, Any]
    """Resources of all pods; those of one pod are in `perPod`."""
    free: dict[str, float]
    largest_node: dict[str, Any] | None
    """The node with the most room, by `name`, and what is free of it."""
    held_by: list[dict[str, Any]]
    """Who holds what is short: `namespace`, `job`, `priority`, `pods`, and how much."""
    reason: str
    admitted: bool | None
    """True if its Kueue queue admits it now; null without a queue, or if that is unknown."""
    opening: FitOpening | None
    """When it will find room, where that is known."""
    smallest_change: str | None
    suggestions: list[FitSuggestion] = Field(default_factory=list)
    """With `suggest`, of a job that does not fit: the smallest change of each kind."""


class FitOpening(Answer):
    """The time at which a job that has no room now will have room."""

    by: str
    """The latest such time, by the clock of the API server."""
    taken_at: str
    """The time at which the cluster was read."""
    after: list[FitEnding]
    """The work that has to end before, in the order in which it ends."""


class FitSuggestion(Answer):
    """A change of a document with which its job fits now, without evicting other pods."""

    kind: str
    """less memory, less cpu, fewer GPUs, another GPU type, another pool, more nodes of fewer GPUs, or fewer nodes.
    """
    changes: list[dict[str, Any]]
    """The edits: `path`, `from` and `to`, with `file`, `line` and `column` of the present value."""


class FitVictim(Answer):
    """A pod that would be evicted. Pods that the caller may not see are merged into one."""

    namespace: str
    name: str
    job: str
    node: str | None
    """null if several pods on different nodes are merged."""
    priority: int | None
    """null if several pods are merged."""
    likelihood: float | None
    """1 if this pod is evicted in any case; null if another pod may be evicted instead."""


class GpuLabelPage(Answer):
    """A page of nodes; `total` of all pages."""

    total: int
    items: list[GpuLabels]


class GpuLabels(Answer):
    """The labels of a node that tell a type of GPU, those that jobs select on first."""

    node_name: str
    gpu_labels: list[LabelPair]
    gpu_type: str | None
    bound_pools: list[str]


class GpuPage(Answer):
    """A page of nodes that have GPUs; `total` of all pages."""

    total: int
    items: list[GpusOfNode]


class GpuTypeItem(Answer):
    """A type of GPU: how many there are, and where. GPUs are null where pods may not be read."""

    gpu_type: str
    """`unknown` for GPUs that no label names."""
    vendors: list[str]
    gpu_total: int
    gpu_used: int | None
    """GPUs that pods request."""
    gpu_free: int | None
    """GPUs that no pod requests."""
    nodes: list[str]
    bound_pools: list[str]


class GpuTypeList(Answer):
    """The types of GPU that nodes have."""

    total: int
    items: list[GpuTypeItem]


class GpusOfJobs(Answer):
    """``GET /gpu-use``: GPUs that jobs hold and wait for."""

    allocated: int
    """GPUs of pods of jobs on nodes."""
    total: int | None
    """GPUs of all nodes; null of one namespace, or if nodes may not be read."""
    waiting: int
    """GPUs that jobs wait for."""
    notes: list[str]
    """What could not be read."""


class GpusOfNode(Answer):
    """The GPUs of a node."""

    node_name: str
    gpu_count: int
    gpus: list[NodeGpu]


class HeldByWorkload(Answer):
    """The GPUs of a workload at a moment."""

    uid: str
    name: str
    namespace: str
    kind: str
    allocated_gpu: float = Field(alias="allocated_gpu")
    utilization: float | None
    """Percent; null where it was not measured."""


class HeldIdle(Answer):
    """GPUs that are allocated and idle."""

    cluster: str
    start_time: str = Field(alias="start_time")
    end_time: str = Field(alias="end_time")
    known_until: str = Field(alias="known_until")
    """Until when it is known who holds GPUs."""
    idle_below: float = Field(alias="idle_below")
    """Percent."""
    idle_after_hours: float = Field(alias="idle_after_hours")
    """For so long it has to be idle to be listed."""
    currency: str | None
    total_idle_gpu_hours: float | None = Field(alias="total_idle_gpu_hours")
    """Total of all allocated GPUs; null for callers who may not see all namespaces."""
    total_idle_cost: float | None = Field(alias="total_idle_cost")
    """Their cost; null under the same condition."""
    workloads: list[IdleGpus]


class HeldInNamespace(Answer):
    """The GPUs of a namespace at a moment."""

    allocated_gpu: float = Field(alias="allocated_gpu")
    utilization: float | None
    workload_count: int = Field(alias="workload_count")
    workloads: list[HeldByWorkload]


class HeldModel(Answer):
    """GPU-seconds that a workload held of one GPU model."""

    namespace: str
    workload_type: str = Field(alias="workload_type")
    workload_name: str = Field(alias="workload_name")
    owner_uid: str = Field(alias="owner_uid")
    model: str
    """The GPU model."""
    key: str
    """The key of the label or annotation; empty without one."""
    value: str
    """Its value at that time, `__unset__` for pods without it; empty without a key."""
    allocated_gpu_seconds: float = Field(alias="allocated_gpu_seconds")
    """GPU-seconds that it held."""


class HeldModelPage(Answer):
    """A page of them."""

    total: int
    """Rows of all pages."""
    page: int
    page_size: int = Field(alias="page_size")
    total_pages: int = Field(alias="total_pages")
    data: list[HeldModel]


class HeldModelsAnswer(Answer):
    """GPU-seconds by workload, GPU model and value of a label or annotation."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or what has to be said about it."""
    data: list[HeldModel] | HeldModelPage


class HoldingPod(Answer):
    """A pod that holds room on a node, or waits for some."""

    pod: str
    name: str
    """The name of its job."""
    namespace: str
    kind: str | None
    """Null for a pod that is no job of gpuctl's."""
    gpu: int
    node_name: str | None


class IdleGpus(Answer):
    """A workload that holds GPUs and has not used them for a while."""

    namespace: str
    workload_type: str = Field(alias="workload_type")
    """Its kind."""
    workload_name: str = Field(alias="workload_name")
    owner_uid: str = Field(alias="owner_uid")
    owner: str | None
    """Whose it is: the first that it has of the labels, then the annotations, team, creator, project, app."""
    labels: dict[str, str]
    annotations: dict[str, str]
    gpu_count: float = Field(alias="gpu_count")
    """GPUs that it holds now."""
    gpu_models: dict[str, float] = Field(alias="gpu_models")
    """GPUs by model."""
    pod_count: int = Field(alias="pod_count")
    """Pods that hold them."""
    idle_since: str = Field(alias="idle_since")
    idle_hours: float = Field(alias="idle_hours")
    """For how long, without a break."""
    avg_utilization: float | None = Field(alias="avg_utilization")
    """Percent, in that time."""
    idle_gpu_hours: float | None = Field(alias="idle_gpu_hours")
    """Held, measured and not used in the time that is asked about; null where nothing was measured."""
    allocated_gpu_hours: float = Field(alias="allocated_gpu_hours")
    """Held in that time."""
    coverage: float | None
    """Measured part of it, 0 to 1."""
    idle_cost: float | None = Field(alias="idle_cost")
    """Cost of the idle GPU-hours by the platform's prices at their time; null if a price is not set."""
    pause: str | None
    """The job that holds them, as `gpuctl pause` calls it in the namespace; null where that cannot be paused, or not
    by whoever asks.
    """


class JobAddresses(Answer):
    """The addresses of a job's ports, as ``host:port``."""

    node_ports: list[str]
    load_balancers: list[str]
    cluster_dns: list[str]
    pod_ips: list[str]
    port_forward: str | None
    """The command that forwards a local port; null if nothing listens."""


class JobCause(Answer):
    """The cause that has to be solved first, its evidence, and what was ruled out."""

    job: str
    namespace: str
    kind: str
    cause: str
    message: str
    pod: str | None
    numbers: dict[str, Any]
    """The numbers behind the cause; each cause has its own."""
    ruled_out: list[str]
    fix: str | None
    evidence: list[WhyEvidence]
    also: list[OtherCause]


class JobDescription(Answer):
    """``GET /jobs/{jobId}``. ``status`` is the phase."""

    job_id: str
    name: str
    namespace: str
    kind: str
    version: str | None
    description: str | None
    yaml_content: str | None
    """The document, without credentials; null if the objects were changed into what no document says."""
    status: str
    phase: str
    reason: str | None
    ready: str
    """Pods that are ready, of those that the job is to have."""
    pool: str | None
    priority: str | None
    applied_by: str | None
    """Who applied it last, as far as it is known."""
    resources: JobResources
    metrics: JobMetrics
    created_at: str | None
    started_at: str | None
    k8s_resources: JobObjects = Field(alias="k8sResources")
    images: list[str]
    pods: list[JobPod]


class JobDetails(Answer):
    """``GET /jobs/{jobId}/details``."""

    job_id: str
    name: str
    namespace: str
    kind: str
    version: str | None
    description: str | None
    yaml_content: str | None
    """The document, without credentials; null if the objects were changed into what no document says."""
    status: str
    phase: str
    reason: str | None
    ready: str
    """Pods that are ready, of those that the job is to have."""
    pool: str | None
    priority: str | None
    applied_by: str | None
    """Who applied it last, as far as it is known."""
    resources: JobResources
    metrics: JobMetrics | None
    created_at: str | None
    started_at: str | None
    k8s_resources: JobObjects = Field(alias="k8sResources")
    images: list[str]
    pods: list[JobPod]
    timeline: list[PodTimeline]
    conditions: list[WorkloadCondition]
    access: JobAddresses
    why: JobCause | None
    """Null if nothing keeps the job from running."""
    events: list[EventsAlike] | None
    """Null where they may not be read."""
    uid: str | None
    """The uid of the job's main object; null if only pods are left."""
    notes: list[str]
    """What could not be read."""


class JobDocument(Answer):
    """A document of a job as it was applied, without credentials."""

    revision: int
    kind: str
    created_at: str | None
    who: str | None
    commit: DocumentCommit | None
    gpuctl: str
    """The version that applied it."""
    cause: str
    """`applied`, `rolled back`, or `found` in the cluster."""
    to: int | None
    """The revision that was gone back to."""
    changes: list[dict[str, Any]]
    """The fields that differ from the revision before, each with `path`, `from` and `to`."""
    masked: list[str]
    """Fields whose values are not kept."""


class JobDocuments(Answer):
    """The history of a job, with what was passed over."""

    name: str
    namespace: str
    items: list[JobDocument]
    total: int
    notes: list[str]
    """Objects that are marked as history and were skipped, with the reason."""


class JobItem(Answer):
    """An item of ``GET /jobs``."""

    job_id: str
    name: str
    namespace: str
    kind: str
    pool: str | None
    status: str
    reason: str | None
    """More about the status, if there is anything."""
    gpu: int
    """GPUs of all its pods together."""
    gpu_type: str | None
    created_at: str | None
    started_at: str | None
    applied_by: str | None
    """Who applied it last, as far as it is known."""
    progress: int | None
    """Percent, where a training's log says it."""
    object_name: str
    """The name of its main object: with a hash if a GitOps controller applies the job."""


class JobMetrics(Answer):
    """The newest measurements; null where nothing measures it."""

    gpu_utilization: float | None
    memory_usage: str | None
    network_latency: str | None
    throughput: str | None


class JobObjects(Answer):
    """The Kubernetes objects of a job."""

    kind: str | None
    job_name: str | None
    pods: list[str]


class JobOnNodes(Answer):
    """A job that holds room of a pool or node. `jobId` and `kind` are null for pods that are no job of gpuctl's."""

    job_id: str | None
    name: str
    namespace: str
    kind: str | None
    gpu: int
    """GPUs that it holds there."""


class JobPage(Answer):
    """``GET /jobs``: ``total`` of all pages, ``items`` of this one."""

    total: int
    items: list[JobItem]


class JobPod(Answer):
    """A pod of the job: a row of ``gpuctl get jobs -o json``, and how often its containers were restarted."""

    job_id: str
    """The job's id."""
    pod: str
    """The pod's name."""
    name: str
    namespace: str
    kind: str
    status: str
    phase: str
    ready: str
    node: str | None
    ip: str | None
    created_at: str | None
    started_at: str | None
    pool: str | None
    gpu: int
    gpu_type: str | None
    priority: str | None
    applied_by: str | None
    """Who applied the job last."""
    reason: str | None
    restarts: int


class JobResources(Answer):
    """The resource requests of one pod."""

    gpu: int
    gpu_type: str | None
    cpu: float | None
    memory: str | None
    memory_bytes: int | None


class JobRevision(Answer):
    """A document of a job's history, whole."""

    revision: int
    kind: str
    created_at: str | None
    who: str | None
    commit: DocumentCommit | None
    gpuctl: str
    """The version that applied it."""
    cause: str
    """`applied`, `rolled back`, or `found` in the cluster."""
    to: int | None
    """The revision that was gone back to."""
    changes: list[dict[str, Any]]
    """The fields that differ from the revision before, each with `path`, `from` and `to`."""
    masked: list[str]
    """Fields whose values are not kept."""
    document: dict[str, Any]


class JobState(Answer):
    """A job that is deleted, paused or resumed, or (status ``validated``) would be."""

    job_id: str
    status: str
    message: str
    plan: PlanAnswer | None = None
    """Only in a dry run: the plan, with what would be done to which objects."""


class JobTimeline(Answer):
    """``GET /jobs/{jobId}/timeline``: what happened to a job."""

    timeline: list[PodTimeline]
    conditions: list[WorkloadCondition]
    events: list[EventsAlike] | None
    """Null where they may not be read."""


class JobsWaitAnswer(Answer):
    """The jobs for which there is nothing more to wait; ask again for the others."""

    items: list[WaitedItem]
    message: str | None
    """The condition that is waited for in the other jobs; null if there are none."""


class KeptLabel(Answer):
    """One label of a node."""

    node_name: str
    label: DatedLabel


class LabelHour(Answer):
    """A value of a label or annotation in an hour."""

    id: int
    """The id of the row. It does not change when the hour is computed again."""
    cluster_name: str = Field(alias="cluster_name")
    stat_hour: str = Field(alias="stat_hour")
    """Where the hour or step begins, UTC."""
    end_time: str | None = Field(default=None, alias="end_time")
    """Where a step that is not an hour ends, UTC; the first and the last one are cut."""
    known_seconds: float = Field(alias="known_seconds")
    """Seconds of the hour or step for which usage is known. All other figures cover only these: less than the whole if
    the step is still running, no collector ran, or its hours were pruned.
    """
    provisional: bool
    """True if figures may still change: the hour has just ended, or measurements are missing."""
    avg_utilization: float | None = Field(alias="avg_utilization")
    """Percent; the mean of all GPUs that were measured, for as long as they were; null where none was."""
    max_utilization: float | None = Field(alias="max_utilization")
    """Highest one-minute average utilization, percent."""
    min_utilization: float | None = Field(alias="min_utilization")
    coverage: float | None
    """Measured part of the allocated GPU-seconds, 0 to 1; null if none were allocated."""
    created_at: str = Field(alias="created_at")
    updated_at: str = Field(alias="updated_at")
    """When it was computed last."""
    dimension_type: str = Field(alias="dimension_type")
    dimension_key: str = Field(alias="dimension_key")
    dimension_value: str = Field(alias="dimension_value")
    """`__unset__` is what workloads without it held: with it the values add up to the cluster."""
    allocated_gpu_count: float | None = Field(alias="allocated_gpu_count")
    """GPUs that were held, on the average."""
    active_workload_count: int = Field(alias="active_workload_count")
    """Workloads that held GPUs."""


class LabelHourPage(Answer):
    """A page of rows."""

    total: int
    """Rows of all pages."""
    page: int
    page_size: int = Field(alias="page_size")
    total_pages: int = Field(alias="total_pages")
    data: list[LabelHour]


class LabelHoursAfter(Answer):
    """Rows after others."""

    page_size: int = Field(alias="page_size")
    next_cursor: str | None = Field(alias="next_cursor")
    """The `cursor` of the next page; null after the last row."""
    data: list[LabelHour]


class LabelPage(Answer):
    """A page of labels; `total` of all pages."""

    total: int
    items: list[NodeLabel]


class LabelPair(Answer):
    """A label."""

    key: str
    value: str


class LabelUsage(Answer):
    """Hours of the values of a label or annotation."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or what has to be said about it."""
    data: list[LabelHour] | LabelHourPage | LabelHoursAfter


class LatestAllocation(Answer):
    """The last snapshot."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or what has to be said about it."""
    data: LatestSnapshot


class LatestSnapshot(Answer):
    """Who held GPUs at the last moment that is known."""

    id: int
    cluster_name: str = Field(alias="cluster_name")
    snapshot_time: str = Field(alias="snapshot_time")
    dimension_type: str = Field(alias="dimension_type")
    total_gpu_capacity: float | None = Field(alias="total_gpu_capacity")
    allocated_gpu_count: float | None = Field(alias="allocated_gpu_count")
    """For somebody who sees certain namespaces, what was held in those; null where it is not known."""
    allocation_details: AllocationDetails = Field(alias="allocation_details")
    created_at: str = Field(alias="created_at")
    dimension_key: str = Field(alias="dimension_key")
    dimension_value: str = Field(alias="dimension_value")


class LedgerAnswer(Answer):
    """The ledger: the use of every GPU-second."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or what has to be said about it."""
    data: list[LedgerRow] | LedgerPage | LedgerRowsAfter


class LedgerPage(Answer):
    """A page of rows."""

    total: int
    """Rows of all pages."""
    page: int
    page_size: int = Field(alias="page_size")
    total_pages: int = Field(alias="total_pages")
    data: list[LedgerRow]


class LedgerRow(Answer):
    """The GPU-seconds of a group: `allocated` is `busy` + `held_idle` + `held_unobserved`, `capacity` is `allocated` +
    `free` + `unusable` + `unsized`.
    """

    time: str
    """Where the step begins, UTC."""
    end_time: str = Field(alias="end_time")
    """Where it ends; the first and the last are cut."""
    known_seconds: float = Field(alias="known_seconds")
    """Seconds of the step for which usage is known. All amounts cover only these."""
    known_from: str = Field(alias="known_from")
    """First moment of the step for which usage is known, UTC."""
    known_until: str = Field(alias="known_until")
    """Last moment, UTC."""
    provisional: bool
    """True if amounts may still change: an hour has just ended, or measurements are missing."""
    cluster: str
    level: str
    key: str
    """The key of a label; for a workload its namespace, kind and name."""
    value: str
    """The value of the label; for a workload its uid; else a name."""
    namespace: str | None = None
    """The namespace of a workload; "" for other groups."""
    kind: str | None = None
    name: str | None = None
    capacity_gpu_seconds: float | None = Field(alias="capacity_gpu_seconds")
    """GPU-seconds available in the step; null for groups that own no GPUs."""
    allocated_gpu_seconds: float = Field(alias="allocated_gpu_seconds")
    """GPU-seconds allocated to pods."""
    busy_gpu_seconds: float = Field(alias="busy_gpu_seconds")
    """Measured, times their utilisation."""
    held_idle_gpu_seconds: float = Field(alias="held_idle_gpu_seconds")
    """Measured, and not used."""
    held_unobserved_gpu_seconds: float = Field(alias="held_unobserved_gpu_seconds")
    """Held, and not measured."""
    free_gpu_seconds: float | None = Field(alias="free_gpu_seconds")
    """Held by nobody, of nodes that take pods."""
    unusable_gpu_seconds: float | None = Field(alias="unusable_gpu_seconds")
    """Held by nobody, of nodes that take no pods."""
    unsized_gpu_seconds: float | None = Field(alias="unsized_gpu_seconds")
    """On nodes where a pod has a share of a card whose size is unknown: GPU-seconds that are held by such pods or
    free. Null for groups that own no GPUs.
    """
    allowed_gpu_seconds: float | None = Field(alias="allowed_gpu_seconds")
    """Only for namespaces: GPU-seconds that its quotas allow; without a quota, those of the cluster."""
    by_process_gpu_seconds: float = Field(alias="by_process_gpu_seconds")
    """Part of the measured GPU-seconds that comes from per-process metrics of shared cards."""
    beyond_held_gpu_seconds: float = Field(alias="beyond_held_gpu_seconds")
    """Use of shared cards beyond the share of their pods. Not part of `busy`."""
    avg_utilization: float | None = Field(alias="avg_utilization")
    """Percent, of what was measured."""
    coverage: float | None
    """Measured part of the allocated GPU-seconds, 0 to 1."""
    closes: bool
    """True if the parts add up. A ledger that does not is an error of the service."""


class LedgerRowsAfter(Answer):
    """Rows after others."""

    page_size: int = Field(alias="page_size")
    next_cursor: str | None = Field(alias="next_cursor")
    """The `cursor` of the next page; null after the last row."""
    data: list[LedgerRow]


class ListedPod(Answer):
    """An item of ``GET /pods``: a pod, or (``pod`` is null) a job without pods, or the pods that a job lacks."""

    job_id: str
    """The job's id."""
    pod: str | None
    """The pod's name; null in the row of a job."""
    name: str
    namespace: str
    kind: str
    status: str
    phase: str
    ready: str
    node: str | None
    ip: str | None
    created_at: str | None
    started_at: str | None
    pool: str | None
    gpu: int
    gpu_type: str | None
    priority: str | None
    applied_by: str | None
    """Who applied the job last."""
    reason: str | None
    object_name: str | None
    """The name of the job's main object: with a hash if a GitOps controller applies the job."""
    uid: str | None
    """The uid of the job's main object, or of its oldest pod if only pods are left."""


class ListedSnapshot(Answer):
    """Who held GPUs at a moment."""

    id: int
    cluster_name: str = Field(alias="cluster_name")
    snapshot_time: str = Field(alias="snapshot_time")
    dimension_type: str = Field(alias="dimension_type")
    total_gpu_capacity: float | None = Field(alias="total_gpu_capacity")
    allocated_gpu_count: float | None = Field(alias="allocated_gpu_count")
    """For somebody who sees certain namespaces, what was held in those; null where it is not known."""
    allocation_details: AllocationDetails = Field(alias="allocation_details")
    created_at: str = Field(alias="created_at")


class LogLineValue(Answer):
    """A line, and whose it is."""

    pod: str
    container: str
    timestamp: str
    text: str


class LogProblemValue(Answer):
    """The reason why a log, or a part of it, is missing. ``pod`` is null if it is about no certain pod."""

    pod: str | None
    message: str


class LogsValue(Answer):
    """The logs of the pods of a job."""

    logs: list[str]
    """The texts of the lines, in the order of time."""
    last_timestamp: str | None
    """When the last of them was written."""
    lines: list[LogLineValue]
    """The same lines, with whose they are."""
    problems: list[LogProblemValue]
    """Pods whose log could not be read, with the reason."""


class MetricPoint(Answer):
    """A value of a metric, and its time."""

    timestamp: str
    value: float


class NamespaceDetail(Answer):
    """A namespace with its quotas and pods."""

    name: str
    status: str | None
    jobs: int
    """Jobs that have not ended."""
    pods: int
    gpu_used: int
    quotas: list[NamespaceQuota]
    created_at: str | None
    labels: dict[str, str] | None
    running_jobs: list[HoldingPod]
    """Pods on nodes."""
    waiting_jobs: list[HoldingPod]
    """Pods that wait for a node."""
    all_jobs: int
    """Jobs, also those that have ended."""


class NamespaceHour(Answer):
    """A namespace in an hour."""

    id: int
    """The id of the row. It does not change when the hour is computed again."""
    cluster_name: str = Field(alias="cluster_name")
    stat_hour: str = Field(alias="stat_hour")
    """Where the hour or step begins, UTC."""
    end_time: str | None = Field(default=None, alias="end_time")
    """Where a step that is not an hour ends, UTC; the first and the last one are cut."""
    known_seconds: float = Field(alias="known_seconds")
    """Seconds of the hour or step for which usage is known. All other figures cover only these: less than the whole if
    the step is still running, no collector ran, or its hours were pruned.
    """
    provisional: bool
    """True if figures may still change: the hour has just ended, or measurements are missing."""
    avg_utilization: float | None = Field(alias="avg_utilization")
    """Percent; the mean of all GPUs that were measured, for as long as they were; null where none was."""
    max_utilization: float | None = Field(alias="max_utilization")
    """Highest one-minute average utilization, percent."""
    min_utilization: float | None = Field(alias="min_utilization")
    coverage: float | None
    """Measured part of the allocated GPU-seconds, 0 to 1; null if none were allocated."""
    created_at: str = Field(alias="created_at")
    updated_at: str = Field(alias="updated_at")
    """When it was computed last."""
    namespace: str
    total_gpu_capacity: float | None = Field(alias="total_gpu_capacity")
    """GPUs of its quota on the average, of the cluster while it had none; null where neither is known."""
    allocated_gpu_count: float | None = Field(alias="allocated_gpu_count")
    """GPUs that were held, on the average."""
    allocation_rate: float | None = Field(alias="allocation_rate")
    """Percent of the capacity; more than 100 where a quota was lowered below what was held."""
    active_workload_count: int = Field(alias="active_workload_count")
    """Workloads that held GPUs."""


class NamespaceHourPage(Answer):
    """A page of rows."""

    total: int
    """Rows of all pages."""
    page: int
    page_size: int = Field(alias="page_size")
    total_pages: int = Field(alias="total_pages")
    data: list[NamespaceHour]


class NamespaceHoursAfter(Answer):
    """Rows after others."""

    page_size: int = Field(alias="page_size")
    next_cursor: str | None = Field(alias="next_cursor")
    """The `cursor` of the next page; null after the last row."""
    data: list[NamespaceHour]


class NamespaceItem(Answer):
    """A namespace."""

    name: str
    status: str | None
    jobs: int
    """Jobs that have not ended."""
    pods: int
    gpu_used: int
    quotas: list[str]
    created_at: str | None


class NamespaceList(Answer):
    """``gpuctl get namespaces -o json``."""

    items: list[NamespaceItem]
    total: int


class NamespaceQuota(Answer):
    """A quota of a namespace."""

    name: str
    namespace: str
    description: str | None
    status: str
    cpu_total: float | None
    cpu_used: float | None
    memory_total_bytes: float | None
    memory_used_bytes: float | None
    gpu_total: float | None
    gpu_used: float | None
    max_jobs: float | None
    jobs_used: float | None
    resources: list[QuotaLimit]
    default_request: dict[str, str]
    """The requests of containers that state none."""
    created_at: str | None
    is_managed: bool
    """False for a ResourceQuota that gpuctl did not make."""


class NamespaceUsage(Answer):
    """Hours of namespaces."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or what has to be said about it."""
    data: list[NamespaceHour] | NamespaceHourPage | NamespaceHoursAfter


class NodeAmount(Answer):
    """A resource of a node: cores, bytes or pieces. `vendor` is null for what is no GPU."""

    resource: str
    vendor: str | None
    total: float
    """The amount that pods can have."""
    used: float | None
    """The amount that pods request; null if pods may not be read."""


class NodeConditions(Answer):
    """A node as Kubernetes has it; conditions, taints and addresses in its own form."""

    conditions: list[dict[str, Any]]
    schedulable: bool
    taints: list[dict[str, Any]]
    addresses: list[dict[str, Any]]
    kernel_version: str | None
    os_image: str | None
    architecture: str | None
    kubelet_version: str | None
    container_runtime_version: str | None


class NodeDetail(Answer):
    """A node."""

    node_name: str
    status: str
    gpu_type: str | None
    k8s_status: NodeConditions = Field(alias="k8sStatus")
    resources: NodeResources
    gpu_detail: list[NodeGpu]
    labels: list[LabelPair]
    bound_pools: list[str]
    running_jobs: list[JobOnNodes] | None
    """Jobs on it, of those that may be seen."""
    created_at: str | None
    last_updated_at: str | None
    gpu_labels: list[LabelPair] = Field(default_factory=list)
    """Labels of the node that name a type of GPU; jobs select by the first."""
    amounts: list[NodeAmount] = Field(default_factory=list)
    """All that pods can have: GPUs, cores, memory, other devices."""
    pods: list[HoldingPod] | None = None
    """The pods of `runningJobs`."""


class NodeFailure(Answer):
    """The reason for which a node was not changed."""

    node_name: str
    error: str
    """The word for programs."""
    message: str
    is_outage: bool | None = None
    """The cluster could not be reached, or refused the service."""


class NodeGpu(Answer):
    """A GPU of a node; `utilization`, in percent, and `memoryUsage` are null where nothing measures them."""

    gpu_id: str
    type: str | None
    status: str
    utilization: float | None = None
    memory_usage: str | None = None


class NodeItem(Answer):
    """A node in a list."""

    node_name: str
    status: str
    gpu_total: int
    gpu_used: int | None
    gpu_free: int | None
    bound_pools: list[str]
    cpu: str
    """Cores that pods can have."""
    memory: str
    """Memory that pods can have."""
    gpu_type: str | None
    created_at: str | None
    address: str | None = None
    """Its address inside the cluster."""
    k8s_state: str | None = Field(default=None, alias="k8sState")
    """Its state as kubectl has it."""


class NodeLabel(Answer):
    """A label of a node."""

    node_name: str
    label_key: str
    label_value: str


class NodePage(Answer):
    """A page of nodes; `total` of all pages."""

    total: int
    items: list[NodeItem]


class NodeResources(Answer):
    """The resources of a node: total, requested by pods, and free. Cores are numbers, memory has quantities."""

    cpu_total: float
    cpu_used: float | None
    cpu_free: float | None
    memory_total: str
    memory_used: str | None
    memory_free: str | None
    gpu_total: int
    gpu_used: int | None
    gpu_free: int | None
    gpu_unhealthy: int


class OtherCause(Answer):
    """A cause that comes after the first."""

    cause: str
    message: str
    pod: str | None
    fix: str | None


class PausedJobAnswer(Answer):
    """A job that was paused or resumed, or (status ``validated``) would be."""

    job_id: str
    name: str
    namespace: str
    kind: str
    status: str
    changed: bool
    """False if it was paused, or running, before."""
    message: str


class PausedJobs(Answer):
    """Jobs that were paused or resumed."""

    items: list[PausedJobAnswer]


class PlanAnswer(Answer):
    """A plan: what is done to each object. ``questions`` have to be confirmed, ``errors`` stand against it."""

    steps: list[PlanStep]
    summary: dict[str, int]
    """Action -> objects."""
    notes: list[str]
    questions: list[str]
    errors: list[str]
    set: str | None = None
    """The set that the documents are, if they are one."""
    recovery: list[PlanStep] = Field(default_factory=list)
    """Steps that first complete or undo an interrupted run."""
    courtesies: list[str] = Field(default_factory=list)
    """Running work that the request names and ends. It needs no confirmation unless the request has `confirmed`."""
    tracked: list[str] = Field(default_factory=list)
    """The part of `errors` about objects of Argo CD or Flux."""
    lacking: list[str] = Field(default_factory=list)
    """The part of `errors` about missing rights."""
    finished: list[int] = Field(default_factory=list)
    """Indexes of the finished steps, in the order in which they finished."""
    carried_out: bool | None = None
    """The plan was carried out; `result` of each step says how it went."""
    outage: bool | None = None
    """Steps failed because the cluster failed, or did not allow them."""
    interrupted: int | None = None
    """The signal that stopped the run; 0 without any."""
    unfinished: bool | None = None
    """A journal remains: `POST /recoveries` finishes what was begun."""
    messages: list[str] = Field(default_factory=list)
    """Messages of the run."""
    warnings: list[DocumentWarning] = Field(default_factory=list)
    """Diagnostics of the documents."""


class PlanStep(Answer):
    """The change of an object. Credentials are masked."""

    action: str
    """create, update, replace, delete, unchanged and others."""
    api_version: str
    kind: str
    namespace: str | None
    name: str
    reason: str | None
    changes: list[dict[str, Any]]
    """The fields that change, each with `path`, `from` and `to`."""
    verdict: str | None
    """The verdict of `fit` on its pods; null if it was not asked."""
    victims: list[PlanVictim]
    """Whose pods its own would evict."""
    waits: list[PlanWait]
    """The reasons for which its pods would wait."""
    lost: list[dict[str, Any]]
    """Fields of other managers that are overwritten: as in `changes`, with `manager`."""
    dependents: list[Dependent]
    """Objects that garbage collection deletes with it."""
    unseen: list[str]
    """Kinds that may not be looked through for dependents."""
    running: str | None
    """How long the work that ends has been running; null if no work ends."""
    finished: str | None
    """When the training that runs again, or is pruned, finished; null for all others."""
    applied_by: str | None
    """Who applied the job last that ends or runs again; null if that is the caller, or unknown."""
    checkpoint: str | None
    """How running work saves its progress before it ends; null if nothing runs or has a checkpoint."""
    result: str
    """`planned`, until it is carried out."""
    error: str | None
    title: str | None = None
    """The job, pool or quota that the object belongs to; "" without any."""
    shared: bool | None = None
    """Several jobs share the object, such as a namespace."""
    expired: bool | None = None
    """The object does not exist because its ttl has removed it."""
    before: dict[str, Any] | None = None
    """The object before, with `show=objects`; null if it does not exist."""
    after: dict[str, Any] | None = None
    """The object afterwards, with `show=objects`; null if it does not exist."""


class PlanVictim(Answer):
    """A job whose pods would be evicted; of one that may not be seen only how important it is and how long it runs."""

    namespace: str | None
    job: str | None
    priority: int
    pods: list[str]
    runtime: str | None
    """For how long they run."""
    owner: str | None
    """Whose it is: its label `team`, `creator` or `project`."""


class PlanWait(Answer):
    """A reason for which the pods of a job wait, or may wait."""

    cause: str
    """`quota`, `queue` or `room`."""
    message: str
    likelihood: float | None
    """1 if they wait in any case; null if that depends on the order in which pods come."""


class PodPage(Answer):
    """``GET /pods``: ``total`` of all pages, ``items`` of this one."""

    total: int
    items: list[ListedPod]
    statuses: list[str]
    """Status words of all pods and jobs that the other parameters than `kind`, `pool` and `status` choose."""
    notes: list[str]
    """What could not be read."""


class PodStage(Answer):
    """A stage that a pod has reached, and the seconds since the one before."""

    stage: str
    time: str
    seconds: float


class PodTimeline(Answer):
    """The stages of a pod, in their order."""

    pod: str
    stages: list[PodStage]


class PoolDetail(Answer):
    """A pool."""

    name: str
    description: str | None
    gpu_total: int
    gpu_used: int | None
    """GPUs that pods on its nodes request."""
    gpu_free: int | None
    """GPUs that no pod requests."""
    gpu_unavailable: int | None
    """Free GPUs of nodes that are cordoned or not ready."""
    gpu_type: dict[str, int]
    """Type -> GPUs."""
    status: str
    nodes: list[str]
    quota: PoolQuota
    jobs: list[JobOnNodes] | None
    """Jobs in it, of those that may be seen."""
    missing_nodes: list[str]
    """Nodes that its definition names and that are not in it."""
    waiting_jobs: list[JobOnNodes] | None
    """Jobs of it that wait for room."""
    is_defined: bool
    """True if it has a definition; false if it only has nodes."""
    pods: list[HoldingPod] | None = None
    """The pods of `jobs`."""
    waiting_pods: list[HoldingPod] | None = None
    """The pods of `waitingJobs`."""


class PoolItem(Answer):
    """A pool in a list. GPUs are null where pods may not be read."""

    name: str
    description: str | None
    gpu_total: int
    gpu_used: int | None
    """GPUs that pods on its nodes request."""
    gpu_free: int | None
    """GPUs that no pod requests."""
    gpu_unavailable: int | None
    """Free GPUs of nodes that are cordoned or not ready."""
    gpu_type: list[str]
    status: str


class PoolList(Answer):
    """Pools."""

    total: int
    items: list[PoolItem]


class PoolQuota(Answer):
    """The limits of a pool; null is no limit."""

    max_jobs: int | None
    max_gpu_per_job: int | None


class Quota(Answer):
    """The quota of a user, who is a namespace."""

    name: str
    namespace: str
    description: str | None
    status: str
    cpu_total: float | None
    cpu_used: float | None
    memory_total_bytes: float | None
    memory_used_bytes: float | None
    gpu_total: float | None
    gpu_used: float | None
    max_jobs: float | None
    jobs_used: float | None
    resources: list[QuotaLimit]
    default_request: dict[str, str]
    """The requests of containers that state none."""
    created_at: str | None


class QuotaLimit(Answer):
    """One limit: `resource` is Kubernetes' key, `name` the short one."""

    resource: str
    name: str
    vendor: str | None
    unit: str
    total: float
    used: float | None
    free: float | None
    used_percent: float | None


class QuotaList(Answer):
    """``gpuctl get quotas -o json``."""

    items: list[Quota]
    total: int


class RecoveredObject(Answer):
    """The recovery of an object that a killed run left."""

    kind: str
    api_version: str
    namespace: str
    name: str
    outcome: str
    message: str


class Recoveries(Answer):
    """Interrupted runs: what will be recovered, what was, and what could not be."""

    planned: list[RecoveryStep]
    """Steps as those of a plan; of what is created also `object`, and `ifRefused` what is tried then."""
    recovered: list[RecoveredObject]
    problems: list[RecoveryFailure]
    questions: list[str]
    journals: int | None = None
    """Interrupted runs."""
    working: dict[str, str] = Field(default_factory=dict)
    """Namespace -> who may still be applying in it."""


class RecoveryFailure(Answer):
    """An object that could not be recovered, with the reason."""

    namespace: str | None
    message: str
    hint: str | None
    refused: bool | None = None
    """By a decision; false after a failure of the cluster."""


class RecoveryStep(Answer):
    """A step of a recovery."""

    action: str
    """create, update, replace, delete, unchanged and others."""
    api_version: str
    kind: str
    namespace: str | None
    name: str
    reason: str | None
    changes: list[dict[str, Any]]
    """The fields that change, each with `path`, `from` and `to`."""
    verdict: str | None
    """The verdict of `fit` on its pods; null if it was not asked."""
    victims: list[PlanVictim]
    """Whose pods its own would evict."""
    waits: list[PlanWait]
    """The reasons for which its pods would wait."""
    lost: list[dict[str, Any]]
    """Fields of other managers that are overwritten: as in `changes`, with `manager`."""
    dependents: list[Dependent]
    """Objects that garbage collection deletes with it."""
    unseen: list[str]
    """Kinds that may not be looked through for dependents."""
    running: str | None
    """How long the work that ends has been running; null if no work ends."""
    finished: str | None
    """When the training that runs again, or is pruned, finished; null for all others."""
    applied_by: str | None
    """Who applied the job last that ends or runs again; null if that is the caller, or unknown."""
    checkpoint: str | None
    """How running work saves its progress before it ends; null if nothing runs or has a checkpoint."""
    result: str
    """`planned`, until it is carried out."""
    error: str | None
    object: dict[str, Any] | None = None
    """The object that is created, whole."""
    if_refused: dict[str, Any] | None = None
    """The object that is created if `object` is refused."""


class RelatedPlace(Answer):
    """Another place that a diagnostic is about. Lines and columns count from 1."""

    message: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int


class RerunJob(Answer):
    """A training that runs again, under an id of its own, or (status ``validated``) would."""

    job_id: str
    status: str
    message: str
    plan: PlanAnswer


class RightAnswer(Answer):
    """The decision about an action."""

    allowed: bool
    """True if the caller may do this."""
    message: str
    """The decision and its reason."""


class SetLabel(Answer):
    """A label that was set; `notes` are worth knowing."""

    node_name: str
    label: LabelPair
    message: str
    notes: list[str]


class SnapshotPage(Answer):
    """A page of snapshots."""

    total: int
    """Rows of all pages."""
    page: int
    page_size: int = Field(alias="page_size")
    total_pages: int = Field(alias="total_pages")
    data: list[ListedSnapshot]


class Submitted(Answer):
    """The first created job; of several documents all are in ``jobs``."""

    notes: list[str] = Field(default_factory=list)
    """Remarks that do not stop the request, such as a pool or a Secret that does not exist."""
    questions: list[str] = Field(default_factory=list)
    """Only in a dry run: what the real request has to confirm with `?confirm=true`."""
    job_id: str | None
    name: str
    namespace: str | None
    kind: str
    pool: str | None
    status: str
    created_at: str | None
    message: str
    jobs: list[SubmittedJob] | None = None
    """All of several documents."""
    warnings: list[DocumentWarning] = Field(default_factory=list)
    """Diagnostics of the documents."""


class SubmittedJob(Answer):
    """A job that was created, or (status ``validated``) would be. Of a pool or quota ``jobId`` is null."""

    job_id: str | None
    name: str
    namespace: str | None
    kind: str
    pool: str | None
    status: str
    created_at: str | None
    message: str


class UsageNames(Answer):
    """Names, in order."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or what has to be said about it."""
    data: list[str]


class WaitAnswer(Answer):
    """``gpuctl wait -o json``."""

    items: list[WaitItem]


class WaitItem(Answer):
    """The result of waiting for a job."""

    name: str
    namespace: str | None
    kind: str | None
    condition: str
    met: bool
    message: str
    status: str | None
    reason: str | None


class WaitedItem(Answer):
    """A job for which there is nothing more to wait."""

    name: str
    namespace: str | None
    kind: str | None
    condition: str
    met: bool
    message: str
    status: str | None
    reason: str | None
    index: int
    """The place of the job in `jobs`, from 0."""
    outcome: str
    """`late`: not in time. `gone`: deleted. `never`: a job of its kind has no such condition."""
    cause: str | None
    """Why it is late or has failed, where that is known."""


class WasteAnswer(Answer):
    """Workloads that hold GPUs and do not use them, those with the most of them for longest first."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or what has to be said about it."""
    data: HeldIdle


class WhyAnswer(Answer):
    """A cause, and what could not be read to find it."""

    job: str
    namespace: str
    kind: str
    cause: str
    message: str
    pod: str | None
    numbers: dict[str, Any]
    """The numbers behind the cause; each cause has its own."""
    ruled_out: list[str]
    fix: str | None
    evidence: list[WhyEvidence]
    also: list[OtherCause]
    notes: list[str]
    """What could not be read."""


class WhyEvidence(Answer):
    """Evidence of a cause. The source is event, condition, status, log, spec or quota."""

    source: str
    object: str
    text: str
    time: str | None
    """RFC 3339."""


class WorkloadCondition(Answer):
    """A condition of what runs the job."""

    type: str | None
    status: str | None
    reason: str | None
    message: str | None
    last_transition_time: str | None


class WorkloadHour(Answer):
    """A workload in an hour."""

    id: int
    """The id of the row. It does not change when the hour is computed again."""
    cluster_name: str = Field(alias="cluster_name")
    stat_hour: str = Field(alias="stat_hour")
    """Where the hour or step begins, UTC."""
    end_time: str | None = Field(default=None, alias="end_time")
    """Where a step that is not an hour ends, UTC; the first and the last one are cut."""
    known_seconds: float = Field(alias="known_seconds")
    """Seconds of the hour or step for which usage is known. All other figures cover only these: less than the whole if
    the step is still running, no collector ran, or its hours were pruned.
    """
    provisional: bool
    """True if figures may still change: the hour has just ended, or measurements are missing."""
    avg_utilization: float | None = Field(alias="avg_utilization")
    """Percent; the mean of all GPUs that were measured, for as long as they were; null where none was."""
    max_utilization: float | None = Field(alias="max_utilization")
    """Highest one-minute average utilization, percent."""
    min_utilization: float | None = Field(alias="min_utilization")
    p50_utilization: float | None = Field(alias="p50_utilization")
    """Median of the one-minute averages, rounded to a whole percent."""
    p95_utilization: float | None = Field(alias="p95_utilization")
    coverage: float | None
    """Measured part of the allocated GPU-seconds, 0 to 1; null if none were allocated."""
    created_at: str = Field(alias="created_at")
    updated_at: str = Field(alias="updated_at")
    """When it was computed last."""
    namespace: str
    workload_name: str = Field(alias="workload_name")
    workload_type: str = Field(alias="workload_type")
    """Its kind."""
    allocated_gpu_count: float | None = Field(alias="allocated_gpu_count")
    """GPUs that it held, on the average."""
    requested_gpu_count: float | None = Field(alias="requested_gpu_count")
    """GPUs of as many pods as it had at most, whatever part of the hour it was there."""
    avg_gpu_memory_used: float | None = Field(alias="avg_gpu_memory_used")
    """GiB of a GPU."""
    max_gpu_memory_used: float | None = Field(alias="max_gpu_memory_used")
    avg_gpu_memory_total: float | None = Field(alias="avg_gpu_memory_total")
    avg_replica_count: float | None = Field(alias="avg_replica_count")
    """Pods that held GPUs, over the whole hour."""
    max_replica_count: int = Field(alias="max_replica_count")
    min_replica_count: int = Field(alias="min_replica_count")
    """While there was any."""
    workload_status: str | None = Field(alias="workload_status")
    """At the end of the hour, as far as its pods tell."""
    sample_count: int = Field(alias="sample_count")
    """Measurements that count."""
    owner_uid: str = Field(alias="owner_uid")
    """The uid of the topmost owner of its pods."""
    owner_name: str = Field(alias="owner_name")
    labels: dict[str, str]
    annotations: dict[str, str]


class WorkloadHourPage(Answer):
    """A page of rows."""

    total: int
    """Rows of all pages."""
    page: int
    page_size: int = Field(alias="page_size")
    total_pages: int = Field(alias="total_pages")
    data: list[WorkloadHour]


class WorkloadHoursAfter(Answer):
    """Rows after others."""

    page_size: int = Field(alias="page_size")
    next_cursor: str | None = Field(alias="next_cursor")
    """The `cursor` of the next page; null after the last row."""
    data: list[WorkloadHour]


class WorkloadUsage(Answer):
    """Hours of workloads, a page of them."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or what has to be said about it."""
    data: WorkloadHourPage | WorkloadHoursAfter


Administered.model_rebuild()
AllocationDetails.model_rebuild()
AllocationHistory.model_rebuild()
AuditLine.model_rebuild()
AuditPage.model_rebuild()
Batch.model_rebuild()
BatchFailure.model_rebuild()
BatchItem.model_rebuild()
BatchReport.model_rebuild()
ChangedJob.model_rebuild()
ChangedNode.model_rebuild()
ChangedPool.model_rebuild()
ClusterHour.model_rebuild()
ClusterHourPage.model_rebuild()
ClusterHoursAfter.model_rebuild()
ClusterUsage.model_rebuild()
CreatedQuota.model_rebuild()
DatedLabel.model_rebuild()
DeletedLabel.model_rebuild()
Dependent.model_rebuild()
DocumentCommit.model_rebuild()
DocumentWarning.model_rebuild()
EventsAlike.model_rebuild()
FitAnswer.model_rebuild()
FitEnding.model_rebuild()
FitJob.model_rebuild()
FitOpening.model_rebuild()
FitSuggestion.model_rebuild()
FitVictim.model_rebuild()
GpuLabelPage.model_rebuild()
GpuLabels.model_rebuild()
GpuPage.model_rebuild()
GpuTypeItem.model_rebuild()
GpuTypeList.model_rebuild()
GpusOfJobs.model_rebuild()
GpusOfNode.model_rebuild()
HeldByWorkload.model_rebuild()
HeldIdle.model_rebuild()
HeldInNamespace.model_rebuild()
HeldModel.model_rebuild()
HeldModelPage.model_rebuild()
HeldModelsAnswer.model_rebuild()
HoldingPod.model_rebuild()
IdleGpus.model_rebuild()
JobAddresses.model_rebuild()
JobCause.model_rebuild()
JobDescription.model_rebuild()
JobDetails.model_rebuild()
JobDocument.model_rebuild()
JobDocuments.model_rebuild()
JobItem.model_rebuild()
JobMetrics.model_rebuild()
JobObjects.model_rebuild()
JobOnNodes.model_rebuild()
JobPage.model_rebuild()
JobPod.model_rebuild()
JobResources.model_rebuild()
JobRevision.model_rebuild()
JobState.model_rebuild()
JobTimeline.model_rebuild()
JobsWaitAnswer.model_rebuild()
KeptLabel.model_rebuild()
LabelHour.model_rebuild()
LabelHourPage.model_rebuild()
LabelHoursAfter.model_rebuild()
LabelPage.model_rebuild()
LabelPair.model_rebuild()
LabelUsage.model_rebuild()
LatestAllocation.model_rebuild()
LatestSnapshot.model_rebuild()
LedgerAnswer.model_rebuild()
LedgerPage.model_rebuild()
LedgerRow.model_rebuild()
LedgerRowsAfter.model_rebuild()
ListedPod.model_rebuild()
ListedSnapshot.model_rebuild()
LogLineValue.model_rebuild()
LogProblemValue.model_rebuild()
LogsValue.model_rebuild()
MetricPoint.model_rebuild()
NamespaceDetail.model_rebuild()
NamespaceHour.model_rebuild()
NamespaceHourPage.model_rebuild()
NamespaceHoursAfter.model_rebuild()
NamespaceItem.model_rebuild()
NamespaceList.model_rebuild()
NamespaceQuota.model_rebuild()
NamespaceUsage.model_rebuild()
NodeAmount.model_rebuild()
NodeConditions.model_rebuild()
NodeDetail.model_rebuild()
NodeFailure.model_rebuild()
NodeGpu.model_rebuild()
NodeItem.model_rebuild()
NodeLabel.model_rebuild()
NodePage.model_rebuild()
NodeResources.model_rebuild()
OtherCause.model_rebuild()
PausedJobAnswer.model_rebuild()
PausedJobs.model_rebuild()
PlanAnswer.model_rebuild()
PlanStep.model_rebuild()
PlanVictim.model_rebuild()
PlanWait.model_rebuild()
PodPage.model_rebuild()
PodStage.model_rebuild()
PodTimeline.model_rebuild()
PoolDetail.model_rebuild()
PoolItem.model_rebuild()
PoolList.model_rebuild()
PoolQuota.model_rebuild()
Quota.model_rebuild()
QuotaLimit.model_rebuild()
QuotaList.model_rebuild()
RecoveredObject.model_rebuild()
Recoveries.model_rebuild()
RecoveryFailure.model_rebuild()
RecoveryStep.model_rebuild()
RelatedPlace.model_rebuild()
RerunJob.model_rebuild()
RightAnswer.model_rebuild()
SetLabel.model_rebuild()
SnapshotPage.model_rebuild()
Submitted.model_rebuild()
SubmittedJob.model_rebuild()
UsageNames.model_rebuild()
WaitAnswer.model_rebuild()
WaitItem.model_rebuild()
WaitedItem.model_rebuild()
WasteAnswer.model_rebuild()
WhyAnswer.model_rebuild()
WhyEvidence.model_rebuild()
WorkloadCondition.model_rebuild()
WorkloadHour.model_rebuild()
WorkloadHourPage.model_rebuild()
WorkloadHoursAfter.model_rebuild()
WorkloadUsage.model_rebuild()
