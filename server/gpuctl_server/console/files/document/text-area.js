/** A text area with line numbers; a line with a finding is marked. */
import { html } from "../parts.js";
import { t } from "../texts.js";
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { indentAfter } from "./ranges.js";

/** @param {import("./editor.js").EditorProps} props */
export function TextArea({ control, text, onInput, details }) {
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const numbers = useRef(/** @type {HTMLElement | null} */ (null));
  const marked = new Map(details.map((item) => [item.line, item.severity]));
  useLayoutEffect(() => {
    control.current = {
      select: ({ from, to }) => {
        area.current?.focus();
        area.current?.setSelectionRange(from, to);
      },
    };
  }, []);
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    // Tab leaves the field, as everywhere on the page; Enter keeps the indentation.
    if (event.key !== "Enter" || event.isComposing) return;
    const field = /** @type {HTMLTextAreaElement} */ (event.target);
    const indent = indentAfter(field.value.slice(0, field.selectionStart).split("\n").pop() || "");
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
      ref=${area}
      aria-label=${t("Documents in YAML")}
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
