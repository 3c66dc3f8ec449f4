"""Checks of the PersistentVolumeClaims of a pod without a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuctl.hints import kubectl_line
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import annotations_of
from gpuctl.objects.pod_specs import mounted_claims
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.why.event_proofs import event_proof, known_proofs
from gpuctl.reading.why.finding import Finding, Proof
from gpuctl.reading.why.pending_pods import PendingPods


def chosen_node(pending: PendingPods) -> Finding | None:
    """A node was chosen, and a WaitForFirstConsumer claim waits for its volume there."""
    for name in mounted_claims(pending.pod["spec"]):
        claim = pending.evidence.claims.get(name)
        node = annotations_of(claim).get(_SELECTED_NODE) if claim is not None else None
        if claim is None or node is None or (claim.get("status") or {}).get("phase") != "Pending":
            continue
        annotations, namespace = annotations_of(claim), pending.evidence.job.identity.namespace
        provisioner = next((annotations[key] for key in _PROVISIONER if key in annotations), None)
        last: dict[str, Any] = next(
            (event for event in reversed(_claim_events(pending, name)) if event.get("reason") in _PROVISIONING), {}
        )
        failed = last.get("reason") == "ProvisioningFailed"
        message = say(
            "{prefix}the scheduler has chosen {node}, and the PersistentVolumeClaim {name} waits for the "
            "volume{by}{why}",
            prefix=pending.prefix,
            node=node,
            name=name,
            by=say(" that {provisioner} has to provision", provisioner=provisioner) if provisioner else "",
            why=say(": {text}", text=one_line(last.get("message"))) if failed else "",
        )
        look = kubectl_line("describe pvc", name, "-n", namespace)
        fix = (
            say(
                "correct what the provisioner refuses, in the claim or in its StorageClass; {command} shows it",
                command=look,
            )
            if failed
            else say(
                "wait a moment; if nothing happens, {provisioner} does not run: {command}",
                provisioner=provisioner or say("the provisioner"),
                command=look,
            )
        )
        numbers = {"claim": name, "phase": "Pending", "selectedNode": node, "provisioner": provisioner}
        found = pending.finding("claim-unbound", message, numbers, fix)
        spec = Proof("status", f"persistentvolumeclaim/{name}", f"Pending; annotation {_SELECTED_NODE}: {node}")
        return replace(found, sources=known_proofs(*found.sources, spec, event_proof(last) if last else None))
    return None


_SELECTED_NODE = "volume.kubernetes.io/selected-node"
# The second name is older than 1.23 (pkg/controller/volume/persistentvolume/util).
_PROVISIONER = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
_PROVISIONING = ("ExternalProvisioning", "ProvisioningFailed", "ProvisioningSucceeded", "Provisioning")


def claims(pending: PendingPods) -> Finding | None:
    """A claim is missing, or has no volume."""
    names = [name for name in dict.fromkeys(mounted_claims(pending.pod["spec"])) if name in pending.evidence.claims]
    absent = [name for name in names if pending.evidence.claims[name] is None]
    if absent:
        message = say(
            "{prefix}there {number:is/are} no {number:PersistentVolumeClaim/PersistentVolumeClaims} {names:and} in "
            "{namespace}",
            prefix=pending.prefix,
            number=len(absent),
            names=absent,
            namespace=pending.evidence.job.identity.namespace,
        )
        fix = say(
            "create the {number:claim/claims} {names:and}, or name {number:another/others} in "
            "`storage.workdirs[].pvc.claim`",
            number=len(absent),
            names=absent,
        )
        return pending.finding("claim-missing", message, {"claim": absent[0], "claims": absent}, fix)
    for name in names:
        claim = pending.evidence.claims[name]
        assert claim is not None
        phase = (claim.get("status") or {}).get("phase")
        if phase == "Bound":
            continue
        if phase == "Lost":
            message = say(
                "{prefix}the volume of the PersistentVolumeClaim {name} is gone", prefix=pending.prefix, name=name
            )
            return pending.finding(
                "claim-unbound",
                message,
                {"claim": name, "phase": phase},
                say("restore its volume, or delete and create {name} again", name=name),
            )
        newest = (_claim_events(pending, name) or [{}])[-1]
        if "unbound immediate" not in pending.message and newest.get("reason") != "ProvisioningFailed":
            # The claim waits for its first consumer: this pod, which has no node for another reason.
            continue
        why = one_line(newest.get("message")) if newest.get("reason") != "WaitForFirstConsumer" else ""
        message = say(
            "{prefix}the PersistentVolumeClaim {name} has no volume{why}",
            prefix=pending.prefix,
            name=name,
            why=say(": {text}", text=why) if why else "",
        )
        fix = say(
            "{command} shows what it waits for",
            command=kubectl_line("describe pvc", name, "-n", pending.evidence.job.identity.namespace),
        )
        found = pending.finding("claim-unbound", message, {"claim": name, "phase": phase}, fix)
        told = tuple(event_proof(event) for event in _claim_events(pending, name)[-1:])
        return replace(found, sources=(*found.sources, *told))
    return None


def _claim_events(pending: PendingPods, name: str) -> list[dict[str, Any]]:
    about = [
        event for event in pending.evidence.events or [] if (event.get("involvedObject") or {}).get("name") == name
    ]
    return [event for event in about if event["involvedObject"].get("kind") == "PersistentVolumeClaim"]
