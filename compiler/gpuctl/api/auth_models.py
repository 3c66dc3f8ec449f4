"""The question about a right of the caller, and its answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gpuctl.api.base_models import LEGAL_NAMESPACE


class RightQuestion(BaseModel):
    """An action on a resource."""

    model_config = ConfigDict(extra="forbid", strict=True)

    resource: str = Field(max_length=63, description="Resource, such as jobs, logs or pools.", examples=["jobs"])
    action: str = Field(max_length=63, description="get, create, update or delete.", examples=["create"])
    pool: str | None = Field(
        None, max_length=253, description="Pool; null: not about one pool.", examples=["training-pool"]
    )
    namespace: Annotated[str, Field(max_length=63), LEGAL_NAMESPACE] | None = Field(
        None, description="Namespace; null: not about one namespace.", examples=["team-a"]
    )


class RightAnswer(BaseModel):
    """The decision about an action."""

    allowed: bool = Field(description="True if the caller may do this.", examples=[True])
    message: str = Field(description="The decision and its reason.", examples=["anna may create jobs in training-pool"])
