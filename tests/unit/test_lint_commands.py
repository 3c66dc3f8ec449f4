"""Checks of commands: alone, after wrappers such as `env`, and in shell scripts."""

from __future__ import annotations

import json
import re
import shlex

import pytest

import gpuctl
from gpuctl.frontend.shell import simple_commands

PLATFORM = gpuctl.Source("platform.yaml", "kind: platform\nversion: v0.1\ntraining: {queue: {default: all}}\n")
TRAINING = "kind: training\nversion: v0.1\njob: {name: demo}\nresources: {nodes: 2, gpu: 4, cpu: 64, memory: 512Gi}\n"
SERVER = "kind: inference\nversion: v0.1\njob: {name: demo}\nresources: {gpu: 4, cpu: 64, memory: 512Gi}\n"
NOTEBOOK = "kind: notebook\nversion: v0.1\njob: {name: demo}\nresources: {cpu: 4, memory: 8Gi}\n"
WRAPPERS = {
    "alone": "{}",
    "path": "/opt/bin/{}",
    "env": "env A=b {}",
    "exec": "bash -c 'exec -a name {}'",
    "numactl": "numactl --cpunodebind=0 -m 0 {}",
    "nohup": "nohup {}",
    "timeout": "timeout -k 5 12h {}",
    "bash": "bash -c '{}'",
    "login shell": "bash -lc 'cd /w && {}'",
    "options": "bash -euo pipefail -c 'cd /w; A=b exec {}'",
    "sh": "sh -c 'exec {} > /log 2>&1'",
    "nested": "bash -c \"sh -c '{}'\"",
    "env and shell": "env A=b /bin/bash -c '{}'",
    "lines": "bash -c 'set -e\nexport A=1\n# start\ncd /w\n{}\n'",
    "pipe": "bash -c '{} | tee log'",
    "group": "bash -c '(cd /w && {})'",
    "after a loop": "bash -c 'for i in 1 2; do echo $i; done; {}'",
    "after a document": "bash -c 'cat > x <<E\n{{ $( ;\nE\n{}'",
    "conda": "conda run -n llm {}",
    "gosu": "gosu trainer {}",
    "sudo": "sudo -u trainer {}",
    "taskset": "taskset 0xff {}",
    "chrt": "chrt --fifo 10 {}",
    "nsys": "nsys profile -o report {}",
    "uv": "uv run --with vllm {}",
}


def findings(kind: str, command: str | list[str], more: str = "") -> list[tuple[str, str]]:
    """Return the codes and messages about a command. A string is split as by a shell."""
    words = shlex.split(command) if isinstance(command, str) else command
    text = f"{kind}environment:\n  image: app:1\n  command: {json.dumps(words)}\n{more}"
    found = gpuctl.compile(gpuctl.Source("demo.yaml", text), platform=PLATFORM).diagnostics
    return [(item.code, item.message) for item in found if item.code.startswith("GPU5")]


def codes(kind: str, command: str | list[str], more: str = "") -> list[str]:
    return [code for code, _ in findings(kind, command, more)]


@pytest.mark.parametrize("way", WRAPPERS)
def test_program_is_found_inside_wrappers(way: str) -> None:
    inner = "torchrun --nproc_per_node=8 --nnodes=3 --master_addr=127.0.0.1 train.py"
    assert codes(TRAINING, WRAPPERS[way].format(inner)) == ["GPU504", "GPU504", "GPU513"]
    inner = "vllm serve /m --port 8001 --tensor-parallel-size 8 --host 127.0.0.1"
    assert sorted(codes(SERVER, WRAPPERS[way].format(inner))) == ["GPU502", "GPU503", "GPU514"]
    inner = "deepspeed --num_gpus 8 train.py"
    assert sorted(codes(TRAINING, WRAPPERS[way].format(inner))) == ["GPU504", "GPU506"]


@pytest.mark.parametrize(
    "script",
    [
        "f() { torchrun --standalone t.py; }\nf",
        "if [ $NODE_RANK = 0 ]; then torchrun --node_rank=0 t.py; else torchrun --node_rank=1 t.py; fi",
        "[ $NODE_RANK = 0 ] && torchrun --node_rank=0 t.py",
        "[[ $NODE_RANK == 0 ]] && torchrun --node_rank=0 t.py || torchrun --node_rank=1 t.py",
        "case $NODE_RANK in 0) torchrun --node_rank=0 t.py;; *) torchrun --node_rank=1 t.py;; esac",
        "for i in 0 1; do torchrun --node_rank=0 t.py; done",
        "cat <<E\ntorchrun --standalone t.py\nE",
        "echo 'torchrun --standalone t.py'",
        "# torchrun --standalone t.py",
        "torchrun --nproc_per_node=$N --nnodes=$NNODES --node_rank=${NODE_RANK} --master_addr=$MASTER_ADDR t.py",
        "torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) --master_addr=`hostname` t.py",
        "torchrun t.py --node_rank 0 --master_addr localhost --standalone",
        "torchrun 'unclosed --standalone",
        "exit 0; torchrun --standalone t.py",
        "accelerate launch --config_file /a.yaml t.py",
        "accelerate launch $ARGS t.py",
        "deepspeed $ARGS t.py",
        "python train.py --nodes 3",
    ],
)
def test_uncertain_problems_are_not_reported(script: str) -> None:
    assert codes(TRAINING, ["bash", "-c", script]) == []


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("torchrun --standalone t.py", "GPU513"),
        ("python -m torch.distributed.run --standalone t.py", "GPU513"),
        ("torchrun --rdzv_endpoint=localhost:29500 t.py", "GPU513"),
        ("torchrun --rdzv-endpoint localhost:0 t.py", "GPU513"),
        ("torchrun --master-addr localhost t.py", "GPU513"),
        ("torchrun --master_addr ::1 t.py", "GPU513"),
        ("torchrun --node_rank=0 t.py", "GPU513"),
        ("torchrun --node-rank 1 t.py", "GPU513"),
        ("python train.py --dist-url tcp://127.0.0.1:23456", "GPU513"),
        ("bash -c 'export MASTER_ADDR=localhost; torchrun t.py'", "GPU513"),
        ("bash -c 'NODE_RANK=0 torchrun t.py'", "GPU513"),
        ("env MASTER_ADDR=127.0.0.1 torchrun t.py", "GPU513"),
        ("accelerate launch t.py", "GPU513"),
        ("accelerate launch --num_processes 8 t.py", "GPU513"),
        ("python -m accelerate.commands.launch --multi_gpu t.py", "GPU513"),
        ("accelerate launch --num_machines 2 --machine_rank 0 --main_process_ip $(MASTER_ADDR) t.py", "GPU513"),
        ("deepspeed --no_ssh --node_rank=$(NODE_RANK) --master_addr=localhost t.py", "GPU506"),
        (
            "accelerate launch --num_machines 3 --machine_rank $(NODE_RANK) --main_process_ip $(MASTER_ADDR) t.py",
            "GPU504",
        ),
    ],
)
def test_launchers_whose_nodes_cannot_rendezvous(command: str, code: str) -> None:
    assert codes(TRAINING, command) == [code]
    alone = TRAINING.replace("nodes: 2, ", "")
    assert code not in codes(alone, command) or code == "GPU504"


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --rdzv_endpoint=$(MASTER_ADDR):$(MASTER_PORT) --node_rank=$(NODE_RANK) t.py",
        "accelerate launch --num_machines 2 --machine_rank $(NODE_RANK) --main_process_ip $(MASTER_ADDR) t.py",
        "python train.py",
        "torchrun t.py",
    ],
)
def test_launchers_whose_nodes_can_rendezvous(command: str) -> None:
    assert codes(TRAINING, command) == []


def test_advised_accelerate_command_has_no_warning() -> None:
    for command in (["accelerate", "launch", "--mixed_precision", "bf16", "t.py"], ["accelerate", "launch", "t.py"]):
        text = f"{TRAINING}environment: {{image: 'a:1', command: {command!r}}}\n"
        found = gpuctl.compile(gpuctl.Source("demo.yaml", text), platform=PLATFORM).diagnostics
        (warning,) = [item for item in found if item.code == "GPU513"]
        advised = re.search(r"`(.*) \.\.\.`", warning.hint or "")
        assert advised is not None
        assert codes(TRAINING, advised[1]) == []


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("vllm serve /m --tensor-parallel-size=4 --data-parallel-size=2", "tensor parallel 4 x data 2 needs 8 GPUs"),
        ("vllm serve /m -tp 2 -pp 4", "tensor parallel 2 x pipeline 4 needs 8 GPUs"),
        ("vllm serve /m --data-parallel-size=8", "data parallel 8 needs 8 GPUs"),
        ("python -m sglang.launch_server --host 0.0.0.0 --tp 4 --dp 2", "tensor parallel 4 x data 2 needs 8 GPUs"),
        ("text-generation-launcher --num-shard 8", "tensor parallel 8 needs 8 GPUs"),
        ("vllm serve /m -tp 2 -dp 2", ""),
        ("vllm serve /m -dp 8 -dpl 4", ""),
        ("python -m sglang.launch_server --host 0.0.0.0 --tp 4 --dp 2 --enable-dp-attention", ""),
        ("vllm serve /m", ""),
    ],
)
def test_parallel_size_is_compared_with_gpus_of_the_pod(command: str, expected: str) -> None:
    messages = [message for code, message in findings(SERVER, command) if code == "GPU503"]
    assert messages == ([f"{expected}, and the pod has 4"] if expected else [])


def test_parallel_size_counts_all_nodes_and_ignores_scripts() -> None:
    assert codes(TRAINING, "vllm serve /m -tp 8") == [], "4 GPUs on each of 2 nodes"
    assert codes(TRAINING, "vllm serve /m -tp 16") == ["GPU503"]
    assert codes(TRAINING, "torchrun t.py --tp 2 --pp 2") == []


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("vllm serve /m --host 127.0.0.1", ["GPU514"]),
        ("vllm serve /m --host=localhost", ["GPU514"]),
        ("gunicorn -b 127.0.0.1:8000 app", ["GPU514"]),
        ("gunicorn --bind=[::1]:8000 app", ["GPU514"]),
        ("uvicorn app:app --port 8000", ["GPU514"]),
        ("python -m uvicorn app:app --port=8000", ["GPU514"]),
        ("python -m sglang.launch_server --port 8000", ["GPU514"]),
        ("bash -c 'cd /w && uvicorn app:app --port 8000 | tee log'", ["GPU514"]),
        ("flask --app x run --port 8000", ["GPU514"]),
        ("bash -c 'vllm serve /m --host 127.0.0.1 --port 8001 & nginx'", []),
        ("bash -c 'curl --host localhost http://a; vllm serve /m'", []),
        ("uvicorn app:app --host 0.0.0.0 --port 8000", []),
        ("uvicorn app:app --uds /x.sock", []),
        ("env UVICORN_HOST=0.0.0.0 uvicorn app:app", []),
        ("flask db upgrade", []),
        ("vllm serve /m", []),
    ],
)
def test_server_on_loopback_address_is_reported(command: str, expected: list[str]) -> None:
    assert codes(SERVER, command, "service: {port: 8000}\n") == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("jupyter lab --ip=0.0.0.0 --ServerApp.token=", ["GPU515"]),
        ("jupyter lab --ip=0.0.0.0 --ServerApp.token= --ServerApp.password=", ["GPU515"]),
        ("jupyter-lab --ip=0.0.0.0 \"--NotebookApp.token=''\"", ["GPU515"]),
        ("jupyter notebook --ip=0.0.0.0 --IdentityProvider.token ''", ["GPU515"]),
        ("start-notebook.py --LabApp.token=", ["GPU515"]),
        ("bash -c \"cd /w && jupyter lab --ip=0.0.0.0 --ServerApp.token=''\"", ["GPU515"]),
        ("bash -c 'JUPYTER_TOKEN= jupyter lab --ip=0.0.0.0'", ["GPU515"]),
        ("code-server --auth none --bind-addr 0.0.0.0:8888", ["GPU515"]),
        ("code-server --auth=none --bind-addr 0.0.0.0:8888", ["GPU515"]),
        ("jupyter lab --ip=0.0.0.0 --ServerApp.token=$(TOKEN)", []),
        ("jupyter lab --ip=0.0.0.0 --ServerApp.token= --PasswordIdentityProvider.hashed_password=$(HASH)", []),
        ("jupyter lab --ip=0.0.0.0 --ServerApp.password=", []),
        ("jupyter lab --ip=0.0.0.0", []),
        ("code-server --bind-addr 0.0.0.0:8888", []),
        ("jupyter lab", ["GPU514"]),
        ("jupyter lab --ip=127.0.0.1", ["GPU514"]),
        ("jupyter nbconvert x", []),
        ("jupyter lab --ip=0.0.0.0 --port=8889", ["GPU502"]),
    ],
)
def test_notebook_without_token_is_reported(command: str, expected: list[str]) -> None:
    more = "  env: [{name: TOKEN, secret: a, key: b}, {name: HASH, secret: a, key: c}]\n"
    assert codes(NOTEBOOK, command, more) == expected
    assert codes(NOTEBOOK.replace("notebook", "compute"), command, f"{more}service: {{port: 8888}}\n") == expected


def test_variables_that_disable_notebook_authentication() -> None:
    for env in ("{JUPYTER_TOKEN: ''}", "[{name: JUPYTER_TOKEN, value: ''}]", "{DISABLE_AUTH: 'true'}"):
        text = f"{NOTEBOOK}environment:\n  image: app:1\n  env: {env}\n"
        found = gpuctl.compile(gpuctl.Source("demo.yaml", text)).diagnostics
        assert [item.code for item in found if item.code.startswith("GPU5")] == ["GPU515"]
    text = f"{NOTEBOOK}environment: {{image: quay.io/jupyter/base-notebook:1, command: [jupyter, lab]}}\n"
    assert gpuctl.compile(gpuctl.Source("demo.yaml", text)).diagnostics == [], "the image's configuration listens"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ("DB_PASSWORD: hunter2", True),
        ("PGPASSWORD: hunter2", True),
        ("MYSQL_ROOT_PASSWORD: '12ab'", True),
        ("AWS_SECRET_ACCESS_KEY: abc/def", True),
        ("WANDB_API_KEY: 0123456789abcdef0123456789abcdef01234567", True),
        ("KAGGLE_KEY: 0123456789abcdef0123456789abcdef", True),
        ("JWT_SECRET: s3cret", True),
        ("hf_token: abc", True),
        ("DATABASE_URL: 'postgres://me:pw@host/db'", True),
        ("DATABASE_URL: 'postgres://me:$(PW)@host/db'", False),
        ("DB_PASSWORD: $(OTHER)", False),
        ("DB_PASSWORD: ''", False),
        ("DB_PASSWORD_FILE: /run/secrets/x", False),
        ("MAX_TOKENS: '4096'", False),
        ("EOS_TOKEN: '</s>'", False),
        ("PAD_TOKEN: pad", False),
        ("TOKENIZERS_PARALLELISM: 'true'", False),
        ("PARTITION_KEY: user", False),
        ("HF_TOKEN: 'true'", False),
    ],
)
def test_credentials_in_variables_by_name(env: str, expected: bool) -> None:
    text = f"{TRAINING}environment:\n  image: app:1\n  env: {{{env}, OTHER: x}}\n"
    found = gpuctl.compile(gpuctl.Source("demo.yaml", text), platform=PLATFORM).diagnostics
    assert [item.code for item in found if item.code == "GPU507"] == ["GPU507"] * expected


@pytest.mark.parametrize(
    "script",
    [
        "DB_PASSWORD=hunter2 python t.py",
        "export DB_PASSWORD=hunter2",
        "wandb login --api-key hunter2",
        "git clone https://me:hunter2@example.com/x",
    ],
)
def test_credentials_in_scripts(script: str) -> None:
    assert codes(TRAINING, ["bash", "-c", f"cd /w && {script}"]) == ["GPU507"]


@pytest.mark.parametrize(
    "script",
    [
        "cat > x <<E\n{a: 8}\nE\ntorchrun --nproc_per_node 8 t.py",
        "# 8 and 8\ntorchrun --nproc_per_node 8 t.py",
        "echo 8 88; torchrun --nproc_per_node 8 t.py",
    ],
)
def test_span_points_at_the_word_in_the_script(script: str) -> None:
    lines = "".join(f"      {line}\n" for line in script.split("\n"))
    text = f"{TRAINING}environment:\n  image: a:1\n  command: [bash, -c]\n  args:\n    - |\n{lines}"
    (found,) = gpuctl.compile(gpuctl.Source("demo.yaml", text), platform=PLATFORM).diagnostics
    assert found.code == "GPU504"
    assert found.span is not None
    assert text.split("\n")[found.span.line - 1][found.span.column - 1 :].startswith("8 t.py")


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("a b; c", ["a b", "c"]),
        ("a \\\n b\nc", ["a b", "c"]),
        ("a 'x y' \"z $A\"", ["a x y z $A"]),
        ("while read x; do a; done < f; b", ["b"]),
        ("{ a; b; }", ["a", "b"]),
        ("a | b || c; d", ["a", "b", "d"]),
        ("case $x in a) b;; (c) d;; esac; e", ["e"]),
        ('a "$(b "$(c)")" && d', ['a $(b "$(c)")', "d"]),
        ("a <(b) > c 2>&1 << E\nx\nE\nd", ["a <(b)", "d"]),
        ("(( x << 2 ))\n((x << (y + 1)))\na $((1 << 2))", ["a $((1 << 2))"]),
        ("a $(b $((1 << 2)) c)\nd", ["a $(b $((1 << 2)) c)", "d"]),
        ("((a); b); c << E\nx\nE\nd", ["a", "b", "c", "d"]),
        ("a $'x\\'y'; b", ["a $'x\\'y'", "b"]),
        ("a $''; b", ["a $''", "b"]),
        ('a "x\\"y\\z"; b', ['a x"y\\z', "b"]),
        ("for ((i=0; i<3; i++)); do a; done; b", ["b"]),
        ("for ((i=1<<2; i; i--))\ndo a; done\nb", ["b"]),
        ("if (( a > 1 )); then b; fi; c", ["c"]),
        ("(( a > 1 )) && b; c", ["c"]),
        ("((a; b); c)", ["a", "b", "c"]),
        ("((a) && (b)); c", ["a", "b", "c"]),
        ("a #b\nc#d", ["a", "c#d"]),
        ('a "', []),
        ("a $(b", []),
        ("a ) b", []),
        ("if a; then b", []),
        ("function f { a; }; b", []),
        ('"$(' * 200, []),
        ("(" * 30000 + "a" + " )" * 30000, []),
    ],
)
def test_simple_commands_of_a_script(script: str, commands: list[str]) -> None:
    assert [" ".join(word.text for word in command.words) for command in simple_commands(script)] == commands


@pytest.mark.parametrize("way", WRAPPERS)
def test_launcher_setup_is_added_inside_wrappers(way: str) -> None:
    def container(command: str) -> dict[str, object]:
        text = f"{TRAINING}environment:\n  image: app:1\n  command: {json.dumps(shlex.split(command))}\n"
        objects = gpuctl.compile(gpuctl.Source("demo.yaml", text), platform=PLATFORM).objects
        job = next(obj for obj in objects if obj["kind"] == "Job")
        main: dict[str, object] = job["spec"]["template"]["spec"]["containers"][0]
        return main

    main = container(WRAPPERS[way].format("deepspeed --no_ssh train.py"))
    assert "/job" in json.dumps(main["volumeMounts"]), "the hostfile"
    main = container(WRAPPERS[way].format("llamafactory-cli train x.yaml"))
    assert "FORCE_TORCHRUN" in json.dumps(main["env"])
    assert "FORCE_TORCHRUN" not in json.dumps(container(WRAPPERS[way].format("torchrun t.py"))["env"])


def test_variables_of_platform_defaults_are_known() -> None:
    patch = "{containers: [{name: main, env: [{name: DATA, value: /data}]}]}"
    text = (
        f"{TRAINING}environment: {{image: 'a:1', command: [x, $(DATA), $(SVC_X_SERVICE_HOST), $(SVC_X_PORT_80_TCP)]}}\n"
    )
    for platform, expected in (
        ("", ["GPU510"]),
        (f"defaults: {{training: {{podPatch: {patch}}}}}\n", []),
        (f"pools: [{{name: default, podPatch: {patch}}}]\n", []),
        ("defaults: {training: {environment: {env: {DATA: /data}}}}\n", []),
        ("defaults: {training: {podPatch: {containers: [{name: main, envFrom: [{secretRef: {name: a}}]}]}}}\n", []),
    ):
        source = gpuctl.Source("platform.yaml", f"kind: platform\nversion: v0.1\n{platform}")
        found = gpuctl.compile(gpuctl.Source("demo.yaml", text), platform=source).diagnostics
        assert [item.code for item in found if item.code.startswith("GPU5")] == expected


def test_valid_document_is_composed_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def recompose(*_: object) -> None:
        pytest.fail("the YAML tree of a valid document was composed twice")

    monkeypatch.setattr("gpuctl.frontend.document.recompose", recompose)
    text = (
        "kind: training\nversion: v0.1\njob: {name: demo}\nstorage: {workdirs: [{path: /data}, {path: /x, readOnly: true}]}\n"
        "environment:\n  image: app:1\n  command: [bash, -c, cd /w && torchrun t.py]\n"
    )
    assert gpuctl.compile(gpuctl.Source("demo.yaml", text)).diagnostics == []
    text = text.replace("[bash, -c, cd /w && torchrun t.py]", "[torchrun, --node_rank=$(NODE_RANK), t.py]")
    assert gpuctl.compile(gpuctl.Source("demo.yaml", text)).diagnostics == []
