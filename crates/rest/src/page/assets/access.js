// Who may reach what: a map of groups, a question about a pair, and what changed.

import { html } from "./html.js";
import { texts } from "./texts.js";
import { Heading } from "./parts.js";
import { AccessMap } from "./map.js";
import { Explain } from "./explain.js";
import { Since } from "./since.js";

const t = texts.access;
const VIEWS = { map: AccessMap, ask: Explain, changes: Since };

export function Access({ rest, values }) {
  const now = Object.hasOwn(VIEWS, rest[0]) ? rest[0] : "map";
  return html`<${Heading} title=${t.title} note=${now === "map" ? t.note : null} />
    <nav class="tabs" aria-label=${t.title}>${Object.keys(VIEWS).map((view) => html`<a href=${`#/access/${view}`} aria-current=${view === now ? "page" : undefined}>${t.views[view]}</a>`)}</nav>
    <${VIEWS[now]} key=${now} values=${values} />`;
}
