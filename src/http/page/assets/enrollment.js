// The enrollment of an identity or a router: its token to copy, download or scan, and its state until the client is enrolled.

import { html, useEffect, useState } from './vendor/htm-preact.js';
import { generate } from './vendor/lean-qr.js';
import { ask, get, query } from './api.js';
import { texts } from './texts.js';
import { Copy, Icon, Problem, Prose, useName } from './parts.js';
import { Time } from './times.js';

const t = texts.enrollment;
const DAY = 86400000;
const QUIET_ZONE = 4;
const NARROW = 480; // pixels

/** The code as one path of an SVG. A module has a whole number of pixels, because a camera cannot read some codes with modules of unequal sizes. */
function Code({ text, name }) {
  const code = generate(text);
  let path = '';
  for (let y = 0; y < code.size; y++) {
    for (let x = 0; x < code.size; x++) if (code.get(x, y)) path += `M${x} ${y}h1v1h-1z`;
  }
  const size = code.size + 2 * QUIET_ZONE;
  const width = size * (innerWidth < NARROW ? 2 : 3);
  return html`<svg class="qr" width=${width} viewBox=${`${-QUIET_ZONE} ${-QUIET_ZONE} ${size} ${size}`} role="img" aria-label=${t.qr(name)} shape-rendering="crispEdges">
    <rect x=${-QUIET_ZONE} y=${-QUIET_ZONE} width=${size} height=${size} fill="#fff" /><path d=${path} fill="#000" /></svg>`;
}

function Download({ name, text, media }) {
  const [address, setAddress] = useState();
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([text], { type: media }));
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [text]);
  return html`<a class="button" href=${address} download=${name}>${texts.download}</a>`;
}

/** A token that a client or a router (`who`) has not used yet: until when, to copy and to download, and for a client to scan. */
function Token({ who, name, jwt, expiresAt, hint, children }) {
  const isOver = new Date(expiresAt) < new Date();
  return html`<section class="card enrollment"><div>
      <h2>${t.title}</h2>
      <p role="status" class=${isOver ? 'warning' : 'waiting'}><i aria-hidden="true"></i>${isOver ? t.ended : t.waiting[who]}</p>
      <p>${t.until} <${Time} at=${expiresAt} exact />.</p>
      <p>${hint}</p>
      <div class="actions"><${Copy} text=${jwt} /><${Download} name=${t.file(name)} text=${jwt} media="application/jwt" />${children}</div>
      <details><summary>${t.token}</summary><pre class="long" tabindex="0">${jwt}</pre></details>
    </div>
    ${who === 'client' && !isOver && html`<${Code} text=${jwt} name=${name} />`}
  </section>`;
}

export function Enrollment({ identity, onChange }) {
  const [error, setError] = useState(null);
  // The one that is valid for the longest time.
  const [waiting] = Object.values(identity.enrollment || {}).sort((one, other) => other.expiresAt.localeCompare(one.expiresAt));
  const hasCredential = Object.keys(identity.authenticators || {}).length > 0;
  const expires = () => new Date(Date.now() + DAY).toISOString();
  const run = async (path, body) => {
    try {
      await ask('POST', path, { body });
      setError(null);
      onChange();
    } catch (reason) {
      setError(reason);
    }
  };
  if (!waiting && hasCredential) return html`<p class="quiet"><${Icon} name="check" />${t.done}</p>`;
  if (!waiting && identity.externalId) return null;
  if (!waiting) {
    return html`<section class="card"><h2>${t.title}</h2><p>${t.none}</p><${Problem} error=${error} />
      <button type="button" class="button main" onClick=${() => run('/enrollments', { identityId: identity.id, method: 'ott', expiresAt: expires() })}>${t.issue}</button></section>`;
  }
  return html`<${Problem} error=${error} /><${Token} who="client" name=${identity.name} jwt=${waiting.jwt} expiresAt=${waiting.expiresAt} hint=${t.scan}>
    <button type="button" class="button" onClick=${() => run(`/enrollments/${waiting.id}/refresh`, { expiresAt: expires() })}>${t.refresh}</button><//>`;
}

/** The file that `ziti router run` reads, for an address of the router. */
function Configuration({ router }) {
  const [found, setFound] = useState({});
  const field = useName('advertise');
  const submit = event => {
    event.preventDefault();
    const advertise = event.target.elements.advertise.value.trim();
    get(`/overkeep/v1/edge-routers/${encodeURIComponent(router.id)}/configuration?${query({ advertise })}`).then(({ data }) => setFound({ text: JSON.stringify(data, null, 2) }), error => setFound({ error }));
  };
  return html`<section class="card"><h2>${t.configuration}</h2><form class="inline" onSubmit=${submit}>
      <label for=${field}>${t.advertise}</label><input id=${field} name="advertise" autocomplete="off" spellcheck=${false} placeholder=${`${router.name}:3022`} />
      <button class="button">${t.make}</button></form><${Problem} error=${found.error} />
    ${found.text && html`<pre class="long" tabindex="0">${found.text}</pre><div class="actions"><${Copy} text=${found.text} /><${Download} name=${`${router.name}.yml`} text=${found.text} media="application/yaml" /></div>`}</section>`;
}

/** The enrollment of a remote router. */
export function RouterEnrollment({ kind, router }) {
  const { name, enrollmentJwt: jwt, enrollmentExpiresAt: expiresAt } = router;
  if (!jwt) return router.isVerified && html`<p class="quiet"><${Icon} name="check" />${t.routerDone}</p>`;
  return html`<${Token} who="router" name=${name} jwt=${jwt} expiresAt=${expiresAt} hint=${html`<${Prose} text=${t.routerHint} />`} />${kind.name === 'edge-routers' && html`<${Configuration} router=${router} />`}`;
}
