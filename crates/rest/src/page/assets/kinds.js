// Every kind of record, as the OpenAPI documents of the interfaces describe it. A new kind appears on the page because it is in the documents.

import { texts } from "./texts.js";

let kinds = new Map();
let schemas = {};

const TYPES = "identity-types"; // all identities but those of routers are of one type
export const INVALID = /^Invalid$/; // a right that nobody has
const NO_POLICY = /^dummy /; // the policy of a question that asks nothing
const PATH = /^\/([a-z-]+)$/;
const PATCHED = /^\/([a-z-]+)\/\{id\}$/;
const RELATED = /^\/([a-z-]+)\/\{id\}\/([a-z-]+)$/;

/** The interfaces with kinds. Paths of the first need no prefix. */
const INTERFACES = [
  ["/edge/management/v1", ""],
  ["/overkeep/v1", "/overkeep/v1"],
];

/** Loads the documents of the interfaces and derives the kinds from them. */
export async function load() {
  if (kinds.size) return;
  const found = new Map();
  const documents = await Promise.all(
    INTERFACES.map(([base]) =>
      fetch(`${base}/openapi.json`, { credentials: "omit" }).then((answer) => answer.json()),
    ),
  );
  schemas = Object.assign({}, ...documents.map(({ components }) => components.schemas).reverse());
  documents.forEach(({ paths }, index) => {
    for (const [path, item] of Object.entries(paths)) {
      const name = PATH.exec(path)?.[1];
      if (name && !found.has(name) && item.get && paths[`${path}/{id}`]?.get && isList(item.get))
        found.set(name, kindOf(name, item, paths, INTERFACES[index][1]));
    }
  });
  found.delete(TYPES);
  for (const duplicate of texts.sameKind) if (found.has(duplicate[1])) found.delete(duplicate[0]);
  kinds = found;
}

const isList = (operation) =>
  (operation.parameters || []).some((parameter) => parameter.name === "filter");
const JSON_MEDIA = "application/json";
const bodyOf = (operation) => operation?.requestBody?.content?.[JSON_MEDIA]?.schema;
const answerOf = (operation) =>
  Object.values(operation?.responses?.["200"]?.content || {})[0]?.schema;
const offers = (operation, name) =>
  (operation?.parameters || []).some((parameter) => parameter.name === name);

function kindOf(name, item, paths, base) {
  const one = paths[`/${name}/{id}`];
  const related = [];
  const actions = [];
  for (const [path, operations] of Object.entries(paths)) {
    const match = RELATED.exec(path);
    if (match?.[1] !== name) continue;
    if (operations.get && isList(operations.get)) related.push(match[2]);
    else if (!texts.noAction.includes(match[2])) {
      for (const method of ["post", "delete"])
        if (operations[method]) actions.push(actionOf(method, match[2], operations[method]));
    }
  }
  const shown = resolve(answerOf(item.get))?.properties?.data?.items;
  const create = resolve(bodyOf(item.post));
  const replace = resolve(bodyOf(one.put));
  return {
    name,
    path: `${base}/${name}`,
    label: texts.kinds[name]?.many || sentence(name),
    one: texts.kinds[name]?.one || inText(singular(sentence(name))),
    note: texts.kinds[name]?.note,
    shown: resolve(shown),
    create,
    replace,
    // Members that only creation sets.
    fixed: Object.entries(replace?.properties || {})
      .filter(([, schema]) => schema["x-overkeep-fixed"])
      .map(([member]) => member),
    canDelete: Boolean(one.delete),
    previews: {
      create: offers(item.post, "preview"),
      change: offers(one.put, "preview"),
      delete: offers(one.delete, "preview"),
    },
    roles:
      `/${singular(name)}-role-attributes` in paths ? `/${singular(name)}-role-attributes` : null,
    related,
    actions,
  };
}

/** An operation on one record. If the body is a list, its form has the list as the member `list`. */
function actionOf(method, verb, operation) {
  const body = resolve(bodyOf(operation));
  const isList = body?.type === "array";
  const form = isList ? { type: "object", required: ["list"], properties: { list: body } } : body;
  const label =
    texts.detail.actions[`${method} ${verb}`] ||
    (method === "delete"
      ? texts.detail.takeBack(sentence(verb).toLowerCase())
      : texts.detail.run(verb));
  const media = Object.keys(operation.requestBody?.content || {})[0];
  // No preview of lists and texts: they are incomplete until they are sent, and no such operation changes access.
  const preview = offers(operation, "preview") && !isList && (!media || media === JSON_MEDIA);
  return {
    method: method.toUpperCase(),
    verb,
    label,
    summary: operation.summary,
    body: form,
    isList,
    media,
    preview,
  };
}

export const allKinds = () => [...kinds.values()];
export const kind = (name) => kinds.get(name);

/** A schema with its reference resolved, one level. */
export function resolve(schema) {
  let followed = schema;
  while (followed?.$ref)
    followed = {
      ...schemas[followed.$ref.split("/").pop()],
      ...(followed.description ? { description: followed.description } : {}),
    };
  const real = followed?.anyOf?.filter((option) => option.type !== "null");
  if (real?.length === 1)
    return resolve({
      ...real[0],
      description: followed.description,
      examples: followed.examples,
      default: followed.default,
    });
  return followed;
}

export const typeOf = (schema) =>
  Array.isArray(schema?.type) ? schema.type.find((type) => type !== "null") : schema?.type;

export const singular = (word) => word.replace(/ies$/, "y").replace(/(?<!s)s$/, "");
const plural = (word) =>
  /[^aeiou]y$/.test(word) ? word.replace(/y$/, "ies") : word.endsWith("s") ? word : `${word}s`;
const words = (member) =>
  member
    .replace(/([a-z0-9])([A-Z])/g, "$1-$2")
    .toLowerCase()
    .split("-");

/** A label within a sentence. Abbreviations keep their capital letters. */
export const inText = (label) =>
  /^\p{Lu}\p{Ll}/u.test(label) ? label.charAt(0).toLowerCase() + label.slice(1) : label;

/** `service-policies` as `Service policies`, `configTypeId` as `Config type`. */
export function sentence(member) {
  if (Object.hasOwn(texts.members, member)) return texts.members[member];
  const text = words(member).join(" ").replace(/ id$/, "");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The kind that a member of a record refers to by id, if its name says so. */
export function referred(member) {
  if (/token$/i.test(member)) return null; // a secret, not the id of a record
  const parts = words(member).filter(
    (part, index, all) => !(part === "id" && index === all.length - 1),
  );
  for (let from = 0; from < parts.length; from++) {
    const rest = parts.slice(from);
    const name = [...rest.slice(0, -1), plural(rest[rest.length - 1])].join("-");
    if (kinds.has(name)) return kinds.get(name);
    const ends = [...kinds.keys()].filter((key) => key.endsWith(`-${name}`));
    if (from > 0 && ends.length === 1) return kinds.get(ends[0]);
  }
  return null;
}

/** The same for a member whose value is a text: `identity` of a terminator is the name of an instance. Ids of identities are in `identityId`. */
export const referredByText = (member) => (member === "identity" ? null : referred(member));

/** The kind that a list of roles selects from: `identityRoles` selects identities. */
export const selected = (member) =>
  member.endsWith("Roles") ? kinds.get(plural(words(member.slice(0, -5)).join("-"))) : null;

/** The description of a member: the page's own where that of the interface speaks to programs. */
export function describe(kind, member, schema) {
  const own = [`${kind?.name}.${member}`, member].find((key) => Object.hasOwn(texts.notes, key));
  return own ? texts.notes[own] : schema?.description;
}

/** An example of a name of a kind. */
export const nameLike = (kindName) =>
  Object.hasOwn(texts.examples, `${kindName}.name`)
    ? texts.examples[`${kindName}.name`]
    : texts.form.anything.string;

/** A word of the interface as people say it: the name of a log-in method, what a right means. */
export const wordOf = (member, value) => {
  const words = Object.hasOwn(texts.words, member) ? texts.words[member] : {};
  return Object.hasOwn(words, value) ? words[value] : value;
};

/**
 * The value of a member, or `undefined` if it says nothing: an administrator whom no policy gives a right has the right `Invalid` for clients that expect one,
 * policies without posture checks have a question that asks nothing, and every identity but that of a router has one type.
 */
export function meant(member, value) {
  const left = {
    permissions: (right) => !INVALID.test(right),
    postureQueries: ({ policyId }) => !NO_POLICY.test(policyId),
  }[member];
  if (left && Array.isArray(value)) {
    const rest = value.filter(left);
    return rest.length ? rest : undefined;
  }
  if (value?.entity === TYPES) return value.id === "Default" ? undefined : value.name;
  return value;
}

/** The display name of a record. */
export const nameOf = (record) =>
  record?.name || record?.username || record?.identity?.name || record?.id || "";
