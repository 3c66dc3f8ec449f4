"""The result of the frontend: documents, diagnostics and the settings of their platform."""

from __future__ import annotations

from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.frontend.document import Document
from gpuctl.frontend.source import Source
from gpuctl.language.settings import Settings


class Loaded:
    """The result of the frontend.

    ``documents``: the valid ones, in source order, without a platform file that was only found beside them. ``faulty``:
    jobs with errors, for further checks. ``of_other_clusters``: documents left out because of their placement.
    ``sources``: by name, to show lines. ``has_sound_platform``: the platform has no errors.
    """

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self.faulty: list[Document] = []
        self.of_other_clusters: list[Document] = []
        self.diagnostics: list[Diagnostic] = []
        self.settings = Settings()
        self.sources: dict[str, Source] = {}
        self.has_sound_platform = True
