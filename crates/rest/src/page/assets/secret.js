// A secret that the controller shows once: a dialog that closes only when the person says that it is stored.

import { useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { sentence } from "./kinds.js";
import { texts } from "./texts.js";
import { Copy, Dialog, useIsIn } from "./parts.js";

const t = texts.secret;

/** `secrets` are pairs of a member and its value. While nobody is logged in, the dialog and its secrets are not in the document. */
export function Secret({ title, secrets, onStored }) {
  const isIn = useIsIn();
  const [isAsked, setAsked] = useState(false);
  if (!isIn) return null;
  return html`<${Dialog} title=${title} onClose=${() => setAsked(true)}><p>${t.onlyNow}</p>
    ${secrets.map(([member, value]) => html`<div class="field"><strong>${sentence(member)}</strong><pre class="long whole" tabindex="0">${value}</pre><${Copy} text=${value} /></div>`)}
    ${isAsked && html`<p class="error" role="alert">${t.sure}</p>`}
    <div class="actions">${
      isAsked
        ? html`<button type="button" class="button main" onClick=${() => setAsked(false)}>${t.keep}</button><button type="button" class="button danger" onClick=${onStored}>${t.close}</button>`
        : html`<button type="button" class="button main" onClick=${onStored}>${t.stored}</button>`
    }</div><//>`;
}
