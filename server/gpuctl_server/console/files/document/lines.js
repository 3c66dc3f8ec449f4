/**
 * Fields of a YAML document by its lines: those written as `field: value` in blocks indented by two. Everything else in
 * the text stays as it is. A field that is written in another way is unreadable, and is not changed.
 */

/** @typedef {{first: number, end: number} | null | undefined} Block lines of a block without its first; null: absent; undefined: unreadable */

/** @param {string[]} lines @param {string} name @returns {Block} */
function blockOf(lines, name) {
  const first = lines.findIndex((line) => line.startsWith(`${name}:`));
  if (first < 0) return null;
  if (!/^\s*(#.*)?$/.test(lines[first].slice(name.length + 1))) return undefined;
  let end = first + 1;
  while (end < lines.length && !/^[^\s#]/.test(lines[end])) end += 1;
  // Empty lines and comments before the next block belong to it.
  while (end > first + 1 && /^\s*$|^#/.test(lines[end - 1])) end -= 1;
  return { first, end };
}

/** Return the value of a line without quotes and comment; undefined if it is not a scalar on one line. @param {string} text */
function scalarOf(text) {
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
  return /^[{|>&*!%@`]/.test(value) ? undefined : value.replace(/(^|\s)#.*$/, "").trim();
}

/** Return the comment at the end of a line, with the blanks before it. @param {string | undefined} line */
const commentOf = (line) => /^[^"']*?(\s+#.*)$/.exec(line ?? "")?.[1] ?? "";

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
    return line === undefined ? "" : scalarOf(line.slice(name.length + 1));
  }
  const block = blockOf(lines, name);
  if (!block) return block === null ? "" : undefined;
  const place = lines.slice(block.first + 1, block.end).findIndex((line) => line.startsWith(`  ${field}:`));
  if (place < 0) return "";
  const line = lines[block.first + 1 + place];
  const value = scalarOf(line.slice(field.length + 3));
  // A value on the following lines.
  return value === "" ? undefined : value;
}

/**
 * Return the text with another value of a field; "" removes it, and its block if it was the last field.
 * @param {string} text @param {string} path @param {string} value in YAML
 */
export function write(text, path, value) {
  const [name, field] = path.split(".");
  const lines = text.trim() ? text.replace(/\n+$/, "").split("\n") : [];
  if (!field) {
    const place = lines.findIndex((line) => line.startsWith(`${name}:`));
    lines.splice(Math.max(0, place), place < 0 ? 0 : 1, `${name}: ${value}${commentOf(lines[place])}`);
    return `${lines.join("\n")}\n`;
  }
  const block = blockOf(lines, name);
  if (block === undefined) return text;
  if (block === null) return value === "" ? text : `${lines.concat(`${name}:`, `  ${field}: ${value}`).join("\n")}\n`;
  const place = lines.findIndex((line, at) => at > block.first && at < block.end && line.startsWith(`  ${field}:`));
  if (place >= 0) lines.splice(place, 1, ...(value === "" ? [] : [`  ${field}: ${value}${commentOf(lines[place])}`]));
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
  const first = place === null ? -1 : lines.findIndex((line, at) => at > place.first && at < place.end && line.startsWith(`  ${field}:`));
  if (place === null || first < 0) return { first: -1, end: -1, items: /** @type {string[]} */ ([]) };
  if (!/^\s*(#.*)?$/.test(lines[first].slice(field.length + 3))) return undefined;
  let end = first + 1;
  const items = [];
  for (; end < place.end && /^\s{3,}|^\s*$/.test(lines[end]); end += 1) {
    const item = /^ {4}- (.+)$/.exec(lines[end]);
    if (!item) return undefined;
    items.push(item[1]);
  }
  return { first, end, items };
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
