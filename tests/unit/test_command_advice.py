"""The YAML that hints suggest in place of a wrong command: it is valid and runs the same words."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

import gpuctl
from gpuctl.frontend.command_advice import advise_args, advise_command

HEAD = "kind: {kind}\nversion: v0.1\njob: {{name: demo}}\nenvironment:\n  image: app:1\n"
CODES = ("GPU202", "GPU509", "GPU510", "GPU512", "GPU219")


def found(text: str) -> list[gpuctl.Diagnostic]:
    result = gpuctl.compile(gpuctl.Source("demo.yaml", text))
    return [item for item in result.diagnostics if item.code in CODES]


def advised_yaml(hint: str) -> str:
    """Return the YAML in a hint: the value of a list, or lines with the key."""
    first, _, block = hint.partition("\n")
    if block:
        return block + "\n"
    start = first.index("command: [") if "command: [" in first else first.index("[")
    return first[start:] + "\n"


def container(text: str) -> dict[str, Any]:
    result = gpuctl.compile(gpuctl.Source("demo.yaml", text))
    assert result.ok, result.diagnostics
    job = next(obj for obj in result.objects if obj["kind"] in ("Job", "Deployment"))
    main: dict[str, Any] = job["spec"]["template"]["spec"]["containers"][0]
    return main


LINES = {
    "two lines": "pip install -r requirements.txt\npython train.py\n",
    "cd": "cd /work && python train.py",
    "everything": "cd /w && LR=1 python t.py > log 2>&1; echo $HOME",
    "assignment": "LR=1 python train.py",
    "export": "export LR=1",
    "source": "source /opt/conda/bin/activate",
    "set": "set -e",
    "pipe": "python train.py | tee log",
    "redirection": "python train.py >log",
    "input": "python train.py < data",
    "variable": "python train.py --out $HOME/x",
    "braces": "python train.py --out ${HOME}/x",
    "pattern": "cat /data/*.txt",
    "question mark": "cat /data/?.txt",
    "alternatives": "cat /data/{a,b}.txt",
    "home": "ls ~/data",
    "backquotes": "echo `hostname`",
    "substitution": "echo $(hostname)",
    "comment": "python train.py  # the first try",
    "background": "sleep 1 & wait",
    "dollars": "echo $$",
    "loop": "for i in 1 2; do\n  echo $i\ndone\n",
    "indented": "if true\nthen\n    echo 'a  b'\nfi",
    "here-document": "cat > x <<END\n  a: $B\nEND\npython train.py\n",
    "tabs": "if true; then\n\techo a\nfi\n",
    "quotation marks": 'echo "it\'s" \'a "b"\' && true',
    "chinese": "echo 训练 && python 训练.py",
    "command of a CI system": "echo a\n::set-output name=x::y\n",
    "blank lines": "\n\necho a\n\n\necho b\n\n",
    "append all": "python train.py &>> log",
}
WORDS = {
    "plain": ("python train.py --lr 2e-5", ["python", "train.py", "--lr", "2e-5"]),
    "quoted": ("python t.py --name 'a  b' \"c d\"", ["python", "t.py", "--name", "a  b", "c d"]),
    "folded": ("python train.py --lr 1\n", ["python", "train.py", "--lr", "1"]),
    "continued": (
        "torchrun \\\n  --nproc_per_node 8 \\\n  train.py\n",
        ["torchrun", "--nproc_per_node", "8", "train.py"],
    ),
    "quoted pattern": ("find /data -name '*.txt'", ["find", "/data", "-name", "*.txt"]),
    "reference": ("torchrun --node_rank=$(NODE_RANK) t.py", ["torchrun", "--node_rank=$(NODE_RANK)", "t.py"]),
    "json": ("python t.py --x '{\"a\": [1, 2]}'", ["python", "t.py", "--x", '{"a": [1, 2]}']),
    "quoted list": ('["python", "train.py"]', ["python", "train.py"]),
    "escaped": ("echo a\\ b", ["echo", "a b"]),
    "many": ("python t.py " + " ".join(f"--option-{i} {i}" for i in range(40)), None),
}


def document_with_command(text: str, style: str, key: str = "command") -> str:
    """Return a document whose command is one text, in one of YAML's styles."""
    head = HEAD.format(kind="training")
    if style == "block":
        body = "".join(f"    {line}\n" if line else "\n" for line in text.split("\n"))
        return f"{head}  {key}: |2\n{body}"
    if style == "quoted":
        return f"{head}  {key}: {json.dumps(text, ensure_ascii=False)}\n"
    if style == "item":
        return f"{head}  {key}: [{json.dumps(text, ensure_ascii=False)}]\n"
    assert style == "flow"
    return json.dumps(
        {"kind": "training", "version": "v0.1", "job": {"name": "demo"}, "environment": {"image": "app:1", key: text}}
    )


def document_with_advice(hint: str) -> str:
    """Return a document with the suggested lines in place of the wrong ones."""
    yaml = advised_yaml(hint)
    if yaml.startswith("["):
        yaml = f"  command: {yaml}"
    elif yaml.startswith("command:"):
        yaml = f"  {yaml}"
    return HEAD.format(kind="training") + yaml


@pytest.mark.parametrize("style", ["block", "quoted", "item", "flow"])
@pytest.mark.parametrize("name", LINES)
def test_script_gets_advice_to_use_a_shell(name: str, style: str) -> None:
    text = LINES[name]
    (wrong,) = found(document_with_command(text, style)) or [None]
    if wrong is None:
        assert style == "item"
        assert " " not in text.strip()
        return
    assert wrong.hint is not None
    right = document_with_advice(wrong.hint)
    assert found(right) == []
    words = container(right)["command"]
    assert words[:2] == ["bash", "-c"]
    # Kubernetes replaces `$$` by `$`.
    script = words[2].replace("$$", "$")
    if "\n" in text.strip() and style in ("block", "quoted", "item") and not set("\t:") & set(text):
        assert "\n  command:\n    - bash\n    - -c\n    - |\n" in "\n" + wrong.hint, "the advice has several lines"
    assert script.strip() == text.strip()


@pytest.mark.parametrize("style", ["block", "quoted", "item", "flow"])
@pytest.mark.parametrize("name", WORDS)
def test_command_text_gets_advice_to_use_a_list(name: str, style: str) -> None:
    text, words = WORDS[name]
    (wrong,) = found(document_with_command(text, style))
    assert wrong.hint is not None
    right = document_with_advice(wrong.hint)
    assert found(right) == []
    assert container(right)["command"] == (words or text.split())


@pytest.mark.parametrize("name", WORDS)
def test_expected_words_match_those_of_bash(name: str) -> None:
    text, words = WORDS[name]
    if words is None or "$(" in text or name == "quoted list":
        return
    script = f"printf '%s\\0' {text.strip()}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == words


@pytest.mark.parametrize(
    ("command", "args", "words"),
    [
        ("[python, train.py]", "--lr $LR --out /x", ["python", "train.py", "--lr", "$(LR)", "--out", "/x"]),
        ("[python, train.py]", "--lr 1 > /log", ["bash", "-c", "python train.py --lr 1 > /log"]),
        ("[bash, -c]", "cd /w && python t.py", ["bash", "-c", "cd /w && python t.py"]),
        ("[]", "cd /w && python t.py", ["bash", "-c", "cd /w && python t.py"]),
        ("[]", "--model /m --port 8000", ["--model", "/m", "--port", "8000"]),
        ("[]", "--model /m\n--port 8000", ["--model", "/m", "--port", "8000"]),
    ],
)
def test_args_as_one_text_get_advice(command: str, args: str, words: list[str]) -> None:
    head = HEAD.format(kind="training") + "  env: {LR: '1'}\n"
    (wrong,) = found(f"{head}  command: {command}\n  args: {json.dumps(args)}\n")
    assert wrong.hint is not None
    yaml = advised_yaml(wrong.hint)
    if "command: [" in yaml:
        assert "remove `args`" in wrong.hint
        right = f"{head}  {yaml}"
    else:
        right = f"{head}  command: {command}\n  args: {yaml}"
    assert found(right) == []
    main = container(right)
    assert [*main.get("command", []), *main.get("args", [])] == words


def test_args_are_appended_to_a_command_that_needs_a_shell() -> None:
    head = HEAD.format(kind="training")
    for command in ('"cd /w && python t.py"', '["cd /w && python t.py"]'):
        (wrong,) = found(f"{head}  command: {command}\n  args: [--name, 'a b', $(NODE_RANK)]\n")
        assert wrong.hint is not None
        assert "remove `args`" in wrong.hint
        right = f"{head}  {advised_yaml(wrong.hint)}"
        assert found(right) == []
        assert container(right)["command"] == ["bash", "-c", "cd /w && python t.py --name 'a b' $(NODE_RANK)"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["pip install -r r.txt", "python train.py"], ["bash", "-c", "pip install -r r.txt\npython train.py\n"]),
        (["python train.py", "--lr", "1"], ["python", "train.py", "--lr", "1"]),
        (["bash", "-c", "cd", "/w", "&&", "python", "t.py"], ["bash", "-c", "cd /w && python t.py"]),
        (["bash", "-c cd /w && ls"], ["bash", "-c", "cd /w && ls"]),
        (["bash", "cd /w && ls"], ["bash", "-c", "cd /w && ls"]),
        (["a", "&&", "b", "c d"], ["bash", "-c", "a && b 'c d'"]),
        (["bash", "-c", "python t.py", "&&", "echo done"], ["bash", "-c", "python t.py && echo done"]),
        (["python t.py --lr 1", "--epochs 3"], ["python", "t.py", "--lr", "1", "--epochs", "3"]),
        (["CUDA_VISIBLE_DEVICES=0", "python", "t.py"], ["bash", "-c", "CUDA_VISIBLE_DEVICES=0 python t.py"]),
        (["cd", "/w"], ["bash", "-c", "cd /w"]),
        (["source", "/opt/x/activate"], ["bash", "-c", "source /opt/x/activate"]),
        (["exec", "python", "t.py"], ["bash", "-c", "exec python t.py"]),
        (["python", "t.py", ">/log", "2>&1"], ["bash", "-c", "python t.py >/log 2>&1"]),
        (["python", "t.py", "&>>", "log"], ["bash", "-c", "python t.py &>> log"]),
        (["python", "t.py", "1>&2"], ["bash", "-c", "python t.py 1>&2"]),
        (["python", "t.py", "|&", "tee", "log"], ["bash", "-c", "python t.py |& tee log"]),
        (["a\r\nb\r\n"], ["bash", "-c", "a\nb\n"]),
    ],
)
def test_wrong_command_lists_get_advice(command: list[str], words: list[str]) -> None:
    (wrong,) = found(f"{HEAD.format(kind='training')}  command: {json.dumps(command)}\n")
    assert wrong.hint is not None
    right = document_with_advice(wrong.hint)
    assert found(right) == []
    assert container(right)["command"] == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cd /w ＆＆ python t.py", ["bash", "-c", "cd /w && python t.py"]),
        ("python t.py ｜ tee log", ["bash", "-c", "python t.py | tee log"]),
        ("python t.py；echo 1", ["bash", "-c", "python t.py;echo 1"]),
        ("python t.py \u2014lr 1 \u2013n 2", ["python", "t.py", "--lr", "1", "-n", "2"]),
        ("python t.py　--lr　1", ["python", "t.py", "--lr", "1"]),
        ("echo 你好，世界", ["echo", "你好，世界"]),
    ],
)
def test_advice_replaces_full_width_characters(text: str, words: list[str]) -> None:
    (wrong,) = found(document_with_command(text, "quoted"))
    assert wrong.hint is not None
    assert container(document_with_advice(wrong.hint))["command"] == words


@pytest.mark.parametrize(
    ("item", "hint"),
    [
        ("\u2014lr", "--lr"),
        ("\u2013\u2013lr=1", "--lr=1"),
        ("\u2013c", "-c"),
        ("\u2212n=1", "-n=1"),
        ("\u2014-x-y", "--x-y"),
    ],
)
def test_typographic_dashes_get_a_hint(item: str, hint: str) -> None:
    for field in ("command", "args"):
        text = f"{HEAD.format(kind='training')}  {field}: [python, {item}, 1]\n"
        (wrong,) = gpuctl.compile(gpuctl.Source("demo.yaml", text)).diagnostics
        assert (wrong.code, wrong.hint) == ("GPU014", f"write `{hint}`, or quote the text if it is meant")
        quoted = text.replace(item, json.dumps(item, ensure_ascii=False))
        assert "GPU014" not in [one.code for one in gpuctl.compile(gpuctl.Source("demo.yaml", quoted)).diagnostics]


@pytest.mark.parametrize("character", ["\u200b", "\u2028"], ids=["blank without width", "line separator"])
def test_advice_escapes_characters_that_cannot_be_seen(character: str) -> None:
    (wrong,) = found(document_with_command(f"python {character}t.py 1", "quoted"))
    assert wrong.hint is not None
    assert wrong.hint.isprintable()
    assert container(document_with_advice(wrong.hint))["command"] == ["python", f"{character}t.py", "1"]


def test_no_break_space_is_marked() -> None:
    text = HEAD.format(kind="training").replace("image: ", "image:\u00a0") + "  command: [run]\n"
    (wrong,) = gpuctl.compile(gpuctl.Source("demo.yaml", text)).diagnostics
    assert wrong.message == "the no-break space is text, not ` `"
    assert wrong.span is not None
    assert (wrong.span.line, wrong.span.column) == (5, 9)


@pytest.mark.parametrize("text", ["bash 'cd /w && ls'", '/bin/sh "cd /w && ls"'])
def test_shell_without_its_c_option_gets_advice(text: str) -> None:
    (wrong,) = found(document_with_command(text, "quoted"))
    assert wrong.hint is not None
    right = document_with_advice(wrong.hint)
    assert found(right) == []
    assert container(right)["command"] == ["bash", "-c", "cd /w && ls"]


def test_args_are_not_appended_to_a_compound_command() -> None:
    head = HEAD.format(kind="training")
    for script in ("python t.py | tee log", "python t.py; echo done", "python t.py > log", "python t.py &"):
        (wrong,) = found(f"{head}  command: {json.dumps(script)}\n  args: [--lr, '1']\n")
        assert wrong.hint is not None
        start = (
            'only a shell understands this; remove `args`, add ["--lr", "1"] behind its program, and write command: '
        )
        assert wrong.hint == start + json.dumps(["bash", "-c", script])


@pytest.mark.parametrize(
    ("words", "items"),
    [(["python", "t.py", "--lr 1e-4"], '"--lr", "1e-4"'), (["python", "t.py", "-n  two words"], '"-n", "two words"')],
)
def test_option_and_value_in_one_item_get_advice(words: list[str], items: str) -> None:
    for field in ("command", "args"):
        (wrong,) = found(f"{HEAD.format(kind='training')}  {field}: {json.dumps(words)}\n")
        assert (wrong.code, wrong.hint) == ("GPU509", f"write two items: {items}")
        right = f"{HEAD.format(kind='training')}  {field}: [python, t.py, {items}]\n"
        assert found(right) == []


@pytest.mark.parametrize(
    ("yaml", "right"),
    [
        ("environment: {image: 'a:1', env: FOO=1}", "environment: {image: 'a:1', env: {FOO: 1}}"),
        (
            "environment: {image: 'a:1', env: ['FOO=a b']}",
            "environment: {image: 'a:1', env: [{name: FOO, value: \"a b\"}]}",
        ),
        ("storage: {workdirs: [/data]}", "storage: {workdirs: [{path: /data}]}"),
        ("storage: {workdirs: ['/a:/b:ro']}", "storage: {workdirs: [{path: /a, mountPath: /b, readOnly: true}]}"),
        ("storage: {workdirs: [{path: /a, pvc: data}]}", "storage: {workdirs: [{path: /a, pvc: {claim: data}}]}"),
        (
            "storage: {workdirs: [{path: /a, nfs: 'n:/b'}]}",
            "storage: {workdirs: [{path: /a, nfs: {server: n, path: /b}}]}",
        ),
        (
            "storage: {workdirs: [{path: /a, emptyDir: 1Gi}]}",
            "storage: {workdirs: [{path: /a, emptyDir: {size: 1Gi}}]}",
        ),
    ],
)
def test_text_in_place_of_a_mapping_gets_advice(yaml: str, right: str) -> None:
    head = "kind: training\nversion: v0.1\njob: {name: demo}\n"
    head += "" if yaml.startswith("environment") else "environment: {image: 'a:1'}\n"
    (wrong,) = found(head + yaml)
    advice = (wrong.hint or "").removeprefix("write `").removesuffix("`")
    assert advice in right
    assert found(head + right) == []


def test_workdir_hints_for_home_directory_and_claim_name() -> None:
    head = "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment: {image: 'a:1'}\nstorage: {workdirs: "
    (wrong,) = gpuctl.compile(gpuctl.Source("x.yaml", head + "[{path: ~/x}]}\n")).diagnostics
    assert wrong.hint == "write the whole path, such as `/home/NAME/x`: no shell replaces `~`"
    found = gpuctl.compile(gpuctl.Source("x.yaml", head + "[{path: /x, pvc: {name: data}}]}\n")).diagnostics
    assert "did you mean `claim`?" in [item.hint for item in found]


@pytest.mark.parametrize(
    "command",
    [
        ["bash", "-c", 'echo "$0" "$1"', "a", "b"],
        ["bash", "-lc", "cd /w && python t.py"],
        ["bash", "-eo", "pipefail", "-c", "a | b"],
        ["sh", "/run.sh", "a"],
        ["env", "A=$B", "bash", "-c", "echo $HOME"],
        ["python", "-c", "print('$HOME', 1)"],
        ["awk", "{print $NF}", "x"],
        ["grep", "-E", "^a.*b$"],
        ["find", "/data", "-name", "*.txt"],
        ["uvicorn", "app:app", "--host", "0.0.0.0", "--forwarded-allow-ips", "*"],
        ["python", "t.py", "--include", "*.json", "hydra.run.dir=${now:%Y}/${data.name}"],
        ["python", "t.py", "--regex", ".*/attn/.*"],
        ["curl", "http://example.com/?a=*"],
        ["python", "t.py", "--prompt", "costs 5$ & more?"],
        ["python", "t.py", "--extra-args", "--lr 1"],
        ["java", "-Dname=a b", "-jar", "x.jar"],
        ["find", "/d", "-exec", "gzip", "{}", ";"],
        ["python", "t.py", "<pad>", "<|end|>", ">5", ">=1"],
        ["time", "python", "t.py"],
    ],
)
def test_right_commands_raise_no_warning(command: list[str]) -> None:
    text = f"{HEAD.format(kind='training')}  command: {json.dumps(command)}\n"
    assert found(text) == []


@pytest.mark.parametrize(
    "field",
    [
        "job:\n  name: demo\n  checkpoint:\n    command: {}\nenvironment: {{image: 'app:1'}}\n",
        (
            "job: {{name: demo}}\nenvironment: {{image: 'app:1'}}\npodPatch:\n  initContainers:\n    - name: get\n"
            "      image: a:1\n      command: {}\n"
        ),
        (
            "job: {{name: demo}}\nenvironment: {{image: 'app:1'}}\npodPatch:\n  containers:\n    - name: main\n"
            "      livenessProbe:\n        exec:\n          command: {}\n"
        ),
        (
            "job: {{name: demo}}\nenvironment: {{image: 'app:1'}}\npodPatch:\n  containers:\n    - name: main\n"
            "      lifecycle:\n        preStop:\n          exec:\n            command: {}\n"
        ),
    ],
    ids=["checkpoint", "init container", "probe", "hook"],
)
@pytest.mark.parametrize("as_item", [False, True])
def test_all_command_fields_are_checked(field: str, as_item: bool) -> None:
    text = '"cd /w && ls > /tmp/x"'
    document = "kind: training\nversion: v0.1\n" + field
    (wrong,) = found(document.format(f"[{text}]" if as_item else text))
    assert wrong.hint is not None
    assert advised_yaml(wrong.hint) == 'command: ["bash", "-c", "cd /w && ls > /tmp/x"]\n'
    assert found(document.format(advised_yaml(wrong.hint).removeprefix("command: ").strip())) == []


@pytest.mark.parametrize("sign", ["", ">"])
def test_folded_command_lines_get_advice(sign: str) -> None:
    head = HEAD.format(kind="training")
    (wrong,) = found(f"{head}  command: {sign}\n    pip install -r r.txt\n    python train.py\n")
    assert wrong.hint is not None
    assert container(document_with_advice(wrong.hint))["command"] == [
        "bash",
        "-c",
        "pip install -r r.txt\npython train.py\n",
    ]
    (wrong,) = found(f"{head}  command: {sign}\n    python train.py\n    --lr 1\n")
    assert wrong.hint is not None
    assert container(document_with_advice(wrong.hint))["command"] == ["python", "train.py", "--lr", "1"]


def test_unclosed_quotation_mark_is_reported() -> None:
    assert "not closed" in advise_command("echo don't", indent=0)
    assert "not closed" in advise_args("--name 'a", [], indent=0)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["train", "--node_rank=${NODE_RANK}"], "${NODE_RANK}"),
        (["train", "$MASTER_ADDR"], "$MASTER_ADDR"),
        (["train", "$HOME/x"], "$HOME"),
        (["train", "${HOME:-/root}"], "${HOME:-"),
        (["train", "$lower"], "$lower"),
        (["train", "~/data"], "~/data"),
        (["train", "--data=~/x"], "~/x"),
        (["cat", "/data/*.txt"], "/data/*.txt"),
        (["cat", "*.txt"], "*.txt"),
        (["train", "--data", "/data/*.parquet"], "/data/*.parquet"),
        (["train", "--name=`hostname`"], "`hostname`"),
        (["train", "--out=$(OUT)"], "$(OUT)"),
        (["train", "--gpus=$(nvidia-smi -L)"], "$(nvidia-smi -L)"),
        (["bash", "run.sh", "$HOME"], "$HOME"),
    ],
)
@pytest.mark.parametrize("field", ["command", "args"])
def test_shell_syntax_without_a_shell_is_a_warning(words: list[str], part: str, field: str) -> None:
    head = f"{HEAD.format(kind='training')}  env: {{lower: x}}\n"
    (wrong,) = found(f"{head}  {field}: {json.dumps(words)}\n")
    assert wrong.code == "GPU510"
    assert f"`{part}`" in wrong.message
    assert found(f"{head}  command: [bash, -c]\n  args: [{json.dumps(' '.join(words))}]\n") == []


@pytest.mark.parametrize(
    ("value", "is_wrong"),
    [
        ("$PATH:/opt/bin", True),
        ("${HOME}/cache", True),
        ("~/cache", True),
        ("$other/x", True),
        ("$(other)/x", False),
        ("pa$$word", False),
        ("pa$word", False),
        ("^a$", False),
        ("${oc.env:HOME}", False),
    ],
)
def test_shell_syntax_in_variable_values_is_a_warning(value: str, is_wrong: bool) -> None:
    env = json.dumps({"other": "/x", "VALUE": value})
    diagnostics = found(f"{HEAD.format(kind='training')}  env: {env}\n")
    assert [item.code for item in diagnostics if item.severity.value == "warning"] == ["GPU510"] * is_wrong


@pytest.mark.parametrize(
    "block",
    [
        "init:\n  - name: get\n    command: ['cd /w && ls']\n    args: [x]\n",
        "sidecars:\n  - name: get\n    command: ['python a.py']\n    args: [--port, '80']\n",
        "init:\n  - name: get\n    command: ['cd /w', 'ls -l']\n",
    ],
)
def test_line_in_one_item_beside_the_program_is_reported_once(block: str) -> None:
    [wrong] = found(f"{HEAD.format(kind='training')}  command: [run]\n{block}")
    assert wrong.code == "GPU509"


def test_value_that_refers_to_a_variable_of_a_secret() -> None:
    (wrong,) = found(f"{HEAD.format(kind='training')}  envFrom: [{{secret: hf}}]\n  env: {{VALUE: $HF_TOKEN}}\n")
    assert wrong.hint == "write `$(HF_TOKEN)` if `envFrom` sets `HF_TOKEN`, otherwise the value itself"
    assert found(f"{HEAD.format(kind='training')}  envFrom: [{{secret: hf}}]\n  env: {{VALUE: $(HF_TOKEN)}}\n") == []
