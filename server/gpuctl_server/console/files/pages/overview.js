/** The overview: free GPUs, who holds them, what waits and why, what is held and idle. */
import { clockLead, get, session, withoutUsage } from "../api.js";
import { useLoaded } from "../load.js";
import { Absent, Age, Bar, Command, Data, Heading, JobName, Lacking, Notes, Opening, PageButtons, Rich, Status, Table, Verdict, html } from "../parts.js";
import { address } from "../route.js";
import { moment, number, percent, t } from "../texts.js";
import { useState } from "../vendor/preact-hooks.js";
import { victimNames } from "./job-waits.js";

/** Rows of each list; the page of jobs has the rest. */
const MOST = 20;
/** Time after which usage that is not yet known is reported, ms: hours are rolled up soon after their end. */
const LATE = 2 * 3_600_000;
/** Age up to which a snapshot is of now, ms: one is taken each five minutes. */
const SNAPSHOTS = 600_000;
/** Age up to which an answer to another user will do, seconds. */
const SHARED = 30;

export default function Overview() {
  const own = session.value?.namespaces;
  const now = useLoaded(
    (ended) => Promise.all([get("/gpu-use", { maxAge: SHARED }, ended), get("/pools", {}, ended), get("/gpu-types", {}, ended)]),
    [],
  );
  return html`<${Heading} title=${t("Overview")} loaded=${now} />
    <${Data} loaded=${now}>
      ${([use, pools, types]) => html`
        <ul class="tiles">
          <li><strong>${number(freeOf(pools.items))}</strong> ${t("GPUs free")}</li>
          <li><strong>${number(use.allocated)}</strong> ${own ? t("GPUs held in your namespaces, of {total}", { total: number(use.total) }) : t("GPUs held, of {total}", { total: number(use.total) })}</li>
          <li><strong>${number(use.waiting)}</strong> ${own ? t("GPUs that jobs in your namespaces wait for") : t("GPUs that jobs wait for")}</li>
        </ul>
        <${Notes} notes=${use.notes} />
        <div class="columns">
          <section aria-labelledby="by-pool"><h2 id="by-pool">${t("Free GPUs by pool")}</h2><${PoolTable} pools=${pools.items} /></section>
          <section aria-labelledby="by-type"><h2 id="by-type">${t("Free GPUs by type")}</h2><${TypeTable} types=${types.items} /></section>
        </div>
      `}
    <//>
    <${Waiting} />
    <${Holding} />
    <${Idle} />`;
}

/** Return the free GPUs of nodes that take pods; null if pods may not be read. @param {any[]} pools */
const freeOf = (pools) => (pools.some((pool) => pool.gpuFree == null) ? null : pools.reduce((sum, pool) => sum + pool.gpuFree - pool.gpuUnavailable, 0));

/** @param {{pools: any[]}} props */
export function PoolTable({ pools }) {
  return html`<${Table}
    label=${t("Pools")}
    rows=${pools}
    rowKey=${(row) => row.name}
    columns=${[
      { head: t("Pool"), cell: (row) => html`<a href=${address(["pools", row.name])}>${row.name}</a>`, name: true },
      { head: t("Free"), cell: (row) => html`${number(row.gpuFree)}${row.gpuUnavailable > 0 && html`<span class="below">${t("{count} of them unavailable", { count: number(row.gpuUnavailable) })}</span>`}`, number: true },
      { head: t("Used"), cell: (row) => html`<${Bar} used=${row.gpuUsed} total=${row.gpuTotal} label=${t("GPUs used of {name}", { name: row.name })} />` },
      { head: t("GPU types"), cell: (row) => row.gpuType.join(", "), name: true },
    ]}
  />`;
}

/** @param {{types: any[]}} props */
export function TypeTable({ types }) {
  return html`<${Table}
    label=${t("GPU types")}
    rows=${types}
    rowKey=${(row) => row.gpuType}
    columns=${[
      { head: t("GPU type"), cell: (row) => html`<a href=${address(["nodes"], { gpuType: row.gpuType })}>${row.gpuType}</a>` },
      { head: t("Free"), cell: (row) => number(row.gpuFree), number: true },
      { head: t("Used"), cell: (row) => html`<${Bar} used=${row.gpuUsed} total=${row.gpuTotal} label=${t("GPUs used of {name}", { name: row.gpuType })} />` },
      { head: t("Nodes"), cell: (row) => row.nodes.length, number: true },
      { head: t("Pools"), cell: (row) => row.boundPools.join(", "), name: true },
    ]}
  />`;
}

function Waiting() {
  const waiting = useLoaded((ended) => get("/jobs", { status: "pending", sort: "oldest", pageSize: MOST }, ended), [], 15);
  // A simulation takes longer than a list.
  const ids = (waiting.data?.items || []).map((job) => job.jobId).join(",");
  const fit = useLoaded(async (ended) => (ids ? get("/fit", { name: ids, holders: 0, maxAge: SHARED }, ended) : { jobs: [] }), [ids], 60);
  const verdicts = new Map((fit.data?.jobs || []).map((job) => [`${job.namespace}/${job.name}`, job]));
  /** @param {any} job */
  const verdict = (job) => verdicts.get(`${job.namespace}/${job.objectName || job.name}`);
  // What a job lacks in its pool matters only after its queue has admitted it: its own page reports the queue, too.
  /** @param {any} job */
  const reason = (job) => (verdict(job)?.verdict === "unknown" && verdict(job).admitted === false ? job.reason : verdict(job)?.reason || job.reason);
  return html`<section aria-labelledby="waiting">
    <h2 id="waiting">${t("What waits, and why")}</h2>
    <${Data} loaded=${waiting}>
      ${(data) => html`<${Lacking} what=${t("Whether jobs fit")} loaded=${fit} />
        <${Notes} notes=${fit.data?.notes} />
        <${Table}
          label=${t("What waits, and why")}
          empty=${t("No job that you may see waits.")}
          rows=${data.items}
          rowKey=${(row) => row.jobId}
          columns=${[
            { head: t("Job"), cell: (row) => html`<${JobName} job=${row} />`, wide: true },
            { head: t("Status"), cell: (row) => html`<${Status} word=${row.statusWord} />` },
            { head: t("GPUs"), cell: (row) => html`${number(row.gpu)} <span class="quiet">${row.gpuType || ""}</span>`, number: true },
            { head: t("Waiting time"), cell: (row) => html`<${Age} time=${row.createdAt} />`, number: true },
            { head: t("Applied by"), cell: (row) => row.appliedBy, name: true },
            { head: t("Would it fit?"), cell: (row) => (verdict(row) || (fit.data === null && !fit.error)) && html`<${WouldFit} fit=${verdict(row)} />` },
            { head: t("Reason"), cell: (row) => reason(row) && html`<span class="reason"><${Rich} text=${reason(row)} /></span>`, wide: true },
          ]}
        />
        ${data.total > data.items.length && html`<p><a href=${address(["jobs"], { status: "pending", sort: "oldest" })}>${t("All {total} waiting jobs", { total: number(data.total) })}</a></p>`}`}
    <//>
    <${Command} text="gpuctl fit" />
  </section>`;
}

/** @param {{fit: any}} props undefined while it is computed */
function WouldFit({ fit }) {
  if (!fit) return html`<span class="quiet">${t("Checking …")}</span>`;
  const victims = victimNames(fit.victims);
  return html`<${Verdict} word=${fit.verdict} />${victims && html`<span class="below">${t("evicts {names}", { names: victims })}</span>`}${fit.opening && html`<span class="below"><${Opening} opening=${fit.opening} /></span>`}`;
}

function Holding() {
  const holding = useLoaded(async (ended) => {
    const jobs = await get("/jobs", { status: "running", sort: "gpu", pageSize: MOST }, ended);
    const items = jobs.items.filter((job) => job.gpu > 0);
    // Those without GPUs are the last ones.
    return { items, more: jobs.total > items.length && items.length === jobs.items.length, total: jobs.total };
  }, [], 20);
  const names = (holding.data?.items || []).map((job) => job.objectName || job.name).join(",");
  const isKnown = names !== "" && !withoutUsage();
  const use = useLoaded(async (ended) => {
    if (!isKnown) return null;
    const since = new Date(Date.now() + clockLead() - SNAPSHOTS).toISOString();
    const snapshots = await get("/gpu-aggregation/snapshots", { start_time: since, workload_names: names }, ended);
    return snapshots.data[snapshots.data.length - 1];
  }, [names, isKnown], 20);
  const known = Object.entries(use.data?.allocation_details?.namespaces || {}).flatMap(([namespace, held]) =>
    (held.workloads || []).map((item) => [`${namespace}/${item.name}`, item.utilization]),
  );
  const measured = new Map(/** @type {[string, number][]} */ (known));
  /** @param {any} job */
  const utilization = (job) => measured.get(`${job.namespace}/${job.objectName || job.name}`);
  return html`<section aria-labelledby="holding">
    <h2 id="holding">${t("Who holds GPUs")}</h2>
    <${Data} loaded=${holding}>
      ${(data) => html`<${Lacking} what=${t("Utilization")} loaded=${use} />
        <${Table}
          label=${t("Who holds GPUs")}
          empty=${t("No job that you may see holds GPUs.")}
          rows=${data.items}
          rowKey=${(row) => row.jobId}
          columns=${[
            { head: t("Job"), cell: (row) => html`<${JobName} job=${row} />`, wide: true },
            { head: t("Kind"), cell: (row) => row.kind },
            { head: t("GPUs"), cell: (row) => html`${number(row.gpu)} <span class="quiet">${row.gpuType || ""}</span>`, number: true },
            { head: t("Pool"), cell: (row) => row.pool, name: true },
            { head: t("Applied by"), cell: (row) => row.appliedBy, name: true },
            { head: t("Held for"), cell: (row) => html`<${Age} time=${row.startedAt || row.createdAt} />`, number: true },
            { head: t("Utilization"), cell: (row) => percent(utilization(row)), number: true },
          ]}
        />
        ${data.more && html`<p><a href=${address(["jobs"], { status: "running", sort: "gpu" })}>${t("All {total} running jobs", { total: number(data.total) })}</a></p>`}`}
    <//>
  </section>`;
}

function Idle() {
  const reason = withoutUsage();
  return html`<section aria-labelledby="idle">
    <h2 id="idle">${t("Held and idle")}</h2>
    ${reason ? html`<${Absent} reason=${reason} />` : html`<${IdleTable} />`}
  </section>`;
}

function IdleTable() {
  const [page, setPage] = useState(1);
  const idle = useLoaded((ended) => get("/gpu-aggregation/waste", { page, page_size: MOST }, ended), [page], 60);
  return html`<${Data} loaded=${idle}>
      ${({ data }) => html`
        ${data.known_until && Date.parse(data.known_until) < Date.parse(data.end_time) - LATE && html`<p class="notes">${t("Usage is known until {time} only.", { time: moment(data.known_until) })}</p>`}
        ${data.total_idle_gpu_hours != null && html`<p>${t("{hours} GPU-hours were held and idle in the last 24 hours.", { hours: number(data.total_idle_gpu_hours) })}${data.total_idle_cost != null ? ` ${number(data.total_idle_cost, 2)} ${data.currency || ""}` : ""}</p>`}
        <${Table}
          label=${t("Held and idle")}
          empty=${t("No job has held idle GPUs for an hour.")}
          rows=${data.workloads}
          rowKey=${(row) => `${row.namespace}/${row.workload_type}/${row.workload_name}/${row.owner_uid}`}
          columns=${[
            { head: t("Job"), cell: (row) => html`<a href=${address(["jobs"], { namespace: row.namespace, name: row.workload_name })}><span class="quiet">${row.namespace}/</span>${row.workload_name}</a>`, wide: true },
            { head: t("Owner"), cell: (row) => row.owner, name: true },
            { head: t("GPUs"), cell: (row) => number(row.gpu_count), number: true },
            { head: t("Idle for"), cell: (row) => html`<${Age} time=${row.idle_since} />`, number: true },
            { head: t("Utilization"), cell: (row) => percent(row.avg_utilization), number: true },
            { head: t("Idle GPU-hours"), cell: (row) => number(row.idle_gpu_hours), number: true },
            data.currency && { head: t("Cost"), cell: (row) => (row.idle_cost == null ? null : `${number(row.idle_cost, 2)} ${data.currency}`), number: true },
            data.workloads.some((row) => row.pause) && { head: t("To free them"), cell: (row) => row.pause && html`<code>${row.pause}</code>`, wide: true },
          ]}
        />
        <${PageButtons} page=${page} last=${Math.ceil(data.total / MOST)} total=${data.total} onPage=${setPage} />
      `}
    <//>
    <${Command} text="gpuctl usage waste" />`;
}
