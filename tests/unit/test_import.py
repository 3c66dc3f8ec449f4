"""`gpuctl import`: values of the command line, questions, and inputs that are not what they seem."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpuctl.cli.main import run
from gpuctl.importing.field_values import gpus_of
from gpuctl.importing.slurm.slurm_values import array_of, duration_of, gpus_of_gres, memory_of

SCRIPT = "#!/bin/bash\n#SBATCH --job-name=a\n#SBATCH --mem=4G\npython a.py\n"
IMAGE = ("--image", "registry.example.com/a:1")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
        ("soon", None),
        ("-5", None),
    ],
)
def test_times_of_slurm_are_durations(text: str, duration: str | None) -> None:
    assert duration_of(text) == duration


@pytest.mark.parametrize(
    ("text", "quantity"),
    [("512G", "512Gi"), ("64000", "64000Mi"), ("100M", "100Mi"), ("1T", "1Ti"), ("9kb", "9Ki"), ("0", ""), ("x", None)],
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


@pytest.mark.parametrize("text", ["", "4x", "a:b", ":4", "h100:4:5"])
def test_other_texts_are_not_gpus(text: str) -> None:
    assert gpus_of(text) is None


def test_gres_has_other_resources() -> None:
    assert gpus_of_gres("gpu:h100:4,nvme:1") == ((4, "h100"), ["nvme:1"])
    assert gpus_of_gres("gpu") == ((1, None), [])
    assert gpus_of_gres("shard:2") == (None, ["shard:2"])


def test_arrays_are_ranges_and_lists() -> None:
    found = array_of("1,3-5,10-20:5%2")
    assert found is not None
    assert (found.indices, found.parallelism, found.step) == ([1, 3, 4, 5, 10, 15, 20], 2, None)


@pytest.mark.parametrize("text", ["", "a", "5-1", "0-9:0", "0-999999999", "1--2", "1,", "-"])
def test_other_texts_are_not_arrays(text: str) -> None:
    assert array_of(text) is None


def test_standard_input_is_imported(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    read, write = os.pipe()
    os.write(write, SCRIPT.encode())
    os.close(write)
    monkeypatch.setattr("sys.stdin", os.fdopen(read))
    assert run(["import", "-", *IMAGE]) == 0
    assert "command: [python, a.py]  # line 4\n" in capfd.readouterr().out


def test_values_of_the_command_line_replace_those_of_the_script(
    directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (directory / "a.sh").write_text(SCRIPT)
    values = [
        "--name",
        "b",
        "--memory",
        "8Gi",
        "--cpu",
        "2",
        "--nodes",
        "2",
        "--gpus-per-node",
        "4",
        "--pool",
        "p",
        "--workdir",
        "/w",
    ]
    assert run(["import", "a.sh", *IMAGE, *values]) == 0
    out, err = capfd.readouterr()
    for line in ("name: b", "memory: 8Gi", "cpu: 2", "nodes: 2", "gpu: 4", "pool: p", "workdir: /w"):
        assert f"  {line}\n" in out
    assert "changed: a.sh:3: `--mem=4G`: --memory replaces it\n" in err


def test_a_dropped_line_fails_unless_it_is_accepted(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (directory / "a.sh").write_text(SCRIPT + "module load x\n")
    assert run(["import", "a.sh", *IMAGE]) == 1
    out, err = capfd.readouterr()
    assert "# Dropped, line 5: module load x: the software comes from `environment.image`\n" in out
    assert err.endswith("`-o json` lists all; `--allow-dropped` accepts what is dropped\n")
    assert run(["import", "a.sh", *IMAGE, "--allow-dropped"]) == 0


def test_several_files_become_one_stream(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (directory / f"{name}.sh").write_text(SCRIPT.replace("job-name=a", f"job-name={name}"))
    assert run(["import", "a.sh", "b.sh", *IMAGE]) == 0
    first, second = capfd.readouterr().out.split("---\n")
    assert ("  name: a  # line 2\n" in first, "  name: b  # line 2\n" in second) == (True, True)


def test_the_printed_document_is_valid(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (directory / "a.sh").write_text(SCRIPT)
    run(["import", "a.sh", *IMAGE])
    (directory / "a.yaml").write_text(capfd.readouterr().out)
    assert run(["validate", "a.yaml", "--strict"]) == 0
    assert run(["fmt", "--check", "a.yaml"]) == 0


def test_an_invalid_value_prints_no_document(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (directory / "a.sh").write_text(SCRIPT)
    assert run(["import", "a.sh", "--image", "Not An Image"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert "error[GPU" in err


def test_a_value_that_is_missing_is_an_error(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (directory / "a.sh").write_text(SCRIPT)
    assert run(["import", "a.sh"]) == 1
    assert "error: a.sh:1: no line names a container image: add `--image REF`\n" in capfd.readouterr().err


def test_missing_values_are_asked_for_on_a_terminal(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script = SCRIPT.replace("--mem=4G", "--exclusive --partition=a100")
    (directory / "a.sh").write_text(script)
    asked: list[str] = []
    answers = {
        "GPUs of each node": 8,
        "Memory of each node": "1Ti",
        "Image": "registry.example.com/a:1",
        "Pool": "train",
    }
    answers["CPU cores of each node"] = "96"

    def answer(text: str, **_: object) -> object:
        asked.append(text)
        return answers[text]

    monkeypatch.setattr("click.prompt", answer)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert run(["import", "a.sh"]) == 0
    assert sorted(asked) == sorted(answers)
    out = capfd.readouterr().out
    assert ("  gpu: 8\n" in out, "  pool: train  # line 3\n" in out) == (True, True)


def test_a_partition_needs_a_pool(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["import", "a.sh", "--partition", "a100"]) == 2
    assert "`a100` is not PARTITION=POOL" in capfd.readouterr().err


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
def test_hostile_inputs_are_refused_without_a_traceback(
    name: str, directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (directory / "a.sh").write_bytes(HOSTILE[name])
    assert run(["import", "a.sh"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert "\x1b" not in err
    assert "error" in err
    assert run(["import", "a.sh", "-o", "json"]) == 1
    json.loads(capfd.readouterr().out)


def test_credentials_are_masked_in_the_ledger(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    token = "hf_" + "abcdefghij" * 4
    (directory / "a.sh").write_text(SCRIPT.replace("python a.py", f"export HF_TOKEN={token}\npython a.py"))
    run(["import", "a.sh", *IMAGE, "-o", "json"])
    ledger = json.dumps(json.loads(capfd.readouterr().out)["ledger"])
    assert token not in ledger


def test_variables_in_variables_do_not_make_gigabytes(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    doubled = "A0=0123456789abcdef\n" + "".join(f"A{n}=$A{n - 1}$A{n - 1}\n" for n in range(1, 11))
    (directory / "a.sh").write_text(SCRIPT.replace("python a.py\n", f"{doubled}python a.py {'$A10' * 2000}\n"))
    assert run(["import", "a.sh", *IMAGE]) == 0
    assert len(capfd.readouterr().out) < 20_000


def test_values_that_are_not_in_the_file_are_dropped(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (directory / "a.yaml").write_text("name: a\nsecrets:\n  TOKEN: null\nrun: python a.py\n")
    assert run(["import", "a.yaml", *IMAGE]) == 1
    assert "dropped: a.yaml:3: `secrets.TOKEN`" in capfd.readouterr().err
    (directory / "b.yaml").write_text("type: task\nname: a\nenv: ['B=${{ secrets.x }}']\ncommands: [python a.py]\n")
    assert run(["import", "b.yaml", *IMAGE]) == 1
    assert "dropped: b.yaml:3: `env[0]: 'B=${{ secrets.x }}'`" in capfd.readouterr().err


def test_other_interpreters_evaluate_the_body(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = SCRIPT.replace("/bin/bash", "/usr/bin/perl").replace("python a.py", "print $ENV{SLURM_JOB_ID};")
    (directory / "a.sh").write_text(script)
    assert run(["import", "a.sh", *IMAGE]) == 1
    found = capfd.readouterr()
    assert "perl, -e," in found.out.replace("\n    - ", ", ")
    assert "dropped: a.sh:4: `SLURM_JOB_ID`" in found.err


def test_a_manifest_without_workers_has_one_node(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    containers = "template: {spec: {containers: [{name: pytorch, image: 'a:1'}]}}"
    replicas = f"{{Master: {{replicas: 1, {containers}}}, Worker: {{replicas: 0, {containers}}}}}"
    text = f"kind: PyTorchJob\nmetadata: {{name: a}}\nspec: {{pytorchReplicaSpecs: {replicas}}}\n"
    (directory / "a.yaml").write_text(text)
    run(["import", "a.yaml"])
    found = capfd.readouterr()
    assert "kind: training" in found.out
    assert "nodes:" not in found.out


def test_the_program_of_a_pytorchjob_is_the_container_of_that_name(
    directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    containers = "[{name: logs, image: 'b:1'}, {name: pytorch, image: 'a:1'}]"
    replicas = f"{{Master: {{template: {{spec: {{containers: {containers}}}}}}}}}"
    (directory / "a.yaml").write_text(
        f"kind: PyTorchJob\nmetadata: {{name: a}}\nspec: {{pytorchReplicaSpecs: {replicas}}}\n"
    )
    run(["import", "a.yaml"])
    found = capfd.readouterr().out
    assert "  image: a:1" in found
    assert "sidecars: [{name: logs, image: b:1}]" in found.replace('"', "")


def test_a_nul_character_is_named_with_its_line(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("a.sbatch").write_text(SCRIPT + "echo a\0b\n")
    assert run(["import", "a.sbatch", *IMAGE]) == 1
    assert "error: a.sbatch:5:7: the line has a NUL character" in capfd.readouterr().err


def test_mounts_on_several_lines_are_read(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    mounts = 'srun --container-mounts "/data:/data,\n  /models:/models,\n $RUN\n/x:/y" python'
    Path("a.sbatch").write_text(SCRIPT.replace("python", mounts))
    assert run(["import", "a.sbatch", *IMAGE]) == 1
    document = capfd.readouterr().out
    assert "`$RUN /x:/y` is not an absolute path that is known" in document
    assert "workdirs: [{path: /data}, {path: /models}]" in document


def test_line_breaks_in_a_note_stay_in_its_comment(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("a.sbatch").write_text(SCRIPT.replace("python", 'srun -n "$((A +\nB))" python'))
    assert run(["import", "a.sbatch", *IMAGE]) == 1
    assert "$((A +\\nB)" in capfd.readouterr().out.split("\n")[1]


def test_names_with_other_letters_are_no_variables(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("a.sbatch").write_text(SCRIPT.replace("python", "export NAME\u00e9=1\npython"), encoding="utf-8")
    assert run(["import", "a.sbatch", *IMAGE]) == 0
    assert "env:" not in capfd.readouterr().out


@pytest.mark.parametrize(("name", "text"), [("a.sbatch", SCRIPT), ("submit.sh", "arena submit pytorch --name=a x\n")])
def test_the_platform_is_read_once(directory: Path, capfd: pytest.CaptureFixture[str], name: str, text: str) -> None:
    Path(name).write_text(text)
    reader, writer = os.pipe()
    os.write(writer, b"kind: platform\nversion: v0.1\nimage: {registries: [other.example.com]}\n")
    os.close(writer)
    try:
        assert run(["import", name, *IMAGE, "--platform", f"/dev/fd/{reader}"]) == 1
    finally:
        os.close(reader)
    assert "other.example.com" in capfd.readouterr().err


def test_a_placeholder_in_a_list_on_one_line_is_found(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("a.dstack.yml").write_text("type: task\ncommands: [cd a, make, make install,\n  python <file name>]\n")
    assert run(["import", "a.dstack.yml", *IMAGE]) == 1
    assert "a.dstack.yml:3:1: `<file name>` is a placeholder" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{{- if .Values.enabled }}\napiVersion: apps/v1\nkind: Deployment\n{{- end }}\n", 1),
        ("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\n", 4),
        ("name: a\nenvs:\n  {% for key in keys %}\n  {{ key }}: x\n  {% endfor %}\nrun: python a.py\n", 3),
    ],
)
def test_a_template_has_to_be_rendered(
    directory: Path, capfd: pytest.CaptureFixture[str], text: str, line: int
) -> None:
    Path("a.yaml").write_text(text)
    assert run(["import", "a.yaml"]) == 1
    assert f"a.yaml:{line}:1: the file is a template" in capfd.readouterr().err


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
def test_names_that_are_too_long_are_shortened(
    text: str, longest: int, directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = f"{LONG}-bcde"
    (directory / "a.yaml").write_text(text.replace("NAME", name))
    run(["import", "a.yaml"])
    out, err = capfd.readouterr()
    shorter = name[:longest].rstrip("-")
    assert f"  name: {shorter}  # line" in out
    assert f"the name is `{shorter}`: a longer one is not valid here\n" in err
    # Other fields, such as selectors of pods, have the name of the document.
    assert (name in out) is False


def test_a_name_of_the_command_line_is_not_shortened(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (directory / "a.yaml").write_text(DEPLOYMENT.replace("NAME", "a"))
    assert run(["import", "a.yaml", "--name", f"{LONG}-bcde"]) == 1
    assert "error[GPU217]" in capfd.readouterr().err


def test_ledger_names_the_part_of_a_line_that_is_dropped(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (directory / "a.sh").write_text(SCRIPT.replace("python a.py", "conda activate x && python a.py"))
    run(["import", "a.sh", *IMAGE])
    expected = "`conda activate x && python a.py`: `conda activate x`: the software comes from `environment.image`"
    assert f"dropped: a.sh:4: {expected}" in capfd.readouterr().err


def test_gpu_option_of_podman_hpc_is_the_gpus_of_the_pod(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = "podman-hpc run --rm --gpu registry.example.com/a:1 python a.py"
    (directory / "a.sh").write_text(SCRIPT.replace("python a.py", program))
    run(["import", "a.sh", "--gpus-per-node", "1", "--cpu", "4"])
    found = capfd.readouterr()
    assert "dropped" not in found.err.replace("0 dropped", "")
    assert "command: [python, a.py]" in found.out


@pytest.mark.parametrize(("options", "length"), [("", 63), ("#SBATCH --array=0-99\n", 60), ("#SBATCH --nodes=2\n", 40)])
def test_name_of_slurm_is_as_long_as_a_job_can_have(
    directory: Path, capfd: pytest.CaptureFixture[str], options: str, length: int
) -> None:
    script = SCRIPT.replace("--job-name=a\n", f"--job-name={'a' * 70}\n{options}")
    (directory / "a.sh").write_text(script)
    run(["import", "a.sh", *IMAGE, "--cpu", "4"])
    assert f"name: {'a' * length}  #" in capfd.readouterr().out
