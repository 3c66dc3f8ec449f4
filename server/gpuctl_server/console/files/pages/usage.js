/** Usage of GPUs over time and by unit, with its cost, compared with another period. */
import { get, session, withoutUsage } from "../api.js";
import { Chart } from "../chart.js";
import { useLoaded } from "../load.js";
import { Absent, Choice, Command, Data, Facts, Heading, Lacking, PagedTable, html, quoted } from "../parts.js";
import { route, setQuery } from "../route.js";
import { day, moment, number, percent, t } from "../texts.js";
import { CsvButton, hasCosts } from "../usage/csv.js";
import { OWN, RANGES, ZONE, optionsOf, periodOf } from "../usage/periods.js";

const HOUR = 3600;
/** Units of rows. @type {Record<string, string>} */
const UNITS = /* texts */ { namespace: "Namespace", workload: "Workload", node: "Node", model: "GPU type", label: "Label" };
const UNITS_OF_NAMESPACES = ["namespace", "workload"];
/** Part of a period that must be known, to compare it with another. */
const COMPARABLE = 0.9;
const PARTS = ["busy", "held_idle", "held_unobserved", "free"];
/** Rows that are shown, in pages; the CSV has all. */
const MOST = 200;
const SHOWN = 50;
/** Rows of workloads, of both periods: their rows are long, and most of them run in one period only. */
const MOST_WORKLOADS = 100;
/** Rows of the other period: more than are shown, because their order is another one. */
const MOST_BEFORE = 1000;
/** The value of a label that is not set. */
const UNSET = "__unset__";
const LEDGER = "/gpu-aggregation/ledger";

export default function Usage() {
  const reason = withoutUsage() || (session.value?.namespaces?.length === 0 && t("this token has no namespaces."));
  return reason ? html`<${Heading} title=${t("Usage")} /><${Absent} reason=${reason} />` : html`<${Known} />`;
}

function Known() {
  const query = route.value.query;
  const own = session.value?.namespaces;
  const units = own ? UNITS_OF_NAMESPACES : Object.keys(UNITS);
  const by = units.includes(query.by) ? query.by : "namespace";
  // The usage of all namespaces is not shown to a token of some of them.
  const namespace = query.namespace || own?.[0] || "";
  const names = useLoaded(
    async (ended) => {
      const namespaces = await get("/gpu-aggregation/namespaces", {}, ended);
      const keys = own ? { data: [] } : await get("/gpu-aggregation/dimension-keys", { dimension_type: "label" }, ended);
      return { namespaces: namespaces.data, keys: keys.data };
    },
    [own],
    0,
  );
  const { namespaces = own || [], keys = [] } = names.data || {};
  const key = by === "label" ? query.key || keys[0] || "" : "";
  const period = periodOf(query);
  const { start, end, step, before } = period;
  const ofNamespaces = UNITS_OF_NAMESPACES.includes(by);
  const rows = { by, key, namespace: ofNamespaces ? namespace : "" };
  const isReady = by !== "label" || key || names.error || names.data;
  const order = { order_by: "allocated_gpu_count", order_direction: "desc" };
  const most = { ...rows, ...order, step: "total", page: 1 };
  const loaded = useLoaded(
    async (ended) => {
      if (!isReady || !start) return { curve: [], rows: [], total: 0, most: 0 };
      if (by === "label" && !key) return { curve: [], rows: [], total: 0, most: 0 };
      const [curve, now, earlier] = await Promise.all([
        get(LEDGER, { by: namespace ? "namespace" : "cluster", namespace, start_time: start, end_time: end, step, tz: ZONE }, ended),
        get(LEDGER, { ...most, start_time: start, end_time: end, page_size: by === "workload" ? MOST_WORKLOADS : MOST }, ended),
        get(LEDGER, { ...most, start_time: before.start, end_time: before.end, page_size: by === "workload" ? MOST_WORKLOADS : MOST_BEFORE }, ended),
      ]);
      return { curve: curve.data, rows: compared(now.data, earlier.data), total: now.data.total, most: Math.max(now.data.total, earlier.data.total) };
    },
    [by, key, namespace, start, end, step, before.start, Boolean(isReady)],
    120,
  );
  // Costs are computed from the holdings of all pods: the table does not wait for them, and they are loaded once.
  const costs = useLoaded(
    async (ended) => {
      if (!start || by === "node" || (by === "label" && !key)) return [];
      return (await get(LEDGER, { ...most, start_time: start, end_time: end, page_size: by === "workload" ? MOST_WORKLOADS : MOST, costs: true }, ended)).data.data;
    },
    [by, key, namespace, start, end],
    0,
  );
  const priced = new Map((costs.data || []).filter((row) => row.cost != null).map((row) => [row.value, row]));
  const change = (/** @type {string} */ name) => (/** @type {any} */ event) => setQuery({ [name]: event.target.value.trim() });
  const name = `gpu-usage-${by}-${period.name}`;
  const csv = { ...rows, start_time: start, end_time: end };
  const table = (/** @type {number | undefined} */ count) => ({ ...csv, ...order, step: "total", costs: hasCosts(by, count ?? Infinity) || "" });
  return html`<${Heading} title=${t("Usage")} loaded=${loaded}>
      <${CsvButton} title=${t("CSV of the table")} name=${`${name}.csv`} queries=${[table(loaded.data?.total)]} />
      <${CsvButton} title=${t("CSV of both periods")} name=${`${name}-compared.csv`} queries=${[table(loaded.data?.most), { ...table(loaded.data?.most), start_time: before.start, end_time: before.end }]} />
      <${CsvButton} title=${t("CSV over time")} name=${`${name}-over-time.csv`} queries=${[{ ...csv, step, tz: ZONE }]} />
    <//>
    <${Lacking} what=${t("Values of the filters")} loaded=${names} />
    <form class="filters" role="search" aria-label=${t("Filters")} onSubmit=${(event) => event.preventDefault()}>
      <label>${t("Period")}<select name="range" value=${period.name} onChange=${change("range")}>${Object.keys(RANGES).map((item) => html`<option value=${item} selected=${item === period.name}>${RANGES[item].title()}</option>`)}</select></label>
      ${period.name === OWN && html`<label>${t("First day")}<input type="date" name="first" value=${period.first} onChange=${change("first")} /></label>
        <label>${t("Last day")}<input type="date" name="last" value=${period.last} onChange=${change("last")} /></label>`}
      <label>${t("Compared with")}<select name="compare" value=${period.compare} onChange=${change("compare")}>
        <option value="" selected=${!period.compare}>${t("Period before")}</option>
        <option value="year" selected=${period.compare === "year"}>${t("A year before")}</option>
      </select></label>
      <label>${t("Grouped by")}<select name="by" value=${by} onChange=${change("by")}>${units.map((item) => html`<option value=${item} selected=${item === by}>${t(UNITS[item])}</option>`)}</select></label>
      ${by === "label" && html`<label>${t("Label")}<select name="key" value=${key} onChange=${change("key")}>${(keys.includes(key) || !key ? keys : [key, ...keys]).map((item) => html`<option value=${item} selected=${item === key}>${item}</option>`)}</select></label>`}
      ${own ? html`<label>${t("Namespace")}<select name="namespace" value=${namespace} onChange=${change("namespace")}>${own.map((item) => html`<option value=${item} selected=${item === namespace}>${item}</option>`)}</select></label>` : html`<${Choice} name="namespace" label=${t("Namespace")} value=${namespace} known=${namespaces} onChange=${change("namespace")} />`}
    </form>
    ${start
      ? html`<${Data} loaded=${loaded}>
          ${(data) => html`<${Curve} rows=${data.curve} step=${step} start=${start} end=${end} namespace=${namespace} />
            ${namespace && !ofNamespaces && html`<p class="quiet">${t("The table is of all namespaces: this unit is not recorded by namespace.")}</p>`}
            <${Lacking} what=${t("Cost")} loaded=${costs} />
            ${costs.since > 0 && html`<p class="quiet" role="status">${t("The costs are being computed …")}</p>`}
            <${Groups} rows=${data.rows} costs=${priced} total=${data.total} unit=${by === "label" && key ? key : t(UNITS[by])} compare=${period.compare} />`}
        <//>`
      : html`<p class="problem" role="alert">${t("The last day is before the first one.")}</p>`}
    <${Command} text=${commandLine(by, key, namespace, optionsOf(period))} />`;
}

/** @param {string} by @param {string} key @param {string} namespace @param {string} options */
function commandLine(by, key, namespace, options) {
  const command = by === "label" ? `labels ${quoted(key || "KEY")}` : `${by}s`;
  const where = namespace && UNITS_OF_NAMESPACES.includes(by) ? ` -n ${quoted(namespace)}` : "";
  return `gpuctl usage ${command}${where} ${options}`;
}

/** @param {any} row */
const nameOf = (row) => [row.namespace, row.kind, row.name || row.value || row.key].filter(Boolean).join("/") || row.level;

/** Return the rows of a period, most first, with those of the other period. Runs of a workload have one name. @param {any} now @param {any} earlier pages */
function compared(now, earlier) {
  const isComplete = earlier.total <= earlier.data.length;
  const known = Math.max(0, ...earlier.data.map((row) => row.known_seconds));
  const old = new Map();
  for (const row of earlier.data) old.set(nameOf(row), (old.get(nameOf(row)) || 0) + row.allocated_gpu_seconds);
  const runs = new Map();
  for (const row of now.data) runs.set(nameOf(row), (runs.get(nameOf(row)) || 0) + 1);
  return now.data.map((row) => {
    const name = nameOf(row);
    const isKnown = known >= row.known_seconds * COMPARABLE && runs.get(name) === 1;
    return { ...row, unit: name, before: isKnown ? old.get(name) ?? (isComplete ? 0 : null) : null };
  });
}

/** @param {number | null} seconds */
const hours = (seconds) => (seconds == null ? "–" : number(seconds / HOUR, 1, 1));

/** @param {{rows: any[], costs: Map<string, any>, total: number, unit: string, compare: string}} props `costs`: value of a row -> the row with its cost */
function Groups({ rows, costs, total, unit, compare }) {
  const title = t("GPU-hours");
  const lacksCosts = costs.size > 0 && !hasCosts(rows[0]?.level, total);
  const currency = [...costs.values()][0]?.currency;
  return html`<h2>${title}</h2>
    <${PagedTable}
      label=${title}
      size=${SHOWN}
      empty=${t("Nothing is known about this period.")}
      rows=${rows}
      rowKey=${(row) => `${row.unit} ${row.level === "workload" ? row.value : ""}`}
      columns=${[
        { head: unit, cell: (row) => (row.value === UNSET ? html`<span class="quiet">${t("not set")}</span>` : row.unit), wide: true },
        { head: t("Held"), cell: (row) => hours(row.allocated_gpu_seconds), number: true },
        { head: compare === "year" ? t("A year before") : t("Period before"), cell: (row) => html`<span class="quiet">${hours(row.before)}</span>`, number: true },
        { head: t("Change"), cell: (row) => html`<${Difference} now=${row.allocated_gpu_seconds} before=${row.before} />`, number: true },
        { head: t("Busy"), cell: (row) => hours(row.busy_gpu_seconds), number: true },
        { head: t("Idle"), cell: (row) => hours(row.held_idle_gpu_seconds), number: true },
        { head: t("Unobserved"), cell: (row) => hours(row.held_unobserved_gpu_seconds), number: true },
        { head: t("Utilization"), cell: (row) => percent(row.avg_utilization), number: true },
        costs.size > 0 && { head: currency ? t("Cost, {currency}", { currency }) : t("Cost"), cell: (row) => (costs.has(row.value) ? number(costs.get(row.value).cost, 0) : null), number: true },
      ]}
    />
    ${rows.length > 0 && rows.every((row) => row.before == null) && html`<p class="quiet">${t("There is nothing to compare with: too little is known about the other period.")}</p>`}
    ${total > rows.length && html`<p class="quiet">${t(lacksCosts ? "The first {count} of {total}; the CSV has all, without costs." : "The first {count} of {total}; the CSV has all.", { count: number(rows.length), total: number(total) })}</p>`}`;
}

/** @param {{now: number, before: number | null}} props */
function Difference({ now, before }) {
  if (before === 0 && now) return html`<span class="quiet">${t("new")}</span>`;
  if (!before) return html`<span class="quiet">–</span>`;
  const percent = Math.round((now / before - 1) * 100) || 0;
  return `${percent > 0 ? "+" : ""}${number(percent, 0)} %`;
}

/** Step of the curve -> title of its highest value. @type {Record<string, string>} */
const PEAKS = /* texts */ {
  hour: "Most GPUs held, mean of an hour",
  day: "Most GPUs held, mean of a day",
  week: "Most GPUs held, mean of a week",
  month: "Most GPUs held, mean of a month",
};

/** The mean of a period, and its peak. @param {{rows: any[], step: string}} props */
function Peak({ rows, step }) {
  const known = rows.filter((row) => row.known_seconds);
  if (!known.length) return null;
  const sum = (/** @type {string} */ name) => known.reduce((total, row) => total + (row[name] ?? 0), 0);
  const held = (/** @type {any} */ row) => row.allocated_gpu_seconds / row.known_seconds;
  const peak = known.reduce((most, row) => (held(row) > held(most) ? row : most));
  const [busy, seen] = [sum("busy_gpu_seconds"), sum("busy_gpu_seconds") + sum("held_idle_gpu_seconds")];
  return html`<${Facts}
    items=${[
      [t(PEAKS[step]), html`${number(held(peak))} <span class="below">${step === "hour" ? moment(peak.time) : day(peak.time)}</span>`],
      [t("GPUs held on average"), number(sum("allocated_gpu_seconds") / sum("known_seconds"))],
      [t("GPUs of the cluster on average"), known[0].capacity_gpu_seconds != null && number(sum("capacity_gpu_seconds") / sum("known_seconds"))],
      [t("Utilization of the measured GPUs"), seen > 0 && `${number((busy / seen) * 100)} %`],
    ]}
  />`;
}

/** GPUs over time, by what they do. The table below has the same as numbers. @param {{rows: any[], step: string, start: string, end: string, namespace: string}} props */
function Curve({ rows, step, start, end, namespace }) {
  const titles = [t("Busy"), t("Idle"), t("Unobserved"), t("Free")];
  const colours = ["--good", "--bad", "--wait", "--quiet"];
  // A namespace has no GPUs of its own that could be free.
  const parts = PARTS.filter((part) => rows.some((row) => row[`${part}_gpu_seconds`] != null));
  const series = parts.map((part) => ({
    label: titles[PARTS.indexOf(part)],
    colour: colours[PARTS.indexOf(part)],
    values: rows.map((row) => (row.known_seconds ? (row[`${part}_gpu_seconds`] ?? 0) / row.known_seconds : null)),
  }));
  const seconds = (/** @type {string} */ time) => Date.parse(time) / 1000;
  return html`<h2>${namespace ? t("GPUs of {namespace} over time", { namespace }) : t("GPUs over time")}</h2>
    <${Peak} rows=${rows} step=${step} />
    ${rows[rows.length - 1]?.provisional && html`<p class="quiet">${t("The last step is not over; its numbers change.")}</p>`}
    ${rows.length
      ? html`<${Chart} label=${t("Busy, idle, unobserved and free GPUs over time")} unit="GPU" times=${rows.map((row) => seconds(row.time))} series=${series} from=${seconds(start)} to=${seconds(end)} />`
      : html`<p class="empty">${t("Nothing is known about this period.")}</p>`}`;
}
