"""Query parameters that several paths have, and pages of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

from fastapi import Path, Query
from pydantic import AfterValidator

from gpuctl.api.base_models import LEGAL_NAMESPACE
from gpuctl.apply.plan.plan_options import Strategy
from gpuctl.kube.selector_parsing import LabelSelector
from gpuctl.language.display_text import visible
from gpuctl.language.kinds import WORKLOADS
from gpuctl.language.sentences import say
from gpuctl.language.spelling import did_you_mean
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.http.time_parameters import InvalidTime, parse_time
from gpuctl_server.mirror.shared_lists import READ_ONLY_AGE

LARGEST_PAGE = 1000
Item = TypeVar("Item")


def _legal_selector(text: str) -> str:
    LabelSelector(text)
    return text


def _known_kind(text: str) -> str:
    """Return a kind of jobs, or "".

    :raises Problem: 400 for another text: an empty list would hide a misspelt kind.
    """
    if text and text not in WORKLOADS:
        raise unknown_value("kind", text, WORKLOADS)
    return text


LEGAL_SELECTOR = AfterValidator(_legal_selector)
"""The value is a label selector, as in ``kubectl -l``."""
EMPTY_IS_NONE = AfterValidator(lambda text: text or None)
"""An empty parameter counts as not given, such as that of a script whose variable is not set."""
JobId = Annotated[
    str, Path(alias="jobId", max_length=253, description="Id of a job, its name, or the name of one of its pods.")
]
Checkpoint = Annotated[
    bool,
    Query(description="Let the job save its progress before its pods end. If that fails, no pod is ended: 409."),
]
ListAge = Annotated[
    float,
    Query(
        alias="maxAge",
        ge=0,
        le=READ_ONLY_AGE,
        description="Maximum age of the nodes and of the pods of other jobs that the answer is computed from, seconds. "
        "Default: they are read now.",
    ),
]
Profile = Annotated[
    str | None, Query(max_length=63, description="Profile to merge into the documents that have profiles.")
]
Queue = Annotated[
    bool, Query(description="Create a job even if a quota is exhausted. It starts when the quota has room.")
]
Failed = Annotated[
    bool, Query(description="Run only failed trainings; of arrays, only the indexes that have not succeeded.")
]
Nodes = Annotated[int, Query(ge=1, le=10000, description="The number of nodes, within the range of the document.")]
Force = Annotated[bool, Query(description="End the pods without their grace period.")]
ServiceStrategy = Annotated[
    Strategy | None,
    Query(
        description="Rollout strategy of a changed service. Default: that of the running service, else of the platform."
    ),
]
NoProbe = Annotated[
    bool, Query(alias="noProbe", description="Report the rejection of a trial pod as a note instead of an error.")
]
KeepLabels = Annotated[bool, Query(alias="keepLabels", description="Keep the labels of a pool on its nodes.")]
Timeout = Annotated[
    float,
    Query(
        gt=0, le=1e9, description="Maximum wait for deletions and for quotas, seconds. The service waits at most 600."
    ),
]
KindFilter = Annotated[
    str,
    Query(max_length=253, description="Only jobs of this kind: training, inference, notebook or compute."),
    AfterValidator(_known_kind),
]
PoolFilter = Annotated[str, Query(max_length=253, description="Only jobs in this pool.")]
NamespaceFilter = Annotated[str, Query(max_length=253, description="Only jobs in this namespace."), LEGAL_NAMESPACE]
NamespaceOfJob = Annotated[
    str | None,
    Query(max_length=63, description="Namespace of the job; required if the name exists in several."),
    LEGAL_NAMESPACE,
    EMPTY_IS_NONE,
]
NamespaceOfDocuments = Annotated[
    str | None,
    Query(max_length=63, description="Namespace of jobs whose documents do not have one."),
    LEGAL_NAMESPACE,
    EMPTY_IS_NONE,
]
Page = Annotated[int, Query(ge=1, le=2**31, description="Page number, from 1.")]
PageSize = Annotated[int, Query(alias="pageSize", ge=1, le=LARGEST_PAGE, description="Items per page.")]


def names_in(text: str) -> frozenset[str]:
    """Return the names that are separated by commas."""
    return frozenset(filter(None, (name.strip() for name in text.split(","))))


def page_of(items: Sequence[Item], page: int, size: int) -> Sequence[Item]:
    """Return the items of a page; the first page is 1."""
    return items[(page - 1) * size : page * size]


def time_of(field: str, text: str) -> datetime | None:
    """Parse a time parameter. Return None if it is empty.

    :raises Problem: 400.
    """
    try:
        return parse_time(text) if text else None
    except InvalidTime as error:
        raise Problem(400, f"{field}: {error}", error="InvalidRequest") from None


def paged(items: Sequence[Item], page: int, size: int, value: Callable[[Item], dict[str, Any]]) -> dict[str, Any]:
    """Return a page of a list: ``total`` counts the items of all pages, ``items`` are those of this page."""
    return {"total": len(items), "items": [value(item) for item in page_of(items, page, size)]}


def unknown_value(name: str, text: str, values: Iterable[str]) -> Problem:
    """Return the problem for a value that is not among those of a parameter or field."""
    said = say("{name} must be one of {values}, not `{text}`", name=name, values=[*values], text=visible(text))
    return Problem(400, said, error="InvalidRequest", hint=did_you_mean(text, values))
