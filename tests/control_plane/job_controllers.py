"""The controllers of Kueue, JobSet and LeaderWorkerSet on a control plane: their kinds, webhooks and programs.

They run as they do in a cluster but for where they are found: the API server calls their webhooks by URL, and the
manifests are those of their releases, from which only what cannot be here is left out.
"""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from control_plane.processes import free_ports
from control_plane.releases import releases

PROGRAMS = ("jobset", "kueue", "lws")
CERTIFICATES = "webhook-certificates"
"""Directory of the certificate, in the control plane's directory: Kueue expects that of its metrics there, too."""
_RATE = {"qps": 500, "burst": 1000}
# What is admitted here: those of the release's manifests whose kinds there are.
_FRAMEWORKS = ("batch/job", "jobset.x-k8s.io/jobset", "pod", "deployment", "statefulset")
# Kinds with two served versions that are stored in one: config/components/crd/kustomization.yaml of the release.
_CONVERTED = frozenset({"clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads"})
_GROUPS = frozenset({"", "apps", "batch", "jobset.x-k8s.io", "kueue.x-k8s.io", "leaderworkerset.x-k8s.io"})


@dataclass(frozen=True)
class Controller:
    """One of the programs: ``port`` is that of its webhooks, ``health`` of its probes, ``metrics`` of Kueue's."""

    name: str
    manifests: Path
    directory: Path
    port: int
    health: int
    metrics: int

    def arguments(self, kubeconfig: Path) -> tuple[str, ...]:
        """Return the controller's arguments, and write its configuration."""
        path = self.directory / f"{self.name}.json"
        path.write_text(json.dumps(self._configuration()))
        return (f"--kubeconfig={kubeconfig}", f"--config={path}")

    def _configuration(self) -> dict[str, Any]:
        health = f"127.0.0.1:{self.health}"
        common = {
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": health},
            "metrics": {"bindAddress": f"127.0.0.1:{self.metrics}"},
            "webhook": {"host": "127.0.0.1", "port": self.port, "certDir": str(self.directory / CERTIFICATES)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "clientConnection": _RATE,
        }
        if self.name == "jobset":
            metrics = {"bindAddress": "0", "certDir": str(self.directory / CERTIFICATES)}
            return {"apiVersion": "config.jobset.x-k8s.io/v1alpha1", **common, "metrics": metrics}
        if self.name == "lws":
            return {"apiVersion": "config.lws.x-k8s.io/v1alpha1", **common, "metrics": {"bindAddress": "0"}}
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            **common,
            "integrations": {"frameworks": list(_FRAMEWORKS)},
            # An API server of its own, which would have to be found under a Service.
            "featureGates": {"VisibilityOnDemand": False},
            # Claimed GPUs count like those of device plugins.
            "resources": {"deviceClassMappings": [{"name": "nvidia.com/gpu", "deviceClassNames": ["gpu.nvidia.com"]}]},
        }

    def objects(self) -> Iterator[dict[str, Any]]:
        """Return the objects that hold its configuration in the release's chart, for readers: the controller uses a
        file.
        """
        if self.name == "kueue":
            data = {"controller_manager_config.yaml": json.dumps(self._configuration())}
            labels = {"app.kubernetes.io/version": f"v{releases()['kueue']}"}
            metadata = {"name": "kueue-manager-config", "namespace": "kueue-system", "labels": labels}
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
            yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    def is_ready(self) -> bool:
        """Return True if its webhooks answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/readyz", timeout=1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def kinds(self) -> Iterator[dict[str, Any]]:
        """Its CustomResourceDefinitions."""
        for path in sorted(self.manifests.glob("*.x-k8s.io_*.yaml")):
            for item in _documents(path):
                if item["spec"]["names"]["plural"] in _CONVERTED:
                    webhook = {"clientConfig": self._client("/convert"), "conversionReviewVersions": ["v1"]}
                    item["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
                yield item

    def webhooks(self) -> Iterator[dict[str, Any]]:
        """Its webhook configurations, for the kinds that there are."""
        for item in _documents(self.manifests / "manifests.yaml"):
            hooks = [hook for hook in item["webhooks"] if self._is_wanted(hook)]
            for hook in hooks:
                hook["clientConfig"] = self._client(hook["clientConfig"]["service"]["path"])
            yield {**item, "metadata": {"name": f"{self.name}-{item['metadata']['name']}"}, "webhooks": hooks}

    def _is_wanted(self, hook: Mapping[str, Any]) -> bool:
        return {group for rule in hook["rules"] for group in rule["apiGroups"]} <= _GROUPS

    def _client(self, path: str) -> dict[str, str]:
        certificate = (self.directory / CERTIFICATES / "ca.pem.base64").read_text()
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": certificate}


def prepare(binaries: Path, directory: Path) -> list[Controller]:
    """Choose ports, and make the certificate of all servers: only the control plane trusts it."""
    certificates = directory / CERTIFICATES
    certificates.mkdir(mode=0o700)
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "tls.key", "-out", "tls.crt"]
    names = ["-subj", "/CN=webhooks", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]
    subprocess.run(["openssl", "req", "-x509", *names, *new], check=True, capture_output=True, cwd=certificates)
    command = ["openssl", "base64", "-A", "-in", "tls.crt", "-out", "ca.pem.base64"]
    subprocess.run(command, check=True, capture_output=True, cwd=certificates)
    ports = iter(free_ports(3 * len(PROGRAMS)))
    return [
        Controller(name, binaries / f"{name}-manifests", directory, next(ports), next(ports), next(ports))
        for name in PROGRAMS
    ]


def trials() -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Return temporary objects, and the fields that the webhooks add to them."""
    metadata = {"name": "trial", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "trial"}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
    job = {"template": {"spec": pod}}
    jobs = {"replicatedJobs": [{"name": "trial", "template": {"spec": job}}]}
    yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job}, ("suspend",)
    jobset = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": jobs}
    yield jobset, ("suspend", "successPolicy")
    groups = {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": pod["containers"]}}}}
    metadata = {"name": "trial", "namespace": "default"}
    kind = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    yield {**kind, "metadata": metadata, "spec": groups}, ("networkConfig",)


def _documents(path: Path) -> list[dict[str, Any]]:
    # CustomResourceDefinitions are large: the loader in C takes a tenth of the time.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [item for item in yaml.load_all(path.read_text(), Loader=loader) if item]
