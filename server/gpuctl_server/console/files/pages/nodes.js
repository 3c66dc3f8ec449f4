/** Nodes, and the page of one node. */
import { get } from "../api.js";
import { useLoaded } from "../load.js";
import { Age, Bar, Choice, Command, Data, Facts, Heading, Lacking, Pages, Status, Table, html, quoted, worded } from "../parts.js";
import { address, route, setQuery } from "../route.js";
import { number, percent, t } from "../texts.js";
import { JobTable } from "./pools.js";

const SIZE = 50;
const FILTERS = ["pool", "gpuType", "status"];
const STATUSES = ["active", "maintaining", "faulty"];

export default function Nodes() {
  const [, name] = route.value.parts;
  return name ? html`<${Node} name=${name} key=${name} />` : html`<${List} />`;
}

/** @param {Record<string, string>} query */
function commandLine(query) {
  const options = [
    query.pool && `--pool ${quoted(query.pool)}`,
    query.gpuType && `--gpu-type ${quoted(query.gpuType)}`,
    query.status && `--status ${query.status}`,
  ];
  return ["gpuctl get nodes", ...options.filter(Boolean)].join(" ");
}

function List() {
  const query = route.value.query;
  const page = Math.max(1, Number(query.page) || 1);
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query[name] || ""]));
  const nodes = useLoaded((ended) => get("/nodes", { ...filters, page, pageSize: SIZE }, ended), [filters, page]);
  const names = useLoaded((ended) => Promise.all([get("/pools", {}, ended), get("/gpu-types", {}, ended)]), [], 0);
  const [pools, types] = names.data || [{ items: [] }, { items: [] }];
  const change = (/** @type {string} */ name) => (/** @type {any} */ event) => setQuery({ [name]: event.target.value, page: "" });
  return html`<${Heading} title=${t("Nodes")} loaded=${nodes} />
    <${Lacking} what=${t("Values of the filters")} loaded=${names} />
    <form class="filters" role="search" aria-label=${t("Filters")} onSubmit=${(event) => event.preventDefault()}>
      <${Choice} name="pool" label=${t("Pool")} value=${filters.pool} known=${pools.items.map((item) => item.name)} onChange=${change("pool")} />
      <${Choice} name="gpuType" label=${t("GPU type")} value=${filters.gpuType} known=${types.items.map((item) => item.gpuType)} onChange=${change("gpuType")} />
      <${Choice} name="status" label=${t("Status")} value=${filters.status} known=${STATUSES} titleOf=${worded} onChange=${change("status")} />
    </form>
    <${Data} loaded=${nodes}>
      ${(data) => html`<${Table}
          label=${t("Nodes")}
          empty=${Object.values(filters).some(Boolean) ? t("No node matches.") : t("There is no node that you may see.")}
          rows=${data.items}
          rowKey=${(row) => row.nodeName}
          columns=${[
            { head: t("Node"), cell: (row) => html`<a href=${address(["nodes", row.nodeName])}>${row.nodeName}</a>`, wide: true },
            { head: t("Status"), cell: (row) => html`<${Status} word=${row.status} />` },
            { head: t("Free"), cell: (row) => (row.gpuTotal ? number(row.gpuFree) : null), number: true },
            { head: t("GPUs used"), cell: (row) => html`<${Bar} used=${row.gpuUsed} total=${row.gpuTotal} label=${t("GPUs used of {name}", { name: row.nodeName })} />` },
            { head: t("GPU type"), cell: (row) => row.gpuType },
            { head: t("Pools"), cell: (row) => row.boundPools.join(", "), name: true },
            { head: "CPU", cell: (row) => row.cpu, number: true },
            { head: t("Memory"), cell: (row) => row.memory, number: true },
            { head: t("Age"), cell: (row) => html`<${Age} time=${row.createdAt} />`, number: true },
          ]}
        />
        <${Pages} total=${data.total} page=${page} size=${SIZE} />`}
    <//>
    <${Command} text=${commandLine(filters)} />`;
}

/** @param {{name: string}} props */
function Node({ name }) {
  const loaded = useLoaded((ended) => get(`/nodes/${encodeURIComponent(name)}`, {}, ended), [name]);
  return html`<${Heading} title=${name} loaded=${loaded} />
    <${Data} loaded=${loaded}>
      ${(node) => html`
        <${Facts}
          items=${[
            [t("Status"), html`<${Status} word=${node.status} />`],
            [t("GPUs used"), html`<${Bar} used=${node.resources.gpuUsed} total=${node.resources.gpuTotal} label=${t("GPUs used of {name}", { name })} />`],
            [t("Unhealthy GPUs"), node.resources.gpuUnhealthy || null],
            [t("GPU type"), node.gpuType],
            [t("Pools"), node.boundPools.map((pool) => html`<a href=${address(["pools", pool])}>${pool}</a> `)],
            [t("CPU used"), html`<${Bar} used=${node.resources.cpuUsed} total=${node.resources.cpuTotal} label=${t("CPU used of {name}", { name })} />`],
            [t("Memory used"), `${node.resources.memoryUsed ?? "–"} / ${node.resources.memoryTotal}`],
            [t("Kubelet"), node.k8sStatus.kubeletVersion],
            [t("Taints"), node.k8sStatus.taints.map((taint) => `${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}`).join(", ")],
            [t("Age"), html`<${Age} time=${node.createdAt} />`],
          ]}
        />
        <h2>${t("Jobs on this node")}</h2>
        ${node.runningJobs ? html`<${JobTable} jobs=${node.runningJobs} empty=${t("No job of gpuctl that you may see runs here.")} />` : html`<p class="empty">${t("not visible")}</p>`}
        <h2>${t("GPUs")}</h2>
        <${Table}
          label=${t("GPUs")}
          empty=${t("This node has no GPUs.")}
          rows=${node.gpuDetail}
          rowKey=${(row) => row.gpuId}
          columns=${[
            { head: "GPU", cell: (row) => row.gpuId },
            { head: t("Status"), cell: (row) => html`<${Status} word=${row.status} />` },
            { head: t("GPU type"), cell: (row) => row.type },
            { head: t("Utilization"), cell: (row) => percent(row.utilization), number: true },
            { head: t("Memory"), cell: (row) => row.memoryUsage, number: true },
          ]}
        />
        <h2>${t("Conditions")}</h2>
        <${Table}
          label=${t("Conditions")}
          rows=${node.k8sStatus.conditions}
          rowKey=${(row) => row.type}
          columns=${[
            { head: t("Condition"), cell: (row) => `${row.type}=${row.status}` },
            { head: t("Unchanged for"), cell: (row) => html`<${Age} time=${row.lastTransitionTime} />`, number: true },
            { head: t("Reason"), cell: (row) => row.reason },
            { head: t("Message"), cell: (row) => row.message, wide: true },
          ]}
        />
        <details><summary>${t("Labels")}</summary>
          <ul>${node.labels.map((label) => html`<li><code>${label.key}=${label.value}</code></li>`)}</ul>
        </details>
        <${Command} text=${`gpuctl describe node ${quoted(name)}`} />
      `}
    <//>`;
}
