// Current circuits and clients, and events as they happen.

import { html, useEffect, useRef, useState } from './vendor/htm-preact.js';
import { ask, list } from './api.js';
import { texts } from './texts.js';
import { Dialog, Heading, Loading, Problem, Reference, Time, bytes } from './parts.js';
import { Rows } from './changes.js';
import { useRows } from './news.js';

const t = texts.live;
const INTERVAL = 2000;
const LIMIT = 100;
const MAX_RATES = 150; // 5 minutes

/** Circuits and channels, requested every two seconds while the page is visible. */
function useTraffic() {
  const [state, setState] = useState({ rates: [] });
  const round = useRef(0);
  const refresh = async signal => {
    try {
      const [circuits, channels] = await Promise.all([list('/overkeep/v1/circuits', { limit: LIMIT }, { signal }), list('/overkeep/v1/channels', { limit: LIMIT }, { signal })]);
      const rate = circuits.rows.reduce((sum, { client, host }) => [sum[0] + (client.sentBytesPerSecond ?? 0), sum[1] + (host?.sentBytesPerSecond ?? 0)], [0, 0]);
      setState(old => ({ circuits, channels, rates: [...old.rates, rate].slice(-MAX_RATES) }));
    } catch (error) {
      if (!signal.aborted) setState(old => ({ ...old, error }));
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

function Chart({ rates }) {
  if (rates.length < 2) return null;
  const [width, height] = [600, 90];
  const top = Math.max(1, ...rates.flat());
  const line = side => rates.map((rate, index) => `${index ? 'L' : 'M'}${(index / (MAX_RATES - 1)) * width} ${height - 4 - (rate[side] / top) * (height - 12)}`).join('');
  const last = rates.at(-1);
  return html`<section class="card"><h2>${t.total}</h2>
    <p class="legend"><span class="up">${t.up} <strong>${t.rate(bytes(last[0]))}</strong></span><span class="down">${t.down} <strong>${t.rate(bytes(last[1]))}</strong></span></p>
    <svg class="chart" viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true"><path class="up" d=${line(0)} /><path class="down" d=${line(1)} /></svg></section>`;
}

function End({ circuit, onClose, onDone }) {
  const [error, setError] = useState(null);
  const go = () => ask('DELETE', `/overkeep/v1/circuits/${encodeURIComponent(circuit.id)}`).then(() => { onDone(); onClose(); }, setError);
  return html`<${Dialog} title=${t.endTitle(circuit.service.name)} onClose=${onClose}><p>${t.endNote}</p><${Problem} error=${error} />
    <div class="actions"><button type="button" class="button" onClick=${onClose}>${texts.cancel}</button><button type="button" class="button danger" onClick=${go}>${t.end}</button></div><//>`;
}

const heads = names => html`<thead><tr>${names.map(name => html`<th scope="col">${name}</th>`)}</tr></thead>`;
/** The traffic of an end. Routers other than the built-in one do not report it. */
const sent = end => end && 'sentBytes' in end && html`${bytes(end.sentBytes)} <span class="faint">${t.rate(bytes(end.sentBytesPerSecond))}</span>`;
const who = identity => html`<${Reference} kind="identities" id=${identity.id} name=${identity.name} />`;

export function Live() {
  const [{ circuits, channels, rates, error }, refresh] = useTraffic();
  const [ending, setEnding] = useState(null);
  const rows = useRows();
  return html`<${Heading} title=${t.title} note=${t.note} />
    <${Problem} error=${error} />${!circuits && !error && html`<${Loading} />`}
    ${circuits && html`<${Chart} rates=${rates} />
      <section class="block"><h2>${t.circuits} <span class="faint">${circuits.total}</span></h2>${circuits.rows.length ? html`<div class="table"><table>${heads([t.service, t.from, t.host, t.up, t.down, t.since, t.end])}
        <tbody>${circuits.rows.map(circuit => html`<tr key=${circuit.id}><td data-label=${t.service}><${Reference} kind="services" id=${circuit.service.id} name=${circuit.service.name} /></td>
          <td data-label=${t.from}>${who(circuit.client.identity)}</td><td data-label=${t.host}>${circuit.host && who(circuit.host.identity)}</td>
          <td data-label=${t.up} class="number">${sent(circuit.client)}</td>
          <td data-label=${t.down} class="number">${sent(circuit.host)}</td>
          <td data-label=${t.since}><${Time} at=${circuit.since} /></td><td data-label=${t.end}><button type="button" class="button small" aria-label=${t.endTitle(circuit.service.name)} onClick=${() => setEnding(circuit)}>${t.end}</button></td></tr>`)}</tbody></table></div>` : html`<p class="faint">${t.noCircuits}</p>`}</section>
      <section class="block"><h2>${t.channels} <span class="faint">${channels.total}</span></h2>${channels.rows.length ? html`<div class="table"><table>${heads([t.identity, t.client, t.address, t.circuits, t.waiting, t.since])}
        <tbody>${channels.rows.map(channel => html`<tr key=${channel.id}><td data-label=${t.identity}>${who(channel.identity)}</td><td data-label=${t.client}>${channel.sdk || channel.hello} <span class="faint">${channel.sdkVersion}</span></td>
          <td data-label=${t.address}>${channel.address}</td><td data-label=${t.circuits} class="number">${channel.circuits}</td><td data-label=${t.waiting} class="number">${bytes(channel.queuedBytes)}</td><td data-label=${t.since}><${Time} at=${channel.since} /></td></tr>`)}</tbody></table></div>` : html`<p class="faint">${t.noChannels}</p>`}</section>`}
    <section class="card"><h2>${t.events}</h2>${rows.length ? html`<div role="log"><${Rows} rows=${rows.slice(0, 50)} /></div>` : html`<p class="faint">${t.noEvents}</p>`}</section>
    ${ending && html`<${End} circuit=${ending} onClose=${() => setEnding(null)} onDone=${() => refresh(new AbortController().signal)} />`}`;
}
