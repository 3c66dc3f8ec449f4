"""Options of torchrun that gpuctl sets as variables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpuctl.frontend.command_lines import named_program, options_from
from gpuctl.frontend.launcher_checks import TORCHRUN, TORCHRUN_FLAGS
from gpuctl.language.training_document import DEFAULT_MASTER_PORT
from gpuctl.objects.quantities import whole_number

_OURS = frozenset(
    ["nnodes", "nproc_per_node", "node_rank", "master_addr", "master_port", "rdzv_endpoint", "rdzv_backend", "rdzv_id"]
)
_LOCAL = frozenset({"localhost", "127.0.0.1", "0.0.0.0"})  # noqa: S104
_OWN_NAME = r"\$\(hostname(?:[ \t]+-[-a-zA-Z]+)?\)|`hostname(?:[ \t]+-[-a-zA-Z]+)?`|\$\{?HOSTNAME\}?"


class SetByGpuctl(NamedTuple):
    """The places of words that gpuctl makes superfluous, and the rendezvous port if it is not the default."""

    places: frozenset[int]
    port: int | None


def launcher_arguments(words: Sequence[str | None]) -> int | None:
    """Return the place of torchrun's first argument; None if the command does not start torchrun."""
    name, place = named_program([word or "" for word in words])
    return place if name in TORCHRUN else None


def set_by_gpuctl(words: Sequence[str | None], nodes: int, gpus: int) -> SetByGpuctl | None:
    """Return the options of torchrun that have the value of gpuctl's variables.

    None if the command has no such option, or if one has another value or an unknown one; then all stay.

    :param words: the values of the command's words, None if a value is not known.
    """
    start = launcher_arguments(words)
    if start is None:
        return None
    places: set[int] = set()
    port: int | None = None
    for option in options_from(words, start, TORCHRUN_FLAGS):
        name, given = option.name.lstrip("-"), option.value
        if name not in _OURS:
            continue
        if name == "rdzv_endpoint" and given is not None:
            host, colon, end = given.rpartition(":")
            given, port = (host if colon else given), whole_number(end) or port
        if not _is_ours(name, given, nodes, gpus):
            return None
        if name == "master_port":
            port = whole_number(given or "") or port
        places.update(option.places)
    return SetByGpuctl(frozenset(places), port if port != DEFAULT_MASTER_PORT else None) if places else None


def _is_ours(name: str, value: str | None, nodes: int, gpus: int) -> bool:
    if name in ("rdzv_id", "rdzv_backend"):
        return True
    if value is None:
        return False
    if name == "nnodes":
        return value in (str(nodes), f"{nodes}:{nodes}", "$(NNODES)")
    if name == "nproc_per_node":
        return value in (str(max(gpus, 1)), "$(GPUCTL_GPUS_PER_NODE)", "$(NPROC_PER_NODE)") or (
            value in ("gpu", "auto") and gpus > 0
        )
    if name == "node_rank":
        return value == "$(NODE_RANK)" or (nodes == 1 and value == "0")
    if name == "master_port":
        return value == "$(MASTER_PORT)" or whole_number(value) is not None
    is_own = value in _LOCAL or re.fullmatch(_OWN_NAME, value) is not None
    return value == "$(MASTER_ADDR)" or (nodes == 1 and is_own)
