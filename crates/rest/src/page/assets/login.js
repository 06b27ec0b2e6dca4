// Log-in: a password, a certificate, an API token, an external signer or a one-time link, and a one-time code if one is required.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import {
  NotAdministrator,
  acceptInvitation,
  finishLogIn,
  giveCode,
  goToIssuer,
  logIn,
  logOut,
  signers,
  useCode,
  useLink,
  useToken,
} from "./api.js";
import { SetUp } from "./second_factor.js";
import { texts } from "./texts.js";
import { Copy, Problem, focusHeading, useFirstFocus } from "./parts.js";

const t = texts.login;

const WRONG = {
  password: t.wrong,
  cert: t.wrongCertificate,
  token: t.wrongToken,
  link: t.wrongLink,
  code: t.wrongSigner,
};
const WAYS = {
  password: (body) => logIn("password", body),
  cert: () => logIn("cert", {}),
  token: (token) => useToken(token).then(() => []),
  link: useLink,
  code: async (returned) => useCode(returned),
};

const shownError = (error, method = "password") =>
  error instanceof NotAdministrator
    ? new Error(t.notAdmin)
    : error.status === 401
      ? new Error(WRONG[method])
      : error;

function Code({ onError }) {
  const [busy, setBusy] = useState(false);
  const field = useRef();
  useEffect(() => field.current.focus(), []);
  const submit = async (event) => {
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
    <input id="code" ref=${field} inputmode="numeric" autocomplete="one-time-code" required placeholder=${texts.form.suchAs(texts.examples.code)} aria-describedby="code-hint" />
    <p id="code-hint" class="hint">${t.codeHint}</p>
    <button class="button main" disabled=${busy}>${t.confirm}</button>
    <button type="button" class="button" onClick=${logOut}>${texts.cancel}</button>
  </form>`;
}

/** The first password of somebody who was invited. Whoever administers the network is logged in with it at once. */
function Invited({ token, onLogIn, onClose }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [name, setName] = useState(null); // the user name, once the password is set
  const place = useRef();
  useFirstFocus(place);
  const submit = async (event) => {
    event.preventDefault();
    const { password, again } = event.target.elements;
    if (password.value !== again.value) return setError(new Error(t.notSame));
    setBusy(true);
    setError(null);
    try {
      const username = await acceptInvitation(token, password.value);
      setName(username);
      await onLogIn({ username, password: password.value });
    } catch (reason) {
      setError(
        reason.status === 400 && !reason.fields?.has("password")
          ? new Error(t.wrongInvitation)
          : reason,
      );
    }
    return setBusy(false);
  };
  if (name)
    return html`<p role="status">${t.passwordSet(name)}</p><button type="button" class="button" onClick=${onClose}>${t.submit}</button>`;
  return html`<${Problem} error=${error} /><form ref=${place} onSubmit=${submit}>
    <p class="hint">${t.invitedHint}</p>
    <label for="first-password">${t.newPassword}</label>
    <input id="first-password" name="password" type="password" autocomplete="new-password" required />
    <label for="again">${t.passwordAgain}</label>
    <input id="again" name="again" type="password" autocomplete="new-password" required />
    <button class="button main" disabled=${busy}>${t.setPassword}</button>
    <button type="button" class="button" onClick=${onClose}>${texts.cancel}</button></form>`;
}

/** `end` says how the session before was lost and what happened to its changes: `kept`, `dropped`, or `lost` without changes. */
export function Login({ end, link, returned, invitation }) {
  const [asked, setAsked] = useState(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [issuers, setIssuers] = useState([]);
  const [invited, setInvited] = useState(invitation);
  const field = useRef();
  useEffect(() => {
    const before = document.title;
    document.title = `${t.title} – ${texts.product}`;
    field.current?.focus(); // where no invitation is shown
    if (link) enter("link", link);
    if (returned?.error) setError(new Error(t.signerRefused(returned.error)));
    else if (returned) enter("code", returned);
    // Without the list the other ways to log in remain.
    signers().then(setIssuers, () => {});
    return () => {
      document.title = before;
      focusHeading();
    };
  }, []);
  const enter = async (method, given) => {
    setBusy(true);
    setError(null);
    try {
      const queries = await WAYS[method](given);
      const other = queries.find((query) => query.typeId !== "MFA");
      if (other) throw new Error(t.asked(other.typeId || other.format || ""));
      if (queries.length) setAsked(true);
    } catch (reason) {
      setError(shownError(reason, method));
    }
    setBusy(false);
  };
  const submit = (event) => {
    event.preventDefault();
    const { username, password } = event.target.elements;
    enter("password", { username: username.value, password: password.value });
  };
  const leave = async (id) => {
    setBusy(true);
    setError(null);
    await goToIssuer(id).catch((reason) => {
      setError(reason);
      setBusy(false);
    });
  };
  const submitToken = (event) => {
    event.preventDefault();
    enter("token", event.target.elements.token.value.trim());
  };
  return html`<main class="login">
    <div class="card">
      <p class="brand"><img src="/page/icon.svg" alt="" width="40" height="40" />${texts.product}</p>
      <h1>${invited ? t.invited : t.title}</h1>
      ${end && !error && !asked && html`<p class="hint">${t.ended}${end === "lost" ? "" : ` ${t[end]}`}</p>`}
      <${Problem} error=${error} />
      ${
        invited && !asked
          ? html`<${Invited} token=${invited} onLogIn=${(given) => enter("password", given)} onClose=${() => setInvited(null)} />`
          : asked
            ? html`<${Code} onError=${(reason) => {
                setError(shownError(reason));
                if (reason instanceof NotAdministrator) setAsked(null);
              }} />
        <details><summary>${t.noApp}</summary><p class="hint">${t.noAppHint}</p><${SetUp} onDone=${() =>
          finishLogIn().catch((reason) => {
            setAsked(null);
            setError(shownError(reason));
          })} /></details>`
            : html`<form onSubmit=${submit}>
        <label for="username">${t.username}</label>
        <input id="username" ref=${field} name="username" autocomplete="username" autocapitalize="none" spellcheck=${false} required placeholder=${texts.form.suchAs(t.nameExample)} />
        <label for="password">${t.password}</label>
        <input id="password" name="password" type="password" autocomplete="current-password" required />
        <button class="button main" disabled=${busy}>${t.submit}</button>
        <button type="button" class="button" disabled=${busy} onClick=${() => enter("cert")}>${t.certificate}</button>
        ${issuers.map(({ id, name }) => html`<button type="button" class="button" disabled=${busy} onClick=${() => leave(id)}>${t.signer(name)}</button>`)}
      </form>
      <details><summary>${t.token}</summary><form onSubmit=${submitToken}>
        <label for="token">${t.tokenField}</label>
        <input id="token" name="token" type="password" autocomplete="off" spellcheck=${false} required placeholder=${texts.form.suchAs(t.tokenExample)} aria-describedby="token-hint" />
        <p id="token-hint" class="hint">${t.tokenHint}</p>
        <button class="button" disabled=${busy}>${t.submitToken}</button></form></details>`
      }
      <details><summary>${t.lost}</summary><p class="hint">${t.lostHint}</p>${t.commands.map((command) => html`<p class="command"><code>${command}</code><${Copy} text=${command} /></p>`)}</details>
      <p class="links"><a href="/docs">${texts.documents}</a></p>
    </div>
  </main>`;
}
