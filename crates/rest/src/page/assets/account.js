// The person who is logged in: who they are, their second factor and their password.

import { useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { ask, currentSession, get, list } from "./api.js";
import { texts } from "./texts.js";
import { Heading, Icon, Loading, Problem, Reference, useLoad, useOnce } from "./parts.js";
import { SecondFactor } from "./second_factor.js";

const t = texts.account;
const PATH = "/current-identity/authenticators";

async function look(signal) {
  const [{ data: identity }, { rows }] = await Promise.all([
    get("/current-identity", { signal }),
    list(PATH, { limit: 100 }, { signal }),
  ]);
  return { identity, password: rows.find(({ method }) => method === "updb") };
}

/** A new password, with the one that it replaces. */
function Password({ authenticator }) {
  const [error, setError] = useState(null);
  const [isDone, setDone] = useState(false);
  const [isBusy, once] = useOnce();
  const submit = (event) => {
    event.preventDefault();
    const form = event.target;
    const { current, password, again } = form.elements;
    setDone(false);
    if (password.value !== again.value) return setError(new Error(texts.login.notSame));
    return once(async () => {
      try {
        await ask("PATCH", `${PATH}/${encodeURIComponent(authenticator.id)}`, {
          body: { currentPassword: current.value, password: password.value },
        });
        setError(null);
        setDone(true);
        form.reset();
      } catch (reason) {
        setError(reason.status === 401 ? new Error(t.wrongPassword) : reason);
      }
    });
  };
  const field = (name, label, complete) =>
    html`<div class="field"><label for=${`own-${name}`}>${label}</label><input id=${`own-${name}`} name=${name} type="password" autocomplete=${complete} required /></div>`;
  return html`<section class="card"><h2>${t.password}</h2><p class="hint">${t.passwordNote(authenticator.username)}</p><${Problem} error=${error} />
    <div role="status">${isDone && html`<p class="quiet"><${Icon} name="check" />${t.passwordChanged}</p>`}</div>
    <form class="fields" onSubmit=${submit}>
      ${field("current", t.current, "current-password")}${field("password", texts.login.newPassword, "new-password")}${field("again", texts.login.passwordAgain, "new-password")}
      <div class="actions"><button class="button main" disabled=${isBusy}>${t.change}</button></div></form></section>`;
}

function Own() {
  const [found, error, again] = useLoad(look, []);
  if (!found)
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  const { identity, password } = found;
  return html`<p>${t.identity} <${Reference} kind="identities" id=${identity.id} name=${identity.name} /></p><${Problem} error=${error} />
    <${SecondFactor} key=${String(identity.isMfaEnabled)} isOn=${identity.isMfaEnabled} onDone=${again} />
    ${password && html`<${Password} authenticator=${password} />`}`;
}

/** An API token has neither a password nor one-time codes. */
export const Account = () =>
  html`<${Heading} title=${t.title} note=${t.note} />${currentSession()?.isToken ? html`<p class="empty">${t.ofToken}</p>` : html`<${Own} />`}`;
