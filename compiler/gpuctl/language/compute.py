"""``kind: compute``: a service that needs no GPU (nginx, redis, a preprocessor), though it may ask for one."""

from typing import Literal

from pydantic import Field

from gpuctl.language.job import Workload
from gpuctl.language.service import ServiceBlock


class Compute(Workload):
    """A long-running service: becomes a Deployment and a Service."""

    kind: Literal["compute"] = Field(description="The kind of document.")
    service: ServiceBlock = Field(default_factory=ServiceBlock, description="How the service is reached.")
