export { defaultKeymap, history, historyKeymap, undoDepth } from "@codemirror/commands";
export { yaml } from "@codemirror/lang-yaml";
export { HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
export { lintGutter, nextDiagnostic, previousDiagnostic, setDiagnostics } from "@codemirror/lint";
export { search, searchKeymap } from "@codemirror/search";
export { Compartment, EditorState, Transaction } from "@codemirror/state";
export { EditorView, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
export { tags } from "@lezer/highlight";
