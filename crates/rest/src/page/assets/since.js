// Who gained and who lost access since some time.

import { useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { list } from "./api.js";
import { texts } from "./texts.js";
import { Loading, Problem, useLoad } from "./parts.js";
import { Rows } from "./changes.js";
import { useNews } from "./news.js";

const t = texts.access;
const SPANS = { hours: 3600000, day: 86400000, week: 604800000 };

export function Since() {
  const [span, setSpan] = useState("day");
  const [page, error, again] = useLoad(
    (signal) =>
      list(
        "/overkeep/v1/history",
        {
          limit: 100,
          filter: `action = "access" and at > datetime(${new Date(Date.now() - SPANS[span]).toISOString()})`,
        },
        { signal },
      ),
    [span],
  );
  useNews((row) => row.action === "access", again, [span]);
  return html`<div class="card asks"><div class="field"><label for="span">${t.sinceYesterday}</label>
      <select id="span" value=${span} onChange=${(event) => setSpan(event.target.value)}>${Object.keys(SPANS).map((name) => html`<option value=${name} selected=${name === span}>${t[name]}</option>`)}</select></div></div>
    <${Problem} error=${error} again=${again} />${!page && !error && html`<${Loading} />`}
    ${page && !page.rows.length && html`<p class="faint">${t.noChanges}</p>`}
    ${page?.rows.length > 0 && html`<section class="card"><${Rows} rows=${page.rows} open />${page.total > page.rows.length && html`<p><a href="#/history?kind=access">${texts.preview.others(page.total - page.rows.length)}</a></p>`}</section>`}`;
}
