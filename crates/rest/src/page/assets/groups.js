// Groups of identities or services as policies name them: a role, a single record, or all.

import { useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { list, literal, query } from "./api.js";
import { kind as kindBy } from "./kinds.js";
import { texts } from "./texts.js";
import { Dialog, Loading, Problem, Reference, useCalm, useLoad } from "./parts.js";

const t = texts.access;
const PAGE = 50;
const MAX_OTHERS = 8;

/** Whether a group has one record only, by its id. */
export const isSingle = (role) => role.startsWith("@");

const byId = (id) => `id = ${literal(id)}`;

/** The records of a group, as a filter. */
export const members = (role) =>
  role === "#all"
    ? ""
    : isSingle(role)
      ? byId(role.slice(1))
      : `anyOf(roleAttributes) = ${literal(role.slice(1))}`;

/** The first record of each side that a policy selects by these groups, or the record that was chosen from its group; without a policy, the first of each group. Names those that have none as `undefined`. */
export function firstPair(policy, who, what) {
  const first = (side, { id, role }) =>
    id && !policy
      ? id
      : list(policy ? `/service-policies/${policy.id}/${side}` : `/${side}`, {
          filter: id ? byId(id) : members(role),
          sort: "name",
          limit: 1,
        }).then(({ rows }) => rows[0]?.id);
  return Promise.all([first("identities", who), first("services", what)]);
}

/** The address of the explanation of a pair. Groups are named, so that the explanation offers their other members. */
export const pairAddress = (identity, service, type, who, what) =>
  `#/access/ask?${query({ identity, service, type, who: isSingle(who) ? "" : who, what: isSingle(what) ? "" : what })}`;

/** The members of a group, searched and page by page. */
export function Group({ node, onSelect, onClose }) {
  const [offset, setOffset] = useState(0);
  const [text, setText] = useState("");
  const calm = useCalm(text.trim(), 200);
  const kind = kindBy(node.kind);
  const filter = [members(node.role), calm && `name icontains ${literal(calm)}`]
    .filter(Boolean)
    .join(" and ");
  const [page, error] = useLoad(
    (signal) => list(kind.path, { filter, sort: "name", limit: PAGE, offset }, { signal }),
    [filter, offset],
  );
  const search = (event) => {
    setText(event.target.value);
    setOffset(0);
  };
  const side = node.kind === "identities" ? "identity" : "service";
  return html`<${Dialog} title=${node.label} onClose=${onClose}>
    <input type="search" aria-label=${t.searchMembers} placeholder=${t.searchMembers} value=${text} onInput=${search} />
    <${Problem} error=${error} />${!page && !error && html`<${Loading} />`}
    ${
      page &&
      html`<p class="faint" role="status">${t.members(page.total)}</p><ul class="plain">${page.rows.map(
        (row) => html`<li><${Reference} kind=${kind.name} id=${row.id} name=${row.name} />
      <span class="of-member"><a href=${`#/access/ask?${side}=${encodeURIComponent(row.id)}`}>${t.ofRecord[side]}</a><button type="button" class="button small" aria-label=${t.selectOf(row.name)} onClick=${() => onSelect(row)}>${t.select}</button></span></li>`,
      )}</ul>
    ${
      page.total > PAGE &&
      html`<div class="pages"><button type="button" class="button" disabled=${!offset} onClick=${() => setOffset(offset - PAGE)}>${texts.list.previous}</button><span>${texts.list.range(offset + 1, offset + page.rows.length, page.total)}</span>
      <button type="button" class="button" disabled=${offset + PAGE >= page.total} onClick=${() => setOffset(offset + PAGE)}>${texts.list.next}</button></div>`
    }`
    }
  <//>`;
}

/** Says which group a record stands for, with links to the same question about other members. Nothing is said of a record that is no member, or no longer. */
export function Others({ of, role, record, address }) {
  const kind = kindBy(of);
  const [page] = useLoad(
    async (signal) => {
      const first = await list(
        kind.path,
        { filter: members(role), sort: "name", limit: MAX_OTHERS + 1 },
        { signal },
      );
      if (first.rows.some(({ id }) => id === record.id)) return first;
      const own = await list(
        kind.path,
        { filter: [members(role), byId(record.id)].filter(Boolean).join(" and "), limit: 1 },
        { signal },
      );
      return own.total ? first : null;
    },
    [role, record],
  );
  if (!page || page.total < 2) return null;
  const others = page.rows.filter(({ id }) => id !== record.id).slice(0, MAX_OTHERS);
  const rest = page.total - 1 - others.length;
  return html`<p class="hint others">${t.oneOf(record.name, role, page.total)} ${others.map((row, index) => html`${index ? ", " : ""}<a href=${address(row.id)}>${row.name}</a>`)}${rest > 0 && html` <a href=${`#/${of}?${query({ filter: members(role) })}`}>${texts.preview.others(rest)}</a>`}</p>`;
}
