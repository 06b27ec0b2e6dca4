// Uses the page as an administrator does, against an empty controller that a script started and this script fills.
//
//     node walk.mjs [--pictures]      with OVERKEEP_URL, OVERKEEP_USER, OVERKEEP_PASSWORD, CHROMIUM and PEER in the environment
//
// Every page is opened, light and dark, narrow and wide. Each time: no request leaves the origin, the content security policy is not
// violated, the console has no errors or warnings, no page is wider than its window, and axe finds no violation.

import { execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import fs from 'node:fs';
import { request } from 'node:https';
import os from 'node:os';
import path from 'node:path';
import axe from 'axe-core';
import { chromium } from 'playwright-core';
import { consoleRequests } from './console.mjs';
import { issuer } from './issuer.mjs';
import { join } from './peer.mjs';
import { administrator, seed } from './seed.mjs';

const { OVERKEEP_URL: origin, OVERKEEP_USER: user, OVERKEEP_PASSWORD: password, CHROMIUM, PICTURES } = process.env;
const MAX_RATIO = 6; // of the times that the map takes with many and with few identities
const PATIENCE = Number(process.env.PATIENCE || 60000);
const VIOLATION_RECORDER = "window.broken = []; document.addEventListener('securitypolicyviolation', event => broken.push(`${event.violatedDirective}: ${event.blockedURI}`));";
const SETTLED = () => document.querySelector('#content h1') && !document.querySelector('.loading');
const faults = [];

function expect(condition, what) {
  if (condition) return;
  faults.push(what);
  console.log(`FAIL page: ${what}`);
}

/** A window that reports every fault. `allowed` names the answers with an error status that are expected; the browser may also go to `issuers`. */
async function windowOf(browser, width, theme, allowed = () => false, more = {}, issuers = []) {
  const context = await browser.newContext({ viewport: { width, height: width < 600 ? 780 : Math.round(width * 0.7) }, colorScheme: theme, ignoreHTTPSErrors: true, locale: 'en-GB', timezoneId: 'Europe/Berlin', ...more });
  await context.addInitScript(VIOLATION_RECORDER);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.on('request', asked => expect(/^(data|blob):/.test(asked.url()) || [origin, ...issuers].some(known => asked.url().startsWith(`${known}/`)), `asks for ${asked.url()}`));
  page.on('response', answer => expect(answer.status() < 400 || allowed(answer), `${answer.request().method()} ${answer.url()} answered ${answer.status()}`));
  page.on('pageerror', error => expect(false, `a script failed: ${error.stack}`));
  page.on('console', message => {
    // A refused request is reported above; the browser repeats it here.
    const isRefusal = message.text().startsWith('Failed to load resource');
    expect(!['error', 'warning'].includes(message.type()) || isRefusal, `console ${message.type()}: ${message.text()}`);
  });
  return page;
}

async function logIn(page, name = user, secret = password) {
  await page.goto(`${origin}/`);
  await page.locator('#username').waitFor();
  await page.keyboard.type(name);
  await page.keyboard.press('Tab');
  await page.keyboard.type(secret);
  await page.keyboard.press('Enter');
}

async function open(page, hash) {
  await page.evaluate(to => { location.hash = to; }, hash);
  await page.waitForFunction(to => location.hash.startsWith(to.split('?')[0]), hash);
  await page.waitForTimeout(50);
  await page.waitForFunction(SETTLED);
}

async function check(page, what, withAxe) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  expect(wide <= 0, `${what}: ${wide} px wider than its window`);
  expect(!(await page.locator('.problem').count()), `${what}: ${await page.locator('.problem').allTextContents()}`);
  if (withAxe) {
    // Runs through the debugger, which the content security policy does not restrict.
    await page.evaluate(axe.source);
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
    for (const { id, help, nodes } of violations) expect(false, `${what}: ${id}: ${help}: ${nodes.slice(0, 3).map(node => node.html.slice(0, 200)).join(' | ')}`);
  }
  const broken = await page.evaluate(() => window.broken.splice(0));
  expect(!broken.length, `${what}: against the policy: ${broken}`);
}

/** Every page that the navigation leads to, and the form and the first record of each kind. */
async function everyPage(page, ask, ids) {
  const links = await page.locator('#navigation a[href^="#/"]').evaluateAll(all => all.map(link => link.getAttribute('href')));
  const pages = [...links, `#/access/ask?identity=${ids.alice}&service=${ids.builds}`, `#/access/ask?identity=${ids.alice}`, `#/access/ask?service=${ids.database}`, '#/access/changes', '#/history?kind=refusals', `#/identities/${ids.alice}/edit`, `#/services/${ids.database}/edit`, `#/posture-checks/${ids['office machines']}/edit`, `#/configs/${ids['wiki-address']}/edit`];
  for (const link of links) {
    const kind = link.slice(2);
    const rows = await ask('GET', `/${kind}?limit=1`).catch(() => ask('GET', `/overkeep/v1/${kind}?limit=1`)).catch(() => null);
    if (!rows) continue;
    if (rows[0]) pages.push(`#/${kind}/${rows[0].id}`);
    await open(page, link);
    if (await page.locator('[data-create]').count()) pages.push(`#/${kind}/_new`);
  }
  return pages;
}

async function walk(browser, ask, ids) {
  let pages;
  for (const [width, theme, withAxe] of [[1280, 'light', true], [360, 'dark', true], [1280, 'dark', false], [360, 'light', false], [3840, 'light', false]]) {
    const page = await windowOf(browser, width, theme);
    await logIn(page);
    await page.waitForFunction(SETTLED);
    pages ??= await everyPage(page, ask, ids);
    for (const hash of pages) {
      await open(page, hash);
      await check(page, `${hash} at ${width} px, ${theme}`, withAxe);
    }
    console.log(`${pages.length} pages at ${width} px, ${theme}`);
    await page.context().close();
  }
}

/** Keyboard only: log in, go to a kind, create a record with a preview, delete it. */
async function keyboard(browser, ask) {
  const page = await windowOf(browser, 1280, 'light', answer => answer.status() === 401 && answer.url().includes('/authenticate?'));
  await logIn(page, user, 'not the password');
  await page.locator('.problem').waitFor();
  await logIn(page);
  await page.waitForFunction(SETTLED);
  const kept = await page.evaluate(() => [Object.values({ ...localStorage }).join(), sessionStorage.length, document.cookie]);
  expect(!kept[0].includes('token') && kept[1] === 1 && kept[2] === '', 'the token is kept in sessionStorage and nowhere else');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('service polic');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Service policies' }).waitFor();
  await page.waitForFunction(SETTLED);
  await page.keyboard.press('n');
  await page.getByRole('heading', { level: 1, name: 'Create service policy' }).waitFor();
  await page.getByLabel('Name').focus();
  await page.keyboard.type('support reaches databases');
  for (const [label, role] of [['Identity roles', '#support'], ['Service roles', '#databases']]) {
    await page.getByRole('combobox', { name: label }).focus();
    await page.keyboard.type(role.slice(0, 4));
    await page.getByRole('option', { name: role }).waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: `Remove ${role}` }).waitFor();
  }
  await page.locator('.preview .gained').filter({ hasText: 'lena, marco' }).waitFor();
  await page.getByRole('button', { name: 'Create', exact: true }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'support reaches databases' }).waitFor();
  const [made] = await ask('GET', `/service-policies?filter=${encodeURIComponent('name = "support reaches databases"')}`);
  expect(made?.identityRoles.join() === '#support' && made.serviceRoles.join() === '#databases', 'what was typed is stored');
  await page.getByRole('button', { name: 'Delete' }).focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  await dialog.locator('.lost').waitFor();
  await dialog.getByRole('button', { name: 'Delete' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Service policies' }).waitFor();
  expect(!(await ask('GET', `/service-policies?filter=${encodeURIComponent('name = "support reaches databases"')}`)).length, 'what was deleted is gone');
  await page.context().close();
  console.log('a policy made and deleted with the keyboard');
}

/** Enrolls a client with a token. Returns its key and certificate. */
async function enroll(jwt) {
  const { jti } = JSON.parse(Buffer.from(jwt.split('.')[1], 'base64url'));
  const work = fs.mkdtempSync(path.join(os.tmpdir(), 'page-'));
  const [key, csr] = ['key', 'csr'].map(name => path.join(work, name));
  execFileSync('openssl', ['req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=client', '-keyout', key, '-out', csr], { stdio: 'ignore' });
  const answer = await fetch(`${origin}/edge/client/v1/enroll?method=ott&token=${jti}`, { method: 'POST', headers: { 'content-type': 'application/x-pem-file', accept: 'application/json' }, body: fs.readFileSync(csr) });
  expect(answer.ok, `the client enrolls: ${answer.status}`);
  const made = { key: fs.readFileSync(key, 'utf8'), cert: (await answer.json()).data.cert };
  fs.rmSync(work, { recursive: true });
  return made;
}

/** The status of a log-in with a certificate. */
const logInWith = made => new Promise((done, failed) => {
  const sent = request(`${origin}/edge/client/v1/authenticate?method=cert`, { ...made, method: 'POST', rejectUnauthorized: false, headers: { 'content-type': 'application/json' } }, answer => { answer.resume(); done(answer.statusCode); });
  sent.on('error', failed).end('{}');
});

/** From a new identity to its enrolled client, on one page without a reload. */
async function enrollment(browser) {
  const page = await windowOf(browser, 1280, 'light');
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await open(page, '#/identities/_new');
  await page.getByLabel('Name').fill('new-laptop');
  await page.locator('.preview .quiet, .preview .tallies').waitFor();
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByText('Waiting for the client').waitFor();
  expect(await page.locator('.qr path').count() === 1, 'the token is shown as a QR code');
  const shown = await page.locator('.enrollment pre').textContent();
  const download = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Download' }).click();
  expect(fs.readFileSync(await (await download).path(), 'utf8') === shown, 'the token that is downloaded is the one that is shown');
  await enroll(shown);
  await page.getByText('The client is enrolled').waitFor();
  await page.context().close();
  console.log('a client enrolled, and the page saw it');
}

/** The first steps, with the keyboard: a name, a token, and what the client does with it. */
async function firstSteps(browser) {
  const page = await windowOf(browser, 360, 'dark');
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await open(page, '#/start');
  await check(page, 'the first steps', true);
  await page.getByLabel('Name of the client').focus();
  await page.keyboard.type('first-laptop');
  await page.keyboard.press('Enter');
  await page.locator('.qr path').waitFor();
  const step = number => page.locator('.steps li').nth(number);
  await step(1).locator('.waiting').waitFor();
  await check(page, 'the first steps with a token', true);
  const made = await enroll(await page.locator('.enrollment pre').textContent());
  await step(1).locator('.quiet').waitFor();
  await step(2).locator('.waiting').waitFor();
  expect(await logInWith(made) === 200, 'the client logs in');
  await step(2).locator('.quiet').waitFor();
  await page.context().close();
  console.log('the first steps followed to a client that is logged in');
}

/** From a refusal with its reasons, by a previewed edit, to a policy that grants the right. */
async function explain(browser, ask, ids) {
  const page = await windowOf(browser, 1280, 'light');
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await open(page, '#/access');
  await page.getByRole('button', { name: '#sales' }).click();
  await page.getByRole('dialog').getByRole('link', { name: 'What it may reach' }).first().click();
  await page.getByRole('heading', { name: /^What alice may dial/ }).waitFor();
  await page.getByRole('combobox', { name: 'Service' }).fill('builds');
  await page.getByRole('option', { name: 'builds' }).click();
  await page.locator('.verdict.refused').waitFor();
  // The seeded identity has a token, whose end is told in the zone of the viewer, with UTC on hover.
  const ends = page.locator('.obstacles time').first();
  expect(/ UTC$/.test(await ends.getAttribute('title')) && !/Z/.test(await ends.textContent()), `a time in an obstacle: ${await ends.textContent()}`);
  expect(await page.getByRole('link', { name: 'Open alice: its token and credentials' }).getAttribute('href') === `#/identities/${ids.alice}`, 'an obstacle without an edit leads to its record');
  await page.getByRole('button', { name: 'Add a policy that lets alice dial builds' }).click();
  await page.getByRole('dialog').locator('.gained').filter({ hasText: 'alice' }).waitFor();
  expect(!(await ask('GET', `/identities/${ids.alice}/services?limit=100`)).some(service => service.name === 'builds'), 'a preview changes nothing');
  await page.getByRole('button', { name: 'Make this change' }).click();
  await page.getByRole('link', { name: 'alice-dial-builds' }).waitFor();
  expect((await ask('GET', `/identities/${ids.alice}/services?limit=100`)).some(service => service.name === 'builds'), 'the edit gives the right');
  await page.context().close();
  console.log('a pair explained and its obstacle removed');
}

/** An error is shown at the member that it names, and a concurrent change is not overwritten. */
async function refusals(browser, ask, ids) {
  const page = await windowOf(browser, 1280, 'light', answer => [400, 412].includes(answer.status()));
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await open(page, `#/configs/${ids['wiki-address']}/edit`);
  await page.getByRole('button', { name: 'Edit as JSON' }).click();
  await page.getByLabel('Data').fill('{"protocols": ["carrier pigeon"], "addresses": ["a.internal"], "portRanges": [{"low": 1, "high": 2}]}');
  await page.locator('.field .error').filter({ hasText: /pigeon|one of|enum|protocols/i }).waitFor();
  await open(page, `#/identities/${ids.bruno}/edit`);
  await page.getByLabel('Name').fill('bruno the second');
  await ask('PATCH', `/identities/${ids.bruno}`, { name: 'bruno the first' });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Somebody else changed this meanwhile').waitFor();
  expect((await ask('GET', `/identities/${ids.bruno}`)).name === 'bruno the first', 'the newer name stays');
  await page.context().close();
  console.log('refusals stand at their members');
}

/** An action whose body is a list. */
async function actions(browser, ask, ids) {
  const page = await windowOf(browser, 1280, 'light');
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await open(page, `#/identities/${ids.chen}`);
  await page.getByRole('button', { name: 'Override configs' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Add one' }).click();
  for (const [label, name] of [['Service', 'wiki'], ['Config', 'wiki-address']]) {
    await dialog.getByRole('combobox', { name: label, exact: true }).fill(name);
    await page.getByRole('option', { name, exact: true }).click();
  }
  await check(page, 'an action with a list', true);
  await dialog.getByRole('button', { name: 'Override configs' }).click();
  await dialog.waitFor({ state: 'detached' });
  const overrides = await ask('GET', `/identities/${ids.chen}/service-configs`);
  expect(overrides.length === 1 && JSON.stringify(overrides).includes(ids['wiki-address']), `the list of the form is stored: ${JSON.stringify(overrides)}`);
  await page.context().close();
  console.log('an action with a list');
}

/** Real traffic of two clients with an SDK: circuits are listed with their rates, charted, and one can be ended. */
async function traffic(browser, ask) {
  const work = fs.mkdtempSync(path.join(os.tmpdir(), 'page-'));
  const peers = [];
  let isOver = false;
  try {
    const service = await ask('POST', '/services', { name: 'echo', encryptionRequired: true, roleAttributes: ['echoing'] });
    for (const type of ['Dial', 'Bind']) {
      await ask('POST', '/service-policies', { name: `echo ${type}`, type, semantic: 'AnyOf', identityRoles: ['#echoing'], serviceRoles: [`@${service.id}`] });
    }
    for (const name of ['echo-host', 'echo-client']) peers.push(await join(process.env.PEER, ask, work, name, ['echoing']));
    const [host, client] = peers;
    await host('host', { name: 'echo', service: 'echo' });
    await client('open', { name: 'c', service: 'echo' });
    const carrying = (async () => {
      while (!isOver) await client('echo', { name: 'c', bytes: 64 << 10 });
    })().catch(() => null);
    const page = await windowOf(browser, 1280, 'light');
    await logIn(page);
    await page.waitForFunction(SETTLED);
    await open(page, '#/live');
    const row = page.getByRole('row').filter({ hasText: 'echo' }).filter({ hasText: 'echo-client' }).filter({ hasText: 'echo-host' });
    await row.waitFor();
    // Both directions carry at least a KiB a second.
    await page.waitForFunction(() => [...document.querySelectorAll('tr')].some(found => found.textContent.includes('echo-host') && (found.textContent.match(/[\d.]+ [KM]iB\/s/g) || []).length === 2));
    await page.getByRole('row').filter({ hasText: 'echo-client' }).filter({ hasText: '127.0.0.1' }).waitFor();
    const rates = await row.locator('td.number').allTextContents();
    const [circuit] = await ask('GET', '/overkeep/v1/circuits');
    expect(circuit.client.sentBytes > 0 && circuit.host.sentBytes > 0, `the controller counts what the clients sent: ${JSON.stringify(circuit)}`);
    await page.locator('.chart').first().waitFor();
    // A step of the last hour takes ten seconds.
    await page.waitForFunction(() => /[KM]iB\/s/.test(document.querySelector('.legend .up strong')?.textContent));
    await check(page, '#/live with traffic', true);
    await page.getByRole('button', { name: 'End the circuit to echo?' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'End' }).click();
    await page.getByText('No traffic at the moment').waitFor();
    isOver = true;
    await carrying;
    await page.context().close();
    console.log(`real traffic shown (${rates.join(', ')}) and ended`);
  } finally {
    isOver = true;
    for (const peer of peers) peer.stop();
    fs.rmSync(work, { recursive: true });
  }
}

/** Maintenance: a check of the data file, a snapshot that is proven and restored aside, and an event shown as it happens. */
async function care(browser, ask) {
  const page = await windowOf(browser, 1280, 'light');
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await open(page, '#/care');
  await page.getByText('Overkeep Root').waitFor();
  await page.locator('.findings').getByText('none are scheduled').waitFor();
  await page.getByRole('button', { name: 'Check the network' }).click();
  await page.locator('.findings').getByText('advertised address').first().waitFor({ state: 'attached' });
  await page.getByRole('button', { name: 'Check the data file' }).click();
  await page.getByText('No faults found,').waitFor();
  await page.getByRole('button', { name: 'Take a snapshot' }).click();
  await page.getByText('Written to').waitFor();
  for (const name of ['Prove', 'Restore drill']) {
    await page.getByRole('button', { name }).first().click();
    await page.locator('.trial h3').filter({ hasText: name === 'Prove' ? 'Proof of' : 'Restore drill of' }).waitFor();
    await page.locator('.trial').getByText('The snapshot is good.').waitFor();
  }
  await page.locator('.trial').getByText('log-in: done').waitFor();
  expect(fs.readdirSync(path.dirname(process.env.OVERKEEP_DATA)).every(name => !name.startsWith('overkeep-drill')), 'the drill leaves its copy');
  await check(page, 'a snapshot that was tried', true);
  await open(page, '#/live');
  await page.waitForFunction(() => document.querySelector('.pulse.on'));
  await ask('POST', '/identities', { name: 'seen-live', type: 'Default', isAdmin: false });
  await page.getByRole('log').locator('li.of-create').filter({ hasText: 'seen-live' }).first().waitFor();
  await page.context().close();
  console.log('checked, copied, and seen as it happened');
}

/** Events are shown once and none is missed, whether the computer slept or was without network. */
async function resume(browser, ask) {
  const page = await windowOf(browser, 1280, 'light');
  const streams = [];
  page.on('request', request => request.url().endsWith('/overkeep/v1/events') && streams.push(request.headers()['last-event-id']));
  await page.clock.install();
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await open(page, '#/live');
  await page.locator('.chart').first().waitFor();
  const happens = async name => {
    await ask('POST', '/identities', { name, type: 'Default', isAdmin: false });
  };
  const seen = name => page.getByRole('log').locator('li.of-create').filter({ hasText: name }).first().waitFor();
  await page.locator('.pulse.on').waitFor();
  await happens('before-sleep');
  await seen('before-sleep');
  await page.context().setOffline(true);
  await page.clock.fastForward(60000);
  await page.locator('.pulse.off').waitFor();
  await happens('during-sleep');
  await page.context().setOffline(false);
  await page.clock.fastForward(20000);
  await seen('during-sleep');
  await happens('after-sleep');
  await seen('after-sleep');
  for (const name of ['before-sleep', 'during-sleep', 'after-sleep']) {
    expect(await page.getByRole('log').locator('li.of-create').filter({ hasText: name }).count() === 1, `the creation of ${name} is shown once`);
  }
  expect(streams.length > 1 && streams.at(-1) > 0, `the stream resumes after the last event: ${streams}`);
  await page.context().close();
  console.log('events resumed after sleep');
}

/** A kind that only the document describes and the page has no code for. */
async function newKind(browser) {
  const page = await windowOf(browser, 1280, 'light');
  const widget = { id: 'w1', name: 'left wing', createdAt: '2026-01-01T00:00:00.000Z', updatedAt: '2026-01-01T00:00:00.000Z', colour: 'red', size: 3 };
  const shape = { type: 'object', required: ['name', 'colour'], properties: { name: { type: 'string' }, colour: { type: 'string', enum: ['red', 'green'] }, size: { type: 'integer' } } };
  const enveloped = data => ({ data, meta: { filterableFields: ['id', 'name'], pagination: { limit: 10, offset: 0, totalCount: 1 } } });
  await page.route('**/edge/management/v1/openapi.json', async route => {
    const document = await (await route.fetch()).json();
    const answers = items => ({ 200: { content: { 'application/json': { schema: { properties: { data: items } } } } } });
    document.components.schemas.WidgetDetail = { type: 'object', properties: { id: { type: 'string' }, ...shape.properties, createdAt: { type: 'string' }, updatedAt: { type: 'string' } } };
    const detail = { $ref: '#/components/schemas/WidgetDetail' };
    document.paths['/widgets'] = { get: { parameters: [{ name: 'filter' }], responses: answers({ type: 'array', items: detail }) }, post: { requestBody: { content: { 'application/json': { schema: shape } } }, responses: {} } };
    document.paths['/widgets/{id}'] = { get: { responses: answers(detail) }, delete: { responses: {} } };
    await route.fulfill({ json: document });
  });
  await page.route(/\/edge\/management\/v1\/widgets(\?|$)/, route => route.fulfill({ json: enveloped(route.request().method() === 'POST' ? { id: 'w1' } : [widget]) }));
  await page.route('**/edge/management/v1/widgets/w1', route => route.fulfill({ json: { ...enveloped(widget) } }));
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await page.getByText('More kinds').click();
  await page.getByRole('link', { name: 'Widgets' }).click();
  await page.getByRole('cell', { name: 'red' }).waitFor();
  await page.getByRole('link', { name: 'Create widget' }).click();
  await page.getByLabel('Name').fill('left wing');
  await page.getByLabel('Colour').selectOption('green');
  const [request] = await Promise.all([page.waitForRequest(sent => sent.method() === 'POST' && sent.url().includes('/widgets')), page.getByRole('button', { name: 'Create', exact: true }).click()]);
  expect(request.postDataJSON().colour === 'green' && request.url().endsWith('?strict=true'), `the form made ${request.postData()}`);
  await page.getByRole('heading', { level: 1, name: 'left wing' }).waitFor();
  await page.context().close();
  console.log('a new kind needs no code');
}

const code = (secret, at = Date.now()) => {
  const bits = [...secret.replace(/=/g, '')].map(letter => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0')).join('');
  const key = Buffer.from(bits.match(/.{8}/g).map(byte => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(at / 30000)));
  const digest = createHmac('sha1', key).update(counter).digest();
  return String((digest.readUInt32BE(digest.at(-1) & 15) & 0x7fffffff) % 1000000).padStart(6, '0');
};

/** Log-in with a one-time code; an identity that is not an administrator is turned away. */
async function secondFactor(browser, ask) {
  const make = async (name, isAdmin) => {
    const { id } = await ask('POST', '/identities', { name, type: 'Default', isAdmin });
    await ask('POST', '/authenticators', { identityId: id, method: 'updb', username: name, password: 'correct horse battery' });
  };
  await make('second-admin', true);
  await make('no-admin', false);
  const theirs = await administrator(origin, 'second-admin', 'correct horse battery');
  await theirs('POST', '/current-identity/mfa');
  const { provisioningUrl } = await theirs('GET', '/current-identity/mfa');
  const secret = new URL(provisioningUrl).searchParams.get('secret');
  await theirs('POST', '/current-identity/mfa/verify', { code: code(secret, Date.now() - 30000) }).catch(() => theirs('POST', '/current-identity/mfa/verify', { code: code(secret) }));
  const page = await windowOf(browser, 1280, 'light', answer => answer.url().includes('/authenticate/mfa') && answer.status() === 400);
  await logIn(page, 'second-admin', 'correct horse battery');
  await page.getByLabel('One-time code').waitFor();
  await page.keyboard.type('000000');
  await page.keyboard.press('Enter');
  await page.locator('.problem').waitFor();
  await page.getByLabel('One-time code').fill(code(secret));
  await page.keyboard.press('Enter');
  await page.waitForFunction(SETTLED);
  await page.getByRole('button', { name: 'Log out' }).click();
  await logIn(page, 'no-admin', 'correct horse battery');
  await page.getByText('This page is for administrators').waitFor();
  expect(await page.evaluate(() => sessionStorage.length) === 0, 'sessionStorage is empty after the session has ended');
  await page.context().close();
  console.log('logged in with a one-time code');
}

/** Every other way to log in: a one-time link, an API token, and the certificate of the browser. */
async function waysIn(browser, ask, ids) {
  const expected = answer => answer.status() === 401;
  const page = await windowOf(browser, 1280, 'light', expected);
  if (process.env.OVERKEEP_DATA) {
    const [link] = execFileSync(process.env.BINARY, ['admin', 'link'], { encoding: 'utf8' }).split('\n');
    const here = `${origin}/${new URL(link).hash}`;
    await page.goto(here);
    await page.waitForFunction(SETTLED);
    expect(!page.url().includes('link') && await page.evaluate(() => history.length) <= 2, 'the link leaves the address');
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.goto('about:blank');
    await page.goto(here);
    await page.getByText('This link was used already').waitFor();
    await page.goto('about:blank');
  }

  await page.goto(`${origin}/`);
  await page.getByText('Log in with an API token').click();
  await page.getByLabel('API token').fill('ovk_nothing');
  await page.getByRole('button', { name: 'Use the token' }).click();
  await page.getByText('This API token is unknown').waitFor();
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await open(page, '#/api-tokens/_new');
  await page.getByLabel('Name').fill('for the page');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  const secret = await page.getByRole('dialog').locator('pre').textContent();
  await check(page, 'the secret of a new API token', true);
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();
  await page.getByRole('heading', { level: 1, name: 'for the page' }).waitFor();
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByText('Log in with an API token').click();
  await page.getByLabel('API token').fill(secret);
  await page.getByRole('button', { name: 'Use the token' }).click();
  await page.waitForFunction(SETTLED);
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.locator('#username').waitFor();
  expect((await ask('GET', '/overkeep/v1/api-tokens')).length === 1, 'logging out does not revoke the token');
  await page.context().close();
  await certificate(browser, ask);
  console.log('logged in with a link, an API token and a certificate');
}

/** Log-in at the issuer of an external signer, which sends the browser back; the same address does not log in again. */
async function signer(browser, ask) {
  const { id } = await ask('POST', '/identities', { name: 'admin at an issuer', type: 'Default', isAdmin: true });
  const running = await issuer(id);
  await ask('POST', '/external-jwt-signers', { name: 'the company', issuer: running.url, audience: 'overlay', enabled: true, jwksEndpoint: `${running.url}/keys`, externalAuthUrl: running.url, clientId: 'overkeep-page' });
  const page = await windowOf(browser, 1280, 'light', answer => answer.status() === 401, {}, [running.url]);
  const back = [];
  page.on('request', request => request.url().includes('/page/signed-in') && back.push(request.url()));
  await page.goto(`${origin}/`);
  await page.getByRole('button', { name: 'Log in with the company' }).waitFor();
  await check(page, 'the log-in page', true);
  await page.getByRole('button', { name: 'Log in with the company' }).click();
  await page.waitForFunction(SETTLED);
  await page.getByText('admin at an issuer').first().waitFor();
  expect(page.url() === `${origin}/#/overview`, `the code leaves the address: ${page.url()}`);
  expect(await page.evaluate(() => sessionStorage.length) === 1, 'the secret of the log-in is gone');
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.goto(back[0]);
  await page.getByText('This log-in took too long').waitFor();
  await page.goto(`${origin}/page/signed-in?error=access_denied&error_description=%3Cb%3E`);
  await page.getByText('The issuer refused the log-in: access_denied.').waitFor();
  await page.context().close();
  running.stop();
  console.log('logged in at the issuer of an external signer');
}

/** Enrolls an administrator whose key the browser has, and logs in with the button. */
async function certificate(browser, ask) {
  const { id } = await ask('POST', '/identities', { name: 'admin with a certificate', type: 'Default', isAdmin: true, enrollment: { ott: true } });
  const { enrollment } = await ask('GET', `/identities/${id}`);
  const { key, cert } = await enroll(enrollment.ott.jwt);
  const page = await windowOf(browser, 1280, 'light', undefined, { clientCertificates: [{ origin, cert: Buffer.from(cert), key: Buffer.from(key) }] });
  await page.goto(`${origin}/`);
  await page.getByRole('button', { name: 'Log in with the browser’s certificate' }).click();
  await page.waitForFunction(SETTLED);
  await page.getByText('admin with a certificate').first().waitFor();
  await page.context().close();
}

/** The console of OpenZiti, whose page is of another origin: the requests that it sends are answered. */
const openZitiConsole = browser => consoleRequests(async () => (await browser.newContext({ ignoreHTTPSErrors: true })).newPage(), origin, user, password, expect);

/** A role with 5,000 identities takes the map no more requests than a role with 5, and at most a few times as long. */
async function large(browser, ask) {
  const page = await windowOf(browser, 1280, 'light');
  const requests = async () => {
    await page.waitForTimeout(1000); // news of earlier changes
    let count = 0;
    const counted = () => count++;
    await open(page, '#/overview');
    page.on('request', counted);
    const start = performance.now();
    await page.evaluate(() => { location.hash = '#/access/map'; });
    await page.getByRole('button', { name: '#sales' }).waitFor();
    const time = performance.now() - start;
    page.off('request', counted);
    return { count, time };
  };
  await logIn(page);
  await page.waitForFunction(SETTLED);
  const first = async () => {
    const rounds = [await requests(), await requests(), await requests()];
    return { count: Math.min(...rounds.map(({ count }) => count)), time: Math.min(...rounds.map(({ time }) => time)) };
  };
  const before = await first();
  const names = Array.from({ length: 5000 }, (_, index) => `sales-${index}`);
  for (let from = 0; from < names.length; from += 100) {
    await Promise.all(names.slice(from, from + 100).map(name => ask('POST', '/identities', { name, type: 'Default', isAdmin: false, roleAttributes: ['sales'] })));
  }
  const after = await first();
  await page.getByRole('button', { name: /#sales 5,00\d members/ }).waitFor();
  expect(after.count <= before.count + 10, `the map of 5,000 identities takes ${after.count} requests, that of few ${before.count}`);
  const ratio = after.time / before.time;
  expect(ratio <= MAX_RATIO, `the map of 5,000 identities takes ${ratio.toFixed(1)} times as long as that of few`);
  await page.getByRole('button', { name: /#sales/ }).click();
  await page.getByRole('dialog').getByText(/1–50 of 5,00\d/).waitFor();
  await page.keyboard.press('Escape');
  const policy = name => ask('POST', '/service-policies', { name, type: 'Dial', semantic: 'AnyOf', identityRoles: ['#few'], serviceRoles: ['#few'] });
  for (let from = 0; from < 500; from += 100) await Promise.all(Array.from({ length: 100 }, (_, index) => policy(`a policy ${from + index}`)));
  await policy('the very last one');
  await page.locator('[data-search]').fill('the very last');
  await page.getByRole('link', { name: /the very last one/ }).waitFor();
  await page.context().close();
  console.log(`the map of 5,000 identities takes ${ratio.toFixed(1)} times as long as that of few`);
}

async function pictures(browser, ids) {
  fs.mkdirSync(PICTURES, { recursive: true });
  for (const [name, hash, width, theme] of [['access', '#/access/map', 1200, 'light'], ['explain', `#/access/ask?identity=${ids.alice}&service=${ids.builds}`, 1200, 'dark'], ['identity', `#/identities/${ids.alice}`, 1200, 'light'], ['narrow', '#/overview', 360, 'dark']]) {
    const page = await windowOf(browser, width, theme);
    await logIn(page);
    await page.waitForFunction(SETTLED);
    await open(page, hash);
    await page.waitForTimeout(500);
    await page.screenshot({ path: path.join(PICTURES, `${name}.png`) });
    await page.context().close();
  }
}

const browser = await chromium.launch({ executablePath: CHROMIUM, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
try {
  const ask = await administrator(origin, user, password);
  const ids = await seed(ask);
  if (process.argv.includes('--pictures')) await pictures(browser, ids);
  else {
    const parts = { walk, keyboard, enrollment, firstSteps, explain, refusals, actions, traffic, care, resume, newKind, secondFactor, waysIn, signer, openZitiConsole, large };
    const wanted = process.argv.slice(2);
    for (const [name, part] of Object.entries(parts)) {
      if (!wanted.length || wanted.includes(name)) await part(browser, ask, ids).catch(error => expect(false, `${name}: ${error.stack}`));
    }
  }
} catch (error) {
  expect(false, error.stack);
} finally {
  await browser.close();
}
process.exit(faults.length ? 1 : 0);
