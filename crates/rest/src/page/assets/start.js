// The first steps: from nothing to a client that is enrolled and logged in, on one page that follows what happens.

import { useRef, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { ask, get, query } from "./api.js";
import { kind, nameLike } from "./kinds.js";
import { texts } from "./texts.js";
import { Enrollment, Step, Steps, clientState } from "./enrollment.js";
import { Empty, Heading, Loading, Problem, Reference, useFirstFocus, useLoad } from "./parts.js";
import { may } from "./scope.js";
import { useNews } from "./news.js";

const t = texts.start;
const ROLE = "clients";

function Create() {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const place = useRef();
  useFirstFocus(place);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const name = event.target.elements.name.value.trim();
      const { data } = await ask("POST", "/identities", {
        body: {
          name,
          type: "Default",
          isAdmin: false,
          roleAttributes: [ROLE],
          enrollment: { ott: true },
        },
      });
      location.hash = `#/start/${encodeURIComponent(data.id)}`;
    } catch (reason) {
      setError(reason);
      setBusy(false);
    }
  };
  return html`<section class="card"><h2>${t.nameTitle}</h2><form ref=${place} onSubmit=${submit}>
    <label for="client">${t.name}</label>
    <input id="client" name="name" autocomplete="off" required placeholder=${texts.form.suchAs(nameLike("identities"))} aria-describedby="client-hint" />
    <p id="client-hint" class="hint">${t.nameHint(`#${ROLE}`)}</p><${Problem} error=${error} />
    <button class="button main" disabled=${busy}>${t.create}</button></form></section>`;
}

function Client({ id }) {
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
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  return html`<section class="card"><${Steps} state=${clientState(identity)} id=${id} onChange=${again}>
      <${Step} look="quiet" label=${html`${t.created} <${Reference} kind="identities" id=${id} name=${identity.name} />`} /><//></section>
    <${Enrollment} identity=${identity} onChange=${again} />
    <section class="card"><h2>${t.next}</h2><p class="hint">${t.nextHint} <a href="#/words">${texts.glossary.title}</a></p><ol class="way">
      <li><a href="#/services/_new">${texts.overview.firstService}</a></li>
      <li><a href=${`#/service-policies/_new?${query({ type: "Dial", identityRoles: `#${ROLE}` })}`}>${texts.overview.firstPolicy}</a></li>
      <li><a href=${`#/service-policies/_new?${query({ type: "Bind" })}`}>${texts.overview.firstHost}</a></li>
      <li><a href=${`#/access/ask?identity=${encodeURIComponent(id)}`}>${texts.access.ofRecord.identity}</a></li></ol></section>`;
}

export const Start = ({ id }) =>
  html`<${Heading} title=${t.title} note=${t.note} />${!id && !may("POST", "/identities") ? html`<${Empty} title=${texts.form.notHere}><p>${texts.list.scope}</p><//>` : kind("identities") && (id ? html`<${Client} id=${id} />` : html`<${Create} />`)}`;
