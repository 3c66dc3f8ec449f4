"""The table of kinds: name -> model. A model's module is imported when a document of its kind is first seen."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from gpuctl.language.fields import Block

KINDS = ("training", "inference", "notebook", "compute", "pool", "quota", "platform")
WORKLOADS = ("training", "inference", "notebook", "compute")
ALIASES = {"resource": "pool"}
VERSION = "v0.1"


@cache
def model_of(kind: str) -> type[Block]:
    """The model of a kind in :data:`KINDS`."""
    module = import_module(f"gpuctl.language.{kind}")
    model: type[Block] = getattr(module, kind.capitalize())
    return model
