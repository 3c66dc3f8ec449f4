/** Usage of GPUs over time and by unit, compared with the period before. */
import { get, session } from "../api.js";
import { Chart } from "../chart.js";
import { useLoaded } from "../load.js";
import { Absent, Choice, Command, Data, Heading, Table, html, quoted } from "../parts.js";
import { route, setQuery } from "../route.js";
import { number, t } from "../texts.js";

const HOUR = 3600;
const DAY = 24 * HOUR;
/** Name of a range -> its length and the step of the curve. @type {Record<string, {seconds: number, step: string}>} */
const RANGES = {
  "24h": { seconds: DAY, step: "hour" },
  "7d": { seconds: 7 * DAY, step: "hour" },
  "30d": { seconds: 30 * DAY, step: "day" },
  "90d": { seconds: 90 * DAY, step: "day" },
};
const UNITS = ["namespace", "workload", "node", "model", "label"];
const UNITS_OF_NAMESPACES = ["namespace", "workload"];
/** Part of a period that must be known, to compare it with another. */
const COMPARABLE = 0.9;
const PARTS = ["busy", "held_idle", "held_unobserved", "free"];

export default function Usage() {
  if (!session.value?.usage) {
    return html`<${Heading} title=${t("Usage")} /><${Absent} reason=${t("the service has no database of usage (the setting `usage_database`).")} />`;
  }
  return html`<${Known} />`;
}

/** Return the ends of a period in whole hours, and of the one before. @param {string} range */
function periods(range) {
  const end = Math.ceil(Date.now() / 1000 / HOUR) * HOUR;
  const length = RANGES[range].seconds;
  const text = (/** @type {number} */ seconds) => new Date(seconds * 1000).toISOString().replace(".000", "");
  return { start: text(end - length), end: text(end), before: text(end - 2 * length) };
}

function Known() {
  const query = route.value.query;
  const range = Object.hasOwn(RANGES, query.range) ? query.range : "7d";
  const own = session.value?.namespaces;
  const units = own ? UNITS_OF_NAMESPACES : UNITS;
  const by = units.includes(query.by) ? query.by : "namespace";
  // The usage of all namespaces is not shown to a token of some of them.
  const namespace = query.namespace || own?.[0] || "";
  const keys = useLoaded(async (ended) => (own ? { data: [] } : get("/gpu-aggregation/dimension-keys", { dimension_type: "label" }, ended)), [own], 0);
  const key = by === "label" ? query.key || keys.data?.data[0] || "" : "";
  const { start, end, before } = periods(range);
  const scope = { namespace: by === "node" || by === "model" ? "" : namespace };
  const total = { by, key, ...scope, step: "total", page_size: 1000 };
  const ready = by !== "label" || key;
  const loaded = useLoaded(
    async (ended) => {
      if (!ready) return { curve: [], rows: [] };
      const [curve, now, earlier] = await Promise.all([
        get("/gpu-aggregation/ledger", { by: namespace ? "namespace" : "cluster", namespace, start_time: start, end_time: end, step: RANGES[range].step }, ended),
        get("/gpu-aggregation/ledger", { ...total, start_time: start, end_time: end }, ended),
        get("/gpu-aggregation/ledger", { ...total, start_time: before, end_time: start }, ended),
      ]);
      return { curve: listed(curve), rows: compared(listed(now), listed(earlier)) };
    },
    [range, by, key, namespace, start, ready],
    120,
  );
  const change = (/** @type {string} */ name) => (/** @type {any} */ event) => setQuery({ [name]: event.target.value.trim() });
  const csv = new URLSearchParams(Object.entries({ by, key, ...scope, start_time: start, end_time: end, step: RANGES[range].step, format: "csv" }).filter(([, value]) => value));
  return html`<${Heading} title=${t("Usage")} loaded=${loaded}>
      <a class="button" href=${`api/v1/gpu-aggregation/ledger?${csv}`} download=${`gpu-usage-${by}-${range}.csv`}>CSV</a>
    <//>
    <form class="filters" role="search" aria-label=${t("Filters")} onSubmit=${(event) => event.preventDefault()}>
      <label>${t("Period")}<select name="range" value=${range} onChange=${change("range")}>${Object.keys(RANGES).map((name) => html`<option value=${name} selected=${name === range}>${name}</option>`)}</select></label>
      <label>${t("Grouped by")}<select name="by" value=${by} onChange=${change("by")}>${units.map((name) => html`<option value=${name} selected=${name === by}>${name}</option>`)}</select></label>
      ${by === "label" && html`<${Choice} name="key" label=${t("Label")} value=${key} known=${keys.data?.data || []} onChange=${change("key")} />`}
      <label>${t("Namespace")}<input name="namespace" value=${namespace} spellcheck=${false} onChange=${change("namespace")} /></label>
    </form>
    <${Data} loaded=${loaded}>
      ${(data) => html`<${Curve} rows=${data.curve} start=${start} end=${end} />
        <${Groups} rows=${data.rows} by=${by} />`}
    <//>
    <${Command} text=${commandLine(by, key, namespace, range)} />`;
}

/** @param {string} by @param {string} key @param {string} namespace @param {string} range */
function commandLine(by, key, namespace, range) {
  const command = by === "label" ? `labels ${quoted(key || "KEY")}` : `${by}s`;
  const where = namespace && (by === "namespace" || by === "workload") ? ` -n ${quoted(namespace)}` : "";
  return `gpuctl usage ${command}${where} --last ${range}`;
}

/** @param {any} answer @returns {any[]} */
const listed = (answer) => (Array.isArray(answer.data) ? answer.data : answer.data?.data || []);

/** @param {any} row */
const nameOf = (row) => [row.namespace, row.kind, row.name || row.value || row.key].filter(Boolean).join("/") || row.level;

/** Return the rows of a period with those of the period before. @param {any[]} now @param {any[]} earlier */
function compared(now, earlier) {
  const old = new Map(earlier.map((row) => [nameOf(row), row]));
  return now
    .map((row) => ({ ...row, unit: nameOf(row), before: known(old.get(nameOf(row)), row) }))
    .sort((one, other) => (other.allocated_gpu_seconds || 0) - (one.allocated_gpu_seconds || 0));
}

/** Return what was held in the period before; null if less of that period is known. @param {any} before @param {any} row */
const known = (before, row) => (before && before.known_seconds >= row.known_seconds * COMPARABLE ? before.allocated_gpu_seconds : null);

/** @param {number | null} seconds */
const hours = (seconds) => (seconds == null ? "–" : number(seconds / HOUR));

/** @param {{rows: any[], by: string}} props */
function Groups({ rows, by }) {
  return html`<h2>${t("GPU-hours by {unit}", { unit: by })}</h2>
    <${Table}
      label=${t("GPU-hours by {unit}", { unit: by })}
      empty=${t("Nothing is known about this period.")}
      rows=${rows.slice(0, 200)}
      rowKey=${(row) => row.unit}
      columns=${[
        { head: by, cell: (row) => row.unit, wide: true },
        { head: t("Held"), cell: (row) => hours(row.allocated_gpu_seconds), number: true },
        { head: t("Period before"), cell: (row) => html`<span class="quiet">${hours(row.before)}</span>`, number: true },
        { head: t("Change"), cell: (row) => html`<${Difference} now=${row.allocated_gpu_seconds} before=${row.before} />`, number: true },
        { head: t("Busy"), cell: (row) => hours(row.busy_gpu_seconds), number: true },
        { head: t("Idle"), cell: (row) => hours(row.held_idle_gpu_seconds), number: true },
        { head: t("Unobserved"), cell: (row) => hours(row.held_unobserved_gpu_seconds), number: true },
        { head: t("Utilization"), cell: (row) => (row.avg_utilization == null ? "–" : `${number(row.avg_utilization)} %`), number: true },
      ]}
    />
    ${rows.length > 200 && html`<p class="quiet">${t("The first {count} of {total}; the CSV has all.", { count: 200, total: number(rows.length) })}</p>`}`;
}

/** @param {{now: number, before: number | null}} props */
function Difference({ now, before }) {
  if (!before) return html`<span class="quiet">–</span>`;
  const percent = Math.round((now / before - 1) * 100);
  return `${percent > 0 ? "+" : ""}${percent} %`;
}

/** GPUs over time, by what they do. The table below has the same as numbers. @param {{rows: any[], start: string, end: string}} props */
function Curve({ rows, start, end }) {
  const titles = [t("Busy"), t("Idle"), t("Unobserved"), t("Free")];
  const colours = ["--good", "--bad", "--wait", "--quiet"];
  const series = PARTS.map((part, place) => ({
    label: titles[place],
    colour: colours[place],
    values: rows.map((row) => (row.known_seconds ? (row[`${part}_gpu_seconds`] ?? 0) / row.known_seconds : null)),
  }));
  const seconds = (/** @type {string} */ time) => Date.parse(time) / 1000;
  return html`<h2>${t("GPUs over time")}</h2>
    ${rows[rows.length - 1]?.provisional && html`<p class="quiet">${t("The last step is not over; its numbers change.")}</p>`}
    ${rows.length
      ? html`<${Chart} label=${t("Busy, idle, unobserved and free GPUs over time")} unit="GPU" times=${rows.map((row) => seconds(row.time))} series=${series} from=${seconds(start)} to=${seconds(end)} />`
      : html`<p class="empty">${t("Nothing is known about this period.")}</p>`}`;
}
