// Forms made from schemas: the schema of each member determines its field.

import { createContext, useContext, useEffect, useMemo, useState } from "./vendor/htm-preact.js";
import { hides, html } from "./html.js";
import { get } from "./api.js";
import {
  describe,
  nameLike,
  referredByText,
  resolve,
  selected,
  sentence,
  typeOf,
  wordOf,
} from "./kinds.js";
import { exampleOf, initial, inlined, variantsOf, wordsOf } from "./schemas.js";
import { texts } from "./texts.js";
import { Icon, Prose, useLoad, useName } from "./parts.js";
import { Invitation } from "./invitation.js";
import { Picker, attributesOf, named, roles } from "./picker.js";

const t = texts.form;
const LONG = /Pem$|PEM|^jwt/;

const errorAt = (errors, path) =>
  errors.get(path) ||
  [...errors].find(([field]) => field.startsWith(`${path}.`) || field.startsWith(`${path}[`))?.[1];

const Faults = createContext(() => {});

/** Whether a field inside `Within` has a text that is not JSON: then the draft has its last valid value, which must not be sent. */
export function useFaults() {
  const [ids, setIds] = useState([]);
  const report = useMemo(
    () => (id, isWrong) =>
      setIds((all) => [...all.filter((other) => other !== id), ...(isWrong ? [id] : [])]),
    [],
  );
  const Within = useMemo(
    () =>
      ({ children }) =>
        html`<${Faults.Provider} value=${report}>${children}<//>`,
    [],
  );
  return [ids.length > 0, Within];
}

function Json({ id, value, onChange, disabled, describedBy, example }) {
  const [text, setText] = useState(() =>
    value === undefined ? "" : JSON.stringify(value, null, 2),
  );
  const [fault, setFault] = useState(null);
  const report = useContext(Faults);
  useEffect(() => {
    if (!fault) return undefined;
    report(id, true);
    return () => report(id, false);
  }, [id, Boolean(fault)]);
  const change = (event) => {
    setText(event.target.value);
    try {
      onChange(event.target.value.trim() ? JSON.parse(event.target.value) : undefined);
      setFault(null);
    } catch (error) {
      setFault(error.message);
    }
  };
  return html`<textarea id=${id} class="code" rows=${Math.min(16, Math.max(4, text.split("\n").length + 1))} spellcheck=${false} disabled=${disabled} aria-describedby=${describedBy} aria-invalid=${Boolean(fault)} placeholder=${example} value=${text} onInput=${change}></textarea>
    ${fault && html`<p class="error" role="alert">${t.notJson(fault)}</p>`}`;
}

/** A map from names to values: tags, costs by service. */
function Entries({ id, label, member, value, onChange, schema, disabled }) {
  const inner =
    resolve(schema.additionalProperties === true ? {} : schema.additionalProperties) || {};
  const [rows, setRows] = useState(() => Object.entries(value || {}));
  const change = (next) => {
    setRows(next);
    onChange(Object.fromEntries(next.filter(([key]) => key)));
  };
  const read = (text) => {
    if (typeOf(inner) === "string" && !Array.isArray(inner.type)) return text;
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  };
  const shown = (item) => (typeof item === "string" ? item : JSON.stringify(item));
  const example = (at) =>
    t.suchAs(
      (Object.hasOwn(texts.entries, member) ? texts.entries[member] : texts.entries.tags)[at],
    );
  return html`<div class="entries" id=${id} role="group" aria-label=${label}>${rows.map(
    ([key, item], index) => html`<div>
      <input aria-label=${`${label}: ${t.key}`} placeholder=${example(0)} value=${key} disabled=${disabled} onInput=${(event) => change(rows.map((row, at) => (at === index ? [event.target.value, row[1]] : row)))} />
      <input aria-label=${`${label}: ${t.value}`} placeholder=${example(1)} value=${shown(item)} disabled=${disabled} onInput=${(event) => change(rows.map((row, at) => (at === index ? [row[0], read(event.target.value)] : row)))} />
      <button type="button" class="plain-button" aria-label=${texts.removeOf(key || label)} onClick=${() => change(rows.filter((_, at) => at !== index))}><${Icon} name="close" /></button></div>`,
  )}
    ${!disabled && html`<button type="button" class="button small" onClick=${() => setRows([...rows, ["", ""]])}><${Icon} name="plus" />${t.addEntry}</button>`}</div>`;
}

function Items({ label, path, schema, value, onChange, errors, disabled }) {
  const items = value || [];
  return html`<div class="items">${items.map(
    (item, index) => html`<fieldset key=${index}><legend>${label} ${index + 1}</legend>
      <${ObjectFields} schema=${resolve(schema.items)} value=${item} path=${`${path}.${index}`} errors=${errors} disabled=${disabled} onChange=${(next) => onChange(items.map((old, at) => (at === index ? next : old)))} />
      <button type="button" class="button small" onClick=${() => onChange(items.filter((_, at) => at !== index))}>${texts.remove}</button></fieldset>`,
  )}
    ${!disabled && html`<button type="button" class="button small" onClick=${() => onChange([...items, initial(schema.items)])}><${Icon} name="plus" />${t.addItem}</button>`}</div>`;
}

const local = (text) => {
  const date = new Date(text);
  return text && !Number.isNaN(date.getTime())
    ? new Date(date - date.getTimezoneOffset() * 60000).toISOString().slice(0, 16)
    : "";
};

/** Data described by the schema of another record, whose id is in a member beside it. */
function Fitting({ of, children }) {
  const [found] = useLoad(
    (signal) =>
      get(`${of.kind.path}/${encodeURIComponent(of.id)}`, { signal }).then(
        ({ data }) => data.schema,
      ),
    [of.id],
  );
  const form = useMemo(() => found && inlined(found, found.definitions), [found]);
  return children(found, form);
}

function Data({
  id,
  member,
  path,
  schema,
  value,
  onChange,
  errors,
  disabled,
  describedBy,
  draft,
  example,
}) {
  const [asJson, setAsJson] = useState(false);
  const owner = Object.entries(draft || {})
    .map(([name, other]) => ({
      kind: typeof other === "string" && name !== member ? referredByText(name) : null,
      id: other,
    }))
    .find(({ kind }) => kind?.shown?.properties?.schema);
  if (!owner?.id)
    return html`<${Json} id=${id} value=${value} onChange=${onChange} disabled=${disabled} describedBy=${describedBy} example=${example} />`;
  return html`<${Fitting} of=${owner}>${(found, form) => {
    const simple =
      found?.properties &&
      Object.values(found.properties).every(
        (inner) => !inner.$ref || inner.$ref.startsWith("#/definitions/"),
      );
    if (!simple || asJson)
      return html`<${Json} key=${`${owner.id}-${asJson}`} id=${id} value=${value} onChange=${onChange} disabled=${disabled} describedBy=${describedBy} example=${example} />
      ${simple && html`<button type="button" class="button small" onClick=${() => setAsJson(false)}>${t.asForm}</button>`}`;
    return html`<div role="group" aria-labelledby=${`${id}-label`}><${ObjectFields} schema=${form} value=${value || {}} path=${path} errors=${errors} disabled=${disabled} onChange=${onChange} /></div>
      <button type="button" class="button small" onClick=${() => setAsJson(true)}>${t.asJson}</button>`;
  }}<//>`;
}

function Text({
  id,
  member,
  schema,
  value,
  onChange,
  disabled,
  describedBy,
  invalid,
  required,
  example,
}) {
  const common = {
    id,
    disabled,
    placeholder: example,
    "aria-describedby": describedBy,
    "aria-invalid": invalid,
    required,
  };
  const typed = (event) => onChange(event.target.value);
  if (/password/i.test(member) && typeOf(schema) === "string")
    return html`<input type="password" autocomplete="new-password" ...${common} value=${value ?? ""} onInput=${typed} />`;
  if (schema.format === "date-time")
    return html`<input type="datetime-local" ...${common} value=${local(value)} onInput=${(event) => onChange(event.target.value ? new Date(event.target.value).toISOString() : "")} />`;
  if (LONG.test(member) || LONG.test(schema.description || ""))
    return html`<textarea class="code" rows="6" spellcheck=${false} ...${common} value=${value ?? ""} onInput=${typed}></textarea>`;
  return html`<input type="text" autocomplete="off" spellcheck=${false} ...${common} value=${value ?? ""} onInput=${typed} />`;
}

function Control(props) {
  const {
    id,
    label,
    member,
    path,
    schema,
    value,
    onChange,
    disabled,
    describedBy,
    errors,
    kind,
    required,
    example,
  } = props;
  const type = typeOf(schema);
  const words = wordsOf(schema) || texts.choices[`${kind?.name}.${member}`];
  const common = { id, disabled, "aria-describedby": describedBy };
  if (words) {
    return html`<select ...${common} value=${value ?? ""} onChange=${(event) => onChange(event.target.value || undefined)}>
      ${!required && html`<option value="" selected=${!value}></option>`}${required && value === undefined && html`<option value="" selected>${t.choose}</option>`}
      ${words.map((word) => html`<option value=${word} selected=${word === value}>${wordOf(member, word)}</option>`)}</select>`;
  }
  if (type === "boolean")
    return html`<input type="checkbox" role="switch" ...${common} checked=${Boolean(value)} onChange=${(event) => onChange(event.target.checked)} />`;
  if (type === "integer" || type === "number") {
    return html`<input type="number" ...${common} step=${type === "integer" ? 1 : "any"} min=${schema.minimum} max=${schema.maximum} placeholder=${example} value=${value ?? ""} onInput=${(event) => onChange(event.target.value === "" ? undefined : Number(event.target.value))} />`;
  }
  const picked = { id, label, disabled, describedBy, required, onChange, example };
  const ofKind = (target) => ({ kind: target, example: t.suchAs(nameLike(target.name)) });
  if (type === "array") {
    const item = resolve(schema.items) || {};
    if (selected(member))
      return html`<${Picker} ...${picked} example=${t.role(example, nameLike(selected(member).name))} prefix kind=${selected(member)} values=${value || []} suggest=${(text, signal) => roles(selected(member), text, signal)} free=${(text) => (/^[#@]/.test(text) ? text : null)} />`;
    if (member === "roleAttributes" || member.endsWith("Roles"))
      return html`<${Picker} ...${picked} values=${value || []} suggest=${(text, signal) => attributesOf(kind, text, signal)} free=${(text) => text.replace(/^#/, "")} />`;
    const itemWords = wordsOf(item);
    if (itemWords)
      return html`<${Picker} ...${picked} values=${value || []} suggest=${async (text) => itemWords.filter((word) => word.toLowerCase().includes(text.toLowerCase())).map((word) => ({ value: word, label: word }))} />`;
    if (typeOf(item) === "object")
      return html`<${Items} label=${label} path=${path} schema=${schema} value=${value} onChange=${onChange} errors=${errors} disabled=${disabled} />`;
    const target = referredByText(member);
    if (target)
      return html`<${Picker} ...${picked} ...${ofKind(target)} values=${value || []} suggest=${(text, signal) => named(target, text, signal)} />`;
    const read = (text) =>
      ["integer", "number"].includes(typeOf(item))
        ? Number.isFinite(Number(text))
          ? Number(text)
          : null
        : text;
    return html`<${Picker} ...${picked} values=${value || []} free=${read} />`;
  }
  if (member === "enrollment" && kind?.name === "identities")
    return html`<${Invitation} id=${id} value=${value} onChange=${onChange} describedBy=${describedBy} name=${props.draft?.name} />`;
  if (type === "object" && schema.properties)
    return html`<${ObjectFields} schema=${schema} value=${value || {}} path=${path} errors=${errors} disabled=${disabled} onChange=${onChange} />`;
  if (type === "object" && schema.additionalProperties && schema.additionalProperties !== true)
    return html`<${Entries} ...${props} />`;
  if (type === "object" || !type) return html`<${Data} ...${props} />`;
  const target = referredByText(member);
  if (target)
    return html`<${Picker} ...${picked} ...${ofKind(target)} single values=${value ? [value] : []} suggest=${(text, signal) => named(target, text, signal)} onChange=${(values) => onChange(values[0] || "")} />`;
  return html`<${Text} ...${props} />`;
}

export function Field(props) {
  const { member, path, errors, required, fixed } = props;
  const schema = resolve(props.schema) || {};
  const id = useName("field");
  const label = sentence(member);
  const error = errorAt(errors, path);
  const isGroup =
    typeOf(schema) === "object" &&
    schema.properties &&
    !(member === "enrollment" && props.kind?.name === "identities");
  const described = describe(props.kind, member, schema);
  const isSwitch = typeOf(schema) === "boolean";
  const describedBy = `${id}-note`;
  const control = html`<${Control} ...${props} id=${id} label=${label} schema=${schema} describedBy=${describedBy} example=${t.suchAs(exampleOf(props.kind, member, schema))} invalid=${Boolean(error)} disabled=${props.disabled || fixed} />`;
  const note = html`<p class="hint" id=${describedBy}><${Prose} text=${described} />${fixed && ` ${t.setOnce}`}</p>`;
  const fault = error && !isGroup && html`<p class="error" role="alert">${error}</p>`;
  const isHiding = typeof props.value === "string" && hides(props.value.replace(/\r?\n/g, ""));
  const seen = isHiding && html`<p class="hint">${t.hiding} <code>${props.value}</code></p>`;
  if (isGroup)
    return html`<fieldset class="field"><legend>${label}</legend>${note}${control}</fieldset>`;
  if (isSwitch)
    return html`<div class="field switch">${control}<label for=${id}>${label}</label>${note}${fault}</div>`;
  return html`<div class=${`field ${error ? "wrong" : ""}`}><label id=${`${id}-label`} for=${id}>${label}${required && html` <span class="required">${t.required}</span>`}</label>${control}${seen}${note}${fault}</div>`;
}

/** The fields of an object: first the name, or whether a method is allowed, and what is required, then what decides about access, and the others in a closed fold. Switches and times come after texts: they have a value. */
export function ObjectFields({
  schema,
  value,
  onChange,
  errors,
  path = "",
  kind,
  fixed = [],
  disabled,
  folds,
}) {
  const variants = variantsOf(schema);
  const variant = variants?.[1].get(value[variants[0]]);
  const members = { ...schema.properties, ...variant?.properties };
  const required = new Set([...(schema.required || []), ...(variant?.required || [])]);
  const set = (member) => (next) => onChange({ ...value, [member]: next });
  const field = (
    member,
  ) => html`<${Field} key=${`${variant ? value[variants[0]] : ""}${member}`} member=${member} path=${path ? `${path}.${member}` : member} schema=${members[member]} value=${value[member]} onChange=${set(member)}
    errors=${errors} kind=${kind} required=${required.has(member)} fixed=${fixed.includes(member)} disabled=${disabled} draft=${value} />`;
  const upfront = (!path && texts.upfront[kind?.name]) || [];
  const unasked = (!path && texts.unasked[kind?.name]) || [];
  const names = Object.keys(members).filter(
    (member) => member !== variants?.[0] && !unasked.includes(member),
  );
  const isFirst = (member) =>
    !folds ||
    required.has(member) ||
    /[rR]oles$|^roleAttributes$/.test(member) ||
    member === "enrollment" ||
    upfront.includes(member) ||
    (referredByText(member) && Array.isArray(value[member]));
  const rank = (member) =>
    /^(name|allowed)$/.test(member)
      ? 0
      : !required.has(member)
        ? 4
        : typeOf(resolve(members[member])) === "boolean"
          ? 3
          : resolve(members[member]).format === "date-time"
            ? 2
            : 1;
  names.sort((a, b) => rank(a) - rank(b));
  const rest = names.filter((member) => !isFirst(member));
  const tag =
    variants &&
    html`<div class="field"><label for=${`tag-${path}`}>${sentence(variants[0])} <span class="required">${t.required}</span></label>
    <select id=${`tag-${path}`} value=${value[variants[0]] ?? ""} disabled=${fixed.includes(variants[0])} onChange=${(
      event,
    ) => {
      const next = variants[1].get(event.target.value);
      const common = Object.fromEntries(
        Object.entries(value).filter(([member]) => schema.properties?.[member]),
      );
      onChange({ ...common, ...initial(next), [variants[0]]: event.target.value });
    }}><option value="" selected=${!variant}>${t.choose}</option>${[...variants[1].keys()].map((word) => html`<option value=${word} selected=${word === value[variants[0]]}>${wordOf(variants[0], word)}</option>`)}</select>
    <p class="hint"><${Prose} text=${variant?.description} /></p></div>`;
  return html`<div class="fields">${tag}${names.filter(isFirst).map(field)}
    ${rest.length > 0 && html`<details class="fold" open=${rest.some((member) => errorAt(errors, member))}><summary>${texts.more}</summary>${rest.map(field)}</details>`}</div>`;
}
