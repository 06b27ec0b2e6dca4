// Shares a service: what runs where, by which name, for whom. All records are made in one transaction, after its preview.

import { useMemo, useRef, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { currentSession, list, literal } from "./api.js";
import { kind } from "./kinds.js";
import { nameById } from "./names.js";
import { texts } from "./texts.js";
import {
  Empty,
  Heading,
  Icon,
  Problem,
  useCalm,
  useFirstFocus,
  useIsIn,
  useLoad,
} from "./parts.js";
import { Creator } from "./picker.js";
import { InviteDialog } from "./invite.js";
import { Machines } from "./machines.js";
import { Preview } from "./preview.js";
import { apply, placeOf, planned } from "./publication.js";
import { mayReadAll, mayShare } from "./scope.js";
import { TaskText, TaskWho, focusWrong } from "./task.js";
import { forgetUnsaved, useUnsaved } from "./unsaved.js";
import { useNews } from "./news.js";

const t = texts.share;
const EMPTY = { name: "", host: [], target: "", to: [], address: "" };
const REQUIRED = ["name", "host", "target", "to"];
const PLACES = ["target", "address"];
const NOTHING = new Map();
const CHANGES = ["create", "update", "delete"];

const isBlank = (value) => !(Array.isArray(value) ? value.length : value.trim());

/** What is wrong without asking the controller, by field. */
const faultsOf = (draft) =>
  new Map([
    ...REQUIRED.filter((field) => isBlank(draft[field])).map((field) => [field, t.blank]),
    ...PLACES.filter((field) => !isBlank(draft[field]) && !placeOf(draft[field])).map((field) => [
      field,
      t.noPlace,
    ]),
  ]);

/** The roles with names in place of ids, as a network document has them. */
const byName = (roles) =>
  Promise.all(
    roles.map(async (role) =>
      role.startsWith("@") ? `@${await nameById("identities", role.slice(1))}` : role,
    ),
  );

const serviceOf = async (draft) => ({
  name: draft.name.trim(),
  host: await byName(draft.host),
  target: draft.target,
  to: await byName(draft.to),
  address: draft.address.trim(),
});

/** Rights of a new service that nobody has, because nobody has the roles. */
const unmatched = ({ plan, records }, name) =>
  records.some((record) => record.kind === "services" && record.isNew)
    ? ["bind", "dial"]
        .filter((right) => !plan[right].gained.pairs)
        .map((right) => t.nobody[right](name))
    : [];

/** Every record with whether it is made or stays, and who gains access. */
const Plan = ({ answer, name }) => html`<h2>${t.records}</h2>
  <ul class="needs made">${answer.records.map((record) => html`<li class=${record.isNew ? "new" : "faint"}><${Icon} name=${record.isNew ? "plus" : "check"} /><span>${kind(record.kind).one} <strong>${record.name}</strong>${!record.isNew && ` ${t.exists}`}</span></li>`)}</ul>
  <${Preview} value=${answer.plan} />
  ${unmatched(answer, name).map((text) => html`<p class="warning"><i aria-hidden="true"></i><span>${text}</span></p>`)}`;

function Form() {
  const [draft, setDraft] = useState(EMPTY);
  const [isTried, setTried] = useState(false); // then blank fields are named
  const [saving, setSaving] = useState(false);
  const [error, setError] = useState(null);
  const [creating, setCreating] = useState(null); // an identity for a field: its name, and what takes its id
  const place = useRef();
  const create = useMemo(() => (_, name, take) => setCreating({ name, take }), []);
  const isIn = useIsIn();
  useFirstFocus(place);
  useUnsaved(JSON.stringify(draft) === JSON.stringify(EMPTY) ? "" : texts.form.unsaved);
  const now = JSON.stringify(draft);
  const calm = useCalm(now, 350);
  const faults = faultsOf(draft);
  const [last, , again] = useLoad(
    async (signal) => {
      const asked = JSON.parse(calm);
      if (!isIn || faultsOf(asked).size) return null;
      return planned(await serviceOf(asked), signal).then(
        (value) => ({ of: calm, value }),
        (reason) => ({ of: calm, error: reason }),
      );
    },
    [calm, isIn],
  );
  const isAsked = !faults.size;
  useNews(({ action }) => CHANGES.includes(action), again, []); // what was planned is no longer what would be made
  const answer = last?.of === now ? last : null;
  const set = (field) => (value) => {
    setDraft((old) => ({ ...old, [field]: value }));
    setError(null);
  };
  const early = new Map([...faults].filter(([field]) => calm === now && !isBlank(draft[field])));
  const errors =
    isTried && faults.size ? faults : early.size ? early : answer?.error?.fields || NOTHING;
  const share = async () => {
    if (answer.value.records.some(({ isNew }) => isNew)) await apply(answer.value);
    const filter = `name = ${literal(draft.name.trim())}`;
    const { rows } = await list("/services", { filter, limit: 1 });
    forgetUnsaved();
    location.hash = rows.length ? `#/share/${encodeURIComponent(rows[0].id)}` : "#/services";
  };
  const submit = (event) => {
    event.preventDefault();
    setTried(true);
    if (faults.size || answer?.error) return focusWrong(place);
    if (!answer?.value || saving) return undefined;
    setSaving(true);
    return share().catch((reason) => {
      setSaving(false);
      if (reason.status === 401 && !currentSession()) return; // the person logs in again and finds the form as it was
      setError(reason);
      again();
    });
  };
  const field = (name) => ({
    name,
    text: t.fields[name],
    errors,
    value: draft[name],
    onChange: set(name),
    required: REQUIRED.includes(name),
  });
  const refused = answer?.error;
  return html`<${Creator.Provider} value=${create}><form class="editor" ref=${place} onSubmit=${submit} noValidate>
      <div class="card fields"><${TaskText} ...${field("name")} /><${TaskWho} ...${field("host")} /><${TaskText} ...${field("target")} /><${TaskWho} ...${field("to")} /><${TaskText} ...${field("address")} />
        <p class="hint">${t.raw} ${["services", "configs", "service-policies"].map((name, index) => html`${index ? ", " : ""}<a href=${`#/${name}/_new`}>${texts.list.create(kind(name).one)}</a>`)}</p></div>
      <aside class="card">
        <div aria-live="polite">${
          answer?.value
            ? html`<${Plan} answer=${answer.value} name=${draft.name.trim()} />`
            : refused?.fields?.size
              ? html`<h2>${texts.preview.title}</h2><p class="error">${t.nothingChanged(refused.message)}</p>`
              : html`<${Preview} error=${refused} busy=${isAsked} waiting=${!isAsked} again=${again} />`
        }</div>
        ${error?.status === 412 ? html`<p class="error" role="alert">${t.changedMeanwhile}</p>` : html`<${Problem} error=${error} />`}
        <div class="actions"><a class="button" href="#/services">${texts.cancel}</a><button class="button main" disabled=${saving || (isAsked && !answer)}>${t.share}</button></div>
      </aside>
    </form>
    ${
      creating &&
      isIn &&
      html`<${InviteDialog} name=${creating.name} onClose=${() => setCreating(null)} onMade=${(
        id,
      ) => {
        creating.take(id);
        setCreating(null);
      }} />`
    }<//>`;
}

export function Share({ id }) {
  if (id && mayReadAll()) return html`<${Machines} key=${id} id=${id} />`;
  if (!mayShare())
    return html`<${Heading} title=${t.title} /><${Empty} title=${texts.form.notHere}><p>${texts.list.scope}</p><//>`;
  return html`<${Heading} title=${t.title} note=${t.note} /><${Form} />`;
}
