"""Every diagnostic code has a rule, and each rule's example triggers the code once, on the marked line."""

from __future__ import annotations

import re
from pathlib import Path

import diagnostic_docs
import pytest
import translations

import gpuctl
from gpuctl.frontend.codes import CODES, CodeRule
from gpuctl.frontend.codes.code_translations import TEXTS, chinese_texts
from gpuctl.frontend.diagnostics import Severity
from gpuctl.language.translation_files import sentences_in

PACKAGE = Path(gpuctl.__file__).parent
MARK = "  #!"
CHINESE = chinese_texts()
WITH_EXAMPLE = [rule for rule in CODES.values() if rule.example]


def test_every_code_has_a_rule() -> None:
    used = set()
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "codes":
            used |= set(re.findall(r"\bGPU[0-9]{3}\b", path.read_text(encoding="utf-8")))
    assert used == set(CODES)
    # A reader of docs/diagnostics.md looks for a number.
    assert list(CODES) == sorted(CODES)


@pytest.mark.parametrize("rule", WITH_EXAMPLE, ids=lambda rule: rule.code)
def test_example_triggers_its_code_on_the_marked_line(rule: CodeRule, tmp_path: Path) -> None:
    assert rule.example is not None
    result = _compiled(rule, tmp_path)
    found = [diagnostic for diagnostic in result.diagnostics if diagnostic.code == rule.code]
    assert [diagnostic.severity.value for diagnostic in found] == [rule.severity]
    errors = [diagnostic.code for diagnostic in result.diagnostics if diagnostic.severity is Severity.ERROR]
    assert errors == [rule.code] * (rule.severity == "error")
    span = found[0].span
    assert span is not None
    marked = rule.companion if rule.companion and MARK in rule.companion else rule.example
    lines = [number for number, line in enumerate(marked.split("\n"), 1) if line.endswith(MARK)]
    assert [span.line] == (lines or [1])


def _compiled(rule: CodeRule, directory: Path) -> gpuctl.Compilation:
    platform = gpuctl.Source("platform.yaml", rule.companion.replace(MARK, "")) if rule.companion else None
    example = gpuctl.Source("example.yaml", (rule.example or "").replace(MARK, ""))
    return gpuctl.compile(example, platform=platform, directory=directory)


@pytest.mark.parametrize("rule", WITH_EXAMPLE, ids=lambda rule: rule.code)
def test_example_has_chinese_diagnostics(rule: CodeRule, tmp_path: Path) -> None:
    """Every message, hint and role of a related place is translated, whatever it is composed of."""
    with sentences_in("zh"):
        found = [item for item in _compiled(rule, tmp_path).diagnostics if item.code == rule.code]
    for item in found:
        for text in (item.message, item.hint or "", *(related.message for related in item.related)):
            assert not translations.ENGLISH.search(re.sub(r"`[^`]*`|\[.*\]", "", text)), text


def test_rule_texts_are_well_formed_and_chinese_ones_name_the_same_code_and_numbers() -> None:
    for rule in CODES.values():
        assert rule.severity in ("error", "warning", "note")
        assert not rule.title.endswith("."), rule.code
        assert rule.explanation.endswith("."), rule.code
        assert rule.fix.endswith((".", ". ")), rule.code
        chinese = CHINESE[rule.code]
        for name in TEXTS:
            english, translated = getattr(rule, name), chinese[name]
            assert re.search("[\u4e00-\u9fff]", translated), (rule.code, name)
            for same in (r"`[^`]+`", r"\d+"):
                assert sorted(re.findall(same, translated)) == sorted(re.findall(same, english)), (rule.code, name)
        assert not chinese["title"].endswith("。"), rule.code
        assert chinese["explanation"].endswith("。"), rule.code
        assert chinese["fix"].endswith("。"), rule.code


def test_pages_of_diagnostics_are_up_to_date() -> None:
    assert diagnostic_docs.main(["--check"]) == 0


def test_missing_file_and_empty_directory_are_reported(tmp_path: Path) -> None:
    result = gpuctl.compile(tmp_path / "absent.yaml")
    assert [(item.code, item.severity.value) for item in result.diagnostics] == [("GPU001", "error")]
    assert [item.code for item in gpuctl.compile(tmp_path).diagnostics] == ["GPU013"]


def test_file_above_8_mib_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"# " + b"x" * (8 * 2**20))
    assert [item.code for item in gpuctl.compile(path).diagnostics] == ["GPU003"]


def test_foreign_documents_in_a_directory_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "deployment.yaml").write_text("apiVersion: apps/v1\nkind: Deployment\n")
    (tmp_path / "values.yml").write_text("a: 1\n")
    (tmp_path / "job.yaml").write_text("kind: compute\nversion: v0.1\njob: {name: a}\nenvironment: {image: a:1}\n")
    result = gpuctl.compile(tmp_path)
    assert result.ok
    assert [(item.code, item.severity.value) for item in result.diagnostics] == [("GPU105", "note"), ("GPU107", "note")]
    assert {obj["kind"] for obj in result.objects} == {"PriorityClass", "Service", "Deployment"}


@pytest.mark.parametrize("gitops", ["argocd", "flux"])
def test_ttl_under_gitops_is_a_warning(gitops: str) -> None:
    text = "kind: training\nversion: v0.1\njob: {name: a, ttl: 7d}\nenvironment: {image: a:1}\n"
    result = gpuctl.compile(gpuctl.Source("a.yaml", text), gitops=gitops)
    found = [item for item in result.diagnostics if item.code == "GPU605"]
    assert len(found) == 1
    assert found[0].severity is Severity.WARNING
    assert str(found[0].span) == "a.yaml:3:16"


def test_invalid_output_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """No document can make lowering fail, so the test breaks a constant of it."""
    from gpuctl.backend import pod

    monkeypatch.setattr(pod, "MAIN_CONTAINER", 7)
    text = "kind: compute\nversion: v0.1\njob: {name: a}\nenvironment: {image: a:1}\n"
    result = gpuctl.compile(gpuctl.Source("a.yaml", text))
    assert [item.code for item in result.diagnostics] == ["GPU901"]
    assert not result.objects
