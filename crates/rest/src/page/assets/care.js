// Maintenance: findings about the host, expiry of certificates, snapshots, integrity, sessions, versions, and what to do if nobody can log in.

import { useEffect, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { ask, currentSession, get, list } from "./api.js";
import { texts } from "./texts.js";
import {
  Copy,
  Dialog,
  Heading,
  Icon,
  Loading,
  Problem,
  Reference,
  bytes,
  useLoad,
  useOnce,
} from "./parts.js";
import { ExpiringList } from "./expiring.js";
import { useNews } from "./news.js";
import { may } from "./scope.js";
import { Dated, Time } from "./times.js";

const t = texts.care;
const LIMIT = 15;
const INTERVAL = 500;

function Doctor() {
  const [checks, setChecks] = useState(0); // how often checks of the network were asked for
  const [found, error, again] = useLoad(
    (signal) =>
      get(`/overkeep/v1/doctor${checks ? "?network=true" : ""}`, { signal }).then(({ data }) => ({
        data,
        checks,
      })),
    [checks],
  );
  const busy = found?.checks !== checks && checks > 0 && !error;
  const [wrong, good] = [true, false].map((isWrong) =>
    (found?.data || []).filter(({ healthy }) => healthy !== isWrong),
  );
  return html`<section class="card"><h2>${t.doctor}</h2><p class="hint">${t.doctorNote}</p><${Problem} error=${error} again=${again} />${!found && !error && html`<${Loading} />`}
    ${wrong.length > 0 && html`<ul class="findings">${wrong.map(({ check, detail, mend }) => html`<li><p class="warning"><i aria-hidden="true"></i><span><strong>${check}</strong>: <${Dated} text=${detail} /></span></p><p class="hint">${mend}</p></li>`)}</ul>`}
    ${good.length > 0 && html`<details open=${!wrong.length}><summary><span class="quiet"><${Icon} name="check" />${t.healthy}: ${good.length}</span></summary><ul class="findings">${good.map(({ check, detail }) => html`<li><strong>${check}</strong>: <${Dated} text=${detail} /></li>`)}</ul></details>`}
    <p class="hint">${t.networkNote}</p><button type="button" class="button" disabled=${busy} onClick=${() => setChecks(checks + 1)}>${busy ? t.checkingNetwork : t.checkNetwork}</button></section>`;
}

function TrialState({ trial }) {
  const { method, snapshot, inProgress, passed, error, results, rowsChecked, rowsTotal, endedAt } =
    trial;
  const verdict = passed ? t.passed : passed === false ? t.notPassed : t.notTried;
  return html`<div class="trial" role="status"><h3>${t.trialOf(t.trials[method], snapshot)}</h3>
    ${
      inProgress
        ? html`<p class="waiting"><i aria-hidden="true"></i>${t.trialRuns(rowsChecked, rowsTotal)}</p>${rowsTotal > 0 && html`<progress max=${rowsTotal} value=${rowsChecked} aria-label=${t.trials[method]}></progress>`}`
        : html`<p class=${passed ? "quiet" : "warning"}>${passed ? html`<${Icon} name="check" />` : html`<i aria-hidden="true"></i>`}<span>${verdict} <${Time} at=${endedAt} /></span></p><ul>${[error, ...results].filter(Boolean).map((line) => html`<li>${line}</li>`)}</ul>`
    }</div>`;
}

/** The answer to a question, repeated every half second while work is in progress. */
function useProgress(path) {
  const [state, error, again] = useLoad(
    (signal) => get(path, { signal }).then(({ data }) => data),
    [],
  );
  useEffect(() => {
    if (!state?.inProgress) return undefined;
    const timer = setTimeout(again, INTERVAL);
    return () => clearTimeout(timer);
  }, [state, error]);
  return [state, error, again];
}

function Snapshots() {
  const [result, setResult] = useState({});
  const [isBusy, once] = useOnce();
  const [known, unknown, again] = useLoad(
    (signal) => get("/overkeep/v1/snapshots", { signal }).then(({ data }) => data),
    [],
  );
  const [trial, error, look] = useProgress("/overkeep/v1/snapshot-trials");
  const make = () =>
    ask("POST", "/database/snapshot").then(
      ({ data }) => {
        setResult({ data });
        again();
      },
      (reason) => setResult({ error: reason }),
    );
  const begin = (method, snapshot) =>
    ask("POST", "/overkeep/v1/snapshot-trials", { body: { method, snapshot } }).then(
      () => {
        setResult({});
        look();
      },
      (reason) => setResult({ error: reason }),
    );
  return html`<section class="card"><h2>${t.snapshots} <span class="faint">${known?.length ?? ""}</span></h2><p class="hint">${t.snapshotNote}</p><${Problem} error=${result.error || error || unknown} />
    ${result.data && html`<p class="quiet" role="status"><${Icon} name="check" />${t.snapshotAt(result.data.path || "")}</p>`}
    ${may("POST", "/database/snapshot") && html`<button type="button" class="button" disabled=${isBusy} onClick=${() => once(make)}>${t.takeSnapshot}</button>`}
    ${known && !known.length && html`<p class="faint">${t.noSnapshots}</p>`}
    ${
      known?.length > 0 &&
      html`<p class="hint">${t.trialNote}</p><ul class="plain snapshots">${known
        .slice(0, LIMIT)
        .map(
          ({
            name,
            directory,
            writtenAt,
            bytes: size,
          }) => html`<li><span title=${directory}>${name} <span class="faint">${bytes(size)} · <${Time} at=${writtenAt} /></span></span>
      ${
        may("POST", "/overkeep/v1/snapshot-trials") &&
        html`<span class="edits"><button type="button" class="button small" disabled=${isBusy || trial?.inProgress} aria-label=${t.proofOf(name)} onClick=${() => once(() => begin("proof", name))}>${t.proof}</button>
        <button type="button" class="button small" disabled=${isBusy || trial?.inProgress} aria-label=${t.drillOf(name)} onClick=${() => once(() => begin("drill", name))}>${t.drill}</button></span>`
      }</li>`,
        )}</ul>`
    }
    ${trial && html`<${TrialState} trial=${trial} />`}</section>`;
}

function Integrity() {
  const [state, error, again] = useProgress("/database/data-integrity-results");
  const [refused, setRefused] = useState(null);
  const [isBusy, once] = useOnce();
  const go = () => ask("POST", "/database/check-data-integrity").then(again, setRefused);
  const faults = state?.results?.length || 0;
  const [repairing, setRepairing] = useState(false);
  const [failed, setFailed] = useState(null);
  const repair = () =>
    ask("POST", "/database/fix-data-integrity").then(() => {
      setRepairing(false);
      setFailed(null);
      again();
    }, setFailed);
  return html`<section class="card"><h2>${t.integrity}</h2><p class="hint">${t.integrityNote}</p><${Problem} error=${refused || error} />
    ${
      state &&
      html`<div role="status">${
        state.inProgress
          ? html`<p>${t.checked(state.rowsChecked, state.rowsTotal)}</p>`
          : !state.startTime
            ? html`<p class="faint">${t.never}</p>`
            : faults || state.error
              ? html`<p class="warning"><i aria-hidden="true"></i>${state.error || t.wrong(faults)}</p><ul>${(state.results || []).slice(0, LIMIT).map((result) => html`<li>${result.description}${result.fixed ? ` (${t.repaired})` : ""}</li>`)}</ul>`
              : html`<p class="quiet"><${Icon} name="check" /><span>${t.clean} <${Time} at=${state.endTime} /></span></p>`
      }</div>`
    }
    <div class="actions">${may("POST", "/database/check-data-integrity") && html`<button type="button" class="button" disabled=${isBusy || state?.inProgress} onClick=${() => once(go)}>${t.check}</button>`}
      ${faults > 0 && may("POST", "/database/fix-data-integrity") && html`<button type="button" class="button danger" disabled=${state.inProgress} onClick=${() => setRepairing(true)}>${t.repair}</button>`}</div>
    ${
      repairing &&
      html`<${Dialog} title=${t.repair} onClose=${() => setRepairing(false)}><p>${t.repairNote}</p><${Problem} error=${failed} />
      <div class="actions"><button type="button" class="button" onClick=${() => setRepairing(false)}>${texts.cancel}</button><button type="button" class="button danger" disabled=${isBusy} onClick=${() => once(repair)}>${t.repair}</button></div><//>`
    }</section>`;
}

function Sessions() {
  const [page, error, again] = useLoad(
    (signal) => list("/api-sessions", { limit: LIMIT, sort: "createdAt desc" }, { signal }),
    [],
  );
  const [ending, setEnding] = useState(null);
  const [refused, setRefused] = useState(null);
  const [isBusy, once] = useOnce();
  useNews((row) => row.kind === "apiSession", again, []);
  const go = () =>
    ask("DELETE", `/api-sessions/${encodeURIComponent(ending.id)}`).then(() => {
      setEnding(null);
      again();
    }, setRefused);
  return html`<section class="card"><h2><a href="#/api-sessions">${t.sessions}</a> <span class="faint">${page?.total ?? ""}</span></h2><p class="hint">${t.sessionsNote}</p><${Problem} error=${error} again=${again} />
    ${
      page &&
      html`<ul class="plain">${page.rows.map(
        (
          session,
        ) => html`<li><span>${session.identity?.id ? html`<${Reference} kind="identities" id=${session.identity.id} name=${session.identity.name} />` : session.identityId} <span class="faint">${session.ipAddress} · <${Time} at=${session.cachedLastActivityAt || session.lastActivityAt} /></span></span>
      ${session.id === currentSession()?.id ? html`<span class="faint yours">${t.yours}</span>` : html`<button type="button" class="button small" aria-label=${t.endSessionTitle(session.identity?.name || session.id)} onClick=${() => setEnding(session)}>${t.endSession}</button>`}</li>`,
      )}</ul>`
    }
    ${
      ending &&
      html`<${Dialog} title=${t.endSessionTitle(ending.identity?.name || ending.id)} onClose=${() => setEnding(null)}><p>${t.sessionsNote}</p><${Problem} error=${refused} />
      <div class="actions"><button type="button" class="button" onClick=${() => setEnding(null)}>${texts.cancel}</button><button type="button" class="button danger" disabled=${isBusy} onClick=${() => once(go)}>${t.endSession}</button></div><//>`
    }</section>`;
}

function Versions() {
  // The member `version` is for programs that compare it with versions of OpenZiti.
  const [version] = useLoad(
    (signal) =>
      get("/version", { signal }).then(({ data }) => ({
        ...data,
        version: data.apiVersions.overkeep.v1.version,
      })),
    [],
  );
  return html`<section class="card"><h2>${t.version}</h2>${version && html`<dl class="members">${["version", "revision", "buildDate", "runtimeVersion"].filter((member) => version[member]).map((member) => html`<div><dt>${t.versions[member]}</dt><dd><${Dated} text=${version[member]} /></dd></div>`)}</dl>`}
    <p><a href="/docs">${texts.documents}</a></p></section>`;
}

export const Care = () => html`<${Heading} title=${t.title} note=${t.note} />
  <div class="columns"><div><${Doctor} /><${ExpiringList} /></div><div><${Integrity} /><${Snapshots} /><${Versions} /></div><div>${may("GET", "/api-sessions") && html`<${Sessions} />`}
    <section class="card"><h2>${t.breakGlass}</h2><p class="hint">${t.breakGlassNote}</p><ul class="commands">${t.commands.map(([command, note]) => html`<li><code>${command}</code><${Copy} text=${command} /><p class="hint">${note}</p></li>`)}</ul></section></div></div>`;
