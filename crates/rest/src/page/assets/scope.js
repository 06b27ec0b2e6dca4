// What the session may do. A log-in of an administrator may do everything; an API token has a scope, and the page offers nothing outside of it.
// crates/rest/src/token_scope.rs has the same rules; the controller applies them in any case.

import { currentSession } from "./api.js";
import { kind } from "./kinds.js";

const PREFIX = /^\/(overkeep\/v1|edge\/management\/v1|fabric\/v1)(?=\/)/;
/** First segments of paths whose answers tell of every kind: a token with a list of kinds has none of them. */
const OF_EVERY_KIND = ["network", "history", "events", "explain", "doctor", "expiring"];
/** Segments under which other kinds are named, too. */
const ROUTERS = "edge-routers";
const NAMING = {
  "policy-advice": ["services", ROUTERS],
  "failed-service-requests": ["services", "service-policies", "posture-checks"],
  "service-configs": ["services", "configs"],
  circuits: ["identities", "services", ROUTERS],
  hosting: ["identities", "services", ROUTERS],
  channels: ["identities"],
  online: ["identities", ROUTERS],
  links: [ROUTERS],
  "transit-routers": [ROUTERS],
  routers: [ROUTERS],
};
/** Kinds whose records hold secrets of others, and first segments of what a token with a scope never changes. */
const SECRETS = ["api-sessions", "sessions"];
const UNCHANGED = ["api-tokens", "authenticate", "current-api-session", "current-identity"];

/** Whether the session may send a request. Ids in the path may be anything; so may the record's id at its second place. */
export function may(method, path) {
  const scope = currentSession()?.scope;
  if (!scope) return true;
  const [first, id, ...rest] = path.replace(PREFIX, "").split("?")[0].split("/").filter(Boolean);
  if (first === "current-identity" && id === "mfa") return false;
  const acts = (action) => !scope.actions.length || scope.actions.includes(action);
  const covers = (name) => !scope.kinds.length || scope.kinds.includes(name);
  const named = [first, id, ...rest].flatMap((part) => NAMING[part] || []);
  const kinds = [first, ...rest.filter((part) => kind(part) || SECRETS.includes(part))];
  if (
    (OF_EVERY_KIND.includes(first) && scope.kinds.length) ||
    ![...kinds.filter((name) => !OF_EVERY_KIND.includes(name)), ...named].every(covers)
  )
    return false;
  if (method === "GET")
    return (
      acts("read") &&
      !kinds.some((name) => SECRETS.includes(name) || (name === "enrollments" && !acts("create")))
    );
  const action =
    method === "DELETE"
      ? "delete"
      : method !== "POST"
        ? "update"
        : rest.at(-1) || (first === "database" ? id : "create");
  return acts(action) && !UNCHANGED.includes(first);
}

export const mayList = (kind) => may("GET", kind.path);
export const mayCreate = (kind) => Boolean(kind?.create) && may("POST", kind.path);

/** Whether the session may read what is told of every kind: the history, explanations, findings. */
export const mayReadAll = () => may("GET", "/overkeep/v1/history");

/** Whether the session may make what a service needs in one transaction. */
export const mayShare = () =>
  ["GET", "POST", "PUT", "DELETE"].every((method) => may(method, "/overkeep/v1/network"));

/** Whether the session changes nothing. */
export const isReader = () =>
  Boolean(currentSession()?.scope?.actions.length) &&
  currentSession().scope.actions.every((action) => action === "read");
