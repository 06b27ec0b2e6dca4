// Lines that a person pastes into a shell, as `overkeep invite` and `overkeep publish` print them.

import { html, visible } from "./html.js";
import { texts } from "./texts.js";
import { Copy } from "./parts.js";

const MAX_FILE = 64; // letters
const TOKEN = /^[\w.-]+$/; // letters that no shell changes

/** A word of a shell, as it is seen: in single quotes if it holds anything but letters without a meaning. fish reads a backslash in quotes. */
function quoted(word) {
  const seen = visible(word);
  return /^[A-Za-z0-9@%+:,./_-]+$/.test(seen) ? seen : `'${seen.replace(/['\\]/g, "'\\$&'")}'`;
}

/** Words behind a command. One with a dash in front would be a flag. */
export const wordsBehind = (...words) =>
  [...(words.some((word) => word.startsWith("-")) ? ["--"] : []), ...words.map(quoted)].join(" ");

/** The file for an identity: its name, without letters that a shell or a directory reads in their own way. */
export function fileFor(name) {
  const stem = [...name]
    .slice(0, MAX_FILE)
    .map((letter) => (/[A-Za-z0-9._-]/.test(letter) ? letter : "-"))
    .join("")
    .replace(/^[-.]+/, "");
  return `${stem || "identity"}.json`;
}

/** The line that enrolls an identity with its one-time token, or `null` if it has none that is valid. */
export function enrollLine({ name, enrollment }) {
  const { jwt, expiresAt } = enrollment?.ott || {};
  const token = jwt?.trim();
  return token && TOKEN.test(token) && new Date(expiresAt) > new Date()
    ? texts.commands.enroll(token, fileFor(name))
    : null;
}

export const Command = ({ text }) =>
  html`<div class="command"><code class="long" tabindex="0">${text}</code><${Copy} text=${text} label=${texts.commands.copy} /></div>`;
