"""``make sandbox``: a cluster to try gpuctl on, for a person who has none.

Kubernetes itself is real: API server, scheduler, controllers. Nodes are simulated: pods are scheduled and counted, but no
container runs. It stays in the foreground until Ctrl-C, which ends every process and removes every file.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple, NoReturn

from control_plane import BinariesMissing, ControlPlane, find_binaries
from control_plane.processes import Process
from control_plane.usage_demo import UsageSources, usage_demo
from control_plane.usage_year import GpuNode

ROOT = Path(__file__).resolve().parents[2]
PLATFORM, POOLS = (ROOT / "examples" / "tour" / name for name in ("platform.yaml", "pools.yaml"))
CONTEXT = "gpuctl-sandbox"
NAMESPACE, PULL_SECRET, QUEUE = "nlp", "registry-login", "research"
"""Namespace of the documents of ``examples/tour``, and the secret and the queue that their platform names."""


class Machine(NamedTuple):
    """A simulated node."""

    name: str
    model: str
    gpus: int
    cpu: str
    memory: str


MACHINES = (
    Machine("gpu-1", "A100-80G", 8, "128", "1Ti"),
    Machine("gpu-2", "A100-80G", 8, "128", "1Ti"),
    Machine("gpu-3", "L40S-48G", 8, "96", "768Gi"),
    Machine("gpu-4", "A10-24G", 4, "48", "192Gi"),
    Machine("cpu-1", "", 0, "64", "256Gi"),
)
"""The nodes: those of the pools in ``examples/tour``, one with GPUs in no pool, one without any."""
PORT = 8000
"""Port of the service, if it is free."""
QUOTA = {"cpu": "1000", "memory": "10Ti", "nvidia.com/gpu": 16}
"""The queue's quota in Kueue: the GPUs of the tour's training pool, and more of the rest than all jobs request."""


class Console(NamedTuple):
    """The address of the web console, and a token for it."""

    address: str
    token: str


class Failed(Exception):
    """The sandbox cannot run; the message says why, and what to do."""


def main() -> int:
    """Run a sandbox until it is stopped."""
    parser = argparse.ArgumentParser(prog="make sandbox", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where to live: a new or empty directory")
    parser.add_argument("--usage-days", type=int, default=365, metavar="N", help="days of GPU usage that are made up")
    parser.add_argument("--exit-when-ready", action="store_true", help="stop as soon as everything runs")
    arguments = parser.parse_args()
    # Closing the terminal or `kill` end it like Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        with _home(arguments.directory) as directory:
            run(directory, arguments.usage_days, exit_when_ready=arguments.exit_when_ready)
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            print("\nsandbox: stopped, everything is removed")
        return 130
    except (Failed, BinariesMissing, RuntimeError, subprocess.SubprocessError, OSError) as error:
        print(f"sandbox: {error}", file=sys.stderr)
        return 1
    return 0


def run(directory: Path, usage_days: int, *, exit_when_ready: bool) -> None:
    """Start everything in a directory, say what to try, and wait.

    :param usage_days: of GPU usage that are made up.
    """
    binaries = _binaries()
    print("sandbox: starting etcd, the API server, the scheduler, the controllers, Kueue, JobSet ...", flush=True)
    start = time.monotonic()
    with ControlPlane(
        binaries, directory=directory / "control-plane", events=True, execute=False, queues=True
    ) as plane:
        try:
            for machine in MACHINES:
                labels = {"nvidia.com/gpu.product": machine.model} if machine.gpus else {}
                plane.add_node(machine.name, labels=labels, gpus=machine.gpus, cpu=machine.cpu, memory=machine.memory)
            plane.wait_for_nodes()
            kubeconfig = _write_kubeconfig(plane, directory)
            tools = directory / "bin"
            tools.mkdir()
            (tools / "kubectl").symlink_to(binaries / "kubectl")
            _make_pools(plane, kubeconfig)
            _make_queue(plane)
            nodes = [GpuNode(machine.name, machine.model, machine.gpus) for machine in MACHINES if machine.gpus]
            with (
                usage_demo(plane, kubeconfig, CONTEXT, directory, nodes, usage_days) as usage,
                _served(kubeconfig, directory, usage) as console,
            ):
                seconds = time.monotonic() - start
                print(_welcome(seconds, usage_days, kubeconfig, tools, usage.database, console), flush=True)
                while not exit_when_ready:
                    time.sleep(0.5)
                    plane.check()
        finally:
            # A second Ctrl-C must not stop the cleaning up.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def _home(wanted: Path | None) -> Iterator[Path]:
    """Make a private directory; it is removed at the end.

    First, remove what a killed sandbox left in a default directory: its lock is free.
    """
    if wanted is not None:
        wanted = wanted.absolute()
        if wanted.exists() and (not wanted.is_dir() or any(wanted.iterdir())):
            raise Failed(f"{wanted} is not an empty directory; name another one")
    cache = Path(os.environ.get("GPUCTL_CACHE") or _cache_home() / "gpuctl")
    names = (cache / f"sandbox{'' if number == 1 else f'-{number}'}" for number in count(1))
    for directory in [wanted] if wanted else names:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Removed by its last owner between our open and our lock: not the one that others will find.
            if not directory.exists() or directory.stat().st_ino != os.fstat(lock).st_ino:
                os.close(lock)
                continue
        except BlockingIOError:
            os.close(lock)
            continue
        try:
            directory.chmod(0o700)
            for left in directory.iterdir():
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)
            os.close(lock)
        return
    raise Failed(f"another sandbox uses {wanted}; name another directory")


def _cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _binaries() -> Path:
    if shutil.which("openssl") is None:
        raise Failed("openssl is missing: it makes the key of the cluster's tokens; install it")
    try:
        return find_binaries(queues=True)
    except BinariesMissing:
        if shutil.which("go") is None:
            raise Failed("Kubernetes is built from source for this, once: install Go 1.26 or newer") from None
        print("sandbox: building Kubernetes, Kueue and JobSet, once; this takes some minutes ...", flush=True)
        return find_binaries(build=True, queues=True)


def _write_kubeconfig(plane: ControlPlane, directory: Path) -> Path:
    config = json.loads(plane.kubeconfig().read_text())
    config["clusters"][0]["name"] = config["contexts"][0]["name"] = config["current-context"] = CONTEXT
    config["contexts"][0]["context"]["cluster"] = CONTEXT
    path = directory / "kubeconfig"
    path.touch(0o600)
    path.write_text(json.dumps(config, indent=2) + "\n")
    return path


def _make_pools(plane: ControlPlane, kubeconfig: Path) -> None:
    """Put the nodes into the pools of the tour, and create the priorities, its namespace and its jobs' pull secret."""
    result = _gpuctl(kubeconfig, "apply", "--yes", "-f", str(PLATFORM), "-f", str(POOLS))
    if result.returncode:
        raise Failed(f"gpuctl apply -f {PLATFORM} -f {POOLS} failed:\n{result.stderr.strip()}")
    plane.kubectl("create", "namespace", NAMESPACE)
    login = ("--docker-server=registry.example.com", "--docker-username=sandbox", "--docker-password=none")
    plane.kubectl("create", "secret", "docker-registry", PULL_SECRET, "-n", NAMESPACE, *login)


def _make_queue(plane: ControlPlane) -> None:
    """Create the objects of a Kueue administrator: the GPUs of a pool as quota, and a queue for the team."""
    api = "kueue.x-k8s.io/v1beta2"
    resources = [{"name": name, "nominalQuota": amount} for name, amount in QUOTA.items()]
    group = {"coveredResources": list(QUOTA), "flavors": [{"name": "a100", "resources": resources}]}
    preemption = {"withinClusterQueue": "LowerPriority"}
    plane.create(
        {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": "a100"}},
        {
            "apiVersion": api,
            "kind": "ClusterQueue",
            "metadata": {"name": QUEUE},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group], "preemption": preemption},
        },
        {
            "apiVersion": api,
            "kind": "LocalQueue",
            "metadata": {"name": QUEUE, "namespace": NAMESPACE},
            "spec": {"clusterQueue": QUEUE},
        },
    )


def _gpuctl(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuctl", *arguments]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)


@contextlib.contextmanager
def _served(kubeconfig: Path, directory: Path, usage: UsageSources) -> Iterator[Console]:
    """Run the service, and yield the address of its console with the token of its administrator.

    :raises Failed: the service does not start.
    """
    with socket.socket() as trial:
        # A service of the user may run already.
        port = 0 if trial.connect_ex(("127.0.0.1", PORT)) == 0 else PORT
    settings = {
        "TOKENS": directory / "tokens.json",
        "PORT": port,
        "PLATFORM": PLATFORM,
        "USAGE_DATABASE": usage.database,
        **({"PROMETHEUS": usage.prometheus} if usage.prometheus else {}),
    }
    environment = [f"GPUCTL_SERVER_{name}={value}" for name, value in settings.items()]
    log = directory / "service.log"
    process = Process(
        ["env", f"KUBECONFIG={kubeconfig}", *environment, sys.executable, "-m", "gpuctl_server"], log, directory
    )
    try:
        while not (found := re.search(r"web console is at (\S+)", log.read_text())):
            if process.ended:
                raise Failed(f"the service does not start:\n{process.tail()}")
            time.sleep(0.1)
        yield Console(found[1], (directory / "admin-token").read_text().strip())
    finally:
        process.stop()


def _welcome(seconds: float, usage_days: int, kubeconfig: Path, tools: Path, database: Path, console: Console) -> str:
    gpus = sum(machine.gpus for machine in MACHINES)
    return f"""
Ready after {seconds:.1f} s: {len(MACHINES)} nodes with {gpus} GPUs; no container runs. Usage of {usage_days} days is being generated.
In another terminal, here:
  . .venv/bin/activate
  export KUBECONFIG={kubeconfig}
  export PATH={tools}:$PATH
  export GPUCTL_SERVER_USAGE_DATABASE={database}
  gpuctl apply -f examples/tour
  gpuctl get jobs -n {NAMESPACE}
  gpuctl why pretrain-1b
  gpuctl usage cluster
  kubectl annotate pods --all -n {NAMESPACE} gpuctl.test/outcome=oom
The same in a browser: {console.address}
The token for it: {console.token}
Ctrl-C here stops it and removes everything."""


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
