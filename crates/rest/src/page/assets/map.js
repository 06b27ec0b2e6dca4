// The map: groups of identities, the policies that select them, the groups of services, and the routers that carry them.
// A group is what policies name: a role, a single record, or all. Sizes, and which groups are reached over which router, are counted by the
// controller's access engine, so the number of records does not matter here.

import { useEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";
import { each, list } from "./api.js";
import { Group, firstPair, isSingle, members, pairAddress } from "./groups.js";
import { UNREACHED, useHosting, wrongWith } from "./hosting.js";
import { kind as kindBy } from "./kinds.js";
import { texts } from "./texts.js";
import { Empty, Icon, Loading, Problem, useCalm, useLoad } from "./parts.js";
import { useNews } from "./news.js";
import { mayCreate } from "./scope.js";

const t = texts.access;
const MAX_POLICIES = 40;
const MAX_PAGE = 500;
const MAX_ROUTERS = 6;
const MAX_PAIRS = 20;

const count = (path, filter, signal) =>
  list(path, { filter, limit: 1 }, { signal }).then(({ total }) => total);

/** The number of records of each group. */
const sizes = async (groups, path, signal) =>
  new Map(
    (await each([...groups], (role) => count(path, members(role), signal))).map((total, index) => [
      [...groups][index],
      total,
    ]),
  );

/** The service policies that a search looks through: all of them. Without a search the first ones suffice. */
async function policiesFor(text, signal) {
  const page = (offset) =>
    list(
      "/service-policies",
      { limit: text ? MAX_PAGE : MAX_POLICIES, sort: "name", offset: offset || undefined },
      { signal },
    );
  const first = await page(0);
  if (!text) return first;
  const offsets = Array.from(
    { length: Math.ceil(first.total / MAX_PAGE) - 1 },
    (_, index) => (index + 1) * MAX_PAGE,
  );
  const others = await each(offsets, page);
  return { rows: [first, ...others].flatMap(({ rows }) => rows), total: first.total };
}

/** Policies whose name, or the name of one of whose groups, contains the text. */
async function load(text, signal) {
  const small = text.toLowerCase();
  const [service, router] = await Promise.all([
    policiesFor(small, signal),
    list("/edge-routers", { limit: MAX_ROUTERS, sort: "name" }, { signal }),
  ]);
  const names = (policy) => [
    policy.name,
    ...[...(policy.identityRolesDisplay || []), ...(policy.serviceRolesDisplay || [])].map(
      ({ name }) => name,
    ),
  ];
  const matching = service.rows.filter(
    (policy) => !small || names(policy).some((name) => name.toLowerCase().includes(small)),
  );
  const policies = matching.slice(0, MAX_POLICIES);
  const groups = (member) => new Set(policies.flatMap((policy) => policy[member] || []));
  const [who, what] = await Promise.all([
    sizes(groups("identityRoles"), "/identities", signal),
    sizes(groups("serviceRoles"), "/services", signal),
  ]);
  const reached = await each(policies, (policy) =>
    each(["identities", "services"], (side) =>
      count(`/service-policies/${policy.id}/${side}`, "", signal),
    ),
  );
  const pairs = router.rows.flatMap(({ id }) => [...what.keys()].map((role) => [id, role]));
  const carried = await each(pairs, ([id, role]) =>
    count(`/edge-routers/${encodeURIComponent(id)}/services`, members(role), signal),
  );
  const over = pairs.filter((_, index) => carried[index]);
  return {
    policies,
    total: small ? matching.length : service.total,
    who,
    what,
    reached: new Map(policies.map(({ id }, index) => [id, reached[index]])),
    over,
    routers: router.rows,
    allRouters: router.total,
  };
}

/** The nodes in four columns and the edges between them. */
function draw({ policies, who, what, reached, routers, over }) {
  const name = new Map();
  for (const policy of policies) {
    for (const { role, name: text } of [
      ...(policy.identityRolesDisplay || []),
      ...(policy.serviceRolesDisplay || []),
    ])
      name.set(role, text);
  }
  const label = (role, all) => (role === "#all" ? all : (name.get(role) || role).replace(/^@/, ""));
  const left = [...who].map(([role, count]) => ({
    id: `who ${role}`,
    role,
    label: label(role, t.everybody),
    count,
    kind: "identities",
    tone: isSingle(role) ? "one" : "role",
  }));
  const right = [...what].map(([role, count]) => ({
    id: `what ${role}`,
    role,
    label: label(role, t.everything),
    count,
    kind: "services",
    tone: isSingle(role) ? "one" : "role",
  }));
  const middle = policies.map((policy) => ({
    reached: reached.get(policy.id),
    id: `policy ${policy.id}`,
    policy,
    label: policy.name,
    kind: "service-policies",
    tone: policy.type,
  }));
  const last = routers.map((router) => ({
    id: `router ${router.id}`,
    router,
    label: router.name,
    kind: "edge-routers",
    tone: router.isOnline ? "on" : "off",
  }));
  const edges = [];
  for (const policy of policies) {
    for (const role of policy.identityRoles || [])
      edges.push([`who ${role}`, `policy ${policy.id}`, policy.type]);
    for (const role of policy.serviceRoles || [])
      edges.push([`policy ${policy.id}`, `what ${role}`, policy.type]);
  }
  for (const [router, role] of over) edges.push([`what ${role}`, `router ${router}`, "over"]);
  // Connected nodes are placed near each other, so that fewer lines cross.
  const rank = new Map(middle.map((node, index) => [node.id, index]));
  const mean = (id) => {
    const ranks = edges
      .flatMap(([from, to]) => (from === id ? [rank.get(to)] : to === id ? [rank.get(from)] : []))
      .filter((value) => value !== undefined);
    return ranks.reduce((sum, value) => sum + value, 0) / (ranks.length || 1);
  };
  for (const column of [left, right]) column.sort((a, b) => mean(a.id) - mean(b.id));
  return { columns: [left, middle, right, last], edges, label };
}

/** All nodes on a path through a node, to the left and to the right. */
function connected(id, edges) {
  const found = new Set([id]);
  for (const [from, to] of [
    [0, 1],
    [1, 0],
  ]) {
    let front = [id];
    while (front.length) {
      front = edges
        .filter((edge) => front.includes(edge[from]) && !found.has(edge[to]))
        .map((edge) => edge[to]);
      front.forEach((other) => found.add(other));
    }
  }
  return found;
}

/** What is wrong with the services of a group: a sentence for one, a number for several. */
function wrongIn(role, unreached) {
  const found = [...unreached.values()].filter(
    ({ id, roleAttributes }) =>
      role === "#all" ||
      role === `@${id}` ||
      (role.startsWith("#") && roleAttributes.includes(role.slice(1))),
  );
  return found.length === 1
    ? wrongWith(found[0])
    : found.length
      ? texts.hosting.without(found.length)
      : null;
}

function Node({ node, dim, isSelected, onOver, onSelect, wrong }) {
  const { policy } = node;
  const notes = policy && [
    t.policy(policy.type, ...node.reached),
    policy.semantic === "AllOf" &&
      (policy.identityRoles.length > 1 || policy.serviceRoles.length > 1) &&
      t.all,
    policy.postureCheckRoles?.length > 0 && t.withChecks,
  ];
  const inner = html`<span class="name">${node.label}</span>
    ${node.count !== undefined && html`<span class="faint">${isSingle(node.role) ? kindBy(node.kind).one : node.count ? t.members(node.count) : t.nothing}</span>`}
    ${wrong && html`<span class="warning"><i aria-hidden="true"></i><span>${wrong}</span></span>`}
    ${notes && html`<span class="faint">${notes.filter(Boolean).join(" · ")}</span>`}
    ${node.router && html`<span class="faint">${node.router.isOnline ? t.connected : t.notConnected}</span>`}`;
  const props = {
    "data-node": node.id,
    title: node.label,
    class: `node ${node.tone} ${dim ? "dim" : ""}`,
    onMouseEnter: () => onOver(node.id),
    onMouseLeave: () => onOver(null),
    onFocus: () => onOver(node.id),
    onBlur: () => onOver(null),
  };
  if (policy || node.router)
    return html`<a ...${props} href=${`#/${node.kind}/${(policy || node.router).id}`}>${inner}</a>`;
  return html`<button type="button" ...${props} aria-pressed=${isSelected} onClick=${() => onSelect(node)}>${inner}</button>`;
}

/** The relations of a policy as a list, for windows that are too narrow for lines. A pair leads to the explanation for the first member of each group. */
function Relations({ policies, name, onExplain, unreached }) {
  const pairs = (policy) =>
    (policy.identityRoles || []).flatMap((who) =>
      (policy.serviceRoles || []).map((what) => [who, what]),
    );
  return html`<section class="relations"><h2>${t.relations}</h2>
    ${policies.map(
      (
        policy,
      ) => html`<h3 key=${policy.id}><a href=${`#/service-policies/${policy.id}`}>${policy.name}</a></h3><ul class="plain">${pairs(
        policy,
      )
        .slice(0, MAX_PAIRS)
        .map(
          ([who, what]) => html`
      <li key=${`${who} ${what}`}><button type="button" class="button" onClick=${() => onExplain({ role: who }, { role: what }, policy)}>${t.relation(name(who, t.everybody), policy.type, name(what, t.everything))}</button>${wrongIn(what, unreached) && html`<p class="warning"><i aria-hidden="true"></i><span>${wrongIn(what, unreached)}</span></p>`}</li>`,
        )}</ul>
      ${pairs(policy).length > MAX_PAIRS && html`<p class="faint">${texts.preview.others(pairs(policy).length - MAX_PAIRS)}</p>`}`,
    )}
  </section>`;
}

/** Where the nodes are, so that the lines meet them at any width and height. */
function usePlaces(map, drawn) {
  const [places, setPlaces] = useState(null);
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      const { left, top } = map.current.getBoundingClientRect();
      const place = (element) => {
        const box = element.getBoundingClientRect();
        return [
          element.dataset.node,
          { from: box.right - left, to: box.left - left, y: box.top - top + box.height / 2 },
        ];
      };
      setPlaces(new Map([...map.current.querySelectorAll("[data-node]")].map(place)));
    });
    observer.observe(map.current);
    return () => observer.disconnect();
  }, [drawn]);
  return places;
}

const Lines = ({ places, edges, lit }) =>
  html`<svg class="lines" aria-hidden="true">${edges.map(([from, to, type]) => {
    const [start, end] = [places.get(from), places.get(to)];
    if (!start || !end) return null;
    const middle = (start.from + end.to) / 2;
    const tone = !lit ? "" : lit.has(from) && lit.has(to) ? "lit" : "dim";
    return html`<path class=${`${type} ${tone}`} d=${`M${start.from} ${start.y}C${middle} ${start.y} ${middle} ${end.y} ${end.to} ${end.y}`} />`;
  })}</svg>`;

/** Gives the focus to a node, or to the first one if the map no longer shows it. */
function focusNode(id) {
  const nodes = [...document.querySelectorAll("[data-node]")];
  (nodes.find(({ dataset }) => dataset.node === id) || nodes[0])?.focus();
}

function Drawing({ drawn, selected, onSelect, unreached }) {
  const [over, setOver] = useState(null);
  const map = useRef();
  const places = usePlaces(map, drawn);
  const shown = over || selected?.node;
  const lit = shown ? connected(shown, drawn.edges) : null;
  return html`<div class="map" ref=${map}>${places && html`<${Lines} places=${places} edges=${drawn.edges} lit=${lit} />`}
    ${drawn.columns.map((nodes, column) => html`<section><h2>${t.columns[column]}</h2><ul>${nodes.map((node) => html`<li key=${node.id}><${Node} node=${node} dim=${lit && !lit.has(node.id)} isSelected=${selected?.node === node.id} onOver=${setOver} onSelect=${onSelect} wrong=${node.kind === "services" && wrongIn(node.role, unreached)} /></li>`)}</ul></section>`)}
  </div>`;
}

/** Says what is selected and what to select next. */
function Selection({ selected, note, error, onMembers, onClear }) {
  return html`<div class="selection"><div role="status">${note ? html`<p class="warning"><i aria-hidden="true"></i><span>${note}</span></p>` : html`<p>${selected ? t.selected[selected.kind](selected.label) : t.selectFirst}</p>`}</div>
    ${selected && html`<div class="actions">${!selected.id && html`<button type="button" class="button small" onClick=${onMembers}>${t.showMembers}</button>`}<button type="button" class="button small" onClick=${onClear}>${t.clearSelection}</button></div>`}
    <${Problem} error=${error} /></div>`;
}

export function AccessMap() {
  const [text, setText] = useState("");
  const [selected, setSelected] = useState(null); // a group, or one of its members: then with the `id` of the member
  const [open, setOpen] = useState(null);
  const [note, setNote] = useState(null);
  const [failed, setFailed] = useState(null);
  const calm = useCalm(text.trim(), 200);
  const [found, error, again] = useLoad((signal) => load(calm, signal), [calm]);
  useNews(
    (row) =>
      [
        "identity",
        "service",
        "servicePolicy",
        "edgeRouter",
        "edgeRouterPolicy",
        "serviceEdgeRouterPolicy",
      ].includes(row.kind),
    again,
    [calm],
  );
  const drawn = useMemo(() => found && draw(found), [found]);
  const unreached = useHosting(UNREACHED);
  const round = useRef(0); // an answer to an earlier question, or after the map was left, leads nowhere
  useEffect(
    () => () => {
      round.current++;
    },
    [],
  );
  const choose = (next) => {
    round.current++;
    setSelected(next);
    setNote(null);
    setFailed(null);
  };
  /** Explains the first member of each group that one of the policies selects, the first that selects both; `null` in place of a policy is the first member of each group. */
  const explain = async (who, what, policies) => {
    const mine = ++round.current;
    let said = null;
    try {
      for (const policy of policies) {
        const [identity, service] = await firstPair(policy, who, what);
        if (mine !== round.current) return;
        if (identity && service) {
          location.hash = pairAddress(
            identity,
            service,
            (policy || policies[0])?.type,
            who.role,
            what.role,
          );
          return;
        }
        const empty = [
          !identity && drawn.label(who.role, t.everybody),
          !service && drawn.label(what.role, t.everything),
        ].filter(Boolean);
        said ??= policy ? t.noMember(policy.name, empty) : t.noMembers(empty);
      }
      setNote(said);
      setFailed(null);
    } catch (problem) {
      if (mine === round.current) setFailed(problem);
    }
  };
  const select = (node) => {
    if (!selected || selected.kind === node.kind)
      return choose(
        selected?.node === node.id
          ? null
          : { ...node, id: isSingle(node.role) ? node.role.slice(1) : null, node: node.id },
      );
    const [who, what] =
      node.kind === "services" ? [selected, { role: node.role }] : [{ role: node.role }, selected];
    const both = found.policies.filter(
      (policy) =>
        policy.identityRoles?.includes(who.role) && policy.serviceRoles?.includes(what.role),
    );
    return explain(who, what, [
      ...both.filter(({ type }) => type === "Dial"),
      ...both.filter(({ type }) => type !== "Dial"),
      null,
    ]);
  };
  const clear = () => {
    if (document.activeElement.closest(".selection")) focusNode(selected.node); // the button that has the focus goes
    choose(null);
  };
  const pressed = (event) => event.key === "Escape" && selected && !open && clear();
  const take = (row) => {
    choose({ ...open, id: row.id, label: row.name });
    setOpen(null);
    // The button that opened the dialog goes. The dialog closes before the next frame.
    requestAnimationFrame(() => focusNode(open.node));
  };
  return html`
    <div class="search"><label class="field-search"><${Icon} name="search" /><span class="hidden">${t.search}</span><input type="search" data-search placeholder=${t.search} value=${text} onInput=${(event) => setText(event.target.value)} /></label></div>
    <${Problem} error=${error} again=${again} />
    <div onKeyDown=${pressed}>
    ${!found && !error && html`<${Loading} />`}
    ${found && !found.policies.length && html`<${Empty} title=${calm ? texts.list.emptyFiltered : t.empty}>${!calm && html`<p>${t.emptyHint}</p>${mayCreate(kindBy("service-policies")) && html`<a class="button main" href="#/service-policies/_new">${texts.list.create(kindBy("service-policies").one)}</a>`}`}<//>`}
    ${
      drawn &&
      found.policies.length > 0 &&
      html`
      <${Selection} selected=${selected} note=${note} error=${failed} onMembers=${() => setOpen(selected)} onClear=${clear} />
      ${found.total > found.policies.length && html`<p class="faint">${t.showing(found.policies.length, found.total)}</p>`}
      ${found.allRouters > found.routers.length && html`<p class="faint">${t.showingRouters(found.routers.length, found.allRouters)} <a href="#/edge-routers">${t.otherRouters}</a></p>`}
      <${Relations} policies=${found.policies} name=${drawn.label} unreached=${unreached} onExplain=${(who, what, policy) => explain(who, what, [policy])} />
      <${Drawing} drawn=${drawn} selected=${selected} unreached=${unreached} onSelect=${select} />`
    }
    </div>
    ${open && html`<${Group} node=${open} onClose=${() => setOpen(null)} onSelect=${take} />`}`;
}
