"""Labels of nodes: reading, setting and deleting them. A key has a slash, as it is or as `%2F`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request

from gpuctl.api.change_answers import report_value
from gpuctl.api.label_models import (
    BatchReport,
    DeletedLabel,
    GpuLabelPage,
    KeptLabel,
    LabelPage,
    NewLabel,
    NewLabels,
    SetLabel,
)
from gpuctl.api.node_answers import gpu_label_list, label_answer, label_list
from gpuctl.reading.label_rows import labels, labels_with
from gpuctl.usecases.labelling_nodes import check_labels
from gpuctl.usecases.node_queries import labels_of_node
from gpuctl_server.access.caller import Caller
from gpuctl_server.change_values import NOTHING
from gpuctl_server.labelling import label, label_one, of_body
from gpuctl_server.node_lookups import find_node, no_node, visible_nodes
from gpuctl_server.problems import not_found
from gpuctl_server.routes.common import (
    DryRun,
    OnlyDryRun,
    Page,
    PageSize,
    ServiceOf,
    allowed,
    api_router,
    from_memory,
    page_of,
    touched_by,
    write_router,
)
from gpuctl_server.routes.nodes import NodeName
from gpuctl_server.submissions import json_body_of, parsed

LONGEST_KEY = 253 + 1 + 63
"""Of a label: a DNS name, a slash, a name."""

router = api_router()
writes = write_router()
Reads = Annotated[Caller, Depends(allowed("get", "labels"))]
Sets = Annotated[Caller, Depends(allowed("create", "labels"))]
Deletes = Annotated[Caller, Depends(allowed("delete", "labels"))]
_EXAMPLES = ["nvidia.com/gpu-type"]
PathKey = Annotated[str, Path(alias="key", max_length=LONGEST_KEY, description="The label's key.", examples=_EXAMPLES)]
QueryKey = Annotated[str, Query(max_length=LONGEST_KEY, description="The label's key.", examples=_EXAMPLES)]


@router.get("/nodes/labels", tags=["labels"], responses={200: {"model": LabelPage}})
@from_memory
def label_of_nodes(
    service: ServiceOf, caller: Reads, key: QueryKey, page: Page = 1, size: PageSize = 20
) -> dict[str, Any]:
    """One label of all nodes that have it."""
    check_labels({key: None})
    found = labels_with((node.object for node in visible_nodes(service, caller, "labels")), key)
    return {"total": len(found), "items": label_list(page_of(found, page, size))["items"]}


@router.get("/nodes/labels/all", tags=["labels"], responses={200: {"model": GpuLabelPage}})
@from_memory
def gpu_labels(service: ServiceOf, caller: Reads, page: Page = 1, size: PageSize = 20) -> dict[str, Any]:
    """Of all nodes the labels that tell a type of GPU, and the pool."""
    found = visible_nodes(service, caller, "labels")
    return {"total": len(found), "items": gpu_label_list(page_of(found, page, size))["items"]}


async def new_label(request: Request) -> NewLabel:
    """The body that sets a label of one node; it is read once the right is known."""
    return await parsed(NewLabel, request)


async def new_labels(request: Request) -> NewLabels:
    """The body that sets a label of several."""
    return await parsed(NewLabels, request)


@writes.post(
    "/nodes/labels/batch",
    tags=["labels"],
    responses={200: {"model": BatchReport}},
    openapi_extra=json_body_of(NewLabels),
)
def label_several(
    request: Request,
    service: ServiceOf,
    caller: Sets,
    wanted: Annotated[NewLabels, Depends(new_labels)],
    dry_run: DryRun = False,
) -> dict[str, Any]:
    """Set a label of several nodes: what can be done is done, the rest is in `failed`."""
    dry_run = dry_run or wanted.dry_run
    touched = touched_by(request, preview=dry_run)
    touched.extend((f"label/{wanted.key}", *(f"node/{name}" for name in wanted.node_names)))
    value = {wanted.key: wanted.value}
    terms = of_body(overwrite=wanted.overwrite)
    report = label(service, caller, "create", wanted.node_names, value, terms, touched, dry_run=dry_run)
    touched[1:] = [f"node/{done.name}" for done in report.done]
    touched += [f"node/{failed.name}: {failed.error}" for failed in report.failed]
    return report_value(report, f"would be labelled; {NOTHING} (dry run)" if dry_run else "labelled")


@router.get("/nodes/{nodeName}/labels", tags=["labels"], responses={200: {"model": LabelPage}})
@from_memory
def labels_of_one(service: ServiceOf, caller: Reads, name: NodeName) -> dict[str, Any]:
    """All labels of a node, by key."""
    return label_list(labels(find_node(service, caller, name, "labels").object))


@writes.post(
    "/nodes/{nodeName}/labels",
    tags=["labels"],
    responses={200: {"model": SetLabel}},
    openapi_extra=json_body_of(NewLabel),
)
def set_label(
    request: Request,
    service: ServiceOf,
    caller: Sets,
    name: NodeName,
    wanted: Annotated[NewLabel, Depends(new_label)],
    dry_run: DryRun = False,
) -> dict[str, Any]:
    """Set a label of a node. One that has another value stays without `overwrite`: 409, `LabelConflict`."""
    dry_run = dry_run or wanted.dry_run
    touched = touched_by(request, preview=dry_run)
    touched.extend((f"node/{name}", f"label/{wanted.key}"))
    said, notes = label_one(
        service, caller, "create", name, wanted.key, wanted.value, touched, overwrite=wanted.overwrite, dry_run=dry_run
    )
    return {"nodeName": name, "label": {"key": wanted.key, "value": wanted.value}, "message": said, "notes": notes}


@router.get("/nodes/{nodeName}/labels/{key:path}", tags=["labels"], responses={200: {"model": KeptLabel}})
@from_memory
def one_label(service: ServiceOf, caller: Reads, name: NodeName, key: PathKey) -> dict[str, Any]:
    """A label of a node. It was there by `createdAt`, and has not changed since `lastUpdatedAt`."""
    check_labels({key: None})
    find_node(service, caller, name, "labels")
    # Who wrote what and when is not in the mirror: it would be half of its memory.
    with service.asking(caller) as session:
        found = labels_of_node(session, name)
    if found is None:
        raise no_node(name, (node.name for node in visible_nodes(service, caller, "labels")))
    for item in found:
        if item.key == key:
            return label_answer(item)
    raise not_found(f"node {name} has no label {key}", "LabelNotFound")


@writes.delete("/nodes/{nodeName}/labels/{key:path}", tags=["labels"], responses={200: {"model": DeletedLabel}})
def delete_label(
    request: Request, service: ServiceOf, caller: Deletes, name: NodeName, key: PathKey, dry_run: OnlyDryRun
) -> dict[str, Any]:
    """Delete a label of a node."""
    touched = touched_by(request, preview=dry_run)
    touched.extend((f"node/{name}", f"label/{key}"))
    said, notes = label_one(service, caller, "delete", name, key, None, touched, dry_run=dry_run)
    return {"nodeName": name, "labelKey": key, "message": said, "notes": notes}
