"""Imports Deployments, with the Services in front of them, as inferences."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.frontend.yaml_tree import RawDocument
from gpuctl.importing.draft import Draft
from gpuctl.importing.import_values import Given
from gpuctl.importing.imported import Imported
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.manifest_metadata import take_labels, take_metadata
from gpuctl.importing.pod_fields import DEVICES, PodFields
from gpuctl.importing.slurm.slurm_values import short_duration, whole_number
from gpuctl.importing.source_tree import Path, SourceTree

TOOL = "Deployment"
_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_SERVICE_TYPES = ("NodePort", "ClusterIP", "LoadBalancer")
_NOTES = {
    r"Probe": "`service.health_check` is an HTTP path; gpuctl sets the times of the probes",
    r"strategy": "`service.strategy` is replace or rolling",
    r"resources\.(limits|requests)": DEVICES,
    r"valueFrom|volume": "the language has no such volume or variable: use `podPatch`",
    r"revisionHistoryLimit|progressDeadlineSeconds|minReadySeconds": "gpuctl leaves it at Kubernetes' default",
    r"sessionAffinity|TrafficPolicy|loadBalancer|externalIPs": "gpuctl leaves it at Kubernetes' default",
}


def import_deployment(raw: RawDocument, services: Sequence[RawDocument], source: str, given: Given) -> Imported:
    """Return the inference of a Deployment.

    :param services: the Services of the file that select its pods.
    """
    ledger = LineLedger()
    tree = SourceTree(raw, ledger)
    draft = Draft("inference", source, TOOL)
    missing = take_metadata(tree, draft, given)
    base: Path = ("spec", "template")
    take_labels(tree, (*base, "metadata", "labels"), draft)
    pod = PodFields(tree, base, draft, given)
    pod.take()
    pod.take_program()
    if not services:
        draft.head.append("The file has no Service; gpuctl makes one, of the type `service.type`.")
    replicas = whole_number(tree.text(("spec", "replicas")))
    if replicas is not None:
        draft.set("service.replicas", replicas, tree.line(("spec", "replicas")))
        tree.mapped(("spec", "replicas"), "service.replicas")
    tree.mapped(("spec", "selector"), None, "gpuctl sets the labels that select the pods")
    tree.mapped((*pod.spec, "restartPolicy"), None, "it is Kubernetes' default")
    if tree.text(("spec", "strategy", "type")) in ("Recreate", "RollingUpdate"):
        value = "replace" if tree.text(("spec", "strategy", "type")) == "Recreate" else "rolling"
        draft.set("service.strategy", value, tree.line(("spec", "strategy", "type")))
        tree.mapped(("spec", "strategy", "type"), "service.strategy")
    _ports(tree, pod, draft)
    _probes(tree, pod, draft)
    tree.drop_rest(_NOTES)
    for service in services:
        _service(service, draft, ledger)
    return Imported(TOOL, [draft], ledger.entries(), [*missing, *pod.missing])


def _ports(tree: SourceTree, pod: PodFields, draft: Draft) -> None:
    base = (*pod.container, "ports")
    for index in range(tree.items(base)):
        number = whole_number(tree.text((*base, index, "containerPort")))
        if number is None:
            continue
        if index == 0:
            draft.set("service.port", number, tree.line((*base, index)))
        else:
            entry = {"name": tree.text((*base, index, "name")) or f"port-{number}", "port": number}
            draft.append("service.ports", entry, tree.line((*base, index)))
        tree.mapped((*base, index), "service.port" if index == 0 else "service.ports")


def _probes(tree: SourceTree, pod: PodFields, draft: Draft) -> None:
    for name in _PROBES:
        path = (*pod.container, name, "httpGet", "path")
        value = tree.text(path)
        if value is None:
            continue
        field = "service.health_check"
        if draft.get(field) is None:
            draft.set(field, value, tree.line(path))
        elif draft.get(field) != value and name == "livenessProbe":
            field = "service.liveness"
            draft.set(field, value, tree.line(path))
        tree.mapped(path, field)
        tree.mapped((*pod.container, name, "httpGet", "port"), "service.port")
        tree.mapped((*pod.container, name, "httpGet", "scheme"), None)
        failures = whole_number(tree.text((*pod.container, name, "failureThreshold"))) or 0
        period = whole_number(tree.text((*pod.container, name, "periodSeconds"))) or 10
        if name == "startupProbe" and failures:
            draft.set("service.startup_timeout", short_duration(failures * period), tree.line(path))
            tree.mapped((*pod.container, name, "failureThreshold"), "service.startup_timeout")
            tree.mapped((*pod.container, name, "periodSeconds"), "service.startup_timeout")


def _service(raw: RawDocument, draft: Draft, ledger: LineLedger) -> None:
    tree = SourceTree(raw, ledger)
    for path in (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"), ("metadata", "labels")):
        tree.changed(path, "service", "gpuctl makes a Service with the name of the job") if path[
            -1
        ] == "name" else tree.mapped(path, "service")
    tree.mapped(("spec", "selector"), "service")
    kind = tree.text(("spec", "type")) or "ClusterIP"
    if kind in _SERVICE_TYPES:
        draft.set("service.type", kind, tree.line(("spec", "type")))
        tree.mapped(("spec", "type"), "service.type")
    first: Path = ("spec", "ports", 0)
    port = whole_number(tree.text((*first, "port")))
    target = whole_number(tree.text((*first, "targetPort")))
    container = draft.get("service.port")
    if port is not None:
        target = target or container
        draft.set("service.port", port, tree.line((*first, "port")))
        if target is not None and target != port:
            draft.set("service.targetPort", target, tree.line((*first, "targetPort")))
        tree.mapped((*first, "port"), "service.port")
        tree.mapped((*first, "targetPort"), "service.targetPort")
        tree.mapped((*first, "name"), "service.port")
        tree.mapped((*first, "protocol"), "service.protocol")
    node_port = whole_number(tree.text((*first, "nodePort")))
    if node_port is not None:
        draft.set("service.nodePort", node_port, tree.line((*first, "nodePort")))
        tree.mapped((*first, "nodePort"), "service.nodePort")
    tree.drop_rest(_NOTES)
