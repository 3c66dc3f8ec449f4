"""Masking of credentials: real ones, harmless text that resembles one, and linear time for long inputs."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest

from gpuctl.language.masking import (
    CHANGED,
    MASK,
    hidden,
    masked,
    masked_lines,
    masked_log_line,
    masked_pair,
    names_a_secret,
    redact,
    shown,
)

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\nhunter2\n-----END RSA PRIVATE KEY-----"
CREDENTIAL_TEXTS = [
    ("postgres://u:hunter2@db/x", "hunter2"),
    ("redis://:hunter2@cache:6379", "hunter2"),
    ("amqp://u:hun@ter2@mq/", "ter2"),
    ("hf_" + "a" * 20, "a" * 20),
    ("sk-" + "b" * 24, "b" * 24),
    ("x ghp_" + "c" * 36, "c" * 36),
    ("github_pat_" + "d" * 30, "d" * 30),
    ("glpat-" + "e" * 20, "e" * 20),
    ("AKIA" + "F" * 16, "F" * 16),
    ("xoxb-" + "1" * 12, "1" * 12),
    ("https://hooks.slack.com/services/T" + "0" * 8 + "/B" + "0" * 8 + "/" + "x" * 24, "x" * 24),
    (f"jwt {JWT} end", JWT),
    (PEM, "hunter2"),
    ("Authorization: Bearer hunter2hunter2", "hunter2"),
    ("curl -H 'authorization: basic aHVudGVyMg=='", "aHVudGVyMg"),
    ("run --password=hunter2", "hunter2"),
    ("run --db.password hunter2", "hunter2"),
    ("run --x-key=hunter2", "hunter2"),
    ("export HF_TOKEN=hunter2; run", "hunter2"),
    ('{"api_key": "hunter2"}', "hunter2"),
    ("https://s3/x?X-Amz-Signature=hunter2", "hunter2"),
]
HARMLESS = [
    "--max-tokens 4096",
    "MAX_TOKENS=4096",
    "TOKENIZERS_PARALLELISM=false",
    "--tokenizer Qwen/Qwen2",
    "--eos-token 2",
    "PASSWORD_FILE=/run/secrets/x",
    "--token=$(TOKEN)",
    "http://user@host/path:80@x",
    "the token is read from the Secret",
    "ssh://git@example.com/x",
    "job task-generate-dataset-2026 is there",
]


@pytest.mark.parametrize(("text", "secret"), CREDENTIAL_TEXTS)
def test_credentials_in_text_are_masked(text: str, secret: str) -> None:
    found = redact(text)
    assert secret not in found
    assert len(found) == len(text)
    assert found.count("\n") == text.count("\n")
    for value in (masked({"args": [text]}), masked({"env": [{"name": "X", "value": text}]})):
        assert secret not in json.dumps(value)
    with shown():
        assert redact(text) == text
        with hidden():
            assert redact(text) == found
        assert redact(text) == text


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_is_not_masked(text: str) -> None:
    assert redact(text) == text
    assert masked([text]) == [text]


@pytest.mark.parametrize(
    "name", ["DB_PASSWORD", "HF_TOKEN", "MY_SECRET", "WANDB_API_KEY", "ENCRYPTION_KEY", "pgpasswd"]
)
def test_values_of_secret_names_are_masked(name: str) -> None:
    assert names_a_secret(name)
    assert masked({"env": {name: "hunter2"}}) == {"env": {name: MASK}}
    assert masked({"env": [{"name": name, "value": "hunter2"}]}) == {"env": [{"name": name, "value": MASK}]}
    assert masked("hunter2", f"spec.containers[main].env[{name}].value") == MASK
    assert masked({"args": [f"--{name}", "hunter2", "x"]}) == {"args": [f"--{name}", MASK, "x"]}


def test_references_and_structure_are_not_masked() -> None:
    value: dict[str, Any] = {
        "env": [
            {"name": "A_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}},
            {"name": "B_TOKEN", "secret": "s", "key": "token"},
            {"name": "C_TOKEN", "value": "$(OTHER)"},
        ],
        "tolerations": [{"key": "nvidia.com/gpu", "value": "x"}],
        "imagePullSecrets": [{"name": "registry"}],
    }
    assert masked(value) == value


def test_secret_data_and_annotations_are_masked() -> None:
    assert masked({"kind": "Secret", "data": {"a": "eA=="}}) == {"kind": "Secret", "data": {"a": MASK}}
    document = json.dumps({"environment": {"env": {"HF_TOKEN": "hunter2"}}})
    assert "hunter2" not in str(masked({"annotations": {"x/document": document, "x/api-token": "hunter2"}}))


def test_change_of_a_masked_value_is_marked() -> None:
    assert masked_pair("a-secret", "b-secret", "spec.env[TOKEN].value") == (MASK, CHANGED)
    assert masked_pair("YWJj", "YWJk", "data.password") == (MASK, CHANGED)
    assert masked_pair("YWJj", "YWJk", "data[tls.key]") == (MASK, CHANGED)
    old, new = masked_pair("postgres://u:a@db", "postgres://u:b@db")
    assert (old, new) == ("postgres://u:***@db", f"postgres://u:***@db {CHANGED}")
    one, two = ({"env": [{"name": "TOKEN", "value": value}]} for value in "ab")
    assert masked_pair(one, two)[1] == {"env": [{"name": "TOKEN", "value": CHANGED}]}


def test_changed_secret_is_found_by_its_name_in_a_shorter_list() -> None:
    mode = {"name": "MODE", "value": "fast"}
    old, new = masked_pair(
        [mode, {"name": "TOKEN", "value": "a-secret"}],
        [{"name": "TOKEN", "value": "b-secret"}],
    )
    assert old == [mode, {"name": "TOKEN", "value": MASK}]
    assert new == [{"name": "TOKEN", "value": CHANGED}]


def test_yaml_lines_are_masked() -> None:
    text = "env:\n- name: HF_TOKEN\n  value: hunter2\n- name: OTHER\n  value: x\nargs:\n- --password\n- hunter2\n- y\n"
    lines = masked_lines(text + f"key: |\n  {PEM}\n".replace("\n", "\n  "))
    assert "hunter2" not in "\n".join(lines)
    assert {"  value: x", "- y", "- --password"} <= set(lines)


def test_yaml_lines_of_secrets_are_masked_whatever_their_names() -> None:
    lines = [
        "data:",
        "  user: YWRtaW4=",
        "  cert: |",
        "    hunter2",
        "kind: Secret",
        "stringData: {a: b}",
        "type: Opaque",
    ]
    others = ["---", "kind: ConfigMap", "data:", "  user: YWRtaW4="]
    assert masked_lines("\n".join([*others, "---", *lines, *others])) == [
        *others,
        "---",
        "data:",
        f"  user: {MASK}",
        f"  cert: {MASK}",
        f"    {MASK}",
        "kind: Secret",
        f"stringData: {MASK}",
        "type: Opaque",
        *others,
    ]


LONG_INPUT_LENGTH = 150_000
PATHOLOGICAL = [
    "a",
    "-",
    "_",
    "eyJ",
    "token",
    "token ",
    "--token ",
    "://",
    ":",
    "://a:",
    "bearer ",
    "key=",
    "-----BEGIN PRIVATE KEY-----",
    "a.",
    "'\"",
    string.ascii_letters,
]


@pytest.mark.parametrize("piece", PATHOLOGICAL)
def test_long_inputs_are_masked_in_linear_time(piece: str) -> None:
    """A quadratic pattern would take minutes for all pieces together."""
    text = (piece * (LONG_INPUT_LENGTH // len(piece) + 1))[:LONG_INPUT_LENGTH]
    assert len(redact(text)) == LONG_INPUT_LENGTH
    assert len(redact(f"--{text}=x")) == LONG_INPUT_LENGTH + 4
    names_a_secret(text)
    masked({"name": text, "value": text, "args": [text, text]})
    masked_lines(text)
    masked_log_line(text)


def test_non_text_values_are_not_masked() -> None:
    value = {"replicas": 3, "ratio": 0.5, "on": True, "off": None, "ports": [8000, None]}
    assert masked(value) == value
