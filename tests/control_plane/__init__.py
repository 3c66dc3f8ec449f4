"""A real Kubernetes control plane for tests: etcd, API server, controller manager, scheduler; kwok plays the kubelets.

    with ControlPlane(find_binaries()) as plane:
        plane.add_node("gpu-1", labels={"runwhere.ai/pool": "training-pool"}, gpus=8)
        plane.kubectl("apply", "-f", "-", input=manifests)

Everything listens on free loopback ports, lives in a temporary directory, and is ended by process id.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from control_plane.processes import Process, free_ports

STAGES = Path(__file__).resolve().parents[1] / "control-plane" / "stages.yaml"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
# user -> groups; what they may do is bound in _bind_users.
USERS: dict[str, str] = {"admin": "system:masters", "alice": "", "reader": "", "controller": "system:masters"}


class BinariesMissing(Exception):
    """The control plane's programs are not built; the message says how to get them."""


def find_binaries(build: bool = False) -> Path:
    """The directory with the programs, built first if ``build``; raises :class:`BinariesMissing`."""
    script = STAGES.parent / "build"
    arguments = [str(script), *PROGRAMS] if build else [str(script), "--only-find", *PROGRAMS]
    result = subprocess.run(arguments, capture_output=not build, stdout=subprocess.PIPE if build else None, text=True)
    if result.returncode:
        raise BinariesMissing("the Kubernetes control plane is not built: run `make control-plane`")
    return Path(result.stdout.strip())


class ControlPlane:
    """A running control plane. ``start`` takes about 5 s."""

    def __init__(self, binaries: Path) -> None:
        self.binaries = binaries
        self.directory = Path(tempfile.mkdtemp(prefix="gpuctl-control-plane-"))
        self.processes: dict[str, Process] = {}
        self.tokens = {user: secrets.token_hex(16) for user in USERS}
        self.etcd_port, self.peer_port, self.port, self.kubelet_port = free_ports(4)

    def __enter__(self) -> ControlPlane:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and wait until the API server answers and the users exist."""
        self._write_credentials()
        self._start_etcd()
        self.start_api_server()
        for user in USERS:
            self._write_kubeconfig(user)
        config = f"--kubeconfig={self.kubeconfig('controller')}"
        common = (config, "--leader-elect=false", "--secure-port=0")
        self._start("kube-controller-manager", *common, "--concurrent-job-syncs=10")
        self._start("kube-scheduler", *common)
        self._start(
            "kwok",
            config,
            f"--config={STAGES}",
            "--manage-all-nodes",
            "--node-ip=127.0.0.1",
            f"--node-port={self.kubelet_port}",
            f"--server-address=127.0.0.1:{self.kubelet_port}",
        )
        self._bind_users()

    def stop(self) -> None:
        """End every process and remove the directory."""
        for process in reversed(self.processes.values()):
            process.stop()
        self.processes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start_api_server(self) -> None:
        """Start the API server alone (again), and wait until it is ready."""
        keys = self.directory / "service-account.key"
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.directory / 'certificates'}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys}",
            f"--service-account-signing-key-file={keys}",
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--allow-privileged=true",
        )
        if not (self.directory / "admin.kubeconfig").exists():
            self._wait(
                lambda: (self.directory / "certificates" / "apiserver.crt").exists(), "the API server's certificate"
            )
            self._write_kubeconfig("admin")
        self._wait(self._ready, "the API server")

    def stop_api_server(self, *, kill: bool = False) -> None:
        """End the API server alone."""
        self.processes.pop("kube-apiserver").stop(kill=kill)

    def kubeconfig(self, user: str = "admin") -> Path:
        """A user's kubeconfig."""
        return self.directory / f"{user}.kubeconfig"

    def kubectl(self, *arguments: str, user: str = "admin", input: str | None = None, check: bool = True) -> str:
        """Run kubectl as a user and return what it printed; with ``check`` a failure raises with its message."""
        command = [str(self.binaries / "kubectl"), f"--kubeconfig={self.kubeconfig(user)}", *arguments]
        result = subprocess.run(command, input=input, capture_output=True, text=True)
        if check and result.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {result.stderr.strip()[:2000]}")
        return result.stdout or result.stderr if result.returncode == 0 else result.stdout + result.stderr

    def get(self, *arguments: str) -> Any:
        """``kubectl get ... -o json``, decoded."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def dry_run(self, manifests: str) -> list[str]:
        """What the API server's strict validation says about manifests; empty when it takes them all.

        Namespaces that the manifests need must exist.
        """
        output = self.kubectl(
            "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", input=manifests, check=False
        )
        return [line for line in output.splitlines() if not line.endswith("serverside-applied (server dry run)")]

    def install_jobset(self) -> None:
        """JobSet's CRD (no controller), so that the API server knows the kind."""
        self.kubectl("create", "-f", str(self.binaries / "jobset-crd.yaml"))
        self._wait(lambda: "No resources" in self.kubectl("get", "jobsets", check=False), "JobSet's CRD")
        self._wait(lambda: "jobset" in self.kubectl("get", "--raw", "/openapi/v3", check=False), "JobSet's schema")

    def add_node(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        gpus: int = 0,
        gpu_resource: str = "nvidia.com/gpu",
        cpu: str = "64",
        memory: str = "512Gi",
        taints: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """A node that kwok runs: pods are really bound to it and their status is simulated."""
        capacity = {"cpu": cpu, "memory": memory, "pods": "110"}
        if gpus:
            capacity[gpu_resource] = str(gpus)
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "spec": {"taints": list(taints)},
        }
        self.kubectl("create", "-f", "-", input=json.dumps(node))
        status = {"status": {"capacity": capacity, "allocatable": capacity}}
        self.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", json.dumps(status))

    def wait_for(self, condition: Callable[[], Any], what: str, timeout: float = 60) -> Any:
        """Wait until ``condition`` returns something true, and return it."""
        return self._wait(condition, what, timeout)

    def _start(self, program: str, *arguments: str) -> None:
        log = self.directory / f"{program}.log"
        self.processes[program] = Process([str(self.binaries / program), *arguments], log, self.directory)

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.peer_port}"
        self._start(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=error",
        )

    def _write_credentials(self) -> None:
        lines = [f'{self.tokens[user]},{user},{user},"{groups}"' for user, groups in USERS.items()]
        tokens = self.directory / "tokens.csv"
        tokens.touch(0o600)
        tokens.write_text("\n".join(lines) + "\n")
        key = self.directory / "service-account.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)

    def _write_kubeconfig(self, user: str) -> None:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": f"https://127.0.0.1:{self.port}",
                        "certificate-authority": str(self.directory / "certificates" / "apiserver.crt"),
                    },
                }
            ],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        path = self.kubeconfig(user)
        path.touch(0o600)
        path.write_text(json.dumps(config))

    def _bind_users(self) -> None:
        """alice may edit one namespace; reader may view all."""
        self.kubectl("create", "namespace", "team-a")
        self.kubectl("create", "rolebinding", "alice", "--clusterrole=edit", "--user=alice", "-n", "team-a")
        self.kubectl("create", "clusterrolebinding", "reader", "--clusterrole=view", "--user=reader")

    def _ready(self) -> bool:
        return self.kubectl("get", "--raw", "/readyz", check=False).strip() == "ok"

    def _wait(self, condition: Callable[[], Any], what: str, timeout: float = 60) -> Any:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for name, process in self.processes.items():
                if process.ended:
                    raise RuntimeError(f"{name} ended while waiting for {what}:\n{process.tail()}")
            result = condition()
            if result:
                return result
            time.sleep(0.1)
        raise TimeoutError(f"waited {timeout:.0f} s for {what}")
