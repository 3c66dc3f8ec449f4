"""Request bodies for pools and quotas."""

from __future__ import annotations

from pydantic import ConfigDict, Field, JsonValue

from gpuctl.api.base_models import Body, DryRunBody


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
