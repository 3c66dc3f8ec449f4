"""The place of a disturbed command: a namespace, its own proxy in front of the API server, and the file that is
applied.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from control_plane import ControlPlane
from fault_tools.proxy import Policy, Proxy, Request, Upstream
from fault_tools.recordings import Recording, Recordings, recording
from fault_tools.world import Api, Snapshot, foreign_objects
from fault_tools.zygote import Result, Running, Zygote

TIMEOUT = 120.0
_NUMBERS = count()
JOBS = frozenset({"train", "serve", "note"})

Victim = Callable[[], Running]
"""The command that runs, for a policy that is made before it starts."""


@dataclass(frozen=True)
class Base:
    """The parts that all sites of a session share."""

    plane: ControlPlane
    upstream: Upstream
    zygote: Zygote
    api: Api
    jobs: frozenset[str] = JOBS
    """The jobs whose pods run before a command is disturbed."""
    recordings: Recordings = field(default_factory=Recordings)

    def recorded(self, documents: str) -> Recording:
        """Return the writes of an apply in an empty namespace. The first call runs the apply in a namespace of its own."""
        return self.recordings.of(documents, self._record)

    def _record(self, documents: str) -> Recording:
        with tempfile.TemporaryDirectory() as directory, site(self, "recorded", Path(directory)) as place:
            self.api.create_namespace(place.namespace)
            place.file.write_text(documents)
            result = place.apply()
            assert result.code == 0, result.stderr
            return recording(place.namespace, place.proxy.records)


@dataclass(frozen=True)
class Site:
    """One place; ``config`` is a kubeconfig that goes through the proxy, ``direct`` one that does not."""

    base: Base
    namespace: str
    proxy: Proxy
    directory: Path
    config: str
    flags: tuple[str, ...] = ("--yes",)

    @property
    def file(self) -> Path:
        """The documents."""
        return self.directory / "jobs.yaml"

    @property
    def direct(self) -> str:
        """A kubeconfig that does not go through the proxy."""
        return str(self.base.plane.kubeconfig())

    @property
    def apply_arguments(self) -> list[str]:
        """The apply of the file in the namespace."""
        return ["apply", "-f", str(self.file), "-n", self.namespace, *self.flags]

    @property
    def recover_arguments(self) -> list[str]:
        """The recovery in the namespace."""
        return ["recover", "-n", self.namespace, "--yes"]

    def prepare(self, documents: str) -> None:
        """Write what an apply of documents writes, wait until the pods run, and put beside them what is not ours."""
        writes = self.base.recorded(documents).writes(self.namespace)
        self.base.api.create_namespace(self.namespace)
        for obj in foreign_objects():
            self.base.api.create(obj, self.namespace)
        self.file.write_text(documents)
        for write in writes:
            self.base.api.call(write.method, write.path, write.body, write.content_type)
        self.base.api.wait(self._runs, f"the pods in {self.namespace}")

    def snapshot(self) -> Snapshot:
        """Return the objects in the namespace."""
        return self.base.api.snapshot(self.namespace)

    def wait_for_deleted(self) -> None:
        """Wait until what was deleted has gone."""

        def is_still() -> bool:
            return not any("deletionTimestamp" in live.object["metadata"] for live in self.snapshot().values())

        self.base.api.wait(is_still, f"what was deleted in {self.namespace} to go")

    def apply(self, config: str | None = None, *more: str) -> Result:
        """Apply the file; through the proxy unless ``config`` says otherwise."""
        return self.run([*self.apply_arguments, *more], config)

    def recover(self, config: str | None = None) -> Result:
        """Finish what a killed run left."""
        return self.run(self.recover_arguments, config)

    def run(self, arguments: list[str], config: str | None = None) -> Result:
        """Run a command to its end."""
        return self.start(arguments, config).wait(TIMEOUT)

    def start(self, arguments: list[str], config: str | None = None) -> Running:
        """Start a command."""
        return self.base.zygote.start(arguments, env={"KUBECONFIG": config or self.config}, cwd=self.directory)

    def disturb(self, arguments: list[str], policy: Callable[[Victim], Policy]) -> Result:
        """Run a command under a policy that can reach it, and wait until nothing of it is under way."""
        return self.disturbed(arguments, policy)[1]

    def disturbed(self, arguments: list[str], policy: Callable[[Victim], Policy]) -> tuple[Running, Result]:
        """Like :meth:`disturb`; also what ran."""
        running: Future[Running] = Future()
        self.proxy.reset(policy(lambda: running.result(10)))
        running.set_result(self.start(arguments))
        result = running.result().wait(TIMEOUT)
        # Requests of a killed process may still be under way; a user does not type `recover` that fast.
        self.proxy.drain()
        return running.result(), result

    def _runs(self) -> bool:
        """Return True if each job has a running pod."""
        pods = self.base.api.list_objects("Pod", self.namespace)
        running = {pod["metadata"]["labels"]["app"] for pod in pods if pod["status"].get("phase") == "Running"}
        return running >= self.base.jobs


def numbered(name: str) -> str:
    """A namespace's name that there has not been."""
    return f"{name}-{next(_NUMBERS)}"


@contextmanager
def site(base: Base, namespace: str, directory: Path, flags: tuple[str, ...] = ("--yes",)) -> Iterator[Site]:
    """A site; what runs there ends with it. The namespace is not there before :meth:`Site.prepare`.

    :param namespace: how the namespace's name begins: each site has its own, as that of a test's first attempt stays.
    """
    namespace = numbered(namespace)
    directory.mkdir(exist_ok=True)
    with Proxy(base.plane, base.upstream) as proxy:
        config = proxy.kubeconfig(directory / "kubeconfig")
        try:
            yield Site(base, namespace, proxy, directory, str(config), flags)
        finally:
            base.api.clear(namespace)


def ends_workload(request: Request) -> bool:
    """Return True if a request deletes a workload."""
    return request.method == "DELETE" and request.path.rsplit("/", 2)[-2] in ("jobs", "deployments", "statefulsets")


def makes_job(image: str) -> Callable[[Request], bool]:
    """Requests that create a training of this image."""
    return lambda request: (
        request.is_write
        and request.method == "POST"
        and request.path.endswith("/jobs")
        and f"registry.example.com/train:{image}".encode() in request.body
    )
