// The history: who did what, with the differences and the changes of access.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { list, literal, query } from "./api.js";
import { texts } from "./texts.js";
import { FilterField, useFilterText } from "./filter.js";
import { Heading, Loading, Problem, useLoad } from "./parts.js";
import { Rows } from "./changes.js";
import { useNews } from "./news.js";

const PAGE = 50;
const t = texts.history;
const KINDS = {
  all: "",
  changes: 'action in ["create", "update", "delete"]',
  access: 'action = "access"',
  logins: 'action in ["login", "logout"]',
  refusals: 'action in ["refusal", "lockout"]',
};
const EXPRESSION = /[=<>"]|\b(contains|icontains|anyOf|not|in \[)/;

function filterOf({ filter, kind }, before) {
  const text = !filter
    ? ""
    : EXPRESSION.test(filter)
      ? `(${filter})`
      : `(name icontains ${literal(filter)} or id = ${literal(filter)} or by.identity = ${literal(filter)})`;
  return [Object.hasOwn(KINDS, kind) ? KINDS[kind] : "", text, before ? `sequence < ${before}` : ""]
    .filter(Boolean)
    .join(" and ");
}

/** The newest rows, and those of `older` that come after them. */
const merged = (newest, older) => [
  ...newest,
  ...older.filter((row) => row.sequence < (newest.at(-1)?.sequence ?? Infinity)),
];

export function History({ values }) {
  const [older, setOlder] = useState([]); // the rows so far, once older ones were asked for
  const [failed, setFailed] = useState(null);
  const now = Object.hasOwn(KINDS, values.kind) ? values.kind : "all";
  const move = (next) => location.replace(`#/history?${query({ ...values, ...next })}`);
  const [text, setText] = useFilterText(values.filter, (filter) => move({ filter }));
  const [page, error, again] = useLoad(
    (signal) => list("/overkeep/v1/history", { limit: PAGE, filter: filterOf(values) }, { signal }),
    [values.filter, now],
  );
  const filter = filterOf(values);
  const current = useRef();
  current.current = filter;
  useEffect(() => setOlder([]), [filter]);
  useEffect(
    () => page && setOlder((rows) => (rows.length ? merged(page.rows, rows) : rows)),
    [page],
  );
  useNews(() => true, again, [values.filter, now]);
  const rows = page ? merged(page.rows, older) : [];
  const more = async () => {
    try {
      const next = await list("/overkeep/v1/history", {
        limit: PAGE,
        filter: filterOf(values, rows.at(-1).sequence),
      });
      setFailed(null);
      if (current.current === filter) setOlder(merged(rows, next.rows));
    } catch (reason) {
      setFailed(reason);
    }
  };
  return html`<${Heading} title=${t.title} note=${t.note} />
    <nav class="tabs" aria-label=${t.title}>${Object.keys(KINDS).map((kind) => html`<a href=${`#/history?${query({ ...values, kind })}`} aria-current=${kind === now ? "page" : undefined}>${t[kind]}</a>`)}</nav>
    <${FilterField} label=${t.filter} placeholder=${`${t.filter} ${t.example}`} fields=${page?.fields || []} value=${text} onInput=${setText} />
    <${Problem} error=${error || failed} again=${again} />${!page && !error && html`<${Loading} />`}
    ${page && !rows.length && html`<p class="faint">${t.empty}</p>`}
    ${rows.length > 0 && html`<section class="card"><${Rows} rows=${rows} /></section>`}
    ${page && rows.length < page.total && html`<button type="button" class="button" onClick=${more}>${t.older}</button>`}`;
}
