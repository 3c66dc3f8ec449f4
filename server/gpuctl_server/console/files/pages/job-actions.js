/** The actions of a job: pause, resume, run again, roll back, delete. */
import { sendChange } from "../api.js";
import { useRight } from "../load.js";
import { Lacking, html, quoted } from "../parts.js";
import { ChangeDialog } from "../plan.js";
import { address, go } from "../route.js";
import { t } from "../texts.js";
import { useState } from "../vendor/preact-hooks.js";

export const ENDED = ["succeeded", "failed"];

/** @typedef {{name: string, title: string, label: string, danger?: boolean, shown: (job: any) => boolean}} Action */

/** @returns {Action[]} */
function actions() {
  return [
    { name: "pause", title: t("Pause"), label: t("Pause"), shown: (job) => job.phase !== "paused" && !ENDED.includes(job.phase) },
    { name: "resume", title: t("Resume"), label: t("Resume"), shown: (job) => job.phase === "paused" },
    { name: "rerun", title: t("Run again"), label: t("Run again"), shown: (job) => ENDED.includes(job.phase) },
    { name: "delete", title: t("Delete"), label: t("Delete"), danger: true, shown: () => true },
  ];
}

/** @param {{job: any, onDone: () => void}} props */
export function JobActions({ job, onDone }) {
  const where = { namespace: job.namespace, pool: job.pool };
  const updates = useRight("update", "jobs", where);
  const deletes = useRight("delete", "jobs", where);
  const [open, setOpen] = useState(/** @type {Action | null} */ (null));
  if (!updates || !deletes) return null;
  const failed = [updates, deletes].find((right) => right.loaded.error);
  if (!updates.allowed && !deletes.allowed && !failed) return html`<span class="quiet">${updates.message}</span>`;
  const known = actions().filter((action) => action.shown(job) && (action.name === "delete" ? deletes : updates).allowed);
  const run = (/** @type {boolean} */ dryRun, /** @type {string[]} */ confirmed, /** @type {boolean} */ queue) =>
    sendChange(`/jobs/${open?.name}`, dryRun, { namespace: job.namespace, queue: queue || "" }, { names: [job.jobId], confirmed });
  return html`${failed && html`<${Lacking} what=${t("Your rights")} loaded=${failed.loaded} />`}
    ${known.map((action) => html`<button class=${action.danger ? "danger" : ""} onClick=${() => setOpen(action)}>${action.title}</button>`)}
    ${open &&
    html`<${ChangeDialog}
      title=${t("{action}: {name}", { action: open.title, name: `${job.namespace}/${job.name}` })}
      label=${open.label}
      danger=${open.danger}
      command=${commandLine(open.name, job)}
      run=${run}
      onClose=${() => { setOpen(null); }}
      onDone=${() => (open.name === "delete" ? go(address(["jobs"], { namespace: job.namespace })) : onDone())}
    />`}`;
}

/** @param {string} name @param {any} job */
function commandLine(name, job) {
  const target = name === "delete" ? `${job.kind} ${quoted(job.name)}` : `${job.kind}/${quoted(job.name)}`;
  return `gpuctl ${name} ${target} -n ${quoted(job.namespace)}`;
}

/** Rolling back to a version. @param {{job: any, revision: number, onClose: () => void, onDone: () => void}} props */
export function RollBack({ job, revision, onClose, onDone }) {
  const run = (/** @type {boolean} */ dryRun, /** @type {string[]} */ confirmed, /** @type {boolean} */ queue) =>
    sendChange(`/jobs/${encodeURIComponent(job.jobId)}/rollback`, dryRun, { namespace: job.namespace, to: revision, queue: queue || "" }, { confirmed });
  return html`<${ChangeDialog}
    title=${t("Roll back {name} to version {revision}", { name: `${job.namespace}/${job.name}`, revision })}
    label=${t("Roll back")}
    command=${`gpuctl rollback ${job.kind}/${quoted(job.name)} -n ${quoted(job.namespace)} --to ${revision}`}
    run=${run}
    onClose=${onClose}
    onDone=${onDone}
  />`;
}
