"""One run reports all errors of all documents: no error hides another."""

from __future__ import annotations

import pytest

import gpuctl
from gpuctl.frontend.source import Source

PLATFORM = Source("platform.yaml", "kind: platform\nversion: v0.1\nimage: {registries: [reg.io]}\n")
HEAD = "kind: training\nversion: v0.1\nenvironment: {image: 'reg.io/a:1', command: [x]}\nresources: {cpu: 1, memory: 1Gi}\n"
WRONG = HEAD.replace("command: [x]", "command: [x], oops: 1") + "job: {name: wrong}\n"
JOB = HEAD + "job: {name: b}\n"
UNKNOWN_FIELD, FORBIDDEN_PATCH, WRONG_REGISTRY, MISSING_VOLUME, REPEATED_MOUNT = (
    ("GPU203", "unknown field `oops` in environment"),
    ("GPU219", "`nodeName` cannot be patched"),
    ("GPU602", "the image `evil.io/x:1` is not from a registry"),
    ("GPU219", "there is no volume called `v`"),
    ("GPU218", "two workdirs are mounted at `/d`"),
)
PATCHES = {
    "field": ("{nodeName: x}", [FORBIDDEN_PATCH]),
    "init container": ("{initContainers: [{name: i, image: 'evil.io/x:1'}]}", [WRONG_REGISTRY]),
    "sidecar": ("{containers: [{name: i, image: 'evil.io/x:1'}]}", [WRONG_REGISTRY]),
    "volume of an image": ("{volumes: [{name: w, image: {reference: 'evil.io/x:1'}}]}", [WRONG_REGISTRY]),
    "mount": ("{containers: [{name: main, volumeMounts: [{name: v, mountPath: /q}]}]}", [MISSING_VOLUME]),
    "schema": ("{imoge: x, nodeName: x}", [("GPU219", "unknown field `imoge`"), FORBIDDEN_PATCH]),
    "all": (
        "{nodeName: x, initContainers: [{name: i, image: 'evil.io/x:1', volumeMounts: [{name: v, mountPath: /q}]}]}",
        [FORBIDDEN_PATCH, WRONG_REGISTRY, MISSING_VOLUME],
    ),
}
MOUNTS = "storage: {workdirs: [{path: /d, pvc: {claim: c}}, {path: /d, pvc: {claim: e}}]}\n"


def errors_of(*texts: str) -> list[tuple[str, str]]:
    sources = [Source(f"{index}.yaml", text) for index, text in enumerate(texts)]
    result = gpuctl.compile(sources, platform=PLATFORM)
    assert not result.objects
    return [(item.code, item.message) for item in result.diagnostics if item.severity.value == "error"]


def matches_all(got: list[tuple[str, str]], wanted: list[tuple[str, str]]) -> bool:
    return len(got) == len(wanted) and all(
        any(code == other and text.startswith(message) for other, text in got) for code, message in wanted
    )


@pytest.mark.parametrize("patch", PATCHES)
def test_patch_errors_are_reported_beside_errors_in_another_document(patch: str) -> None:
    text, wanted = PATCHES[patch]
    document = f"{JOB}podPatch: {text}\n"
    assert matches_all(errors_of(document), wanted)
    for texts in ((WRONG, document), (document, WRONG), (f"{WRONG}---\n{document}",)):
        got = errors_of(*texts)
        assert matches_all(got, [UNKNOWN_FIELD, *wanted]), got


@pytest.mark.parametrize("patch", PATCHES)
@pytest.mark.parametrize(
    ("document", "own"), [(WRONG, UNKNOWN_FIELD), (JOB + MOUNTS, REPEATED_MOUNT)], ids=["unknown field", "two mounts"]
)
def test_patch_errors_are_reported_beside_errors_in_the_same_document(
    patch: str, document: str, own: tuple[str, str]
) -> None:
    text, wanted = PATCHES[patch]
    got = errors_of(f"{document}podPatch: {text}\n")
    assert matches_all(got, [own, *wanted]), got


@pytest.mark.parametrize("own", [UNKNOWN_FIELD, FORBIDDEN_PATCH], ids=["other errors", "a patch that cannot be merged"])
def test_mounts_may_use_volumes_of_gpuctl_and_of_all_patches(own: tuple[str, str]) -> None:
    """A mount may name a volume of any patch or of gpuctl itself. If a volume has no usable name, no mount is reported."""
    mounts = "volumeMounts: [{name: workdir-0, mountPath: /q}, {name: dshm, mountPath: /r}, {name: v, mountPath: /s}]"
    document, broken = (WRONG, "") if own == UNKNOWN_FIELD else (JOB, ", {name: i}")
    for volume, wanted in (("v", []), ("w", [MISSING_VOLUME]), ("[]", [("GPU219", "")]), ("{}", [("GPU219", "")])):
        patch = f"{{containers: [{{name: main, {mounts}}}{broken}], volumes: [{{name: {volume}, emptyDir: {{}}}}]}}"
        got = [item for item in errors_of(f"{document}podPatch: {patch}\n") if "has no image" not in item[1]]
        assert matches_all(got, [*wanted, *([UNKNOWN_FIELD] if own == UNKNOWN_FIELD else [])]), got


def test_object_conflict_is_reported_beside_errors_in_another_document() -> None:
    pools = "---\n".join(["kind: pool\nversion: v0.1\npool: {name: p}\n"] * 2)
    alone = errors_of(pools)
    assert [code for code, _ in alone] == ["GPU416"]
    assert matches_all(errors_of(pools, WRONG), [UNKNOWN_FIELD, *alone])


@pytest.mark.parametrize(
    ("kind", "block", "column"),
    [("pool", "pool", 14), ("pool", "metadata", 18), ("quota", "quota", 15), ("quota", "metadata", 18)],
)
def test_object_conflict_is_reported_at_the_names(kind: str, block: str, column: int) -> None:
    users = "users: {nlp: {gpu: 1}}\n" if kind == "quota" else ""
    text = f"kind: {kind}\nversion: v0.1\n{block}: {{name: p}}\n{users}"
    found = [
        item for item in gpuctl.compile(Source("a.yaml", f"{text}---\n{text}")).diagnostics if item.code == "GPU416"
    ]
    assert found
    for item in found:
        spans = [item.span, *(related.span for related in item.related)]
        assert [(span.line, span.column) for span in spans if span] == [(3 + text.count("\n") + 1, column), (3, column)]


def test_platform_error_does_not_cause_errors_in_documents() -> None:
    """The volume that the platform's patch adds is unknown in this case."""
    platform = "kind: platform\nversion: v0.1\noops: 1\ndefaults: {training: {podPatch: {volumes: [{name: v, emptyDir: {}}]}}}\n"
    document = f"{JOB}podPatch: {PATCHES['mount'][0]}\n"
    result = gpuctl.compile(Source("a.yaml", document), platform=Source("platform.yaml", platform))
    assert [item.message for item in result.diagnostics if item.severity.value == "error"] == [
        "unknown field `oops` in a platform document"
    ]
