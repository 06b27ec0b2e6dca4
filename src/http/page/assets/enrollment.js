// The enrollment of an identity: its token to copy, download or scan, and its state until the client is enrolled.

import { html, useEffect, useRef, useState } from './vendor/htm-preact.js';
import { generate } from './vendor/lean-qr.js';
import { ask } from './api.js';
import { texts } from './texts.js';
import { Copy, Icon, Problem, Time } from './parts.js';

const t = texts.enrollment;
const DAY = 86400000;
const QUIET_ZONE = 4;

/** The code as one path of an SVG, a unit for each module. */
function Code({ text, name }) {
  const code = generate(text);
  let path = '';
  for (let y = 0; y < code.size; y++) {
    for (let x = 0; x < code.size; x++) if (code.get(x, y)) path += `M${x} ${y}h1v1h-1z`;
  }
  const size = code.size + 2 * QUIET_ZONE;
  return html`<svg class="qr" viewBox=${`${-QUIET_ZONE} ${-QUIET_ZONE} ${size} ${size}`} role="img" aria-label=${t.qr(name)} shape-rendering="crispEdges">
    <rect x=${-QUIET_ZONE} y=${-QUIET_ZONE} width=${size} height=${size} fill="#fff" /><path d=${path} fill="#000" /></svg>`;
}

function Download({ name, text }) {
  const place = useRef();
  const [address, setAddress] = useState();
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([text], { type: 'application/jwt' }));
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [text]);
  return html`<a ref=${place} class="button" href=${address} download=${t.file(name)}>${texts.download}</a>`;
}

export function Enrollment({ identity, onChange }) {
  const [error, setError] = useState(null);
  const waiting = Object.values(identity.enrollment || {})[0];
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
  const isOver = new Date(waiting.expiresAt) < new Date();
  return html`<section class="card enrollment"><div>
      <h2>${t.title}</h2>
      <p role="status" class=${isOver ? 'warning' : 'waiting'}><i aria-hidden="true"></i>${isOver ? t.ended : t.waiting}</p>
      <p>${t.until} <${Time} at=${waiting.expiresAt} exact />.</p>
      <p>${t.scan}</p>
      <div class="actions"><${Copy} text=${waiting.jwt} /><${Download} name=${identity.name} text=${waiting.jwt} />
        <button type="button" class="button" onClick=${() => run(`/enrollments/${waiting.id}/refresh`, { expiresAt: expires() })}>${t.refresh}</button></div>
      <${Problem} error=${error} />
      <details><summary>${t.token}</summary><pre class="long" tabindex="0">${waiting.jwt}</pre></details>
    </div>
    ${!isOver && html`<${Code} text=${waiting.jwt} name=${identity.name} />`}
  </section>`;
}
