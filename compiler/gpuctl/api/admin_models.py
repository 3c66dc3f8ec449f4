"""Request bodies for pools and quotas, and answers about their changes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from gpuctl.api.base_models import Body, DryRunBody
from gpuctl.api.change_models import PLAN
from gpuctl.api.plan_answers import PlanAnswer


class PoolLimits(Body):
    """Limits of a pool."""

    max_jobs: int | None = Field(None, ge=1, description="Maximum number of unfinished jobs; null: no limit.")
    max_gpu_per_job: int | None = Field(None, ge=1, description="Maximum GPUs of one job; null: no limit.")


class PoolBody(DryRunBody):
    """A pool. ``gpuType`` applies to nodes whose labels name no GPU type."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "experiment-pool",
                "description": "for experiments",
                "nodes": ["node-4", "node-5"],
                "gpuType": ["t4"],
                "quota": {"maxJobs": 50, "maxGpuPerJob": 2},
            }
        },
    )

    name: str | None = Field(None, max_length=63, description="Its name; when a pool is changed, the path has it.")
    description: str | None = None
    nodes: list[str] = Field(default_factory=list, description="Names of its nodes.")
    gpu_type: list[str] = Field(default_factory=list, description="GPU types of its nodes.")
    quota: PoolLimits | None = None


class QuotaBody(DryRunBody):
    """Quotas of users: the limits of the namespace with the user's name."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "team-resource-quota",
                "description": "quotas of the team",
                "users": {"sam-altman": {"cpu": 10, "memory": "20Gi", "gpu": 4}},
            }
        },
    )

    name: str = Field(max_length=63)
    description: str | None = None
    users: dict[str, JsonValue] | None = Field(None, description="User -> cpu, memory, gpu and maxJobs.")
    namespace: dict[str, JsonValue] | None = Field(None, description="The same as `users`.")
    default: dict[str, JsonValue] | None = Field(None, description="Values for entries that omit them.")


class AdministeredState(BaseModel):
    """The result of creating, changing or deleting a pool or the quota of users. The status of a dry run is
    ``validated``.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"name": "experiment-pool", "status": "created", "message": "pool/experiment-pool is created"}
        }
    )

    name: str
    status: str
    message: str
    notes: list[str] = Field(default_factory=list, description="Notes about the change.")


class Administered(AdministeredState):
    """The result of creating or deleting a pool or quota. A dry run has the plan."""

    plan: PlanAnswer | None = Field(None, description="Plan of a dry run: what would be done to which objects.")


class ChangedPool(AdministeredState):
    """The result of changing a pool, with the plan. The status of a dry run is ``validated``."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "experiment-pool",
                "status": "updated",
                "message": "pool/experiment-pool is updated",
                "plan": PLAN,
            }
        }
    )

    plan: PlanAnswer


class CreatedQuota(Administered):
    """The result of creating quotas, with their users."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "team-resource-quota",
                "status": "created",
                "message": "quota/team-resource-quota is created",
                "users": ["sam-altman"],
            }
        }
    )

    users: list[str]
