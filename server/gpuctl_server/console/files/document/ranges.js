/** Places in the text of a document, as offsets. */

/** @typedef {{from: number, to: number}} Range */

/**
 * Return the ranges of findings, at most one line each. The text may have changed since they were found.
 * @param {string} text @param {any[]} items lines and columns count from 1, columns in code points @returns {Range[]}
 */
export function rangesOf(text, items) {
  const lines = text.split("\n");
  const starts = [0];
  for (const line of lines) starts.push(starts[starts.length - 1] + line.length + 1);
  return items.map((item) => {
    const place = Math.min(item.line, lines.length) - 1;
    const line = lines[place];
    const from = width(line, (item.column || 1) - 1);
    const to = item.endLine === item.line ? width(line, item.endColumn - 1) : line.length;
    return { from: starts[place] + from, to: starts[place] + Math.max(to, Math.min(from + 1, line.length)) };
  });
}

/** Return the length of the first code points of a line. @param {string} line @param {number} count */
const width = (line, count) => [...line].slice(0, count).join("").length;

/**
 * Return what has to be replaced to make one text of another.
 * @param {string} old @param {string} text
 */
export function changeBetween(old, text) {
  const shorter = Math.min(old.length, text.length);
  let from = 0;
  while (from < shorter && old[from] === text[from]) from += 1;
  let kept = 0;
  while (kept < shorter - from && old[old.length - 1 - kept] === text[text.length - 1 - kept]) kept += 1;
  return { from, to: old.length - kept, insert: text.slice(from, text.length - kept) };
}

/** Return the indentation of the line after a line. @param {string} line */
export const indentAfter = (line) => (/^ */.exec(line) || [""])[0] + (/:\s*$/.test(line) ? "  " : "");
