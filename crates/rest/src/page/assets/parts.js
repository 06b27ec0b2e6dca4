// Components that every page uses.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { html, visible } from "./html.js";
import { currentSession, onSession } from "./api.js";
import { texts } from "./texts.js";
import { meant, sentence, wordOf } from "./kinds.js";
import { nameById } from "./names.js";
import { Time } from "./times.js";

const PATHS = {
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z",
  access:
    "M5 6a2 2 0 1 0 4 0 2 2 0 1 0-4 0M15 18a2 2 0 1 0 4 0 2 2 0 1 0-4 0M15 6a2 2 0 1 0 4 0 2 2 0 1 0-4 0M9 6h6M8 8l8 8",
  live: "M3 12h4l3-8 4 16 3-8h4",
  history: "M12 7v5l3 2M4 12a8 8 0 1 0 2.5-5.8L4 8.5M4 4v4.5h4.5",
  care: "M12 20s-7-4.4-7-10V5l7-2 7 2v5c0 5.6-7 10-7 10zM9 11l2 2 4-4",
  records: "M5 5h14v4H5zM5 9v10h14V9M9 13h6",
  search: "M4 11a7 7 0 1 0 14 0 7 7 0 1 0-14 0M16 16l4 4",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  plus: "M12 5v14M5 12h14",
  arrow: "M9 6l6 6-6 6",
  out: "M10 5H5v14h5M10 12h10M16 8l4 4-4 4",
  book: "M5 4h11a3 3 0 0 1 3 3v13H8a3 3 0 0 1-3-3zM5 17a3 3 0 0 1 3-3h11",
  clock: "M12 7v5l3 2M4 12a8 8 0 1 0 16 0 8 8 0 1 0-16 0",
  theme: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  account: "M8 8a4 4 0 1 0 8 0 4 4 0 1 0-8 0M4 20c1-4 4-6 8-6s7 2 8 6",
  words: "M9 9a3 3 0 1 1 4 2.8c-.7.3-1 .8-1 1.7M12 17v.5M4 12a8 8 0 1 0 16 0 8 8 0 1 0-16 0",
  check: "M5 12l5 5 9-10",
  warning: "M12 4l9 16H3zM12 10v4M12 17v.5",
};

export const Icon = ({ name }) =>
  html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name] || PATHS.records} /></svg>`;

let ids = 0;
export const useName = (prefix) => useState(() => `${prefix}-${++ids}`)[0];

/** A loaded value: `[value, error, again]`. The answer to an outdated request is ignored. `again` waits for a request in progress, so that frequent calls do not keep restarting it. */
export function useLoad(question, inputs) {
  const [state, setState] = useState({});
  const [round, setRound] = useState(0);
  const now = useRef({});
  useEffect(() => {
    const abort = new AbortController();
    const mine = { busy: true, isWanted: false };
    now.current = mine;
    const finish = (next) => {
      if (abort.signal.aborted) return;
      setState(next);
      mine.busy = false;
      if (mine.isWanted) setRound((last) => last + 1);
    };
    question(abort.signal).then(
      (value) => finish({ value }),
      (error) => finish((old) => ({ value: old.value, error })),
    );
    return () => abort.abort();
  }, [...inputs, round]);
  const again = () => {
    if (now.current.busy) now.current.isWanted = true;
    else setRound((last) => last + 1);
  };
  return [state.value, state.error, again];
}

/** Sends one request at a time: `[isBusy, once]`. `isBusy` disables the buttons that send; until they are drawn anew, `once` ignores a second click. */
export function useOnce() {
  const [isBusy, setBusy] = useState(false);
  const running = useRef(false);
  const set = (value) => {
    running.current = value;
    setBusy(value);
  };
  const once = (send) => {
    if (running.current) return;
    set(true);
    send().finally(() => set(false));
  };
  return [isBusy, once];
}

/** Whether a session is open. */
export function useIsIn() {
  const [isIn, setIn] = useState(Boolean(currentSession()?.complete));
  useEffect(() => onSession((session) => setIn(Boolean(session?.complete))), []);
  return isIn;
}

/** The last value that stayed unchanged for some time. */
export function useCalm(value, milliseconds) {
  const [calm, setCalm] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setCalm(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value]);
  return calm;
}

export const Loading = () => html`<p class="loading" role="status">${texts.loading}…</p>`;

/** The reason why the controller rejected a request. */
export function Problem({ error, again }) {
  if (!error) return null;
  return html`<div class="problem" role="alert">
    <${Icon} name="warning" />
    <div><strong>${texts.failed}.</strong> ${error.message}
      ${error.fields?.size > 1 && html`<ul>${[...error.fields].map(([field, reason]) => html`<li><code>${field}</code> ${reason}</li>`)}</ul>`}
      ${error.requestId && html`<p class="faint">${texts.logged(error.requestId)}</p>`}
      ${again && html`<p><button type="button" class="button" onClick=${again}>${texts.tryAgain}</button></p>`}
    </div>
  </div>`;
}

export const Empty = ({ title, children }) =>
  html`<div class="empty"><h2>${title}</h2>${children}</div>`;

const FIELD = "input, select, textarea";
let isGiven = false;

/** Whether a field gets the focus from the page and not from a person: then it opens nothing. */
export const isFocusGiven = () => isGiven;

/** Gives the focus to the first field in a part of the page that can be changed. Returns whether there is one. */
export function focusFirst(within) {
  const field = [...(within?.querySelectorAll(FIELD) || [])].find(
    (one) => !one.disabled && one.checkVisibility(),
  );
  isGiven = true;
  field?.focus({ preventScroll: true });
  isGiven = false;
  return Boolean(field);
}

/** Gives the focus to the first field in a part of the page once it is shown: after the page has given it to its content. */
export function useFirstFocus(place, isWanted = true) {
  useEffect(() => {
    const timer = isWanted && setTimeout(() => focusFirst(place.current));
    return () => clearTimeout(timer);
  }, []);
}

let isHeadingWanted = false; // whether the next heading gets the focus

const focusWhereNoneIs = (heading) =>
  document.activeElement === document.body && heading.focus({ preventScroll: true });

/** Gives the focus to the heading of the page, or to the next one if there is none yet. */
export const focusHeading = () =>
  requestAnimationFrame(() => {
    const heading = document.querySelector("#content h1");
    isHeadingWanted = !heading;
    if (heading) focusWhereNoneIs(heading);
  });

export function Heading({ title, note, children }) {
  const place = useRef();
  useEffect(() => {
    if (isHeadingWanted) focusWhereNoneIs(place.current);
    isHeadingWanted = false;
  }, []);
  useEffect(() => {
    document.title = visible(`${title} – ${texts.product}`);
  }, [title]);
  return html`<header class="heading">
    <div><h1 tabindex="-1" ref=${place}>${title}</h1>${note && html`<p class="note">${note}</p>`}</div>
    <div class="actions">${children}</div>
  </header>`;
}

/** A modal dialog. The browser keeps the focus inside and restores it afterwards. */
export function Dialog({ title, onClose, children, wide }) {
  const place = useRef();
  const name = useName("dialog");
  useEffect(() => {
    const dialog = place.current;
    dialog.showModal();
    focusFirst(dialog);
    return () => dialog.close();
  }, []);
  // Chromium asks the page about the first Esc only, and in a search field the browser would clear the text.
  const pressed = (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${place} class=${wide ? "wide" : ""} aria-labelledby=${name} onKeyDown=${pressed}
      onCancel=${(event) => {
        event.preventDefault();
        onClose();
      }} onClick=${(event) => event.target === place.current && onClose()}>
    <div class="dialog">
      <header><h2 id=${name}>${title}</h2>
        <button type="button" class="plain-button" aria-label=${texts.close} onClick=${onClose}><${Icon} name="close" /></button></header>
      ${children}
    </div>
  </dialog>`;
}

export function Copy({ text, label = texts.copy }) {
  const [said, setSaid] = useState(null);
  const say = (what) => {
    setSaid(what);
    setTimeout(() => setSaid(null), 2000);
  };
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => say(texts.copied),
      () => say(texts.notCopied),
    );
  return html`<button type="button" class="button" onClick=${copy}>${said || label}</button><span role="status" class="hidden">${said}</span>`;
}

/** The name of a record, with a link to it. */
export function Reference({ kind, id, name }) {
  const [found, setFound] = useState(name);
  useEffect(() => {
    let wanted = true;
    if (name) setFound(name);
    else nameById(kind, id).then((text) => wanted && setFound(text));
    return () => (wanted = false);
  }, [kind, id, name]);
  return html`<a href=${`#/${kind}/${encodeURIComponent(id)}`}>${found || id}</a>`;
}

export const Chip = ({ children, tone = "" }) =>
  html`<span class=${`chip ${tone}`}>${children}</span>`;

export const Dot = ({ on, label }) =>
  html`<span class=${`state ${on ? "on" : "off"}`}><i aria-hidden="true"></i>${label ?? (on ? texts.yes : texts.no)}</span>`;

/** A text of the controller, in which backquotes enclose code. */
export const Prose = ({ text }) =>
  (text || "").split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));

/** A readable number of bytes. */
export function bytes(count) {
  let rest = count;
  let size = 0;
  for (; rest >= 1024 && size < texts.units.length - 1; size++) rest /= 1024;
  return `${rest < 10 && size ? rest.toFixed(1) : Math.round(rest)} ${texts.units[size]}`;
}

const STATE = /online|connect|hasApiSession/i;
const MAX_INLINE_JSON = 1000;
const SECRET = /^(token|jwt|password)$/i;
const DATE = /^\d{4}-\d\d-\d\dT/;

/** The value of any member of a record. */
export function Value({ member, value: given, short }) {
  const value = meant(member, given);
  if (value === null || value === undefined || value === "")
    return html`<span class="faint">–</span>`;
  if (value === true || value === false)
    return STATE.test(member)
      ? html`<${Dot} on=${value} />`
      : value
        ? texts.yes
        : html`<span class="faint">${texts.no}</span>`;
  if (typeof value === "number") return value.toLocaleString();
  if (typeof value === "string") {
    if (DATE.test(value)) return html`<${Time} at=${value} exact=${!short} />`;
    if (SECRET.test(member) && short) return "••••";
    if (member && wordOf(member, value) !== value) return wordOf(member, value);
    if (value.length > 90 || value.includes("\n"))
      return short
        ? value.length > 40
          ? `${value.slice(0, 40)}…`
          : value
        : html`<pre class="long" tabindex="0">${value}</pre>`;
    return value;
  }
  if (Array.isArray(value)) {
    if (!value.length) return html`<span class="faint">${texts.none}</span>`;
    const limit = short ? 4 : 200;
    return html`<span class="chips">${value
      .slice(0, limit)
      .map(
        (item) =>
          html`<${Chip}>${typeof item === "object" ? html`<${Value} value=${item} />` : String(item)}<//>`,
      )}${value.length > limit && html`<span class="faint">+${value.length - limit}</span>`}</span>`;
  }
  if (value.id && (value.entity || value._links))
    return html`<${Reference} kind=${value.entity} id=${value.id} name=${value.name || value.id} />`;
  const entries = Object.entries(value).filter(([key]) => key !== "_links");
  if (!entries.length) return html`<span class="faint">${texts.none}</span>`;
  if (short) return `${entries.length}`;
  const whole = JSON.stringify(Object.fromEntries(entries), null, 2);
  if (whole.length > MAX_INLINE_JSON) return html`<pre class="long" tabindex="0">${whole}</pre>`;
  return html`<dl class="inner">${entries.map(([key, inner]) => html`<div><dt>${sentence(key)}</dt><dd><${Value} member=${key} value=${inner} /></dd></div>`)}</dl>`;
}
