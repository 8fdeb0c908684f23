// Runs random schedules on the page's machine, and prints each state, for the test that compares.
'use strict';
const path = require('node:path');
const folder = path.join(__dirname, '../../../static/js/play');
require(path.join(folder, 'machine.js'));
require(path.join(folder, 'programs.js'));
const { compile, machine } = globalThis.PlayMachine;

const each = Number(process.argv[2]);
const result = {};
for (const source of globalThis.PLAY_PROGRAMS) {
  const program = compile(source);
  const lines = [];
  for (let seed = 0; seed < each; seed += 1) {
    let number = seed;
    const roll = (sides) => {
      number = (number * 1103 + 12345) % 1048576;
      return Math.floor(number / 7) % sides;
    };
    const buyers = roll(2) === 0 ? 2 : 3;
    const instances = roll(2) === 0 ? 1 : 2;
    const units = roll(2) === 0 ? 1 : 2;
    const one = machine(program, { buyers, instances, units, arbiter: roll(2) === 0 });
    const faults = [...program.events.filter((event) => event.isFault).map((event) => event.name), 'crash'];
    let state = one.start();
    for (let step = 0; step < 200; step += 1) {
      const actions = one.actions(state, faults);
      if (actions.length === 0) break;
      state = one.after(state, actions[roll(actions.length)]);
      lines.push(one.line(state));
    }
  }
  result[source.name] = lines.join('\n');
}
process.stdout.write(JSON.stringify(result));
