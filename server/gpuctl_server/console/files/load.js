/** Loading the data of a page, with its age, and again at intervals. */
import { ApiError, right } from "./api.js";
import { language } from "./prefs.js";
import { useCallback, useEffect, useRef, useState } from "./vendor/preact-hooks.js";
import { signal } from "./vendor/signals.js";

/** The time, each second. */
export const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, 1000);

/** Seconds after which a request that failed is sent again. */
const AGAIN = 10;

/** `since`: when the request that runs was sent, 0 without one. @typedef {{data: any, error: ApiError | null, at: number, since: number, reload: () => void}} Loaded */

/**
 * Load data with a function, now and at intervals while the page is visible. A part of the page must show the error:
 * `Data` in place of the data, or `Lacking` beside what the page shows without them.
 * @param {(ended: AbortSignal) => Promise<any>} load
 * @param {unknown[]} inputs values on which the data depend; others never show the old data
 * @param {number} [every] seconds; 0 for once
 * @returns {Loaded}
 */
export function useLoaded(load, inputs, every = 10) {
  const key = JSON.stringify([inputs, language.value]);
  const [state, setState] = useState({ key, data: null, error: /** @type {ApiError | null} */ (null), at: 0 });
  const [since, setSince] = useState(0);
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const ending = new AbortController();
    let timer = 0;
    async function run() {
      let pause = every;
      setSince(Date.now());
      try {
        const data = await latest.current(ending.signal);
        if (!ending.signal.aborted) setState({ key, data, error: null, at: Date.now() });
      } catch (error) {
        if (ending.signal.aborted) return;
        if (!(error instanceof ApiError)) console.error(error);
        const problem = error instanceof ApiError ? error : new ApiError(0, { message: String(error) });
        setState((old) => (old.key === key ? { ...old, error: problem } : { key, data: null, error: problem, at: 0 }));
        if (problem.isPassing) pause = Math.min(every || AGAIN, AGAIN);
      }
      setSince(0);
      if (pause) timer = setTimeout(wait, pause * 1000);
    }
    function wait() {
      if (document.hidden) document.addEventListener("visibilitychange", run, { once: true, signal: ending.signal });
      else run();
    }
    run();
    return () => {
      ending.abort();
      clearTimeout(timer);
    };
  }, [key, every, turn]);
  const reload = useCallback(() => setTurn((value) => value + 1), []);
  const current = state.key === key ? state : { data: null, error: null, at: 0 };
  return { data: current.data, error: current.error, at: current.at, since, reload };
}

/** @typedef {{allowed: boolean, message: string, loaded: Loaded}} Right */

/**
 * Return a right of the user; null until it is known. If it cannot be loaded, nothing is allowed, with that reason.
 * @param {string} action @param {string} resource @param {{namespace?: string, pool?: string}} [where]
 * @returns {Right | null}
 */
export function useRight(action, resource, where = {}) {
  const loaded = useLoaded(() => right(action, resource, where), [action, resource, where.namespace, where.pool], 0);
  if (loaded.data) return { ...loaded.data, loaded };
  return loaded.error && { allowed: false, message: loaded.error.message, loaded };
}
