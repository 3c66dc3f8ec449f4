/** The jobs that a job waits for: those of its document, those ahead of it in its queue, and those that hold what it lacks. */
import { JobLink, KINDS, PagedTable, html, resourceName } from "../parts.js";
import { address } from "../route.js";
import { bytes, number, t } from "../texts.js";

const SIZE = 10;
const NAMES = ["job", "namespace", "pods", "priority", "createdAt", "resources", "amount"];

/** Jobs are named by their kind, or by that of their object. */
const LINKED = [...KINDS, "Pod", "Job", "JobSet", "LeaderWorkerSet", "Deployment", "StatefulSet"];

/** @param {{why: any, namespace: string}} props `namespace`: that of the job, for those that are named without one */
export function WaitsFor({ why, namespace }) {
  const { ahead, heldBy, position, waitingJobs, clusterQueue, prerequisites } = why.numbers;
  if (!ahead?.length && !heldBy?.length && !clusterQueue && !prerequisites?.length) return null;
  return html`${prerequisites?.length > 0 && html`<${Prerequisites} jobs=${prerequisites} namespace=${namespace} />`}${clusterQueue && html`<p>
      ${t("Queue:")} <a href=${address(["queues", clusterQueue])}>${clusterQueue}</a>${position ? ` · ${t("position {position} of {count}", { position: number(position), count: number(waitingJobs) })}` : ""}
    </p>`}
    <${Others} title=${t("Jobs ahead of it")} head=${t("Asks for")} jobs=${ahead} namespace=${namespace} />
    <${Others} title=${t("Jobs that hold what it lacks")} head=${t("Holds")} jobs=${heldBy} namespace=${namespace} />`;
}

/** State of a prerequisite -> text. @type {Record<string, string>} */
const STATES = /* texts */ { met: "has ended as wanted", waiting: "has not ended", missing: "does not exist", hidden: "does not exist, or you may not see it", unmet: "has ended otherwise" };

/** A sweep has no page: its jobs are a list. @param {{jobs: any[], namespace: string}} props */
function Prerequisites({ jobs, namespace }) {
  const title = t("Jobs that must end first");
  return html`<h3>${title}</h3>
    <${PagedTable}
      label=${title}
      size=${SIZE}
      rows=${jobs}
      rowKey=${(row) => row.name}
      columns=${[
        { head: t("Job"), cell: (row) => (row.isSweep ? html`<a href=${address(["jobs"], { namespace, name: row.name })}><span class="quiet">${namespace}/</span>${row.name}</a>` : html`<${JobLink} namespace=${namespace} kind="training" name=${row.name} />`), wide: true },
        { head: t("Status"), cell: (row) => t(STATES[row.mayBeHidden ? "hidden" : row.state]) },
      ]}
    />`;
}

/** @param {{title: string, head: string, jobs: any[] | null | undefined, namespace: string}} props */
function Others({ title, head, jobs, namespace }) {
  if (!jobs?.length) return null;
  const amounts = jobs.map(amountsOf);
  return html`<h3>${title}</h3>
    <${PagedTable}
      label=${title}
      size=${SIZE}
      rows=${jobs.map((job, place) => ({ ...job, amounts: amounts[place], place: place + 1 }))}
      rowKey=${(row) => String(row.place)}
      columns=${[
        { head: t("Job"), cell: (row) => html`<${Named} text=${row.job} namespace=${row.namespace || namespace} />`, wide: true },
        { head, cell: (row) => row.amounts },
        jobs.some((job) => job.pods) && { head: t("Pods"), cell: (row) => (row.pods == null ? null : number(row.pods)), number: true },
        jobs.some((job) => job.priority) && { head: t("Priority"), cell: (row) => (row.priority == null ? null : number(row.priority)), number: true },
      ]}
    />`;
}

/** Return true for jobs that the user may not see, which are one row. @param {string} text */
const isHidden = (text) => text.slice(text.indexOf("/") + 1).startsWith("(");

/** Return the names of the jobs that would be evicted, each once. @param {any[]} victims */
export function victimNames(victims) {
  const names = victims.map((victim) => (isHidden(victim.job) ? t("jobs that you may not see") : `${victim.namespace}/${victim.job}`));
  return [...new Set(names)].join(t(", "));
}

/** A job as `KIND/NAME`. Jobs that the user may not see have no name. @param {{text: string, namespace: string}} props */
function Named({ text, namespace }) {
  const [kind, name] = text.includes("/") ? text.split("/") : ["", text];
  return isHidden(text) ? html`<span class="quiet">${t("jobs that you may not see")}</span>` : html`<${JobLink} namespace=${namespace} kind=${kind} name=${name} kinds=${LINKED} />`;
}

/** Return the amounts of a job, GPUs first. @param {any} job */
function amountsOf(job) {
  // Merged jobs have the values that they have in common.
  const own = Object.entries(isHidden(job.job) ? {} : job.resources || {}).sort(([one], [other]) => Number(other.includes("/")) - Number(one.includes("/")));
  const direct = Object.entries(job).filter(([name]) => !NAMES.includes(name));
  return [...own, ...direct].map(([name, value]) => amountOf(name, value)).concat(job.amount ?? []).join(", ");
}

/** @param {string} name @param {any} value */
function amountOf(name, value) {
  const text = typeof value !== "number" ? value : name.endsWith("Bytes") ? bytes(value) : number(value);
  return `${text} ${resourceName(name)}`;
}
