# Written by tools/sdk.py from schemas/rest/openapi.json: `make schemas`.
"""The operations of the API, as methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from gpuctl_sdk import models
from gpuctl_sdk.calls import Call, given, idempotency, segment
from gpuctl_sdk.documents import Documents, as_yaml


class Operations(ABC):
    """Every operation of the API.

    A job is named by its jobId, its name, or the name of one of its pods. Documents are YAML text or mappings, one or
    several. All methods raise :class:`~gpuctl_sdk.errors.ServiceError` for an error response, and
    :class:`~gpuctl_sdk.errors.Unreachable` if there is no response.
    """

    @abstractmethod
    def send(self, call: Call) -> Any:
        """Send a request and return its response, of the type ``call.answer``."""

    def list_jobs(
        self,
        *,
        kind: str | None = None,
        pool: str | None = None,
        status: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.JobPage:
        """The jobs that may be seen, the newest first.

        :param name: Only jobs of this id or name, or with a pod of this name.
        :param page: Which page, from 1.
        :param page_size: Items of a page.
        """
        found: models.JobPage = self.send(
            Call(
                "GET",
                "/jobs",
                models.JobPage,
                query=given(
                    {
                        "kind": kind,
                        "pool": pool,
                        "status": status,
                        "namespace": namespace,
                        "name": name,
                        "page": page,
                        "pageSize": page_size,
                    }
                ),
            )
        )
        return found

    def all_jobs(
        self,
        *,
        kind: str | None = None,
        pool: str | None = None,
        status: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        page_size: int = 500,
    ) -> Iterator[models.JobItem]:
        """Iterate over the items of all pages of :meth:`list_jobs`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = self.list_jobs(
                kind=kind, pool=pool, status=status, namespace=namespace, name=name, page=number, page_size=page_size
            )
            yield from found.items
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    def create_jobs(
        self,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        confirm: bool | None = None,
        queue: bool | None = None,
        idempotency_key: str | None = None,
    ) -> models.Submitted:
        """Create what documents describe; what exists already is 409. With ``dryRun`` they are only checked.

        :param dry_run: Only check them; nothing is written.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param idempotency_key: Key of this request; default: a random one, so that it can be retried.
        """
        found: models.Submitted = self.send(
            Call(
                "POST",
                "/jobs",
                models.Submitted,
                query=given({"confirm": confirm, "queue": queue}),
                body=given({"yamlContent": as_yaml(documents), "dryRun": dry_run}),
                headers=idempotency(idempotency_key),
            )
        )
        return found

    def get_job(self, job_id: str, *, namespace: str | None = None) -> models.JobDescription:
        """A job, with its document and its pods.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        """
        found: models.JobDescription = self.send(
            Call("GET", f"/jobs/{segment(job_id)}", models.JobDescription, query=given({"namespace": namespace}))
        )
        return found

    def update_job(
        self,
        job_id: str,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        namespace: str | None = None,
        confirm: bool | None = None,
        queue: bool | None = None,
        checkpoint: bool | None = None,
    ) -> models.ChangedJob:
        """Apply the changed document of a job. What ends running work has to be confirmed.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param dry_run: Only check them; nothing is written.
        :param namespace: Where the job is, if its name is in several.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        """
        found: models.ChangedJob = self.send(
            Call(
                "PUT",
                f"/jobs/{segment(job_id)}",
                models.ChangedJob,
                query=given({"namespace": namespace, "confirm": confirm, "queue": queue, "checkpoint": checkpoint}),
                body=given({"yamlContent": as_yaml(documents), "dryRun": dry_run}),
            )
        )
        return found

    def delete_job(
        self,
        job_id: str,
        *,
        namespace: str | None = None,
        force: bool | None = None,
        checkpoint: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.JobState:
        """Have a job deleted.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is, if its name is in several.
        :param force: End the pods without their grace period.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.JobState = self.send(
            Call(
                "DELETE",
                f"/jobs/{segment(job_id)}",
                models.JobState,
                query=given({"namespace": namespace, "force": force, "checkpoint": checkpoint, "dryRun": dry_run}),
            )
        )
        return found

    def list_pods(
        self,
        *,
        names: str | None = None,
        selector: str | None = None,
        kind: str | None = None,
        pool: str | None = None,
        status: str | None = None,
        namespace: str | None = None,
        by_job: bool | None = None,
        pods_only: bool | None = None,
        reasons: bool | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.PodPage:
        """The pods of the jobs that may be seen, by namespace and name; an item for what a job lacks of its pods.

        :param names: Ids or names of jobs, or names of their pods, separated by commas. Each has to exist.
        :param selector: Labels, as kubectl's `-l` has them.
        :param status: A status word or a phase, in any case.
        :param by_job: One item per job; `ready` counts its pods.
        :param pods_only: Without items for the pods that jobs lack.
        :param reasons: Explain pending pods as `GET /jobs/{jobId}/why` does, which takes longer.
        :param page: Which page, from 1.
        :param page_size: Items of a page.
        """
        found: models.PodPage = self.send(
            Call(
                "GET",
                "/pods",
                models.PodPage,
                query=given(
                    {
                        "names": names,
                        "selector": selector,
                        "kind": kind,
                        "pool": pool,
                        "status": status,
                        "namespace": namespace,
                        "byJob": by_job,
                        "podsOnly": pods_only,
                        "reasons": reasons,
                        "page": page,
                        "pageSize": page_size,
                    }
                ),
            )
        )
        return found

    def all_pods(
        self,
        *,
        names: str | None = None,
        selector: str | None = None,
        kind: str | None = None,
        pool: str | None = None,
        status: str | None = None,
        namespace: str | None = None,
        by_job: bool | None = None,
        pods_only: bool | None = None,
        reasons: bool | None = None,
        page_size: int = 500,
    ) -> Iterator[models.ListedPod]:
        """Iterate over the items of all pages of :meth:`list_pods`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = self.list_pods(
                names=names,
                selector=selector,
                kind=kind,
                pool=pool,
                status=status,
                namespace=namespace,
                by_job=by_job,
                pods_only=pods_only,
                reasons=reasons,
                page=number,
                page_size=page_size,
            )
            yield from found.items
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    def get_gpu_use(self, *, namespace: str | None = None) -> models.GpusOfJobs:
        """The GPUs that jobs hold and wait for: the jobs that may be seen."""
        found: models.GpusOfJobs = self.send(
            Call("GET", "/gpu-use", models.GpusOfJobs, query=given({"namespace": namespace}))
        )
        return found

    def get_job_why(self, job_id: str, *, namespace: str | None = None) -> models.WhyAnswer:
        """The cause of a job's state with its numbers and evidence, what was ruled out, and what helps.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is.
        """
        found: models.WhyAnswer = self.send(
            Call("GET", f"/jobs/{segment(job_id)}/why", models.WhyAnswer, query=given({"namespace": namespace}))
        )
        return found

    def get_job_timeline(self, job_id: str, *, namespace: str | None = None) -> models.JobTimeline:
        """The history of a job: the stages of its pods, the conditions of its workload, and its events.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is.
        """
        found: models.JobTimeline = self.send(
            Call("GET", f"/jobs/{segment(job_id)}/timeline", models.JobTimeline, query=given({"namespace": namespace}))
        )
        return found

    def get_job_details(self, job_id: str, *, namespace: str | None = None) -> models.JobDetails:
        """The full description of a job: its pods, timeline, addresses and events, and the cause that keeps it
        waiting.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is.
        """
        found: models.JobDetails = self.send(
            Call("GET", f"/jobs/{segment(job_id)}/details", models.JobDetails, query=given({"namespace": namespace}))
        )
        return found

    def get_job_history(self, job_id: str, *, namespace: str | None = None) -> models.JobDocuments:
        """Which documents of a job were applied, the newest first: by whom, when, from which commit, and what each
        changed. A job that has gone has its history still, by its name.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is, if its name is in several.
        """
        found: models.JobDocuments = self.send(
            Call("GET", f"/jobs/{segment(job_id)}/history", models.JobDocuments, query=given({"namespace": namespace}))
        )
        return found

    def get_job_revision(self, job_id: str, revision: int, *, namespace: str | None = None) -> models.JobRevision:
        """One of the documents of a job that were applied, without its credentials.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param revision: Its number.
        :param namespace: Where the job is, if its name is in several.
        """
        found: models.JobRevision = self.send(
            Call(
                "GET",
                f"/jobs/{segment(job_id)}/history/{segment(revision)}",
                models.JobRevision,
                query=given({"namespace": namespace}),
            )
        )
        return found

    def wait_jobs(
        self,
        *,
        jobs: Sequence[Mapping[str, Any]],
        condition: str,
        timeout: float | None = None,
        limit: float | None = None,
        waited: float | None = None,
    ) -> models.JobsWaitAnswer:
        """Wait until the first of several jobs are in a condition, or cannot be. Ask again for the others.

        :param condition: `started`: all pods are ready, or the job needs none, as it has finished or is paused.
        :param timeout: Seconds until this request is answered at the latest.
        :param limit: Seconds after which a job is late, in all requests together; without it never.
        :param waited: Seconds of `limit` that earlier requests have waited.
        """
        found: models.JobsWaitAnswer = self.send(
            Call(
                "POST",
                "/jobs/wait",
                models.JobsWaitAnswer,
                body=given(
                    {"jobs": list(jobs), "condition": condition, "timeout": timeout, "limit": limit, "waited": waited}
                ),
            )
        )
        return found

    def wait_job(
        self, job_id: str, *, condition: str, timeout: float | None = None, namespace: str | None = None
    ) -> models.WaitAnswer:
        """Wait until a job runs, is ready, done or deleted, or until it can no longer become so.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param timeout: Seconds.
        :param namespace: Where the job is.
        """
        found: models.WaitAnswer = self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/wait",
                models.WaitAnswer,
                query=given({"namespace": namespace}),
                body=given({"condition": condition, "timeout": timeout}),
            )
        )
        return found

    def apply_documents(
        self,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        files: Sequence[dict[str, Any]] | None = None,
        platform: dict[str, Any] | None = None,
        confirmed: Sequence[str] | None = None,
        confirm: bool | None = None,
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
        namespace: str | None = None,
        strict: bool | None = None,
        queue: bool | None = None,
        strategy: str | None = None,
        relower: bool | None = None,
        no_probe: bool | None = None,
        create_namespace: bool | None = None,
        create_only: bool | None = None,
    ) -> models.PlanAnswer:
        """Create and change what documents describe. What ends running work has to be confirmed.

        :param dry_run: Only check them; nothing is written.
        :param platform: The platform file beside the documents. It is not used; a message says how it differs from
            the service's.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        :param force: End the pods without their grace period.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        :param namespace: The namespace of jobs whose documents name none.
        :param strict: Reject documents with warnings.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param strategy: How a changed service is changed.
        :param relower: Change objects also if only a newer gpuctl makes others of their documents.
        :param no_probe: Make it a note, not an error, when a trial pod is refused.
        :param create_namespace: Create also a namespace that no document names.
        :param create_only: Reject documents whose objects exist already.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/apply",
                models.PlanAnswer,
                query=given(
                    {
                        "confirm": confirm,
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                        "namespace": namespace,
                        "strict": strict,
                        "queue": queue,
                        "strategy": strategy,
                        "relower": relower,
                        "noProbe": no_probe,
                        "createNamespace": create_namespace,
                        "createOnly": create_only,
                    }
                ),
                body=given(
                    {
                        "yamlContent": as_yaml(documents),
                        "dryRun": dry_run,
                        "files": None if files is None else list(files),
                        "platform": platform,
                        "confirmed": None if confirmed is None else list(confirmed),
                    }
                ),
                repeatable=False,
            )
        )
        return found

    def delete_documents(
        self,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        files: Sequence[dict[str, Any]] | None = None,
        platform: dict[str, Any] | None = None,
        confirmed: Sequence[str] | None = None,
        confirm: bool | None = None,
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
        keep_labels: bool | None = None,
        namespace: str | None = None,
        strict: bool | None = None,
    ) -> models.PlanAnswer:
        """Delete what documents describe, and wait until it is gone.

        :param dry_run: Only check them; nothing is written.
        :param platform: The platform file beside the documents. It is not used; a message says how it differs from
            the service's.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        :param force: End the pods without their grace period.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        :param keep_labels: Leave the labels of a pool on its nodes.
        :param namespace: The namespace of jobs whose documents name none.
        :param strict: Reject documents with warnings.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/delete",
                models.PlanAnswer,
                query=given(
                    {
                        "confirm": confirm,
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                        "keepLabels": keep_labels,
                        "namespace": namespace,
                        "strict": strict,
                    }
                ),
                body=given(
                    {
                        "yamlContent": as_yaml(documents),
                        "dryRun": dry_run,
                        "files": None if files is None else list(files),
                        "platform": platform,
                        "confirmed": None if confirmed is None else list(confirmed),
                    }
                ),
                repeatable=False,
            )
        )
        return found

    def plan_documents(
        self,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        files: Sequence[dict[str, Any]] | None = None,
        platform: dict[str, Any] | None = None,
        confirmed: Sequence[str] | None = None,
        checkpoint: bool | None = None,
        show: str | None = None,
        namespace: str | None = None,
        strict: bool | None = None,
        queue: bool | None = None,
        strategy: str | None = None,
        relower: bool | None = None,
        no_probe: bool | None = None,
        create_namespace: bool | None = None,
        create_only: bool | None = None,
    ) -> models.PlanAnswer:
        """Return what applying documents would do; nothing is written.

        :param dry_run: Only check them; nothing is written.
        :param platform: The platform file beside the documents. It is not used; a message says how it differs from
            the service's.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        :param show: `objects`: answer each object before and after, masked.
        :param namespace: The namespace of jobs whose documents name none.
        :param strict: Reject documents with warnings.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param strategy: How a changed service is changed.
        :param relower: Change objects also if only a newer gpuctl makes others of their documents.
        :param no_probe: Make it a note, not an error, when a trial pod is refused.
        :param create_namespace: Create also a namespace that no document names.
        :param create_only: Reject documents whose objects exist already.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/plan",
                models.PlanAnswer,
                query=given(
                    {
                        "checkpoint": checkpoint,
                        "show": show,
                        "namespace": namespace,
                        "strict": strict,
                        "queue": queue,
                        "strategy": strategy,
                        "relower": relower,
                        "noProbe": no_probe,
                        "createNamespace": create_namespace,
                        "createOnly": create_only,
                    }
                ),
                body=given(
                    {
                        "yamlContent": as_yaml(documents),
                        "dryRun": dry_run,
                        "files": None if files is None else list(files),
                        "platform": platform,
                        "confirmed": None if confirmed is None else list(confirmed),
                    }
                ),
            )
        )
        return found

    def create_job_batch(
        self,
        documents: Sequence[Documents],
        *,
        dry_run: bool | None = None,
        confirm: bool | None = None,
        queue: bool | None = None,
        idempotency_key: str | None = None,
    ) -> models.Batch:
        """Create what each entry describes, each on its own: what failed says why. With ``dryRun`` only check them.

        :param dry_run: Only check them; nothing is written.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param idempotency_key: Key of this request; default: a random one, so that it can be retried.
        """
        found: models.Batch = self.send(
            Call(
                "POST",
                "/jobs/batch",
                models.Batch,
                query=given({"confirm": confirm, "queue": queue}),
                body=given({"yamlContents": [as_yaml(entry) for entry in documents], "dryRun": dry_run}),
                headers=idempotency(idempotency_key),
            )
        )
        return found

    def delete_jobs(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        namespace: str | None = None,
        confirm: bool | None = None,
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
    ) -> models.PlanAnswer:
        """Delete jobs, and wait until they are gone.

        :param dry_run: Only check; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param names: Names; for jobs also a jobId, KIND/NAME or the name of a pod.
        :param namespace: Where the job is, if its name is in several.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        :param force: End the pods without their grace period.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/jobs/delete",
                models.PlanAnswer,
                query=given(
                    {
                        "namespace": namespace,
                        "confirm": confirm,
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                    }
                ),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
            )
        )
        return found

    def rerun_jobs(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        namespace: str | None = None,
        confirm: bool | None = None,
        queue: bool | None = None,
        timeout: float | None = None,
    ) -> models.PlanAnswer:
        """Run trainings again that have ended. One that has gone is named alone, and has to be confirmed.

        :param dry_run: Only check; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param names: Names; for jobs also a jobId, KIND/NAME or the name of a pod.
        :param namespace: Where the job is, if its name is in several.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/jobs/rerun",
                models.PlanAnswer,
                query=given({"namespace": namespace, "confirm": confirm, "queue": queue, "timeout": timeout}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
            )
        )
        return found

    def pause_jobs(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        namespace: str | None = None,
        checkpoint: bool | None = None,
    ) -> models.PausedJobs:
        """End the pods of jobs, one job after another, and keep the jobs. A failure has the jobs before it in
        ``items``.

        :param dry_run: Only check; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param names: Names; for jobs also a jobId, KIND/NAME or the name of a pod.
        :param namespace: Where the job is, if its name is in several.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        """
        found: models.PausedJobs = self.send(
            Call(
                "POST",
                "/jobs/pause",
                models.PausedJobs,
                query=given({"namespace": namespace, "checkpoint": checkpoint}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
            )
        )
        return found

    def resume_jobs(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        namespace: str | None = None,
        confirm: bool | None = None,
    ) -> models.PausedJobs:
        """Let paused jobs make their pods again. Evicting others has to be confirmed.

        :param dry_run: Only check; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param names: Names; for jobs also a jobId, KIND/NAME or the name of a pod.
        :param namespace: Where the job is, if its name is in several.
        :param confirm: What a plan asks is confirmed: running work may end.
        """
        found: models.PausedJobs = self.send(
            Call(
                "POST",
                "/jobs/resume",
                models.PausedJobs,
                query=given({"namespace": namespace, "confirm": confirm}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
            )
        )
        return found

    def pause_job(
        self, job_id: str, *, namespace: str | None = None, checkpoint: bool | None = None, dry_run: bool | None = None
    ) -> models.JobState:
        """End a job's pods, which frees its GPUs, and keep the job.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is, if its name is in several.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.JobState = self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/pause",
                models.JobState,
                query=given({"namespace": namespace, "checkpoint": checkpoint, "dryRun": dry_run}),
            )
        )
        return found

    def resume_job(
        self, job_id: str, *, namespace: str | None = None, confirm: bool | None = None, dry_run: bool | None = None
    ) -> models.JobState:
        """Let a paused job make its pods again. Evicting others has to be confirmed.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is, if its name is in several.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.JobState = self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/resume",
                models.JobState,
                query=given({"namespace": namespace, "confirm": confirm, "dryRun": dry_run}),
            )
        )
        return found

    def rerun_job(
        self,
        job_id: str,
        *,
        namespace: str | None = None,
        confirm: bool | None = None,
        queue: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.RerunJob:
        """Run a training again that has ended. One that has gone runs by its last document, which has to be confirmed.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is, if its name is in several.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.RerunJob = self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/rerun",
                models.RerunJob,
                query=given({"namespace": namespace, "confirm": confirm, "queue": queue, "dryRun": dry_run}),
                repeatable=False,
            )
        )
        return found

    def rollback_job(
        self,
        job_id: str,
        *,
        namespace: str | None = None,
        to: int | None = None,
        confirm: bool | None = None,
        queue: bool | None = None,
        strategy: str | None = None,
        no_probe: bool | None = None,
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
        dry_run: bool | None = None,
    ) -> models.ChangedJob:
        """Apply an earlier document of a job again. It has to be confirmed, and may be of a job that has gone.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is, if its name is in several.
        :param to: The revision of its history. Default: the newest that is another.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param strategy: How a changed service is changed.
        :param no_probe: Make it a note, not an error, when a trial pod is refused.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        :param force: End the pods without their grace period.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.ChangedJob = self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/rollback",
                models.ChangedJob,
                query=given(
                    {
                        "namespace": namespace,
                        "to": to,
                        "confirm": confirm,
                        "queue": queue,
                        "strategy": strategy,
                        "noProbe": no_probe,
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                        "dryRun": dry_run,
                    }
                ),
                repeatable=False,
            )
        )
        return found

    def recover(
        self,
        *,
        namespace: str | None = None,
        confirm: bool | None = None,
        timeout: float | None = None,
        dry_run: bool | None = None,
    ) -> models.Recoveries:
        """Finish what killed runs left. The creation of objects has to be confirmed.

        :param namespace: Where the job is, if its name is in several.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.Recoveries = self.send(
            Call(
                "POST",
                "/recoveries",
                models.Recoveries,
                query=given({"namespace": namespace, "confirm": confirm, "timeout": timeout, "dryRun": dry_run}),
                repeatable=False,
            )
        )
        return found

    def list_recoveries(self, *, namespace: str | None = None) -> models.Recoveries:
        """List interrupted runs, and what a recovery would do.

        :param namespace: Where the job is, if its name is in several.
        """
        found: models.Recoveries = self.send(
            Call("GET", "/recoveries", models.Recoveries, query=given({"namespace": namespace}))
        )
        return found

    def get_job_logs(
        self,
        job_id: str,
        *,
        tail: int | None = None,
        pod: str | None = None,
        since: str | None = None,
        grep: str | None = None,
        container: str | None = None,
        previous: bool | None = None,
        namespace: str | None = None,
    ) -> models.LogsValue:
        """What the pods of a job have printed, in the order of time.

        :param job_id: A job's id, its name, or the name of one of its pods.
        :param tail: How many of the last lines of each pod. Default: 100; with `since` all.
        :param pod: Only of this pod: its name, its index in the job, or the end of its name.
        :param since: Lines not older than this: a length of time (10m, 1h30m), or a time.
        :param grep: Only lines that contain this text, exactly as it is.
        :param container: Another container than the job's own.
        :param previous: Of the run before the container was restarted.
        :param namespace: Where the job has to be.
        """
        found: models.LogsValue = self.send(
            Call(
                "GET",
                f"/jobs/{segment(job_id)}/logs",
                models.LogsValue,
                query=given(
                    {
                        "tail": tail,
                        "pod": pod,
                        "since": since,
                        "grep": grep,
                        "container": container,
                        "previous": previous,
                        "namespace": namespace,
                    }
                ),
            )
        )
        return found

    def get_job_metrics(
        self,
        job_id: str,
        *,
        metric: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        namespace: str | None = None,
    ) -> dict[str, list[models.MetricPoint]]:
        """What is measured of a job over time, at most 500 points of each metric.

        :param job_id: A job's id, its name, or the name of one of its pods.
        :param metric: Of this metric alone: gpuUtilization (percent), memoryUsage (GiB of a GPU), throughput, or
            another that is set.
        :param start_time: From when on, RFC 3339. Default: the job's start.
        :param end_time: Until when. Default: now.
        :param namespace: Where the job has to be.
        """
        found: dict[str, list[models.MetricPoint]] = self.send(
            Call(
                "GET",
                f"/jobs/{segment(job_id)}/metrics",
                dict[str, list[models.MetricPoint]],
                query=given({"metric": metric, "startTime": start_time, "endTime": end_time, "namespace": namespace}),
            )
        )
        return found

    def list_pools(self) -> models.PoolList:
        """The pools by name; `default` has the nodes that are in no other."""
        found: models.PoolList = self.send(Call("GET", "/pools", models.PoolList))
        return found

    def create_pool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        nodes: Sequence[str] | None = None,
        gpu_type: Sequence[str] | None = None,
        quota: dict[str, Any] | None = None,
        dry_run: bool | None = None,
        confirm: bool | None = None,
    ) -> models.Administered:
        """Create a pool, and label its nodes.

        :param name: Its name; of a pool that is changed, that of the path.
        :param nodes: Its nodes, by name.
        :param gpu_type: The types of its GPUs.
        :param quota: Limits of a pool.
        :param dry_run: Only check; nothing is written.
        :param confirm: What a plan asks is confirmed: running work may end.
        """
        found: models.Administered = self.send(
            Call(
                "POST",
                "/pools",
                models.Administered,
                query=given({"confirm": confirm}),
                body=given(
                    {
                        "name": name,
                        "description": description,
                        "nodes": None if nodes is None else list(nodes),
                        "gpuType": None if gpu_type is None else list(gpu_type),
                        "quota": quota,
                        "dryRun": dry_run,
                    }
                ),
                repeatable=False,
            )
        )
        return found

    def get_pool(self, pool_name: str) -> models.PoolDetail:
        """A pool: its nodes, its GPUs by type, and of the jobs in it those that may be seen.

        :param pool_name: The pool.
        """
        found: models.PoolDetail = self.send(Call("GET", f"/pools/{segment(pool_name)}", models.PoolDetail))
        return found

    def update_pool(
        self,
        pool_name: str,
        *,
        name: str | None = None,
        description: str | None = None,
        nodes: Sequence[str] | None = None,
        gpu_type: Sequence[str] | None = None,
        quota: dict[str, Any] | None = None,
        dry_run: bool | None = None,
        confirm: bool | None = None,
    ) -> models.ChangedPool:
        """Change a pool: nodes that it no longer names leave it.

        :param name: Its name; of a pool that is changed, that of the path.
        :param nodes: Its nodes, by name.
        :param gpu_type: The types of its GPUs.
        :param quota: Limits of a pool.
        :param dry_run: Only check; nothing is written.
        :param confirm: What a plan asks is confirmed: running work may end.
        """
        found: models.ChangedPool = self.send(
            Call(
                "PUT",
                f"/pools/{segment(pool_name)}",
                models.ChangedPool,
                query=given({"confirm": confirm}),
                body=given(
                    {
                        "name": name,
                        "description": description,
                        "nodes": None if nodes is None else list(nodes),
                        "gpuType": None if gpu_type is None else list(gpu_type),
                        "quota": quota,
                        "dryRun": dry_run,
                    }
                ),
            )
        )
        return found

    def delete_pool(
        self, pool_name: str, *, confirm: bool | None = None, dry_run: bool | None = None
    ) -> models.Administered:
        """Delete a pool; its nodes lose its label, its jobs go on running.

        :param confirm: What a plan asks is confirmed: running work may end.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.Administered = self.send(
            Call(
                "DELETE",
                f"/pools/{segment(pool_name)}",
                models.Administered,
                query=given({"confirm": confirm, "dryRun": dry_run}),
            )
        )
        return found

    def list_nodes_with_label(
        self, *, key: str, page: int | None = None, page_size: int | None = None
    ) -> models.LabelPage:
        """One label of all nodes that have it.

        :param key: The label's key.
        :param page: Which page, from 1.
        :param page_size: Items of a page.
        """
        found: models.LabelPage = self.send(
            Call(
                "GET", "/nodes/labels", models.LabelPage, query=given({"key": key, "page": page, "pageSize": page_size})
            )
        )
        return found

    def all_nodes_with_label(self, *, key: str, page_size: int = 500) -> Iterator[models.NodeLabel]:
        """Iterate over the items of all pages of :meth:`list_nodes_with_label`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = self.list_nodes_with_label(key=key, page=number, page_size=page_size)
            yield from found.items
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    def list_gpu_labels(self, *, page: int | None = None, page_size: int | None = None) -> models.GpuLabelPage:
        """The labels of all nodes that tell a type of GPU, and the pools.

        :param page: Which page, from 1.
        :param page_size: Items of a page.
        """
        found: models.GpuLabelPage = self.send(
            Call("GET", "/nodes/labels/all", models.GpuLabelPage, query=given({"page": page, "pageSize": page_size}))
        )
        return found

    def all_gpu_labels(self, *, page_size: int = 500) -> Iterator[models.GpuLabels]:
        """Iterate over the items of all pages of :meth:`list_gpu_labels`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = self.list_gpu_labels(page=number, page_size=page_size)
            yield from found.items
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    def list_node_labels(self, node_name: str) -> models.LabelPage:
        """All labels of a node, by key.

        :param node_name: The node.
        """
        found: models.LabelPage = self.send(Call("GET", f"/nodes/{segment(node_name)}/labels", models.LabelPage))
        return found

    def set_node_label(
        self, node_name: str, *, key: str, value: str, overwrite: bool | None = None, dry_run: bool | None = None
    ) -> models.SetLabel:
        """Set a label of a node. One that has another value stays without `overwrite`: 409, `LabelConflict`.

        :param node_name: The node.
        :param key: The label's key.
        :param value: Its value.
        :param overwrite: Replace another value.
        :param dry_run: Only check; nothing is written.
        """
        found: models.SetLabel = self.send(
            Call(
                "POST",
                f"/nodes/{segment(node_name)}/labels",
                models.SetLabel,
                body=given({"key": key, "value": value, "overwrite": overwrite, "dryRun": dry_run}),
            )
        )
        return found

    def get_node_label(self, node_name: str, key: str) -> models.KeptLabel:
        """A label of a node. It was there by `createdAt`, and has not changed since `lastUpdatedAt`.

        :param node_name: The node.
        :param key: The label's key.
        """
        found: models.KeptLabel = self.send(
            Call("GET", f"/nodes/{segment(node_name)}/labels/{segment(key)}", models.KeptLabel)
        )
        return found

    def delete_node_label(self, node_name: str, key: str, *, dry_run: bool | None = None) -> models.DeletedLabel:
        """Delete a label of a node.

        :param node_name: The node.
        :param key: The label's key.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.DeletedLabel = self.send(
            Call(
                "DELETE",
                f"/nodes/{segment(node_name)}/labels/{segment(key)}",
                models.DeletedLabel,
                query=given({"dryRun": dry_run}),
            )
        )
        return found

    def set_label_of_nodes(
        self,
        *,
        key: str,
        value: str,
        node_names: Sequence[str],
        overwrite: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.BatchReport:
        """Set a label of several nodes: what can be done is done, the rest is in `failed`.

        :param key: The label's key.
        :param value: Its value.
        :param overwrite: Replace another value.
        :param dry_run: Only check; nothing is written.
        """
        found: models.BatchReport = self.send(
            Call(
                "POST",
                "/nodes/labels/batch",
                models.BatchReport,
                body=given(
                    {
                        "key": key,
                        "value": value,
                        "overwrite": overwrite,
                        "dryRun": dry_run,
                        "nodeNames": list(node_names),
                    }
                ),
            )
        )
        return found

    def change_labels_of_nodes(
        self,
        *,
        node_names: Sequence[str],
        labels: dict[str, str | None],
        dry_run: bool | None = None,
        overwrite: bool | None = None,
    ) -> models.BatchReport:
        """Set labels of several nodes, and delete those whose value is null: of a node all or none.

        :param dry_run: Only check; nothing is written.
        :param labels: Key -> value; null deletes the label.
        :param overwrite: Replace other values.
        """
        found: models.BatchReport = self.send(
            Call(
                "POST",
                "/nodes/labels/changes",
                models.BatchReport,
                body=given(
                    {"nodeNames": list(node_names), "dryRun": dry_run, "labels": labels, "overwrite": overwrite}
                ),
                repeatable=False,
            )
        )
        return found

    def delete_labels_of_nodes(
        self, *, node_names: Sequence[str], keys: Sequence[str], dry_run: bool | None = None
    ) -> models.BatchReport:
        """Delete labels of several nodes: of a node all or none.

        :param dry_run: Only check; nothing is written.
        """
        found: models.BatchReport = self.send(
            Call(
                "POST",
                "/nodes/labels/deletions",
                models.BatchReport,
                body=given({"nodeNames": list(node_names), "dryRun": dry_run, "keys": list(keys)}),
                repeatable=False,
            )
        )
        return found

    def list_nodes(
        self,
        *,
        pool: str | None = None,
        gpu_type: str | None = None,
        status: str | None = None,
        selector: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.NodePage:
        """The nodes by name.

        :param pool: Nodes of this pool.
        :param gpu_type: Nodes with this type of GPU, in either case: `a100-80g`, `nvidia.com/a100-80g` or
            `KEY=VALUE`; a label's key: nodes that have it.
        :param status: `active`; `maintaining`: cordoned; `faulty`: not ready.
        :param selector: Nodes by their labels, as kubectl's `-l`.
        :param page: Which page, from 1.
        :param page_size: Items of a page.
        """
        found: models.NodePage = self.send(
            Call(
                "GET",
                "/nodes",
                models.NodePage,
                query=given(
                    {
                        "pool": pool,
                        "gpuType": gpu_type,
                        "status": status,
                        "selector": selector,
                        "page": page,
                        "pageSize": page_size,
                    }
                ),
            )
        )
        return found

    def all_nodes(
        self,
        *,
        pool: str | None = None,
        gpu_type: str | None = None,
        status: str | None = None,
        selector: str | None = None,
        page_size: int = 500,
    ) -> Iterator[models.NodeItem]:
        """Iterate over the items of all pages of :meth:`list_nodes`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = self.list_nodes(
                pool=pool, gpu_type=gpu_type, status=status, selector=selector, page=number, page_size=page_size
            )
            yield from found.items
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    def list_gpus(self, *, page: int | None = None, page_size: int | None = None) -> models.GpuPage:
        """The GPUs of all nodes that have any, one by one. Kubernetes counts the GPUs that pods have asked for, and
        does not say which: `gpuId` is a number, not a device.

        :param page: Which page, from 1.
        :param page_size: Items of a page.
        """
        found: models.GpuPage = self.send(
            Call("GET", "/nodes/gpu-detail", models.GpuPage, query=given({"page": page, "pageSize": page_size}))
        )
        return found

    def all_gpus(self, *, page_size: int = 500) -> Iterator[models.GpusOfNode]:
        """Iterate over the items of all pages of :meth:`list_gpus`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = self.list_gpus(page=number, page_size=page_size)
            yield from found.items
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    def list_gpu_types(self) -> models.GpuTypeList:
        """The types of GPU that the nodes have by name, how many there are, and where."""
        found: models.GpuTypeList = self.send(Call("GET", "/gpu-types", models.GpuTypeList))
        return found

    def get_node(self, node_name: str) -> models.NodeDetail:
        """A node: what it has and what of it is requested, its labels, and of the jobs on it those that may be seen.

        :param node_name: The node.
        """
        found: models.NodeDetail = self.send(Call("GET", f"/nodes/{segment(node_name)}", models.NodeDetail))
        return found

    def list_quotas(self) -> models.QuotaList:
        """The quotas of the namespaces that may be seen."""
        found: models.QuotaList = self.send(Call("GET", "/quotas", models.QuotaList))
        return found

    def create_quota(
        self,
        *,
        name: str,
        description: str | None = None,
        users: dict[str, Any] | None = None,
        namespace: dict[str, Any] | None = None,
        default: dict[str, Any] | None = None,
        dry_run: bool | None = None,
        confirm: bool | None = None,
    ) -> models.CreatedQuota:
        """Create quotas of users, with their namespaces.

        :param users: User -> cpu, memory, gpu and maxJobs.
        :param namespace: The same as `users`.
        :param default: Fills in what an entry leaves out.
        :param dry_run: Only check; nothing is written.
        :param confirm: What a plan asks is confirmed: running work may end.
        """
        found: models.CreatedQuota = self.send(
            Call(
                "POST",
                "/quotas",
                models.CreatedQuota,
                query=given({"confirm": confirm}),
                body=given(
                    {
                        "name": name,
                        "description": description,
                        "users": users,
                        "namespace": namespace,
                        "default": default,
                        "dryRun": dry_run,
                    }
                ),
                repeatable=False,
            )
        )
        return found

    def get_quota(self, user_name: str) -> models.Quota | models.QuotaList:
        """The quota of a user, and how much of it is used; by the name of a quota's document, those of all its users.

        :param user_name: The user.
        """
        found: models.Quota | models.QuotaList = self.send(
            Call("GET", f"/quotas/{segment(user_name)}", models.Quota | models.QuotaList)
        )
        return found

    def delete_quota(
        self, user_name: str, *, confirm: bool | None = None, dry_run: bool | None = None
    ) -> models.Administered:
        """Delete the quota of a user; the namespace, and all that is in it, stays.

        :param confirm: What a plan asks is confirmed: running work may end.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.Administered = self.send(
            Call(
                "DELETE",
                f"/quotas/{segment(user_name)}",
                models.Administered,
                query=given({"confirm": confirm, "dryRun": dry_run}),
            )
        )
        return found

    def add_nodes(
        self, pool_name: str, *, node_names: Sequence[str], dry_run: bool | None = None, overwrite: bool | None = None
    ) -> models.BatchReport:
        """Add nodes to a pool: what can be done is done, the rest is in `failed`. Running pods stay where they are.

        :param dry_run: Only check; nothing is written.
        :param overwrite: Move nodes that are in another pool.
        """
        found: models.BatchReport = self.send(
            Call(
                "POST",
                f"/pools/{segment(pool_name)}/nodes/add",
                models.BatchReport,
                body=given({"nodeNames": list(node_names), "dryRun": dry_run, "overwrite": overwrite}),
            )
        )
        return found

    def remove_nodes(
        self, pool_name: str, *, node_names: Sequence[str], dry_run: bool | None = None
    ) -> models.BatchReport:
        """Remove nodes from a pool: what can be done is done, the rest is in `failed`. Running pods stay where they
        are.

        :param dry_run: Only check; nothing is written.
        """
        found: models.BatchReport = self.send(
            Call(
                "POST",
                f"/pools/{segment(pool_name)}/nodes/remove",
                models.BatchReport,
                body=given({"nodeNames": list(node_names), "dryRun": dry_run}),
                repeatable=False,
            )
        )
        return found

    def delete_pools(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        confirm: bool | None = None,
        timeout: float | None = None,
        keep_labels: bool | None = None,
    ) -> models.PlanAnswer:
        """Delete pools; their nodes lose the label, their jobs continue to run.

        :param dry_run: Only check; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param names: Names; for jobs also a jobId, KIND/NAME or the name of a pod.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        :param keep_labels: Leave the labels of a pool on its nodes.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/pools/delete",
                models.PlanAnswer,
                query=given({"confirm": confirm, "timeout": timeout, "keepLabels": keep_labels}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
            )
        )
        return found

    def delete_quotas(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        confirm: bool | None = None,
        timeout: float | None = None,
    ) -> models.PlanAnswer:
        """Delete the quotas of users; the namespaces, and all that is in them, stay.

        :param dry_run: Only check; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param names: Names; for jobs also a jobId, KIND/NAME or the name of a pod.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/quotas/delete",
                models.PlanAnswer,
                query=given({"confirm": confirm, "timeout": timeout}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
            )
        )
        return found

    def list_namespaces(self, *, all: bool | None = None) -> models.NamespaceList:
        """The namespaces that gpuctl made, or that have jobs or quotas of its, of those that may be seen.

        :param all: Also those without jobs and quotas.
        """
        found: models.NamespaceList = self.send(
            Call("GET", "/namespaces", models.NamespaceList, query=given({"all": all}))
        )
        return found

    def get_namespace(self, namespace_name: str) -> models.NamespaceDetail:
        """A namespace: what limits it, what runs in it, and what waits.

        :param namespace_name: The namespace.
        """
        found: models.NamespaceDetail = self.send(
            Call("GET", f"/namespaces/{segment(namespace_name)}", models.NamespaceDetail)
        )
        return found

    def fit_documents(
        self,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        files: Sequence[dict[str, Any]] | None = None,
        platform: dict[str, Any] | None = None,
        namespace: str | None = None,
        suggest: bool | None = None,
        strict: bool | None = None,
    ) -> models.FitAnswer:
        """Judge whether all pods of each job would find room at once, and which pods they would evict. Changes
        nothing.

        :param dry_run: Only check them; nothing is written.
        :param platform: The platform file beside the documents. It is not used; a message says how it differs from
            the service's.
        :param namespace: Of jobs that name none.
        :param suggest: Find the smallest changes with which jobs that do not fit would, of 20 documents.
        :param strict: Reject documents that have warnings.
        """
        found: models.FitAnswer = self.send(
            Call(
                "POST",
                "/fit",
                models.FitAnswer,
                query=given({"namespace": namespace, "suggest": suggest, "strict": strict}),
                body=given(
                    {
                        "yamlContent": as_yaml(documents),
                        "dryRun": dry_run,
                        "files": None if files is None else list(files),
                        "platform": platform,
                    }
                ),
            )
        )
        return found

    def fit_waiting(self, *, namespace: str | None = None) -> models.FitAnswer:
        """Return the same of each job whose pods wait for a node now.

        :param namespace: Only jobs of this namespace.
        """
        found: models.FitAnswer = self.send(
            Call("GET", "/fit", models.FitAnswer, query=given({"namespace": namespace}))
        )
        return found

    def check_right(
        self, *, resource: str, action: str, pool: str | None = None, namespace: str | None = None
    ) -> models.RightAnswer:
        """Whether whoever asks may do something: what the routes themselves decide by."""
        found: models.RightAnswer = self.send(
            Call(
                "POST",
                "/auth/check",
                models.RightAnswer,
                body=given({"resource": resource, "action": action, "pool": pool, "namespace": namespace}),
            )
        )
        return found

    def list_audit(
        self,
        *,
        caller: str | None = None,
        action: str | None = None,
        object: str | None = None,
        namespace: str | None = None,
        result: str | None = None,
        since: str | None = None,
        until: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.AuditPage:
        """Writes, and attempts of them, the newest first.

        :param caller: Of this caller.
        :param action: A method, or method and path: `DELETE`, `POST /jobs`.
        :param object: Part of an object's name.
        :param namespace: Of objects in this namespace.
        :param result: A status, or the name of an error: `201`, `Forbidden`.
        :param since: From this time on, RFC 3339.
        :param until: Before this time.
        :param page: Which page, from 1.
        :param page_size: Items of a page.
        """
        found: models.AuditPage = self.send(
            Call(
                "GET",
                "/audit",
                models.AuditPage,
                query=given(
                    {
                        "caller": caller,
                        "action": action,
                        "object": object,
                        "namespace": namespace,
                        "result": result,
                        "since": since,
                        "until": until,
                        "page": page,
                        "pageSize": page_size,
                    }
                ),
            )
        )
        return found

    def all_audit(
        self,
        *,
        caller: str | None = None,
        action: str | None = None,
        object: str | None = None,
        namespace: str | None = None,
        result: str | None = None,
        since: str | None = None,
        until: str | None = None,
        page_size: int = 500,
    ) -> Iterator[models.AuditLine]:
        """Iterate over the items of all pages of :meth:`list_audit`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = self.list_audit(
                caller=caller,
                action=action,
                object=object,
                namespace=namespace,
                result=result,
                since=since,
                until=until,
                page=number,
                page_size=page_size,
            )
            yield from found.items
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    def list_usage_clusters(self) -> models.UsageNames:
        """Names of clusters; the first is the default. Others than that of this service are only listed for callers
        who see all namespaces and pools.
        """
        found: models.UsageNames = self.send(Call("GET", "/gpu-aggregation/clusters", models.UsageNames))
        return found

    def list_usage_namespaces(self, *, cluster: str | None = None) -> models.UsageNames:
        """Namespaces in which GPUs were held, of those that may be seen.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        """
        found: models.UsageNames = self.send(
            Call("GET", "/gpu-aggregation/namespaces", models.UsageNames, query=given({"cluster": cluster}))
        )
        return found

    def list_usage_keys(self, *, dimension_type: str | None = None, cluster: str | None = None) -> models.UsageNames:
        """Keys of labels, or of annotations, by which usage is added up. For those who see all namespaces.

        :param dimension_type: What kind of dimension it is.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        """
        found: models.UsageNames = self.send(
            Call(
                "GET",
                "/gpu-aggregation/dimension-keys",
                models.UsageNames,
                query=given({"dimension_type": dimension_type, "cluster": cluster}),
            )
        )
        return found

    def list_usage_values(
        self, *, dimension_key: str, dimension_type: str | None = None, cluster: str | None = None
    ) -> models.UsageNames:
        """Values that a label, or an annotation, has had. For those who see all namespaces.

        :param dimension_key: The key of the label.
        :param dimension_type: What kind of dimension it is.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        """
        found: models.UsageNames = self.send(
            Call(
                "GET",
                "/gpu-aggregation/dimension-values",
                models.UsageNames,
                query=given({"dimension_key": dimension_key, "dimension_type": dimension_type, "cluster": cluster}),
            )
        )
        return found

    def get_cluster_usage(
        self,
        *,
        cluster: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        hours: int | None = None,
        step: str | None = None,
        tz: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
        format: str | None = None,
    ) -> models.ClusterUsage:
        """A cluster, hour by hour. For those who see all namespaces.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Hours that begin at it or later; RFC 3339. Required without `hours`.
        :param end_time: Before this time. Required without `hours`.
        :param hours: So many hours, up to now with the one that runs, or with one of the two times.
        :param step: What a row is of. Weeks begin on Monday; `total` is one row for the whole time.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Which page, from 1: then the answer is one.
        :param page_size: Rows of a page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the answer before.
            Rows that come meanwhile move no others.
        :param format: `csv`: rows alone, below their names.
        """
        found: models.ClusterUsage = self.send(
            Call(
                "GET",
                "/gpu-aggregation/cluster/hourly-stats",
                models.ClusterUsage,
                query=given(
                    {
                        "cluster": cluster,
                        "start_time": start_time,
                        "end_time": end_time,
                        "hours": hours,
                        "step": step,
                        "tz": tz,
                        "page": page,
                        "page_size": page_size,
                        "cursor": cursor,
                        "format": format,
                    }
                ),
            )
        )
        return found

    def get_namespace_usage(
        self,
        *,
        namespace: str | None = None,
        exclude_namespaces: str | None = None,
        include_idle: bool | None = None,
        cluster: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        hours: int | None = None,
        step: str | None = None,
        tz: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
        format: str | None = None,
    ) -> models.NamespaceUsage:
        """Namespaces, hour by hour, of those that may be seen.

        :param namespace: Of this namespace. Default: of all that may be seen.
        :param exclude_namespaces: Namespaces that are left out, separated by commas.
        :param include_idle: Also rows of zero, of those that held GPUs at any time that is kept, and in this step
            none.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Hours that begin at it or later; RFC 3339. Required without `hours`.
        :param end_time: Before this time. Required without `hours`.
        :param hours: So many hours, up to now with the one that runs, or with one of the two times.
        :param step: What a row is of. Weeks begin on Monday; `total` is one row for the whole time.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Which page, from 1: then the answer is one.
        :param page_size: Rows of a page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the answer before.
            Rows that come meanwhile move no others.
        :param format: `csv`: rows alone, below their names.
        """
        found: models.NamespaceUsage = self.send(
            Call(
                "GET",
                "/gpu-aggregation/namespaces/hourly-stats",
                models.NamespaceUsage,
                query=given(
                    {
                        "namespace": namespace,
                        "exclude_namespaces": exclude_namespaces,
                        "include_idle": include_idle,
                        "cluster": cluster,
                        "start_time": start_time,
                        "end_time": end_time,
                        "hours": hours,
                        "step": step,
                        "tz": tz,
                        "page": page,
                        "page_size": page_size,
                        "cursor": cursor,
                        "format": format,
                    }
                ),
            )
        )
        return found

    def get_label_usage(
        self,
        *,
        dimension_type: str,
        dimension_key: str,
        dimension_value: str | None = None,
        include_idle: bool | None = None,
        cluster: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        hours: int | None = None,
        step: str | None = None,
        tz: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
        format: str | None = None,
    ) -> models.LabelUsage:
        """The values of a label or annotation, hour by hour. For those who see all namespaces.

        :param dimension_type: What kind of dimension it is.
        :param dimension_key: The key of the label.
        :param dimension_value: Of this value. Default: of all.
        :param include_idle: Also rows of zero, of those that held GPUs at any time that is kept, and in this step
            none.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Hours that begin at it or later; RFC 3339. Required without `hours`.
        :param end_time: Before this time. Required without `hours`.
        :param hours: So many hours, up to now with the one that runs, or with one of the two times.
        :param step: What a row is of. Weeks begin on Monday; `total` is one row for the whole time.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Which page, from 1: then the answer is one.
        :param page_size: Rows of a page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the answer before.
            Rows that come meanwhile move no others.
        :param format: `csv`: rows alone, below their names.
        """
        found: models.LabelUsage = self.send(
            Call(
                "GET",
                "/gpu-aggregation/labels/hourly-stats",
                models.LabelUsage,
                query=given(
                    {
                        "dimension_type": dimension_type,
                        "dimension_key": dimension_key,
                        "dimension_value": dimension_value,
                        "include_idle": include_idle,
                        "cluster": cluster,
                        "start_time": start_time,
                        "end_time": end_time,
                        "hours": hours,
                        "step": step,
                        "tz": tz,
                        "page": page,
                        "page_size": page_size,
                        "cursor": cursor,
                        "format": format,
                    }
                ),
            )
        )
        return found

    def get_workload_usage(
        self,
        *,
        namespace: str | None = None,
        exclude_namespaces: str | None = None,
        workload_name: str | None = None,
        workload_type: str | None = None,
        order_by: str | None = None,
        order_direction: str | None = None,
        cluster: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        hours: int | None = None,
        step: str | None = None,
        tz: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
        format: str | None = None,
    ) -> models.WorkloadUsage:
        """Workloads, hour by hour, of the namespaces that may be seen; always a page, but as CSV.

        :param namespace: Of this namespace. Default: of all that may be seen.
        :param exclude_namespaces: Namespaces that are left out, separated by commas.
        :param workload_name: Of this name.
        :param workload_type: Of this kind.
        :param order_by: By what; what is not known is last.
        :param order_direction: The least first, or the most.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Hours that begin at it or later; RFC 3339. Required without `hours`.
        :param end_time: Before this time. Required without `hours`.
        :param hours: So many hours, up to now with the one that runs, or with one of the two times.
        :param step: What a row is of. Weeks begin on Monday; `total` is one row for the whole time.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Which page, from 1: then the answer is one.
        :param page_size: Rows of a page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the answer before.
            Rows that come meanwhile move no others.
        :param format: `csv`: rows alone, below their names.
        """
        found: models.WorkloadUsage = self.send(
            Call(
                "GET",
                "/gpu-aggregation/workloads/hourly-stats",
                models.WorkloadUsage,
                query=given(
                    {
                        "namespace": namespace,
                        "exclude_namespaces": exclude_namespaces,
                        "workload_name": workload_name,
                        "workload_type": workload_type,
                        "order_by": order_by,
                        "order_direction": order_direction,
                        "cluster": cluster,
                        "start_time": start_time,
                        "end_time": end_time,
                        "hours": hours,
                        "step": step,
                        "tz": tz,
                        "page": page,
                        "page_size": page_size,
                        "cursor": cursor,
                        "format": format,
                    }
                ),
            )
        )
        return found

    def list_held_models(
        self,
        *,
        cluster: str | None = None,
        namespace: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        dimension_type: str | None = None,
        dimension_key: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.HeldModelsAnswer:
        """GPU-seconds that workloads held of each GPU model. They add up to the ledger as long as hours are kept.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param namespace: Of this namespace. Default: of all that may be seen.
        :param start_time: From when on, RFC 3339. Default: 24 hours before the end.
        :param end_time: Before this time. Default: now.
        :param dimension_type: What kind of dimension it is.
        :param dimension_key: Also by this label or annotation.
        :param page: Which page, from 1: then the answer is one.
        :param page_size: Rows of a page. Default: 20.
        """
        found: models.HeldModelsAnswer = self.send(
            Call(
                "GET",
                "/gpu-aggregation/workloads/models",
                models.HeldModelsAnswer,
                query=given(
                    {
                        "cluster": cluster,
                        "namespace": namespace,
                        "start_time": start_time,
                        "end_time": end_time,
                        "dimension_type": dimension_type,
                        "dimension_key": dimension_key,
                        "page": page,
                        "page_size": page_size,
                    }
                ),
            )
        )
        return found

    def get_usage_ledger(
        self,
        *,
        by: str | None = None,
        key: str | None = None,
        value: str | None = None,
        namespace: str | None = None,
        exclude_namespaces: str | None = None,
        cluster: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        hours: int | None = None,
        step: str | None = None,
        tz: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
        format: str | None = None,
    ) -> models.LedgerAnswer:
        """What became of every GPU-second. What is not of namespaces or workloads is for those who see all namespaces.

        :param by: What a row is about.
        :param key: Of a label or annotation.
        :param value: Of this namespace, value, workload (uid), node or model. Default: of all.
        :param namespace: Of this namespace. Default: of all that may be seen.
        :param exclude_namespaces: Namespaces that are left out, separated by commas.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Hours that begin at it or later; RFC 3339. Required without `hours`.
        :param end_time: Before this time. Required without `hours`.
        :param hours: So many hours, up to now with the one that runs, or with one of the two times.
        :param step: What a row is of. Weeks begin on Monday; `total` is one row for the whole time.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Which page, from 1: then the answer is one.
        :param page_size: Rows of a page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the answer before.
            Rows that come meanwhile move no others.
        :param format: `csv`: rows alone, below their names.
        """
        found: models.LedgerAnswer = self.send(
            Call(
                "GET",
                "/gpu-aggregation/ledger",
                models.LedgerAnswer,
                query=given(
                    {
                        "by": by,
                        "key": key,
                        "value": value,
                        "namespace": namespace,
                        "exclude_namespaces": exclude_namespaces,
                        "cluster": cluster,
                        "start_time": start_time,
                        "end_time": end_time,
                        "hours": hours,
                        "step": step,
                        "tz": tz,
                        "page": page,
                        "page_size": page_size,
                        "cursor": cursor,
                        "format": format,
                    }
                ),
            )
        )
        return found

    def get_usage_waste(
        self,
        *,
        cluster: str | None = None,
        namespace: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        below: float | None = None,
    ) -> models.WasteAnswer:
        """Who holds GPUs now and has not used them for an hour or longer, and what was idle in a time.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param namespace: Of this namespace. Default: of all that may be seen.
        :param start_time: From when on, RFC 3339. Default: 24 hours before the end.
        :param end_time: Before this time. Default: now.
        :param below: Percent: an hour with less use is idle.
        """
        found: models.WasteAnswer = self.send(
            Call(
                "GET",
                "/gpu-aggregation/waste",
                models.WasteAnswer,
                query=given(
                    {
                        "cluster": cluster,
                        "namespace": namespace,
                        "start_time": start_time,
                        "end_time": end_time,
                        "below": below,
                    }
                ),
            )
        )
        return found

    def get_latest_snapshot(self, *, cluster: str | None = None) -> models.LatestAllocation:
        """Who held GPUs when that was looked at last, of the namespaces that may be seen.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        """
        found: models.LatestAllocation = self.send(
            Call("GET", "/gpu-aggregation/snapshots/latest", models.LatestAllocation, query=given({"cluster": cluster}))
        )
        return found

    def list_snapshots(
        self,
        *,
        cluster: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        include_details: bool | None = None,
        interval: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.AllocationHistory:
        """Who held GPUs, every five minutes, of the namespaces that may be seen.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: From when on, RFC 3339. Default: 24 hours before the end.
        :param end_time: Before this time. Default: now.
        :param include_details: Whether to tell of every workload. Default: where there are no more than 300
            snapshots.
        :param interval: One snapshot of so long at most, the first: minutes, hours or days. Default: every one.
        :param page: Which page, from 1: then the answer is one.
        :param page_size: Rows of a page. Default: 20.
        """
        found: models.AllocationHistory = self.send(
            Call(
                "GET",
                "/gpu-aggregation/snapshots",
                models.AllocationHistory,
                query=given(
                    {
                        "cluster": cluster,
                        "start_time": start_time,
                        "end_time": end_time,
                        "include_details": include_details,
                        "interval": interval,
                        "page": page,
                        "page_size": page_size,
                    }
                ),
            )
        )
        return found


class AsyncOperations(ABC):
    """Every operation of the API.

    A job is named by its jobId, its name, or the name of one of its pods. Documents are YAML text or mappings, one or
    several. All methods raise :class:`~gpuctl_sdk.errors.ServiceError` for an error response, and
    :class:`~gpuctl_sdk.errors.Unreachable` if there is no response.
    """

    @abstractmethod
    async def send(self, call: Call) -> Any:
        """Send a request and return its response, of the type ``call.answer``."""

    async def list_jobs(
        self,
        *,
        kind: str | None = None,
        pool: str | None = None,
        status: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.JobPage:
        """The jobs that may be seen, the newest first.

        :param name: Only jobs of this id or name, or with a pod of this name.
        :param page: Which page, from 1.
        :param page_size: Items of a page.
        """
        found: models.JobPage = await self.send(
            Call(
                "GET",
                "/jobs",
                models.JobPage,
                query=given(
                    {
                        "kind": kind,
                        "pool": pool,
                        "status": status,
                        "namespace": namespace,
                        "name": name,
                        "page": page,
                        "pageSize": page_size,
                    }
                ),
            )
        )
        return found

    async def all_jobs(
        self,
        *,
        kind: str | None = None,
        pool: str | None = None,
        status: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        page_size: int = 500,
    ) -> AsyncIterator[models.JobItem]:
        """Iterate over the items of all pages of :meth:`list_jobs`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = await self.list_jobs(
                kind=kind, pool=pool, status=status, namespace=namespace, name=name, page=number, page_size=page_size
            )
            for item in found.items:
                yield item
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    async def create_jobs(
        self,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        confirm: bool | None = None,
        queue: bool | None = None,
        idempotency_key: str | None = None,
    ) -> models.Submitted:
        """Create what documents describe; what exists already is 409. With ``dryRun`` they are only checked.

        :param dry_run: Only check them; nothing is written.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param idempotency_key: Key of this request; default: a random one, so that it can be retried.
        """
        found: models.Submitted = await self.send(
            Call(
                "POST",
                "/jobs",
                models.Submitted,
                query=given({"confirm": confirm, "queue": queue}),
                body=given({"yamlContent": as_yaml(documents), "dryRun": dry_run}),
                headers=idempotency(idempotency_key),
            )
        )
        return found

    async def get_job(self, job_id: str, *, namespace: str | None = None) -> models.JobDescription:
        """A job, with its document and its pods.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        """
        found: models.JobDescription = await self.send(
            Call("GET", f"/jobs/{segment(job_id)}", models.JobDescription, query=given({"namespace": namespace}))
        )
        return found

    async def update_job(
        self,
        job_id: str,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        namespace: str | None = None,
        confirm: bool | None = None,
        queue: bool | None = None,
        checkpoint: bool | None = None,
    ) -> models.ChangedJob:
        """Apply the changed document of a job. What ends running work has to be confirmed.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param dry_run: Only check them; nothing is written.
        :param namespace: Where the job is, if its name is in several.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        """
        found: models.ChangedJob = await self.send(
            Call(
                "PUT",
                f"/jobs/{segment(job_id)}",
                models.ChangedJob,
                query=given({"namespace": namespace, "confirm": confirm, "queue": queue, "checkpoint": checkpoint}),
                body=given({"yamlContent": as_yaml(documents), "dryRun": dry_run}),
            )
        )
        return found

    async def delete_job(
        self,
        job_id: str,
        *,
        namespace: str | None = None,
        force: bool | None = None,
        checkpoint: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.JobState:
        """Have a job deleted.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is, if its name is in several.
        :param force: End the pods without their grace period.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.JobState = await self.send(
            Call(
                "DELETE",
                f"/jobs/{segment(job_id)}",
                models.JobState,
                query=given({"namespace": namespace, "force": force, "checkpoint": checkpoint, "dryRun": dry_run}),
            )
        )
        return found

    async def list_pods(
        self,
        *,
        names: str | None = None,
        selector: str | None = None,
        kind: str | None = None,
        pool: str | None = None,
        status: str | None = None,
        namespace: str | None = None,
        by_job: bool | None = None,
        pods_only: bool | None = None,
        reasons: bool | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.PodPage:
        """The pods of the jobs that may be seen, by namespace and name; an item for what a job lacks of its pods.

        :param names: Ids or names of jobs, or names of their pods, separated by commas. Each has to exist.
        :param selector: Labels, as kubectl's `-l` has them.
        :param status: A status word or a phase, in any case.
        :param by_job: One item per job; `ready` counts its pods.
        :param pods_only: Without items for the pods that jobs lack.
        :param reasons: Explain pending pods as `GET /jobs/{jobId}/why` does, which takes longer.
        :param page: Which page, from 1.
        :param page_size: Items of a page.
        """
        found: models.PodPage = await self.send(
            Call(
                "GET",
                "/pods",
                models.PodPage,
                query=given(
                    {
                        "names": names,
                        "selector": selector,
                        "kind": kind,
                        "pool": pool,
                        "status": status,
                        "namespace": namespace,
                        "byJob": by_job,
                        "podsOnly": pods_only,
                        "reasons": reasons,
                        "page": page,
                        "pageSize": page_size,
                    }
                ),
            )
        )
        return found

    async def all_pods(
        self,
        *,
        names: str | None = None,
        selector: str | None = None,
        kind: str | None = None,
        pool: str | None = None,
        status: str | None = None,
        namespace: str | None = None,
        by_job: bool | None = None,
        pods_only: bool | None = None,
        reasons: bool | None = None,
        page_size: int = 500,
    ) -> AsyncIterator[models.ListedPod]:
        """Iterate over the items of all pages of :meth:`list_pods`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = await self.list_pods(
                names=names,
                selector=selector,
                kind=kind,
                pool=pool,
                status=status,
                namespace=namespace,
                by_job=by_job,
                pods_only=pods_only,
                reasons=reasons,
                page=number,
                page_size=page_size,
            )
            for item in found.items:
                yield item
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    async def get_gpu_use(self, *, namespace: str | None = None) -> models.GpusOfJobs:
        """The GPUs that jobs hold and wait for: the jobs that may be seen."""
        found: models.GpusOfJobs = await self.send(
            Call("GET", "/gpu-use", models.GpusOfJobs, query=given({"namespace": namespace}))
        )
        return found

    async def get_job_why(self, job_id: str, *, namespace: str | None = None) -> models.WhyAnswer:
        """The cause of a job's state with its numbers and evidence, what was ruled out, and what helps.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is.
        """
        found: models.WhyAnswer = await self.send(
            Call("GET", f"/jobs/{segment(job_id)}/why", models.WhyAnswer, query=given({"namespace": namespace}))
        )
        return found

    async def get_job_timeline(self, job_id: str, *, namespace: str | None = None) -> models.JobTimeline:
        """The history of a job: the stages of its pods, the conditions of its workload, and its events.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is.
        """
        found: models.JobTimeline = await self.send(
            Call("GET", f"/jobs/{segment(job_id)}/timeline", models.JobTimeline, query=given({"namespace": namespace}))
        )
        return found

    async def get_job_details(self, job_id: str, *, namespace: str | None = None) -> models.JobDetails:
        """The full description of a job: its pods, timeline, addresses and events, and the cause that keeps it
        waiting.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is.
        """
        found: models.JobDetails = await self.send(
            Call("GET", f"/jobs/{segment(job_id)}/details", models.JobDetails, query=given({"namespace": namespace}))
        )
        return found

    async def get_job_history(self, job_id: str, *, namespace: str | None = None) -> models.JobDocuments:
        """Which documents of a job were applied, the newest first: by whom, when, from which commit, and what each
        changed. A job that has gone has its history still, by its name.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is, if its name is in several.
        """
        found: models.JobDocuments = await self.send(
            Call("GET", f"/jobs/{segment(job_id)}/history", models.JobDocuments, query=given({"namespace": namespace}))
        )
        return found

    async def get_job_revision(self, job_id: str, revision: int, *, namespace: str | None = None) -> models.JobRevision:
        """One of the documents of a job that were applied, without its credentials.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param revision: Its number.
        :param namespace: Where the job is, if its name is in several.
        """
        found: models.JobRevision = await self.send(
            Call(
                "GET",
                f"/jobs/{segment(job_id)}/history/{segment(revision)}",
                models.JobRevision,
                query=given({"namespace": namespace}),
            )
        )
        return found

    async def wait_jobs(
        self,
        *,
        jobs: Sequence[Mapping[str, Any]],
        condition: str,
        timeout: float | None = None,
        limit: float | None = None,
        waited: float | None = None,
    ) -> models.JobsWaitAnswer:
        """Wait until the first of several jobs are in a condition, or cannot be. Ask again for the others.

        :param condition: `started`: all pods are ready, or the job needs none, as it has finished or is paused.
        :param timeout: Seconds until this request is answered at the latest.
        :param limit: Seconds after which a job is late, in all requests together; without it never.
        :param waited: Seconds of `limit` that earlier requests have waited.
        """
        found: models.JobsWaitAnswer = await self.send(
            Call(
                "POST",
                "/jobs/wait",
                models.JobsWaitAnswer,
                body=given(
                    {"jobs": list(jobs), "condition": condition, "timeout": timeout, "limit": limit, "waited": waited}
                ),
            )
        )
        return found

    async def wait_job(
        self, job_id: str, *, condition: str, timeout: float | None = None, namespace: str | None = None
    ) -> models.WaitAnswer:
        """Wait until a job runs, is ready, done or deleted, or until it can no longer become so.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param timeout: Seconds.
        :param namespace: Where the job is.
        """
        found: models.WaitAnswer = await self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/wait",
                models.WaitAnswer,
                query=given({"namespace": namespace}),
                body=given({"condition": condition, "timeout": timeout}),
            )
        )
        return found

    async def apply_documents(
        self,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        files: Sequence[dict[str, Any]] | None = None,
        platform: dict[str, Any] | None = None,
        confirmed: Sequence[str] | None = None,
        confirm: bool | None = None,
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
        namespace: str | None = None,
        strict: bool | None = None,
        queue: bool | None = None,
        strategy: str | None = None,
        relower: bool | None = None,
        no_probe: bool | None = None,
        create_namespace: bool | None = None,
        create_only: bool | None = None,
    ) -> models.PlanAnswer:
        """Create and change what documents describe. What ends running work has to be confirmed.

        :param dry_run: Only check them; nothing is written.
        :param platform: The platform file beside the documents. It is not used; a message says how it differs from
            the service's.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        :param force: End the pods without their grace period.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        :param namespace: The namespace of jobs whose documents name none.
        :param strict: Reject documents with warnings.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param strategy: How a changed service is changed.
        :param relower: Change objects also if only a newer gpuctl makes others of their documents.
        :param no_probe: Make it a note, not an error, when a trial pod is refused.
        :param create_namespace: Create also a namespace that no document names.
        :param create_only: Reject documents whose objects exist already.
        """
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/apply",
                models.PlanAnswer,
                query=given(
                    {
                        "confirm": confirm,
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                        "namespace": namespace,
                        "strict": strict,
                        "queue": queue,
                        "strategy": strategy,
                        "relower": relower,
                        "noProbe": no_probe,
                        "createNamespace": create_namespace,
                        "createOnly": create_only,
                    }
                ),
                body=given(
                    {
                        "yamlContent": as_yaml(documents),
                        "dryRun": dry_run,
                        "files": None if files is None else list(files),
                        "platform": platform,
                        "confirmed": None if confirmed is None else list(confirmed),
                    }
                ),
                repeatable=False,
            )
        )
        return found

    async def delete_documents(
        self,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        files: Sequence[dict[str, Any]] | None = None,
        platform: dict[str, Any] | None = None,
        confirmed: Sequence[str] | None = None,
        confirm: bool | None = None,
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
        keep_labels: bool | None = None,
        namespace: str | None = None,
        strict: bool | None = None,
    ) -> models.PlanAnswer:
        """Delete what documents describe, and wait until it is gone.

        :param dry_run: Only check them; nothing is written.
        :param platform: The platform file beside the documents. It is not used; a message says how it differs from
            the service's.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        :param force: End the pods without their grace period.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        :param keep_labels: Leave the labels of a pool on its nodes.
        :param namespace: The namespace of jobs whose documents name none.
        :param strict: Reject documents with warnings.
        """
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/delete",
                models.PlanAnswer,
                query=given(
                    {
                        "confirm": confirm,
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                        "keepLabels": keep_labels,
                        "namespace": namespace,
                        "strict": strict,
                    }
                ),
                body=given(
                    {
                        "yamlContent": as_yaml(documents),
                        "dryRun": dry_run,
                        "files": None if files is None else list(files),
                        "platform": platform,
                        "confirmed": None if confirmed is None else list(confirmed),
                    }
                ),
                repeatable=False,
            )
        )
        return found

    async def plan_documents(
        self,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        files: Sequence[dict[str, Any]] | None = None,
        platform: dict[str, Any] | None = None,
        confirmed: Sequence[str] | None = None,
        checkpoint: bool | None = None,
        show: str | None = None,
        namespace: str | None = None,
        strict: bool | None = None,
        queue: bool | None = None,
        strategy: str | None = None,
        relower: bool | None = None,
        no_probe: bool | None = None,
        create_namespace: bool | None = None,
        create_only: bool | None = None,
    ) -> models.PlanAnswer:
        """Return what applying documents would do; nothing is written.

        :param dry_run: Only check them; nothing is written.
        :param platform: The platform file beside the documents. It is not used; a message says how it differs from
            the service's.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        :param show: `objects`: answer each object before and after, masked.
        :param namespace: The namespace of jobs whose documents name none.
        :param strict: Reject documents with warnings.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param strategy: How a changed service is changed.
        :param relower: Change objects also if only a newer gpuctl makes others of their documents.
        :param no_probe: Make it a note, not an error, when a trial pod is refused.
        :param create_namespace: Create also a namespace that no document names.
        :param create_only: Reject documents whose objects exist already.
        """
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/plan",
                models.PlanAnswer,
                query=given(
                    {
                        "checkpoint": checkpoint,
                        "show": show,
                        "namespace": namespace,
                        "strict": strict,
                        "queue": queue,
                        "strategy": strategy,
                        "relower": relower,
                        "noProbe": no_probe,
                        "createNamespace": create_namespace,
                        "createOnly": create_only,
                    }
                ),
                body=given(
                    {
                        "yamlContent": as_yaml(documents),
                        "dryRun": dry_run,
                        "files": None if files is None else list(files),
                        "platform": platform,
                        "confirmed": None if confirmed is None else list(confirmed),
                    }
                ),
            )
        )
        return found

    async def create_job_batch(
        self,
        documents: Sequence[Documents],
        *,
        dry_run: bool | None = None,
        confirm: bool | None = None,
        queue: bool | None = None,
        idempotency_key: str | None = None,
    ) -> models.Batch:
        """Create what each entry describes, each on its own: what failed says why. With ``dryRun`` only check them.

        :param dry_run: Only check them; nothing is written.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param idempotency_key: Key of this request; default: a random one, so that it can be retried.
        """
        found: models.Batch = await self.send(
            Call(
                "POST",
                "/jobs/batch",
                models.Batch,
                query=given({"confirm": confirm, "queue": queue}),
                body=given({"yamlContents": [as_yaml(entry) for entry in documents], "dryRun": dry_run}),
                headers=idempotency(idempotency_key),
            )
        )
        return found

    async def delete_jobs(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        namespace: str | None = None,
        confirm: bool | None = None,
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
    ) -> models.PlanAnswer:
        """Delete jobs, and wait until they are gone.

        :param dry_run: Only check; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param names: Names; for jobs also a jobId, KIND/NAME or the name of a pod.
        :param namespace: Where the job is, if its name is in several.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        :param force: End the pods without their grace period.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        """
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/jobs/delete",
                models.PlanAnswer,
                query=given(
                    {
                        "namespace": namespace,
                        "confirm": confirm,
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                    }
                ),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
            )
        )
        return found

    async def rerun_jobs(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        namespace: str | None = None,
        confirm: bool | None = None,
        queue: bool | None = None,
        timeout: float | None = None,
    ) -> models.PlanAnswer:
        """Run trainings again that have ended. One that has gone is named alone, and has to be confirmed.

        :param dry_run: Only check; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param names: Names; for jobs also a jobId, KIND/NAME or the name of a pod.
        :param namespace: Where the job is, if its name is in several.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        """
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/jobs/rerun",
                models.PlanAnswer,
                query=given({"namespace": namespace, "confirm": confirm, "queue": queue, "timeout": timeout}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
            )
        )
        return found

    async def pause_jobs(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        namespace: str | None = None,
        checkpoint: bool | None = None,
    ) -> models.PausedJobs:
        """End the pods of jobs, one job after another, and keep the jobs. A failure has the jobs before it in
        ``items``.

        :param dry_run: Only check; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param names: Names; for jobs also a jobId, KIND/NAME or the name of a pod.
        :param namespace: Where the job is, if its name is in several.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        """
        found: models.PausedJobs = await self.send(
            Call(
                "POST",
                "/jobs/pause",
                models.PausedJobs,
                query=given({"namespace": namespace, "checkpoint": checkpoint}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
            )
        )
        return found

    async def resume_jobs(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        namespace: str | None = None,
        confirm: bool | None = None,
    ) -> models.PausedJobs:
        """Let paused jobs make their pods again. Evicting others has to be confirmed.

        :param dry_run: Only check; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param names: Names; for jobs also a jobId, KIND/NAME or the name of a pod.
        :param namespace: Where the job is, if its name is in several.
        :param confirm: What a plan asks is confirmed: running work may end.
        """
        found: models.PausedJobs = await self.send(
            Call(
                "POST",
                "/jobs/resume",
                models.PausedJobs,
                query=given({"namespace": namespace, "confirm": confirm}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
            )
        )
        return found

    async def pause_job(
        self, job_id: str, *, namespace: str | None = None, checkpoint: bool | None = None, dry_run: bool | None = None
    ) -> models.JobState:
        """End a job's pods, which frees its GPUs, and keep the job.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is, if its name is in several.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.JobState = await self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/pause",
                models.JobState,
                query=given({"namespace": namespace, "checkpoint": checkpoint, "dryRun": dry_run}),
            )
        )
        return found

    async def resume_job(
        self, job_id: str, *, namespace: str | None = None, confirm: bool | None = None, dry_run: bool | None = None
    ) -> models.JobState:
        """Let a paused job make its pods again. Evicting others has to be confirmed.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is, if its name is in several.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.JobState = await self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/resume",
                models.JobState,
                query=given({"namespace": namespace, "confirm": confirm, "dryRun": dry_run}),
            )
        )
        return found

    async def rerun_job(
        self,
        job_id: str,
        *,
        namespace: str | None = None,
        confirm: bool | None = None,
        queue: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.RerunJob:
        """Run a training again that has ended. One that has gone runs by its last document, which has to be confirmed.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is, if its name is in several.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.RerunJob = await self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/rerun",
                models.RerunJob,
                query=given({"namespace": namespace, "confirm": confirm, "queue": queue, "dryRun": dry_run}),
                repeatable=False,
            )
        )
        return found

    async def rollback_job(
        self,
        job_id: str,
        *,
        namespace: str | None = None,
        to: int | None = None,
        confirm: bool | None = None,
        queue: bool | None = None,
        strategy: str | None = None,
        no_probe: bool | None = None,
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
        dry_run: bool | None = None,
    ) -> models.ChangedJob:
        """Apply an earlier document of a job again. It has to be confirmed, and may be of a job that has gone.

        :param job_id: A jobId, a job's name, or the name of one of its pods.
        :param namespace: Where the job is, if its name is in several.
        :param to: The revision of its history. Default: the newest that is another.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param queue: Create a job also where a quota is full: it starts when there is room.
        :param strategy: How a changed service is changed.
        :param no_probe: Make it a note, not an error, when a trial pod is refused.
        :param checkpoint: Let the job save its progress before it ends. If that fails, nothing is ended: 409.
        :param force: End the pods without their grace period.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.ChangedJob = await self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/rollback",
                models.ChangedJob,
                query=given(
                    {
                        "namespace": namespace,
                        "to": to,
                        "confirm": confirm,
                        "queue": queue,
                        "strategy": strategy,
                        "noProbe": no_probe,
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                        "dryRun": dry_run,
                    }
                ),
                repeatable=False,
            )
        )
        return found

    async def recover(
        self,
        *,
        namespace: str | None = None,
        confirm: bool | None = None,
        timeout: float | None = None,
        dry_run: bool | None = None,
    ) -> models.Recoveries:
        """Finish what killed runs left. The creation of objects has to be confirmed.

        :param namespace: Where the job is, if its name is in several.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.Recoveries = await self.send(
            Call(
                "POST",
                "/recoveries",
                models.Recoveries,
                query=given({"namespace": namespace, "confirm": confirm, "timeout": timeout, "dryRun": dry_run}),
                repeatable=False,
            )
        )
        return found

    async def list_recoveries(self, *, namespace: str | None = None) -> models.Recoveries:
        """List interrupted runs, and what a recovery would do.

        :param namespace: Where the job is, if its name is in several.
        """
        found: models.Recoveries = await self.send(
            Call("GET", "/recoveries", models.Recoveries, query=given({"namespace": namespace}))
        )
        return found

    async def get_job_logs(
        self,
        job_id: str,
        *,
        tail: int | None = None,
        pod: str | None = None,
        since: str | None = None,
        grep: str | None = None,
        container: str | None = None,
        previous: bool | None = None,
        namespace: str | None = None,
    ) -> models.LogsValue:
        """What the pods of a job have printed, in the order of time.

        :param job_id: A job's id, its name, or the name of one of its pods.
        :param tail: How many of the last lines of each pod. Default: 100; with `since` all.
        :param pod: Only of this pod: its name, its index in the job, or the end of its name.
        :param since: Lines not older than this: a length of time (10m, 1h30m), or a time.
        :param grep: Only lines that contain this text, exactly as it is.
        :param container: Another container than the job's own.
        :param previous: Of the run before the container was restarted.
        :param namespace: Where the job has to be.
        """
        found: models.LogsValue = await self.send(
            Call(
                "GET",
                f"/jobs/{segment(job_id)}/logs",
                models.LogsValue,
                query=given(
                    {
                        "tail": tail,
                        "pod": pod,
                        "since": since,
                        "grep": grep,
                        "container": container,
                        "previous": previous,
                        "namespace": namespace,
                    }
                ),
            )
        )
        return found

    async def get_job_metrics(
        self,
        job_id: str,
        *,
        metric: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        namespace: str | None = None,
    ) -> dict[str, list[models.MetricPoint]]:
        """What is measured of a job over time, at most 500 points of each metric.

        :param job_id: A job's id, its name, or the name of one of its pods.
        :param metric: Of this metric alone: gpuUtilization (percent), memoryUsage (GiB of a GPU), throughput, or
            another that is set.
        :param start_time: From when on, RFC 3339. Default: the job's start.
        :param end_time: Until when. Default: now.
        :param namespace: Where the job has to be.
        """
        found: dict[str, list[models.MetricPoint]] = await self.send(
            Call(
                "GET",
                f"/jobs/{segment(job_id)}/metrics",
                dict[str, list[models.MetricPoint]],
                query=given({"metric": metric, "startTime": start_time, "endTime": end_time, "namespace": namespace}),
            )
        )
        return found

    async def list_pools(self) -> models.PoolList:
        """The pools by name; `default` has the nodes that are in no other."""
        found: models.PoolList = await self.send(Call("GET", "/pools", models.PoolList))
        return found

    async def create_pool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        nodes: Sequence[str] | None = None,
        gpu_type: Sequence[str] | None = None,
        quota: dict[str, Any] | None = None,
        dry_run: bool | None = None,
        confirm: bool | None = None,
    ) -> models.Administered:
        """Create a pool, and label its nodes.

        :param name: Its name; of a pool that is changed, that of the path.
        :param nodes: Its nodes, by name.
        :param gpu_type: The types of its GPUs.
        :param quota: Limits of a pool.
        :param dry_run: Only check; nothing is written.
        :param confirm: What a plan asks is confirmed: running work may end.
        """
        found: models.Administered = await self.send(
            Call(
                "POST",
                "/pools",
                models.Administered,
                query=given({"confirm": confirm}),
                body=given(
                    {
                        "name": name,
                        "description": description,
                        "nodes": None if nodes is None else list(nodes),
                        "gpuType": None if gpu_type is None else list(gpu_type),
                        "quota": quota,
                        "dryRun": dry_run,
                    }
                ),
                repeatable=False,
            )
        )
        return found

    async def get_pool(self, pool_name: str) -> models.PoolDetail:
        """A pool: its nodes, its GPUs by type, and of the jobs in it those that may be seen.

        :param pool_name: The pool.
        """
        found: models.PoolDetail = await self.send(Call("GET", f"/pools/{segment(pool_name)}", models.PoolDetail))
        return found

    async def update_pool(
        self,
        pool_name: str,
        *,
        name: str | None = None,
        description: str | None = None,
        nodes: Sequence[str] | None = None,
        gpu_type: Sequence[str] | None = None,
        quota: dict[str, Any] | None = None,
        dry_run: bool | None = None,
        confirm: bool | None = None,
    ) -> models.ChangedPool:
        """Change a pool: nodes that it no longer names leave it.

        :param name: Its name; of a pool that is changed, that of the path.
        :param nodes: Its nodes, by name.
        :param gpu_type: The types of its GPUs.
        :param quota: Limits of a pool.
        :param dry_run: Only check; nothing is written.
        :param confirm: What a plan asks is confirmed: running work may end.
        """
        found: models.ChangedPool = await self.send(
            Call(
                "PUT",
                f"/pools/{segment(pool_name)}",
                models.ChangedPool,
                query=given({"confirm": confirm}),
                body=given(
                    {
                        "name": name,
                        "description": description,
                        "nodes": None if nodes is None else list(nodes),
                        "gpuType": None if gpu_type is None else list(gpu_type),
                        "quota": quota,
                        "dryRun": dry_run,
                    }
                ),
            )
        )
        return found

    async def delete_pool(
        self, pool_name: str, *, confirm: bool | None = None, dry_run: bool | None = None
    ) -> models.Administered:
        """Delete a pool; its nodes lose its label, its jobs go on running.

        :param confirm: What a plan asks is confirmed: running work may end.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.Administered = await self.send(
            Call(
                "DELETE",
                f"/pools/{segment(pool_name)}",
                models.Administered,
                query=given({"confirm": confirm, "dryRun": dry_run}),
            )
        )
        return found

    async def list_nodes_with_label(
        self, *, key: str, page: int | None = None, page_size: int | None = None
    ) -> models.LabelPage:
        """One label of all nodes that have it.

        :param key: The label's key.
        :param page: Which page, from 1.
        :param page_size: Items of a page.
        """
        found: models.LabelPage = await self.send(
            Call(
                "GET", "/nodes/labels", models.LabelPage, query=given({"key": key, "page": page, "pageSize": page_size})
            )
        )
        return found

    async def all_nodes_with_label(self, *, key: str, page_size: int = 500) -> AsyncIterator[models.NodeLabel]:
        """Iterate over the items of all pages of :meth:`list_nodes_with_label`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = await self.list_nodes_with_label(key=key, page=number, page_size=page_size)
            for item in found.items:
                yield item
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    async def list_gpu_labels(self, *, page: int | None = None, page_size: int | None = None) -> models.GpuLabelPage:
        """The labels of all nodes that tell a type of GPU, and the pools.

        :param page: Which page, from 1.
        :param page_size: Items of a page.
        """
        found: models.GpuLabelPage = await self.send(
            Call("GET", "/nodes/labels/all", models.GpuLabelPage, query=given({"page": page, "pageSize": page_size}))
        )
        return found

    async def all_gpu_labels(self, *, page_size: int = 500) -> AsyncIterator[models.GpuLabels]:
        """Iterate over the items of all pages of :meth:`list_gpu_labels`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = await self.list_gpu_labels(page=number, page_size=page_size)
            for item in found.items:
                yield item
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    async def list_node_labels(self, node_name: str) -> models.LabelPage:
        """All labels of a node, by key.

        :param node_name: The node.
        """
        found: models.LabelPage = await self.send(Call("GET", f"/nodes/{segment(node_name)}/labels", models.LabelPage))
        return found

    async def set_node_label(
        self, node_name: str, *, key: str, value: str, overwrite: bool | None = None, dry_run: bool | None = None
    ) -> models.SetLabel:
        """Set a label of a node. One that has another value stays without `overwrite`: 409, `LabelConflict`.

        :param node_name: The node.
        :param key: The label's key.
        :param value: Its value.
        :param overwrite: Replace another value.
        :param dry_run: Only check; nothing is written.
        """
        found: models.SetLabel = await self.send(
            Call(
                "POST",
                f"/nodes/{segment(node_name)}/labels",
                models.SetLabel,
                body=given({"key": key, "value": value, "overwrite": overwrite, "dryRun": dry_run}),
            )
        )
        return found

    async def get_node_label(self, node_name: str, key: str) -> models.KeptLabel:
        """A label of a node. It was there by `createdAt`, and has not changed since `lastUpdatedAt`.

        :param node_name: The node.
        :param key: The label's key.
        """
        found: models.KeptLabel = await self.send(
            Call("GET", f"/nodes/{segment(node_name)}/labels/{segment(key)}", models.KeptLabel)
        )
        return found

    async def delete_node_label(self, node_name: str, key: str, *, dry_run: bool | None = None) -> models.DeletedLabel:
        """Delete a label of a node.

        :param node_name: The node.
        :param key: The label's key.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.DeletedLabel = await self.send(
            Call(
                "DELETE",
                f"/nodes/{segment(node_name)}/labels/{segment(key)}",
                models.DeletedLabel,
                query=given({"dryRun": dry_run}),
            )
        )
        return found

    async def set_label_of_nodes(
        self,
        *,
        key: str,
        value: str,
        node_names: Sequence[str],
        overwrite: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.BatchReport:
        """Set a label of several nodes: what can be done is done, the rest is in `failed`.

        :param key: The label's key.
        :param value: Its value.
        :param overwrite: Replace another value.
        :param dry_run: Only check; nothing is written.
        """
        found: models.BatchReport = await self.send(
            Call(
                "POST",
                "/nodes/labels/batch",
                models.BatchReport,
                body=given(
                    {
                        "key": key,
                        "value": value,
                        "overwrite": overwrite,
                        "dryRun": dry_run,
                        "nodeNames": list(node_names),
                    }
                ),
            )
        )
        return found

    async def change_labels_of_nodes(
        self,
        *,
        node_names: Sequence[str],
        labels: dict[str, str | None],
        dry_run: bool | None = None,
        overwrite: bool | None = None,
    ) -> models.BatchReport:
        """Set labels of several nodes, and delete those whose value is null: of a node all or none.

        :param dry_run: Only check; nothing is written.
        :param labels: Key -> value; null deletes the label.
        :param overwrite: Replace other values.
        """
        found: models.BatchReport = await self.send(
            Call(
                "POST",
                "/nodes/labels/changes",
                models.BatchReport,
                body=given(
                    {"nodeNames": list(node_names), "dryRun": dry_run, "labels": labels, "overwrite": overwrite}
                ),
                repeatable=False,
            )
        )
        return found

    async def delete_labels_of_nodes(
        self, *, node_names: Sequence[str], keys: Sequence[str], dry_run: bool | None = None
    ) -> models.BatchReport:
        """Delete labels of several nodes: of a node all or none.

        :param dry_run: Only check; nothing is written.
        """
        found: models.BatchReport = await self.send(
            Call(
                "POST",
                "/nodes/labels/deletions",
                models.BatchReport,
                body=given({"nodeNames": list(node_names), "dryRun": dry_run, "keys": list(keys)}),
                repeatable=False,
            )
        )
        return found

    async def list_nodes(
        self,
        *,
        pool: str | None = None,
        gpu_type: str | None = None,
        status: str | None = None,
        selector: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.NodePage:
        """The nodes by name.

        :param pool: Nodes of this pool.
        :param gpu_type: Nodes with this type of GPU, in either case: `a100-80g`, `nvidia.com/a100-80g` or
            `KEY=VALUE`; a label's key: nodes that have it.
        :param status: `active`; `maintaining`: cordoned; `faulty`: not ready.
        :param selector: Nodes by their labels, as kubectl's `-l`.
        :param page: Which page, from 1.
        :param page_size: Items of a page.
        """
        found: models.NodePage = await self.send(
            Call(
                "GET",
                "/nodes",
                models.NodePage,
                query=given(
                    {
                        "pool": pool,
                        "gpuType": gpu_type,
                        "status": status,
                        "selector": selector,
                        "page": page,
                        "pageSize": page_size,
                    }
                ),
            )
        )
        return found

    async def all_nodes(
        self,
        *,
        pool: str | None = None,
        gpu_type: str | None = None,
        status: str | None = None,
        selector: str | None = None,
        page_size: int = 500,
    ) -> AsyncIterator[models.NodeItem]:
        """Iterate over the items of all pages of :meth:`list_nodes`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = await self.list_nodes(
                pool=pool, gpu_type=gpu_type, status=status, selector=selector, page=number, page_size=page_size
            )
            for item in found.items:
                yield item
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    async def list_gpus(self, *, page: int | None = None, page_size: int | None = None) -> models.GpuPage:
        """The GPUs of all nodes that have any, one by one. Kubernetes counts the GPUs that pods have asked for, and
        does not say which: `gpuId` is a number, not a device.

        :param page: Which page, from 1.
        :param page_size: Items of a page.
        """
        found: models.GpuPage = await self.send(
            Call("GET", "/nodes/gpu-detail", models.GpuPage, query=given({"page": page, "pageSize": page_size}))
        )
        return found

    async def all_gpus(self, *, page_size: int = 500) -> AsyncIterator[models.GpusOfNode]:
        """Iterate over the items of all pages of :meth:`list_gpus`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = await self.list_gpus(page=number, page_size=page_size)
            for item in found.items:
                yield item
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    async def list_gpu_types(self) -> models.GpuTypeList:
        """The types of GPU that the nodes have by name, how many there are, and where."""
        found: models.GpuTypeList = await self.send(Call("GET", "/gpu-types", models.GpuTypeList))
        return found

    async def get_node(self, node_name: str) -> models.NodeDetail:
        """A node: what it has and what of it is requested, its labels, and of the jobs on it those that may be seen.

        :param node_name: The node.
        """
        found: models.NodeDetail = await self.send(Call("GET", f"/nodes/{segment(node_name)}", models.NodeDetail))
        return found

    async def list_quotas(self) -> models.QuotaList:
        """The quotas of the namespaces that may be seen."""
        found: models.QuotaList = await self.send(Call("GET", "/quotas", models.QuotaList))
        return found

    async def create_quota(
        self,
        *,
        name: str,
        description: str | None = None,
        users: dict[str, Any] | None = None,
        namespace: dict[str, Any] | None = None,
        default: dict[str, Any] | None = None,
        dry_run: bool | None = None,
        confirm: bool | None = None,
    ) -> models.CreatedQuota:
        """Create quotas of users, with their namespaces.

        :param users: User -> cpu, memory, gpu and maxJobs.
        :param namespace: The same as `users`.
        :param default: Fills in what an entry leaves out.
        :param dry_run: Only check; nothing is written.
        :param confirm: What a plan asks is confirmed: running work may end.
        """
        found: models.CreatedQuota = await self.send(
            Call(
                "POST",
                "/quotas",
                models.CreatedQuota,
                query=given({"confirm": confirm}),
                body=given(
                    {
                        "name": name,
                        "description": description,
                        "users": users,
                        "namespace": namespace,
                        "default": default,
                        "dryRun": dry_run,
                    }
                ),
                repeatable=False,
            )
        )
        return found

    async def get_quota(self, user_name: str) -> models.Quota | models.QuotaList:
        """The quota of a user, and how much of it is used; by the name of a quota's document, those of all its users.

        :param user_name: The user.
        """
        found: models.Quota | models.QuotaList = await self.send(
            Call("GET", f"/quotas/{segment(user_name)}", models.Quota | models.QuotaList)
        )
        return found

    async def delete_quota(
        self, user_name: str, *, confirm: bool | None = None, dry_run: bool | None = None
    ) -> models.Administered:
        """Delete the quota of a user; the namespace, and all that is in it, stays.

        :param confirm: What a plan asks is confirmed: running work may end.
        :param dry_run: Check everything and return what would be done; nothing is written.
        """
        found: models.Administered = await self.send(
            Call(
                "DELETE",
                f"/quotas/{segment(user_name)}",
                models.Administered,
                query=given({"confirm": confirm, "dryRun": dry_run}),
            )
        )
        return found

    async def add_nodes(
        self, pool_name: str, *, node_names: Sequence[str], dry_run: bool | None = None, overwrite: bool | None = None
    ) -> models.BatchReport:
        """Add nodes to a pool: what can be done is done, the rest is in `failed`. Running pods stay where they are.

        :param dry_run: Only check; nothing is written.
        :param overwrite: Move nodes that are in another pool.
        """
        found: models.BatchReport = await self.send(
            Call(
                "POST",
                f"/pools/{segment(pool_name)}/nodes/add",
                models.BatchReport,
                body=given({"nodeNames": list(node_names), "dryRun": dry_run, "overwrite": overwrite}),
            )
        )
        return found

    async def remove_nodes(
        self, pool_name: str, *, node_names: Sequence[str], dry_run: bool | None = None
    ) -> models.BatchReport:
        """Remove nodes from a pool: what can be done is done, the rest is in `failed`. Running pods stay where they
        are.

        :param dry_run: Only check; nothing is written.
        """
        found: models.BatchReport = await self.send(
            Call(
                "POST",
                f"/pools/{segment(pool_name)}/nodes/remove",
                models.BatchReport,
                body=given({"nodeNames": list(node_names), "dryRun": dry_run}),
                repeatable=False,
            )
        )
        return found

    async def delete_pools(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        confirm: bool | None = None,
        timeout: float | None = None,
        keep_labels: bool | None = None,
    ) -> models.PlanAnswer:
        """Delete pools; their nodes lose the label, their jobs continue to run.

        :param dry_run: Only check; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param names: Names; for jobs also a jobId, KIND/NAME or the name of a pod.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        :param keep_labels: Leave the labels of a pool on its nodes.
        """
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/pools/delete",
                models.PlanAnswer,
                query=given({"confirm": confirm, "timeout": timeout, "keepLabels": keep_labels}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
            )
        )
        return found

    async def delete_quotas(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        confirm: bool | None = None,
        timeout: float | None = None,
    ) -> models.PlanAnswer:
        """Delete the quotas of users; the namespaces, and all that is in them, stay.

        :param dry_run: Only check; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. A plan with another
            text is answered with 409 and the plan.
        :param names: Names; for jobs also a jobId, KIND/NAME or the name of a pod.
        :param confirm: What a plan asks is confirmed: running work may end.
        :param timeout: Seconds for deletions and late quotas; the service waits at most 600.
        """
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/quotas/delete",
                models.PlanAnswer,
                query=given({"confirm": confirm, "timeout": timeout}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
            )
        )
        return found

    async def list_namespaces(self, *, all: bool | None = None) -> models.NamespaceList:
        """The namespaces that gpuctl made, or that have jobs or quotas of its, of those that may be seen.

        :param all: Also those without jobs and quotas.
        """
        found: models.NamespaceList = await self.send(
            Call("GET", "/namespaces", models.NamespaceList, query=given({"all": all}))
        )
        return found

    async def get_namespace(self, namespace_name: str) -> models.NamespaceDetail:
        """A namespace: what limits it, what runs in it, and what waits.

        :param namespace_name: The namespace.
        """
        found: models.NamespaceDetail = await self.send(
            Call("GET", f"/namespaces/{segment(namespace_name)}", models.NamespaceDetail)
        )
        return found

    async def fit_documents(
        self,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        files: Sequence[dict[str, Any]] | None = None,
        platform: dict[str, Any] | None = None,
        namespace: str | None = None,
        suggest: bool | None = None,
        strict: bool | None = None,
    ) -> models.FitAnswer:
        """Judge whether all pods of each job would find room at once, and which pods they would evict. Changes
        nothing.

        :param dry_run: Only check them; nothing is written.
        :param platform: The platform file beside the documents. It is not used; a message says how it differs from
            the service's.
        :param namespace: Of jobs that name none.
        :param suggest: Find the smallest changes with which jobs that do not fit would, of 20 documents.
        :param strict: Reject documents that have warnings.
        """
        found: models.FitAnswer = await self.send(
            Call(
                "POST",
                "/fit",
                models.FitAnswer,
                query=given({"namespace": namespace, "suggest": suggest, "strict": strict}),
                body=given(
                    {
                        "yamlContent": as_yaml(documents),
                        "dryRun": dry_run,
                        "files": None if files is None else list(files),
                        "platform": platform,
                    }
                ),
            )
        )
        return found

    async def fit_waiting(self, *, namespace: str | None = None) -> models.FitAnswer:
        """Return the same of each job whose pods wait for a node now.

        :param namespace: Only jobs of this namespace.
        """
        found: models.FitAnswer = await self.send(
            Call("GET", "/fit", models.FitAnswer, query=given({"namespace": namespace}))
        )
        return found

    async def check_right(
        self, *, resource: str, action: str, pool: str | None = None, namespace: str | None = None
    ) -> models.RightAnswer:
        """Whether whoever asks may do something: what the routes themselves decide by."""
        found: models.RightAnswer = await self.send(
            Call(
                "POST",
                "/auth/check",
                models.RightAnswer,
                body=given({"resource": resource, "action": action, "pool": pool, "namespace": namespace}),
            )
        )
        return found

    async def list_audit(
        self,
        *,
        caller: str | None = None,
        action: str | None = None,
        object: str | None = None,
        namespace: str | None = None,
        result: str | None = None,
        since: str | None = None,
        until: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.AuditPage:
        """Writes, and attempts of them, the newest first.

        :param caller: Of this caller.
        :param action: A method, or method and path: `DELETE`, `POST /jobs`.
        :param object: Part of an object's name.
        :param namespace: Of objects in this namespace.
        :param result: A status, or the name of an error: `201`, `Forbidden`.
        :param since: From this time on, RFC 3339.
        :param until: Before this time.
        :param page: Which page, from 1.
        :param page_size: Items of a page.
        """
        found: models.AuditPage = await self.send(
            Call(
                "GET",
                "/audit",
                models.AuditPage,
                query=given(
                    {
                        "caller": caller,
                        "action": action,
                        "object": object,
                        "namespace": namespace,
                        "result": result,
                        "since": since,
                        "until": until,
                        "page": page,
                        "pageSize": page_size,
                    }
                ),
            )
        )
        return found

    async def all_audit(
        self,
        *,
        caller: str | None = None,
        action: str | None = None,
        object: str | None = None,
        namespace: str | None = None,
        result: str | None = None,
        since: str | None = None,
        until: str | None = None,
        page_size: int = 500,
    ) -> AsyncIterator[models.AuditLine]:
        """Iterate over the items of all pages of :meth:`list_audit`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = await self.list_audit(
                caller=caller,
                action=action,
                object=object,
                namespace=namespace,
                result=result,
                since=since,
                until=until,
                page=number,
                page_size=page_size,
            )
            for item in found.items:
                yield item
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    async def list_usage_clusters(self) -> models.UsageNames:
        """Names of clusters; the first is the default. Others than that of this service are only listed for callers
        who see all namespaces and pools.
        """
        found: models.UsageNames = await self.send(Call("GET", "/gpu-aggregation/clusters", models.UsageNames))
        return found

    async def list_usage_namespaces(self, *, cluster: str | None = None) -> models.UsageNames:
        """Namespaces in which GPUs were held, of those that may be seen.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        """
        found: models.UsageNames = await self.send(
            Call("GET", "/gpu-aggregation/namespaces", models.UsageNames, query=given({"cluster": cluster}))
        )
        return found

    async def list_usage_keys(
        self, *, dimension_type: str | None = None, cluster: str | None = None
    ) -> models.UsageNames:
        """Keys of labels, or of annotations, by which usage is added up. For those who see all namespaces.

        :param dimension_type: What kind of dimension it is.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        """
        found: models.UsageNames = await self.send(
            Call(
                "GET",
                "/gpu-aggregation/dimension-keys",
                models.UsageNames,
                query=given({"dimension_type": dimension_type, "cluster": cluster}),
            )
        )
        return found

    async def list_usage_values(
        self, *, dimension_key: str, dimension_type: str | None = None, cluster: str | None = None
    ) -> models.UsageNames:
        """Values that a label, or an annotation, has had. For those who see all namespaces.

        :param dimension_key: The key of the label.
        :param dimension_type: What kind of dimension it is.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        """
        found: models.UsageNames = await self.send(
            Call(
                "GET",
                "/gpu-aggregation/dimension-values",
                models.UsageNames,
                query=given({"dimension_key": dimension_key, "dimension_type": dimension_type, "cluster": cluster}),
            )
        )
        return found

    async def get_cluster_usage(
        self,
        *,
        cluster: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        hours: int | None = None,
        step: str | None = None,
        tz: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
        format: str | None = None,
    ) -> models.ClusterUsage:
        """A cluster, hour by hour. For those who see all namespaces.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Hours that begin at it or later; RFC 3339. Required without `hours`.
        :param end_time: Before this time. Required without `hours`.
        :param hours: So many hours, up to now with the one that runs, or with one of the two times.
        :param step: What a row is of. Weeks begin on Monday; `total` is one row for the whole time.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Which page, from 1: then the answer is one.
        :param page_size: Rows of a page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the answer before.
            Rows that come meanwhile move no others.
        :param format: `csv`: rows alone, below their names.
        """
        found: models.ClusterUsage = await self.send(
            Call(
                "GET",
                "/gpu-aggregation/cluster/hourly-stats",
                models.ClusterUsage,
                query=given(
                    {
                        "cluster": cluster,
                        "start_time": start_time,
                        "end_time": end_time,
                        "hours": hours,
                        "step": step,
                        "tz": tz,
                        "page": page,
                        "page_size": page_size,
                        "cursor": cursor,
                        "format": format,
                    }
                ),
            )
        )
        return found

    async def get_namespace_usage(
        self,
        *,
        namespace: str | None = None,
        exclude_namespaces: str | None = None,
        include_idle: bool | None = None,
        cluster: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        hours: int | None = None,
        step: str | None = None,
        tz: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
        format: str | None = None,
    ) -> models.NamespaceUsage:
        """Namespaces, hour by hour, of those that may be seen.

        :param namespace: Of this namespace. Default: of all that may be seen.
        :param exclude_namespaces: Namespaces that are left out, separated by commas.
        :param include_idle: Also rows of zero, of those that held GPUs at any time that is kept, and in this step
            none.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Hours that begin at it or later; RFC 3339. Required without `hours`.
        :param end_time: Before this time. Required without `hours`.
        :param hours: So many hours, up to now with the one that runs, or with one of the two times.
        :param step: What a row is of. Weeks begin on Monday; `total` is one row for the whole time.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Which page, from 1: then the answer is one.
        :param page_size: Rows of a page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the answer before.
            Rows that come meanwhile move no others.
        :param format: `csv`: rows alone, below their names.
        """
        found: models.NamespaceUsage = await self.send(
            Call(
                "GET",
                "/gpu-aggregation/namespaces/hourly-stats",
                models.NamespaceUsage,
                query=given(
                    {
                        "namespace": namespace,
                        "exclude_namespaces": exclude_namespaces,
                        "include_idle": include_idle,
                        "cluster": cluster,
                        "start_time": start_time,
                        "end_time": end_time,
                        "hours": hours,
                        "step": step,
                        "tz": tz,
                        "page": page,
                        "page_size": page_size,
                        "cursor": cursor,
                        "format": format,
                    }
                ),
            )
        )
        return found

    async def get_label_usage(
        self,
        *,
        dimension_type: str,
        dimension_key: str,
        dimension_value: str | None = None,
        include_idle: bool | None = None,
        cluster: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        hours: int | None = None,
        step: str | None = None,
        tz: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
        format: str | None = None,
    ) -> models.LabelUsage:
        """The values of a label or annotation, hour by hour. For those who see all namespaces.

        :param dimension_type: What kind of dimension it is.
        :param dimension_key: The key of the label.
        :param dimension_value: Of this value. Default: of all.
        :param include_idle: Also rows of zero, of those that held GPUs at any time that is kept, and in this step
            none.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Hours that begin at it or later; RFC 3339. Required without `hours`.
        :param end_time: Before this time. Required without `hours`.
        :param hours: So many hours, up to now with the one that runs, or with one of the two times.
        :param step: What a row is of. Weeks begin on Monday; `total` is one row for the whole time.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Which page, from 1: then the answer is one.
        :param page_size: Rows of a page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the answer before.
            Rows that come meanwhile move no others.
        :param format: `csv`: rows alone, below their names.
        """
        found: models.LabelUsage = await self.send(
            Call(
                "GET",
                "/gpu-aggregation/labels/hourly-stats",
                models.LabelUsage,
                query=given(
                    {
                        "dimension_type": dimension_type,
                        "dimension_key": dimension_key,
                        "dimension_value": dimension_value,
                        "include_idle": include_idle,
                        "cluster": cluster,
                        "start_time": start_time,
                        "end_time": end_time,
                        "hours": hours,
                        "step": step,
                        "tz": tz,
                        "page": page,
                        "page_size": page_size,
                        "cursor": cursor,
                        "format": format,
                    }
                ),
            )
        )
        return found

    async def get_workload_usage(
        self,
        *,
        namespace: str | None = None,
        exclude_namespaces: str | None = None,
        workload_name: str | None = None,
        workload_type: str | None = None,
        order_by: str | None = None,
        order_direction: str | None = None,
        cluster: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        hours: int | None = None,
        step: str | None = None,
        tz: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
        format: str | None = None,
    ) -> models.WorkloadUsage:
        """Workloads, hour by hour, of the namespaces that may be seen; always a page, but as CSV.

        :param namespace: Of this namespace. Default: of all that may be seen.
        :param exclude_namespaces: Namespaces that are left out, separated by commas.
        :param workload_name: Of this name.
        :param workload_type: Of this kind.
        :param order_by: By what; what is not known is last.
        :param order_direction: The least first, or the most.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Hours that begin at it or later; RFC 3339. Required without `hours`.
        :param end_time: Before this time. Required without `hours`.
        :param hours: So many hours, up to now with the one that runs, or with one of the two times.
        :param step: What a row is of. Weeks begin on Monday; `total` is one row for the whole time.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Which page, from 1: then the answer is one.
        :param page_size: Rows of a page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the answer before.
            Rows that come meanwhile move no others.
        :param format: `csv`: rows alone, below their names.
        """
        found: models.WorkloadUsage = await self.send(
            Call(
                "GET",
                "/gpu-aggregation/workloads/hourly-stats",
                models.WorkloadUsage,
                query=given(
                    {
                        "namespace": namespace,
                        "exclude_namespaces": exclude_namespaces,
                        "workload_name": workload_name,
                        "workload_type": workload_type,
                        "order_by": order_by,
                        "order_direction": order_direction,
                        "cluster": cluster,
                        "start_time": start_time,
                        "end_time": end_time,
                        "hours": hours,
                        "step": step,
                        "tz": tz,
                        "page": page,
                        "page_size": page_size,
                        "cursor": cursor,
                        "format": format,
                    }
                ),
            )
        )
        return found

    async def list_held_models(
        self,
        *,
        cluster: str | None = None,
        namespace: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        dimension_type: str | None = None,
        dimension_key: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.HeldModelsAnswer:
        """GPU-seconds that workloads held of each GPU model. They add up to the ledger as long as hours are kept.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param namespace: Of this namespace. Default: of all that may be seen.
        :param start_time: From when on, RFC 3339. Default: 24 hours before the end.
        :param end_time: Before this time. Default: now.
        :param dimension_type: What kind of dimension it is.
        :param dimension_key: Also by this label or annotation.
        :param page: Which page, from 1: then the answer is one.
        :param page_size: Rows of a page. Default: 20.
        """
        found: models.HeldModelsAnswer = await self.send(
            Call(
                "GET",
                "/gpu-aggregation/workloads/models",
                models.HeldModelsAnswer,
                query=given(
                    {
                        "cluster": cluster,
                        "namespace": namespace,
                        "start_time": start_time,
                        "end_time": end_time,
                        "dimension_type": dimension_type,
                        "dimension_key": dimension_key,
                        "page": page,
                        "page_size": page_size,
                    }
                ),
            )
        )
        return found

    async def get_usage_ledger(
        self,
        *,
        by: str | None = None,
        key: str | None = None,
        value: str | None = None,
        namespace: str | None = None,
        exclude_namespaces: str | None = None,
        cluster: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        hours: int | None = None,
        step: str | None = None,
        tz: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
        format: str | None = None,
    ) -> models.LedgerAnswer:
        """What became of every GPU-second. What is not of namespaces or workloads is for those who see all namespaces.

        :param by: What a row is about.
        :param key: Of a label or annotation.
        :param value: Of this namespace, value, workload (uid), node or model. Default: of all.
        :param namespace: Of this namespace. Default: of all that may be seen.
        :param exclude_namespaces: Namespaces that are left out, separated by commas.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Hours that begin at it or later; RFC 3339. Required without `hours`.
        :param end_time: Before this time. Required without `hours`.
        :param hours: So many hours, up to now with the one that runs, or with one of the two times.
        :param step: What a row is of. Weeks begin on Monday; `total` is one row for the whole time.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Which page, from 1: then the answer is one.
        :param page_size: Rows of a page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the answer before.
            Rows that come meanwhile move no others.
        :param format: `csv`: rows alone, below their names.
        """
        found: models.LedgerAnswer = await self.send(
            Call(
                "GET",
                "/gpu-aggregation/ledger",
                models.LedgerAnswer,
                query=given(
                    {
                        "by": by,
                        "key": key,
                        "value": value,
                        "namespace": namespace,
                        "exclude_namespaces": exclude_namespaces,
                        "cluster": cluster,
                        "start_time": start_time,
                        "end_time": end_time,
                        "hours": hours,
                        "step": step,
                        "tz": tz,
                        "page": page,
                        "page_size": page_size,
                        "cursor": cursor,
                        "format": format,
                    }
                ),
            )
        )
        return found

    async def get_usage_waste(
        self,
        *,
        cluster: str | None = None,
        namespace: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        below: float | None = None,
    ) -> models.WasteAnswer:
        """Who holds GPUs now and has not used them for an hour or longer, and what was idle in a time.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param namespace: Of this namespace. Default: of all that may be seen.
        :param start_time: From when on, RFC 3339. Default: 24 hours before the end.
        :param end_time: Before this time. Default: now.
        :param below: Percent: an hour with less use is idle.
        """
        found: models.WasteAnswer = await self.send(
            Call(
                "GET",
                "/gpu-aggregation/waste",
                models.WasteAnswer,
                query=given(
                    {
                        "cluster": cluster,
                        "namespace": namespace,
                        "start_time": start_time,
                        "end_time": end_time,
                        "below": below,
                    }
                ),
            )
        )
        return found

    async def get_latest_snapshot(self, *, cluster: str | None = None) -> models.LatestAllocation:
        """Who held GPUs when that was looked at last, of the namespaces that may be seen.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        """
        found: models.LatestAllocation = await self.send(
            Call("GET", "/gpu-aggregation/snapshots/latest", models.LatestAllocation, query=given({"cluster": cluster}))
        )
        return found

    async def list_snapshots(
        self,
        *,
        cluster: str | None = None,
        start_time: str | None = None,
        end_time: str | None = None,
        include_details: bool | None = None,
        interval: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.AllocationHistory:
        """Who held GPUs, every five minutes, of the namespaces that may be seen.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: From when on, RFC 3339. Default: 24 hours before the end.
        :param end_time: Before this time. Default: now.
        :param include_details: Whether to tell of every workload. Default: where there are no more than 300
            snapshots.
        :param interval: One snapshot of so long at most, the first: minutes, hours or days. Default: every one.
        :param page: Which page, from 1: then the answer is one.
        :param page_size: Rows of a page. Default: 20.
        """
        found: models.AllocationHistory = await self.send(
            Call(
                "GET",
                "/gpu-aggregation/snapshots",
                models.AllocationHistory,
                query=given(
                    {
                        "cluster": cluster,
                        "start_time": start_time,
                        "end_time": end_time,
                        "include_details": include_details,
                        "interval": interval,
                        "page": page,
                        "page_size": page_size,
                    }
                ),
            )
        )
        return found
