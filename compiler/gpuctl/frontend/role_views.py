"""A training with roles as each of its roles runs it, with the positions of the fields that the role sets itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.yaml_tree import YamlNode
from gpuctl.language.environment_block import Environment
from gpuctl.language.kinds import Job
from gpuctl.language.role_block import Role, RoleResources
from gpuctl.language.sentences import Sentence, say
from gpuctl.language.settings import Settings
from gpuctl.language.training_document import TrainingDocument


class RoleDocument(Document):
    """The document of one role's pods: diagnostics about a field that the role sets are at the role."""

    __slots__ = ("_places", "_variables", "_whole")

    def __init__(self, whole: Document, model: TrainingDocument, part: TrainingDocument, index: int) -> None:
        role = model.roles[index]
        super().__init__(whole.kind, part, whole.chunk, whole.index, whole.overlay)
        self._whole = whole
        self._places = _own_places(role, ("roles", index))
        self._variables = [*_variable_places(model.environment, role, ("roles", index))]
        self.namespace = whole.namespace
        # A pod without GPUs runs on any node of the pool.
        types = whole.gpu_types if role.resources.gpu_type is None else part.resources.gpu_types
        self.gpu_types = types if part.resources.gpu else ()

    def _tree(self) -> YamlNode:
        return self._whole._tree()

    def _written(self, path: FieldPath) -> FieldPath:
        """Return the path at which the document has a field of the role's pods."""
        if path[:2] == ("environment", "env") and len(path) > 2 and isinstance(path[2], int):
            variable = self._variables[path[2]]
            return (*variable, *path[3:]) if isinstance(variable[-1], int) else variable
        place = self._places.get(path[:2], path[:2])
        return (*place, *path[2:])

    @property
    def nodes_field(self) -> str:
        return "nodes"


def _own_places(role: Role, at: FieldPath) -> dict[FieldPath, FieldPath]:
    """Return the fields of the job that a role sets, each with its path in the role."""
    own: list[str] = [name for name in ("image", "command", "args") if getattr(role, name)]
    places: dict[FieldPath, FieldPath] = {("environment", name): (*at, name) for name in own}
    for name in role.resources.model_fields_set:
        if getattr(role.resources, name) is not None:
            key = RoleResources.model_fields[name].alias or name
            places["resources", key] = (*at, "resources", key)
    places["resources", "nodes"] = (*at, "nodes")
    return places


def _variable_places(environment: Environment, role: Role, at: FieldPath) -> Iterator[FieldPath]:
    """Yield the path of each variable of a role's pods, in their order."""
    own = {variable.name for variable in role.variables}
    for position, variable in enumerate(environment.variables):
        if variable.name not in own:
            yield ("environment", "env", position if isinstance(environment.env, list) else variable.name)
    for position, variable in enumerate(role.variables):
        yield (*at, "env", position if isinstance(role.env, list) else variable.name)


def role_documents(document: Document, model: TrainingDocument) -> Iterator[tuple[Document, TrainingDocument]]:
    """Yield the document and the model of each role's pods."""
    for index, part in enumerate(map(model.in_role, model.roles)):
        yield RoleDocument(document, model, part, index), part


def pod_documents(document: Document, model: Job) -> list[tuple[Document, Job]]:
    """Return a job's document and model for each kind of its pods: one for each role, else the document itself."""
    if model.kind == "training" and model.roles:
        return [*role_documents(document, model)]
    return [(document, model)]


PodCheck = Callable[[Document, Job], Iterator[Diagnostic]]


def check_pods(document: Document, model: Job, check: PodCheck) -> Iterator[Diagnostic]:
    """Yield the diagnostics of a check for the pods of each role, those about a field of the whole job once."""
    said: set[Diagnostic] = set()
    for view, part in pod_documents(document, model):
        for diagnostic in check(view, part):
            if diagnostic not in said:
                said.add(diagnostic)
                yield diagnostic


def check_roles(document: Document, model: TrainingDocument, settings: Settings) -> Iterator[Diagnostic]:
    """Report roles that the platform cannot run: only JobSet starts and restarts Jobs together."""
    if model.roles and settings.platform.training.backend != "jobset":
        yield document.diagnostic(
            Severity.ERROR,
            "GPU429",
            say("roles need JobSet, and the platform's trainings are plain Jobs"),
            ("roles",),
            say("install JobSet in the cluster, and write `training: {{backend: jobset}}` in the platform file"),
            key=True,
        )
    if model.resources.queue is None:
        yield from _one_queue(document, model, settings)


def _one_queue(document: Document, model: TrainingDocument, settings: Settings) -> Iterator[Diagnostic]:
    """Report a role in a pool whose trainings are in another queue than those of the job's pool."""
    pool = model.resources.pool
    queue = settings.queue_of(pool)
    for index, role in enumerate(model.roles):
        own = role.resources.pool
        other = settings.queue_of(own or pool)
        if own is None or other == queue:
            continue
        yield document.diagnostic(
            Severity.ERROR,
            "GPU449",
            say(
                "a job is in one queue as a whole, and the queue of pool `{own}` is {other}, that of `{pool}` {queue}",
                own=own,
                other=_queue(other),
                pool=pool,
                queue=_queue(queue),
            ),
            ("roles", index, "resources", "pool"),
            say(
                "write `resources.queue: {queue}`, or another queue that has quota for the nodes of both pools",
                queue=queue or other,
            ),
        )
        return


def _queue(name: str | None) -> Sentence:
    return Sentence(f"`{name}`") if name else say("none")
