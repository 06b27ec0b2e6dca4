// The map: groups of identities, the policies that select them, the groups of services, and the routers that carry them.
// A group is what policies name: a role, a single record, or all. Sizes, and which groups are reached over which router, are counted by the
// controller's access engine, so the number of records does not matter here.

import { html, useEffect, useMemo, useRef, useState } from './vendor/htm-preact.js';
import { each, list, literal, query } from './api.js';
import { kind as kindBy } from './kinds.js';
import { texts } from './texts.js';
import { Dialog, Empty, Icon, Loading, Problem, Reference, useCalm, useLoad } from './parts.js';
import { useNews } from './news.js';

const t = texts.access;
const MAX_POLICIES = 40;
const MAX_PAGE = 500;
const MAX_ROUTERS = 6;
const MAX_PAIRS = 20;
const ROW = 46;
const GAP = 10;
const SPACE = 56; // between columns, as in the style sheet
const TOP = 34;
const PAGE = 50;

/** The records of a group, as a filter. */
const members = role => (role === '#all' ? '' : role.startsWith('@') ? `id = ${literal(role.slice(1))}` : `anyOf(roleAttributes) = ${literal(role.slice(1))}`);

const count = (path, filter, signal) => list(path, { filter, limit: 1 }, { signal }).then(({ total }) => total);

/** The number of records of each group. */
const sizes = async (groups, path, signal) => new Map((await each([...groups], role => count(path, members(role), signal))).map((total, index) => [[...groups][index], total]));

/** The service policies that a search looks through: all of them. Without a search the first ones suffice. */
async function policiesFor(text, signal) {
  const page = offset => list('/service-policies', { limit: text ? MAX_PAGE : MAX_POLICIES, sort: 'name', offset: offset || undefined }, { signal });
  const first = await page(0);
  if (!text) return first;
  const offsets = Array.from({ length: Math.ceil(first.total / MAX_PAGE) - 1 }, (_, index) => (index + 1) * MAX_PAGE);
  const others = await each(offsets, page);
  return { rows: [first, ...others].flatMap(({ rows }) => rows), total: first.total };
}

/** Policies whose name, or the name of one of whose groups, contains the text. */
async function load(text, signal) {
  const small = text.toLowerCase();
  const [service, router] = await Promise.all([policiesFor(small, signal), list('/edge-routers', { limit: MAX_ROUTERS, sort: 'name' }, { signal })]);
  const names = policy => [policy.name, ...[...(policy.identityRolesDisplay || []), ...(policy.serviceRolesDisplay || [])].map(({ name }) => name)];
  const matching = service.rows.filter(policy => !small || names(policy).some(name => name.toLowerCase().includes(small)));
  const policies = matching.slice(0, MAX_POLICIES);
  const groups = member => new Set(policies.flatMap(policy => policy[member] || []));
  const [who, what] = await Promise.all([sizes(groups('identityRoles'), '/identities', signal), sizes(groups('serviceRoles'), '/services', signal)]);
  const reached = await each(policies, policy => each(['identities', 'services'], side => count(`/service-policies/${policy.id}/${side}`, '', signal)));
  const pairs = router.rows.flatMap(({ id }) => [...what.keys()].map(role => [id, role]));
  const carried = await each(pairs, ([id, role]) => count(`/edge-routers/${encodeURIComponent(id)}/services`, members(role), signal));
  const over = pairs.filter((_, index) => carried[index]);
  return { policies, total: small ? matching.length : service.total, who, what, reached: new Map(policies.map(({ id }, index) => [id, reached[index]])), over, routers: router.rows, allRouters: router.total };
}

/** The nodes in four columns and the edges between them. */
function draw({ policies, who, what, reached, routers, over }) {
  const name = new Map();
  for (const policy of policies) {
    for (const { role, name: text } of [...(policy.identityRolesDisplay || []), ...(policy.serviceRolesDisplay || [])]) name.set(role, text);
  }
  const label = (role, all) => (role === '#all' ? all : (name.get(role) || role).replace(/^@/, ''));
  const left = [...who].map(([role, count]) => ({ id: `who ${role}`, role, label: label(role, t.everybody), count, kind: 'identities', tone: role.startsWith('@') ? 'one' : 'role' }));
  const right = [...what].map(([role, count]) => ({ id: `what ${role}`, role, label: label(role, t.everything), count, kind: 'services', tone: role.startsWith('@') ? 'one' : 'role' }));
  const middle = policies.map(policy => ({ reached: reached.get(policy.id), id: `policy ${policy.id}`, policy, label: policy.name, kind: 'service-policies', tone: policy.type }));
  const last = routers.map(router => ({ id: `router ${router.id}`, router, label: router.name, kind: 'edge-routers', tone: router.isOnline ? 'on' : 'off' }));
  const edges = [];
  for (const policy of policies) {
    for (const role of policy.identityRoles || []) edges.push([`who ${role}`, `policy ${policy.id}`, policy.type]);
    for (const role of policy.serviceRoles || []) edges.push([`policy ${policy.id}`, `what ${role}`, policy.type]);
  }
  for (const [router, role] of over) edges.push([`what ${role}`, `router ${router}`, 'over']);
  // Connected nodes are placed near each other, so that fewer lines cross.
  const rank = new Map(middle.map((node, index) => [node.id, index]));
  const mean = id => {
    const ranks = edges.flatMap(([from, to]) => (from === id ? [rank.get(to)] : to === id ? [rank.get(from)] : [])).filter(value => value !== undefined);
    return ranks.reduce((sum, value) => sum + value, 0) / (ranks.length || 1);
  };
  for (const column of [left, right]) column.sort((a, b) => mean(a.id) - mean(b.id));
  return { columns: [left, middle, right, last], edges, label };
}

/** All nodes on a path through a node, to the left and to the right. */
function connected(id, edges) {
  const found = new Set([id]);
  for (const [from, to] of [[0, 1], [1, 0]]) {
    let front = [id];
    while (front.length) {
      front = edges.filter(edge => front.includes(edge[from]) && !found.has(edge[to])).map(edge => edge[to]);
      front.forEach(other => found.add(other));
    }
  }
  return found;
}

function Group({ node, onClose }) {
  const [offset, setOffset] = useState(0);
  const [text, setText] = useState('');
  const calm = useCalm(text.trim(), 200);
  const kind = kindBy(node.kind);
  const filter = [members(node.role), calm && `name icontains ${literal(calm)}`].filter(Boolean).join(' and ');
  const [page, error] = useLoad(signal => list(kind.path, { filter, sort: 'name', limit: PAGE, offset }, { signal }), [filter, offset]);
  const search = event => {
    setText(event.target.value);
    setOffset(0);
  };
  const side = node.kind === 'identities' ? 'identity' : 'service';
  return html`<${Dialog} title=${node.label} onClose=${onClose}>
    ${!node.role.startsWith('@') && html`<input type="search" aria-label=${t.searchMembers} placeholder=${t.searchMembers} value=${text} onInput=${search} />`}
    <${Problem} error=${error} />${!page && !error && html`<${Loading} />`}
    ${page && html`<p class="faint" role="status">${t.members(page.total)}</p><ul class="plain">${page.rows.map(row => html`<li><${Reference} kind=${kind.name} id=${row.id} name=${row.name} /><a href=${`#/access/ask?${side}=${encodeURIComponent(row.id)}`}>${t.ofRecord[side]}</a></li>`)}</ul>
    ${page.total > PAGE && html`<div class="pages"><button type="button" class="button" disabled=${!offset} onClick=${() => setOffset(offset - PAGE)}>${texts.list.previous}</button><span>${texts.list.range(offset + 1, offset + page.rows.length, page.total)}</span>
      <button type="button" class="button" disabled=${offset + PAGE >= page.total} onClick=${() => setOffset(offset + PAGE)}>${texts.list.next}</button></div>`}`}
  <//>`;
}

function Node({ node, dim, onOver, onOpen }) {
  const inner = html`<span class="name">${node.label}</span>
    ${node.count !== undefined && html`<span class="faint">${node.role?.startsWith('@') ? kindBy(node.kind).one : node.count ? t.members(node.count) : t.nothing}</span>`}
    ${node.policy && html`<span class="faint">${t.policy(node.policy.type, ...node.reached)}${node.policy.semantic === 'AllOf' && (node.policy.identityRoles.length > 1 || node.policy.serviceRoles.length > 1) ? ` · ${t.all}` : ''}${node.policy.postureCheckRoles?.length ? ` · ${t.withChecks}` : ''}</span>`}
    ${node.router && html`<span class="faint">${node.router.isOnline ? t.connected : t.notConnected}</span>`}`;
  const props = { title: node.label, class: `node ${node.tone} ${dim ? 'dim' : ''}`, onMouseEnter: () => onOver(node.id), onMouseLeave: () => onOver(null), onFocus: () => onOver(node.id), onBlur: () => onOver(null) };
  if (node.policy || node.router) return html`<a ...${props} href=${`#/${node.kind}/${(node.policy || node.router).id}`}>${inner}</a>`;
  return html`<button type="button" ...${props} onClick=${() => onOpen(node)}>${inner}</button>`;
}

/** The relations of a policy as a list, for windows that are too narrow for lines. A pair leads to the explanation for the first member of each group, if both have one. */
function Relations({ policies, name }) {
  const [error, setError] = useState(null);
  const [empty, setEmpty] = useState({}); // the policy and the groups of the last pair without a member on some side
  const explain = async (policy, who, what) => {
    const first = (side, role) => list(`/service-policies/${policy.id}/${side}`, { filter: members(role), sort: 'name', limit: 1 }).then(({ rows }) => rows[0]?.id);
    try {
      const [identity, service] = await Promise.all([first('identities', who), first('services', what)]);
      const groups = [!identity && name(who, t.everybody), !service && name(what, t.everything)].filter(Boolean);
      setEmpty({ policy: policy.id, groups });
      if (!groups.length) location.hash = `#/access/ask?${query({ identity, service, type: policy.type })}`;
    } catch (problem) {
      setError(problem);
    }
  };
  const pairs = policy => (policy.identityRoles || []).flatMap(who => (policy.serviceRoles || []).map(what => [who, what]));
  return html`<section class="relations"><h2>${t.relations}</h2><${Problem} error=${error} />
    ${policies.map(policy => html`<h3 key=${policy.id}><a href=${`#/service-policies/${policy.id}`}>${policy.name}</a></h3><ul class="plain">${pairs(policy).slice(0, MAX_PAIRS).map(([who, what]) => html`
      <li key=${`${who} ${what}`}><button type="button" class="button" onClick=${() => explain(policy, who, what)}>${t.relation(name(who, t.everybody), policy.type, name(what, t.everything))}</button></li>`)}</ul>
      <div role="status">${empty.policy === policy.id && empty.groups.length > 0 && html`<p class="warning"><i aria-hidden="true"></i><span>${t.noMember(policy.name, empty.groups)}</span></p>`}</div>
      ${pairs(policy).length > MAX_PAIRS && html`<p class="faint">${texts.preview.others(pairs(policy).length - MAX_PAIRS)}</p>`}`)}
  </section>`;
}

/** The width of the map, measured so that the lines meet the nodes at any width. */
function useWidth(container) {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
    observer.observe(container.current);
    return () => observer.disconnect();
  }, []);
  return width;
}

function Lines({ columns, edges, width, lit }) {
  const share = (width - 3 * SPACE) / 4;
  const at = new Map();
  columns.forEach((nodes, column) => nodes.forEach((node, row) => at.set(node.id, [column * (share + SPACE), TOP + row * (ROW + GAP) + ROW / 2])));
  const height = TOP + Math.max(...columns.map(nodes => nodes.length)) * (ROW + GAP);
  return html`<svg class="lines" width=${width} height=${height} aria-hidden="true">${edges.map(([from, to, type]) => {
    const [start, end] = [at.get(from), at.get(to)];
    if (!start || !end) return null;
    const [x1, x2] = [start[0] + share, end[0]];
    const middle = (x1 + x2) / 2;
    const isLit = lit && lit.has(from) && lit.has(to);
    return html`<path class=${`${type} ${lit ? (isLit ? 'lit' : 'dim') : ''}`} d=${`M${x1} ${start[1]}C${middle} ${start[1]} ${middle} ${end[1]} ${x2} ${end[1]}`} />`;
  })}</svg>`;
}

export function AccessMap() {
  const [text, setText] = useState('');
  const [over, setOver] = useState(null);
  const [open, setOpen] = useState(null);
  const calm = useCalm(text.trim(), 200);
  const [found, error, again] = useLoad(signal => load(calm, signal), [calm]);
  useNews(row => ['identity', 'service', 'servicePolicy', 'edgeRouter', 'edgeRouterPolicy', 'serviceEdgeRouterPolicy'].includes(row.kind), again, [calm]);
  const container = useRef();
  const width = useWidth(container);
  const drawn = useMemo(() => found && draw(found), [found]);
  const lit = over && drawn ? connected(over, drawn.edges) : null;
  return html`
    <div class="search"><label class="field-search"><${Icon} name="search" /><span class="hidden">${t.search}</span><input type="search" data-search placeholder=${t.search} value=${text} onInput=${event => setText(event.target.value)} /></label></div>
    <${Problem} error=${error} again=${again} />
    <div ref=${container}>
    ${!found && !error && html`<${Loading} />`}
    ${found && !found.policies.length && html`<${Empty} title=${calm ? texts.list.emptyFiltered : t.empty}>${!calm && html`<p>${t.emptyHint}</p><a class="button main" href="#/service-policies/_new">${texts.list.create(kindBy('service-policies').one)}</a>`}<//>`}
    ${drawn && found.policies.length > 0 && html`
      ${found.total > found.policies.length && html`<p class="faint">${t.showing(found.policies.length, found.total)}</p>`}
      ${found.allRouters > found.routers.length && html`<p class="faint">${t.showingRouters(found.routers.length, found.allRouters)} <a href="#/edge-routers">${t.otherRouters}</a></p>`}
      <${Relations} policies=${found.policies} name=${drawn.label} />
      <div class="map">${width > 0 && html`<${Lines} columns=${drawn.columns} edges=${drawn.edges} width=${width} lit=${lit} />`}
        ${drawn.columns.map((nodes, column) => html`<section><h2>${t.columns[column]}</h2><ul>${nodes.map(node => html`<li key=${node.id}><${Node} node=${node} dim=${lit && !lit.has(node.id)} onOver=${setOver} onOpen=${setOpen} /></li>`)}</ul></section>`)}
      </div>`}
    </div>
    ${open && html`<${Group} node=${open} onClose=${() => setOpen(null)} />`}`;
}
