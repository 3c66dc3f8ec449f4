"""A platform's settings with defaults applied, for checks and lowering."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gpuctl.language.drift_rules import DriftRule
from gpuctl.language.gpu_settings import GpuSettings
from gpuctl.language.names import DEFAULT_DOMAIN, DEFAULT_KUBERNETES, HOST_LABEL

if TYPE_CHECKING:
    # Without a platform no model is needed: commands that only read a cluster do not load pydantic.
    from gpuctl.language.code_block import Code
    from gpuctl.language.kinds import Job
    from gpuctl.language.notify_block import NotifySettings
    from gpuctl.language.platform_document import (
        ClusterIdentity,
        ExternalPool,
        PlatformDocument,
    )
    from gpuctl.language.policy_block import PolicyBlock
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


class Settings(GpuSettings):
    """The platform's settings, as the rest of the compiler reads them.

    Without a platform file, built-in tables are used: commands that only read a cluster need no document models, and
    importing those takes longer than a request to the API server.
    """

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
        return self._platform.kubernetes.version.removeprefix("v") if self._platform is not None else DEFAULT_KUBERNETES

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
        return f"{self.domain}/{name}"

    @property
    def drift_rules(self) -> list[DriftRule]:
        """The platform's rules for differences that do not count as drift."""
        rules = self._platform.drift.ignore if self._platform is not None else []
        return [DriftRule(rule.kind, rule.path, rule.manager) for rule in rules]

    @property
    def clusters(self) -> Mapping[str, ClusterIdentity]:
        """The platform's clusters by name, with the properties that identify them."""
        return self._platform.clusters if self._platform is not None else {}

    def code_secret(self, code: Code) -> str | None:
        """Return the Secret with the login for a job's repository; None without one."""
        if code.secret is not None or code.git is None or code.git.startswith("http://"):
            return code.secret
        return self.platform.code.secrets.get(code.host)

    def is_on_node(self, workdir: Workdir) -> bool:
        """Return True if a workdir is a path on the node's disk."""
        if workdir.pvc is not None or workdir.nfs is not None or workdir.emptyDir is not None:
            return False
        return self.platform.storage.default is None or workdir.type is not None

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
    def spot(self) -> SpotSettings | None:
        """The platform's spot nodes; None if it has none."""
        return self._platform.spot if self._platform is not None else None

    @property
    def notify(self) -> NotifySettings:
        """The platform's channels of notifications."""
        return self.platform.notify

    @property
    def serves_sleep_hooks(self) -> bool:
        """True if a preStop hook can sleep: the feature gate PodLifecycleSleepAction is on by default since 1.30."""
        return self._minor_version >= 30

    def defaults_of(self, kind: str) -> Mapping[str, Any]:
        """Return the platform's defaults for documents of a kind: a partial document."""
        return (getattr(self._platform.defaults, kind) or {}) if self._platform is not None else {}

    @property
    def serves_device_claims(self) -> bool:
        """True if the cluster has resource.k8s.io/v1, which is on by default since Kubernetes 1.34."""
        return self._minor_version >= 34

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
