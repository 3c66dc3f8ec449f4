"""A real Kubernetes control plane for tests: etcd, API server, controller manager, scheduler; kwok plays the kubelets.

    with ControlPlane(find_binaries()) as plane:
        plane.add_node("gpu-1", labels={"runwhere.ai/pool": "training-pool"}, gpus=8)
        plane.kubectl("apply", "-f", "-", input=manifests)

What becomes of a pod is chosen by its annotations, see :mod:`control_plane.outcomes`. Everything listens on free
loopback ports, lives in one directory, and is ended by process id.
"""

from __future__ import annotations

import base64
import http.client
import json
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import yaml

from control_plane import job_controllers
from control_plane.audit_log import AuditLog
from control_plane.kubelet import Kubelet, LogKey
from control_plane.processes import Process, free_ports
from control_plane.requests import Requests
from control_plane.stages import stages
from control_plane.streams import Streams
from control_plane.users import USERS, Rule, grants, namespaces_and_roles

BUILD = Path(__file__).resolve().parents[1] / "binaries" / "build"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
# Kinds that the API server knows without their controllers, too.
_MANIFESTS = ("jobset-manifests", "lws-manifests")
_JOB_KINDS = (
    ("jobset-manifests", "jobset.x-k8s.io", "v1alpha2", "jobsets"),
    ("lws-manifests", "leaderworkerset.x-k8s.io", "v1", "leaderworkersets"),
)
_QUEUES = (*job_controllers.PROGRAMS, "kueue-manifests")


class BinariesMissing(Exception):
    """The control plane's programs are not built; the message says how to get them."""


def find_binaries(build: bool = False, *, queues: bool = False) -> Path:
    """The directory with the programs, built first if ``build``; raises :class:`BinariesMissing`.

    :param queues: those of Kueue, JobSet and LeaderWorkerSet, too.
    """
    wanted = (*PROGRAMS, *_MANIFESTS, *(_QUEUES if queues else ()))
    arguments = [str(BUILD), *wanted] if build else [str(BUILD), "--only-find", *wanted]
    result = subprocess.run(arguments, capture_output=not build, stdout=subprocess.PIPE if build else None, text=True)
    if result.returncode:
        what = "control plane, with Kueue, JobSet and LeaderWorkerSet," if queues else "control plane"
        raise BinariesMissing(f"the Kubernetes {what} is not built: run `make control-plane`")
    return Path(result.stdout.strip())


class ProgramEnded(RuntimeError):
    """A program of the control plane has ended by itself."""


_NODE_LABELS = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
_KWOK = "kwok.x-k8s.io/v1alpha1"
_NAMES = "IP:127.0.0.1,IP:10.0.0.1,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
"""The names in the API server's certificate; `localhost` is not used."""
_EXECUTE = {
    "apiVersion": _KWOK,
    "kind": "ClusterExec",
    "metadata": {"name": "here"},
    "spec": {"execs": [{"local": {"workDir": "/"}}]},
}
# Any port of any pod answers HTTP.
_PAGE = "HTTP/1.1 200 OK\\r\\nContent-Length: 16\\r\\n\\r\\na simulated pod\\n"
_PORT_FORWARD = {
    "apiVersion": _KWOK,
    "kind": "ClusterPortForward",
    "metadata": {"name": "page"},
    "spec": {"forwards": [{"command": ["sh", "-c", f"read -r request; printf '{_PAGE}'"]}]},
}


def _node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    gpus: int = 0,
    gpu_resource: str = "nvidia.com/gpu",
    cpu: str = "64",
    memory: str = "512Gi",
    taints: Sequence[Mapping[str, str]] = (),
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    capacity = {"cpu": cpu, "memory": memory, "pods": "110"}
    if gpus:
        capacity[gpu_resource] = str(gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**_NODE_LABELS, "kubernetes.io/hostname": name, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": {"taints": list(taints)},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


class ControlPlane:
    """A running control plane. ``start`` takes about 4 s on two cores.

    ``directory`` holds all its files, by default a temporary one; it is removed at the end. With ``events`` a starting
    pod has the events that kubelet writes. With ``execute``, ``kubectl exec`` runs commands on this machine. With
    ``queues`` Kueue, JobSet and LeaderWorkerSet run, which takes 5 s more. With ``audit`` the API server logs the requests of service
    accounts, see :mod:`control_plane.audit_log`.
    """

    def __init__(
        self,
        binaries: Path,
        *,
        directory: Path | None = None,
        events: bool = False,
        execute: bool = True,
        queues: bool = False,
        audit: bool = False,
    ) -> None:
        self.binaries = binaries
        self.directory = directory or Path(tempfile.mkdtemp(prefix="gpuctl-control-plane-"))
        self.events = events
        self.execute = execute
        self.queues = queues
        self.audit = AuditLog(self.directory) if audit else None
        self.processes: dict[str, Process] = {}
        self.tokens = {user: secrets.token_hex(16) for user in USERS}
        ports = free_ports(6)
        self.etcd_port, self.peer_port, self.port, self.kubelet_port, self.kwok_port, self.scheduler_port = ports
        self._commands: dict[str, list[str]] = {}
        self._kubelet: Kubelet | None = None
        self._streams: Streams | None = None
        self._controllers: list[job_controllers.Controller] = []

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
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write_credentials()
        self._start_etcd()
        self.start_api_server()
        for user in USERS:
            self._write_kubeconfig(user)
        config = f"--kubeconfig={self.kubeconfig('controller')}"
        if self.queues:
            self._install_queues()
        # Tests and benchmarks make and delete hundreds of objects; the defaults are 20 and 50 requests a second.
        fast = ("--kube-api-qps=500", "--kube-api-burst=1000")
        common = (config, "--leader-elect=false", "--secure-port=0", *fast)
        syncs = [f"--concurrent-{name}-syncs=20" for name in ("job", "deployment", "statefulset", "gc", "namespace")]
        # On a machine that is busy, or was asleep, heartbeats are late: pods would then be called not ready, and
        # simulated kubelets do not take that back. A node that a test wants not ready says so itself.
        patient = "--node-monitor-grace-period=10h"
        # Endpoints are not read here: every change of a pod would write them beside its EndpointSlice.
        unused = "--controllers=*,-endpoints-controller,-endpointslice-mirroring-controller"
        # 15 s between two looks of an autoscaler are most of a test.
        quick = "--horizontal-pod-autoscaler-sync-period=2s"
        self._start("kube-controller-manager", *common, *syncs, patient, quick, unused)
        self._start("kube-scheduler", *common)
        self._start_kubelets(config)
        self._bind_users()
        if self.queues:
            self._start_webhooks()

    def stop(self) -> None:
        """End every process and remove the directory."""
        if self._kubelet:
            self._kubelet.stop()
            self._kubelet = self._streams = None
        for process in reversed(self.processes.values()):
            # Nothing is kept: there is nothing to end in order, and the API server would wait for its watches.
            process.stop(kill=True)
        self.processes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)

    def stop_program(self, name: str, *, kill: bool = False) -> None:
        """End one program: nothing is scheduled, or no controller acts, or the API server is gone."""
        self.processes.pop(name).stop(kill=kill)

    def start_program(self, name: str) -> None:
        """Start a program again that was ended."""
        if name == "kube-apiserver":
            self.start_api_server()
        else:
            self._start(name, *self._commands[name])

    def pause(self, name: str) -> None:
        """Let a program stand still: it answers nothing, as if the network were cut."""
        self.processes[name].pause()

    def resume(self, name: str) -> None:
        """Let a program continue."""
        self.processes[name].resume()

    def restart_api_server(self, *, kill: bool = False) -> None:
        """End the API server and start it again, on the same port and with the same data."""
        self.stop_api_server(kill=kill)
        self.start_api_server()

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
            f"--client-ca-file={self.directory / 'clients.crt'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys}",
            f"--service-account-signing-key-file={keys}",
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--allow-privileged=true",
            # It queues requests of many users fairly, and costs a tenth of the processor time of each.
            "--enable-priority-and-fairness=false",
            *(self.audit.flags() if self.audit else ()),
        )
        self._wait(self.requests.is_ready, "the API server")

    def stop_api_server(self, *, kill: bool = False) -> None:
        """End the API server alone."""
        self.stop_program("kube-apiserver", kill=kill)

    def restart_controllers(self) -> None:
        """Start all clients of the API server anew: it was away, and they would try again up to half a minute later."""
        for name in ("kube-controller-manager", "kube-scheduler", "kwok"):
            self.stop_program(name, kill=True)
            self.start_program(name)

    def kubeconfig(self, user: str = "admin") -> Path:
        """A user's kubeconfig."""
        return self.directory / f"{user}.kubeconfig"

    def kubectl(self, *arguments: str, user: str = "admin", input: str | None = None, check: bool = True) -> str:
        """Run kubectl as a user and return what it printed; with ``check`` a failure raises with its message."""
        options = (f"--kubeconfig={self.kubeconfig(user)}", f"--cache-dir={self.directory / 'kubectl-cache'}")
        command = [str(self.binaries / "kubectl"), *options, *arguments]
        result = subprocess.run(command, input=input, capture_output=True, text=True)
        if check and result.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {result.stderr.strip()[:2000]}")
        return result.stdout or result.stderr if result.returncode == 0 else result.stdout + result.stderr

    def get(self, *arguments: str) -> Any:
        """``kubectl get ... -o json``, decoded."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def dry_run(self, manifests: str) -> list[str]:
        """Return the errors of the API server's strict validation of manifests; empty without any.

        Namespaces that the manifests need must exist.
        """
        objects = [obj for obj in yaml.load_all(manifests, yaml.CSafeLoader) if obj is not None]
        answers = [(obj, *self.requests.try_out(obj)) for obj in objects]
        return [
            f"{obj['kind']} {obj['metadata']['name']}: {status} {value.get('message')}"
            for obj, status, value in answers
            if status >= http.client.MULTIPLE_CHOICES
        ]

    def install_job_kinds(self, *others: tuple[dict[str, Any], str]) -> None:
        """Create the CRDs of JobSet and LeaderWorkerSet (no controllers), so that the API server knows the kinds, and
        those of :meth:`install_definitions`.
        """
        manifests = (
            (self.binaries / directory / f"{group}_{plural}.yaml", version)
            for directory, group, version, plural in _JOB_KINDS
        )
        own = ((yaml.load(path.read_bytes(), yaml.CSafeLoader), version) for path, version in manifests)
        self.install_definitions(*own, *others)

    def install_definitions(self, *definitions: tuple[dict[str, Any], str]) -> None:
        """Install CustomResourceDefinitions, such as HTTPRoute's, and wait until a version of each is served.

        The API server computes the schema of all its kinds once for all definitions that are created together.
        """
        there = self._schemas()
        paths = [f"apis/{item['spec']['group']}/{version}" for item, version in definitions]
        new = [(path, item) for path, (item, _) in zip(paths, definitions, strict=True) if path not in there]
        self.create(*(item for _, item in new))
        for path, item in new:
            plural = item["spec"]["names"]["plural"]
            self._wait(partial(self._serves, f"/{path}/{plural}"), plural)
        self._wait(lambda: self._schemas().issuperset(paths), f"the schemas of {', '.join(paths)}")

    def _serves(self, path: str) -> bool:
        return bool(self.requests.request("GET", path)[0] == http.client.OK)

    def _schemas(self) -> set[str]:
        """Return the groups and versions whose schemas the API server has."""
        return set(self.requests.call("GET", "/openapi/v3")["paths"])

    def grant(self, user: str, namespace: str | None, rules: Sequence[Rule] | str) -> str:
        """Allow a user more, in a namespace or everywhere: rules of RBAC, or the name of a ClusterRole.

        The name of the binding, and of the role of these rules: what is allowed everywhere outlives a test.
        """
        objects = grants(user, namespace, rules)
        self.create(*objects)
        return str(objects[-1]["metadata"]["name"])

    def may(self, user: str, verb: str, resource: str, namespace: str = "") -> bool:
        """Return True if the API server allows a user to do something with a resource such as ``jobs.batch``."""
        name, _, group = resource.partition(".")
        plural, _, part = name.partition("/")
        asked = {"verb": verb, "group": group, "resource": plural, "subresource": part, "namespace": namespace}
        groups = USERS[user].groups.split(",") if user in USERS and USERS[user].groups else []
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": [*groups, "system:authenticated"], "resourceAttributes": asked},
        }
        answer = self.requests.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    def create(self, *objects: Mapping[str, Any]) -> None:
        """Create objects, in this order."""
        for obj in objects:
            self.requests.submit(obj)

    @cached_property
    def requests(self) -> Requests:
        """Requests as the admin."""
        return Requests(self.port, self.tokens["admin"], self.directory / "certificates" / "apiserver.crt")

    def write_log(
        self, namespace: str, pod: str, text: str | bytes, *, container: str = "", previous: bool = False
    ) -> None:
        """Append lines to the log of a pod's containers, or of one; ``previous`` is of the run before a restart.

        A container nothing was written for says that it is simulated, then counts its seconds.
        """
        if self._kubelet is None:
            raise RuntimeError("the control plane does not run")
        self._kubelet.logs.write(LogKey(namespace, pod, container, previous), text)

    def start_streams(self) -> Streams:
        """Let exec run commands with their exit codes, and ports of pods be what the result connects them to.

        Until then kwok does both: any port answers HTTP, and a command's exit code and the end of its input are lost.
        """
        if self._kubelet is None:
            raise RuntimeError("the control plane does not run")
        if self._streams is None:
            self._streams = Streams(self.binaries, self.directory)
            self.processes["streams"] = self._streams.process
            self._kubelet.streams_port = self._streams.port
            self._wait(self._streams.listens, "the streams")
        return self._streams

    def annotate(self, namespace: str, pod: str, **annotations: str | None) -> None:
        """Set ``gpuctl.test/...`` annotations of a pod that runs: ``outcome="evicted"``; None removes one.

        In a name ``_`` stands for ``-``.
        """
        values = {f"gpuctl.test/{name.replace('_', '-')}": value for name, value in annotations.items()}
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}?fieldManager=kubectl-patch"
        self.requests.call("PATCH", path, {"metadata": {"annotations": values}})

    def add_node(self, name: str, **node: Any) -> None:
        """A node that kwok runs: pods are really bound to it and their status is simulated. ``node``: see :func:`_node`."""
        self.add_nodes({name: node})

    def add_nodes(self, nodes: Mapping[str, Mapping[str, Any]]) -> None:
        """Several nodes at once: name -> arguments."""
        self.create(*(_node(name, **node) for name, node in nodes.items()))

    def wait_for_nodes(self) -> None:
        """Wait until every node is ready and without the taint that it has until then."""

        def ready() -> bool:
            nodes = self.requests.call("GET", "/api/v1/nodes")["items"]
            return not any(
                taint["key"] == "node.kubernetes.io/not-ready"
                for node in nodes
                for taint in node["spec"].get("taints", [])
            )

        self._wait(ready, "the nodes")

    def wait_for_queues(self) -> None:
        """Wait until Kueue, JobSet and LeaderWorkerSet run and the API server asks their webhooks, which it knows after a moment."""
        for controller in self._controllers:
            self._wait(controller.is_ready, f"the controller of {controller.name}")

        def adds(obj: Mapping[str, Any], fields: Iterable[str]) -> bool:
            try:
                return self.requests.submit(obj, dry_run=True)["spec"].keys() >= set(fields)
            except RuntimeError:
                return False

        for obj, fields in job_controllers.trials() if self._controllers else ():
            self._wait(partial(adds, obj, fields), f"the webhooks of {obj['kind']}")

    def wait_for(self, condition: Callable[[], Any], what: str, timeout: float = 120) -> Any:
        """Wait until ``condition`` returns something true, and return it."""
        return self._wait(condition, what, timeout)

    def check(self) -> None:
        """Raise an error with the last lines of its log when a program has ended by itself."""
        for name, process in self.processes.items():
            if process.ended:
                raise ProgramEnded(f"{name} has ended; its last lines:\n{process.tail()}")

    def _start(self, program: str, *arguments: str) -> None:
        log = self.directory / f"{program}.log"
        self._commands[program] = list(arguments)
        command = [str(self.binaries / program), *arguments]
        self.processes[program] = Process(command, log, self.directory, parallel=program == "kube-apiserver")

    def _install_queues(self) -> None:
        """Create the kinds of Kueue, JobSet and LeaderWorkerSet before any controller reads the kinds; then start theirs."""
        self._controllers = job_controllers.prepare(self.binaries, self.directory)
        kinds = [kind for controller in self._controllers for kind in controller.kinds()]
        self.create(*kinds)
        names = [kind["metadata"]["name"] for kind in kinds]
        self._wait(lambda: all(map(self._is_established, names)), "the kinds of the controllers")
        for controller in self._controllers:
            self.create(*controller.objects())
            self._start(controller.name, *controller.arguments(self.kubeconfig("controller")))

    def kueue_metrics(self) -> str:
        """Kueue's metrics, as Prometheus reads them."""
        kueue = next(item for item in self._controllers if item.name == "kueue")
        authority = self.directory / job_controllers.CERTIFICATES / "tls.crt"
        status, answer = Requests(kueue.metrics, self.tokens["admin"], authority).request("GET", "/metrics")
        assert status == 200, answer
        return str(answer["message"])

    def _is_established(self, name: str) -> bool:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        conditions = (self.requests.call("GET", path).get("status") or {}).get("conditions") or []
        return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)

    def _start_webhooks(self) -> None:
        for controller in self._controllers:
            self._wait(controller.is_ready, f"the controller of {controller.name}")
            self.create(*controller.webhooks())
        self.wait_for_queues()

    def _start_kubelets(self, config: str) -> None:
        documents: list[dict[str, Any]] = [*stages(events=self.events), _PORT_FORWARD]
        if self.execute:
            documents.append(_EXECUTE)
        path = self.directory / "kwok.yaml"
        path.write_text("\n---\n".join(json.dumps(document) for document in documents))
        self._kubelet = Kubelet(
            self.kubelet_port,
            self.directory / "certificates",
            f"https://127.0.0.1:{self.port}",
            self.tokens["controller"],
            self.kwok_port,
        )
        self._start(
            "kwok",
            config,
            f"--config={path}",
            "--manage-all-nodes",
            "--node-ip=127.0.0.1",
            f"--node-port={self.kubelet_port}",
            f"--server-address=127.0.0.1:{self.kwok_port}",
            "--cidr=10.128.0.0/16",
            "--v=WARN",
        )

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
        lines = [f'{self.tokens[name]},{name},{name},"{user.groups}"' for name, user in USERS.items()]
        tokens = self.directory / "tokens.csv"
        tokens.touch(0o600)
        tokens.write_text("\n".join(lines) + "\n")
        self._openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", "service-account.key")
        self._openssl("req", "-x509", "-subj", "/CN=clients", "-days", "1", "-out", "clients.crt", key="clients.key")
        # The API server would make itself keys of RSA, and sign with one at each connection.
        (self.directory / "certificates").mkdir(exist_ok=True)
        names = ["-subj", "/CN=127.0.0.1", "-addext", f"subjectAltName={_NAMES}", "-days", "365"]
        out = "certificates/apiserver.crt"
        self._openssl("req", "-x509", *names, "-out", out, key="certificates/apiserver.key")

    def client_certificate(self, user: str, group: str) -> tuple[str, str]:
        """A certificate for a user in a group that the API server accepts, and its key, as PEM."""
        self._openssl("req", "-subj", f"/O={group}/CN={user}", "-out", "client.csr", key="client.key")
        signing = ["-in", "client.csr", "-CA", "clients.crt", "-CAkey", "clients.key", "-CAcreateserial", "-days", "1"]
        self._openssl("x509", "-req", *signing, "-out", "client.crt")
        return (self.directory / "client.crt").read_text(), (self.directory / "client.key").read_text()

    def _openssl(self, command: str, *options: str, key: str | None = None) -> None:
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key] if key else []
        subprocess.run(["openssl", command, *options, *new], check=True, capture_output=True, cwd=self.directory)

    def _write_kubeconfig(self, user: str) -> None:
        certificate = (self.directory / "certificates" / "apiserver.crt").read_bytes()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": f"https://127.0.0.1:{self.port}",
                        "certificate-authority-data": base64.b64encode(certificate).decode(),
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
        self.create(*namespaces_and_roles())
        # A controller fills in the rules of these roles, the second's with those of the first. Until then their users
        # have no rights.
        self._wait(self._have_rules, "the rules of roles")

    def _have_rules(self) -> bool:
        path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        view, edit = (self.requests.call("GET", f"{path}/{name}").get("rules") or [] for name in ("view", "edit"))
        return bool(view) and all(rule in edit for rule in view)

    def _wait(self, condition: Callable[[], Any], what: str, timeout: float = 120) -> Any:
        deadline = time.monotonic() + timeout
        pause = 0.05
        while time.monotonic() < deadline:
            self.check()
            result = condition()
            if result:
                return result
            time.sleep(pause)
            # What takes long takes long because there is much to do: asked ten times a second, it took longer.
            pause = min(pause * 1.3, 0.4)
        raise TimeoutError(f"waited {timeout:.0f} s for {what}")
