// The frame of the page: session, address, navigation.

import { render, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { currentSession, follow, forgetSession, logOut, onSession } from "./api.js";
import { allKinds, kind, load } from "./kinds.js";
import { texts } from "./texts.js";
import { Heading, Icon, Loading, Problem, useLoad } from "./parts.js";
import { Account } from "./account.js";
import { Words } from "./words.js";
import { isReader, mayList, mayReadAll } from "./scope.js";
import { Finder } from "./finder.js";
import { Login } from "./login.js";
import { Overview } from "./overview.js";
import { Invite } from "./invite.js";
import { Share } from "./share.js";
import { List } from "./list.js";
import { Detail } from "./detail.js";
import { Editor } from "./editor.js";
import { onHistoryRow } from "./news.js";
import { PAGES } from "./pages.js";
import { ZONES, useZone } from "./times.js";
import { forgetUnsaved, hasUnsaved, mayLeave } from "./unsaved.js";

const THEME = "overkeep-theme";
const RETURN_PATH = "/page/signed-in"; // where an issuer sends the browser back
const THEMES = ["system", "light", "dark"];

/** A part of the address. One that is no valid encoding stays as it is, so that it is found nowhere. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address: `#/identities/abc?filter=x` is `{ parts: ['identities', 'abc'], values }`. */
function address() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return {
    parts: path.split("/").filter(Boolean).map(decoded),
    values: Object.fromEntries(new URLSearchParams(search)),
    key: location.hash,
  };
}

function useAddress() {
  const [now, setNow] = useState(address);
  useEffect(() => {
    let shown = location.href;
    const onChange = () => {
      if (location.href !== shown && !mayLeave()) return history.pushState(null, "", shown);
      shown = location.href;
      setNow(address());
    };
    addEventListener("hashchange", onChange);
    return () => removeEventListener("hashchange", onChange);
  }, []);
  return now;
}

function theme() {
  const stored = localStorage.getItem(THEME);
  return THEMES.includes(stored) ? stored : "system";
}

function setTheme(value) {
  localStorage.setItem(THEME, value);
  document.documentElement.dataset.theme = value;
}

const Setting = ({
  icon,
  label,
  values,
  now,
  onChange,
}) => html`<label class="setting"><${Icon} name=${icon} /><span class="hidden">${label}</span>
  <select value=${now} onChange=${(event) => onChange(event.target.value)}>${values.map((value) => html`<option value=${value} selected=${value === now}>${texts[value]}</option>`)}</select></label>`;

function Settings() {
  const [look, setLook] = useState(theme);
  const [zone, setZone] = useZone();
  const change = (value) => {
    setTheme(value);
    setLook(value);
  };
  return html`<${Setting} icon="theme" label=${texts.theme} values=${THEMES} now=${look} onChange=${change} /><${Setting} icon="clock" label=${texts.times} values=${ZONES} now=${zone} onChange=${setZone} />`;
}

function orderedKinds() {
  const rank = (entry) => {
    const at = texts.order.indexOf(entry.name);
    return at < 0 ? texts.order.length : at;
  };
  return allKinds()
    .filter(mayList)
    .sort((a, b) => rank(a) - rank(b) || a.label.localeCompare(b.label));
}

function Links({ now, onMove }) {
  const link = (name, label, icon) =>
    html`<li><a href=${`#/${name}`} aria-current=${now === name ? "page" : undefined} onClick=${onMove}>${icon && html`<${Icon} name=${icon} />`}${label}</a></li>`;
  const kinds = orderedKinds();
  const rest = kinds.slice(texts.frequent);
  return html`
    ${mayReadAll() && html`<ul>${link("overview", texts.pages.overview, "overview")}${PAGES.map(({ name }) => link(name, texts.pages[name], name))}</ul>`}
    <h2>${texts.pages.records}</h2>
    <ul>${kinds.slice(0, texts.frequent).map((entry) => link(entry.name, entry.label))}</ul>
    <details open=${rest.some((entry) => entry.name === now)}><summary>${texts.pages.other}</summary>
      <ul>${rest.map((entry) => link(entry.name, entry.label))}</ul></details>`;
}

/** What an API token with a list of kinds sees in place of the pages that tell of every kind. */
const NotInScope = () =>
  html`<${Heading} title=${texts.pages.records} note=${texts.list.scope} /><ul>${orderedKinds().map(({ name, label }) => html`<li><a href=${`#/${name}`}>${label}</a></li>`)}</ul>`;

function Content({ now }) {
  const [name = "overview", id, verb] = now.parts;
  const page = PAGES.find((entry) => entry.name === name);
  if (name === "account") return html`<${Account} />`;
  if (name === "words") return html`<${Words} />`;
  if ((page || name === "overview") && !mayReadAll()) return html`<${NotInScope} />`;
  if (name === "overview") return html`<${Overview} />`;
  if (name === "share") return html`<${Share} id=${id} />`;
  if (name === "invite") return html`<${Invite} id=${id} />`;
  if (page) return html`<${page.show} values=${now.values} rest=${now.parts.slice(1)} />`;
  const entry = kind(name);
  if (!entry || !mayList(entry))
    return html`<${Problem} error=${{ message: texts.detail.gone }} />`;
  if (id === "_new") return html`<${Editor} key=${name} kind=${entry} values=${now.values} />`;
  if (id && verb === "edit")
    return html`<${Editor} key=${`${name}/${id}`} kind=${entry} id=${id} />`;
  if (id) return html`<${Detail} key=${`${name}/${id}`} kind=${entry} id=${id} />`;
  return html`<${List} key=${name} kind=${entry} values=${now.values} />`;
}

/** Everything but the log-in page. It is there, but not shown, while a person whose form has unsaved changes logs in again. */
function Shell({ session, isShown }) {
  const now = useAddress();
  const [open, setOpen] = useState(false);
  const [finding, setFinding] = useState(false);
  const [isLive, setLive] = useState(false);
  const main = useRef();
  const menu = useRef();
  const [ready, error, again] = useLoad(() => load().then(() => true), []);
  useEffect(() => {
    const abort = new AbortController();
    if (mayReadAll()) follow(onHistoryRow, setLive, abort.signal);
    return () => abort.abort();
  }, [session]);
  useEffect(() => {
    if (!isShown) {
      setFinding(false);
      return undefined;
    }
    const pressed = (event) => {
      const typing = event.target.closest?.("input, textarea, select, dialog");
      if ((event.ctrlKey || event.metaKey) && event.key === "k") {
        event.preventDefault();
        setFinding(true);
      } else if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
        const target = { "/": "[data-search]", n: "[data-create]" }[event.key];
        const found = target && document.querySelector(target);
        if (found) {
          event.preventDefault();
          event.key === "/" ? found.focus() : found.click();
        }
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [isShown]);
  const leave = () => {
    if (!mayLeave()) return;
    forgetUnsaved();
    logOut();
  };
  const closeMenu = (event) => {
    if (event.key !== "Escape" || !open || event.target.closest("dialog")) return;
    setOpen(false);
    menu.current.focus();
  };
  const path = now.parts.join("/");
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) {
      scrollTo(0, 0);
      main.current?.focus({ preventScroll: true });
    }
    first.current = false;
  }, [path]);
  return html`
    <a class="skip" href="#content" onClick=${(event) => {
      event.preventDefault();
      main.current.focus();
    }}>${texts.skip}</a>
    <div class="shell" onKeyDown=${closeMenu}>
      <header class="bar">
        <button type="button" ref=${menu} class="plain-button menu" aria-expanded=${open} aria-controls="navigation" onClick=${() => setOpen(!open)}><${Icon} name="menu" /><span class="hidden">${texts.menu}</span></button>
        <a class="brand" href="#/overview"><img src="/page/icon.svg" alt="" width="24" height="24" />${texts.product}</a>
        <button type="button" class="find" onClick=${() => setFinding(true)}><${Icon} name="search" /><span>${texts.find}</span><kbd aria-hidden="true">${texts.findKeys}</kbd></button>
        ${mayReadAll() && html`<span class=${`pulse ${isLive ? "on" : "off"}`} role="status"><i aria-hidden="true"></i><span>${isLive ? texts.isLive : texts.isNotLive}</span></span>`}
      </header>
      <nav id="navigation" class=${open ? "open" : ""} aria-label=${texts.menu}><div class="rail">
        ${ready && html`<${Links} now=${now.parts[0] || "overview"} onMove=${() => setOpen(false)} />`}
        <div class="foot">
          <p class="who" title=${texts.shortcuts}>${session.isToken ? session.name : html`<a href="#/account" aria-current=${now.parts[0] === "account" ? "page" : undefined} onClick=${() => setOpen(false)}><${Icon} name="account" />${session.name}</a>`}</p>
          ${isReader() && html`<p class="who reads faint">${texts.reads}</p>`}
          <${Settings} />
          <a href="#/words" aria-current=${now.parts[0] === "words" ? "page" : undefined} onClick=${() => setOpen(false)}><${Icon} name="words" />${texts.glossary.title}</a>
          <a href="/docs"><${Icon} name="book" />${texts.documents}</a>
          <button type="button" class="plain-button" onClick=${leave}><${Icon} name="out" />${texts.logOut}</button>
        </div>
      </div></nav>
      <main id="content" ref=${main} tabindex="-1">
        ${error && html`<${Problem} error=${error} again=${again} />`}
        ${ready ? html`<${Content} now=${now} />` : !error && html`<${Loading} />`}
      </main>
    </div>
    ${finding && ready && html`<${Finder} kinds=${orderedKinds()} onClose=${() => setFinding(false)} />`}`;
}

const SECRET_LINKS = ["link", "invitation"];

/** The secret of a one-time link: `#/link/SECRET` or `#/invitation/SECRET`. It is removed at once from the address, and so from the history of the browser. */
function takeSecret(wanted) {
  const {
    parts: [name, secret],
  } = address();
  if (name !== wanted || !secret) return null;
  history.replaceState(null, "", "#/overview");
  return secret;
}

/** The parameters with which an issuer sent the browser back. They are removed from the address at once. */
function takeReturn() {
  if (location.pathname !== RETURN_PATH) return null;
  const {
    code,
    state,
    iss: issuer,
    error,
  } = Object.fromEntries(new URLSearchParams(location.search));
  history.replaceState(null, "", "/#/overview");
  return { code, state, issuer, error };
}

const returned = takeReturn();
const [link, invitation] = SECRET_LINKS.map(takeSecret);
if (link || invitation || returned) forgetSession();
// A one-time link may be opened in this tab later.
addEventListener(
  "hashchange",
  () => SECRET_LINKS.includes(address().parts[0]) && location.reload(),
);

const MAX_KEPT = 15 * 60 * 1000; // milliseconds that unsaved changes, or a secret that is shown once, outlive their session

function Page() {
  const [session, setSession] = useState(currentSession);
  const [last, setLast] = useState(session?.complete ? session : null); // the last session that was open
  // How the controller ended that session: `kept`: its page stays, because it has unsaved changes; `dropped`: it stayed, for too long; `lost`: nothing stays.
  const [end, setEnd] = useState(null);
  const owner = useRef(session?.identityId);
  const [drops, setDrops] = useState(0); // nothing of a page from before stays
  const kept = useRef(Infinity); // until when, by the clock of the machine: a timer stands still while it sleeps
  const drop = () => {
    kept.current = Infinity;
    forgetUnsaved();
    setEnd("dropped");
    setDrops((count) => count + 1);
  };
  const dropOld = () => Date.now() >= kept.current && drop();
  useEffect(
    () =>
      onSession((value, isLost) => {
        dropOld();
        setSession(value);
        if (value?.identityId && value.identityId !== owner.current) {
          // Changes of one person are not kept for another one.
          owner.current = value.identityId;
          forgetUnsaved();
          setEnd((last) => (last === "kept" ? "lost" : last));
        }
        if (value?.complete) setLast(value);
        // A password that was typed does not stay in the page.
        if (isLost)
          setEnd(hasUnsaved() && !root.querySelector("input[type=password]") ? "kept" : "lost");
        else if (value?.complete) setEnd(null);
      }),
    [],
  );
  const isIn = Boolean(session?.complete);
  useEffect(() => {
    if (isIn || end !== "kept") return undefined;
    kept.current = Date.now() + MAX_KEPT;
    const timer = setTimeout(drop, MAX_KEPT);
    document.addEventListener("visibilitychange", dropOld);
    return () => {
      kept.current = Infinity;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", dropOld);
    };
  }, [isIn, end]);
  const shown = isIn ? session : end === "kept" ? last : null;
  return html`
    ${!isIn && html`<${Login} end=${end} link=${last ? null : link} returned=${last ? null : returned} invitation=${last ? null : invitation} />`}
    ${shown && html`<div key=${`${shown.identityId} ${drops}`} hidden=${!isIn}><${Shell} session=${shown} isShown=${isIn} /></div>`}`;
}

document.documentElement.dataset.theme = theme();
const root = document.getElementById("page");
root.replaceChildren();
render(html`<${Page} />`, root);
