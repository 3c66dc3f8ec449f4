"""``kind: notebook``: the development environment of one user."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import DnsLabel, Partial
from gpuctl.language.names import ACTIVITY_CONTAINER
from gpuctl.language.notebook_block import NotebookLimits
from gpuctl.language.sentences import say
from gpuctl.language.service_block import JOB_WITH_SERVICE, NotebookService
from gpuctl.language.workload import PROFILES, Workload


class NotebookDocument(Workload):
    """A notebook: becomes a StatefulSet with one replica, and a Service."""

    exclusions = JOB_WITH_SERVICE

    kind: Literal["notebook"] = Field(description="The kind of document.")
    service: NotebookService = Field(default_factory=NotebookService, description="Network access to the notebook.")
    notebook: NotebookLimits | None = Field(
        None,
        description="Limits after which the notebook is paused. Default: none.",
        examples=[{"stop_after": "2h", "max_lifetime": "7d"}],
    )
    profiles: dict[DnsLabel, Annotated[dict[str, Any], Partial("notebook")]] = PROFILES

    @model_validator(mode="after")
    def _own_container(self) -> "NotebookDocument":
        if self.notebook is None or self.notebook.stop_after is None:
            return self
        for (field, index), helper in self.helpers:
            if helper.name == ACTIVITY_CONTAINER:
                message = say(
                    "`{name}` is the name of the container that `notebook.stop_after` adds, too", name=helper.name
                )
                raise field_error("GPU218", message, say("rename it"), (field, index, "name"))
        return self
