"""The ``security:`` block: users, groups and privileges of the pod."""

from pydantic import Field

from gpuctl.language.fields import Block, Boolean, Capability, Count, empty_list


class Capabilities(Block):
    """Capabilities of the Linux kernel to add and to drop."""

    add: list[Capability] = Field(
        default_factory=empty_list, description="Capabilities to add.", examples=[["IPC_LOCK"]]
    )
    drop: list[Capability] = Field(
        default_factory=empty_list, description="Capabilities to drop; `ALL` drops every one.", examples=[["ALL"]]
    )


class Security(Block):
    """Users, groups and privileges of the pod. What is not set is the image's or the cluster's choice."""

    user: Count | None = Field(
        None, description="User id of all containers; 0 is root. Default: the image's user.", examples=[1000]
    )
    group: Count | None = Field(
        None, description="Primary group id of all containers. Default: the image's.", examples=[1000]
    )
    fsGroup: Count | None = Field(  # noqa: N815
        None,
        description="Group that owns the files of mounted volumes; the processes are members of it. Kubernetes changes "
        "the owner of claims whose top directory has another one. It has no effect on NFS and directories of nodes.",
        examples=[100],
    )
    readOnlyRoot: Boolean = Field(  # noqa: N815
        False, description="The program cannot write to its image's files, only to mounts.", examples=[True]
    )
    capabilities: list[Capability] | Capabilities = Field(
        default_factory=empty_list,
        description="Capabilities of the program: a list to add, or `{add, drop}`.",
        examples=[["IPC_LOCK"]],
    )

    @property
    def changed_capabilities(self) -> Capabilities:
        """The capabilities to add and to drop, for both forms."""
        if isinstance(self.capabilities, Capabilities):
            return self.capabilities
        return Capabilities(add=self.capabilities)
