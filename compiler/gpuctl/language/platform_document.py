"""``kind: platform``: the settings of a platform team, so that job documents stay short and portable."""

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import (
    AbsolutePath,
    Block,
    Boolean,
    Capability,
    Date,
    DnsLabel,
    Domain,
    Free,
    GpuProfile,
    Image,
    Integer,
    LabelKey,
    LabelValue,
    Memory,
    NonEmpty,
    Number,
    ObjectName,
    Partial,
    Percentage,
    PositiveDuration,
    PositiveQuantity,
    RequiredLabelValue,
    Server,
    ServerUrl,
    TimeZone,
    Uid,
    UserKeys,
    empty_dict,
    empty_list,
)
from gpuctl.language.gpu_share_block import VendorShare
from gpuctl.language.names import DEFAULT_CODE_IMAGE, DEFAULT_DOMAIN
from gpuctl.language.network_block import NetworkSettings
from gpuctl.language.notify_block import NotifySettings
from gpuctl.language.route_blocks import RouteSettings
from gpuctl.language.service_block import ServiceType
from gpuctl.language.spot_block import SpotSettings
from gpuctl.language.storage_block import ClaimSource, NfsSource
from gpuctl.language.topology_block import TopologySettings
from gpuctl.language.workload import Version

DriftKind = Literal[
    "Deployment",
    "StatefulSet",
    "Job",
    "JobSet",
    "CronJob",
    "LeaderWorkerSet",
    "Service",
    "ConfigMap",
    "HTTPRoute",
    "Ingress",
    "PodDisruptionBudget",
    "ResourceClaimTemplate",
    "HorizontalPodAutoscaler",
    "ScaledObject",
    "ResourceQuota",
    "LimitRange",
    "ClusterQueue",
    "LocalQueue",
    "ResourceFlavor",
    "Node",
]


class LabelsBlock(Block):
    """Labels that gpuctl writes and selects on."""

    domain: Domain = Field(
        DEFAULT_DOMAIN,
        description="Prefix of gpuctl's labels and annotations, as in `runwhere.ai/pool`.",
        examples=["gpu.example.com"],
    )


class KubernetesBlock(Block):
    """Target Kubernetes version of the output."""

    version: NonEmpty = Field(
        "1.36",
        description="Minor version that output is validated against, 1.29 or newer.",
        examples=["1.33"],
    )


class Vendor(Block):
    """Kubernetes names for a vendor's GPUs."""

    resource: LabelKey = Field(
        description="Extended resource that the vendor's device plugin advertises.", examples=["nvidia.com/gpu"]
    )
    taint: LabelKey | None = Field(
        None,
        description="Key of the taint on GPU nodes to tolerate. Default: the resource.",
        examples=["nvidia.com/gpu"],
    )
    productLabel: LabelKey | None = Field(  # noqa: N815
        None,
        description="Node label with the product's name, as the vendor's feature discovery writes it.",
        examples=["nvidia.com/gpu.product"],
    )
    share: VendorShare | None = Field(
        None,
        description="Resources by which the `sharing` system hands out shares of the cards. Default: the built-in ones "
        "of the resource, if it is known.",
        examples=[{"memory": "example.com/gpu-memory", "cores": "example.com/gpu-cores"}],
    )


class GpuBlock(Block):
    """GPUs of the platform."""

    default: DnsLabel | None = Field(
        None,
        description="Vendor of jobs and quotas that name none. Default: nvidia.",
        examples=["ascend"],
    )
    vendors: Annotated[dict[DnsLabel, Vendor], UserKeys()] = Field(
        default_factory=empty_dict,
        description="Vendors in addition to the built-in nvidia, amd, ascend, intel, cambricon, hygon, mthreads, "
        "iluvatar, metax, kunlunxin, enflame, biren and vastai, or in place of them. A vendor only affects jobs that "
        "name it, unless it is the `default`.",
        examples=[{"nvidia": {"resource": "nvidia.com/gpu"}}],
    )
    types: Annotated[
        dict[RequiredLabelValue, Annotated[dict[LabelKey, LabelValue | list[LabelValue]], UserKeys()]], UserKeys()
    ] = Field(
        default_factory=empty_dict,
        description="GPU type -> node labels, for clusters with feature discovery's labels instead of gpuctl's.",
        examples=[{"A100-80G": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}}],
    )
    profiles: Annotated[dict[RequiredLabelValue, list[GpuProfile]], UserKeys()] = Field(
        default_factory=empty_dict,
        description="GPU type -> MIG profiles, in place of the built-in table (A30, A100, H100, H20, H200, B200, B300, "
        "GB200, GB300, RTX PRO 6000), which recognises a type by its name. Quotas with `gpu` limit the profiles listed "
        "here to 0, unless `gpu-profiles` has a number for them.",
        examples=[{"A100-80G": ["1g.10gb", "3g.40gb"]}],
    )
    allocation: Literal["device-plugin", "dra"] = Field(
        "device-plugin",
        description="How pods get their GPUs. `device-plugin`: as an extended resource such as `nvidia.com/gpu`. "
        "`dra`: by a claim for devices of a driver (Dynamic Resource Allocation), from a ResourceClaimTemplate. It "
        "needs `kubernetes.version` 1.34 or newer.",
        examples=["dra"],
    )
    classes: Annotated[dict[DnsLabel, ObjectName], UserKeys()] = Field(
        default_factory=empty_dict,
        description="Vendor -> DeviceClass of its whole cards, with `allocation: dra`. Built in: nvidia -> "
        "`gpu.nvidia.com`, amd -> `gpu.amd.com`, intel -> `gpu.intel.com`.",
        examples=[{"nvidia": "gpu.nvidia.com"}],
    )
    profileClass: ObjectName | None = Field(  # noqa: N815
        None,
        description="DeviceClass of MIG slices (`gpu-profile`), with `allocation: dra`. It has the slices of all "
        "profiles: claims select one by the attribute `profile` of NVIDIA's driver. Default: `mig.nvidia.com`.",
        examples=["mig.nvidia.com"],
    )
    products: Annotated[dict[RequiredLabelValue, Annotated[list[NonEmpty], Field(min_length=1)]], UserKeys()] = Field(
        default_factory=empty_dict,
        description="GPU type -> product names that the driver reports (`productName` in ResourceSlices; Intel's: "
        "`model`), with `allocation: dra`. Claims then select cards by name, and of several types the first with "
        "enough free cards. Types that are not listed are selected by labels of nodes.",
        examples=[{"A100-80G": ["NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe"]}],
    )
    sharing: Literal["none", "hami", "volcano"] = Field(
        "none",
        description="System that enforces `gpu-share`, and whose resources jobs request. With `hami`, whole cards have "
        "its names, too, such as `hygon.com/dcunum`; with `volcano`, those of Ascend.",
        examples=["hami"],
    )


class TrainingBlock(Block):
    """Settings of trainings."""

    backend: Literal["job", "jobset"] = Field(
        "job",
        description="`jobset` needs the JobSet controller in the cluster, and restarts all nodes of a training "
        "together.",
        examples=["jobset"],
    )
    queue: Annotated[dict[DnsLabel, RequiredLabelValue], UserKeys()] = Field(
        default_factory=empty_dict,
        description="Pool -> Kueue LocalQueue; adds the label `kueue.x-k8s.io/queue-name` to the pool's trainings.",
        examples=[{"training-pool": "research"}],
    )


class QueueSettings(Block):
    """Settings of jobs in Kueue queues."""

    priority: Literal["pod", "workload"] = Field(
        "pod",
        description="Priority of a job in its queue. `pod`: the value of its PriorityClass. `workload`: a "
        "WorkloadPriorityClass of the same name and value, which an administrator can give another value.",
        examples=["workload"],
    )


class InferenceBlock(Block):
    """Settings of inferences."""

    backend: Literal["deployment", "lws"] = Field(
        "deployment",
        description="`lws` needs the LeaderWorkerSet controller in the cluster, and allows `resources.nodes` of more "
        "than 1: a LeaderWorkerSet runs the pods of each replica and restarts them together. An inference on one node "
        "is a Deployment either way.",
        examples=["lws"],
    )


class ExternalPool(Block):
    """A pool declared elsewhere, for checks of repositories that contain only jobs."""

    name: DnsLabel = Field(description="Name of the pool.", examples=["training-pool"])
    gpu_types: list[RequiredLabelValue] = Field(
        default_factory=empty_list, alias="gpu-types", description="GPU types of its nodes.", examples=[["A100-80G"]]
    )
    podPatch: Free | None = Field(  # noqa: N815
        None,
        description="Partial PodSpec merged into every pod of the pool, after the one of `defaults` and before the "
        "job's own.",
        examples=[{"tolerations": [{"key": "dedicated", "operator": "Exists"}]}],
    )


class QuotaDefaults(Block):
    """Requests that a LimitRange sets for containers without any."""

    cpu: PositiveQuantity = Field("1", description="Default CPU request.", examples=["1"])
    memory: Memory = Field("2Gi", description="Default memory request.", examples=["2Gi"])


class QuotaSettings(Block):
    """Settings of quotas."""

    backend: Literal["resourcequota", "kueue"] = Field(
        "resourcequota",
        description="Object that limits a user. `resourcequota`: Kubernetes rejects pods beyond the limit. `kueue`: a "
        "Kueue ClusterQueue and the LocalQueue `default`, in which every job of the namespace waits for room. It needs "
        "Kueue in the cluster.",
        examples=["kueue"],
    )
    defaultRequest: QuotaDefaults = Field(  # noqa: N815
        default_factory=QuotaDefaults.model_construct,
        description="Requests of containers that name none; a quota rejects pods without requests.",
    )


class ServiceDefaults(Block):
    """Settings of services."""

    type: ServiceType = Field("NodePort", description="Service type of jobs that name none.", examples=["ClusterIP"])


class StorageDefault(Block):
    """Source of workdirs that name none."""

    pvc: ClaimSource | None = Field(
        None, description="A claim; the workdir's path becomes the directory inside it.", examples=[{"claim": "shared"}]
    )
    nfs: NfsSource | None = Field(
        None,
        description="An NFS export; the workdir's path is appended to it.",
        examples=[{"server": "nfs.example.com", "path": "/exports"}],
    )


class StorageSettings(Block):
    """Settings of storage."""

    default: StorageDefault | None = Field(
        None, description="Source of workdirs that name none. Default: the node's disk (hostPath)."
    )


AllowOrDeny = Literal["allow", "deny"]


class Requirements(Block):
    """Settings that every container must have."""

    runAsNonRoot: Boolean = Field(  # noqa: N815
        False,
        description="Every container has a user other than root (`security.user`), or `runAsNonRoot`, with which the "
        "kubelet checks the image's user.",
        examples=[True],
    )
    limits: list[LabelKey] = Field(
        default_factory=empty_list,
        description="Resources of which every container has a limit. The containers of `init` and `sidecars` count.",
        examples=[["cpu", "memory"]],
    )


class PolicyBlock(Block):
    """Limits on the pods of documents. Each is checked on the final pod, whichever field or patch caused it."""

    privileged: AllowOrDeny = Field(
        "allow",
        description="Privileged containers. They can read the whole node, whatever `hostPaths` allows.",
        examples=["deny"],
    )
    hostNetwork: AllowOrDeny = Field(  # noqa: N815
        "allow",
        description="Pods in the network of their node, and ports of the node (`hostPort`) in patches.",
        examples=["deny"],
    )
    hostPID: AllowOrDeny = Field(  # noqa: N815
        "allow", description="Pods that see the processes of their node.", examples=["deny"]
    )
    hostIPC: AllowOrDeny = Field(  # noqa: N815
        "allow", description="Pods that share memory with processes of their node.", examples=["deny"]
    )
    capabilities: list[Capability] | None = Field(
        None,
        description="Capabilities that containers may add. Default: all. Privileged containers, which have every one, "
        "are then denied.",
        examples=[["IPC_LOCK"]],
    )
    require: Requirements = Field(
        default_factory=Requirements.model_construct, description="Settings that every container must have."
    )
    podPatch: Literal["allow", "warn", "deny"] = Field(  # noqa: N815
        "allow",
        description="A `podPatch` in documents: allowed, a warning, or an error. Those of the platform are allowed.",
        examples=["warn"],
    )

    hostPaths: list[AbsolutePath] | None = Field(  # noqa: N815
        None,
        description="Paths of the nodes that jobs may mount in `storage.workdirs` and in `podPatch`, each "
        "with everything below it; `[]` allows none. Default: all but system directories and sockets. Mounts in the "
        "platform's own patches are always allowed.",
        examples=[["/data", "/models"]],
    )


class ImageSettings(Block):
    """Settings of images."""

    registries: list[NonEmpty] = Field(
        default_factory=empty_list,
        description="Allowed sources of images, including those of a podPatch: registries, directories in "
        "registries, or "
        "repositories. Empty allows all.",
        examples=[["registry.example.com/"]],
    )
    pullSecret: ObjectName | None = Field(  # noqa: N815
        None, description="Pull secret of jobs that name none.", examples=["registry-login"]
    )


class CodeSettings(Block):
    """Settings of `code`."""

    image: Image = Field(
        DEFAULT_CODE_IMAGE,
        description="Image that fetches and unpacks the code of jobs. It needs `sh`, `tar`, git, and `ssh` for "
        "repositories over ssh.",
        examples=["registry.example.com/tools/git:2.47"],
    )
    secrets: Annotated[dict[Server, ObjectName], UserKeys()] = Field(
        default_factory=empty_dict,
        description="Host -> Secret with the login for its repositories, for jobs without `code.secret`. The Secret is "
        "that of the job's namespace.",
        examples=[{"git.example.com": "git-login"}],
    )


class PriorityLevel(Block):
    """One priority and its PriorityClass."""

    className: ObjectName | None = Field(  # noqa: N815
        None, description="Name of the PriorityClass.", examples=["team-urgent"]
    )
    value: Annotated[Integer, Field(le=1000000000)] | None = Field(None, description="Its value.", examples=[750000])
    preemption: Boolean | None = Field(
        None, description="If true, its pods may preempt less urgent ones.", examples=[True]
    )


class Priorities(Block):
    """The three priorities."""

    high: PriorityLevel = Field(
        default_factory=PriorityLevel.model_construct, description="gpuctl-high, 1000000, preempts."
    )
    medium: PriorityLevel = Field(
        default_factory=PriorityLevel.model_construct, description="gpuctl-medium, 500000, preempts."
    )
    low: PriorityLevel = Field(
        default_factory=PriorityLevel.model_construct, description="gpuctl-low, 100, never preempts."
    )


class MetricNames(Block):
    """Names of the pod metrics that the cluster's metrics adapter serves.

    deploy/prometheus-adapter/values.yaml contains the rules for the default ones.
    """

    gpu: NonEmpty = Field(
        "DCGM_FI_DEV_GPU_UTIL",
        description="GPU utilisation, percent, averaged over the pod's cards.",
        examples=["gpu_utilization"],
    )
    memory: NonEmpty = Field(
        "gpu_memory_used_percent",
        description="GPU memory in use, percent: FB_USED / (FB_USED + FB_FREE) of dcgm-exporter. No "
        "exporter provides it; "
        "a rule of the adapter computes it (deploy/prometheus-adapter/values.yaml).",
        examples=["gpu_memory_used_percent"],
    )
    queue: NonEmpty = Field(
        "vllm:num_requests_waiting", description="Waiting requests of a pod.", examples=["vllm:num_requests_waiting"]
    )


class AutoscalingSettings(Block):
    """Settings of autoscaling."""

    metrics: MetricNames = Field(
        default_factory=MetricNames.model_construct, description="Names of the gpu, memory and queue metrics."
    )
    keda: Boolean = Field(
        False,
        description="If true, the cluster has KEDA, which `autoscaling.metric.query` needs, with `prometheus`.",
        examples=[True],
    )
    scaleToZero: Boolean = Field(  # noqa: N815
        False,
        description="If true, the cluster has the feature gate HPAScaleToZero, which `minReplicas: 0` with an "
        "`external` metric needs.",
        examples=[True],
    )


class KindDefaults(Block):
    """Partial documents, one per kind, with the defaults of that kind."""

    training: Annotated[dict[str, Any], Partial("training")] | None = Field(
        None, description="Defaults of trainings.", examples=[{"job": {"ttl": "7d"}}]
    )
    inference: Annotated[dict[str, Any], Partial("inference")] | None = Field(
        None, description="Defaults of inferences."
    )
    notebook: Annotated[dict[str, Any], Partial("notebook")] | None = Field(None, description="Defaults of notebooks.")
    compute: Annotated[dict[str, Any], Partial("compute")] | None = Field(
        None, description="Defaults of compute services."
    )


class PriceChange(Block):
    """New prices from a date on."""

    start: Date = Field(
        alias="from",
        description="First day of the new prices. They count from its midnight in `timeZone`, or from the first whole "
        "hour (UTC) after it.",
        examples=["2026-10-01"],
    )
    models: Annotated[dict[RequiredLabelValue, Number], UserKeys()] = Field(
        description="GPU type -> price of one GPU for one hour. Types that are left out keep their price.",
        examples=[{"A100-80G": 11}],
    )


class UsagePrices(Block):
    """Prices of GPUs, for usage reports."""

    currency: NonEmpty | None = Field(None, description="Currency of the prices, as reports show it.", examples=["CNY"])
    models: Annotated[dict[RequiredLabelValue, Number], UserKeys()] = Field(
        default_factory=empty_dict,
        description="GPU type -> price of one GPU for one hour. The cost of a type without a price is unknown, not 0.",
        examples=[{"A100-80G": 12.5}],
    )
    changes: list[PriceChange] = Field(
        default_factory=empty_list,
        description="Later prices, earliest first. The cost of a period with a change is the sum of its parts.",
        examples=[[{"from": "2026-10-01", "models": {"A100-80G": 11}}]],
    )
    timeZone: TimeZone = Field(  # noqa: N815
        "UTC", description="Time zone of the dates in `changes`.", examples=["Asia/Shanghai"]
    )

    @model_validator(mode="after")
    def _changes_ascend(self) -> "UsagePrices":
        for number, (one, other) in enumerate(pairwise(self.changes), 1):
            if other.start <= one.start:
                wrong = f"`{other.start}` is not later than `{one.start}` of the change before it"
                hint = "sort the changes by date, and give each date once"
                raise field_error("GPU213", wrong, hint, ("changes", number, "from"))
        return self


class UsageIdle(Block):
    """Handling of jobs with idle GPUs. Without this block they are ignored."""

    after: PositiveDuration = Field(
        "2h",
        description="Time that a job must be idle without a break, with measurements for all of it.",
        examples=["2h"],
    )
    below: Percentage = Field("5%", description="An hour with a lower mean utilization is idle.", examples=["5%"])
    then: Literal["warn", "pause"] = Field(
        "warn", description="Warn the owner by an event on the job, or pause the job.", examples=["warn"]
    )
    exceptions: list[LabelKey] = Field(
        default_factory=empty_list,
        alias="except",
        description="Jobs with one of these labels are ignored. Every user who may write a job can set them.",
        examples=[["example.com/keep-gpus"]],
    )


class PlatformUsage(Block):
    """Settings of GPU usage reports."""

    prices: UsagePrices = Field(
        default_factory=UsagePrices.model_construct,
        description="Prices of GPUs, for `gpuctl usage waste` and `gpuctl usage report`.",
    )
    idle: UsageIdle | None = Field(
        None, description="Action of `gpuctl usage idle` on jobs with idle GPUs. Default: none."
    )


class ClusterIdentity(Block):
    """Properties that identify a cluster. All those given must match; give at least one."""

    server: ServerUrl | None = Field(
        None,
        description="Address of its API server, compared by scheme, host, port and path.",
        examples=["https://api.prod.example.com:6443"],
    )
    context: NonEmpty | None = Field(
        None,
        description="Context of the kubeconfig, which `--cluster` then selects. A name alone is weak evidence: another "
        "kubeconfig may use it for another cluster.",
        examples=["prod"],
    )
    uid: Uid | None = Field(
        None,
        description="UID of its namespace kube-system, unique for each cluster: `kubectl get namespace kube-system -o "
        "jsonpath={.metadata.uid}`. It is compared before anything else is read.",
        examples=["0b0a1f6e-5a3f-4c5e-9d53-3d1f0c1f8f3a"],
    )

    @model_validator(mode="after")
    def _is_recognised(self) -> "ClusterIdentity":
        if self.server is None and self.context is None and self.uid is None:
            raise field_error("GPU213", "the cluster cannot be identified", "give `server`, `context` or `uid`", ())
        return self


class IgnoredDrift(Block):
    """A difference that does not count as drift. All fields given must match; `path` or `manager` is required."""

    kind: DriftKind | None = Field(None, description="Kind of the object. Default: any.", examples=["Deployment"])
    path: NonEmpty | None = Field(
        None,
        description="Path of the field as `gpuctl drift -o json` prints it, or of one that contains it; `*` stands for "
        "any text.",
        examples=["spec.template.spec.containers[istio-proxy]"],
    )
    manager: NonEmpty | None = Field(
        None,
        description="Field manager that wrote it; `*` stands for any text. Every user who may change an object can use "
        "any name.",
        examples=["istio-*"],
    )

    @model_validator(mode="after")
    def _names_a_field(self) -> "IgnoredDrift":
        if self.path is None and self.manager is None:
            raise field_error("GPU213", "this would ignore every difference", "give `path` or `manager`", ())
        return self


class DriftSettings(Block):
    """Settings of `gpuctl drift`."""

    ignore: list[IgnoredDrift] = Field(
        default_factory=empty_list,
        description="Differences to list as expected. Always expected are the annotation of `kubectl rollout restart`, "
        "and containers and labels that admission adds to every new object.",
        examples=[[{"path": "spec.template.spec.containers[istio-proxy]", "manager": "istio-*"}]],
    )


class PlatformDocument(Block):
    """Settings of a platform. Every field is optional; the defaults are the behaviour without a platform."""

    kind: Literal["platform"] = Field("platform", description="The kind of document.")
    version: Version = Field("v0.1", description="Version of the language.", examples=["v0.1"])
    labels: LabelsBlock = Field(default_factory=LabelsBlock.model_construct, description="Labels.")
    kubernetes: KubernetesBlock = Field(
        default_factory=KubernetesBlock.model_construct, description="Target Kubernetes version of the output."
    )
    clusters: Annotated[dict[DnsLabel, ClusterIdentity], UserKeys()] = Field(
        default_factory=empty_dict,
        description="Clusters by name, for `--cluster NAME`: commands then refuse to work on any other cluster.",
        examples=[{"prod": {"server": "https://api.prod.example.com:6443", "context": "prod"}}],
    )
    gpu: GpuBlock = Field(default_factory=GpuBlock.model_construct, description="GPUs of the platform.")
    training: TrainingBlock = Field(default_factory=TrainingBlock.model_construct, description="Settings of trainings.")
    queues: QueueSettings = Field(
        default_factory=QueueSettings.model_construct, description="Settings of jobs in Kueue queues."
    )
    inference: InferenceBlock = Field(
        default_factory=InferenceBlock.model_construct, description="Settings of inferences."
    )
    pools: list[ExternalPool] = Field(
        default_factory=empty_list,
        description="Pools that are declared elsewhere.",
        examples=[[{"name": "training-pool", "gpu-types": ["A100-80G"]}]],
    )
    strategy: Literal["replace", "rolling"] = Field(
        "replace", description="How `apply` changes running services.", examples=["rolling"]
    )
    drift: DriftSettings = Field(
        default_factory=DriftSettings.model_construct, description="Settings of `gpuctl drift`."
    )
    gitops: Literal["argocd", "flux"] | None = Field(
        None,
        description="Controller that applies the manifests in git: the default of `--gitops` of `gpuctl build` and "
        "`gpuctl impact`.",
        examples=["argocd"],
    )
    prometheus: NonEmpty | None = Field(
        None, description="URL of the Prometheus that has GPU metrics.", examples=["http://prometheus.monitoring:9090"]
    )
    prices: Annotated[dict[DnsLabel, Number], UserKeys()] = Field(
        default_factory=empty_dict,
        description="Pool -> price of one GPU for one hour.",
        examples=[{"training-pool": 12.5}],
    )
    usage: PlatformUsage = Field(
        default_factory=PlatformUsage.model_construct, description="Settings of GPU usage reports."
    )
    quota: QuotaSettings = Field(default_factory=QuotaSettings.model_construct, description="Settings of quotas.")
    service: ServiceDefaults = Field(
        default_factory=ServiceDefaults.model_construct, description="Settings of services."
    )
    routes: RouteSettings | None = Field(
        None,
        description="Controller of `service.route`. Default: none, so that services cannot have routes.",
        examples=[{"gateway": "infra/public", "tls": True}],
    )
    spot: SpotSettings | None = Field(
        None,
        description="Spot nodes, for jobs with `resources.spot`. Default: none.",
        examples=[{"labels": {"cloud.google.com/gke-spot": "true"}, "taint": "cloud.google.com/gke-spot"}],
    )
    network: NetworkSettings = Field(
        default_factory=NetworkSettings.model_construct, description="Networks of the nodes."
    )
    storage: StorageSettings = Field(
        default_factory=StorageSettings.model_construct, description="Settings of storage."
    )
    policy: PolicyBlock = Field(
        default_factory=PolicyBlock.model_construct, description="Limits on the pods of documents."
    )
    notify: NotifySettings = Field(
        default_factory=NotifySettings.model_construct, description="Channels of notifications (`job.notify`)."
    )
    topology: TopologySettings = Field(
        default_factory=TopologySettings.model_construct, description="Topology of the nodes."
    )
    code: CodeSettings = Field(default_factory=CodeSettings.model_construct, description="Settings of `code`.")
    image: ImageSettings = Field(default_factory=ImageSettings.model_construct, description="Settings of images.")
    defaults: KindDefaults = Field(
        default_factory=KindDefaults.model_construct,
        description="Default values for documents, by kind; a document's own value takes precedence. A "
        "podPatch is merged "
        "into every pod of the kind, before those of the pool and the job.",
    )
    priorities: Priorities = Field(default_factory=Priorities.model_construct, description="The three priorities.")
    autoscaling: AutoscalingSettings = Field(
        default_factory=AutoscalingSettings.model_construct, description="Settings of autoscaling."
    )
