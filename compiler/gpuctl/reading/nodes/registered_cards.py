"""The cards of a node that HAMi or Volcano divides, from the annotation with which its device plugin registers them.

The annotations of pods with the cards that they were given are written by the scheduler, but users can write them, too:
they only say which of its cards a pod uses, never how many it holds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable
from fractions import Fraction
from typing import NamedTuple

from gpuctl.capacity.snapshot.pod_requests import Amounts, pod_requests
from gpuctl.language.gpu_cards import CardShare
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.quantities import whole_number

_REGISTERED = re.compile(r"hami\.io/node-(?:register-)?(.+?)(?:-register)?|volcano\.sh/node-(vgpu)-register")
# Of a pod. Sources: HAMi's pkg/device (SupportDevices), Volcano's pkg/scheduler/api/devices/nvidia/vgpu.
_GIVEN = re.compile(r"hami\.io/.+-devices-allocated|volcano\.sh/vgpu-ids-new")

_MOST_MEMORY = 10**9
"""More MiB than a card has: an annotation with more is invalid."""


class RegisteredCard(NamedTuple):
    """A card of a node.

    :ivar memory: in MiB; 0 if unknown.
    """

    id: str
    memory: float


def registered_memory(node: Object, vendor: str) -> list[float]:
    """Return the memory in MiB of each card of a node; 0 if unknown."""
    return [card.memory for card in registered_cards(node, vendor)]


def registered_cards(node: Object, vendor: str) -> list[RegisteredCard]:
    """Return the cards in the annotation of HAMi or Volcano, which is a JSON list or ``id,count,memory,...:id,...``.

    :param vendor: name of the vendor or chip in the annotation's key; "" for none.
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
        found = [(card.get("id"), card.get("devmem")) for card in listed if isinstance(card, dict)]
    except (TypeError, ValueError, RecursionError):
        parts = [card.split(",") for card in text.split(":") if card.count(",") > 1]
        found = [(part[0], whole_number(part[2]) or 0) for part in parts]
    return [
        RegisteredCard(str(name or ""), float(size) if isinstance(size, int) and 0 < size < _MOST_MEMORY else 0.0)
        for name, size in found
    ]


class CardUse:
    """The cards of a node that pods use. A card that several pods share counts once."""

    def __init__(self) -> None:
        self._pods: list[tuple[str, Fraction, Fraction, set[str]]] = []

    def add(self, pod: Object, requests: Amounts, shares: Iterable[CardShare]) -> None:
        """Add a pod with its requests."""
        held = [(share.number, requests[share.number]) for share in shares if requests.get(share.number)]
        # The shares of a container are of different cards, those of several containers may be of one.
        each = [pod_requests({"containers": [container]}) for container in pod["spec"]["containers"]] if held else []
        for resource, number in held:
            least = max((own.get(resource, Fraction(0)) for own in each), default=Fraction(0))
            self._pods.append((resource, least, number, _given_cards(pod)))

    def count(self, resource: str, cards: Collection[RegisteredCard]) -> Fraction:
        """Return how many of these cards pods use, at most: pods without their cards' ids may share one."""
        names = {card.id for card in cards}
        known: set[str] = set()
        other = Fraction(0)
        for name, least, number, given in self._pods:
            if name == resource and given and given <= names and least <= len(given) <= number:
                known |= given
            elif name == resource:
                other += number
        return min(len(known) + other, Fraction(len(cards)))


def _given_cards(pod: Object) -> set[str]:
    """Return the ids of the cards that a scheduler gave a pod: ``id,type,memory,cores:...;...``, MIG as ``id[0-1]``."""
    texts = [value for name, value in annotations_of(pod).items() if _GIVEN.fullmatch(name)]
    cards = [card.partition(",")[0].partition("[")[0] for text in texts for card in re.split("[:;]", text)]
    return set(filter(None, cards))


def whole_cards(shares: Fraction, capacity: Fraction, cards: int) -> Fraction:
    """Return the number of cards that a number of shares is, on a node with so many shares and cards."""
    return Fraction(math.ceil(shares * cards / capacity)) if capacity > cards else shares


def registered_amounts(node: Object, shares: Iterable[CardShare]) -> Amounts:
    """Return the amounts of the resources of shares that all registered cards of a node are, which HAMi's nodes do not
    report as allocatable.
    """
    found: dict[str, Fraction] = {}
    for share in shares:
        cards = registered_memory(node, share.registered)
        if not cards:
            continue
        found[share.memory] = Fraction(sum(map(int, cards))) / share.unit
        found |= {name: Fraction(len(cards) * units) for name, units in share.fractions}
    return found


def held_amounts(requests: Amounts, shares: Iterable[CardShare]) -> Amounts:
    """Return a pod's requests with the memory and cores of all its cards: it requests those of each card."""
    held = dict(requests)
    for share in shares:
        number = requests.get(share.number, Fraction(1))
        if share.several and number > 1:
            held |= {name: requests[name] * number for name in share.parts if name in requests}
    return held
