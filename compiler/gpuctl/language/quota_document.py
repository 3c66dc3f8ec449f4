"""``kind: quota``: the maximum requests of each user's namespace."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, Count, DnsLabel, GpuProfile, Quantity, UserKeys
from gpuctl.language.placement_block import Placement
from gpuctl.language.pool_document import NamedBlock
from gpuctl.language.workload import Version


class QuotaEntry(Block):
    """Maximum requests of one user, over all running pods."""

    cpu: Quantity | None = Field(None, description="CPU cores requested.", examples=["64"])
    memory: Quantity | None = Field(None, description="Memory requested.", examples=["256Gi"])
    gpu: Count | Annotated[dict[DnsLabel, Count], UserKeys()] | None = Field(
        None,
        description="GPUs requested: a number for the platform's default vendor, or a mapping `vendor: number`.",
        examples=[8],
    )
    gpu_profiles: Annotated[dict[GpuProfile, Count], UserKeys()] | None = Field(
        None,
        alias="gpu-profiles",
        description="MIG profile -> number of slices. Profiles that are not named have no limit, or 0 if the platform "
        "lists them in `gpu.profiles`.",
        examples=[{"1g.10gb": 14}],
    )
    maxJobs: Count | None = Field(  # noqa: N815
        None,
        description="Maximum number of Jobs in the namespace (`count/jobs.batch`). Kubernetes counts "
        "finished Jobs until "
        "they are deleted, so give trainings a `ttl`.",
        examples=[20],
    )


class QuotaDocument(Block):
    """Quotas: become a Namespace, a ResourceQuota and a LimitRange for each user."""

    kind: Literal["quota"] = Field(description="The kind of document.")
    version: Version = Field("v0.1", description="Version of the language.", examples=["v0.1"])
    quota: NamedBlock | None = Field(None, description="Name and description.")
    metadata: NamedBlock | None = Field(None, description="The same as `quota:`.")
    users: Annotated[dict[DnsLabel, QuotaEntry], UserKeys()] | None = Field(
        None,
        description="User -> maximum requests; a user's name is the name of a namespace.",
        examples=[{"zhang-san": {"cpu": "64", "memory": "256Gi", "gpu": 8}}],
    )
    namespace: Annotated[dict[DnsLabel, QuotaEntry], UserKeys()] | None = Field(
        None, description="The same as `users:`.", examples=[{"team-nlp": {"gpu": 8}}]
    )
    default: QuotaEntry | None = Field(None, description="Values of the fields that an entry leaves out.")
    placement: Placement | None = Field(
        None,
        description="Clusters of the document. Default: every cluster.",
        examples=[{"clusters": ["prod"]}],
    )

    @model_validator(mode="after")
    def _one_of_each(self) -> "QuotaDocument":
        if self.quota is not None and self.metadata is not None:
            raise field_error(
                "GPU213", "a quota has `quota:` and `metadata:`; they mean the same", "keep one", ("metadata",)
            )
        if self.quota is None and self.metadata is None:
            raise field_error("GPU201", "missing required block `quota`", "add `quota:` with a `name:`", ())
        if self.users is not None and self.namespace is not None:
            raise field_error(
                "GPU213", "a quota has `users:` and `namespace:`; they mean the same", "keep one", ("namespace",)
            )
        if not self.users and not self.namespace:
            raise field_error("GPU201", "the quota names no user", "add `users:` with a name and its limits", ())
        return self

    @property
    def header(self) -> NamedBlock:
        """Name and description, from either of the two keys."""
        header = self.quota or self.metadata
        assert header is not None, "checked by _one_of_each"
        return header

    @property
    def entries_key(self) -> str:
        """The key that contains the entries, ``users`` or ``namespace``."""
        return "users" if self.users is not None else "namespace"

    @property
    def entries(self) -> dict[str, QuotaEntry]:
        """Namespace -> limits, with the fields of ``default`` filled in."""
        written = self.users or self.namespace or {}
        if self.default is None:
            return written
        filler = self.default.model_dump(exclude_none=True)
        return {
            name: QuotaEntry.model_validate({**filler, **entry.model_dump(exclude_none=True)})
            for name, entry in written.items()
        }
