// One-time codes of the person who is logged in, or who may log in only with them: set up, recovery codes, removal.

import { useRef, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { ask, get } from "./api.js";
import { texts } from "./texts.js";
import { Code, Download } from "./enrollment.js";
import { Copy, Icon, Problem, useFirstFocus, useOnce } from "./parts.js";

const t = texts.secondFactor;
const PATH = "/current-identity/mfa";

/** Recovery codes, to keep. */
const Recovery = ({
  codes,
}) => html`<p><strong>${t.recovery}</strong></p><p class="hint">${t.recoveryHint}</p><pre class="long whole" tabindex="0">${codes.join("\n")}</pre>
  <div class="actions"><${Copy} text=${codes.join("\n")} /><${Download} name=${t.file} text=${codes.join("\n")} media="text/plain" /></div>`;

/** Asks for a code. `label` is that of the button. */
export function CodeForm({ label, onCode, danger }) {
  const [error, setError] = useState(null);
  const [isBusy, once] = useOnce();
  const place = useRef();
  useFirstFocus(place);
  const submit = (event) => {
    event.preventDefault();
    const field = event.target.elements.code;
    once(async () => {
      try {
        setError(null);
        await onCode(field.value.trim());
      } catch (reason) {
        setError(reason);
        field.select();
      }
    });
  };
  return html`<${Problem} error=${error} /><form class="inline" ref=${place} onSubmit=${submit}>
    <label for="own-code">${texts.login.code}</label><input id="own-code" name="code" inputmode="numeric" autocomplete="one-time-code" required placeholder=${texts.form.suchAs(texts.examples.code)} />
    <button class=${`button ${danger ? "danger" : "main"}`} disabled=${isBusy}>${label}</button></form>`;
}

/** From nothing to codes that work: the secret for an app, the recovery codes, and a first code as the proof that the app has the secret. */
export function SetUp({ onDone }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const [isBusy, once] = useOnce();
  const begin = () =>
    once(async () => {
      try {
        // An earlier attempt that was not finished goes on.
        await ask("POST", PATH).catch((reason) => {
          if (reason.status !== 409) throw reason;
        });
        const { data } = await get(PATH);
        if (!data.provisioningUrl) throw new Error(t.exists);
        setError(null);
        setFound(data);
      } catch (reason) {
        setError(reason);
      }
    });
  if (!found)
    return html`<${Problem} error=${error} /><button type="button" class="button main" disabled=${isBusy} onClick=${begin}>${t.begin}</button>`;
  const secret = new URL(found.provisioningUrl).searchParams.get("secret");
  return html`<p>${t.scan}</p><${Code} text=${found.provisioningUrl} label=${t.qr} />
    <details><summary>${t.bySecret}</summary><pre class="long whole" tabindex="0">${secret}</pre></details>
    <${Recovery} codes=${found.recoveryCodes || []} />
    <p>${t.prove}</p><${CodeForm} label=${texts.login.confirm} onCode=${(code) => ask("POST", `${PATH}/verify`, { body: { code } }).then(onDone)} />`;
}

/** What the person can do with codes that work. */
function Working({ onDone }) {
  const [now, setNow] = useState(null); // what a code is asked for
  const [codes, setCodes] = useState(null);
  const headers = (code) => ({ headers: { "mfa-validation-code": code } });
  const renew = async (code) => {
    await ask("POST", `${PATH}/recovery-codes`, { body: { code } });
    setCodes((await get(`${PATH}/recovery-codes`, headers(code))).data.recoveryCodes);
    setNow(null);
  };
  const remove = (code) => ask("DELETE", PATH, headers(code)).then(onDone);
  return html`<p class="quiet"><${Icon} name="check" />${t.works}</p>
    ${codes && html`<${Recovery} codes=${codes} />`}
    ${
      now === "renew"
        ? html`<p>${t.renewHint}</p><${CodeForm} key="renew" label=${t.renew} onCode=${renew} />`
        : now === "remove"
          ? html`<p>${t.removeHint}</p><${CodeForm} key="remove" danger label=${t.remove} onCode=${remove} />`
          : html`<div class="actions"><button type="button" class="button" onClick=${() => setNow("renew")}>${t.renew}</button><button type="button" class="button danger" onClick=${() => setNow("remove")}>${t.remove}</button></div>`
    }`;
}

export const SecondFactor = ({ isOn, onDone }) =>
  html`<section class="card"><h2>${t.title}</h2><p class="hint">${t.note}</p>${isOn ? html`<${Working} onDone=${onDone} />` : html`<${SetUp} onDone=${onDone} />`}</section>`;
