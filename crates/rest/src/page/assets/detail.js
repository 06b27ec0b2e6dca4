// One record: what it consists of, what is related to it, what happened to it, and what can be done with it.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { ask, currentSession, get, list, literal } from "./api.js";
import { describe, kind as kindBy, meant, nameOf, referredByText, sentence } from "./kinds.js";
import { texts } from "./texts.js";
import {
  Dialog,
  Heading,
  Loading,
  Problem,
  Reference,
  Value,
  useCalm,
  useIsIn,
  useLoad,
  useOnce,
} from "./parts.js";
import { MissingPolicies, ServiceHosts } from "./hosting.js";
import { Member } from "./member.js";
import { Enrollment, RouterEnrollment, Steps, clientState, routerState } from "./enrollment.js";
import { Preview, answerTo, hasNone, isShown } from "./preview.js";
import { Rows } from "./changes.js";
import { ObjectFields, useFaults } from "./fields.js";
import { clean } from "./schemas.js";
import { forgetUnsaved, useUnsaved } from "./unsaved.js";
import { may, mayReadAll } from "./scope.js";
import { useNews } from "./news.js";
import { Time } from "./times.js";

const t = texts.detail;
const RELATED = 10;
const HIDDEN =
  /^(_links|id|name|createdAt|updatedAt|.*Display|enrollment|enrollmentJwt|enrollmentToken)$/;

/** Whether an action changes anything: what is disabled is enabled, and what is enabled is disabled. */
const applies = ({ verb, method }, record) =>
  verb === "enable"
    ? record.disabled !== false
    : verb === "disable"
      ? record.disabled !== true
      : method === "DELETE" && verb === "mfa"
        ? record.isMfaEnabled !== false
        : true;

/** `isLeaving` is set while the record is being deleted: news of it would ask for what is gone. */
function Delete({ kind, record, isLeaving, onClose }) {
  const [error, setError] = useState(null);
  const [isBusy, once] = useOnce();
  const path = `${kind.path}/${encodeURIComponent(record.id)}`;
  const [answer, , again] = useLoad(
    (signal) =>
      kind.previews.delete
        ? answerTo("", ask("DELETE", `${path}?preview=true`, { signal }))
        : Promise.resolve({ value: {} }),
    [],
  );
  const go = async () => {
    try {
      isLeaving.current = true;
      await ask("DELETE", path);
      location.hash = `#/${kind.name}`;
      onClose();
    } catch (reason) {
      isLeaving.current = false;
      setError(reason);
    }
  };
  return html`<${Dialog} title=${t.deleteTitle(nameOf(record))} onClose=${onClose}>
    ${kind.previews.delete && !hasNone(answer) && html`<${Preview} value=${answer?.value} error=${answer?.error} busy=${!answer} again=${again} />`}
    <p>${t.deleteNote}</p><${Problem} error=${error} />
    <div class="actions"><button type="button" class="button" onClick=${onClose}>${texts.cancel}</button>
      <button type="button" class="button danger" disabled=${isBusy || !isShown(answer)} onClick=${() => once(go)}>${texts.delete}</button></div>
  <//>`;
}

function Action({ kind, record, action, onClose, onDone }) {
  const [draft, setDraft] = useState({});
  const [error, setError] = useState(null);
  const [isBusy, once] = useOnce();
  const isText = action.media && action.media !== "application/json";
  const path = `${kind.path}/${encodeURIComponent(record.id)}/${action.verb}`;
  const form = action.body && clean(draft, action.body);
  const body = isText ? draft.text || "" : action.isList ? form.list || [] : form;
  const isWaiting = (action.body?.required || []).some(
    (member) => form[member] === undefined || form[member] === "",
  );
  const now = JSON.stringify({ body });
  const isIn = useIsIn();
  const [isInvalid, Within] = useFaults();
  const mayClose = useUnsaved(isInvalid || Object.keys(draft).length ? texts.form.unsaved : "");
  const close = () => mayClose() && onClose();
  const calm = useCalm(now, 350);
  const [last, , again] = useLoad(
    async (signal) =>
      action.preview && !isWaiting && isIn
        ? answerTo(
            calm,
            ask(action.method, `${path}?preview=true`, { body: JSON.parse(calm).body, signal }),
          )
        : null,
    [calm, isIn],
  );
  const answer = last?.of === now ? last : null; // the one for what is typed now
  const errors = error?.fields || answer?.error?.fields || new Map();
  const send = async () => {
    try {
      await ask(action.method, path, { body, media: action.media });
      forgetUnsaved();
      onDone();
      onClose();
    } catch (reason) {
      if (reason.status !== 401 || currentSession()) setError(reason); // else the person logs in again and finds the dialog as it was
    }
  };
  const submit = (event) => {
    event.preventDefault();
    once(send);
  };
  // What was typed stays while nobody is logged in; a dialog would cover the log-in page.
  if (!isIn) return null;
  return html`<${Dialog} title=${`${action.label}: ${nameOf(record)}`} onClose=${close}>
    <form onSubmit=${submit}><p>${action.summary}</p><${Problem} error=${error} />
      ${
        isText
          ? html`<label>${texts.form.value}<textarea rows="8" placeholder=${texts.form.suchAs(texts.examples.certPem)} onInput=${(event) => setDraft({ text: event.target.value })}></textarea></label>`
          : action.body?.properties &&
            html`<${Within}><${ObjectFields} schema=${action.body} value=${draft} onChange=${(
              next,
            ) => {
              setDraft(next);
              setError(null);
            }} errors=${errors} /><//>`
      }
      ${action.preview && !hasNone(answer) && html`<${Preview} value=${answer?.value} error=${answer?.error} busy=${!answer} waiting=${isWaiting || isInvalid} again=${again} />`}
      ${isInvalid && html`<p class="error" role="alert">${texts.form.correctJson}</p>`}
      <div class="actions"><button type="button" class="button" onClick=${close}>${texts.cancel}</button><button class=${`button ${action.method === "DELETE" ? "danger" : "main"}`} disabled=${isBusy || isInvalid || (action.preview && (isWaiting || !isShown(answer)))}>${action.label}</button></div>
    </form>
  <//>`;
}

function Related({ kind, id, name, members }) {
  const [limit, setLimit] = useState(RELATED);
  const [page, error] = useLoad(
    (signal) => list(`${kind.path}/${encodeURIComponent(id)}/${name}`, { limit }, { signal }),
    [id, name, limit, members],
  );
  const target = kindBy(name);
  if (!page && !error) return null;
  return html`<section class="related"><h3>${target?.label || sentence(name)} ${page && html`<span class="faint">${page.total.toLocaleString()}</span>`}</h3>
    <${Problem} error=${error} />
    ${page && !page.rows.length && html`<p class="faint">${texts.none}</p>`}
    ${
      page?.rows.length > 0 &&
      html`<ul>${page.rows.map(
        (row) =>
          html`<li>${
            target
              ? html`<${Reference} kind=${target.name} id=${row.id} name=${nameOf(row)} />`
              : Object.entries(row)
                  .filter(([key]) => key !== "_links")
                  .map(([key, value]) => {
                    const to = typeof value === "string" && referredByText(key);
                    return html`<span>${to ? html`<${Reference} kind=${to.name} id=${value} />` : html`<${Value} member=${key} value=${value} short />`} </span>`;
                  })
          }</li>`,
      )}</ul>`
    }
    ${page?.total > page?.rows.length && html`<button type="button" class="button" onClick=${() => setLimit(Math.min(500, limit * 5))}>${t.showMore(page.total - page.rows.length)}</button>`}
  </section>`;
}

function Members({ kind, record }) {
  const shown = Object.keys(record).filter(
    (member) =>
      !HIDDEN.test(member) &&
      meant(member, record[member]) !== undefined &&
      !(member.endsWith("Id") && record[member.slice(0, -2)]?.id === record[member]),
  );
  const says = (value) =>
    value !== null &&
    value !== undefined &&
    value !== "" &&
    value !== false &&
    !(typeof value === "object" && !Object.keys(value).length);
  const row = (member) =>
    html`<div><dt title=${describe(kind, member, kind.shown?.properties?.[member])}>${sentence(member)}</dt><dd><${Member} kind=${kind} member=${member} record=${record} /></dd></div>`;
  const [told, silent] = [
    shown.filter((member) => says(record[member])),
    shown.filter((member) => !says(record[member])),
  ];
  return html`<section class="card"><h2>${t.members}</h2>
    <dl class="members">${told.map(row)}</dl>
    ${silent.length > 0 && html`<details><summary>${texts.more}</summary><dl class="members">${silent.map(row)}</dl></details>`}</section>`;
}

function Changes({ id, members }) {
  const [page] = useLoad(
    async (signal) =>
      mayReadAll()
        ? list("/overkeep/v1/history", { filter: `id = ${literal(id)}`, limit: 10 }, { signal })
        : null,
    [id, members],
  );
  if (!page?.rows.length) return null;
  return html`<section class="card"><h2>${t.history}</h2><${Rows} rows=${page.rows} /></section>`;
}

export function Detail({ kind, id }) {
  const path = `${kind.path}/${encodeURIComponent(id)}`;
  const [answer, error, again] = useLoad((signal) => get(path, { signal }), [path]);
  const [open, setOpen] = useState(null);
  const isLeaving = useRef(false);
  const isIn = useIsIn();
  useNews(
    (row) =>
      row.id === id ||
      row.after?.identityId === id ||
      row.before?.identityId === id ||
      row.action === "access",
    () => isLeaving.current || again(),
    [id],
  );
  useEffect(() => {
    setOpen(null);
    isLeaving.current = false;
  }, [id]);
  if (error?.status === 404)
    return html`<${Heading} title=${kind.label} /><p class="empty">${t.gone}</p>`;
  if (!answer)
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  const record = answer.data;
  const action =
    open &&
    open !== "delete" &&
    html`<${Action} key="action" kind=${kind} record=${record} action=${open} onClose=${() => setOpen(null)} onDone=${again} />`;
  // What was typed keeps the page while nobody is logged in. The record is then not in the document, because it may contain a token.
  if (!isIn) return action || null;
  const isEdited = kind.replace && may("PUT", path);
  const related = kind.related.filter((name) => may("GET", `${path}/${name}`));
  const isAsked = !mayReadAll()
    ? null
    : kind.name === "identities"
      ? "identity"
      : kind.name === "services"
        ? "service"
        : null;
  return html`
    <p class="crumbs"><a href=${`#/${kind.name}`}>${kind.label}</a></p>
    <${Heading} title=${nameOf(record)}>
      ${isAsked === "service" && html`<a class="button" href=${`#/share/${encodeURIComponent(id)}`}>${texts.machines.show}</a>`}
      ${isAsked && html`<a class="button" href=${`#/access/ask?${isAsked}=${encodeURIComponent(id)}`}>${texts.access.ofRecord[isAsked]}</a>`}
      ${kind.actions.filter((action) => applies(action, record) && may(action.method, `${path}/${action.verb}`)).map((action) => html`<button type="button" class="button" onClick=${() => setOpen(action)}>${action.label}</button>`)}
      ${isEdited && html`<a class="button" href=${`#/${kind.name}/${encodeURIComponent(id)}/edit`}>${texts.edit}</a>`}
      ${kind.canDelete && may("DELETE", path) && html`<button type="button" class="button danger" onClick=${() => setOpen("delete")}>${texts.delete}</button>`}
    <//>
    <p class="faint meta"><code>${record.id}</code> · ${t.made} <${Time} at=${record.createdAt} /> · ${t.changed} <${Time} at=${record.updatedAt} /></p>
    <${Problem} error=${error} />
    ${"enrollment" in record && kind.name === "identities" && html`<${Steps} state=${clientState(record)} id=${id} onChange=${again} /><${Enrollment} identity=${record} onChange=${again} />`}
    ${"isVerified" in record && "isOnline" in record && html`<${Steps} state=${routerState(record)} id=${id} /><${RouterEnrollment} kind=${kind} router=${record} />`}
    ${kind.name === "services" && may("GET", "/overkeep/v1/hosting") && html`<${ServiceHosts} key=${id} id=${id} />`}
    ${kind.name === "services" && html`<${MissingPolicies} id=${id} members=${answer} />`}
    <${Members} kind=${kind} record=${record} />
    ${related.length > 0 && html`<section class="card"><h2>${t.related}</h2><div class="columns">${related.map((name) => html`<${Related} key=${name} kind=${kind} id=${id} name=${name} members=${answer} />`)}</div></section>`}
    <${Changes} id=${id} members=${answer} />
    ${open === "delete" && html`<${Delete} kind=${kind} record=${record} isLeaving=${isLeaving} onClose=${() => setOpen(null)} />`}
    ${action}`;
}
