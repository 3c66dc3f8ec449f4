/** The console: log in, then the page of the address. */
import { findSession, followSession, logOut, session } from "./api.js";
import { draft, dropDraft } from "./document/draft.js";
import { Problem, html } from "./parts.js";
import { language, nextTheme, theme } from "./prefs.js";
import { address, route } from "./route.js";
import { t } from "./texts.js";
import { useEffect, useErrorBoundary, useRef, useState } from "./vendor/preact-hooks.js";
import { render } from "./vendor/preact.js";
import { Login } from "./pages/login.js";

/** Page -> its title. @type {Record<string, string>} */
const TITLES = /* texts */ {
  overview: "Overview",
  jobs: "Jobs",
  nodes: "Nodes",
  pools: "Pools",
  quotas: "Quotas",
  queues: "Queues",
  usage: "Usage",
  history: "History",
};
/** Page -> its module, which is loaded when it is first shown. @type {Record<string, () => Promise<{default: any}>>} */
const PAGES = {
  overview: () => import("./pages/overview.js"),
  jobs: () => import("./pages/jobs.js"),
  new: () => import("./pages/new.js"),
  nodes: () => import("./pages/nodes.js"),
  pools: () => import("./pages/pools.js"),
  quotas: () => import("./pages/quotas.js"),
  queues: () => import("./pages/queues.js"),
  usage: () => import("./pages/usage.js"),
  history: () => import("./pages/history.js"),
};
const FIRST = "overview";
/** Milliseconds between requests for the session until usage is known. */
const UNTIL_USAGE = 20_000;
/** @type {Record<string, any>} */
const loadedPages = {};

function Menu() {
  const current = route.value.parts[0] || FIRST;
  const titles = Object.entries(TITLES).filter(([name]) => name !== "history" || session.value?.audit);
  return html`<nav class="menu" aria-label=${t("Pages of the console")}>
    ${titles.map(
      ([name, title]) => html`<a href=${address([name])} aria-current=${name === current ? "page" : null}>${t(title)}</a>`,
    )}
  </nav>`;
}

/** @param {{onFailure: (error: any) => void}} props */
function Settings({ onFailure }) {
  const symbols = /** @type {Record<string, string>} */ ({ auto: "◐", light: "☀", dark: "☾" });
  const names = /** @type {Record<string, string>} */ ({
    auto: t("Colours of the system"), light: t("Light colours"), dark: t("Dark colours"),
  });
  const other = language.value === "zh" ? "en" : "zh";
  function leave() {
    if (draft.value && !confirm(t("Your document on the page New job is not applied. Log out and discard it?"))) return;
    logOut().then(dropDraft, onFailure);
  }
  return html`<div class="settings">
    <button class="link" lang=${other === "zh" ? "zh-CN" : "en"} onClick=${() => { language.value = other; }}>
      ${other === "zh" ? "中文" : "English"}
    </button>
    <button class="link" onClick=${nextTheme} aria-label=${names[theme.value]} title=${names[theme.value]}>
      ${symbols[theme.value]}
    </button>
    ${session.value?.name &&
    html`<span class="user">${session.value.name}</span>
      <button class="link" onClick=${leave}>${t("Log out")}</button>`}
  </div>`;
}

/** Move the focus to the heading if its element is removed, such as a button that was pressed. @param {{current: HTMLElement | null}} place */
function useKeptFocus(place) {
  useEffect(() => {
    const main = /** @type {HTMLElement} */ (place.current);
    let last = /** @type {Element | null} */ (null);
    let isByKeyboard = false;
    const note = (/** @type {FocusEvent} */ event) => {
      last = /** @type {Element} */ (event.target);
      isByKeyboard = last.matches(":focus-visible");
    };
    const observer = new MutationObserver(() => {
      if (!last || last.isConnected || document.activeElement !== document.body) return;
      last = null;
      main.querySelector("h1")?.focus({ preventScroll: !isByKeyboard });
    });
    main.addEventListener("focusin", note);
    observer.observe(main, { childList: true, subtree: true });
    return () => observer.disconnect();
  }, []);
}

/** @param {{isFirst: boolean}} props `isFirst`: nothing was shown before, such as the login */
function Page({ isFirst }) {
  const name = route.value.parts[0] || FIRST;
  const page = PAGES[name];
  const [, setTurn] = useState(0);
  const [failure, setFailure] = useState(/** @type {Error | null} */ (null));
  const [broken, repair] = useErrorBoundary((error) => console.error(error));
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useKeptFocus(place);
  const where = route.value.parts.join("/");
  const earlier = useRef(isFirst ? where : null);
  useEffect(() => {
    repair();
    setFailure(null);
    if (Object.hasOwn(PAGES, name) && !loadedPages[name]) {
      page().then((module) => { loadedPages[name] = module.default; setTurn((turn) => turn + 1); }, setFailure);
    }
  }, [where]);
  useEffect(() => {
    // Tabs of several jobs or nodes are told apart by their titles.
    const object = Object.hasOwn(PAGES, name) ? route.value.parts.slice(1).join("/") : "";
    const title = Object.hasOwn(TITLES, name) ? TITLES[name] : name === "new" ? "New job" : "There is no such page";
    document.title = `${object && `${object} · `}${t(title)} · gpuctl`;
    // After a login or a change of the page the focus is at the heading, as after loading a document.
    const heading = place.current?.querySelector("h1");
    if (earlier.current === where || !heading) return;
    earlier.current = where;
    heading.focus();
    scrollTo(0, 0);
  });
  const shown = loadedPages[name];
  return html`<main id="main" ref=${place}>
    ${broken || failure
      ? html`<${Problem} error=${{ status: 0, name: t("The page failed"), message: String(broken || failure) }} retry=${() => location.reload()} />`
      : !Object.hasOwn(PAGES, name)
        ? html`<h1 tabindex="-1">${t("There is no such page")}</h1><p><a href=${address([FIRST])}>${t("To the overview")}</a></p>`
        : shown && html`<${shown} key=${name} />`}
  </main>`;
}

function Console() {
  const [failure, setFailure] = useState(/** @type {any} */ (null));
  const find = () => { setFailure(null); findSession().catch(setFailure); };
  useEffect(find, []);
  const awaitsUsage = Boolean(session.value?.usage && !session.value.collected);
  useEffect(() => {
    const follow = () => { if (!document.hidden) followSession().catch(() => undefined); };
    const timer = awaitsUsage ? setInterval(follow, UNTIL_USAGE) : 0;
    addEventListener("focus", follow);
    document.addEventListener("visibilitychange", follow);
    return () => {
      removeEventListener("focus", follow);
      document.removeEventListener("visibilitychange", follow);
      clearInterval(timer);
    };
  }, [awaitsUsage]);
  const inside = session.value?.name;
  const wasShown = useRef(false);
  useEffect(() => { wasShown.current ||= session.value !== null; });
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("h1")?.focus(); }}>${t("Skip to the content")}</a>
    <header class="top">
      <a class="brand" href="#/">gpuctl</a>
      ${inside && html`<${Menu} />`}
      <${Settings} onFailure=${setFailure} />
    </header>
    ${failure
      ? html`<main><h1 class="hidden">gpuctl</h1><${Problem} error=${failure} retry=${find} /></main>`
      : session.value && (inside ? html`<${Page} key=${inside} isFirst=${!wasShown.current} />` : html`<${Login} />`)}
    <footer class="quiet"><a href="api/v1/docs/">${t("REST API")}</a></footer>`;
}

render(html`<${Console} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
