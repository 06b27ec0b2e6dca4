// The pictures of docs/page.md.

import fs from 'node:fs';
import path from 'node:path';
import { open, signedIn } from './browser.mjs';

const { PICTURES } = process.env;

export async function pictures(browser, ids) {
  fs.mkdirSync(PICTURES, { recursive: true });
  for (const [name, hash, width, theme] of [['access', '#/access/map', 1200, 'light'], ['explain', `#/access/ask?identity=${ids.alice}&service=${ids.builds}`, 1200, 'dark'], ['identity', `#/identities/${ids.alice}`, 1200, 'light'], ['narrow', '#/overview', 360, 'dark']]) {
    const page = await signedIn(browser, width, theme);
    await open(page, hash);
    await page.waitForTimeout(500);
    await page.screenshot({ path: path.join(PICTURES, `${name}.png`) });
    await page.context().close();
  }
}
