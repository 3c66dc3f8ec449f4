"""Two clusters, `prod` and `staging`, by contexts of one kubeconfig, each behind a proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, Upstream
from fault_tools.world import Api
from support.cluster_tools import Place

BOTH = ("--cluster", "prod", "--cluster", "staging")


class Pair(NamedTuple):
    """The first is that of the place, the second another control plane; ``first`` and ``proxy`` are before them."""

    here: Place
    there: Api
    first: Proxy
    proxy: Proxy

    @property
    def jobs_there(self) -> set[str]:
        """The jobs of the namespace on the second cluster."""
        return {item["metadata"]["name"] for item in self.there.list_objects("Job", self.here.namespace)}

    def until_running(self, *names: str) -> None:
        """Wait until a pod of each job runs on the second cluster."""

        def run() -> bool:
            pods = self.there.list_objects("Pod", self.here.namespace)
            running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
            return {pod["metadata"]["labels"]["app"] for pod in running} >= {*names}

        self.here.until(run, f"{names} to run")


def pairs(plane: ControlPlane, other: ControlPlane, place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """A pair for a test, with the same namespace on both, which is emptied afterwards."""
    there = Api(other)
    there.create_namespace(place.namespace)
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": "nowhere"}
    merged |= {"clusters": [], "users": [], "contexts": []}
    with ExitStack() as stack:
        proxies, clusters = [], {}
        for name, each, api in (("prod", plane, place.api), ("staging", other, there)):
            upstream = Upstream(each.port, each.directory / "certificates" / "apiserver.crt")
            stack.callback(upstream.close)
            proxies.append(stack.enter_context(Proxy(each, upstream)))
            config = json.loads(proxies[-1].kubeconfig(place.directory / name).read_text())
            for part in ("cluster", "user"):
                merged[f"{part}s"].append({"name": name, part: config[f"{part}s"][0][part]})
            context = {"cluster": name, "user": name, "namespace": place.namespace}
            merged["contexts"].append({"name": name, "context": context})
            uid = str(api.call("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"])
            clusters[name] = {"context": name, "uid": uid}
        assert clusters["prod"]["uid"] != clusters["staging"]["uid"]
        path = place.directory / "both"
        path.write_text(json.dumps(merged))
        monkeypatch.setenv("KUBECONFIG", str(path))
        place.platform(f"clusters: {json.dumps(clusters)}")
        yield Pair(place, there, *proxies)
    there.clear(place.namespace)
