"""Find a job by its id, its name, the name of one of its pods, or ``KIND/NAME``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from gpuctl.apply.plan.plan import NoSuchJob, SeveralJobs, missing_job
from gpuctl.apply.run.journal_entries import JournalEntry
from gpuctl.apply.run.unfinished_runs import recovery_of_job
from gpuctl.hints import IN_NAMESPACE, kubectl_line
from gpuctl.kube.scope import Scope
from gpuctl.language.kinds import WORKLOADS as JOB_KINDS
from gpuctl.language.names import is_dns_subdomain, is_label_value
from gpuctl.language.sentences import Template, say
from gpuctl.objects.api_resources import WORKLOADS, Object, controller_of, controller_uid, labels_of
from gpuctl.objects.hashed_names import job_of_hashed_name
from gpuctl.objects.ownership_metadata import Records, is_controlled
from gpuctl.objects.scheduled_jobs import is_part_of_job
from gpuctl.reading.jobs.job_ids import GENERAL_PREFIXES, POD_PREFIXES, name_in_id, without_general_prefix
from gpuctl.reading.jobs.job_objects import (
    Job,
    add_prerequisites,
    add_refusals,
    group_by_job,
    id_of_uid,
    identity_of,
    is_generation,
    job_id,
    newest_generation,
    read_jobs,
    workloads,
)

_FEW = 3
_OWNERS_OF_PODS = ("Job", "ReplicaSet", "StatefulSet")
"""Kinds of the objects that create the pods of main objects."""


class JobNotFound(NoSuchJob):
    """No job and no pod has the name."""


def find_job(scope: Scope, text: str, keys: Records) -> tuple[Job, str | None]:
    """Return the job with its pods, and the name of the pod if a pod was named.

    :param text: a job's id or name, or a pod's name (the JOB ID of ``get jobs``), optionally after ``job/``, ``pod/``
        or a kind (``training/``).
    :raises JobNotFound: no job or pod has the name.
    :raises NoSuchJob: the name is ambiguous, or the job has another kind.
    """
    job, pod = find_among(scope, jobs_with_names(scope, [text], keys), text, keys)
    if pod is None:
        add_refusals(scope, [job])
        add_prerequisites(scope, [job], keys)
    return job, pod


def find_among(scope: Scope, known: Iterable[Job], text: str, keys: Records) -> tuple[Job, str | None]:
    """Return what :func:`find_job` returns, without refusals and prerequisites of the job.

    :param known: result of :func:`jobs_with_names` for this text and others.
    """
    prefix, name = split_prefix(text)
    if prefix != "pod":
        job = select_job(scope, _meant(known, name), prefix, name)
        if job is not None:
            return job, None
    return _by_pod_or_object(scope, prefix, name, keys)


def find_each(scope: Scope, texts: Sequence[str], keys: Records) -> list[Job]:
    """Return the job of each text, as :func:`find_job` without refusals and prerequisites; the jobs are listed once.

    :raises NoSuchJob: see :func:`find_job`.
    """
    known = jobs_with_names(scope, texts, keys)
    return [find_among(scope, known, text, keys)[0] for text in texts]


def jobs_with_names(scope: Scope, texts: Iterable[str], keys: Records) -> list[Job]:
    """Return all jobs that the texts may mean as names, ids or names with a hash, one for each generation."""
    names = (text.rpartition("/")[2] for text in texts)
    apps = (app for name in names for app in (name, name_in_id(name), job_of_hashed_name(name)) if app)
    return _of_jobs(scope, dict.fromkeys(apps), keys)


def _by_pod_or_object(scope: Scope, prefix: str, name: str, keys: Records) -> tuple[Job, str | None]:
    """Return what :func:`find_among` returns for a name that no job has by its labels."""
    if prefix in ("", "pod"):
        named = scope.all("Pod", fields=f"metadata.name={name}") if is_dns_subdomain(name) else []
        pods = [pod for pod in named if identity_of(pod, keys)]
        if len(pods) > 1:
            raise several_pods(name, [pod["metadata"]["namespace"] for pod in pods])
        if pods:
            identity = identity_of(pods[0], keys)
            jobs = _of_jobs(scope, [identity.name if identity else name], keys)
            jobs = [job for job in jobs if job.identity == identity]
            # No job is found if the pod has no label `app` (a pod made by hand), or if the job has just been deleted.
            return (jobs or group_by_job([], pods, keys))[0], name
    mains = workloads(scope, keys)
    found = _by_object_name(scope, mains, name, keys) if prefix != "pod" else []
    job = select_job(scope, found, prefix, name)
    if job is not None:
        return job, None
    names = {labels_of(obj).get("app") or obj["metadata"]["name"] for obj in mains}
    absent = job_not_found(name, scope.searched, names, scope.elsewhere)
    if prefix != "pod":
        is_meant = partial(_is_meant, prefix=prefix, name=name, keys=keys)
        absent.hint = recovery_of_job(scope.session, keys, scope.searched, is_meant) or absent.hint
    raise absent


def _is_meant(entry: JournalEntry, prefix: str, name: str, keys: Records) -> bool:
    """Return True if an entry of a journal is the job that a name or id means."""
    identity = identity_of(entry.new or entry.old, keys) if entry.key.kind in WORKLOADS else None
    if identity is None or prefix not in ("", "job", identity.kind):
        return False
    return name in (identity.name, identity.object_name, id_of_uid(identity, entry.uid))


def _by_object_name(scope: Scope, mains: Iterable[Object], name: str, keys: Records) -> list[Job]:
    """Return the jobs whose main object has a name that differs from the label ``app``, or that lacks the label:
    another tool made it, or a user by hand.
    """
    mine = [obj for obj in mains if obj["metadata"]["name"] == name]
    apps = {labels_of(obj)["app"] for obj in mine if "app" in labels_of(obj)}
    bare = [obj for obj in mine if "app" not in labels_of(obj)]
    pods = scope.all("Pod", labels=f"{keys.job_type},!app") if bare else []
    jobs = [*_of_jobs(scope, sorted(apps), keys), *group_by_job(bare, pods, keys)]
    return [job for job in jobs if job.workload is not None and job.workload["metadata"]["name"] == name]


def split_prefix(text: str) -> tuple[str, str]:
    """Return the prefix ("", "job", "pod" or a kind) and the name of a text ``PREFIX/NAME``.

    :raises NoSuchJob: the prefix is unknown.
    """
    prefix, _, name = text.rpartition("/")
    if prefix and prefix not in GENERAL_PREFIXES and prefix not in JOB_KINDS:
        raise NoSuchJob(
            say("`{text}` is not the name of a job", text=text), say("write its name, `training/NAME`, or `pod/NAME`")
        )
    return "pod" if prefix in POD_PREFIXES else "job" if prefix == "jobs" else prefix, name


def select_job(scope: Scope, jobs: list[Job], prefix: str, name: str) -> Job | None:
    """Return the one job that a name or id means; None if ``jobs`` is empty.

    :param jobs: the jobs of that name or id.
    :param prefix: the prefix from :func:`split_prefix`, except "pod".
    :raises NoSuchJob: several jobs match, or none has the kind.
    """
    kind = prefix if prefix in JOB_KINDS else None
    found = [job for job in jobs if kind in (None, job.identity.kind)]
    if kind is None:
        _refuse_two_meanings(found, name)
    else:
        found = [job for job in found if job.identity.name == name] or found
    if len({(job.identity.namespace, job.identity.kind) for job in found}) > 1:
        titles = dict.fromkeys(
            say("{job} in {namespace}", job=f"{job.identity.kind}/{name}", namespace=job.identity.namespace)
            for job in found
        )
        raise SeveralJobs(say("there are several jobs {name}: {jobs}", name=name, jobs=[*titles]), _which(found))
    if found:
        job = newest_generation(found)
        _tell_others(scope, job, found)
        return job
    if jobs:
        raise NoSuchJob(
            say(
                "{name} in {namespace} is not a {kind} but {actual}/{name}",
                name=name,
                namespace=jobs[0].identity.namespace,
                kind=kind,
                actual=jobs[0].identity.kind,
            )
        )
    return None


def several_pods(name: str, namespaces: Iterable[str]) -> SeveralJobs:
    """Return the error for a pod name that exists in several namespaces."""
    return SeveralJobs(
        say("there are several pods {name}: in {namespaces}", name=name, namespaces=[*namespaces]),
        say("say which {how}", how=IN_NAMESPACE),
    )


def job_not_found(name: str, namespace: str | None, names: Iterable[str], more: str = "") -> JobNotFound:
    """Return the error for a name that no job or pod has; see :func:`missing_job`."""
    return JobNotFound(*missing_job(Template("there is no job or pod {name} {where}"), name, namespace, names, more))


def name_of_id(scope: Scope, text: str, keys: Records) -> str:
    """Return ``KIND/NAME`` if the text is a job's id, otherwise the text unchanged.

    :raises SeveralJobs: the text is also the name of another job.
    """
    if "/" in text or name_in_id(text) is None:
        return text
    found = _meant(jobs_with_names(scope, [text], keys), text)
    _refuse_two_meanings(found, text)
    meant = {job.identity.title for job in found if job.identity.name != text}
    return meant.pop() if len(meant) == 1 else text


def find_jobs(scope: Scope, names: Iterable[str], keys: Records, selector: str = "") -> list[Job]:
    """Return all jobs with the names, ids, or ``KIND/NAME``, in every namespace. A pod's name stands for its job.

    :param selector: label selector that limits the jobs.
    :raises JobNotFound: no job or pod has one of the names.
    :raises NoSuchJob: the job of a ``KIND/NAME`` has another kind.
    """
    texts = list(dict.fromkeys(map(without_general_prefix, names)))
    bare = [text.rpartition("/")[2] for text in texts]
    apps = dict.fromkeys(filter(_is_app, [*bare, *filter(None, map(name_in_id, bare))]))
    wanted = ",".join(part for part in (f"app in ({','.join(apps)})", selector) if part)
    known = read_jobs(scope, keys, wanted) if apps else []
    words = {job.identity: _words(job) for job in known}
    jobs = {job.identity: job for job in known if not words[job.identity].isdisjoint(texts)}
    there = {word for identity in jobs for word in words[identity]}
    others = [text for text in texts if text not in there]
    whole = [text for text in others if "/" in text or job_of_hashed_name(text) is not None]
    found = find_each(scope, whole, keys)
    found += [_by_pod_or_object(scope, "", text, keys)[0] for text in others if text not in whole]
    add_refusals(scope, found)
    add_prerequisites(scope, found, keys)
    for job in found:
        jobs.setdefault(job.identity, job)
    return [jobs[identity] for identity in sorted(jobs)]


def _words(job: Job) -> set[str]:
    """Return the texts that mean a job, each also after its kind."""
    words = {job.identity.name, job.identity.object_name, job_id(job)}
    return words | {f"{job.identity.kind}/{word}" for word in words}


def at_run_of(scope: Scope, job: Job, pod: str | None) -> Job:
    """Return a scheduled job with one run as main object: that of a pod that the user names, else the newest.

    Other jobs are returned unchanged.
    """
    newest, name = job.of_newest_run(), (pod or "").rpartition("/")[2]
    if not job.runs or not is_dns_subdomain(name) or any(own["metadata"]["name"] == name for own in newest.pods):
        return newest
    runs = {run["metadata"]["uid"]: run for run in job.runs}
    for found in Scope(scope.session, job.identity.namespace).all("Pod", fields=f"metadata.name={name}"):
        run = runs.get(controller_uid(found))
        if run is not None:
            return Job(job.identity, run, [found])
    return newest


def workload_of(job: Job) -> Object:
    """Return a job's main object.

    :raises NoSuchJob: only pods are left, or the main object was created after it was listed.
    """
    if job.workload is not None:
        return job.workload
    whose = say("of {job} in {namespace}", job=job.identity.name, namespace=job.identity.namespace)
    owners = {(owner["kind"], owner["name"]) for pod in job.pods if (owner := controller_of(pod)) is not None}
    foreign = sorted(f"{kind}/{name}" for kind, name in owners if kind not in _OWNERS_OF_PODS)
    if foreign:
        raise NoSuchJob(
            say("pods {whose} belong to {owners:few}, which gpuctl does not change", whose=whose, owners=foreign),
            say("use the tool that created it"),
        )
    if job.pods and all(map(is_controlled, job.pods)):
        # Pods and workloads are listed at different times. Kubernetes deletes the pods of a deleted workload.
        later = say("if you have just created it, try again; otherwise Kubernetes deletes the pods")
        raise NoSuchJob(
            say("only pods {whose} are seen: their controller is gone, or not visible yet", whose=whose), later
        )
    names = [pod["metadata"]["name"] for pod in job.pods]
    which = " ".join(names) if len(names) <= _FEW else f"-l app={job.identity.name}"
    end = kubectl_line("delete pod", which, f"-n {job.identity.namespace}")
    hint = say("{command} ends what runs", command=end) if names else None
    raise NoSuchJob(say("only pods {whose} are left", whose=whose), hint)


def _which(jobs: list[Job]) -> str:
    """Return how to name one of several jobs unambiguously."""
    ways = [say("{how}", how=IN_NAMESPACE)] if len({job.identity.namespace for job in jobs}) > 1 else []
    ways += [say("as KIND/NAME")] if len({job.identity.kind for job in jobs}) > 1 else []
    return say("say which {how}", how=say(", or ").join(ways))


def _tell_others(scope: Scope, job: Job, found: Iterable[Job]) -> None:
    """Note other objects of the same name: two generations exist while a GitOps controller replaces a training."""
    title = job.identity.title
    for other in found:
        if other.identity == job.identity:
            continue
        if job.workload is not None and other.workload is not None and not is_generation(other.identity):
            own, another = (f"{item['kind']}/{item['metadata']['name']}" for item in (job.workload, other.workload))
            scope.note(say("{job} is {own} here; {other} has its label `app`, too", job=title, own=own, other=another))
        else:
            leaving = other.workload is None or other.workload["metadata"].get("deletionTimestamp")
            state = say("is being deleted") if leaving else say("is there too")
            own, old = job.identity.object_name, other.identity.object_name
            scope.note(
                say(
                    "{job} is {own} here, the newer one; {old} {state}: `{old}` as the name means that one",
                    job=title,
                    own=own,
                    old=old,
                    state=state,
                )
            )


def _refuse_two_meanings(found: Iterable[Job], text: str) -> None:
    """Check that a text is not the name of one job and the id of another.

    :raises SeveralJobs: it is both.
    """
    by_name = [job for job in found if job.identity.name == text]
    by_id = [job for job in found if job.identity.name != text and job.identity.generation != text]
    if by_name and by_id:
        named, meant = by_name[0].identity, by_id[0].identity
        raise ambiguous_text(text, (named.kind, named.name, named.namespace), (meant.kind, meant.name, meant.namespace))


def ambiguous_text(text: str, named: tuple[str, str, str], meant: tuple[str, str, str]) -> SeveralJobs:
    """Return the error for a text that is the name of one job and the id of another; each is kind, name, namespace."""
    by_name, by_id = (f"{kind}/{name}" for kind, name, _ in (named, meant))
    return SeveralJobs(
        say(
            "{text} is the name of {job} in {namespace} and the job id of {other} in {elsewhere}",
            text=text,
            job=by_name,
            namespace=named[2],
            other=by_id,
            elsewhere=meant[2],
        ),
        say("write {job} or {other}", job=by_name, other=by_id),
    )


def _meant(known: Iterable[Job], name: str) -> list[Job]:
    """Return all jobs with a name or id, in all namespaces. A name with a hash means one generation."""
    known = list(known)
    found = [job for job in known if name in (job.identity.name, job_id(job))]
    if found or job_of_hashed_name(name) is None:
        return found
    return [job for job in known if job.identity.generation == name]


def _of_jobs(scope: Scope, names: Iterable[str], keys: Records) -> list[Job]:
    """Return all jobs with one of the names, one for each generation."""
    legal = list(filter(_is_app, names))
    if not legal:
        return []
    selector = f"{keys.job_type},app={legal[0]}" if len(legal) == 1 else f"{keys.job_type},app in ({','.join(legal)})"
    listed = scope.lists([*WORKLOADS, "Pod"], labels=selector)
    # A JobSet's Jobs carry its labels.
    return group_by_job([obj for items in listed[:-1] for obj in items if is_part_of_job(obj)], listed[-1], keys)


def _is_app(text: str) -> bool:
    """Return True if a text can be the value of the label ``app``: the API server refuses a selector of any other."""
    return bool(text) and is_label_value(text)
