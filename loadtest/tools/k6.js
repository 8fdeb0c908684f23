// Buyers for k6, which `fire k6` starts: each has a token of its own, and buys once.
import http from 'k6/http';
import exec from 'k6/execution';
import { SharedArray } from 'k6/data';
import { Counter } from 'k6/metrics';
import { check, sleep } from 'k6';

const TRIES_MAX = 20;
const tokens = new SharedArray('tokens', () => open(__ENV.TOKENS).trim().split('\n'));
const sold = new Counter('sold');
const refused = new Counter('refused');
// A refusal is an answer, and no failed request.
http.setResponseCallback(http.expectedStatuses(201, 202, 409));

export const options = {
  scenarios: {
    rush: {
      executor: 'shared-iterations',
      vus: Number(__ENV.CONNECTIONS),
      iterations: tokens.length,
      maxDuration: '5m',
    },
  },
  thresholds: { checks: ['rate==1'] },
};

export default function () {
  const buyer = exec.scenario.iterationInTest;
  const headers = { Authorization: `Bearer ${tokens[buyer]}`, 'Idempotency-Key': `k6-${buyer}` };
  let answer = http.post(__ENV.TARGET, null, { headers });
  // After a lost answer (status 0) or an error, the same key again never buys a second unit.
  for (let tries = 1; tries < TRIES_MAX && !isFinal(answer); tries += 1) {
    sleep(0.1);
    answer = http.post(__ENV.TARGET, null, { headers });
  }
  if (answer.status === 409) refused.add(1);
  else if (isFinal(answer)) sold.add(1);
  check(answer, { 'sold or refused': isFinal });
}

function isFinal(answer) {
  if (answer.status === 409) return answer.json('code') !== 'request_in_progress';
  return answer.status === 201 || answer.status === 202;
}
