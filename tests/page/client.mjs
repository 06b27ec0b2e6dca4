// A client or a router that enrolls with a token, and a log-in with its certificate.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { request } from 'node:https';
import os from 'node:os';
import path from 'node:path';
import { expect, origin } from './browser.mjs';

/** A new key and a request for a certificate with this name. */
function requested(name) {
  const work = fs.mkdtempSync(path.join(os.tmpdir(), 'page-'));
  const [key, csr] = ['key', 'csr'].map(file => path.join(work, file));
  execFileSync('openssl', ['req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', `/CN=${name}`, '-keyout', key, '-out', csr], { stdio: 'ignore' });
  const made = { key: fs.readFileSync(key, 'utf8'), csr: fs.readFileSync(csr, 'utf8') };
  fs.rmSync(work, { recursive: true });
  return made;
}

const claims = jwt => JSON.parse(Buffer.from(jwt.split('.')[1], 'base64url'));

async function redeem(jwt, type, body) {
  const { em: method, jti, iss: controller } = claims(jwt);
  const answer = await fetch(`${controller}/edge/client/v1/enroll?method=${method}&token=${jti}`, { method: 'POST', headers: { 'content-type': type, accept: 'application/json' }, body });
  expect(answer.ok, `the enrollment with ${method} answered ${answer.status}`);
  return (await answer.json()).data;
}

/** Enrolls a client with a token. Returns its key and certificate. */
export async function enroll(jwt) {
  const { key, csr } = requested('client');
  const { cert } = await redeem(jwt, 'application/x-pem-file', csr);
  return { key, cert };
}

/** Enrolls a router with a token. */
export async function enrollRouter(jwt) {
  const { csr } = requested(claims(jwt).sub);
  await redeem(jwt, 'application/json', JSON.stringify({ certCsr: csr, serverCertCsr: csr }));
}

/** The status of a log-in with a certificate. */
export const logInWith = (made, controller = origin) => new Promise((done, failed) => {
  const sent = request(`${controller}/edge/client/v1/authenticate?method=cert`, { ...made, method: 'POST', rejectUnauthorized: false, headers: { 'content-type': 'application/json' } }, answer => { answer.resume(); done(answer.statusCode); });
  sent.on('error', failed).end('{}');
});
