// Forms, actions, and kinds that the page has no code for.

import { SETTLED, check, expect, logIn, open, signedIn, windowOf } from '../browser.mjs';

export * from './lists.mjs';

/** An error is shown at the member that it names, and a concurrent change is not overwritten. */
export async function refusals(browser, ask, ids) {
  const page = await signedIn(browser, 1280, 'light', answer => [400, 412].includes(answer.status()));
  await open(page, `#/configs/${ids['wiki-address']}/edit`);
  await page.getByRole('button', { name: 'Edit as JSON' }).click();
  await page.getByLabel('Data').fill('{"protocols": ["carrier pigeon"], "addresses": ["a.internal"], "portRanges": [{"low": 1, "high": 2}]}');
  await page.locator('.field .error').filter({ hasText: /pigeon|one of|enum|protocols/i }).waitFor();
  // A form with changes is left only if the person agrees.
  let answer = 'dismiss';
  page.on('dialog', dialog => dialog[answer]());
  await page.evaluate(() => { location.hash = '#/overview'; });
  await page.waitForFunction(() => location.hash.endsWith('/edit'));
  expect(await page.getByLabel('Data').inputValue().then(text => text.includes('pigeon')), 'a form that is not left keeps what was typed');
  answer = 'accept';
  await open(page, `#/identities/${ids.bruno}/edit`);
  await page.getByLabel('Name').fill('bruno the second');
  await ask('PATCH', `/identities/${ids.bruno}`, { name: 'bruno the first' });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Somebody else changed this meanwhile').waitFor();
  expect((await ask('GET', `/identities/${ids.bruno}`)).name === 'bruno the first', 'the newer name stays');
  await page.context().close();
}

/** An action shows who gains and who loses access before it is done. */
export async function previewedAction(browser, ask, ids) {
  const page = await signedIn(browser, 1280, 'light');
  await open(page, `#/identities/${ids.dalia}`);
  await page.getByRole('button', { name: 'Disable' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('spinbutton').fill('0');
  await dialog.locator('.preview .lost').filter({ hasText: 'dalia' }).first().waitFor();
  await check(page, 'an action with a preview', true);
  expect(!(await ask('GET', `/identities/${ids.dalia}`)).disabled, 'a preview changes nothing');
  await dialog.getByRole('button', { name: 'Disable' }).click();
  await dialog.waitFor({ state: 'detached' });
  expect((await ask('GET', `/identities/${ids.dalia}`)).disabled, 'the action is done');
  await page.context().close();
}

/** An action whose body is a list. */
export async function actions(browser, ask, ids) {
  const page = await signedIn(browser, 1280, 'light');
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
}

/** A kind that only the document describes and the page has no code for. */
export async function newKind(browser) {
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
}
