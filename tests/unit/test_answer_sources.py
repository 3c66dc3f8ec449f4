"""Models of JSON that are made from objects by the names of their fields: each field has a source."""

from __future__ import annotations

import pytest

from gpuctl.api.base_models import ApiModel
from gpuctl.api.job_list_answers import JobRow
from gpuctl.api.namespace_answers import NamespaceAnswer
from gpuctl.api.node_answers import GpusOfNode, GpuTypeItem, NodeItem
from gpuctl.api.node_label_answers import DatedLabel, GpuLabels, NodeLabel
from gpuctl.api.plan_answers import PlanAnswer, answer_value
from gpuctl.api.pool_answers import ListedPool, PoolReport
from gpuctl.apply.plan.plan import Plan
from gpuctl.reading.jobs.job_rows import JobTableRow
from gpuctl.reading.nodes.gpu_type_rows import GpuType
from gpuctl.reading.nodes.label_rows import LabelRow
from gpuctl.reading.nodes.node_rows import NodeDetails
from gpuctl.reading.nodes.pool_rows import PoolState
from gpuctl.reading.queues.namespace_rows import Namespace


@pytest.mark.parametrize(
    ("model", "source"),
    [
        (JobRow, JobTableRow),
        (NodeItem, NodeDetails),
        (GpusOfNode, NodeDetails),
        (GpuLabels, NodeDetails),
        (GpuTypeItem, GpuType),
        (NodeLabel, LabelRow),
        (DatedLabel, LabelRow),
        (ListedPool, PoolState),
        (PoolReport, PoolState),
        (NamespaceAnswer, Namespace),
    ],
)
def test_each_field_is_an_attribute_of_the_source(model: type[ApiModel], source: type) -> None:
    """Pydantic leaves a field with a default at its default if the source has no attribute of this name."""
    attributes = {name for base in source.__mro__ for name in (*vars(base), *getattr(base, "__annotations__", ()))}
    assert set(model.model_fields) - attributes == set()


def test_source_without_an_attribute_is_an_error() -> None:
    """Also for a field with a default."""
    with pytest.raises(AttributeError, match="has no attribute"):
        DatedLabel.taken_from(object(), key="a", value="b")


def test_plan_fills_each_field_of_the_answer() -> None:
    later = {"warnings", "messages", "finished", "carried_out"}
    assert set(PlanAnswer.model_fields) - set(answer_value(Plan())) == later
