// Who hosts services, since when nobody does, and which dials of their hosts failed.

import { useEffect } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { list, literal, query } from "./api.js";
import { may, mayCreate } from "./scope.js";
import { kind } from "./kinds.js";
import { texts } from "./texts.js";
import { Dot, Icon, Reference, useLoad } from "./parts.js";
import { Dated, Time } from "./times.js";

const t = texts.hosting;
const INTERVAL = 5000; // milliseconds
const MAX = 500;

/** The filter for services of which a person should know. */
export const UNREACHED = 'state in ["unhosted", "failing"]';
export const among = (ids) => (ids.length ? `id in [${ids.map(literal).join(", ")}]` : null);

/** Calls `again` every so many milliseconds while the page is visible. */
export function useOften(again, inputs, interval = INTERVAL) {
  useEffect(() => {
    const timer = setInterval(() => document.hidden || again(), interval);
    return () => clearInterval(timer);
  }, inputs);
}

/** The hosting of the services that match a filter, by id, as it changes. Nothing is asked without a filter. */
export function useHosting(filter) {
  const [found, , again] = useLoad(
    async (signal) => {
      const { rows } = filter
        ? await list("/overkeep/v1/hosting", { filter, limit: MAX }, { signal })
        : { rows: [] };
      return new Map(rows.map((row) => [row.id, row]));
    },
    [filter],
  );
  useOften(again, [filter]);
  return found || new Map();
}

const reasonOf = ({ failures }) => failures.find(({ times }) => times)?.reasons[0]?.text;

/** What is wrong with a service as a sentence: nobody hosts it, or dials of its hosts fail. `null` if nothing is. */
export function wrongWith(entry) {
  if (entry.state === "unhosted")
    return html`<${Dated} text=${`${entry.text}.`} />${entry.lastHost && ` ${t.last(entry.lastHost.name)}`}`;
  if (entry.state === "failing") return t.failing(entry.name, reasonOf(entry));
  return null;
}

const Host = ({ host }) =>
  html`<${Dot} on label=${host.identity ? html`<${Reference} kind="identities" id=${host.identity.id} name=${host.identity.name} />` : t.terminator(host.router.name)} />`;

/** Who hosts a service, or since when nobody does. */
export function Hosts({ entry }) {
  if (!entry) return html`<span class="faint">…</span>`;
  const wrong = wrongWith(entry);
  return html`${wrong && html`<p class="warning"><i aria-hidden="true"></i><span>${wrong}</span></p>`}
    ${entry.hosts.map((host) => html`<p><${Host} host=${host} /></p>`)}${entry.hostCount > entry.hosts.length && html`<p class="faint">${texts.preview.others(entry.hostCount - entry.hosts.length)}</p>`}
    ${!wrong && !entry.hosts.length && html`<span class="faint">${t.notYet}</span>`}`;
}

const POLICIES = 100;
const NEEDED = { Dial: [t.nobodyUses, t.letUse], Bind: [t.nobodyHosts, t.letHost] };

/** The policies without which a service is of no use, with the forms that make them. `members` changes with the service. */
export function MissingPolicies({ id, members }) {
  const path = `/services/${encodeURIComponent(id)}/service-policies`;
  const [page] = useLoad(
    async (signal) => (may("GET", path) ? list(path, { limit: POLICIES }, { signal }) : null),
    [id, members],
  );
  const missing =
    page && page.total <= page.rows.length
      ? Object.keys(NEEDED).filter((type) => !page.rows.some((policy) => policy.type === type))
      : [];
  if (!missing.length) return null;
  return html`<section class="card"><h2>${t.missing}</h2><ul class="needs">${missing.map((type) => html`<li><${Icon} name="warning" /><span>${NEEDED[type][0]} ${mayCreate(kind("service-policies")) && html`<a href=${`#/service-policies/_new?${query({ type, serviceRoles: `@${id}` })}`}>${NEEDED[type][1]}</a>`}</span></li>`)}</ul></section>`;
}

/** The hosts of one service, and their failed dials. */
export function ServiceHosts({ id }) {
  const entry = useHosting(among([id])).get(id);
  return html`<section class="card hosting"><h2>${t.title}</h2><div aria-live="polite"><${Hosts} entry=${entry} /></div>
    ${
      entry?.failures.length > 0 &&
      html`<h3>${t.failures}</h3><ul class="findings">${entry.failures.map(
        (failed) => html`<li key=${failed.identity?.id || failed.terminatorId || ""}>
      <p>${failed.identity ? html`<${Reference} kind="identities" id=${failed.identity.id} name=${failed.identity.name} />` : failed.terminatorId ? t.terminator(failed.router.name) : t.noHost}
        ${" "}<span class="faint">${failed.times ? t.times(failed.times) : t.over} · <${Time} at=${failed.last} /></span></p>
      <ul class="plain">${failed.reasons.map((reason) => html`<li><span>${reason.text} <span class="faint">${t.reason(reason.fault, reason.times)}</span></span></li>`)}</ul></li>`,
      )}</ul>`
    }</section>`;
}
