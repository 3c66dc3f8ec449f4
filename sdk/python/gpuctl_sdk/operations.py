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
        sort: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.JobPage:
        """List the visible jobs.

        :param kind: Only jobs of this kind: training, inference, notebook or compute.
        :param pool: Only jobs in this pool.
        :param status: Only jobs with this phase or status word, case-insensitive.
        :param namespace: Only jobs in this namespace.
        :param name: Only jobs with this id or name, or with a pod of this name.
        :param sort: Order of the jobs; `gpu`: those with the most GPUs first.
        :param page: Page number, from 1.
        :param page_size: Items per page.
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
                        "sort": sort,
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
        sort: str | None = None,
        page_size: int = 500,
    ) -> Iterator[models.JobItem]:
        """Iterate over the items of all pages of :meth:`list_jobs`, which are requested on demand.

        Items that are added or removed during the iteration can shift the pages.
        """
        number, seen = 1, 0
        while True:
            found = self.list_jobs(
                kind=kind,
                pool=pool,
                status=status,
                namespace=namespace,
                name=name,
                sort=sort,
                page=number,
                page_size=page_size,
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
        queue: bool | None = None,
        profile: str | None = None,
        confirm: bool | None = None,
        idempotency_key: str | None = None,
    ) -> models.Submitted:
        """Create what documents describe. If an object already exists, the answer is 409. With ``dryRun`` documents
        are only checked.

        :param dry_run: Check only; nothing is written.
        :param queue: Create a job even if a quota is exhausted. It starts when the quota has room.
        :param profile: Profile to merge into the documents that have profiles.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        :param idempotency_key: Key of this request; default: a random one, so that it can be retried.
        """
        found: models.Submitted = self.send(
            Call(
                "POST",
                "/jobs",
                models.Submitted,
                query=given({"queue": queue, "profile": profile, "confirm": confirm}),
                body=given({"dryRun": dry_run, "yamlContent": as_yaml(documents)}),
                headers=idempotency(idempotency_key),
            )
        )
        return found

    def get_job(self, job_id: str, *, namespace: str | None = None) -> models.JobDescription:
        """Return a job, with its document and its pods.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param namespace: Namespace of the job; required if the name exists in several.
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
        queue: bool | None = None,
        profile: str | None = None,
        checkpoint: bool | None = None,
        confirm: bool | None = None,
    ) -> models.ChangedJob:
        """Apply the changed document of a job. A change that ends running work must be confirmed.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param dry_run: Check only; nothing is written.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param queue: Create a job even if a quota is exhausted. It starts when the quota has room.
        :param profile: Profile to merge into the documents that have profiles.
        :param checkpoint: Let the job save its progress before its pods end. If that fails, no pod is ended: 409.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        """
        found: models.ChangedJob = self.send(
            Call(
                "PUT",
                f"/jobs/{segment(job_id)}",
                models.ChangedJob,
                query=given(
                    {
                        "namespace": namespace,
                        "queue": queue,
                        "profile": profile,
                        "checkpoint": checkpoint,
                        "confirm": confirm,
                    }
                ),
                body=given({"dryRun": dry_run, "yamlContent": as_yaml(documents)}),
                waits=True,
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
        """Delete a job, without waiting until its pods are gone.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param force: End the pods without their grace period.
        :param checkpoint: Let the job save its progress before its pods end. If that fails, no pod is ended: 409.
        :param dry_run: Check everything and return what would be done. Nothing is written.
        """
        found: models.JobState = self.send(
            Call(
                "DELETE",
                f"/jobs/{segment(job_id)}",
                models.JobState,
                query=given({"namespace": namespace, "force": force, "checkpoint": checkpoint, "dryRun": dry_run}),
                waits=True,
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
        sweep: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.PodPage:
        """List the pods of the visible jobs, by namespace and name. A job with missing pods has an additional item for
        them.

        :param names: Ids or names of jobs, or names of their pods, separated by commas. Each must exist.
        :param selector: Label selector, in the syntax of `kubectl -l`.
        :param kind: Only jobs of this kind: training, inference, notebook or compute.
        :param pool: Only jobs in this pool.
        :param status: A status word or a phase, case-insensitive.
        :param namespace: Only jobs in this namespace.
        :param by_job: One item per job; `ready` counts its pods.
        :param pods_only: Leave out the items for missing pods.
        :param reasons: Explain pending pods as `GET /jobs/{jobId}/why` does, which takes longer.
        :param sweep: Only the jobs of this sweep.
        :param page: Page number, from 1.
        :param page_size: Items per page.
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
                        "sweep": sweep,
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
        sweep: str | None = None,
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
                sweep=sweep,
                page=number,
                page_size=page_size,
            )
            yield from found.items
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    def get_gpu_use(self, *, namespace: str | None = None, max_age: float | None = None) -> models.GpusOfJobs:
        """Return the number of GPUs that the visible jobs hold and wait for.

        :param namespace: Only jobs in this namespace.
        :param max_age: Maximum age of the answer, seconds: that of another request with the same rights may be
            returned. Default: it is computed now.
        """
        found: models.GpusOfJobs = self.send(
            Call("GET", "/gpu-use", models.GpusOfJobs, query=given({"namespace": namespace, "maxAge": max_age}))
        )
        return found

    def get_job_why(self, job_id: str, *, namespace: str | None = None) -> models.WhyAnswer:
        """Return the cause of a job's state with numbers and evidence, what was ruled out, and what to do.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        """
        found: models.WhyAnswer = self.send(
            Call("GET", f"/jobs/{segment(job_id)}/why", models.WhyAnswer, query=given({"namespace": namespace}))
        )
        return found

    def get_job_timeline(self, job_id: str, *, namespace: str | None = None) -> models.JobTimeline:
        """Return the timeline of a job: the stages of its pods, the conditions of its workload, and its events.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        """
        found: models.JobTimeline = self.send(
            Call("GET", f"/jobs/{segment(job_id)}/timeline", models.JobTimeline, query=given({"namespace": namespace}))
        )
        return found

    def get_job_details(
        self, job_id: str, *, namespace: str | None = None, timeline: bool | None = None, max_age: float | None = None
    ) -> models.JobDetails:
        """Return the full description of a job: pods, timeline, addresses, events, and the reason for which it waits.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param timeline: False: no timeline, conditions and events; `GET /jobs/{jobId}/timeline` has them.
        :param max_age: Maximum age of the nodes and of the pods of other jobs that the answer is computed from,
            seconds. Default: they are read now.
        """
        found: models.JobDetails = self.send(
            Call(
                "GET",
                f"/jobs/{segment(job_id)}/details",
                models.JobDetails,
                query=given({"namespace": namespace, "timeline": timeline, "maxAge": max_age}),
            )
        )
        return found

    def get_job_history(self, job_id: str, *, namespace: str | None = None) -> models.JobDocuments:
        """List the applied documents of a job, newest first: user, time, commit, and the changes of each one. The
        history of a deleted job is found by its name.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        """
        found: models.JobDocuments = self.send(
            Call("GET", f"/jobs/{segment(job_id)}/history", models.JobDocuments, query=given({"namespace": namespace}))
        )
        return found

    def get_job_revision(self, job_id: str, revision: int, *, namespace: str | None = None) -> models.JobRevision:
        """Return an applied document of a job, with credentials masked.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param revision: Number of the revision.
        :param namespace: Namespace of the job; required if the name exists in several.
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
        """Wait until at least one of several jobs meets the condition or can no longer meet it. Send another request
        for the others.

        :param condition: `started`: all pods are ready, or the job needs none, as it has finished or is paused.
        :param timeout: Maximum time until the response, seconds.
        :param limit: Seconds, over all requests, after which a job is late; null: never.
        :param waited: Part of `limit` that earlier requests have waited, seconds.
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
        """Wait until a job is running, ready, done or deleted, or until it can no longer be.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param timeout: Maximum wait, seconds.
        :param namespace: Namespace of the job; required if the name exists in several.
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
        confirmed: Sequence[str] | None = None,
        files: Sequence[dict[str, Any]] | None = None,
        platform: dict[str, Any] | None = None,
        overrides: Sequence[str] | None = None,
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
        namespace: str | None = None,
        strict: bool | None = None,
        profile: str | None = None,
        queue: bool | None = None,
        strategy: str | None = None,
        relower: bool | None = None,
        no_probe: bool | None = None,
        create_namespace: bool | None = None,
        create_only: bool | None = None,
    ) -> models.PlanAnswer:
        """Create and update what documents describe. A change that ends running work must be confirmed.

        :param dry_run: Check only; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. If the plan has
            other texts, the answer is 409 with the plan.
        :param platform: The platform file that belongs to the documents. It is not used; a message reports how it
            differs from the service's.
        :param overrides: Fields to override for this run, each as `PATH=VALUE` or `JOB:PATH=VALUE`.
        :param checkpoint: Let the job save its progress before its pods end. If that fails, no pod is ended: 409.
        :param force: End the pods without their grace period.
        :param timeout: Maximum wait for deletions and for quotas, seconds. The service waits at most 600.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        :param namespace: Namespace of jobs whose documents do not have one.
        :param strict: Reject documents with warnings.
        :param profile: Profile to merge into the documents that have profiles.
        :param queue: Create a job even if a quota is exhausted. It starts when the quota has room.
        :param strategy: Rollout strategy of a changed service. Default: that of the running service, else of the
            platform.
        :param relower: Also update objects that differ only because a newer gpuctl generates other objects.
        :param no_probe: Report the rejection of a trial pod as a note instead of an error.
        :param create_namespace: Create the namespace of the request if it does not exist.
        :param create_only: Reject documents whose objects already exist.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/apply",
                models.PlanAnswer,
                query=given(
                    {
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                        "confirm": confirm,
                        "namespace": namespace,
                        "strict": strict,
                        "profile": profile,
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
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "yamlContent": as_yaml(documents),
                        "files": None if files is None else list(files),
                        "platform": platform,
                        "overrides": None if overrides is None else list(overrides),
                    }
                ),
                repeatable=False,
                waits=True,
            )
        )
        return found

    def delete_documents(
        self,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        files: Sequence[dict[str, Any]] | None = None,
        platform: dict[str, Any] | None = None,
        overrides: Sequence[str] | None = None,
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
        keep_labels: bool | None = None,
        confirm: bool | None = None,
        namespace: str | None = None,
        strict: bool | None = None,
        profile: str | None = None,
    ) -> models.PlanAnswer:
        """Delete what documents describe, and wait until it is gone.

        :param dry_run: Check only; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. If the plan has
            other texts, the answer is 409 with the plan.
        :param platform: The platform file that belongs to the documents. It is not used; a message reports how it
            differs from the service's.
        :param overrides: Fields to override for this run, each as `PATH=VALUE` or `JOB:PATH=VALUE`.
        :param checkpoint: Let the job save its progress before its pods end. If that fails, no pod is ended: 409.
        :param force: End the pods without their grace period.
        :param timeout: Maximum wait for deletions and for quotas, seconds. The service waits at most 600.
        :param keep_labels: Keep the labels of a pool on its nodes.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        :param namespace: Namespace of jobs whose documents do not have one.
        :param strict: Reject documents with warnings.
        :param profile: Profile to merge into the documents that have profiles.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/delete",
                models.PlanAnswer,
                query=given(
                    {
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                        "keepLabels": keep_labels,
                        "confirm": confirm,
                        "namespace": namespace,
                        "strict": strict,
                        "profile": profile,
                    }
                ),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "yamlContent": as_yaml(documents),
                        "files": None if files is None else list(files),
                        "platform": platform,
                        "overrides": None if overrides is None else list(overrides),
                    }
                ),
                repeatable=False,
                waits=True,
            )
        )
        return found

    def plan_documents(
        self,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        files: Sequence[dict[str, Any]] | None = None,
        platform: dict[str, Any] | None = None,
        overrides: Sequence[str] | None = None,
        checkpoint: bool | None = None,
        show: str | None = None,
        namespace: str | None = None,
        strict: bool | None = None,
        profile: str | None = None,
        queue: bool | None = None,
        strategy: str | None = None,
        relower: bool | None = None,
        no_probe: bool | None = None,
        create_namespace: bool | None = None,
        create_only: bool | None = None,
    ) -> models.PlanAnswer:
        """Return what applying documents would do. Writes nothing.

        :param dry_run: Check only; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. If the plan has
            other texts, the answer is 409 with the plan.
        :param platform: The platform file that belongs to the documents. It is not used; a message reports how it
            differs from the service's.
        :param overrides: Fields to override for this run, each as `PATH=VALUE` or `JOB:PATH=VALUE`.
        :param checkpoint: Let the job save its progress before its pods end. If that fails, no pod is ended: 409.
        :param show: `objects`: include each object before and after the change, with secrets masked.
        :param namespace: Namespace of jobs whose documents do not have one.
        :param strict: Reject documents with warnings.
        :param profile: Profile to merge into the documents that have profiles.
        :param queue: Create a job even if a quota is exhausted. It starts when the quota has room.
        :param strategy: Rollout strategy of a changed service. Default: that of the running service, else of the
            platform.
        :param relower: Also update objects that differ only because a newer gpuctl generates other objects.
        :param no_probe: Report the rejection of a trial pod as a note instead of an error.
        :param create_namespace: Create the namespace of the request if it does not exist.
        :param create_only: Reject documents whose objects already exist.
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
                        "profile": profile,
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
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "yamlContent": as_yaml(documents),
                        "files": None if files is None else list(files),
                        "platform": platform,
                        "overrides": None if overrides is None else list(overrides),
                    }
                ),
                waits=True,
            )
        )
        return found

    def create_job_batch(
        self,
        documents: Sequence[Documents],
        *,
        dry_run: bool | None = None,
        queue: bool | None = None,
        confirm: bool | None = None,
        idempotency_key: str | None = None,
    ) -> models.Batch:
        """Create the documents of each entry independently. Failed entries have an error. With ``dryRun`` they are
        only checked.

        :param dry_run: Check only; nothing is written.
        :param queue: Create a job even if a quota is exhausted. It starts when the quota has room.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        :param idempotency_key: Key of this request; default: a random one, so that it can be retried.
        """
        found: models.Batch = self.send(
            Call(
                "POST",
                "/jobs/batch",
                models.Batch,
                query=given({"queue": queue, "confirm": confirm}),
                body=given({"dryRun": dry_run, "yamlContents": [as_yaml(entry) for entry in documents]}),
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
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
    ) -> models.PlanAnswer:
        """Delete jobs, and wait until they are gone.

        :param dry_run: Check only; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. If the plan has
            other texts, the answer is 409 with the plan.
        :param names: Names; for jobs also ids, KIND/NAME, or names of pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param checkpoint: Let the job save its progress before its pods end. If that fails, no pod is ended: 409.
        :param force: End the pods without their grace period.
        :param timeout: Maximum wait for deletions and for quotas, seconds. The service waits at most 600.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/jobs/delete",
                models.PlanAnswer,
                query=given(
                    {
                        "namespace": namespace,
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                        "confirm": confirm,
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
                waits=True,
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
        failed: bool | None = None,
        queue: bool | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
    ) -> models.PlanAnswer:
        """Run finished trainings again. A deleted training must be the only one named, and must be confirmed.

        :param dry_run: Check only; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. If the plan has
            other texts, the answer is 409 with the plan.
        :param names: Names; for jobs also ids, KIND/NAME, or names of pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param failed: Run only failed trainings; of arrays, only the indexes that have not succeeded.
        :param queue: Create a job even if a quota is exhausted. It starts when the quota has room.
        :param timeout: Maximum wait for deletions and for quotas, seconds. The service waits at most 600.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/jobs/rerun",
                models.PlanAnswer,
                query=given(
                    {"namespace": namespace, "failed": failed, "queue": queue, "timeout": timeout, "confirm": confirm}
                ),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
                waits=True,
            )
        )
        return found

    def run_jobs(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        namespace: str | None = None,
        queue: bool | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
    ) -> models.PlanAnswer:
        """Start a run of each of some scheduled trainings now.

        :param dry_run: Check only; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. If the plan has
            other texts, the answer is 409 with the plan.
        :param names: Names; for jobs also ids, KIND/NAME, or names of pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param queue: Create a job even if a quota is exhausted. It starts when the quota has room.
        :param timeout: Maximum wait for deletions and for quotas, seconds. The service waits at most 600.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/jobs/run",
                models.PlanAnswer,
                query=given({"namespace": namespace, "queue": queue, "timeout": timeout, "confirm": confirm}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
                waits=True,
            )
        )
        return found

    def scale_jobs(
        self,
        *,
        names: Sequence[str],
        nodes: int,
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        namespace: str | None = None,
        checkpoint: bool | None = None,
        queue: bool | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
    ) -> models.PlanAnswer:
        """Change the number of nodes of elastic trainings. A change that restarts running work must be confirmed.

        :param dry_run: Check only; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. If the plan has
            other texts, the answer is 409 with the plan.
        :param names: Names; for jobs also ids, KIND/NAME, or names of pods.
        :param nodes: The number of nodes, within the range of the document.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param checkpoint: Let the job save its progress before its pods end. If that fails, no pod is ended: 409.
        :param queue: Create a job even if a quota is exhausted. It starts when the quota has room.
        :param timeout: Maximum wait for deletions and for quotas, seconds. The service waits at most 600.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/jobs/scale",
                models.PlanAnswer,
                query=given(
                    {
                        "nodes": nodes,
                        "namespace": namespace,
                        "checkpoint": checkpoint,
                        "queue": queue,
                        "timeout": timeout,
                        "confirm": confirm,
                    }
                ),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                waits=True,
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
        """Pause jobs one after another: end their pods and keep the jobs. An error has the jobs that were paused
        before it in ``items``.

        :param dry_run: Check only; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. If the plan has
            other texts, the answer is 409 with the plan.
        :param names: Names; for jobs also ids, KIND/NAME, or names of pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param checkpoint: Let the job save its progress before its pods end. If that fails, no pod is ended: 409.
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
                waits=True,
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
        """Resume paused jobs. Preempting pods of other jobs must be confirmed.

        :param dry_run: Check only; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. If the plan has
            other texts, the answer is 409 with the plan.
        :param names: Names; for jobs also ids, KIND/NAME, or names of pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param confirm: Confirm all questions of the plan: running work may be ended.
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
        """Pause a job: end its pods, which frees its GPUs, and keep the job.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param checkpoint: Let the job save its progress before its pods end. If that fails, no pod is ended: 409.
        :param dry_run: Check everything and return what would be done. Nothing is written.
        """
        found: models.JobState = self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/pause",
                models.JobState,
                query=given({"namespace": namespace, "checkpoint": checkpoint, "dryRun": dry_run}),
                waits=True,
            )
        )
        return found

    def resume_job(
        self, job_id: str, *, namespace: str | None = None, confirm: bool | None = None, dry_run: bool | None = None
    ) -> models.JobState:
        """Resume a paused job. Preempting pods of other jobs must be confirmed.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        :param dry_run: Check everything and return what would be done. Nothing is written.
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
        failed: bool | None = None,
        queue: bool | None = None,
        confirm: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.RerunJob:
        """Run a finished training again. A deleted training is created from its last document, which must be
        confirmed.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param failed: Run only failed trainings; of arrays, only the indexes that have not succeeded.
        :param queue: Create a job even if a quota is exhausted. It starts when the quota has room.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        :param dry_run: Check everything and return what would be done. Nothing is written.
        """
        found: models.RerunJob = self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/rerun",
                models.RerunJob,
                query=given(
                    {"namespace": namespace, "failed": failed, "queue": queue, "confirm": confirm, "dryRun": dry_run}
                ),
                repeatable=False,
            )
        )
        return found

    def run_job(
        self,
        job_id: str,
        *,
        namespace: str | None = None,
        queue: bool | None = None,
        confirm: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.PlanAnswer:
        """Start a run of a scheduled training now.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param queue: Create a job even if a quota is exhausted. It starts when the quota has room.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        :param dry_run: Check everything and return what would be done. Nothing is written.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/run",
                models.PlanAnswer,
                query=given({"namespace": namespace, "queue": queue, "confirm": confirm, "dryRun": dry_run}),
                repeatable=False,
            )
        )
        return found

    def scale_job(
        self,
        job_id: str,
        *,
        nodes: int,
        namespace: str | None = None,
        checkpoint: bool | None = None,
        queue: bool | None = None,
        confirm: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.PlanAnswer:
        """Change the number of nodes of an elastic training. A change that restarts running work must be confirmed.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param nodes: The number of nodes, within the range of the document.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param checkpoint: Let the job save its progress before its pods end. If that fails, no pod is ended: 409.
        :param queue: Create a job even if a quota is exhausted. It starts when the quota has room.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        :param dry_run: Check everything and return what would be done. Nothing is written.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/scale",
                models.PlanAnswer,
                query=given(
                    {
                        "nodes": nodes,
                        "namespace": namespace,
                        "checkpoint": checkpoint,
                        "queue": queue,
                        "confirm": confirm,
                        "dryRun": dry_run,
                    }
                ),
                waits=True,
            )
        )
        return found

    def rollback_job(
        self,
        job_id: str,
        *,
        namespace: str | None = None,
        to: int | None = None,
        queue: bool | None = None,
        strategy: str | None = None,
        no_probe: bool | None = None,
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.ChangedJob:
        """Apply an earlier document of a job again. This must be confirmed. The job may have been deleted.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param namespace: Namespace of the job; required if the name exists in several.
        :param to: Revision of the history. Default: the newest one that differs from the current document.
        :param queue: Create a job even if a quota is exhausted. It starts when the quota has room.
        :param strategy: Rollout strategy of a changed service. Default: that of the running service, else of the
            platform.
        :param no_probe: Report the rejection of a trial pod as a note instead of an error.
        :param checkpoint: Let the job save its progress before its pods end. If that fails, no pod is ended: 409.
        :param force: End the pods without their grace period.
        :param timeout: Maximum wait for deletions and for quotas, seconds. The service waits at most 600.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        :param dry_run: Check everything and return what would be done. Nothing is written.
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
                        "queue": queue,
                        "strategy": strategy,
                        "noProbe": no_probe,
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                        "confirm": confirm,
                        "dryRun": dry_run,
                    }
                ),
                repeatable=False,
                waits=True,
            )
        )
        return found

    def recover(
        self,
        *,
        namespace: str | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.Recoveries:
        """Finish the work of interrupted runs. Creating objects must be confirmed.

        :param namespace: Only this namespace. Default: all that the caller may see.
        :param timeout: Maximum wait for deletions and for quotas, seconds. The service waits at most 600.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        :param dry_run: Check everything and return what would be done. Nothing is written.
        """
        found: models.Recoveries = self.send(
            Call(
                "POST",
                "/recoveries",
                models.Recoveries,
                query=given({"namespace": namespace, "timeout": timeout, "confirm": confirm, "dryRun": dry_run}),
                repeatable=False,
                waits=True,
            )
        )
        return found

    def list_recoveries(self, *, namespace: str | None = None) -> models.Recoveries:
        """List the unfinished work of interrupted runs, and what a recovery would do.

        :param namespace: Only this namespace. Default: all that the caller may see.
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
        """Return the output of a job's pods, ordered by time.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param tail: Number of last lines of each pod. Default: 100; with `since`: all.
        :param pod: Only this pod: its name, its index in the job, or the end of its name.
        :param since: Only lines that are not older: a duration (10m, 1h30m), or a time (RFC 3339).
        :param grep: Only lines that contain this text, case-sensitive.
        :param container: Container name. Default: the main container of the job.
        :param previous: Lines of the previous run, before the last restart of the container.
        :param namespace: Namespace of the job; required if the name exists in several.
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
        """Return the metrics of a job over time, at most 500 points each.

        :param job_id: Id of a job, its name, or the name of one of its pods.
        :param metric: Only this metric: gpuUtilization (percent), memoryUsage (GiB per GPU), throughput, or another
            of the settings.
        :param start_time: Start, RFC 3339. Default: the start of the job.
        :param end_time: End, RFC 3339. Default: now.
        :param namespace: Namespace of the job; required if the name exists in several.
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
        """List the visible pools, by name. `default` has the nodes that are in no other pool."""
        found: models.PoolList = self.send(Call("GET", "/pools", models.PoolList))
        return found

    def create_pool(
        self,
        *,
        dry_run: bool | None = None,
        name: str | None = None,
        description: str | None = None,
        nodes: Sequence[str] | None = None,
        gpu_type: Sequence[str] | None = None,
        quota: dict[str, Any] | None = None,
        confirm: bool | None = None,
    ) -> models.Administered:
        """Create a pool, and label its nodes.

        :param dry_run: Check only; nothing is written.
        :param name: Its name; when a pool is changed, the path has it.
        :param nodes: Names of its nodes.
        :param gpu_type: GPU types of its nodes.
        :param quota: Limits of a pool.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        """
        found: models.Administered = self.send(
            Call(
                "POST",
                "/pools",
                models.Administered,
                query=given({"confirm": confirm}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "name": name,
                        "description": description,
                        "nodes": None if nodes is None else list(nodes),
                        "gpuType": None if gpu_type is None else list(gpu_type),
                        "quota": quota,
                    }
                ),
                repeatable=False,
            )
        )
        return found

    def get_pool(self, pool_name: str, *, jobs: bool | None = None) -> models.PoolDetail:
        """Return a pool: its nodes, its GPUs by type, and the visible jobs in it.

        :param pool_name: Name of the pool.
        :param jobs: False: jobs and pods are null. `GET /jobs?pool=` lists the jobs in pages.
        """
        found: models.PoolDetail = self.send(
            Call("GET", f"/pools/{segment(pool_name)}", models.PoolDetail, query=given({"jobs": jobs}))
        )
        return found

    def update_pool(
        self,
        pool_name: str,
        *,
        dry_run: bool | None = None,
        name: str | None = None,
        description: str | None = None,
        nodes: Sequence[str] | None = None,
        gpu_type: Sequence[str] | None = None,
        quota: dict[str, Any] | None = None,
        confirm: bool | None = None,
    ) -> models.ChangedPool:
        """Change a pool. Nodes that the body does not name are removed from it.

        :param pool_name: Name of the pool.
        :param dry_run: Check only; nothing is written.
        :param name: Its name; when a pool is changed, the path has it.
        :param nodes: Names of its nodes.
        :param gpu_type: GPU types of its nodes.
        :param quota: Limits of a pool.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        """
        found: models.ChangedPool = self.send(
            Call(
                "PUT",
                f"/pools/{segment(pool_name)}",
                models.ChangedPool,
                query=given({"confirm": confirm}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "name": name,
                        "description": description,
                        "nodes": None if nodes is None else list(nodes),
                        "gpuType": None if gpu_type is None else list(gpu_type),
                        "quota": quota,
                    }
                ),
            )
        )
        return found

    def delete_pool(
        self, pool_name: str, *, confirm: bool | None = None, dry_run: bool | None = None
    ) -> models.Administered:
        """Delete a pool. Its nodes lose the label, its jobs continue to run.

        :param pool_name: Name of the pool.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        :param dry_run: Check everything and return what would be done. Nothing is written.
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
        """List the nodes that have a label, with its value.

        :param key: Key of the label.
        :param page: Page number, from 1.
        :param page_size: Items per page.
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
        """List the GPU type labels and the pool of each node.

        :param page: Page number, from 1.
        :param page_size: Items per page.
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
        """List the labels of a node, by key.

        :param node_name: Name of the node.
        """
        found: models.LabelPage = self.send(Call("GET", f"/nodes/{segment(node_name)}/labels", models.LabelPage))
        return found

    def set_node_label(
        self, node_name: str, *, key: str, value: str, dry_run: bool | None = None, overwrite: bool | None = None
    ) -> models.SetLabel:
        """Set a label of a node. If it has another value and `overwrite` is false, the answer is 409 with
        `LabelConflict`.

        :param node_name: Name of the node.
        :param dry_run: Check only; nothing is written.
        :param key: Key of the label.
        :param value: Value of the label.
        :param overwrite: Replace an existing value.
        """
        found: models.SetLabel = self.send(
            Call(
                "POST",
                f"/nodes/{segment(node_name)}/labels",
                models.SetLabel,
                body=given({"dryRun": dry_run, "key": key, "value": value, "overwrite": overwrite}),
            )
        )
        return found

    def get_node_label(self, node_name: str, key: str) -> models.KeptLabel:
        """Return a label of a node. It already existed at `createdAt`, and has not changed since `lastUpdatedAt`.

        :param node_name: Name of the node.
        :param key: Key of the label.
        """
        found: models.KeptLabel = self.send(
            Call("GET", f"/nodes/{segment(node_name)}/labels/{segment(key)}", models.KeptLabel)
        )
        return found

    def delete_node_label(self, node_name: str, key: str, *, dry_run: bool | None = None) -> models.DeletedLabel:
        """Delete a label of a node.

        :param node_name: Name of the node.
        :param key: Key of the label.
        :param dry_run: Check everything and return what would be done. Nothing is written.
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
        dry_run: bool | None = None,
        overwrite: bool | None = None,
    ) -> models.BatchReport:
        """Set a label of several nodes. Nodes that fail are listed in `failed`.

        :param dry_run: Check only; nothing is written.
        :param key: Key of the label.
        :param value: Value of the label.
        :param overwrite: Replace an existing value.
        """
        found: models.BatchReport = self.send(
            Call(
                "POST",
                "/nodes/labels/batch",
                models.BatchReport,
                body=given(
                    {
                        "dryRun": dry_run,
                        "key": key,
                        "value": value,
                        "overwrite": overwrite,
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
        """Set several labels of several nodes, and delete those whose value is null. For each node all changes are
        made, or none.

        :param dry_run: Check only; nothing is written.
        :param labels: Key -> value; null deletes the label.
        :param overwrite: Replace existing values.
        """
        found: models.BatchReport = self.send(
            Call(
                "POST",
                "/nodes/labels/changes",
                models.BatchReport,
                body=given(
                    {"dryRun": dry_run, "nodeNames": list(node_names), "labels": labels, "overwrite": overwrite}
                ),
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
        """List the visible nodes, by name.

        :param pool: Only nodes of this pool.
        :param gpu_type: Only nodes with this GPU type, case-insensitive: `a100-80g`, `nvidia.com/a100-80g` or
            `KEY=VALUE`. The key of a label: nodes that have the label.
        :param status: `active`; `maintaining`: cordoned; `faulty`: not ready.
        :param selector: Label selector, in the syntax of `kubectl -l`.
        :param page: Page number, from 1.
        :param page_size: Items per page.
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
        """List the GPUs of all nodes one by one. Kubernetes counts the GPUs that pods request, but does not record
        which devices: `gpuId` is a number, not a device.

        :param page: Page number, from 1.
        :param page_size: Items per page.
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
        """List the GPU types of the nodes, with their number of GPUs and their nodes."""
        found: models.GpuTypeList = self.send(Call("GET", "/gpu-types", models.GpuTypeList))
        return found

    def get_node(self, node_name: str) -> models.NodeDetail:
        """Return a node: capacity, requests, labels, and the visible jobs on it.

        :param node_name: Name of the node.
        """
        found: models.NodeDetail = self.send(Call("GET", f"/nodes/{segment(node_name)}", models.NodeDetail))
        return found

    def list_quotas(self) -> models.QuotaList:
        """List the quotas of the visible namespaces."""
        found: models.QuotaList = self.send(Call("GET", "/quotas", models.QuotaList))
        return found

    def create_quota(
        self,
        *,
        name: str,
        dry_run: bool | None = None,
        description: str | None = None,
        users: dict[str, Any] | None = None,
        namespace: dict[str, Any] | None = None,
        default: dict[str, Any] | None = None,
        confirm: bool | None = None,
    ) -> models.CreatedQuota:
        """Create quotas of users, and their namespaces.

        :param dry_run: Check only; nothing is written.
        :param users: User -> cpu, memory, gpu and maxJobs.
        :param namespace: The same as `users`.
        :param default: Values for entries that omit them.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        """
        found: models.CreatedQuota = self.send(
            Call(
                "POST",
                "/quotas",
                models.CreatedQuota,
                query=given({"confirm": confirm}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "name": name,
                        "description": description,
                        "users": users,
                        "namespace": namespace,
                        "default": default,
                    }
                ),
                repeatable=False,
            )
        )
        return found

    def get_quota(self, user_name: str) -> models.Quota | models.QuotaList:
        """Return the quota of a user and its usage. For the name of a quota document: the quotas of all its users.

        :param user_name: Name of the user, or of a quota document.
        """
        found: models.Quota | models.QuotaList = self.send(
            Call("GET", f"/quotas/{segment(user_name)}", models.Quota | models.QuotaList)
        )
        return found

    def delete_quota(
        self, user_name: str, *, confirm: bool | None = None, dry_run: bool | None = None
    ) -> models.Administered:
        """Delete the quota of a user. The namespace and its content stay.

        :param user_name: Name of the user.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        :param dry_run: Check everything and return what would be done. Nothing is written.
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

    def list_queues(self) -> models.QueueList:
        """List Kueue's ClusterQueues that jobs of the visible namespaces can use, and how full they are."""
        found: models.QueueList = self.send(Call("GET", "/queues", models.QueueList))
        return found

    def get_queue(
        self, queue_name: str, *, page: int | None = None, page_size: int | None = None
    ) -> models.QueueDetail:
        """Return a ClusterQueue: its quota, and a page of the waiting jobs and of the admitted jobs that the caller
        may see.

        :param queue_name: Name of a ClusterQueue.
        :param page: Page number, from 1.
        :param page_size: Items per page.
        """
        found: models.QueueDetail = self.send(
            Call(
                "GET",
                f"/queues/{segment(queue_name)}",
                models.QueueDetail,
                query=given({"page": page, "pageSize": page_size}),
            )
        )
        return found

    def add_nodes(
        self, pool_name: str, *, node_names: Sequence[str], dry_run: bool | None = None, overwrite: bool | None = None
    ) -> models.BatchReport:
        """Add nodes to a pool. Nodes that fail are listed in `failed`. Running pods stay where they are.

        :param pool_name: Name of the pool.
        :param dry_run: Check only; nothing is written.
        :param overwrite: Move nodes that are in another pool.
        """
        found: models.BatchReport = self.send(
            Call(
                "POST",
                f"/pools/{segment(pool_name)}/nodes/add",
                models.BatchReport,
                body=given({"dryRun": dry_run, "nodeNames": list(node_names), "overwrite": overwrite}),
            )
        )
        return found

    def remove_nodes(
        self, pool_name: str, *, node_names: Sequence[str], dry_run: bool | None = None
    ) -> models.BatchReport:
        """Remove nodes from a pool. Nodes that fail are listed in `failed`. Running pods stay where they are.

        :param pool_name: Name of the pool.
        :param dry_run: Check only; nothing is written.
        """
        found: models.BatchReport = self.send(
            Call(
                "POST",
                f"/pools/{segment(pool_name)}/nodes/remove",
                models.BatchReport,
                body=given({"dryRun": dry_run, "nodeNames": list(node_names)}),
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
        timeout: float | None = None,
        keep_labels: bool | None = None,
        confirm: bool | None = None,
    ) -> models.PlanAnswer:
        """Delete pools. Their nodes lose the label, their jobs continue to run.

        :param dry_run: Check only; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. If the plan has
            other texts, the answer is 409 with the plan.
        :param names: Names; for jobs also ids, KIND/NAME, or names of pods.
        :param timeout: Maximum wait for deletions and for quotas, seconds. The service waits at most 600.
        :param keep_labels: Keep the labels of a pool on its nodes.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/pools/delete",
                models.PlanAnswer,
                query=given({"timeout": timeout, "keepLabels": keep_labels, "confirm": confirm}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
                waits=True,
            )
        )
        return found

    def delete_quotas(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
    ) -> models.PlanAnswer:
        """Delete the quotas of users. The namespaces and their content stay.

        :param dry_run: Check only; nothing is written.
        :param confirmed: The texts of `questions` and `courtesies` that the user has confirmed. If the plan has
            other texts, the answer is 409 with the plan.
        :param names: Names; for jobs also ids, KIND/NAME, or names of pods.
        :param timeout: Maximum wait for deletions and for quotas, seconds. The service waits at most 600.
        :param confirm: Confirm all questions of the plan: running work may be ended.
        """
        found: models.PlanAnswer = self.send(
            Call(
                "POST",
                "/quotas/delete",
                models.PlanAnswer,
                query=given({"timeout": timeout, "confirm": confirm}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
                waits=True,
            )
        )
        return found

    def list_namespaces(self, *, all: bool | None = None) -> models.NamespaceList:
        """List the visible namespaces that gpuctl has created, or that have its jobs or quotas.

        :param all: Include namespaces without jobs and quotas.
        """
        found: models.NamespaceList = self.send(
            Call("GET", "/namespaces", models.NamespaceList, query=given({"all": all}))
        )
        return found

    def get_namespace(self, namespace_name: str) -> models.NamespaceDetail:
        """Return a namespace: its limits, and its running and waiting jobs.

        :param namespace_name: Name of the namespace.
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
        overrides: Sequence[str] | None = None,
        namespace: str | None = None,
        suggest: bool | None = None,
        strict: bool | None = None,
        holders: int | None = None,
        profile: str | None = None,
        max_age: float | None = None,
    ) -> models.FitAnswer:
        """Check if all pods of each job would fit at once, and which pods they would preempt. Writes nothing.

        :param dry_run: Check only; nothing is written.
        :param platform: The platform file that belongs to the documents. It is not used; a message reports how it
            differs from the service's.
        :param overrides: Fields to override for this run, each as `PATH=VALUE` or `JOB:PATH=VALUE`.
        :param namespace: Namespace of jobs whose documents do not have one.
        :param suggest: Search for the smallest changes with which jobs would fit. At most 20 documents.
        :param strict: Reject documents with warnings.
        :param holders: Maximum number of entries of `heldBy`. Default: all.
        :param profile: Profile to merge into the documents that have profiles.
        :param max_age: Maximum age of the nodes and of the pods of other jobs that the answer is computed from,
            seconds. Default: they are read now.
        """
        found: models.FitAnswer = self.send(
            Call(
                "POST",
                "/fit",
                models.FitAnswer,
                query=given(
                    {
                        "namespace": namespace,
                        "suggest": suggest,
                        "strict": strict,
                        "holders": holders,
                        "profile": profile,
                        "maxAge": max_age,
                    }
                ),
                body=given(
                    {
                        "dryRun": dry_run,
                        "yamlContent": as_yaml(documents),
                        "files": None if files is None else list(files),
                        "platform": platform,
                        "overrides": None if overrides is None else list(overrides),
                    }
                ),
            )
        )
        return found

    def fit_waiting(
        self,
        *,
        namespace: str | None = None,
        kind: str | None = None,
        pool: str | None = None,
        name: str | None = None,
        holders: int | None = None,
        page: int | None = None,
        page_size: int | None = None,
        max_age: float | None = None,
    ) -> models.FitPage:
        """Check the fit of each job whose pods are waiting for a node.

        :param namespace: Only jobs of this namespace.
        :param kind: Only jobs of this kind: training, inference, notebook or compute.
        :param pool: Only jobs in this pool.
        :param name: Only jobs with these ids or names, or with pods of these names, separated by commas.
        :param holders: Maximum number of entries of `heldBy`. Default: all.
        :param page: Page number, from 1.
        :param page_size: Items per page. Default: all.
        :param max_age: Maximum age of the answer, seconds: that of another request with the same rights may be
            returned. Default: it is computed now.
        """
        found: models.FitPage = self.send(
            Call(
                "GET",
                "/fit",
                models.FitPage,
                query=given(
                    {
                        "namespace": namespace,
                        "kind": kind,
                        "pool": pool,
                        "name": name,
                        "holders": holders,
                        "page": page,
                        "pageSize": page_size,
                        "maxAge": max_age,
                    }
                ),
            )
        )
        return found

    def check_right(
        self, *, resource: str, action: str, pool: str | None = None, namespace: str | None = None
    ) -> models.RightAnswer:
        """Check if the caller may do something. All routes use the same decision.

        :param resource: Resource, such as jobs, logs or pools.
        :param action: get, create, update or delete.
        :param pool: Pool; null: not about one pool.
        :param namespace: Namespace; null: not about one namespace.
        """
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
        """List writes and rejected writes, newest first.

        :param caller: Name of the caller.
        :param action: HTTP method, or method and path: `DELETE`, `POST /jobs`.
        :param object: Part of an object's name.
        :param namespace: Namespace of the objects.
        :param result: HTTP status, or name of an error: `201`, `Forbidden`.
        :param since: Start, inclusive, RFC 3339.
        :param until: End, exclusive, RFC 3339.
        :param page: Page number, from 1.
        :param page_size: Items per page.
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
        """List the names of clusters; the first one is the default. Clusters other than that of this service are only
        listed for callers who see all namespaces and pools.
        """
        found: models.UsageNames = self.send(Call("GET", "/gpu-aggregation/clusters", models.UsageNames))
        return found

    def list_usage_namespaces(self, *, cluster: str | None = None) -> models.UsageNames:
        """List the visible namespaces in which GPUs were allocated.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        """
        found: models.UsageNames = self.send(
            Call("GET", "/gpu-aggregation/namespaces", models.UsageNames, query=given({"cluster": cluster}))
        )
        return found

    def list_usage_keys(self, *, dimension_type: str | None = None, cluster: str | None = None) -> models.UsageNames:
        """List the keys of labels or annotations by which usage is aggregated. Only for callers who see all
        namespaces.

        :param dimension_type: Kind of the dimension.
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
        """List the values that a label or annotation has had. Only for callers who see all namespaces.

        :param dimension_key: Key of the label or annotation.
        :param dimension_type: Kind of the dimension.
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
        """Return the usage of a cluster, one row per step. Only for callers who see all namespaces.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Start, inclusive, RFC 3339. Required without `hours`.
        :param end_time: End, exclusive, RFC 3339. Required without `hours`.
        :param hours: Number of hours: from start_time, or up to end_time, or up to and including the current hour.
        :param step: Length of the step of a row. Weeks begin on Monday; `total` is one row for the whole range.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Page number, from 1. Without it, the answer has no pages.
        :param page_size: Rows per page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the previous answer.
            New rows do not shift the others.
        :param format: `csv`: rows only, with a header.
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
        """Return the usage of the visible namespaces, one row per namespace and step.

        :param namespace: Namespace. Default: all visible namespaces.
        :param exclude_namespaces: Namespaces to leave out, separated by commas.
        :param include_idle: Include rows of zero for those that held GPUs within the retention period, but not in
            this step.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Start, inclusive, RFC 3339. Required without `hours`.
        :param end_time: End, exclusive, RFC 3339. Required without `hours`.
        :param hours: Number of hours: from start_time, or up to end_time, or up to and including the current hour.
        :param step: Length of the step of a row. Weeks begin on Monday; `total` is one row for the whole range.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Page number, from 1. Without it, the answer has no pages.
        :param page_size: Rows per page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the previous answer.
            New rows do not shift the others.
        :param format: `csv`: rows only, with a header.
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
        """Return usage by the values of a label or annotation, one row per value and step. Only for callers who see
        all namespaces.

        :param dimension_type: Kind of the dimension.
        :param dimension_key: Key of the label or annotation.
        :param dimension_value: Value of the label or annotation. Default: all.
        :param include_idle: Include rows of zero for those that held GPUs within the retention period, but not in
            this step.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Start, inclusive, RFC 3339. Required without `hours`.
        :param end_time: End, exclusive, RFC 3339. Required without `hours`.
        :param hours: Number of hours: from start_time, or up to end_time, or up to and including the current hour.
        :param step: Length of the step of a row. Weeks begin on Monday; `total` is one row for the whole range.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Page number, from 1. Without it, the answer has no pages.
        :param page_size: Rows per page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the previous answer.
            New rows do not shift the others.
        :param format: `csv`: rows only, with a header.
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
        """Return the usage of workloads in the visible namespaces, one row per workload and step. JSON always has
        pages; CSV only if a page is requested.

        :param namespace: Namespace. Default: all visible namespaces.
        :param exclude_namespaces: Namespaces to leave out, separated by commas.
        :param workload_name: Name of the workload.
        :param workload_type: Kind of the workload.
        :param order_by: Sort key; unknown values are last.
        :param order_direction: Ascending or descending.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Start, inclusive, RFC 3339. Required without `hours`.
        :param end_time: End, exclusive, RFC 3339. Required without `hours`.
        :param hours: Number of hours: from start_time, or up to end_time, or up to and including the current hour.
        :param step: Length of the step of a row. Weeks begin on Monday; `total` is one row for the whole range.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Page number, from 1. Without it, the answer has no pages.
        :param page_size: Rows per page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the previous answer.
            New rows do not shift the others.
        :param format: `csv`: rows only, with a header.
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
        """Return the GPU-seconds that workloads held, by GPU model. For hours within the retention period they add up
        to the ledger.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param namespace: Namespace. Default: all visible namespaces.
        :param start_time: Start, inclusive, RFC 3339. Default: 24 hours before the end.
        :param end_time: End, exclusive, RFC 3339. Default: now.
        :param dimension_type: Kind of the dimension.
        :param dimension_key: Key of a label or annotation to group by, in addition to the model.
        :param page: Page number, from 1. Without it, the answer has no pages.
        :param page_size: Rows per page. Default: 20.
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
        order_by: str | None = None,
        order_direction: str | None = None,
        costs: bool | None = None,
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
        """Return the use of all GPU-seconds: what they were available for, allocated to and used by. Rows other than
        namespaces and workloads are only for callers who see all namespaces.

        :param by: Unit of a row.
        :param key: Key of the label or annotation; required for these.
        :param value: Only this namespace, value, workload (uid), node or model. Default: all.
        :param namespace: Namespace. Default: all visible namespaces.
        :param exclude_namespaces: Namespaces to leave out, separated by commas.
        :param order_by: Sort key; unknown values are last.
        :param order_direction: Ascending or descending.
        :param costs: Return `cost` and `currency`. Only with step=total, and not with by=node: it is not recorded
            which pods held the GPUs of a node.
        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Start, inclusive, RFC 3339. Required without `hours`.
        :param end_time: End, exclusive, RFC 3339. Required without `hours`.
        :param hours: Number of hours: from start_time, or up to end_time, or up to and including the current hour.
        :param step: Length of the step of a row. Weeks begin on Monday; `total` is one row for the whole range.
        :param tz: Time zone of days, weeks and months. Default: UTC.
        :param page: Page number, from 1. Without it, the answer has no pages.
        :param page_size: Rows per page. Default: 20.
        :param cursor: Instead of `page`: empty for the first rows, then the `next_cursor` of the previous answer.
            New rows do not shift the others.
        :param format: `csv`: rows only, with a header.
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
                        "order_by": order_by,
                        "order_direction": order_direction,
                        "costs": costs,
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
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.WasteAnswer:
        """Return workloads that hold GPUs and have not used them for an hour or longer, and the idle GPU time of a
        period.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param namespace: Namespace. Default: all visible namespaces.
        :param start_time: Start, inclusive, RFC 3339. Default: 24 hours before the end.
        :param end_time: End, exclusive, RFC 3339. Default: now.
        :param below: Percent: an hour with a lower utilization is idle.
        :param page: Page number, from 1. Without it, the answer has no pages.
        :param page_size: Rows per page. Default: 20.
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
                        "page": page,
                        "page_size": page_size,
                    }
                ),
            )
        )
        return found

    def get_latest_snapshot(self, *, cluster: str | None = None) -> models.LatestAllocation:
        """Return the GPU allocation of the visible namespaces at the last snapshot.

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
        workload_names: str | None = None,
        interval: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.AllocationHistory:
        """Return snapshots of the GPU allocation of the visible namespaces, taken every five minutes.

        :param cluster: Name of a cluster. Default: the cluster of this service. Other clusters are only for callers
            who see all namespaces and pools.
        :param start_time: Start, inclusive, RFC 3339. Default: 24 hours before the end.
        :param end_time: End, exclusive, RFC 3339. Default: now.
        :param include_details: Include every workload. Default: true for at most 300 snapshots.
        :param workload_names: Names of workloads, separated by commas: `allocation_details` has no others. Default:
            all.
        :param interval: Return only the first snapshot of each interval, in minutes, hours or days. Default: all.
        :param page: Page number, from 1. Without it, the answer has no pages.
        :param page_size: Rows per page. Default: 20.
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
                        "workload_names": workload_names,
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
        sort: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.JobPage:
        """See :meth:`Operations.list_jobs`."""
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
                        "sort": sort,
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
        sort: str | None = None,
        page_size: int = 500,
    ) -> AsyncIterator[models.JobItem]:
        """See :meth:`Operations.all_jobs`."""
        number, seen = 1, 0
        while True:
            found = await self.list_jobs(
                kind=kind,
                pool=pool,
                status=status,
                namespace=namespace,
                name=name,
                sort=sort,
                page=number,
                page_size=page_size,
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
        queue: bool | None = None,
        profile: str | None = None,
        confirm: bool | None = None,
        idempotency_key: str | None = None,
    ) -> models.Submitted:
        """See :meth:`Operations.create_jobs`."""
        found: models.Submitted = await self.send(
            Call(
                "POST",
                "/jobs",
                models.Submitted,
                query=given({"queue": queue, "profile": profile, "confirm": confirm}),
                body=given({"dryRun": dry_run, "yamlContent": as_yaml(documents)}),
                headers=idempotency(idempotency_key),
            )
        )
        return found

    async def get_job(self, job_id: str, *, namespace: str | None = None) -> models.JobDescription:
        """See :meth:`Operations.get_job`."""
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
        queue: bool | None = None,
        profile: str | None = None,
        checkpoint: bool | None = None,
        confirm: bool | None = None,
    ) -> models.ChangedJob:
        """See :meth:`Operations.update_job`."""
        found: models.ChangedJob = await self.send(
            Call(
                "PUT",
                f"/jobs/{segment(job_id)}",
                models.ChangedJob,
                query=given(
                    {
                        "namespace": namespace,
                        "queue": queue,
                        "profile": profile,
                        "checkpoint": checkpoint,
                        "confirm": confirm,
                    }
                ),
                body=given({"dryRun": dry_run, "yamlContent": as_yaml(documents)}),
                waits=True,
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
        """See :meth:`Operations.delete_job`."""
        found: models.JobState = await self.send(
            Call(
                "DELETE",
                f"/jobs/{segment(job_id)}",
                models.JobState,
                query=given({"namespace": namespace, "force": force, "checkpoint": checkpoint, "dryRun": dry_run}),
                waits=True,
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
        sweep: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.PodPage:
        """See :meth:`Operations.list_pods`."""
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
                        "sweep": sweep,
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
        sweep: str | None = None,
        page_size: int = 500,
    ) -> AsyncIterator[models.ListedPod]:
        """See :meth:`Operations.all_pods`."""
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
                sweep=sweep,
                page=number,
                page_size=page_size,
            )
            for item in found.items:
                yield item
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    async def get_gpu_use(self, *, namespace: str | None = None, max_age: float | None = None) -> models.GpusOfJobs:
        """See :meth:`Operations.get_gpu_use`."""
        found: models.GpusOfJobs = await self.send(
            Call("GET", "/gpu-use", models.GpusOfJobs, query=given({"namespace": namespace, "maxAge": max_age}))
        )
        return found

    async def get_job_why(self, job_id: str, *, namespace: str | None = None) -> models.WhyAnswer:
        """See :meth:`Operations.get_job_why`."""
        found: models.WhyAnswer = await self.send(
            Call("GET", f"/jobs/{segment(job_id)}/why", models.WhyAnswer, query=given({"namespace": namespace}))
        )
        return found

    async def get_job_timeline(self, job_id: str, *, namespace: str | None = None) -> models.JobTimeline:
        """See :meth:`Operations.get_job_timeline`."""
        found: models.JobTimeline = await self.send(
            Call("GET", f"/jobs/{segment(job_id)}/timeline", models.JobTimeline, query=given({"namespace": namespace}))
        )
        return found

    async def get_job_details(
        self, job_id: str, *, namespace: str | None = None, timeline: bool | None = None, max_age: float | None = None
    ) -> models.JobDetails:
        """See :meth:`Operations.get_job_details`."""
        found: models.JobDetails = await self.send(
            Call(
                "GET",
                f"/jobs/{segment(job_id)}/details",
                models.JobDetails,
                query=given({"namespace": namespace, "timeline": timeline, "maxAge": max_age}),
            )
        )
        return found

    async def get_job_history(self, job_id: str, *, namespace: str | None = None) -> models.JobDocuments:
        """See :meth:`Operations.get_job_history`."""
        found: models.JobDocuments = await self.send(
            Call("GET", f"/jobs/{segment(job_id)}/history", models.JobDocuments, query=given({"namespace": namespace}))
        )
        return found

    async def get_job_revision(self, job_id: str, revision: int, *, namespace: str | None = None) -> models.JobRevision:
        """See :meth:`Operations.get_job_revision`."""
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
        """See :meth:`Operations.wait_jobs`."""
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
        """See :meth:`Operations.wait_job`."""
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
        confirmed: Sequence[str] | None = None,
        files: Sequence[dict[str, Any]] | None = None,
        platform: dict[str, Any] | None = None,
        overrides: Sequence[str] | None = None,
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
        namespace: str | None = None,
        strict: bool | None = None,
        profile: str | None = None,
        queue: bool | None = None,
        strategy: str | None = None,
        relower: bool | None = None,
        no_probe: bool | None = None,
        create_namespace: bool | None = None,
        create_only: bool | None = None,
    ) -> models.PlanAnswer:
        """See :meth:`Operations.apply_documents`."""
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/apply",
                models.PlanAnswer,
                query=given(
                    {
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                        "confirm": confirm,
                        "namespace": namespace,
                        "strict": strict,
                        "profile": profile,
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
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "yamlContent": as_yaml(documents),
                        "files": None if files is None else list(files),
                        "platform": platform,
                        "overrides": None if overrides is None else list(overrides),
                    }
                ),
                repeatable=False,
                waits=True,
            )
        )
        return found

    async def delete_documents(
        self,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        files: Sequence[dict[str, Any]] | None = None,
        platform: dict[str, Any] | None = None,
        overrides: Sequence[str] | None = None,
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
        keep_labels: bool | None = None,
        confirm: bool | None = None,
        namespace: str | None = None,
        strict: bool | None = None,
        profile: str | None = None,
    ) -> models.PlanAnswer:
        """See :meth:`Operations.delete_documents`."""
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/delete",
                models.PlanAnswer,
                query=given(
                    {
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                        "keepLabels": keep_labels,
                        "confirm": confirm,
                        "namespace": namespace,
                        "strict": strict,
                        "profile": profile,
                    }
                ),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "yamlContent": as_yaml(documents),
                        "files": None if files is None else list(files),
                        "platform": platform,
                        "overrides": None if overrides is None else list(overrides),
                    }
                ),
                repeatable=False,
                waits=True,
            )
        )
        return found

    async def plan_documents(
        self,
        documents: Documents,
        *,
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        files: Sequence[dict[str, Any]] | None = None,
        platform: dict[str, Any] | None = None,
        overrides: Sequence[str] | None = None,
        checkpoint: bool | None = None,
        show: str | None = None,
        namespace: str | None = None,
        strict: bool | None = None,
        profile: str | None = None,
        queue: bool | None = None,
        strategy: str | None = None,
        relower: bool | None = None,
        no_probe: bool | None = None,
        create_namespace: bool | None = None,
        create_only: bool | None = None,
    ) -> models.PlanAnswer:
        """See :meth:`Operations.plan_documents`."""
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
                        "profile": profile,
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
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "yamlContent": as_yaml(documents),
                        "files": None if files is None else list(files),
                        "platform": platform,
                        "overrides": None if overrides is None else list(overrides),
                    }
                ),
                waits=True,
            )
        )
        return found

    async def create_job_batch(
        self,
        documents: Sequence[Documents],
        *,
        dry_run: bool | None = None,
        queue: bool | None = None,
        confirm: bool | None = None,
        idempotency_key: str | None = None,
    ) -> models.Batch:
        """See :meth:`Operations.create_job_batch`."""
        found: models.Batch = await self.send(
            Call(
                "POST",
                "/jobs/batch",
                models.Batch,
                query=given({"queue": queue, "confirm": confirm}),
                body=given({"dryRun": dry_run, "yamlContents": [as_yaml(entry) for entry in documents]}),
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
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
    ) -> models.PlanAnswer:
        """See :meth:`Operations.delete_jobs`."""
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/jobs/delete",
                models.PlanAnswer,
                query=given(
                    {
                        "namespace": namespace,
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                        "confirm": confirm,
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
                waits=True,
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
        failed: bool | None = None,
        queue: bool | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
    ) -> models.PlanAnswer:
        """See :meth:`Operations.rerun_jobs`."""
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/jobs/rerun",
                models.PlanAnswer,
                query=given(
                    {"namespace": namespace, "failed": failed, "queue": queue, "timeout": timeout, "confirm": confirm}
                ),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
                waits=True,
            )
        )
        return found

    async def run_jobs(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        namespace: str | None = None,
        queue: bool | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
    ) -> models.PlanAnswer:
        """See :meth:`Operations.run_jobs`."""
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/jobs/run",
                models.PlanAnswer,
                query=given({"namespace": namespace, "queue": queue, "timeout": timeout, "confirm": confirm}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
                waits=True,
            )
        )
        return found

    async def scale_jobs(
        self,
        *,
        names: Sequence[str],
        nodes: int,
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        namespace: str | None = None,
        checkpoint: bool | None = None,
        queue: bool | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
    ) -> models.PlanAnswer:
        """See :meth:`Operations.scale_jobs`."""
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/jobs/scale",
                models.PlanAnswer,
                query=given(
                    {
                        "nodes": nodes,
                        "namespace": namespace,
                        "checkpoint": checkpoint,
                        "queue": queue,
                        "timeout": timeout,
                        "confirm": confirm,
                    }
                ),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                waits=True,
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
        """See :meth:`Operations.pause_jobs`."""
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
                waits=True,
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
        """See :meth:`Operations.resume_jobs`."""
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
        """See :meth:`Operations.pause_job`."""
        found: models.JobState = await self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/pause",
                models.JobState,
                query=given({"namespace": namespace, "checkpoint": checkpoint, "dryRun": dry_run}),
                waits=True,
            )
        )
        return found

    async def resume_job(
        self, job_id: str, *, namespace: str | None = None, confirm: bool | None = None, dry_run: bool | None = None
    ) -> models.JobState:
        """See :meth:`Operations.resume_job`."""
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
        failed: bool | None = None,
        queue: bool | None = None,
        confirm: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.RerunJob:
        """See :meth:`Operations.rerun_job`."""
        found: models.RerunJob = await self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/rerun",
                models.RerunJob,
                query=given(
                    {"namespace": namespace, "failed": failed, "queue": queue, "confirm": confirm, "dryRun": dry_run}
                ),
                repeatable=False,
            )
        )
        return found

    async def run_job(
        self,
        job_id: str,
        *,
        namespace: str | None = None,
        queue: bool | None = None,
        confirm: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.PlanAnswer:
        """See :meth:`Operations.run_job`."""
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/run",
                models.PlanAnswer,
                query=given({"namespace": namespace, "queue": queue, "confirm": confirm, "dryRun": dry_run}),
                repeatable=False,
            )
        )
        return found

    async def scale_job(
        self,
        job_id: str,
        *,
        nodes: int,
        namespace: str | None = None,
        checkpoint: bool | None = None,
        queue: bool | None = None,
        confirm: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.PlanAnswer:
        """See :meth:`Operations.scale_job`."""
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/scale",
                models.PlanAnswer,
                query=given(
                    {
                        "nodes": nodes,
                        "namespace": namespace,
                        "checkpoint": checkpoint,
                        "queue": queue,
                        "confirm": confirm,
                        "dryRun": dry_run,
                    }
                ),
                waits=True,
            )
        )
        return found

    async def rollback_job(
        self,
        job_id: str,
        *,
        namespace: str | None = None,
        to: int | None = None,
        queue: bool | None = None,
        strategy: str | None = None,
        no_probe: bool | None = None,
        checkpoint: bool | None = None,
        force: bool | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.ChangedJob:
        """See :meth:`Operations.rollback_job`."""
        found: models.ChangedJob = await self.send(
            Call(
                "POST",
                f"/jobs/{segment(job_id)}/rollback",
                models.ChangedJob,
                query=given(
                    {
                        "namespace": namespace,
                        "to": to,
                        "queue": queue,
                        "strategy": strategy,
                        "noProbe": no_probe,
                        "checkpoint": checkpoint,
                        "force": force,
                        "timeout": timeout,
                        "confirm": confirm,
                        "dryRun": dry_run,
                    }
                ),
                repeatable=False,
                waits=True,
            )
        )
        return found

    async def recover(
        self,
        *,
        namespace: str | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
        dry_run: bool | None = None,
    ) -> models.Recoveries:
        """See :meth:`Operations.recover`."""
        found: models.Recoveries = await self.send(
            Call(
                "POST",
                "/recoveries",
                models.Recoveries,
                query=given({"namespace": namespace, "timeout": timeout, "confirm": confirm, "dryRun": dry_run}),
                repeatable=False,
                waits=True,
            )
        )
        return found

    async def list_recoveries(self, *, namespace: str | None = None) -> models.Recoveries:
        """See :meth:`Operations.list_recoveries`."""
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
        """See :meth:`Operations.get_job_logs`."""
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
        """See :meth:`Operations.get_job_metrics`."""
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
        """See :meth:`Operations.list_pools`."""
        found: models.PoolList = await self.send(Call("GET", "/pools", models.PoolList))
        return found

    async def create_pool(
        self,
        *,
        dry_run: bool | None = None,
        name: str | None = None,
        description: str | None = None,
        nodes: Sequence[str] | None = None,
        gpu_type: Sequence[str] | None = None,
        quota: dict[str, Any] | None = None,
        confirm: bool | None = None,
    ) -> models.Administered:
        """See :meth:`Operations.create_pool`."""
        found: models.Administered = await self.send(
            Call(
                "POST",
                "/pools",
                models.Administered,
                query=given({"confirm": confirm}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "name": name,
                        "description": description,
                        "nodes": None if nodes is None else list(nodes),
                        "gpuType": None if gpu_type is None else list(gpu_type),
                        "quota": quota,
                    }
                ),
                repeatable=False,
            )
        )
        return found

    async def get_pool(self, pool_name: str, *, jobs: bool | None = None) -> models.PoolDetail:
        """See :meth:`Operations.get_pool`."""
        found: models.PoolDetail = await self.send(
            Call("GET", f"/pools/{segment(pool_name)}", models.PoolDetail, query=given({"jobs": jobs}))
        )
        return found

    async def update_pool(
        self,
        pool_name: str,
        *,
        dry_run: bool | None = None,
        name: str | None = None,
        description: str | None = None,
        nodes: Sequence[str] | None = None,
        gpu_type: Sequence[str] | None = None,
        quota: dict[str, Any] | None = None,
        confirm: bool | None = None,
    ) -> models.ChangedPool:
        """See :meth:`Operations.update_pool`."""
        found: models.ChangedPool = await self.send(
            Call(
                "PUT",
                f"/pools/{segment(pool_name)}",
                models.ChangedPool,
                query=given({"confirm": confirm}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "name": name,
                        "description": description,
                        "nodes": None if nodes is None else list(nodes),
                        "gpuType": None if gpu_type is None else list(gpu_type),
                        "quota": quota,
                    }
                ),
            )
        )
        return found

    async def delete_pool(
        self, pool_name: str, *, confirm: bool | None = None, dry_run: bool | None = None
    ) -> models.Administered:
        """See :meth:`Operations.delete_pool`."""
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
        """See :meth:`Operations.list_nodes_with_label`."""
        found: models.LabelPage = await self.send(
            Call(
                "GET", "/nodes/labels", models.LabelPage, query=given({"key": key, "page": page, "pageSize": page_size})
            )
        )
        return found

    async def all_nodes_with_label(self, *, key: str, page_size: int = 500) -> AsyncIterator[models.NodeLabel]:
        """See :meth:`Operations.all_nodes_with_label`."""
        number, seen = 1, 0
        while True:
            found = await self.list_nodes_with_label(key=key, page=number, page_size=page_size)
            for item in found.items:
                yield item
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    async def list_gpu_labels(self, *, page: int | None = None, page_size: int | None = None) -> models.GpuLabelPage:
        """See :meth:`Operations.list_gpu_labels`."""
        found: models.GpuLabelPage = await self.send(
            Call("GET", "/nodes/labels/all", models.GpuLabelPage, query=given({"page": page, "pageSize": page_size}))
        )
        return found

    async def all_gpu_labels(self, *, page_size: int = 500) -> AsyncIterator[models.GpuLabels]:
        """See :meth:`Operations.all_gpu_labels`."""
        number, seen = 1, 0
        while True:
            found = await self.list_gpu_labels(page=number, page_size=page_size)
            for item in found.items:
                yield item
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    async def list_node_labels(self, node_name: str) -> models.LabelPage:
        """See :meth:`Operations.list_node_labels`."""
        found: models.LabelPage = await self.send(Call("GET", f"/nodes/{segment(node_name)}/labels", models.LabelPage))
        return found

    async def set_node_label(
        self, node_name: str, *, key: str, value: str, dry_run: bool | None = None, overwrite: bool | None = None
    ) -> models.SetLabel:
        """See :meth:`Operations.set_node_label`."""
        found: models.SetLabel = await self.send(
            Call(
                "POST",
                f"/nodes/{segment(node_name)}/labels",
                models.SetLabel,
                body=given({"dryRun": dry_run, "key": key, "value": value, "overwrite": overwrite}),
            )
        )
        return found

    async def get_node_label(self, node_name: str, key: str) -> models.KeptLabel:
        """See :meth:`Operations.get_node_label`."""
        found: models.KeptLabel = await self.send(
            Call("GET", f"/nodes/{segment(node_name)}/labels/{segment(key)}", models.KeptLabel)
        )
        return found

    async def delete_node_label(self, node_name: str, key: str, *, dry_run: bool | None = None) -> models.DeletedLabel:
        """See :meth:`Operations.delete_node_label`."""
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
        dry_run: bool | None = None,
        overwrite: bool | None = None,
    ) -> models.BatchReport:
        """See :meth:`Operations.set_label_of_nodes`."""
        found: models.BatchReport = await self.send(
            Call(
                "POST",
                "/nodes/labels/batch",
                models.BatchReport,
                body=given(
                    {
                        "dryRun": dry_run,
                        "key": key,
                        "value": value,
                        "overwrite": overwrite,
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
        """See :meth:`Operations.change_labels_of_nodes`."""
        found: models.BatchReport = await self.send(
            Call(
                "POST",
                "/nodes/labels/changes",
                models.BatchReport,
                body=given(
                    {"dryRun": dry_run, "nodeNames": list(node_names), "labels": labels, "overwrite": overwrite}
                ),
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
        """See :meth:`Operations.list_nodes`."""
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
        """See :meth:`Operations.all_nodes`."""
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
        """See :meth:`Operations.list_gpus`."""
        found: models.GpuPage = await self.send(
            Call("GET", "/nodes/gpu-detail", models.GpuPage, query=given({"page": page, "pageSize": page_size}))
        )
        return found

    async def all_gpus(self, *, page_size: int = 500) -> AsyncIterator[models.GpusOfNode]:
        """See :meth:`Operations.all_gpus`."""
        number, seen = 1, 0
        while True:
            found = await self.list_gpus(page=number, page_size=page_size)
            for item in found.items:
                yield item
            number, seen = number + 1, seen + len(found.items)
            if not found.items or seen >= found.total:
                return

    async def list_gpu_types(self) -> models.GpuTypeList:
        """See :meth:`Operations.list_gpu_types`."""
        found: models.GpuTypeList = await self.send(Call("GET", "/gpu-types", models.GpuTypeList))
        return found

    async def get_node(self, node_name: str) -> models.NodeDetail:
        """See :meth:`Operations.get_node`."""
        found: models.NodeDetail = await self.send(Call("GET", f"/nodes/{segment(node_name)}", models.NodeDetail))
        return found

    async def list_quotas(self) -> models.QuotaList:
        """See :meth:`Operations.list_quotas`."""
        found: models.QuotaList = await self.send(Call("GET", "/quotas", models.QuotaList))
        return found

    async def create_quota(
        self,
        *,
        name: str,
        dry_run: bool | None = None,
        description: str | None = None,
        users: dict[str, Any] | None = None,
        namespace: dict[str, Any] | None = None,
        default: dict[str, Any] | None = None,
        confirm: bool | None = None,
    ) -> models.CreatedQuota:
        """See :meth:`Operations.create_quota`."""
        found: models.CreatedQuota = await self.send(
            Call(
                "POST",
                "/quotas",
                models.CreatedQuota,
                query=given({"confirm": confirm}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "name": name,
                        "description": description,
                        "users": users,
                        "namespace": namespace,
                        "default": default,
                    }
                ),
                repeatable=False,
            )
        )
        return found

    async def get_quota(self, user_name: str) -> models.Quota | models.QuotaList:
        """See :meth:`Operations.get_quota`."""
        found: models.Quota | models.QuotaList = await self.send(
            Call("GET", f"/quotas/{segment(user_name)}", models.Quota | models.QuotaList)
        )
        return found

    async def delete_quota(
        self, user_name: str, *, confirm: bool | None = None, dry_run: bool | None = None
    ) -> models.Administered:
        """See :meth:`Operations.delete_quota`."""
        found: models.Administered = await self.send(
            Call(
                "DELETE",
                f"/quotas/{segment(user_name)}",
                models.Administered,
                query=given({"confirm": confirm, "dryRun": dry_run}),
            )
        )
        return found

    async def list_queues(self) -> models.QueueList:
        """See :meth:`Operations.list_queues`."""
        found: models.QueueList = await self.send(Call("GET", "/queues", models.QueueList))
        return found

    async def get_queue(
        self, queue_name: str, *, page: int | None = None, page_size: int | None = None
    ) -> models.QueueDetail:
        """See :meth:`Operations.get_queue`."""
        found: models.QueueDetail = await self.send(
            Call(
                "GET",
                f"/queues/{segment(queue_name)}",
                models.QueueDetail,
                query=given({"page": page, "pageSize": page_size}),
            )
        )
        return found

    async def add_nodes(
        self, pool_name: str, *, node_names: Sequence[str], dry_run: bool | None = None, overwrite: bool | None = None
    ) -> models.BatchReport:
        """See :meth:`Operations.add_nodes`."""
        found: models.BatchReport = await self.send(
            Call(
                "POST",
                f"/pools/{segment(pool_name)}/nodes/add",
                models.BatchReport,
                body=given({"dryRun": dry_run, "nodeNames": list(node_names), "overwrite": overwrite}),
            )
        )
        return found

    async def remove_nodes(
        self, pool_name: str, *, node_names: Sequence[str], dry_run: bool | None = None
    ) -> models.BatchReport:
        """See :meth:`Operations.remove_nodes`."""
        found: models.BatchReport = await self.send(
            Call(
                "POST",
                f"/pools/{segment(pool_name)}/nodes/remove",
                models.BatchReport,
                body=given({"dryRun": dry_run, "nodeNames": list(node_names)}),
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
        timeout: float | None = None,
        keep_labels: bool | None = None,
        confirm: bool | None = None,
    ) -> models.PlanAnswer:
        """See :meth:`Operations.delete_pools`."""
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/pools/delete",
                models.PlanAnswer,
                query=given({"timeout": timeout, "keepLabels": keep_labels, "confirm": confirm}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
                waits=True,
            )
        )
        return found

    async def delete_quotas(
        self,
        *,
        names: Sequence[str],
        dry_run: bool | None = None,
        confirmed: Sequence[str] | None = None,
        timeout: float | None = None,
        confirm: bool | None = None,
    ) -> models.PlanAnswer:
        """See :meth:`Operations.delete_quotas`."""
        found: models.PlanAnswer = await self.send(
            Call(
                "POST",
                "/quotas/delete",
                models.PlanAnswer,
                query=given({"timeout": timeout, "confirm": confirm}),
                body=given(
                    {
                        "dryRun": dry_run,
                        "confirmed": None if confirmed is None else list(confirmed),
                        "names": list(names),
                    }
                ),
                repeatable=False,
                waits=True,
            )
        )
        return found

    async def list_namespaces(self, *, all: bool | None = None) -> models.NamespaceList:
        """See :meth:`Operations.list_namespaces`."""
        found: models.NamespaceList = await self.send(
            Call("GET", "/namespaces", models.NamespaceList, query=given({"all": all}))
        )
        return found

    async def get_namespace(self, namespace_name: str) -> models.NamespaceDetail:
        """See :meth:`Operations.get_namespace`."""
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
        overrides: Sequence[str] | None = None,
        namespace: str | None = None,
        suggest: bool | None = None,
        strict: bool | None = None,
        holders: int | None = None,
        profile: str | None = None,
        max_age: float | None = None,
    ) -> models.FitAnswer:
        """See :meth:`Operations.fit_documents`."""
        found: models.FitAnswer = await self.send(
            Call(
                "POST",
                "/fit",
                models.FitAnswer,
                query=given(
                    {
                        "namespace": namespace,
                        "suggest": suggest,
                        "strict": strict,
                        "holders": holders,
                        "profile": profile,
                        "maxAge": max_age,
                    }
                ),
                body=given(
                    {
                        "dryRun": dry_run,
                        "yamlContent": as_yaml(documents),
                        "files": None if files is None else list(files),
                        "platform": platform,
                        "overrides": None if overrides is None else list(overrides),
                    }
                ),
            )
        )
        return found

    async def fit_waiting(
        self,
        *,
        namespace: str | None = None,
        kind: str | None = None,
        pool: str | None = None,
        name: str | None = None,
        holders: int | None = None,
        page: int | None = None,
        page_size: int | None = None,
        max_age: float | None = None,
    ) -> models.FitPage:
        """See :meth:`Operations.fit_waiting`."""
        found: models.FitPage = await self.send(
            Call(
                "GET",
                "/fit",
                models.FitPage,
                query=given(
                    {
                        "namespace": namespace,
                        "kind": kind,
                        "pool": pool,
                        "name": name,
                        "holders": holders,
                        "page": page,
                        "pageSize": page_size,
                        "maxAge": max_age,
                    }
                ),
            )
        )
        return found

    async def check_right(
        self, *, resource: str, action: str, pool: str | None = None, namespace: str | None = None
    ) -> models.RightAnswer:
        """See :meth:`Operations.check_right`."""
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
        """See :meth:`Operations.list_audit`."""
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
        """See :meth:`Operations.all_audit`."""
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
        """See :meth:`Operations.list_usage_clusters`."""
        found: models.UsageNames = await self.send(Call("GET", "/gpu-aggregation/clusters", models.UsageNames))
        return found

    async def list_usage_namespaces(self, *, cluster: str | None = None) -> models.UsageNames:
        """See :meth:`Operations.list_usage_namespaces`."""
        found: models.UsageNames = await self.send(
            Call("GET", "/gpu-aggregation/namespaces", models.UsageNames, query=given({"cluster": cluster}))
        )
        return found

    async def list_usage_keys(
        self, *, dimension_type: str | None = None, cluster: str | None = None
    ) -> models.UsageNames:
        """See :meth:`Operations.list_usage_keys`."""
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
        """See :meth:`Operations.list_usage_values`."""
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
        """See :meth:`Operations.get_cluster_usage`."""
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
        """See :meth:`Operations.get_namespace_usage`."""
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
        """See :meth:`Operations.get_label_usage`."""
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
        """See :meth:`Operations.get_workload_usage`."""
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
        """See :meth:`Operations.list_held_models`."""
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
        order_by: str | None = None,
        order_direction: str | None = None,
        costs: bool | None = None,
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
        """See :meth:`Operations.get_usage_ledger`."""
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
                        "order_by": order_by,
                        "order_direction": order_direction,
                        "costs": costs,
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
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.WasteAnswer:
        """See :meth:`Operations.get_usage_waste`."""
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
                        "page": page,
                        "page_size": page_size,
                    }
                ),
            )
        )
        return found

    async def get_latest_snapshot(self, *, cluster: str | None = None) -> models.LatestAllocation:
        """See :meth:`Operations.get_latest_snapshot`."""
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
        workload_names: str | None = None,
        interval: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.AllocationHistory:
        """See :meth:`Operations.list_snapshots`."""
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
                        "workload_names": workload_names,
                        "interval": interval,
                        "page": page,
                        "page_size": page_size,
                    }
                ),
            )
        )
        return found
