/** Kueue's queues, and the page of one queue: its quota, who waits in which order, and who holds the quota. */
import { get } from "../api.js";
import { useLoaded } from "../load.js";
import { Age, Bar, Command, Data, Facts, Heading, JobLink, Notes, Pages, Status, Table, gpusFirst, html, quoted, resourceName } from "../parts.js";
import { address, route } from "../route.js";
import { bytes, number, t } from "../texts.js";

const SIZE = 50;

export default function Queues() {
  const [, name] = route.value.parts;
  return name ? html`<${Queue} name=${name} key=${name} />` : html`<${List} />`;
}

function List() {
  const loaded = useLoaded((ended) => get("/queues", {}, ended), [], 20);
  return html`<${Heading} title=${t("Queues")} loaded=${loaded} />
    <${Data} loaded=${loaded}>
      ${(data) => html`<${Notes} notes=${data.notes} />
        <${Table}
          label=${t("Queues")}
          empty=${t("No queue is visible.")}
          rows=${data.items}
          rowKey=${(row) => row.name}
          columns=${[
            { head: t("Queue"), cell: (row) => html`<a href=${address(["queues", row.name])}>${row.name}</a>`, wide: true },
            { head: t("Status"), cell: (row) => html`<${Status} word=${row.status} />${row.reason && html`<span class="below">${row.reason}</span>`}` },
            { head: t("Waiting jobs"), cell: (row) => counted(row.waitingJobs), number: true },
            { head: t("Admitted jobs"), cell: (row) => counted(row.admittedJobs), number: true },
            { head: t("Used of the quota"), cell: (row) => html`<${Quota} queue=${row} />`, wide: true },
            { head: t("Cohort"), cell: (row) => row.cohort },
            { head: t("Queue name in jobs"), cell: (row) => html`<${Entrances} queue=${row} />`, wide: true },
          ]}
        />`}
    <//>
    <${Command} text="gpuctl get queues" />`;
}

/** @param {number | null} value null: Workloads may not be read */
const counted = (value) => (value == null ? "?" : number(value));

/** @param {{queue: any}} props */
function Quota({ queue }) {
  if (!queue.resources) return html`<span class="quiet">${t("not visible")}</span>`;
  return html`<ul class="bare amounts">
    ${gpusFirst(queue.resources).map((one) => html`<li>
      <span class="limit">${resourceName(one.name)}</span> <${Bar} used=${one.used} total=${one.total} label=${`${queue.name} ${one.name} ${one.flavor}`} format=${isBytes(one) ? bytes : undefined} />
      ${one.borrowed > 0 && html` <span class="warning">${t("{amount} borrowed", { amount: amount(one, one.borrowed) })}</span>`}
    </li>`)}
  </ul>`;
}

/** @param {any} resource */
const isBytes = (resource) => /(memory|storage)$/.test(resource.resource);

/** @param {any} resource @param {number | null} value */
const amount = (resource, value) => (value == null ? "–" : isBytes(resource) ? bytes(value) : number(value));

/** The LocalQueues of a queue, by name: `resources.queue` of a job in these namespaces. @param {{queue: any}} props */
function Entrances({ queue }) {
  const names = [...new Set(queue.localQueues.map((place) => place.name))];
  if (!names.length) return html`<span class="quiet">–</span>`;
  return html`<ul class="bare">
    ${names.map((name) => {
      const places = queue.localQueues.filter((place) => place.name === name).map((place) => place.namespace);
      return html`<li><code>${name}</code> <span class="quiet">${t("in {namespace}", { namespace: places.slice(0, 5).join(", ") })}${places.length > 5 ? ` +${number(places.length - 5)}` : ""}</span></li>`;
    })}
  </ul>`;
}

/** @param {{name: string}} props */
function Queue({ name }) {
  const page = Math.max(1, Number(route.value.query.page) || 1);
  const loaded = useLoaded((ended) => get(`/queues/${encodeURIComponent(name)}`, { page, pageSize: SIZE }, ended), [name, page], 20);
  return html`<${Heading} title=${name} loaded=${loaded} />
    <${Data} loaded=${loaded}>
      ${(queue) => html`
        <${Notes} notes=${queue.notes} />
        <${Facts}
          items=${[
            [t("Status"), html`<${Status} word=${queue.status} /> ${queue.reason}`],
            [t("Waiting jobs"), counted(queue.waitingJobs)],
            [t("Admitted jobs"), counted(queue.admittedJobs)],
            [t("Cohort"), queue.resources ? queue.cohort : html`<span class="quiet">${t("not visible")}</span>`],
            [t("Strategy"), queue.strategy],
          ]}
        />
        <h2>${t("Quota")}</h2>
        <${Table}
          label=${t("Quota")}
          empty=${queue.resources ? t("This queue has no quota.") : t("not visible")}
          rows=${queue.resources ?? []}
          rowKey=${(row) => `${row.flavor}/${row.resource}`}
          columns=${[
            { head: t("Resource"), cell: (row) => resourceName(row.resource) },
            { head: t("Flavor"), cell: (row) => row.flavor },
            { head: t("Quota"), cell: (row) => amount(row, row.total), number: true },
            { head: t("Used"), cell: (row) => amount(row, row.used), number: true },
            { head: t("Borrowed"), cell: (row) => (row.borrowed ? html`<span class="warning">${amount(row, row.borrowed)}</span>` : html`<span class="quiet">0</span>`), number: true },
            { head: t("Free, with what the cohort lends"), cell: (row) => amount(row, row.free), number: true },
          ]}
        />
        <h2>${t("Queue name in jobs")}</h2>
        <${Table}
          label=${t("Queue name in jobs")}
          empty=${t("No namespace can use this queue.")}
          rows=${queue.localQueues}
          rowKey=${(row) => `${row.namespace}/${row.name}`}
          columns=${[
            { head: t("Name"), cell: (row) => html`<code>${row.name}</code>` },
            { head: t("Namespace"), cell: (row) => row.namespace },
            { head: t("Status"), cell: (row) => html`<${Status} word=${row.status} />${row.reason && html`<span class="below">${row.reason}</span>`}` },
            { head: t("Waiting jobs"), cell: (row) => counted(row.pendingWorkloads), number: true },
            { head: t("Admitted jobs"), cell: (row) => counted(row.admittedWorkloads), number: true },
            { head: t("Used"), cell: (row) => gpusFirst(row.resources).map((one) => `${resourceName(one.name)} ${amount(one, one.used)}`).join(", "), wide: true },
          ]}
        />
        <h2>${t("Waiting, in the order in which Kueue tries them")}</h2>
        <${JobsOfQueue} jobs=${queue.waiting} label=${t("Waiting jobs")} empty=${queue.waitingJobs ? t("No more on this page.") : t("No job waits.")} />
        <h2>${t("Admitted, the oldest first")}</h2>
        <${JobsOfQueue} jobs=${queue.admitted} label=${t("Admitted jobs")} empty=${queue.admittedJobs ? t("No more on this page.") : t("No job holds its quota.")} />
        <${Pages} total=${Math.max(queue.waitingJobs ?? 0, queue.admittedJobs ?? 0)} page=${page} size=${SIZE} />
      `}
    <//>
    <${Command} text=${`gpuctl describe queue ${quoted(name)}`} />`;
}

/** @param {{jobs: any[], label: string, empty: string}} props */
function JobsOfQueue({ jobs, label, empty }) {
  return html`<${Table}
    label=${label}
    empty=${empty}
    rows=${jobs}
    rowKey=${(row) => `${row.namespace}/${row.kind}/${row.name}`}
    columns=${[
      jobs.some((job) => job.position) && { head: t("Position"), cell: (row) => row.position, number: true },
      { head: t("Job"), cell: (row) => html`<${JobLink} namespace=${row.namespace} kind=${row.kind} name=${row.name} />`, wide: true },
      { head: t("Kind"), cell: (row) => row.kind },
      { head: t("GPUs"), cell: (row) => number(row.gpu), number: true },
      { head: t("Priority"), cell: (row) => number(row.priority), number: true },
      { head: t("Age"), cell: (row) => html`<${Age} time=${row.createdAt} />`, number: true },
    ]}
  />`;
}
