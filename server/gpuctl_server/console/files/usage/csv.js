/** Usage as a CSV file: one answer with costs, or all pages of a query without, one after another. */
import { getText } from "../api.js";
import { Button, Problem, html } from "../parts.js";
import { number, t } from "../texts.js";
import { useState } from "../vendor/preact-hooks.js";

const PAGE = 1000;
/** Rows of an answer without pages. Costs are computed for each answer, so that they are not asked for in pages. */
const WHOLE = 10_000;
const LINE = "\r\n";

/** Return true if a file of so many rows has costs. @param {string} by @param {number} rows */
export const hasCosts = (by, rows) => by !== "node" && rows <= WHOLE;

/** @param {{title: string, name: string, queries: Record<string, unknown>[]}} props `name`: that of the file, which has the rows of all queries */
export function CsvButton({ title, name, queries }) {
  const [rows, setRows] = useState(/** @type {number | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  async function download() {
    setError(null);
    setRows(0);
    try {
      const parts = [];
      let count = 0;
      for (const query of queries) {
        for (let page = 1, length = PAGE; length === PAGE; page += 1) {
          const part = query.costs ? {} : { page, page_size: PAGE };
          const text = await getText("/gpu-aggregation/ledger", { ...query, ...part, format: "csv" });
          const start = text.indexOf(LINE) + LINE.length;
          // Texts of cells have no line breaks: names and labels of Kubernetes.
          length = text.split(LINE).length - 2;
          parts.push(parts.length ? text.slice(start) : text);
          count += length;
          setRows(count);
          if (query.costs) break;
        }
      }
      save(name, parts);
    } catch (problem) {
      setError(problem);
    }
    setRows(null);
  }
  return html`<${Button} onClick=${download} isOff=${rows !== null}>${rows ? t("{count} rows …", { count: number(rows) }) : title}<//>
    ${error && html`<${Problem} error=${error} />`}`;
}

/** @param {string} name @param {string[]} parts */
function save(name, parts) {
  const link = document.createElement("a");
  // Without a byte order mark, Excel does not read the file as UTF-8.
  link.href = URL.createObjectURL(new Blob(["\ufeff", ...parts], { type: "text/csv" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
