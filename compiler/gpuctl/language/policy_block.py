"""The platform's ``policy``: what documents of jobs must and must not contain."""

from typing import Literal

from pydantic import Field

from gpuctl.language.fields import Block, Boolean, Capability, LabelKey, empty_list
from gpuctl.language.path_fields import AbsolutePath

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
