/** A new job from a form or YAML: diagnostics at their lines, whether it fits, the plan, then apply. */
import { call, listIfAllowed, sendChange, session } from "../api.js";
import { draft, dropDraft, keepDraft } from "../document/draft.js";
import { Editor } from "../document/editor.js";
import { DocumentForm } from "../document/form.js";
import { isOne, read, scalar } from "../document/lines.js";
import { rangesOf } from "../document/ranges.js";
import { useLoaded, useRight } from "../load.js";
import { Ago, Button, Heading, Lacking, Notes, Opening, Problem, Rich, Verdict, Withheld, html, worded } from "../parts.js";
import { ChangeDialog } from "../plan.js";
import { language } from "../prefs.js";
import { address, route } from "../route.js";
import { t } from "../texts.js";
import { useEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.js";
import { victimNames } from "./job-waits.js";

const WAIT = 600;
/** Milliseconds after which a check is tried again that failed because of the service or the cluster. */
const AGAIN = 10_000;
/** Age up to which lists of all pods that another request has read will do, seconds: a change of the text reads them again. */
const SHARED = 30;
const EMPTY = { state: "empty", details: [] };
const JOB = "version: v0.1\njob:\n  name: my-job\n  namespace: NAMESPACE\nenvironment:\n  image: registry.example.com/image:tag\n";
const SIZE = "resources:\n  pool: POOL\n  gpu: 1\n  cpu: 8\n  memory: 32Gi\n";
/** Kind -> a document to start from. @type {Record<string, string>} */
const TEMPLATES = {
  training: `kind: training\n${JOB}  command: ["python", "train.py"]\n${SIZE}`,
  inference: `kind: inference\n${JOB}  command: ["python", "serve.py"]\n${SIZE}service:\n  replicas: 1\n  port: 8000\n`,
  notebook: `kind: notebook\n${JOB}${SIZE}service:\n  port: 8888\n`,
  compute: `kind: compute\n${JOB}  command: ["python", "job.py"]\nresources:\n  pool: POOL\n  cpu: 4\n  memory: 8Gi\nservice:\n  replicas: 1\n  port: 8080\n`,
};

export default function New() {
  const may = useRight("create", "jobs");
  const [kept, setKept] = useState(draft.value);
  const [text, setText] = useState(kept?.text ?? "");
  const [isTouched, setTouched] = useState(kept !== null);
  const [turn, setTurn] = useState(0);
  const pools = useLoaded((ended) => listIfAllowed("pools", "/pools", {}, ended), [], 0);
  const known = pools.data?.items || [];
  const pool = roomiest(known);
  // A verdict about the amounts of an example would be none about the user's job.
  const isExample = Object.values(TEMPLATES).some((template) => filled(template, pool) === text);
  useEffect(() => {
    if (!isTouched && (pools.data || pools.error)) setText(filled(TEMPLATES.training, pool));
  }, [pools.data, pools.error]);
  const change = (/** @type {string} */ value) => {
    // The editor also reports a text that it was given.
    if (value === text) return;
    setTouched(true);
    setText(value);
    keepDraft(value);
  };
  const begin = (/** @type {string} */ kind) => { setTouched(true); setText(filled(TEMPLATES[kind], pool)); setKept(null); dropDraft(); };
  const [checked, setChecked] = useState(/** @type {any} */ (EMPTY));
  const [open, setOpen] = useState(false);
  const control = useRef(/** @type {import("../document/editor.js").EditorProps["control"]["current"]} */ (null));
  const body = (/** @type {Record<string, unknown>} */ more = {}) => ({ yamlContent: text, ...more });
  useEffect(() => {
    if (!text.trim() || isExample) {
      setChecked(EMPTY);
      return undefined;
    }
    const ending = new AbortController();
    let again = 0;
    const timer = setTimeout(async () => {
      try {
        const answer = await call("POST", "/fit", { query: { holders: 0, maxAge: SHARED }, body: body(), signal: ending.signal });
        setChecked({ state: "checked", fit: answer, details: answer.warnings || [] });
      } catch (error) {
        if (ending.signal.aborted) return;
        const problem = /** @type {import("../api.js").ApiError} */ (error);
        // The refusal of a document has its findings.
        const details = problem.details.filter((item) => item.severity);
        setChecked({ state: "refused", error: details.length ? null : problem, details });
        if (problem.isPassing) again = setTimeout(() => setTurn((value) => value + 1), AGAIN);
      }
    }, WAIT);
    return () => { clearTimeout(timer); clearTimeout(again); ending.abort(); };
  }, [text, turn, language.value]);
  // The editor marks findings again when the list changes, not with each key.
  const placed = useMemo(() => checked.details.filter((item) => item.line), [checked]);
  if (may && !may.allowed) return html`<${Heading} title=${t("New job")} /><${Withheld} right=${may} />`;
  const show = (/** @type {any} */ item) => control.current?.select(rangesOf(text, [item])[0]);
  const run = (/** @type {boolean} */ dryRun, /** @type {string[]} */ confirmed, /** @type {boolean} */ queue) =>
    sendChange("/apply", dryRun, { queue: queue || "" }, body({ confirmed }));
  const applied = () => {
    // The dialog can be closed before: what was written since then is not applied.
    if (draft.value && draft.value.text !== text) return;
    setKept(null);
    dropDraft();
  };
  const errors = checked.details.filter((item) => item.severity === "error");
  return html`<div class="stay"><${Heading} title=${t("New job")}>
      <${Button} class="main" isOff=${checked.state !== "checked" || errors.length > 0} onClick=${() => setOpen(true)}>${t("Apply …")}<//>
    <//></div>
    ${kept && html`<p class="notes" role="status">${t("This is your document that was not applied. Last change:")} <${Ago} time=${kept.time} /> <button class="link" onClick=${() => begin("training")}>${t("Discard it")}</button></p>`}
    <${Lacking} what=${t("Pools")} loaded=${pools} />
    <p class="filters starts">
      <span>${t("Start with:")}</span>
      ${Object.keys(TEMPLATES).map((kind) => html`<button class="small" onClick=${() => begin(kind)}>${kind}</button>`)}
    </p>
    <div class="new">
      <section aria-labelledby="form">
        <h2 id="form" class="label">${t("Form")}</h2>
        <${DocumentForm} text=${text} pools=${known} onChange=${change} />
      </section>
      <div>
        <h2 class="label">${t("Documents in YAML")}</h2>
        <${Editor} control=${control} text=${text} onInput=${change} details=${placed} />
      </div>
      <section aria-labelledby="findings" aria-live="polite">
        <h2 id="findings" class="label">${t("Findings")}</h2>
        ${checked.state === "empty" && html`<p class="quiet">${isExample ? t("This is an example. Write the name, the image and the command of your job; the document is checked while you type.") : text.trim() ? t("Checking …") : t("Write or paste a document; it is checked while you type.")}</p>`}
        ${checked.error && html`<${Problem} error=${checked.error} retry=${checked.error.isPassing ? () => setTurn((value) => value + 1) : undefined} />`}
        ${checked.details.map((item) => html`<div class="finding ${item.severity}">
          <p>${item.line && html`<button class="link" onClick=${() => show(item)}>${t("line {line}", { line: item.line })}</button>`} <strong>${worded(item.severity)}</strong> <code>${item.code}</code></p>
          <p class="lines"><${Rich} text=${item.message} /></p>
          ${item.hint && html`<p class="lines fix"><${Rich} text=${item.hint} /></p>`}
        </div>`)}
        ${checked.state === "checked" && html`<${Fit} fit=${checked.fit} />`}
      </section>
    </div>
    ${open && html`<${ChangeDialog} title=${t("Apply")} label=${t("Apply")} command="gpuctl apply -f FILE" run=${run} onClose=${() => setOpen(false)} onDone=${applied}
      after=${html`<${Next} text=${text} />`} />`}`;
}

/** Where to look after a job was applied. @param {{text: string}} props */
function Next({ text }) {
  const [name, namespace] = isOne(text) ? [read(text, "job.name"), read(text, "job.namespace") || "default"] : [];
  if (!name || !namespace) return html`<p><a href=${address(["jobs"])}>${t("To the jobs")}</a></p>`;
  return html`<p><a class="button" href=${address(["jobs", namespace, name])}>${t("To the job")}</a> <a class="button" href=${address(["jobs", namespace, name], { tab: "logs" })}>${t("Follow its logs")}</a></p>`;
}

/** Return the pool with the most free GPUs. @param {any[]} pools */
const roomiest = (pools) => [...pools].sort((one, other) => other.gpuFree - one.gpuFree)[0]?.name || "default";

/** Return a template with the user's namespace and a pool. @param {string} text @param {string} pool */
function filled(text, pool) {
  const query = route.value.query;
  const namespace = query.namespace || session.value?.namespaces?.[0] || "default";
  // Functions: a replacement with `$` would be read as a pattern.
  return text.replace("NAMESPACE", () => scalar(namespace)).replace("POOL", () => scalar(query.pool || pool));
}

/** @param {{fit: any}} props */
function Fit({ fit }) {
  return html`<${Notes} notes=${[...(fit.notes || []), ...(fit.messages || [])]} />
    ${fit.jobs.map((job) => html`<div class="finding">
      <p><span class="quiet">${job.namespace}/</span>${job.name} <${Verdict} word=${job.verdict} /></p>
      ${job.reason && html`<p class="lines"><${Rich} text=${job.reason} /></p>`}
      ${job.victims.length > 0 && html`<p>${t("evicts {names}", { names: victimNames(job.victims) })}</p>`}
      ${job.opening && html`<p><${Opening} opening=${job.opening} /></p>`}
      ${job.smallestChange && html`<p class="fix"><${Rich} text=${job.smallestChange} /></p>`}
    </div>`)}`;
}
