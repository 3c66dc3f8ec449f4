/** Fields of the form whose text is a list in the document: a command line, and mounts. */
import { scalar, scalarOf } from "./lines.js";

/** Return the words of a command line, as a shell splits them; null if a quote is not closed. @param {string} text */
export function words(text) {
  const found = [];
  const part = /\s+|"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)|([^\s"'\\]+)/gy;
  let word = /** @type {string | null} */ (null);
  while (part.lastIndex < text.length) {
    const match = part.exec(text);
    if (!match) return null;
    const [whole, double, single, escaped, plain] = match;
    if (/^\s/.test(whole)) {
      if (word !== null) found.push(word);
      word = null;
    } else {
      word = (word ?? "") + (double?.replace(/\\(["\\$`])/g, "$1") ?? single ?? escaped ?? plain);
    }
  }
  return word === null ? found : [...found, word];
}

/** Return a command line of words. @param {string[]} list */
export const line = (list) => list.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(" ");

/** Return a command line as a list in YAML; null if it cannot be split. @param {string} text */
export function commandOf(text) {
  const list = words(text);
  return list && (list.length ? `[${list.map((word) => JSON.stringify(word)).join(", ")}]` : "");
}

/** Return the command line of a list in YAML; undefined if it is written in another way. @param {string | undefined} text */
export function commandLine(text) {
  if (!text) return text;
  try {
    const list = JSON.parse(text);
    return Array.isArray(list) && list.every((word) => typeof word === "string") ? line(list) : undefined;
  } catch {
    return undefined;
  }
}

const MOUNT = /^\{(?:pvc: \{claim: ([^{}\s,]+)\}, mountPath|path): ([^{}\s,]+)\}$/;
const MOUNTED = /^(?:([^:/\s{},]+):)?(\/[^\s{},]*)$/;

/** Return a mount, `CLAIM:/path` or `/path`, as an item in YAML; null if it is neither. @param {string} text */
export function mountOf(text) {
  const match = MOUNTED.exec(text);
  if (!match) return null;
  return match[1] ? `{pvc: {claim: ${scalar(match[1])}}, mountPath: ${scalar(match[2])}}` : `{path: ${scalar(match[2])}}`;
}

/** Return the mount of an item; undefined if it is written in another way. @param {string} item */
export function mountText(item) {
  const match = MOUNT.exec(item);
  if (!match) return undefined;
  const [claim, path] = [match[1] && scalarOf(match[1]), scalarOf(match[2])];
  const text = match[1] ? `${claim}:${path}` : path;
  const again = text === undefined ? null : MOUNTED.exec(text);
  return again && again[1] === claim && again[2] === path ? text : undefined;
}
