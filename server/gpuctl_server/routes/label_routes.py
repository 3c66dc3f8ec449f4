"""Labels of nodes: reading, setting and deleting. A key may contain a slash, plain or as `%2F`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Depends, Path, Query

from gpuctl.acts.node_labels import no_such_label
from gpuctl.api.node_label_answers import (
    LABELLED,
    BatchReport,
    DeletedLabel,
    GpuLabelPage,
    GpuLabels,
    KeptLabel,
    LabelChanges,
    LabelPage,
    NewLabel,
    NewLabels,
    NodeLabel,
    SetLabel,
)
from gpuctl.reading.nodes.label_rows import labels_with, node_labels
from gpuctl.usecases.changes.label_nodes import check_labels
from gpuctl.usecases.queries.node_queries import labels_of_node
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import Action
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.changes.node_labelling import set_node_label, set_node_labels
from gpuctl_server.http.http_problems import not_found
from gpuctl_server.http.request_bodies import json_body_of, parsed_body
from gpuctl_server.lookups.node_lookups import find_node, node_not_found, visible_nodes
from gpuctl_server.routes.dependencies import ServiceOf, allowed, change_of, only_dry_run
from gpuctl_server.routes.node_routes import NodeName
from gpuctl_server.routes.query_parameters import Page, PageSize, paged
from gpuctl_server.routes.routers import from_memory, mirror_router, write_router

LONGEST_KEY = 253 + 1 + 63
"""Maximum length of a label's key: a DNS name, a slash, a name."""

router = mirror_router()
writes = write_router()
Reads = Annotated[Caller, Depends(allowed("get", "labels"))]
label_of = parsed_body(NewLabel)
labels_of_several = parsed_body(NewLabels)
label_changes_of = parsed_body(LabelChanges)
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
    return paged(found, page, size, lambda label: NodeLabel.model_validate(label).as_json())


@router.get("/nodes/labels/all", tags=["labels"], responses={200: {"model": GpuLabelPage}})
@from_memory
def gpu_labels(service: ServiceOf, caller: Reads, page: Page = 1, size: PageSize = 20) -> dict[str, Any]:
    """List the GPU type labels and the pool of each node."""
    found = visible_nodes(service, caller, "labels")
    return paged(found, page, size, lambda node: GpuLabels.model_validate(node).as_json())


@writes.post(
    "/nodes/labels/batch",
    tags=["labels"],
    responses={200: {"model": BatchReport}},
    openapi_extra=json_body_of(NewLabels),
)
def label_several(
    change: Annotated[ChangeRequest, Depends(change_of("create", "labels", labels_of_several, confirms=False))],
    wanted: Annotated[NewLabels, Depends(labels_of_several)],
) -> dict[str, Any]:
    """Set a label of several nodes. Nodes that fail are listed in `failed`."""
    labels = {wanted.key: wanted.value}
    return _several(change, "create", wanted.node_names, labels, overwrite=wanted.overwrite)


@writes.post(
    "/nodes/labels/changes",
    tags=["labels"],
    responses={200: {"model": BatchReport}},
    openapi_extra=json_body_of(LabelChanges),
)
def change_labels(
    change: Annotated[ChangeRequest, Depends(change_of("update", "labels", label_changes_of, confirms=False))],
    wanted: Annotated[LabelChanges, Depends(label_changes_of)],
) -> dict[str, Any]:
    """Set several labels of several nodes, and delete those whose value is null. For each node all changes are made, or
    none.
    """
    return _several(change, "update", wanted.node_names, wanted.labels, overwrite=wanted.overwrite)


def _several(
    change: ChangeRequest, action: Action, names: Sequence[str], labels: Mapping[str, str | None], *, overwrite: bool
) -> dict[str, Any]:
    touched, keys = change.touched, [f"label/{key}" for key in labels]
    touched.extend((*keys, *(f"node/{name}" for name in names)))
    report = set_node_labels(change, action, names, labels, overwrite=overwrite)
    touched[len(keys) :] = [f"node/{done.name}" for done in report.done]
    touched += [f"node/{failed.name}: {failed.error}" for failed in report.failed]
    return BatchReport.of(report, LABELLED, dry_run=change.dry_run).as_json()


@router.get("/nodes/{nodeName}/labels", tags=["labels"], responses={200: {"model": LabelPage}})
@from_memory
def labels_of_one(service: ServiceOf, caller: Reads, name: NodeName) -> dict[str, Any]:
    """List the labels of a node, by key."""
    return NodeLabel.listed(node_labels(find_node(service, caller, name, "labels").object))


@writes.post(
    "/nodes/{nodeName}/labels",
    tags=["labels"],
    responses={200: {"model": SetLabel}},
    openapi_extra=json_body_of(NewLabel),
)
def set_label(
    change: Annotated[ChangeRequest, Depends(change_of("create", "labels", label_of, confirms=False))],
    name: NodeName,
    wanted: Annotated[NewLabel, Depends(label_of)],
) -> dict[str, Any]:
    """Set a label of a node. If it has another value and `overwrite` is false, the answer is 409 with
    `LabelConflict`."""
    change.touched.extend((f"node/{name}", f"label/{wanted.key}"))
    said, notes = set_node_label(change, "create", name, wanted.key, wanted.value, overwrite=wanted.overwrite)
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
    raise not_found(no_such_label(name, key), "LabelNotFound")


@writes.delete("/nodes/{nodeName}/labels/{key:path}", tags=["labels"], responses={200: {"model": DeletedLabel}})
def delete_label(
    change: Annotated[ChangeRequest, Depends(change_of("delete", "labels", only_dry_run, confirms=False))],
    name: NodeName,
    key: PathKey,
) -> dict[str, Any]:
    """Delete a label of a node."""
    change.touched.extend((f"node/{name}", f"label/{key}"))
    said, notes = set_node_label(change, "delete", name, key, None)
    return {"nodeName": name, "labelKey": key, "message": said, "notes": notes}
