/** Settings of this browser: language and colours. Nothing secret is kept here. */
import { effect, signal } from "./vendor/signals.js";

const LANGUAGES = ["en", "zh"];
const THEMES = ["auto", "light", "dark"];

/** The storage of this browser; null if the user or a policy has blocked it. */
const storage = (() => {
  try {
    return localStorage;
  } catch {
    return null;
  }
})();

/** @param {string} name @param {string[]} known @param {string} otherwise */
function kept(name, known, otherwise) {
  const value = storage?.getItem(`gpuctl.${name}`) || "";
  return known.includes(value) ? value : otherwise;
}

/** Keep a setting, unless the storage is blocked or full. @param {string} name @param {string} value */
function keep(name, value) {
  try {
    storage?.setItem(`gpuctl.${name}`, value);
  } catch {
    // The setting holds until the page is closed.
  }
}

export const language = signal(kept("language", LANGUAGES, navigator.language.startsWith("zh") ? "zh" : "en"));
export const theme = signal(kept("theme", THEMES, "auto"));

effect(() => {
  keep("language", language.value);
  document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
});
effect(() => {
  keep("theme", theme.value);
  document.documentElement.dataset.theme = theme.value;
});

export function nextTheme() {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length];
}
