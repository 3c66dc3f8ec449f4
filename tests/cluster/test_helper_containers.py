"""`init`, `sidecars`, `envFrom` and `mounts` on the real API server: what is missing is noted, and logs are read."""

from __future__ import annotations

from support.cluster_tools import Place, training


def test_missing_objects_of_env_from_and_mounts_are_noted(place: Place) -> None:
    fresh = training(
        environment={"envFrom": [{"secret": "login"}, {"configMap": "settings"}]},
        storage={"mounts": [{"path": "/etc/app", "configMap": "files"}, {"path": "/keys", "secret": "keys"}]},
    )
    assert place.plan(fresh).value["notes"] == [
        f"there is no {what} in {place.namespace}, which training/train will wait for"
        for what in ("secret login", "config map settings", "config map files", "secret keys")
    ]


def test_init_and_sidecars_run_with_the_program(place: Place) -> None:
    document = training(
        init=[{"name": "prepare", "command": ["prepare"]}],
        sidecars=[{"name": "sync", "image": "registry.example.com/sync:v1", "resources": {"cpu": 1}}],
        security={"user": 1000, "fsGroup": 100},
    )
    place.apply(document)
    [pod] = place.running("train")
    place.plane.write_log(place.namespace, pod, "copied 3 files\n", container="sync")
    assert place.gpuctl("logs", "train", "-c", "sync").out == "copied 3 files\n"
    assert place.plan(document).value["summary"] == {"unchanged": 3}
