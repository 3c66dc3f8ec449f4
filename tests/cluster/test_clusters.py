"""Which cluster a command works on: what the platform says of its clusters, against where the connection leads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy
from fault_tools.world import Api
from support.cluster_tools import Place, training

OTHER = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def uid(api: Api) -> str:
    """The uid by which the cluster is known."""
    return str(api.call("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"])


@pytest.fixture
def server(plane: ControlPlane) -> str:
    """The address of the API server."""
    return str(_config(plane)["clusters"][0]["cluster"]["server"])


def _config(plane: ControlPlane) -> dict[str, Any]:
    return dict(json.loads(plane.kubeconfig().read_text()))


def _named(place: Place, **clusters: dict[str, str]) -> None:
    place.platform(f"clusters: {json.dumps(clusters)}")


def _context(plane: ControlPlane) -> str:
    return str(_config(plane)["current-context"])


def test_the_cluster_that_is_meant(place: Place, plane: ControlPlane, server: str, uid: str) -> None:
    context = _context(plane)
    # Not as text: other case, a slash.
    _named(
        place,
        all={"server": server.replace("https", "HTTPS") + "/", "context": context, "uid": uid},
        uid={"uid": uid},
    )
    file = place.file(training())
    for name in ("all", "uid"):
        place.gpuctl("diff", "-f", file, "--cluster", name, code=1)
    place.gpuctl("apply", "-f", file, "--cluster", "all", "--context", context)
    place.gpuctl("get", "jobs", "--cluster", "uid", "--platform", str(place.directory / "platform.yaml"))


def test_another_server_of_the_same_context_is_refused_before_anything_is_sent(place: Place, proxy: Proxy) -> None:
    context = json.loads((place.directory / "through-proxy").read_text())["current-context"]
    _named(place, prod={"server": "https://127.0.0.1:1", "context": context})
    file = place.file(training())
    for command in (("apply",), ("diff",), ("delete",), ("apply", "--dry-run=server"), ("fit",)):
        said = place.gpuctl(*command, "-f", file, "--cluster", "prod", code=3).err
        assert "error: this is not the cluster prod: its server is https://127.0.0.1:1, and the context" in said
        assert "  = nothing was read or written; correct the kubeconfig, or what" in said
    assert proxy.records == []


def test_a_uid_that_is_anothers_is_one_request(place: Place, proxy: Proxy, uid: str) -> None:
    _named(place, prod={"uid": OTHER})
    file = place.file(training())
    said = place.gpuctl("apply", "-f", file, "--cluster", "prod", code=3).err
    assert f"error: this is not the cluster prod: its uid is {OTHER}, and that of" in said
    assert uid in said
    assert [(record.request.method, record.request.path) for record in proxy.records] == [
        ("GET", "/api/v1/namespaces/kube-system")
    ]


def test_in_json_a_wrong_cluster_is_one_value(place: Place) -> None:
    _named(place, prod={"uid": OTHER})
    told = place.gpuctl("apply", "-f", place.file(training()), "--cluster", "prod", "-o", "json", code=3).value
    assert told["steps"] == []
    assert told["error"].startswith("this is not the cluster prod: its uid is ")


def test_a_user_who_may_not_read_the_uid(place: Place, plane: ControlPlane, uid: str, monkeypatch: Any) -> None:
    """What is named cannot be told, and is refused; what nobody named goes on by the rest."""
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig("nobody")))
    _named(place, prod={"uid": uid})
    file = place.file(training())
    said = place.gpuctl("apply", "-f", file, "--cluster", "prod", code=3).err
    assert "is the cluster prod cannot be told: its uid is that of the namespace kube-system" in said
    assert "have `get` of the namespace kube-system granted, or name the cluster by its server or context in" in said
    assert "none of the clusters" not in place.gpuctl("apply", "-f", file, code=3).err
    assert not place.exists("Job", "train")


def test_a_cluster_that_the_platform_does_not_name(place: Place, proxy: Proxy) -> None:
    """Whoever would change it is refused, whoever looks gets a note."""
    _named(place, prod={"server": "https://127.0.0.1:1"}, staging={"context": "staging"})
    file = place.file(training())
    said = place.gpuctl("apply", "-f", file, code=3).err
    assert "which is none of the clusters that" in said
    assert "names: prod, staging" in said
    assert "  = choose one with --cluster, or add this one to `clusters` in that file" in said
    assert proxy.records == []
    platform = str(place.directory / "platform.yaml")
    place.gpuctl("pause", "train", "--platform", platform, code=3)
    assert proxy.records == []
    looked = place.gpuctl("get", "jobs", "--platform", platform)
    assert "note: the context" in looked.err
    assert "which is none of the clusters that" in looked.err


def test_a_cluster_that_the_platform_names_by_its_uid_needs_no_option(place: Place, uid: str) -> None:
    _named(place, other={"uid": OTHER}, here={"uid": uid})
    place.apply(training())
    _named(place, other={"uid": OTHER})
    said = place.gpuctl("apply", "-f", place.file(training("more")), code=3).err
    assert "which is none of the clusters that" in said
    assert not place.exists("Job", "more")


def test_the_context_is_chosen_by_the_cluster(place: Place, plane: ControlPlane, monkeypatch: Any) -> None:
    config = _config(plane)
    context = config["contexts"][0]
    away = {"name": "away", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}}
    config["clusters"].append(away)
    config["contexts"] = [
        {"name": "here", "context": context["context"]},
        {"name": "away", "context": {**context["context"], "cluster": "away"}},
    ]
    config["current-context"] = "away"
    path = place.directory / "two-contexts"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    _named(place, prod={"context": "here"}, dev={"context": "away"})
    file = place.file(training())
    place.gpuctl("apply", "-f", file, "--cluster", "prod")
    assert place.exists("Job", "train")
    said = place.gpuctl("apply", "-f", file, "--cluster", "prod", "--context", "away", code=2).err
    assert "--context away and --cluster prod contradict each other: the context of prod is here" in said


@pytest.mark.parametrize(
    ("clusters", "name", "says"),
    [
        ({"prod": {"uid": OTHER}, "staging": {"uid": OTHER}}, "prd", "did you mean `prod`? it names prod, staging"),
        ({"prod": {"uid": OTHER}, "staging": {"uid": OTHER}}, "zzzz", "there are prod, staging"),
        ({}, "prod", "names no clusters: write `clusters: {prod: {server: URL}}` there"),
    ],
)
def test_a_name_that_no_cluster_has(place: Place, clusters: dict[str, Any], name: str, says: str) -> None:
    _named(place, **clusters)
    assert says in place.gpuctl("apply", "-f", place.file(training()), "--cluster", name, code=2).err


def test_a_command_that_works_on_one_cluster_and_a_service_say_so(place: Place, uid: str) -> None:
    _named(place, prod={"uid": uid}, staging={"uid": OTHER})
    platform = ("--platform", str(place.directory / "platform.yaml"))
    said = place.gpuctl("get", "jobs", *platform, "--cluster", "prod", "--cluster", "staging", code=2).err
    assert "works on one cluster: give --cluster once, and call it for each" in said
    said = place.gpuctl("get", "jobs", "--cluster", "prod", "--server", "https://gpuctl.example.com", code=2).err
    assert "--server is a service of one cluster: leave --cluster out, and name the service of that one" in said
