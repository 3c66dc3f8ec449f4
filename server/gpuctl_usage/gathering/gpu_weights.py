"""How many GPUs a pod holds and a node has, where cards may be divided.

Counted in whole cards. A pod asks for

- cards: the extended resource of a vendor of the platform, such as ``nvidia.com/gpu``: 1 each;
- turns of a card that is shared by time (``nvidia.com/gpu`` or ``nvidia.com/gpu.shared`` on a node whose label
  ``nvidia.com/gpu.replicas`` says k): 1/k each. Source: NVIDIA's device plugin and GPU feature discovery, "Shared
  access to GPUs";
- instances of a divided card, ``nvidia.com/mig-3g.40gb``: as many sevenths as it has compute slices, at most 7.
  Source: NVIDIA Multi-Instance GPU User Guide, profiles;
- HAMi's shares (``gpu.sharing: hami``): the part of the cores, ``nvidia.com/gpucores`` in percent, else the part of the
  memory. The node then says that it has some times as many GPUs as there are cards: what counts is the label
  ``nvidia.com/gpu.count``, else the cards in HAMi's annotation;
- Volcano's shares (``gpu.sharing: volcano``): ``volcano.sh/vgpu-number`` with cores or memory in percent.

A quota limits them as ``requests.nvidia.com/gpu`` and so on: of extended resources it knows no other form. Source:
Kubernetes 1.36, ``pkg/quota/v1/evaluator/core/pods.go`` (isExtendedResourceNameForQuota).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from gpuctl.backend.api_resources import Object, annotations_of, labels_of
from gpuctl.capacity.pod_requests import Amounts, amounts
from gpuctl.language.settings import Settings
from gpuctl.reading.node_gpus import UNKNOWN, Gpus

Asked = tuple[tuple[str, float], ...]
"""What a pod asks for of the resources that are GPUs or say how much of them; empty: it holds none."""

_INSTANCE = re.compile(r"nvidia\.com/mig-([1-7])g\.[a-z0-9.+]+", re.ASCII)
_SLICES = 7
_LIMITED = "requests."
_SHARED = ".shared"
_MOST_TURNS = 1000
_CARDS = "nvidia.com/gpu.count"
_REGISTERED = "hami.io/node-nvidia-register"
_PARTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "hami": ("nvidia.com/gpu", ("nvidia.com/gpucores", "nvidia.com/gpumem-percentage")),
    "volcano": ("volcano.sh/vgpu-number", ("volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory-percentage")),
}
"""System -> the resource that it divides, and what says which part (percent), the one that counts first."""


class GpuWeights:
    """What counts as how much of a GPU on a platform."""

    def __init__(self, settings: Settings) -> None:
        self._gpus = Gpus(settings)
        self._divided, self._parts = _PARTS.get(settings.platform.gpu.sharing, ("", ()))
        self._is_relevant = lru_cache(maxsize=4096)(self._relevant)

    def asked(self, requests: Amounts) -> Asked:
        """What of a pod's requests matters here."""
        found = tuple((name, float(amount)) for name, amount in requests.items() if self._is_relevant(name) and amount)
        return found if any(name not in self._parts for name, _ in found) else ()

    def held(self, asked: Asked, node: Mapping[str, int]) -> float:
        """The GPUs that a pod holds.

        :param node: how many share a card, by resource, as :meth:`turns` has it.
        """
        table = dict(asked)
        return sum(self._weight(name, table) * amount / node.get(name, 1) for name, amount in asked)

    def limited(self, hard: Amounts) -> Asked:
        """What a quota limits of it, by the names that pods use."""
        found = ((name.removeprefix(_LIMITED), amount) for name, amount in hard.items() if name.startswith(_LIMITED))
        return tuple((name, max(float(amount), 0.0)) for name, amount in sorted(found) if self._is_relevant(name))

    def most(self, limits: Mapping[str, float], turns: Mapping[str, int]) -> float | None:
        """The most GPUs that can be held within limits, of the resources that have one; None where none has.

        :param turns: how many share a card, by resource, where the fewest do.
        """
        whole = [amount for name, amount in limits.items() if name == self._divided]
        divided = [*whole, *(limits[name] / 100 for name in self._parts if name in limits)]
        others = [
            self._weight(name, {}) * amount / turns.get(name, 1)
            for name, amount in limits.items()
            if name != self._divided and name not in self._parts
        ]
        # The number of shares limits a divided resource, and what they are parts of does so too.
        found = [*others, min(divided)] if divided else others
        return sum(found) if found else None

    def offered(self, node: Object) -> Mapping[str, int]:
        """The resources that a node has, and how many share a card of each."""
        turns = self.turns(node)
        names = (node.get("status") or {}).get("capacity") or {}
        return {name: turns.get(name, 1) for name in names if self._is_relevant(name)}

    def there(self, node: Object, field: str) -> float:
        """The GPUs of a node, by ``allocatable`` or ``capacity`` of its status."""
        turns = self.turns(node)
        total = 0.0
        for name, amount in amounts((node.get("status") or {}).get(field)).items():
            if not self._is_relevant(name) or name in self._parts:
                continue
            if name == self._divided:
                # As many as there are cards, unless all of them are out of order.
                total += min(float(amount), self._cards(node) or float(amount))
            else:
                instance = _INSTANCE.fullmatch(name.removesuffix(_SHARED))
                total += (int(instance[1]) / _SLICES if instance else 1) * float(amount) / turns.get(name, 1)
        return total

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
        return known or name == self._divided or name in self._parts

    def _weight(self, name: str, asked: Mapping[str, float]) -> float:
        if name in self._parts:
            return 0.0
        if name == self._divided:
            part = next((asked[part] for part in self._parts if part in asked), 100.0)
            return min(part, 100.0) / 100
        instance = _INSTANCE.fullmatch(name.removesuffix(_SHARED))
        return int(instance[1]) / _SLICES if instance else 1.0

    def _cards(self, node: Object) -> int:
        value = labels_of(node).get(_CARDS, "")
        if value.isdecimal():
            return int(value[:9])
        return annotations_of(node).get(_REGISTERED, "").count("GPU-")
