"""Devices of drivers (DRA) in the requests of jobs, as Kueue counts them against quotas.

Source: Kueue 0.19, ``pkg/dra/claims.go``, ``pkg/dra/extended_resources.go``, ``pkg/features/kube_features.go``.
Releases before 0.18 count claims only behind a feature gate of another name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuctl.capacity.devices.device_requests import lacking_lists
from gpuctl.capacity.devices.device_selectors import UnknownMatch, selector_of_device
from gpuctl.capacity.devices.shared_counters import DeviceKey
from gpuctl.capacity.kueue.kueue_configuration import CLAIMS, EXTENDED_RESOURCES, REJECTION, KueueConfiguration
from gpuctl.capacity.scheduler.scheduler_model import Units, units
from gpuctl.capacity.snapshot.device_entries import ADMIN_ACCESS
from gpuctl.capacity.snapshot.pod_requests import pod_requests
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import sum_by_key

_MAPPINGS = "resources.deviceClassMappings"
_WHERE = "ConfigMap kueue-manager-config"


class CountedDevices(NamedTuple):
    """The devices of one pod.

    ``added``: requests that Kueue adds; ``removed``: extended resources that they replace. ``refusal``: why Kueue never
    admits the pod; ``unknown_reason``: why the count is unknown.
    """

    added: Mapping[str, int] = {}
    removed: frozenset[str] = frozenset()
    refusal: str = ""
    unknown_reason: str = ""

    def in_requests(self, requests: Units) -> Units:
        """Return the requests of a pod with its devices."""
        kept = {name: amount for name, amount in requests.items() if name not in self.removed}
        return sum_by_key((kept, self.added))


class _Refused(Exception):
    """Kueue never admits the pod."""


class _Unknown(Exception):
    """The snapshot does not determine what Kueue counts."""


class KueueDevices:
    """Counts the devices of pods in a snapshot."""

    def __init__(self, snapshot: Snapshot, configuration: KueueConfiguration) -> None:
        self._snapshot = snapshot
        self._configuration = configuration
        self._classes = {item["name"]: item for item in snapshot.device_classes}
        self._matching: dict[tuple[str, ...], frozenset[DeviceKey]] = {}

    def of(self, spec: Object, namespace: str) -> CountedDevices:
        """Return the devices of a pod."""
        added: Units = {}
        removed: set[str] = set()
        unknown_reason = ""
        parts = (self._of_claims(spec, namespace), self._of_resources(spec))
        for part in parts:
            try:
                for name, amount, replaced in part:
                    added[name] = added.get(name, 0) + amount
                    removed.update([replaced] if replaced else [])
            except _Refused as error:
                return CountedDevices(refusal=str(error))
            except _Unknown as error:
                unknown_reason = str(error)
        return CountedDevices(added, frozenset(removed), unknown_reason=unknown_reason)

    def _of_claims(self, spec: Object, namespace: str) -> Iterator[tuple[str, int, str]]:
        """Yield the quota resources and numbers of devices that the claims of a pod request."""
        claims = spec.get("resourceClaims") or []
        if not claims or not self._counts_claims():
            return
        if any(not claim.get("resourceClaimTemplateName") for claim in claims):
            raise _Refused(say("Kueue does not support ResourceClaims that pods share"))
        unknown = None
        for claim in claims:
            try:
                yield from self._of_template(claim["resourceClaimTemplateName"], namespace)
            except _Unknown as error:
                # A later claim may be refused.
                unknown = error
        if unknown is not None:
            raise unknown

    def _counts_claims(self) -> bool:
        """Return True if Kueue counts claims, False if it ignores them."""
        configuration = self._configuration
        if not configuration.is_read:
            raise _Unknown(
                say(
                    "Kueue's configuration ({where} in kueue-system) could not be read: how it counts claimed devices "
                    "is unknown ({mappings})",
                    where=_WHERE,
                    mappings=_MAPPINGS,
                )
            )
        if configuration.has_default_gate(CLAIMS) is not True:
            raise _Unknown(
                say(
                    "Kueue's release is unknown or before 0.18 (label app.kubernetes.io/version of the {where}), and "
                    "releases count claimed devices differently",
                    where=_WHERE,
                )
            )
        if configuration.is_enabled(CLAIMS):
            return True
        if configuration.gates.get(REJECTION) is False:
            return False
        raise _Refused(say("its pods claim devices, and Kueue's feature gate {gate} is off", gate=CLAIMS))

    def _of_template(self, name: str, namespace: str) -> Iterator[tuple[str, int, str]]:
        lacking = lacking_lists(self._snapshot, "resourceClaimTemplates", "deviceClasses", "resourceSlices")
        if lacking:
            raise _Unknown(
                say("how Kueue counts the devices that its pods claim is unknown: {lacking}", lacking=lacking)
            )
        templates = self._snapshot.resource_claim_templates
        found = next((item for item in templates if (item["namespace"], item["name"]) == (namespace, name)), None)
        if found is None:
            raise _Unknown(
                say(
                    "the ResourceClaimTemplate {name} of its pods was not found in {namespace}",
                    name=name,
                    namespace=namespace,
                )
            )
        if not all(found["requests"]):
            raise _Unknown(
                say("the ResourceClaimTemplate {name} of its pods has a request of an unknown form", name=name)
            )
        chosen = [options[0] for options in found["requests"]]
        if any(len(options) > 1 or options[0].get("alternative") for options in found["requests"]):
            raise _Refused(say("Kueue does not support claims with alternatives (firstAvailable)"))
        for option in chosen:
            if option.get("uncounted") == ADMIN_ACCESS or option.get("all"):
                what = say("all devices of a node (allocationMode All)") if option.get("all") else ADMIN_ACCESS
                raise _Refused(say("Kueue does not support claims for {what}", what=what))
            if option["class"] not in self._configuration.device_classes:
                raise _Refused(
                    say(
                        "Kueue's configuration does not list DeviceClass {device_class} ({mappings})",
                        device_class=option["class"],
                        mappings=_MAPPINGS,
                    )
                )
        self._check_selectors([option for option in chosen if option.get("selectors")])
        for option in chosen:
            if option["class"] in self._configuration.measured_classes:
                raise _Unknown(
                    say(
                        "Kueue counts DeviceClass {device_class} by counters or capacities of its devices (sources of "
                        "{mappings})",
                        device_class=option["class"],
                        mappings=_MAPPINGS,
                    )
                )
            yield self._configuration.device_classes[option["class"]], option["count"], ""

    def _check_selectors(self, options: Sequence[Object]) -> None:
        """Check that the cluster has enough devices for the requests with selectors of one claim, in use or not.

        Source: validateCELSelectorsAgainstDevices.
        """
        found = [self._devices(option) for option in options]
        for option, devices in zip(options, found, strict=True):
            if len(devices) < option["count"]:
                has = (
                    say("only {devices} of its devices match", devices=len(devices))
                    if devices
                    else say("none of its devices matches")
                )
                raise _Refused(
                    say(
                        "its pods claim {devices} of DeviceClass {device_class}, and {has}",
                        devices=option["count"],
                        device_class=option["class"],
                        has=has,
                    )
                )
        for number, (option, devices) in enumerate(zip(options, found, strict=True)):
            rivals = (
                other["count"] for place, other in enumerate(options) if place != number and devices & found[place]
            )
            if len(devices) < option["count"] + sum(rivals):
                raise _Unknown(say("the requests of a claim of its pods compete for the same devices"))

    def _devices(self, option: Object) -> frozenset[DeviceKey]:
        """Return the devices that match a request, also those that are in use or tainted."""
        known = self._classes.get(option["class"])
        if known is None:
            raise _Unknown(say("DeviceClass {device_class} was not found", device_class=option["class"]))
        selectors = (*(known.get("selectors") or ()), *option["selectors"])
        if selectors not in self._matching:
            try:
                self._matching[selectors] = frozenset(self._selected(selectors))
            except UnknownMatch as error:
                raise _Unknown(
                    say("a selector of a claim of its pods has no known result: {error}", error=error)
                ) from None
        return self._matching[selectors]

    def _selected(self, selectors: Sequence[str]) -> Iterator[DeviceKey]:
        for item in self._snapshot.resource_slices:
            for device in item["devices"]:
                if all(selector_of_device(selector, item["driver"], device) for selector in selectors):
                    yield item["driver"], item["pool"]["name"], device["name"]

    def _of_resources(self, spec: Object) -> Iterator[tuple[str, int, str]]:
        """Yield the quota resources of extended resources that DeviceClasses offer, if Kueue counts them as others.

        Source: NeedsDRAReconcile, ResolveExtendedResourceQuota. Without a mapping the name stays, and also if one of
        the feature gates is off.
        """
        configuration = self._configuration
        if False in (configuration.is_enabled(CLAIMS), configuration.is_enabled(EXTENDED_RESOURCES)):
            return
        if configuration.device_classes and lacking_lists(self._snapshot, "deviceClasses"):
            if any("/" in name for name in pod_requests(spec)):
                raise _Unknown(
                    say(
                        "DeviceClasses could not be read: Kueue may count them as other resources ({mappings})",
                        mappings=_MAPPINGS,
                    )
                )
            return
        for resource, amount in units(pod_requests(spec)).items():
            names = [name for name, item in self._classes.items() if item.get("extendedResource") == resource]
            keys = {configuration.device_classes.get(name, resource) for name in names}
            measured = [name for name in names if name in configuration.measured_classes]
            is_same = keys <= {resource} and not measured and not resource.startswith(configuration.excluded)
            if not names or is_same:
                continue
            if configuration.is_enabled(EXTENDED_RESOURCES) is None:
                raise _Unknown(
                    say(
                        "Kueue may count {resource} as another resource ({mappings}), and its release is unknown",
                        resource=resource,
                        mappings=_MAPPINGS,
                    )
                )
            if len(names) > 1:
                raise _Unknown(
                    say(
                        "several DeviceClasses offer {resource}, and Kueue counts one of them ({mappings})",
                        resource=resource,
                        mappings=_MAPPINGS,
                    )
                )
            if measured:
                raise _Refused(
                    say(
                        "Kueue counts DeviceClass {device_class} by counters or capacities, and does not support it as "
                        "{resource}",
                        device_class=measured[0],
                        resource=resource,
                    )
                )
            yield keys.pop(), amount, resource
