"""The ``job:`` block of every workload, and the fields that all workload documents share."""

from typing import Literal

from pydantic import Field, model_validator

from gpuctl.language.amount_fields import Duration
from gpuctl.language.checkpoint_block import Checkpoint
from gpuctl.language.code_block import Code
from gpuctl.language.environment_block import Environment
from gpuctl.language.exclusion_checks import refuse_exclusions
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import (
    Block,
    DnsLabel,
    Free,
    JobName,
    LabelKey,
    LabelValue,
    Text,
    empty_dict,
    empty_list,
)
from gpuctl.language.helper_block import HelperContainer
from gpuctl.language.names import CODE_CONTAINER, MAIN_CONTAINER
from gpuctl.language.notify_block import Notify
from gpuctl.language.placement_block import Placement
from gpuctl.language.resources_block import Resources
from gpuctl.language.security_block import Security
from gpuctl.language.sentences import say
from gpuctl.language.storage_block import Storage
from gpuctl.objects.durations import parse_duration

PriorityName = Literal["high", "medium", "low"]
Version = Literal["v0.1"]

# Written by gpuctl or Kubernetes. A user's value would break selectors or the lifting of objects back to documents.
RESERVED_PREFIXES = (
    "app.kubernetes.io/",
    "applyset.kubernetes.io/",
    "batch.kubernetes.io/",
    "gpuctl/",
    "jobset.sigs.k8s.io/",
    "leaderworkerset.sigs.k8s.io/",
)
RESERVED_LABELS = frozenset({"app", "job-name", "controller-uid", "pod-template-hash", "controller-revision-hash"})

TEMPLATED_BLOCKS = (
    "job",
    "model",
    "environment",
    "resources",
    "storage",
    "init",
    "sidecars",
    "roles",
    "service",
    "autoscaling",
    "podPatch",
)
"""Blocks whose strings may contain templates such as ``{{job.name}}``."""
UNTEMPLATED_FIELDS = (("job", "name"), ("job", "namespace"))
"""Fields in these blocks that identify a job, so their templates are never expanded."""


class Hooks(Block):
    """Commands that Kubernetes runs in a pod before it ends it."""

    stop: list[Text] = Field(
        default_factory=empty_list,
        description="Program and arguments, run in the container before SIGTERM, whenever a pod is ended: deletion, "
        "preemption, eviction, drained nodes. Its time is part of `job.grace`. It is not run when the program ends by "
        "itself, or when its node is lost.",
        examples=[["python", "save.py"]],
    )

    @model_validator(mode="after")
    def _program(self) -> "Hooks":
        if self.stop and not self.stop[0].strip():
            raise field_error("GPU205", say("the command has an empty program"), say("name one"), ("stop", 0))
        return self


class JobBlock(Block):
    """Name, namespace, priority, labels and checkpoint of the job."""

    name: JobName = Field(
        description="Name of the job, and of its Kubernetes objects. A DNS-1035 label: lower-case letters, digits and "
        "`-`, starting with a letter. The longest that works: training 63, training on several nodes 62 minus "
        "the digits of nodes-1, JobSet 40, inference and compute 59, inference on several nodes 51 minus "
        "the digits of replicas-1, notebook 52.",
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
        "medium may preempt lower ones to get their GPUs; low never does.",
        examples=["high"],
    )
    description: Text | None = Field(
        None, description="Free text about the job; kept as an annotation.", examples=["Nightly fine-tuning"]
    )
    labels: dict[LabelKey, LabelValue] = Field(
        default_factory=empty_dict,
        description="Labels added to the workload and its pods. Keys reserved for the platform are rejected.",
        examples=[{"team": "nlp"}],
    )
    annotations: dict[LabelKey, Text] = Field(
        default_factory=empty_dict,
        description="Annotations added to the workload and its pods. Keys reserved for the platform are rejected.",
        examples=[{"example.com/owner": "zhang@example.com"}],
    )
    checkpoint: Checkpoint | None = Field(
        None,
        description="Command or signal that saves the job's progress. gpuctl uses it before it replaces, pauses or "
        "deletes the running job. When Kubernetes ends the pods (evictions, lost nodes, Kueue), they only get "
        "SIGTERM and the grace period.",
        examples=[{"command": ["python", "save.py"], "timeout": "5m"}],
    )
    grace: Duration | None = Field(
        None,
        description="Time between SIGTERM and SIGKILL, including `job.on.stop`. Default: Kubernetes' 30s.",
        examples=["2m"],
    )
    on: Hooks | None = Field(
        None,
        description="Commands to run before Kubernetes ends a pod.",
        examples=[{"stop": ["python", "save.py"]}],
    )
    notify: Notify | None = Field(
        None,
        description="Events that the service of gpuctl reports to channels of the platform, such as a chat group. A "
        "change restarts nothing.",
        examples=[{"waiting": "2h"}],
    )


PROFILES = Field(
    default_factory=empty_dict,
    description="Partial documents by name. `--profile NAME` merges one into the document first: mappings are merged, "
    "variables by name; any other value is replaced. A profile cannot change `kind` and `job.name`.",
    examples=[{"prod": {"job": {"namespace": "prod", "priority": "high"}}}],
)


class Workload(Block):
    """Fields shared by training, inference, notebook and compute documents."""

    version: Version = Field("v0.1", description="Version of the language.", examples=["v0.1"])
    job: JobBlock = Field(description="Name, namespace, priority and options of the job.")
    environment: Environment = Field(description="Image, command and variables of the container.")
    code: Code | None = Field(
        None,
        description="Source code for the program, so that a change of the code needs no new image.",
        examples=[{"git": "https://git.example.com/nlp/train.git", "ref": "5f1c0a4b7de2938161b0e3a7c5d2f49e8b6a0c13"}],
    )
    resources: Resources = Field(default_factory=Resources, description="Resources of each pod, and its pool.")
    storage: Storage = Field(default_factory=Storage, description="Volumes mounted into the container.")
    init: list[HelperContainer] = Field(
        default_factory=empty_list,
        description="Containers that run before the program, one after another. If one fails, the attempt of a "
        "training has failed (`job.retries`), and a service runs it again.",
        examples=[[{"name": "fetch", "command": ["python", "fetch.py"]}]],
    )
    sidecars: list[HelperContainer] = Field(
        default_factory=empty_list,
        description="Containers that run beside the program, started before it and after `init`. They end with the "
        "program, so that a training can finish.",
        examples=[[{"name": "sync", "image": "registry.example.com/tools/sync:1.0"}]],
    )
    security: Security | None = Field(
        None, description="Users, groups and privileges of the pod.", examples=[{"user": 1000, "fsGroup": 100}]
    )
    placement: Placement | None = Field(
        None,
        description="Clusters of the document. Default: every cluster.",
        examples=[{"clusters": ["prod"]}],
    )
    podPatch: Free | None = Field(  # noqa: N815 - the language's own spelling
        None,
        description="A partial Kubernetes PodSpec for settings that the language does not cover. It is merged into the "
        "pod last, after the platform's patches for the kind and the pool (containers, volumes and env by "
        "name). The patch and the merged pod are validated strictly. It cannot change names, GPUs or the "
        "platform's labels.",
        examples=[{"hostIPC": True, "containers": [{"name": "main", "securityContext": {"privileged": True}}]}],
    )

    @model_validator(mode="after")
    def _exclusive_fields(self) -> "Workload":
        drain = getattr(getattr(self, "service", None), "drain", None)
        refuse_exclusions(self, seconds=parse_duration(drain or "0s"))
        return self

    @model_validator(mode="after")
    def _unique_containers(self) -> "Workload":
        seen = {MAIN_CONTAINER: say("the program's container")}
        if self.code is not None:
            seen[CODE_CONTAINER] = say("the container that fetches the code")
        for field in ("init", "sidecars"):
            for index, helper in enumerate(getattr(self, field)):
                if helper.name in seen:
                    message = say("`{name}` is the name of {other}, too", name=helper.name, other=seen[helper.name])
                    raise field_error("GPU218", message, say("rename one"), (field, index, "name"))
                seen[helper.name] = say("another container")
        return self

    @property
    def helpers(self) -> list[tuple[tuple[str, int], HelperContainer]]:
        """The containers beside the program in the order in which they start, each with its place in the document."""
        return [
            ((field, index), helper)
            for field in ("init", "sidecars")
            for index, helper in enumerate(getattr(self, field))
        ]
