"""The ``roles:`` list of a training: groups of nodes, each with a program of its own."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, model_validator

from gpuctl.language.amount_fields import Memory, PositiveQuantity
from gpuctl.language.environment_block import (
    Environment,
    EnvVar,
    VariableSource,
    as_entries,
    refuse_repeated_names,
)
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import (
    Block,
    Boolean,
    Count,
    DnsLabel,
    EnvName,
    GpuProfile,
    Image,
    Port,
    PortName,
    PositiveCount,
    Text,
    empty_list,
)
from gpuctl.language.names import shortened
from gpuctl.language.network_block import Network
from gpuctl.language.resources_block import GpuType, TrainingResources
from gpuctl.language.sentences import Sentence, say

MOST_NODES = 1000
"""Maximum number of nodes of all roles together: GPUCTL_ROLE_HOSTS lists them in one variable of at most 128 KiB."""
LONGEST_ROLE_NAME = 20
"""Maximum number of characters of a role's name, which is part of its pods' names."""


class RolePort(Block):
    """A port on which the program of a role listens."""

    name: PortName = Field(description="Name of the port, unique in the role.", examples=["gcs"])
    port: Port = Field(description="Number of the port.", examples=[6379])


class RoleResources(Block):
    """Resources of each pod of a role. Fields that are not set are those of `resources`."""

    pool: DnsLabel | None = Field(
        None,
        description="Pool whose nodes the role runs on: its pods count in that pool, and against its limits. The job "
        "stays in one queue; if the platform's `training.queue` differs between the pools, name it in "
        "`resources.queue`. Default: `resources.pool`.",
        examples=["cpu-pool"],
    )
    gpu: Count | None = Field(None, description="GPUs of each pod. Default: `resources.gpu`.", examples=[8])
    gpu_type: GpuType | None = Field(
        None,
        alias="gpu-type",
        description="GPU model of each pod, spelled as the pool's nodes declare it, or a list of them in order of "
        "preference. Default: `resources.gpu-type`.",
        examples=["L40S-48G"],
    )
    gpu_profile: GpuProfile | None = Field(
        None,
        alias="gpu-profile",
        description="MIG profile: each of the `gpu` is a slice of a card, and not a whole card. Default: "
        "`resources.gpu-profile`.",
        examples=["1g.10gb"],
    )
    gpu_vendor: DnsLabel | None = Field(
        None, alias="gpu-vendor", description="GPU vendor. Default: `resources.gpu-vendor`.", examples=["amd"]
    )
    cpu: PositiveQuantity | None = Field(
        None, description="CPU cores. Default: `resources.cpu`. Request and limit.", examples=["16"]
    )
    memory: Memory | None = Field(
        None, description="Memory. Default: `resources.memory`. Request and limit.", examples=["64Gi"]
    )
    shm: Memory | None = Field(None, description="Size of /dev/shm. Default: `resources.shm`.", examples=["16Gi"])
    spot: Boolean | None = Field(
        None,
        description="Run the role on the platform's spot nodes, or with `false` on others. Default: `resources.spot`.",
        examples=[True],
    )
    network: Network | None = Field(
        None, description="Network of each pod. Default: `resources.network`.", examples=[{"rdma": True}]
    )


class Role(Block):
    """A group of nodes that run one program. What it does not set is the job's: storage, variables, containers."""

    name: DnsLabel = Field(
        description="Name of the role, at most 20 characters. It is part of its pods' names, and of the variables "
        "GPUCTL_ROLE_ADDR (host name of its first pod), GPUCTL_ROLE_NODES and, with several nodes, GPUCTL_ROLE_HOSTS "
        "(separated by commas), with the name in place of ROLE: GPUCTL_REWARD_MODEL_ADDR for `reward-model`. The "
        "pods of every role have them all.",
        examples=["head"],
    )
    nodes: Annotated[PositiveCount, Field(le=MOST_NODES)] = Field(
        1,
        description="Number of nodes, one pod each. NNODES, NODE_RANK, MASTER_ADDR and torchrun's variables are about "
        "the nodes of the role alone.",
        examples=[4],
    )
    dependsOn: list[DnsLabel] = Field(  # noqa: N815
        default_factory=empty_list,
        description="Roles, listed before this one, whose pods must be ready first. Without a queue they hold their "
        "GPUs while this role waits for room. Default: all roles start together.",
        examples=[["head"]],
    )
    image: Image | None = Field(
        None, description="Container image. Default: `environment.image`.", examples=["rayproject/ray:2.49.0"]
    )
    command: list[Text] = Field(
        default_factory=empty_list,
        description="The program and its arguments, one list item each. It replaces `environment.command` and "
        "`environment.args`.",
        examples=[["ray", "start", "--head", "--block"]],
    )
    args: list[Text] = Field(
        default_factory=empty_list,
        description="Arguments after the command. Default: `environment.args`, unless the role has a command.",
        examples=[["--role", "rollout"]],
    )
    env: list[EnvVar] | dict[EnvName, Text | VariableSource] = Field(
        default_factory=empty_list,
        description="Environment variables, as in `environment.env`. They replace those of the same name there.",
        examples=[{"RAY_memory_monitor_refresh_ms": "0"}],
    )
    ports: list[RolePort] = Field(
        default_factory=empty_list,
        description="Ports on which the program listens. The first is the default of `gpuctl port-forward`. Other "
        "ports of a pod are open, too.",
        examples=[[{"name": "gcs", "port": 6379}]],
    )
    resources: RoleResources = Field(
        default_factory=RoleResources,
        description="Resources of each pod, where they differ from `resources`.",
        examples=[{"gpu": 0, "cpu": 8, "memory": "32Gi"}],
    )

    @model_validator(mode="after")
    def _short_name(self) -> "Role":
        if len(self.name) > LONGEST_ROLE_NAME:
            message = say(
                "a role's name has at most {most} characters, and `{name}` has {number}",
                most=LONGEST_ROLE_NAME,
                name=self.name,
                number=len(self.name),
            )
            hint = say("shorten it, for instance to `{name}`", name=shortened(self.name, LONGEST_ROLE_NAME))
            raise field_error("GPU217", message, hint, ("name",))
        return self

    @model_validator(mode="after")
    def _unique_names(self) -> "Role":
        refuse_repeated_names(self.env)
        seen: set[str | int] = set()
        for index, port in enumerate(self.ports):
            for field, value in (("name", port.name), ("port", port.port)):
                if value in seen:
                    is_port = field == "port"
                    message = (
                        say("the port `{port}` is listed twice", port=value)
                        if is_port
                        else say("the name `{name}` is listed twice", name=value)
                    )
                    raise field_error("GPU218", message, say("remove one"), ("ports", index, field))
                seen.add(value)
        return self

    @property
    def variables(self) -> list[EnvVar]:
        """The role's own variables in the order written, as entries."""
        return as_entries(self.env)

    @property
    def prefix(self) -> str:
        """The beginning of the variables about this role: ``GPUCTL_HEAD``."""
        return f"GPUCTL_{self.name.upper().replace('-', '_')}"

    @property
    def variable_names(self) -> list[str]:
        """The names of the variables about this role."""
        parts = ["ADDR", "NODES", "HOSTS"] if self.nodes > 1 else ["ADDR", "NODES"]
        return [f"{self.prefix}_{part}" for part in parts]

    def environment_in(self, environment: Environment) -> Environment:
        """Return the job's environment with what this role sets in its place."""
        own = self.variables
        names = {variable.name for variable in own}
        inherited = [variable for variable in environment.variables if variable.name not in names]
        return environment.model_copy(
            update={
                "image": self.image or environment.image,
                "command": self.command or environment.command,
                "args": self.args if self.command or self.args else environment.args,
                "env": [*inherited, *own],
            }
        )

    def resources_in(self, resources: TrainingResources) -> TrainingResources:
        """Return the job's resources with what this role sets in their place."""
        own: dict[str, Any] = {name: value for name, value in self.resources if value is not None}
        if own.get("gpu") == 0:
            own = {"gpu_profile": None, "gpu_memory": None, **own}
        return resources.model_copy(update={**own, "nodes": self.nodes})


def check_roles(roles: Sequence[Role], primary: Sequence[str]) -> None:
    """Raise the error of roles that have one name, do not exist, or are too many."""
    known: set[str] = set()
    for index, role in enumerate(roles):
        if role.name in known:
            message = say("two roles are called `{name}`", name=role.name)
            raise field_error("GPU218", message, say("rename one"), ("roles", index, "name"))
        for position, name in enumerate(role.dependsOn):
            if name not in known:
                later = any(other.name == name for other in roles[index + 1 :])
                message = _not_before(name, role.name, later)
                hint = say("list `{name}` before `{role}`", name=name, role=role.name) if later else _listed([*known])
                raise field_error("GPU228", message, hint, ("roles", index, "dependsOn", position))
        known.add(role.name)
    for position, name in enumerate(primary):
        if name not in known:
            message = say("`primary` names the role `{name}`, which does not exist", name=name)
            hint = _listed([role.name for role in roles]) if roles else say("remove `primary`, or add `roles`")
            raise field_error("GPU228", message, hint, ("primary", position))
    nodes = sum(role.nodes for role in roles)
    if nodes > MOST_NODES:
        message = say(
            "the roles have {nodes} nodes together; a training with roles can have {most}",
            nodes=nodes,
            most=MOST_NODES,
        )
        raise field_error("GPU206", message, say("use fewer nodes"), ("roles",))


def _not_before(name: str, role: str, later: bool) -> Sentence:
    if name == role:
        return say("the role `{role}` depends on `{name}`, which is the role itself", role=role, name=name)
    if later:
        return say("the role `{role}` depends on `{name}`, which is listed after it", role=role, name=name)
    return say("the role `{role}` depends on `{name}`, which is not a role before it", role=role, name=name)


def _listed(names: Sequence[str]) -> Sentence:
    if not names:
        return say("remove it: this is the first role")
    return say("write one of {names}", names=[f"`{name}`" for name in sorted(names)])
