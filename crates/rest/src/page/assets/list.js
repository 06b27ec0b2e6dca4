// The list of a kind: searched by name or with the filter language, sorted, page by page.

import { html } from "./html.js";
import { list, literal } from "./api.js";
import { inText, referred, resolve, sentence, typeOf } from "./kinds.js";
import { texts } from "./texts.js";
import { FilterField, useFilterText } from "./filter.js";
import { Empty, Heading, Icon, Loading, Problem, useLoad } from "./parts.js";
import { Hosts, among, useHosting } from "./hosting.js";
import { Member } from "./member.js";
import { may, mayCreate, mayShare } from "./scope.js";
import { pathOf, useNews } from "./news.js";

const PAGE = 25;
const MAX_COLUMNS = 5;
const MAX_REFERRED = 50;
const SEARCHED = /(^|\.)name$|Username$|address$|^(id|method|binding|protocol)$/i; // members that a search by words looks through, of records without a name
const EXPRESSION = /[=<>"]|\b(contains|icontains|anyOf|allOf|count|isEmpty|not|in \[)/;
const t = texts.list;

const isNamed = (kind) => Boolean(kind.shown?.properties?.name);
const fieldsOf = async (kind, signal) =>
  (kind.fields ??= (await list(kind.path, { limit: 1 }, { signal })).fields);

/**
 * The filter for a search text, and what it leaves out. An expression is the filter as it is. Any other text is a part of the name, or, of a record
 * without a name, a part of another text or of the name of a record that it refers to. Of those names the first ones are searched; `cut` is `[kind, total]` of each kind with more.
 */
async function filterOf(kind, text, signal) {
  if (!text || EXPRESSION.test(text)) return { filter: text, cut: [] };
  const part = (member) => `${member} icontains ${literal(text)}`;
  if (isNamed(kind)) return { filter: part("name"), cut: [] };
  const fields = await fieldsOf(kind, signal);
  const references = fields
    .map((field) => [field, !fields.includes(`${field}.name`) && referred(field)])
    .filter(([, of]) => of && isNamed(of));
  const found = await Promise.all(
    references.map(([, of]) =>
      list(of.path, { filter: part("name"), limit: MAX_REFERRED }, { signal }),
    ),
  );
  const among = references.map(
    ([field], index) =>
      found[index].rows.length &&
      `${field} in [${found[index].rows.map(({ id }) => literal(id)).join(", ")}]`,
  );
  const cut = references
    .map(([, of], index) => [of, found[index].total])
    .filter(([, total]) => total > MAX_REFERRED);
  return {
    filter: [
      ...fields.filter((field) => SEARCHED.test(field)).map(part),
      ...among.filter(Boolean),
    ].join(" or "),
    cut: [...new Map(cut)],
  };
}

/** Members that a table shows, from the schema of the kind. */
export function columnsOf(kind) {
  const known = texts.columns[kind.name];
  const members = kind.shown?.properties || {};
  if (known) return known.filter((member) => members[member]);
  const plain = Object.entries(members)
    .filter(([member, schema]) => {
      if (
        /^(_links|id|createdAt|updatedAt|tags|.*Display|.*Pem|.*fingerprint.*|permissions)$/i.test(
          member,
        )
      )
        return false;
      if (members[`${member}Id`]) return true;
      if (member.endsWith("Id") && members[member.slice(0, -2)]) return false;
      const type = typeOf(resolve(schema));
      return (
        ["string", "boolean", "integer", "number"].includes(type) ||
        (type === "array" && typeOf(resolve(resolve(schema).items)) === "string")
      );
    })
    .map(([member]) => member);
  const first = plain.includes("name")
    ? ["name", ...plain.filter((member) => member !== "name")]
    : plain;
  return [...first.slice(0, MAX_COLUMNS - 1), "updatedAt"].filter((member) => members[member]);
}

/** Goes to the same list with other values. */
function move(kind, values) {
  const search = new URLSearchParams(
    Object.entries(values).filter(([, value]) => value),
  ).toString();
  location.replace(`#/${kind.name}${search ? `?${search}` : ""}`);
}

function Search({ kind, values, fields }) {
  const example = t.examples.find(([member]) => fields.includes(member))?.[1];
  const [text, setText] = useFilterText(values.filter, (filter) =>
    move(kind, { ...values, filter, offset: "" }),
  );
  return html`<${FilterField} label=${t.search(inText(kind.label))} placeholder=${example && t.filter[isNamed(kind) ? "named" : "unnamed"](example)} fields=${fields} value=${text} onInput=${setText} />`;
}

function Header({ kind, member, values, fields }) {
  const [by, direction] = (values.sort || "").split(" ");
  const label = sentence(member);
  if (!fields.includes(member)) return html`<th scope="col">${label}</th>`;
  const next = by === member && direction !== "desc" ? `${member} desc` : member;
  const state = by === member ? (direction === "desc" ? "descending" : "ascending") : "none";
  return html`<th scope="col" aria-sort=${state}><button type="button" title=${t.sortBy(label)} onClick=${() => move(kind, { ...values, sort: next, offset: "" })}>${label}<i class=${state} aria-hidden="true"></i></button></th>`;
}

/** The rows of a kind. `more` is a further column: `[label, content of a row]`. */
export function Table({ kind, rows, columns, header, more }) {
  return html`<div class="table"><table>
    <thead><tr>${columns.map((member) => (header ? header(member) : html`<th scope="col">${sentence(member)}</th>`))}${more && html`<th scope="col">${more[0]}</th>`}</tr></thead>
    <tbody>${rows.map(
      (row) =>
        html`<tr key=${row.id}>${columns.map(
          (member, index) => html`<td data-label=${sentence(member)}>
      ${index === 0 ? html`<a class="row" href=${`#/${kind.name}/${encodeURIComponent(row.id)}`}><${Member} kind=${kind} member=${member} record=${row} short plain /></a>` : html`<${Member} kind=${kind} member=${member} record=${row} short />`}</td>`,
        )}${more && html`<td data-label=${more[0]}>${more[1](row)}</td>`}</tr>`,
    )}</tbody>
  </table></div>`;
}

function Pages({ kind, values, offset, shown, total }) {
  if (total <= PAGE) return null;
  const to = (at) => () => move(kind, { ...values, offset: at ? String(at) : "" });
  return html`<nav class="pages" aria-label=${kind.label}>
    <button type="button" class="button" disabled=${!offset} onClick=${to(Math.max(0, offset - PAGE))}>${t.previous}</button>
    <span>${t.range(offset + 1, offset + shown, total)}</span>
    <button type="button" class="button" disabled=${offset + shown >= total} onClick=${to(offset + PAGE)}>${t.next}</button>
  </nav>`;
}

export function List({ kind, values }) {
  const offset = Number(values.offset) || 0;
  const [page, error, again] = useLoad(
    async (signal) => {
      const { filter, cut } = await filterOf(kind, values.filter, signal);
      return {
        ...(await list(
          kind.path,
          {
            filter,
            sort: values.sort || (isNamed(kind) ? "name" : ""),
            limit: PAGE,
            offset: offset || undefined,
          },
          { signal },
        )),
        cut,
      };
    },
    [kind.name, values.filter, values.sort, offset],
  );
  useNews((row) => pathOf(row.kind) === kind.name, again, [kind.name]);
  const columns = columnsOf(kind);
  const isHosting = kind.name === "services" && may("GET", "/overkeep/v1/hosting");
  const hosting = useHosting(isHosting ? among((page?.rows || []).map(({ id }) => id)) : null);
  const more = isHosting
    ? [texts.hosting.column, ({ id }) => html`<${Hosts} entry=${hosting.get(id)} />`]
    : null;
  const create =
    mayCreate(kind) &&
    html`<a class="button main" data-create href=${`#/${kind.name}/_new`}><${Icon} name="plus" />${t.create(kind.one)}</a>`;
  // The short ways: a device that is in, a service with all that it needs.
  const task =
    kind.name === "identities" && create
      ? html`<a class="button" href="#/invite">${texts.invite.title}</a>`
      : kind.name === "services" && mayShare()
        ? html`<a class="button" href="#/share">${texts.share.title}</a>`
        : null;
  return html`
    <${Heading} title=${kind.label} note=${kind.note}>${task}${create}<//>
    <${Search} kind=${kind} values=${values} fields=${page?.fields || []} />
    <${Problem} error=${error} again=${again} />
    ${!page && !error && html`<${Loading} />`}
    ${page?.cut.map(([of, total]) => html`<p class="warning" role="status"><i aria-hidden="true"></i><span>${t.firstOnly(MAX_REFERRED, total, inText(of.label))}</span></p>`)}
    ${
      page &&
      !page.rows.length &&
      (values.filter
        ? html`<${Empty} title=${t.emptyFiltered}><button type="button" class="button" onClick=${() => move(kind, {})}>${t.clear}</button><//>`
        : html`<${Empty} title=${t.empty(inText(kind.label))}><p>${kind.note}</p>${create || html`<p>${kind.create ? t.scope : t.readOnly}</p>`}<//>`)
    }
    ${
      page?.rows.length > 0 &&
      html`
      <p class="faint count" role="status">${t.count(page.total, kind.one, inText(kind.label))}</p>
      <${Table} kind=${kind} rows=${page.rows} columns=${columns} more=${more} header=${(member) => html`<${Header} kind=${kind} member=${member} values=${values} fields=${page.fields} />`} />
      <${Pages} kind=${kind} values=${values} offset=${offset} shown=${page.rows.length} total=${page.total} />`
    }`;
}
