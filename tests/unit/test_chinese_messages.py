"""Chinese translations of the messages that the product's documents print."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import IncompleteRead
from typing import Any, cast

import pytest
from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from urllib3.exceptions import HTTPError

import gpuctl
from gpuctl.acts.node_labels import NodeChangeFailure, NodeChangeReport, label_conflict, missing_node, no_such_label
from gpuctl.api.node_label_answers import LABELLED, BatchReport
from gpuctl.apply.plan.plan import EvictedJob, Plan, Step, Wait
from gpuctl.apply.run.journal_entries import JournalEntry
from gpuctl.apply.run.journal_secrets import Journal, read_journal, secrets_of
from gpuctl.apply.run.recovery_plan import RecoveryPlan
from gpuctl.apply.run.unfinished_runs import UnfinishedRuns
from gpuctl.apply.state.past_documents import read_history
from gpuctl.apply.state.provenance import source_mismatch
from gpuctl.capacity.admission.limit_ranges import limit_violations
from gpuctl.capacity.admission.pod_security_admission import ENFORCE, forbidden
from gpuctl.capacity.admission.quota_charges import Unspecified
from gpuctl.capacity.devices.device_requests import pod_devices
from gpuctl.capacity.devices.device_selectors import UnknownMatch, selector_of_device
from gpuctl.capacity.kueue.queue_messages import QueuePath, queue_wait
from gpuctl.capacity.pods.unknown_reasons import unknown_reasons
from gpuctl.capacity.scheduler.scheduler_model import VOLUMES_OF_CLASS, format_units
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.frontend.source import Source
from gpuctl.hints import ADOPT_OBJECT, Surface, set_request_surface
from gpuctl.kube.api_errors import ConnectionFailed, api_error
from gpuctl.kube.http_client import Reply
from gpuctl.kube.not_found import no_such
from gpuctl.kube.response_streams import ResponseStream, WatchStream
from gpuctl.language.sentences import Translation, say, set_translation
from gpuctl.language.settings import Settings
from gpuctl.language.translation_files import chinese_sentences, sentences_in
from gpuctl.objects.api_resources import Key, Object
from gpuctl.objects.ownership_metadata import records
from gpuctl_server.access.rights import AccessRequest, Rights
from gpuctl_server.changes.job_creation import submitted
from gpuctl_server.changes.job_pausing import effect_message
from gpuctl_server.changes.node_labelling import label_changed
from gpuctl_server.changes.plan_responses import done_message, pool_created
from gpuctl_server.http.content_negotiation import wants_chinese
from gpuctl_server.http.http_problems import invalid_query

RBAC = 'pods is forbidden: User "anna" cannot list resource "pods" in API group "" in the namespace "nlp"'
NO_MEMORY = {"containers": [{"name": "main"}]}
MEMORY = {"type": "Container", "min": {"memory": "1Gi"}}
ADMIN = Rights("admin")
OF_TEAM = Rights("user", pools=frozenset({"q"}))
MISSING = NodeChangeFailure("node-3", "NodeNotFound", "there is no node node-3", hint="did you mean node-1?")

CLAIMING = {
    "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}],
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
}
PENDING = {"namespace": "nlp", "name": "data", "phase": "Pending"}

KEYS = records(Settings())
JOB: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "namespace": "nlp"}, "spec": {}}


@pytest.fixture
def chinese() -> Iterator[Translation]:
    """A request of a client that prefers Chinese."""
    set_request_surface(Surface.REST)
    translation = Translation(chinese_sentences())
    set_translation(translation)
    yield translation
    set_translation(None)
    set_request_surface(Surface.COMMAND_LINE)


FORGED = secrets_of("ab12", "nlp", [JournalEntry(f"{0:08x}-0000-0000-0000-{0:012x}", JOB, JOB, "post")], KEYS)[0]


def report(done: int, failed: int) -> NodeChangeReport:
    changes: Any = [type("Change", (), {"name": f"node-{number}", "text": "a=b"}) for number in range(done)]
    return NodeChangeReport(changes, [MISSING] * failed)


class BrokenReply:
    """A response whose connection breaks."""

    def portions(self) -> Iterator[bytes]:
        raise HTTPError from IncompleteRead(b"")

    def close(self) -> None:
        pass


def unknown_match(selector: str) -> str:
    """Return why a selector of devices has no known result."""
    with pytest.raises(UnknownMatch) as caught:
        selector_of_device(selector, "gpu.nvidia.com", {})
    return str(caught.value)


def broken(stream: ResponseStream | WatchStream) -> str:
    """Return the message about a stream that broke."""
    with pytest.raises(ConnectionFailed) as caught:
        list(stream)
    return caught.value.message


MESSAGES: list[tuple[Any, str, str | None]] = [
    (
        lambda: submitted("training/a", "training-pool", None),
        "training/a is submitted to the pool training-pool",
        "任务已提交至资源池 training-pool",
    ),
    (
        lambda: submitted("training/a", "p", "waits for quota q"),
        "training/a is submitted to the pool p; it waits for quota q",
        "任务已提交至资源池 p，但要等待：waits for quota q",
    ),
    (
        lambda: effect_message("training/a in t", "is paused; its 4 pods end, which frees the GPUs", "gpus-freed"),
        "training/a in t is paused; its 4 pods end, which frees the GPUs",
        "任务已暂停，GPU 已释放",
    ),
    (
        lambda: effect_message("training/a in t", "is paused already", "paused"),
        "training/a in t is paused already",
        "任务已暂停",
    ),
    (
        lambda: effect_message("inference/a in t", "is resumed with 2 replicas", "resumed"),
        "inference/a in t is resumed with 2 replicas",
        "任务已恢复",
    ),
    (lambda: pool_created("experiment-pool"), "pool/experiment-pool is created", "资源池创建成功"),
    (
        lambda: ADMIN.decide("anna", AccessRequest("create", "jobs", None, "training-pool")).message,
        "anna may create jobs of the pool training-pool",
        "用户拥有training-pool的任务创建权限",
    ),
    (
        lambda: ADMIN.decide("anna", AccessRequest("get", "jobs")).message,
        "anna may get jobs",
        "用户拥有任务查看权限",
    ),
    (
        lambda: label_conflict("node-1", "nvidia.com/gpu-type", "x"),
        "node node-1 has nvidia.com/gpu-type=x already; set overwrite=true to replace it",
        "节点 node-1 已存在键为 nvidia.com/gpu-type 的 Label，如需覆盖请设置 overwrite=true",
    ),
    (
        lambda: no_such_label("node-1", "nvidia.com/gpu-type"),
        "node node-1 has no label nvidia.com/gpu-type",
        "节点 node-1 未找到键为 nvidia.com/gpu-type 的 Label",
    ),
    (lambda: missing_node("node-3"), "there is no node node-3", "节点 node-3 不存在"),
    (lambda: no_such("node", "node-3", ["node-1"]), "there is no node node-3", "节点 node-3 不存在"),
    (lambda: MISSING.text, "there is no node node-3; did you mean node-1?", "节点 node-3 不存在"),
    (lambda: label_changed("node-1", "a", "k=a (was b)"), "node node-1: k=a (was b)", "节点 Label 标记成功"),
    (
        lambda: label_changed("node-1", None, 'k deleted (was "")'),
        'node node-1: k deleted (was "")',
        "节点 Label 删除成功",
    ),
    (lambda: BatchReport.of(report(2, 0), LABELLED).message, "2 of 2 nodes labelled", "批量标记节点 Label 成功"),
    (
        lambda: BatchReport.of(report(1, 1), LABELLED).message,
        "1 of 2 nodes labelled; see `failed`",
        "部分节点标记失败，请查看 failed 列表",
    ),
    (
        lambda: BatchReport.of(report(1, 0), LABELLED, dry_run=True).message,
        "1 of 1 nodes would be labelled; nothing is changed (dry run)",
        "试运行：将标记 1 个节点（共 1 个）；没有做任何修改",
    ),
    (lambda: ADMIN.decide("anna", AccessRequest("get", "nodes")).message, "anna may get nodes", "anna 可以查看 nodes"),
    (
        lambda: OF_TEAM.decide("anna", AccessRequest("create", "jobs", None, "p")).message,
        "anna may not create jobs of the pool p: the pools of this token are q",
        "anna 无权创建 jobs（资源池 p）：此令牌的资源池是 q",
    ),
    (
        lambda: effect_message("inference/a in t", "is resumed; but its pods are refused for now: exceeded quota", ""),
        "inference/a in t is resumed; but its pods are refused for now: exceeded quota",
        None,
    ),
    (
        lambda: Wait("queue", queue_wait(QueuePath("team", "gpus", ""), [], 2).place),
        "will wait: Kueue's queue team (ClusterQueue gpus): 2 jobs are ahead of it",
        "要等待：Kueue 队列 team（ClusterQueue gpus）：前面有 2 个任务",
    ),
    (
        lambda: done_message("pool/a", "deleted"),
        "pool/a is deleted",
        "已删除 pool/a",
    ),
    (
        lambda: done_message("pool/a", "deleted", dry_run=True),
        "pool/a would be deleted; nothing is changed",
        "试运行：没有做任何修改；实际执行时：已删除 pool/a",
    ),
    (
        lambda: no_such("pool", "b", ["alpha", "beta"], "`x` makes one").hint,
        "there are alpha, beta; `x` makes one",
        "现有 alpha、beta；`x` makes one",
    ),
    (
        lambda: say("{object} was deleted", object=Key("Job", "nlp", "a")),
        "job.batch/a in nlp was deleted",
        "job.batch/a（nlp）已被删除",
    ),
    (
        lambda: (
            invalid_query(RequestValidationError([{"loc": ("query", "page"), "type": "missing", "msg": ""}])).message
        ),
        "the query parameter page is required",
        "查询参数 page 是必需的",
    ),
    *(
        (
            lambda error=error: (
                invalid_query(RequestValidationError([{"loc": ("query", "page"), "msg": "", **error}])).message
            ),
            f"the query parameter page {english}",
            f"查询参数 page {text}",
        )
        for error, english, text in (
            ({"type": "int_parsing"}, "must be a whole number", "必须是整数"),
            ({"type": "greater_than_equal", "ctx": {"ge": 1.0}}, "must be at least 1", "不能小于 1"),
            (
                {"type": "literal_error", "ctx": {"expected": "'fits', 'never' or 'unknown'"}},
                "must be one of `fits`, `never`, `unknown`",
                "必须是 `fits`、`never` 或 `unknown`",
            ),
        )
    ),
    (
        lambda: api_error(403, json.dumps({"kind": "Status", "message": RBAC}).encode(), {}).message,
        "user anna may not list pods in namespace nlp",
        "用户 anna 没有 pods 的 list 权限（命名空间 nlp）",
    ),
    (
        lambda: forbidden({"spec": {"containers": [{"name": "main"}]}}, {ENFORCE: "restricted"})[0],
        "no securityContext.allowPrivilegeEscalation: false of container main",
        "容器 main 没有设置 securityContext.allowPrivilegeEscalation: false",
    ),
    (
        lambda: str(Unspecified("q", "cpu", ("main", "log"))),
        "quota q: every container must set cpu, and these do not: main, log",
        "配额 q：每个容器都必须设置 cpu，而这些容器没有：main、log",
    ),
    (
        lambda: broken(ResponseStream(cast(Reply, BrokenReply()), say("the answer to GET {path}", path="/x"))),
        "the answer to GET /x broke off: the connection was closed before the end of the answer",
        "GET /x 的响应中断：响应尚未结束，连接就已关闭",
    ),
    (
        lambda: broken(WatchStream(cast(Reply, BrokenReply()), say("the watch on {resources}", resources="pods"))),
        "the watch on pods ended: the connection was closed before the end of the answer",
        "对 pods 的 watch 结束：响应尚未结束，连接就已关闭",
    ),
    (
        lambda: next(unknown_reasons(CLAIMING, "nlp", Snapshot("", [], [], claims=[PENDING]), {}, frozenset())),
        "claim data is not bound to a known volume",
        "PVC data 没有绑定到已知的卷",
    ),
    (
        lambda: pod_devices(CLAIMING, "nlp", Snapshot("", [], [])).unknown[0],
        "the ResourceClaimTemplate gpu of its pods was not found in nlp",
        "在 nlp 中找不到它的 Pod 的 ResourceClaimTemplate gpu",
    ),
    (
        lambda: next(limit_violations(NO_MEMORY, [{"name": "r", "limits": [MEMORY]}])),
        "LimitRange r requires at least 1Gi memory per Container, and no request of memory is set (container main)",
        "LimitRange r 要求每个 Container 最少 1Gi memory，而没有设置 memory 的 request（容器 main）",
    ),
    (
        lambda: read_journal("ab12", "nlp", [FORGED], KEYS).invalid_reason,
        "Secret gpuctl-journal-ab12 cannot be gpuctl's: job.batch/a in nlp lacks the label app.kubernetes.io/managed-by=gpuctl",
        "Secret gpuctl-journal-ab12 不可能由 gpuctl 写入：job.batch/a（nlp）没有标签 app.kubernetes.io/managed-by=gpuctl",
    ),
    (
        lambda: read_history([FORGED], "a", KEYS)[0].invalid_reason,
        "gpuctl did not write it",
        "它不是由 gpuctl 写入的",
    ),
    (
        lambda: source_mismatch(["git:a", "git:b"], ["git:c"]),
        (
            "the set came from git:a and git:b, and this run gives git:c instead: "
            "give the same sources, or `--allow-source` if this is intended"
        ),
        "该集合来自 git:a、git:b，而这次运行给出的是 git:c：请给出相同的来源；如果确实如此，加上 `--allow-source`",
    ),
    (
        lambda: format_units(f"{VOLUMES_OF_CLASS}late", 1),
        "1 volume of storage class late",
        "1 个 StorageClass late 的卷",
    ),
    (
        lambda: unknown_match("device.driver.split('.')[0] == 'gpu'"),
        "`split` is not evaluated",
        "不支持对 `split` 求值",
    ),
    (
        lambda: unknown_match("device.attributes['a'].b == 1"),
        'there is no "b"',
        '没有 "b"',
    ),
    (
        lambda: UnfinishedRuns([], RecoveryPlan([Journal("1", "nlp"), Journal("2", "cv")])).advice,
        (
            "an earlier apply was interrupted, and may have left jobs deleted: `POST /recoveries?namespace=cv` and "
            "`POST /recoveries?namespace=nlp` restores them"
        ),
        (
            "先前的一次应用被中断，可能有任务被删除后没有重建：`POST /recoveries?namespace=cv`、"
            "`POST /recoveries?namespace=nlp` 可恢复它们"
        ),
    ),
]


@pytest.mark.parametrize(("make", "english", "chinese"), MESSAGES)
def test_messages_are_english_by_default(make: Any, english: str, chinese: str | None) -> None:
    set_request_surface(Surface.REST)
    try:
        assert str(make()) == english
    finally:
        set_request_surface(Surface.COMMAND_LINE)


@pytest.mark.parametrize(("make", "english", "text"), MESSAGES)
def test_documented_messages_are_translated(make: Any, english: str, text: str | None, chinese: Translation) -> None:
    assert str(make()) == (text or english)
    assert chinese.is_used is (text is not None)


SCRIPT = ":\n  command:\n    - bash\n    - -c\n    - |\n      a &&\n        b"
TRAINING = "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: 'a/b:1', command: [a]}\n"


@pytest.mark.parametrize(
    ("line", "english", "chinese_text"),
    [
        ("resources: {gpus: 1}", "unknown field `gpus` in resources", "resources 中没有字段 `gpus`"),
        ("resources: 4", "`resources` must be a mapping, not a single value", "`resources` 应为映射，而不是单个值"),
        (
            "resources: {gpu-type: {}}",
            "`gpu-type` must be a single value or a list, not a mapping",
            "`gpu-type` 应为单个值或列表，而不是映射",
        ),
        ("resources: {gpu-type: []}", "`gpu-type` must have at least 1 item", "`gpu-type` 至少要有 1 项"),
        ("resources: {gpu: -1}", "`gpu` must be at least 0", "`gpu` 不能小于 0"),
        (
            "resources: {memory: 12GB}",
            "`12GB` is not a Kubernetes quantity such as `500m`, `2` or `128Gi`",
            "`12GB` 不是 `500m`、`2`、`128Gi` 这样的 Kubernetes 数量",
        ),
        (
            "schedule: 61 2 * * *",
            "`61 2 * * *`: `61` is not a minute: 0-59",
            "`61 2 * * *`：`61` 不是分钟：应为 0-59",
        ),
        ("code: {ref: main}", "the code has neither `git` nor `local`", "code 既没有 `git`，也没有 `local`"),
        ("resources: [", "a value is missing here", "这里缺少值"),
        (
            "podPatch: {hostIpc: true}",
            "unknown field `hostIpc`, did you mean `hostIPC`?",
            "未知字段 `hostIpc`，是否想写 `hostIPC`？",
        ),
        (
            "init: [{name: i, command: a && b}]",
            'only a shell understands this; write command: ["bash", "-c", "a && b"]',
            '只有 shell 才能解释这种写法；写 command: ["bash", "-c", "a && b"]',
        ),
        (
            "init:\n- name: i\n  command: |\n    a &&\n      b\n",
            f"only a shell understands this; write{SCRIPT}",
            f"只有 shell 才能解释这种写法；写{SCRIPT}",
        ),
    ],
)
def test_diagnostics_follow_the_language(line: str, english: str, chinese_text: str) -> None:
    """Validators are cached; a text of another language never comes from a cache."""
    sources = [Source("job.yaml", TRAINING + line)]
    for language, message in (("en", english), ("zh", chinese_text)) * 2:
        with sentences_in(language):
            found = [text for item in gpuctl.compile(sources).diagnostics for text in (item.message, item.hint)]
        assert message in found, found


def test_message_without_a_translation_stays_english(chinese: Translation) -> None:
    assert say("{node} and {text}", node="node-1", text=pool_created("a")) == "node-1 and 资源池创建成功"


def test_plan_and_its_questions_are_chinese_on_request(chinese: Translation) -> None:
    live = {"kind": "Job", "metadata": {"name": "a", "creationTimestamp": None}, "spec": {"template": {}}}
    step = Step(
        "replace", Key("Job", "nlp", "a"), live=live, title="training/a", running=say("running for {time}", time="3h")
    )
    wait = Wait("room", say("no node has the labels {labels}{meant}", labels=["a=b"], meant=""))
    step.victims, step.waits = [EvictedJob("cv", "training/b", 0, ("b-0", "b-1"), None, "anna")], [wait]
    assert Plan([step]).questions == ["替换 training/a（nlp）：已运行 3h，进度会丢失；要等待：没有节点带有标签 a=b"]
    assert str(step.victims[0]) == "cv 的 training/b（所有者 anna，2 个 Pod，尚未运行）"
    # A text that differs between surfaces is translated where it is a value.
    assert say("{object}: {error}; {hint}", object="a", error="b", hint=ADOPT_OBJECT) == (
        "a：b；给任务改名，或请其管理者放弃该对象"
    )
    set_translation(None)
    assert Plan([step]).questions == [
        "replaces training/a in nlp: 已运行 3h, its progress is lost; will wait: 没有节点带有标签 a=b"
    ]
    assert str(step.victims[0]) == "training/b in cv (owner anna, 2 pods, not running yet)"


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("zh-CN", True),
        ("zh-CN,zh;q=0.9,en;q=0.8", True),
        ("zh, en", True),
        ("en, zh", False),
        ("en-US,en;q=0.9,zh;q=0.8", False),
        ("zh;q=0", False),
        ("*", False),
        ("", False),
    ],
)
def test_accept_language_selects_chinese(header: str, wanted: bool) -> None:
    headers = [(b"accept-language", header.encode())] if header else []
    assert wants_chinese(Request({"type": "http", "headers": headers})) is wanted
