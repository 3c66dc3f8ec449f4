/** Requests to the REST API with the session of this browser. */
import { language } from "./prefs.js";
import { t } from "./texts.js";
import { signal } from "./vendor/signals.js";

const BASE = "api/v1";
const SESSION = "console/session";
const PATIENCE = 60_000;
/** The service carries out a change for at most ten minutes: checkpoints are saved, and pods end. */
const PATIENCE_OF_CHANGES = 660_000;
/** The service sends something at least every 15 s of a stream: after this time without, its connection is broken. */
const SILENCE = 45_000;
/** Difference between the clocks of the browser and the service that is not corrected, ms: answers take their time. */
const NEAR = 60_000;

let ahead = 0;
/** The logout that is under way. @type {Promise<void> | null} */
let leaving = null;

/** Return how far the API server's clock, which dates answers, is ahead of this browser's, in ms: it sets the times of objects. */
export const clockLead = () => ahead;

/** @param {Response} response */
function setClockLead(response) {
  const difference = Date.parse(response.headers.get("Date") || "") - Date.now();
  ahead = Math.abs(difference) > NEAR ? difference : 0;
}

/** Header: the service answers a refused read or dry run with status 200, as a browser reports every other one as an error. */
const REFUSALS = { Prefer: "refusal=answer" };

/** @typedef {{name: string | null, csrf: string, auth?: string, provider?: boolean, hasEnded?: boolean, usage: boolean, collected: boolean, metrics: boolean, audit: boolean, namespaces: string[] | null, pools: string[] | null}} Session */

/** The session; null until it is known. @type {import("./vendor/signals.js").Signal<Session | null>} */
export const session = signal(null);

/** An error answer, or no answer (status 0). */
export class ApiError extends Error {
  /** @param {number} status @param {any} body */
  constructor(status, body) {
    super(body?.error && body?.code ? body.error : body?.message || `HTTP ${status}`);
    this.status = status;
    this.name = body?.code ? body.message : body?.error || "Error";
    this.hint = body?.hint || "";
    this.details = body?.details || [];
    this.plan = body?.plan || null;
  }

  /** True if the same request may succeed later: the service or the cluster failed, not the request. */
  get isPassing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/**
 * Send a request and return its JSON.
 * @param {string} method
 * @param {string} path below /api/v1
 * @param {{query?: Record<string, unknown>, body?: unknown, signal?: AbortSignal, patience?: number}} [options] `patience`: time for the answer, ms
 * @returns {Promise<any>}
 */
export async function call(method, path, { query = {}, body, signal: ended, patience } = {}) {
  return sent(method, urlOf(path, query), body, ended, patience);
}

/** Send a change, or the dry run of one. @param {string} path @param {boolean} dryRun @param {Record<string, unknown>} query @param {unknown} body */
export const sendChange = (path, dryRun, query, body) => call("POST", path, { query: { ...query, dryRun: dryRun || "" }, body, patience: dryRun ? PATIENCE : PATIENCE_OF_CHANGES });

/** @param {string} path @param {Record<string, unknown>} [query] @param {AbortSignal} [ended] */
export const get = (path, query, ended) => call("GET", path, { query, signal: ended });

/** Return an answer that is not JSON. @param {string} path @param {Record<string, unknown>} query */
export const getText = (path, query) => received("GET", urlOf(path, query), undefined);

/**
 * Return a list; an empty one if the user may not read it.
 * @param {string} resource that of the right @param {string} path @param {Record<string, unknown>} query @param {AbortSignal} ended
 */
export async function listIfAllowed(resource, path, query, ended) {
  return (await right("get", resource)).allowed ? get(path, query, ended) : { items: [] };
}

/**
 * Return an answer about a job.
 * @param {string} namespace @param {string} id @param {string} part @param {Record<string, unknown>} query @param {AbortSignal} ended
 */
export const getOfJob = (namespace, id, part, query, ended) => get(`/jobs/${encodeURIComponent(id)}/${part}`, { namespace, ...query }, ended);

/**
 * Read Server-Sent Events; a comment is an event `alive`. Unlike with an EventSource, a refusal has its status and reason.
 * @param {string} path @param {Record<string, unknown>} query @param {string} last id of the last event that was read
 * @param {AbortSignal} ended
 * @returns {AsyncGenerator<{name: string, id: string, data: any}, void, void>}
 */
export async function* events(path, query, last, ended) {
  const silence = new AbortController();
  const either = AbortSignal.any([ended, silence.signal]);
  const late = () => silence.abort(new DOMException("", "TimeoutError"));
  let timer = setTimeout(late, PATIENCE);
  try {
    const headers = { ...REFUSALS, Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
    const response = await opened("GET", urlOf(path, query), undefined, either, headers);
    if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) unrefused(parsed(await response.text()));
    const decoder = new TextDecoder();
    const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
    let rest = "";
    for (;;) {
      clearTimeout(timer);
      timer = setTimeout(late, SILENCE);
      const part = await reader.read().catch(() => null);
      if (!part || part.done) throw new ApiError(0, { error: t("No answer"), message: t("The connection to the service is broken.") });
      const blocks = (rest + decoder.decode(part.value, { stream: true })).split("\n\n");
      rest = blocks.pop() || "";
      for (const block of blocks) {
        const fields = Object.fromEntries(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
        if (fields.data) yield { name: fields.event || "message", id: fields.id || "", data: JSON.parse(fields.data) };
        else if ("" in fields) yield { name: "alive", id: "", data: null };
      }
    }
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
}

/** @param {string} path below /api/v1 @param {Record<string, unknown>} query empty values are left out */
function urlOf(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `${BASE}${path}${text ? `?${text}` : ""}`;
}

/**
 * @param {string} method @param {string} url @param {unknown} body @param {AbortSignal} [ended] @param {number} [patience]
 * @returns {Promise<any>}
 */
async function sent(method, url, body, ended, patience) {
  const text = await received(method, url, body, ended, REFUSALS, patience);
  return unrefused(text ? parsed(text) : null);
}

/** Return an answer that is none of a proxy, and no refusal. @param {any} value */
function unrefused(value) {
  if (value === undefined) throw new ApiError(0, { error: t("No answer"), message: t("The answer is not one of the service. Is a proxy in front of it?") });
  if (value?.refusal) throw new ApiError(value.refusal.status, value.refusal);
  return value;
}

/** Return the JSON of an answer; undefined for that of a proxy, such as a page about a bad gateway. @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * @param {string} method @param {string} url @param {unknown} body @param {AbortSignal} [ended] @param {Record<string, string>} [more] headers @param {number} [patience]
 * @returns {Promise<string>}
 */
async function received(method, url, body, ended, more, patience = PATIENCE) {
  const limit = AbortSignal.timeout(patience);
  const either = ended ? AbortSignal.any([ended, limit]) : limit;
  const response = await opened(method, url, body, either, more, patience);
  return response.text().catch((error) => { throw unanswered(error, either, patience); });
}

/** Return the error of a request without an answer; that of a page that has ended its request as it is. @param {any} error @param {AbortSignal} ended @param {number} patience */
function unanswered(error, ended, patience) {
  if (ended.aborted && ended.reason?.name !== "TimeoutError") return error;
  const message = ended.aborted ? t("The service has not answered within {count} s.", { count: patience / 1000 }) : t("The service cannot be reached.");
  return new ApiError(0, { error: t("No answer"), message });
}

/**
 * Send a request, and return its answer once that has begun.
 * @param {string} method @param {string} url @param {unknown} body @param {AbortSignal} ended @param {Record<string, string>} [more] headers @param {number} [patience]
 * @returns {Promise<Response>}
 */
async function opened(method, url, body, ended, more, patience = PATIENCE) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json", "Accept-Language": language.value, ...more };
  if (url !== SESSION && leaving) {
    // The cookie may be gone already: the request would fail, and its answer look like the end of the session.
    await leaving;
    if (!session.value?.name) throw new ApiError(401, null);
  }
  if (method !== "GET") headers["X-CSRF-Token"] = session.value?.csrf || "";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(url, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
      signal: ended,
    });
    setClockLead(response);
  } catch (error) {
    throw unanswered(error, ended, patience);
  }
  if (!response.ok) {
    const text = await response.text().catch(() => "");
    if (response.status === 401 && session.value?.name) session.value = { ...session.value, name: null, hasEnded: true };
    throw new ApiError(response.status, parsed(text) ?? { message: `HTTP ${response.status} ${response.statusText}` });
  }
  return response;
}

/** Find the session of this browser. */
export async function findSession() {
  session.value = await sent("GET", SESSION, undefined);
}

/** Take over the session if another tab has logged in as another user, as all tabs share the cookie, or if usage is known by now. */
export async function followSession() {
  if (!session.value?.name) return;
  const found = await sent("GET", SESSION, undefined);
  if (!session.value?.name || (found.csrf === session.value.csrf && found.collected === session.value.collected)) return;
  rights.clear();
  session.value = found.name ? found : { ...session.value, name: null, hasEnded: true };
}

/** @param {string} token */
export async function logIn(token) {
  const found = await sent("POST", SESSION, { token });
  rights.clear();
  session.value = found;
}

/** End the session of this browser; one that has ended already is no error. */
export async function logOut() {
  const ended = sent("DELETE", SESSION, undefined).catch((error) => {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  });
  leaving = ended.catch(() => undefined);
  await ended.finally(() => { leaving = null; });
  rights.clear();
  const { auth, provider } = session.value || {};
  session.value = { name: null, csrf: "", auth, provider, usage: false, collected: false, metrics: false, audit: false, namespaces: null, pools: null };
}

/** @type {Map<string, Promise<{allowed: boolean, message: string}>>} */
const rights = new Map();

/**
 * Return whether the user may do something, with the reason.
 * @param {string} action @param {string} resource @param {{namespace?: string, pool?: string}} [where]
 */
export function right(action, resource, where = {}) {
  const key = JSON.stringify([action, resource, where, language.value]);
  let found = rights.get(key);
  if (!found) {
    found = call("POST", "/auth/check", { body: { action, resource, ...where } });
    found.catch(() => rights.delete(key));
    rights.set(key, found);
  }
  return found;
}

/** Return why the session may not see usage; "" if it may. Usage does not record pools. */
export function withoutUsage() {
  if (!session.value?.usage) return t("the service has no database of usage (the setting `usage_database`).");
  if (session.value.pools) return t("usage is not recorded by pool, and this token is limited to some pools.");
  return session.value.collected ? "" : t("no usage of this cluster has been collected yet; is `gpuctl usage collect` running?");
}
