"""Label and field selectors: the mirror must select the same objects as the API server."""

from __future__ import annotations

import pytest

from fault_tools.world import path_of
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.configuration import open_session
from gpuctl.objects.api_resources import RESOURCES
from gpuctl_server.mirror.selector_matching import FieldSelector, LabelSelector, NotASelector
from support.cluster_tools import Place

LABELS = [
    {},
    {"app": "chat"},
    {"app": "chat", "tier": "a"},
    {"app": "sft", "tier": "b", "old": ""},
    {"runwhere.ai/job-type": "training", "app": "chat"},
    {"in": "notin", "notin": "in"},
    {"app": "a.b-c_d", "tier": "A"},
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


@pytest.mark.slow
def test_selectors_match_like_the_api_server(place: Place) -> None:
    """The mirror leaves selectors to the server if the server rejects them or only the server can interpret them."""
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
            try:
                selector = LabelSelector(text) if key == "labels" else FieldSelector(text)
            except NotASelector:
                continue
            judged += 1
            mine = {obj["metadata"]["name"] for obj in objects if selector.matches(obj)}
            try:
                listed = session.list_objects(RESOURCES["ConfigMap"], place.namespace, **{key: text})[0]
            except ApiError as error:
                wrong.append(f"{key} `{text}`: the server refuses it ({error.status}), the mirror takes it")
                continue
            theirs = {item["metadata"]["name"] for item in listed if item["metadata"]["name"].startswith("m-")}
            if mine != theirs:
                wrong.append(f"{key} `{text}`: {sorted(mine)} instead of {sorted(theirs)}")
    session.close()
    assert wrong == []
    assert judged > 40
    for text in ("app=chat", "app in (chat,sft)", "!old", "app!=chat", "app notin (chat)", "runwhere.ai/job-type"):
        LabelSelector(text)


@pytest.mark.parametrize("text", ["app in chat", "app===chat", "(app)", "a b", "!!app", "=chat"])
def test_invalid_selectors_raise(text: str) -> None:
    with pytest.raises(NotASelector):
        LabelSelector(text)
