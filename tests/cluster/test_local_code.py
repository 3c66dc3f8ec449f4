"""`code.local` on the real API server: the ConfigMap with the files follows them, and a rollback finds the last one."""

from __future__ import annotations

import base64
import io
import tarfile
from typing import Any

import pytest

from fault_tools.proxy import Proxy, before, matching, on
from support.cluster_tools import Place, training
from support.command import Command, Start


def write(place: Place, **files: str) -> None:
    """Write the files of the job's code, beside its document."""
    for name, text in files.items():
        path = place.directory / "src" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def document(**changes: Any) -> dict[str, Any]:
    return training(code={"local": "./src"}, **changes)


def archives(place: Place) -> dict[str, dict[str, Any]]:
    return {name: obj for name, obj in place.objects(("ConfigMap",)).items() if "-code-" in name}


def mounted(place: Place) -> str:
    volumes = place.get("Job", "train")["spec"]["template"]["spec"]["volumes"]
    return "ConfigMap/" + str(next(volume["configMap"]["name"] for volume in volumes if "configMap" in volume))


def unpacked(obj: dict[str, Any]) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(obj["binaryData"]["code.tar.gz"]))) as archive:
        return {item.name: archive.extractfile(item).read() for item in archive if item.isfile()}  # type: ignore[union-attr]


def test_changed_files_are_another_config_map(place: Place) -> None:
    write(place, train="1", model="m")
    place.apply(document())
    first = mounted(place)
    assert unpacked(archives(place)[first]) == {"train.py": b"1", "model.py": b"m"}
    assert set(place.plan(document()).actions.values()) == {"unchanged"}

    write(place, train="2", data="d")
    plan = place.plan(document())
    assert "the code of training/train differs: data.py (new), train.py" in plan.value["notes"]
    diff = place.gpuctl("diff", "-f", place.file(document()), code=1).out
    assert "code.tar.gz" in diff
    assert "H4sI" not in diff
    place.apply(document(), flags=("--yes",))
    second = mounted(place)
    assert archives(place).keys() == {first, second}
    assert set(place.plan(document()).actions.values()) == {"unchanged"}
    assert place.gpuctl("drift", "-f", place.file(document())).code == 0

    # The archive before the last one is deleted.
    write(place, train="3")
    place.apply(document(), flags=("--yes",))
    assert archives(place).keys() == {second, mounted(place)}
    place.gpuctl("delete", "job", "train", "--yes")
    assert not archives(place)


@pytest.mark.slow
def test_rollback_brings_the_last_files_back(place: Place) -> None:
    write(place, train="1")
    place.apply(document())
    first = mounted(place)
    write(place, train="2")
    place.apply(document(), flags=("--yes",))
    assert "sha256:" in place.gpuctl("history", "train", "--revision", "2").out
    place.gpuctl("rollback", "train", "--yes")
    assert mounted(place) == first
    assert first in archives(place)

    write(place, train="3")
    place.apply(document(), flags=("--yes",))
    write(place, train="4")
    place.apply(document(), flags=("--yes",))
    lost = place.gpuctl("rollback", "train", "--to", "1", "--yes", code=1)
    assert first not in archives(place)
    assert lost.err.startswith("error: training/train: the cluster no longer has the files of its `code.local`")


def test_history_lists_the_files_and_a_pause_keeps_them(place: Place) -> None:
    write(place, train="1")
    place.apply(document())
    first = mounted(place)
    write(place, train="2")
    place.apply(document(), flags=("--yes",))
    second = mounted(place)
    listed = place.gpuctl("history", "train", "-o", "json").value["items"]
    assert [item["revision"] for item in listed] == [2, 1]
    codes = [place.gpuctl("history", "train", "--revision", number).out.partition("sha256:")[2] for number in "12"]
    assert codes[0] != codes[1]
    place.gpuctl("pause", "train")
    assert set(place.plan(document()).actions.values()) == {"unchanged"}
    assert archives(place).keys() == {first, second}
    place.gpuctl("resume", "train")
    place.running("train")
    assert mounted(place) == second


def test_apply_after_a_kill_between_the_files_and_the_job_completes_it(
    place: Place, proxy: Proxy, start: Start
) -> None:
    write(place, train="1")
    claims = {"workdirs": [{"path": "/data", "pvc": {"claim": "lab", "create": {"size": "10Gi", "class": "by-hand"}}}]}
    made = document(storage=claims)
    killed: list[Command] = []
    proxy.reset(on(matching("POST", "/jobs", writes=True), before(lambda: killed[0].process.kill())))
    killed.append(start("apply", "-f", place.file(made), "-n", place.namespace))
    assert killed[0].end() == -9, killed[0].err
    proxy.reset()
    (code,) = archives(place)
    claim = place.uid("PersistentVolumeClaim", "lab")
    assert not place.exists("Job", "train")
    assert place.plan(made).actions == {
        code: "unchanged",
        "PersistentVolumeClaim/lab": "unchanged",
        "Job/train": "create",
    }
    place.apply(made)
    assert mounted(place) == code
    assert place.uid("PersistentVolumeClaim", "lab") == claim
    assert set(place.plan(made).actions.values()) == {"unchanged"}
    place.gpuctl("delete", "-f", place.file(made), "--yes")
    assert not archives(place)
    assert place.exists("PersistentVolumeClaim", "lab")
