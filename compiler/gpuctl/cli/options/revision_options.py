"""Options of commands that compare two revisions of documents."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.cli.options.cluster_choice import stated_cluster
from gpuctl.cli.options.document_options import CompileOptions
from gpuctl.usecases.revisions.revision_pairs import RevisionPairOptions


def revision_options(options: CompileOptions, inputs: Sequence[str]) -> RevisionPairOptions:
    """Return the documents of both sides, with the options of their compilation."""
    return RevisionPairOptions(
        inputs,
        options.platform,
        options.offline_namespace,
        options.strict,
        cluster=stated_cluster(),
        variant=options.variant,
    )
