/**
 * The document that a user is writing, until it is applied. It is kept in the memory of the page, which a login leaves
 * as it is, and in the session storage of the tab: a login at the identity provider and a reload begin the page anew.
 */
import { clockLead, session } from "../api.js";
import { effect, signal } from "../vendor/signals.js";

const NAME = "gpuctl.draft";

/** @typedef {{user: string, text: string, time: string}} Draft `time`: of the last change */

/** @type {import("../vendor/signals.js").Signal<Draft | null>} */
export const draft = signal(stored());
let isStored = true;

/** @returns {Draft | null} */
function stored() {
  try {
    const value = JSON.parse(sessionStorage.getItem(NAME) || "null");
    return value && [value.user, value.text, value.time].every((part) => typeof part === "string") ? value : null;
  } catch {
    return null;
  }
}

/** Keep a text as the draft of the user. @param {string} text */
export function keepDraft(text) {
  const user = session.value?.name;
  if (user) draft.value = { user, text, time: new Date(Date.now() + clockLead()).toISOString() };
}

export function dropDraft() {
  draft.value = null;
}

effect(() => {
  try {
    if (draft.value) sessionStorage.setItem(NAME, JSON.stringify(draft.value));
    else sessionStorage.removeItem(NAME);
    isStored = true;
  } catch {
    // The storage is full, or not allowed.
    isStored = false;
  }
});
// Another user who logs in on this tab must not see it. A session that has ended has no name.
effect(() => {
  const user = session.value?.name;
  if (user && draft.value && draft.value.user !== user) dropDraft();
});
addEventListener("beforeunload", (event) => {
  if (draft.value && !isStored) event.preventDefault();
});
