// The access that a change would grant and revoke, as the controller computes it.

import { html } from "./html.js";
import { texts } from "./texts.js";
import { Icon, Problem } from "./parts.js";

const t = texts.preview;
/** What access consists of, in the order in which it is told. */
export const RELATIONS = ["dial", "bind", "identityRouters", "serviceRouters"];
export const MAX_NAMES = 6;

/** The answer to the preview of a request, with the request (`of`): `{ of, value }`, or `{ of, error }` if there is no preview of it. It does not reject, so that the error of another request does not stay. */
export const answerTo = (of, asked) =>
  asked.then(
    ({ data }) => ({ of, value: data }),
    (error) => ({ of, error }),
  );

/** Some operations have no preview, because they do not change access. */
export const hasNone = (answer) => Boolean(answer?.error?.fields?.has("preview"));

/** Whether a request may be sent: its effects are shown, or it has no preview. */
export const isShown = (answer) => Boolean(answer?.value) || hasNone(answer);

function Side({ counted }) {
  const names = counted.first.slice(0, MAX_NAMES).map(({ name, id }) => name || id);
  return html`<span class="names">${t.names(names, Math.max(0, counted.count - names.length))}</span>`;
}

function Tally({ what, turn, tally }) {
  return html`<li class=${turn}>
    <p><strong>${t[what]}</strong> <span class="faint">${t[turn](tally.pairs)}</span></p>
    <p><${Side} counted=${tally.who} /> <span class="faint" aria-hidden="true">→</span><span class="hidden">${t.to}</span> <${Side} counted=${tally.what} /></p>
  </li>`;
}

/** Gained and lost access, of a preview (`dial.gained`) or of a row of the history (`gained.dial`). */
export function Tallies({ value }) {
  const found = [];
  for (const what of RELATIONS) {
    for (const turn of ["gained", "lost"]) {
      const tally = value[what]?.[turn] || value[turn]?.[what];
      if (tally?.pairs) found.push(html`<${Tally} what=${what} turn=${turn} tally=${tally} />`);
    }
  }
  if (!found.length) return html`<p class="quiet"><${Icon} name="check" />${t.none}</p>`;
  return html`<ul class="tallies">${found}</ul>`;
}

/** The panel beside a save button. */
export const Preview = ({
  value,
  unmatchable,
  error,
  busy,
  waiting,
  again,
}) => html`<section class="preview" aria-live="polite" aria-busy=${Boolean(busy && !waiting && !error)}>
  <h2>${t.title}</h2>
  ${
    waiting
      ? html`<p class="faint">${t.waiting}</p>`
      : error
        ? error.status === 400 || error.status === 409
          ? html`<p class="faint">${t.invalid(error.message)}</p>`
          : html`<${Problem} error=${error} again=${again} />`
        : value
          ? html`<${Tallies} value=${value} />`
          : html`<p class="faint">${t.checking}…</p>`
  }
  ${unmatchable && !waiting && html`<p class="warning"><i aria-hidden="true"></i><span>${t.unmatchable(unmatchable)}</span></p>`}
  <p class="hint">${t.checks}</p>
</section>`;
