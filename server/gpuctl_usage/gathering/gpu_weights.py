"""GPUs that a pod holds and a node has, counted in whole cards.

A pod may request

- cards: the extended resource of one of the platform's vendors, such as ``nvidia.com/gpu``: 1 each;
- replicas of a card shared by time (``nvidia.com/gpu`` or ``nvidia.com/gpu.shared`` on a node with the label
  ``nvidia.com/gpu.replicas: k``): 1/k each. Source: NVIDIA's device plugin and GPU feature discovery, "Shared access to
  GPUs";
- MIG instances, ``nvidia.com/mig-3g.40gb``: one seventh for each compute slice, on an A30 or RTX PRO 6000 a quarter.
  Source: NVIDIA Multi-Instance GPU User Guide, profiles. With the MIG strategy ``single`` they are ``nvidia.com/gpu``,
  and the label ``nvidia.com/gpu.product`` ends in ``-MIG-3g.20gb``. Source: GPU feature discovery, "MIG Strategies";
- shares of HAMi and Volcano (``gpu.sharing``): the part of the cores, else of the memory, in percent or as an amount,
  by the resources in :mod:`gpuctl.language.gpu_cards`. The node reports a multiple of its cards; the label
  ``nvidia.com/gpu.count``, else the annotation with its cards, has their real number.

An amount of memory is divided by the memory of a card: the one in HAMi's or Volcano's annotation of the node (which its
scheduler uses), else in the label ``nvidia.com/gpu.memory``, else the one that the system defines for the chip. If all
are missing, or the cards of a node differ, the size of the share is unknown.

A quota limits extended resources only as ``requests.nvidia.com/gpu``. Source: Kubernetes 1.36,
``pkg/quota/v1/evaluator/core/pods.go`` (isExtendedResourceNameForQuota). Kueue uses the bare name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from gpuctl.capacity.kueue.queue_limits import queue_amounts
from gpuctl.capacity.snapshot.pod_requests import Amounts, amounts
from gpuctl.language.gpu_cards import CARDS, CardShare
from gpuctl.language.mig_profiles import card_slices, profile_of
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.queue_names import TYPES
from gpuctl.reading.nodes.node_gpus import UNKNOWN, PlatformGpus
from gpuctl.reading.nodes.registered_cards import registered_memory

GpuRequests = tuple[tuple[str, float], ...]
"""A pod's requests of GPU resources, and of resources that size its share of a card; empty if it has no GPU."""

_INSTANCE = re.compile(r"nvidia\.com/mig-([1-7])g\.[a-z0-9.+]+", re.ASCII)
_ONLY_INSTANCES = re.compile(r"-MIG-(?P<profile>[1-7]g\.[a-z0-9.+]+)(-SHARED)?", re.ASCII)
_LIMITED = "requests."
_SHARED = ".shared"
_MOST_TURNS = 1000
_CARDS = "nvidia.com/gpu.count"
_MEMORY = "nvidia.com/gpu.memory"
_PRODUCT = "nvidia.com/gpu.product"
_STRATEGY = "nvidia.com/mig.strategy"
_NVIDIA_CARD = "nvidia.com/gpu"
DEVICES, UNSIZED_DEVICES = "resource.k8s.io/gpus", "resource.k8s.io/unsized-gpus"
"""Pseudo resources of DRA: whole GPUs of claims, and partial GPUs whose size is unknown."""
_NVIDIA = ("nvidia.com/", "volcano.sh/")


class GpuWeights:
    """Converts resource amounts to GPUs, by the platform's vendors and sharing system."""

    def __init__(self, settings: Settings) -> None:
        self._gpus = PlatformGpus(settings)
        self.namespace_key = settings.label("namespace")
        self._types_key = settings.label(TYPES)
        counted = [
            {name for gpu in chips.values() for name in gpu.card.counted} for chips in settings.gpu_chips.values()
        ]
        self._chips = frozenset(name for names in counted if len(names) > 1 for name in names)
        self._default = {gpu.resource for gpu in settings.gpu_chips[settings.default_vendor].values()}
        # NVIDIA's are GPUs whatever the platform's vendors are.
        nvidia = CARDS.get(settings.sharing, {}).get("nvidia", {}).values()
        cards = [*nvidia, *(gpu.card for gpu in settings.gpus)]
        self._shares = {card.share.number or card.resource: card.share for card in cards if card.share is not None}
        self._parts = frozenset(part for share in self._shares.values() for part in share.parts)
        self._is_relevant = lru_cache(maxsize=4096)(self._relevant)

    def gpu_requests(self, requests: Amounts) -> GpuRequests:
        """Return the GPU-related part of a pod's requests."""
        found = tuple((name, float(amount)) for name, amount in requests.items() if self._is_relevant(name) and amount)
        if any(name not in self._parts for name, _ in found):
            return found
        parts = {name for name, _ in found}
        # Shares without a number are of one card.
        single = (name for name, share in self._shares.items() if not share.number and parts & {*share.parts})
        return next(((*found, (name, 1.0)) for name in single), ())

    def held_gpus(self, asked: GpuRequests, node: Mapping[str, float]) -> float | None:
        """Return the number of GPUs that a pod holds; None if the size of its share is unknown.

        :param node: units of each resource that make one card, from :meth:`units_per_card`.
        """
        table, total = dict(asked), 0.0
        for name, amount in asked:
            weight = self._weight(name, table, node)
            if weight is None:
                return None
            total += weight * amount / node.get(name, 1)
        return total

    def is_share(self, asked: GpuRequests) -> bool:
        """Return True if a pod requests a part of a card by cores or memory."""
        return any(name in self._parts for name, _ in asked)

    def quota_limits(self, hard: Amounts) -> GpuRequests:
        """Return the GPU-related limits of a quota, by the names that pods use."""
        found = ((name.removeprefix(_LIMITED), amount) for name, amount in hard.items() if name.startswith(_LIMITED))
        return tuple((name, max(float(amount), 0.0)) for name, amount in sorted(found) if self._is_relevant(name))

    def queue_limits(self, queue: Object) -> GpuRequests:
        """Return the GPU-related limits of a ClusterQueue, without what it may borrow."""
        found: dict[str, float] = {}
        typed: dict[str, float] = {}
        for name, gpu_type, total, _ in queue_amounts(queue, self._types_key):
            if self._is_relevant(name):
                table = found if gpu_type is None else typed
                table[name] = table.get(name, 0.0) + max(float(total), 0.0)
        # Nodes of a GPU type have the cards of one vendor, and the limit of the type is repeated for each vendor.
        for name in sorted(typed, key=lambda name: name not in self._default)[:1]:
            found[name] = typed[name]
        return tuple(sorted(found.items()))

    def max_gpus(self, limits: Mapping[str, float], turns: Mapping[str, float]) -> float | None:
        """Return the highest number of GPUs that limits allow; None if no GPU resource is limited.

        A quota of a vendor limits each of its chips to the same number, so only the chips that nodes have count.

        :param turns: replicas per card of each resource that nodes have, on the node with the fewest.
        """
        chips = self._chips & limits.keys()
        absent = chips - turns.keys() if chips & turns.keys() else frozenset()
        found = [
            self._instance(name) * amount / turns.get(name, 1)
            for name, amount in limits.items()
            if name not in self._shares and name not in self._parts and name not in absent
        ]
        for resource, how in self._shares.items():
            if resource in absent:
                continue
            # A divided resource is limited by the number of shares and by the percentage of which they are parts.
            limited = [limits[resource]] if resource in limits else []
            limited += [limits[name] / units for name, units in how.fractions if name in limits]
            found += [min(limited)] if limited else []
        return sum(found) if found else None

    def resource_turns(self, node: Object) -> Mapping[str, float]:
        """Return the GPU resources of a node with the number of replicas per card."""
        turns = self.replicas_per_card(node)
        names = (node.get("status") or {}).get("capacity") or {}
        return {name: turns.get(name, 1) for name in names if self._is_relevant(name) and name not in self._parts}

    def node_gpus(self, node: Object, field: str) -> float:
        """Return the number of GPUs in ``allocatable`` or ``capacity`` of a node's status."""
        turns = self.replicas_per_card(node)
        total = 0.0
        for name, amount in amounts((node.get("status") or {}).get(field)).items():
            if not self._is_relevant(name) or name in self._parts:
                continue
            if (how := self._shares.get(name)) is not None:
                # Limited to the number of cards; 0 if none is healthy.
                total += min(float(amount), self._cards(node, how) or float(amount))
            else:
                total += self._instance(name) * float(amount) / turns.get(name, 1)
        return total

    def units_per_card(self, node: Object) -> dict[str, float]:
        """Return the units of each resource that make one card of a node: :meth:`replicas_per_card`, and the memory of
        a card for shares in memory.
        """
        found: dict[str, float] = {**self.replicas_per_card(node)}
        for how in self._shares.values():
            size = self._card_memory(node, how)
            if size:
                found[how.memory] = float(size / how.unit)
        return found

    def replicas_per_card(self, node: Object) -> dict[str, float]:
        """Return the units of each resource that make one card of a node, if they are not one: for resources shared by
        time the replicas of a card.

        Of a MIG profile of which the node's cards have fewer slices than others, it is a fraction of one. Of cards that
        are MIG instances, it is the number of them that make a card.
        """
        labels, gpu_type = labels_of(node), self.model_of(node)
        found: dict[str, float] = {}
        for label, value in labels.items():
            name = label.removesuffix(".replicas")
            if name == label or not value.isdecimal() or not 1 < int(value[:9]) <= _MOST_TURNS:
                continue
            found |= {resource: int(value) for resource in (name, name + _SHARED) if self._is_relevant(resource)}
        for name in (node.get("status") or {}).get("capacity") or {}:
            profile = profile_of(name.removesuffix(_SHARED))
            if profile is not None and (own := card_slices(profile, gpu_type)) != (others := card_slices(profile)):
                found[name] = found.get(name, 1) * own / others
        if (weight := _weight_of_cards(labels)) != 1 and _NVIDIA_CARD not in self._shares:
            for name in (_NVIDIA_CARD, _NVIDIA_CARD + _SHARED):
                found[name] = found.get(name, 1) / weight
        return found

    def model_of(self, node: Object) -> str:
        """Return the GPU type of a node."""
        return self._gpus.type_of(node) or UNKNOWN

    def _relevant(self, name: str) -> bool:
        whole = name.removesuffix(_SHARED)
        known = whole in self._gpus.vendors or _INSTANCE.fullmatch(whole) is not None
        return known or name in self._shares or name in self._parts

    def _weight(self, name: str, asked: Mapping[str, float], node: Mapping[str, float]) -> float | None:
        """Return the part of a card that one unit of a resource is; None if unknown."""
        if name in self._parts:
            return 0.0
        if name == UNSIZED_DEVICES:
            return None
        how = self._shares.get(name)
        if how is None:
            return self._instance(name)
        for part, units in how.fractions:
            if part in asked:
                return min(asked[part] / units, 1.0)
        if how.memory not in asked:
            return 1.0
        size = node.get(how.memory)
        # More memory than the card of the label: the node must have another card.
        return asked[how.memory] / size if size and asked[how.memory] <= size else None

    @staticmethod
    def _instance(name: str) -> float:
        instance = _INSTANCE.fullmatch(name.removesuffix(_SHARED))
        return int(instance[1]) / card_slices(profile_of(name.removesuffix(_SHARED)) or "") if instance else 1.0

    def _cards(self, node: Object, how: CardShare) -> int:
        value = labels_of(node).get(_CARDS, "") if how.number.startswith(_NVIDIA) else ""
        return int(value[:9]) if value.isdecimal() else len(registered_memory(node, how.registered))

    def _card_memory(self, node: Object, how: CardShare) -> float | None:
        """Return the memory of a card in MiB; None if it is unknown or the cards differ."""
        sizes = set(registered_memory(node, how.registered))
        if sizes:
            return sizes.pop() if len(sizes) == 1 else None
        value = labels_of(node).get(_MEMORY, "") if how.number.startswith(_NVIDIA) else ""
        return float(value[:9]) if value.isdecimal() else how.card or None


def _weight_of_cards(labels: Mapping[str, str]) -> float:
    """Return the part of a card that ``nvidia.com/gpu`` of a node is: less than 1 with the MIG strategy ``single``."""
    product = labels.get(_PRODUCT, "")
    found = _ONLY_INSTANCES.search(product) if labels.get(_STRATEGY) == "single" else None
    profile = found and profile_of(f"nvidia.com/mig-{found['profile']}")
    return int(profile[0]) / card_slices(profile, product) if profile else 1.0
