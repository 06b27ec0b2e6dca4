// Charts of the last hour, which the controller keeps in memory.

import { html, useEffect } from './vendor/htm-preact.js';
import { get } from './api.js';
import { texts } from './texts.js';
import { Problem, bytes, useLoad } from './parts.js';

const t = texts.live;
const STEPS = 360;
const [WIDTH, HEIGHT] = [600, 90];
const rate = value => t.rate(bytes(value));
const count = value => value.toLocaleString();
const minute = value => t.perMinute(value.toLocaleString());

/** Sums of the last six steps, of ten seconds each. */
const perMinute = (steps, member) => steps.map((_, index) => steps.slice(Math.max(0, index - 5), index + 1).reduce((sum, step) => sum + step[member], 0));
const plain = (steps, member) => steps.map(step => step[member]);

const CHARTS = [
  [t.total, rate, plain, ['clientBytesPerSecond', t.up], ['hostBytesPerSecond', t.down]],
  [t.open, count, plain, ['circuits', t.circuits], ['channels', t.channels]],
  [t.attempts, minute, perMinute, ['logins', t.logins], ['refusals', t.refusals]],
];

function Chart({ title, show, series }) {
  const top = Math.max(1, ...series.flatMap(({ values }) => values));
  const line = values => values.map((value, index) => `${index ? 'L' : 'M'}${((STEPS - values.length + index) / (STEPS - 1)) * WIDTH} ${HEIGHT - 4 - (value / top) * (HEIGHT - 12)}`).join('');
  return html`<section class="card"><h2>${title}</h2>
    <p class="legend">${series.map(({ label, values }, index) => html`<span class=${index ? 'down' : 'up'}>${label} <strong>${show(values.at(-1))}</strong></span>`)}<span class="faint most">${t.most(show(top))}</span></p>
    <svg class="chart" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">${series.map(({ values }, index) => html`<path class=${index ? 'down' : 'up'} d=${line(values)} />`)}</svg>
    <p class="axis faint"><span>${t.hourAgo}</span><span>${t.now}</span></p></section>`;
}

export function Hour() {
  const [hour, error, again] = useLoad(signal => get('/overkeep/v1/last-hour', { signal }).then(({ data }) => data), []);
  useEffect(() => {
    if (!hour) return undefined;
    const timer = setInterval(() => document.hidden || again(), hour.stepSeconds * 1000);
    return () => clearInterval(timer);
  }, [Boolean(hour)]);
  if (!hour?.steps.length) return html`<${Problem} error=${error} />`;
  return html`<div class="columns charts">${CHARTS.map(([title, show, of, ...members]) => html`<${Chart} title=${title} show=${show} series=${members.map(([member, label]) => ({ label, values: of(hour.steps, member) }))} />`)}</div>`;
}
