"""DRA drivers of GPU vendors: their DeviceClasses, and the attributes by which they describe a card.

Sources: NVIDIA/k8s-dra-driver-gpu (``deviceinfo.go``, ``mig.go``, ``deviceclass-gpu.yaml``,
``deviceclass-mig.yaml``), ROCm/k8s-gpu-dra-driver
(``docs/driver-attributes.md``, ``deviceclass.yaml``), intel/intel-resource-drivers-for-kubernetes (``node_state.go``,
``device-class.yaml``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import NamedTuple

# k8s.io/api/resource/v1: AllocationResultsMaxSize, FirstAvailableDeviceRequestMaxSize.
MOST_DEVICES = 32
MOST_ALTERNATIVES = 8
WHOLE_CARDS = frozenset({"gpu", "amdgpu"})
"""Values of the attribute `type` of whole cards: NVIDIA's and AMD's. Parts have others, such as `mig`."""
MIG_CLASS = "mig.nvidia.com"
"""DeviceClass of MIG slices that the installation of NVIDIA's driver creates."""
_LIMIT = ".deviceclass.resource.k8s.io/devices"
FIRST_VERSION = "1.34"
"""Kubernetes version since which resource.k8s.io/v1 is served."""

_MEMORY = re.compile(r'has\(device\.capacity\["[^"]+"\]\.\w+\) && .*compareTo\(quantity\("([^"]+)"\)\) >= 0')
_PROFILE = re.compile(r'has\(device\.attributes\["[^"]+"\]\.\w+\) && device\.attributes\["[^"]+"\]\.\w+ == "([^"]+)"')
_PRODUCTS = re.compile(r'device\.attributes\["[^"]+"\]\.\w+ in (\[.*\])')


class DeviceDriver(NamedTuple):
    """A vendor's driver: its name, which is the domain of its attributes, and the names of two of them.

    ``device_class``: the DeviceClass that the driver's installation creates. ``product``: attribute with the product's
    name. ``memory``: capacity with the card's memory in bytes. ``profile``: attribute with the profile of a MIG slice.
    """

    name: str
    device_class: str
    product: str = "productName"
    memory: str = "memory"
    profile: str = "profile"

    def has_memory(self, least: str) -> str:
        """Return the selector of cards with so much memory or more. A card of unknown memory is not selected."""
        memory = f'device.capacity["{self.name}"].{self.memory}'
        return f'has({memory}) && {memory}.compareTo(quantity("{least}")) >= 0'

    def has_profile(self, profile: str) -> str:
        """Return the selector of MIG slices of a profile. Whole cards have no such attribute and are not selected."""
        own = f'device.attributes["{self.name}"].{self.profile}'
        return f'has({own}) && {own} == "{profile}"'

    def is_product(self, products: Iterable[str]) -> str:
        """Return the selector of cards with one of these product names."""
        return f'device.attributes["{self.name}"].{self.product} in {json.dumps(list(products), ensure_ascii=False)}'


DRIVERS: dict[str, DeviceDriver] = {
    "nvidia": DeviceDriver("gpu.nvidia.com", "gpu.nvidia.com"),
    "amd": DeviceDriver("gpu.amd.com", "gpu.amd.com"),
    "intel": DeviceDriver("gpu.intel.com", "gpu.intel.com", product="model"),
}
"""Vendor -> the driver whose attributes are known."""
_DOMAINS = {driver.device_class: driver.name for driver in DRIVERS.values()} | {MIG_CLASS: DRIVERS["nvidia"].name}
"""DeviceClass -> domain of the attributes of its driver."""


def class_limit(device_class: str) -> str:
    """Return the key of a ResourceQuota that limits the devices of a class: those of all claims of the namespace."""
    return device_class + _LIMIT


def described(selector: str, device_class: str) -> str:
    """Return a selector of this module in words, and any other selector unchanged.

    Only selectors by attributes of the class's own driver, so that different selectors of a class have different texts.
    """
    if f'["{_DOMAINS.get(device_class, device_class)}"]' not in selector:
        return selector
    memory, products, profile = least_memory(selector), products_in(selector), profile_in(selector)
    if memory is not None:
        return f"memory >= {memory}"
    if profile is not None:
        return f"profile {profile}"
    return selector if products is None else " or ".join(map(json.dumps, products))


def least_memory(selector: str) -> str | None:
    """Return the amount in a selector of :meth:`DeviceDriver.has_memory`; None for another selector."""
    match = _MEMORY.fullmatch(selector)
    return match[1] if match is not None else None


def profile_in(selector: str) -> str | None:
    """Return the profile in a selector of :meth:`DeviceDriver.has_profile`; None for another selector."""
    match = _PROFILE.fullmatch(selector)
    return match[1] if match is not None else None


def products_in(selector: str) -> list[str] | None:
    """Return the names in a selector of :meth:`DeviceDriver.is_product`; None for another selector."""
    match = _PRODUCTS.fullmatch(selector)
    return list(json.loads(match[1])) if match is not None else None
