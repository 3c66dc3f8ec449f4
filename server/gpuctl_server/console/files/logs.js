/** The logs of a job's pods: followed, searched, of all pods or one. */
import { ApiError, events, get } from "./api.js";
import { Coloured, plain } from "./log-text.js";
import { Command, Problem, Rich, html, quoted } from "./parts.js";
import { route, setQuery } from "./route.js";
import { counted, duration, number, t } from "./texts.js";
import { useEffect, useRef, useState } from "./vendor/preact-hooks.js";

const KEPT = 10_000;
const AT_ONCE = 2_000;
const COLOURS = 8;
/** Codes of the end of a stream after which it is opened again: the service is busy, or is shutting down. */
const AGAIN = [1012, 1013];
const LONGEST_PAUSE = 10_000;
const MOST_NOTES = 5;

/** @typedef {{pod: string, container: string, timestamp: string, text: string}} Line */
/** A message beside the lines; `interruption`: why the log, or that of a pod, cannot be read at the moment, "" when it continues. @typedef {{pod: string | null, message: string, kind?: string, interruption?: string}} Note */

/** @param {{job: any}} props */
export function Logs({ job }) {
  const query = route.value.query;
  const pod = query.pod || "";
  const previous = query.previous === "true";
  const tail = query.tail || "500";
  const [search, setSearch] = useState("");
  const [times, setTimes] = useState(false);
  const [follow, setFollow] = useState(true);
  const pods = job.pods.map((item) => item.pod).filter(Boolean);
  const log = useLog(job, { pod, previous, tail, follow: follow && !previous });
  const options = [
    pod && `--pod ${quoted(pod)}`,
    previous && "--previous",
    tail !== "all" && `--tail ${tail}`,
    follow && !previous && "--follow",
    search && `--ignore-case --grep ${quoted(search.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))}`,
  ].filter(Boolean);
  return html`<form class="filters" aria-label=${t("Selection of lines")} onSubmit=${(event) => event.preventDefault()}>
      <label>${t("Pod")}
        <select name="pod" value=${pod} onChange=${(event) => setQuery({ pod: event.target.value })}>
          <option value="">${t("All pods")}</option>
          ${(pod && !pods.includes(pod) ? [pod, ...pods] : pods).slice(0, 500).map((name) => html`<option value=${name} selected=${name === pod}>${name}</option>`)}
        </select>
      </label>
      <label>${t("Last lines of each pod")}
        <select name="tail" value=${tail} onChange=${(event) => setQuery({ tail: event.target.value })}>
          ${["100", "500", "5000"].map((count) => html`<option value=${count} selected=${count === tail}>${number(Number(count))}</option>`)}
        </select>
      </label>
      <label>${t("Search")}<input type="search" name="search" value=${search} onInput=${(event) => setSearch(event.target.value)} spellcheck=${false} /></label>
      <label class="check"><input type="checkbox" name="follow" checked=${follow && !previous} disabled=${previous} onChange=${(event) => setFollow(event.target.checked)} />${t("Follow")}</label>
      <label class="check"><input type="checkbox" name="times" checked=${times} onChange=${(event) => setTimes(event.target.checked)} />${t("Times")}</label>
      <label class="check"><input type="checkbox" name="previous" checked=${previous} onChange=${(event) => setQuery({ previous: event.target.checked ? "true" : "" })} />${t("Run before the restart")}</label>
    </form>
    ${log.error && html`<${Problem} error=${log.error} retry=${log.again} />`}
    ${log.problems.map((item) => html`<p class=${item.interruption || item.kind === "problem" ? "problem" : "notes"} role="status">${item.pod && html`<strong>${item.pod}</strong>`} ${item.interruption && t("Interrupted; trying again:")} <${Rich} text=${item.interruption || item.message} /></p>`)}
    <${Lines} log=${log} search=${search} times=${times} several=${!pod && pods.length > 1} />
    <${Command} text=${`gpuctl logs ${job.kind}/${quoted(job.name)} -n ${quoted(job.namespace)}${options.map((text) => ` ${text}`).join("")}`} />`;
}

/**
 * Read a log, and follow it with Server-Sent Events.
 * @param {any} job @param {{pod: string, previous: boolean, tail: string, follow: boolean}} selection
 */
function useLog(job, { pod, previous, tail, follow }) {
  /** @type {{current: Line[]}} */
  const lines = useRef([]);
  const [version, setVersion] = useState(0);
  const [state, setState] = useState("loading");
  const [error, setError] = useState(/** @type {ApiError | null} */ (null));
  const [problems, setProblems] = useState(/** @type {Note[]} */ ([]));
  const [turn, setTurn] = useState(0);
  const key = [job.jobId, job.namespace, pod, previous, tail, follow, turn].join(" ");
  useEffect(() => {
    const ending = new AbortController();
    const path = `/jobs/${encodeURIComponent(job.jobId)}/logs`;
    const query = { namespace: job.namespace, pod, previous: previous || "", tail };
    lines.current = [];
    setError(null);
    setProblems([]);
    setState("loading");
    let frame = 0;
    const show = () => {
      frame = 0;
      if (lines.current.length > KEPT) lines.current = lines.current.slice(-KEPT);
      setVersion((value) => value + 1);
    };
    const add = (/** @type {Line[]} */ more) => {
      lines.current.push(...more);
      // A hidden page is never drawn, and has its log followed nevertheless.
      if (lines.current.length > 2 * KEPT) lines.current = lines.current.slice(-KEPT);
      frame ||= requestAnimationFrame(show);
    };
    async function once() {
      try {
        const found = await get(path, query, ending.signal);
        add(found.lines);
        setProblems(found.problems.map((item) => ({ ...item, kind: "problem" })));
        setState("read");
      } catch (problem) {
        if (ending.signal.aborted) return;
        setError(/** @type {ApiError} */ (problem));
        setState("ended");
      }
    }
    let last = "";
    let failures = 0;
    let since = 0;
    /** Say that the connection is there again. The service repeats interruptions of pods that last. @param {number} seconds */
    function continued(seconds) {
      const message = t("The log was interrupted for {time}, and continues where it was.", { time: duration(seconds) });
      setProblems((before) => noted(before, { pod: null, message, interruption: "" }));
    }
    /** Read the stream, up to its end or the end of the connection. */
    async function read() {
      for await (const { name, id, data } of events(path, { ...query, follow: "true" }, last, ending.signal)) {
        last = id || last;
        if (name === "message" || name === "alive") {
          if (data) add([data]);
          failures = 0;
          setState("following");
          if (since) continued((Date.now() - since) / 1000);
          since = 0;
        } else if (name !== "end") {
          setProblems((before) => noted(before, { ...data, kind: name }));
        } else if (AGAIN.includes(data.code)) {
          throw new ApiError(503, { error: t("The log ended"), message: data.reason });
        } else {
          if (data.code !== 1000) setError(new ApiError(0, { error: t("The log ended"), message: data.reason }));
          return;
        }
      }
    }
    /** Read the stream, and open it again at the line where it was interrupted. */
    async function followed() {
      try {
        await read();
        setState("ended");
      } catch (problem) {
        if (ending.signal.aborted) return;
        if (!(problem instanceof ApiError)) console.error(problem);
        const error = problem instanceof ApiError ? problem : new ApiError(400, { message: String(problem) });
        if (!error.isPassing) {
          setError(error);
          setState("ended");
          return;
        }
        setState("interrupted");
        setProblems((before) => noted(before.filter((item) => !item.pod || !item.interruption), { pod: null, message: "", interruption: error.message }));
        since ||= Date.now();
        failures += 1;
        timer = setTimeout(followed, Math.min(LONGEST_PAUSE, 500 * 2 ** failures));
      }
    }
    let timer = 0;
    if (follow) followed();
    else once();
    return () => {
      ending.abort();
      clearTimeout(timer);
      cancelAnimationFrame(frame);
    };
  }, [key]);
  return { lines: lines.current, version, state, error, problems, again: () => setTurn((value) => value + 1) };
}

/** Return the notes with another one, each once: the end of an interruption replaces it. @param {Note[]} before @param {Note} note */
function noted(before, note) {
  const isSame = (/** @type {Note} */ item) => item.pod === note.pod && (note.interruption === undefined ? item.message === note.message : item.interruption !== undefined);
  return [...before.filter((item) => !isSame(item)), note].slice(-MOST_NOTES);
}

/** @type {Record<string, string>} */
const STATES = /* texts */ {
  loading: "Loading …",
  following: "Following",
  interrupted: "Interrupted; trying again",
  ended: "The log has ended",
  read: "Read once",
};

/** @param {{log: any, search: string, times: boolean, several: boolean}} props */
function Lines({ log, search, times, several }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const [atEnd, setAtEnd] = useState(true);
  const wanted = search.toLowerCase();
  const found = /** @type {Line[]} */ (wanted ? log.lines.filter((line) => plain(line.text).toLowerCase().includes(wanted)) : log.lines);
  const shown = found.slice(-AT_ONCE);
  const end = () => place.current?.scrollTo({ top: place.current.scrollHeight });
  useEffect(() => {
    if (atEnd) end();
  }, [log.version, search, times]);
  const pods = several ? [...new Set(log.lines.map((line) => line.pod))].sort() : [];
  return html`<p class="log-state" role="status">
      ${t(STATES[log.state])} · ${counted(found.length, "{count} line", "{count} lines")}
      ${found.length > shown.length && html` · ${t("the last {count} are shown", { count: number(shown.length) })}`}
      ${!atEnd && html` <button class="link" onClick=${() => { setAtEnd(true); end(); }}>${t("To the end")}</button>`}
    </p>
    <div
      class="log"
      role="log"
      aria-label=${t("Logs")}
      aria-live="off"
      tabindex="0"
      ref=${place}
      onScroll=${(event) => setAtEnd(event.target.scrollTop + event.target.clientHeight > event.target.scrollHeight - 30)}
    >
      ${!shown.length && log.state !== "loading" && html`<p class="quiet">${wanted ? t("No line matches.") : t("There are no lines yet.")}</p>`}
      ${shown.map(
        (line) => html`<div class="line">
          ${times && html`<span class="quiet">${line.timestamp} </span>`}
          ${several && html`<span class="pod pod-${pods.indexOf(line.pod) % COLOURS}">${line.pod} </span>`}<${Marked} text=${line.text} search=${wanted} />
        </div>`,
      )}
    </div>`;
}

/** A line with the searched words marked, or with its own colours. @param {{text: string, search: string}} props */
function Marked({ text: written, search }) {
  if (!search) return html`<${Coloured} text=${written} />`;
  const text = plain(written);
  const parts = [];
  const lower = text.toLowerCase();
  let from = 0;
  for (let place = lower.indexOf(search); place >= 0; place = lower.indexOf(search, from)) {
    parts.push(text.slice(from, place), html`<mark>${text.slice(place, place + search.length)}</mark>`);
    from = place + search.length;
  }
  return [...parts, text.slice(from)];
}
