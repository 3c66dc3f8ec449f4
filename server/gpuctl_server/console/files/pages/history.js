/** What was changed by whom: the audit of the service. */
import { get } from "../api.js";
import { useLoaded, useRight } from "../load.js";
import { Data, Heading, Pages, Rich, Table, Withheld, html } from "../parts.js";
import { route, setQuery } from "../route.js";
import { moment, t } from "../texts.js";

const SIZE = 50;

export default function History() {
  const may = useRight("get", "audit");
  const query = route.value.query;
  const page = Math.max(1, Number(query.page) || 1);
  const fields = /** @type {[string, string][]} */ ([["caller", t("Caller")], ["object", t("Object")], ["namespace", t("Namespace")], ["result", t("Result")]]);
  const filters = Object.fromEntries(fields.map(([name]) => [name, query[name] || ""]));
  const audit = useLoaded(async (ended) => (may?.allowed ? get("/audit", { ...filters, page, pageSize: SIZE }, ended) : null), [filters, page, may?.allowed]);
  if (may && !may.allowed) return html`<${Heading} title=${t("History")} /><${Withheld} right=${may} />`;
  return html`<${Heading} title=${t("History")} loaded=${audit} />
    <form class="filters" role="search" aria-label=${t("Filters")} onSubmit=${(event) => event.preventDefault()}>
      ${fields.map(([name, title]) => html`<label>${title}<input name=${name} value=${filters[name]} spellcheck=${false} onChange=${(event) => setQuery({ [name]: event.target.value.trim(), page: "" })} /></label>`)}
    </form>
    <${Data} loaded=${audit}>
      ${(data) => html`
        ${!data.complete && html`<p class="quiet"><${Rich} text=${data.source === "memory" ? t("Only changes since the start of this replica are known: the service writes no audit file (the setting `audit`).") : t("Older lines are not shown.")} /></p>`}
        <${Table}
          label=${t("History")}
          empty=${t("No change is known.")}
          rows=${data.items}
          rowKey=${(row) => `${row.time}${row.requestId}${row.action}${row.result}`}
          columns=${[
            { head: t("Time"), cell: (row) => html`<time datetime=${row.time}>${moment(row.time)}</time>` },
            { head: t("Caller"), cell: (row) => row.caller },
            { head: t("Action"), cell: (row) => html`<code>${row.action}</code>`, wide: true },
            { head: t("Objects"), cell: (row) => row.objects.join(", "), wide: true },
            { head: t("Result"), cell: (row) => html`<span class=${/^[45]/.test(row.result) ? "warning" : ""}>${row.result}</span>` },
          ]}
        />
        <${Pages} total=${data.total} page=${page} size=${SIZE} />
      `}
    <//>`;
}
