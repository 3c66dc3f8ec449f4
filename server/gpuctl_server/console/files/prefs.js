/** Settings of this browser: language and colours. Nothing secret is kept here. */
import { effect, signal } from "./vendor/signals.js";

const LANGUAGES = ["en", "zh"];
const THEMES = ["auto", "light", "dark"];

/** @param {string} name @param {string[]} known @param {string} otherwise */
function kept(name, known, otherwise) {
  const value = localStorage.getItem(`gpuctl.${name}`) || "";
  return known.includes(value) ? value : otherwise;
}

export const language = signal(kept("language", LANGUAGES, navigator.language.startsWith("zh") ? "zh" : "en"));
export const theme = signal(kept("theme", THEMES, "auto"));

effect(() => {
  localStorage.setItem("gpuctl.language", language.value);
  document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
});
effect(() => {
  localStorage.setItem("gpuctl.theme", theme.value);
  document.documentElement.dataset.theme = theme.value;
});

export function nextTheme() {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length];
}
