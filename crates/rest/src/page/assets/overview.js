// Counts of records, who is online, and what needs attention.

import { html } from "./html.js";
import { get, list, query } from "./api.js";
import { kind } from "./kinds.js";
import { texts } from "./texts.js";
import { Dot, Heading, Icon, Loading, Problem, Reference, useLoad } from "./parts.js";
import { Rows } from "./changes.js";
import { FirstSteps } from "./machines.js";
import { useOften, wrongWith } from "./hosting.js";
import { useNews } from "./news.js";
import { Dated, Time } from "./times.js";
import { addressOf, expiring, wordFor } from "./expiring.js";
import { may, mayShare } from "./scope.js";

const t = texts.overview;
const ONE = { limit: 1 };
const MAX_ROWS = 8;
const MAX_NAMED = 5;
const SOON = "30d";
const OFFLINE = "isVerified = true and online = false";
const COUNTED = ["identity", "enrollment", "edgeRouter", "transitRouter", "service"];
const ATTENTION_INTERVAL = 10000; // milliseconds: hosts that come and go are in the history only after a while
const TILES = 6;
const total = (path, filter, signal) =>
  list(path, { ...ONE, filter }, { signal }).then(({ total: count }) => count);

async function look(signal) {
  const shown = texts.order
    .map(kind)
    .filter((entry) => entry?.create)
    .slice(0, TILES);
  const [counts, online, routers, offline, recent, dials, overs] = await Promise.all([
    Promise.all(
      shown.map((entry) => total(entry.path, "", signal).then((count) => [entry.name, count])),
    ),
    list("/overkeep/v1/channels", { limit: MAX_ROWS }, { signal }),
    list("/edge-routers", { limit: MAX_ROWS, sort: "name" }, { signal }),
    list("/edge-routers", { limit: MAX_NAMED, sort: "name", filter: OFFLINE }, { signal }),
    list(
      "/overkeep/v1/history",
      { limit: MAX_ROWS, filter: 'action in ["create", "update", "delete", "refusal", "lockout"]' },
      { signal },
    ),
    total("/service-policies", "type = 1", signal).catch(() =>
      total("/service-policies", "", signal),
    ),
    total("/edge-router-policies", "", signal),
  ]);
  return { counts: new Map(counts), online, routers, offline, recent, dials, overs };
}

/** Services without a reachable host, disabled identities and unused enrollments. The controller reads all of them for the answer. */
const lookAtUnused = (signal) => get("/overkeep/v1/attention", { signal }).then(({ data }) => data);

/** What expires soon and what is wrong on the host. Reading it takes longer, and it does not change with every event. */
async function lookAhead(signal) {
  const [ending, { data: host }] = await Promise.all([
    expiring(SOON, signal),
    get("/overkeep/v1/doctor", { signal }),
  ]);
  return { ending, host: host.filter(({ healthy }) => !healthy) };
}

const more = (count, to) =>
  count > MAX_NAMED ? [[texts.preview.others(count - MAX_NAMED), to]] : [];

/** What will need attention: `[text, address]`. */
function ahead({ ending, host }) {
  return [
    ...host.map(({ check, detail }) => [
      html`${t.onHost(check)} <${Dated} text=${detail} />`,
      "#/care",
    ]),
    ...ending.items
      .slice(0, MAX_NAMED)
      .map((item) => [
        html`${t.ending(wordFor(item), item.name)} <${Time} at=${item.endsAt} />`,
        addressOf(item),
      ]),
    ...more(ending.total, "#/care"),
  ];
}

const names = ({ total, first }) =>
  `${first.map(({ name }) => name).join(", ")}${total > first.length ? ", …" : ""}`;

/** What needs attention: `[text, address]`. */
function needs({ counts, routers, offline, dials, overs }) {
  const creating = (name) => (may("POST", `/${name}`) ? `#/${name}/_new` : `#/${name}`);
  const found = offline.rows.map(({ id, name }) => [t.routerOffline(name), `#/edge-routers/${id}`]);
  found.push(...more(offline.total, `#/edge-routers?${query({ filter: OFFLINE })}`));
  if (!routers.total) found.push([t.noRouter, creating("edge-routers")]);
  if (!overs) found.push([t.noRouterPolicy, creating("edge-router-policies")]);
  if (counts.get("services") && !dials) found.push([t.noPolicy, creating("service-policies")]);
  return found;
}

/** Services that clients do not reach: `[text, address]`. */
function unreached({ unhostedServices, failingServices }) {
  return [unhostedServices, failingServices].flatMap(({ total, first }) => [
    ...first.map((entry) => [wrongWith(entry), `#/services/${entry.id}`]),
    ...more(total, "#/services"),
  ]);
}

/** An API token that may not make enrollments does not see them either. */
const addressOfEnrollments = (id = "") =>
  may("GET", "/enrollments") ? `#/enrollments${id && `/${id}`}` : "#/identities";

/** Enrollments and identities that need attention: `[text, address]`. */
function unused(attention) {
  const found = [];
  const {
    outstandingEnrollments: open,
    expiredEnrollments: over,
    disabledIdentities: disabled,
  } = attention;
  found.push(
    ...over.first.map(({ id, identityId, name }) => [
      t.expired(name),
      identityId ? `#/identities/${identityId}` : addressOfEnrollments(id),
    ]),
  );
  found.push(...more(over.total, addressOfEnrollments()));
  if (open.total) found.push([t.notEnrolled(open.total, names(open)), addressOfEnrollments()]);
  if (disabled.total)
    found.push([
      t.disabled(disabled.total, names(disabled)),
      `#/identities/${disabled.total === 1 ? disabled.first[0].id : ""}`,
    ]);
  return found;
}

export function Overview() {
  const [found, error, again] = useLoad(look, []);
  const [later, unknown] = useLoad(lookAhead, []);
  const [attention, uncounted, count] = useLoad(lookAtUnused, []);
  useNews(() => true, again, []);
  useNews(({ kind: of }) => COUNTED.includes(of), count, []);
  useOften(count, [], ATTENTION_INTERVAL);
  if (!found)
    return html`<${Heading} title=${texts.pages.overview} />${error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`}`;
  const open = [
    ...(attention ? unreached(attention) : []),
    ...needs(found),
    ...(attention ? unused(attention) : []),
    ...(later ? ahead(later) : []),
  ];
  return html`<${Heading} title=${texts.pages.overview}>${mayShare() && html`<a class="button" href="#/share">${texts.share.title}</a>`}${may("POST", "/identities") && html`<a class="button" href="#/invite">${texts.invite.title}</a>`}<//>
    <${Problem} error=${error || unknown || uncounted} />
    <${FirstSteps} />
    <section aria-label=${t.there}><ul class="tiles">${[...found.counts].map(([name, count]) => html`<li><a href=${`#/${name}`}><strong>${count.toLocaleString()}</strong><span>${kind(name).label}</span></a></li>`)}</ul></section>
    <div class="columns">
      <section class="card"><h2>${t.needs}</h2>
        ${open.length ? html`<ul class="needs">${open.map(([text, to]) => html`<li><${Icon} name="warning" /><a href=${to}>${text}</a></li>`)}</ul>` : later && attention && html`<p class="quiet"><${Icon} name="check" />${t.allWell}</p>`}</section>
      <section class="card"><h2>${t.online} <span class="faint">${found.online.total.toLocaleString()}</span></h2>
        ${!found.online.rows.length && html`<p class="faint">${t.nobody}</p>`}
        <ul class="plain">${found.online.rows.map((channel) => html`<li><${Dot} on label=${html`<${Reference} kind="identities" id=${channel.identity.id} name=${channel.identity.name} />`} /><span class="faint">${channel.sdk || channel.hello} · <${Time} at=${channel.since} /></span></li>`)}</ul>
        <h3>${kind("edge-routers").label} <span class="faint">${found.routers.total.toLocaleString()}</span></h3>
        <ul class="plain">${found.routers.rows.map((router) => html`<li><${Dot} on=${router.isOnline} label=${html`<${Reference} kind="edge-routers" id=${router.id} name=${router.name} />`} /></li>`)}</ul></section>
    </div>
    <section class="card"><h2>${t.recent}</h2>${found.recent.rows.length ? html`<${Rows} rows=${found.recent.rows} />` : html`<p class="faint">${t.nothingYet}</p>`}</section>`;
}
