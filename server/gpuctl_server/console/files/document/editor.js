/** The editor of a document: CodeMirror, or a text area if it cannot be loaded. */
import { html } from "../parts.js";
import { t } from "../texts.js";
import { useEffect, useState } from "../vendor/preact-hooks.js";
import { CodeEditor } from "./code-editor.js";
import { TextArea } from "./text-area.js";

/**
 * @typedef {object} EditorProps
 * @property {{current: {select: (range: {from: number, to: number}) => void} | null}} control set by the editor
 * @property {string} text
 * @property {(text: string) => void} onInput
 * @property {any[]} details findings of the text
 */

/** @param {EditorProps} props */
export function Editor(props) {
  const [library, setLibrary] = useState(/** @type {any} */ (undefined));
  useEffect(() => {
    import("../vendor/codemirror.js").then(setLibrary, () => setLibrary(null));
  }, []);
  if (library === undefined) return html`<div class="editor"><p class="quiet" role="status">${t("Loading …")}</p></div>`;
  if (library) return html`<${CodeEditor} library=${library} ...${props} />`;
  return html`<${TextArea} ...${props} />
    <p class="quiet">${t("The editor could not be loaded. This is a plain text area.")}</p>`;
}
