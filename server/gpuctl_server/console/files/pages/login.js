/** Logging in with a token. */
import { logIn, session } from "../api.js";
import { draft } from "../document/draft.js";
import { Button, Problem, html } from "../parts.js";
import { route } from "../route.js";
import { t } from "../texts.js";
import { useEffect, useRef, useState } from "../vendor/preact-hooks.js";

/** Words in the address after a login that failed at the provider. @type {Record<string, string>} */
const PROBLEMS = /* texts */ {
  denied: "The identity provider did not log you in.",
  expired: "The login took too long, or was begun in another browser. Try again.",
  token: "The identity provider logged you in, but its token is not accepted. The log of the service has the reason.",
};
/** @type {Record<string, string>} */
const HELP = /* texts */ {
  tokens: "An administrator makes tokens with `gpuctl-server token create`.",
  kubernetes: "A token of the cluster, such as that of `kubectl create token`.",
  oidc: "An ID token of your identity provider.",
};

export function Login() {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const token = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => token.current?.focus(), []);
  /** @param {SubmitEvent} event */
  async function submit(event) {
    event.preventDefault();
    const field = /** @type {HTMLInputElement} */ (/** @type {HTMLFormElement} */ (event.target).elements.namedItem("token"));
    setBusy(true);
    setError(null);
    try {
      await logIn(field.value.trim());
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  }
  const help = t(HELP[session.value?.auth || "tokens"]).split("`");
  return html`<main class="login" id="main">
    <h1 tabindex="-1">${t("Log in")}</h1>
    ${Object.hasOwn(PROBLEMS, route.value.query.problem) && html`<p class="problem" role="alert">${t(PROBLEMS[route.value.query.problem])}</p>`}
    ${session.value?.hasEnded && !error && html`<p class="notes" role="status">${t("Your session has ended. Log in again to go on where you were.")}</p>`}
    ${draft.value && html`<p class="notes" role="status">${t("A document that was not applied is kept in this tab for {user}. If another user logs in, it is discarded.", { user: draft.value.user })}</p>`}
    ${session.value?.provider && html`<p><a class="button main" href="console/oidc/login">${t("Log in at your identity provider")}</a></p><p>${t("Or with a token:")}</p>`}
    <form onSubmit=${submit}>
      <label for="token">${t("Token")}</label>
      <input ref=${token} id="token" name="token" type="password" autocomplete="current-password" spellcheck=${false} required aria-describedby="token-help" />
      <p id="token-help" class="quiet">${help.map((part, place) => (place % 2 ? html`<code>${part}</code>` : part))}</p>
      ${error && html`<${Problem} error=${error} />`}
      <${Button} class="main" isOff=${busy}>${t("Log in")}<//>
    </form>
  </main>`;
}
