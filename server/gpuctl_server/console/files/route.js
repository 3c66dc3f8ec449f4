/** The address of a page: #/jobs/NAMESPACE/JOB?tab=logs. Filters are in it, so that it can be shared. */
import { signal } from "./vendor/signals.js";

/** @typedef {{parts: string[], query: Record<string, string>}} Route */

/** @returns {Route} */
function parsed() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  return {
    parts: path.split("/").filter(Boolean).map(decoded),
    query: Object.fromEntries(new URLSearchParams(query || "")),
  };
}

/** Return a part of the address; as written if it is not encoded correctly. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal(parsed());
addEventListener("hashchange", () => {
  route.value = parsed();
});

/**
 * Return the address of a page.
 * @param {string[]} parts
 * @param {Record<string, string | number | null | undefined>} [query] empty values are left out
 */
export function address(parts, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Change the query of this page; "back" in the browser undoes it. @param {Record<string, string | number | null | undefined>} changes */
export function setQuery(changes) {
  const { parts, query } = route.value;
  const target = address(parts, { ...query, ...changes });
  if (target === location.hash) return;
  history.pushState(null, "", target);
  route.value = parsed();
}

/** @param {string} target */
export function go(target) {
  location.hash = target;
}

/** @param {{namespace: string, jobId: string}} job @param {Record<string, string>} [query] */
export function jobAddress(job, query = {}) {
  return address(["jobs", job.namespace, job.jobId], query);
}
