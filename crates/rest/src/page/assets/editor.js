// Creates and changes a record in a form made from its schema, with a preview of the effects beside the save button.

import { useMemo, useRef, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { ask, currentSession, get } from "./api.js";
import { nameOf, resolve, typeOf } from "./kinds.js";
import { texts } from "./texts.js";
import {
  Dialog,
  Empty,
  Heading,
  Loading,
  Problem,
  useCalm,
  useFirstFocus,
  useIsIn,
  useLoad,
} from "./parts.js";
import { ObjectFields, useFaults } from "./fields.js";
import { clean, initial } from "./schemas.js";
import { Creator } from "./picker.js";
import { Preview } from "./preview.js";
import { may, mayCreate } from "./scope.js";
import { Secret } from "./secret.js";
import { forgetUnsaved, useUnsaved } from "./unsaved.js";

const t = texts.form;
const NOTHING = new Map();
// Members that only the answer to a creation contains.
const SECRET = /^(token|secret|password)$/;

/** The members of a record that a form may change. */
function draftOf(kind, record) {
  const members = { ...kind.replace.properties };
  for (const option of kind.replace.oneOf || []) Object.assign(members, resolve(option).properties);
  const draft = {};
  for (const [member, schema] of Object.entries(members)) {
    const value = record[member];
    if (value === undefined || value === null) continue;
    draft[member] = value.id && typeOf(resolve(schema)) === "string" ? value.id : value;
  }
  return draft;
}

/** Errors by member. The controller names an error inside free data relative to it: `protocols.0` in `data` becomes `data.protocols.0`. */
function placed(fields, schema) {
  const members = {
    ...schema.properties,
    ...Object.assign({}, ...(schema.oneOf || []).map((option) => resolve(option).properties)),
  };
  const data = Object.keys(members).find(
    (member) => resolve(members[member])?.additionalProperties === true,
  );
  return new Map(
    [...fields].map(([field, reason]) => [
      members[field.split(".")[0]] || !data ? field : `${data}.${field}`,
      reason,
    ]),
  );
}

/** Whether a required member is blank: then no preview is requested. */
const isMissing = (draft, schema) =>
  (schema.required || []).some(
    (member) => isBlank(draft[member]) && !(typeof draft[member] === "object" && draft[member]),
  ) ||
  Boolean(schema.oneOf?.length && resolve(schema.oneOf[0]).properties?.typeId && !draft.typeId);

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const isBlank = (value) =>
  value === undefined ||
  value === null ||
  value === "" ||
  (typeof value === "object" && !Array.isArray(value) && !Object.keys(value).length);

/** The request that changes `before` to `draft`: only the changed members, or all of them if one is removed. */
function change(before, draft, kind) {
  const changed = Object.keys({ ...before, ...draft }).filter(
    (member) => !same(before[member], draft[member]),
  );
  if (!changed.length) return null;
  // A PATCH ignores null members and empty maps; a PUT writes everything.
  if (changed.some((member) => isBlank(draft[member]))) return ["PUT", clean(draft, kind.replace)];
  const tag = kind.replace.oneOf ? { typeId: draft.typeId } : {};
  return [
    "PATCH",
    { ...tag, ...Object.fromEntries(changed.map((member) => [member, draft[member]])) },
  ];
}

function begin(kind, values) {
  const draft = initial({ ...kind.create, default: undefined }) || {};
  for (const [member, schema] of Object.entries(kind.create.properties || {})) {
    const shape = resolve(schema);
    if (draft[member] === undefined && shape.default !== undefined && shape.default !== null)
      draft[member] = structuredClone(shape.default);
  }
  // An identity usually needs an enrollment.
  if (kind.create.properties?.enrollment) draft.enrollment = { ott: true };
  for (const [member, value] of Object.entries(values || {})) {
    const schema = kind.create.properties?.[member];
    if (schema) draft[member] = typeOf(resolve(schema)) === "array" ? value.split(",") : value;
  }
  return draft;
}

/** A form for one record. In a dialog over another form, `onMade` takes the id of the new record. */
function Form({ kind, id, record, etag, values, reload, onMade, onCancel, guard }) {
  const isNew = !record;
  const schema = isNew ? kind.create : kind.replace;
  const before = useMemo(() => (isNew ? begin(kind, values) : draftOf(kind, record)), []);
  const [draft, setDraft] = useState(before);
  const [refused, setRefused] = useState(null);
  const [saving, setSaving] = useState(false);
  const [made, setMade] = useState(null);
  const [creating, setCreating] = useState(null); // another record, which a field of this form has no choice of yet
  const place = useRef();
  const create = useMemo(() => (of, name, take) => setCreating({ of, name, take }), []);
  useFirstFocus(place);
  const show = (shown) => {
    if (onMade) return onMade(shown);
    forgetUnsaved();
    location.hash = `#/${kind.name}/${encodeURIComponent(shown)}`;
  };
  const [isInvalid, Within] = useFaults();
  const touched = isInvalid || !same(before, draft);
  const request = isNew ? ["POST", clean(draft, schema)] : change(before, draft, kind);
  const path = isNew ? kind.path : `${kind.path}/${encodeURIComponent(id)}`;
  const calm = useCalm(JSON.stringify(request), 350);
  const isIn = useIsIn();
  const hasPreview = isNew ? kind.previews.create : kind.previews.change;
  const [preview, wrong] = useLoad(
    async (signal) => {
      const asked = JSON.parse(calm);
      if (!isIn || !asked || !hasPreview || isMissing(draft, schema)) return null;
      const { data, unmatchable } = await ask(asked[0], `${path}?preview=true&strict=true`, {
        body: asked[1],
        signal,
      });
      return { of: calm, value: data, unmatchable };
    },
    [calm, isIn],
  );
  const answered = preview?.of === JSON.stringify(request);
  const mayClose = useUnsaved(made ? texts.secret.leave : touched ? t.unsaved : "");
  if (guard) guard.current = mayClose;
  const isBlankMethod = Object.values(
    (isNew && kind.name === "identities" && draft.enrollment) || {},
  ).includes("");
  const submit = async (event) => {
    event.preventDefault();
    event.stopPropagation();
    if (!request || isInvalid || isBlankMethod) return;
    setSaving(true);
    setRefused(null);
    try {
      const { data } = await ask(request[0], `${path}?strict=true`, {
        body: request[1],
        headers: !isNew && etag ? { "if-match": etag } : {},
      });
      const secrets = Object.entries(data || {}).filter(
        ([member, value]) => isNew && SECRET.test(member) && typeof value === "string",
      );
      if (secrets.length) setMade({ id: data.id, secrets });
      else show(isNew ? data.id : id);
    } catch (error) {
      setSaving(false);
      if (error.status === 401 && !currentSession()) return; // the person logs in again and finds the form as it was
      if (error.fields) error.locate(placed(error.fields, schema));
      setRefused(error);
      const field = error.fields?.keys().next().value;
      if (field)
        requestAnimationFrame(() =>
          place.current?.querySelector(".wrong input, .wrong textarea, .wrong select")?.focus(),
        );
    }
  };
  // An error of a member is shown at it once the form was changed. A member that is still blank is not an error yet.
  const early =
    touched && wrong?.fields
      ? new Map(
          [...placed(wrong.fields, schema)].filter(
            ([field]) => !isBlank(draft[field.split(".")[0]]),
          ),
        )
      : NOTHING;
  const errors = refused?.fields?.size ? refused.fields : early;
  const back = isNew ? `#/${kind.name}` : `#/${kind.name}/${encodeURIComponent(id)}`;
  return html`<${Creator.Provider} value=${create}><form class=${`editor ${onMade ? "inside" : ""}`} ref=${place} onSubmit=${submit} noValidate>
    <div class="card"><${Within}><${ObjectFields} schema=${schema} value=${draft} onChange=${(
      next,
    ) => {
      setDraft(next);
      setRefused(null);
    }} errors=${errors} kind=${kind} folds
      fixed=${isNew ? [] : [...kind.fixed, ...(schema.oneOf ? ["typeId"] : [])]} /><//></div>
    <aside class="card">
      ${hasPreview && html`<${Preview} value=${answered ? preview.value : null} unmatchable=${answered && preview.unmatchable} error=${answered ? null : wrong} busy=${!answered} waiting=${isInvalid || isBlankMethod || isMissing(draft, schema) || !request} />`}
      <${Problem} error=${refused} again=${refused?.status === 412 ? reload : null} />
      ${refused?.status === 412 && html`<p>${t.changedMeanwhile}</p>`}
      ${isInvalid && html`<p class="error" role="alert">${t.correctJson}</p>`}
      <div class="actions">${onCancel ? html`<button type="button" class="button" onClick=${onCancel}>${texts.cancel}</button>` : html`<a class="button" href=${back}>${texts.cancel}</a>`}
        <button class="button main" disabled=${saving || !request || isInvalid || isBlankMethod}>${isNew ? texts.create : texts.save}</button></div>
    </aside>
    ${made && html`<${Secret} title=${draft.name || kind.one} secrets=${made.secrets} onStored=${() => show(made.id)} />`}
  </form>
  ${
    creating &&
    html`<${Creation} kind=${creating.of} name=${creating.name} onClose=${() => setCreating(null)} onMade=${(
      id,
    ) => {
      creating.take(id);
      setCreating(null);
    }} />`
  }<//>`;
}

/** A new record in a dialog over the form that needs it. While nobody is logged in, it is not in the document. */
function Creation({ kind, name, onClose, onMade }) {
  const isIn = useIsIn();
  const guard = useRef(() => true);
  const close = () => guard.current() && onClose();
  if (!isIn) return null;
  return html`<${Dialog} title=${t.createTitle(kind.one)} wide onClose=${close}>
    <${Form} kind=${kind} values=${name ? { name } : {}} onMade=${onMade} onCancel=${close} guard=${guard} /><//>`;
}

export function Editor({ kind, id, values }) {
  const [answer, error, again] = useLoad(
    (signal) =>
      id ? get(`${kind.path}/${encodeURIComponent(id)}`, { signal }) : Promise.resolve({}),
    [kind.name, id],
  );
  if (error) return html`<${Problem} error=${error} again=${again} />`;
  if (!(id ? kind.replace && may("PUT", `${kind.path}/${id}`) : mayCreate(kind)))
    return html`<${Heading} title=${kind.label} /><${Empty} title=${t.notHere}><p>${texts.list.scope}</p><//>`;
  if (!answer) return html`<${Loading} />`;
  const record = id ? answer.data : null;
  return html`<p class="crumbs"><a href=${`#/${kind.name}`}>${kind.label}</a></p>
    <${Heading} title=${id ? t.editTitle(nameOf(record)) : t.createTitle(kind.one)} note=${kind.note} />
    <${Form} key=${answer.etag || "new"} kind=${kind} id=${id} record=${record} etag=${answer.etag} values=${values} reload=${again} />`;
}
