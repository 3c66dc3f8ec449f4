"""``kind: compute``: a service that needs no GPU (nginx, redis, a preprocessor), though it may request one."""

from typing import Literal

from pydantic import Field

from gpuctl.language.service_block import ServiceBlock
from gpuctl.language.workload import Workload


class ComputeDocument(Workload):
    """A long-running service: becomes a Deployment and a Service."""

    kind: Literal["compute"] = Field(description="The kind of document.")
    service: ServiceBlock = Field(
        default_factory=ServiceBlock, description="Network access to the service, and its replicas."
    )
