"""Labels of nodes: reading, setting and deleting. A key may contain a slash, plain or as `%2F`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request

from gpuctl.api.node_label_answers import (
    BatchReport,
    DeletedLabel,
    GpuLabelPage,
    GpuLabels,
    KeptLabel,
    LabelChanges,
    LabelDeletions,
    LabelPage,
    NewLabel,
    NewLabels,
    NodeLabel,
    SetLabel,
    label_list,
)
from gpuctl.reading.label_rows import gpu_label_row, labels_with, node_labels
from gpuctl.usecases.label_nodes import check_labels
from gpuctl.usecases.node_queries import labels_of_node
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest, Action
from gpuctl_server.http_problems import not_found
from gpuctl_server.job_lookups import require_access
from gpuctl_server.node_labelling import set_node_label, set_node_labels
from gpuctl_server.node_lookups import find_node, node_not_found, visible_nodes
from gpuctl_server.plan_responses import NOTHING
from gpuctl_server.routes.common import (
    DryRun,
    OnlyDryRun,
    Page,
    PageSize,
    ServiceOf,
    allowed,
    api_router,
    from_memory,
    paged,
    touched_by,
    write_router,
)
from gpuctl_server.routes.node_routes import NodeName
from gpuctl_server.service_context import Service
from gpuctl_server.submissions import json_body_of, parsed_body

LONGEST_KEY = 253 + 1 + 63
"""Maximum length of a label's key: a DNS name, a slash, a name."""

router = api_router()
writes = write_router()
Reads = Annotated[Caller, Depends(allowed("get", "labels"))]
Sets = Annotated[Caller, Depends(allowed("create", "labels"))]
Deletes = Annotated[Caller, Depends(allowed("delete", "labels"))]
_EXAMPLES = ["nvidia.com/gpu-type"]
PathKey = Annotated[str, Path(alias="key", max_length=LONGEST_KEY, description="Key of the label.", examples=_EXAMPLES)]
QueryKey = Annotated[str, Query(max_length=LONGEST_KEY, description="Key of the label.", examples=_EXAMPLES)]


@router.get("/nodes/labels", tags=["labels"], responses={200: {"model": LabelPage}})
@from_memory
def label_of_nodes(
    service: ServiceOf, caller: Reads, key: QueryKey, page: Page = 1, size: PageSize = 20
) -> dict[str, Any]:
    """List the nodes that have a label, with its value."""
    check_labels({key: None})
    found = labels_with((node.object for node in visible_nodes(service, caller, "labels")), key)
    return paged(found, page, size, lambda label: NodeLabel.of(label).as_json())


@router.get("/nodes/labels/all", tags=["labels"], responses={200: {"model": GpuLabelPage}})
@from_memory
def gpu_labels(service: ServiceOf, caller: Reads, page: Page = 1, size: PageSize = 20) -> dict[str, Any]:
    """List the GPU type labels and the pool of each node."""
    found = visible_nodes(service, caller, "labels")
    return paged(found, page, size, lambda node: GpuLabels.of(gpu_label_row(node)).as_json())


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
    wanted: Annotated[NewLabels, Depends(parsed_body(NewLabels))],
    dry_run: DryRun = False,
) -> dict[str, Any]:
    """Set a label of several nodes. Nodes that fail are listed in `failed`."""
    names, labels, overwrite = wanted.node_names, {wanted.key: wanted.value}, wanted.overwrite
    dry_run = dry_run or wanted.dry_run
    return _several(request, service, caller, "create", names, labels, overwrite=overwrite, dry_run=dry_run)


@writes.post(
    "/nodes/labels/changes",
    tags=["labels"],
    responses={200: {"model": BatchReport}},
    openapi_extra=json_body_of(LabelChanges),
)
def change_labels(
    request: Request,
    service: ServiceOf,
    caller: Sets,
    wanted: Annotated[LabelChanges, Depends(parsed_body(LabelChanges))],
    dry_run: DryRun = False,
) -> dict[str, Any]:
    """Set several labels of several nodes, and delete those whose value is null. For each node all changes are made, or
    none.
    """
    if None in wanted.labels.values():
        require_access(caller, AccessRequest("delete", "labels"))
    names, labels, overwrite = wanted.node_names, wanted.labels, wanted.overwrite
    dry_run = dry_run or wanted.dry_run
    return _several(request, service, caller, "create", names, labels, overwrite=overwrite, dry_run=dry_run)


@writes.post(
    "/nodes/labels/deletions",
    tags=["labels"],
    responses={200: {"model": BatchReport}},
    openapi_extra=json_body_of(LabelDeletions),
)
def delete_labels(
    request: Request,
    service: ServiceOf,
    caller: Deletes,
    wanted: Annotated[LabelDeletions, Depends(parsed_body(LabelDeletions))],
    dry_run: DryRun = False,
) -> dict[str, Any]:
    """Delete several labels of several nodes. For each node all are deleted, or none."""
    labels = dict.fromkeys(wanted.keys)
    dry_run = dry_run or wanted.dry_run
    return _several(request, service, caller, "delete", wanted.node_names, labels, dry_run=dry_run)


def _several(
    request: Request,
    service: Service,
    caller: Caller,
    action: Action,
    names: Sequence[str],
    labels: Mapping[str, str | None],
    *,
    overwrite: bool = False,
    dry_run: bool,
) -> dict[str, Any]:
    touched = touched_by(request, preview=dry_run)
    keys = [f"label/{key}" for key in labels]
    touched.extend((*keys, *(f"node/{name}" for name in names)))
    report = set_node_labels(service, caller, action, names, labels, touched, overwrite=overwrite, dry_run=dry_run)
    touched[len(keys) :] = [f"node/{done.name}" for done in report.done]
    touched += [f"node/{failed.name}: {failed.error}" for failed in report.failed]
    return BatchReport.of(report, f"would be labelled; {NOTHING} (dry run)" if dry_run else "labelled").as_json()


@router.get("/nodes/{nodeName}/labels", tags=["labels"], responses={200: {"model": LabelPage}})
@from_memory
def labels_of_one(service: ServiceOf, caller: Reads, name: NodeName) -> dict[str, Any]:
    """List the labels of a node, by key."""
    return label_list(node_labels(find_node(service, caller, name, "labels").object))


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
    wanted: Annotated[NewLabel, Depends(parsed_body(NewLabel))],
    dry_run: DryRun = False,
) -> dict[str, Any]:
    """Set a label of a node. If it has another value and `overwrite` is false, the answer is 409 with
    `LabelConflict`."""
    dry_run = dry_run or wanted.dry_run
    touched = touched_by(request, preview=dry_run)
    touched.extend((f"node/{name}", f"label/{wanted.key}"))
    said, notes = set_node_label(
        service, caller, "create", name, wanted.key, wanted.value, touched, overwrite=wanted.overwrite, dry_run=dry_run
    )
    return {"nodeName": name, "label": {"key": wanted.key, "value": wanted.value}, "message": said, "notes": notes}


@router.get("/nodes/{nodeName}/labels/{key:path}", tags=["labels"], responses={200: {"model": KeptLabel}})
@from_memory
def one_label(service: ServiceOf, caller: Reads, name: NodeName, key: PathKey) -> dict[str, Any]:
    """Return a label of a node. It already existed at `createdAt`, and has not changed since `lastUpdatedAt`."""
    check_labels({key: None})
    find_node(service, caller, name, "labels")
    # The mirror has no managed fields, which have these times: they would take half of its memory.
    with service.live_session(caller) as session:
        found = labels_of_node(session, name)
    if found is None:
        raise node_not_found(name, (node.name for node in visible_nodes(service, caller, "labels")))
    for item in found:
        if item.key == key:
            return KeptLabel.of(item).as_json()
    raise not_found(f"node {name} has no label {key}", "LabelNotFound")


@writes.delete("/nodes/{nodeName}/labels/{key:path}", tags=["labels"], responses={200: {"model": DeletedLabel}})
def delete_label(
    request: Request, service: ServiceOf, caller: Deletes, name: NodeName, key: PathKey, dry_run: OnlyDryRun
) -> dict[str, Any]:
    """Delete a label of a node."""
    touched = touched_by(request, preview=dry_run)
    touched.extend((f"node/{name}", f"label/{key}"))
    said, notes = set_node_label(service, caller, "delete", name, key, None, touched, dry_run=dry_run)
    return {"nodeName": name, "labelKey": key, "message": said, "notes": notes}
