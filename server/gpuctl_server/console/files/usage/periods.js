/** Periods of the usage page, and the ones that they are compared with. */
import { clockLead } from "../api.js";
import { t } from "../texts.js";

const HOUR = 3600;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;
export const OWN = "own";
const USUAL = "7d";
/** Name of a period -> its title, and its length in seconds. @type {Record<string, {title: () => string, seconds: number}>} */
export const RANGES = {
  "24h": { title: () => t("24 hours"), seconds: DAY },
  "7d": { title: () => t("7 days"), seconds: 7 * DAY },
  "30d": { title: () => t("30 days"), seconds: 30 * DAY },
  "90d": { title: () => t("90 days"), seconds: 90 * DAY },
  "365d": { title: () => t("365 days"), seconds: YEAR },
  month: { title: () => t("Last month"), seconds: 0 },
  quarter: { title: () => t("Last quarter"), seconds: 0 },
  own: { title: () => t("From day to day"), seconds: 0 },
};
/** Number of months of a period of the calendar. @type {Record<string, number>} */
const MONTHS = { month: 1, quarter: 3 };
/** The time zone of days: that of the browser. */
export const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** Longest period in seconds -> step of the curve: some dozens of steps. @type {[number, string][]} */
const STEPS = [[8 * DAY, "hour"], [100 * DAY, "day"], [400 * DAY, "week"]];

/** @typedef {{name: string, first: string, last: string, compare: string, start: string, end: string, step: string, before: {start: string, end: string}}} Period */

/** Return the period of an address; its `start` is empty if its days are in the wrong order. @param {Record<string, string>} query @returns {Period} */
export function periodOf(query) {
  const name = Object.hasOwn(RANGES, query.range) ? query.range : USUAL;
  const compare = query.compare === "year" ? "year" : "";
  const now = Math.ceil((Date.now() + clockLead()) / 1000 / HOUR) * HOUR;
  const first = dayOf(query.first) || asDay(new Date((now - 30 * DAY) * 1000));
  const last = dayOf(query.last) || asDay(new Date((now - 1) * 1000));
  const months = MONTHS[name];
  const begin = (/** @type {number} */ back) => beginOf(now, months, back);
  const [start, end] = name === OWN ? [midnight(first), midnight(last, 1)] : months ? [begin(1), begin(0)] : [now - RANGES[name].seconds, now];
  const length = end - start;
  if (length <= 0) return { name, first, last, compare, start: "", end: "", step: "day", before: { start: "", end: "" } };
  const step = STEPS.find(([longest]) => length <= longest)?.[1] || "month";
  const back = compare ? YEAR : length;
  // Months have different lengths.
  const earlier = compare ? 12 / months : 1;
  const before = months
    ? { start: asTime(begin(1 + earlier)), end: asTime(begin(earlier)) }
    : { start: asTime(start - back), end: asTime(end - back) };
  return { name, first, last, compare, start: asTime(start), end: asTime(end), step, before };
}

/** Return the options of the command line for a period. @param {Period} period */
export function optionsOf({ name, first, start, end }) {
  if (name !== OWN && !MONTHS[name]) return `--last ${name}`;
  return start ? `--from ${start} --to ${end} --tz ${ZONE}` : `--from ${first}`;
}

/** Return a day of an address; "" if it is not a date. @param {string | undefined} text */
const dayOf = (text) => (/^\d{4}-\d{2}-\d{2}$/.test(text || "") && !Number.isNaN(Date.parse(text || "")) ? text || "" : "");

/** Return the begin of a day in the browser's time zone, or of a day after it, in seconds. @param {string} day @param {number} [after] */
function midnight(day, after = 0) {
  const [year, month, date] = day.split("-").map(Number);
  return new Date(year, month - 1, date + after).getTime() / 1000;
}

/** Return the begin of a period of so many months, `back` periods before the current one, in seconds. @param {number} now @param {number} months @param {number} back */
function beginOf(now, months, back) {
  const today = new Date(now * 1000);
  return new Date(today.getFullYear(), (Math.floor(today.getMonth() / months) - back) * months, 1).getTime() / 1000;
}

/** @param {Date} date */
function asDay(date) {
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** @param {number} seconds */
const asTime = (seconds) => new Date(seconds * 1000).toISOString().replace(".000", "");
