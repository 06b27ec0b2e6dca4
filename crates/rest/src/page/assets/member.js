// A member of a record for display: references and roles by name.

import { html } from "./html.js";
import { meant, nameOf, referredByText, selected } from "./kinds.js";
import { Chip, Reference, Value } from "./parts.js";

const MAX_CHIPS = 4;

function Role({ role, kind, name, plain }) {
  if (!role.startsWith("@"))
    return html`<${Chip} tone=${role.startsWith("#") ? "role" : ""}>${role}<//>`;
  const label = name?.replace(/^@/, "");
  return html`<${Chip} tone="one">${plain || !kind ? label || role : html`<${Reference} kind=${kind.name} id=${role.slice(1)} name=${label} />`}<//>`;
}

const cut = (items, short, draw) =>
  html`<span class="chips">${(short ? items.slice(0, MAX_CHIPS) : items).map(draw)}${short && items.length > MAX_CHIPS && html`<span class="faint">+${items.length - MAX_CHIPS}</span>`}</span>`;

export function Member({ kind, member, record, short, plain }) {
  const value = meant(member, record[member]);
  if (member === "name" && !value) return nameOf(record) || record.id;
  if (Array.isArray(value) && member.endsWith("Roles") && value.length) {
    const names = new Map((record[`${member}Display`] || []).map(({ role, name }) => [role, name]));
    return cut(
      value,
      short,
      (role) =>
        html`<${Role} role=${role} kind=${selected(member)} name=${names.get(role)} plain=${plain} />`,
    );
  }
  if (member === "roleAttributes" && value?.length)
    return cut(value, short, (role) => html`<${Chip} tone="role">${`#${role}`}<//>`);
  const entity = record[member.replace(/Id$/, "")];
  if (entity?.id && entity.id === value)
    return plain
      ? entity.name || entity.id
      : html`<${Reference} kind=${entity.entity} id=${entity.id} name=${entity.name} />`;
  if (plain && value?.id) return value.name || value.id;
  const target = typeof value === "string" || Array.isArray(value) ? referredByText(member) : null;
  if (target && value?.length && target.name !== kind?.name) {
    if (typeof value === "string")
      return plain ? value : html`<${Reference} kind=${target.name} id=${value} />`;
    if (value.every((item) => typeof item === "string"))
      return cut(
        value,
        short,
        (id) => html`<${Chip} tone="one"><${Reference} kind=${target.name} id=${id} /><//>`,
      );
  }
  return html`<${Value} member=${member} value=${value} short=${short} />`;
}
