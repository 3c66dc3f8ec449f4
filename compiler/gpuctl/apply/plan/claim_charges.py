"""Charges to quotas of the claims for devices (DRA) of a plan's pods and of live pods."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from gpuctl.apply.plan.plan import Step
from gpuctl.capacity.admission.quota_charges import DEVICES
from gpuctl.capacity.devices.device_requests import charges_of_claims
from gpuctl.capacity.snapshot.device_entries import device_class_entry, resource_claim_template_entry
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.kube.api_errors import if_allowed
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import RESOURCES, Object

_COUNT = "count/resourceclaims.resource.k8s.io"


class ClaimCharges:
    """Computes what claims charge, from the templates of the plan and of the cluster.

    Templates and DeviceClasses are read when a pod has a claim. What the user may not read is not charged.
    """

    def __init__(self, session: Session, steps: Iterable[Step]) -> None:
        self._session = session
        self._steps = [step for step in steps if step.key.kind == "ResourceClaimTemplate"]
        self._snapshots: dict[str, Snapshot] = {}
        self._lock = Lock()

    def planned(self, template: Object, namespace: str) -> Object:
        """Return the template of a pod with what its claims will charge."""
        return self._with_charges(template, template["spec"].get("resourceClaims") or [], namespace)

    def live(self, pod: Object, namespace: str) -> Object:
        """Return a live pod with what its claims charge: those that a quota has refused do not exist."""
        made = {item.get("name") for item in (pod.get("status") or {}).get("resourceClaimStatuses") or []}
        claims = pod["spec"].get("resourceClaims") or []
        return self._with_charges(pod, [item for item in claims if item["name"] in made], namespace)

    def _with_charges(self, pod: Object, claims: Iterable[Object], namespace: str) -> Object:
        made = [item for item in claims if item.get("resourceClaimTemplateName")]
        if not made:
            return pod
        charges = charges_of_claims({**pod["spec"], "resourceClaims": made}, namespace, self._snapshot(namespace))
        return {**pod, DEVICES: {**charges, _COUNT: len(made)}}

    def _snapshot(self, namespace: str) -> Snapshot:
        with self._lock:
            if namespace not in self._snapshots:
                self._snapshots[namespace] = self._read(namespace)
            return self._snapshots[namespace]

    def _read(self, namespace: str) -> Snapshot:
        objects = self._listed("ResourceClaimTemplate", namespace)
        planned = [step for step in self._steps if step.key.namespace == namespace]
        objects += [step.live for step in planned if step.live is not None]
        objects += [step.desired for step in planned if step.desired is not None]
        templates = {obj["metadata"]["name"]: resource_claim_template_entry(obj) for obj in objects}
        classes = {obj["metadata"]["name"]: device_class_entry(obj) for obj in self._listed("DeviceClass")}
        for template in templates.values():
            for option in (option for options in template["requests"] for option in options):
                classes.setdefault(option["class"], {"name": option["class"]})
        found = [{**item, "namespace": namespace} for item in templates.values()]
        return Snapshot("", [], [], device_classes=[*classes.values()], resource_claim_templates=found)

    def _listed(self, kind: str, namespace: str | None = None) -> list[Object]:
        """Return the objects; none if they may not be read, or the cluster does not have the kind."""
        return list(if_allowed(lambda: self._session.list_objects(RESOURCES[kind], namespace)[0], []))
