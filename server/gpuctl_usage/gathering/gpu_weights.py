"""GPUs that a pod holds and a node has, counted in whole cards.

A pod may request

- cards: the extended resource of one of the platform's vendors, such as ``nvidia.com/gpu``: 1 each;
- replicas of a card shared by time (``nvidia.com/gpu`` or ``nvidia.com/gpu.shared`` on a node with the label
  ``nvidia.com/gpu.replicas: k``): 1/k each. Source: NVIDIA's device plugin and GPU feature discovery, "Shared access to
  GPUs";
- MIG instances, ``nvidia.com/mig-3g.40gb``: one seventh for each compute slice. Source: NVIDIA Multi-Instance GPU User
  Guide, profiles;
- HAMi's shares (``gpu.sharing: hami``): the part of the cores, ``nvidia.com/gpucores`` in percent, else the part of the
  memory, in percent or as an amount. The node reports a multiple of its cards; the label ``nvidia.com/gpu.count``, else
  HAMi's annotation, has their real number;
- Volcano's shares (``gpu.sharing: volcano``): ``volcano.sh/vgpu-number`` with cores or memory, likewise.

An amount of memory is divided by the memory of a card: the one in HAMi's or Volcano's annotation of the node (which its
scheduler uses), else in the label ``nvidia.com/gpu.memory``. If both are missing, or the cards of a node differ, the
size of the share is unknown. Units of memory follow HAMi's documentation of each vendor's devices.

A quota limits extended resources only as ``requests.nvidia.com/gpu``. Source: Kubernetes 1.36,
``pkg/quota/v1/evaluator/core/pods.go`` (isExtendedResourceNameForQuota).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from gpuctl.capacity.pod_requests import Amounts, amounts
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object, annotations_of, labels_of
from gpuctl.reading.node_gpus import UNKNOWN, PlatformGpus

GpuRequests = tuple[tuple[str, float], ...]
"""A pod's requests of GPU resources, and of resources that size its share of a card; empty if it has no GPU."""

_INSTANCE = re.compile(r"nvidia\.com/mig-([1-7])g\.[a-z0-9.+]+", re.ASCII)
_SLICES = 7
_LIMITED = "requests."
_SHARED = ".shared"
_MOST_TURNS = 1000
_CARDS = "nvidia.com/gpu.count"
_MEMORY = "nvidia.com/gpu.memory"
DEVICES, UNSIZED_DEVICES = "resource.k8s.io/gpus", "resource.k8s.io/unsized-gpus"
"""Pseudo resources of DRA: whole GPUs of claims, and partial GPUs whose size is unknown."""
_REGISTERED = re.compile(r"hami\.io/node-(.+)-register|volcano\.sh/node-(vgpu)-register")


class _Divided(NamedTuple):
    """Resources that size the shares of a divided resource.

    :param percent: resources in percent of each card; the first one that a pod requests counts.
    :param memory: resource in memory of each card, in units of ``mebibytes``; "" if the vendor has none.
    :param vendor: name of the vendor in annotations of nodes.
    """

    percent: tuple[str, ...]
    memory: str
    mebibytes: int = 1
    vendor: str = "nvidia"


_NVIDIA = _Divided(("nvidia.com/gpucores", "nvidia.com/gpumem-percentage"), "nvidia.com/gpumem")
_VOLCANO = _Divided(
    ("volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory-percentage"), "volcano.sh/vgpu-memory", vendor="vgpu"
)
_SHARES: Mapping[str, Mapping[str, _Divided]] = {
    "hami": {
        "nvidia.com/gpu": _NVIDIA,
        "hygon.com/dcunum": _Divided(("hygon.com/dcucores",), "hygon.com/dcumem", vendor="dcu"),
        "cambricon.com/vmlu": _Divided(
            ("cambricon.com/mlu.smlu.vcore", "cambricon.com/mlu.smlu.vmemory"), "", vendor="mlu"
        ),
        "mthreads.com/vgpu": _Divided((), "mthreads.com/sgpu-memory", 512, "mthreads"),
        "iluvatar.ai/vgpu": _Divided(("iluvatar.ai/vcuda-core",), "iluvatar.ai/vcuda-memory", 256, "iluvatar"),
        "metax-tech.com/sgpu": _Divided(("metax-tech.com/vcore",), "metax-tech.com/vmemory", 1024, "metax"),
    },
    "volcano": {"volcano.sh/vgpu-number": _VOLCANO},
}
"""Sharing system -> the resources that it divides."""
_DEFAULT = {"hami": "nvidia.com/gpu", "volcano": "volcano.sh/vgpu-number"}
"""Resources that are GPUs whatever the platform's vendors are."""
_ASCEND = re.compile(r"huawei\.com/Ascend[A-Za-z0-9]+")


class GpuWeights:
    """Converts resource amounts to GPUs, by the platform's vendors and sharing system."""

    def __init__(self, settings: Settings) -> None:
        self._gpus = PlatformGpus(settings)
        sharing = settings.platform.gpu.sharing
        shares = dict(_SHARES.get(sharing, {}))
        if sharing == "hami":
            ascend = filter(_ASCEND.fullmatch, self._gpus.vendors)
            shares |= {name: _Divided((), f"{name}-memory", vendor=name.partition("/")[2]) for name in ascend}
        default = _DEFAULT.get(sharing)
        self._shares = {name: how for name, how in shares.items() if name == default or name in self._gpus.vendors}
        every = (name for how in self._shares.values() for name in (*how.percent, how.memory))
        self._parts = frozenset(filter(None, every))
        self._is_relevant = lru_cache(maxsize=4096)(self._relevant)

    def gpu_requests(self, requests: Amounts) -> GpuRequests:
        """Return the GPU-related part of a pod's requests."""
        found = tuple((name, float(amount)) for name, amount in requests.items() if self._is_relevant(name) and amount)
        return found if any(name not in self._parts for name, _ in found) else ()

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

    def max_gpus(self, limits: Mapping[str, float], turns: Mapping[str, int]) -> float | None:
        """Return the highest number of GPUs that limits allow; None if no GPU resource is limited.

        :param turns: replicas per card of each resource, on the node with the fewest.
        """
        found = [
            self._instance(name) * amount / turns.get(name, 1)
            for name, amount in limits.items()
            if name not in self._shares and name not in self._parts
        ]
        for resource, how in self._shares.items():
            # A divided resource is limited by the number of shares and by the percentage of which they are parts.
            limited = [limits[resource]] if resource in limits else []
            limited += [limits[name] / 100 for name in how.percent if name in limits]
            found += [min(limited)] if limited else []
        return sum(found) if found else None

    def resource_turns(self, node: Object) -> Mapping[str, int]:
        """Return the GPU resources of a node with the number of replicas per card."""
        turns = self.turns(node)
        names = (node.get("status") or {}).get("capacity") or {}
        return {name: turns.get(name, 1) for name in names if self._is_relevant(name) and name not in self._parts}

    def node_gpus(self, node: Object, field: str) -> float:
        """Return the number of GPUs in ``allocatable`` or ``capacity`` of a node's status."""
        turns = self.turns(node)
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
        """Return the units of each resource that make one card of a node: :meth:`turns` for resources shared by time,
        the memory of a card for shares in memory.
        """
        found: dict[str, float] = {**self.turns(node)}
        for how in self._shares.values():
            size = self._card_memory(node, how)
            if how.memory and size:
                found[how.memory] = size / how.mebibytes
        return found

    def turns(self, node: Object) -> dict[str, int]:
        """Return the number of replicas per card of each resource of a node that is shared by time."""
        labels = labels_of(node)
        found: dict[str, int] = {}
        for label, value in labels.items():
            name = label.removesuffix(".replicas")
            if name == label or not value.isdecimal() or not 1 < int(value[:9]) <= _MOST_TURNS:
                continue
            found |= {resource: int(value) for resource in (name, name + _SHARED) if self._is_relevant(resource)}
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
        for part in how.percent:
            if part in asked:
                return min(asked[part], 100.0) / 100
        if how.memory not in asked:
            return 1.0
        size = node.get(how.memory)
        # More memory than the card of the label: the node must have another card.
        return asked[how.memory] / size if size and asked[how.memory] <= size else None

    @staticmethod
    def _instance(name: str) -> float:
        instance = _INSTANCE.fullmatch(name.removesuffix(_SHARED))
        return int(instance[1]) / _SLICES if instance else 1.0

    def _cards(self, node: Object, how: _Divided) -> int:
        value = labels_of(node).get(_CARDS, "") if how in (_NVIDIA, _VOLCANO) else ""
        return int(value[:9]) if value.isdecimal() else len(_registered(node, how.vendor))

    def _card_memory(self, node: Object, how: _Divided) -> float | None:
        """Return the memory of a card in MiB; None if it is unknown or the cards differ."""
        sizes = set(_registered(node, how.vendor))
        if sizes:
            return sizes.pop() if len(sizes) == 1 else None
        value = labels_of(node).get(_MEMORY, "") if how in (_NVIDIA, _VOLCANO) else ""
        return float(value[:9]) if value.isdecimal() else None


def _registered(node: Object, vendor: str) -> list[float]:
    """Return the memory in MiB of each card in the annotation of HAMi or Volcano, which is a JSON list or
    ``id,count,memory,...:id,...``; 0 if a card has no memory in it.
    """
    text = next(
        (
            value
            for name, value in annotations_of(node).items()
            if (match := _REGISTERED.fullmatch(name)) and vendor.lower() == (match[1] or match[2]).lower()
        ),
        "",
    )
    try:
        listed = json.loads(text)
        memories = [card.get("devmem") for card in listed if isinstance(card, dict)] if isinstance(listed, list) else []
    except ValueError:
        memories = [card.split(",")[2:3] for card in text.split(":") if card.count(",") > 1]
        memories = [int(size[0][:9]) if size and size[0].isdecimal() else 0 for size in memories]
    return [float(size) if isinstance(size, int) and size > 0 else 0.0 for size in memories]
