"""The node labels that may be set through the service."""

from __future__ import annotations

from collections.abc import Collection

from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.nodes.node_gpus import PlatformGpus

_OF_KUBERNETES = ("kubernetes.io", "k8s.io")
"""Domains whose labels the scheduler, controllers and volumes trust. Source: the admission plugin NodeRestriction."""


class LabelKeys:
    """The rules for label keys.

    :param of_kubernetes: keys in the domains of Kubernetes that are allowed nevertheless.
    :param for_limited: further keys for tokens with limits; ``example.com/`` means all keys with this prefix.
    """

    def __init__(self, platform: Settings, of_kubernetes: Collection[str], for_limited: Collection[str]) -> None:
        self._domain = records(platform).pool.rpartition("/")[0]
        self._gpus = PlatformGpus(platform)
        self._of_kubernetes = of_kubernetes
        self._for_limited = for_limited

    def problem(self, key: str, *, is_limited: bool) -> str | None:
        """Return why a label may not be set or deleted, or None if it may.

        :param is_limited: the caller is anyone but an admin without limits.
        """
        prefix, slash, _ = key.rpartition("/")
        if key not in self._of_kubernetes and any(f".{prefix}".endswith(f".{domain}") for domain in _OF_KUBERNETES):
            return say(
                "the label {key} belongs to Kubernetes: the scheduler and volumes rely on it, and the setting "
                "`kubernetes_labels` does not allow it",
                key=key,
            )
        own = prefix == self._domain or self._gpus.is_label(key)
        if not is_limited or own or key in self._for_limited or f"{prefix}{slash}" in self._for_limited:
            return None
        return say(
            "a token with limits may set the labels of {domain}/ and those that name a GPU type: the setting "
            "`label_keys` does not allow {key}",
            domain=self._domain,
            key=key,
        )
