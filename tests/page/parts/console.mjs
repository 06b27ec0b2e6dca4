// The requests of the console of OpenZiti, sent from its place: a page of another origin in the browser, so that the rules of the browser
// for requests across origins apply. Read from its sources (openziti/ziti-console: the login and data services, the forms and tables).

import http from 'node:http';

const KINDS = ['identities', 'services', 'edge-routers', 'transit-routers', 'service-policies', 'edge-router-policies', 'service-edge-router-policies', 'configs',
  'config-types', 'posture-checks', 'auth-policies', 'external-jwt-signers', 'cas', 'api-sessions', 'sessions', 'terminators', 'authenticators', 'enrollments'];
const ATTRIBUTES = ['identity-role-attributes', 'service-role-attributes', 'edge-router-role-attributes', 'posture-check-role-attributes'];
const DISCOVERED = '/edge/management/v1/version';

/** Logs in and uses each kind as the console does. `open` makes a window; `expect` notes faults. */
export async function consoleRequests(open, origin, user, password, expect) {
  const server = http.createServer((_, answer) => answer.setHeader('content-type', 'text/html').end('<!doctype html><title>console</title>'));
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  const page = await open();
  try {
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    let token;
    const send = async (method, path, body) => {
      const answer = await page.evaluate(async ([method, url, token, body]) => {
        const headers = { accept: 'application/json', 'content-type': 'application/json', ...(token ? { 'zt-session': token } : {}) };
        const got = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
        return { status: got.status, text: await got.text() };
      }, [method, origin + path, token, body]);
      expect(answer.status < 300, `the console's ${method} ${path} answered ${answer.status}: ${answer.text.slice(0, 300)}`);
      return JSON.parse(answer.text || '{}');
    };
    const { data: version } = await send('GET', DISCOVERED);
    const base = version.apiVersions['edge-management'].v1.path;
    const { data: session } = await send('POST', `${base}/authenticate?method=password`, { username: user, password, rejectUnauthorized: false });
    token = session.token;
    expect(Date.parse(session.expiresAt) > Date.now(), 'the console knows when its session ends');
    for (const kind of KINDS) {
      const sort = ['identities', 'services'].includes(kind) ? 'name asc' : 'createdAt desc';
      const { meta } = await send('GET', `${base}/${kind}?limit=100&offset=0&sort=${sort}`);
      expect(meta.pagination.limit === 100, `the console pages through ${kind}`);
      await send('GET', `${base}/${kind}`);
    }
    for (const kind of ATTRIBUTES) await send('GET', `${base}/${kind}`);
    await send('GET', `${base}/identities?filter=(name contains "ali")&limit=50&offset=0&sort=name asc`);

    const made = async (kind, body) => (await send('POST', `${base}/${kind}`, body)).data.id;
    const shared = { appData: {}, tags: {} };
    const identity = await made('identities', { name: 'made-by-console', type: 'Default', isAdmin: false, roleAttributes: ['console'], enrollment: { ott: true }, authPolicyId: 'default',
      defaultHostingCost: 0, defaultHostingPrecedence: 'default', serviceHostingCosts: {}, serviceHostingPrecedences: {}, externalId: null, ...shared });
    await send('PATCH', `${base}/identities/${identity}`, { name: 'changed-by-console', roleAttributes: ['console', 'more'] });
    const types = (await send('GET', `${base}/config-types?filter=(name contains "intercept.v1")&limit=1&offset=0&sort=name asc`)).data;
    const config = await made('configs', { name: 'console-config', configTypeId: types[0].id, data: { protocols: ['tcp'], addresses: ['console.internal'], portRanges: [{ low: 80, high: 80 }] } });
    const service = await made('services', { name: 'console-service', encryptionRequired: true, roleAttributes: ['console'], configs: [config], terminatorStrategy: 'smartrouting', tags: {} });
    const policy = await made('service-policies', { name: 'console-policy', type: 'Dial', semantic: 'AnyOf', identityRoles: ['#console'], serviceRoles: [`@${service}`], postureCheckRoles: [], tags: {} });
    for (const related of ['services', 'service-policies', 'edge-routers', 'authenticators', 'enrollments']) await send('GET', `${base}/identities/${identity}/${related}`);
    for (const related of ['configs', 'service-policies', 'identities', 'terminators']) await send('GET', `${base}/services/${service}/${related}`);
    // The console leaves a blank part at the end of the path where it asks for one record.
    for (const [kind, id] of [['services', service], ['service-policies', policy]]) {
      expect((await send('GET', `${base}/${kind}/${id}/`)).data.id === id, `the console reads ${kind}`);
    }
    const { data: advice } = await send('GET', `${base}/identities/${identity}/policy-advice/${service}`);
    expect(advice.isDialAllowed === true, 'the console learns that the service may be dialed');
    const override = [{ serviceId: service, configId: config }];
    await send('POST', `${base}/identities/${identity}/service-configs`, override);
    expect((await send('GET', `${base}/identities/${identity}/service-configs`)).data.length === 1, 'the console overrides a config');
    await send('DELETE', `${base}/identities/${identity}/service-configs`, override);
    for (const [kind, id] of [['service-policies', policy], ['services', service], ['configs', config], ['identities', identity]]) await send('DELETE', `${base}/${kind}/${id}`);
  } finally {
    await page.context().close();
    server.close();
  }
  console.log('the requests of the OpenZiti console answered');
}
