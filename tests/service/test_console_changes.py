"""Changes in the web console: the plan first, then the change; the command line beside it does the same."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
import yaml

from gpuctl.usecases.documents.change_options import LONGEST_BY_SERVICE
from support.browser import Visit, visiting
from support.cluster_tools import Place, inference, outcome, pool_node, training
from support.served import Served

PLAN = ".heading button.main:not([aria-disabled])"
"""The button for the plan of a document that has no errors."""
SELECTED = "document.activeElement.shadowRoot.getSelection().toString()"
"""Script: the selected text in the editor, which has the focus."""
MARKED = """number => {
  const root = document.querySelector(".editor").shadowRoot;
  const top = (element) => element?.getBoundingClientRect().top;
  const [marker] = [...root.querySelectorAll(".cm-lint-marker-error")].reverse();
  return Math.abs(top(marker) - top(root.querySelectorAll(".cm-line")[number])) <= 8;
}"""
"""Script: whether the last error has its marker beside this line. The editor draws and scrolls in several frames."""


def open_job(visit: Visit, place: Place, name: str, query: str = "") -> Any:
    """Show a job; return the page."""
    visit.open(f"/jobs/{place.namespace}/{name}{query}")
    visit.page.get_by_role("heading", level=1).get_by_text(name).wait_for()
    return visit.page


def plan_of(page: Any, button: str) -> str:
    """Press a button, wait for the plan, and return the command that does the same."""
    page.get_by_role("button", name=button, exact=True).first.click()
    page.locator("dialog .buttons button").nth(1).and_(page.locator(":enabled")).wait_for()
    return str(page.locator("dialog .command code").inner_text())


def carry_out(page: Any) -> None:
    """Confirm the plan that is shown, and wait for its end."""
    page.locator("dialog .buttons button").nth(1).click()
    page.locator("dialog").get_by_text("Done.").wait_for()
    page.get_by_role("button", name="Close", exact=True).click()


def typed(place: Place, command: str) -> None:
    """Run a command that the console shows."""
    program, *arguments = shlex.split(command)
    assert program == "gpuctl"
    place.anywhere(*arguments, *(["--yes"] if arguments[0] in ("delete", "rollback") else []))


def test_pause_shows_its_plan_and_its_command_resumes(visit: Visit, place: Place, served: Served) -> None:
    place.apply(training())
    served.until_running("train", place.namespace)
    page = open_job(visit.log_in(), place, "train")
    command = plan_of(page, "Pause")
    assert command == f"gpuctl pause training/train -n {place.namespace}"
    visit.see("would be paused", "dialog")
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    # The focus is where it was.
    page.locator("button:focus", has_text="Pause").wait_for()
    assert served.get("/jobs/train", namespace=place.namespace)["status"] == "running"
    page.evaluate(
        """() => {
            const timeout = AbortSignal.timeout;
            window.limits = [];
            AbortSignal.timeout = (time) => timeout.call(AbortSignal, window.limits[window.limits.push(time) - 1]);
        }"""
    )
    plan_of(page, "Pause")
    held: list[Any] = []
    page.route("**/jobs/pause?*", lambda route: held.append(route))
    page.locator("dialog .buttons button").nth(1).click()
    # A change that has been sent cannot be cancelled.
    page.get_by_role("button", name="Close", exact=True).wait_for()
    # The service saves checkpoints, and waits for the end of pods.
    assert max(page.evaluate("window.limits")) > 1000 * LONGEST_BY_SERVICE
    held[0].continue_()
    page.locator("dialog").get_by_text("Done.").wait_for()
    page.get_by_role("button", name="Close", exact=True).click()
    page.get_by_role("button", name="Resume", exact=True).wait_for()
    assert served.get("/jobs", namespace=place.namespace)["items"][0]["reason"] is None
    command = plan_of(page, "Resume")
    typed(place, command)
    served.until_running("train", place.namespace)


@pytest.mark.slow
def test_rollback_shows_the_changes_and_the_new_job(browser: Any, visit: Visit, place: Place, served: Served) -> None:
    place.apply(training())
    served.until_running("train", place.namespace)
    place.apply(training(environment={"image": "registry.example.com/other:v2"}), flags=("--yes",))
    served.until_running("train", place.namespace)
    page = open_job(visit.log_in(), place, "train", "?tab=history")
    visit.see("environment.image")
    command = plan_of(page, "Roll back")
    assert command == f"gpuctl rollback training/train -n {place.namespace} --to 1"
    visit.see("registry.example.com/other:v2", "dialog")
    visit.see("You confirm:", "dialog")
    with visiting(browser, served, locale="zh-CN") as chinese:
        plan_of(open_job(chinese.log_in(), place, "train", "?tab=history"), "回滚")
        chinese.see(f"替换 training/train（{place.namespace}）：已运行", "dialog .why")
        chinese.see("进度会丢失", "dialog .why")
    carry_out(page)
    # The job was replaced: its page follows to the new one.
    page.get_by_role("heading", level=1).get_by_text("train").wait_for()
    page.click("nav.tabs >> text=Document")
    visit.see("kind: training")


def test_finished_job_runs_again_and_is_deleted(visit: Visit, place: Place, served: Served) -> None:
    place.apply(training(job=outcome("complete")))
    place.ended("train")
    served.until("/jobs/train", lambda value: value["status"] == "succeeded", namespace=place.namespace)
    page = open_job(visit.log_in(), place, "train")
    assert plan_of(page, "Run again") == f"gpuctl rerun training/train -n {place.namespace}"
    page.locator("dialog .buttons button").nth(0).click()
    command = plan_of(page, "Delete")
    assert command == f"gpuctl delete training train -n {place.namespace}"
    page.locator("dialog .buttons button").nth(1).click()
    visit.see("No job matches.")
    assert not place.exists("Job", "train")


def refused(page: Any, button: str, said: str) -> None:
    """Press a button, wait until its preview is refused with a text, and close the dialog."""
    page.get_by_role("button", name=button, exact=True).first.click()
    page.locator("dialog .problem").get_by_text(said).first.wait_for()
    assert page.locator("dialog .buttons button").nth(1).is_disabled()
    page.get_by_role("button", name="Cancel", exact=True).click()


def test_refused_preview_of_each_change_is_no_error_of_the_browser(visit: Visit, place: Place, served: Served) -> None:
    """A browser reports each error status, which fails the test."""
    place.apply(training("still"), training("over", job=outcome("complete")), training(), inference("chat"))
    served.until_running("train", place.namespace)
    place.apply(training(environment={"image": "registry.example.com/other:v2"}), flags=("--yes",))
    served.call("POST", "/jobs/still/pause", params={"namespace": place.namespace})
    place.ended("over")
    for form, kind, name in (("batch/Job", "Job", "train"), ("apps/Deployment", "Deployment", "chat")):
        mark = {"argocd.argoproj.io/tracking-id": f"app:{form}:{place.namespace}/{name}"}
        place.patch(kind, name, {"metadata": {"annotations": mark}})
    place.limit(gpu="0")
    served.until("/jobs/over", lambda value: value["status"] == "succeeded", namespace=place.namespace)
    served.until_running("train", place.namespace)
    tracked = "is managed by Argo CD (application app)"
    page = open_job(visit.log_in(), place, "train", "?tab=history")
    refused(page, "Roll back", tracked)
    page = open_job(visit, place, "chat")
    refused(page, "Pause", tracked)
    refused(page, "Delete", tracked)
    refused(open_job(visit, place, "over"), "Run again", "quota")
    visit.open(f"/new?namespace={place.namespace}&pool=drill")
    visit.until_document()
    visit.write_document(json.dumps(training("train", job={"namespace": place.namespace}, resources={"gpu": 2})))
    page.locator(PLAN).wait_for()
    refused(page, "Apply …", tracked)
    # A job that is deleted after its page was loaded.
    open_job(visit, place, "still")
    page.get_by_role("button", name="Resume", exact=True).wait_for()
    page.route("**/api/v1/jobs*", lambda route: None)
    place.api.delete("Job", place.namespace, "still")
    served.until_gone("/jobs/still", namespace=place.namespace)
    refused(page, "Resume", "there is no job or pod still")
    page.unroute_all()


def test_job_over_a_full_quota_is_created_if_it_may_wait(visit: Visit, place: Place, served: Served) -> None:
    place.limit(gpu="2")
    place.apply(training("first", resources={"gpu": 2}))
    place.running("first")
    visit.log_in().open(f"/new?namespace={place.namespace}&pool=drill")
    visit.until_document()
    visit.write_document(json.dumps(training("second", job={"namespace": place.namespace})))
    page = visit.page
    page.locator(PLAN).click()
    visit.see("--queue creates it anyway", "dialog .problem")
    page.get_by_label("Create it anyway").check()
    visit.see("will wait: quota few", "dialog .step")
    assert page.locator("dialog .command code").inner_text() == "gpuctl apply -f FILE --queue"
    assert visit.barriers() == []
    carry_out(page)
    assert place.exists("Job", "second")


def test_new_job_has_findings_at_their_lines_and_a_plan(visit: Visit, place: Place, served: Served) -> None:
    visit.log_in().open(f"/new?namespace={place.namespace}&pool=drill")
    page = visit.page
    wrong = f"kind: training\nversion: v0.1\njob: {{name: fresh, namespace: {place.namespace}}}\ncolour: red\n"
    visit.until_document()
    visit.write_document(wrong)
    finding = page.locator(".finding.error").filter(has_text="colour")
    finding.wait_for()
    finding.get_by_role("button").click()
    assert page.evaluate(SELECTED) == "colour"
    page.wait_for_function(MARKED, arg=3)
    page.locator(".heading button.main[aria-disabled]").wait_for()
    page.locator("button[lang=zh-CN]").click()
    page.locator(".finding.error").filter(has_text="training 文档中没有字段 colour").wait_for()
    page.locator("button[lang=en]").click()
    finding.wait_for()
    visit.write_document(json.dumps(training("fresh", job={"namespace": place.namespace})))
    page.locator(PLAN).click()
    visit.see("job/fresh", "dialog")
    carry_out(page)
    served.until_running("fresh", place.namespace)


@pytest.mark.parametrize(
    ("user", "changes", "said", "line"),
    [
        ("anna", {"job": {"namespace": "team-b"}}, "the namespaces of this token are team-a", "namespace: team-b"),
        ("otto", {"job": {"namespace": "team-b"}, "resources": {"pool": "secret"}}, "the pools of this token are", "pool: secret"),
    ],
)  # fmt: skip
def test_refused_document_is_a_finding_at_its_line(
    visit: Visit, user: str, changes: dict[str, Any], said: str, line: str
) -> None:
    """A browser reports each error answer, which fails the test."""
    visit.log_in(user).open("/new")
    page = visit.page
    visit.until_document()
    visit.write_document(yaml.safe_dump(training("refused", **changes), sort_keys=False))
    finding = page.locator(".finding.error").filter(has_text=said)
    finding.get_by_role("button").click()
    assert page.evaluate(SELECTED) in line
    # Several keys are checked one by one.
    for key in "x", "y":
        visit.editor.press("ControlOrMeta+End")
        page.keyboard.type(f"# {key}")
        with page.expect_response("**/fit?*") as answer:
            pass
        assert answer.value.status == 200
    page.locator(".heading button.main[aria-disabled]").wait_for()


@pytest.mark.slow
def test_documents_of_every_size_and_language_are_checked_and_applied(
    visit: Visit, place: Place, served: Served
) -> None:
    visit.log_in().open(f"/new?namespace={place.namespace}&pool=drill")
    page = visit.page
    visit.until_document()
    one = json.dumps(training("one", job={"namespace": place.namespace, "description": "每日微调 <b>任务</b>"}), ensure_ascii=False)  # fmt: skip
    two = json.dumps(training("two", job={"namespace": place.namespace}))
    visit.write_document(f"{one}\n---\n{two}\n")
    for name in ("one", "two"):
        page.locator(".finding").filter(has_text=f"{place.namespace}/{name}").wait_for()
    # Invalid YAML, and a large document after it, whose only error is at its end.
    visit.write_document("job: [1, {\n")
    page.locator(".finding.error").filter(has_text="line").first.wait_for()
    large = "".join(f"# {number} {'数据' * 20}\n" for number in range(2500))
    assert len(large.encode()) > 200_000
    visit.write_document(f"{large}{one}\n---\n{two}\ncolour: red\n")
    page.locator(".finding.error").filter(has_text="line 2504").first.wait_for()
    visit.write_document(f"{large}{one}\n---\n{two}\n")
    page.locator(PLAN).click()
    for name in ("one", "two"):
        visit.see(f"job/{name}", "dialog")
    carry_out(page)
    served.until_running("two", place.namespace)
    assert "每日微调 <b>任务</b>" in served.get("/jobs/one/details", namespace=place.namespace)["yamlContent"]
    # A name that exists: the plan is that of a change.
    visit.open(f"/new?namespace={place.namespace}&pool=drill")
    page.reload()
    visit.until_document()
    visit.write_document(json.dumps(training("two", job={"namespace": place.namespace}, resources={"gpu": 2})))
    page.locator(PLAN).click()
    visit.see("resources.gpu", "dialog")
    visit.see("You confirm:", "dialog")
    page.locator("dialog summary", has_text="unchanged").click()
    visit.see(f"namespace/{place.namespace}", "dialog details")


@pytest.mark.slow
def test_plan_names_the_jobs_that_it_would_evict(browser: Any, visit: Visit, place: Place, served: Served) -> None:
    own = {"pool": place.namespace, "gpu": 64}
    with pool_node(place.plane, f"{place.namespace}-full", **{"runwhere.ai/pool": place.namespace}):
        place.apply(training("victim", resources=own, job={"priority": "low"}))
        served.until_running("victim", place.namespace)
        visit.log_in().open(f"/new?namespace={place.namespace}")
        visit.until_document()
        urgent = training("urgent", resources=own, job={"namespace": place.namespace, "priority": "high"})
        visit.write_document(json.dumps(urgent))
        visit.page.locator(PLAN).click()
        visit.see("It would evict:", "dialog .step")
        assert "training/victim" in visit.page.locator("dialog .step li").inner_text()
        visit.see(f"evicts training/victim in {place.namespace}", "dialog .why")
        # A user of another namespace may not see the victim.
        with visiting(browser, served) as other:
            other.log_in("anna").open("/new?namespace=team-a")
            other.until_document()
            other.write_document(json.dumps({**urgent, "job": {**urgent["job"], "namespace": "team-a"}}))
            other.see("evicts jobs that you may not see", ".finding")
            other.page.locator(PLAN).click()
            other.see("jobs that you may not see", "dialog .step")
            assert "null" not in other.page.locator("dialog").inner_text()


@pytest.mark.slow
def test_editor_is_used_with_the_keyboard_alone(visit: Visit, place: Place) -> None:
    visit.log_in().open(f"/new?namespace={place.namespace}&pool=drill")
    page = visit.page
    visit.until_document()
    first = visit.document()
    page.get_by_label("Memory", exact=True).fill("2Gi")
    visit.editor.press("ControlOrMeta+End")
    page.keyboard.type("service:\nport: 1")
    assert visit.document() == first.replace("32Gi", '"2Gi"') + "service:\n  port: 1"
    # What was typed, then what the form has written; the document to start from stays.
    for _ in range(30):
        visit.editor.press("ControlOrMeta+z")
    assert visit.document() == first
    assert page.get_by_label("Memory", exact=True).input_value() == "32Gi"
    visit.editor.press("ControlOrMeta+f")
    page.keyboard.type("my-job")
    page.keyboard.press("Enter")
    page.locator(".cm-searchMatch-selected").wait_for()
    assert visit.barriers() == []
    page.keyboard.press("Escape")
    assert page.evaluate(SELECTED) == "my-job"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.shadowRoot") is None


@pytest.mark.slow
def test_text_area_replaces_an_editor_that_cannot_be_loaded(visit: Visit, place: Place) -> None:
    page = visit.page
    page.route("**/codemirror.js", lambda route: route.fulfill(status=404))
    visit.log_in().open(f"/new?namespace={place.namespace}&pool=drill")
    page.locator(".numbers > div").nth(9).wait_for()
    visit.editor.fill("kind: training\nversion: v0.1\ncolour: red\n")
    finding = page.locator(".finding.error").filter(has_text="colour")
    finding.get_by_role("button").click()
    selected = "(field => field.value.slice(field.selectionStart, field.selectionEnd))(document.activeElement)"
    assert page.evaluate(selected) == "colour"
    assert "3" in page.locator(".numbers .error").all_inner_texts()
    page.get_by_label("Name", exact=True).fill("fresh")
    assert visit.editor.input_value().endswith("colour: red\njob:\n  name: fresh\n")
    assert visit.barriers() == []
    assert all("codemirror.js" in trouble for trouble in visit.troubles)
    visit.troubles.clear()


def test_form_writes_the_document_and_keeps_the_rest(visit: Visit, place: Place, served: Served) -> None:
    visit.log_in().open(f"/new?namespace={place.namespace}")
    page = visit.page
    page.get_by_label("Name", exact=True).wait_for()
    visit.until_document()
    # Until something is written, there is no verdict.
    visit.see("This is an example.")
    page.wait_for_timeout(1500)
    assert (page.locator("#main .status").count(), page.locator(PLAN).count()) == (0, 0)
    # By the keyboard alone, from field to field.
    page.get_by_label("Kind", exact=True).focus()
    page.keyboard.type("training")
    for text in ("formed", place.namespace, "registry.example.com/app:v1", "sh -c 'echo \"a b\"' x"):
        page.keyboard.press("Tab")
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type(text)
    page.get_by_label("Pool", exact=True).select_option("drill")
    page.get_by_label("Number of nodes", exact=True).fill("2")
    page.get_by_label("Memory", exact=True).fill("1Gi")
    page.get_by_label("CPU cores", exact=True).fill("0.5")
    page.get_by_label("Storage", exact=True).fill("data:/data /scratch")
    text = visit.document()
    assert "  name: formed\n" in text
    assert '  command: ["sh", "-c", "echo \\"a b\\"", "x"]\n' in text
    assert "    - {pvc: {claim: data}, mountPath: /data}\n    - {path: /scratch}\n" in text
    # What is written beside the form stays, and the form shows it.
    visit.write_document(text.replace("  name: formed", "  name: formed # mine\n  priority: high") + "# the end\n")
    page.get_by_label("Storage", exact=True).fill("")
    page.get_by_label("Command", exact=True).fill("sh -c 'sleep 1")
    visit.see("This cannot be written yet.")
    page.get_by_label("Command", exact=True).fill("sleep 1")
    text = visit.document()
    assert "  name: formed # mine\n  priority: high\n" in text
    assert ("storage" not in text, '["sleep", "1"]' in text, text.endswith("# the end\n")) == (True, True, True)
    visit.write_document(text.replace("resources:\n", "resources: {}\nold:\n"))
    error = page.locator(".finding.error")
    error.first.wait_for()
    assert page.get_by_label("Memory", exact=True).is_disabled()
    visit.write_document(text)
    # The answer about the last text: axe-core fails if an element that it checks is removed.
    error.first.wait_for(state="detached")
    assert visit.barriers() == []
    page.locator(PLAN).click()
    visit.see("job/formed", "dialog")
    carry_out(page)
    assert place.get("Job", "formed")["spec"]["completions"] == 2
    visit.open(f"/jobs/{place.namespace}/formed")
    page.get_by_role("heading", level=1).get_by_text("formed").wait_for()


def begin_document(visit: Visit, place: Place, text: str = "colour: red\n") -> str:
    """Write a document, and wait until it is checked. Return the text of the editor."""
    visit.open(f"/new?namespace={place.namespace}&pool=drill")
    visit.until_document()
    visit.write_document(text)
    visit.page.locator(".finding.error").first.wait_for()
    return visit.document()


def test_document_survives_the_end_of_the_session(visit: Visit, place: Place, served: Served) -> None:
    text = begin_document(visit.log_in(), place, "kind: training\ncolour: red\n")
    page = visit.page
    page.context.clear_cookies()
    visit.editor.press("ControlOrMeta+End")
    page.keyboard.type("# more")
    visit.see("Your session has ended.")
    visit.see("is kept in this tab for admin")
    assert visit.barriers() == []
    page.locator("#token:focus").wait_for()
    page.fill("#token", served.tokens["admin"])
    page.press("#token", "Enter")
    visit.see("This is your document that was not applied.")
    page.locator(".cm-line").nth(2).wait_for()
    assert visit.document() == f"{text}# more"
    # The same document after a reload, a click on another page, and a click on the link to a new one.
    page.reload()
    page.locator(".cm-line").nth(2).wait_for()
    assert visit.document() == f"{text}# more"
    visit.open("/jobs")
    page.get_by_role("link", name="New job").click()
    page.locator(".cm-line").nth(2).wait_for()
    assert visit.document() == f"{text}# more"
    assert page.evaluate("[...Object.keys(localStorage)].sort()") == ["gpuctl.language", "gpuctl.theme"]
    page.get_by_role("button", name="Discard it").click()
    visit.until_document()
    page.locator("h1:focus").wait_for()
    assert page.evaluate("sessionStorage.length") == 0
    visit.troubles.clear()


def test_document_that_is_written_while_another_is_applied_is_kept(visit: Visit, place: Place) -> None:
    visit.log_in().open(f"/new?namespace={place.namespace}&pool=drill")
    visit.until_document()
    visit.write_document(json.dumps(training("first", job={"namespace": place.namespace})))
    page, held = visit.page, list[Any]()
    plan_of(page, "Apply …")
    page.route("**/api/v1/apply*", lambda route: held.append(route))
    page.locator("dialog .buttons button").nth(1).click()
    page.get_by_role("button", name="Close", exact=True).click()
    # The focus returns to this button.
    page.locator("button:focus", has_text="Apply …").wait_for()
    visit.write_document("colour: red\n")
    page.locator(".finding.error").first.wait_for()
    with page.expect_request_finished():
        held[0].continue_()
    assert place.exists("Job", "first")
    page.wait_for_timeout(500)
    assert "red" in page.evaluate("sessionStorage.getItem('gpuctl.draft')")


def test_document_is_not_shown_to_another_user_of_the_tab(visit: Visit, place: Place, served: Served) -> None:
    begin_document(visit.log_in(), place)
    page = visit.page
    page.context.clear_cookies()
    # The page is loaded anew, as after a login at an identity provider.
    page.reload()
    visit.see("is kept in this tab for admin")
    assert "red" in page.evaluate("sessionStorage.getItem('gpuctl.draft')")
    page.fill("#token", served.tokens["anna"])
    page.press("#token", "Enter")
    visit.until_document()
    assert "red" not in visit.document()
    assert page.evaluate("sessionStorage.length") == 0
    visit.troubles.clear()


def test_logout_discards_the_document_after_a_question(visit: Visit, place: Place) -> None:
    begin_document(visit.log_in(), place)
    page, questions = visit.page, list[str]()
    page.once("dialog", lambda dialog: (questions.append(dialog.message), dialog.dismiss()))
    page.get_by_role("button", name="Log out").click()
    assert "red" in visit.document()
    page.once("dialog", lambda dialog: (questions.append(dialog.message), dialog.accept()))
    page.get_by_role("button", name="Log out").click()
    page.wait_for_selector("#token")
    assert page.evaluate("sessionStorage.length") == 0
    assert len(questions) == 2
    assert "Log out and discard it?" in questions[0]


@pytest.mark.slow
def test_document_is_kept_until_it_is_applied(visit: Visit, place: Place) -> None:
    begin_document(visit.log_in(), place)
    page = visit.page
    visit.write_document(json.dumps(training("kept", job={"namespace": place.namespace})))
    page.locator(PLAN).click()
    visit.see("job/kept", "dialog")
    assert "kept" in page.evaluate("sessionStorage.getItem('gpuctl.draft')")
    carry_out(page)
    assert page.evaluate("sessionStorage.length") == 0


@pytest.mark.slow
def test_leaving_warns_if_the_document_cannot_be_stored(visit: Visit, place: Place) -> None:
    page = visit.page
    full = "() => { Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }; }"
    begin_document(visit.log_in(), place)
    page.evaluate(full)
    visit.editor.press("ControlOrMeta+End")
    page.keyboard.type("# more")
    warned: list[str] = []
    page.once("dialog", lambda dialog: (warned.append(dialog.type), dialog.accept()))
    page.reload()
    assert warned == ["beforeunload"]


@pytest.mark.slow
def test_form_follows_the_kind(visit: Visit, place: Place) -> None:
    visit.log_in().open(f"/new?namespace={place.namespace}&pool=drill")
    page = visit.page
    visit.until_document()
    page.get_by_label("Number of nodes", exact=True).fill("2")
    page.get_by_label("Kind", exact=True).select_option("inference")
    assert "nodes" not in visit.document()
    page.get_by_label("Port", exact=True).fill("9000")
    assert visit.document().endswith("service:\n  port: 9000\n")
    page.get_by_label("Kind", exact=True).select_option("training")
    assert "service" not in visit.document()


def test_link_writes_its_values_as_text(visit: Visit) -> None:
    """Who sends a link chooses the namespace and the pool, and nothing else of the document."""
    visit.log_in().open("/new?namespace=a%0Aenvironment:%20%7B%7D&pool=1e3")
    visit.until_document()
    document = yaml.safe_load(visit.document())
    assert (document["job"]["namespace"], document["resources"]["pool"]) == ("a\nenvironment: {}", "1e3")
    visit.editor.press("ControlOrMeta+End")
    visit.page.keyboard.type("# checked")
    visit.page.locator(".finding.error").first.wait_for()


def test_viewer_gets_a_reason_instead_of_actions(visit: Visit, place: Place, served: Served) -> None:
    place.apply(training())
    served.until_running("train", place.namespace)
    page = open_job(visit.log_in("vera"), place, "train")
    visit.see("the role viewer reads only", ".heading")
    assert page.locator(".heading .actions button").count() == 0
    assert "History" not in page.locator("nav.menu").inner_text()
    visit.open("/history")
    visit.see("this needs the role admin")
    visit.open("/new")
    visit.see("the role viewer reads only")


@pytest.mark.slow
def test_changes_are_listed_in_the_history(visit: Visit, place: Place, served: Served) -> None:
    place.apply(training())
    served.until_running("train", place.namespace)
    served.call("POST", "/jobs/train/pause", params={"namespace": place.namespace})
    visit.log_in().open(f"/history?namespace={place.namespace}")
    visit.see("POST /api/v1/jobs/{jobId}/pause", "tbody")
