// Every text of the page is in texts.js, so that one file is translated.

import { parse } from "acorn";
import { full } from "acorn-walk";
import { expect, origin } from "../browser.mjs";

const ATTRIBUTE =
  /(?:aria-label|aria-valuetext|aria-description|placeholder|title|alt|label)=["']([^"'$]*\p{L}[^"'$]*)["']/gu;
/** A word with a capital letter, or several words. */
const TEXT = /^\s*\p{Lu}\p{Ll}|\p{L}[ ,.:]+\p{L}{2}/u;
/** What is no text: filters and selectors, names of keys, and words of the interface. */
const FILTER =
  /icontains|[=<>] *["\d(]|= (true|false)|or [a-z.A-Z]+ = |in \[|datetime\(|^sort by$|^\w+ desc$|^[.a-z]+[\w .]*(, [.a-z][\w .]*)+$|^card verdict $/;
const WORDS = [
  "Dial",
  "Bind",
  "AllOf",
  "AnyOf",
  "Id",
  "Roles",
  "Display",
  "Default",
  "Escape",
  "Enter",
  "Home",
  "End",
  "Backspace",
  "ArrowDown",
  "ArrowUp",
  "ArrowLeft",
  "ArrowRight",
];

/** The texts in a module. */
function textsIn(source) {
  const found = [];
  const inTemplates = new Set();
  const tree = parse(source, { ecmaVersion: "latest", sourceType: "module" });
  full(tree, (node) => {
    if (node.type !== "TaggedTemplateExpression" || node.tag.name !== "html") return;
    for (const part of node.quasi.quasis) inTemplates.add(part);
    const whole = node.quasi.quasis.map(({ value }) => value.cooked).join("\0");
    found.push(
      ...whole
        .replace(/<[^>]*>/g, "\0")
        .split("\0")
        .filter((part) => /\p{L}/u.test(part)),
      ...[...whole.matchAll(ATTRIBUTE)].map(([, value]) => value),
    );
  });
  const modules = new Set(tree.body.filter(({ source }) => source).map(({ source }) => source));
  full(tree, (node) => {
    const value =
      node.type === "Literal" && !modules.has(node)
        ? node.value
        : node.type === "TemplateElement" && !inTemplates.has(node)
          ? node.value.cooked
          : null;
    if (
      typeof value === "string" &&
      TEXT.test(value) &&
      !value.startsWith("/") &&
      !FILTER.test(value) &&
      !WORDS.includes(value)
    )
      found.push(value);
  });
  return found.map((text) => text.trim());
}

const file = async (path) =>
  (await fetch(origin + path, { headers: { accept: "text/html" } })).text();

/** The modules that the page loads, from the first one on. */
async function modules() {
  const found = new Map();
  const waiting = ["/page/main.js"];
  for (let path = waiting.pop(); path; path = waiting.pop()) {
    if (found.has(path)) continue;
    found.set(path, await file(path));
    for (const [, name] of found.get(path).matchAll(/from ["']\.\/([\w-]+\.js)["']/g))
      waiting.push(`/page/${name}`);
  }
  return found;
}

/** No module but texts.js has a text, and the document has none but the name of the program, and what a browser without scripts shows. */
export async function textsInOneFile() {
  const all = await modules();
  expect(all.size > 30, `only ${all.size} modules were found`);
  for (const [path, source] of all) {
    if (path !== "/page/texts.js")
      for (const text of textsIn(source))
        expect(false, `${path} has the text ${JSON.stringify(text)}`);
  }
  const { texts } = await import(
    `data:text/javascript;base64,${Buffer.from(all.get("/page/texts.js")).toString("base64")}`
  );
  const body = (await file("/"))
    .replace(/<noscript>.*<\/noscript>/s, "")
    .replace(/<[^>]*>/g, " ")
    .split("\n")
    .filter((text) => /\p{L}/u.test(text));
  for (const text of body)
    expect(text.trim() === texts.product, `the document has the text ${JSON.stringify(text)}`);
  // What a careless change would add is found.
  for (const careless of [
    "html`<p>${x} left</p>`",
    'html`<input placeholder="Search" />`',
    "const note = 'Nothing yet'",
    "alert(`failed: ${x} of them`)",
    "f('not there')",
  ]) {
    expect(textsIn(careless).length === 1, `no text is found in ${careless}`);
  }
}
