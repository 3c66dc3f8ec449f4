/** A new job from YAML: diagnostics at their lines, whether it fits, the plan, then apply. */
import { call, session } from "../api.js";
import { useRight } from "../load.js";
import { Absent, Heading, Notes, Problem, Rich, Status, html } from "../parts.js";
import { ChangeDialog } from "../plan.js";
import { address, route } from "../route.js";
import { t } from "../texts.js";
import { useEffect, useRef, useState } from "../vendor/preact-hooks.js";

const WAIT = 600;
const JOB = "job: {name: NAME, namespace: NAMESPACE}\nenvironment:\n  image: IMAGE\n";
const SIZE = "resources: {pool: POOL, gpu: 1, cpu: 8, memory: 32Gi}\n";
/** Kind -> a document to start from. @type {Record<string, string>} */
const TEMPLATES = {
  training: `kind: training\nversion: v0.1\n${JOB}  command: ["python", "train.py"]\n${SIZE}`,
  inference: `kind: inference\nversion: v0.1\n${JOB}  command: ["python", "serve.py"]\nservice: {port: 8000, replicas: 1}\n${SIZE}`,
  notebook: `kind: notebook\nversion: v0.1\n${JOB}service: {port: 8888}\n${SIZE}`,
  compute: `kind: compute\nversion: v0.1\n${JOB}  command: ["python", "job.py"]\nservice: {port: 8080, replicas: 1}\nresources: {pool: POOL, cpu: 4, memory: 8Gi}\n`,
};

export default function New() {
  const may = useRight("create", "jobs");
  const [text, setText] = useState("");
  const [checked, setChecked] = useState(/** @type {any} */ ({ state: "empty" }));
  const [open, setOpen] = useState(false);
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const body = (/** @type {Record<string, unknown>} */ more = {}) => ({ yamlContent: text, ...more });
  useEffect(() => {
    if (!text.trim()) {
      setChecked({ state: "empty" });
      return undefined;
    }
    const ending = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const answer = await call("POST", "/fit", { body: body(), signal: ending.signal });
        setChecked({ state: "checked", fit: answer, details: answer.warnings || [] });
      } catch (error) {
        if (ending.signal.aborted) return;
        const details = /** @type {any} */ (error).details.filter((item) => item.line);
        setChecked({ state: "refused", error: details.length ? null : error, details });
      }
    }, WAIT);
    return () => { clearTimeout(timer); ending.abort(); };
  }, [text]);
  if (may && !may.allowed) return html`<${Heading} title=${t("New job")} /><${Absent} reason=${may.message} />`;
  /** @param {any} item */
  const show = (item) => {
    const lines = text.split("\n");
    const start = lines.slice(0, item.line - 1).join("\n").length + (item.line > 1 ? 1 : 0) + (item.column || 1) - 1;
    const end = item.endLine === item.line ? start + Math.max(1, item.endColumn - item.column) : start + 1;
    area.current?.focus();
    area.current?.setSelectionRange(start, end);
  };
  const run = (/** @type {boolean} */ dryRun, /** @type {string[]} */ confirmed) =>
    call("POST", "/apply", { query: { dryRun: dryRun || "" }, body: body({ confirmed }) });
  const errors = checked.details?.filter((item) => item.severity === "error") || [];
  return html`<${Heading} title=${t("New job")}>
      <button class="main" disabled=${checked.state !== "checked" || errors.length > 0} onClick=${() => setOpen(true)}>${t("Plan")}</button>
    <//>
    <p class="filters">
      <span>${t("Start with:")}</span>
      ${Object.keys(TEMPLATES).map((kind) => html`<button class="small" onClick=${() => setText(filled(TEMPLATES[kind]))}>${kind}</button>`)}
    </p>
    <div class="columns">
      <div>
        <label class="label" for="document">${t("Documents in YAML")}</label>
        <${Editor} area=${area} text=${text} onInput=${setText} details=${checked.details || []} />
      </div>
      <section aria-labelledby="findings" aria-live="polite">
        <h2 id="findings" class="label">${t("Findings")}</h2>
        ${checked.state === "empty" && html`<p class="quiet">${t("Write or paste a document; it is checked while you type.")}</p>`}
        ${checked.error && html`<${Problem} error=${checked.error} />`}
        ${checked.details?.map((item) => html`<div class="finding ${item.severity}">
          <p><button class="link" onClick=${() => show(item)}>${t("line {line}", { line: item.line })}</button> <strong>${item.severity}</strong> <code>${item.code}</code></p>
          <p class="lines"><${Rich} text=${item.message} /></p>
          ${item.hint && html`<p class="lines fix"><${Rich} text=${item.hint} /></p>`}
        </div>`)}
        ${checked.state === "checked" && html`<${Fit} fit=${checked.fit} />`}
      </section>
    </div>
    ${open && html`<${ChangeDialog} title=${t("Apply")} label=${t("Apply")} command="gpuctl apply -f FILE" run=${run} onClose=${() => setOpen(false)} onDone=${() => undefined}
      after=${html`<p><a href=${address(["jobs"])}>${t("To the jobs")}</a></p>`} />`}`;
}

/** Return a template with the user's namespace and pool. @param {string} text */
function filled(text) {
  const { namespaces, pools } = session.value || {};
  const query = route.value.query;
  return text.replace("NAMESPACE", query.namespace || namespaces?.[0] || "default").replace("POOL", query.pool || pools?.[0] || "default").replace("NAME", "my-job").replace("IMAGE", "registry.example.com/image:tag");
}

/** A text area with line numbers; a line with a finding is marked. @param {{area: any, text: string, onInput: (text: string) => void, details: any[]}} props */
function Editor({ area, text, onInput, details }) {
  const numbers = useRef(/** @type {HTMLElement | null} */ (null));
  const marked = new Map(details.map((item) => [item.line, item.severity]));
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    // Tab leaves the field, as everywhere on the page; Enter keeps the indentation.
    if (event.key !== "Enter" || event.isComposing) return;
    const field = /** @type {HTMLTextAreaElement} */ (event.target);
    const line = field.value.slice(0, field.selectionStart).split("\n").pop() || "";
    const indent = (/^ */.exec(line) || [""])[0] + (/:\s*$/.test(line) ? "  " : "");
    if (!indent) return;
    event.preventDefault();
    field.setRangeText(`\n${indent}`, field.selectionStart, field.selectionEnd, "end");
    onInput(field.value);
  };
  return html`<div class="editor">
    <div class="numbers" ref=${numbers} aria-hidden="true">
      ${text.split("\n").map((_, place) => html`<div class=${marked.get(place + 1) || ""}>${place + 1}</div>`)}
    </div>
    <textarea
      id="document"
      ref=${area}
      value=${text}
      rows="24"
      wrap="off"
      spellcheck=${false}
      autocapitalize="off"
      onInput=${(event) => onInput(event.target.value)}
      onKeyDown=${onKey}
      onScroll=${(event) => { if (numbers.current) numbers.current.scrollTop = event.target.scrollTop; }}
    ></textarea>
  </div>`;
}

/** @param {{fit: any}} props */
function Fit({ fit }) {
  return html`<${Notes} notes=${[...(fit.notes || []), ...(fit.messages || [])]} />
    ${fit.jobs.map((job) => html`<div class="finding">
      <p><span class="quiet">${job.namespace}/</span>${job.name} <${Status} word=${job.verdict} /></p>
      ${job.reason && html`<p class="lines"><${Rich} text=${job.reason} /></p>`}
      ${job.victims.length > 0 && html`<p>${t("evicts {names}", { names: [...new Set(job.victims.map((victim) => `${victim.namespace}/${victim.job}`))].join(", ") })}</p>`}
      ${job.smallestChange && html`<p class="fix"><${Rich} text=${job.smallestChange} /></p>`}
    </div>`)}`;
}
