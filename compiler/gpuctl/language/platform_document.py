"""``kind: platform``: the settings of a platform team, so that job documents stay short and portable."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gpuctl.language.amount_fields import Memory, PositiveQuantity
from gpuctl.language.autoscaling_settings import AutoscalingSettings
from gpuctl.language.drift_block import DriftSettings
from gpuctl.language.exclusions import one_of
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import (
    Block,
    Boolean,
    DnsLabel,
    Domain,
    Free,
    Image,
    Integer,
    NonEmpty,
    Number,
    ObjectName,
    Partial,
    RequiredLabelValue,
    Server,
    ServerUrl,
    Uid,
    empty_dict,
    empty_list,
)
from gpuctl.language.gpu_block import GpuBlock
from gpuctl.language.names import DEFAULT_CODE_IMAGE, DEFAULT_DOMAIN, DEFAULT_KUBERNETES
from gpuctl.language.network_block import NetworkSettings
from gpuctl.language.notify_block import NotifySettings
from gpuctl.language.policy_block import PolicyBlock
from gpuctl.language.route_blocks import RouteSettings
from gpuctl.language.sentences import say
from gpuctl.language.service_block import ServiceType
from gpuctl.language.spot_block import SpotSettings
from gpuctl.language.storage_block import ClaimSource, NfsSource
from gpuctl.language.topology_block import TopologySettings
from gpuctl.language.usage_block import PlatformUsage
from gpuctl.language.workload import Version


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
        DEFAULT_KUBERNETES,
        description="Minor version that output is validated against, 1.29 or newer.",
        examples=["1.33"],
    )


class TrainingBlock(Block):
    """Settings of trainings."""

    backend: Literal["job", "jobset"] = Field(
        "job",
        description="`jobset` needs the JobSet controller in the cluster, and restarts all nodes of a training "
        "together.",
        examples=["jobset"],
    )
    queue: dict[DnsLabel, RequiredLabelValue] = Field(
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

    exclusions = one_of("pvc", "nfs")

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
    secrets: dict[Server, ObjectName] = Field(
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
            raise field_error(
                "GPU213", say("the cluster cannot be identified"), say("give `server`, `context` or `uid`"), ()
            )
        return self


class PlatformDocument(Block):
    """Settings of a platform. Every field is optional; the defaults are the behaviour without a platform."""

    kind: Literal["platform"] = Field("platform", description="The kind of document.")
    version: Version = Field("v0.1", description="Version of the language.", examples=["v0.1"])
    labels: LabelsBlock = Field(default_factory=LabelsBlock.model_construct, description="Labels.")
    kubernetes: KubernetesBlock = Field(
        default_factory=KubernetesBlock.model_construct, description="Target Kubernetes version of the output."
    )
    clusters: dict[DnsLabel, ClusterIdentity] = Field(
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
    prices: dict[DnsLabel, Number] = Field(
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
