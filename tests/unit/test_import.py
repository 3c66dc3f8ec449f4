"""`gpuctl import`: values of the command line, questions, and inputs that are not what they seem."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpuctl.cli.main import run
from gpuctl.importing.field_values import gpus_of
from gpuctl.importing.slurm.sbatch_options import read_options
from gpuctl.importing.slurm.slurm_values import array_of, duration_of, gpus_of_gres, memory_of
from support.repositories import Outcome

SCRIPT = "#!/bin/bash\n#SBATCH --job-name=a\n#SBATCH --mem=4G\npython a.py\n"
IMAGE = ("--image", "registry.example.com/a:1")


Import = Callable[..., Outcome]


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Import:
    """Return the function that imports a text as a file of this name."""
    monkeypatch.chdir(tmp_path)

    def call(text: str | bytes, *options: str, name: str = "a.sh") -> Outcome:
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return Outcome(run(["import", name, *options]), *capfd.readouterr())

    return call


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("90", "1h30m"),
        ("90:30", "1h30m30s"),
        ("12:00:00", "12h"),
        ("1-0", "1d"),
        ("1-12", "36h"),
        ("2-03:04", "2d3h4m"),
        ("2-03:04:05", "2d3h4m5s"),
        ("0", ""),
        ("UNLIMITED", ""),
        ("99999-0", ""),
        ("1:2:3:4", None),
        ("９０", None),
        ("1" * 5000, None),
        ("soon", None),
        ("-5", None),
    ],
)
def test_times_of_slurm_are_durations(text: str, duration: str | None) -> None:
    assert duration_of(text) == duration


@pytest.mark.parametrize(
    ("text", "quantity"),
    [
        ("512G", "512Gi"),
        ("64000", "64000Mi"),
        ("100M", "100Mi"),
        ("1T", "1Ti"),
        ("9kb", "9Ki"),
        ("0", ""),
        ("x", None),
        ("５G", None),
    ],
)
def test_memory_of_slurm_is_binary(text: str, quantity: str | None) -> None:
    assert memory_of(text) == quantity


def test_memory_is_multiplied() -> None:
    assert memory_of("10G", 8) == "80Gi"


@pytest.mark.parametrize(
    ("text", "number", "kind"),
    [("4", 4, None), ("h100:4", 4, "h100"), ("a100-sxm4", 1, "a100-sxm4"), ("v100:2(S:0)", 2, "v100")],
)
def test_gpus_have_a_number_and_a_type(text: str, number: int, kind: str | None) -> None:
    assert gpus_of(text) == (number, kind)


@pytest.mark.parametrize("text", ["", "4x", "a:b", ":4", "h100:4:5", "４", "1" * 5000])
def test_other_texts_are_not_gpus(text: str) -> None:
    assert gpus_of(text) is None


def test_gres_has_other_resources() -> None:
    assert gpus_of_gres("gpu:h100:4,nvme:1") == ((4, "h100"), ["nvme:1"])
    assert gpus_of_gres("gpu") == ((1, None), [])
    assert gpus_of_gres("shard:2") == (None, ["shard:2"])


def test_resources_of_each_task_are_options_of_their_own() -> None:
    found = read_options(["--tres-per-task=cpu:8,gres/gpu:h100=2,license/x:1", "-N2"], 1).options
    assert [(option.name, option.value) for option in found] == [
        ("cpus-per-task", "8"),
        ("gpus-per-task", "h100:2"),
        ("tres-per-task", "license/x:1"),
        ("nodes", "2"),
    ]


def test_options_beside_the_one_that_names_the_gpus_name_it(imported: Import) -> None:
    gpus = "--tres-per-task=cpu:2,gres/gpu:1 -G 2 -n 2 -N 1"
    found = imported(SCRIPT.replace("--mem=4G", f"--mem=4G {gpus}"), *IMAGE, "-o", "json")
    notes = {entry["text"]: entry["note"] for entry in json.loads(found.out)["ledger"]}
    assert notes["-G 2"] == "`--tres-per-task` names the GPUs"


def test_arrays_are_ranges_and_lists() -> None:
    found = array_of("1,3-5,10-20:5%2")
    assert found is not None
    assert (found.indices, found.parallelism, found.step) == ([1, 3, 4, 5, 10, 15, 20], 2, None)
    assert array_of("0-2%0") == ([0, 1, 2], None)


@pytest.mark.parametrize(
    "text", ["", "a", "5-1", "0-9:0", "0-999999999", "1--2", "1,", "-", "0-99999,200000", "٣", "1%1" + "1" * 5000]
)
def test_other_texts_are_not_arrays(text: str) -> None:
    assert array_of(text) is None


def test_standard_input_is_imported(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    read, write = os.pipe()
    os.write(write, SCRIPT.encode())
    os.close(write)
    monkeypatch.setattr("sys.stdin", os.fdopen(read))
    assert run(["import", "-", *IMAGE]) == 0
    assert "command: [python, a.py]  # line 4\n" in capfd.readouterr().out


def test_values_of_the_command_line_replace_those_of_the_script(imported: Import) -> None:
    values = {"name": "b", "memory": "8Gi", "cpu": 2, "nodes": 2, "gpus-per-node": 4, "pool": "p", "workdir": "/w"}
    found = imported(SCRIPT, *IMAGE, *(f"--{option}={value}" for option, value in values.items()))
    assert found.code == 0
    for option, value in values.items():
        assert f"  {option.replace('gpus-per-node', 'gpu')}: {value}\n" in found.out
    assert "changed: a.sh:3: `--mem=4G`: --memory replaces it\n" in found.err


@pytest.mark.parametrize(("cpu", "value"), [("8", '"4"'), ("7500m", None)])
def test_cpus_of_the_command_line_are_those_of_the_variables(cpu: str, value: str | None, imported: Import) -> None:
    script = SCRIPT + "#SBATCH -n 2 -N 1 -c 16\nexport OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\npython a.py\n"
    found = imported(script.replace("python a.py\n", "", 1), *IMAGE, "--cpu", cpu)
    if value is None:
        assert "dropped: a.sh:5: `$SLURM_CPUS_PER_TASK`" in found.err
    else:
        assert f"OMP_NUM_THREADS: {value}" in found.out


@pytest.mark.parametrize("line", ["#SBATCH --chdir=/a", "cd /a"])
def test_the_working_directory_of_the_command_line_replaces_another(imported: Import, line: str) -> None:
    found = imported(SCRIPT.replace("python a.py", f"{line}\npython a.py"), *IMAGE, "--workdir", "/b")
    assert (found.code, "workdir: /b\n" in found.out) == (0, True)
    assert f"changed: a.sh:4: `{line.removeprefix('#SBATCH ')}`: --workdir replaces it\n" in found.err


@pytest.mark.parametrize("program", ["python -X dev -m torch.distributed.run", "python3 /usr/bin/torchrun"])
def test_torchrun_behind_python_loses_the_options_that_gpuctl_sets(imported: Import, program: str) -> None:
    found = imported(_script(f"{program} --nnodes=1 --nproc_per_node=2 a.py"), *IMAGE, "--gpus-per-node=2", "--cpu=1")
    assert f"command: [{', '.join(program.split())}, a.py]" in found.out


@pytest.mark.parametrize("takes_first", ["head -n1", "awk 'NR == 1 {print $1}'", "sed -n 1p"])
def test_the_first_host_is_the_address_of_the_first_node(imported: Import, takes_first: str) -> None:
    program = f"A=$(scontrol show hostnames | {takes_first})\npython a.py --host $A"
    found = imported(_script(program), *IMAGE, "--nodes=2")
    assert 'command: [python, a.py, --host, "$(MASTER_ADDR)"]' in found.out


def test_a_dropped_line_fails_unless_it_is_accepted(imported: Import) -> None:
    found = imported(SCRIPT + "module load x\n", *IMAGE)
    assert found.code == 1
    assert "# Dropped, line 5: module load x: the software comes from `environment.image`\n" in found.out
    assert found.err.endswith("`-o json` lists all; `--allow-dropped` accepts what is dropped\n")
    assert imported(SCRIPT + "module load x\n", *IMAGE, "--allow-dropped").code == 0


def test_several_files_become_one_stream(imported: Import) -> None:
    imported(SCRIPT.replace("job-name=a", "job-name=b"), *IMAGE, name="b.sh")
    first, second = imported(SCRIPT, "b.sh", *IMAGE).out.split("---\n")
    assert ("  name: a  # line 2\n" in first, "  name: b  # line 2\n" in second) == (True, True)


def test_the_printed_document_is_valid(imported: Import) -> None:
    Path("a.yaml").write_text(imported(SCRIPT, *IMAGE).out)
    assert run(["validate", "a.yaml", "--strict"]) == 0
    assert run(["fmt", "--check", "a.yaml"]) == 0


def test_an_invalid_value_prints_no_document(imported: Import) -> None:
    found = imported(SCRIPT, "--image", "Not An Image")
    assert (found.code, found.out) == (1, "")
    assert "error[GPU" in found.err


def test_an_invalid_value_has_its_place_in_the_file(imported: Import) -> None:
    text = "type: task\nname: a\nimage: A B\ncommands: [python a.py]\nenv:\n  - A=b\n"
    found = imported(text, "--memory", "4x", name="a.yml")
    assert (found.code, found.out) == (1, "")
    assert "\n --> a.yml:3:1\n  |\n3 | image: A B\n  | ^^^^^^^^^^\n" in found.err
    assert '\n  --> the imported document:12:11\n   |\n12 |   memory: "4x"\n' in found.err
    found = imported(text, "--memory", "4x", "-o", "json", name="a.yml")
    places = [(item["file"], item["line"], item["path"]) for item in json.loads(found.out)["diagnostics"]]
    assert places == [("a.yml", 3, "environment.image"), ("the imported document", 12, "resources.memory")]


def test_an_invalid_value_of_a_second_document_has_its_place_in_the_file(imported: Import) -> None:
    job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: NAME}\nspec:\n  template:\n    spec:\n"
    job += "      containers: [{name: a, image: IMAGE}]\n"
    texts = [job.replace("NAME", name).replace("IMAGE", image) for name, image in (("a", "a:1"), ("b", "B/b:1"))]
    found = imported("---\n".join(texts), name="a.yaml")
    assert (found.code, found.out) == (1, "")
    assert "--> a.yaml:15:7" in found.err


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("type: dev-environment\nname: a\nimage: a:1\nide: vscode\n", "notebook"),
        ("kind: Deployment\nmetadata: {name: a}\n", "inference"),
    ],
)
def test_nodes_of_the_command_line_are_for_trainings(text: str, kind: str, imported: Import) -> None:
    found = imported(text, "--nodes", "2", name="a.yml")
    assert (found.code, found.out) == (1, "")
    message = f"`--nodes` is for trainings, and the file becomes a document of the kind `{kind}`: remove `--nodes`\n"
    assert f"error: a.yml:1:1: {message}" in found.err


_POD = "{metadata: {}, spec: {containers: [{name: pytorch, image: 'a:1'}]}}"
WITHOUT_NUMBERS = {
    "slurm": SCRIPT,
    "arena": "arena submit pytorch --image=a:1 'python a.py'\n",
    "pytorchjob": f"kind: PyTorchJob\nspec: {{pytorchReplicaSpecs: {{Worker: {{template: {_POD}}}}}}}\n",
    "trainjob": "kind: TrainJob\nspec: {trainer: {image: 'a:1'}}\n",
    "job": f"kind: Job\nspec: {{template: {_POD}}}\n",
    "dstack": "type: task\ncommands: [python a.py]\n",
    "skypilot": "run: python a.py\n",
}


@pytest.mark.parametrize("tool", sorted(WITHOUT_NUMBERS))
def test_the_command_line_names_what_the_file_does_not(tool: str, imported: Import) -> None:
    options = ("--name", "b", "--nodes", "2", "--gpus-per-node", "4", "--cpu", "8", "--memory", "9Gi", *IMAGE)
    found = imported(WITHOUT_NUMBERS[tool], *options, "--from", tool, name="a.yml")
    document = yaml.safe_load(found.out)
    assert document["job"]["name"] == "b"
    assert document["resources"] == {"nodes": 2, "gpu": 4, "cpu": 8, "memory": "9Gi"}


@pytest.mark.parametrize("flag", ["--gpus=4", "--device=amd.com/gpu=4"])
def test_no_gpus_of_the_command_line_replace_those_of_arena(flag: str, imported: Import) -> None:
    found = imported(f"arena submit pytorch --name=a {flag} --image=a:1 'python a.py'\n", "--gpus-per-node", "0")
    assert "gpu: 0" in found.out
    assert f"changed: a.sh:1: `{flag}`: --gpus-per-node replaces the number" in found.err


def test_a_service_drops_its_number_of_nodes(imported: Import) -> None:
    found = imported("name: a\nnum_nodes: 2\nservice: {port: 80}\nrun: python a.py\n", *IMAGE, name="a.yml")
    assert "resources:" not in found.out
    assert "dropped: a.yml:2: `num_nodes: 2`: only a training has several nodes" in found.err


def test_missing_values_are_asked_for_on_a_terminal(imported: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answers = {
        "GPUs of each node": 8,
        "Memory of each node": "1Ti",
        "Image": "registry.example.com/a:1",
        "Pool": "train",
        "CPU cores of each node": "96",
    }

    def answer(text: str, **_: object) -> object:
        asked.append(text)
        return answers[text]

    monkeypatch.setattr("click.prompt", answer)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    found = imported(SCRIPT.replace("--mem=4G", "--exclusive --partition=a100"))
    assert found.code == 0
    assert sorted(asked) == sorted(answers)
    assert ("  gpu: 8\n" in found.out, "  pool: train  # line 3\n" in found.out) == (True, True)


def test_a_partition_needs_a_pool(imported: Import) -> None:
    found = imported(SCRIPT, "--partition", "a100")
    assert found.code == 2
    assert "`a100` is not PARTITION=POOL" in found.err


HOSTILE = {
    "empty": b"",
    "blank": b"\n\n  \n",
    "nul": b"#SBATCH --mem=1G\n\0\0\0",
    "not utf-8": b"#!/bin/bash\n#SBATCH --job-name=\xff\xfe\n",
    "not a job": b"hello: world\n",
    "deep": b"#SBATCH --mem=1G\n" + b"$(" * 5000 + b"\n",
    "many braces": b"#SBATCH --mem=1G\n" + b"{ " * 5000 + b"\n",
    "many ifs": b"#SBATCH --mem=1G\n" + b"if a; then\n" * 5000,
    "long line": b"#SBATCH --mem=1G\npython " + b"x " * 30_000 + b"\n",
    "huge": b"#SBATCH --mem=1G\n" + b"echo a\n" * 100_000,
    "option without a value": b"#SBATCH --job-name\n#SBATCH -N\n#SBATCH -\n#SBATCH --\n#SBATCH =\npython a.py\n",
    "array of nothing": b"#SBATCH --mem=1G\nA=(\npython a.py\n",
    "growing variables": b"#SBATCH --mem=1G\nA0=xxxxxxxx\n"
    + b"".join(b"A%d=$A%d$A%d\n" % (i + 1, i, i) for i in range(60))
    + b"x $A60\n",
    "growing arrays": b"#SBATCH --mem=1G\nA0=(x y)\n"
    + b"".join(b'A%d=("${A%d[@]}" "${A%d[@]}")\n' % (i + 1, i, i) for i in range(60))
    + b'srun "${A60[@]}" y\nx "${A60[@]}"\n',
    "many labels": b"kind: PyTorchJob\nmetadata:\n  name: a\n  labels:\n"
    + b"".join(b"    k%d: v\n" % index for index in range(5000)),
    "path of two lines": b"#SBATCH --mem=1G -N 2 --gpus-per-node=8 -c 1\nHOSTS='a\n\nb'\nscontrol show hostnames > $HOSTS\n"
    b"deepspeed --hostfile $HOSTS a.py $SLURM_JOB_ID\n",
    "escape": b"#SBATCH --job-name=\x1b[31m\npython a.py\n",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_inputs_are_refused_without_a_traceback(name: str, imported: Import) -> None:
    found = imported(HOSTILE[name])
    assert (found.code, found.out) == (1, "")
    assert "Traceback" not in found.err
    assert "\x1b" not in found.err
    assert "error" in found.err
    found = imported(HOSTILE[name], "-o", "json")
    assert found.code == 1
    json.loads(found.out)


def test_credentials_are_masked_in_the_ledger(imported: Import) -> None:
    token = "hf_" + "abcdefghij" * 4
    found = imported(SCRIPT.replace("python a.py", f"export HF_TOKEN={token}\npython a.py"), *IMAGE, "-o", "json")
    assert token not in json.dumps(json.loads(found.out)["ledger"])


def test_variables_in_variables_do_not_make_gigabytes(imported: Import) -> None:
    doubled = "A0=0123456789abcdef\n" + "".join(f"A{n}=$A{n - 1}$A{n - 1}\n" for n in range(1, 11))
    found = imported(SCRIPT.replace("python a.py\n", f"{doubled}python a.py {'$A10' * 2000}\n"), *IMAGE)
    assert found.code == 0
    assert len(found.out) < 20_000


POD = "template: {spec: {containers: [{name: pytorch, image: 'a:1'}]}}"
RETRIES = {
    "arena": "arena submit pytorch --name=a --image=a:1 --retry=5000 'python a.py'\n",
    "arena mpi": "arena submit mpi --name=a --image=a:1 --job-backoff-limit 5000 'python a.py'\n",
    "skypilot": "name: a\nresources: {image_id: 'docker:a:1', job_recovery: {max_restarts_on_errors: 5000}}\nrun: python a.py\n",
    "elastic": "kind: PyTorchJob\nmetadata: {name: a}\nspec:\n  elasticPolicy: {minReplicas: 1, maxReplicas: 2, "
    f"maxRestarts: 5000}}\n  pytorchReplicaSpecs: {{Worker: {{replicas: 2, {POD}}}}}\n",
    "operator": f"kind: PyTorchJob\nmetadata: {{name: a}}\nspec:\n  runPolicy: {{backoffLimit: 5000}}\n"
    f"  pytorchReplicaSpecs: {{Worker: {{{POD}}}}}\n",
    "job": f"kind: Job\nmetadata: {{name: a}}\nspec: {{backoffLimit: 5000, {POD}}}\n",
    "array": "kind: Job\nmetadata: {name: a}\nspec: {completions: 2, completionMode: Indexed, "
    f"backoffLimitPerIndex: 5000, {POD}}}\n",
}
"""Files with more further attempts than a document can have."""


@pytest.mark.parametrize("case", sorted(RETRIES))
def test_further_attempts_have_a_maximum(case: str, imported: Import) -> None:
    found = imported(RETRIES[case], "--allow-dropped", name="a.sh" if "arena" in case else "a.yaml")
    assert found.code == 0, found.err
    assert "retries: 1000" in found.out
    assert "1000 at most" in found.err


def test_digits_of_other_alphabets_are_not_numbers(imported: Import) -> None:
    found = imported("type: task\nname: a\nnodes: ２\nresources: {gpu: ４}\n", *IMAGE, name="a.yml")
    assert "add `--nodes N`" in found.err
    assert "add `--gpus-per-node N`" in found.err
    found = imported(SCRIPT.replace("--mem=4G", "--mem=4G -c ２"), *IMAGE)
    assert "dropped: a.sh:3: `-c ２`: `２` is not a whole number above 0\n" in found.err


def test_zero_is_not_a_number_of_cpus(imported: Import) -> None:
    found = imported(SCRIPT.replace("--mem=4G", "--mem=4G -c 0"), *IMAGE, "--allow-dropped")
    assert (found.code, "  cpu: 1\n" in found.out) == (0, True)
    assert found.err.count("-c 0") == 1


@pytest.mark.parametrize("duration", ["0s", "１h", "99999999999d"])
def test_other_texts_are_not_durations(imported: Import, duration: str) -> None:
    found = imported(f"type: task\nname: a\nmax_duration: {duration}\ncommands: [python a.py]\n", *IMAGE, name="a.yml")
    assert "max_runtime" not in found.out
    assert f"dropped: a.yml:3: `max_duration: {duration}`" in found.err


def _script(program: str) -> str:
    return SCRIPT.replace("python a.py", program)


REFUSED = {
    "missing value": ("a.sh", SCRIPT, "error: a.sh:1: no line names a container image: add `--image REF`\n"),
    "not an amount": (
        "a.yml",
        "name: a\nresources: {cpus: many}\nrun: python a.py\n",
        "dropped: a.yml:2: `resources.cpus: many`: `many` is not an amount: write `resources.cpu`\n",
    ),
    "NUL": ("a.sh", SCRIPT + "echo a\0b\n", "error: a.sh:5:7: the line has a NUL character"),
    "NUL of YAML": ("a.yml", 'name: a\nrun: "a # \\05\\0"\n', "error: a.yml:2:5: the line has a NUL character"),
    "line break in quotes": ("a.yml", 'name: a\nrun: "ls\\nmodule load x"\n', "dropped: a.yml:2: `module load x`"),
    "line break in quotes of dstack": (
        "a.yml",
        'type: task\nname: a\ncommands: ["ls\\nmodule load x"]\n',
        "dropped: a.yml:3: `module load x`",
    ),
    "folded lines": ("a.yml", "name: a\nrun: >\n  module\n  load x\n\n  ls\n", "a.yml:3-6: `module load x`"),
    "NUL of Arena": ("a.sh", "arena submit pytorch 'a\0'\n", "error: a.sh:1:24: the line has a NUL character"),
    "name without letters": (
        "a.yml",
        "type: task\nname: 3\ncommands: [python a.py]\n",
        "dropped: a.yml:2: `name: 3`: it has no letters for a name: --name names the job\n",
    ),
    "name of another type": (
        "a.yml",
        "type: task\nname: [a]\ncommands: [python a.py]\n",
        "dropped: a.yml:2: `name[0]: a`: it has no equal in a document\n",
    ),
    "placeholder in a list on one line": (
        "a.yml",
        "type: task\ncommands: [cd a, make, make install,\n  python <file name>]\n",
        "a.yml:3:1: `<file name>` is a placeholder",
    ),
    "chart": (
        "a.yml",
        "{{- if .Values.enabled }}\napiVersion: apps/v1\nkind: Deployment\n{{- end }}\n",
        "a.yml:1:1: the file is a template",
    ),
    "value of a chart": (
        "a.yml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\n",
        "a.yml:4:1: the file is a template",
    ),
    "template of Jinja": (
        "a.yml",
        "name: a\nenvs:\n  {% for key in keys %}\n  {{ key }}: x\n  {% endfor %}\nrun: python a.py\n",
        "a.yml:3:1: the file is a template",
    ),
    "secret of dstack": (
        "a.yml",
        "type: task\nname: a\nenv: ['B=${{ secrets.x }}']\ncommands: [python a.py]\n",
        "dropped: a.yml:3: `env[0]: 'B=${{ secrets.x }}'`",
    ),
    "part of a line": (
        "a.sh",
        _script("source activate x; python a.py"),
        "a.sh:4: `source activate x; python a.py`: `source activate x`: the software comes from `environment.image`",
    ),
    "directory on the line of a program": (
        "a.sh",
        _script("cd $SLURM_SUBMIT_DIR; python a.py"),
        "a.sh:4: `cd $SLURM_SUBMIT_DIR; python a.py`: `cd $SLURM_SUBMIT_DIR`: write the directory into",
    ),
    "variable behind a removed part": (
        "a.sh",
        _script("source activate x; python a.py $SLURM_TMPDIR"),
        "a.sh:4: `$SLURM_TMPDIR`: it has no equal: mount scratch space",
    ),
    "parts that are all removed": (
        "a.sh",
        _script("module load x; module load y\npython a.py"),
        "a.sh:4: `module load x; module load y`: the software comes from `environment.image`",
    ),
    "part of a list": (
        "a.sh",
        _script("conda activate x && python a.py"),
        "a.sh:4: `conda activate x && python a.py`: `conda activate x`: the software comes from `environment.image`",
    ),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_errors_and_dropped_values_have_their_line(case: str, imported: Import) -> None:
    name, text, expected = REFUSED[case]
    found = imported(text, *(IMAGE if case != "missing value" else ()), name=name)
    assert found.code == 1
    assert expected in found.err


@pytest.mark.parametrize(
    ("gpu", "kept", "without"),
    [
        ("'MI300X,H100:8'", ["gpu-type: MI300X", "gpu-vendor: amd"], "H100"),
        ("{name: [H100, MI300X, A100], count: 8}", ["gpu-type: [H100, A100]"], "MI300X"),
        ("{name: [H100, MI300X], vendor: amd}", ["gpu-type: MI300X", "gpu-vendor: amd"], "H100"),
    ],
)
def test_types_of_gpus_are_those_of_one_vendor(imported: Import, gpu: str, kept: list[str], without: str) -> None:
    run = f"type: task\nname: a\nresources: {{gpu: {gpu}, cpu: 4, memory: 8GB}}\ncommands: [python a.py]\n"
    found = imported(run, *IMAGE, name="a.yml")
    assert found.code == 0
    assert re.findall(r"(?m)^  (gpu-(?:type|vendor): .*?)  #", found.out) == kept
    assert f"a job has GPUs of one vendor: without `{without}`\n" in found.err


def test_other_interpreters_evaluate_the_body(imported: Import) -> None:
    found = imported(_script("print $ENV{SLURM_JOB_ID};").replace("/bin/bash", "/usr/bin/perl"), *IMAGE)
    assert found.code == 1
    assert "perl, -e," in found.out.replace("\n    - ", ", ")
    assert "dropped: a.sh:4: `SLURM_JOB_ID`" in found.err


def _pytorch_job(replicas: str) -> str:
    return f"kind: PyTorchJob\nmetadata: {{name: a}}\nspec: {{pytorchReplicaSpecs: {replicas}}}\n"


def test_a_manifest_without_workers_has_one_node(imported: Import) -> None:
    containers = "template: {spec: {containers: [{name: pytorch, image: 'a:1'}]}}"
    replicas = f"{{Master: {{replicas: 1, {containers}}}, Worker: {{replicas: 0, {containers}}}}}"
    found = imported(_pytorch_job(replicas))
    assert "kind: training" in found.out
    assert "resources:" not in found.out


def test_the_program_of_a_pytorchjob_is_the_container_of_that_name(imported: Import) -> None:
    containers = "[{name: logs, image: 'b:1'}, {name: pytorch, image: 'a:1'}]"
    found = imported(_pytorch_job(f"{{Master: {{template: {{spec: {{containers: {containers}}}}}}}}}"))
    assert "  image: a:1" in found.out
    assert "sidecars: [{name: logs, image: b:1}]" in found.out.replace('"', "")


def test_mounts_on_several_lines_are_read(imported: Import) -> None:
    mounts = 'srun --container-mounts "/data:/data,\n  /models:/models,\n $RUN\n/x:/y" python a.py'
    found = imported(_script(mounts), *IMAGE)
    assert "`$RUN /x:/y` is not an absolute path that is known" in found.out
    assert "workdirs: [{path: /data}, {path: /models}]" in found.out


def test_line_breaks_in_a_note_stay_in_its_comment(imported: Import) -> None:
    found = imported(_script('srun -n "$((A +\nB))" python a.py'), *IMAGE)
    assert "$((A +\\nB)" in found.out.split("\n")[1]


def test_names_with_other_letters_are_no_variables(imported: Import) -> None:
    found = imported(_script("export NAME\u00e9=1\npython a.py"), *IMAGE)
    assert found.code == 0
    assert "env:" not in found.out


@pytest.mark.parametrize(("name", "text"), [("a.sbatch", SCRIPT), ("submit.sh", "arena submit pytorch --name=a x\n")])
def test_the_platform_is_read_once(imported: Import, name: str, text: str) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"kind: platform\nversion: v0.1\nimage: {registries: [other.example.com]}\n")
    os.close(writer)
    try:
        found = imported(text, *IMAGE, "--platform", f"/dev/fd/{reader}", name=name)
    finally:
        os.close(reader)
    assert found.code == 1
    assert "other.example.com" in found.err


LONG = "a" * 58
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  template:
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: zone, labelSelector: {matchLabels: {app: NAME}}}
      containers: [{name: a, image: r.example.com/a:1, ports: [{containerPort: 80}]}]
"""


@pytest.mark.parametrize(
    ("text", "longest"),
    [
        (DEPLOYMENT, 59),
        ("type: dev-environment\nname: NAME\nimage: r.example.com/a:1\nide: vscode\n", 52),
        ("type: task\nname: NAME\nimage: r.example.com/a:1\nnodes: 2\ncommands: [python a.py]\n", 61),
    ],
)
def test_names_that_are_too_long_are_shortened(text: str, longest: int, imported: Import) -> None:
    name = f"{LONG}-bcde"
    found = imported(text.replace("NAME", name), name="a.yaml")
    shorter = name[:longest].rstrip("-")
    assert f"  name: {shorter}  # line" in found.out
    assert f"the name is `{shorter}`: a longer one is not valid here\n" in found.err
    # Other fields, such as selectors of pods, have the name of the document.
    assert (name in found.out) is False


def test_a_name_of_the_command_line_is_not_shortened(imported: Import) -> None:
    found = imported(DEPLOYMENT.replace("NAME", "a"), "--name", f"{LONG}-bcde", name="a.yaml")
    assert found.code == 1
    assert "error[GPU217]" in found.err


def test_gpu_option_of_podman_hpc_is_the_gpus_of_the_pod(imported: Import) -> None:
    program = "podman-hpc run --rm --gpu registry.example.com/a:1 python a.py"
    found = imported(_script(program), "--gpus-per-node", "1", "--cpu", "4")
    assert "dropped" not in found.err.replace("0 dropped", "")
    assert "command: [python, a.py]" in found.out


@pytest.mark.parametrize(("options", "length"), [("", 63), ("#SBATCH --array=0-99\n", 60), ("#SBATCH --nodes=2\n", 40)])
def test_name_of_slurm_is_as_long_as_a_job_can_have(imported: Import, options: str, length: int) -> None:
    script = SCRIPT.replace("--job-name=a\n", f"--job-name={'a' * 70}\n{options}")
    assert f"name: {'a' * length}  #" in imported(script, *IMAGE, "--cpu", "4").out


@pytest.mark.parametrize(
    ("options", "program", "command"),
    [
        ("--entrypoint python a:1", "a.py --x 1", "command: [python, a.py, --x, '1']"),
        ("--entrypoint=/bin/sh a:1", "-c 'ls; python a.py'", "command: [/bin/sh, -c, ls; python a.py]"),
        ("--entrypoint '' a:1", "python a.py", "command: [python, a.py]"),
    ],
)
def test_an_entrypoint_of_docker_starts_the_program(options: str, program: str, command: str, imported: Import) -> None:
    found = imported(_script(f"docker run {options} {program}"))
    assert (found.code, found.err) == (0, "")
    assert command.replace("'", '"') in found.out


def test_an_entrypoint_that_is_not_known_is_dropped(imported: Import) -> None:
    found = imported(_script("docker run --entrypoint $(cat a) a:1 a.py"))
    assert "dropped: a.sh:4: `--entrypoint $(cat a)`: write the program into `environment.command`" in found.err


@pytest.mark.parametrize(("size", "shm"), [("16g", "16Gi"), ("512MB", "512Mi"), ("64", None), ("0g", None)])
def test_shared_memory_of_docker_is_that_of_the_pod(size: str, shm: str | None, imported: Import) -> None:
    found = imported(_script(f"docker run --shm-size {size} a:1 python a.py"))
    assert f"shm: {shm}" in found.out if shm else f"dropped: a.sh:4: `--shm-size {size}`" in found.err
