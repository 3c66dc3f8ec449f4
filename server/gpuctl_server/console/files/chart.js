/** A curve over time. The library is loaded when the first one is shown. */
import { Problem, html } from "./parts.js";
import { theme } from "./prefs.js";
import { locale, moment, number, t } from "./texts.js";
import { useEffect, useRef, useState } from "./vendor/preact-hooks.js";

const HEIGHT = 260;
const FEW = 40;

/**
 * Return the values with a gap where times are missing: a line across it would be a statement about them.
 * @param {number[]} times @param {(number | null)[][]} values
 */
export function withGaps(times, values) {
  const steps = times.slice(1).map((time, place) => time - times[place]);
  // The first week or month of a period is shorter than the others.
  const step = [...steps].sort((one, other) => one - other)[steps.length >> 1];
  const result = /** @type {(number | null)[][]} */ ([[], ...values.map(() => [])]);
  times.forEach((time, place) => {
    if (place && steps[place - 1] > 1.5 * step) [time - step, ...values.map(() => null)].forEach((value, row) => result[row].push(value));
    [time, ...values.map((row) => row[place])].forEach((value, row) => result[row].push(value));
  });
  return result;
}

/** Return the label of a time: its day, or the time of day. @param {number} time @param {number} step */
function tick(time, step) {
  const date = new Date(time * 1000);
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  const day = `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  if (step >= 86400) return day;
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return clock === "00:00" ? day : step < 60 ? `${clock}:${two(date.getSeconds())}` : clock;
}

/** Load the library. It formats numbers in the browser's language, which may be none that is valid, such as `C`. */
function loadPlot() {
  Object.defineProperty(navigator, "language", { value: locale(), configurable: true });
  return import("./vendor/uplot.js");
}

/**
 * @typedef {{label: string, colour: string, values: (number | null)[]}} Series `colour` is the name of a property of the style
 * @param {{label: string, unit: string, times: number[], series: Series[], from: number, to: number, most?: number}} props
 *   times in seconds since 1970
 */
export function Chart({ label, unit, times, series, from, to, most }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const [failure, setFailure] = useState(/** @type {Error | null} */ (null));
  const key = JSON.stringify([times, series, from, to, theme.value]);
  useEffect(() => {
    const element = /** @type {HTMLElement} */ (place.current);
    let chart = /** @type {any} */ (null);
    let ended = false;
    const width = () => element.clientWidth - 16;
    const resized = new ResizeObserver(() => chart?.setSize({ width: width(), height: HEIGHT }));
    loadPlot().then(({ default: Plot }) => {
      if (ended || !element) return;
      const style = getComputedStyle(document.documentElement);
      const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
      const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
      const shown = series.map((item) => ({
        label: item.label,
        stroke: colour(item.colour),
        width: 2,
        points: { show: times.length < FEW },
        value: (_, value) => (value == null ? "–" : number(value)),
      }));
      const [xs, ...ys] = withGaps(times, series.map((item) => item.values));
      // Without a pointer the legend has the last values.
      const last = xs.findLastIndex((_, place) => ys.some((row) => row[place] != null));
      const rest = (/** @type {any} */ plot) => { if (plot.cursor.idx == null && last >= 0) plot.setLegend({ idx: last }); };
      const options = {
        hooks: { ready: [rest], setCursor: [rest] },
        width: width(),
        height: HEIGHT,
        scales: { x: { range: () => [from, to] }, y: { range: (_, __, found) => [0, most ?? Math.max(1, found * 1.05)] } },
        axes: [{ ...axis, values: (_, splits, __, ___, step) => splits.map((time) => tick(time, step)) }, { ...axis, label: unit, labelSize: 20, values: (_, splits) => splits.map((value) => number(value)) }],
        series: [{ label: t("Time"), value: (_, time) => (time == null ? "–" : moment(new Date(time * 1000).toISOString())) }, ...shown],
      };
      chart = new Plot(options, [xs, ...ys], element);
      resized.observe(element);
    }, setFailure);
    return () => {
      ended = true;
      resized.disconnect();
      chart?.destroy();
    };
  }, [key]);
  if (failure) return html`<${Problem} error=${{ status: 0, name: t("The chart could not be loaded"), message: String(failure) }} retry=${() => location.reload()} />`;
  return html`<div class="chart" ref=${place} role="img" aria-label=${label}></div>`;
}
