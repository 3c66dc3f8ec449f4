"""Label and field selectors: the mirror must select the same objects as the API server."""

from __future__ import annotations

import pytest

from fault_tools.world import path_of
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.configuration import open_session
from gpuctl.kube.selector_parsing import InvalidSelector, LabelSelector
from gpuctl.objects.api_resources import RESOURCES
from gpuctl_server.mirror.field_selectors import FieldSelector
from support.cluster_tools import Place

LABELS = [
    {},
    {"app": "chat"},
    {"app": "chat", "tier": "a"},
    {"app": "sft", "tier": "b", "old": ""},
    {"runwhere.ai/job-type": "training", "app": "chat"},
    {"in": "notin", "notin": "in"},
    {"app": "a.b-c_d", "tier": "A"},
    {"tier": "5"},
    {"tier": "05"},
]
SELECTORS = [
    "",
    " ",
    "app",
    " app ",
    "!app",
    "! app",
    "!  app ,tier",
    "app=chat",
    "app==chat",
    "app = chat",
    " app  ==  chat ",
    "app!=chat",
    "app != chat",
    "app!=chat,tier",
    "app=",
    "old=",
    "old==",
    "old!=",
    "app in (chat)",
    "app in (chat,sft)",
    "app in ( chat , sft )",
    "app  in  (chat)",
    "app in(chat)",
    "app notin (chat)",
    "app notin (chat,sft),tier",
    "app notin(chat)",
    "tier in (a,b),app in (chat,sft),!old",
    "tier in ()",
    "tier in (,)",
    "tier in (a,)",
    "old in ()",
    "tier notin ()",
    "runwhere.ai/job-type",
    "runwhere.ai/job-type=training,app=chat",
    "app=chat,app=sft",
    "app=chat,app=chat",
    "app=chat,app!=chat",
    "app,!app",
    "in",
    "in=notin",
    "in in (notin)",
    "notin notin (in)",
    "app=a.b-c_d",
    "tier=a",
    "tier>1",
    "tier<1",
    "tier > 4",
    "tier < 6,app",
    "tier<6",
    "tier>05",
    "tier>-5",
    "tier>x",
    "tier>",
    ">5",
    "tier>=5",
    "tier>5,tier<6",
    "app=a/b",
    "app=-a",
    "app in (a_,b)",
    "app in (a b)",
    "App/Tier=x",
    "/app",
    "a/b/c",
    "-app",
    "app=" + 64 * "x",
    63 * "x",
    64 * "x",
    "app=chat,",
    ",app=chat",
    "app,,tier",
    "app=chat tier=a",
    "app in chat",
    "app in (chat",
    "app in chat)",
    "(app)",
    "=chat",
    "!=chat",
    "!",
    "!!app",
    "!app=chat",
    "app===chat",
    "app=!chat",
    "app=in",
    "app is chat",
    "a b",
    "app=chat,tier in (a)",
    "app=(chat)",
    "app\t=\tchat",
    "app=chat\n",
]
FIELDS = [
    "",
    "metadata.name=m-1",
    "metadata.name==m-1",
    "metadata.name!=m-1",
    "metadata.name=m-1,metadata.name=m-2",
    "metadata.name!=m-1,metadata.name!=m-2",
    "metadata.name=",
    "metadata.name = m-1",
    " metadata.name=m-1",
    "metadata.name=m-1 ",
    "metadata.name",
    "metadata.name=m-1,",
    "metadata.name=nobody",
]


def selector_of(key: str, text: str) -> LabelSelector | FieldSelector | None:
    try:
        return LabelSelector(text) if key == "labels" else FieldSelector(text)
    except InvalidSelector:
        return None


@pytest.mark.slow
def test_selectors_match_like_the_api_server(place: Place) -> None:
    """Label selectors are rejected if the server rejects them; the mirror leaves some field selectors to the server."""
    for number, labels in enumerate(LABELS):
        metadata = {"name": f"m-{number}", "labels": labels}
        place.api.call(
            "POST",
            path_of("ConfigMap", place.namespace),
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata},
        )
    session = open_session()
    objects = [
        item
        for item in session.list_objects(RESOURCES["ConfigMap"], place.namespace)[0]
        if item["metadata"]["name"].startswith("m-")
    ]
    wrong: list[str] = []
    judged = 0
    for key, texts in (("labels", SELECTORS), ("fields", FIELDS)):
        for text in texts:
            selector = selector_of(key, text)
            judged += selector is not None
            try:
                listed = session.list_objects(RESOURCES["ConfigMap"], place.namespace, **{key: text})[0]
            except ApiError as error:
                if selector is not None:
                    wrong.append(f"{key} `{text}`: the server refuses it ({error.status}), the mirror takes it")
                continue
            if selector is None:
                if key == "labels":
                    wrong.append(f"{key} `{text}`: it is rejected, the server takes it")
                continue
            mine = {obj["metadata"]["name"] for obj in objects if selector.matches(obj)}
            theirs = {item["metadata"]["name"] for item in listed if item["metadata"]["name"].startswith("m-")}
            if mine != theirs:
                wrong.append(f"{key} `{text}`: {sorted(mine)} instead of {sorted(theirs)}")
    session.close()
    assert wrong == []
    assert judged > 40


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("app in chat", "`app in chat` is not a requirement of a label selector"),
        ("app===chat", "`app===chat` is not a requirement of a label selector"),
        ("tier>x", "`tier>x` is not a requirement of a label selector"),
        ("app,,tier", "`` is not a requirement of a label selector"),
        ("a/b/c=d", "`a/b/c` is not a legal label key"),
        ("app in (a,b/c)", "`b/c` is not a legal label value"),
        ("\x1b[31m", "`\\x1b[31m` is not a legal label key"),
    ],
)
def test_invalid_selectors_raise(text: str, problem: str) -> None:
    with pytest.raises(InvalidSelector) as caught:
        LabelSelector(text)
    assert str(caught.value) == f"{problem}; a label selector is, for example, `app=chat,tier in (a,b),!old`"
