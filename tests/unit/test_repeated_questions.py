"""The comparison of a run's questions with the confirmed ones."""

from __future__ import annotations

import pytest

from gpuctl.apply.plan.repeated_questions import all_confirmed
from gpuctl.language.sentences import Translation, set_translation
from gpuctl.language.translation_files import chinese_sentences

ASKED = "replaces training/a in nlp: running for {}, its progress is lost"


@pytest.mark.parametrize(
    ("asked", "confirmed", "holds"),
    [
        ([], [], True),
        ([], ["anything"], True),
        ([ASKED.format("2h5m")], [ASKED.format("59m")], True),
        ([ASKED.format("2m")], [ASKED.format("1m").replace("nlp", "cv")], False),
        # The number of questions has to be the same.
        (["prunes training/b"], [ASKED.format("1m")], False),
        ([ASKED.format("1m"), "prunes training/b"], [ASKED.format("1m")], False),
        # A name that looks like an age.
        (["prunes training/run-2d"], ["prunes training/run-1d"], False),
        (["evicts a in x (2 pods, running for 3d)"], ["evicts a in x (2 pods, running for 72h)"], True),
        (["evicts a in x (2 pods, running for 3d)"], ["evicts a in x (2 pods, not running yet)"], False),
    ],
)
def test_confirmation_holds_if_only_ages_differ(asked: list[str], confirmed: list[str], holds: bool) -> None:
    assert all_confirmed(asked, confirmed) is holds


@pytest.mark.parametrize(
    ("asked", "confirmed", "holds"),
    [
        ("替换 training/a（nlp）：已运行 2h5m，进度会丢失", "替换 training/a（nlp）：已运行 59m，进度会丢失", True),
        ("清理 training/a（x）：已结束 3d（Complete）", "清理 training/a（x）：已结束 2d（Complete）", True),
        ("替换 training/a（nlp）：已运行 2h5m", "替换 training/a（cv）：已运行 2h5m", False),
    ],
)
def test_ages_in_chinese_questions_are_ignored(asked: str, confirmed: str, holds: bool) -> None:
    set_translation(Translation(chinese_sentences()))
    try:
        assert all_confirmed([asked], [confirmed]) is holds
    finally:
        set_translation(None)
