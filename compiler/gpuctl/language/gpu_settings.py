"""The platform's settings about GPUs: vendors, types, shares, MIG slices, claims for devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from gpuctl.language.device_drivers import DRIVERS, MIG_CLASS, DeviceDriver
from gpuctl.language.gpu_cards import VENDORS, Card, CardShare, card_named, cards_of, chip_of
from gpuctl.language.mig_profiles import slice_resources
from gpuctl.objects.quantities import MEBIBYTE, parse_quantity

if TYPE_CHECKING:
    # Without a platform no model is needed: commands that only read a cluster do not load pydantic.
    from gpuctl.language.gpu_block import Vendor
    from gpuctl.language.platform_document import PlatformDocument
    from gpuctl.language.resources_block import Resources


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


class GpuSettings:
    """The part of the platform's settings that is about GPUs. Without a platform file, built-in tables are used."""

    def __init__(self, platform: PlatformDocument | None = None) -> None:
        self._platform = platform

    @property
    def sharing(self) -> str:
        """The system that enforces shares of cards, or ``none``."""
        return self._platform.gpu.sharing if self._platform is not None else "none"

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

    @cached_property
    def gpu_classes(self) -> frozenset[str]:
        """DeviceClasses whose devices are GPUs or MIG slices; each slice counts as one."""
        return frozenset({*self.device_classes.values(), self.profile_class})

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


def _own_card(sharing: str, vendor: Vendor) -> Card:
    """Return the cards of a vendor that the platform defines. Known resources keep their shares."""
    if vendor.share is not None and sharing != "none":
        own = vendor.share
        unit = (parse_quantity(own.unit) or Fraction(MEBIBYTE)) / MEBIBYTE
        return Card(vendor.resource, CardShare(vendor.resource, own.memory, own.cores or "", unit, own.percent or ""))
    return card_named(sharing, vendor.resource)
