/** One job: status, why it is in it and what helps, pods, logs, events, document, history. */
import { get, getOfJob } from "../api.js";
import { Logs } from "../logs.js";
import { useLoaded, useRight } from "../load.js";
import { Absent, Age, Ago, CauseCode, Changes, Command, Data, Facts, Heading, Lacking, Notes, PagedTable, PoolLinks, Rich, Status, Table, Tabs, html, quoted, worded } from "../parts.js";
import { address, go, route } from "../route.js";
import { duration, moment, t } from "../texts.js";
import { useEffect, useRef, useState } from "../vendor/preact-hooks.js";
import { JobUse } from "./job-use.js";
import { WaitsFor } from "./job-waits.js";
import { ENDED, JobActions, RollBack } from "./job-actions.js";

/** Age up to which lists of all pods that another request has read will do, seconds. */
const SHARED = 30;

/** @param {{namespace: string, id: string}} props */
export function Job({ namespace, id }) {
  const job = useLoaded((ended) => getOfJob(namespace, id, "details", { timeline: false, maxAge: SHARED }, ended), [namespace, id], 60);
  // The reason why a job waits is computed from all pods: it is loaded again when the job's row in the list has changed.
  const brief = useLoaded(async (ended) => JSON.stringify((await get("/jobs", { namespace, name: id }, ended)).items), [namespace, id]);
  const seen = useRef(brief.data);
  useEffect(() => {
    if (seen.current && brief.data) job.reload();
    seen.current = brief.data;
  }, [brief.data]);
  const parts = ["jobs", namespace, id];
  const tab = route.value.query.tab || "pods";
  const name = job.data?.name || id;
  const shown = useRef("");
  shown.current = job.data?.name || shown.current;
  const isGone = job.error?.status === 404;
  return html`<${Heading}
      title=${html`<span class="quiet">${namespace}/</span>${name}`}
      loaded=${job}
    >${job.data && html`<${JobActions} job=${job.data} onDone=${job.reload} />`}<//>
    ${!job.error && html`<${Lacking} what=${t("Changes of its status")} loaded=${brief} />`}
    <${Data} loaded=${job}>
      ${(data) => html`
        <p class="summary"><${Status} word=${data.status} /> <span>${data.kind}</span> <${Progress} job=${data} /></p>
        <${Why} job=${data} />
        <${Notes} notes=${data.notes} />
        <${Summary} job=${data} />
        <${Tabs}
          parts=${parts}
          current=${tab}
          tabs=${[
            ["pods", t("Pods")],
            ["logs", t("Logs")],
            ["events", t("Events")],
            ["use", t("GPU use")],
            ["document", t("Document")],
            ["history", t("Versions")],
          ]}
        />
        <div>
          ${tab === "pods" && html`<${Pods} job=${data} />`}
          ${tab === "logs" && html`<${Logs} job=${data} />`}
          ${tab === "events" && html`<${Events} job=${data} />`}
          ${tab === "use" && html`<${JobUse} job=${data} />`}
          ${tab === "document" && html`<${Document} job=${data} />`}
          ${tab === "history" && html`<${History} job=${data} onDone=${job.reload} />`}
        </div>
      `}
    <//>
    ${isGone && html`<${Gone} namespace=${namespace} id=${id} name=${shown.current} />`}`;
}

/**
 * The id of a job ends when it is replaced: then the job of the same name is shown. Of a job that this page has not
 * shown the name is not known, as a name can look like an id: the job that may be meant is a link.
 * @param {{namespace: string, id: string, name: string}} props `name`: "" if it is not known
 */
function Gone({ namespace, id, name }) {
  const wanted = name || id.replace(/-[a-z0-9]{5}$/, "");
  const others = useLoaded((ended) => get("/jobs", { namespace, name: wanted, pageSize: 100 }, ended), [namespace, wanted], 0);
  const same = others.data?.items.find((item) => item.name === wanted && item.jobId !== id);
  const target = same && address(["jobs", namespace, same.jobId], route.value.query);
  useEffect(() => {
    if (target && name) go(target);
  }, [target, name]);
  return html`<${Lacking} what=${t("Jobs")} loaded=${others} />
    ${target && !name && html`<p>${t("Another job in this namespace:")} <a href=${target}>${same.name}</a></p>`}
    <p><a href=${address(["jobs"], { namespace })}>${t("All jobs in {namespace}", { namespace })}</a></p>`;
}

/** What of a job runs. The reason of an array counts its pods that have succeeded. @param {{job: any}} props */
function Progress({ job }) {
  if (ENDED.includes(job.phase)) return null;
  if (job.reason && !job.why) return html`<span><${Rich} text=${job.reason} /></span>`;
  return job.ready && html`<span>${t("{ready} pods ready", { ready: job.ready })}</span>`;
}

/** @param {{job: any}} props */
function Why({ job }) {
  const why = job.why;
  if (!why) return null;
  return html`<section class="why" aria-labelledby="why">
    <h2 id="why">${t("Why")}</h2>
    <p class="lines"><${Rich} text=${why.message} /> <${CauseCode} cause=${why.cause} /></p>
    ${why.fix && html`<p class="fix lines"><strong>${t("What helps:")}</strong> <${Rich} text=${why.fix} /></p>`}
    ${commandsIn(why.fix).map((text) => html`<${Command} text=${text} />`)}
    <${WaitsFor} why=${why} namespace=${job.namespace} />
    <details>
      <summary>${t("Evidence")}</summary>
      <ul>
        ${why.evidence.map((item) => html`<li><span class="quiet">${item.source} ${item.object}</span> ${item.text} ${item.time && html`<${Age} time=${item.time} />`}</li>`)}
      </ul>
      ${why.ruledOut.length > 0 && html`<h3>${t("Ruled out")}</h3><ul>${why.ruledOut.map((text) => html`<li>${text}</li>`)}</ul>`}
      ${why.also.length > 0 && html`<h3>${t("Also possible")}</h3><ul>${why.also.map((item) => html`<li><${Rich} text=${item.message} /> <${CauseCode} cause=${item.cause} />${item.fix ? html` – <${Rich} text=${item.fix} />` : ""}</li>`)}</ul>`}
    </details>
    <${Command} text=${`gpuctl why ${job.kind}/${quoted(job.name)} -n ${quoted(job.namespace)}`} />
  </section>`;
}

/** Return the commands in backquotes of a text. @param {string | null} text */
function commandsIn(text) {
  return [...(text || "").matchAll(/`((?:gpuctl|kubectl) [^`]+)`/g)].map((found) => found[1]);
}

/** Return the amounts that a pod asks for. @param {any} resources */
function amountsOf(resources) {
  const { gpu, gpuType, cpu, memory } = resources || {};
  return [gpu != null && `${gpu} ${t("GPU")}${gpuType ? ` ${gpuType}` : ""}`, cpu != null && `${cpu} ${t("CPU")}`, memory].filter(Boolean).join(", ");
}

/** @param {{job: any}} props */
function Summary({ job }) {
  const places = [
    job.access?.route,
    ...["nodePorts", "loadBalancers", "clusterDns"].flatMap((name) => job.access?.[name] || []),
  ].filter(Boolean);
  return html`<${Facts}
    items=${[
      [t("Pool"), html`<${PoolLinks} names=${job.pool} />`],
      ...(job.roles?.length ? job.roles.map((role) => [t("Each pod of {role}, {count} in all", { role: role.name, count: role.pods }), amountsOf(role.resources)]) : [[t("Each pod"), amountsOf(job.resources)]]),
      [t("Priority"), job.priority],
      [t("Applied by"), job.appliedBy],
      [t("Created"), html`<${Ago} time=${job.createdAt} />`],
      [t("Started"), job.startedAt && html`<${Ago} time=${job.startedAt} />`],
      [t("Kubernetes object"), job.k8sResources?.kind && html`${job.k8sResources.kind}/<wbr />${job.k8sResources.jobName}`],
      [t("Image"), job.images?.length > 0 && html`<span class="break">${job.images.join(", ")}</span>`],
      [t("Addresses"), places.length > 0 && html`<span class="break">${places.join(", ")}</span>`],
      [t("From your machine"), job.access?.portForward && html`<code class="break">${job.access.portForward}</code>`],
      [t("Schedule"), job.schedule && html`<code>${job.schedule.cron}</code> ${job.schedule.timezone || ""}`],
      [t("Next run"), job.schedule?.nextRunAt && moment(job.schedule.nextRunAt)],
      [t("GPU utilization"), job.metrics?.gpuUtilization != null && `${job.metrics.gpuUtilization} %`],
      [t("GPU memory"), job.metrics?.memoryUsage],
    ]}
  />`;
}

/** @param {{job: any}} props */
function Pods({ job }) {
  return html`<${PagedTable}
    label=${t("Pods")}
    empty=${t("This job has no pods.")}
    rows=${job.pods}
    rowKey=${(row) => row.pod || row.name}
    columns=${[
      { head: t("Pod"), cell: (row) => row.pod && html`<a href=${address(["jobs", job.namespace, job.jobId], { tab: "logs", pod: row.pod })}>${row.pod}</a>`, wide: true },
      { head: t("Status"), cell: (row) => html`<${Status} word=${row.status} />` },
      { head: t("Ready"), cell: (row) => row.ready },
      { head: t("Restarts"), cell: (row) => row.restarts, number: true },
      { head: t("Node"), cell: (row) => row.node && html`<a href=${address(["nodes", row.node])}>${row.node}</a>` },
      { head: t("GPUs"), cell: (row) => row.gpu, number: true },
      { head: t("Age"), cell: (row) => html`<${Age} time=${row.createdAt} />`, number: true },
      { head: t("Reason"), cell: (row) => row.reason && html`<span class="reason"><${Rich} text=${row.reason} /></span>`, wide: true },
    ]}
  />`;
}

/** @param {{job: any}} props */
function Events({ job }) {
  const loaded = useLoaded((ended) => getOfJob(job.namespace, job.jobId, "timeline", {}, ended), [job.jobId], 15);
  return html`<${Data} loaded=${loaded}>${(history) => html`<${Timeline} history=${history} />`}<//>
    <${Command} text=${`gpuctl describe job ${job.kind}/${quoted(job.name)} -n ${quoted(job.namespace)}`} />`;
}

/** @param {{history: any}} props */
function Timeline({ history }) {
  return html`<${PagedTable}
      label=${t("Events")}
      empty=${t("Kubernetes has no events of this job; it keeps them for an hour.")}
      rows=${[...(history.events || [])].reverse()}
      rowKey=${(row) => `${row.object}${row.reason}${row.time}${row.message}`}
      columns=${[
        { head: t("Time"), cell: (row) => row.time && html`<${Ago} time=${row.time} />` },
        { head: t("Event"), cell: (row) => html`<span class=${row.type === "Warning" ? "warning" : ""}>${row.reason}</span>${row.count > 1 ? ` ×${row.count}` : ""}` },
        { head: t("Object"), cell: (row) => row.object },
        { head: t("Message"), cell: (row) => html`<span class="reason">${row.message}</span>`, wide: true },
      ]}
    />
    <h2>${t("Starts of the pods")}</h2>
    <${PagedTable}
      label=${t("Starts of the pods")}
      rows=${history.timeline}
      rowKey=${(row) => row.pod}
      columns=${[
        { head: t("Pod"), cell: (row) => row.pod, wide: true },
        { head: t("Stages"), cell: (row) => html`<span class="stages">${row.stages.map((stage, place) => html`<span title=${moment(stage.time)}>${stage.stage}${place ? ` +${duration(stage.seconds)}` : ""}</span>`)}</span>`, wide: true },
      ]}
    />
    ${history.conditions.length > 0 &&
    html`<h2>${t("Conditions")}</h2>
      <${Table}
        label=${t("Conditions")}
        rows=${history.conditions}
        rowKey=${(row) => row.type}
        columns=${[
          { head: t("Condition"), cell: (row) => `${row.type}=${row.status}` },
          { head: t("Unchanged for"), cell: (row) => html`<${Age} time=${row.lastTransitionTime} />`, number: true },
          { head: t("Reason"), cell: (row) => row.reason },
          { head: t("Message"), cell: (row) => html`<span class="reason">${row.message}</span>`, wide: true },
        ]}
      />`}`;
}

/** @param {{job: any}} props */
function Document({ job }) {
  if (!job.yamlContent) return html`<${Absent} reason=${t("gpuctl did not create this job, so that it has no document.")} />`;
  return html`<pre class="document" tabindex="0" aria-label=${t("Document")}>${job.yamlContent}</pre>
    <${Command} text=${`gpuctl describe job ${job.kind}/${quoted(job.name)} -n ${quoted(job.namespace)} -o yaml`} />`;
}

/** @param {{job: any, onDone: () => void}} props */
function History({ job, onDone }) {
  const [back, setBack] = useState(0);
  const updates = useRight("update", "jobs", { namespace: job.namespace, pool: job.pool });
  const history = useLoaded((ended) => getOfJob(job.namespace, job.jobId, "history", {}, ended), [job.jobId, job.yamlContent], 30);
  return html`<${Data} loaded=${history}>
    ${(data) => html`<${Notes} notes=${data.notes} />
      <${Table}
        label=${t("Versions")}
        empty=${t("No earlier document is known.")}
        rows=${[...data.items].sort((one, other) => other.revision - one.revision)}
        rowKey=${(row) => String(row.revision)}
        columns=${[
          { head: t("Revision"), cell: (row) => row.revision, number: true },
          { head: t("Time"), cell: (row) => row.createdAt && html`<${Ago} time=${row.createdAt} />` },
          { head: t("By"), cell: (row) => row.who },
          { head: t("Cause"), cell: (row) => worded(row.cause) },
          { head: t("Commit"), cell: (row) => row.commit && html`<code>${row.commit.id.slice(0, 10)}</code>${row.commit.dirty ? ` ${t("with changes")}` : ""}` },
          { head: t("Changes"), cell: (row) => html`<${Changes} changes=${row.changes} />`, wide: true },
          updates?.allowed && { head: t("Action"), cell: (row) => (row === newest(data.items) ? html`<span class="quiet">${t("current")}</span>` : html`<button class="small" onClick=${() => setBack(row.revision)}>${t("Roll back")}</button>`) },
        ]}
      />`}
    <//>
    ${back > 0 && html`<${RollBack} job=${job} revision=${back} onClose=${() => setBack(0)} onDone=${onDone} />`}
    <${Command} text=${`gpuctl history ${job.kind}/${quoted(job.name)} -n ${quoted(job.namespace)}`} />`;
}

/** @param {any[]} items */
const newest = (items) => items.reduce((last, item) => (item.revision > last.revision ? item : last), items[0]);
