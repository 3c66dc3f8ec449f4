"""The rules of the API server and the kubelet for a pod's volumes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuctl.backend.pod_problems import PodProblem, strings_at, values_at
from gpuctl.frontend.diagnostics import FieldPath
from gpuctl.language import names
from gpuctl.language.images import image_problem
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import parse_quantity

HOST_PATH_TYPES = (
    *("DirectoryOrCreate", "Directory", "FileOrCreate", "File"),
    *("Socket", "CharDevice", "BlockDevice"),
)
_PROJECTED = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")
_POD_FIELDS = ("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations")
_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")

# Texts of common volume sources that may not be empty.
_REQUIRED = (
    *("hostPath.path", "nfs.server", "nfs.path", "persistentVolumeClaim.claimName", "csi.driver"),
    *("image.reference", "configMap.name", "secret.secretName"),
)


def check_volumes(pod: Object) -> Iterator[PodProblem]:
    """Yield all problems of a pod's volumes."""
    seen: set[str] = set()
    for index, volume in enumerate(pod.get("volumes", [])):
        place: FieldPath = ("volumes", index)
        name = volume.get("name", "")
        if not names.is_dns_label(name):
            yield PodProblem((*place, "name"), say("`{name}` is not a legal volume name, a DNS label", name=name))
        elif name in seen:
            yield PodProblem((*place, "name"), say("two volumes are called `{name}`", name=name))
        seen.add(name)
        sources = [field for field in volume if field != "name"]
        if len(sources) > 1:
            message = say(
                "the volume `{name}` has {sources:and}; it can have one source", name=name, sources=list(sources)
            )
            yield PodProblem((*place, sources[-1]), message, say("keep one"))
        for problem in _source(volume):
            yield problem._replace(path=(*place, *problem.path))


def _source(volume: Object) -> Iterator[PodProblem]:
    for pattern in _REQUIRED:
        source, _, field = pattern.partition(".")
        found = volume.get(source)
        if isinstance(found, dict) and not found.get(field):
            yield PodProblem(
                (source,), say("`{field}` needs `{key}`", field=source, key=field), say("add `{name}:`", name=field)
            )
    for pattern in ("hostPath.path", "nfs.path"):
        for place, path in strings_at(volume, pattern):
            if ".." in path.split("/"):
                yield PodProblem(place, say("`{value}` contains `..`", value=path))
            elif path and not path.startswith("/"):
                yield PodProblem(place, say("`{value}` is not an absolute path", value=path))
    for place, text in strings_at(volume, "emptyDir.medium"):
        if text not in ("", "Memory", "HugePages") and not text.startswith("HugePages-"):
            yield PodProblem(
                place,
                say("`{text}` is not a medium", text=text),
                say("write `Memory`, or remove it for the node's disk"),
            )
    for place, value in values_at(volume, "emptyDir.sizeLimit"):
        if (parse_quantity(str(value)) or 0) < 0:
            yield PodProblem(place, say("the size is negative"))
    for place, text in strings_at(volume, "image.reference"):
        wrong = image_problem(text) if text else None
        if wrong is not None:
            yield PodProblem(place, say("the image `{image}` {problem}", image=text, problem=wrong[0]), wrong[1])
    for place, text in strings_at(volume, "csi.driver"):
        if len(text) > 63 or not names.is_dns_subdomain(text.lower()):
            yield PodProblem(place, say("`{text}` is not the name of a CSI driver", text=text))
    for place, text in strings_at(volume, "csi.nodePublishSecretRef.name"):
        if not names.is_dns_subdomain(text):
            yield PodProblem(place, say("`{value}` is not a legal object name", value=text))
    if "ephemeral" in volume:
        yield from _ephemeral(volume["ephemeral"])
    if "projected" in volume:
        yield from _projected(volume["projected"])
    for source in ("configMap", "secret"):
        yield from _items(volume.get(source, {}), (source,))
    yield from _downward(volume.get("downwardAPI", {}), ("downwardAPI",))


def _ephemeral(source: Object) -> Iterator[PodProblem]:
    claim = source.get("volumeClaimTemplate", {}).get("spec")
    place: FieldPath = ("ephemeral", "volumeClaimTemplate", "spec")
    if claim is None:
        yield PodProblem(
            ("ephemeral",), say("`{field}` needs `{key}`", field="ephemeral", key="volumeClaimTemplate.spec")
        )
        return
    if not claim.get("accessModes"):
        yield PodProblem(place, say("the claim needs `accessModes`"))
    for index, mode in enumerate(claim.get("accessModes", [])):
        modes = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
        if mode not in modes:
            message = say("`{mode}` is not an access mode", mode=mode)
            yield PodProblem((*place, "accessModes", index), message, say("write one of {names}", names=list(modes)))
    size = claim.get("resources", {}).get("requests", {}).get("storage")
    if size is None or (parse_quantity(str(size)) or 0) <= 0:
        yield PodProblem(place, say("the claim needs `resources.requests.storage`"))


def _projected(source: Object) -> Iterator[PodProblem]:
    for index, part in enumerate(source.get("sources", [])):
        place: FieldPath = ("projected", "sources", index)
        kinds = [kind for kind in _PROJECTED if kind in part]
        if len(kinds) != 1:
            yield PodProblem(place, say("needs one of {names}", names=list(_PROJECTED[:4])))
        for kind in ("secret", "configMap"):
            if kind in part:
                if not part[kind].get("name"):
                    yield PodProblem((*place, kind), say("`{field}` needs `{key}`", field=kind, key="name"))
                yield from _items(part[kind], (*place, kind))
        yield from _downward(part.get("downwardAPI", {}), (*place, "downwardAPI"))
        token = part.get("serviceAccountToken")
        if token is not None and not token.get("path"):
            yield PodProblem(
                (*place, "serviceAccountToken"), say("`{field}` needs `{key}`", field="serviceAccountToken", key="path")
            )


def _items(source: Object, place: FieldPath) -> Iterator[PodProblem]:
    for index, item in enumerate(source.get("items", [])):
        if not item.get("key"):
            yield PodProblem((*place, "items", index), say("an item needs `key`"))
        yield from _inside(item, (*place, "items", index))


def _inside(item: Object, place: FieldPath) -> Iterator[PodProblem]:
    """Yield the problems of an item's path, which must be inside the volume."""
    path = item.get("path", "")
    if not path:
        yield PodProblem(place, say("an item needs `path`"))
    elif path.startswith(("/", "..")) or ".." in path.split("/"):
        yield PodProblem((*place, "path"), say("`{value}` is not a relative path inside the volume", value=path))


def _downward(source: Object, place: FieldPath) -> Iterator[PodProblem]:
    for index, item in enumerate(source.get("items", [])):
        at_item: FieldPath = (*place, "items", index)
        yield from _inside(item, at_item)
        if ("fieldRef" in item) == ("resourceFieldRef" in item):
            yield PodProblem(at_item, say("an item needs one of fieldRef and resourceFieldRef"))
        yield from check_field(item.get("fieldRef"), (*at_item, "fieldRef"), _POD_FIELDS)
        yield from check_resource(item.get("resourceFieldRef"), (*at_item, "resourceFieldRef"), volume=True)


def check_field(reference: Object | None, place: FieldPath, fields: tuple[str, ...]) -> Iterator[PodProblem]:
    """Yield the problems of a reference to a field of the pod."""
    if reference is None:
        return
    if reference.get("apiVersion", "v1") not in ("", "v1"):
        yield PodProblem(
            (*place, "apiVersion"),
            say("`{version}` is not the version of a pod, `v1`", version=reference["apiVersion"]),
        )
    path = reference.get("fieldPath", "")
    subscript = re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]", path)
    known = names.is_qualified_name(subscript[2]) if subscript else path in fields
    if not known:
        hint = say("the fields are {names}, metadata.labels['KEY'] and metadata.annotations['KEY']", names=list(fields))
        yield PodProblem(
            (*place, "fieldPath") if path else place,
            say("`{path}` is not a field that a pod can read", path=path),
            hint,
        )


def check_resource(reference: Object | None, place: FieldPath, *, volume: bool = False) -> Iterator[PodProblem]:
    """Yield the problems of a reference to an amount of a container's resources."""
    if reference is None:
        return
    amount, _, resource = reference.get("resource", "").partition(".")
    known = resource in _CONTAINER_RESOURCES or resource.startswith("hugepages-")
    if amount not in ("limits", "requests") or not known:
        message = say("`{value}` is not an amount that a container can read", value=reference.get("resource", ""))
        yield PodProblem((*place, "resource"), message, say("write `limits.` or `requests.` and cpu, memory ..."))
    if volume and not reference.get("containerName"):
        yield PodProblem(place, say("`resourceFieldRef` of a volume needs `containerName`"))
