/**
 * Fields of a YAML document by its lines: those written as `field: value` in blocks indented by two. Everything else in
 * the text stays as it is. A field that is written in another way is unreadable, and is not changed.
 */

/** @typedef {{first: number, end: number} | null | undefined} Block lines of a block without its first; null: absent; undefined: unreadable */

/** True unless a line that is not indented is anything but a field, as in `{"kind": "training"}`. @param {string[]} lines */
const hasBlocks = (lines) => lines.every((line) => /^(\s|#|---|-\s|[\w-]+:(\s|$)|$)/.test(line));

/** @param {string[]} lines @param {string} name @returns {Block} */
function blockOf(lines, name) {
  if (!hasBlocks(lines)) return undefined;
  const first = lines.findIndex((line) => line.startsWith(`${name}:`));
  if (first < 0) return null;
  if (!/^\s*(#.*)?$/.test(lines[first].slice(name.length + 1))) return undefined;
  let end = first + 1;
  while (end < lines.length && !/^[^\s#]/.test(lines[end])) end += 1;
  // Empty lines and comments before the next block belong to it.
  while (end > first + 1 && /^\s*$|^#/.test(lines[end - 1])) end -= 1;
  const content = lines.slice(first + 1, end).find((line) => !/^\s*(#.*)?$/.test(line));
  return content === undefined || /^ {2}[^\s-]/.test(content) ? { first, end } : undefined;
}

/** Return the place of a field in a block, and the end of the lines that belong to it; null if it is absent. @param {string[]} lines @param {{first: number, end: number}} block @param {string} field */
function fieldOf(lines, block, field) {
  const first = lines.findIndex((line, at) => at > block.first && at < block.end && line.startsWith(`  ${field}:`));
  if (first < 0) return null;
  let end = first + 1;
  for (let at = end; at < block.end && /^(\s*$|\s{3}| {2}[-#])/.test(lines[at]); at += 1) if (!/^\s*(#.*)?$/.test(lines[at])) end = at + 1;
  return { first, end };
}

/** Return the value of a line without quotes and comment; undefined if it is not a scalar on one line. @param {string} text */
export function scalarOf(text) {
  const value = text.trim();
  if (value.startsWith('"')) {
    const quoted = /^"(?:[^"\\]|\\.)*"/.exec(value);
    try {
      return quoted && /^\s*(#.*)?$/.test(value.slice(quoted[0].length)) ? JSON.parse(quoted[0]) : undefined;
    } catch {
      return undefined;
    }
  }
  if (value.startsWith("'")) {
    const quoted = /^'((?:[^']|'')*)'\s*(#.*)?$/.exec(value);
    return quoted ? quoted[1].replaceAll("''", "'") : undefined;
  }
  if (value.startsWith("[")) {
    const list = /^\[(?:[^\]"'#]|"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')*\]/.exec(value);
    return list && /^\s*(#.*)?$/.test(value.slice(list[0].length)) ? list[0] : undefined;
  }
  return /^[{|>&*!%@`]/.test(value) ? undefined : value.replace(/(^|\s)#.*$/, "").trim();
}

/** Return the comment at the end of a line, with the blanks before it. @param {string | undefined} line */
const commentOf = (line) => /^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^"'])*?(\s+#.*)$/.exec(line ?? "")?.[1] ?? "";

/** Return a text as a YAML scalar. @param {string} value */
export function scalar(value) {
  const isPlain = /^[A-Za-z/][\w./:@=+-]*$/.test(value) && !value.endsWith(":") && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(value);
  return isPlain ? value : JSON.stringify(value);
}

/** True if a text is one document or none. @param {string} text */
export const isOne = (text) => !/^---/m.test(text.replace(/^(\s*|#.*\n)*---[^\S\n]*\n/, ""));

/**
 * Return the text of a field: "" if it is absent, undefined if it is unreadable.
 * @param {string} text @param {string} path `kind` or `job.name` @returns {string | undefined}
 */
export function read(text, path) {
  const [name, field] = path.split(".");
  const lines = text.split("\n");
  if (!field) {
    const line = lines.find((item) => item.startsWith(`${name}:`));
    if (!hasBlocks(lines)) return undefined;
    return line === undefined ? "" : scalarOf(line.slice(name.length + 1));
  }
  const block = blockOf(lines, name);
  if (!block) return block === null ? "" : undefined;
  const place = fieldOf(lines, block, field);
  if (!place) return "";
  const value = scalarOf(lines[place.first].slice(field.length + 3));
  // A value on the following lines.
  return value === "" || place.end > place.first + 1 ? undefined : value;
}

/**
 * Return the text with another value of a field; "" removes it, and its block if it was the last field.
 * @param {string} text @param {string} path @param {string} value in YAML
 */
export function write(text, path, value) {
  const [name, field] = path.split(".");
  const lines = text.trim() ? text.replace(/\n+$/, "").split("\n") : [];
  if (!hasBlocks(lines)) return text;
  if (!field) {
    const place = lines.findIndex((line) => line.startsWith(`${name}:`));
    const start = lines.findIndex((line) => line.startsWith("---")) + 1;
    lines.splice(place < 0 ? start : place, place < 0 ? 0 : 1, `${name}: ${value}${commentOf(lines[place])}`);
    return `${lines.join("\n")}\n`;
  }
  const block = blockOf(lines, name);
  if (block === undefined) return text;
  if (block === null) return value === "" ? text : `${lines.concat(`${name}:`, `  ${field}: ${value}`).join("\n")}\n`;
  const place = fieldOf(lines, block, field);
  if (place && value !== "" && place.end > place.first + 1) return text;
  if (place) lines.splice(place.first, place.end - place.first, ...(value === "" ? [] : [`  ${field}: ${value}${commentOf(lines[place.first])}`]));
  else if (value !== "") lines.splice(block.end, 0, `  ${field}: ${value}`);
  const rest = blockOf(lines, name);
  if (rest && rest.end === rest.first + 1) lines.splice(rest.first, 1);
  return `${lines.join("\n")}\n`;
}

/**
 * Return the items of a list below `block:`, `  field:`; undefined if they are unreadable.
 * @param {string} text @param {string} block @param {string} field @returns {string[] | undefined}
 */
export function readItems(text, block, field) {
  const found = itemsOf(text.split("\n"), block, field);
  return found && found.items;
}

/** @param {string[]} lines @param {string} block @param {string} field */
function itemsOf(lines, block, field) {
  const place = blockOf(lines, block);
  if (place === undefined) return undefined;
  const found = place && fieldOf(lines, place, field);
  if (!found) return { first: -1, end: -1, items: /** @type {string[]} */ ([]) };
  if (!/^\s*(#.*)?$/.test(lines[found.first].slice(field.length + 3))) return undefined;
  const items = lines.slice(found.first + 1, found.end).map((line) => /^ {4}- (.+)$/.exec(line)?.[1]);
  return items.includes(undefined) ? undefined : { ...found, items: /** @type {string[]} */ (items) };
}

/** Return the text with other items of a list. @param {string} text @param {string} block @param {string} field @param {string[]} items */
export function writeItems(text, block, field, items) {
  const lines = text.replace(/\n+$/, "").split("\n");
  const found = itemsOf(lines, block, field);
  if (!found) return text;
  const own = items.length ? [`  ${field}:`, ...items.map((item) => `    - ${item}`)] : [];
  if (found.first >= 0) lines.splice(found.first, found.end - found.first, ...own);
  else if (own.length) {
    const place = blockOf(lines, block);
    if (place) lines.splice(place.end, 0, ...own);
    else lines.push(`${block}:`, ...own);
  }
  const rest = blockOf(lines, block);
  if (rest && rest.end === rest.first + 1) lines.splice(rest.first, 1);
  return `${lines.join("\n")}\n`;
}
