/** The editor of a document. */
import { html } from "../parts.js";
import { useRef } from "../vendor/preact-hooks.js";

/** A text area with line numbers; a line with a finding is marked. @param {{area: any, text: string, onInput: (text: string) => void, details: any[]}} props */
export function Editor({ area, text, onInput, details }) {
  const numbers = useRef(/** @type {HTMLElement | null} */ (null));
  const marked = new Map(details.map((item) => [item.line, item.severity]));
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    // Tab leaves the field, as everywhere on the page; Enter keeps the indentation.
    if (event.key !== "Enter" || event.isComposing) return;
    const field = /** @type {HTMLTextAreaElement} */ (event.target);
    const line = field.value.slice(0, field.selectionStart).split("\n").pop() || "";
    const indent = (/^ */.exec(line) || [""])[0] + (/:\s*$/.test(line) ? "  " : "");
    if (!indent) return;
    event.preventDefault();
    field.setRangeText(`\n${indent}`, field.selectionStart, field.selectionEnd, "end");
    onInput(field.value);
  };
  return html`<div class="editor">
    <div class="numbers" ref=${numbers} aria-hidden="true">
      ${text.split("\n").map((_, place) => html`<div class=${marked.get(place + 1) || ""}>${place + 1}</div>`)}
    </div>
    <textarea
      id="document"
      ref=${area}
      value=${text}
      rows="24"
      wrap="off"
      spellcheck=${false}
      autocapitalize="off"
      onInput=${(event) => onInput(event.target.value)}
      onKeyDown=${onKey}
      onScroll=${(event) => { if (numbers.current) numbers.current.scrollTop = event.target.scrollTop; }}
    ></textarea>
  </div>`;
}
