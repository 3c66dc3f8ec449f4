/** Lines of logs as a terminal shows them: the last state of a progress bar, colours, and no other control characters. */
import { html } from "./parts.js";

/** ECMA-48: control sequences, control strings up to their terminator, other escapes, control characters. */
const CONTROLS = new RegExp(
  ["\\u001b\\[[0-?]*[ -/]*[@-~]", "(?:\\u001b[\\]PX^_]|[\\u0090\\u0098\\u009d-\\u009f])[^\\u0007\\u001b\\u009c]*(?:\\u0007|\\u001b\\\\|\\u009c)?", "\\u001b[ -/]*[0-~]", "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]"].join("|"),
  "g",
);
const COLOUR = /^\u001b\[([\d;:]*)m$/;
const USUAL = "39";

/** @typedef {{text: string, colour: string, bold: boolean}} Piece */

/** Return the last state of a progress bar; other texts unchanged. @param {string} text */
function lastState(text) {
  const line = text.replace(/\r+$/, "");
  return line.slice(line.lastIndexOf("\r") + 1);
}

/** Return a line without control characters. @param {string} text */
export const plain = (text) => lastState(text).replace(CONTROLS, "");

/** Return a line in pieces of one colour each. @param {string} text @returns {Piece[]} */
function pieces(text) {
  const line = lastState(text);
  const found = /** @type {Piece[]} */ ([]);
  let from = 0;
  let [colour, bold] = [USUAL, false];
  for (const match of [...line.matchAll(CONTROLS), null]) {
    const end = match ? match.index : line.length;
    if (end > from) found.push({ text: line.slice(from, end), colour, bold });
    if (!match) break;
    from = end + match[0].length;
    const codes = COLOUR.exec(match[0]);
    if (codes) [colour, bold] = selected(codes[1] || "0", colour, bold);
  }
  return found;
}

/** Return the colour and weight after the codes of a sequence. @param {string} codes @param {string} colour @param {boolean} bold @returns {[string, boolean]} */
function selected(codes, colour, bold) {
  const list = codes.split(/[;:]/);
  // One of 256 colours, or a mixture of red, green and blue, is none of the eight.
  const mixed = list.findIndex((code) => code === "38" || code === "48");
  for (const code of mixed < 0 ? list : list.slice(0, mixed)) {
    if (code === "" || code === "0") [colour, bold] = [USUAL, false];
    else if (code === "1") bold = true;
    else if (code === "22") bold = false;
    else if (/^(3[0-7]|39)$/.test(code)) colour = code;
    else if (/^9[0-7]$/.test(code)) colour = `3${code[1]}`;
  }
  return [colour, bold];
}

/** A line with its colours. @param {{text: string}} props */
export function Coloured({ text }) {
  if (!text.includes("\u001b")) return plain(text);
  return pieces(text).map((piece) =>
    piece.colour === USUAL && !piece.bold ? piece.text : html`<span class="sgr-${piece.colour}${piece.bold ? " bold" : ""}">${piece.text}</span>`,
  );
}
