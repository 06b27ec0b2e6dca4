// Every page, light and dark, from 360 to 3840 px.

import { check, everyPage, open, signedIn } from '../browser.mjs';

/** Every page in every width and theme. */
export async function walk(browser, ask, ids) {
  let pages;
  for (const [width, theme, withAxe] of [[1280, 'light', true], [1280, 'dark', true], [360, 'light', true], [360, 'dark', true], [3840, 'light', true], [3840, 'dark', false]]) {
    const page = await signedIn(browser, width, theme);
    pages ??= await everyPage(page, ask, ids);
    for (const hash of pages) {
      await open(page, hash);
      await check(page, `${hash} at ${width} px, ${theme}`, withAxe);
    }
    console.log(`${pages.length} pages at ${width} px, ${theme}`);
    await page.context().close();
  }
}
