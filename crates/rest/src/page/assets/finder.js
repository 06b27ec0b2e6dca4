// Goes to pages, kinds, and records of the frequent kinds by a part of their name.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { list, literal } from "./api.js";
import { texts } from "./texts.js";
import { Dialog, useCalm, useLoad } from "./parts.js";
import { PAGES } from "./pages.js";
import { may, mayReadAll, mayShare } from "./scope.js";

const EACH = 5;

export function Finder({ kinds, onClose }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const field = useRef();
  const wanted = useCalm(text.trim(), 150);
  const searched = kinds.slice(0, texts.frequent);
  const [records] = useLoad(
    async (signal) => {
      if (!wanted) return [];
      const pages = await Promise.all(
        searched.map((kind) =>
          list(
            kind.path,
            { filter: `name icontains ${literal(wanted)}`, limit: EACH, sort: "name" },
            { signal },
          ).then(
            ({ rows }) =>
              rows.map((row) => ({
                label: row.name,
                note: kind.one,
                to: `#/${kind.name}/${row.id}`,
              })),
            () => [],
          ),
        ),
      );
      return pages.flat();
    },
    [wanted],
  );
  const small = text.trim().toLowerCase();
  const pages = mayReadAll()
    ? [
        { label: texts.pages.overview, to: "#/overview" },
        ...PAGES.map(({ name }) => ({ label: texts.pages[name], to: `#/${name}` })),
      ]
    : [];
  const tasks = [
    mayShare() && { label: texts.share.title, to: "#/share" },
    may("POST", "/identities") && { label: texts.invite.title, to: "#/invite" },
  ];
  const fixed = [
    ...pages,
    ...tasks.filter(Boolean),
    { label: texts.account.title, to: "#/account" },
    { label: texts.glossary.title, to: "#/words" },
    ...kinds.map((kind) => ({ label: kind.label, to: `#/${kind.name}` })),
  ];
  const shown = [
    ...fixed.filter((entry) => entry.label.toLowerCase().includes(small)).slice(0, small ? 6 : 30),
    ...(small ? records || [] : []),
  ];
  const chosen = Math.min(at, shown.length - 1);
  useEffect(() => field.current.focus(), []);
  useEffect(
    () => document.getElementById(`found-${chosen}`)?.scrollIntoView({ block: "nearest" }),
    [chosen],
  );
  const go = (entry) => {
    if (!entry) return;
    location.hash = entry.to;
    onClose();
  };
  const pressed = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setAt((chosen + step + shown.length) % shown.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      go(shown[chosen]);
    }
  };
  return html`<${Dialog} title=${texts.find} onClose=${onClose}>
    <input ref=${field} type="search" role="combobox" aria-label=${texts.findHint} placeholder=${texts.findHint} aria-expanded="true" aria-controls="found" aria-activedescendant=${shown.length ? `found-${chosen}` : undefined}
      value=${text} onInput=${(event) => {
        setText(event.target.value);
        setAt(0);
      }} onKeyDown=${pressed} />
    <ul id="found" class="found" role="listbox" aria-label=${texts.find}>
      ${shown.map((entry, index) => html`<li id=${`found-${index}`} role="option" aria-selected=${index === chosen} onClick=${() => go(entry)}><span>${entry.label}</span><span class="faint">${entry.note || ""}</span></li>`)}
    </ul>
    ${!shown.length && html`<p class="faint">${texts.nothingFound}</p>`}
  <//>`;
}
