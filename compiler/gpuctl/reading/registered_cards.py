"""The cards of a node that HAMi or Volcano divides, from the annotation with which its device plugin registers them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from fractions import Fraction

from gpuctl.capacity.pod_requests import Amounts
from gpuctl.language.gpu_cards import CardShare
from gpuctl.objects.api_resources import Object, annotations_of

_REGISTERED = re.compile(r"hami\.io/node-(?:register-)?(.+?)(?:-register)?|volcano\.sh/node-(vgpu)-register")


def registered_memory(node: Object, vendor: str) -> list[float]:
    """Return the memory in MiB of each card in the annotation of HAMi or Volcano, which is a JSON list or
    ``id,count,memory,...:id,...``; 0 if a card has no memory in it.

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
        memories = [card.get("devmem") for card in listed if isinstance(card, dict)] if isinstance(listed, list) else []
    except ValueError:
        memories = [card.split(",")[2:3] for card in text.split(":") if card.count(",") > 1]
        memories = [int(size[0][:9]) if size and size[0].isdecimal() else 0 for size in memories]
    return [float(size) if isinstance(size, int) and size > 0 else 0.0 for size in memories]


def registered_amounts(node: Object, shares: Iterable[CardShare]) -> Amounts:
    """Return the amounts of the resources of shares that all registered cards of a node are, which HAMi's nodes do not
    report as allocatable.
    """
    found: dict[str, Fraction] = {}
    for share in shares:
        cards = registered_memory(node, share.registered)
        if not cards:
            continue
        found[share.memory] = Fraction(sum(map(int, cards)), share.unit)
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
