// The machines of a service: what to paste on each, how far they are, and whether traffic flows. Also the first steps of a new network.

import { useRef } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { get, list, literal } from "./api.js";
import { texts } from "./texts.js";
import { Command, enrollLine, fileFor, wordsBehind } from "./command.js";
import { Heading, Icon, Loading, Problem, Reference, useLoad } from "./parts.js";
import { Loopback, Step, clientState } from "./enrollment.js";
import { useOften } from "./hosting.js";
import { placeText } from "./publication.js";
import { mayShare } from "./scope.js";
import { useNews } from "./news.js";

const t = texts.machines;
const NAMED = 3; // identities of each side
const ROUTERS = 100;
const INTERVAL = 2500; // milliseconds
const WEEK = 7 * 86400000;
const LISTEN = "127.0.0.1:8080";
const ROUTER = /^router$/i; // the identities of routers enroll with their routers

/** Whether data has flowed through any router since it started. Remote routers report once a minute. */
async function hasFlowed(signal) {
  const [{ data: inside }, { rows: routers }] = await Promise.all([
    get("/overkeep/v1/traffic", { signal }),
    list("/overkeep/v1/online", { filter: 'kind != "identity"', limit: ROUTERS }, { signal }),
  ]);
  const of = (traffic) => (traffic ? traffic.clientBytes + traffic.hostBytes : 0);
  return of(inside) + routers.reduce((sum, { traffic }) => sum + of(traffic), 0) > 0;
}

/** The server behind a service, from its config of the type host.v1. */
function targetIn(configs) {
  const { data } = configs.find(({ configType }) => configType?.name === "host.v1") || {};
  return typeof data?.address === "string" && Number.isInteger(data.port) ? data : null;
}

/** The identities of a list that enroll as machines of their own. */
const machinesOf = ({ rows }) => rows.filter(({ typeId }) => !ROUTER.test(typeId));

async function look(id, signal) {
  const path = `/services/${encodeURIComponent(id)}`;
  const who = (policyType) =>
    list(`${path}/identities`, { policyType, sort: "name", limit: NAMED }, { signal });
  const about = (what, filter) => list(`/overkeep/v1/${what}`, { filter, limit: 1 }, { signal });
  const [{ data: service }, configs, bind, dial, hosting, circuits, all, flowed] =
    await Promise.all([
      get(path, { signal }),
      list(`${path}/configs`, {}, { signal }),
      who("bind"),
      who("dial"),
      about("hosting", `id = ${literal(id)}`),
      about("circuits", `service.id in [${literal(id)}]`),
      list("/services", { limit: 1 }, { signal }),
      hasFlowed(signal),
    ]);
  const sent = ({ client, host }) => (client.sentBytes || 0) + (host?.sentBytes || 0) > 0;
  return {
    service,
    target: targetIn(configs.rows),
    bind,
    dial,
    isHosted: hosting.rows[0]?.hosts.length > 0,
    // Of a service that is the only one, all traffic tells; of others their circuits.
    carries: circuits.rows.some(sent) || (all.total === 1 && flowed),
  };
}

/** What is pasted on one machine: the line that enrolls it, until it is enrolled, and the command that runs. */
function Machine({ identity, command }) {
  const { isEnrolled, waiting } = clientState(identity);
  const isHidden = waiting && !waiting.jwt;
  const line = enrollLine(identity);
  return html`<section class="card"><h2>${t.on} <${Reference} kind="identities" id=${identity.id} name=${identity.name} /></h2><ol class="way">
      <li>${
        isEnrolled
          ? html`<p class="quiet"><${Icon} name="check" />${t.isEnrolled}</p>`
          : html`<p>${t.enroll}</p>${line ? html`<${Command} text=${line} />` : isHidden ? html`<p>${texts.enrollment.hidden}</p>` : html`<p><a href=${`#/invite/${encodeURIComponent(identity.id)}`}>${t.noToken}</a></p>`}`
      }</li>
      <li><p>${command[0]}</p><${Command} text=${command[1](fileFor(identity.name))} /></li></ol></section>`;
}

/** The machines of one side: the first identity that has the right, and the next ones in a fold. */
function Side({ page, right, service, command }) {
  const [first, ...others] = machinesOf(page);
  const rest = page.total - page.rows.length;
  const all = `#/access/ask?service=${encodeURIComponent(service.id)}&type=${right}`;
  const machine = (identity) =>
    html`<${Machine} key=${identity.id} identity=${identity} command=${command} />`;
  return html`<div>${first ? machine(first) : html`<section class="card"><h2>${page.total > 0 ? t.routers[right] : t.nobody[right]}</h2><p><a href=${all}>${t.who[right]}</a></p></section>`}
    ${others.length > 0 && html`<details class="machines"><summary>${t.others[right](others.map(({ name }) => name).join(", "))}</summary>${others.map(machine)}</details>`}
    ${rest > 0 && html`<p class="machines"><a href=${all}>${texts.preview.others(rest)}</a></p>`}</div>`;
}

/** The steps in their order; the first one that is not done is awaited. */
function Progress({ steps }) {
  const next = steps.findIndex(([isDone]) => !isDone);
  const look = (isDone, index) => (isDone ? "quiet" : index === next ? "waiting" : "faint");
  return html`<section class="card"><div role="status"><ol class="steps">${steps.map(([isDone, done, open], index) => html`<${Step} look=${look(isDone, index)} label=${isDone ? done : open} />`)}</ol></div></section>`;
}

/** The way of a service from its records to its traffic, as it happens. `title` gets the service. */
function Way({ id, title }) {
  const [found, error, again] = useLoad((signal) => look(id, signal), [id]);
  const carried = useRef(false); // a circuit may be short
  useNews(() => true, again, [id]);
  useOften(again, [id], INTERVAL);
  if (!found)
    return html`${title && html`<${Heading} title=${texts.share.title} />`}${error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`}`;
  const { service, target, bind, dial, isHosted } = found;
  carried.current ||= found.carries;
  const isEnrolled = (page) =>
    machinesOf(page).some((identity) => clientState(identity).isEnrolled);
  const listen = target?.protocol === "udp" ? `udp:${LISTEN}` : LISTEN;
  const at = (place) => wordsBehind(service.name, place);
  const place = target ? placeText(target) : t.unknown;
  const waiting = [bind, dial].flatMap(machinesOf).find(enrollLine);
  const steps = [
    [true, html`${t.made} <${Reference} kind="services" id=${id} name=${service.name} />`],
    [isHosted || isEnrolled(bind), ...t.steps.hostEnrolled],
    [isHosted, ...t.steps.hosted],
    [carried.current || isEnrolled(dial), ...t.steps.userEnrolled],
    [carried.current, ...t.steps.flows],
  ];
  return html`${title?.(service)}<${Problem} error=${error} /><${Progress} steps=${steps} />${waiting && html`<${Loopback} jwt=${waiting.enrollment.ott.jwt} />`}
    <div class="columns"><${Side} page=${bind} right="Bind" service=${service} command=${[t.host, (file) => texts.commands.host(file, at(place))]} />
      <${Side} page=${dial} right="Dial" service=${service} command=${[t.forward(listen), (file) => texts.commands.forward(file, at(listen))]} /></div>`;
}

export const Machines = ({ id }) =>
  html`<${Way} id=${id} title=${(service) => html`<${Heading} title=${t.title(service.name)} note=${t.note}><a class="button" href=${`#/services/${encodeURIComponent(id)}`}>${texts.detail.members}</a><//>`} />`;

/** Whether a network is new: no data has flowed, and its first service is younger than a week. With the last service, if there is one. */
async function lookAtNetwork(signal) {
  if (await hasFlowed(signal)) return { flowed: true };
  const first = (sort) => list("/services", { sort, limit: 1 }, { signal });
  const [oldest, newest] = await Promise.all([first("createdAt"), first("createdAt desc")]);
  const isOld = oldest.rows.some(({ createdAt }) => Date.now() - new Date(createdAt) > WEEK);
  return { isNew: !isOld, id: newest.rows[0]?.id };
}

/** The first steps, until traffic has flowed. Who sees them then is told. */
export function FirstSteps() {
  const [found, , again] = useLoad(
    async (signal) => (mayShare() ? lookAtNetwork(signal) : null),
    [],
  );
  const wasShown = useRef(false);
  const isOpen = Boolean(found?.isNew);
  useNews(({ kind }) => kind === "service" && isOpen, again, [isOpen]);
  useOften(() => isOpen && again(), [isOpen], INTERVAL);
  if (isOpen) wasShown.current = true;
  if (!isOpen)
    return wasShown.current && found?.flowed
      ? html`<p class="quiet" role="status"><${Icon} name="check" />${t.over}</p>`
      : null;
  return html`<section class="card first"><h2>${texts.overview.first}</h2><p class="hint">${found.id ? t.paste : t.begin}</p>
      <p class="actions"><a class=${`button ${found.id ? "" : "main"}`} href="#/share">${texts.share.title}</a><a class="button" href="#/invite">${texts.invite.title}</a><a class="button" href="#/words">${texts.glossary.title}</a></p></section>
    ${found.id && html`<${Way} key=${found.id} id=${found.id} />`}`;
}
