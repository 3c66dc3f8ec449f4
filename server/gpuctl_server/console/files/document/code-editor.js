/** The editor of YAML. It is in a shadow root, for which CodeMirror needs no style element, as the policy demands. */
import { Rich, html } from "../parts.js";
import { language } from "../prefs.js";
import { t } from "../texts.js";
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { changeBetween, indentAfter, rangesOf } from "./ranges.js";

/** Texts that CodeMirror shows. */
const PHRASES = /* texts */ [
  "Find", "Replace", "next", "previous", "all", "match case", "regexp", "by word", "replace", "replace all", "close",
  "current match", "on line", "replaced $ matches", "replaced match on line $", "Go to line", "go", "Control character",
  "Selection deleted",
];
const KEY = /^(Mac|iP)/.test(navigator.platform) ? "Cmd" : "Ctrl";
const LINE = "1px solid var(--line)";
const FOCUS = { outline: "2px solid var(--main)", outlineOffset: "1px" };
const FIELD = { font: "inherit", color: "var(--text)", background: "var(--field)", border: "1px solid var(--field-line)", borderRadius: "6px", padding: "2px 8px", minHeight: "26px" };
const STYLES = {
  "&": { flex: "1", minWidth: "0", height: "100%", color: "var(--text)" },
  // The element around the editor has the outline.
  "&.cm-focused, & .cm-content:focus": { outline: "none" },
  "& :focus-visible": FOCUS,
  ".cm-scroller": { fontFamily: "inherit", lineHeight: "inherit" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-gutters": { backgroundColor: "var(--plain-back)", color: "var(--quiet)", border: "0" },
  ".cm-lint-marker": { content: "normal", lineHeight: "16px", textAlign: "center" },
  ".cm-lint-marker-error": { color: "var(--bad)", "&::before": { content: '"●"' } },
  ".cm-lint-marker-warning": { color: "var(--wait)", "&::before": { content: '"▲"' } },
  ".cm-lint-marker-info": { color: "var(--quiet)", "&::before": { content: '"■"' } },
  ".cm-lintRange": { backgroundImage: "none", textDecoration: "underline wavy var(--quiet)", textUnderlineOffset: "3px" },
  ".cm-lintRange-error": { textDecorationColor: "var(--bad)" },
  ".cm-lintRange-warning": { textDecorationColor: "var(--wait)" },
  ".cm-specialChar": { color: "var(--bad)" },
  ".cm-tooltip": { color: "var(--text)", backgroundColor: "var(--card)", border: LINE, maxWidth: "min(560px, 90vw)", overflowWrap: "anywhere" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--wait)" },
  ".cm-panels": { color: "var(--text)", backgroundColor: "var(--plain-back)" },
  ".cm-panels-top": { borderBottom: LINE },
  ".cm-textfield": { ...FIELD, maxWidth: "100%", boxSizing: "border-box" },
  ".cm-button": { ...FIELD, backgroundImage: "none", cursor: "pointer", "&:active": { backgroundImage: "none" } },
  ".cm-panel.cm-search label": { fontSize: "inherit" },
  ".cm-panel.cm-search [name=close]": { color: "var(--text)", minWidth: "28px", minHeight: "28px" },
  ".cm-searchMatch, .cm-searchMatch-selected": { backgroundColor: "var(--mark)" },
  ".cm-searchMatch, .cm-searchMatch span": { color: "var(--text)" },
  ".cm-searchMatch-selected": { outline: "2px solid var(--main)" },
};

/** @param {any} library @param {any} texts the compartment for what depends on the language of the user @param {(text: string) => void} onInput */
function extensions(library, texts, onInput) {
  const { EditorView, HighlightStyle, tags } = library;
  const colours = HighlightStyle.define([
    { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--pod-0)" },
    { tag: tags.string, color: "var(--good)" },
    { tag: [tags.comment, tags.punctuation, tags.separator], color: "var(--quiet)" },
    { tag: [tags.keyword, tags.meta, tags.labelName, tags.typeName], color: "var(--pod-3)" },
  ]);
  const onEnter = (/** @type {any} */ { state, dispatch }) => {
    const { from, to } = state.selection.main;
    const line = state.doc.lineAt(from);
    const insert = `\n${indentAfter(line.text.slice(0, from - line.from))}`;
    dispatch(state.update({ changes: { from, to, insert }, selection: { anchor: from + insert.length }, scrollIntoView: true, userEvent: "input.type" }));
    return true;
  };
  // Browsers keep the style of replaced text in a style attribute, which the policy forbids.
  const onReplace = (/** @type {InputEvent} */ event, /** @type {any} */ view) => {
    const { state } = view;
    if (event.inputType !== "insertText" || event.data === null || state.selection.main.empty) return false;
    view.dispatch(state.update(state.replaceSelection(event.data), { scrollIntoView: true, userEvent: "input.type" }));
    return true;
  };
  return [
    texts.of(translated(library)),
    library.lintGutter(),
    library.lineNumbers(),
    library.highlightSpecialChars(),
    library.history(),
    library.yaml(),
    library.indentUnit.of("  "),
    library.syntaxHighlighting(colours),
    library.search({ top: true }),
    EditorView.theme(STYLES),
    EditorView.domEventHandlers({ beforeinput: onReplace }),
    // Tab is not among the keys: it leaves the editor, as everywhere on the page.
    library.keymap.of([
      { key: "Enter", run: onEnter },
      { key: "F8", run: library.nextDiagnostic, shift: library.previousDiagnostic },
      ...library.searchKeymap, ...library.historyKeymap, ...library.defaultKeymap,
    ]),
    EditorView.updateListener.of((/** @type {any} */ update) => update.docChanged && onInput(update.state.doc.toString())),
  ];
}

/** @param {any} library */
function translated({ EditorState, EditorView }) {
  return [
    EditorState.phrases.of(Object.fromEntries(PHRASES.map((text) => [text, t(text)]))),
    // With a tab index, tools know that the scrolled region can be reached by the keyboard.
    EditorView.contentAttributes.of({ "aria-label": t("Documents in YAML"), tabindex: "0" }),
  ];
}

/** @param {any} item */
const diagnosticOf = (item) => ({
  severity: ["error", "warning"].includes(item.severity) ? item.severity : "info",
  message: [`${item.code}: ${item.message}`, item.hint].filter(Boolean).join("\n"),
});

/** @param {import("./editor.js").EditorProps & {library: any}} props */
export function CodeEditor({ library, control, text, onInput, details }) {
  const host = useRef(/** @type {HTMLElement | null} */ (null));
  const editor = useRef(/** @type {any} */ (null));
  const texts = useRef(/** @type {any} */ (null));
  const listener = useRef(onInput);
  listener.current = onInput;
  // Layout effects: no input comes between the text of a render and its effect, which would undo the input.
  useLayoutEffect(() => {
    const root = /** @type {HTMLElement} */ (host.current).attachShadow({ mode: "open" });
    texts.current = new library.Compartment();
    const write = (/** @type {string} */ value) => listener.current(value);
    const view = new library.EditorView({ root, parent: root, doc: text, extensions: extensions(library, texts.current, write) });
    editor.current = view;
    control.current = {
      select: ({ from, to }) => {
        view.dispatch({ selection: { anchor: from, head: to }, effects: library.EditorView.scrollIntoView(from, { y: "center" }) });
        view.focus();
      },
    };
    return () => view.destroy();
  }, []);
  useLayoutEffect(() => {
    const { state } = editor.current;
    const old = state.doc.toString();
    if (old === text) return;
    // The first document cannot be undone.
    const isFirst = !old && !library.undoDepth(state);
    editor.current.dispatch({ changes: changeBetween(old, text), annotations: library.Transaction.addToHistory.of(!isFirst) });
  }, [text]);
  useLayoutEffect(() => {
    const { state } = editor.current;
    const placed = details.filter((item) => item.line);
    const ranges = rangesOf(state.doc.toString(), placed);
    editor.current.dispatch(library.setDiagnostics(state, placed.map((item, place) => ({ ...ranges[place], ...diagnosticOf(item) }))));
  }, [details]);
  useLayoutEffect(() => {
    editor.current.dispatch({ effects: texts.current.reconfigure(translated(library)) });
  }, [language.value]);
  const keys = t("`{key}-]` and `{key}-[` indent, `{key}-F` finds, `{key}-Z` undoes, `F8` selects the next finding, `Tab` leaves the editor.", { key: KEY });
  return html`<div class="editor" ref=${host}></div>
    <p class="quiet keys"><${Rich} text=${keys} /></p>`;
}
