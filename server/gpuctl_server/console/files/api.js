/** Requests to the REST API with the session of this browser. */
import { language } from "./prefs.js";
import { t } from "./texts.js";
import { signal } from "./vendor/signals.js";

const BASE = "api/v1";
const SESSION = "console/session";
const PATIENCE = 60_000;
/** Difference between the clocks of the browser and the service that is not corrected, ms: answers take their time. */
const NEAR = 60_000;

let ahead = 0;

/** Return how far the service's clock is ahead of this browser's, in ms: ages are about times of the service. */
export const clockLead = () => ahead;

/** @param {Response} response */
function setClockLead(response) {
  const difference = Date.parse(response.headers.get("Date") || "") - Date.now();
  ahead = Math.abs(difference) > NEAR ? difference : 0;
}

/** @typedef {{name: string | null, csrf: string, auth?: string, provider?: boolean, hasEnded?: boolean, usage: boolean, metrics: boolean, namespaces: string[] | null, pools: string[] | null}} Session */

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
}

/**
 * Send a request and return its JSON.
 * @param {string} method
 * @param {string} path below /api/v1
 * @param {{query?: Record<string, unknown>, body?: unknown, signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function call(method, path, { query = {}, body, signal: ended } = {}) {
  return sent(method, urlOf(path, query), body, ended);
}

/** @param {string} path @param {Record<string, unknown>} [query] @param {AbortSignal} [ended] */
export const get = (path, query, ended) => call("GET", path, { query, signal: ended });

/** Return an answer that is not JSON. @param {string} path @param {Record<string, unknown>} query */
export const getText = (path, query) => received("GET", urlOf(path, query), undefined);

/** @param {string} path below /api/v1 @param {Record<string, unknown>} query empty values are left out */
function urlOf(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `${BASE}${path}${text ? `?${text}` : ""}`;
}

/**
 * @param {string} method @param {string} url @param {unknown} body @param {AbortSignal} [ended]
 * @returns {Promise<any>}
 */
async function sent(method, url, body, ended) {
  return parsed(await received(method, url, body, ended), "not JSON");
}

/** Return the JSON of an answer; that of a proxy, such as a page about a bad gateway, is none. @param {string} text @param {string} message */
function parsed(text, message) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return { message };
  }
}

/**
 * @param {string} method @param {string} url @param {unknown} body @param {AbortSignal} [ended]
 * @returns {Promise<string>}
 */
async function received(method, url, body, ended) {
  const limit = AbortSignal.timeout(PATIENCE);
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json", "Accept-Language": language.value };
  if (method !== "GET") headers["X-CSRF-Token"] = session.value?.csrf || "";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response, text;
  try {
    response = await fetch(url, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
      signal: ended ? AbortSignal.any([ended, limit]) : limit,
    });
    setClockLead(response);
    text = await response.text();
  } catch (error) {
    if (ended?.aborted) throw error;
    const message = limit.aborted ? t("The service has not answered within {count} s.", { count: PATIENCE / 1000 }) : t("The service cannot be reached.");
    throw new ApiError(0, { error: t("No answer"), message });
  }
  if (!response.ok) {
    if (response.status === 401 && session.value?.name) session.value = { ...session.value, name: null, hasEnded: true };
    throw new ApiError(response.status, parsed(text, `HTTP ${response.status} ${response.statusText}`));
  }
  return text;
}

/** Find the session of this browser. */
export async function findSession() {
  session.value = await sent("GET", SESSION, undefined);
}

/** Take over the session if another tab has logged in as another user: all tabs share the cookie. */
export async function followSession() {
  if (!session.value?.name) return;
  const found = await sent("GET", SESSION, undefined);
  if (!session.value?.name || found.csrf === session.value.csrf) return;
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
  try {
    await sent("DELETE", SESSION, undefined);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  }
  rights.clear();
  const { auth, provider } = session.value || {};
  session.value = { name: null, csrf: "", auth, provider, usage: false, metrics: false, namespaces: null, pools: null };
}

/** @type {Map<string, Promise<{allowed: boolean, message: string}>>} */
const rights = new Map();

/**
 * Return whether the user may do something, with the reason.
 * @param {string} action @param {string} resource @param {{namespace?: string, pool?: string}} [where]
 */
export function right(action, resource, where = {}) {
  const key = JSON.stringify([action, resource, where]);
  let found = rights.get(key);
  if (!found) {
    found = call("POST", "/auth/check", { body: { action, resource, ...where } });
    found.catch(() => rights.delete(key));
    rights.set(key, found);
  }
  return found;
}

/** Return why the session may not see the usage of single workloads; "" if it may. Usage does not record pools. */
export function withoutWorkloads() {
  if (!session.value?.usage) return t("the service has no database of usage (the setting `usage_database`).");
  return session.value.pools ? t("usage is not recorded by pool, and this token is limited to some pools.") : "";
}
