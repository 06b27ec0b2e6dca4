// What the words of the network mean, in the order in which they are needed.

import { html } from "./html.js";
import { kind } from "./kinds.js";
import { texts } from "./texts.js";
import { Heading } from "./parts.js";

const t = texts.glossary;

export const Words = () => html`<${Heading} title=${t.title} note=${t.note} />
  <section class="card"><h2>${t.pathTitle}</h2><ol class="way">${t.path.map((step) => html`<li>${step}</li>`)}</ol></section>
  <section class="card"><dl class="members whole">${t.words.map(([word, meaning, of]) => html`<div><dt>${of && kind(of) ? html`<a href=${`#/${of}`}>${word}</a>` : word}</dt><dd>${meaning}</dd></div>`)}</dl></section>`;
