"""All mistakes of all documents are reported in one run: none hides another."""

from __future__ import annotations

import pytest

import gpuctl
from gpuctl.frontend.source import Source

PLATFORM = Source("platform.yaml", "kind: platform\nversion: v0.1\nimage: {registries: [reg.io]}\n")
HEAD = "kind: training\nversion: v0.1\nenvironment: {image: 'reg.io/a:1', command: [x]}\nresources: {cpu: 1, memory: 1Gi}\n"
WRONG = HEAD.replace("command: [x]", "command: [x], oops: 1") + "job: {name: wrong}\n"
JOB = HEAD + "job: {name: b}\n"
UNKNOWN, FORBIDDEN, REGISTRY, VOLUME, TWICE = (
    ("GPU203", "unknown field `oops` in environment"),
    ("GPU219", "`nodeName` cannot be patched"),
    ("GPU602", "the image `evil.io/x:1` is not from a registry"),
    ("GPU219", "there is no volume called `v`"),
    ("GPU218", "two workdirs are mounted at `/d`"),
)
PATCHES = {
    "field": ("{nodeName: x}", [FORBIDDEN]),
    "init container": ("{initContainers: [{name: i, image: 'evil.io/x:1'}]}", [REGISTRY]),
    "sidecar": ("{containers: [{name: i, image: 'evil.io/x:1'}]}", [REGISTRY]),
    "volume of an image": ("{volumes: [{name: w, image: {reference: 'evil.io/x:1'}}]}", [REGISTRY]),
    "mount": ("{containers: [{name: main, volumeMounts: [{name: v, mountPath: /q}]}]}", [VOLUME]),
    "schema": ("{imoge: x, nodeName: x}", [("GPU219", "unknown field `imoge`"), FORBIDDEN]),
    "all": (
        "{nodeName: x, initContainers: [{name: i, image: 'evil.io/x:1', volumeMounts: [{name: v, mountPath: /q}]}]}",
        [FORBIDDEN, REGISTRY, VOLUME],
    ),
}
MOUNTS = "storage: {workdirs: [{path: /d, pvc: {claim: c}}, {path: /d, pvc: {claim: e}}]}\n"


def found(*texts: str) -> list[tuple[str, str]]:
    sources = [Source(f"{index}.yaml", text) for index, text in enumerate(texts)]
    result = gpuctl.compile(sources, platform=PLATFORM)
    assert not result.objects
    return [(item.code, item.message) for item in result.diagnostics if item.severity.value == "error"]


def is_all(got: list[tuple[str, str]], wanted: list[tuple[str, str]]) -> bool:
    return len(got) == len(wanted) and all(
        any(code == other and text.startswith(message) for other, text in got) for code, message in wanted
    )


@pytest.mark.parametrize("patch", PATCHES)
def test_mistakes_of_a_patch_beside_a_wrong_file(patch: str) -> None:
    text, wanted = PATCHES[patch]
    document = f"{JOB}podPatch: {text}\n"
    assert is_all(found(document), wanted)
    for texts in ((WRONG, document), (document, WRONG), (f"{WRONG}---\n{document}",)):
        got = found(*texts)
        assert is_all(got, [UNKNOWN, *wanted]), got


@pytest.mark.parametrize("patch", PATCHES)
@pytest.mark.parametrize(
    ("document", "own"), [(WRONG, UNKNOWN), (JOB + MOUNTS, TWICE)], ids=["unknown field", "two mounts"]
)
def test_mistakes_of_a_patch_beside_those_of_its_document(patch: str, document: str, own: tuple[str, str]) -> None:
    text, wanted = PATCHES[patch]
    got = found(f"{document}podPatch: {text}\n")
    assert is_all(got, [own, *wanted]), got


@pytest.mark.parametrize("own", [UNKNOWN, FORBIDDEN], ids=["other mistakes", "a patch that cannot be merged"])
def test_volumes_that_mounts_may_name(own: tuple[str, str]) -> None:
    """Those of every patch and of gpuctl itself; where one has no usable name, none is said to be absent."""
    mounts = "volumeMounts: [{name: workdir-0, mountPath: /q}, {name: dshm, mountPath: /r}, {name: v, mountPath: /s}]"
    document, broken = (WRONG, "") if own == UNKNOWN else (JOB, ", {name: i}")
    for volume, wanted in (("v", []), ("w", [VOLUME]), ("[]", [("GPU219", "")]), ("{}", [("GPU219", "")])):
        patch = f"{{containers: [{{name: main, {mounts}}}{broken}], volumes: [{{name: {volume}, emptyDir: {{}}}}]}}"
        got = [item for item in found(f"{document}podPatch: {patch}\n") if "has no image" not in item[1]]
        assert is_all(got, [*wanted, *([UNKNOWN] if own == UNKNOWN else [])]), got


def test_two_documents_with_one_object_beside_a_wrong_file() -> None:
    pools = "---\n".join(["kind: pool\nversion: v0.1\npool: {name: p}\n"] * 2)
    alone = found(pools)
    assert [code for code, _ in alone] == ["GPU416"]
    assert is_all(found(pools, WRONG), [UNKNOWN, *alone])


def test_a_wrong_platform_blames_no_document() -> None:
    """What the platform's own patch adds is missing then."""
    platform = "kind: platform\nversion: v0.1\noops: 1\ndefaults: {training: {podPatch: {volumes: [{name: v, emptyDir: {}}]}}}\n"
    document = f"{JOB}podPatch: {PATCHES['mount'][0]}\n"
    result = gpuctl.compile(Source("a.yaml", document), platform=Source("platform.yaml", platform))
    assert [item.message for item in result.diagnostics if item.severity.value == "error"] == [
        "unknown field `oops` in a platform document"
    ]
