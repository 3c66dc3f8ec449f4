"""The kinds of documents and their models. A model's module is imported when its kind is first used."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, Union

if TYPE_CHECKING:
    from gpuctl.language.compute_document import ComputeDocument
    from gpuctl.language.fields import Block
    from gpuctl.language.inference_document import InferenceDocument
    from gpuctl.language.notebook_document import NotebookDocument
    from gpuctl.language.platform_document import PlatformDocument
    from gpuctl.language.pool_document import PoolDocument
    from gpuctl.language.quota_document import QuotaDocument
    from gpuctl.language.training_document import TrainingDocument

# Distinguished by ``kind``, so that a test for one does not import the others.
Job: TypeAlias = Union["TrainingDocument", "InferenceDocument", "NotebookDocument", "ComputeDocument"]
Model: TypeAlias = Union[
    "TrainingDocument",
    "InferenceDocument",
    "NotebookDocument",
    "ComputeDocument",
    "PoolDocument",
    "QuotaDocument",
    "PlatformDocument",
]

KINDS = ("training", "inference", "notebook", "compute", "pool", "quota", "platform")
WORKLOADS = ("training", "inference", "notebook", "compute")
ALIASES = {"resource": "pool"}
VERSION = "v0.1"


def nodes_of(model: Job) -> int:
    """Return the greatest number of nodes of a training, or that of one replica of an inference; 1 for other kinds."""
    if model.kind == "training":
        return model.resources.max_nodes
    return model.resources.nodes if model.kind == "inference" else 1


@cache
def model_of(kind: str) -> type[Block]:
    """Return the model of a kind in :data:`KINDS`."""
    module = import_module(f"gpuctl.language.{kind}_document")
    model: type[Block] = getattr(module, f"{kind.capitalize()}Document")
    return model
