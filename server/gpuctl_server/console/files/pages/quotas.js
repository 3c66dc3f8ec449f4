/** Quotas of namespaces, and what the namespaces use. */
import { get } from "../api.js";
import { useLoaded } from "../load.js";
import { Bar, Command, Data, Heading, PagedTable, Status, gpusFirst, html, resourceName } from "../parts.js";
import { address } from "../route.js";
import { bytes, number, t } from "../texts.js";

export default function Quotas() {
  const loaded = useLoaded((ended) => Promise.all([get("/quotas", {}, ended), get("/namespaces", {}, ended)]), []);
  return html`<${Heading} title=${t("Quotas")} loaded=${loaded} />
    <${Data} loaded=${loaded}>
      ${([quotas, namespaces]) => html`<${PagedTable}
          label=${t("Quotas")}
          empty=${t("No quota is visible.")}
          rows=${quotas.items}
          rowKey=${(row) => `${row.namespace}/${row.name}`}
          columns=${[
            { head: t("Namespace"), cell: (row) => html`<a href=${address(["jobs"], { namespace: row.namespace })}>${row.namespace}</a>` },
            { head: t("Quota"), cell: (row) => html`${row.name}${row.scopes.length ? html` <span class="quiet">${t("only pods in scope {scopes}", { scopes: row.scopes.join(", ") })}</span>` : ""}` },
            { head: t("Status"), cell: (row) => html`<${Status} word=${row.status} />` },
            { head: t("Used of the limits"), cell: (row) => html`<${Limits} quota=${row} />`, wide: true },
          ]}
        />
        <${Command} text="gpuctl get quotas" />
        <h2>${t("Namespaces")}</h2>
        <${PagedTable}
          label=${t("Namespaces")}
          rows=${namespaces.items}
          rowKey=${(row) => row.name}
          columns=${[
            { head: t("Namespace"), cell: (row) => html`<a href=${address(["jobs"], { namespace: row.name })}>${row.name}</a>`, wide: true },
            { head: t("Status"), cell: (row) => html`<${Status} word=${row.status} />` },
            { head: t("Jobs"), cell: (row) => number(row.jobs), number: true },
            { head: t("Pods"), cell: (row) => number(row.pods), number: true },
            { head: t("GPUs held"), cell: (row) => number(row.gpuUsed), number: true },
            { head: t("Quotas"), cell: (row) => row.quotas.join(", ") },
          ]}
        />
        <${Command} text="gpuctl get namespaces" />`}
    <//>`;
}

/** @param {{quota: any}} props */
function Limits({ quota }) {
  return html`<ul class="bare amounts">
    ${gpusFirst(quota.resources).map(
      (limit) => html`<li><span class="limit">${resourceName(limit.name)}</span> <${Bar} used=${limit.used} total=${limit.total} label=${`${quota.namespace} ${limit.name}`} format=${limit.unit === "bytes" ? bytes : undefined} /></li>`,
    )}
  </ul>`;
}
