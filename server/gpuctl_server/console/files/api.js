/** Requests to the REST API with the session of this browser. */
import { language } from "./prefs.js";
import { signal } from "./vendor/signals.js";

const BASE = "api/v1";
const SESSION = "console/session";
const PATIENCE = 60_000;

/** @typedef {{name: string | null, csrf: string, auth?: string, provider?: boolean, usage: boolean, metrics: boolean, namespaces: string[] | null, pools: string[] | null}} Session */

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
  const given = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return sent(method, `${BASE}${path}${text ? `?${text}` : ""}`, body, ended);
}

/** @param {string} path @param {Record<string, unknown>} [query] @param {AbortSignal} [ended] */
export const get = (path, query, ended) => call("GET", path, { query, signal: ended });

/**
 * @param {string} method @param {string} url @param {unknown} body @param {AbortSignal} [ended]
 * @returns {Promise<any>}
 */
async function sent(method, url, body, ended) {
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
    text = await response.text();
  } catch (error) {
    if (ended?.aborted) throw error;
    const message = limit.aborted ? `no answer within ${PATIENCE / 1000} s` : "the service cannot be reached";
    throw new ApiError(0, { error: "NoAnswer", message });
  }
  /** @type {any} */
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    // An answer of a proxy, such as a page about a bad gateway.
    value = { message: `HTTP ${response.status} ${response.statusText}` };
  }
  if (!response.ok) {
    if (response.status === 401 && session.value?.name) session.value = { ...session.value, name: null };
    throw new ApiError(response.status, value);
  }
  return value;
}

/** Find the session of this browser. */
export async function findSession() {
  session.value = await sent("GET", SESSION, undefined);
}

/** @param {string} token */
export async function logIn(token) {
  session.value = await sent("POST", SESSION, { token });
  rights.clear();
}

export async function logOut() {
  await sent("DELETE", SESSION, undefined);
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
