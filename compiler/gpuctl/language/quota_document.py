"""``kind: quota``: the maximum requests of each user's namespace."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gpuctl.language.amount_fields import Quantity
from gpuctl.language.exclusion_checks import refuse_exclusions
from gpuctl.language.exclusions import one_of
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, Count, DnsLabel, GpuProfile, PositiveCount, RequiredLabelValue
from gpuctl.language.placement_block import Placement
from gpuctl.language.pool_document import SAME_MEANING, NamedBlock, check_header
from gpuctl.language.sentences import say
from gpuctl.language.workload import Version
from gpuctl.objects.queue_names import ANY_FLAVOR, flavor_name


class QuotaEntry(Block):
    """Maximum requests of one user, over all running pods."""

    exclusions = one_of("gpu", "gpu-types")

    cpu: Quantity | None = Field(None, description="CPU cores requested.", examples=["64"])
    memory: Quantity | None = Field(None, description="Memory requested.", examples=["256Gi"])
    gpu: Count | dict[DnsLabel, Count] | None = Field(
        None,
        description="GPUs requested: a number for the platform's default vendor, or a mapping `vendor: number`.",
        examples=[8],
    )
    gpu_profiles: dict[GpuProfile, Count] | None = Field(
        None,
        alias="gpu-profiles",
        description="MIG profile -> number of slices. Profiles that are not named have no limit, or 0 if the platform "
        "lists them in `gpu.profiles`. If pods claim slices (`gpu.allocation: dra`), the sum limits the slices of all "
        "profiles together.",
        examples=[{"1g.10gb": 14}],
    )
    gpu_types: dict[RequiredLabelValue, Count] | None = Field(
        None,
        alias="gpu-types",
        description="GPU type -> number of GPUs, in place of `gpu`. A job that names no type gets the first with room; "
        "types that are not named have the limit 0. Needs `quota.backend: kueue` of the platform.",
        examples=[{"H100": 8, "A100-80G": 16}],
    )
    borrow: PositiveCount | None = Field(
        None,
        description="GPUs beyond the user's own that jobs may use while other users of the document leave theirs "
        "unused; with `gpu-types`, of each type. Kueue stops these jobs when the owners need their GPUs. Default: 0. "
        "Needs `quota.backend: kueue` of the platform.",
        examples=[8],
    )
    weight: PositiveCount | None = Field(
        None,
        description="Share of the GPUs that users borrow, relative to the weights of the others. Counts if Kueue's "
        "fair sharing is on. Default: 1. Needs `quota.backend: kueue` of the platform.",
        examples=[2],
    )
    maxJobs: Count | None = Field(  # noqa: N815
        None,
        description="Maximum number of Jobs in the namespace (`count/jobs.batch`). Kubernetes counts "
        "finished Jobs until "
        "they are deleted, so give trainings a `ttl`.",
        examples=[20],
    )


Entries = Annotated[dict[DnsLabel, QuotaEntry], Field(min_length=1)]


class QuotaDocument(Block):
    """Quotas: become a Namespace, a ResourceQuota and a LimitRange for each user; with Kueue, a ClusterQueue and a
    LocalQueue.
    """

    exclusions = (
        *one_of("quota", "metadata", message=SAME_MEANING, replaces=False),
        *one_of("users", "namespace", message=SAME_MEANING, replaces=False),
    )

    kind: Literal["quota"] = Field(description="The kind of document.")
    version: Version = Field("v0.1", description="Version of the language.", examples=["v0.1"])
    quota: NamedBlock | None = Field(None, description="Name and description.")
    metadata: NamedBlock | None = Field(None, description="The same as `quota:`.")
    users: Entries | None = Field(
        None,
        description="User -> maximum requests; a user's name is the name of a namespace.",
        examples=[{"zhang-san": {"cpu": "64", "memory": "256Gi", "gpu": 8}}],
    )
    namespace: Entries | None = Field(None, description="The same as `users:`.", examples=[{"team-nlp": {"gpu": 8}}])
    default: QuotaEntry | None = Field(None, description="Values of the fields that an entry leaves out.")
    placement: Placement | None = Field(
        None,
        description="Clusters of the document. Default: every cluster.",
        examples=[{"clusters": ["prod"]}],
    )

    @model_validator(mode="after")
    def _one_of_each(self) -> "QuotaDocument":
        refuse_exclusions(self, kind=self.kind)
        check_header("quota", self.quota, self.metadata)
        if self.users is None and self.namespace is None:
            raise field_error(
                "GPU201", say("the quota names no user"), say("add `users:` with a name and its limits"), ()
            )
        return self

    @model_validator(mode="after")
    def _gpu_limits(self) -> "QuotaDocument":
        for name, entry in (self.users or self.namespace or {}).items():
            _check_gpu_limits(entry, (self.entries_key, name))
        if self.default is not None:
            _check_gpu_limits(self.default, ("default",))
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
        return {name: _filled(entry, filler) for name, entry in written.items()}

    @property
    def borrows(self) -> bool:
        """True if a user may use GPUs that others leave unused."""
        return any(entry.borrow for entry in self.entries.values())


def _filled(entry: QuotaEntry, filler: dict[str, Any]) -> QuotaEntry:
    own = entry.model_dump(exclude_none=True)
    # An entry limits GPUs in one of the two ways, its own.
    replaced = {"gpu", "gpu_types"} if own.keys() & {"gpu", "gpu_types"} else set()
    return QuotaEntry.model_validate({key: value for key, value in filler.items() if key not in replaced} | own)


def _check_gpu_limits(entry: QuotaEntry, path: tuple[str, ...]) -> None:
    """Raise an error if an entry limits GPUs in two ways, or names a GPU type twice.

    :param path: the entry's.
    """
    if entry.gpu is not None and entry.gpu_types is not None:
        message = say(
            "`gpu` limits GPUs of all types together, `gpu-types` those of each type: a quota has one of the two"
        )
        raise field_error("GPU231", message, say("remove one of the two lines"), (*path, "gpu-types"))
    seen: dict[str, str] = {}
    for name in entry.gpu_types or {}:
        if flavor_name(name) == ANY_FLAVOR:
            message = say(
                "`{name}` cannot be a GPU type: Kueue's flavor `{flavor}` is that of all nodes",
                name=name,
                flavor=ANY_FLAVOR,
            )
            hint = say("write `gpu` to limit GPUs of all types together, or the type of the nodes")
            raise field_error("GPU231", message, hint, (*path, "gpu-types", name))
        other = seen.setdefault(flavor_name(name), name)
        if other != name:
            message = say(
                "`{name}` and `{other}` are one for Kueue, whose names have no upper case, dots or underscores",
                name=name,
                other=other,
            )
            raise field_error("GPU231", message, say("remove one of the two lines"), (*path, "gpu-types", name))
