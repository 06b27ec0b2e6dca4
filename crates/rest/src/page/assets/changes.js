// Rows of the history and their differences.

import { html } from "./html.js";
import { kind, sentence } from "./kinds.js";
import { texts } from "./texts.js";
import { Reference, Value } from "./parts.js";
import { pathOf } from "./news.js";
import { MAX_NAMES, RELATIONS, Tallies } from "./preview.js";
import { Time } from "./times.js";

const t = texts.history;

export function Author({ by }) {
  if (by.who !== "identity")
    return html`<span>${t.who[by.who] || by.who}${by.address && by.who === "anonymous" ? ` ${t.from(by.address)}` : ""}</span>`;
  return html`<${Reference} kind="identities" id=${by.identity} name=${by.name} />`;
}

export function Subject({ row }) {
  const path = pathOf(row.kind);
  const label = row.name || row.after?.serviceName || row.after?.name;
  const what = kind(path)?.one || sentence(row.kind).toLowerCase();
  if (row.action === "delete" || !kind(path) || !label)
    return html`<span>${what}${label ? html` <strong>${label}</strong>` : ""}</span>`;
  return html`<span>${what} <${Reference} kind=${path} id=${row.id} name=${label} /></span>`;
}

export const Differences = ({ row }) => {
  const members = [...new Set([...Object.keys(row.before || {}), ...Object.keys(row.after || {})])];
  if (!members.length) return null;
  return html`<div class="table"><table class="differences"><thead><tr><th scope="col">${t.member}</th><th scope="col">${t.before}</th><th scope="col">${t.after}</th></tr></thead>
    <tbody>${members.map((member) => html`<tr><th scope="row">${sentence(member)}</th><td data-label=${t.before} class="was"><${Value} member=${member} value=${row.before?.[member]} /></td><td data-label=${t.after} class="is"><${Value} member=${member} value=${row.after?.[member]} /></td></tr>`)}</tbody></table></div>`;
};

/** Hosts of a service that came or went, or how many services had such a change. */
const hostsIn = ({ after }) =>
  after?.services
    ? t.hostsOfMany(after.services, after.unhosted)
    : after?.hosts?.length
      ? t.hostedBy(
          after.hosts.map(({ name, router, identity }) => name || router || identity).join(", "),
        )
      : t.unhosted;

/** What was refused, and how often it or a log-in happened, in parentheses. */
const counted = ({ what, times }) => [what, times > 1 && `× ${times}`].filter(Boolean).join(" ");

const MAX_TOLD = 2; // relations in one line
const names = ({ first, count }) =>
  texts.preview.names(
    first.slice(0, MAX_NAMES).map(({ name, id }) => name || id),
    Math.max(0, count - MAX_NAMES),
  );

/** What changed: who may, or may no longer, use what. The details have the rest. */
function accessIn({ gained = {}, lost = {}, changes }) {
  const told = RELATIONS.flatMap((relation) =>
    [
      [gained, t.gained],
      [lost, t.lost],
    ].flatMap(([pairs, say]) =>
      pairs[relation]?.pairs
        ? [say[relation](names(pairs[relation].who), names(pairs[relation].what))]
        : [],
    ),
  );
  return [
    ...told.slice(0, MAX_TOLD),
    ...(told.length > MAX_TOLD ? [texts.preview.others(told.length - MAX_TOLD)] : []),
    ...(changes > 1 ? [t.byChanges(changes)] : []),
  ].join("; ");
}

const line = (row) => {
  if (row.action === "access")
    return html`<strong>${t.actions.access}</strong>: ${accessIn(row.access || {})} <span class="faint">${t.by} <${Author} by=${row.by} /></span>`;
  if (["login", "logout", "refusal", "lockout"].includes(row.action))
    return html`<${Author} by=${row.by} /> <strong>${t.actions[row.action]}</strong>${counted(row.after || {}) ? ` (${counted(row.after)})` : ""}`;
  if (row.kind === "service" && ["connect", "disconnect"].includes(row.action))
    return html`${row.id && html`<${Subject} row=${row} /> `}<strong>${hostsIn(row)}</strong>`;
  if (["connect", "disconnect"].includes(row.action))
    return html`<${Subject} row=${row} /> <strong>${t.actions[row.action]}</strong>`;
  return html`<${Author} by=${row.by} /> <strong>${t.actions[row.action] || row.action}</strong> <${Subject} row=${row} />`;
};

/** Rows, newest first, each with its differences in a fold below it. */
export const Rows = ({ rows, open }) =>
  html`<ol class="rows">${rows.map((row) => {
    const details = row.access
      ? html`<${Tallies} value=${row.access} />`
      : html`<${Differences} row=${row} />`;
    return html`<li key=${row.sequence} class=${`of-${row.action}`}><${Time} at=${row.at} />
    <div><p>${line(row)}</p>${(row.access || row.before || row.after) && html`<details open=${open}><summary>${t.details}</summary>${details}</details>`}</div></li>`;
  })}</ol>`;
