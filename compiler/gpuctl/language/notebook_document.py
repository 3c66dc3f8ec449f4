"""``kind: notebook``: the development environment of one user."""

from typing import Literal

from pydantic import Field

from gpuctl.language.service_block import NotebookService
from gpuctl.language.workload import Workload


class NotebookDocument(Workload):
    """A notebook: becomes a StatefulSet with one replica, and a Service."""

    kind: Literal["notebook"] = Field(description="The kind of document.")
    service: NotebookService = Field(default_factory=NotebookService, description="Network access to the notebook.")
