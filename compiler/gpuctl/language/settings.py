"""A platform's settings with defaults applied, for checks and lowering."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gpuctl.language.device_drivers import DRIVERS, MIG_CLASS, DeviceDriver
from gpuctl.language.drift_rules import DriftRule
from gpuctl.language.gpu_cards import VENDORS, Card, CardShare, card_named, cards_of, chip_of
from gpuctl.language.mig_profiles import slice_resources
from gpuctl.language.names import DEFAULT_DOMAIN, HOST_LABEL
from gpuctl.objects.quantities import MEBIBYTE, parse_quantity

if TYPE_CHECKING:
    # Without a platform no model is needed: commands that only read a cluster do not load pydantic.
    from gpuctl.language.code_block import Code
    from gpuctl.language.gpu_block import Vendor
    from gpuctl.language.kinds import Job
    from gpuctl.language.network_block import RdmaSettings
    from gpuctl.language.notify_block import NotifySettings
    from gpuctl.language.platform_document import (
        ClusterIdentity,
        ExternalPool,
        PlatformDocument,
        StorageDefault,
    )
    from gpuctl.language.policy_block import PolicyBlock
    from gpuctl.language.resources_block import Resources
    from gpuctl.language.route_blocks import RouteSettings
    from gpuctl.language.spot_block import SpotSettings
    from gpuctl.language.storage_block import Workdir

DEFAULT_PRIORITIES: dict[str, tuple[str, int, bool]] = {
    "high": ("gpuctl-high", 1_000_000, True),
    "medium": ("gpuctl-medium", 500_000, True),
    "low": ("gpuctl-low", 100, False),
}


class PriorityClass(NamedTuple):
    """A PriorityClass: its name, its value, and whether its pods may preempt others."""

    class_name: str
    value: int
    preempts: bool


class Gpu(NamedTuple):
    """GPUs of a vendor and chip: their resources, the key of the taint to tolerate, product label or None."""

    vendor: str
    card: Card
    taint: str
    product_label: str | None

    @property
    def resource(self) -> str:
        """The extended resource of whole cards."""
        return self.card.resource


class Settings:
    """The platform's settings, as the rest of the compiler reads them.

    Without a platform file, built-in tables are used: commands that only read a cluster need no document models, and
    importing those takes longer than a request to the API server.
    """

    def __init__(self, platform: PlatformDocument | None = None) -> None:
        self._platform = platform
        self._labels: dict[str, str] = {}

    @property
    def platform(self) -> PlatformDocument:
        """The platform's document; without one, an empty document."""
        if self._platform is None:
            from gpuctl.language.platform_document import PlatformDocument

            self._platform = PlatformDocument.model_construct()
        return self._platform

    @property
    def is_default(self) -> bool:
        """True if no platform file sets anything."""
        return self._platform is None or not self._platform.model_fields_set

    @property
    def kubernetes_version(self) -> str:
        """Kubernetes version of the manifests, without a leading ``v``."""
        return self._platform.kubernetes.version.removeprefix("v") if self._platform is not None else "1.36"

    @property
    def serves_image_volumes(self) -> bool:
        """True if volumes can be OCI artifacts: the feature gate ImageVolume is on by default since 1.35."""
        return self._minor_version >= 35

    @property
    def serves_success_policies(self) -> bool:
        """True if a Job can succeed with one of its pods: the gate JobSuccessPolicy is on by default since 1.31."""
        return self._minor_version >= 31

    @property
    def _minor_version(self) -> int:
        """The Y of Kubernetes 1.Y; the newest one for text that is not a version, which is reported by itself."""
        minor = re.match(r"(?a)1\.(\d+)", self.kubernetes_version)
        return int(minor[1]) if minor is not None else 99

    @property
    def is_rolling(self) -> bool:
        """True if services are changed pod by pod, unless the document or an option sets a strategy."""
        return self._platform is not None and self._platform.strategy == "rolling"

    @property
    def gitops(self) -> Literal["argocd", "flux"] | None:
        """The controller that applies manifests from git, or None."""
        return self._platform.gitops if self._platform is not None else None

    @property
    def domain(self) -> str:
        """Prefix of the platform's labels, without the slash."""
        return self._platform.labels.domain if self._platform is not None else DEFAULT_DOMAIN

    def label(self, name: str) -> str:
        """Return a label or annotation key of the platform: ``pool`` -> ``runwhere.ai/pool``."""
        label = self._labels.get(name)
        if label is None:
            label = self._labels[name] = f"{self.domain}/{name}"
        return label

    @property
    def drift_rules(self) -> list[DriftRule]:
        """The platform's rules for differences that do not count as drift."""
        rules = self._platform.drift.ignore if self._platform is not None else []
        return [DriftRule(rule.kind, rule.path, rule.manager) for rule in rules]

    @property
    def clusters(self) -> Mapping[str, ClusterIdentity]:
        """The platform's clusters by name, with the properties that identify them."""
        return self._platform.clusters if self._platform is not None else {}

    @property
    def training_backend(self) -> str:
        """Object kind of trainings on several nodes: ``job`` or ``jobset``."""
        return self.platform.training.backend

    @property
    def inference_backend(self) -> str:
        """Object kind of inferences on several nodes: ``lws``, or ``deployment`` if there can be none."""
        return self.platform.inference.backend

    @property
    def sharing(self) -> str:
        """The system that enforces shares of cards, or ``none``."""
        return self._platform.gpu.sharing if self._platform is not None else "none"

    @property
    def registries(self) -> Sequence[str]:
        """Allowed sources of images; empty allows all."""
        return self.platform.image.registries

    @property
    def pull_secret(self) -> str | None:
        """The pull secret of jobs that name none."""
        return self.platform.image.pullSecret

    @property
    def code_image(self) -> str:
        """Image with git and a shell, which fetches the code of jobs."""
        return self.platform.code.image

    @property
    def code_secrets(self) -> Mapping[str, str]:
        """Host of git repositories -> Secret with its login."""
        return self.platform.code.secrets

    def code_secret(self, code: Code) -> str | None:
        """Return the Secret with the login for a job's repository; None without one."""
        if code.secret is not None or code.git is None or code.git.startswith("http://"):
            return code.secret
        return self.code_secrets.get(code.host)

    @property
    def storage_default(self) -> StorageDefault | None:
        """Source of workdirs that name none; None: the node's disk."""
        return self.platform.storage.default

    def is_on_node(self, workdir: Workdir) -> bool:
        """Return True if a workdir is a path on the node's disk."""
        if workdir.pvc is not None or workdir.nfs is not None or workdir.emptyDir is not None:
            return False
        return self.storage_default is None or workdir.type is not None

    @property
    def host_paths(self) -> Sequence[str] | None:
        """Paths of nodes that jobs may mount; None: all but system directories."""
        return self.platform.policy.hostPaths

    @property
    def topology_labels(self) -> dict[str, str]:
        """Level of closeness -> node label; `host` exists on every platform."""
        levels = self.platform.topology.levels
        return {"host": HOST_LABEL} | {level.name: level.label for level in levels}

    @property
    def policy(self) -> PolicyBlock | None:
        """The platform's limits on pods; None without any."""
        platform = self._platform
        return platform.policy if platform is not None and "policy" in platform.model_fields_set else None

    @property
    def service_type(self) -> str:
        """Service type of jobs that name none."""
        return self.platform.service.type

    @property
    def routes(self) -> RouteSettings | None:
        """The controller of routes to services; None if the platform has none."""
        return self.platform.routes

    @property
    def spot(self) -> SpotSettings | None:
        """The platform's spot nodes; None if it has none."""
        return self._platform.spot if self._platform is not None else None

    @property
    def notify(self) -> NotifySettings:
        """The platform's channels of notifications."""
        return self.platform.notify

    @property
    def rdma(self) -> RdmaSettings | None:
        """The RDMA devices of the nodes; None if the platform has none."""
        return self.platform.network.rdma

    @property
    def serves_sleep_hooks(self) -> bool:
        """True if a preStop hook can sleep: the feature gate PodLifecycleSleepAction is on by default since 1.30."""
        return self._minor_version >= 30

    def defaults_of(self, kind: str) -> Mapping[str, Any]:
        """Return the platform's defaults for documents of a kind: a partial document."""
        return (getattr(self._platform.defaults, kind) or {}) if self._platform is not None else {}

    @cached_property
    def gpu_chips(self) -> dict[str, dict[str, Gpu]]:
        """Vendor -> chip -> its GPUs: the platform's vendors, then the other built-in ones. "" is any other chip."""
        table: dict[str, dict[str, Gpu]] = {}
        for name, vendor in self._vendors.items():
            product = vendor.productLabel or VENDORS.get(name, (None, None, None))[2]
            table[name] = {"": Gpu(name, _own_card(self.sharing, vendor), vendor.taint or vendor.resource, product)}
        for name, (resource, taint, label) in VENDORS.items():
            chips = cards_of(self.sharing, name)
            table.setdefault(name, {chip: Gpu(name, card, taint or resource, label) for chip, card in chips.items()})
        return table

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs of all vendors and chips."""
        return tuple(gpu for chips in self.gpu_chips.values() for gpu in chips.values())

    @property
    def profiles(self) -> Mapping[str, Sequence[str]]:
        """GPU type -> MIG profiles that the platform lists."""
        return self._platform.gpu.profiles if self._platform is not None else {}

    @cached_property
    def card_resources(self) -> frozenset[str]:
        """Extended resources that count GPUs or shares of them, such as ``nvidia.com/gpu``."""
        return frozenset(name for gpu in self.gpus for name in gpu.card.counted)

    @cached_property
    def share_resources(self) -> dict[str, CardShare]:
        """Extended resources that size the shares of cards, such as ``nvidia.com/gpumem``, with their shares."""
        shares = [gpu.card.share for gpu in self.gpus if gpu.card.share is not None]
        return {part: share for share in shares for part in share.parts}

    @cached_property
    def slice_resources(self) -> frozenset[str]:
        """Extended resources that are MIG slices, such as ``nvidia.com/mig-1g.10gb``."""
        return slice_resources(self.profiles.values())

    @cached_property
    def gpu_resources(self) -> frozenset[str]:
        """Extended resources that are GPUs or MIG slices; each slice counts as one."""
        return self.card_resources | self.slice_resources

    @cached_property
    def scarce_gpu_resources(self) -> frozenset[str]:
        """Extended resources of GPUs, slices, and the memory and cores of shares: a lack of one is a lack of GPUs."""
        return self.gpu_resources | self.share_resources.keys()

    @cached_property
    def default_vendor(self) -> str:
        """Vendor of jobs and quotas that name none: the platform's ``gpu.default``, else nvidia."""
        return (self._platform.gpu.default if self._platform is not None else None) or "nvidia"

    @cached_property
    def used_vendors(self) -> list[str]:
        """The default vendor and the platform's vendors: those that a quota limits."""
        return list(self._vendors) if self.default_vendor in self._vendors else [self.default_vendor, *self._vendors]

    @property
    def _vendors(self) -> dict[str, Vendor]:
        return self._platform.gpu.vendors if self._platform is not None else {}

    @property
    def gpu_types(self) -> Mapping[str, Mapping[str, str | list[str]]]:
        """GPU type -> node labels and values that identify it, if the platform maps the type."""
        return self._platform.gpu.types if self._platform is not None else {}

    @property
    def claims_devices(self) -> bool:
        """True if pods get GPUs by claims for devices (DRA), and not as an extended resource."""
        return self._platform is not None and self._platform.gpu.allocation == "dra"

    @property
    def serves_device_claims(self) -> bool:
        """True if the cluster has resource.k8s.io/v1, which is on by default since Kubernetes 1.34."""
        return self._minor_version >= 34

    @cached_property
    def device_classes(self) -> dict[str, str]:
        """Vendor -> DeviceClass of its whole cards: the platform's, then the built-in ones."""
        own = self._platform.gpu.classes if self._platform is not None else {}
        return {**{vendor: driver.device_class for vendor, driver in DRIVERS.items()}, **own}

    @property
    def profile_class(self) -> str:
        """DeviceClass of MIG slices: the platform's, or that of NVIDIA's driver."""
        own = self._platform.gpu.profileClass if self._platform is not None else None
        return own or MIG_CLASS

    @property
    def claims_slices(self) -> bool:
        """True if the platform says that pods claim MIG slices: it lists their profiles, or names their class."""
        gpu = self._platform.gpu if self._platform is not None else None
        return self.claims_devices and gpu is not None and bool(gpu.profiles or gpu.profileClass)

    @property
    def products(self) -> Mapping[str, Sequence[str]]:
        """GPU type -> product names by which claims select its cards."""
        return self._platform.gpu.products if self._platform is not None and self.claims_devices else {}

    def driver_of(self, resources: Resources) -> DeviceDriver | None:
        """Return the driver of a job's GPUs; None if the attributes of its cards are unknown."""
        return DRIVERS.get(resources.gpu_vendor or self.default_vendor)

    def device_class_of(self, resources: Resources) -> str | None:
        """Return the DeviceClass that a job's pods claim GPUs or MIG slices of; None if they claim none."""
        if resources.gpu == 0 or not self.claims_devices:
            return None
        if resources.gpu_profile is not None:
            return self.profile_class
        return self.device_classes.get(resources.gpu_vendor or self.default_vendor)

    def gpu_of(self, resources: Resources) -> Gpu | None:
        """Return the GPUs that a job requests; None for an unknown vendor, or if its types do not name one chip."""
        chips = self.gpu_chips.get(resources.gpu_vendor or self.default_vendor, {})
        cards = {chip: gpu.card for chip, gpu in chips.items()}
        named = {chip_of(name, cards) or "" for name in resources.gpu_types} or {""}
        return chips.get(named.pop()) if len(named) == 1 else None

    def share_of(self, resources: Resources) -> CardShare | None:
        """Return the resources by which a pod gets a share of its cards; None if it gets whole cards."""
        part, gpu = resources.share_block, self.gpu_of(resources)
        is_part = part is not None and part.is_part and resources.gpu > 0 and resources.gpu_profile is None
        return gpu.card.share if gpu is not None and is_part else None

    def cards_of(self, resources: Resources) -> Fraction | None:
        """Return the number of whole cards of a pod; None for MIG slices, and for a share in memory if the memory of a
        card is unknown.
        """
        if resources.gpu_profile is not None:
            return None
        share, part = self.share_of(resources), resources.share_block
        if share is None or part is None:
            return Fraction(resources.gpu)
        memory = part.amount
        if memory > 1:
            if not share.card:
                return None
            memory = min(memory / (share.card * MEBIBYTE), Fraction(1))
        return resources.gpu * max(memory, part.core_part or Fraction(0))

    @cached_property
    def priorities(self) -> dict[str, PriorityClass]:
        """high, medium and low -> PriorityClass."""
        if self._platform is None:
            return {level: PriorityClass(*default) for level, default in DEFAULT_PRIORITIES.items()}
        table = {}
        for level, (class_name, value, preempts) in DEFAULT_PRIORITIES.items():
            own = getattr(self._platform.priorities, level)
            table[level] = PriorityClass(
                own.className or class_name,
                value if own.value is None else own.value,
                preempts if own.preemption is None else own.preemption,
            )
        return table

    @cached_property
    def external_pools(self) -> dict[str, ExternalPool]:
        """Pools that the platform declares to exist elsewhere, by name."""
        return {pool.name: pool for pool in (self._platform.pools if self._platform is not None else ())}

    def queue_of(self, pool: str) -> str | None:
        """Return the Kueue LocalQueue of a pool's trainings; None if it has none."""
        return self._platform.training.queue.get(pool) if self._platform is not None else None

    @property
    def has_queue_priorities(self) -> bool:
        """True if jobs in queues name a WorkloadPriorityClass."""
        return self._platform is not None and self._platform.queues.priority == "workload"

    @property
    def has_quota_queues(self) -> bool:
        """True if quotas are Kueue queues."""
        return self._platform is not None and self._platform.quota.backend == "kueue"

    def queue_of_job(self, model: Job) -> str | None:
        """Return the Kueue LocalQueue of a document's job: its own, or for a training its pool's; None without one."""
        of_pool = self.queue_of(model.resources.pool) if model.kind == "training" else None
        return model.resources.queue or of_pool


def _own_card(sharing: str, vendor: Vendor) -> Card:
    """Return the cards of a vendor that the platform defines. Known resources keep their shares."""
    if vendor.share is not None and sharing != "none":
        own = vendor.share
        unit = (parse_quantity(own.unit) or Fraction(MEBIBYTE)) / MEBIBYTE
        return Card(vendor.resource, CardShare(vendor.resource, own.memory, own.cores or "", unit, own.percent or ""))
    return card_named(sharing, vendor.resource)
