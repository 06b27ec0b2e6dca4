// The field for a filter: a part of a name or an expression of the filter language, with completion and help.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { texts } from "./texts.js";
import { Icon, useCalm, useName } from "./parts.js";

const MAX_COMPLETIONS = 12;
const CALM = 250; // milliseconds without typing before a filter is used
const OPERATORS = [
  "contains",
  "icontains",
  "and",
  "or",
  "not",
  "anyOf(",
  "allOf(",
  "in [",
  "true",
  "false",
  "null",
  "sort by",
];
const t = texts.list;

/** The text of a filter field: `[text, setText]`. `onCalm` gets what was typed; another filter in the address replaces the text. */
export function useFilterText(filter = "", onCalm) {
  const [text, setText] = useState(filter);
  const calm = useCalm(text.trim(), CALM);
  const used = useRef(filter);
  useEffect(() => {
    if (calm === used.current) return;
    used.current = calm;
    onCalm(calm);
  }, [calm]);
  useEffect(() => {
    if (filter === used.current) return;
    used.current = filter;
    setText(filter);
  }, [filter]);
  return [text, setText];
}

function closeHelp(event) {
  if (event.key !== "Escape") return;
  event.currentTarget.open = false;
  event.currentTarget.firstElementChild.focus();
}

export function FilterField({ label, placeholder, fields, value, onInput }) {
  const options = useName("completions");
  const help = useName("help");
  const [, before, word] = /^(.*?)([\w.]*)$/s.exec(value);
  const completions = word
    ? [...fields, ...OPERATORS]
        .filter((candidate) => candidate.startsWith(word) && candidate !== word)
        .slice(0, MAX_COMPLETIONS)
    : [];
  return html`<div class="search">
    <label class="field-search"><${Icon} name="search" /><span class="hidden">${label}</span>
      <input type="search" data-search value=${value} list=${options} aria-describedby=${help} spellcheck=${false} autocapitalize="none"
        placeholder=${placeholder} onInput=${(event) => onInput(event.target.value)} /></label>
    <datalist id=${options}>${completions.map((candidate) => html`<option value=${before + candidate} />`)}</datalist>
    <details class="help" onKeyDown=${closeHelp}><summary>?<span class="hidden"> ${t.fields}</span></summary><p id=${help}>${t.fields} ${fields.map((field, index) => html`${index ? ", " : ""}<code>${field}</code>`)} ${t.operators}</p></details>
  </div>`;
}
