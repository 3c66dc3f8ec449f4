"""Networks: the ``resources.network`` of a job, and the platform's RDMA devices."""

from pydantic import Field

from gpuctl.language.amount_fields import DeviceCount
from gpuctl.language.fields import Block, Boolean, EnvName, LabelKey, PositiveCount, Text, empty_dict


class Network(Block):
    """Network of each pod."""

    rdma: DeviceCount | None = Field(
        None,
        description="RDMA devices of each pod (InfiniBand, RoCE): a number, or `true` for the platform's default. The "
        "pod gets the resource, variables and annotations of the platform's `network.rdma`, and the capability "
        "IPC_LOCK.",
        examples=["true", "4"],
    )
    hostNetwork: Boolean = Field(  # noqa: N815
        False,
        description="Use the node's network instead of one of its own. The ports of the program are then those of the "
        "node, so that two such pods with the same port cannot run on one node.",
        examples=[True],
    )

    @property
    def uses_rdma(self) -> bool:
        """True if the pod gets RDMA devices."""
        return self.rdma not in (None, "false")


class RdmaSettings(Block):
    """RDMA devices of the nodes, and what a pod needs to use them."""

    resource: LabelKey = Field(
        description="Extended resource that the device plugin advertises.", examples=["rdma/hca_shared_devices_a"]
    )
    count: PositiveCount = Field(
        1,
        description="Devices of each pod for `rdma: true`: 1 with a shared device, often the number of network cards "
        "with SR-IOV.",
        examples=[1],
    )
    env: dict[EnvName, Text] = Field(
        default_factory=empty_dict,
        description="Variables of the program. Those of the document replace them.",
        examples=[{"NCCL_IB_HCA": "mlx5", "NCCL_SOCKET_IFNAME": "eth0"}],
    )
    annotations: dict[LabelKey, Text] = Field(
        default_factory=empty_dict,
        description="Annotations of the pod, such as its networks for Multus.",
        examples=[{"k8s.v1.cni.cncf.io/networks": "infra/rdma-net"}],
    )


class NetworkSettings(Block):
    """Networks of the nodes."""

    rdma: RdmaSettings | None = Field(
        None, description="RDMA devices. Without them, `resources.network.rdma` of a job is an error."
    )
