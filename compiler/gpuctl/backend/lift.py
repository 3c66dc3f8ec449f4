"""``lift``, the inverse of lowering: from Kubernetes objects back to documents.

An embedded document is used if present. Otherwise every field that lowering writes is read back, and additions to the
pod become a ``podPatch``; lowering the result gives the same objects. Other additions are left out: those outside the
pod, a limit of a ResourceQuota that no field of a document expresses (with a warning), and all if the language cannot
express what was read back. No object contains a platform's settings, so a platform is not lifted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

from gpuctl.backend import rendezvous
from gpuctl.backend.emitter import emit_object
from gpuctl.backend.lift_roles import has_roles, lift_roles
from gpuctl.backend.lift_workload import Data, LiftedWorkload, pod_spec
from gpuctl.backend.lower import MAIN_KINDS, lower_document
from gpuctl.backend.lowering_context import Context
from gpuctl.backend.pod_merge import diff_spec, key_of
from gpuctl.backend.pod_network import HOST_NETWORK_DNS
from gpuctl.backend.quota_queues import lift_entry
from gpuctl.backend.training_objects import lower_as
from gpuctl.frontend.binder import bind
from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.frontend.document import Document
from gpuctl.frontend.linker import link
from gpuctl.frontend.source import Source
from gpuctl.frontend.templates import escape_document
from gpuctl.frontend.yaml_reader import read
from gpuctl.language.device_drivers import class_limit
from gpuctl.language.mig_profiles import profile_of
from gpuctl.language.settings import Settings
from gpuctl.language.training_document import TrainingDocument
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.companion_names import DATA_KEY
from gpuctl.objects.embedded_document import document_of
from gpuctl.objects.label_names import MANAGED_BY, MANAGER
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.server_defaults import is_default

_EMPTY_DEFAULTS = ("securityContext", "resources")
"""Structures that the API server adds empty. Elsewhere an empty structure is a value, as in `emptyDir: {}`."""


def lift(objects: Iterable[Object], settings: Settings | None = None, *, use_annotation: bool = True) -> list[Data]:
    """Return the documents that ``objects`` were lowered from, in canonical form.

    Objects of other tools are skipped, and so are shared objects, which come with the documents that need them.

    Warns of each limit of a ResourceQuota that is left out.

    :param settings: the platform's settings that the objects were lowered with.
    """
    context = Context(settings or Settings())
    ours = [obj for obj in objects if isinstance(obj, dict) and _is_ours(obj)]
    documents: list[Data] = []
    quotas: dict[str, list[Object]] = {}
    known = set()
    for obj in ours:
        embedded = _embedded(context, obj) if use_annotation else None
        quota = labels_of(obj).get(context.label("quota"), "")
        if embedded is not None:
            known.add(quota)
            if embedded not in documents:
                documents.append(embedded)
        elif obj["kind"] in MAIN_KINDS:
            if _has_containers(obj):
                documents.append(_lift_workload(context, obj, ours))
        elif obj["kind"] == "ConfigMap" and DATA_KEY in (obj.get("data") or {}):
            documents += _lift_pool(obj)
        elif obj["kind"] in ("ResourceQuota", "ClusterQueue"):
            quotas.setdefault(quota, []).append(obj)
    documents += [_lift_quota(context, name, members) for name, members in quotas.items() if name not in {"", *known}]
    return documents


def _is_ours(obj: Object) -> bool:
    metadata = obj.get("metadata") or {}
    labels = metadata.get("labels") or {}
    return "kind" in obj and isinstance(metadata.get("name"), str) and labels.get(MANAGED_BY) == MANAGER


def _has_containers(obj: Object) -> bool:
    """Return True if a workload has containers: objects passed by library callers may be incomplete."""
    try:
        templates = [template for template, _ in pod_templates(obj)]
        return bool(templates) and all(template["spec"]["containers"] for template in templates)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def _embedded(context: Context, obj: Object) -> Data | None:
    return document_of(obj, context.label("document"))


def _lift_pool(obj: Object) -> list[Data]:
    """Return the pool that a definition contains; empty if it is not a valid document."""
    bound = [bind(raw, []) for raw in read(Source("pool", str(obj["data"][DATA_KEY])), [])]
    if len(bound) != 1 or bound[0] is None or bound[0].model is None:
        return []
    data = bound[0].model.model_dump(by_alias=True, exclude_unset=True)
    rest = {key: value for key, value in data.items() if key not in ("kind", "version")}
    return [{"kind": "pool", "version": data["version"], **rest}]


def _lift_quota(context: Context, name: str, members: Sequence[Object]) -> Data:
    header: Data = {"name": name}
    description = members[0]["metadata"].get("annotations", {}).get(context.label("description"))
    if description is not None:
        header["description"] = description
    placed = members[0]["metadata"].get("annotations", {}).get(context.label("placement"))
    resources = {name: gpu.vendor for gpu in reversed(context.settings.gpus) for name in gpu.card.counted}
    classes = {class_limit(name): vendor for vendor, name in reversed(context.settings.device_classes.items())}
    users: Data = {}
    for member in members:
        if member["kind"] == "ClusterQueue":
            namespace = labels_of(member).get(context.label("namespace"), "")
            users.setdefault(namespace, {}).update(lift_entry(context, member))
            continue
        hard = member["spec"]["hard"]
        entry: Data = users.setdefault(member["metadata"]["namespace"], {})
        gpus: dict[str, int] = {}
        slices: dict[str, int] = {}
        for key, value in hard.items():
            if key in ("requests.cpu", "requests.memory"):
                entry[key.removeprefix("requests.")] = value
            elif key == "count/jobs.batch":
                entry["maxJobs"] = int(value)
            elif key in classes:
                gpus[classes[key]] = int(value)
            elif key.removeprefix("requests.") in resources:
                gpus[resources[key.removeprefix("requests.")]] = int(value)
            elif (profile := profile_of(key.removeprefix("requests."))) is not None:
                slices[profile] = int(value)
            # The limit of a slices' DeviceClass is the sum of the profiles.
            elif key != class_limit(context.settings.profile_class):
                place = f"{member['metadata']['namespace']}/{member['metadata']['name']}"
                warnings.warn(f"no field of a quota expresses {key} of the ResourceQuota {place}", stacklevel=2)
        if gpus:
            entry["gpu"] = gpus
        if slices:
            entry["gpu-profiles"] = slices
    data: Data = {"kind": "quota", "version": "v0.1", "quota": header, "users": users}
    return data if placed is None else {**data, "placement": {"clusters": placed.split(",")}}


def _lift_workload(context: Context, obj: Object, ours: Sequence[Object]) -> Data:
    data = _read_back(context, obj, ours)
    document = _document(context, data)
    if document is None:
        return data
    model = document.model
    jobs = rendezvous.parts_by_job(model) if model.kind == "training" else []
    by_user = [job for job, part in jobs if not rendezvous.needs_torchrun(part)]
    if by_user:
        # The user set FORCE_TORCHRUN, which is the first of the user's variables.
        restored = _read_back(context, obj, ours, by_user)
        data, document = restored, _document(context, restored) or document
    for lowered in _lowered_again(context, document, obj["metadata"]["name"]):
        if lowered["kind"] == obj["kind"]:
            base, pod = pod_spec(lowered), pod_spec(obj)
            if "uid" in obj["metadata"]:
                # The object comes from a server, which fills in defaults.
                pod = _without_defaults(pod, base, "spec")
            patch = diff_spec(base, pod)
            _remove_implied_dns(patch, pod_spec(obj))
            if patch:
                data |= escape_document({"podPatch": patch})
    return data


def _read_back(context: Context, obj: Object, ours: Sequence[Object], users_torchrun: Sequence[str] = ()) -> Data:
    """Return a workload's document without its podPatch.

    :param users_torchrun: the Jobs in which the user has set FORCE_TORCHRUN.
    """
    if has_roles(obj):
        return lift_roles(context, obj, ours, users_torchrun)
    return LiftedWorkload(context, obj, ours, torchrun_is_ours=not users_torchrun).document()


def _remove_implied_dns(patch: Object, pod: Object) -> None:
    """Remove the DNS policy that `hostNetwork` implies, and keep any other."""
    if patch.get("hostNetwork"):
        policy = pod.get("dnsPolicy", "ClusterFirst")
        patch.pop("dnsPolicy", None)
        if policy != HOST_NETWORK_DNS:
            patch["dnsPolicy"] = policy


def _lowered_again(context: Context, document: Document, name: str) -> Iterable[Object]:
    """Return a workload's objects, a training's under the name of its object, which its pods use to find each other."""
    if isinstance(document.model, TrainingDocument):
        return lower_as(context, document, document.model, name)
    return (lowered.object for lowered in lower_document(context, document))


def _document(context: Context, data: Data) -> Document | None:
    """Return a lifted document as read by the frontend; None if the language cannot express it."""
    diagnostics: list[Diagnostic] = []
    raw = next(read(Source("lifted", emit_object(data)), diagnostics))
    bound = bind(raw, diagnostics)
    if bound is None or bound.model is None:
        return None
    document = Document(bound.kind, bound.model, raw.chunk, 0)
    for _ in link([document], context.settings, "default"):
        pass
    return document


def _without_defaults(value: Object, base: Object, owner: str) -> Object:
    """Return a structure without the API server's defaults of fields that ``base`` does not state, and without
    structures that become empty.

    :param owner: the name of the field around it; "" for an item of a list.
    """
    result: Object = {}
    for key, old in value.items():
        own = base.get(key)
        new = old
        if isinstance(old, dict):
            new = _without_defaults(old, own or {}, key)
        elif isinstance(old, list):
            by_key = {key_of(key, item): item for item in own or [] if isinstance(item, dict)}
            new = [
                _without_defaults(item, by_key.get(key_of(key, item)) or {}, "") if isinstance(item, dict) else item
                for item in old
            ]
        # On the node's network only, the server sets `hostPort` to the container's port.
        elif key not in base and key != "hostPort" and is_default(owner, key, old, value):
            continue
        if key in base or new or (new == old and not (new == {} and key in _EMPTY_DEFAULTS)):
            result[key] = new
    return result
