// How a new identity gets its first credential: one of the methods, with what it needs.

import { useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { kind, nameLike } from "./kinds.js";
import { texts } from "./texts.js";
import { useName } from "./parts.js";
import { Picker, named } from "./picker.js";

const t = texts.invitation;
const METHODS = ["ott", "updb", "ottca", "none"];

/** The value is that of the member `enrollment`: `{ ott: true }`, `{ updb: user name }`, `{ ottca: id of an authority }`, or nothing. */
export function Invitation({ id, value, onChange, describedBy, name }) {
  const [method, setMethod] = useState(() => METHODS.find((one) => value?.[one]) || "none");
  const field = useName("invited");
  const set = (next, text) => {
    setMethod(next);
    onChange(next === "none" ? undefined : { [next]: next === "ott" ? true : text });
  };
  return html`<select id=${id} value=${method} aria-describedby=${describedBy} onChange=${(event) => set(event.target.value, event.target.value === "updb" ? name || "" : "")}>
      ${METHODS.map((one) => html`<option value=${one} selected=${one === method}>${t.methods[one]}</option>`)}</select>
    <p class="hint">${t.means[method]}</p>
    ${
      method === "updb" &&
      html`<div class="field"><label for=${field}>${texts.login.username}</label>
      <input id=${field} type="text" autocomplete="off" spellcheck=${false} autocapitalize="none" placeholder=${texts.form.suchAs(texts.examples.username)} value=${value?.updb ?? ""} onInput=${(event) => set("updb", event.target.value)} /></div>`
    }
    ${
      method === "ottca" &&
      html`<div class="field"><label for=${field}>${texts.members.caId}</label>
      <${Picker} id=${field} label=${texts.members.caId} single kind=${kind("cas")} example=${texts.form.suchAs(nameLike("cas"))} values=${value?.ottca ? [value.ottca] : []}
        suggest=${(text, signal) => named(kind("cas"), text, signal)} onChange=${(values) => set("ottca", values[0] || "")} /></div>`
    }`;
}
