// Names and data that somebody hostile has written, and addresses that somebody hostile has made.

import { check, expect, open, signedIn } from '../browser.mjs';

const MARKUP = '<img src=x onerror=alert(1)><script>alert(2)</script>';
const NAMES = [MARKUP, '"><svg onload=alert(3)>', 'javascript:alert(4)', '${alert(5)}`{{6*7}}', '\u202egnp.exe', `${'long'.repeat(50)}`];

/** Names, roles, tags and data are shown as text, wherever they are shown. */
export async function markup(browser, ask) {
  const made = [];
  const make = async (kind, body) => {
    const { id } = await ask('POST', `/${kind}`, body);
    made.push([kind, id]);
    return id;
  };
  for (const name of NAMES) {
    const tags = { [MARKUP]: MARKUP };
    const identity = await make('identities', { name, type: 'Default', isAdmin: false, roleAttributes: [MARKUP.replace(/[, ]/g, '-')], tags, enrollment: { ott: true } });
    const config = await make('configs', { name, configTypeId: 'g7cIWbcGg', tags, data: { protocols: ['tcp'], addresses: ['x.internal'], portRanges: [{ low: 1, high: 1 }], dialOptions: { identity: MARKUP } } });
    const service = await make('services', { name, encryptionRequired: true, configs: [config], tags });
    await make('service-policies', { name, type: 'Dial', semantic: 'AnyOf', identityRoles: [`@${identity}`], serviceRoles: [`@${service}`], tags });
  }
  // The page asks for a record with the name that the config has where other configs name one.
  const page = await signedIn(browser, 360, 'light', answer => answer.status() === 404 && decodeURIComponent(answer.url()).endsWith(MARKUP));
  page.on('dialog', dialog => { expect(false, `a script of a name ran: ${dialog.message()}`); dialog.dismiss(); });
  const inert = async what => {
    const foreign = await page.evaluate(() => document.querySelectorAll('img:not([src="/page/icon.svg"]), script:not([src="/page/main.js"]), svg[onload], a[href^="javascript:"], [onerror]').length);
    expect(!foreign, `${what}: ${foreign} elements come from a name`);
    await check(page, what, false);
  };
  const [identity, service] = ['identities', 'services'].map(kind => made.find(([of]) => of === kind)[1]);
  const pages = made.flatMap(([kind, id]) => [`#/${kind}/${id}`, `#/${kind}/${id}/edit`]);
  for (const hash of [...pages, '#/identities', '#/services', '#/configs', '#/service-policies', '#/access/map', `#/access/ask?identity=${identity}&service=${service}`, '#/history', '#/live', '#/overview']) {
    await open(page, hash);
    await inert(hash);
  }
  await page.keyboard.press('Control+k');
  await page.locator('dialog input:focus').waitFor();
  await page.keyboard.type('<img');
  await page.getByRole('option').filter({ hasText: MARKUP }).first().waitFor();
  await inert('the search for a page');
  await page.keyboard.press('Escape');
  await open(page, `#/identities/${identity}`);
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByText(`Delete ${MARKUP}?`).waitFor();
  await inert('the deletion of a record');
  await page.context().close();
  for (const [kind, id] of made.reverse()) await ask('DELETE', `/${kind}/${id}`);
}

/** Addresses that name nothing show a page that says so. */
export async function addresses(browser) {
  const page = await signedIn(browser, 1280, 'light', answer => answer.status() === 404);
  for (const hash of ['#/%E0%A4%A', '#/constructor', '#/access/constructor', '#/history?kind=constructor', '#/identities/%3Cimg%20src%3Dx%3E', '#/__proto__/x/edit', '#//', '#/start/nothing']) {
    await page.evaluate(to => { location.hash = to; }, hash);
    await page.waitForFunction(() => !document.querySelector('.loading') && document.querySelector('#content')?.textContent.trim());
    expect(await page.locator('#navigation a').count() > 10, `${hash}: the page is still there`);
  }
  await page.context().close();
}
