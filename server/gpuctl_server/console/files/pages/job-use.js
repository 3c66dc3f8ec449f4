/** The GPUs of a job over time: measured now, and as it was recorded, also after the job has ended. */
import { get, getOfJob, session, withoutUsage } from "../api.js";
import { Chart } from "../chart.js";
import { useLoaded } from "../load.js";
import { Absent, Command, Data, html, quoted } from "../parts.js";
import { t } from "../texts.js";

const HOUR = 3600;
const HOURS = 30 * 24;

/** @param {{job: any}} props */
export function JobUse({ job }) {
  const { metrics } = session.value || {};
  const reason = withoutUsage();
  return html`${metrics ? html`<${Measured} job=${job} />` : html`<${Absent} reason=${t("the service has no Prometheus (the setting `prometheus`).")} />`}
    ${reason ? html`<${Absent} reason=${reason} />` : html`<${Recorded} job=${job} />`}`;
}

/** @param {{job: any}} props */
function Measured({ job }) {
  const loaded = useLoaded((ended) => getOfJob(job.namespace, job.jobId, "metrics", {}, ended), [job.jobId], 30);
  return html`<h2>${t("Measured")}</h2>
    <${Data} loaded=${loaded}>
      ${(data) => {
        const points = data.gpuUtilization || [];
        if (!points.length) return html`<p class="empty">${t("Nothing was measured.")}</p>`;
        const times = points.map((point) => Date.parse(point.timestamp) / 1000);
        const series = [{ label: t("GPU utilization"), colour: "--good", values: points.map((point) => point.value) }];
        return html`<${Chart} label=${t("GPU utilization, percent, over time")} unit="%" times=${times} series=${series} from=${times[0]} to=${Math.max(times[times.length - 1], times[0] + 60)} most=${100} />`;
      }}
    <//>`;
}

/** @param {{job: any}} props */
function Recorded({ job }) {
  const query = { namespace: job.namespace, workload_name: job.k8sResources?.jobName || job.name, hours: HOURS, page_size: 1000 };
  const loaded = useLoaded((ended) => get("/gpu-aggregation/workloads/hourly-stats", query, ended), [job.namespace, query.workload_name], 120);
  return html`<h2>${t("Recorded by the hour")}</h2>
    <${Data} loaded=${loaded}>
      ${({ data }) => {
        const rows = data.data;
        if (!rows.length) return html`<p class="empty">${t("Nothing is known about this period.")}</p>`;
        const times = rows.map((row) => Date.parse(row.stat_hour) / 1000);
        const series = [
          { label: t("GPUs held"), colour: "--pod-0", values: rows.map((row) => row.allocated_gpu_count) },
          { label: t("Busy"), colour: "--good", values: rows.map((row) => (row.avg_utilization == null ? null : (row.allocated_gpu_count * row.avg_utilization) / 100)) },
        ];
        return html`<${Chart} label=${t("GPUs of the job over time")} unit="GPU" times=${times} series=${series} from=${times[0]} to=${times[times.length - 1] + HOUR} />`;
      }}
    <//>
    <${Command} text=${`gpuctl usage workloads -n ${quoted(job.namespace)} --last 30d`} />`;
}
