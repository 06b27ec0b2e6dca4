// What an identity may reach, who may reach a service, and for a pair the reasons and the changes that would help.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { ask, get, list, literal, query } from "./api.js";
import { Enrollment, Steps, clientState } from "./enrollment.js";
import { Others } from "./groups.js";
import { kind, nameLike, wordOf } from "./kinds.js";
import { texts } from "./texts.js";
import {
  Chip,
  Dialog,
  Dot,
  Icon,
  Loading,
  Problem,
  Reference,
  useCalm,
  useFirstFocus,
  useLoad,
  useName,
  useOnce,
} from "./parts.js";
import { Picker, named } from "./picker.js";
import { Preview, answerTo, hasNone, isShown } from "./preview.js";
import { useNews } from "./news.js";
import { may, mayCreate } from "./scope.js";
import { Dated } from "./times.js";

const t = texts.access;
const RIGHTS = ["Dial", "Bind"];
const LIMIT = 100;
const ENROLLS = /^\/enrollments(\/|$)/; // edits after which a client has to enroll with a token

const addressOf = (values) => `#/access/ask?${query(values)}`;
const move = (values) => location.replace(addressOf(values));

function Choice({ label, of, value, onChange }) {
  const id = useName("choice");
  return html`<div class="field"><label for=${id}>${label}</label>
    <${Picker} id=${id} label=${label} single kind=${kind(of)} values=${value ? [value] : []} example=${texts.form.suchAs(nameLike(of))} suggest=${(text, signal) => named(kind(of), text, signal)} onChange=${(values) => onChange(values[0] || "")} /></div>`;
}

/** The request of an edit as a text. The end of a token that it would issue depends on when the explanation was made. */
const requestOf = ({ method, path, body }) =>
  JSON.stringify([method, path, { ...body, expiresAt: undefined }]);

/** The entity tag of the record that an edit changes. `explain` must propose the edit after that; otherwise it throws a reason, or returns `undefined`. */
async function stillProposed(edit, explain) {
  const etag = edit.method === "PATCH" ? (await get(edit.path)).etag : null;
  const { obstacles } = await explain();
  return obstacles.some(({ edits }) => edits.some((other) => requestOf(other) === requestOf(edit)))
    ? { etag }
    : undefined;
}

/** A change that the controller proposes, with a preview of its effects. Its body has whole lists, so it is made only while `explain` still proposes it. */
function Change({ edit, explain, onClose, onDone }) {
  const [error, setError] = useState(null);
  const [isOutdated, setOutdated] = useState(false);
  const [isBusy, once] = useOnce();
  const [answer, , again] = useLoad(
    (signal) =>
      answerTo(
        "",
        ask(edit.method, `${edit.path}${edit.path.includes("?") ? "&" : "?"}preview=true`, {
          body: edit.body ?? undefined,
          signal,
        }),
      ),
    [],
  );
  const go = async () => {
    setError(null);
    try {
      const proposed = await stillProposed(edit, explain);
      if (!proposed) return setOutdated(true);
      await ask(edit.method, edit.path, {
        body: edit.body ?? undefined,
        headers: proposed.etag ? { "if-match": proposed.etag } : {},
      });
      onDone();
      onClose();
    } catch (reason) {
      if (reason.status === 412) setOutdated(true);
      else setError(reason);
    }
  };
  return html`<${Dialog} title=${capital(edit.text)} onClose=${onClose}>
    ${ENROLLS.test(edit.path) && html`<p>${t.tokenMeans}</p>`}
    ${!hasNone(answer) && html`<${Preview} value=${answer?.value} error=${answer?.error} busy=${!answer} again=${again} />`}
    <${Problem} error=${error} />${isOutdated && html`<p class="error" role="alert">${t.outdated}</p>`}
    <details><summary>${t.request}</summary><pre class="long" tabindex="0">${edit.method} ${edit.path}${"\n"}${edit.body ? JSON.stringify(edit.body, null, 2) : ""}</pre></details>
    <div class="actions"><button type="button" class="button" onClick=${onClose}>${texts.cancel}</button><button type="button" class="button main" disabled=${isBusy || isOutdated || !isShown(answer)} onClick=${() => once(go)}>${t.apply}</button></div>
  <//>`;
}

/** The unused enrollment token of an identity. The tunneler of an edge router has that of its router. */
function Token({ identity, onClose }) {
  const [record, error, again] = useLoad(
    (signal) =>
      get(`/identities/${encodeURIComponent(identity.id)}`, { signal }).then(({ data }) => data),
    [identity.id],
  );
  useNews(
    (row) => row.after?.identityId === identity.id || row.before?.identityId === identity.id,
    again,
    [identity.id],
  );
  return html`<${Dialog} title=${identity.name} onClose=${onClose}><${Problem} error=${error} />${!record && !error && html`<${Loading} />`}
    ${record && (/^router$/i.test(record.typeId) ? html`<p>${t.tokenOfRouter} <${Reference} kind="edge-routers" id=${identity.id} name=${identity.name} /></p>` : html`<${Steps} state=${clientState(record)} id=${identity.id} onChange=${again} /><${Enrollment} identity=${record} onChange=${again} />`)}
  <//>`;
}

function Obstacles({ found, onOpen, onToken }) {
  const { obstacles, identity, service, authentication } = found;
  if (!obstacles.length) return null;
  const names = [identity.name, service.name];
  const hasToken = (obstacle) =>
    obstacle.what === "noCredential" && authentication.state === "neverEnrolled";
  return html`<section class="card"><h2>${t.obstacles}</h2><ul class="obstacles">${obstacles.map(
    (obstacle) => html`<li>
      <p><${Icon} name="warning" /><span><${Dated} text=${`${capital(obstacle.text, names)}.`} /></span></p>
      ${obstacle.remedy && html`<p class="hint"><${Dated} text=${`${capital(obstacle.remedy)}.`} /></p>`}
      ${obstacle.edits.filter((edit) => may(edit.method, edit.path)).length > 1 && html`<p class="hint">${t.edits}</p>`}
      <div class="edits">${obstacle.edits.filter((edit) => may(edit.method, edit.path)).map((edit) => html`<button type="button" class="button small" onClick=${() => onOpen(edit)}>${capital(edit.text)}</button>`)}
        ${hasToken(obstacle) && html`<button type="button" class="button small" onClick=${onToken}>${t.showToken(identity.name)}</button>`}
        ${obstacle.what === "noTerminator" && mayCreate(kind("service-policies")) && html`<a class="button small" href=${`#/service-policies/_new?${query({ type: "Bind", serviceRoles: `@${service.id}` })}`}>${t.letHost(service.name)}</a>`}</div>
    </li>`,
  )}</ul></section>`;
}

/** A sentence begins with a capital letter, except with a name. */
const capital = (text, names = []) =>
  names.some((name) => text.startsWith(name)) ? text : text.charAt(0).toUpperCase() + text.slice(1);

/** What a policy misses to grant the right: sets of roles of which any one would do, or that it names the record. */
const lacks = (found, { missing, lacking }) =>
  lacking.length
    ? t.lacks(
        found[missing].name,
        lacking.map((set) => set.map((role) => `#${role}`).join(" + ")).join(" / "),
      )
    : t.notNamed(found[missing].name);

function Reasons({ found }) {
  const { policies, nearPolicies, routers, hosts, hostCount, authentication } = found;
  const chips = (roles, of) =>
    html`<span class="chips">${roles.map((role) => html`<${Chip} tone=${role.startsWith("#") ? "role" : "one"}>${role.startsWith("@") ? of.name : role}<//>`)}</span>`;
  return html`<section class="card"><h2>${t.reasons}</h2><dl class="members whole">
    ${policies.map(
      (
        grant,
      ) => html`<div><dt>${capital(kind("service-policies").one)}</dt><dd><${Reference} kind="service-policies" id=${grant.policy.id} name=${grant.policy.name} /> ${chips(grant.identityBy, found.identity)} <span aria-hidden="true">→</span><span class="hidden">${texts.preview.to}</span> ${chips(grant.serviceBy, found.service)}
      ${grant.postureChecks.length > 0 && html`<p class="hint">${t.checks(grant.postureChecks.map(({ name }) => name).join(", "), !grant.failedChecks.length)}</p>`}</dd></div>`,
    )}
    ${!policies.length && nearPolicies.length > 0 && html`<div><dt>${t.near}</dt><dd><ul>${nearPolicies.map((near) => html`<li><${Reference} kind="service-policies" id=${near.policy.id} name=${near.policy.name} /> <span class="faint">${lacks(found, near)}</span></li>`)}</ul></dd></div>`}
    <div><dt>${t.credentials}</dt><dd>${t.states[authentication.state] || authentication.state}${authentication.credentials.length > 0 && html` <span class="faint">${authentication.credentials.map(({ method }) => wordOf("method", method)).join(", ")}</span>`}</dd></div>
    ${authentication.secondFactors.length > 0 && html`<div><dt>${t.secondFactors}</dt><dd>${authentication.secondFactors.map((factor) => html`<p>${factor.text}</p>`)}</dd></div>`}
    <div><dt>${t.routers}</dt><dd><ul>${routers.map((router) => html`<li><${Dot} on=${router.isOnline} label=${html`<${Reference} kind="edge-routers" id=${router.id} name=${router.name} />`} />${router.isDisabled && html` <span class="faint">${t.disabled}</span>`}</li>`)}</ul>${!routers.length && texts.none}</dd></div>
    <div><dt>${t.hosts}</dt><dd>${hosts.map((host) => html`<p><${Dot} on label=${host.identity ? html`<${Reference} kind="identities" id=${host.identity.id} name=${host.identity.name} />` : host.router.name} />${host.failures && html` <span class="faint">${texts.hosting.times(host.failures.times)}${host.failures.reasons[0] ? `: ${host.failures.reasons[0].text}` : ""}</span>`}</p>`)}${!hosts.length && t.noHosts}${hostCount > hosts.length && html`<p class="faint">${texts.preview.others(hostCount - hosts.length)}</p>`}</dd></div>
  </dl></section>`;
}

/** The explanation of one pair. For another pair it is made anew (`key`), so that no verdict and no dialog stays. */
function Pair({ values }) {
  const explain = (signal) =>
    get(
      `/overkeep/v1/explain?${query({ identity: values.identity, service: values.service, type: values.type || "Dial" })}`,
      { signal },
    ).then(({ data }) => data);
  const [found, error, again] = useLoad(explain, []);
  const [edit, setEdit] = useState(null);
  const [token, setToken] = useState(false);
  const [isChanged, setChanged] = useState(false);
  const verdict = useRef();
  useNews(() => true, again);
  if (!found)
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  const done = () => {
    setChanged(true);
    setToken(ENROLLS.test(edit.path));
    again();
    // The button of the edit goes with its obstacle. The dialog closes before the next frame.
    requestAnimationFrame(() => verdict.current?.focus({ preventScroll: true }));
  };
  const tone = found.verdict ? "works" : found.allowed ? "blocked" : "refused";
  return html`<section class=${`card verdict ${tone}`} aria-live="polite"><p>${t.question(found.identity.name, t.rights[found.type], found.service.name)}</p>
      <h2 tabindex="-1" ref=${verdict}><${Icon} name=${found.verdict ? "check" : "warning"} />${t[tone]}</h2>
      ${values.who && html`<${Others} of="identities" role=${values.who} record=${found.identity} address=${(identity) => addressOf({ ...values, identity })} />`}
      ${values.what && html`<${Others} of="services" role=${values.what} record=${found.service} address=${(service) => addressOf({ ...values, service })} />`}</section>
    <div role="status">${isChanged && html`<p class="quiet"><${Icon} name="check" />${t.applied}</p>`}</div>
    <${Problem} error=${error} />
    <${Obstacles} found=${found} onOpen=${setEdit} onToken=${() => setToken(true)} /><${Reasons} found=${found} />
    ${
      edit &&
      html`<${Change} edit=${edit} explain=${explain} onClose=${() => {
        setEdit(null);
        again();
      }} onDone=${done} />`
    }
    ${token && html`<${Token} identity=${found.identity} onClose=${() => setToken(false)} />`}`;
}

/** The services of an identity, or the identities of a service, by one right. */
function Reach({ values, side, right }) {
  const [from, to] = side === "identity" ? ["identities", "services"] : ["services", "identities"];
  const other = side === "identity" ? "service" : "identity";
  const [record] = useLoad(
    (signal) =>
      get(`/${from}/${encodeURIComponent(values[side])}`, { signal }).then(({ data }) => data),
    [values[side]],
  );
  const [offset, setOffset] = useState(0);
  const [text, setText] = useState("");
  const calm = useCalm(text.trim(), 200);
  useEffect(() => setOffset(0), [values[side], right, calm]);
  const filter = calm && `name icontains ${literal(calm)}`;
  const inputs = [values[side], right, filter, offset];
  const [page, error, again] = useLoad(
    (signal) =>
      list(
        `/${from}/${encodeURIComponent(values[side])}/${to}`,
        {
          limit: LIMIT,
          offset: offset || undefined,
          sort: "name",
          filter,
          policyType: right.toLowerCase(),
        },
        { signal },
      ),
    inputs,
  );
  useNews((row) => row.action === "access" || row.kind === "servicePolicy", again, inputs);
  const title =
    side === "identity"
      ? right === "Dial"
        ? t.reach
        : t.host
      : right === "Dial"
        ? t.reachedBy
        : t.hostedBy;
  return html`<section class="card"><h2>${title(record?.name || "…")} ${page && html`<span class="faint">${page.total.toLocaleString()}</span>`}</h2><${Problem} error=${error} />
    ${(calm || text || page?.total > LIMIT) && html`<input type="search" aria-label=${t.searchMembers} placeholder=${t.searchMembers} value=${text} onInput=${(event) => setText(event.target.value)} />`}
    ${page && !page.rows.length && html`<p class="faint">${calm ? texts.list.emptyFiltered : side === "identity" ? t.nothingReached : t.nobody}</p>`}
    ${page?.rows.length > 0 && html`<ul class="plain reach">${page.rows.map((row) => html`<li><${Reference} kind=${to} id=${row.id} name=${row.name} /><a href=${addressOf({ ...values, [other]: row.id, type: right })} aria-label=${t.whyOf(row.name)}>${t.why}</a></li>`)}</ul>`}
    ${
      page?.total > LIMIT &&
      html`<div class="pages"><button type="button" class="button" disabled=${!offset} onClick=${() => setOffset(offset - LIMIT)}>${texts.list.previous}</button><span>${texts.list.range(offset + 1, offset + page.rows.length, page.total)}</span>
      <button type="button" class="button" disabled=${offset + LIMIT >= page.total} onClick=${() => setOffset(offset + LIMIT)}>${texts.list.next}</button></div>`
    }</section>`;
}

export function Explain({ values }) {
  const right = values.type || "Dial";
  const side = values.identity ? "identity" : values.service ? "service" : null;
  const change = (next) => move({ ...values, ...next });
  const place = useRef();
  useFirstFocus(place, !side);
  return html`<div class="card asks" ref=${place}>
      <${Choice} label=${t.identity} of="identities" value=${values.identity} onChange=${(identity) => change({ identity, who: "" })} />
      <div class="field"><label for="right">${t.right}</label><select id="right" value=${right} onChange=${(event) => change({ type: event.target.value })}>${RIGHTS.map((word) => html`<option value=${word} selected=${word === right}>${t.rights[word]}</option>`)}</select></div>
      <${Choice} label=${t.service} of="services" value=${values.service} onChange=${(service) => change({ service, what: "" })} /></div>
    ${!side && html`<p class="faint">${t.askHint}</p>`}
    ${values.identity && values.service ? html`<${Pair} key=${JSON.stringify([values.identity, values.service, right])} values=${values} />` : side && html`<${Reach} values=${values} side=${side} right=${right} />`}`;
}
