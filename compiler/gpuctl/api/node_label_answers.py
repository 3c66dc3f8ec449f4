"""Node labels and results of changes of nodes: request bodies and responses of the REST API, and ``-o json``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpuctl.acts.node_labels import NodeChangeReport
from gpuctl.api.base_models import ApiModel, DryRunBody
from gpuctl.api.node_answers import LabelPair, Labels
from gpuctl.language.sentences import Template, say
from gpuctl.reading.nodes.label_rows import LabelRow

NodeBatch = Literal["labelled", "added", "removed"]
"""A change of several nodes, as a participle."""
LABELLED: NodeBatch = "labelled"
"""The change of a node whose labels were set or deleted."""
_DONE = {
    "labelled": Template("{changed} of {total} nodes labelled"),
    "added": Template("{changed} of {total} nodes added"),
    "removed": Template("{changed} of {total} nodes removed"),
}
_PLANNED = {
    "labelled": Template("{changed} of {total} nodes would be labelled; nothing is changed (dry run)"),
    "added": Template("{changed} of {total} nodes would be added; nothing is changed (dry run)"),
    "removed": Template("{changed} of {total} nodes would be removed; nothing is changed (dry run)"),
}
MOST_NODES = 500
"""Maximum number of nodes in one request."""
MOST_LABELS = 100
NodeName = Annotated[str, Field(max_length=253)]
Text = Annotated[str, Field(max_length=512)]

_KEY = Field(max_length=512, description="Key of the label.", examples=["nvidia.com/gpu-type"])
_VALUE = Field(max_length=512, description="Value of the label.", examples=["a100-80g"])


class NewLabel(DryRunBody):
    """A label to set."""

    key: str = _KEY
    value: str = _VALUE
    overwrite: bool = Field(False, description="Replace an existing value.")


class NewLabels(NewLabel):
    """A label to set on several nodes."""

    node_names: list[NodeName] = Field(min_length=1, max_length=MOST_NODES, examples=[["node-2", "node-3"]])


class NodeNames(DryRunBody):
    """Nodes to change."""

    node_names: list[NodeName] = Field(min_length=1, max_length=MOST_NODES, examples=[["node-2", "node-3"]])


class LabelChanges(NodeNames):
    """Labels to set or delete on several nodes."""

    labels: dict[Text, Text | None] = Field(
        min_length=1,
        max_length=MOST_LABELS,
        description="Key -> value; null deletes the label.",
        examples=[{"nvidia.com/gpu-type": "a100-80g", "example.com/rack": None}],
    )
    overwrite: bool = Field(False, description="Replace existing values.")


class PoolMembers(NodeNames):
    """Nodes to add to a pool."""

    overwrite: bool = Field(False, description="Move nodes that are in another pool.")


class SetLabel(ApiModel):
    """A label that was set, with notes on the change."""

    node_name: str = Field(examples=["node-1"])
    label: LabelPair
    message: str = Field(examples=["node node-1: nvidia.com/gpu-type=a100-80g"])
    notes: list[str] = Field(examples=[[]])


class NodeFailure(ApiModel):
    """The reason why a node was not changed."""

    node_name: str = Field(examples=["node-3"])
    error: str = Field(description="The name of the error, for programs.", examples=["NodeNotFound"])
    message: str = Field(examples=["there is no node node-3"])
    is_outage: bool = Field(
        False, description="True if the cluster could not be reached, or rejected the service.", examples=[False]
    )


class ChangedNode(ApiModel):
    """A node that was changed."""

    node_name: str = Field(examples=["node-2"])
    message: str = Field(examples=["nvidia.com/gpu-type=a100-80g (was t4)"])


class BatchReport(ApiModel):
    """The result of a change to several nodes."""

    success: list[str] = Field(examples=[["node-2"]])
    failed: list[NodeFailure]
    message: str = Field(examples=["1 of 2 nodes labelled; see `failed`"])
    notes: list[str] = Field(examples=[[]])
    nodes: list[ChangedNode] = Field([], description="The change of each node in `success`.")

    @classmethod
    def of(cls, report: NodeChangeReport, done: NodeBatch, *, dry_run: bool = False) -> BatchReport:
        """Return the JSON model of a report.

        :param dry_run: the change was only checked.
        """
        return cls(
            success=[item.name for item in report.done],
            failed=[
                NodeFailure(node_name=item.name, error=item.error, message=item.text, is_outage=item.is_outage)
                for item in report.failed
            ],
            message=_summary(report, done, dry_run=dry_run),
            notes=report.notes,
            nodes=[ChangedNode(node_name=item.name, message=item.text) for item in report.done],
        )


def _summary(report: NodeChangeReport, done: NodeBatch, *, dry_run: bool) -> str:
    changed, total = len(report.done), len(report.done) + len(report.failed)
    if dry_run:
        said = say(_PLANNED[done], changed=changed, total=total)
    elif done == LABELLED and report.failed:
        # The product's document has this message, without numbers in Chinese.
        return say("{changed} of {total} nodes labelled; see `failed`", changed=changed, total=total)
    else:
        said = say(_DONE[done], changed=changed, total=total)
    return say("{said}; see `failed`", said=said) if report.failed else said


class DeletedLabel(ApiModel):
    """A label that was deleted."""

    node_name: str = Field(examples=["node-1"])
    label_key: str = Field(examples=["nvidia.com/gpu-type"])
    message: str = Field(examples=["node node-1: nvidia.com/gpu-type deleted (was a100-80g)"])
    notes: list[str] = Field(examples=[[]])


class NodeLabel(ApiModel):
    """A label of a node."""

    node: str = Field(alias="nodeName", examples=["node-1"])
    key: str = Field(alias="labelKey", examples=["nvidia.com/gpu-type"])
    value: str = Field(alias="labelValue", examples=["a100-80g"])


class LabelPage(ApiModel):
    """A page of labels; `total` counts all pages."""

    total: int = Field(examples=[5])
    items: list[NodeLabel]


class DatedLabel(LabelPair):
    """A label, and the latest time since which it has had this value."""

    created_at: str | None = Field(examples=["2024-06-01T09:30:00Z"])
    updated_at: str | None = Field(alias="lastUpdatedAt", examples=["2024-06-01T09:30:00Z"])


class KeptLabel(ApiModel):
    """One label of a node."""

    node_name: str = Field(examples=["node-1"])
    label: DatedLabel

    @classmethod
    def of(cls, label: LabelRow) -> KeptLabel:
        """Return a label with its times."""
        return cls(node_name=label.node, label=DatedLabel.model_validate(label))


class GpuLabels(ApiModel):
    """The GPU type labels of a node, those that jobs select on first."""

    name: str = Field(alias="nodeName", examples=["node-1"])
    gpu_labels: Labels
    gpu_type: str | None = Field(examples=["a100-80g"])
    bound_pools: list[str] = Field(examples=[["training-pool"]])


class GpuLabelPage(ApiModel):
    """A page of nodes; `total` counts all pages."""

    total: int = Field(examples=[5])
    items: list[GpuLabels]
