"""``kind: notebook``: the development environment of one user."""

from typing import Annotated, Any, Literal

from pydantic import Field

from gpuctl.language.fields import DnsLabel, Partial, UserKeys
from gpuctl.language.service_block import NotebookService
from gpuctl.language.workload import PROFILES, Workload


class NotebookDocument(Workload):
    """A notebook: becomes a StatefulSet with one replica, and a Service."""

    kind: Literal["notebook"] = Field(description="The kind of document.")
    service: NotebookService = Field(default_factory=NotebookService, description="Network access to the notebook.")
    profiles: Annotated[dict[DnsLabel, Annotated[dict[str, Any], Partial("notebook")]], UserKeys()] = PROFILES
