"""Missing Chinese translations stay English, are listed, and fail only a release; those of sentences fail here."""

from __future__ import annotations

from pathlib import Path

import pytest
import schemas
import translations

from gpuctl.frontend.codes import code_translations
from gpuctl.language import translation_files
from gpuctl.language.translation_files import chinese_reference, chinese_sentences
from gpuctl.reading.why import cause_translations


@pytest.fixture
def incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Translations of the reference, the codes and the causes without one text each, and a page with an English line."""
    pairs = [pair for pair in chinese_reference() if pair["en"] != "Field reference"]
    monkeypatch.setattr(schemas, "chinese_reference", lambda: pairs)
    texts = code_translations.chinese_texts()
    del texts["GPU203"]["fix"]
    texts["GPU999"] = {"title": "已删除的代码"}
    monkeypatch.setattr(code_translations, "chinese_texts", lambda: texts)
    causes = {cause: text for cause, text in cause_translations.chinese_causes().items() if cause != "cordoned"}
    monkeypatch.setattr(cause_translations, "chinese_causes", lambda: causes)
    sentences = {text: chinese for text, chinese in chinese_sentences().items() if text != "add nodes"}
    sentences |= {"add pods": "增加 Pod", "add the key to the {kind}, or correct `key` in `environment.env`": "{name}"}
    monkeypatch.setattr(translation_files, "chinese_sentences", lambda: sentences)
    monkeypatch.setattr(translation_files, "sentence_pairs", lambda: [{"en": "add nodes", "zh": "增加节点"}] * 2)
    (tmp_path / "docs").mkdir()
    page = "# 页面\n\n已翻译，见 `the code`。\n\n| `field` | The new setting of the service. |\n"
    (tmp_path / "docs" / "service.zh-CN.md").write_text(page, encoding="utf-8")
    monkeypatch.setattr(translations, "ROOT", tmp_path)


MISSING = [
    "reference_zh_CN.yaml: no translation of: Field reference",
    "zh_CN.yaml: no translation of: fix of GPU203",
    "zh_CN.yaml: unused: title of GPU999",
    "causes_zh_CN.yaml: no translation of: cordoned",
    "sentences_zh_CN.yaml: twice: add nodes",
    "sentences_zh_CN.yaml: no translation of: add nodes",
    "sentences_zh_CN.yaml: unused: add pods",
    "sentences_zh_CN.yaml: 'add the key to the {kind}, or correct `key` in `environment.env`' has no value name",
    "docs/service.zh-CN.md: not translated: | `field` | The new setting of the service. |",
]


@pytest.mark.usefixtures("incomplete")
def test_missing_translations_fail_only_a_release(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # All sources are parsed for them.
    found = list(translations.problems())
    monkeypatch.setattr(translations, "problems", lambda: iter(found))
    for arguments, code in ([], 0), (["--release"], 1):
        assert translations.main(arguments) == code
        assert capsys.readouterr().err.splitlines() == MISSING


def test_each_sentence_of_a_cause_has_a_chinese_form(tmp_path: Path) -> None:
    assert list(translations.sentence_problems()) == []
    source = 'from gpuctl.language.sentences import say\nsay(f"{name} is new")\nsay("a {name}", name=name)\n'
    (tmp_path / "new_cause.py").write_text(source)
    assert list(translations.sentence_templates([tmp_path])) == [("new_cause.py", None), ("new_cause.py", "a {name}")]


def test_each_error_of_the_service_has_a_chinese_form(tmp_path: Path) -> None:
    source = 'raise Refused(f"{name} is in use", say("wait until it has ended"))\nraise TypeError("it is not a list")\n'
    source += 'raise Problem(400, text, hint="name one of your namespaces")\nwork.tell(f"waiting until {name} ends")\n'
    (tmp_path / "new_errors.py").write_text(source)
    assert list(translations.unsaid_refusals([tmp_path])) == [
        "new_errors.py:1: ' is in use' is not made by `say`",
        "new_errors.py:3: 'name one of your namespaces' is not made by `say`",
        "new_errors.py:4: 'waiting until x ends' is not made by `say`",
    ]


def test_a_quoted_sentence_has_no_english_words(tmp_path: Path) -> None:
    source = 'Sentence(f"`kubectl uncordon {name}`")\nSentence(f"{said}{left}")\nSentence(f"{name} is in use")\n'
    (tmp_path / "new_sentences.py").write_text(source)
    assert list(translations.unsaid_sentences([tmp_path])) == ["new_sentences.py:3: ' is in use' is not made by `say`"]


def test_a_complete_translation_passes_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translations, "problems", lambda: iter(()))
    assert translations.main(["--release"]) == 0
