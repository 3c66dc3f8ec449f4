/** Changes: the plan is shown first, and only what it asks is confirmed. */
import { Changes, Command, Dialog, Notes, Problem, Rich, Verdict, html, worded } from "./parts.js";
import { counted, t } from "./texts.js";
import { useEffect, useRef, useState } from "./vendor/preact-hooks.js";

/** The steps and questions of a plan. Unchanged objects are counted; their names can be opened. @param {{plan: any}} props */
export function Plan({ plan }) {
  const steps = (plan.steps || []).filter((step) => step.action !== "unchanged");
  const unchanged = (plan.steps || []).filter((step) => step.action === "unchanged");
  return html`${steps.map((step) => html`<${Step} step=${step} key=${`${step.kind}/${step.name}`} />`)}
    ${unchanged.length > 0 && html`<details>
      <summary>${counted(unchanged.length, "{count} object is unchanged.", "{count} objects are unchanged.")}</summary>
      <ul>${unchanged.map((step) => html`<li><${StepObject} step=${step} /></li>`)}</ul>
    </details>`}
    <${Notes} notes=${[...(plan.notes || []), ...(plan.messages || [])]} />
    ${plan.errors?.length > 0 && html`<div class="problem" role="alert">${plan.errors.map((text) => html`<p class="lines"><${Rich} text=${text} /></p>`)}</div>`}`;
}

/** The object of a step. @param {{step: any}} props */
function StepObject({ step }) {
  return html`${step.kind.toLowerCase()}/${step.name}${step.namespace ? html` <span class="quiet">${t("in {namespace}", { namespace: step.namespace })}</span>` : ""}`;
}

/** @param {{step: any}} props */
function Step({ step }) {
  const changes = step.documentChanges?.length ? step.documentChanges : step.changes;
  return html`<div class="step">
    <p>
      <strong>${worded(step.action)}</strong> <${StepObject} step=${step} />
      ${step.verdict && html` <${Verdict} word=${step.verdict} />`}
    </p>
    ${step.reason && html`<p class=${step.documentChanges?.length ? "quiet" : ""}><${Rich} text=${step.reason} /></p>`}
    ${[step.running, step.finished, step.error].filter(Boolean).map((text) => html`<p><${Rich} text=${text} /></p>`)}
    ${step.appliedBy && html`<p class="quiet">${t("Applied by {name}", { name: step.appliedBy })}</p>`}
    ${changes?.length > 0 && html`<${Changes} changes=${changes} />`}
    ${step.victims?.length > 0 && html`<p>${t("It would evict:")}</p>
      <ul>${step.victims.map((victim) => html`<li>${victim.job || t("jobs that you may not see")} <span class="quiet">${[victim.namespace && t("in {namespace}", { namespace: victim.namespace }), victim.owner && t("owner {name}", { name: victim.owner }), victim.runtime && t("has run for {time}", { time: victim.runtime })].filter(Boolean).join(t(", "))}</span></li>`)}</ul>`}
    ${step.waits?.length > 0 && html`<ul>${step.waits.map((wait) => html`<li><${Rich} text=${t(wait.likelihood === null ? "may wait: {message}" : "will wait: {message}", { message: wait.message })} /></li>`)}</ul>`}
  </div>`;
}

/** @typedef {{plan: any, messages: string[]}} Answer */

/** Return the plan and the messages of any answer to a change. @param {any} value @returns {Answer} */
function answerOf(value) {
  if (value.steps) return { plan: value, messages: [] };
  const items = (value.items || []).map((item) => t("{name}: {message}", { name: `${item.kind}/${item.name}`, message: item.message }));
  return { plan: value.plan || null, messages: [...(value.message ? [value.message] : []), ...items] };
}

/** Return all questions of a plan, also those about work that the request names. @param {any} plan @returns {string[]} */
export const questionsOf = (plan) => [...(plan?.questions || []), ...(plan?.courtesies || [])];

/**
 * A change: its plan, then the change itself.
 * @param {{
 *   title: string, label: string, command: string, danger?: boolean, after?: any,
 *   run: (dryRun: boolean, confirmed: string[], queue: boolean) => Promise<any>,
 *   onClose: () => void, onDone: (value: any) => void,
 * }} props
 */
export function ChangeDialog({ title, label, command, danger, after, run, onClose, onDone }) {
  const [answer, setAnswer] = useState(/** @type {Answer | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [phase, setPhase] = useState("planning");
  const [queue, setQueue] = useState(false);
  const turn = useRef(0);
  async function plan() {
    const mine = (turn.current += 1);
    setPhase("planning");
    setError(null);
    setAnswer(null);
    try {
      const value = await run(true, [], queue);
      if (mine !== turn.current) return;
      setAnswer(answerOf(value));
      setPhase("ready");
    } catch (problem) {
      if (mine !== turn.current) return;
      setError(problem);
      setPhase("refused");
    }
  }
  useEffect(() => {
    plan();
    return () => { turn.current += 1; };
  }, [queue]);
  const closing = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    // The button that had the focus is gone, or disabled.
    if (phase === "done" || document.activeElement === document.body) closing.current?.focus();
  }, [phase]);
  async function carryOut() {
    setPhase("running");
    setError(null);
    try {
      const value = await run(false, questionsOf(answer?.plan), queue);
      setAnswer(answerOf(value));
      setPhase("done");
      onDone(value);
    } catch (problem) {
      const said = /** @type {any} */ (problem);
      setError(said);
      // The cluster has changed since the plan: the new one has other questions.
      if (said.plan) setAnswer({ plan: said.plan, messages: [] });
      setPhase(said.plan ? "ready" : "refused");
    }
  }
  const questions = questionsOf(answer?.plan);
  const refused = (answer?.plan?.errors || []).length > 0;
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <div role="status" aria-busy=${phase === "planning" || phase === "running"}>
      ${phase === "planning" && html`<p class="quiet">${t("The plan is being made …")}</p>`}
      ${phase === "running" && html`<p class="quiet">${t("The change is being carried out …")}</p>`}
      ${phase === "done" && html`<p><strong>${t("Done.")}</strong></p>`}
      ${answer?.messages.map((text) => html`<p class="lines"><${Rich} text=${text} /></p>`)}
      ${answer?.plan && html`<${Plan} plan=${answer.plan} />`}
    </div>
    ${phase === "done" && after}
    ${error && html`<${Problem} error=${error} retry=${phase === "refused" ? plan : undefined} />`}
    ${phase === "ready" && questions.length > 0 && html`<div class="why"><p><strong>${t("You confirm:")}</strong></p><ul>${questions.map((text) => html`<li><${Rich} text=${text} /></li>`)}</ul></div>`}
    ${phase !== "done" && (queue || error?.plan?.canQueue) && html`<label class="check"><input type="checkbox" name="queue" checked=${queue} disabled=${phase === "planning" || phase === "running"} onChange=${(event) => setQueue(event.target.checked)} />${t("Create it anyway; it starts when the quota has room")}</label>`}
    <${Command} text=${`${command}${queue ? " --queue" : ""}`} />
    <div class="buttons">
      <button ref=${closing} autofocus onClick=${onClose}>${["running", "done"].includes(phase) ? t("Close") : t("Cancel")}</button>
      ${phase !== "done" && html`<button class=${danger ? "danger" : "main"} disabled=${phase !== "ready" || refused} onClick=${carryOut}>${label}</button>`}
    </div>
  <//>`;
}
