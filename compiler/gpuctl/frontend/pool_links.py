"""Checks jobs against the pools that documents and the platform declare."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fractions import Fraction

from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Related, Severity
from gpuctl.frontend.document import Document, service_of
from gpuctl.frontend.gpu_checks import illegal_profile
from gpuctl.frontend.role_views import pod_documents
from gpuctl.language.kinds import Job, nodes_of
from gpuctl.language.mig_profiles import profiles_of
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.language.pool_document import PoolDocument
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.settings import Settings
from gpuctl.language.spelling import did_you_mean
from gpuctl.language.workload import Workload
from gpuctl.objects.quantities import format_number

ERROR, WARNING = Severity.ERROR, Severity.WARNING


class DeclaredPool:
    """A pool as far as it is known: from its document, or only from the platform."""

    def __init__(self, types: list[str], document: Document | None = None, model: PoolDocument | None = None) -> None:
        self.types = types
        self.document = document
        self.model = model
        self.jobs: list[tuple[Document, Job]] = []

    def counts(self, gpu_types: Collection[str] = (), profile: str | None = None) -> list[int] | None:
        """Return the GPUs of each node of these types, or of any type; None if a node declares no number.

        :param profile: count slices of this MIG profile instead.
        """
        if self.model is None:
            return None
        counts = []
        for node in self.model.nodes.values():
            if gpu_types and node.gpu_type not in gpu_types:
                continue
            number = node.gpu_count if profile is None else (node.gpu_profiles or {}).get(profile)
            # Profiles that a node does not list are absent only if it lists any.
            if number is None and node.gpu_type and (profile is None or node.gpu_profiles is None):
                return None
            counts.append(number or 0)
        return counts


def pod_count(model: Job, *, most: bool = False) -> int:
    """Return the number of pods of a workload; of an array or with autoscaling the minimum at a time, or the maximum if
    ``most``.
    """
    if model.kind == "training":
        array = model.array_block
        return model.total_nodes if array is None or not most else array.parallelism or array.size
    if model.kind == "inference" and model.autoscaled and model.autoscaling is not None:
        return ((model.autoscaling.maxReplicas or 1) if most else model.autoscaling.minReplicas) * nodes_of(model)
    service = service_of(model)
    return 1 if service is None else service.replicas * nodes_of(model)


def amount_of_pods(model: Job, each: Callable[[Job], Fraction], *, most: bool = False) -> Fraction:
    """Return an amount for all pods of a workload together, which the roles of a training may request differently.

    :param most: count the maximum of pods, see :func:`pod_count`.
    """
    if model.kind == "training" and model.roles:
        return sum((each(part) * part.resources.max_nodes for part in model.parts), Fraction(0))
    return each(model) * pod_count(model, most=most)


def amount_in_pool(model: Job, pool: str, each: Callable[[Job], Fraction], *, most: bool = False) -> Fraction:
    """Return an amount for the pods of a workload in one pool: roles can have pools of their own."""
    return amount_of_pods(model, lambda part: each(part) if part.resources.pool == pool else Fraction(0), most=most)


def declared_pools(documents: Sequence[Document], settings: Settings) -> dict[str, DeclaredPool]:
    """Return every pool that a document or the platform declares. A document takes precedence."""
    pools = {name: DeclaredPool(list(pool.gpu_types)) for name, pool in settings.external_pools.items()}
    for document in documents:
        if document.model.kind == "pool":
            types = dict.fromkeys(node.gpu_type for node in document.model.nodes.values() if node.gpu_type)
            known = pools.get(document.model.header.name)
            if known is None or known.model is None:
                pools[document.model.header.name] = DeclaredPool(list(types), document, document.model)
    return pools


def pool_references(
    documents: Sequence[Document], pools: dict[str, DeclaredPool], settings: Settings, complete: bool
) -> Iterator[Diagnostic]:
    for document in documents:
        model = document.model
        if not isinstance(model, Workload):
            continue
        declared = pools.get(model.resources.pool)
        types = declared.types if declared is not None else [*settings.gpu_types, *settings.products]
        document.gpu_types = _as_declared(document.gpu_types, types)
        views = pod_documents(document, model)
        for name in dict.fromkeys(part.resources.pool for _, part in views):
            mine = [(view, part) for view, part in views if part.resources.pool == name]
            # What the roles share is reported about the whole job.
            whole = [(document, model)] if len(mine) == len(views) and name == model.resources.pool else mine
            declared = pools.get(name)
            if declared is not None:
                declared.jobs.append((whole[0][0], model))
                yield from _misfits(whole, mine, model, name, declared, settings)
            elif name != DEFAULT_POOL and complete:
                yield _unknown_pool(whole[0][0], name, pools)


def _unknown_pool(document: Document, name: str, pools: Collection[str]) -> Diagnostic:
    return document.diagnostic(
        WARNING,
        "GPU401",
        say("the pool `{name}` is declared neither in these documents nor in the platform", name=name),
        ("resources", "pool"),
        did_you_mean(name, pools) or say("compile the job with its pool, or list the pool in platform.yaml"),
    )


Pods = Sequence[tuple[Document, Job]]
"""Documents and models of a job's pods, see :func:`pod_documents`."""


def _misfits(
    whole: Pods, mine: Pods, model: Job, pool: str, declared: DeclaredPool, settings: Settings
) -> Iterator[Diagnostic]:
    """Report what the pods of a job in one pool ask for and the pool does not have.

    :param whole: the job itself if all its pods are in the pool, else ``mine``: those that are.
    """
    typed = [(view, part) for view, part in mine if part.resources.gpu_type != model.resources.gpu_type]
    unknown = [
        _unknown_type(view, part, model, declared)
        for view, part in (mine if whole is mine else [*whole, *typed])
        if view.gpu_types and declared.types and not set(view.gpu_types) & set(declared.types)
    ]
    yield from dict.fromkeys(unknown)
    if not unknown:
        wrong = [item for view, part in mine for item in _profile_of_no_type(view, part, declared, settings)]
        yield from dict.fromkeys(wrong)
        for view, part in () if wrong else mine:
            yield from _too_large(view, part, pool, declared)
    yield from _over_pool_quota(whole[0][0], model, pool, declared)


def _as_declared(wanted: Iterable[str], types: Sequence[str]) -> tuple[str, ...]:
    """Return the declared types that differ only in case, else the types as written."""
    names = {declared.lower(): declared for declared in reversed(types)}
    return tuple(dict.fromkeys(name if name in types else names.get(name.lower(), name) for name in wanted))


def _unknown_type(document: Document, model: Job, job: Job, declared: DeclaredPool) -> Diagnostic:
    hint = did_you_mean(document.gpu_types[0], declared.types) or say("it has {names}", names=list(declared.types))
    asked, all_asked = model.resources, job.resources
    path = ("resources", "gpu-type")
    if asked.pool != all_asked.pool and asked.gpu_type == all_asked.gpu_type:
        path, hint = ("resources", "pool"), say("write the `gpu-type` of the role, too: {hint}", hint=hint)
    related: tuple[Related, ...] = ()
    if declared.document is not None:
        related = (Related(say("the pool"), declared.document.span(("nodes",), key=True)),)
    return document.diagnostic(
        ERROR,
        "GPU402",
        say(
            "the pool `{pool}` has no GPU of type {names:or}",
            pool=asked.pool,
            names=[f"`{name}`" for name in document.gpu_types],
        ),
        path,
        hint,
        related=related,
    )


def _profile_of_no_type(
    document: Document, model: Job, declared: DeclaredPool, settings: Settings
) -> Iterator[Diagnostic]:
    """Report the MIG profile of a job of any GPU type into which no GPU of the pool can be divided."""
    profile = model.resources.gpu_profile
    if profile is None or document.gpu_types:
        return
    legal = [profiles_of(name, settings.profiles) for name in declared.types]
    if legal and all(profiles and profile not in profiles for profiles in legal):
        yield from illegal_profile(document, profile, declared.types, settings)


_TRAINING_TOO_LARGE = Template("the training needs {nodes} x {amount}; {pool} has room for {room} such pods")
_REPLICA_TOO_LARGE = Template("a replica needs {nodes} x {amount}; {pool} has room for {room} such pods")


def _too_large(document: Document, model: Job, pool: str, declared: DeclaredPool) -> Iterator[Diagnostic]:
    """Report a pod larger than every node, or a job with more nodes than fit the pool: it would never start."""
    gpu, profile = model.resources.gpu, model.resources.gpu_profile
    counts = declared.counts(document.gpu_types, profile)
    if gpu == 0 or counts is None or declared.document is None:
        return
    related = (Related(say("the pool's nodes"), declared.document.span(("nodes",), key=True)),)
    place = say("pool `{pool}`", pool=pool)
    if document.gpu_type:
        place = say("pool `{pool}` with {types:or}", pool=pool, types=list(document.gpu_types))
    amount = say("{gpus} GPUs", gpus=gpu) if profile is None else f"{gpu} x {profile}"
    largest = max(counts, default=0)
    if gpu > largest:
        yield document.diagnostic(
            ERROR,
            "GPU403",
            say(
                "the job needs {amount} on one node; the largest node of {pool} has {largest}",
                amount=amount,
                pool=place,
                largest=largest,
            ),
            ("resources", "gpu"),
            _at_most(model, largest) if largest else (profile and _other_slices(declared)) or say("use another pool"),
            related=related,
        )
        return
    room = sum(count // gpu for count in counts)
    if nodes_of(model) > max(room, 1):
        yield document.diagnostic(
            ERROR,
            "GPU403",
            say(
                _TRAINING_TOO_LARGE if model.kind == "training" else _REPLICA_TOO_LARGE,
                nodes=nodes_of(model),
                amount=amount,
                pool=place,
                room=room,
            ),
            ("resources", "nodes"),
            say("ask for at most {room} nodes", room=room),
            related=related,
        )


def _at_most(model: Job, largest: int) -> Sentence:
    """Return the hint to request fewer GPUs on a node."""
    if model.kind in ("training", "inference"):
        return say("ask for at most {largest}, on several `nodes`", largest=largest)
    return say("ask for at most {largest}", largest=largest)


def _other_slices(declared: DeclaredPool) -> Sentence | None:
    """Return the hint that names the MIG profiles of a pool; None if its nodes declare none."""
    nodes = declared.model.nodes.values() if declared.model is not None else ()
    profiles = dict.fromkeys(profile for node in nodes for profile in node.gpu_profiles or ())
    return say("its nodes are divided into {profiles}", profiles=list(profiles)) if profiles else None


def _over_pool_quota(document: Document, model: Job, pool: str, declared: DeclaredPool) -> Iterator[Diagnostic]:
    quota = declared.model.quota if declared.model is not None else None
    if quota is None or quota.maxGpuPerJob is None or declared.document is None:
        return
    total = amount_in_pool(model, pool, lambda part: Fraction(part.resources.gpu), most=True)
    if total > quota.maxGpuPerJob:
        path, hint = _fewer(model, quota.maxGpuPerJob)
        yield document.diagnostic(
            ERROR,
            "GPU419",
            say(
                "the job asks for {total} GPUs; pool `{pool}` allows {most} per job",
                total=total,
                pool=pool,
                most=quota.maxGpuPerJob,
            ),
            path,
            hint,
            related=(Related(say("the limit"), declared.document.span(("quota", "maxGpuPerJob"))),),
        )


def _fewer(model: Job, limit: int) -> tuple[FieldPath, Sentence]:
    """Return the field that decides how many GPUs a job requests at most, and the hint to keep to a limit."""
    number = limit // (model.resources.gpu * nodes_of(model)) if model.resources.gpu else 0
    path: FieldPath = ("resources", "gpu")
    if number and model.kind == "training" and (array := model.array_block) is not None:
        path = ("array",) if array.parallelism is None else ("array", "parallelism")
        text = f"parallelism: {number}"
        if isinstance(model.array, int):
            text = f"array: {{size: {array.size}, {text}}}"
    elif model.kind == "inference" and model.autoscaled and number >= max(pod_count(model) // nodes_of(model), 1):
        path, text = ("autoscaling", "maxReplicas"), f"maxReplicas: {number}"
    else:
        return path, say("ask for fewer, or use another pool")
    return path, say("write `{text}`, or use another pool", text=text)


def pool_capacity(name: str, declared: DeclaredPool, settings: Settings) -> Iterator[Diagnostic]:
    """Compare all jobs of a pool with its GPUs and job limit. Queueing is normal, so these are warnings."""
    document, pool = declared.document, declared.model
    if document is None or pool is None:
        return
    key = "pool" if pool.pool is not None else "metadata"
    if pool.quota is not None and pool.quota.maxJobs is not None and len(declared.jobs) > pool.quota.maxJobs:
        yield document.diagnostic(
            WARNING,
            "GPU404",
            say(
                "{jobs} jobs use pool `{name}`, which allows {most} unfinished ones",
                jobs=len(declared.jobs),
                name=name,
                most=pool.quota.maxJobs,
            ),
            ("quota", "maxJobs"),
            say("some will be rejected"),
        )
    yield from _slices_of_pool(name, declared, (key, "name"))
    counts = declared.counts()
    if counts is None:
        return
    capacity = sum(counts)
    # A share in memory is not counted: no document declares the memory of a card. Slices are of other cards.
    cards = [
        amount_in_pool(model, name, lambda part: settings.cards_of(part.resources) or Fraction(0))
        for _, model in declared.jobs
    ]
    total = sum(cards, Fraction(0))
    if total > capacity:
        yield document.diagnostic(
            WARNING,
            "GPU404",
            say(
                "the jobs of pool `{name}` ask for {total} GPUs together; it has {capacity}",
                name=name,
                total=format_number(total),
                capacity=capacity,
            ),
            (key, "name"),
            say("some will wait; give the urgent ones `priority: high`"),
        )
    for job, model in declared.jobs:
        if model.kind == "inference" and model.autoscaled:
            each = settings.cards_of(model.resources)
            most = (each or Fraction(0)) * pod_count(model, most=True)
            if each and most > capacity:
                yield job.diagnostic(
                    WARNING,
                    "GPU405",
                    say(
                        "maxReplicas x gpu is {most} GPUs; pool `{name}` has {capacity}",
                        most=format_number(most),
                        name=name,
                        capacity=capacity,
                    ),
                    ("autoscaling", "maxReplicas"),
                    say("at most {number} replicas fit", number=capacity // each),
                )


def _slices(profile: str) -> Callable[[Job], Fraction]:
    """Return the function that counts the slices of a MIG profile in each pod of a job."""
    return lambda model: Fraction(model.resources.gpu if model.resources.gpu_profile == profile else 0)


def _slices_of_pool(name: str, declared: DeclaredPool, path: tuple[str, str]) -> Iterator[Diagnostic]:
    """Compare the MIG slices that the jobs of a pool request with those that its nodes declare."""
    wanted: dict[str, Fraction] = {}
    for _, model in declared.jobs:
        parts = model.parts if model.kind == "training" else [model]
        for profile in dict.fromkeys(part.resources.gpu_profile for part in parts):
            if profile is not None:
                slices = amount_in_pool(model, name, _slices(profile))
                wanted[profile] = wanted.get(profile, Fraction(0)) + slices
    for profile, total in wanted.items():
        counts = declared.counts(profile=profile)
        if counts is None or not 0 < sum(counts) < total or declared.document is None:
            continue
        message = say(
            "the jobs of pool `{name}` ask for {total} x {profile} together; it has {number}",
            name=name,
            total=total,
            profile=profile,
            number=sum(counts),
        )
        hint = say("some will wait; give the urgent ones `priority: high`")
        yield declared.document.diagnostic(WARNING, "GPU404", message, path, hint)
