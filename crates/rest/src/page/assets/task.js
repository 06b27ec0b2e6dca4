// What the short forms of tasks have in common.

import { html } from "./html.js";
import { kind, nameLike } from "./kinds.js";
import { texts } from "./texts.js";
import { useName } from "./parts.js";
import { Picker, roles } from "./picker.js";

/** A field with its hint and the reason why its value is refused. `children` get the members of a control. */
export function TaskField({ name, text, required, errors, children }) {
  const id = useName(name);
  const error = errors.get(name);
  const control = {
    id,
    required,
    "aria-describedby": `${id}-note`,
    "aria-invalid": Boolean(error),
  };
  return html`<div class=${`field ${error ? "wrong" : ""}`}><label for=${id}>${text.label}${required && html` <span class="required">${texts.form.required}</span>`}</label>
    ${children(control)}<p class="hint" id=${`${id}-note`}>${text.hint}</p>${error && html`<p class="error" role="alert">${error}</p>`}</div>`;
}

export const TaskText = ({ value, onChange, ...field }) =>
  html`<${TaskField} ...${field}>${(control) => html`<input type="text" autocomplete="off" spellcheck=${false} autocapitalize="none" ...${control} placeholder=${texts.form.suchAs(field.text.example)} value=${value} onInput=${(event) => onChange(event.target.value)} />`}<//>`;

/** Identities by name, and roles. */
export function TaskWho({ value, onChange, ...field }) {
  const of = kind("identities");
  return html`<${TaskField} ...${field}>${({
    id,
    required,
    "aria-describedby": describedBy,
  }) => html`<${Picker} id=${id} label=${field.text.label} describedBy=${describedBy} required=${required} prefix kind=${of} values=${value} onChange=${onChange}
    example=${texts.form.role(texts.form.suchAs(field.text.example), nameLike(of.name))} suggest=${(text, signal) => roles(of, text, signal)} free=${(text) => (/^#./.test(text) ? text : null)} />`}<//>`;
}

/** Gives the focus to the first field that is refused, once it is drawn. */
export const focusWrong = (place) =>
  requestAnimationFrame(() => place.current?.querySelector(".wrong input, .wrong select")?.focus());
