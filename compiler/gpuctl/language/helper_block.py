"""The ``init:`` and ``sidecars:`` lists: containers beside the job's program."""

from pydantic import Field, model_validator

from gpuctl.language.amount_fields import Memory, PositiveQuantity
from gpuctl.language.environment_block import EnvVar, VariableSource, as_entries, refuse_repeated_names
from gpuctl.language.fields import Block, DnsLabel, EnvName, Image, Text, empty_list


class HelperResources(Block):
    """Resources of a container beside the program. Requests equal limits."""

    cpu: PositiveQuantity | None = Field(
        None, description="CPU cores. Default: no request and no limit.", examples=["500m"]
    )
    memory: Memory | None = Field(None, description="Memory. Default: no request and no limit.", examples=["1Gi"])


class HelperContainer(Block):
    """A container beside the program. It has the job's mounts, and no GPUs."""

    name: DnsLabel = Field(description="Name of the container, unique in the job.", examples=["fetch"])
    image: Image | None = Field(
        None, description="Container image. Default: the job's.", examples=["registry.example.com/tools/rclone:1.68"]
    )
    command: list[Text] = Field(
        default_factory=empty_list,
        description="The program and its arguments, one list item each; replaces the image's entrypoint.",
        examples=[["rclone", "copy", "remote:data", "/data"]],
    )
    args: list[Text] = Field(
        default_factory=empty_list,
        description="Arguments after the command, or after the image's entrypoint.",
        examples=[["--verbose"]],
    )
    env: list[EnvVar] | dict[EnvName, Text | VariableSource] = Field(
        default_factory=empty_list,
        description="Environment variables, as in `environment.env`. Those of the program are not set here.",
        examples=[{"RCLONE_CONFIG": "/etc/rclone/rclone.conf"}],
    )
    resources: HelperResources = Field(
        default_factory=HelperResources,
        description="Resources of the container. A sidecar's are added to the program's. Of init containers the "
        "largest counts, if it is more than all others together.",
        examples=[{"cpu": "1", "memory": "1Gi"}],
    )

    @model_validator(mode="after")
    def _unique_names(self) -> "HelperContainer":
        refuse_repeated_names(self.env)
        return self

    @property
    def variables(self) -> list[EnvVar]:
        """The variables in the order written, as entries."""
        return as_entries(self.env)
