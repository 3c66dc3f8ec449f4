"""Lifts a workload's objects to its document, field by field."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import dropwhile
from typing import Any

from gpuctl.backend.autoscaler_objects import lift_autoscaling
from gpuctl.backend.claim_objects import lift_new_claims
from gpuctl.backend.code_container import lift_code
from gpuctl.backend.device_claims import lift_claim
from gpuctl.backend.gpu_resources import LiftedGpus, lift_gpus, lift_share
from gpuctl.backend.helper_containers import lift_helpers
from gpuctl.backend.lift_runs import lift_array, lift_schedule
from gpuctl.backend.lift_storage import lift_storage
from gpuctl.backend.lowering_context import Context
from gpuctl.backend.notebook_activity import lift_limits
from gpuctl.backend.pod import DEFAULT_GRACE
from gpuctl.backend.pod_network import RDMA_CAPABILITY, lift_network
from gpuctl.backend.pod_placement import type_expressions
from gpuctl.backend.pod_security import NOTEBOOK_GROUP, lift_security
from gpuctl.backend.pod_topology import lift_topology
from gpuctl.backend.pod_volumes import MODEL_CACHE, default_shm
from gpuctl.backend.rendezvous import has_torchrun
from gpuctl.backend.service_objects import lift_port
from gpuctl.backend.variables import lift_sources, lift_variables
from gpuctl.frontend.platform_restrictions import ELASTIC_ENV, GROUP_ENV, MODEL_ENV, RESERVED_ENV
from gpuctl.frontend.templates import escape_document
from gpuctl.language.checkpoint_block import parse_checkpoint
from gpuctl.language.code_block import code_directory
from gpuctl.language.names import DEFAULT_POOL, MAIN_CONTAINER
from gpuctl.language.notify_block import parse_notify
from gpuctl.language.training_document import DEFAULT_MASTER_PORT
from gpuctl.objects.api_resources import QUEUE_PRIORITY_LABEL, Object
from gpuctl.objects.array_jobs import is_array
from gpuctl.objects.companion_names import MAIN_PORT
from gpuctl.objects.durations import format_duration
from gpuctl.objects.elastic_jobs import node_bounds
from gpuctl.objects.hashed_names import unhashed_name
from gpuctl.objects.label_names import AFTER, CHECKPOINT, MANAGED_BY, NOTIFY, SWEEP, SWEEP_VALUES, URL, sweep_values
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.prerequisites import OK, prerequisites_of
from gpuctl.objects.queueing import POD_PARENT, TOPOLOGIES, is_written_by_kueue, queue_of
from gpuctl.objects.scheduled_jobs import run_of

Data = dict[str, Any]
GRACE = "terminationGracePeriodSeconds"


def _template_of(obj: Object) -> Object:
    return pod_templates(obj)[0][0]


def _child_job(obj: Object) -> Object:
    child: Object = obj["spec"]["replicatedJobs"][0]["template"]["spec"]
    return child


def main_container(pod: Object) -> Object | None:
    """Return the container that runs the document's program; None if a pod has none."""
    found: Object | None = next((item for item in pod["containers"] if item["name"] == MAIN_CONTAINER), None)
    return found


def pod_spec(obj: Object) -> Object:
    spec: Object = _template_of(obj)["spec"]
    return spec


class LiftedWorkload:
    """Reads one workload's objects back, block by block."""

    def __init__(
        self,
        context: Context,
        obj: Object,
        ours: Sequence[Object],
        *,
        torchrun_is_ours: bool = True,
        role_variables: Collection[str] = (),
    ) -> None:
        self.context = context
        self.obj = obj
        # A CronJob is lifted like its runs.
        self.job = run_of(obj) if obj["kind"] == "CronJob" else obj
        self.name = unhashed_name(obj)
        self.namespace: str = obj["metadata"].get("namespace", "default")
        self.labels: dict[str, str] = obj["metadata"].get("labels", {})
        self.annotations: dict[str, str] = obj["metadata"].get("annotations", {})
        self.kind = self.labels.get(context.label("job-type"), "")
        self.template = _template_of(obj)
        self.pod = pod_spec(obj)
        main = main_container(self.pod)
        if main is None:
            raise ValueError(f"{self.name} has no container {MAIN_CONTAINER}")
        self.container = main
        self.gpus = lift_gpus(context.settings, main)
        self.torchrun_is_ours = torchrun_is_ours
        self.role_variables = frozenset(role_variables)
        self._ours = ours
        self.claim = lift_claim(context.settings, self.pod, self._claim_templates())
        if self.claim is not None:
            self.gpus = LiftedGpus(self.claim.vendor, self.claim.gpus, self.claim.profile)
        self.network = lift_network(context, self.pod, self.container)
        self.rdma = context.settings.platform.network.rdma if "rdma" in self.network else None
        self.beside = {
            other["kind"]: other
            for other in ours
            if other["metadata"].get("namespace", "default") == self.namespace
            and other["metadata"]["labels"].get("app") == self.name
            and other["metadata"]["labels"].get(context.label("job-type")) == self.kind
        }

    def _claim_templates(self) -> Iterator[Object]:
        for other in self._ours:
            metadata = other["metadata"]
            if other["kind"] == "ResourceClaimTemplate" and metadata.get("namespace", "default") == self.namespace:
                yield other

    def document(self) -> Data:
        data: Data = {"kind": self.kind, "version": "v0.1", "job": self._job()}
        model = self._model()
        if model:
            data["model"] = model
        data["environment"] = self._environment()
        if code := lift_code(self.context, self.pod):
            data["code"] = code
            if data["environment"].get("workdir") == code_directory(code.get("path")):
                del data["environment"]["workdir"]
        data["resources"] = self._resources()
        creates_claims = False
        storage = lift_storage(
            self.pod, self.container, has_default=self.context.settings.platform.storage.default is not None
        )
        if storage:
            creates_claims = lift_new_claims(storage, self._ours, self.namespace)
            data["storage"] = storage
        if is_array(self.job):
            data["array"] = lift_array(self.job)
        if self.obj["kind"] == "CronJob":
            data["schedule"] = lift_schedule(self.obj)
        data |= lift_helpers(self.pod, self.container, has_code="code" in data)
        security = lift_security(self.pod, self.container, (RDMA_CAPABILITY,) if self.rdma is not None else ())
        if self.kind == "notebook" and creates_claims and security.get("fsGroup") == NOTEBOOK_GROUP:
            del security["fsGroup"]
        if security:
            data["security"] = security
        if self.kind != "training":
            data["service"] = self._service()
        scaler = self.beside.get("ScaledObject") or self.beside.get("HorizontalPodAutoscaler")
        if scaler is not None:
            data["autoscaling"] = lift_autoscaling(self.context, scaler)
        if self.kind == "notebook" and (limits := lift_limits(self.context, self.obj)):
            data["notebook"] = limits
        if (placed := self._annotation("placement")) is not None:
            data["placement"] = {"clusters": placed.split(",")}
        return escape_document(data)

    def _annotation(self, name: str) -> str | None:
        return self.annotations.get(self.context.label(name))

    def _job(self) -> Data:
        job: Data = {"name": self.name, "namespace": self.namespace}
        job["priority"] = self.labels.get(self.context.label("priority"), "medium")
        if (description := self._annotation("description")) is not None:
            job["description"] = description
        template = self.template["metadata"]
        own = {"app", "app.kubernetes.io/name", MANAGED_BY}
        if POD_PARENT in template.get("annotations", {}) and self.context.settings.has_queue_priorities:
            # Kueue copies the class from the object.
            own.add(QUEUE_PRIORITY_LABEL)
        prefix = self.context.label("")
        labels = {
            key: value
            for key, value in template["labels"].items()
            if key not in own and not key.startswith(prefix) and not is_written_by_kueue(key)
        }
        if labels:
            job["labels"] = labels
        annotations = template.get("annotations", {})
        added = [*(self.rdma.annotations.items() if self.rdma is not None else ()), *self.gpus.annotations.items()]
        annotations = {
            key: value
            for key, value in annotations.items()
            if not is_written_by_kueue(key) and key not in TOPOLOGIES.values() and (key, value) not in added
        }
        if annotations:
            job["annotations"] = annotations
        if (checkpoint := parse_checkpoint(self._annotation(CHECKPOINT) or "")) is not None:
            job["checkpoint"] = checkpoint.data()
        if (notify := parse_notify(self._annotation(NOTIFY))) is not None:
            job["notify"] = notify.data()
        grace = self.pod.get(GRACE)
        if grace is not None:
            grace -= self._drain()
        # A service's own timeout sets it too.
        if grace is not None and self._annotation("timeout") is None and not self._is_default_grace(grace):
            job["grace"] = format_duration(grace)
        hook = self.container.get("lifecycle", {}).get("preStop", {})
        if "exec" in hook:
            job["on"] = {"stop": hook["exec"]["command"]}
        if self.kind == "training":
            job.update(self._run())
        return job

    def _is_default_grace(self, grace: int) -> bool:
        """Return True for the grace period that the API server fills in, and to which lowering adds a drain."""
        return grace == DEFAULT_GRACE and ("uid" in self.obj["metadata"] or self._drain() > 0)

    def _drain(self) -> int:
        """Return the seconds that a service is drained for. A hook that leaves no grace period is not lowered."""
        hook = self.container.get("lifecycle", {}).get("preStop", {})
        seconds: int = hook.get("sleep", {}).get("seconds", 0)
        return seconds if self.kind != "training" and seconds <= self.pod.get(GRACE, -1) else 0

    def _run(self) -> Data:
        spec = self.job["spec"]
        job: Data = {}
        env = {item["name"]: item.get("value") for item in self.container.get("env", [])}
        for field, variable in (("epochs", "GPUCTL_EPOCHS"), ("batch_size", "GPUCTL_BATCH_SIZE")):
            if env.get(variable) is not None:
                job[field] = int(env[variable])
        if env.get("MASTER_PORT") not in (None, str(DEFAULT_MASTER_PORT)):
            job["master_port"] = int(env["MASTER_PORT"])
        retries = (
            spec.get("failurePolicy", {}).get("maxRestarts", 0)
            if self.obj["kind"] == "JobSet"
            else spec.get("backoffLimit", 0)
        )
        if node_bounds(self.job) is not None:
            retries = int(env.get("PET_MAX_RESTARTS") or 0)
        if retries and not is_array(self.job):
            job["retries"] = retries
        if "activeDeadlineSeconds" in self.pod:
            job["max_runtime"] = format_duration(self.pod["activeDeadlineSeconds"])
        if "ttlSecondsAfterFinished" in spec:
            job["ttl"] = format_duration(spec["ttlSecondsAfterFinished"])
        after = prerequisites_of(self.obj, self.context.label(AFTER))
        if after:
            job["after"] = list(after) if set(after.values()) == {OK} else after
        sweep = self.labels.get(self.context.label(SWEEP))
        if sweep is not None:
            job["sweep"] = {"name": sweep, "values": sweep_values(self.obj, self.context.label(SWEEP_VALUES))}
        return job

    def _model(self) -> Data:
        model: Data = {}
        for field in ("source", "name", "version", "format"):
            if (value := self._annotation(f"model-{field}")) is not None:
                model[field] = value
        if any(volume["name"] == "model-cache" for volume in self.pod.get("volumes", [])):
            model["cache"] = True
        return model

    def _environment(self) -> Data:
        container = self.container
        environment: Data = {"image": container["image"]}
        secrets = [item["name"] for item in self.pod.get("imagePullSecrets", [])]
        if secrets and secrets != [self.context.settings.platform.image.pullSecret]:
            environment["imagePullSecret"] = secrets[0] if len(secrets) == 1 else secrets
        for field, key in (("command", "command"), ("args", "args"), ("workdir", "workingDir")):
            if key in container:
                environment[field] = container[key]
        variables = self._variables()
        if variables:
            environment["env"] = variables
        sources = lift_sources(container.get("envFrom", []))
        if sources:
            environment["envFrom"] = sources
        return environment

    def _variables(self) -> list[Data]:
        """Return the user's variables, which follow those of gpuctl."""
        ours = set(RESERVED_ENV | self.role_variables) if self.kind == "training" else set()
        if node_bounds(self.job) is not None:
            ours |= ELASTIC_ENV
        if self.kind == "inference":
            ours |= {name for name, field in MODEL_ENV.items() if self._annotation(f"model-{field}") is not None}
        if self.obj["kind"] == "LeaderWorkerSet":
            ours |= GROUP_ENV
        values = {"NVIDIA_VISIBLE_DEVICES": "void"} if not self.gpus.number else {}
        if self.rdma is not None:
            values |= self.rdma.env
        if self._model().get("cache"):
            values["HF_HOME"] = MODEL_CACHE
        variables = self.container.get("env", [])
        if self.torchrun_is_ours and has_torchrun(variables):
            values["FORCE_TORCHRUN"] = "1"

        def is_ours(item: Object) -> bool:
            return item["name"] in ours or bool(values.get(item["name"], object()) == item.get("value"))

        return lift_variables(dropwhile(is_ours, variables))

    def _resources(self) -> Data:
        resources: Data = {"pool": self.labels.get(self.context.label("pool"), DEFAULT_POOL)}
        queue = queue_of(self.job)
        of_pool = self.context.settings.queue_of(resources["pool"]) if self.kind == "training" else None
        if queue and queue != of_pool:
            resources["queue"] = queue
        vendor, number, profile, _ = self.gpus
        resources["gpu"] = number
        types = self._gpu_types()
        if types:
            resources["gpu-type"] = types[0] if len(types) == 1 else types
        if self.claim is not None and self.claim.memory is not None:
            resources["gpu-memory"] = self.claim.memory
        if profile is not None:
            resources["gpu-profile"] = profile
        if (share := self._annotation("gpu-share")) is not None:
            resources["gpu-share"] = lift_share(share)
        if vendor is not None and vendor != self.context.settings.default_vendor:
            resources["gpu-vendor"] = vendor
        limits = self.container.get("resources", {}).get("limits", {})
        for name in ("cpu", "memory"):
            if name in limits:
                resources[name] = limits[name]
        shm = next((volume for volume in self.pod.get("volumes", []) if volume["name"] == "dshm"), None)
        if shm is not None and shm["emptyDir"].get("sizeLimit") != default_shm(number, limits.get("memory")):
            resources["shm"] = shm["emptyDir"]["sizeLimit"]
        spot = self.context.settings.spot
        if spot is not None and spot.labels.items() <= self.pod.get("nodeSelector", {}).items():
            resources["spot"] = True
        if self.network:
            resources["network"] = self.network
        job = _child_job(self.obj) if self.obj["kind"] == "JobSet" else self.job["spec"]
        if job.get("completionMode") == "Indexed" and not is_array(self.job):
            bounds = node_bounds(self.job)
            resources["nodes"] = job["completions"] if bounds is None else {"min": bounds.least, "max": bounds.most}
        if self.obj["kind"] == "LeaderWorkerSet":
            resources["nodes"] = job["leaderWorkerTemplate"]["size"]
        own = {"app": self.name, self.context.label("job-type"): self.kind}
        topology = lift_topology(self.context, self.template, own)
        if topology is not None:
            resources["topology"] = topology
        return resources

    def _gpu_types(self) -> list[str]:
        """Return the GPU types that the pod selects, the preferred ones first."""
        if self.claim is not None and self.claim.types:
            return list(self.claim.types)
        label = self.context.label("gpu-type")
        if label in self.pod.get("nodeSelector", {}):
            return [self.pod["nodeSelector"][label]]
        affinity = self.pod.get("affinity", {}).get("nodeAffinity", {})
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
        found: dict[str, None] = {}
        for term in required.get("nodeSelectorTerms", []):
            expressions = term.get("matchExpressions", [])
            named = (item["values"] for item in expressions if (item["key"], item["operator"]) == (label, "In"))
            found.update(dict.fromkeys(name for names in named for name in names))
            for name in self.context.settings.gpu_types:
                if all(item in expressions for item in type_expressions(self.context, name)):
                    found[name] = None
        return list(found)

    def _service(self) -> Data:
        service: Data = {}
        if self.kind != "notebook" and "replicas" in self.obj["spec"]:
            service["replicas"] = self.obj["spec"]["replicas"]
        front = self.beside.get("Service")
        if front is not None:
            kind = front["spec"].get("type", "ClusterIP")
            for port in front["spec"]["ports"]:
                entry = lift_port(port)
                if port.get("name") == MAIN_PORT:
                    service.update(entry)
                else:
                    service.setdefault("ports", []).append({"name": port["name"], **entry})
            if kind != self.context.settings.platform.service.type:
                service["type"] = kind
        probe = self.container.get("startupProbe")
        seconds = probe["periodSeconds"] * probe["failureThreshold"] if probe is not None else 600
        if probe is not None:
            service |= self._probe_paths()
        if self._drain():
            service["drain"] = format_duration(self._drain())
        if (url := self._annotation(URL)) is not None:
            host, slash, path = url.partition("://")[2].partition("/")
            service["route"] = {"host": host, "path": slash + path}
        budget = self.beside.get("PodDisruptionBudget")
        if budget is not None:
            service["disruption"] = {"maxUnavailable": str(budget["spec"]["maxUnavailable"])}
        seconds = self.obj["spec"].get("progressDeadlineSeconds", seconds + 600) - 600
        if seconds != 600 and seconds > 0:
            service["startup_timeout"] = format_duration(seconds)
        if (strategy := self._annotation("strategy")) in ("replace", "rolling"):
            service["strategy"] = strategy
        if (timeout := self._annotation("timeout")) is not None:
            service["timeout"] = timeout
        if (limit := self._annotation("request-limit")) is not None:
            service["request_limit"] = int(limit)
        return service

    def _probe_paths(self) -> Data:
        """Return the fields of the readiness and the liveness probe."""
        names = ("readinessProbe", "livenessProbe")
        ready, alive = (self.container.get(name, {}).get("httpGet", {}).get("path") for name in names)
        found = {"health_check": ready} if ready is not None else {}
        return {**found, "liveness": alive} if alive not in (None, ready) else found
