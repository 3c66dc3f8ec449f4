/** A form that writes a document's common fields. The text is the only state: the form reads its values from it. */
import { listIfAllowed } from "../api.js";
import { useLoaded } from "../load.js";
import { KINDS, Lacking, html } from "../parts.js";
import { t } from "../texts.js";
import { useEffect, useState } from "../vendor/preact-hooks.js";
import { isOne, read, readItems, scalar, write, writeItems } from "./lines.js";
import { commandLine, commandOf, mountOf, mountText } from "./words.js";

/**
 * @typedef {object} Field
 * @property {string} path
 * @property {string} label
 * @property {string[]} [kinds] the kinds that have it; all without
 * @property {"number"} [type]
 * @property {string} [help]
 * @property {string[]} [known] values to choose from; others can be typed
 * @property {boolean} [closed] only known values
 * @property {boolean} [isLong] needs the width of two
 */

/** @param {Choices} choices @returns {Field[]} */
function fields(choices) {
  const services = ["inference", "compute"];
  return [
    { path: "job.name", label: t("Name") },
    { path: "job.namespace", label: t("Namespace"), known: choices.namespaces },
    { path: "environment.image", label: t("Image"), isLong: true },
    { path: "environment.command", label: t("Command"), help: t("As in a shell; empty for the image's own."), isLong: true },
    { path: "resources.pool", label: t("Pool"), known: choices.pools, closed: true },
    { path: "resources.gpu", label: t("GPUs per pod"), type: "number" },
    { path: "resources.gpu-type", label: t("GPU type"), known: choices.types, closed: true },
    { path: "resources.nodes", label: t("Number of nodes"), type: "number", kinds: ["training"] },
    { path: "resources.cpu", label: t("CPU cores") },
    { path: "resources.memory", label: t("Memory") },
    { path: "resources.queue", label: t("Queue"), known: choices.queues, closed: true },
    { path: "service.replicas", label: t("Replicas"), type: "number", kinds: services },
    { path: "service.port", label: t("Port"), type: "number", kinds: [...services, "notebook"] },
    { path: "storage.workdirs", label: t("Storage"), help: t("`CLAIM:/path` of a volume, or `/path` of the node; several with blanks."), isLong: true },
  ];
}

const TEXTS = ["job.name", "job.namespace", "environment.image", "resources.pool", "resources.gpu-type", "resources.queue"];

/** @typedef {{namespaces: string[], pools: string[], types: string[], queues: string[], loaded: import("../load.js").Loaded}} Choices */

/** Load what the cluster has to choose from beside its pools. A list that may not be read is empty. @param {string} namespace @param {string} pool @param {any[]} pools @returns {Choices} */
function useChoices(namespace, pool, pools) {
  const loaded = useLoaded(async (ended) => {
    const lists = [["namespaces", "/namespaces?all=true"], ["nodes", "/gpu-types"], ["quotas", "/queues"]];
    const [namespaces, types, queues] = await Promise.all(lists.map(([resource, path]) => listIfAllowed(resource, path, {}, ended)));
    return { namespaces: namespaces.items, types: types.items, queues: queues.items };
  }, [], 0);
  const { namespaces = [], types = [], queues = [] } = loaded.data || {};
  const local = queues.flatMap((queue) => queue.localQueues).filter((place) => place.namespace === namespace);
  return {
    namespaces: namespaces.map((item) => item.name),
    pools: pools.map((item) => item.name),
    types: types.filter((item) => !pool || item.boundPools.includes(pool)).map((item) => item.gpuType),
    queues: [...new Set(local.map((place) => place.name))].sort(),
    loaded,
  };
}

/** @param {{text: string, pools: any[], onChange: (text: string) => void}} props */
export function DocumentForm({ text, pools, onChange }) {
  const kind = read(text, "kind") || "";
  const choices = useChoices(read(text, "job.namespace") || "default", read(text, "resources.pool") || "", pools);
  const one = isOne(text);
  return html`<form class="document-form" aria-label=${t("Common fields of the document")} onSubmit=${(event) => event.preventDefault()}>
    <${Lacking} what=${t("Values of the form")} loaded=${choices.loaded} />
    ${!one && html`<p class="quiet">${t("The form is for one document; these are several.")}</p>`}
    <div class="entry">
      <label for="field-kind">${t("Kind")}</label>
      <select id="field-kind" name="kind" disabled=${!one} value=${kind} onChange=${(event) => onChange(ofKind(text, event.target.value))}>
        ${[...(KINDS.includes(kind) ? [] : [kind]), ...KINDS].map((name) => html`<option value=${name} selected=${name === kind}>${name}</option>`)}
      </select>
    </div>
    ${fields(choices)
      .filter((field) => !field.kinds || field.kinds.includes(kind))
      .map((field) => html`<${Entry} key=${field.path} field=${field} text=${text} disabled=${!one} onChange=${onChange} />`)}
  </form>`;
}

/** Return the text as a document of another kind, without fields that it does not have. @param {string} text @param {string} kind */
function ofKind(text, kind) {
  const isService = kind === "inference" || kind === "compute";
  let result = write(text, "kind", kind);
  if (!isService) result = write(result, "service.replicas", "");
  if (kind === "training") return write(result, "service.port", "");
  result = write(result, "resources.nodes", "");
  return read(result, "service.port") === "" ? write(result, "service.port", kind === "notebook" ? "8888" : "8000") : result;
}

/** Return the text of a field of the form; undefined if the document has it in another form. @param {string} text @param {string} path */
function valueOf(text, path) {
  if (path === "environment.command") return commandLine(read(text, path));
  if (path !== "storage.workdirs") return listed(read(text, path));
  const items = readItems(text, "storage", "workdirs")?.map(mountText);
  return items?.includes(undefined) ? undefined : items?.join(" ");
}

/** A list of values, such as of GPU types, is not a value of the form. @param {string | undefined} value */
const listed = (value) => (value?.startsWith("[") ? undefined : value);

/** Return the document with a value of the form; null if the value cannot be written. @param {string} text @param {string} path @param {string} value */
function withValue(text, path, value) {
  if (path === "environment.command") {
    const command = commandOf(value);
    return command === null ? null : write(text, path, command);
  }
  if (path === "storage.workdirs") {
    const items = value.split(/\s+/).filter(Boolean).map(mountOf);
    return items.includes(null) ? null : writeItems(text, "storage", "workdirs", /** @type {string[]} */ (items));
  }
  const trimmed = value.trim();
  const isText = TEXTS.includes(path) || !/^[\d.]+$/.test(trimmed);
  return write(text, path, trimmed && isText ? scalar(trimmed) : trimmed);
}

/** @param {{field: Field, text: string, disabled: boolean, onChange: (text: string) => void}} props */
function Entry({ field, text, disabled, onChange }) {
  const value = valueOf(text, field.path);
  const [draft, setDraft] = useState(value ?? "");
  const [wrong, setWrong] = useState(false);
  useEffect(() => {
    // What is being typed stays as it is, such as other quotes, unless the document was changed beside the form.
    if (value !== undefined && withValue(text, field.path, draft) === text) return;
    setDraft(value ?? "");
    setWrong(false);
  }, [value]);
  const id = `field-${field.path}`;
  const change = (/** @type {any} */ event) => {
    setDraft(event.target.value);
    const changed = withValue(text, field.path, event.target.value);
    setWrong(changed === null);
    // A value that is being typed, such as an open quote, is written when it is complete.
    if (changed !== null) onChange(changed);
  };
  const notes = value === undefined ? t("Set in the document.") : wrong ? t("This cannot be written yet.") : field.help;
  const common = { id, name: field.path, value: draft, disabled: disabled || value === undefined, "aria-describedby": notes ? `${id}-help` : undefined, "aria-invalid": wrong || undefined };
  const known = field.known || [];
  return html`<div class="entry${field.isLong ? " long" : ""}">
    <label for=${id}>${field.label}</label>
    ${field.closed
      ? html`<select ...${common} onChange=${change}>
          <option value="">${t("Not stated")}</option>
          ${[...(draft && !known.includes(draft) ? [draft] : []), ...known].map((item) => html`<option value=${item} selected=${item === draft}>${item}</option>`)}
        </select>`
      : html`<input ...${common} type=${field.type || "text"} min=${field.type && "0"} list=${field.known && `${id}-known`} spellcheck=${false} autocapitalize="off" autocomplete="off" onInput=${change} />
          ${field.known && html`<datalist id=${`${id}-known`}>${known.map((item) => html`<option value=${item}></option>`)}</datalist>`}`}
    ${notes && html`<span id=${`${id}-help`} class=${wrong ? "warning" : "quiet"}>${notes.split("`").map((part, place) => (place % 2 ? html`<code>${part}</code>` : part))}</span>`}
  </div>`;
}
