"""Fields that no importer knows: each is in the ledger, and none is taken for a part of another one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuctl.frontend.source import Source
from gpuctl.importing.import_values import Given, Unreadable
from gpuctl.importing.line_ledger import Outcome
from gpuctl.importing.tools import find_importer
from properties.scale import part_of

CORPUS = Path(__file__).resolve().parents[1] / "imports"
FILES = {
    path.parent.name: path for path in sorted(CORPUS.glob("*/*.yaml")) if path.name[:8] not in ("expected", "platform")
}
# Mappings whose keys are the user's, and parts that are compared or left as a whole.
_FREE = r"\b(?:labels|annotations|envs?|matchLabels|selector|secrets)\b|^volumes\."
"""Pattern of the ledger's texts and fields about mappings with any key."""


def _with_unknown_fields(text: str) -> list[tuple[int, str]]:
    """Return the text with an unknown field before each key of a block mapping, and the field's line."""
    lines = text.split("\n")
    found: list[tuple[int, str]] = []
    block: int | None = None
    for index, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        if block is not None and (depth > block or not line.strip()):
            continue
        block = depth if re.search(r":\s*[|>][-+]?\s*$|-\s*[|>][-+]?\s*$", line) else None
        key = re.match(r"( *)(- )?[A-Za-z\"][\w./\"-]*:(?: |$)", line)
        if key is None:
            continue
        pad = key[1] + (" " * len(key[2]) if key[2] else "")
        if key[2]:
            first = f"{key[1]}- zzUnknown: x"
            rest = f"{pad}{line[len(key[1]) + len(key[2]) :]}"
            found.append((index + 1, "\n".join([*lines[:index], first, rest, *lines[index + 1 :]])))
        else:
            found.append((index + 1, "\n".join([*lines[:index], f"{pad}zzUnknown: x", *lines[index:]])))
    return found


@pytest.mark.parametrize("case", sorted(FILES))
def test_an_unknown_field_is_in_the_ledger(case: str) -> None:
    """`make test` tries a third of the places in each file."""
    text = FILES[case].read_text()
    wrong = []
    for number, changed in part_of(_with_unknown_fields(text), 3):
        try:
            source = Source("a.yaml", changed)
            found = find_importer(source, None).run(source, Given())
        except Unreadable as error:
            # The first field can be what makes the file a tool's.
            if not error.problem.message.startswith(
                ("no tool is known", "no import reads the kind", "this is a document of gpuctl")
            ):
                wrong.append((number, error.problem.message))
            continue
        entries = [item for item in found.entries if item.line <= number <= item.last_line]
        kept = [item for item in entries if item.outcome is not Outcome.DROPPED]
        if not entries:
            wrong.append((number, "no entry"))
        elif kept and not any(
            "zzUnknown" in item.text or re.search(_FREE, item.text + (item.field or "")) for item in kept
        ):
            wrong.append((number, kept[0].text))
    assert wrong == []


def test_values_of_a_wrong_type_are_dropped() -> None:
    """A guess in their place would not be noticed."""
    text = FILES["pytorchjob-shell-and-rdma"].read_text().replace("replicas: 1", "replicas: -1", 1)
    text = text.replace("nvidia.com/gpu: 8", "nvidia.com/gpu: '1e0'")
    text = re.sub(r"command:\n.*\n.*\n", "command: bash\n", text)
    source = Source("job.yaml", text)
    found = find_importer(source, None).run(source, Given(image="registry.example.com/a:1"))
    dropped = {entry.text.partition(": ")[0]: entry.note for entry in found.entries if entry.outcome is Outcome.DROPPED}
    master, container = "spec.pytorchReplicaSpecs.Master", "template.spec.containers[0]"
    assert dropped[f"{master}.replicas"] == "it is not a number of nodes: add `--nodes`"
    assert dropped[f"{master}.{container}.command"] == "it is not a list of texts"
    assert "whole number in `resources.gpu`" in (dropped[f"{master}.{container}.resources.limits.nvidia.com/gpu"] or "")


@pytest.mark.parametrize("case", ["pytorchjob-program-of-the-image", "trainjob-suspended-in-a-queue"])
@pytest.mark.parametrize("item", ["{a: b}", "[a]"])
def test_a_command_of_other_items_is_dropped(case: str, item: str) -> None:
    text = re.sub(
        r"( +)image: .*\n(?: +command: .*\n)?", rf"\g<0>\1command: [torchrun, {item}]\n", FILES[case].read_text()
    )
    text = re.sub(r" +command: \[\./solve\]\n", "", text)
    source = Source("job.yaml", text)
    found = find_importer(source, None).run(source, Given())
    notes = [entry.note for entry in found.entries if entry.outcome is Outcome.DROPPED and "command" in entry.text]
    assert notes == ["it is not a list of texts"]
    assert found.drafts[0].get("environment.command") is None
