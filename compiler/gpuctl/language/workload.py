"""The ``job:`` block that every workload has, and the document that every workload is."""

from typing import Annotated, Literal

from pydantic import Field

from gpuctl.language.checkpoint_block import Checkpoint
from gpuctl.language.environment_block import Environment
from gpuctl.language.fields import Block, DnsLabel, Free, JobName, LabelKey, LabelValue, Text, UserKeys, empty_dict
from gpuctl.language.placement_block import Placement
from gpuctl.language.resources_block import Resources
from gpuctl.language.storage_block import Storage

PriorityName = Literal["high", "medium", "low"]
Version = Literal["v0.1"]

# Written by the platform; a user's value would break selectors or the reading of objects back into documents.
RESERVED_PREFIXES = ("app.kubernetes.io/", "applyset.kubernetes.io/", "batch.kubernetes.io/", "jobset.sigs.k8s.io/")
RESERVED_LABELS = frozenset({"app", "job-name", "controller-uid", "pod-template-hash", "controller-revision-hash"})


class JobBlock(Block):
    """Who the job is: its name, where it lives, how urgent it is."""

    name: JobName = Field(
        description="Name of the job, and of its Kubernetes objects. A DNS-1035 label: lower-case letters, digits and "
        "`-`, starting with a letter. The longest that works: training 63, training on several nodes 62 minus "
        "the digits of nodes-1, JobSet 40, inference and compute 59, notebook 52.",
        examples=["qwen2-7b-sft"],
    )
    namespace: DnsLabel | None = Field(
        None,
        description="Kubernetes namespace. Default: the `-n` option, else `default`.",
        examples=["team-nlp"],
    )
    priority: PriorityName = Field(
        "medium",
        description="Scheduling priority: the PriorityClass `gpuctl-high`, `gpuctl-medium` or `gpuctl-low`. High and "
        "medium may evict lower ones to get their GPUs; low never does.",
        examples=["high"],
    )
    description: Text | None = Field(
        None, description="Free text about the job; kept as an annotation.", examples=["Nightly fine-tuning"]
    )
    labels: Annotated[dict[LabelKey, LabelValue], UserKeys()] = Field(
        default_factory=empty_dict,
        description="Labels added to the workload and its pods. The platform's own keys are refused.",
        examples=[{"team": "nlp"}],
    )
    annotations: Annotated[dict[LabelKey, Text], UserKeys()] = Field(
        default_factory=empty_dict,
        description="Annotations added to the workload and its pods. The platform's own keys are refused.",
        examples=[{"example.com/owner": "zhang@example.com"}],
    )
    checkpoint: Checkpoint | None = Field(
        None,
        description="How the job saves its progress: run in its pods before gpuctl replaces, pauses or deletes it "
        "while it runs. What Kubernetes ends by itself (evictions, nodes that are lost, Kueue) gets SIGTERM and the "
        "grace period alone.",
        examples=[{"command": ["python", "save.py"], "timeout": "5m"}],
    )


class Workload(Block):
    """What training, inference, notebook and compute documents share."""

    version: Version = Field("v0.1", description="Version of the language.", examples=["v0.1"])
    job: JobBlock = Field(description="Who the job is.")
    environment: Environment = Field(description="What runs: image, command and variables.")
    resources: Resources = Field(default_factory=Resources, description="What each pod gets, and from which pool.")
    storage: Storage = Field(default_factory=Storage, description="What is mounted into the container.")
    placement: Placement | None = Field(
        None,
        description="On which clusters it belongs. Default: on those that `--cluster` names.",
        examples=[{"clusters": ["prod"]}],
    )
    podPatch: Free | None = Field(  # noqa: N815 - the language's own spelling
        None,
        description="The escape hatch: a partial Kubernetes PodSpec merged into the pod last, after the platform's for "
        "the kind and the pool's (containers, volumes and env by name). Strictly validated, and so is the pod that "
        "comes out; it cannot change names, GPUs or the platform's labels.",
        examples=[{"hostIPC": True, "containers": [{"name": "main", "securityContext": {"privileged": True}}]}],
    )
