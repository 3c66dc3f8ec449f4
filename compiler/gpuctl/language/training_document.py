"""``kind: training``: a job that runs to completion, on one node or several, once or at scheduled times."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gpuctl.language.amount_fields import Duration, PositiveDuration
from gpuctl.language.array_block import Array, ArraySize, Retries
from gpuctl.language.exclusions import Exclusion, one_of
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Cron, DnsLabel, JobName, Partial, Port, PositiveCount, empty_list
from gpuctl.language.names import RENDEZVOUS
from gpuctl.language.resources_block import TrainingResources
from gpuctl.language.role_block import Role, check_roles
from gpuctl.language.schedule_block import Schedule
from gpuctl.language.sentences import Template, say
from gpuctl.language.sweep_block import Membership, SweepValues
from gpuctl.language.workload import PROFILES, JobBlock, Workload

DEFAULT_MASTER_PORT = 29500


MOST_PREREQUISITES = 100
Prerequisites = (
    Annotated[list[JobName], Field(min_length=1, max_length=MOST_PREREQUISITES)]
    | Annotated[dict[JobName, Literal["ok", "any", "failed"]], Field(max_length=MOST_PREREQUISITES)]
)


class TrainingJob(JobBlock):
    """The job block of a training."""

    epochs: PositiveCount | None = Field(
        None, description="Number of epochs; the program reads it from GPUCTL_EPOCHS.", examples=[3]
    )
    batch_size: PositiveCount | None = Field(
        None,
        description="Batch size of one card; the program reads GPUCTL_BATCH_SIZE, and GPUCTL_GLOBAL_BATCH_SIZE = "
        "batch_size x "
        "GPUs x nodes. An elastic training has no such number: its program reads WORLD_SIZE.",
        examples=[8],
    )
    master_port: Port = Field(
        DEFAULT_MASTER_PORT,
        description="Rendezvous port of the nodes: MASTER_PORT in the pods. Trainings with `hostNetwork` that share a "
        "node need different ones.",
        examples=[29501],
    )
    retries: Retries = Field(
        0,
        description="How often a failed run is started again. On one node, preemption by a more urgent job does not "
        "count. In an elastic training it counts twice: torchrun restarts the program this often, and the Job replaces "
        "each pod this often, because a pod that only lost the rendezvous ends with the same exit code.",
        examples=[2],
    )
    max_runtime: PositiveDuration | None = Field(
        None,
        description="Maximum run time of one attempt, counted while its pod runs, not while it waits for GPUs.",
        examples=["12h"],
    )
    ttl: Duration | None = Field(
        None,
        description="Delete the finished job after this time. Default: never.",
        examples=["7d"],
    )
    after: Prerequisites | None = Field(
        None,
        description="Trainings, arrays and sweeps of the same namespace that must have ended before this one starts: a "
        "list of names, which must have succeeded, or a mapping of names to `ok`, `failed` or `any` (ended either "
        "way). The service, or `gpuctl apply --wait`, starts it. A prerequisite that fails, where it had to "
        "succeed, can be run again.",
        examples=[["prepare"], {"prepare": "ok", "evaluate": "any"}],
    )
    sweep: Membership | None = Field(
        None,
        description="The sweep that this job is part of, and its values there. gpuctl writes it into the jobs of a "
        "sweep.",
        examples=[{"name": "tune", "values": {"lr": "1e-5"}}],
    )

    @property
    def prerequisites(self) -> dict[str, str]:
        """The jobs to wait for and their conditions, with the short form expanded."""
        return dict.fromkeys(self.after, "ok") if isinstance(self.after, list) else dict(self.after or {})


class TrainingDocument(Workload):
    """A training run: becomes a batch/v1 Job, or a JobSet if the platform is set up for it."""

    exclusions = (
        Exclusion(
            "array",
            ("resources.nodes",),
            Template("the runs of an array are independent, and this training spans several nodes"),
            Template("remove `array`, or `resources.nodes`"),
            at="array",
        ),
        Exclusion("array", ("resources.topology",)),
        *one_of(
            "job.retries",
            "array.retries",
            message=Template("`job.retries` and `array.retries` both set how often a failed run is started again"),
        ),
        *one_of(
            "schedule",
            "job.after",
            message=Template("`after` starts a training once, and `schedule` at its times"),
            hint=Template("remove `job.after`, or `schedule`"),
        ),
        # A change of `roles` removes fields of `resources`, but no array and no schedule.
        *(
            Exclusion("roles", (field,), message, Template("remove `{second}`, or `roles`"), replaces="." in field)
            for field, message in (
                ("array", Template("the runs of an array are independent, and this training has roles")),
                ("schedule", Template("Kubernetes cannot schedule a JobSet, and this training has roles")),
                ("resources.nodes", Template("each role has its own `nodes`, and this training has roles")),
                ("resources.gpu-share", Template("`gpu-share` asks for part of a card, and this training has roles")),
            )
        ),
        *one_of(
            "resources.nodes",
            "resources.gpu-share",
            message=Template("`gpu-share` asks for part of a card, and this training spans several nodes"),
            hint=Template("remove `gpu-share`: distributed training needs whole cards"),
        ),
    )

    kind: Literal["training"] = Field(description="The kind of document.")
    job: TrainingJob = Field(description="Name, namespace, priority and options of the job.")
    resources: TrainingResources = Field(
        default_factory=TrainingResources,
        description="Resources of each pod, its pool, and the number of nodes.",
    )
    array: ArraySize | Array | None = Field(
        None,
        description="Run the program many times, each with an index of its own: the number of runs, or a block. The "
        "runs are independent: each has one pod, and starts when there is room for it.",
        examples=[100, {"size": 100, "parallelism": 8, "retries": 2}],
    )
    sweep: SweepValues | None = Field(
        None,
        description="One job for each combination of these values, at most 1,000, called NAME-0, NAME-1, ... in the "
        "order of the document; the last parameter varies fastest. `{{sweep.PARAMETER}}` in any text stands for the "
        "job's value, as written. `exclude` is a list of values: combinations that have all values of an entry are "
        "left out. `include` is a list of combinations to add at the end; without other parameters, it lists all "
        "jobs.",
        examples=[{"lr": ["1e-5", "2e-5"], "seed": [1, 2]}],
    )
    schedule: Cron | Schedule | None = Field(
        None,
        description="Run the training at these times: a cron expression, or a block. Each run is a Job with a name of "
        "its own, such as NAME-29384640; `gpuctl run NAME` starts one now.",
        examples=["0 2 * * *", {"cron": "0 2 * * *", "timezone": "Asia/Shanghai", "concurrency": "replace"}],
    )
    roles: Annotated[list[Role], Field(max_length=10)] = Field(
        default_factory=empty_list,
        description="Groups of nodes with programs of their own, such as the head and the workers of Ray, or trainer "
        "and rollout of reinforcement learning. Needs `training.backend: jobset` of the platform. All pods start, and "
        "after a failure restart (`job.retries`), together.",
        examples=[[{"name": "head"}, {"name": "worker", "nodes": 4, "resources": {"gpu": 8}}]],
    )
    primary: list[DnsLabel] = Field(
        default_factory=empty_list,
        description="Roles whose end is the end of the training: the pods of the other roles are then deleted. "
        "Default: all roles.",
        examples=[["head"]],
    )
    profiles: dict[DnsLabel, Annotated[dict[str, Any], Partial("training")]] = PROFILES

    def in_role(self, role: Role) -> "TrainingDocument":
        """Return the training as the pods of one role run it."""
        environment, resources = role.environment_in(self.environment), role.resources_in(self.resources)
        if resources.gpu == 0 and any(other.resources.gpu for other in self.roles):
            # The job's fields are about the cards of the other roles.
            resources = resources.model_copy(update={"gpu_profile": role.resources.gpu_profile, "gpu_memory": None})
        return self.model_copy(update={"environment": environment, "resources": resources})

    @property
    def parts(self) -> list["TrainingDocument"]:
        """The training as each of its roles runs it; without roles, the training itself."""
        return [self.in_role(role) for role in self.roles] or [self]

    @property
    def total_nodes(self) -> int:
        """The number of nodes of all roles together."""
        return sum(part.resources.max_nodes for part in self.parts)

    def is_jobset(self, backend: str) -> bool:
        """Return True if the training becomes a JobSet: roles, or a fixed number of several nodes.

        The pods of an elastic training are not restarted together, and a JobSet cannot change their number.

        :param backend: `training.backend` of the platform.
        """
        several = self.resources.max_nodes > 1 and self.resources.node_range is None
        return bool(self.roles) or (several and backend == "jobset")

    @property
    def array_block(self) -> Array | None:
        """The array, with the short form expanded."""
        return Array(size=self.array) if isinstance(self.array, int) else self.array

    @property
    def schedule_block(self) -> Schedule | None:
        """The schedule, with the short form expanded."""
        return Schedule(cron=self.schedule) if isinstance(self.schedule, str) else self.schedule

    @model_validator(mode="after")
    def _several_pods(self) -> "TrainingDocument":
        if self.resources.topology is not None and self.total_nodes == 1:
            message = say(
                "`topology` places the pods of several nodes close to each other, and this training has one node"
            )
            hint = say("remove `topology`, or write `nodes`")
            raise field_error("GPU213", message, hint, ("resources", "topology"))
        return self

    @model_validator(mode="after")
    def _known_roles(self) -> "TrainingDocument":
        check_roles(self.roles, self.primary)
        return self

    @model_validator(mode="after")
    def _own_ports(self) -> "TrainingDocument":
        for index, role in enumerate(self.roles):
            for place, port in enumerate(role.ports):
                if role.nodes > 1 and port.name == RENDEZVOUS and port.port != self.job.master_port:
                    message = say(
                        "`{name}` is the name of the port at which the nodes meet ({port}), too",
                        name=port.name,
                        port=self.job.master_port,
                    )
                    raise field_error("GPU218", message, say("rename it"), ("roles", index, "ports", place, "name"))
        return self
