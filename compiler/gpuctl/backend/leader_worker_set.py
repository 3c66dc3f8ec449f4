"""The LeaderWorkerSet of an ``inference`` whose replicas span nodes: a leader and workers for each replica."""

from __future__ import annotations

import copy

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import job_annotations, job_labels, metadata
from gpuctl.backend.pod import pod_template
from gpuctl.backend.variables import env_value
from gpuctl.frontend.document import Document
from gpuctl.language.inference_document import InferenceDocument
from gpuctl.language.names import MAIN_CONTAINER
from gpuctl.language.training_document import DEFAULT_MASTER_PORT
from gpuctl.objects.api_resources import RESOURCES, Object

_OF_THE_LEADER = ("ports", "startupProbe", "readinessProbe", "livenessProbe")
"""Fields of the main container that the workers lack: only the leader serves requests."""


def leader_worker_set(
    context: Context, document: Document, model: InferenceDocument, *, replicas: int | None
) -> Object:
    """Return a LeaderWorkerSet, without replicas if an autoscaler sets them.

    It replaces the replicas one by one when the pods change, which is its default. All pods of a replica are created
    again when one of them fails, because the others would wait for its ranks for ever.
    """
    leader = pod_template(context, document, model, env=_environment(model))
    spec: Object = {} if replicas is None else {"replicas": replicas}
    spec["leaderWorkerTemplate"] = {
        "size": model.resources.nodes,
        "restartPolicy": "RecreateGroupOnPodRestart",
        "leaderTemplate": leader,
        "workerTemplate": _worker(leader),
    }
    resource = RESOURCES["LeaderWorkerSet"]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata(
            model.job.name, document.namespace, job_labels(context, document, model), job_annotations(context, model)
        ),
        "spec": spec,
    }


def _environment(model: InferenceDocument) -> list[Object]:
    """Return the variables by which the pods of a replica find each other, as those of a training do.

    LeaderWorkerSet's webhook puts the LWS_ variables in front of them (``pkg/utils/pod/pod_utils.go``).
    """
    return [
        env_value("MASTER_ADDR", "$(LWS_LEADER_ADDRESS)"),
        env_value("MASTER_PORT", DEFAULT_MASTER_PORT),
        env_value("NNODES", model.resources.nodes),
        env_value("NODE_RANK", "$(LWS_WORKER_INDEX)"),
    ]


def _worker(leader: Object) -> Object:
    worker = copy.deepcopy(leader)
    for container in worker["spec"]["containers"]:
        if container["name"] == MAIN_CONTAINER:
            for field in _OF_THE_LEADER:
                container.pop(field, None)
    return worker
