// The last hour, current circuits, clients and links, and events as they happen.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { ask, list } from "./api.js";
import { texts } from "./texts.js";
import { Dialog, Dot, Heading, Loading, Problem, Reference, bytes, useOnce } from "./parts.js";
import { Rows } from "./changes.js";
import { Hour } from "./hour.js";
import { useRows } from "./news.js";
import { may } from "./scope.js";
import { Time } from "./times.js";

const t = texts.live;
const INTERVAL = 2000;
const LIMIT = 100;
const MAX_EVENTS = 50;

/** Circuits, channels, routers and links between them, requested every two seconds while the page is visible. */
function useTraffic() {
  const [state, setState] = useState({});
  const round = useRef(0);
  const refresh = async (signal) => {
    try {
      const [circuits, channels, links, routers, online] = await Promise.all([
        ...["/overkeep/v1/circuits", "/overkeep/v1/channels", "/fabric/v1/links"].map((path) =>
          list(path, { limit: LIMIT }, { signal }),
        ),
        list("/edge-routers", { limit: LIMIT, sort: "name" }, { signal }),
        list("/edge-routers", { limit: 1, filter: "online = true" }, { signal }),
      ]);
      setState({ circuits, channels, links, routers, online: online.total });
    } catch (error) {
      if (!signal.aborted) setState((old) => ({ ...old, error }));
    }
  };
  useEffect(() => {
    const abort = new AbortController();
    const poll = async () => {
      const current = ++round.current;
      if (!document.hidden) await refresh(abort.signal);
      if (!abort.signal.aborted && current === round.current) setTimeout(poll, INTERVAL);
    };
    poll();
    return () => {
      abort.abort();
      round.current++;
    };
  }, []);
  return [state, refresh];
}

function End({ circuit, onClose, onDone }) {
  const [error, setError] = useState(null);
  const [isBusy, once] = useOnce();
  const go = () =>
    ask("DELETE", `/overkeep/v1/circuits/${encodeURIComponent(circuit.id)}`).then(() => {
      onDone();
      onClose();
    }, setError);
  return html`<${Dialog} title=${t.endTitle(circuit.service.name)} onClose=${onClose}><p>${t.endNote}</p><${Problem} error=${error} />
    <div class="actions"><button type="button" class="button" onClick=${onClose}>${texts.cancel}</button><button type="button" class="button danger" disabled=${isBusy} onClick=${() => once(go)}>${t.end}</button></div><//>`;
}

const NUMBERS = [t.up, t.down, t.latency];
/** The head of a table. The heads of `numbers` stand over their columns, at the right. */
const heads = (names, numbers = NUMBERS) =>
  html`<thead><tr>${names.map((name) => html`<th scope="col" class=${numbers.includes(name) ? "number" : ""}>${name}</th>`)}</tr></thead>`;
/** The traffic of an end, where a router reports it. */
const sent = (end) =>
  end &&
  "sentBytes" in end &&
  html`${bytes(end.sentBytes)} <span class="faint">${t.rate(bytes(end.sentBytesPerSecond))}</span>`;
const who = (identity) =>
  html`<${Reference} kind="identities" id=${identity.id} name=${identity.name} />`;

const router = ({ id, name }) => html`<${Reference} kind="edge-routers" id=${id} name=${name} />`;
const UNMEASURED = 65e9; // nanoseconds: what stands for a latency until a router has reported it
/** The larger of the latencies that the ends of a link have measured. */
function latency({ sourceLatency, destLatency }) {
  const known = [sourceLatency, destLatency].filter((nanoseconds) => nanoseconds < UNMEASURED);
  return known.length
    ? t.milliseconds(
        (Math.max(...known) / 1e6).toLocaleString(undefined, { maximumFractionDigits: 1 }),
      )
    : html`<span class="faint">${t.unmeasured}</span>`;
}

/** The routers that a circuit crosses, if it is more than one. */
const pathOf = ({ routers }) =>
  routers?.length > 1 &&
  html`<p class="path faint">${t.over} ${routers.map((one, index) => html`${index ? ", " : ""}${router(one)}`)}</p>`;

/** How many are not shown, with a link to all of them if they have a page. */
function Rest({ page, of }) {
  const count = page.total - page.rows.length;
  if (count <= 0) return null;
  const text = texts.preview.others(count);
  return html`<p class="faint">${of ? html`<a href=${`#/${of}`}>${text}</a>` : text}</p>`;
}

/** Redrawn on its own, because events come by the hundred. */
function Events() {
  const rows = useRows();
  return html`<section class="card"><h2>${t.events}</h2>${rows.length ? html`<div role="log"><${Rows} rows=${rows.slice(0, MAX_EVENTS)} /></div>` : html`<p class="faint">${t.noEvents}</p>`}</section>`;
}

export function Live() {
  const [{ circuits, channels, links, routers, online, error }, refresh] = useTraffic();
  const [ending, setEnding] = useState(null);
  return html`<${Heading} title=${t.title} note=${t.note} />
    <${Problem} error=${error} />${!circuits && !error && html`<${Loading} />`}
    <${Hour} />
    ${
      circuits &&
      html`
      <section class="block"><h2>${t.circuits} <span class="faint">${circuits.total.toLocaleString()}</span></h2>${
        circuits.rows.length
          ? html`<div class="table"><table class="traffic">${heads([t.service, t.from, t.host, t.up, t.down, t.since, t.end])}
        <tbody>${circuits.rows.map(
          (
            circuit,
          ) => html`<tr key=${circuit.id}><td data-label=${t.service}><${Reference} kind="services" id=${circuit.service.id} name=${circuit.service.name} />${pathOf(circuit)}</td>
          <td data-label=${t.from}>${who(circuit.client.identity)}</td><td data-label=${t.host}>${circuit.host && who(circuit.host.identity)}</td>
          <td data-label=${t.up} class="number">${sent(circuit.client)}</td>
          <td data-label=${t.down} class="number">${sent(circuit.host)}</td>
          <td data-label=${t.since}><${Time} at=${circuit.since} /></td><td data-label=${t.end}>${may("DELETE", `/overkeep/v1/circuits/${circuit.id}`) && html`<button type="button" class="button small" aria-label=${t.endTitle(circuit.service.name)} onClick=${() => setEnding(circuit)}>${t.end}</button>`}</td></tr>`,
        )}</tbody></table></div><${Rest} page=${circuits} />`
          : html`<p class="faint">${t.noCircuits}</p>`
      }</section>
      <section class="block"><h2>${t.channels} <span class="faint">${channels.total.toLocaleString()}</span></h2>${
        channels.rows.length
          ? html`<div class="table"><table>${heads([t.identity, t.client, t.address, t.circuits, t.waiting, t.since], [t.circuits, t.waiting])}
        <tbody>${channels.rows.map(
          (
            channel,
          ) => html`<tr key=${channel.id}><td data-label=${t.identity}>${who(channel.identity)}</td><td data-label=${t.client}>${channel.sdk || channel.hello} <span class="faint">${channel.sdkVersion}</span></td>
          <td data-label=${t.address}>${channel.address}</td><td data-label=${t.circuits} class="number">${channel.circuits}</td><td data-label=${t.waiting} class="number">${bytes(channel.queuedBytes)}</td><td data-label=${t.since}><${Time} at=${channel.since} /></td></tr>`,
        )}</tbody></table></div><${Rest} page=${channels} />`
          : html`<p class="faint">${t.noChannels}</p>`
      }</section>
      ${routers.rows.length > 0 && html`<section class="block"><h2>${t.routers} <span class="faint">${texts.overview.members(online, routers.total)}</span></h2><ul class="routers">${routers.rows.map(({ id, name, isOnline }) => html`<li key=${id}><${Dot} on=${isOnline} label=${router({ id, name })} /></li>`)}</ul><${Rest} page=${routers} of="edge-routers" /></section>`}
      ${
        links.rows.length > 0 &&
        html`<section class="block"><h2>${t.links} <span class="faint">${links.total.toLocaleString()}</span></h2><div class="table"><table>${heads([t.fromRouter, t.toRouter, t.protocol, t.latency, t.state])}
        <tbody>${links.rows.map(
          (
            link,
          ) => html`<tr key=${link.id}><td data-label=${t.fromRouter}>${router(link.sourceRouter)}</td><td data-label=${t.toRouter}>${router(link.destRouter)}</td><td data-label=${t.protocol}>${link.protocol}</td>
          <td data-label=${t.latency} class="number">${latency(link)}</td><td data-label=${t.state}><${Dot} on=${!link.down} label=${link.down ? t.isDown : link.state} /></td></tr>`,
        )}</tbody></table></div><${Rest} page=${links} /></section>`
      }`
    }
    <${Events} />
    ${ending && html`<${End} circuit=${ending} onClose=${() => setEnding(null)} onDone=${() => refresh(new AbortController().signal)} />`}`;
}
