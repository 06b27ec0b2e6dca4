// What expires: certificates of the controller and of records, and API tokens, earliest first.

import { useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { get } from "./api.js";
import { kind as kindBy } from "./kinds.js";
import { texts } from "./texts.js";
import { Icon, Loading, Problem, useLoad } from "./parts.js";
import { Time } from "./times.js";

const t = texts.care;
const SHOWN = 15;
const SOON = 30 * 86400000;
const EVER = "36500d";
// The kinds of the records whose ids the items have.
const RECORDS = {
  "identity-certificate": "identities",
  "edge-router-certificate": "edge-routers",
  "transit-router-certificate": "transit-routers",
  ca: "cas",
  "external-jwt-signer": "external-jwt-signers",
  "api-token": "api-tokens",
};

/** The page that shows an item: its record, or the one for maintenance. */
export const addressOf = ({ kind, id }) =>
  kindBy(RECORDS[kind]) ? `#/${RECORDS[kind]}/${encodeURIComponent(id)}` : "#/care";

/** What expires within a duration: `{ items, total }`. An overdue snapshot is left out, because it is a finding about the host. */
export async function expiring(within, signal) {
  const { data } = await get(`/overkeep/v1/expiring?within=${within}&enrollments=false`, {
    signal,
  });
  const items = data.items.filter(({ kind }) => kind !== "snapshot");
  return { items, total: data.total - (data.items.length - items.length) };
}

/** What an item is, in words. */
export const wordFor = ({ kind }) => texts.expiring[kind] || kind;

export function ExpiringList() {
  const [all, setAll] = useState(false);
  const [found, error, again] = useLoad((signal) => expiring(EVER, signal), []);
  const isSoon = (item) => new Date(item.endsAt) - Date.now() < SOON;
  const name = (item) =>
    kindBy(RECORDS[item.kind])
      ? html`<a href=${addressOf(item)}>${item.name || item.id}</a>`
      : item.name;
  return html`<section class="card"><h2>${t.expiring}</h2><p class="hint">${t.expiringNote}</p><${Problem} error=${error} again=${again} />
    ${!found && !error && html`<${Loading} />`}${found && !found.items.length && html`<p class="faint">${t.nothingExpires}</p>`}
    ${
      found?.items.length > 0 &&
      html`<ul class="plain expiring">${(all ? found.items : found.items.slice(0, SHOWN)).map(
        (item) => html`<li class=${isSoon(item) ? "soon" : ""}>
      <span>${isSoon(item) && html`<${Icon} name="warning" />`} ${name(item)} <span class="faint">${wordFor(item)}</span></span><${Time} at=${item.endsAt} /></li>`,
      )}</ul>`
    }
    ${!all && found?.items.length > SHOWN && html`<button type="button" class="button small" onClick=${() => setAll(true)}>${texts.detail.showMore(found.items.length - SHOWN)}</button>`}
    ${found && (all || found.items.length <= SHOWN) && found.total > found.items.length && html`<p class="faint">${texts.preview.others(found.total - found.items.length)}</p>`}</section>`;
}
