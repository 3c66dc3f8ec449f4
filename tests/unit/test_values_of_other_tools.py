"""Hints for values as other tools write them: the hint is the line that the user meant."""

from __future__ import annotations

import pytest

import gpuctl

HEAD = "kind: training\nversion: v0.1\n"
JOB = "job: {name: demo}\n"
ENVIRONMENT = "environment: {image: 'app:1', command: [python, train.py]}\n"
HINTS = {
    f"{HEAD}{JOB}{ENVIRONMENT}VALUE\n": [
        ("resources: {gpu: A100}", "write `gpu: 1` and `gpu-type: A100`"),
        ("resources: {gpu: 'A100:8'}", "write `gpu: 8` and `gpu-type: A100`"),
        ("resources: {gpu: four}", "write a whole number such as 8"),
        ("resources: {gpu: 80GB}", "write a whole number such as 8"),
        ("resources: {gpu: 8x}", "write 8"),
        ("resources: {gpu: 8张}", "write 8"),
        ('resources: {gpu: "0,1,2,3"}', "write the number of them: 4"),
        ("resources: {nodes: [gpu-1, gpu-2]}", "write the number of them: 2"),
        ("resources: {nodes: 2-4}", "write `{min: 2, max: 4}` for an elastic training"),
        ("resources: {memory: 32768}", "did you mean `32768Mi`?"),
        ("resources: {memory: 64}", "did you mean `64Gi`?"),
        ("resources: {cpu: 8核}", "did you mean `8`?"),
        ("resources: {network: host}", "write `{hostNetwork: true}`"),
        ("resources: [{gpu: 4}, {cpu: 8}]", "remove the `- ` before its fields"),
        ("array: 1-10", "write `10`: the indexes begin with 0"),
        ("array: 1-10%4", "write `{size: 10, parallelism: 4}`: the indexes begin with 0"),
        ('array: "1,000"', "write 1000"),
        ("array: [0, 1, 2]", "write the number of them: 3"),
        ("sweep: {lr: {values: [1e-5, 1e-4]}}", "write `lr: [1e-5, 1e-4]`"),
        ("sweep: {parameters: {lr: [1e-5]}}", "remove it: the parameters belong directly below `sweep`"),
        (
            "sweep: {lr: {min: 1, max: 2}}",
            "list its values, such as `lr: [1e-5, 2e-5]`: no values are drawn from a range",
        ),
        ("storage: /data", "write `{workdirs: [{path: /data}]}`"),
        ("storage: ['/data:/mnt']", "write `workdirs:` above the list"),
        ("storage: [{path: /data}]", "write `workdirs:` above the list"),
        ("storage: {workdirs: [{path: /data, emptyDir: true}]}", "write `{}`"),
        (
            "storage: {workdirs: [{path: 's3://bucket/data'}]}",
            "object storage is not mounted: copy from it in `init`, or use `pvc` with a claim of its driver",
        ),
        ("code: ./src", "write `{local: ./src}`"),
        ("code: https://git.example.com/a.git", 'write `{git: "https://git.example.com/a.git", ref: COMMIT}`'),
        ("placement: prod", "write `{clusters: [prod]}`"),
        ("security: {user: root}", "write a whole number such as 1000"),
    ],
    f"{HEAD}job: VALUE\n{ENVIRONMENT}": [
        ("name:demo", "write `name: demo`"),
        ("name = demo", "write `name: demo`"),
        ("{name: 微调任务}", "choose a name of ASCII letters and digits; `job.description` holds any text"),
        ("{name: demo, max_runtime: '24:00:00'}", "did you mean `1d`?"),
        ("{name: demo, max_runtime: '2-12:00:00'}", "did you mean `2d12h`?"),
        ("{name: demo, max_runtime: 12小时}", "did you mean `12h`?"),
        ("{name: demo, after: prepare}", 'write a list: ["prepare"]'),
        ("{name: demo, retries: unlimited}", "write a whole number such as 3"),
        ("{name: demo, notify: true}", "write `{failed: true}`"),
        ("{name: demo, checkpoint: /ckpt}", "write `{command: [python, save.py]}`"),
    ],
    f"{HEAD}{JOB}environment:\n  image: app:1\n  VALUE\n": [
        ("args: {lr: 2e-5, epochs: 3}", 'write a list: ["--lr", "2e-5", "--epochs", "3"]'),
        ("args: [--lr: 2e-5]", 'write two items: "--lr", "2e-5"'),
        ("args: ['echo', a: b]", 'quote it, because of the `: `: "a: b"'),
        ("args: ['echo', name: b]", 'quote it, because of the `: `: "name: b"'),
        ("imagePullSecret: [{name: login}]", "write `login`"),
        ("env: [HF_TOKEN]", "write `{name: HF_TOKEN, value: VALUE}`"),
        ("env: ['A: b']", "write `{name: A, value: b}`"),
        ("env: {A: ${TOKEN}}", "quote the value"),
    ],
    f"kind: inference\nversion: v0.1\n{JOB}{ENVIRONMENT}service:\n  VALUE\n": [
        ("port: 80:8000", "write `port: 80` and `targetPort: 8000`"),
        ("port: 8000/tcp", "write 8000"),
        ("port: http", "write a whole number such as 8000"),
        ("health_check: true", "write a path such as `/health`"),
        ("health_check: http://localhost:8000/health", "write `/health`"),
    ],
    f"kind: VALUE\nversion: v0.1\n{JOB}{ENVIRONMENT}": [
        ("job", "did you mean `training`?"),
        ("Serving", "did you mean `inference`?"),
        ("jupyter", "did you mean `notebook`?"),
        ("推理", "did you mean `inference`?"),
    ],
}
"""Document -> what may stand for its VALUE, with the hint."""


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param(text.replace("VALUE", value), hint, id=value)
        for text, values in HINTS.items()
        for value, hint in values
    ],
)
def test_hint_is_what_the_user_meant(text: str, hint: str) -> None:
    found = gpuctl.compile(gpuctl.Source("a.yaml", text)).diagnostics
    assert next(item for item in found if item.severity == "error").hint == hint


@pytest.mark.parametrize("events", ["{failed: yes}", "{success: true}", "{on_failure: true}"])
def test_wrong_event_is_reported_once(events: str) -> None:
    text = f"{HEAD}job: {{name: demo, notify: {events}}}\n{ENVIRONMENT}"
    found = gpuctl.compile(gpuctl.Source("a.yaml", text)).diagnostics
    assert [item.code for item in found if item.path[:2] == ("job", "notify") and item.code != "GPU234"] in (
        ["GPU202"],
        ["GPU203"],
    )
