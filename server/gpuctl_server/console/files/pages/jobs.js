/** The list of jobs, with its filters in the address; the page of one job. */
import { get } from "../api.js";
import { useLoaded, useRight } from "../load.js";
import { Age, Choice, Command, Data, Heading, JobName, KINDS, Lacking, Pages, PoolLinks, Rich, Status, Table, html, quoted, worded } from "../parts.js";
import { address, route, setQuery } from "../route.js";
import { number, t } from "../texts.js";
import { Job } from "./job.js";

const SIZE = 50;
/** Phases, and the status words by which users look for jobs. */
const STATUSES = ["pending", "queued", "running", "paused", "scheduled", "succeeded", "failed"];
const FILTERS = ["namespace", "kind", "pool", "status", "name"];
/** @type {Record<string, string>} */
const ORDERS = /* texts */ { newest: "Newest first", oldest: "Oldest first", gpu: "Most GPUs first" };

export default function Jobs() {
  const [, namespace, job] = route.value.parts;
  if (namespace && job) return html`<${Job} namespace=${namespace} id=${job} key=${`${namespace}/${job}`} />`;
  return html`<${List} />`;
}

/** Return the title of a status as a filter: that of a phase includes jobs with other words, such as Queued. @param {string} status */
const titleOf = (status) => (status === "pending" ? t("All waiting") : worded(status));

/** @param {Record<string, string>} query */
function commandLine(query) {
  const options = [
    query.namespace && `-n ${quoted(query.namespace)}`,
    query.kind && `--kind ${quoted(query.kind)}`,
    query.pool && `--pool ${quoted(query.pool)}`,
    query.status && `--status ${quoted(query.status)}`,
    "--jobs",
    query.name && quoted(query.name),
  ];
  return ["gpuctl get jobs", ...options.filter(Boolean)].join(" ");
}

function List() {
  const query = route.value.query;
  const page = Math.max(1, Number(query.page) || 1);
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query[name] || ""]));
  const sort = Object.hasOwn(ORDERS, query.sort) ? query.sort : "newest";
  const jobs = useLoaded((ended) => get("/jobs", { ...filters, sort, page, pageSize: SIZE }, ended), [filters, sort, page]);
  const creates = useRight("create", "jobs");
  return html`<${Heading} title=${t("Jobs")} loaded=${jobs}>
      ${creates && html`<${Lacking} what=${t("Your rights")} loaded=${creates.loaded} />`}
      ${creates?.allowed && html`<a class="button main" href=${address(["new"], { namespace: filters.namespace, pool: filters.pool })}>${t("New job")}</a>`}
    <//>
    <${Filters} values=${filters} sort=${sort} />
    <${Data} loaded=${jobs}>
      ${(data) => html`
        <${Table}
          label=${t("Jobs")}
          empty=${Object.values(filters).some(Boolean) ? t("No job matches.") : t("There is no job that you may see.")}
          rows=${data.items}
          rowKey=${(row) => row.jobId}
          columns=${[
            { head: t("Job"), cell: (row) => html`<${JobName} job=${row} />`, wide: true },
            { head: t("Kind"), cell: (row) => row.kind },
            { head: t("Status"), cell: (row) => html`<${Status} word=${row.statusWord} />${row.progress != null && row.status === "running" ? html` <span class="quiet">${row.progress}%</span>` : ""}` },
            { head: t("Pool"), cell: (row) => html`<${PoolLinks} names=${row.pool} />`, name: true },
            { head: t("GPUs"), cell: (row) => html`${number(row.gpu)}${row.gpuType ? html` <span class="quiet">${row.gpuType}</span>` : ""}`, number: true },
            { head: t("Age"), cell: (row) => html`<${Age} time=${row.createdAt} />`, number: true },
            { head: t("Applied by"), cell: (row) => row.appliedBy, name: true },
            { head: t("Reason"), cell: (row) => row.reason && html`<span class="reason"><${Rich} text=${row.reason} /></span>`, wide: true },
          ]}
        />
        <${Pages} total=${data.total} page=${page} size=${SIZE} />
      `}
    <//>
    <${Command} text=${commandLine(filters)} />
`;
}

/** @param {{values: Record<string, string>, sort: string}} props */
function Filters({ values, sort }) {
  const names = useLoaded((ended) => Promise.all([get("/namespaces", {}, ended), get("/pools", {}, ended)]), [], 0);
  const [namespaces, pools] = (names.data || [{ items: [] }, { items: [] }]).map((list) => list.items.map((item) => item.name));
  /** @param {string} name */
  const change = (name) => (/** @type {any} */ event) => setQuery({ [name]: event.target.value.trim(), page: "" });
  const any = FILTERS.some((name) => values[name]);
  return html`<${Lacking} what=${t("Values of the filters")} loaded=${names} />
  <form class="filters" role="search" aria-label=${t("Filters")} onSubmit=${(event) => event.preventDefault()}>
    <${Choice} name="namespace" label=${t("Namespace")} value=${values.namespace} known=${namespaces} onChange=${change("namespace")} />
    <${Choice} name="kind" label=${t("Kind")} value=${values.kind} known=${KINDS} onChange=${change("kind")} />
    <${Choice} name="pool" label=${t("Pool")} value=${values.pool} known=${pools} onChange=${change("pool")} />
    <${Choice} name="status" label=${t("Status")} value=${values.status} known=${STATUSES} titleOf=${titleOf} onChange=${change("status")} />
    <label>${t("Job or pod")}<input name="name" value=${values.name} onChange=${change("name")} spellcheck=${false} /></label>
    <label>${t("Order")}
      <select name="sort" value=${sort} onChange=${(event) => setQuery({ sort: event.target.value === "newest" ? "" : event.target.value, page: "" })}>
        ${Object.entries(ORDERS).map(([name, title]) => html`<option value=${name} selected=${name === sort}>${t(title)}</option>`)}
      </select>
    </label>
    ${any && html`<button type="button" class="link" onClick=${() => setQuery(Object.fromEntries([...FILTERS, "page"].map((name) => [name, ""])))}>${t("Clear")}</button>`}
  </form>`;
}
