"""Imports Deployments and StatefulSets, with the Services in front of them, as inferences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

from gpuctl.frontend.yaml_tree import RawDocument
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.draft import Draft
from gpuctl.importing.fields_from_options import set_given_values
from gpuctl.importing.import_result import Imported
from gpuctl.importing.import_values import Given
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.manifest_metadata import OUR_LABELS, take_labels, take_metadata
from gpuctl.importing.manifest_volumes import take_claims
from gpuctl.importing.pod_fields import DEVICES, HOST_NAME, PodFields
from gpuctl.importing.scaler_manifests import take_autoscaler
from gpuctl.importing.service_ports import ServicePorts
from gpuctl.importing.service_probes import take_probes
from gpuctl.importing.source_tree import SourceTree
from gpuctl.language.service_block import ServiceType

TOOL = "Deployment"
_STRATEGIES = {"Recreate": "replace", "RollingUpdate": "rolling"}
_DEFAULT = "it is Kubernetes' default"
_NOTES = {
    r"^spec\.replicas\Z": "it is not a number: write `service.replicas`",
    r"volumeClaimTemplates": "each pod has a claim of its own, and those of a document have the same ones",
    r"Probe": "`service.health_check` is an HTTP path; gpuctl sets the times of the probes",
    r"hostPort|hostIP": "a port of all nodes is `service.nodePort`; `resources.network.hostNetwork` takes a node's own",
    r"strategy": "`service.strategy` is replace or rolling",
    **DEVICES,
    r"valueFrom|volume": "the language has no such volume or variable: use `podPatch`",
    r"revisionHistoryLimit|minReadySeconds": "gpuctl leaves it at Kubernetes' default",
    r"serviceName|podManagementPolicy|updateStrategy|persistentVolumeClaimRetention": "pods of a Deployment are alike",
    r"clusterIP": "a Service without an address is not made: each pod has a name only in a training",
    r"sessionAffinity|TrafficPolicy|loadBalancer|externalIPs": "gpuctl leaves it at Kubernetes' default",
}

_OF_SERVICE = {
    r"^metadata": "gpuctl's Service has labels of its own, and no annotations: keep this manifest if they are read",
}
_NUMBERED = "pods of a Deployment have no numbers: `HOSTNAME` ends in letters"


def import_deployment(
    raw: RawDocument, services: Sequence[RawDocument], scaler: RawDocument | None, source: str, given: Given
) -> Imported:
    """Return the inference of a Deployment or StatefulSet.

    :param services: the Services of the file that select its pods.
    :param scaler: the HorizontalPodAutoscaler of the file that scales it, if any.
    """
    ledger = LineLedger()
    is_stateful = SourceTree(raw).text(("kind",)) == "StatefulSet"
    draft = Draft("inference", source, "StatefulSet" if is_stateful else TOOL, given.settings)
    tree = ConvertedTree(raw, ledger, draft)
    if is_stateful:
        tree.changed(("kind",), "kind", "it becomes a Deployment: its pods have no names of their own")
    take_metadata(tree, given)
    take_labels(tree, ("spec", "template", "metadata"))
    pod = PodFields(tree, ("spec", "template"), given)
    pod.take()
    is_numbered = is_stateful and re.search(HOST_NAME, draft.program_text()) is not None
    pod.take_program(_NUMBERED if is_numbered else None)
    take_claims(tree, pod.container)
    if not services:
        draft.head.append("The file has no Service; gpuctl makes one, inside of the cluster.")
        draft.set("service.type", "ClusterIP")
    tree.set_number(("spec", "replicas"), "service.replicas")
    tree.mapped(("spec", "selector"), None, "gpuctl sets the labels that select the pods")
    tree.mapped((*pod.spec, "restartPolicy"), None, _DEFAULT)
    if tree.text(("spec", "revisionHistoryLimit")) == "10":
        tree.mapped(("spec", "revisionHistoryLimit"), None, _DEFAULT)
    tree.changed(("spec", "progressDeadlineSeconds"), "service.startup_timeout", "gpuctl sets it by this field")
    strategy = _STRATEGIES.get(tree.text(("spec", "strategy", "type")) or "")
    if strategy is not None:
        tree.set(("spec", "strategy", "type"), "service.strategy", strategy)
    trees = [ConvertedTree(service, ledger, draft) for service in services]
    # A headless Service gives pods names; clients use the other one.
    main = next((item for item in trees if item.text(("spec", "clusterIP")) != "None"), trees[0] if trees else None)
    ports = ServicePorts(tree, pod)
    ports.take(main)
    take_probes(tree, pod, ports)
    tree.drop_rest(_NOTES)
    for service in trees:
        if service is main:
            _service(service)
        else:
            service.dropped((), "gpuctl makes one Service for a job: keep this manifest, or add its ports to the other")
    if scaler is not None:
        take_autoscaler(ConvertedTree(scaler, ledger, draft))
    missing = set_given_values(draft, given, ledger, tree.line(pod.container), has_gpus=pod.gpus > 0)
    return Imported(TOOL, [draft], ledger.entries(), [*pod.missing, *missing])


def _service(tree: ConvertedTree) -> None:
    for path in (("apiVersion",), ("kind",), ("metadata", "namespace"), ("spec", "selector")):
        tree.mapped(path, "service")
    tree.changed(("metadata", "name"), "service", "gpuctl makes a Service called `svc-NAME`")
    for key in filter(OUR_LABELS.__contains__, tree.keys(("metadata", "labels"))):
        tree.changed(("metadata", "labels", key), "service", "gpuctl sets the labels of its Service")
    if not tree.text(("spec", "type")):
        tree.draft.set("service.type", "ClusterIP")
        tree.mapped(("spec", "type"), "service.type")
    elif tree.text(("spec", "type")) in get_args(ServiceType):
        tree.set_text(("spec", "type"), "service.type")
    tree.drop_rest(_OF_SERVICE | _NOTES)
