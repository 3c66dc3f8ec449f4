"""The table of kinds: name -> model. A model's module is imported when a document of its kind is first seen."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, Union

if TYPE_CHECKING:
    from gpuctl.language.compute import Compute
    from gpuctl.language.fields import Block
    from gpuctl.language.inference import Inference
    from gpuctl.language.notebook import Notebook
    from gpuctl.language.platform import Platform
    from gpuctl.language.pool import Pool
    from gpuctl.language.quota import Quota
    from gpuctl.language.training import Training

# Told apart by ``kind``, so that asking for one does not import the others.
Job: TypeAlias = Union["Training", "Inference", "Notebook", "Compute"]
Model: TypeAlias = Union["Training", "Inference", "Notebook", "Compute", "Pool", "Quota", "Platform"]

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
