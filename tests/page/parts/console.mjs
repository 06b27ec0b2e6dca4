// The requests of the console of OpenZiti, sent from its place: a page of another origin in the browser, so that the rules of the browser
// for requests across origins apply. Read from its sources (openziti/ziti-console: the login and data services, the pages, forms and tables).

import http from 'node:http';
import { expect, origin, password, user } from '../browser.mjs';

const KINDS = ['identities', 'services', 'edge-routers', 'transit-routers', 'service-policies', 'edge-router-policies', 'service-edge-router-policies', 'configs',
  'config-types', 'posture-checks', 'auth-policies', 'external-jwt-signers', 'cas', 'api-sessions', 'sessions', 'terminators', 'authenticators', 'enrollments'];
const ATTRIBUTES = ['identity-role-attributes', 'service-role-attributes', 'edge-router-role-attributes', 'posture-check-role-attributes'];
const DISCOVERED = '/edge/management/v1/version';
const FIRST_PAGE = 'limit=50&offset=0&sort=name  asc';
// As its tables write them: blanks and all.
const FILTERS = [
  ['identities', '(name contains "ali")'], ['identities', ' name icontains "ALI"'], ['identities', 'isAdmin = true'], ['identities', 'anyOf(roleAttributes) = "sales" or anyOf(roleAttributes) = "staff"'],
  ['services', '(name contains "")'], ['edge-routers', 'online = true'], ['edge-routers', 'anyOf(roleAttributes) = "branch"'],
  ['identities', 'createdAt >= datetime(2020-01-01T00:00:00.000Z) and createdAt <= datetime(2120-01-01T00:00:00.000Z)'],
];
const SHARED = { appData: {}, tags: {} };

/** Sends requests from the page of the console. The result has `token`, which the console sends once it has logged in. */
function sender(page) {
  const state = { token: null };
  state.send = async (method, path, body, status = 200) => {
    const answer = await page.evaluate(async ([method, url, token, body]) => {
      const headers = { accept: 'application/json', 'content-type': 'application/json', ...(token ? { 'zt-session': token } : {}) };
      const got = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
      return { status: got.status, text: await got.text() };
    }, [method, origin + path, state.token, body]);
    expect(status === 200 ? answer.status < 300 : answer.status === status, `the console's ${method} ${path} answered ${answer.status}: ${answer.text.slice(0, 300)}`);
    return JSON.parse(answer.text || '{}');
  };
  return state;
}

/** Finds the interface, tries a certificate, and logs in with a password. Returns the path of the interface. */
async function logIn(state) {
  const { data: version } = await state.send('GET', DISCOVERED);
  const base = version.apiVersions['edge-management'].v1.path;
  await state.send('POST', `${base}/authenticate?method=cert`, {}, 401);
  const { data: session } = await state.send('POST', `${base}/authenticate?method=password`, { username: user, password, rejectUnauthorized: false });
  state.token = session.token;
  expect(Date.parse(session.expiresAt) > Date.now() && session.expirationSeconds > 0, 'the console knows when its session ends');
  return base;
}

async function dashboardAndLists(send, base) {
  const { data: summary } = await send('GET', `${base}/summary?filter=(name contains "")&limit=1&offset=0&sort=name asc`);
  expect(['identities', 'services', 'routers.edge'].every(name => summary[name] > 0), `the dashboard shows ${JSON.stringify(summary)}`);
  for (const kind of KINDS) {
    const sort = ['identities', 'services'].includes(kind) ? 'name asc' : 'createdAt desc';
    const { meta } = await send('GET', `${base}/${kind}?limit=100&offset=0&sort=${sort}`);
    expect(meta.pagination.limit === 100, `the console pages through ${kind}`);
    await send('GET', `${base}/${kind}`);
  }
  for (const kind of ATTRIBUTES) for (const search of ['', '?filter=&limit=-1&offset=0&sort=name asc']) await send('GET', `${base}/${kind}${search}`);
  for (const kind of ['identities', 'edge-routers', 'services']) await send('GET', `${base}/${kind}?filter=&limit=-1&offset=0&sort=name asc`);
  for (const [kind, filter] of FILTERS) {
    const { data } = await send('GET', `${base}/${kind}?filter=${filter}&${FIRST_PAGE}`);
    expect(data.length > 0, `the console finds ${kind} with ${filter}`);
  }
}

/** The forms: a record is created, changed and read anew, with what is related to it. Returns the records, the first made first. */
async function forms(send, base) {
  const made = [];
  const save = async (kind, body, change, related = []) => {
    const { id } = (await send('POST', `${base}/${kind}`, body)).data;
    made.push([kind, id]);
    await send('PATCH', `${base}/${kind}/${id}`, { ...body, ...change });
    // The console leaves a blank part at the end of the path where it asks for one record, and one in the middle where it asks again.
    for (const path of [`${kind}/${id}/`, `/${kind}/${id}`]) expect((await send('GET', `${base}/${path}`)).data.id === id, `the console reads ${path}`);
    for (const name of related) await send('GET', `${base}/${kind}/${id}/${name}`);
    return id;
  };
  const identity = { name: 'made-by-console', type: 'Default', isAdmin: false, roleAttributes: ['console'], authPolicyId: 'default', defaultHostingCost: 0, defaultHostingPrecedence: 'default',
    serviceHostingCosts: {}, serviceHostingPrecedences: {}, externalId: null, ...SHARED };
  const { id: who } = (await send('POST', `${base}/identities`, { ...identity, enrollment: { ott: true } })).data;
  made.push(['identities', who]);
  await send('PATCH', `${base}/identities/${who}`, { ...identity, name: 'changed-by-console', roleAttributes: ['console', 'more'] });
  for (const related of ['services', 'service-policies', 'edge-routers', 'authenticators', 'enrollments']) await send('GET', `${base}/identities/${who}/${related}`);
  const types = (await send('GET', `${base}/config-types?filter=(name contains "intercept.v1")&limit=1&offset=0&sort=name asc`)).data;
  await send('GET', `${base}/config-types/${types[0].id}`);
  const data = { protocols: ['tcp'], addresses: ['console.internal'], portRanges: [{ low: 80, high: 80 }] };
  const config = await save('configs', { name: 'console-config', configTypeId: types[0].id, data }, { data: { ...data, protocols: ['udp'] } });
  const what = await save('services', { name: 'console-service', encryptionRequired: true, roleAttributes: ['console'], configs: [config], terminatorStrategy: 'smartrouting', tags: {} },
    { roleAttributes: ['console', 'more'] }, ['configs', 'service-policies', 'identities', 'terminators']);
  const router = await save('edge-routers', { name: 'console-router', roleAttributes: ['console'], isTunnelerEnabled: true, noTraversal: false, cost: 0, ...SHARED }, { cost: 5 }, ['identities', 'services', 'edge-router-policies']);
  await save('transit-routers', { name: 'console-transit', noTraversal: false, cost: 0, tags: {} }, { cost: 5 });
  const rule = { name: 'console-policy', semantic: 'AnyOf', tags: {} };
  await save('service-policies', { ...rule, type: 'Dial', identityRoles: ['#console'], serviceRoles: [`@${what}`], postureCheckRoles: [] }, { identityRoles: ['#console', '#more'] }, ['identities', 'services', 'posture-checks']);
  await save('edge-router-policies', { ...rule, identityRoles: ['#console'], edgeRouterRoles: [`@${router}`] }, { edgeRouterRoles: ['#console'] }, ['identities', 'edge-routers']);
  await save('service-edge-router-policies', { ...rule, serviceRoles: ['#console'], edgeRouterRoles: [`@${router}`] }, { edgeRouterRoles: ['#console'] }, ['services', 'edge-routers']);
  await save('posture-checks', { name: 'console-check', typeId: 'OS', operatingSystems: [{ type: 'Linux', versions: [] }], roleAttributes: [], tags: {} }, { roleAttributes: ['console'] });
  await save('config-types', { name: 'console-type', schema: { type: 'object' }, tags: {} }, { schema: { type: 'object', properties: {} } });
  const { data: advice } = await send('GET', `${base}//identities/${who}/policy-advice/${what}`);
  expect(advice.isDialAllowed === true && advice.commonRouters.length > 0, `the console learns that the service may be dialed: ${JSON.stringify(advice)}`);
  const override = [{ serviceId: what, configId: config }];
  await send('POST', `${base}/identities/${who}/service-configs`, override);
  expect((await send('GET', `${base}/identities/${who}/service-configs`)).data.length === 1, 'the console overrides a config');
  await send('DELETE', `${base}/identities/${who}/service-configs`, override);
  await send('POST', `${base}/identities/${who}/disable`, { durationMinutes: 0 });
  await send('POST', `${base}/identities/${who}/enable`);
  const enrollment = (await send('GET', `${base}/identities/${who}/enrollments`)).data[0].id;
  await send('POST', `${base}/enrollments/${enrollment}/refresh`, { expiresAt: new Date(Date.now() + 3600000).toISOString() });
  return made;
}

/** The console logs in, shows its dashboard and each list, and saves each form. */
export async function openZitiConsole(browser) {
  const server = http.createServer((_, answer) => answer.setHeader('content-type', 'text/html').end('<!doctype html><title>console</title>'));
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  try {
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    const state = sender(page);
    const base = await logIn(state);
    await dashboardAndLists(state.send, base);
    for (const [kind, id] of (await forms(state.send, base)).reverse()) await state.send('DELETE', `${base}/${kind}/${id}`);
    await state.send('DELETE', `${base}/current-api-session`);
  } finally {
    await context.close();
    server.close();
  }
}
