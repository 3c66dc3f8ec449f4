/** Pools, and the page of one pool. */
import { get } from "../api.js";
import { useLoaded } from "../load.js";
import { Age, Bar, Command, Data, Facts, Heading, JobName, PagedTable, Status, Table, html, quoted } from "../parts.js";
import { address, route } from "../route.js";
import { number, t } from "../texts.js";
import { PoolTable, TypeTable } from "./overview.js";

const MOST = 20;
/** Names of nodes that a page lists. */
const MOST_NAMES = 60;

export default function Pools() {
  const [, name] = route.value.parts;
  return name ? html`<${Pool} name=${name} key=${name} />` : html`<${List} />`;
}

function List() {
  const loaded = useLoaded((ended) => Promise.all([get("/pools", {}, ended), get("/gpu-types", {}, ended)]), []);
  return html`<${Heading} title=${t("Pools")} loaded=${loaded} />
    <${Data} loaded=${loaded}>
      ${([pools, types]) => html`<${PoolTable} pools=${pools.items} />
        <${Command} text="gpuctl get pools" />
        <h2>${t("GPU types")}</h2>
        <${TypeTable} types=${types.items} />
        <${Command} text="gpuctl get gpu-types" />`}
    <//>`;
}

/** @param {{name: string}} props */
function Pool({ name }) {
  const loaded = useLoaded((ended) => get(`/pools/${encodeURIComponent(name)}`, { jobs: false }, ended), [name]);
  return html`<${Heading} title=${name} loaded=${loaded} />
    <${Data} loaded=${loaded}>
      ${(pool) => html`
        ${pool.description && html`<p>${pool.description}</p>`}
        <${Facts}
          items=${[
            [t("Status"), html`<${Status} word=${pool.status} />`],
            [t("GPUs used"), html`<${Bar} used=${pool.gpuUsed} total=${pool.gpuTotal} label=${t("GPUs used of {name}", { name })} />`],
            [t("Free"), number(pool.gpuFree)],
            [t("Unavailable of the free ones"), pool.gpuUnavailable || null],
            [t("GPU types"), Object.entries(pool.gpuType || {}).map(([type, count]) => `${type}: ${typeof count === "object" ? JSON.stringify(count) : count}`).join(", ")],
            [t("GPUs per job at most"), pool.quota?.maxGpuPerJob],
            [t("Jobs at most"), pool.quota?.maxJobs],
            [t("Missing nodes"), pool.missingNodes?.join(", ")],
          ]}
        />
        <h2>${t("Running jobs")}</h2>
        <${JobsOfPool} pool=${name} status="running" sort="gpu" empty=${t("No job runs.")} />
        <h2>${t("Waiting jobs")}</h2>
        <${JobsOfPool} pool=${name} status="pending" sort="oldest" empty=${t("No job waits.")} />
        <h2>${t("Nodes")}</h2>
        ${pool.nodes.length ? html`<ul class="bare names">${pool.nodes.slice(0, MOST_NAMES).map((node) => html`<li key=${node}><a href=${address(["nodes", node])}>${node}</a></li>`)}</ul>` : html`<p class="empty">${t("None")}</p>`}
        <p><a href=${address(["nodes"], { pool: name })}>${t("All {total} with their GPUs", { total: number(pool.nodes.length) })}</a></p>
        <${Command} text=${`gpuctl describe pool ${quoted(name)}`} />
      `}
    <//>`;
}

/** The first jobs of a pool, and a link to all. @param {{pool: string, status: string, sort: string, empty: string}} props */
function JobsOfPool({ pool, status, sort, empty }) {
  const query = { pool, status, sort };
  const loaded = useLoaded((ended) => get("/jobs", { ...query, pageSize: MOST }, ended), [query], 15);
  return html`<${Data} loaded=${loaded}>
    ${(data) => html`<${JobTable} jobs=${data.items} empty=${empty} />
      ${data.total > data.items.length && html`<p><a href=${address(["jobs"], query)}>${t("All {total}", { total: number(data.total) })}</a></p>`}`}
  <//>`;
}

/** @param {{jobs: any[], empty: string}} props */
export function JobTable({ jobs, empty }) {
  return html`<${PagedTable}
    label=${t("Jobs")}
    empty=${empty}
    rows=${jobs}
    rowKey=${(row) => row.jobId}
    columns=${[
      { head: t("Job"), cell: (row) => html`<${JobName} job=${row} />`, wide: true },
      { head: t("Kind"), cell: (row) => row.kind },
      { head: t("GPUs"), cell: (row) => number(row.gpu), number: true },
      jobs.some((job) => job.createdAt) && { head: t("Age"), cell: (row) => html`<${Age} time=${row.createdAt} />`, number: true },
      jobs.some((job) => job.appliedBy) && { head: t("Applied by"), cell: (row) => row.appliedBy, name: true },
    ]}
  />`;
}
