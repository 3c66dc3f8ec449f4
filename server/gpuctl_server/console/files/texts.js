/** Texts of the pages: English is the key, zh.js has the Chinese. */
import { language } from "./prefs.js";
import { CHINESE } from "./zh.js";

/**
 * Return a text in the user's language, with values for its {names}.
 * @param {string} text
 * @param {Record<string, unknown>} [values]
 */
export function t(text, values = {}) {
  const said = language.value === "zh" ? CHINESE[text] ?? text : text;
  return said.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** @param {number} count @param {string} one @param {string} many */
export function counted(count, one, many) {
  return t(count === 1 ? one : many, { count: number(count) });
}

/** The language tag of numbers. */
export const locale = () => (language.value === "zh" ? "zh-CN" : "en");

/** Return a number as text, and a dash for one that is not known. @param {number | null | undefined} value @param {number} [digits] after the point at most @param {number} [least] at least, for columns */
export function number(value, digits = 1, least = 0) {
  if (value == null) return "–";
  return value.toLocaleString(locale(), { maximumFractionDigits: digits, minimumFractionDigits: least });
}

/** Return a percentage as text; null if it is not known. @param {number | null | undefined} value */
export const percent = (value) => (value == null ? null : `${number(value)} %`);

/** @param {string | null | undefined} time RFC 3339 */
export function moment(time) {
  if (!time) return "";
  // Swedish writes years first, and no order of day and month is to be guessed.
  return new Date(time).toLocaleString(language.value === "zh" ? "zh-CN" : "sv-SE", { hour12: false });
}

/** Return the day of a time in the browser's time zone. @param {string} time RFC 3339 */
export function day(time) {
  return new Date(time).toLocaleDateString(language.value === "zh" ? "zh-CN" : "sv-SE");
}

/** @type {[number, string][]} */
const UNITS = /* texts */ [
  [86400, "{n} d"],
  [3600, "{n} h"],
  [60, "{n} min"],
  [1, "{n} s"],
];

/** Return a duration in its largest unit. @param {number} seconds */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [size, text] = UNITS.find(([unit]) => whole >= unit) ?? UNITS[UNITS.length - 1];
  return t(text, { n: Math.floor(whole / size) });
}

/** @param {number} bytes */
export function bytes(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let place = 0;
  while (bytes >= 1024 && place < units.length - 1) {
    bytes /= 1024;
    place += 1;
  }
  return `${number(bytes)} ${units[place]}`;
}
