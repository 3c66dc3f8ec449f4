"""Values of fields that several importers read or write: whole numbers, durations, GPUs with their type."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuctl.objects.durations import HOUR, format_duration
from gpuctl.objects.quantities import whole_number

MOST_DIGITS = 9
"""Maximum length of whole numbers, which have 32 bits in most fields."""
_MIG = r"(?a)(?:\A|[_.-])(\d{1,2}g\.\d{1,3}gb(?:\+me)?)\Z"


class Gpus(NamedTuple):
    """A number of GPUs, and their type if one is named, such as ``h100`` or ``a100_1g.5gb`` for slices."""

    number: int
    type: str | None

    @property
    def profile(self) -> str | None:
        """The MIG profile of slices; None for whole GPUs."""
        match = re.search(_MIG, self.type or "")
        return match[1] if match is not None else None

    @property
    def model(self) -> str | None:
        """The type of the GPUs, or of those that are sliced; None if it is not named."""
        return re.sub(_MIG, "", self.type or "") or None


def number_or_text(text: str) -> int | str:
    """Return an amount as documents have it: whole numbers are numbers."""
    number = whole_number(text, MOST_DIGITS)
    return text if number is None else number


def at_most(number: int, most: int, note: str | None = None) -> tuple[int, str | None]:
    """Return a number, or the maximum in place of a larger one, and the note about it.

    :param note: what else differs.
    """
    return (number, note) if number <= most else (most, f"{most} at most" + (f"; {note}" if note else ""))


def short_duration(seconds: int) -> str:
    """Return seconds as a duration, such as ``36h`` or ``2d12h``; "" for 0."""
    if seconds == 0:
        return ""
    # Hours are easier to read than a day and some hours.
    text = format_duration(seconds)
    return f"{seconds // HOUR}h" if re.fullmatch(r"1d\d+h", text) else text


def gpus_of(text: str) -> Gpus | None:
    """Return a number such as ``4``, ``h100:4``, ``1g.10gb:1`` or ``h100``; None if it is not one."""
    match = re.match(r"(?:([A-Za-z][\w.+-]*|\d{1,2}g\.\d{1,3}gb(?:\+me)?)(?::|\Z))?([0-9]{1,9})?(?:\(.*\))?\Z", text)
    if match is None or not (match[1] or match[2]):
        return None
    return Gpus(int(match[2] or 1), match[1])
