# Written by tools/sdk.py from schemas/rest/openapi.json: `make schemas`.
"""Response models. Unknown fields are ignored, and nullable ones may be absent."""

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
    """The holders of GPUs at the time of a snapshot; empty if they were not requested or are no longer kept."""

    namespaces: dict[str, HeldInNamespace] = Field(default_factory=dict)
    """Namespace -> GPUs held in it."""
    annotations: dict[str, str] = Field(default_factory=dict)


class AllocationHistory(Answer):
    """Snapshots, earliest first."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or a remark on the response."""
    data: list[ListedSnapshot] | SnapshotPage


class AuditLine(Answer):
    """A change, or an attempted one."""

    time: str
    caller: str
    """The caller; "" if it was not authenticated."""
    action: str
    objects: list[str]
    """The names of the changed objects."""
    result: str
    """HTTP status and name of the error; `begun` while it runs, `interrupted` if it never ended."""
    request_id: str


class AuditPage(Answer):
    """Audit lines, newest first."""

    total: int
    items: list[AuditLine]
    source: str
    """`file`: the file of the setting `audit`; `memory`: the last lines of the replica that responds."""
    complete: bool
    """False if lines may be missing: older ones, those of rotated files, or those of other replicas."""
    left_out: int
    """Number of lines that cannot be parsed."""


class Batch(Answer):
    """The result of a batch."""

    success: list[BatchItem]
    failed: list[BatchFailure]


class BatchFailure(Answer):
    """A failed entry of a batch: its index (from 0), the error's name and message."""

    index: int
    name: str | None = None
    error: str
    message: str
    details: list[Any] = Field(default_factory=list)


class BatchItem(Answer):
    """A created job of a batch; with ``dryRun`` one that would be created (``jobId`` is null)."""

    notes: list[str] = Field(default_factory=list)
    """Notes that do not stop the request, such as a pool or a Secret that does not exist."""
    questions: list[str] = Field(default_factory=list)
    """Only in a dry run: what the real request must confirm with `?confirm=true`."""
    job_id: str | None = None
    name: str
    message: str
    warnings: list[DocumentWarning] = Field(default_factory=list)
    """Diagnostics of the entry."""


class BatchReport(Answer):
    """The result of a change to several nodes."""

    success: list[str]
    failed: list[NodeFailure]
    message: str
    notes: list[str]
    nodes: list[ChangedNode] = Field(default_factory=list)
    """The change of each node in `success`."""


class ChangedJob(Answer):
    """A changed job with the plan; with status ``validated``, one that would be changed."""

    job_id: str | None = None
    name: str
    namespace: str | None = None
    kind: str
    pool: str | None = None
    status: str
    created_at: str | None = None
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
    """The usage of a cluster in an hour or step."""

    id: int
    """Id of the row. It does not change when the hour is computed again."""
    cluster_name: str = Field(alias="cluster_name")
    stat_hour: str = Field(alias="stat_hour")
    """Start of the hour or step, UTC."""
    end_time: str | None = Field(default=None, alias="end_time")
    """End of a step that is not an hour, UTC; the first and the last step end at the range."""
    known_seconds: float = Field(alias="known_seconds")
    """Seconds of the hour or step for which usage is known. All other figures cover only these: less than the whole if
    the step is still running, no collector ran, or its hours were pruned.
    """
    provisional: bool
    """True if figures may still change: the hour has just ended, or measurements are missing."""
    avg_utilization: float | None = Field(default=None, alias="avg_utilization")
    """Mean utilization of the measured GPUs over the measured time, percent; null if none was measured."""
    max_utilization: float | None = Field(default=None, alias="max_utilization")
    """Highest one-minute average utilization, percent."""
    min_utilization: float | None = Field(default=None, alias="min_utilization")
    p50_utilization: float | None = Field(default=None, alias="p50_utilization")
    """Median of the one-minute averages, rounded to a whole percent."""
    p95_utilization: float | None = Field(default=None, alias="p95_utilization")
    coverage: float | None = None
    """Measured part of the allocated GPU-seconds, 0 to 1; null if none were allocated."""
    created_at: str = Field(alias="created_at")
    updated_at: str = Field(alias="updated_at")
    """Time of the last computation."""
    total_gpu_capacity: float | None = Field(default=None, alias="total_gpu_capacity")
    """Average number of GPUs."""
    allocated_gpu_count: float | None = Field(default=None, alias="allocated_gpu_count")
    """Average number of held GPUs."""
    allocation_rate: float | None = Field(default=None, alias="allocation_rate")
    """Held part of the capacity, percent."""
    sample_count: int = Field(alias="sample_count")
    """Number of five-minute intervals with a measurement."""


class ClusterHourPage(Answer):
    """A page of cluster hours."""

    total: int
    """Number of rows of all pages."""
    page: int
    page_size: int = Field(alias="page_size")
    total_pages: int = Field(alias="total_pages")
    data: list[ClusterHour]


class ClusterHoursAfter(Answer):
    """One page of cluster hours, in cursor order."""

    page_size: int = Field(alias="page_size")
    next_cursor: str | None = Field(default=None, alias="next_cursor")
    """The `cursor` of the next page; null after the last row."""
    data: list[ClusterHour]


class ClusterUsage(Answer):
    """Hours of the cluster: all of them, or one page if a page is requested."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or a remark on the response."""
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
    """A label, and the latest time since which it has had this value."""

    key: str
    value: str
    created_at: str | None = None
    last_updated_at: str | None = None


class DeletedLabel(Answer):
    """A label that was deleted."""

    node_name: str
    label_key: str
    message: str
    notes: list[str]


class Dependent(Answer):
    """An object that is deleted with another one."""

    kind: str
    name: str


class DocumentCommit(Answer):
    """The commit that a document was applied from."""

    id: str
    dirty: bool
    """True if the files differed from the commit."""
    repository: str | None = None


class DocumentWarning(Answer):
    """A diagnostic of a valid document, in the form of ``gpuctl validate -o json``; ``file`` is the request's field."""

    severity: str
    code: str
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    path: str
    hint: str | None = None
    related: list[RelatedPlace]


class ElasticNodes(Answer):
    """The number of nodes of an elastic training, and its range."""

    current: int
    """Number of nodes that it should have now."""
    min: int
    max: int


class EventsAlike(Answer):
    """An event, or several events with the same text."""

    type: str
    reason: str
    object: str
    message: str
    count: int
    time: str


class FitAnswer(Answer):
    """The result of ``gpuctl fit``, with notes and diagnostics."""

    jobs: list[FitJob]
    notes: list[str]
    """Aspects that the answer does not take into account."""
    warnings: list[DocumentWarning] = Field(default_factory=list)
    """Diagnostics of the documents."""
    messages: list[str] = Field(default_factory=list)
    """Messages about the request itself."""


class FitEnding(Answer):
    """A job that ends."""

    namespace: str
    job: str
    ends_by: str | None = None
    """The latest time by which it has left its nodes; null if several jobs are merged."""


class FitJob(Answer):
    """The result for a job. Names of amounts contain their units: `cpuCores`, `memoryBytes`, `nvidia.com/gpu`."""

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
    likelihood: float | None = None
    """1 if no other order of pods changes the verdict; null if unknown."""
    pods: int
    starting_pods: int
    held_by_starting_pods: dict[str, float]
    """Resources held by those pods of the job that can start, while its other pods do not fit."""
    need: dict[str, Any]
    """Resources of all pods; those of one pod are in `perPod`, unless the pods of roles differ."""
    free: dict[str, float]
    largest_node: dict[str, Any] | None = None
    """The node with the most free resources: `name`, and the free amounts."""
    held_by: list[dict[str, Any]]
    """The holders of the scarce resource: `namespace`, `job`, `priority`, `pods`, and the amounts."""
    reason: str
    admitted: bool | None = None
    """True if its Kueue queue admits it now; null without a queue, or if that is unknown."""
    opening: FitOpening | None = None
    """When the job will fit; null if unknown."""
    smallest_change: str | None = None
    suggestions: list[FitSuggestion] = Field(default_factory=list)
    """With `suggest`, for a job that does not fit: the smallest change of each kind."""


class FitOpening(Answer):
    """The time at which a job will fit that does not fit now."""

    by: str
    """The latest time, by the clock of the API server."""
    taken_at: str
    """The time at which the cluster was read."""
    after: list[FitEnding]
    """The jobs that have to end before, in the order in which they end."""


class FitPage(Answer):
    """``GET /fit``. ``total`` counts the jobs of all pages, ``jobs`` are those of this page."""

    jobs: list[FitJob]
    notes: list[str]
    """Aspects that the answer does not take into account."""
    warnings: list[DocumentWarning] = Field(default_factory=list)
    """Diagnostics of the documents."""
    messages: list[str] = Field(default_factory=list)
    """Messages about the request itself."""
    total: int


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
    node: str | None = None
    """null if several pods on different nodes are merged."""
    priority: int | None = None
    """null if several pods are merged."""
    likelihood: float | None = None
    """1 if this pod is evicted in any case; null if another pod may be evicted instead."""


class GpuLabelPage(Answer):
    """A page of nodes; `total` counts all pages."""

    total: int
    items: list[GpuLabels]


class GpuLabels(Answer):
    """The GPU type labels of a node, those that jobs select on first."""

    node_name: str
    gpu_labels: list[LabelPair]
    gpu_type: str | None = None
    bound_pools: list[str]


class GpuPage(Answer):
    """A page of nodes with GPUs; `total` counts all pages."""

    total: int
    items: list[GpusOfNode]


class GpuTypeItem(Answer):
    """A GPU type: the number of GPUs, and their nodes and pools. Use is null if pods may not be read."""

    gpu_type: str
    """`unknown` for GPUs of nodes without a label for it."""
    vendors: list[str]
    gpu_total: int
    gpu_used: int | None = None
    """GPUs that pods request."""
    gpu_free: int | None = None
    """GPUs that no pod requests."""
    nodes: list[str]
    bound_pools: list[str]


class GpuTypeList(Answer):
    """The GPU types of the nodes."""

    total: int
    items: list[GpuTypeItem]


class GpusOfJobs(Answer):
    """``GET /gpu-use``: GPUs that jobs hold and wait for."""

    allocated: int
    """GPUs of the jobs' pods that are on nodes. A card that pods share counts once if nodes can be read."""
    total: int | None = None
    """GPUs of all nodes; null for a single namespace, or if nodes may not be read."""
    waiting: int
    """GPUs that jobs wait for."""
    notes: list[str]
    """Notes about objects that could not be read."""


class GpusOfNode(Answer):
    """The GPUs of a node."""

    node_name: str
    gpu_count: int
    gpus: list[NodeGpu]


class HeldByWorkload(Answer):
    """The GPUs that a workload holds at the time of a snapshot."""

    uid: str
    name: str
    namespace: str
    kind: str
    allocated_gpu: float = Field(alias="allocated_gpu")
    utilization: float | None = None
    """Mean utilization, percent; null if not measured."""


class HeldIdle(Answer):
    """GPUs that are allocated and idle."""

    cluster: str
    start_time: str = Field(alias="start_time")
    end_time: str = Field(alias="end_time")
    known_until: str = Field(alias="known_until")
    """Time of the latest data on GPU holders."""
    idle_below: float = Field(alias="idle_below")
    """Utilization below which an hour is idle, percent."""
    idle_after_hours: float = Field(alias="idle_after_hours")
    """Minimum number of idle hours of a listed workload."""
    currency: str | None = None
    total_idle_gpu_hours: float | None = Field(default=None, alias="total_idle_gpu_hours")
    """Idle GPU-hours of all allocated GPUs; null for callers who may not see all namespaces."""
    total_idle_cost: float | None = Field(default=None, alias="total_idle_cost")
    """Cost of these GPU-hours; null if a price is not set."""
    total: int
    """Number of idle workloads, of all pages."""
    workloads: list[IdleGpus]


class HeldInNamespace(Answer):
    """The GPUs that a namespace holds at the time of a snapshot."""

    allocated_gpu: float = Field(alias="allocated_gpu")
    utilization: float | None = None
    workload_count: int = Field(alias="workload_count")
    workloads: list[HeldByWorkload]


class HeldModel(Answer):
    """GPU-seconds of one GPU model that a workload held."""

    namespace: str
    workload_type: str = Field(alias="workload_type")
    workload_name: str = Field(alias="workload_name")
    owner_uid: str = Field(alias="owner_uid")
    model: str
    """The GPU model."""
    key: str
    """The key of the label or annotation; empty without one."""
    value: str
    """Value of the label or annotation at that time; `__unset__` for pods without it; empty without a key."""
    allocated_gpu_seconds: float = Field(alias="allocated_gpu_seconds")
    """GPU-seconds allocated to the workload."""


class HeldModelPage(Answer):
    """A page of held GPU models."""

    total: int
    """Number of rows of all pages."""
    page: int
    page_size: int = Field(alias="page_size")
    total_pages: int = Field(alias="total_pages")
    data: list[HeldModel]


class HeldModelsAnswer(Answer):
    """GPU-seconds by workload, GPU model and value of a label or annotation."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or a remark on the response."""
    data: list[HeldModel] | HeldModelPage


class HoldingPod(Answer):
    """A pod that runs on a node, or waits for one."""

    pod: str
    name: str
    """Name of its job."""
    namespace: str
    kind: str | None = None
    """Null for a pod that gpuctl does not manage."""
    gpu: int
    node_name: str | None = None


class IdleGpus(Answer):
    """A workload that holds GPUs and has been idle."""

    namespace: str
    workload_type: str = Field(alias="workload_type")
    """The workload's kind."""
    workload_name: str = Field(alias="workload_name")
    owner_uid: str = Field(alias="owner_uid")
    owner: str | None = None
    """The owner: the first of its labels, then annotations, team, creator, project."""
    labels: dict[str, str]
    annotations: dict[str, str]
    gpu_count: float = Field(alias="gpu_count")
    """Number of GPUs that it holds now."""
    gpu_models: dict[str, float] = Field(alias="gpu_models")
    """GPUs by model."""
    pod_count: int = Field(alias="pod_count")
    """Pods that hold these GPUs."""
    idle_since: str = Field(alias="idle_since")
    idle_hours: float = Field(alias="idle_hours")
    """Consecutive idle hours until now."""
    avg_utilization: float | None = Field(default=None, alias="avg_utilization")
    """Mean utilization in the idle hours, percent."""
    idle_gpu_hours: float | None = Field(default=None, alias="idle_gpu_hours")
    """GPU-hours of the requested time that were measured and not used; null if none was measured."""
    allocated_gpu_hours: float = Field(alias="allocated_gpu_hours")
    """GPU-hours held in the requested time."""
    coverage: float | None = None
    """Measured part of the held GPU-hours, 0 to 1."""
    idle_cost: float | None = Field(default=None, alias="idle_cost")
    """Cost of the idle GPU-hours by the platform's prices at their time; null if a price is not set, or if it held
    GPUs of several prices and not all were idle all the time.
    """
    pause: str | None = None
    """The job that holds them, by its name for `gpuctl pause`; null if it cannot be paused, or not by the caller.
    """


class JobAddresses(Answer):
    """The addresses of a job's route and ports; of ports as ``host:port``."""

    route: str | None = None
    """The URL of the job's route, from outside the cluster; null if it has none."""
    node_ports: list[str]
    load_balancers: list[str]
    cluster_dns: list[str]
    pod_ips: list[str]
    port_forward: str | None = None
    """The command that forwards a local port; null if nothing listens."""


class JobCause(Answer):
    """The cause to solve first, its evidence, and the causes that were ruled out."""

    job: str
    namespace: str
    kind: str
    cause: str
    message: str
    pod: str | None = None
    numbers: dict[str, Any]
    """The numbers behind the cause; each cause has its own."""
    ruled_out: list[str]
    fix: str | None = None
    evidence: list[WhyEvidence]
    also: list[OtherCause]


class JobDescription(Answer):
    """A job, with its document and pods."""

    job_id: str
    """Id of the job."""
    name: str
    namespace: str
    kind: str
    status: str
    """Phase of the job."""
    reason: str | None = None
    """Details of the status; null without any."""
    pool: str | None = None
    applied_by: str | None = None
    """The user who applied the job last; null if unknown."""
    created_at: str | None = None
    started_at: str | None = None
    version: str | None = None
    description: str | None = None
    yaml_content: str | None = None
    """The document, without credentials; null if no document describes the changed objects."""
    phase: str
    ready: str
    """Ready pods, of the pods that the job should have."""
    priority: str | None = None
    resources: JobResources
    roles: list[JobRole] | None = None
    """The roles of a training; null for a job without roles."""
    nodes: ElasticNodes | None = None
    """Number of nodes of an elastic training; null for other jobs."""
    metrics: JobMetrics
    k8s_resources: JobObjects = Field(alias="k8sResources")
    images: list[str]
    schedule: JobSchedule | None = None
    """Null for a job without a schedule."""
    pods: list[JobPod]


class JobDetails(Answer):
    """The full description of a job."""

    job_id: str
    """Id of the job."""
    name: str
    namespace: str
    kind: str
    status: str
    reason: str | None = None
    """Details of the status; null without any."""
    pool: str | None = None
    applied_by: str | None = None
    """The user who applied the job last; null if unknown."""
    created_at: str | None = None
    started_at: str | None = None
    version: str | None = None
    description: str | None = None
    yaml_content: str | None = None
    """The document, without credentials; null if no document describes the changed objects."""
    phase: str
    ready: str
    """Ready pods, of the pods that the job should have."""
    priority: str | None = None
    resources: JobResources
    roles: list[JobRole] | None = None
    """The roles of a training; null for a job without roles."""
    nodes: ElasticNodes | None = None
    """Number of nodes of an elastic training; null for other jobs."""
    metrics: JobMetrics | None = None
    k8s_resources: JobObjects = Field(alias="k8sResources")
    images: list[str]
    schedule: JobSchedule | None = None
    """Null for a job without a schedule."""
    pods: list[JobPod]
    timeline: list[PodTimeline]
    conditions: list[WorkloadCondition]
    access: JobAddresses
    why: JobCause | None = None
    """The cause that keeps the job waiting; null if none."""
    events: list[EventsAlike] | None = None
    """Null if they may not be read."""
    notify: JobNotify | None = None
    """Events that the service reports; null if none."""
    uid: str | None = None
    """The uid of the job's main object; null if only pods are left."""
    notes: list[str]
    """Notes about objects that could not be read."""


class JobDocument(Answer):
    """An applied document of a job, without credentials."""

    revision: int
    kind: str
    created_at: str | None = None
    who: str | None = None
    commit: DocumentCommit | None = None
    gpuctl: str
    """The gpuctl version that applied it."""
    cause: str
    """`applied`, `rolled back`, or `found` in the cluster."""
    to: int | None = None
    """The revision that was applied again; null for other causes."""
    changes: list[dict[str, Any]]
    """The fields that differ from the previous revision, each with `path`, `from` and `to`."""
    masked: list[str]
    """Fields whose values are not kept."""
    profile: str | None = None
    """The profile that is merged into the document."""
    overrides: list[str] = Field(default_factory=list)
    """The fields that were overridden for this run, each as `PATH=VALUE`, without credentials."""


class JobDocuments(Answer):
    """The history of a job, with the objects that were skipped."""

    name: str
    namespace: str
    items: list[JobDocument]
    total: int
    notes: list[str]
    """Skipped objects that are marked as history, with the reason."""


class JobItem(Answer):
    """An item of ``GET /jobs``."""

    job_id: str
    """Id of the job."""
    name: str
    namespace: str
    kind: str
    status: str
    """Phase of the job."""
    reason: str | None = None
    """Details of the status; null without any."""
    pool: str | None = None
    applied_by: str | None = None
    """The user who applied the job last; null if unknown."""
    created_at: str | None = None
    started_at: str | None = None
    gpu: int
    """GPUs of the pod, or of all pods of the job. A MIG slice, a time slice and a share of a card count as one each.
    """
    gpu_type: str | None = None
    status_word: str
    """The status that `gpuctl get jobs` shows, such as Queued of a pending job."""
    progress: int | None = None
    """Progress from the training's log, percent; null if the log has none."""
    object_name: str
    """Name of its main object: with a hash if a GitOps controller applies the job."""


class JobMetrics(Answer):
    """The latest measurements; null if not measured."""

    gpu_utilization: float | None = None
    memory_usage: str | None = None
    network_latency: str | None = None
    throughput: str | None = None


class JobNotify(Answer):
    """Events of a job that the service reports, and the channels that it names."""

    events: list[str]
    channels: list[str]
    """Empty: the platform's default channels."""


class JobObjects(Answer):
    """The Kubernetes objects of a job."""

    kind: str | None = None
    job_name: str | None = None
    pods: list[str]


class JobOnNodes(Answer):
    """A job with pods in a pool or on a node. `jobId` and `kind` are null for pods that gpuctl does not manage."""

    job_id: str | None = None
    name: str
    namespace: str
    kind: str | None = None
    gpu: int
    """GPUs that it holds in the pool or on the node."""


class JobPage(Answer):
    """``GET /jobs``. ``total`` counts all pages, ``items`` are those of this page."""

    total: int
    items: list[JobItem]


class JobPod(Answer):
    """A pod of the job: a row of ``gpuctl get jobs -o json``, and the number of restarts of its containers."""

    job_id: str
    """Id of the job."""
    name: str
    namespace: str
    kind: str
    status: str
    reason: str | None = None
    """Details of the status; null without any."""
    pool: str | None = None
    applied_by: str | None = None
    """The user who applied the job last; null if unknown."""
    created_at: str | None = None
    started_at: str | None = None
    gpu: int
    """GPUs of the pod, or of all pods of the job. A MIG slice, a time slice and a share of a card count as one each.
    """
    gpu_type: str | None = None
    pod: str
    """Name of the pod."""
    phase: str
    ready: str
    node: str | None = None
    ip: str | None = None
    priority: str | None = None
    restarts: int


class JobResources(Answer):
    """The resource requests of one pod."""

    gpu: int
    gpu_type: str | None = None
    cpu: float | None = None
    memory: str | None = None
    memory_bytes: int | None = None


class JobRevision(Answer):
    """A revision of a job with its whole document."""

    revision: int
    kind: str
    created_at: str | None = None
    who: str | None = None
    commit: DocumentCommit | None = None
    gpuctl: str
    """The gpuctl version that applied it."""
    cause: str
    """`applied`, `rolled back`, or `found` in the cluster."""
    to: int | None = None
    """The revision that was applied again; null for other causes."""
    changes: list[dict[str, Any]]
    """The fields that differ from the previous revision, each with `path`, `from` and `to`."""
    masked: list[str]
    """Fields whose values are not kept."""
    profile: str | None = None
    """The profile that is merged into the document."""
    overrides: list[str] = Field(default_factory=list)
    """The fields that were overridden for this run, each as `PATH=VALUE`, without credentials."""
    document: dict[str, Any]


class JobRole(Answer):
    """A role of a training, and the resource requests of each of its pods."""

    name: str
    pods: int
    """Number of pods."""
    pool: str | None = None
    """The pool that its pods run in."""
    resources: JobResources


class JobSchedule(Answer):
    """The schedule of a training, and the runs that are kept, newest first."""

    cron: str
    timezone: str | None = None
    last_run_at: str | None = None
    """Time of the last scheduled run."""
    next_run_at: str | None = None
    """Time of the next run; null if the schedule is suspended or never runs, or its cron expression or time zone is
    unknown here.
    """
    runs: list[ScheduledRun]


class JobState(Answer):
    """A deleted, paused or resumed job; with status ``validated``, one that would be."""

    job_id: str
    status: str
    message: str
    plan: PlanAnswer | None = None
    """Only in a dry run, and not of a pause: the plan, with the action on each object."""
    notes: list[str] | None = None
    """Only of a deleted job: claims that stay, and jobs that wait for the deleted one."""


class JobTimeline(Answer):
    """``GET /jobs/{jobId}/timeline``: the history of a job's pods, conditions and events."""

    timeline: list[PodTimeline]
    conditions: list[WorkloadCondition]
    events: list[EventsAlike] | None = None
    """Null if they may not be read."""


class JobsWaitAnswer(Answer):
    """The jobs for which the wait has ended; repeat the request for the others."""

    items: list[WaitedItem]
    message: str | None = None
    """The condition for which the other jobs are waited for; null if there are no others."""


class KeptLabel(Answer):
    """One label of a node."""

    node_name: str
    label: DatedLabel


class LabelHour(Answer):
    """The usage of a value of a label or annotation in an hour or step."""

    id: int
    """Id of the row. It does not change when the hour is computed again."""
    cluster_name: str = Field(alias="cluster_name")
    stat_hour: str = Field(alias="stat_hour")
    """Start of the hour or step, UTC."""
    end_time: str | None = Field(default=None, alias="end_time")
    """End of a step that is not an hour, UTC; the first and the last step end at the range."""
    known_seconds: float = Field(alias="known_seconds")
    """Seconds of the hour or step for which usage is known. All other figures cover only these: less than the whole if
    the step is still running, no collector ran, or its hours were pruned.
    """
    provisional: bool
    """True if figures may still change: the hour has just ended, or measurements are missing."""
    avg_utilization: float | None = Field(default=None, alias="avg_utilization")
    """Mean utilization of the measured GPUs over the measured time, percent; null if none was measured."""
    max_utilization: float | None = Field(default=None, alias="max_utilization")
    """Highest one-minute average utilization, percent."""
    min_utilization: float | None = Field(default=None, alias="min_utilization")
    coverage: float | None = None
    """Measured part of the allocated GPU-seconds, 0 to 1; null if none were allocated."""
    created_at: str = Field(alias="created_at")
    updated_at: str = Field(alias="updated_at")
    """Time of the last computation."""
    dimension_type: str = Field(alias="dimension_type")
    dimension_key: str = Field(alias="dimension_key")
    dimension_value: str = Field(alias="dimension_value")
    """`__unset__` stands for workloads without the label, so that the values add up to the cluster."""
    allocated_gpu_count: float | None = Field(default=None, alias="allocated_gpu_count")
    """Average number of held GPUs."""
    active_workload_count: int = Field(alias="active_workload_count")
    """Number of workloads that held GPUs."""


class LabelHourPage(Answer):
    """A page of label hours."""

    total: int
    """Number of rows of all pages."""
    page: int
    page_size: int = Field(alias="page_size")
    total_pages: int = Field(alias="total_pages")
    data: list[LabelHour]


class LabelHoursAfter(Answer):
    """One page of label hours, in cursor order."""

    page_size: int = Field(alias="page_size")
    next_cursor: str | None = Field(default=None, alias="next_cursor")
    """The `cursor` of the next page; null after the last row."""
    data: list[LabelHour]


class LabelPage(Answer):
    """A page of labels; `total` counts all pages."""

    total: int
    items: list[NodeLabel]


class LabelPair(Answer):
    """A label."""

    key: str
    value: str


class LabelUsage(Answer):
    """Usage by the values of a label or annotation: all rows, or one page if pages are requested."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or a remark on the response."""
    data: list[LabelHour] | LabelHourPage | LabelHoursAfter


class LatestAllocation(Answer):
    """The latest snapshot."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or a remark on the response."""
    data: LatestSnapshot


class LatestSnapshot(Answer):
    """The latest known allocation of GPUs."""

    id: int
    cluster_name: str = Field(alias="cluster_name")
    snapshot_time: str = Field(alias="snapshot_time")
    dimension_type: str = Field(alias="dimension_type")
    total_gpu_capacity: float | None = Field(default=None, alias="total_gpu_capacity")
    allocated_gpu_count: float | None = Field(default=None, alias="allocated_gpu_count")
    """GPUs held in the namespaces that the caller may see; null if unknown."""
    allocation_details: AllocationDetails = Field(alias="allocation_details")
    created_at: str = Field(alias="created_at")
    dimension_key: str = Field(alias="dimension_key")
    dimension_value: str = Field(alias="dimension_value")


class LedgerAnswer(Answer):
    """The ledger: the use of every GPU-second."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or a remark on the response."""
    data: list[LedgerRow] | LedgerPage | LedgerRowsAfter


class LedgerPage(Answer):
    """A page of ledger rows."""

    total: int
    """Number of rows of all pages."""
    page: int
    page_size: int = Field(alias="page_size")
    total_pages: int = Field(alias="total_pages")
    data: list[LedgerRow]


class LedgerRow(Answer):
    """The GPU-seconds of a group: `allocated` is `busy` + `held_idle` + `held_unobserved`, `capacity` is `allocated` +
    `free` + `unusable` + `unsized`.
    """

    time: str
    """Start of the step, UTC."""
    end_time: str = Field(alias="end_time")
    """End of the step; the first and the last step end at the range."""
    known_seconds: float = Field(alias="known_seconds")
    """Seconds of the step for which usage is known. All amounts cover only these."""
    known_from: str = Field(alias="known_from")
    """Start of the known usage within the step, UTC."""
    known_until: str = Field(alias="known_until")
    """Last moment of the step for which usage is known, UTC."""
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
    capacity_gpu_seconds: float | None = Field(default=None, alias="capacity_gpu_seconds")
    """GPU-seconds available in the step; null for groups that own no GPUs."""
    allocated_gpu_seconds: float = Field(alias="allocated_gpu_seconds")
    """GPU-seconds allocated to pods."""
    busy_gpu_seconds: float = Field(alias="busy_gpu_seconds")
    """Measured GPU-seconds times their utilization."""
    held_idle_gpu_seconds: float = Field(alias="held_idle_gpu_seconds")
    """Measured GPU-seconds that were not used."""
    held_unobserved_gpu_seconds: float = Field(alias="held_unobserved_gpu_seconds")
    """Held GPU-seconds that were not measured."""
    free_gpu_seconds: float | None = Field(default=None, alias="free_gpu_seconds")
    """GPU-seconds not held, on nodes that take pods."""
    unusable_gpu_seconds: float | None = Field(default=None, alias="unusable_gpu_seconds")
    """GPU-seconds not held, on nodes that take no pods."""
    unsized_gpu_seconds: float | None = Field(default=None, alias="unsized_gpu_seconds")
    """GPU-seconds, allocated to pods with a share of unknown size or free, on nodes with such pods. Null for groups
    that own no GPUs.
    """
    allowed_gpu_seconds: float | None = Field(default=None, alias="allowed_gpu_seconds")
    """Only for namespaces: GPU-seconds that its quotas allow; without a quota, those of the cluster."""
    by_process_gpu_seconds: float = Field(alias="by_process_gpu_seconds")
    """Part of the measured GPU-seconds that comes from per-process metrics of shared cards."""
    beyond_held_gpu_seconds: float = Field(alias="beyond_held_gpu_seconds")
    """Utilization of shared cards beyond the share of their pods, GPU-seconds. Not part of `busy`."""
    avg_utilization: float | None = Field(default=None, alias="avg_utilization")
    """Mean utilization of the measured GPU-seconds, percent."""
    coverage: float | None = None
    """Measured part of the allocated GPU-seconds, 0 to 1."""
    closes: bool
    """True if the parts add up. If not, this is an error of the service."""
    cost: float | None = None
    """With `costs`: the cost of the allocated GPU-seconds by the platform's prices; null if a model has no price, or
    if it is no longer recorded which models were held.
    """
    currency: str | None = None
    """The currency of `cost`."""


class LedgerRowsAfter(Answer):
    """One page of ledger rows, in cursor order."""

    page_size: int = Field(alias="page_size")
    next_cursor: str | None = Field(default=None, alias="next_cursor")
    """The `cursor` of the next page; null after the last row."""
    data: list[LedgerRow]


class ListedPod(Answer):
    """An item of ``GET /pods``: a pod; with ``pod`` null, a job without pods or the missing pods of a job."""

    job_id: str
    """Id of the job."""
    name: str
    namespace: str
    kind: str
    status: str
    reason: str | None = None
    """Details of the status; null without any."""
    pool: str | None = None
    applied_by: str | None = None
    """The user who applied the job last; null if unknown."""
    created_at: str | None = None
    started_at: str | None = None
    gpu: int
    """GPUs of the pod, or of all pods of the job. A MIG slice, a time slice and a share of a card count as one each.
    """
    gpu_type: str | None = None
    pod: str | None = None
    """Name of the pod; null in the row of a job."""
    phase: str
    ready: str
    node: str | None = None
    ip: str | None = None
    priority: str | None = None
    object_name: str | None = None
    """Name of the job's main object: with a hash if a GitOps controller applies the job."""
    uid: str | None = None
    """The uid of the job's main object, or of its oldest pod if the object is gone and its pods do not name it."""
    sweep_values: dict[str, str] | None = None
    """Of a training in a sweep, its value of each parameter; else null."""


class ListedSnapshot(Answer):
    """The allocation of GPUs at one time."""

    id: int
    cluster_name: str = Field(alias="cluster_name")
    snapshot_time: str = Field(alias="snapshot_time")
    dimension_type: str = Field(alias="dimension_type")
    total_gpu_capacity: float | None = Field(default=None, alias="total_gpu_capacity")
    allocated_gpu_count: float | None = Field(default=None, alias="allocated_gpu_count")
    """GPUs held in the namespaces that the caller may see; null if unknown."""
    allocation_details: AllocationDetails = Field(alias="allocation_details")
    created_at: str = Field(alias="created_at")


class LogLineValue(Answer):
    """A line, with its pod and container."""

    pod: str
    container: str
    timestamp: str
    text: str


class LogProblemValue(Answer):
    """The reason why a log, or a part of it, is missing. ``pod`` is null if the reason concerns no particular pod."""

    pod: str | None = None
    message: str


class LogsValue(Answer):
    """The logs of a job's pods."""

    logs: list[str]
    """The texts of the lines, ordered by time."""
    last_timestamp: str | None = None
    """The time of the last line."""
    lines: list[LogLineValue]
    """The same lines, with pod and container."""
    problems: list[LogProblemValue]
    """Pods whose log could not be read, with the reason."""


class MetricPoint(Answer):
    """A value of a metric, and its time."""

    timestamp: str
    value: float


class NamespaceDetail(Answer):
    """A namespace with its quotas and pods."""

    name: str
    status: str | None = None
    jobs: int
    """Unfinished jobs."""
    pods: int
    gpu_used: int
    quotas: list[NamespaceQuota]
    created_at: str | None = None
    labels: dict[str, str] | None = None
    running_jobs: list[HoldingPod]
    """Pods on nodes."""
    waiting_jobs: list[HoldingPod]
    """Pods that wait for a node."""
    all_jobs: int
    """Number of jobs, including finished ones."""


class NamespaceHour(Answer):
    """The usage of a namespace in an hour or step."""

    id: int
    """Id of the row. It does not change when the hour is computed again."""
    cluster_name: str = Field(alias="cluster_name")
    stat_hour: str = Field(alias="stat_hour")
    """Start of the hour or step, UTC."""
    end_time: str | None = Field(default=None, alias="end_time")
    """End of a step that is not an hour, UTC; the first and the last step end at the range."""
    known_seconds: float = Field(alias="known_seconds")
    """Seconds of the hour or step for which usage is known. All other figures cover only these: less than the whole if
    the step is still running, no collector ran, or its hours were pruned.
    """
    provisional: bool
    """True if figures may still change: the hour has just ended, or measurements are missing."""
    avg_utilization: float | None = Field(default=None, alias="avg_utilization")
    """Mean utilization of the measured GPUs over the measured time, percent; null if none was measured."""
    max_utilization: float | None = Field(default=None, alias="max_utilization")
    """Highest one-minute average utilization, percent."""
    min_utilization: float | None = Field(default=None, alias="min_utilization")
    coverage: float | None = None
    """Measured part of the allocated GPU-seconds, 0 to 1; null if none were allocated."""
    created_at: str = Field(alias="created_at")
    updated_at: str = Field(alias="updated_at")
    """Time of the last computation."""
    namespace: str
    total_gpu_capacity: float | None = Field(default=None, alias="total_gpu_capacity")
    """Average GPUs that its quota allowed; without a quota, those of the cluster; null if unknown."""
    allocated_gpu_count: float | None = Field(default=None, alias="allocated_gpu_count")
    """Average number of held GPUs."""
    allocation_rate: float | None = Field(default=None, alias="allocation_rate")
    """Held part of the capacity, percent; more than 100 if a quota was reduced below the held GPUs."""
    active_workload_count: int = Field(alias="active_workload_count")
    """Number of workloads that held GPUs."""


class NamespaceHourPage(Answer):
    """A page of namespace hours."""

    total: int
    """Number of rows of all pages."""
    page: int
    page_size: int = Field(alias="page_size")
    total_pages: int = Field(alias="total_pages")
    data: list[NamespaceHour]


class NamespaceHoursAfter(Answer):
    """One page of namespace hours, in cursor order."""

    page_size: int = Field(alias="page_size")
    next_cursor: str | None = Field(default=None, alias="next_cursor")
    """The `cursor` of the next page; null after the last row."""
    data: list[NamespaceHour]


class NamespaceItem(Answer):
    """A namespace."""

    name: str
    status: str | None = None
    jobs: int
    """Unfinished jobs."""
    pods: int
    gpu_used: int
    quotas: list[str]
    created_at: str | None = None


class NamespaceList(Answer):
    """The list of namespaces."""

    items: list[NamespaceItem]
    total: int


class NamespaceQuota(Answer):
    """A quota of a namespace."""

    name: str
    namespace: str
    description: str | None = None
    status: str
    cpu_total: float | None = None
    cpu_used: float | None = None
    memory_total_bytes: float | None = None
    memory_used_bytes: float | None = None
    gpu_total: float | None = None
    gpu_used: float | None = None
    max_jobs: float | None = None
    jobs_used: float | None = None
    resources: list[QuotaLimit]
    default_request: dict[str, str]
    """The requests of containers that set none."""
    scopes: list[str]
    """The scopes of the ResourceQuota, which limits only pods that are in all of them; [] if it limits all pods."""
    created_at: str | None = None
    is_managed: bool
    """False for a ResourceQuota that gpuctl has not created."""


class NamespaceUsage(Answer):
    """Usage of namespaces: all rows, or one page if pages are requested."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or a remark on the response."""
    data: list[NamespaceHour] | NamespaceHourPage | NamespaceHoursAfter


class NodeAmount(Answer):
    """A resource of a node: cores, bytes or a count. `vendor` is null for resources other than GPUs."""

    resource: str
    vendor: str | None = None
    total: float
    """Allocatable amount."""
    used: float | None = None
    """Amount that pods request; null if pods may not be read."""


class NodeConditions(Answer):
    """The status of a node in Kubernetes; conditions, taints and addresses in Kubernetes' form."""

    conditions: list[dict[str, Any]]
    schedulable: bool
    taints: list[dict[str, Any]]
    addresses: list[dict[str, Any]]
    kernel_version: str | None = None
    os_image: str | None = None
    architecture: str | None = None
    kubelet_version: str | None = None
    container_runtime_version: str | None = None


class NodeDetail(Answer):
    """A node."""

    node_name: str
    status: str
    gpu_type: str | None = None
    k8s_status: NodeConditions = Field(alias="k8sStatus")
    resources: NodeResources
    gpu_detail: list[NodeGpu]
    labels: list[LabelPair]
    bound_pools: list[str]
    running_jobs: list[JobOnNodes] | None = None
    """Jobs on it that the caller may see."""
    created_at: str | None = None
    last_updated_at: str | None = None
    gpu_labels: list[LabelPair] = Field(default_factory=list)
    """Labels of the node that name a GPU type; jobs select by the first one."""
    amounts: list[NodeAmount] = Field(default_factory=list)
    """All resources for pods: GPUs, cores, memory, other devices."""
    pods: list[HoldingPod] | None = None
    """The pods of `runningJobs`."""


class NodeFailure(Answer):
    """The reason why a node was not changed."""

    node_name: str
    error: str
    """The name of the error, for programs."""
    message: str
    is_outage: bool | None = None
    """True if the cluster could not be reached, or rejected the service."""


class NodeGpu(Answer):
    """A GPU of a node. `utilization` (percent) and `memoryUsage` are null if not measured."""

    gpu_id: str
    type: str | None = None
    status: str
    utilization: float | None = None
    memory_usage: str | None = None


class NodeItem(Answer):
    """A node of a list."""

    node_name: str
    status: str
    gpu_total: int
    gpu_used: int | None = None
    gpu_free: int | None = None
    bound_pools: list[str]
    cpu: str
    """Allocatable CPU, cores."""
    memory: str
    """Allocatable memory."""
    gpu_type: str | None = None
    created_at: str | None = None
    address: str | None = None
    """Internal address of the node."""
    k8s_state: str | None = Field(default=None, alias="k8sState")
    """Its state in kubectl's words."""
    free_slices: dict[str, int] = Field(default_factory=dict)
    """MIG profile -> slices that the driver (DRA) can still create on the node's cards, if it creates none of another
    profile. Omitted if there are none.
    """


class NodeLabel(Answer):
    """A label of a node."""

    node_name: str
    label_key: str
    label_value: str


class NodePage(Answer):
    """A page of nodes; `total` counts all pages."""

    total: int
    items: list[NodeItem]


class NodeResources(Answer):
    """The resources of a node: total, requested by pods, and free. Cores are numbers, memory is a quantity."""

    cpu_total: float
    cpu_used: float | None = None
    cpu_free: float | None = None
    memory_total: str
    memory_used: str | None = None
    memory_free: str | None = None
    gpu_total: int
    gpu_used: int | None = None
    gpu_free: int | None = None
    gpu_unhealthy: int


class OtherCause(Answer):
    """A further cause."""

    cause: str
    message: str
    pod: str | None = None
    fix: str | None = None


class PausedJobAnswer(Answer):
    """The result of pausing or resuming a job. The status of a dry run is ``validated``."""

    job_id: str
    name: str
    namespace: str
    kind: str
    status: str
    changed: bool
    """False if the job already had this state."""
    message: str


class PausedJobs(Answer):
    """Jobs that were paused or resumed."""

    items: list[PausedJobAnswer]
    plan: PlanAnswer | None = None
    """Only in a dry run of a resume: the plan, with the action on each object."""


class PlanAnswer(Answer):
    """A plan: the action on each object. ``questions`` need confirmation, ``errors`` prevent the plan."""

    steps: list[PlanStep]
    summary: dict[str, int]
    """Action -> number of objects."""
    notes: list[str]
    questions: list[str]
    errors: list[str]
    set: str | None = None
    """The name of the set of the documents; null without one."""
    recovery: list[PlanStep] = Field(default_factory=list)
    """Steps that first complete or undo an interrupted run."""
    courtesies: list[str] = Field(default_factory=list)
    """Running work that the request names and ends. It needs no confirmation unless the request has `confirmed`."""
    tracked: list[str] = Field(default_factory=list)
    """The part of `errors` about objects of Argo CD or Flux."""
    lacking: list[str] = Field(default_factory=list)
    """The part of `errors` about missing rights."""
    can_queue: bool | None = None
    """The `errors` are full quotas: with `queue` the jobs are created, and wait for room."""
    finished: list[int] = Field(default_factory=list)
    """Indexes of the finished steps, in the order in which they finished."""
    carried_out: bool | None = None
    """The plan was carried out; `result` of each step has its outcome."""
    outage: bool | None = None
    """True if steps failed because of an outage of the cluster."""
    interrupted: int | None = None
    """The signal that stopped the run; 0 without any."""
    unfinished: bool | None = None
    """A journal remains: `POST /recoveries` finishes the run."""
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
    namespace: str | None = None
    name: str
    reason: str | None = None
    changes: list[dict[str, Any]]
    """The fields that change, each with `path`, `from` and `to`."""
    document_changes: list[dict[str, Any]] = Field(default_factory=list)
    """The fields of the job's document that change, each with `path`, `from` and `to`."""
    verdict: str | None = None
    """The verdict of `fit` on its pods; null if it was not checked."""
    victims: list[PlanVictim]
    """Jobs whose pods its pods would evict."""
    waits: list[PlanWait]
    """Reasons why its pods would wait."""
    lost: list[dict[str, Any]]
    """Fields of other managers that are overwritten: as in `changes`, with `manager`."""
    dependents: list[Dependent]
    """Objects that garbage collection deletes with it."""
    unseen: list[str]
    """Kinds that may not be listed, so that dependents of them are unknown."""
    running: str | None = None
    """How long the work that the step ends has been running; null if it ends none."""
    finished: str | None = None
    """When the training finished that runs again or is pruned; null for other steps."""
    applied_by: str | None = None
    """The user who last applied the job that ends or runs again; null if the caller or unknown."""
    checkpoint: str | None = None
    """How running work saves its progress before it ends; null if nothing runs or has a checkpoint."""
    result: str
    """`planned` until the step was executed."""
    error: str | None = None
    title: str | None = None
    """The job, pool or quota that the object belongs to; "" without any."""
    shared: bool | None = None
    """True if several jobs share the object, such as a namespace."""
    expired: bool | None = None
    """True if the object does not exist because its ttl has expired."""
    before: dict[str, Any] | None = None
    """The object before, with `show=objects`; null if it does not exist."""
    after: dict[str, Any] | None = None
    """The object afterwards, with `show=objects`; null if it does not exist."""


class PlanVictim(Answer):
    """A job whose pods would be evicted. For a job that the caller may not see, only priority and runtime are set."""

    namespace: str | None = None
    job: str | None = None
    priority: int
    pods: list[str]
    runtime: str | None = None
    """How long its pods have been running."""
    owner: str | None = None
    """The owner: its label `team`, `creator` or `project`."""


class PlanWait(Answer):
    """A reason why the pods of a job wait, or may wait."""

    cause: str
    """`quota`, `queue` or `room`."""
    message: str
    likelihood: float | None = None
    """1 if they wait in any case; null if that depends on the order in which pods are created."""


class PodPage(Answer):
    """``GET /pods``. ``total`` counts all pages, ``items`` are those of this page."""

    total: int
    items: list[ListedPod]
    statuses: list[str]
    """Status words of all pods and jobs that match the parameters other than `kind`, `pool` and `status`."""
    notes: list[str]
    """Notes about objects that could not be read."""


class PodStage(Answer):
    """A stage that a pod has reached, and the seconds since the previous stage."""

    stage: str
    time: str
    seconds: float


class PodTimeline(Answer):
    """The stages of a pod, in order."""

    pod: str
    stages: list[PodStage]


class PoolDetail(Answer):
    """A pool."""

    name: str
    description: str | None = None
    gpu_total: int
    gpu_used: int | None = None
    """GPUs that pods on its nodes request."""
    gpu_free: int | None = None
    """GPUs that no pod requests."""
    gpu_unavailable: int | None = None
    """Free GPUs of nodes that are cordoned or not ready."""
    gpu_type: dict[str, int]
    """GPU type -> number of GPUs."""
    status: str
    nodes: list[str]
    quota: PoolQuota
    jobs: list[JobOnNodes] | None = None
    """Jobs in it that the caller may see."""
    missing_nodes: list[str]
    """Nodes of its definition that are not in the pool."""
    waiting_jobs: list[JobOnNodes] | None = None
    """Jobs of the pool that wait."""
    is_defined: bool
    """True if it has a definition; false if it only has nodes."""
    pods: list[HoldingPod] | None = None
    """The pods of `jobs`."""
    waiting_pods: list[HoldingPod] | None = None
    """The pods of `waitingJobs`."""


class PoolItem(Answer):
    """A pool of a list. GPUs are null if pods may not be read."""

    name: str
    description: str | None = None
    gpu_total: int
    gpu_used: int | None = None
    """GPUs that pods on its nodes request."""
    gpu_free: int | None = None
    """GPUs that no pod requests."""
    gpu_unavailable: int | None = None
    """Free GPUs of nodes that are cordoned or not ready."""
    gpu_type: list[str]
    status: str


class PoolList(Answer):
    """Pools."""

    total: int
    items: list[PoolItem]


class PoolQuota(Answer):
    """The limits of a pool; null: no limit."""

    max_jobs: int | None = None
    max_gpu_per_job: int | None = None


class QueueDetail(Answer):
    """A queue with its jobs."""

    name: str
    cohort: str | None = None
    """Queues of a cohort lend each other quota. Null if ClusterQueues may not be read, like `strategy` and
    `createdAt`.
    """
    strategy: str | None = None
    status: str
    """active, stopped or inactive."""
    reason: str | None = None
    """Why it admits no job."""
    local_queues: list[QueueEntrance]
    waiting_jobs: int | None = None
    """Null if Workloads may not be read."""
    admitted_jobs: int | None = None
    """Null if Workloads may not be read."""
    resources: list[QueueResource] | None = None
    """Null if ClusterQueues may not be read."""
    created_at: str | None = None
    waiting: list[WaitingInQueue]
    """In the order in which Kueue tries them."""
    admitted: list[QueueJob]
    """The oldest first."""
    notes: list[str]
    """Notes about objects that could not be read."""


class QueueEntrance(Answer):
    """A LocalQueue: the name that jobs of a namespace use. Kueue counts Workloads, also those of other tools; numbers
    are null before it has counted them, and where they count jobs of pools that the caller may not see.
    """

    namespace: str
    name: str
    status: str
    """active, stopped or inactive."""
    reason: str | None = None
    """Why it admits no job."""
    pending_workloads: int | None = None
    """Without quota."""
    reserving_workloads: int | None = None
    """With quota, including the admitted ones."""
    admitted_workloads: int | None = None
    """With quota and all admission checks."""
    resources: list[QueueUse]


class QueueItem(Answer):
    """A ClusterQueue of a list. Only jobs that the caller may see are counted."""

    name: str
    cohort: str | None = None
    """Queues of a cohort lend each other quota. Null if ClusterQueues may not be read, like `strategy` and
    `createdAt`.
    """
    strategy: str | None = None
    status: str
    """active, stopped or inactive."""
    reason: str | None = None
    """Why it admits no job."""
    local_queues: list[QueueEntrance]
    waiting_jobs: int | None = None
    """Null if Workloads may not be read."""
    admitted_jobs: int | None = None
    """Null if Workloads may not be read."""
    resources: list[QueueResource] | None = None
    """Null if ClusterQueues may not be read."""
    created_at: str | None = None


class QueueJob(Answer):
    """A job of a queue. The kind is that of the object for jobs that gpuctl does not manage."""

    kind: str
    name: str
    namespace: str
    priority: int
    gpu: int
    resources: dict[str, str]
    created_at: str | None = None


class QueueList(Answer):
    """The list of queues."""

    items: list[QueueItem]
    total: int
    notes: list[str]
    """Notes about objects that could not be read."""


class QueueResource(Answer):
    """The quota of a queue for one resource in one flavor. `name`: cpu, memory, gpu, or Kubernetes' name."""

    resource: str
    name: str
    flavor: str
    """The ResourceFlavor of Kueue."""
    total: float
    """The queue's own quota."""
    used: float
    """Held by admitted jobs."""
    borrowed: float
    """The used amount above the own quota."""
    borrowing_limit: float | None = None
    """Null for no limit of its own."""
    free: float | None = None
    """Available without preemption, with what the cohort lends; null if the cohort may not be read."""
    most: float | None = None
    """Available if nothing else runs; null as `free`."""


class QueueUse(Answer):
    """The quota that jobs of a LocalQueue hold of one flavor."""

    resource: str
    name: str
    """cpu, memory, gpu, or Kubernetes' name."""
    flavor: str
    """The ResourceFlavor of Kueue."""
    used: float


class Quota(Answer):
    """The quota of a user, which is a namespace."""

    name: str
    namespace: str
    description: str | None = None
    status: str
    cpu_total: float | None = None
    cpu_used: float | None = None
    memory_total_bytes: float | None = None
    memory_used_bytes: float | None = None
    gpu_total: float | None = None
    gpu_used: float | None = None
    max_jobs: float | None = None
    jobs_used: float | None = None
    resources: list[QuotaLimit]
    default_request: dict[str, str]
    """The requests of containers that set none."""
    scopes: list[str]
    """The scopes of the ResourceQuota, which limits only pods that are in all of them; [] if it limits all pods."""
    created_at: str | None = None


class QuotaLimit(Answer):
    """One limit. `resource`: Kubernetes' key; `name`: the short name."""

    resource: str
    name: str
    vendor: str | None = None
    gpu_type: str | None = None
    """The GPU type that is limited; null for all types together."""
    unit: str
    total: float
    used: float | None = None
    free: float | None = None
    used_percent: float | None = None


class QuotaList(Answer):
    """The list of quotas."""

    items: list[Quota]
    total: int


class RecoveredObject(Answer):
    """The recovery of an object after an interrupted run."""

    kind: str
    api_version: str
    namespace: str
    name: str
    outcome: str
    message: str


class Recoveries(Answer):
    """Interrupted runs: the planned steps, the recovered objects, and the failures."""

    planned: list[RecoveryStep]
    """Steps like those of a plan. A step that creates an object also has `object`, and `ifRefused`, which is tried if
    `object` is refused.
    """
    recovered: list[RecoveredObject]
    problems: list[RecoveryFailure]
    questions: list[str]
    journals: int | None = None
    """Number of interrupted runs."""
    working: dict[str, str] = Field(default_factory=dict)
    """Namespace -> user whose run may still be active in it."""


class RecoveryFailure(Answer):
    """An object that could not be recovered, and the reason."""

    namespace: str | None = None
    message: str
    hint: str | None = None
    refused: bool | None = None
    """True if gpuctl decided so; false after a failure of the cluster."""


class RecoveryStep(Answer):
    """A step of a recovery."""

    action: str
    """create, update, replace, delete, unchanged and others."""
    api_version: str
    kind: str
    namespace: str | None = None
    name: str
    reason: str | None = None
    changes: list[dict[str, Any]]
    """The fields that change, each with `path`, `from` and `to`."""
    document_changes: list[dict[str, Any]] = Field(default_factory=list)
    """The fields of the job's document that change, each with `path`, `from` and `to`."""
    verdict: str | None = None
    """The verdict of `fit` on its pods; null if it was not checked."""
    victims: list[PlanVictim]
    """Jobs whose pods its pods would evict."""
    waits: list[PlanWait]
    """Reasons why its pods would wait."""
    lost: list[dict[str, Any]]
    """Fields of other managers that are overwritten: as in `changes`, with `manager`."""
    dependents: list[Dependent]
    """Objects that garbage collection deletes with it."""
    unseen: list[str]
    """Kinds that may not be listed, so that dependents of them are unknown."""
    running: str | None = None
    """How long the work that the step ends has been running; null if it ends none."""
    finished: str | None = None
    """When the training finished that runs again or is pruned; null for other steps."""
    applied_by: str | None = None
    """The user who last applied the job that ends or runs again; null if the caller or unknown."""
    checkpoint: str | None = None
    """How running work saves its progress before it ends; null if nothing runs or has a checkpoint."""
    result: str
    """`planned` until the step was executed."""
    error: str | None = None
    object: dict[str, Any] | None = None
    """The whole object that is created."""
    if_refused: dict[str, Any] | None = None
    """The object to create if `object` is rejected."""


class RelatedPlace(Answer):
    """Another place to which a diagnostic refers. Lines and columns count from 1."""

    message: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int


class RerunJob(Answer):
    """A training that runs again under a new id; with status ``validated``, one that would."""

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


class ScheduledRun(Answer):
    """A run of a scheduled training: a Job."""

    name: str
    phase: str
    """succeeded, failed, running or pending."""
    created_at: str | None = None
    ended_at: str | None = None


class SetLabel(Answer):
    """A label that was set, with notes on the change."""

    node_name: str
    label: LabelPair
    message: str
    notes: list[str]


class SnapshotPage(Answer):
    """A page of snapshots."""

    total: int
    """Number of rows of all pages."""
    page: int
    page_size: int = Field(alias="page_size")
    total_pages: int = Field(alias="total_pages")
    data: list[ListedSnapshot]


class Submitted(Answer):
    """The first created job; ``jobs`` has all of them if there were several documents."""

    notes: list[str] = Field(default_factory=list)
    """Notes that do not stop the request, such as a pool or a Secret that does not exist."""
    questions: list[str] = Field(default_factory=list)
    """Only in a dry run: what the real request must confirm with `?confirm=true`."""
    job_id: str | None = None
    name: str
    namespace: str | None = None
    kind: str
    pool: str | None = None
    status: str
    created_at: str | None = None
    message: str
    jobs: list[SubmittedJob] | None = None
    """All jobs, if there were several documents."""
    warnings: list[DocumentWarning] = Field(default_factory=list)
    """Diagnostics of the documents."""


class SubmittedJob(Answer):
    """A created job; with status ``validated``, one that would be created. ``jobId`` is null for a pool or quota."""

    job_id: str | None = None
    name: str
    namespace: str | None = None
    kind: str
    pool: str | None = None
    status: str
    created_at: str | None = None
    message: str


class UsageNames(Answer):
    """Names, sorted."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or a remark on the response."""
    data: list[str]


class WaitAnswer(Answer):
    """The results of waiting for jobs."""

    items: list[WaitItem]


class WaitItem(Answer):
    """The result of waiting for a job."""

    name: str
    namespace: str | None = None
    kind: str | None = None
    condition: str
    met: bool
    message: str
    status: str | None = None
    reason: str | None = None


class WaitedItem(Answer):
    """A job for which the wait has ended."""

    name: str
    namespace: str | None = None
    kind: str | None = None
    condition: str
    met: bool
    message: str
    status: str | None = None
    reason: str | None = None
    index: int
    """The index of the job in `jobs`, from 0."""
    outcome: str
    """`late`: not in time. `gone`: deleted. `never`: jobs of this kind do not have the condition."""
    cause: str | None = None
    """The cause why it is late or has failed; null if unknown."""


class WaitingInQueue(Answer):
    """A job that waits in a queue."""

    kind: str
    name: str
    namespace: str
    priority: int
    gpu: int
    resources: dict[str, str]
    created_at: str | None = None
    position: int
    """Its position in the order in which Kueue tries jobs, from 1. Jobs created in the same second may have the same
    one.
    """


class WasteAnswer(Answer):
    """Idle workloads that hold GPUs, ordered by held GPUs times idle time, largest first."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or a remark on the response."""
    data: HeldIdle


class WhyAnswer(Answer):
    """A cause, with notes about objects that could not be read."""

    job: str
    namespace: str
    kind: str
    cause: str
    message: str
    pod: str | None = None
    numbers: dict[str, Any]
    """The numbers behind the cause; each cause has its own."""
    ruled_out: list[str]
    fix: str | None = None
    evidence: list[WhyEvidence]
    also: list[OtherCause]
    notes: list[str]
    """Notes about objects that could not be read."""


class WhyEvidence(Answer):
    """Evidence of a cause. The source is event, condition, status, log, spec or quota."""

    source: str
    object: str
    text: str
    time: str | None = None
    """Time of the evidence, RFC 3339."""


class WorkloadCondition(Answer):
    """A condition of the job's main object."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class WorkloadHour(Answer):
    """The usage of a workload in an hour or step."""

    id: int
    """Id of the row. It does not change when the hour is computed again."""
    cluster_name: str = Field(alias="cluster_name")
    stat_hour: str = Field(alias="stat_hour")
    """Start of the hour or step, UTC."""
    end_time: str | None = Field(default=None, alias="end_time")
    """End of a step that is not an hour, UTC; the first and the last step end at the range."""
    known_seconds: float = Field(alias="known_seconds")
    """Seconds of the hour or step for which usage is known. All other figures cover only these: less than the whole if
    the step is still running, no collector ran, or its hours were pruned.
    """
    provisional: bool
    """True if figures may still change: the hour has just ended, or measurements are missing."""
    avg_utilization: float | None = Field(default=None, alias="avg_utilization")
    """Mean utilization of the measured GPUs over the measured time, percent; null if none was measured."""
    max_utilization: float | None = Field(default=None, alias="max_utilization")
    """Highest one-minute average utilization, percent."""
    min_utilization: float | None = Field(default=None, alias="min_utilization")
    p50_utilization: float | None = Field(default=None, alias="p50_utilization")
    """Median of the one-minute averages, rounded to a whole percent."""
    p95_utilization: float | None = Field(default=None, alias="p95_utilization")
    coverage: float | None = None
    """Measured part of the allocated GPU-seconds, 0 to 1; null if none were allocated."""
    created_at: str = Field(alias="created_at")
    updated_at: str = Field(alias="updated_at")
    """Time of the last computation."""
    namespace: str
    workload_name: str = Field(alias="workload_name")
    workload_type: str = Field(alias="workload_type")
    """The workload's kind."""
    allocated_gpu_count: float | None = Field(default=None, alias="allocated_gpu_count")
    """Average number of held GPUs."""
    requested_gpu_count: float | None = Field(default=None, alias="requested_gpu_count")
    """GPUs at its maximum number of pods, in any part of the hour."""
    avg_gpu_memory_used: float | None = Field(default=None, alias="avg_gpu_memory_used")
    """Average used memory per GPU, GiB."""
    max_gpu_memory_used: float | None = Field(default=None, alias="max_gpu_memory_used")
    avg_gpu_memory_total: float | None = Field(default=None, alias="avg_gpu_memory_total")
    avg_replica_count: float | None = Field(default=None, alias="avg_replica_count")
    """Average number of pods that held GPUs, over the whole hour."""
    max_replica_count: int = Field(alias="max_replica_count")
    min_replica_count: int = Field(alias="min_replica_count")
    """Minimum number of pods while the workload had any."""
    workload_status: str | None = Field(default=None, alias="workload_status")
    """Status at the end of the hour, from its pods."""
    sample_count: int = Field(alias="sample_count")
    """Number of measurements used."""
    owner_uid: str = Field(alias="owner_uid")
    """Uid of the topmost owner of its pods."""
    owner_name: str = Field(alias="owner_name")
    labels: dict[str, str]
    annotations: dict[str, str]


class WorkloadHourPage(Answer):
    """A page of workload hours."""

    total: int
    """Number of rows of all pages."""
    page: int
    page_size: int = Field(alias="page_size")
    total_pages: int = Field(alias="total_pages")
    data: list[WorkloadHour]


class WorkloadHoursAfter(Answer):
    """One page of workload hours, in cursor order."""

    page_size: int = Field(alias="page_size")
    next_cursor: str | None = Field(default=None, alias="next_cursor")
    """The `cursor` of the next page; null after the last row."""
    data: list[WorkloadHour]


class WorkloadUsage(Answer):
    """One page of workload hours."""

    code: int
    """The HTTP status."""
    message: str
    """`success`, or a remark on the response."""
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
ElasticNodes.model_rebuild()
EventsAlike.model_rebuild()
FitAnswer.model_rebuild()
FitEnding.model_rebuild()
FitJob.model_rebuild()
FitOpening.model_rebuild()
FitPage.model_rebuild()
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
JobNotify.model_rebuild()
JobObjects.model_rebuild()
JobOnNodes.model_rebuild()
JobPage.model_rebuild()
JobPod.model_rebuild()
JobResources.model_rebuild()
JobRevision.model_rebuild()
JobRole.model_rebuild()
JobSchedule.model_rebuild()
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
QueueDetail.model_rebuild()
QueueEntrance.model_rebuild()
QueueItem.model_rebuild()
QueueJob.model_rebuild()
QueueList.model_rebuild()
QueueResource.model_rebuild()
QueueUse.model_rebuild()
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
ScheduledRun.model_rebuild()
SetLabel.model_rebuild()
SnapshotPage.model_rebuild()
Submitted.model_rebuild()
SubmittedJob.model_rebuild()
UsageNames.model_rebuild()
WaitAnswer.model_rebuild()
WaitItem.model_rebuild()
WaitedItem.model_rebuild()
WaitingInQueue.model_rebuild()
WasteAnswer.model_rebuild()
WhyAnswer.model_rebuild()
WhyEvidence.model_rebuild()
WorkloadCondition.model_rebuild()
WorkloadHour.model_rebuild()
WorkloadHourPage.model_rebuild()
WorkloadHoursAfter.model_rebuild()
WorkloadUsage.model_rebuild()
