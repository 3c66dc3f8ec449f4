"""Labels of nodes as bodies and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpuctl.api.base_models import ApiModel, Body
from gpuctl.api.node_models import LabelPair

MOST_NODES = 500
"""Of one request."""

_KEY = Field(max_length=512, description="The label's key.", examples=["nvidia.com/gpu-type"])
_VALUE = Field(max_length=512, description="Its value.", examples=["a100-80g"])


class NewLabel(Body):
    """A label to set."""

    key: str = _KEY
    value: str = _VALUE
    overwrite: bool = Field(False, description="Replace another value.")
    dry_run: bool = Field(False, description="Only check; nothing is written.")


class NewLabels(NewLabel):
    """A label to set at several nodes."""

    node_names: list[Annotated[str, Field(max_length=253)]] = Field(
        min_length=1, max_length=MOST_NODES, examples=[["node-2", "node-3"]]
    )


class SetLabel(ApiModel):
    """A label that was set; `notes` are worth knowing."""

    node_name: str = Field(examples=["node-1"])
    label: LabelPair
    message: str = Field(examples=["node node-1: nvidia.com/gpu-type=a100-80g"])
    notes: list[str] = Field(examples=[[]])


class NodeFailure(ApiModel):
    """Why a node was not labelled."""

    node_name: str = Field(examples=["node-3"])
    error: str = Field(description="What programs compare.", examples=["NodeNotFound"])
    message: str = Field(examples=["there is no node node-3"])


class BatchReport(ApiModel):
    """What became of several nodes."""

    success: list[str] = Field(examples=[["node-2"]])
    failed: list[NodeFailure]
    message: str = Field(examples=["1 of 2 nodes labelled; see `failed`"])
    notes: list[str] = Field(examples=[[]])


class DeletedLabel(ApiModel):
    """A label that was deleted."""

    node_name: str = Field(examples=["node-1"])
    label_key: str = Field(examples=["nvidia.com/gpu-type"])
    message: str = Field(examples=["node node-1: nvidia.com/gpu-type deleted (was a100-80g)"])
    notes: list[str] = Field(examples=[[]])


class NodeLabel(ApiModel):
    """A label of a node."""

    node_name: str = Field(examples=["node-1"])
    label_key: str = Field(examples=["nvidia.com/gpu-type"])
    label_value: str = Field(examples=["a100-80g"])


class LabelPage(ApiModel):
    """A page of labels; `total` of all pages."""

    total: int = Field(examples=[5])
    items: list[NodeLabel]


class DatedLabel(LabelPair):
    """A label, and since when it has been like this at the latest."""

    created_at: str | None = Field(examples=["2024-06-01T09:30:00Z"])
    last_updated_at: str | None = Field(examples=["2024-06-01T09:30:00Z"])


class KeptLabel(ApiModel):
    """One label of a node."""

    node_name: str = Field(examples=["node-1"])
    label: DatedLabel


class GpuLabels(ApiModel):
    """The labels of a node that tell a type of GPU, those that jobs select on first."""

    node_name: str = Field(examples=["node-1"])
    gpu_labels: list[LabelPair]
    gpu_type: str | None = Field(examples=["a100-80g"])
    bound_pools: list[str] = Field(examples=[["training-pool"]])


class GpuLabelPage(ApiModel):
    """A page of nodes; `total` of all pages."""

    total: int = Field(examples=[5])
    items: list[GpuLabels]
