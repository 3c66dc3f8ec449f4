"""``kind: compute``: a service that needs no GPU (nginx, redis, a preprocessor), though it may request one."""

from typing import Annotated, Any, Literal

from pydantic import Field

from gpuctl.language.fields import DnsLabel, Partial
from gpuctl.language.service_block import JOB_WITH_SERVICE, ServiceBlock
from gpuctl.language.workload import PROFILES, Workload


class ComputeDocument(Workload):
    """A long-running service: becomes a Deployment and a Service."""

    exclusions = JOB_WITH_SERVICE

    kind: Literal["compute"] = Field(description="The kind of document.")
    service: ServiceBlock = Field(
        default_factory=ServiceBlock, description="Network access to the service, and its replicas."
    )
    profiles: dict[DnsLabel, Annotated[dict[str, Any], Partial("compute")]] = PROFILES
