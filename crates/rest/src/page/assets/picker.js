// A field for one or several values with suggestions: roles, references by name, plain lists.

import { createContext, useContext, useEffect, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { list, literal } from "./api.js";
import { nameOf } from "./kinds.js";
import { nameById } from "./names.js";
import { texts } from "./texts.js";
import { Chip, Icon, isFocusGiven, useCalm, useLoad, useName } from "./parts.js";
import { may, mayCreate, mayList } from "./scope.js";

const MAX_CHOICES = 8;
const t = texts.form;

/** Records of a kind whose name contains a text. */
export const named = (kind, text, signal) =>
  mayList(kind) ? search(kind, text, signal) : Promise.resolve([]);
const search = (kind, text, signal) =>
  list(
    kind.path,
    { filter: text ? `name icontains ${literal(text)}` : "", sort: "name", limit: MAX_CHOICES },
    { signal },
  ).then(({ rows }) => rows.map((row) => ({ value: row.id, label: nameOf(row) })));

const attributes = (path, text, signal) =>
  may("GET", path) ? searchAttributes(path, text, signal) : Promise.resolve([]);
const searchAttributes = (path, text, signal) =>
  list(
    path,
    { filter: text ? `id icontains ${literal(text)}` : "", limit: MAX_CHOICES },
    { signal },
  ).then(({ rows }) => rows);

/** What a list of roles may select: role attributes, single records, all. */
export const roles = (kind, text, signal) => {
  const word = text.replace(/^[#@]/, "");
  const all =
    "all".startsWith(word.toLowerCase()) && !text.startsWith("@")
      ? [{ value: "#all", label: "#all", note: t.everybody }]
      : [];
  const asked = [
    kind.roles && !text.startsWith("@")
      ? attributes(kind.roles, word, signal).then((found) =>
          found.map((role) => ({ value: `#${role}`, label: `#${role}` })),
        )
      : [],
    text.startsWith("#")
      ? []
      : named(kind, word, signal).then((found) =>
          found.map((one) => ({ value: `@${one.value}`, label: one.label, note: kind.one })),
        ),
  ];
  return Promise.all(asked).then((found) => [...all, ...found.flat()]);
};

export const attributesOf = (kind, text, signal) =>
  (kind?.roles ? attributes(kind.roles, text.replace(/^#/, ""), signal) : Promise.resolve([])).then(
    (found) => found.map((role) => ({ value: role, label: `#${role}` })),
  );

/** The label of a value. */
function Label({ value, kind, prefix }) {
  const id = prefix ? (value.startsWith("@") ? value.slice(1) : null) : value;
  const [name, setName] = useState(null);
  useEffect(() => {
    let wanted = true;
    if (kind && id) nameById(kind.name, id).then((found) => wanted && setName(found));
    return () => (wanted = false);
  }, [kind, id]);
  return kind && id ? name || "…" : value;
}

/** A form that can create another record without being left sets this: a function of the kind, the first name, and what takes the new record's id. */
export const Creator = createContext(null);

/** What a field offers that has nothing to choose from. Elsewhere than in a form nothing is lost by going to the page of the kind. */
function Nothing({ kind, text, onMade }) {
  const create = useContext(Creator);
  const label = texts.list.create(kind.one);
  const way = create
    ? html`<button type="button" class="button small" onMouseDown=${(event) => event.preventDefault()} onClick=${() => create(kind, text, onMade)}><${Icon} name="plus" />${label}</button>`
    : html`<a class="button small" href=${`#/${kind.name}/_new`}><${Icon} name="plus" />${label}</a>`;
  return html`<p class="hint nothing"><span>${text ? texts.nothingFound : t.nothing(kind.one)}</span> ${mayCreate(kind) && way}</p>`;
}

/** `suggest` returns the choices for a text; `free` returns the value of any other text, or null. */
export function Picker({
  id,
  label,
  values,
  onChange,
  suggest,
  free,
  single,
  kind,
  prefix,
  disabled,
  describedBy,
  required,
  example,
}) {
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const popup = useName("choices");
  const calm = useCalm(text, 120);
  const [found] = useLoad(
    (signal) => (open && suggest ? suggest(calm, signal) : Promise.resolve(null)),
    [calm, open],
  );
  const [lack, setLack] = useState(null); // the text for which there was no record; it stays said when the field is left
  useEffect(() => {
    if (found && kind && !calm.startsWith("#"))
      setLack(found.some(({ value }) => value !== "#all") ? null : calm.trim().replace(/^@/, ""));
  }, [found]);
  // Until the answer to this text arrives, the answer to the previous one is filtered by it.
  const small = text.trim().toLowerCase().replace(/^[#@]/, "");
  const choices = (found || []).filter(
    (choice) => !values.includes(choice.value) && choice.label.toLowerCase().includes(small),
  );
  const take = (value) => {
    if (value === null || value === undefined || value === "") return;
    onChange(single ? [value] : values.includes(value) ? values : [...values, value]);
    setText("");
    setAt(-1);
    setLack(null);
    if (single) setOpen(false);
  };
  const enter = () =>
    take(
      choices[at]?.value ??
        (text.trim() &&
          (free?.(text.trim()) ??
            choices.find((choice) => choice.label.toLowerCase() === text.trim().toLowerCase())
              ?.value ??
            choices[0]?.value)),
    );
  const pressed = (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setOpen(true);
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (choices.length) setAt((at + step + choices.length) % choices.length);
    } else if (event.key === "Enter" && (text.trim() || at >= 0)) {
      event.preventDefault();
      enter();
    } else if (event.key === "," && free && text.trim()) {
      event.preventDefault();
      enter();
    } else if (event.key === "Backspace" && !text && values.length) onChange(values.slice(0, -1));
    else if (event.key === "Escape" && open) {
      // The dialog around the field stays open.
      event.preventDefault();
      event.stopPropagation();
      setOpen(false);
    }
  };
  const shows = open && choices.length > 0;
  return html`<div class="picker">
    <div class="box" ...${disabled ? { role: "group", "aria-label": label, "aria-describedby": describedBy, "aria-disabled": true } : {}}>
      ${values.map(
        (
          value,
        ) => html`<${Chip} tone=${prefix || kind?.roles === undefined ? (String(value).startsWith("@") ? "one" : "role") : ""}>
        <${Label} value=${value} kind=${kind} prefix=${prefix} />
        ${!disabled && html`<button type="button" aria-label=${texts.removeOf(value)} onClick=${() => onChange(values.filter((other) => other !== value))}><${Icon} name="close" /></button>`}<//>`,
      )}
      ${
        !disabled &&
        !(single && values.length) &&
        html`<input id=${id} role="combobox" aria-autocomplete="list" aria-expanded=${shows} aria-controls=${popup} aria-label=${label} aria-describedby=${describedBy} aria-required=${required}
        aria-activedescendant=${shows && at >= 0 ? `${popup}-${at}` : undefined} autocomplete="off" spellcheck=${false} autocapitalize="none"
        placeholder=${values.length ? "" : example || t.search} value=${text} onInput=${(event) => {
          setText(event.target.value);
          setOpen(true);
          setAt(-1);
        }}
        onFocus=${() => setOpen(!isFocusGiven())} onClick=${() => setOpen(true)} onBlur=${() => {
          setOpen(false);
          if (free && text.trim()) take(free(text.trim()));
        }} onKeyDown=${pressed} />`
      }
    </div>
    ${
      !disabled &&
      html`<ul id=${popup} role="listbox" aria-label=${label} hidden=${!shows}>${
        shows &&
        choices.map(
          (
            choice,
            index,
          ) => html`<li id=${`${popup}-${index}`} role="option" aria-selected=${index === at}
      onMouseDown=${(event) => {
        event.preventDefault();
        take(choice.value);
      }}><span>${choice.label}</span>${choice.note && html`<span class="faint">${choice.note}</span>`}</li>`,
        )
      }</ul>`
    }
  </div>
  ${!disabled && lack !== null && !(single && values.length) && html`<${Nothing} kind=${kind} text=${lack} onMade=${(made) => take(prefix ? `@${made}` : made)} />`}`;
}
