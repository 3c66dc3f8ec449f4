/** Parts that several pages show. */
import { clockLead } from "./api.js";
import { now } from "./load.js";
import { address, setQuery } from "./route.js";
import { counted, duration, moment, number, t } from "./texts.js";
import { useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact-hooks.js";
import { h } from "./vendor/preact.js";
import htm from "./vendor/htm.js";
// Signals read by a component make it render again.
import { signal } from "./vendor/signals.js";

export const html = htm.bind(h);

/** @typedef {import("./load.js").Loaded} Loaded */

/** Words of the API -> their colour; others have none. @type {Record<string, string>} */
const COLOURS = {
  running: "good", succeeded: "good", active: "good", ok: "good", fits: "good", bound: "good", ready: "good",
  pending: "wait", queued: "wait", starting: "wait", terminating: "wait", maintaining: "wait", scheduled: "wait",
  unknown: "wait", preempts: "wait", "fits-when-empty": "wait", full: "wait", waiting: "wait", unschedulable: "wait",
  "partially running": "wait", containercreating: "wait", podinitializing: "wait", schedulinggated: "wait",
  faulty: "bad", never: "bad", oomkilled: "bad", failedcreate: "bad", evicted: "bad", nodelost: "bad",
};
/** Ends of the other words for what has gone wrong, such as ImagePullBackOff and CreateContainerConfigError. */
const FAILURES = /(failed|error|errimagepull|backoff|exceeded|neverpull|invalidimagename|cannotrun)$/;

/** @param {string} word in lower case */
const colourOf = (word) => COLOURS[word] || (FAILURES.test(word) ? "bad" : "plain");

/** Seconds after which the page says that an answer takes long. */
const SLOW = 5;
/** Errors of the data of the page, in the order in which they came. @type {import("./vendor/signals.js").Signal<{message: string, part: object}[]>} */
const prevented = signal([]);
export const KINDS = ["training", "inference", "notebook", "compute"];

/** Words of the API -> text. Those of Kubernetes, such as ImagePullBackOff, stay as they are. @type {Record<string, string>} */
const WORDS = /* texts */ {
  running: "Running", pending: "Pending", queued: "Queued", waiting: "Waiting", paused: "Paused", succeeded: "Succeeded",
  failed: "Failed", scheduled: "Scheduled", suspended: "Suspended", completed: "Completed", terminating: "Terminating",
  partiallyrunning: "Partially running", dependencyfailed: "Dependency failed", quotaexceeded: "Quota exceeded",
  scaledtozero: "Scaled to zero", active: "Active", maintaining: "Maintaining", faulty: "Faulty", ok: "OK",
  full: "Full", free: "Free", used: "Used", unknown: "Unknown", ready: "Ready",
  create: "create", replace: "replace", update: "update", prune: "prune", delete: "delete", skip: "skip",
  error: "error", warning: "warning", applied: "applied", rolledback: "rolled back", found: "found",
};

/** Return the text of a word of the API. @param {string} word */
export function worded(word) {
  const key = word.toLowerCase().replaceAll(" ", "");
  return Object.hasOwn(WORDS, key) ? t(WORDS[key]) : word;
}

/** A status word with its colour. @param {{word: string | null}} props */
export function Status({ word }) {
  if (!word) return html`<span class="quiet">–</span>`;
  // The long words of Kubernetes, such as CreateContainerConfigError, break in the cards of a narrow screen.
  const parts = worded(word).split(/(?=[A-Z][a-z])/);
  return html`<span class="status ${colourOf(word.toLowerCase())}" title=${word}>${parts.map((part, place) => html`${place ? html`<wbr />` : ""}${part}`)}</span>`;
}

/** Words of `gpuctl fit` -> text. @type {Record<string, string>} */
const VERDICTS = /* texts */ {
  fits: "fits now",
  preempts: "fits by eviction",
  later: "not now",
  never: "never",
  unknown: "not known",
};

/** Whether a job fits, in its colour. @param {{word: string}} props */
export function Verdict({ word }) {
  const text = VERDICTS[word === "fits-when-empty" ? "later" : word];
  return html`<span class="status ${colourOf(word)}" title=${word}>${text ? t(text) : word}</span>`;
}

/** Return the age of a time of the service, in seconds. @param {string} time */
const ageOf = (time) => (now.value + clockLead() - Date.parse(time)) / 1000;

/** The age of a time; the time itself as its title. @param {{time: string | null | undefined}} props */
export function Age({ time }) {
  if (!time) return html`<span class="quiet">–</span>`;
  return html`<time datetime=${time} title=${moment(time)}>${duration(ageOf(time))}</time>`;
}

/** A time in the past, as "3 min ago". @param {{time: string}} props */
export function Ago({ time }) {
  return html`<time datetime=${time} title=${moment(time)}>${t("{age} ago", { age: duration(ageOf(time)) })}</time>`;
}

/** The latest time at which a job fits. @param {{opening: any}} props that of the API; null if unknown */
export function Opening({ opening }) {
  if (!opening) return null;
  return html`<time datetime=${opening.by} title=${moment(opening.by)}>${t("room in {time} at the latest", { time: duration(-ageOf(opening.by)) })}</time>`;
}

const TIMES = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;

/** A text with `code` in backquotes; times outside of code are those of the browser's time zone. @param {{text: string}} props */
export function Rich({ text }) {
  return text.split("`").map((part, place) => (place % 2 ? html`<code>${part}</code>` : part.replace(TIMES, moment)));
}

/** The heading of a page, and the age of its data. @param {{title: any, loaded?: Loaded, children?: any}} props */
export function Heading({ title, loaded, children }) {
  return html`<header class="heading">
    <h1 tabindex="-1">${title}</h1>
    ${loaded && html`<${DataAge} loaded=${loaded} />`}
    <div class="actions">${children}</div>
  </header>`;
}

/** @param {{loaded: Loaded}} props */
export function DataAge({ loaded }) {
  const text = loaded.at ? t("{age} old", { age: duration((now.value - loaded.at) / 1000) }) : t("no data yet");
  return html`<span class="age">
    <span title=${loaded.at ? moment(new Date(loaded.at).toISOString()) : ""}>${text}</span>
    <${Button} class="link" onClick=${loaded.reload} isOff=${loaded.since > 0}>${t("Reload")}<//>
  </span>`;
}

/** A button that keeps the focus while it does nothing: a disabled one loses it. @param {any} props those of the element, and `isOff` */
export function Button({ isOff, onClick, children, ...rest }) {
  const press = (/** @type {Event} */ event) => (isOff ? event.preventDefault() : onClick?.(event));
  return html`<button ...${rest} aria-disabled=${isOff ? "true" : undefined} onClick=${press}>${children}</button>`;
}

/** Status of an answer -> what it means to the user. @type {Record<string, string>} */
const MEANINGS = /* texts */ {
  400: "The request is wrong",
  401: "The login is not accepted",
  403: "No permission",
  404: "Not found",
  409: "Conflict with the state of the cluster",
  429: "The service is busy",
  500: "The service failed",
  502: "The service does not answer",
  503: "Not available at the moment",
  504: "The service does not answer in time",
};

/** An error. @param {{error: any, retry?: () => void}} props */
export function Problem({ error, retry }) {
  return html`<div class="problem" role="alert">
    <p>${MEANINGS[error.status] ? html`<strong>${t(MEANINGS[error.status])}</strong> <span>(${error.status} ${error.name})</span>` : html`<strong>${error.status ? `${error.status} ${error.name}` : error.name}</strong>`}</p>
    <p class="lines"><${Rich} text=${error.message} /></p>
    ${error.hint && html`<p class="lines"><${Rich} text=${error.hint} /></p>`}
    ${retry && html`<button onClick=${retry}>${t("Try again")}</button>`}
  </div>`;
}

/** Return true if another part of the page shows the same error already: one event is one notice. @param {string} message "" without an error */
function useIsRepeated(message) {
  const part = useRef({}).current;
  useLayoutEffect(() => {
    if (!message) return undefined;
    const own = { message, part };
    prevented.value = [...prevented.value, own];
    return () => { prevented.value = prevented.value.filter((item) => item !== own); };
  }, [message]);
  const first = prevented.value.find((item) => item.message === message);
  return first !== undefined && first.part !== part;
}

/**
 * Data when they are there; an error in their place; a line while they load.
 * @param {{loaded: Loaded, children: (data: any) => any}} props
 */
export function Data({ loaded, children }) {
  const { data, error, at } = loaded;
  const isRepeated = useIsRepeated(error?.message || "");
  if (data === null && error) return isRepeated ? html`<p class="quiet">${t("No data: see the error on this page.")}</p>` : html`<${Problem} error=${error} retry=${loaded.reload} />`;
  if (data === null) return html`<p class="quiet" role="status">${t("Loading …")}<${Slowness} since=${loaded.since} /></p>`;
  const age = duration((now.value - at) / 1000);
  return html`${error && isRepeated && html`<p class="quiet">${t("These data are {age} old: see the error on this page.", { age })}</p>`}
  ${error && !isRepeated && html`<div class="problem" role="alert">
      <p>${t("These data are {age} old: they cannot be loaded again.", { age })} <${Rich} text=${error.message} /></p>
    </div>`}
  ${children(data)}`;
}

/** The time that a request takes already, if it is long. @param {{since: number}} props */
function Slowness({ since }) {
  const seconds = since ? Math.floor((now.value - since) / 1000) : 0;
  return seconds >= SLOW ? html` <span aria-hidden="true">${t("The service has not answered for {count} s.", { count: seconds })}</span>` : null;
}

/** The error of data without which the page shows the rest, such as the values of a filter or a column. @param {{what: string, loaded: Loaded}} props */
export function Lacking({ what, loaded }) {
  const isRepeated = useIsRepeated(loaded.error?.message || "");
  if (!loaded.error) return null;
  if (isRepeated) return html`<p class="quiet">${what}: ${t("No data: see the error on this page.")}</p>`;
  return html`<div class="problem lacking" role="alert">
    <p><strong>${what}:</strong> <${Rich} text=${loaded.error.message} /> <button type="button" class="link" onClick=${loaded.reload}>${t("Try again")}</button></p>
  </div>`;
}

/** The reason why the user does not see a page, or the error of the request for the right to it. @param {{right: import("./load.js").Right}} props */
export function Withheld({ right }) {
  const { error, reload } = right.loaded;
  return error && !right.loaded.data ? html`<${Problem} error=${error} retry=${reload} />` : html`<${Absent} reason=${right.message} />`;
}

/** `wide`: sentences and names that may be broken; `name`: the same, of less width. @typedef {{head: string, cell: (row: any) => any, number?: boolean, wide?: boolean, name?: boolean}} Column */

/**
 * A table. On a narrow screen each row becomes a card.
 * @param {{label: string, columns: (Column | null | false | "")[], rows: any[], rowKey: (row: any) => string, empty?: string}} props
 */
export function Table({ label, columns, rows, rowKey, empty }) {
  const shown = /** @type {Column[]} */ (columns.filter(Boolean));
  if (!rows.length) return html`<p class="empty">${empty || t("None")}</p>`;
  return html`<div class="scroll" role="group" aria-label=${label} tabindex="0">
    <table aria-label=${label}>
      <thead>
        <tr>
          ${shown.map((column) => html`<th scope="col" class=${column.number ? "number" : ""}>${column.head}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) => html`<tr key=${rowKey(row)}>
            ${shown.map((column) => html`<${Cell} column=${column} value=${column.cell(row)} />`)}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** A cell; a dash without a value, which the card of a narrow screen leaves out. @param {{column: Column, value: any}} props */
function Cell({ column, value }) {
  const isNone = value == null || value === "" || value === false;
  const classes = [...["number", "wide", "name"].filter((name) => column[name]), isNone && "none"].filter(Boolean);
  return html`<td data-head=${column.head} class=${classes.join(" ")}><div>${isNone ? html`<span class="quiet">–</span>` : value}</div></td>`;
}

/** Links to the pages of a list. @param {{total: number, page: number, size: number}} props */
export function Pages({ total, page, size }) {
  const last = Math.max(1, Math.ceil(total / size));
  if (!total) return null;
  const first = (page - 1) * size + 1;
  return html`<nav class="pages" aria-label=${t("Pages")}>
    <span>${page > last ? counted(last, "There is {count} page only.", "There are {count} pages only.") : t("{first}–{last} of {total}", { first: number(first), last: number(Math.min(total, page * size)), total: number(total) })}</span>
    ${(last > 1 || page > last) &&
    html`<${Button} isOff=${page <= 1} onClick=${() => setQuery({ page: Math.min(page - 1, last) })}>${t("Previous")}<//>
      <${Button} isOff=${page >= last} onClick=${() => setQuery({ page: page + 1 })}>${t("Next")}<//>`}
  </nav>`;
}

/** A table of a list that is whole in memory, in pages. @param {any} props those of Table, and `size` */
export function PagedTable({ rows, size = 100, ...rest }) {
  const [page, setPage] = useState(1);
  const last = Math.max(1, Math.ceil(rows.length / size));
  const current = Math.min(page, last);
  return html`<${Table} ...${rest} rows=${rows.slice((current - 1) * size, current * size)} />
    <${PageButtons} page=${current} last=${last} total=${rows.length} onPage=${setPage} />`;
}

/** Buttons for the pages of a list that is not the only one of its page of the console. @param {{page: number, last: number, total: number, onPage: (page: number) => void}} props */
export function PageButtons({ page, last, total, onPage }) {
  if (last <= 1) return null;
  return html`<nav class="pages" aria-label=${t("Pages")}>
    <span>${t("Page {page} of {last}, {total} in all", { page, last, total: number(total) })}</span>
    <${Button} isOff=${page <= 1} onClick=${() => onPage(page - 1)}>${t("Previous")}<//>
    <${Button} isOff=${page >= last} onClick=${() => onPage(page + 1)}>${t("Next")}<//>
  </nav>`;
}

/** A command line to copy. @param {{text: string}} props */
export function Command({ text }) {
  const [done, setDone] = useState(false);
  const line = useRef(/** @type {HTMLElement | null} */ (null));
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 2000);
    } catch {
      // Without HTTPS pages have no clipboard: the user copies the selection.
      getSelection()?.selectAllChildren(/** @type {HTMLElement} */ (line.current));
    }
  }
  return html`<div class="command">
    <code ref=${line}>${text.split(" ").map((word, place) => html`${place ? " " : ""}<span>${word}</span>`)}</code>
    <button class="small" onClick=${copy} aria-label=${t("Copy the command")}>${done ? t("Copied") : t("Copy")}</button>
  </div>`;
}

/** Return a word for a command line, quoted if the shell needs it. @param {string} word */
export function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Links between the parts of a page, as `?tab=` of its address. @param {{tabs: [string, string][], current: string, parts: string[]}} props */
export function Tabs({ tabs, current, parts }) {
  return html`<nav class="tabs" aria-label=${t("Parts of this page")}>
    ${tabs.map(
      ([name, title]) =>
        html`<a href=${address(parts, { tab: name })} aria-current=${name === current ? "page" : null}>${title}</a>`,
    )}
  </nav>`;
}

/**
 * A dialog. The browser keeps the focus in it and closes it with Escape.
 * @param {{title: string, onClose: () => void, children: any}} props
 */
export function Dialog({ title, onClose, children }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const dialog = element.current;
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog?.showModal();
    return () => {
      dialog?.close();
      // The focus returns to the button that opened it; if the change has removed that, to the heading of the page.
      requestAnimationFrame(() => (before?.isConnected ? before : document.querySelector("h1"))?.focus());
    };
  }, []);
  return html`<dialog ref=${element} aria-label=${title} onCancel=${(event) => { event.preventDefault(); onClose(); }}>
    <h2>${title}</h2>
    ${children}
  </dialog>`;
}

/** A part of a total, as a bar and in numbers; a dash without a total. @param {{used: number | null, total: number, label: string, format?: (value: number | null) => string}} props `used`: null if it is not known */
export function Bar({ used, total, label, format = number }) {
  if (!total && !used) return html`<span class="quiet">–</span>`;
  const share = total ? Math.min(100, ((used ?? 0) / total) * 100) : 100;
  return html`<span class="bar-line">
    ${used != null && html`<progress max="100" value=${share} aria-label=${label} class=${share >= 90 ? "full" : ""}></progress>`}
    <span>${used == null ? "–" : format(used)} / ${format(total)}</span>
  </span>`;
}

/** Names and values. @param {{items: [string, any][]}} props */
export function Facts({ items }) {
  return html`<dl class="facts">
    ${items.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false).map(
      ([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`,
    )}
  </dl>`;
}

/** A job as its namespace and name, with a link. @param {{job: any}} props */
export function JobName({ job }) {
  const name = html`<span class="quiet">${job.namespace}/</span>${job.name}`;
  const id = job.jobId || job.name;
  return html`<a href=${address(["jobs", job.namespace, id])}>${name}</a>`;
}

/** The pools of a job, with a link to the jobs of each: its roles can be in several. @param {{names: string | null | undefined}} props */
export function PoolLinks({ names }) {
  const pools = (names || "").split(",").filter(Boolean);
  return pools.map((pool, index) => html`${index ? ", " : ""}<a href=${address(["jobs"], { pool })}>${pool}</a>`);
}

/** A job of an answer that has no ids. Other objects have no page. @param {{namespace: string, kind: string, name: string, kinds?: string[]}} props */
export function JobLink({ namespace, kind, name, kinds = KINDS }) {
  const text = html`<span class="quiet">${namespace}/</span>${name}`;
  return kinds.includes(kind) ? html`<a href=${address(["jobs", namespace, name])}>${text}</a>` : text;
}

/** Notes of an answer. @param {{notes: string[] | undefined}} props */
export function Notes({ notes }) {
  if (!notes?.length) return null;
  return html`<ul class="notes">${notes.map((note) => html`<li><${Rich} text=${note} /></li>`)}</ul>`;
}

/** The code of a cause of `gpuctl why`, beside its message: for a search, and for `gpuctl explain`. @param {{cause: string}} props */
export function CauseCode({ cause }) {
  return html`<code class="quiet code">${cause}</code>`;
}

/** A reason why a part of a page is absent. @param {{reason: string}} props */
export function Absent({ reason }) {
  return html`<p class="empty">${t("Not shown:")} <${Rich} text=${reason} /></p>`;
}

/** Changed fields. @param {{changes: any[]}} props */
export function Changes({ changes }) {
  if (!changes?.length) return html`<span class="quiet">–</span>`;
  return html`<ul class="changes">
    ${changes.map((change) => html`<li><code>${change.path}</code> ${shown(change.from)} → ${shown(change.to)}</li>`)}
  </ul>`;
}

/** @param {unknown} value */
function shown(value) {
  if (value === undefined || value === null) return html`<span class="quiet">${t("not set")}</span>`;
  return html`<code>${typeof value === "string" ? value : JSON.stringify(value)}</code>`;
}

/** A choice among known values, or all. @param {{name: string, label: string, value: string, known: string[], titleOf?: (value: string) => string, onChange: (event: any) => void}} props */
export function Choice({ name, label, value, known, titleOf = (item) => item, onChange }) {
  const values = value && !known.includes(value) ? [value, ...known] : known;
  return html`<label>${label}
    <select name=${name} value=${value} onChange=${onChange}>
      <option value="">${t("All")}</option>
      ${values.map((item) => html`<option value=${item} selected=${item === value}>${titleOf(item)}</option>`)}
    </select>
  </label>`;
}

/** Resource, or name of an amount with its unit -> what the user calls it. @type {Record<string, string>} */
const RESOURCES = /* texts */ { gpu: "GPU", cpu: "CPU", cpuCores: "CPU", memory: "memory", memoryBytes: "memory", jobs: "jobs", pods: "pods", storage: "storage" };

/** @param {string} name */
export function resourceName(name) {
  const known = name.replace("nvidia.com/", "");
  return Object.hasOwn(RESOURCES, known) ? t(RESOURCES[known]) : name;
}

/** Return resources with GPUs first: others of an equal use would hide them. @param {any[]} resources */
export function gpusFirst(resources) {
  const order = ["gpu", "cpu", "memory"];
  const rank = (/** @type {any} */ one) => (order.includes(one.name) ? order.indexOf(one.name) : order.length);
  return [...resources].sort((one, other) => rank(one) - rank(other));
}
