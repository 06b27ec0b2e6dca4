// Requests to the controller, the session, and the stream of changes.
// The session token is kept in sessionStorage, which ends with the tab, and nowhere else.

const MANAGEMENT = "/edge/management/v1";
const OVERKEEP = "/overkeep/v1";
const KEY = "overkeep-session";
const SIGNER_KEY = "overkeep-signer"; // the secret of a log-in at an external signer, until the browser comes back
const SESSIONS = /\/(api-)?sessions(\/|\?|$)/; // the page shows sessions of others and never needs their tokens
const RETRY = [1000, 2000, 5000, 10000];
const SILENCE = 40000; // milliseconds without data after which the connection is lost: the controller sends data every 15 seconds

/** A rejected request. `fields` maps a member of the request to the reason. */
export class Refused extends Error {
  constructor(status, error) {
    super(error?.cause?.message || error?.message || `HTTP ${status}`);
    this.status = status;
    this.code = error?.code;
    this.requestId = error?.requestId;
    this.fields = new Map();
    for (const violation of error?.violations || []) {
      if (violation.field && !this.fields.has(violation.field))
        this.fields.set(violation.field, violation.reason);
    }
    if (error?.cause?.field && !this.fields.has(error.cause.field))
      this.fields.set(error.cause.field, error.cause.reason);
    if (error?.cause?.field) this.locate(this.fields);
  }

  /** Names the members of the request again, with their reasons. */
  locate(fields) {
    this.fields = fields;
    const [[field, reason] = []] = fields;
    if (field) this.message = `${field}: ${reason}`;
  }
}

/** The error after a log-in by an identity that is not an administrator. */
export class NotAdministrator extends Error {}

let session = read();
const watchers = new Set();

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
}

/** `isLost`: the controller ended the session. */
function setSession(value, isLost = false) {
  session = value;
  if (value) sessionStorage.setItem(KEY, JSON.stringify(value));
  else sessionStorage.removeItem(KEY);
  for (const watcher of watchers) watcher(value, isLost);
}

export const currentSession = () => session;
export const forgetSession = () => setSession(null);

export function onSession(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

const url = (path) =>
  path.startsWith(`${OVERKEEP}/`) || path.startsWith("/edge/") || path.startsWith("/fabric/")
    ? path
    : MANAGEMENT + path;

/** Whether a session that was refused has ended. An API token is refused what is outside its scope, too; it may always ask for itself. */
async function isOver(token) {
  if (!session.isToken) return true;
  const answer = await fetch(url("/current-api-session"), {
    headers: { "zt-session": token },
    cache: "no-store",
    credentials: "omit",
  });
  return answer.status === 401;
}

async function send(
  method,
  path,
  { body, headers = {}, signal, keepalive, media = "application/json" } = {},
) {
  const all = { ...headers };
  const sent = session?.token;
  if (session?.token) all["zt-session"] = session.token;
  if (method === "GET" && SESSIONS.test(path)) all["overkeep-tokens"] = "hidden";
  let content;
  if (body !== undefined) {
    all["content-type"] = media;
    content = media === "application/json" ? JSON.stringify(body) : body;
  }
  const answer = await fetch(url(path), {
    method,
    headers: all,
    body: content,
    signal,
    keepalive,
    cache: "no-store",
    credentials: "omit",
  });
  if (answer.ok) return answer;
  const text = await answer.text();
  let error;
  try {
    error = JSON.parse(text).error;
  } catch {
    error = { message: text.slice(0, 300) };
  }
  // A wrong password beside a valid session is refused with the name of its member.
  if (
    answer.status === 401 &&
    !error?.cause?.field &&
    session?.complete &&
    session.token === sent &&
    (await isOver(sent)) &&
    session?.token === sent
  )
    setSession(null, true);
  throw new Refused(answer.status, error);
}

/** The envelope of an answer: `{ data, meta }`, with the entity tag as `etag`, and the members that nothing can ever match as `unmatchable`. */
export async function ask(method, path, options) {
  const answer = await send(method, path, options);
  const text = await answer.text();
  const media = answer.headers.get("content-type") || "";
  const envelope = media.includes("json") && text ? JSON.parse(text) : { data: text };
  return {
    ...envelope,
    etag: answer.headers.get("etag"),
    unmatchable: answer.headers.get("overkeep-unmatchable-members"),
  };
}

export const get = (path, options) => ask("GET", path, options);
export const query = (values) =>
  new URLSearchParams(
    Object.entries(values).filter(
      ([, value]) => value !== undefined && value !== null && value !== "",
    ),
  ).toString();

/** A page of a list: `{ rows, total, fields }`. */
export async function list(path, values = {}, options) {
  const { data, meta } = await get(`${path}?${query(values)}`, options);
  return {
    rows: data || [],
    total: meta?.pagination?.totalCount ?? data?.length ?? 0,
    fields: meta?.filterableFields || [],
  };
}

const MAX_REQUESTS = 8;

/** The results of `question` for each item, in order, a few at a time. */
export async function each(items, question) {
  const answers = [];
  let next = 0;
  const worker = async () => {
    while (next < items.length) {
      const index = next++;
      answers[index] = await question(items[index]);
    }
  };
  await Promise.all(Array.from({ length: MAX_REQUESTS }, worker));
  return answers;
}

/** Text as a literal of the filter language. A backslash is written by its number: the recorded order of escapes reads two of them and an n as a newline. */
export const literal = (text) =>
  `"${String(text).replace(/[\\"\0-\x1f]/g, (letter) => (letter === '"' ? '\\"' : `\\x{${letter.charCodeAt(0).toString(16)}}`))}"`;

const opened = (data) => ({
  token: data.token,
  id: data.id,
  name: data.identity?.name,
  identityId: data.identityId,
  complete: false,
});

/** Opens a session. Returns the authentication steps that are still required, usually none. */
export const logIn = (method, body) => enter(`/authenticate?method=${method}`, body);

/** Opens a session with the secret of a one-time link. */
export const useLink = (secret) => enter(`${OVERKEEP}/authenticate/link`, { secret });

/** The external signers at whose issuers a browser can log in. */
export async function signers() {
  const { rows } = await list("/edge/client/v1/external-jwt-signers", { limit: 100, sort: "name" });
  return rows.filter(({ externalAuthUrl, clientId }) => externalAuthUrl && clientId);
}

/** Sends the browser to the issuer of a signer, which sends it back with a code. */
export async function goToIssuer(signer) {
  setSession(null);
  const { data } = await ask("POST", `${OVERKEEP}/authenticate/signer`, {
    body: { signer, host: location.host },
  });
  sessionStorage.setItem(SIGNER_KEY, data.secret);
  location.assign(data.address);
}

/** Opens a session with the code that an issuer sent back with the browser. */
export function useCode({ code, state, issuer }) {
  const secret = sessionStorage.getItem(SIGNER_KEY);
  sessionStorage.removeItem(SIGNER_KEY);
  if (!secret || !code || !state) throw new Refused(401);
  return enter(`${OVERKEEP}/authenticate/signer-code`, {
    code,
    state,
    secret,
    ...(issuer ? { issuer } : {}),
  });
}

async function enter(path, body) {
  setSession(null);
  const { data } = await ask("POST", path, { body });
  setSession(opened(data));
  if (!data.authQueries?.length) await admit();
  return data.authQueries || [];
}

/** Uses an API token in place of a session. It stays valid when the page forgets it. The id of its session is that of the token, whose record has the scope. */
export async function useToken(token) {
  setSession(null);
  const headers = { "zt-session": token };
  const { data: own } = await ask("GET", "/current-api-session", { headers });
  const { data } = await ask("GET", `${OVERKEEP}/api-tokens/${encodeURIComponent(own.id)}`, {
    headers,
  }).catch((error) => {
    throw error.status === 401 ? new NotAdministrator() : error;
  });
  const scope =
    data.kinds.length || data.actions.length ? { kinds: data.kinds, actions: data.actions } : null;
  setSession({
    token,
    name: data.identity.name,
    identityId: data.identityId,
    isToken: true,
    scope,
    complete: true,
  });
}

const claimsOf = (jwt) =>
  JSON.parse(
    new TextDecoder().decode(
      Uint8Array.from(atob(jwt.split(".")[1].replace(/-/g, "+").replace(/_/g, "/")), (letter) =>
        letter.charCodeAt(0),
      ),
    ),
  );

/** What an enrollment token says, or `null` if it is none. Nobody but the controller can tell whether it is valid. */
export function claims(jwt) {
  try {
    return claimsOf(jwt);
  } catch {
    return null;
  }
}

/** Sets the password of an invited person, who then logs in with it. Returns the user name. */
export async function acceptInvitation(token, password) {
  const { data } = await ask("POST", `/edge/client/v1/enroll?${query({ method: "updb", token })}`, {
    body: { password },
  });
  return data.username;
}

/** Only administrators may use the page. The session of anybody else is ended. */
async function admit() {
  const { data } = await ask("GET", "/current-identity");
  if (data.isAdmin) return setSession({ ...session, complete: true });
  await logOut();
  throw new NotAdministrator();
}

/** Admits a person who has set up one-time codes in the log-in that needs them. */
export const finishLogIn = () => admit();

export async function giveCode(code) {
  await ask("POST", "/authenticate/mfa", { body: { code } });
  await admit();
}

/** Forgets the session at once, and ends it on the controller even if the page is closed meanwhile. */
export async function logOut() {
  const ended = session;
  setSession(null);
  if (ended?.isToken) return;
  try {
    await send("DELETE", "/current-api-session", {
      headers: { "zt-session": ended?.token },
      keepalive: true,
    });
  } catch {
    // The session has ended already.
  }
}

let last = {}; // the last event, and the identity that read it

/** Reads new rows of the history until `signal` aborts. After an interruption, such as sleep or a session that ended, it resumes after the last row that the same person read. */
export async function follow(onRow, onState, signal) {
  if (last.reader !== session?.identityId) last = { reader: session?.identityId };
  let failures = 0;
  while (!signal.aborted && session?.complete) {
    const silence = new AbortController();
    let timer;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE);
    };
    try {
      heard();
      const answer = await send("GET", `${OVERKEEP}/events`, {
        headers: last.id ? { "last-event-id": last.id } : {},
        signal: AbortSignal.any([signal, silence.signal]),
      });
      onState(true);
      failures = 0;
      for await (const event of events(answer.body.getReader(), heard)) {
        last.id = event.id || last.id;
        if (event.data) onRow(JSON.parse(event.data), event.event);
      }
    } catch (error) {
      if (signal.aborted || error.status === 401) return;
    } finally {
      clearTimeout(timer);
      silence.abort();
    }
    onState(false);
    await new Promise((resolve) =>
      setTimeout(resolve, RETRY[Math.min(failures++, RETRY.length - 1)]),
    );
  }
}

async function* events(reader, heard) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    text += decoder.decode(value, { stream: true });
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const event = { data: "" };
      for (const line of text.slice(0, end).split("\n")) {
        const colon = line.indexOf(":");
        if (colon <= 0) continue;
        const name = line.slice(0, colon);
        const content = line.slice(colon + 1).replace(/^ /, "");
        event[name] = name === "data" ? event.data + content : content;
      }
      text = text.slice(end + 2);
      yield event;
    }
  }
}
