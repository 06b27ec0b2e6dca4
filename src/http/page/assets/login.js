// Log-in: a password or a certificate, and a one-time code if one is required.

import { html, useEffect, useRef, useState } from './vendor/htm-preact.js';
import { NotAdministrator, giveCode, logIn, logOut } from './api.js';
import { texts } from './texts.js';
import { Copy, Problem } from './parts.js';

const t = texts.login;

const shownError = error => (error instanceof NotAdministrator ? new Error(t.notAdmin) : error.status === 401 ? new Error(t.wrong) : error);

function Code({ onError }) {
  const [busy, setBusy] = useState(false);
  const field = useRef();
  useEffect(() => field.current.focus(), []);
  const submit = async event => {
    event.preventDefault();
    setBusy(true);
    try {
      await giveCode(field.current.value.trim());
    } catch (error) {
      onError(error);
      field.current?.select();
      setBusy(false);
    }
  };
  return html`<form onSubmit=${submit}>
    <label for="code">${t.code}</label>
    <input id="code" ref=${field} inputmode="numeric" autocomplete="one-time-code" required aria-describedby="code-hint" />
    <p id="code-hint" class="hint">${t.codeHint}</p>
    <button class="button main" disabled=${busy}>${t.confirm}</button>
    <button type="button" class="button" onClick=${logOut}>${texts.cancel}</button>
  </form>`;
}

export function Login({ ended }) {
  const [asked, setAsked] = useState(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const field = useRef();
  useEffect(() => {
    document.title = `${t.title} – ${texts.product}`;
    field.current?.focus();
  }, []);
  const enter = async (method, body) => {
    setBusy(true);
    setError(null);
    try {
      const queries = await logIn(method, body);
      const other = queries.find(query => query.typeId !== 'MFA');
      if (other) throw new Error(t.asked(other.typeId || other.format || ''));
      if (queries.length) setAsked(true);
    } catch (reason) {
      setError(shownError(reason));
    }
    setBusy(false);
  };
  const submit = event => {
    event.preventDefault();
    const { username, password } = event.target.elements;
    enter('password', { username: username.value, password: password.value });
  };
  return html`<main class="login">
    <div class="card">
      <p class="brand"><img src="/page/icon.svg" alt="" width="40" height="40" />${texts.product}</p>
      <h1>${t.title}</h1>
      ${ended && !error && !asked && html`<p class="hint">${t.ended}</p>`}
      <${Problem} error=${error} />
      ${asked ? html`<${Code} onError=${reason => { setError(shownError(reason)); if (reason instanceof NotAdministrator) setAsked(null); }} />` : html`<form onSubmit=${submit}>
        <label for="username">${t.username}</label>
        <input id="username" ref=${field} name="username" autocomplete="username" autocapitalize="none" spellcheck=${false} required />
        <label for="password">${t.password}</label>
        <input id="password" name="password" type="password" autocomplete="current-password" required />
        <button class="button main" disabled=${busy}>${t.submit}</button>
        <button type="button" class="button" disabled=${busy} onClick=${() => enter('cert', {})}>${t.certificate}</button>
      </form>`}
      <details><summary>${t.lost}</summary><p><code>${t.command}</code></p><${Copy} text=${t.command} /></details>
      <p class="links"><a href="/docs">${texts.documents}</a></p>
    </div>
  </main>`;
}
