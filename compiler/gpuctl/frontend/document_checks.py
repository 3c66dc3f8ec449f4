"""Checks of one document that need several fields or the platform."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from gpuctl.frontend.code_checks import check_code
from gpuctl.frontend.command_checks import HOSTFILE_DIRECTORY, command_checks, uses_deepspeed
from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.exec_limits import LONG_ARGUMENT, LONG_VARIABLE, too_long
from gpuctl.frontend.gpu_checks import check_gpus, check_shared_memory
from gpuctl.frontend.notebook_checks import check_notebook
from gpuctl.frontend.notify_checks import check_notify
from gpuctl.frontend.partial_model import until_unknown
from gpuctl.frontend.platform_restrictions import (
    GROUP_ENV,
    LWS_ENV,
    MODEL_ENV,
    disallowed_image,
    is_reserved_key,
    reserved_variables,
    visible_devices_problem,
)
from gpuctl.frontend.quota_document_checks import check_quota
from gpuctl.frontend.role_views import check_pods, check_roles
from gpuctl.frontend.service_checks import check_service
from gpuctl.frontend.storage_checks import check_storage
from gpuctl.language import names
from gpuctl.language.environment_block import Environment
from gpuctl.language.helper_block import HelperContainer
from gpuctl.language.kinds import Job
from gpuctl.language.names import shortened
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.settings import Settings
from gpuctl.language.spelling import did_you_mean
from gpuctl.language.sweep_block import longest_sweep_name
from gpuctl.language.training_document import TrainingDocument
from gpuctl.language.workload import Workload

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

_SET_FOR_GROUPS = {
    **dict.fromkeys(GROUP_ENV, Template("gpuctl sets it for a replica on several nodes")),
    **dict.fromkeys(LWS_ENV, Template("LeaderWorkerSet sets it")),
}
_ADDED = Template(
    "the container `{name}` runs beside the program, and the training, with its GPUs, lasts until both have ended"
)
_ADDED_BY_DEFAULT = Template(
    "the platform's default podPatch adds the container `{name}`: it runs beside the program, and the training, with "
    "its GPUs, lasts until both have ended"
)
_ADDED_BY_POOL = Template(
    "the podPatch of pool `{pool}` adds the container `{name}`: it runs beside the program, and the training, with "
    "its GPUs, lasts until both have ended"
)
_PORT_VARIABLES = frozenset({"MASTER_PORT", "PET_MASTER_PORT"})
# k8s.io/apimachinery: TotalAnnotationSizeLimitB is 256 KiB; the rest is for annotations of gpuctl and other tools.
MAX_ANNOTATIONS = 200 * 1024


def check(document: Document, settings: Settings) -> Iterator[Diagnostic]:
    """Yield all diagnostics of one valid document."""
    for part in _parts(document, settings):
        yield from part


def check_faulty(document: Document, settings: Settings) -> Iterator[Diagnostic]:
    """Yield the diagnostics of a document with errors that do not depend on its invalid fields."""
    return until_unknown(_parts(document, settings))


def _parts(document: Document, settings: Settings) -> Iterator[Iterator[Diagnostic]]:
    model = document.model
    yield _placement(document, settings)
    if isinstance(model, Workload):
        yield check_code(document, model, settings)
        yield _name_length(document, model, settings)
        yield _reserved_labels(document, model, settings)
        yield check_pods(document, model, lambda view, part: _environment(view, part, settings))
        yield _helpers(document, model, settings)
        yield check_pods(document, model, lambda view, part: check_gpus(view, part, settings))
        yield check_pods(document, model, check_shared_memory)
        yield check_pods(document, model, lambda view, part: _nodes_and_network(view, part, settings))
        yield check_storage(document, model, settings)
        yield check_service(document, model, settings)
        yield check_notebook(document, model)
        yield check_notify(document, model, settings)
        if model.kind == "training":
            yield _schedule(document, model, settings)
            yield check_roles(document, model, settings)
            yield _several_nodes(document, model, settings)
            yield check_pods(document, model, lambda view, part: _beside_the_program(view, part, settings))
        yield from command_checks(document, model, settings)
    elif model.kind == "quota":
        yield check_quota(document, model, settings)


def _nodes_and_network(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report spot nodes and RDMA devices that the platform does not have."""
    if model.resources.spot and settings.spot is None:
        hint = say("have the platform set `spot: {{labels: {{KEY: VALUE}}, taint: KEY}}`, or remove the line")
        message = say("the platform names no spot nodes")
        yield document.diagnostic(ERROR, "GPU443", message, ("resources", "spot"), hint, key=True)
    if model.resources.network.uses_rdma and settings.platform.network.rdma is None:
        hint = say("have the platform set `network: {{rdma: {{resource: NAME}}}}`, or remove the line")
        message = say("the platform names no RDMA devices")
        yield document.diagnostic(ERROR, "GPU443", message, ("resources", "network", "rdma"), hint, key=True)


def _placement(document: Document, settings: Settings) -> Iterator[Diagnostic]:
    """Report clusters that the platform does not define, if it defines any."""
    placed = getattr(document.model, "placement", None)
    for index, name in enumerate(placed.clusters if placed is not None and settings.clusters else ()):
        if name not in settings.clusters:
            hint = did_you_mean(name, settings.clusters) or say(
                "the platform defines {names}", names=list(settings.clusters)
            )
            message = say("the platform defines no cluster `{name}`", name=name)
            yield document.diagnostic(ERROR, "GPU211", message, ("placement", "clusters", index), hint)


def _name_length(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    longest, reason = longest_name(document, model, settings)
    if document.sweep_size:
        longest, numbered = longest_sweep_name(document.sweep_size, longest)
        reason = say("{first}, and {second}", first=numbered, second=reason)
    name = document.written_name
    length = len(name)
    if length > longest:
        shorter = shortened(name, longest)
        yield document.diagnostic(
            ERROR,
            "GPU217",
            say(
                "the name has {length} characters; the limit for this {kind} is {longest}, because {reason}",
                length=length,
                kind=document.kind,
                longest=longest,
                reason=reason,
            ),
            ("job", "name"),
            say("shorten it, for instance to `{name}`", name=shorter),
        )


def longest_name(document: Document, model: Job, settings: Settings) -> tuple[int, Sentence]:
    """Return the maximum length of the name of a document's job, and the reason."""
    if model.kind == "inference":
        scaled = model.autoscaling.maxReplicas if model.autoscaled and model.autoscaling is not None else None
        replicas = scaled or model.service.replicas
        return names.longest_job_name(document.kind, model.resources.nodes, replicas=replicas)
    if model.kind != "training":
        return names.longest_job_name(document.kind)
    if model.roles:
        return names.longest_name_with_roles({role.name: role.nodes for role in model.roles})
    array = model.array_block
    size = array.size if array is not None else 0
    backend = "jobset" if model.is_jobset(settings.platform.training.backend) else "job"
    return names.longest_job_name(
        document.kind, model.resources.max_nodes, backend, size, scheduled=model.schedule is not None
    )


def _reserved_labels(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    for block in ("labels", "annotations"):
        for key in getattr(model.job, block):
            if is_reserved_key(key, settings):
                message = say(
                    "`{key}` is the platform's own key and cannot be set in job.{block}", key=key, block=block
                )
                hint = say("remove it, or use a prefix of your own such as `example.com/`")
                yield document.diagnostic(ERROR, "GPU214", message, ("job", block, key), hint, key=True)


def _environment(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    environment = model.environment
    reserved: Mapping[str, Template] = {}
    if model.kind == "training":
        reserved = dict.fromkeys(reserved_variables(model), Template("gpuctl sets it from the document"))
    elif model.kind == "inference" and model.model is not None:
        reserved = {
            name: Template("gpuctl sets it from model.{field}")
            for name, field in MODEL_ENV.items()
            if getattr(model.model, field) is not None
        }
    if model.kind == "inference" and model.resources.nodes > 1:
        reserved = {**reserved, **_SET_FOR_GROUPS}
    for position, variable in enumerate(environment.variables):
        if variable.name in reserved:
            path: tuple[str | int, ...] = ("environment", "env", variable.name)
            if isinstance(environment.env, list):
                path = ("environment", "env", position, "name")
            reason = say(reserved[variable.name], field=MODEL_ENV.get(variable.name))
            message = say("the variable `{name}` is reserved: {reason}", name=variable.name, reason=reason)
            hint = say("remove it")
            if variable.name in _PORT_VARIABLES and model.kind == "training":
                hint = say("remove it, and set `job.master_port: {value}`", value=variable.value or 29501)
            if variable.name == "PET_MAX_RESTARTS":
                hint = say("remove it, and set `job.retries: {value}`", value=variable.value or 3)
            yield document.diagnostic(ERROR, "GPU214", message, path, hint, key=True)
    has_nvidia = model.resources.gpu > 0 and (model.resources.gpu_vendor or settings.default_vendor) == "nvidia"
    yield from _container(document, environment, settings, ("environment",), reserved, has_gpu=has_nvidia)
    for index, artifact in enumerate(model.storage.models):
        yield from _registry(document, artifact.image, settings, ("storage", "models", index, "image"))
    size = sum(len(key) + len(value.encode()) for key, value in model.job.annotations.items())
    size += len((model.job.description or "").encode())
    if size > MAX_ANNOTATIONS:
        message = say(
            "description and annotations have {size} KiB together; Kubernetes takes 256 KiB", size=size // 1024
        )
        path = ("job", "description" if model.job.description else "annotations")
        yield document.diagnostic(ERROR, "GPU206", message, path, say("shorten them"), key=True)


def _container(
    document: Document,
    container: Environment | HelperContainer,
    settings: Settings,
    place: tuple[str | int, ...],
    reserved: Container[str] = (),
    *,
    has_gpu: bool = False,
) -> Iterator[Diagnostic]:
    """Report problems of a container's variables, arguments and image.

    :param reserved: variables whose values are not checked.
    """
    for position, variable in enumerate(container.variables):
        if variable.name in reserved:
            continue
        path = (*place, "env", position if isinstance(container.env, list) else variable.name)
        long = too_long(LONG_VARIABLE, f"{variable.name}={variable.value or ''}")
        if long is not None:
            yield document.diagnostic(ERROR, "GPU222", long[0], path, long[1], key=True)
        if "nvidia" in settings.used_vendors:
            shown = visible_devices_problem(variable.name, variable.value, has_gpu=has_gpu)
            if shown is not None:
                yield document.diagnostic(ERROR, "GPU220", shown[0], path, shown[1], key=True)
    for field, texts in (("command", container.command), ("args", container.args)):
        for position, text in enumerate(texts):
            long = too_long(LONG_ARGUMENT, text)
            if long is not None:
                yield document.diagnostic(ERROR, "GPU222", long[0], (*place, field, position), long[1])
    if container.image is not None:
        yield from _registry(document, container.image, settings, (*place, "image"))
        yield from _tag(document, container.image, (*place, "image"))


def _registry(document: Document, image: str, settings: Settings, place: tuple[str | int, ...]) -> Iterator[Diagnostic]:
    foreign = disallowed_image(image, settings.platform.image.registries)
    if foreign is not None:
        yield document.diagnostic(ERROR, "GPU602", foreign[0], place, foreign[1])


def _tag(document: Document, image: str, place: tuple[str | int, ...]) -> Iterator[Diagnostic]:
    tag = image.rpartition("/")[2].partition("@")
    if not tag[1] and (":" not in tag[0] or tag[0].endswith(":latest")):
        yield document.diagnostic(
            WARNING,
            "GPU501",
            say("the image has the tag `latest`")
            if ":" in tag[0]
            else say("the image has no tag, which means `latest`"),
            place,
            say(
                "name a version: `latest` changes under a running job, and nodes keep the copy they have (IfNotPresent)"
            ),
        )


def _helpers(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report problems of the containers of ``init`` and ``sidecars``."""
    for place, helper in model.helpers:
        yield from _container(document, helper, settings, place)


def _beside_the_program(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report containers beside the program: a pod ends with its last container, which may keep the GPUs."""
    external = settings.external_pools.get(model.resources.pool)
    patches: list[tuple[object, Template, tuple[str, ...]]] = [
        (settings.defaults_of("training").get("podPatch"), _ADDED_BY_DEFAULT, ("kind",)),
        (external and external.podPatch, _ADDED_BY_POOL, ("resources", "pool")),
        (model.podPatch, _ADDED, ("podPatch",)),
    ]
    known = {names.MAIN_CONTAINER}
    for patch, template, where in patches:
        containers = patch.get("containers") if isinstance(patch, dict) else None
        for index, item in enumerate(containers if isinstance(containers, list) else []):
            name = item.get("name") if isinstance(item, dict) else None
            if not isinstance(name, str) or name in known:
                continue
            known.add(name)
            message = say(template, name=name, pool=model.resources.pool)
            place: tuple[str | int, ...] = (*where, "containers", index) if template == _ADDED else where
            hint = say(
                "move it to `podPatch.initContainers` with `restartPolicy: Always`: it then ends with the program"
            )
            yield document.diagnostic(WARNING, "GPU511", message, place, hint)


def _schedule(document: Document, model: TrainingDocument, settings: Settings) -> Iterator[Diagnostic]:
    """Report trainings that no CronJob can run."""
    if model.schedule is None or model.resources.max_nodes == 1:
        return
    if model.is_jobset(settings.platform.training.backend):
        message = say(
            "a training on several nodes is a JobSet on this platform, and Kubernetes cannot schedule a JobSet"
        )
        hint = say("have the platform set `training.backend: job`, or use one node")
        yield document.diagnostic(ERROR, "GPU224", message, ("schedule",), hint, key=True)
    elif uses_deepspeed(model.environment.argv):
        message = say("DeepSpeed's launcher reads fixed host names, and the pods of each run have other names")
        hint = say("start it with torchrun: `command: [torchrun, train.py, --deepspeed, ds.json]`")
        yield document.diagnostic(ERROR, "GPU224", message, ("schedule",), hint, key=True)


def _topology(document: Document, model: TrainingDocument, settings: Settings) -> Iterator[Diagnostic]:
    """Report a level of closeness that the platform does not define."""
    topology, levels = model.resources.topology_block, settings.topology_labels
    if topology is None or topology.level in levels:
        return
    path: tuple[str, ...] = ("resources", "topology")
    if not isinstance(model.resources.topology, str):
        path = (*path, "required" if topology.required is not None else "preferred")
    known = say("have the platform define it in `topology.levels`; it has {names}", names=list(levels))
    message = say("the platform defines no topology level `{level}`", level=topology.level)
    yield document.diagnostic(ERROR, "GPU211", message, path, did_you_mean(topology.level, levels) or known)


def _several_nodes(document: Document, model: TrainingDocument, settings: Settings) -> Iterator[Diagnostic]:
    if model.total_nodes > 1:
        yield from _topology(document, model, settings)
    several = [part for part in model.parts if part.resources.max_nodes > 1]
    for target, noun, place in model.storage.targets:
        if target == HOSTFILE_DIRECTORY and any(uses_deepspeed(part.environment.argv) for part in several):
            message = say(
                "DeepSpeed's hostfile is mounted at {directory}, where this {noun} is mounted too",
                directory=HOSTFILE_DIRECTORY,
                noun=noun,
            )
            hint = say("give it another `{field}`", field="mountPath" if noun == "workdir" else "path")
            yield document.diagnostic(ERROR, "GPU218", message, ("storage", *place, "path"), hint)
    if not several or model.is_jobset(settings.platform.training.backend):
        return
    elastic = model.resources.node_range is not None
    if elastic and not settings.serves_success_policies:
        version = settings.kubernetes_version
        message = say(
            "an elastic training needs Kubernetes 1.31 or newer; the platform's is {version}", version=version
        )
        hint = say("have the platform set `kubernetes.version` to the cluster's, if that is newer, or write one number")
        yield document.diagnostic(ERROR, "GPU213", message, ("resources", "nodes"), hint, key=True)
    if elastic and model.job.retries == 0:
        yield document.diagnostic(
            WARNING,
            "GPU448",
            say("a lost node, and a smaller number of nodes, end this training: torchrun may not restart its program"),
            ("resources", "nodes"),
            say("write `job.retries: 3`, and let the program save its progress"),
            key=True,
        )
    if model.job.retries > 0 and not elastic:
        yield document.diagnostic(
            WARNING,
            "GPU412",
            say("retries have no effect on several nodes: a plain Job cannot restart all its pods together"),
            ("job", "retries"),
            say("have the platform set `training.backend: jobset`, or remove `retries`"),
            key=True,
        )
    if settings.queue_of_job(model) is None and not settings.has_quota_queues:
        yield document.diagnostic(
            WARNING,
            "GPU413",
            say("nothing makes the pods of this training start together: some may hold GPUs while others wait"),
            ("resources", "nodes"),
            say("have the platform set `training.queue` (Kueue) for the pool"),
            key=True,
        )
