"""MIG profiles: the parts into which NVIDIA GPUs can be divided, by GPU type, and their extended resources.

Sources: NVIDIA Multi-Instance GPU User Guide, supported profiles; NVIDIA/mig-parted, deployments/container. The device
plugin with the strategy ``mixed`` offers each profile as a resource of its own, with ``.`` in place of ``+``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_RESOURCE = "nvidia.com/mig-"
_PROFILE = re.compile(r"(?a)[1-7]g\.[1-9]\d{0,3}gb(\+[a-z]+(\.[a-z]+)?|-me)?")


def _seven(one: int, two: int, four: int, seven: int) -> tuple[str, ...]:
    """Return the profiles of a GPU with seven compute slices, from the memory of one, two, four and all slices."""
    sizes = (f"1g.{one}gb", f"1g.{one}gb+me", f"1g.{two}gb", f"2g.{two}gb", f"3g.{four}gb", f"4g.{four}gb")
    return (*sizes, f"7g.{seven}gb")


_PROFILES: Mapping[tuple[str, int], tuple[str, ...]] = {
    ("a30", 24): ("1g.6gb", "1g.6gb+me", "2g.12gb", "2g.12gb+me", "4g.24gb"),
    ("a100", 40): _seven(5, 10, 20, 40),
    ("a100", 80): _seven(10, 20, 40, 80),
    ("h100", 80): _seven(10, 20, 40, 80),
    ("h100", 94): _seven(12, 24, 47, 94),
    ("h100", 96): _seven(12, 24, 48, 96),
    ("h20", 96): _seven(12, 24, 48, 96),
    ("gh200", 96): _seven(12, 24, 48, 96),
    ("h200", 141): _seven(18, 35, 71, 141),
    ("b200", 180): _seven(23, 45, 90, 180),
    ("gb200", 186): _seven(23, 47, 93, 186),
    ("gb200", 189): _seven(23, 47, 95, 189),
    ("b300", 269): _seven(34, 67, 135, 269),
    ("gb300", 278): _seven(35, 70, 139, 278),
    ("rtx-pro-6000", 96): ("1g.24gb", "1g.24gb+me", "2g.48gb", "4g.96gb"),
}
"""Model and memory in GB -> profiles."""
KNOWN_PROFILES = tuple(dict.fromkeys(profile for profiles in _PROFILES.values() for profile in profiles))


def is_profile(text: str) -> bool:
    """Return True if a text has the form of a profile."""
    return _PROFILE.fullmatch(text) is not None


def nearest_profile(text: str) -> str | None:
    """Return the profile that a text of another form means, such as ``nvidia.com/mig-1g.10gb.me``, or None."""
    plain = re.sub(r"(?<=gb)\.", "+", text.strip().lower().rpartition("/")[2].removeprefix("mig-"))
    return plain if is_profile(plain) else None


def resource_of(profile: str) -> str:
    """Return the extended resource of a profile: ``1g.10gb`` -> ``nvidia.com/mig-1g.10gb``."""
    return _RESOURCE + profile.replace("+", ".")


def profile_of(resource: str) -> str | None:
    """Return the profile of an extended resource; None for a resource that is no MIG slice."""
    if not resource.startswith(_RESOURCE):
        return None
    profile = re.sub(r"(?<=gb)\.", "+", resource.removeprefix(_RESOURCE))
    return profile if is_profile(profile) else None


def profiles_of(gpu_type: str, listed: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the profiles of a GPU type; () if they are unknown.

    A type is recognised by the model in its name (``A100-40G``, ``NVIDIA-H100-80GB-HBM3``). Without the memory in the
    name, all profiles of the model are returned.

    :param listed: the platform's own table, which takes precedence.
    """
    if gpu_type in listed:
        return tuple(listed[gpu_type])
    name = f"-{re.sub(r'[^a-z0-9]+', '-', gpu_type.lower())}-"
    models = {key: profiles for key, profiles in _PROFILES.items() if f"-{key[0]}-" in name}
    memories = {int(size) for size in re.findall(r"-(\d{2,3})gb?(?=-)", name)}
    exact = [profiles for (_, memory), profiles in models.items() if memory in memories]
    return tuple(dict.fromkeys(profile for profiles in exact or models.values() for profile in profiles))


def card_slices(profile: str, gpu_type: str = "") -> int:
    """Return the number of compute slices of a card that has a profile; 7 if it is unknown.

    :param gpu_type: the type of the card: cards of seven slices and of four may have a profile of one name.
    """
    of_type = profiles_of(gpu_type, {})
    cards = [of_type] if profile in of_type else [profiles for profiles in _PROFILES.values() if profile in profiles]
    return max((int(other[0]) for profiles in cards for other in profiles), default=7)


def slice_resources(listed: Iterable[Sequence[str]]) -> frozenset[str]:
    """Return the extended resources of all known profiles.

    :param listed: the profiles of the platform's own table.
    """
    return frozenset(map(resource_of, (*KNOWN_PROFILES, *(profile for profiles in listed for profile in profiles))))
