// Invites somebody: an identity with its roles, and the line that enrolls it at the other end.

import { useRef, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { ask, currentSession, get, list, literal } from "./api.js";
import { kind } from "./kinds.js";
import { texts } from "./texts.js";
import { Enrollment, Step, Steps, clientState } from "./enrollment.js";
import {
  Dialog,
  Empty,
  Heading,
  Loading,
  Problem,
  Reference,
  useCalm,
  useFirstFocus,
  useIsIn,
  useLoad,
} from "./parts.js";
import { Picker, attributesOf } from "./picker.js";
import { Preview, answerTo } from "./preview.js";
import { may, mayShare } from "./scope.js";
import { TaskField, TaskText, focusWrong } from "./task.js";
import { forgetUnsaved, useUnsaved } from "./unsaved.js";
import { useNews } from "./news.js";

const t = texts.invite;
const NOTHING = new Map();

/** The identity with a name, if there is one. */
const known = (name, signal) =>
  list("/identities", { filter: `name = ${literal(name)}`, limit: 1 }, { signal }).then(
    ({ rows }) => rows[0],
  );

const bodyOf = ({ name, roles }) => ({
  name: name.trim(),
  type: "Default",
  isAdmin: false,
  roleAttributes: roles,
  enrollment: { ott: true },
});

/** What inviting would do: nothing to one that `exists`, or what `value` says. */
async function lookAt(asked, of, signal) {
  const exists = await known(asked.name.trim(), signal);
  if (!exists)
    return answerTo(
      of,
      ask("POST", "/identities?preview=true&strict=true", { body: bodyOf(asked), signal }),
    );
  const reason = clientState(exists).isEnrolled ? t.enrolled : null;
  return { of, exists, error: reason && { message: reason, fields: new Map([["name", reason]]) } };
}

/** One that exists stays as it is; roles that it lacks are named. */
function Existing({ identity, roles }) {
  const lacks = roles.filter((role) => !identity.roleAttributes.includes(role));
  return html`<h2>${texts.preview.title}</h2><p>${t.exists} <${Reference} kind="identities" id=${identity.id} name=${identity.name} /></p>
    ${lacks.length > 0 && html`<p class="warning"><i aria-hidden="true"></i><span>${t.lacks(lacks.map((role) => `#${role}`).join(", "))}</span></p>`}`;
}

/** `onMade` takes the id of the identity. */
function Form({ first = "", onMade, onCancel, guard }) {
  const [draft, setDraft] = useState({ name: first, roles: [] });
  const [isTried, setTried] = useState(false);
  const [saving, setSaving] = useState(false);
  const [error, setError] = useState(null);
  const place = useRef();
  const isIn = useIsIn();
  useFirstFocus(place);
  const mayClose = useUnsaved(draft.name !== first || draft.roles.length ? texts.form.unsaved : "");
  if (guard) guard.current = mayClose;
  const now = JSON.stringify(draft);
  const calm = useCalm(now, 350);
  const [last, , again] = useLoad(
    async (signal) => {
      const asked = JSON.parse(calm);
      if (!isIn || !asked.name.trim()) return null;
      return lookAt(asked, calm, signal).catch((reason) => ({ of: calm, error: reason }));
    },
    [calm, isIn],
  );
  const answer = last?.of === now ? last : null;
  const isBlank = !draft.name.trim();
  const change = (member) => (value) => {
    setDraft((old) => ({ ...old, [member]: value }));
    setError(null);
  };
  const placed = (fields) =>
    new Map([...fields].map(([path, reason]) => [/^role/.test(path) ? "roles" : "name", reason]));
  const fields = (error || answer?.error)?.fields;
  const errors =
    isTried && isBlank
      ? new Map([["name", texts.share.blank]])
      : fields?.size
        ? placed(fields)
        : NOTHING;
  const submit = async (event) => {
    event.preventDefault();
    event.stopPropagation();
    setTried(true);
    if (isBlank || answer?.error) return focusWrong(place);
    if (saving) return;
    setSaving(true);
    try {
      const { exists, error: wrong } = answer || (await lookAt(draft, now));
      if (wrong) throw wrong;
      const { id } =
        exists || (await ask("POST", "/identities?strict=true", { body: bodyOf(draft) })).data;
      onMade(id);
    } catch (reason) {
      setSaving(false);
      if (reason.status === 401 && !currentSession()) return; // the person logs in again and finds the form as it was
      setError(reason);
      again();
      focusWrong(place);
    }
  };
  const of = kind("identities");
  return html`<form class=${`editor ${onCancel ? "inside" : ""}`} ref=${place} onSubmit=${submit} noValidate>
    <div class="card fields">
      <${TaskText} name="name" text=${t.fields.name} required errors=${errors} value=${draft.name} onChange=${change("name")} />
      <${TaskField} name="roles" text=${t.fields.roles} errors=${errors}>${({
        id,
        "aria-describedby": describedBy,
      }) => html`<${Picker} id=${id} label=${t.fields.roles.label} describedBy=${describedBy} values=${draft.roles} onChange=${change("roles")} example=${texts.form.suchAs(t.fields.roles.example)}
        suggest=${(text, signal) => attributesOf(of, text, signal)} free=${(text) => text.replace(/^#/, "")} />`}<//>
      ${!onCancel && html`<p class="hint">${t.raw} <a href="#/identities/_new">${texts.list.create(of.one)}</a></p>`}</div>
    <aside class="card"><div aria-live="polite">${
      answer?.exists
        ? html`<${Existing} identity=${answer.exists} roles=${draft.roles} />`
        : html`<${Preview} value=${answer?.value} error=${answer?.error} busy=${!answer} waiting=${isBlank} again=${again} />`
    }</div><${Problem} error=${error} />
      <div class="actions">${onCancel ? html`<button type="button" class="button" onClick=${onCancel}>${texts.cancel}</button>` : html`<a class="button" href="#/identities">${texts.cancel}</a>`}
        <button class="button main" disabled=${saving}>${t.invite}</button></div></aside></form>`;
}

/** The same in a dialog over a form that needs an identity. */
export function InviteDialog({ name, onClose, onMade }) {
  const guard = useRef(() => true);
  const close = () => guard.current() && onClose();
  return html`<${Dialog} title=${t.title} wide onClose=${close}><${Form} first=${name} onMade=${onMade} onCancel=${close} guard=${guard} /><//>`;
}

/** An identity that was invited: the line for the other end, and what happens with it. */
function Invited({ id }) {
  const [identity, error, again] = useLoad(
    (signal) => get(`/identities/${encodeURIComponent(id)}`, { signal }).then(({ data }) => data),
    [id],
  );
  useNews(
    (row) =>
      row.id === id ||
      [row.after?.identityId, row.before?.identityId, row.by?.identity].includes(id),
    again,
    [id],
  );
  if (!identity)
    return html`<${Heading} title=${t.title} />${error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`}`;
  return html`<${Heading} title=${t.invited(identity.name)} note=${t.once} />
    <section class="card"><${Steps} state=${clientState(identity)} id=${id} onChange=${again}>
      <${Step} look="quiet" label=${html`${t.created} <${Reference} kind="identities" id=${id} name=${identity.name} />`} /><//></section>
    <${Enrollment} identity=${identity} onChange=${again} />
    <p class="actions">${mayShare() && html`<a class="button" href="#/share">${texts.share.title}</a>`}<a class="button" href=${`#/access/ask?identity=${encodeURIComponent(id)}`}>${texts.access.ofRecord.identity}</a></p>`;
}

export function Invite({ id }) {
  if (id) return html`<${Invited} key=${id} id=${id} />`;
  if (!may("POST", "/identities"))
    return html`<${Heading} title=${t.title} /><${Empty} title=${texts.form.notHere}><p>${texts.list.scope}</p><//>`;
  const show = (made) => {
    forgetUnsaved();
    location.hash = `#/invite/${encodeURIComponent(made)}`;
  };
  return html`<${Heading} title=${t.title} note=${t.note} /><${Form} onMade=${show} />`;
}
