// Charts of the last hour, which the controller keeps in memory.

import { useEffect, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { get } from "./api.js";
import { texts } from "./texts.js";
import { Problem, bytes, useLoad } from "./parts.js";
import { Time, timeText, useZone } from "./times.js";

const t = texts.live;
const MIN_STEPS = 60;
const [WIDTH, HEIGHT] = [600, 90];
const rate = (value) => t.rate(bytes(value));
const count = (value) => value.toLocaleString();
const minute = (value) => t.perMinute(value.toLocaleString());

/** Sums of the last six steps, of ten seconds each. */
const perMinute = (steps, member) =>
  steps.map((_, index) =>
    steps.slice(Math.max(0, index - 5), index + 1).reduce((sum, step) => sum + step[member], 0),
  );
const plain = (steps, member) => steps.map((step) => step[member]);

const CHARTS = [
  [t.total, rate, plain, ["clientBytesPerSecond", t.up], ["hostBytesPerSecond", t.down]],
  [
    t.remote,
    rate,
    plain,
    ["remoteRoutersClientBytesPerSecond", t.up],
    ["remoteRoutersHostBytesPerSecond", t.down],
  ],
  [t.open, count, plain, ["circuits", t.circuits], ["channels", t.channels]],
  [t.attempts, minute, perMinute, ["logins", t.logins], ["refusals", t.refusals]],
];

/** A chart shows what there is, and at least ten minutes. */
const shown = (length) => Math.max(MIN_STEPS, length);
const place = (index, length) => ((shown(length) - length + index) / (shown(length) - 1)) * WIDTH;

/** A chart whose values are read with the pointer or the arrow keys; without them the newest values are shown. */
function Chart({ title, show, series, times, seconds }) {
  const [chosen, setChosen] = useState(null);
  const [zone] = useZone();
  const { length } = times;
  const at = Math.min(chosen ?? length - 1, length - 1);
  const most = Math.max(0, ...series.flatMap(({ values }) => values));
  const top = Math.max(1, most);
  const line = (values) =>
    values
      .map(
        (value, index) =>
          `${index ? "L" : "M"}${place(index, length)} ${HEIGHT - 4 - (value / top) * (HEIGHT - 12)}`,
      )
      .join("");
  const point = (event) => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    const step =
      Math.round(((event.clientX - left) / width) * (shown(length) - 1)) - (shown(length) - length);
    setChosen(step >= 0 && step < length ? step : null);
  };
  const pressed = (event) => {
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    setChosen(Math.max(0, Math.min(length - 1, next)));
  };
  const release = () => setChosen(null);
  const said = `${timeText(new Date(times[at]), zone)}: ${series.map(({ label, values }) => `${label} ${show(values[at])}`).join(", ")}`;
  return html`<section class="card"><h2>${title}</h2>
    <p class="legend">${series.map(({ label, values }, index) => html`<span class=${index ? "down" : "up"}>${label} <strong>${show(values[at])}</strong></span>`)}<span class="faint most">${t.most(show(most))}</span></p>
    <svg class="chart" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" tabindex="0" role="slider" aria-label=${title} aria-valuemin="0" aria-valuemax=${length - 1} aria-valuenow=${at} aria-valuetext=${said}
      onPointerMove=${point} onPointerDown=${point} onPointerLeave=${release} onBlur=${release} onKeyDown=${pressed}>
      ${chosen !== null && html`<path class="at" d=${`M${place(at, length)} 0V${HEIGHT}`} />`}
      ${series.map(({ values }, index) => html`<path class=${index ? "down" : "up"} d=${line(values)} />`)}</svg>
    <p class="axis faint"><span>${t.minutesAgo(Math.round((shown(length) * seconds) / 60))}</span>${chosen !== null && html`<${Time} at=${times[at]} exact />`}<span>${t.now}</span></p></section>`;
}

export function Hour() {
  const [hour, error, again] = useLoad(
    (signal) => get("/overkeep/v1/last-hour", { signal }).then(({ data }) => data),
    [],
  );
  useEffect(() => {
    if (!hour) return undefined;
    const timer = setInterval(() => document.hidden || again(), hour.stepSeconds * 1000);
    return () => clearInterval(timer);
  }, [Boolean(hour)]);
  if (!hour?.steps.length) return html`<${Problem} error=${error} />`;
  const times = hour.steps.map(({ at }) => at);
  return html`<div class="columns charts">${CHARTS.map(([title, show, of, ...members]) => html`<${Chart} title=${title} show=${show} times=${times} seconds=${hour.stepSeconds} series=${members.map(([member, label]) => ({ label, values: of(hour.steps, member) }))} />`)}</div>`;
}
