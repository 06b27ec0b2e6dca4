// The templates of the page. Every text and every label of an element passes through here: a character that cannot be seen, or that changes the
// direction of text, is shown as an escape, so that a name never looks like another one. crates/model/src/hidden_text.rs has the same
// characters. What a person edits or copies, and what scripts compare, is not changed.

import { h, html as plain } from "./vendor/htm-preact.js";

const HIDDEN =
  /[\p{Cc}\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\u{e0000}-\u{e0fff}]/u;
const EVERY = new RegExp(HIDDEN, "gu");
const SHORT = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };
/** The members of elements that are shown or read out. `download` is the name of a file. */
const LABELS = [
  "title",
  "alt",
  "placeholder",
  "label",
  "download",
  "aria-label",
  "aria-description",
  "aria-roledescription",
  "aria-valuetext",
  "aria-placeholder",
];
const done = new WeakSet();
const drawing = new WeakMap(); // a component to one that shows what it returns

export const hides = (text) => HIDDEN.test(text);

/** The text with escapes in place of such characters. */
export const visible = (text) =>
  hides(text)
    ? text.replace(EVERY, (letter) => SHORT[letter] || `\\u{${letter.codePointAt(0).toString(16)}}`)
    : text;

/** The same for a text of several lines. */
const visibleLines = (text) =>
  text
    .split(/\r?\n/)
    .flatMap((line, index) => (index ? [h("br"), visible(line)] : [visible(line)]));

/** What is shown: an element, a text, or a list of these. `text` shows a text. */
function shown(what, text) {
  if (typeof what === "string") return text(what);
  if (Array.isArray(what)) return what.map((part) => shown(part, text));
  if (!what || typeof what !== "object" || !what.props || done.has(what)) return what;
  done.add(what);
  const { type, props } = what;
  if (typeof type === "string") {
    for (const label of LABELS)
      if (typeof props[label] === "string") props[label] = visible(props[label]);
    if (props.children !== undefined)
      props.children = shown(props.children, type === "pre" ? visibleLines : visible);
  } else if (!type.contextType) {
    // A component gets texts as they are, and what it returns is shown.
    if (!drawing.has(type))
      drawing.set(type, function Drawn(...given) {
        return shown(type.apply(this, given), visible);
      });
    what.type = drawing.get(type);
    if (props.children !== undefined) props.children = shown(props.children, (text) => text);
  }
  return what;
}

export const html = (...template) => shown(plain(...template), visible);
