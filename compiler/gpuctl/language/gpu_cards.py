"""Extended resources of cards and of their shares, by sharing system, vendor and chip.

Sources: HAMi at 4707fb02 (August 2026), charts/hami (values.yaml, device-configmap.yaml) for names, pkg/device for
units and accepted amounts, docs/userguide for shares of several cards; Volcano at ed72c7c8, docs/user-guide
(how_to_use_volcano_vgpu.md, how_to_use_vnpu.md); Huawei MindCluster, scheduling guide, for the device plugin's names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from gpuctl.objects.quantities import MEBIBYTE, format_bytes, parse_quantity

TITLES = {"hami": "HAMi", "volcano": "Volcano"}
"""Sharing system -> its name in messages."""


class CardShare(NamedTuple):
    """The resources by which a pod requests a share of each of its cards.

    :ivar number: number of cards; "" if a share is always of one card, without a number.
    :ivar memory: memory of each share, in units of ``unit`` MiB.
    :ivar percent: memory of each share in percent of its card; "" if the vendor has none.
    :ivar cores: compute cores of each share, of which a card has ``core_units``; "" if the memory determines them.
    :ivar card: memory of a card in MiB, where the system defines it; 0 otherwise.
    :ivar sizes: the only amounts of ``memory`` that are accepted; empty for any.
    :ivar core_annotation: annotation of pods that request cores.
    :ivar several: True if a pod can have shares of more than one card.
    :ivar registered: name of the vendor or chip in the annotation of nodes with their list of cards.
    :ivar scheduler: scheduler of pods with shares; "" if a webhook sets it.
    """

    number: str
    memory: str
    cores: str = ""
    unit: int | Fraction = 1
    percent: str = ""
    core_units: int = 100
    card: int = 0
    sizes: tuple[int, ...] = ()
    core_annotation: tuple[str, str] | None = None
    several: bool = False
    registered: str = ""
    scheduler: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The resources that determine the size of a share."""
        return tuple(filter(None, (self.cores, self.percent, self.memory)))

    @property
    def fractions(self) -> list[tuple[str, int]]:
        """The resources that are fractions of a card, with the amount of a whole card; the first that a pod requests
        determines the size of its share.
        """
        return [(name, units) for name, units in ((self.cores, self.core_units), (self.percent, 100)) if name]

    def in_words(self, resource: str, amount: int) -> str:
        """Return an amount of one of :attr:`parts`: ``8Gi GPU memory``, ``30% GPU cores``."""
        if resource == self.memory:
            return f"{format_bytes(int(amount * self.unit * MEBIBYTE))} GPU memory"
        units = self.core_units if resource == self.cores else 100
        return f"{float(Fraction(amount * 100, units)):g}% GPU {'cores' if resource == self.cores else 'memory'}"

    def memory_amount(self, memory: Fraction) -> dict[str, int] | None:
        """Return the resource and amount for a share's memory; None for a fraction of an unknown amount.

        :param memory: bytes, or a fraction of the card if at most 1. Without an amount, a share has all memory.
        """
        if memory == 1:
            return {}
        if memory < 1 and self.percent:
            return {self.percent: max(1, math.floor(memory * 100))}
        if memory < 1 and not self.card:
            return None
        mebibytes = memory * self.card if memory < 1 else memory / MEBIBYTE
        amount = max(1, math.ceil(mebibytes / self.unit))
        return {self.memory: next((size for size in self.sizes if size >= amount), amount)}

    def core_amount(self, part: Fraction) -> int:
        """Return the amount of cores that a part of a card is."""
        return max(1, math.floor(part * self.core_units))


class Card(NamedTuple):
    """Cards of one vendor and chip.

    :ivar resource: whole cards.
    :ivar share: None if the system divides none.
    :ivar in_pairs: True if cards are handed out in pairs.
    :ivar scheduler: scheduler of pods with whole cards; "" for the default one, or if a webhook sets it.
    """

    resource: str
    share: CardShare | None = None
    in_pairs: bool = False
    scheduler: str = ""

    @property
    def counted(self) -> tuple[str, ...]:
        """The resources that count cards."""
        shared = self.share.number if self.share is not None else ""
        return tuple(dict.fromkeys(filter(None, (self.resource, shared))))


_CHIP = re.compile(r"huawei\.com/Ascend([A-Za-z0-9-]+)", re.ASCII)
_SOFT_SPLIT = ("huawei.com/vnpu-mode", "hami-core")
_ASCEND_MEMORY = {
    "910B4-1": 65536,
    "910B4": 32768,
    "910B3": 65536,
    "910B2": 65536,
    "910A": 32768,
    "910C": 65536,
    "310P": 21527,
}
"""Chip -> memory of a card in MiB that pods can get."""


def _ascend(scheduler: str = "") -> dict[str, Card]:
    """Return the Ascend chips of HAMi's device plugin, which Volcano can schedule, too."""
    return {chip: _ascend_card(chip, memory, scheduler) for chip, memory in _ASCEND_MEMORY.items()}


def _ascend_card(chip: str, memory: int, scheduler: str) -> Card:
    resource = f"huawei.com/Ascend{chip}"
    share = CardShare(
        resource,
        f"{resource}-memory",
        f"{resource}-core",
        card=memory,
        core_annotation=_SOFT_SPLIT,
        registered=f"Ascend{chip}",
        scheduler=scheduler,
    )
    return Card(resource, share, in_pairs=chip == "910C", scheduler=scheduler)


def _iluvatar(chip: str) -> Card:
    prefix = f"iluvatar.ai/{chip}"
    share = CardShare(f"{prefix}-vgpu", f"{prefix}.vMem", f"{prefix}.vCore", unit=256, registered=chip)
    return Card(share.number, share)


def _any_chip(share: CardShare, whole: str = "") -> Mapping[str, Card]:
    """Return the cards of a vendor without a resource for each chip.

    :param whole: resource of whole cards, where it is not the number of shares.
    """
    return {"": Card(whole or share.number, share)}


CARDS: Mapping[str, Mapping[str, Mapping[str, Card]]] = {
    "none": {
        "ascend": {
            "310P": Card("huawei.com/Ascend310P"),
            "310": Card("huawei.com/Ascend310"),
            "": Card("huawei.com/Ascend910"),
        },
    },
    "hami": {
        "nvidia": _any_chip(
            CardShare(
                *("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"),
                percent="nvidia.com/gpumem-percentage",
                several=True,
                registered="nvidia",
            )
        ),
        "amd": _any_chip(CardShare("amd.com/gpu", "amd.com/gpumem", "amd.com/gpucores", registered="amd")),
        "ascend": _ascend(),
        "cambricon": _any_chip(
            CardShare(
                *("cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"),
                unit=256,
                registered="mlu",
            )
        ),
        "hygon": _any_chip(CardShare("hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores", registered="dcu")),
        "mthreads": _any_chip(
            CardShare(
                *("mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"),
                unit=512,
                core_units=16,
                card=96 * 512,
                sizes=(2, 4, 8, 16, 32, 64, 96),
                registered="mthreads",
            )
        ),
        "iluvatar": {chip: _iluvatar(chip) for chip in ("BI-V150", "BI-V100", "MR-V100", "MR-V50")},
        "metax": _any_chip(
            CardShare(
                *("metax-tech.com/sgpu", "metax-tech.com/vmemory", "metax-tech.com/vcore"),
                unit=1024,
                registered="metax",
            ),
            whole="metax-tech.com/gpu",
        ),
        "kunlunxin": _any_chip(
            CardShare(
                *("kunlunxin.com/vxpu", "kunlunxin.com/vxpu-memory"),
                card=98304,
                sizes=(24576, 49152, 98304),
                registered="xpu",
            ),
            whole="kunlunxin.com/xpu",
        ),
        "enflame": _any_chip(CardShare("", "enflame.com/gcu-memory", "enflame.com/gcu-core"), whole="enflame.com/gcu"),
    },
    "volcano": {
        "nvidia": _any_chip(
            CardShare(
                *("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"),
                percent="volcano.sh/vgpu-memory-percentage",
                several=True,
                registered="vgpu",
                scheduler="volcano",
            ),
            whole="nvidia.com/gpu",
        ),
        "ascend": _ascend("volcano"),
    },
}
"""Sharing system -> vendor -> chip -> its cards. The chip "" stands for every other one. Vendors that are missing have
the resource of :data:`VENDORS`, and no shares.
"""

# Extended resource, taint key and product label of each vendor's device plugin and feature discovery.
VENDORS: Mapping[str, tuple[str, str | None, str | None]] = {
    "nvidia": ("nvidia.com/gpu", None, "nvidia.com/gpu.product"),
    "amd": ("amd.com/gpu", None, "amd.com/gpu.product-name"),
    "ascend": ("huawei.com/Ascend910", None, "node.kubernetes.io/npu.chip.name"),
    "intel": ("gpu.intel.com/i915", None, "gpu.intel.com/product"),
    "cambricon": ("cambricon.com/mlu", None, "cambricon.com/mlu.product"),
    "hygon": ("hygon.com/dcu", None, None),
    "mthreads": ("mthreads.com/gpu", None, None),
    "iluvatar": ("iluvatar.ai/gpu", None, None),
    "metax": ("metax-tech.com/gpu", None, None),
    "kunlunxin": ("kunlunxin.com/xpu", None, None),
    "enflame": ("enflame.com/gcu", None, None),
    "biren": ("birentech.com/gpu", None, None),
    "vastai": ("vastaitech.com/va", None, None),
}


def cards_of(sharing: str, vendor: str) -> Mapping[str, Card]:
    """Return chip -> cards of a built-in vendor."""
    return CARDS.get(sharing, {}).get(vendor) or {"": Card(VENDORS[vendor][0])}


def card_named(sharing: str, resource: str) -> Card:
    """Return the cards of an extended resource, as far as the sharing system's are known."""
    built_in = (card for chips in CARDS.get(sharing, {}).values() for card in chips.values())
    found = next((card for card in built_in if resource in card.counted), None)
    if found is not None:
        return found._replace(resource=resource)
    if sharing != "none" and (chip := _CHIP.fullmatch(resource)):
        # Chips that an older release of HAMi named otherwise, or that a site has named.
        return _ascend_card(chip[1], 0, CARDS[sharing]["ascend"]["310P"].scheduler)
    return Card(resource)


def every_share() -> Iterator[tuple[str, CardShare]]:
    """Yield each sharing system with each kind of share that it has."""
    for sharing, vendors in CARDS.items():
        for chips in vendors.values():
            for card in chips.values():
                if card.share is not None:
                    yield sharing, card.share


def chip_of(gpu_type: str, chips: Mapping[str, Card]) -> str | None:
    """Return the chip that the name of a GPU type contains, such as 910B3 for ``Ascend910B3-64G``; None without one.

    :param chips: the known chips; where one name begins with another, the longer one is first.
    """
    name = re.sub(r"(?i)ascend|(?<=310p)3\b", "-", gpu_type)
    return next((chip for chip in chips if chip and re.search(rf"(?ai)(?<![a-z\d]){chip}(?![a-z\d])", name)), None)


def parse_share(text: str) -> Fraction | None:
    """Return a share's memory in bytes, or as a fraction of a card if at most 1: ``2Gi``, ``0.2``, ``20%``. None for
    other text.
    """
    part = re.fullmatch(r"(\d{1,3}(?:\.\d{1,3})?)%", text, re.ASCII)
    return parse_quantity(text) if part is None else Fraction(part[1]) / 100
