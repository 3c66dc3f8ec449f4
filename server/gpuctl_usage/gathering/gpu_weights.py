"""How many GPUs a pod holds and a node has, where cards may be divided.

Counted in whole cards. A pod asks for

- cards: the extended resource of a vendor of the platform, such as ``nvidia.com/gpu``: 1 each;
- turns of a card that is shared by time (``nvidia.com/gpu`` or ``nvidia.com/gpu.shared`` on a node whose label
  ``nvidia.com/gpu.replicas`` says k): 1/k each. Source: NVIDIA's device plugin and GPU feature discovery, "Shared
  access to GPUs";
- instances of a divided card, ``nvidia.com/mig-3g.40gb``: as many sevenths as it has compute slices, at most 7.
  Source: NVIDIA Multi-Instance GPU User Guide, profiles;
- HAMi's shares (``gpu.sharing: hami``): the part of the cores, ``nvidia.com/gpucores`` in percent, else the part of the
  memory, in percent or as an amount. The node then says that it has some times as many GPUs as there are cards: what
  counts is the label ``nvidia.com/gpu.count``, else the cards in HAMi's annotation;
- Volcano's shares (``gpu.sharing: volcano``): ``volcano.sh/vgpu-number`` with cores or memory, likewise.

An amount of memory is a part of the memory of a card, which is what HAMi's or Volcano's annotation of the node says
(its scheduler divides by that), else the label ``nvidia.com/gpu.memory``. If neither says it, or cards of a node
differ, the size of the share is unknown. Units of memory are those of HAMi's documentation of each vendor's devices.

A quota limits them as ``requests.nvidia.com/gpu`` and so on: of extended resources it knows no other form. Source:
Kubernetes 1.36, ``pkg/quota/v1/evaluator/core/pods.go`` (isExtendedResourceNameForQuota).
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
"""What a pod asks for of the resources that are GPUs or say how much of them; empty: it holds none."""

_INSTANCE = re.compile(r"nvidia\.com/mig-([1-7])g\.[a-z0-9.+]+", re.ASCII)
_SLICES = 7
_LIMITED = "requests."
_SHARED = ".shared"
_MOST_TURNS = 1000
_CARDS = "nvidia.com/gpu.count"
_MEMORY = "nvidia.com/gpu.memory"
DEVICES, UNSIZED_DEVICES = "resource.k8s.io/gpus", "resource.k8s.io/unsized-gpus"
"""Whole GPUs that a pod claims by dynamic resource allocation, and parts of GPUs, whose size is unknown."""
_REGISTERED = re.compile(r"hami\.io/node-(.+)-register|volcano\.sh/node-(vgpu)-register")


class _Divided(NamedTuple):
    """How shares of a resource say how large they are.

    :param percent: resources that are a percentage of each card; the first that a pod asks for counts.
    :param memory: the resource that is an amount of memory of each card, in units of ``mebibytes``.
    :param vendor: as annotations of nodes name it.
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
"""System -> the resources that it divides."""
_DEFAULT = {"hami": "nvidia.com/gpu", "volcano": "volcano.sh/vgpu-number"}
"""Those that are GPUs whatever the platform's vendors are."""
_ASCEND = re.compile(r"huawei\.com/Ascend[A-Za-z0-9]+")


class GpuWeights:
    """What counts as how much of a GPU on a platform."""

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
        """What of a pod's requests matters here."""
        found = tuple((name, float(amount)) for name, amount in requests.items() if self._is_relevant(name) and amount)
        return found if any(name not in self._parts for name, _ in found) else ()

    def held_gpus(self, asked: GpuRequests, node: Mapping[str, float]) -> float | None:
        """Return the GPUs that a pod holds; None if the size of its share is unknown.

        :param node: how many units of a resource make a card, as :meth:`units_per_card` has it.
        """
        table, total = dict(asked), 0.0
        for name, amount in asked:
            weight = self._weight(name, table, node)
            if weight is None:
                return None
            total += weight * amount / node.get(name, 1)
        return total

    def is_share(self, asked: GpuRequests) -> bool:
        """Return True if a pod asks for a part of a card by cores or memory."""
        return any(name in self._parts for name, _ in asked)

    def quota_limits(self, hard: Amounts) -> GpuRequests:
        """What a quota limits of it, by the names that pods use."""
        found = ((name.removeprefix(_LIMITED), amount) for name, amount in hard.items() if name.startswith(_LIMITED))
        return tuple((name, max(float(amount), 0.0)) for name, amount in sorted(found) if self._is_relevant(name))

    def max_gpus(self, limits: Mapping[str, float], turns: Mapping[str, int]) -> float | None:
        """The most GPUs that can be held within limits, of the resources that have one; None where none has.

        :param turns: how many share a card, by resource, where the fewest do.
        """
        found = [
            self._instance(name) * amount / turns.get(name, 1)
            for name, amount in limits.items()
            if name not in self._shares and name not in self._parts
        ]
        for resource, how in self._shares.items():
            # The number of shares limits a divided resource, and so does the percentage of which they are parts.
            limited = [limits[resource]] if resource in limits else []
            limited += [limits[name] / 100 for name in how.percent if name in limits]
            found += [min(limited)] if limited else []
        return sum(found) if found else None

    def resource_turns(self, node: Object) -> Mapping[str, int]:
        """The resources that a node has, and how many share a card of each."""
        turns = self.turns(node)
        names = (node.get("status") or {}).get("capacity") or {}
        return {name: turns.get(name, 1) for name in names if self._is_relevant(name) and name not in self._parts}

    def node_gpus(self, node: Object, field: str) -> float:
        """The GPUs of a node, by ``allocatable`` or ``capacity`` of its status."""
        turns = self.turns(node)
        total = 0.0
        for name, amount in amounts((node.get("status") or {}).get(field)).items():
            if not self._is_relevant(name) or name in self._parts:
                continue
            if (how := self._shares.get(name)) is not None:
                # As many as there are cards, unless all of them are out of order.
                total += min(float(amount), self._cards(node, how) or float(amount))
            else:
                total += self._instance(name) * float(amount) / turns.get(name, 1)
        return total

    def units_per_card(self, node: Object) -> dict[str, float]:
        """Return how many units of a resource make a card of a node: :meth:`turns` of those that are shared by time,
        and memory of those whose shares are amounts of it."""
        found: dict[str, float] = {**self.turns(node)}
        for how in self._shares.values():
            size = self._card_memory(node, how)
            if how.memory and size:
                found[how.memory] = size / how.mebibytes
        return found

    def turns(self, node: Object) -> dict[str, int]:
        """How many share a card of a node by time, by resource; those that nobody shares are not among them."""
        labels = labels_of(node)
        found: dict[str, int] = {}
        for label, value in labels.items():
            name = label.removesuffix(".replicas")
            if name == label or not value.isdecimal() or not 1 < int(value[:9]) <= _MOST_TURNS:
                continue
            found |= {resource: int(value) for resource in (name, name + _SHARED) if self._is_relevant(resource)}
        return found

    def model_of(self, node: Object) -> str:
        """The type of a node's GPUs."""
        return self._gpus.type_of(node) or UNKNOWN

    def _relevant(self, name: str) -> bool:
        whole = name.removesuffix(_SHARED)
        known = whole in self._gpus.vendors or _INSTANCE.fullmatch(whole) is not None
        return known or name in self._shares or name in self._parts

    def _weight(self, name: str, asked: Mapping[str, float], node: Mapping[str, float]) -> float | None:
        """Return the part of a card that one of a resource is; None if it is unknown."""
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
        # The card that has more than this is another one.
        return asked[how.memory] / size if size and asked[how.memory] <= size else None

    @staticmethod
    def _instance(name: str) -> float:
        instance = _INSTANCE.fullmatch(name.removesuffix(_SHARED))
        return int(instance[1]) / _SLICES if instance else 1.0

    def _cards(self, node: Object, how: _Divided) -> int:
        value = labels_of(node).get(_CARDS, "") if how in (_NVIDIA, _VOLCANO) else ""
        return int(value[:9]) if value.isdecimal() else len(_registered(node, how.vendor))

    def _card_memory(self, node: Object, how: _Divided) -> float | None:
        """Return the MiB of a card; None if it is unknown, or cards differ."""
        sizes = set(_registered(node, how.vendor))
        if sizes:
            return sizes.pop() if len(sizes) == 1 else None
        value = labels_of(node).get(_MEMORY, "") if how in (_NVIDIA, _VOLCANO) else ""
        return float(value[:9]) if value.isdecimal() else None


def _registered(node: Object, vendor: str) -> list[float]:
    """Return the MiB of each card that HAMi or Volcano has registered, as a list of JSON or as
    ``id,count,memory,...:id,...``; 0 for one that does not say it."""
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
