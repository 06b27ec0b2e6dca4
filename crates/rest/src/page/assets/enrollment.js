// The enrollment of an identity or a router: its token to copy, download or scan, and its state until the client is enrolled.

import { useEffect, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { generate } from "./vendor/lean-qr.js";
import { ask, claims, currentSession, get, query } from "./api.js";
import { may } from "./scope.js";
import { texts } from "./texts.js";
import { Command, enrollLine } from "./command.js";
import { Copy, Icon, Problem, Prose, useName, useOnce } from "./parts.js";
import { Time } from "./times.js";

const t = texts.enrollment;
const DAY = 86400000;
const INTERVAL = 2000; // milliseconds
const QUIET_ZONE = 4;
const NARROW = 480; // pixels

/** The code as one path of an SVG. A module has a whole number of pixels, because a camera cannot read some codes with modules of unequal sizes. */
export function Code({ text, label }) {
  const code = generate(text);
  let path = "";
  for (let y = 0; y < code.size; y++) {
    for (let x = 0; x < code.size; x++) if (code.get(x, y)) path += `M${x} ${y}h1v1h-1z`;
  }
  const size = code.size + 2 * QUIET_ZONE;
  const width = size * (innerWidth < NARROW ? 2 : 3);
  return html`<svg class="qr" width=${width} viewBox=${`${-QUIET_ZONE} ${-QUIET_ZONE} ${size} ${size}`} role="img" aria-label=${label} shape-rendering="crispEdges">
    <rect x=${-QUIET_ZONE} y=${-QUIET_ZONE} width=${size} height=${size} fill="#fff" /><path d=${path} fill="#000" /></svg>`;
}

export function Download({ name, text, media }) {
  const [address, setAddress] = useState();
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([text], { type: media }));
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [text]);
  return html`<a class="button" href=${address} download=${name}>${texts.download}</a>`;
}

const isEmpty = (value) => !Object.values(value || {}).some(Boolean);

/** How far a client or a router is: whether it is enrolled, which token it has not used, and whether it is in now. One of an external signer needs no enrollment. */
export const clientState = (identity) => ({
  who: "client",
  isEnrolled: !isEmpty(identity.authenticators) || Boolean(identity.externalId),
  isExternal: isEmpty(identity.authenticators),
  waiting: tokenOf(identity),
  wasIn: !isEmpty(identity.sdkInfo) || !isEmpty(identity.envInfo),
  isIn: identity.hasEdgeRouterConnection ? "connected" : identity.hasApiSession ? "loggedIn" : null,
});
export const routerState = (router) => ({
  who: "router",
  isEnrolled: router.isVerified && !router.enrollmentJwt,
  waiting: router.enrollmentJwt && { expiresAt: router.enrollmentExpiresAt },
  wasIn: !isEmpty(router.versionInfo),
  isIn: router.isOnline ? "connected" : null,
});

/** The enrollment of an identity that is valid for the longest time. */
const tokenOf = (identity) =>
  Object.values(identity.enrollment || {}).sort((one, other) =>
    other.expiresAt.localeCompare(one.expiresAt),
  )[0];

/** Calls `onChange` when a client logs in, connects or leaves. No event tells when it connects, so that its record is read while the page is visible. */
function useArrival({ who, isEnrolled, isIn }, id, onChange) {
  useEffect(() => {
    if (who !== "client" || !isEnrolled) return undefined;
    const abort = new AbortController();
    let timer;
    const wait = () => {
      if (!abort.signal.aborted) timer = setTimeout(poll, INTERVAL);
    };
    const poll = () => {
      if (document.hidden || !currentSession()?.complete) return wait();
      return get(`/identities/${encodeURIComponent(id)}`, { signal: abort.signal })
        .then(({ data }) => clientState(data).isIn !== isIn && onChange())
        .catch(() => {})
        .then(wait);
    };
    wait();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [id, isEnrolled, isIn]);
}

/** The way of a client or a router from its token until it is in, as it happens. `children` are earlier steps. */
export function Steps({ state, id, onChange, children }) {
  const { who, isEnrolled, isExternal, waiting, wasIn, isIn } = state;
  const labels = t.steps[who];
  useArrival(state, id, onChange);
  if (!isEnrolled && !waiting) return null;
  const isOver = !isEnrolled && new Date(waiting.expiresAt) < new Date();
  const entered = !isEnrolled
    ? ["faint", labels.then]
    : isIn
      ? ["quiet", labels[isIn]]
      : wasIn
        ? ["faint", labels.away]
        : ["waiting", labels.notIn];
  return html`<div role="status"><ol class=${`steps ${children ? "" : "beside"}`}>${children}
    ${!(isEnrolled && isExternal) && html`<${Step} look=${isEnrolled ? "quiet" : isOver ? "warning" : "waiting"} label=${isEnrolled ? labels.enrolled : isOver ? t.ended : labels.waiting} />`}
    <${Step} look=${entered[0]} label=${entered[1]} /></ol></div>`;
}

/** A step that is done (`quiet`), awaited (`waiting`), failed (`warning`), or not there yet (`faint`). */
export const Step = ({ look, label }) =>
  html`<li aria-current=${look === "waiting" ? "step" : undefined}><p class=${look}>${look === "quiet" ? html`<${Icon} name="check" />` : html`<i aria-hidden="true"></i>`}<span>${label}</span></p></li>`;

const LOOPBACK =
  /^(localhost|.*\.localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1?\]|\[::ffff:7f[0-9a-f]{2}:[0-9a-f]{1,4}\])\.?$/;
const SCHEME = /^[a-z][a-z\d+.-]*:\/\//i;
/** The host of an address, which may lack its scheme, as browsers write it: `127.1` is `127.0.0.1`. */
const hostOf = (address) => {
  try {
    return new URL(SCHEME.test(address) ? address : `//${address}`, location.origin).hostname;
  } catch {
    return null;
  }
};

/** The address in a token that leads every device to itself, if the token has no other. */
function loopbackIn(jwt) {
  const { iss, ctrls } = claims(jwt) || {};
  const addresses = [iss, ...(Array.isArray(ctrls) ? ctrls : [])].filter(
    (address) => typeof address === "string" && hostOf(address),
  );
  return addresses.length && addresses.every((address) => LOOPBACK.test(hostOf(address)))
    ? hostOf(addresses[0])
    : null;
}

/** Says that other devices do not reach the controller with this token. */
export const Loopback = ({ jwt }) => {
  const host = loopbackIn(jwt);
  return (
    host &&
    html`<p class="warning loopback" role="alert"><i aria-hidden="true"></i><span><${Prose} text=${t.loopback(host)} /></span></p>`
  );
};

/** A token that a client, a person or a router (`who`) has not used yet: until when, to copy and to download, and for a client to scan. */
function Token({ who, name, jwt, expiresAt, hint, line, children }) {
  const isOver = new Date(expiresAt) < new Date();
  if (!jwt)
    return html`<section class="card"><h2>${t.title}</h2><p>${t.until} <${Time} at=${expiresAt} exact />.</p><p>${t.hidden}</p></section>`;
  const { iss, jti } = (who === "person" && claims(jwt)) || {};
  const invitation = jti && `${iss}/#/invitation/${encodeURIComponent(jti)}`;
  return html`<section class="card enrollment"><div>
      <h2>${t.title}</h2>
      <p>${t.until} <${Time} at=${expiresAt} exact />.</p>
      ${line && html`<p>${t.paste}</p><${Command} text=${line} />`}
      <p>${hint}</p><${Loopback} jwt=${jwt} />
      ${invitation && html`<div class="actions"><${Copy} text=${invitation} label=${t.copyInvitation} /></div>`}
      <div class="actions"><${Copy} text=${jwt} /><${Download} name=${t.file(name)} text=${jwt} media="application/jwt" />${children}</div>
      <details><summary>${t.token}</summary><pre class="long" tabindex="0">${jwt}</pre></details>
    </div>
    ${who !== "router" && !isOver && html`<${Code} text=${invitation || jwt} label=${(invitation ? t.qrInvitation : t.qr)(name)} />`}
  </section>`;
}

export function Enrollment({ identity, onChange }) {
  const [error, setError] = useState(null);
  const [isBusy, once] = useOnce();
  const waiting = tokenOf(identity);
  const hasCredential = Object.keys(identity.authenticators || {}).length > 0;
  const expires = () => new Date(Date.now() + DAY).toISOString();
  const run = (path, body) =>
    once(async () => {
      try {
        await ask("POST", path, { body });
        setError(null);
        onChange();
      } catch (reason) {
        setError(reason);
      }
    });
  if (!waiting && (hasCredential || identity.externalId)) return null;
  const mayRefresh = waiting && may("POST", `/enrollments/${waiting.id}/refresh`);
  if (!waiting) {
    return (
      may("POST", "/enrollments") &&
      html`<section class="card"><h2>${t.title}</h2><p>${t.none}</p><${Problem} error=${error} />
      <button type="button" class="button main" disabled=${isBusy} onClick=${() => run("/enrollments", { identityId: identity.id, method: "ott", expiresAt: expires() })}>${t.issue}</button></section>`
    );
  }
  const isPerson = Boolean(identity.enrollment.updb) && waiting === identity.enrollment.updb;
  const line = waiting === identity.enrollment.ott && enrollLine(identity);
  return html`<${Problem} error=${error} /><${Token} who=${isPerson ? "person" : "client"} name=${identity.name} jwt=${waiting.jwt} expiresAt=${waiting.expiresAt} hint=${isPerson ? t.invite : line ? t.scanElse : t.scan} line=${line}>
    ${mayRefresh && html`<button type="button" class="button" disabled=${isBusy} onClick=${() => run(`/enrollments/${waiting.id}/refresh`, { expiresAt: expires() })}>${t.refresh}</button>`}<//>`;
}

/** The file that `ziti router run` reads, for an address of the router. */
function Configuration({ router }) {
  const [found, setFound] = useState({});
  const field = useName("advertise");
  const submit = (event) => {
    event.preventDefault();
    const advertise = event.target.elements.advertise.value.trim();
    get(
      `/overkeep/v1/edge-routers/${encodeURIComponent(router.id)}/configuration?${query({ advertise })}`,
    ).then(
      ({ data }) => setFound({ text: JSON.stringify(data, null, 2) }),
      (error) => setFound({ error }),
    );
  };
  return html`<section class="card"><h2>${t.configuration}</h2><form class="inline" onSubmit=${submit}>
      <label for=${field}>${t.advertise}</label><input id=${field} name="advertise" autocomplete="off" spellcheck=${false} placeholder=${`${router.name}:3022`} />
      <button class="button">${t.make}</button></form><${Problem} error=${found.error} />
    ${found.text && html`<pre class="long" tabindex="0">${found.text}</pre><div class="actions"><${Copy} text=${found.text} /><${Download} name=${`${router.name}.yml`} text=${found.text} media="application/yaml" /></div>`}</section>`;
}

/** The enrollment of a remote router. */
export function RouterEnrollment({ kind, router }) {
  const { name, enrollmentJwt: jwt, enrollmentExpiresAt: expiresAt } = router;
  if (!jwt) return null;
  return html`<${Token} who="router" name=${name} jwt=${jwt} expiresAt=${expiresAt} hint=${html`<${Prose} text=${t.routerHint} />`} />${kind.name === "edge-routers" && html`<${Configuration} router=${router} />`}`;
}
