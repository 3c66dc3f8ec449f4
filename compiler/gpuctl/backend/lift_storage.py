"""Lifts a pod's volumes to the ``storage:`` block."""

from __future__ import annotations

from typing import Any

from gpuctl.backend.pod_volumes import DEFAULT_MODE, host_path_type
from gpuctl.objects.api_resources import Object

Data = dict[str, Any]


def lift_storage(pod: Object, container: Object, *, has_default: bool) -> Data:
    """Return the ``storage:`` block; empty without volumes of the document.

    :param has_default: the platform has a source for workdirs that name none.
    """
    targets = {mount["name"]: mount for mount in container.get("volumeMounts", [])}
    found: dict[str, list[Data]] = {"workdirs": [], "mounts": [], "models": []}
    for volume in pod.get("volumes", []):
        mount = targets.get(volume["name"])
        if mount is not None and volume["name"].startswith("workdir-"):
            found["workdirs"].append(_workdir(volume, mount, has_default=has_default))
        elif mount is not None and volume["name"].startswith("mount-"):
            found["mounts"].append(_mount(volume, mount))
        elif mount is not None and volume["name"].startswith("model-") and "image" in volume:
            found["models"].append({"image": volume["image"]["reference"], "path": mount["mountPath"]})
    return {name: entries for name, entries in found.items() if entries}


def _workdir(volume: Object, mount: Object, *, has_default: bool) -> Data:
    workdir: Data = {"path": mount["mountPath"]}
    if "hostPath" in volume:
        host = volume["hostPath"]
        workdir = {"path": host["path"]}
        if mount["mountPath"] != host["path"]:
            workdir["mountPath"] = mount["mountPath"]
        usual = host_path_type(host["path"], read_only=bool(mount.get("readOnly")))
        if host.get("type") != usual or has_default:
            workdir["type"] = host.get("type")
    elif "persistentVolumeClaim" in volume:
        workdir["pvc"] = {"claim": volume["persistentVolumeClaim"]["claimName"]}
        if "subPath" in mount:
            workdir["pvc"]["subPath"] = mount["subPath"]
    elif "nfs" in volume:
        workdir["nfs"] = {"server": volume["nfs"]["server"], "path": volume["nfs"]["path"]}
    elif "emptyDir" in volume:
        workdir["emptyDir"] = _empty_dir(volume["emptyDir"])
    if mount.get("readOnly"):
        workdir["readOnly"] = True
    return workdir


def _mount(volume: Object, mount: Object) -> Data:
    data: Data = {"path": mount["mountPath"]}
    if "emptyDir" in volume:
        return {**data, "emptyDir": _empty_dir(volume["emptyDir"])}
    for field, key in (("configMap", "name"), ("secret", "secretName")):
        source = volume.get(field)
        if source is not None:
            data[field] = source[key]
            items = [
                {
                    "key": item["key"],
                    **({"path": item["path"]} if item["path"] != item["key"] else {}),
                    **({"mode": _octal(item["mode"])} if "mode" in item else {}),
                }
                for item in source.get("items", [])
            ]
            if items:
                data["items"] = items
            mode = source.get("defaultMode")
            if mode is not None and _octal(mode) != DEFAULT_MODE:
                data["mode"] = _octal(mode)
    return data


def _empty_dir(source: Object) -> Data:
    names = {"size": "sizeLimit", "medium": "medium"}
    return {name: source[key] for name, key in names.items() if key in source}


def _octal(mode: int) -> str:
    return f"{mode:04o}"
