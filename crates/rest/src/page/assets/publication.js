// A service with its configs and both policies as a network document: the records, names and tag that `overkeep publish` makes.
// src/cli/publishing/publish.rs has the same rules.

import { ask } from "./api.js";
import { singular } from "./kinds.js";
import { texts } from "./texts.js";

const PATH = "/overkeep/v1/network?strict=true&maxDeletions=0";
/** The tag of the records that were made for a service. Its value is the name of the service. */
const TAG = "published";
/** How often a plan is made anew because a record was changed between its two questions. */
const ATTEMPTS = 5;
/** The lists of the document, in the order in which they are shown. */
const KINDS = ["configs", "services", "service-policies"];
const MAX_PORT = 65535;
const PLACE =
  /^(?!(?:tcp|udp):\d+$)(?:(tcp|udp):)?\/*([\p{L}\p{N}_.[][\p{L}\p{N}_.:%[\]-]*):(\d{1,5})$/u;
const t = texts.share;

/** Protocol, host and port of `HOST:PORT` or `udp:HOST:PORT`, or `null`. */
export function placeOf(text) {
  const [, protocol = "tcp", host, digits] = PLACE.exec(text.trim()) || [];
  const port = Number(digits);
  return host && port && port <= MAX_PORT
    ? { protocol, address: host.replace(/^\[+|\]+$/g, ""), port }
    : null;
}

/** The place as `overkeep host` takes it. */
export const placeText = ({ protocol, address, port }) =>
  `${protocol === "udp" ? "udp:" : ""}${address.includes(":") ? `[${address}]` : address}:${port}`;

/** The document of a service. `host` and `to` are roles: `#` and a role, or `@` and the name of an identity. */
function documentOf({ name, host, target, to, address }) {
  const tags = { [TAG]: name };
  const configs = [];
  const add = (kind, data) =>
    configs.push({ name: `${name}.${kind}`, configTypeId: kind, data, tags });
  add("host.v1", placeOf(target));
  if (address) {
    const place = placeOf(address);
    add("intercept.v1", {
      protocols: [place.protocol],
      addresses: [place.address],
      portRanges: [{ low: place.port, high: place.port }],
    });
  }
  const policy = (type, who) => ({
    name: `${name}.${type.toLowerCase()}`,
    type,
    semantic: "AnyOf",
    identityRoles: [...new Set(who)].sort(),
    serviceRoles: [`@${name}`],
    tags,
  });
  const service = {
    name,
    encryptionRequired: true,
    configs: configs.map((config) => config.name),
    tags,
  };
  return {
    configs,
    services: [service],
    "service-policies": [policy("Bind", host), policy("Dial", to)],
  };
}

/** The field that a record was made from. */
function fieldOf(kind, name) {
  if (kind === "configs") return name.endsWith(".host.v1") ? "target" : "address";
  if (kind === "service-policies") return name.endsWith(".bind") ? "host" : "to";
  return "name";
}

/** The field that the path of an error belongs to: `configs.web.host.v1.port` is that of the target, and `services.0.name` the name. */
function fieldAt(path, document) {
  const [kind, place] = /^([a-z-]+)\.(.*)$/.exec(path)?.slice(1) || [];
  if (!Object.hasOwn(document, kind) || /\.serviceRoles\b/.test(path)) return "name";
  const at = document[kind].findIndex(
    ({ name }, index) =>
      `${place}.`.startsWith(`${name}.`) || /^\d+/.exec(place)?.[0] === `${index}`,
  );
  return fieldOf(kind, document[kind][at]?.name || "");
}

/** An error with the reasons by field. */
function refusal(reasons, status) {
  const error = new Error([...reasons].map(([field, reason]) => t.at(field, reason)).join("; "));
  return Object.assign(error, { status, fields: reasons });
}

const send = (document, { query = "", ...options }) =>
  ask("PUT", `${PATH}${query}`, { body: document, ...options }).then(
    ({ data }) => data,
    (error) => {
      const reasons = new Map();
      for (const [path, reason] of error.fields || []) {
        const field = fieldAt(path, document);
        if (!reasons.has(field)) reasons.set(field, reason);
      }
      throw reasons.size ? refusal(reasons, error.status) : error;
    },
  );

const sorted = (value) =>
  JSON.stringify(Array.isArray(value) ? value.map((one) => JSON.stringify(one)).sort() : value);

/** The document with the stored values where a record exists that does not differ: another tag, and lists in another order, are no difference. Applied, it leaves these records as they are. Throws the members that differ. */
function withStored(wanted, plan) {
  const document = structuredClone(wanted);
  const differing = new Map();
  for (const { action, entity, name, members } of plan.objects) {
    const record = action === "update" && document[entity]?.find((one) => one.name === name);
    for (const { member, before = null, after = null } of record ? members : []) {
      if (member === "tags" || sorted(before) === sorted(after)) record[member] = before;
      else {
        const field = fieldOf(entity, name);
        const [old, next] = [before, after].map((value) => JSON.stringify(value));
        const reason = t.differs(singular(entity).replace("-", " "), name, member, old, next);
        differing.set(field, [differing.get(field), reason].filter(Boolean).join("; "));
      }
    }
  }
  if (differing.size) throw refusal(differing);
  return document;
}

/** Whether a plan does nothing but create objects. An update of no member only sorts roles. */
const isOfCreations = ({ objects }) =>
  objects.every(
    ({ action, members }) => action === "create" || (action === "update" && !members.length),
  );

/** What sharing a service would do: the document, its plan, and every record with whether it is new. Throws an error whose `fields` are those of the form. */
export async function planned(service, signal) {
  const wanted = documentOf(service);
  const asked = { query: "&preview=true", signal };
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    let plan = await send(wanted, asked);
    const document = withStored(wanted, plan);
    if (JSON.stringify(document) !== JSON.stringify(wanted)) plan = await send(document, asked);
    if (!isOfCreations(plan)) continue; // a record that existed has been changed since
    const made = plan.objects.filter(({ action }) => action === "create");
    const records = KINDS.flatMap((kind) =>
      document[kind].map(({ name }) => ({
        kind,
        name,
        isNew: made.some((object) => object.entity === kind && object.name === name),
      })),
    );
    return { document, plan, records };
  }
  throw new Error(t.givenUp);
}

/** Applies what was planned, and nothing else: the answer has the status 412 if the network has changed since. */
export const apply = ({ document, plan }) =>
  send(document, { headers: { "if-match": `"${plan.tag}"` } });
