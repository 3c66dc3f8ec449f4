"""The history of a job: its applied documents."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import Field

from gpuctl.api.base_models import ApiModel
from gpuctl.api.json_values import change_values
from gpuctl.apply.state.past_documents import PastDocument
from gpuctl.gitops.value_comparison import value_changes
from gpuctl.reading.jobs.document_history import DocumentHistory, HistoryRow


class DocumentCommit(ApiModel):
    """The commit that a document was applied from."""

    id: str = Field(examples=["9f2c1e07ab3d4c5e6f708192a3b4c5d6e7f80912"])
    dirty: bool = Field(description="True if the files differed from the commit.", examples=[False])
    repository: str | None = Field(examples=["git.example.com/team-a/jobs"])


Document = TypeVar("Document", bound="JobDocument")


class JobDocument(ApiModel):
    """An applied document of a job, without credentials."""

    revision: int = Field(examples=[3])
    kind: str = Field(examples=["inference"])
    created_at: str | None = Field(examples=["2024-06-01T10:00:00Z"])
    who: str | None = Field(examples=["ann"])
    commit: DocumentCommit | None
    gpuctl: str = Field(description="The gpuctl version that applied it.", examples=["0.1.0"])
    cause: str = Field(description="`applied`, `rolled back`, or `found` in the cluster.", examples=["applied"])
    to: int | None = Field(description="The revision that was applied again; null for other causes.", examples=[None])
    changes: list[dict[str, Any]] = Field(
        description="The fields that differ from the previous revision, each with `path`, `from` and `to`.",
        examples=[[{"path": "environment.image", "from": "app:v1", "to": "app:v2"}]],
    )
    masked: list[str] = Field(description="Fields whose values are not kept.", examples=[["environment.env.TOKEN"]])
    profile: str | None = Field(None, description="The profile that is merged into the document.", examples=["prod"])
    overrides: list[str] = Field(
        default_factory=list,
        description="The fields that were overridden for this run, each as `PATH=VALUE`, without credentials.",
        examples=[["resources.gpu=8"]],
    )

    @classmethod
    def of(cls: type[Document], row: HistoryRow) -> Document:
        """Return the JSON model of a revision."""
        past, commit = row.past, row.past.commit
        return cls.taken_from(
            past,
            kind=past.document.get("kind"),
            created_at=past.when or None,
            commit=None if commit is None else DocumentCommit.taken_from(commit),
            changes=change_values(row.changes),
            masked=list(past.masked),
            profile=past.variant.profile,
            overrides=list(past.variant.overrides),
        )


class JobRevision(JobDocument):
    """A revision of a job with its whole document."""

    document: dict[str, Any] = Field(examples=[{"kind": "inference", "version": "v0.1", "job": {"name": "chat"}}])


class HistoryAnswer(ApiModel):
    """``gpuctl history -o json``, newest revision first."""

    name: str = Field(examples=["chat"])
    namespace: str = Field(examples=["team-a"])
    items: list[JobDocument]
    total: int = Field(examples=[3])

    @classmethod
    def of(cls, history: DocumentHistory) -> HistoryAnswer:
        """Return the JSON model of a history."""
        items = list(map(JobDocument.of, history.rows))
        return cls(name=history.name, namespace=history.namespace, items=items, total=len(items))


class JobDocuments(HistoryAnswer):
    """The history of a job, with the objects that were skipped."""

    notes: list[str] = Field(description="Skipped objects that are marked as history, with the reason.", examples=[[]])


class RevisionChanges(ApiModel):
    """``gpuctl history --diff -o json``."""

    old: int = Field(alias="from", description="The first revision.")
    new: int = Field(alias="to", description="The second revision.")
    changes: list[dict[str, Any]] = Field(description="`path`, `from` and `to` of each field that differs.")

    @classmethod
    def of(cls, old: PastDocument, new: PastDocument) -> RevisionChanges:
        """Return the JSON model of the changes from one document to another."""
        changes = change_values(value_changes(old.document, new.document))
        return cls(old=old.revision, new=new.revision, changes=changes)
