/**
 * Runs the program of a strategy for two or three buyers, one step at a time, and searches all schedules.
 *
 * It is the same machine as `tests/schedules`, and a test compares both on random schedules. The file is a
 * plain script, because a page that was opened as a file may not load modules.
 */
'use strict';
const PlayMachine = (() => {
  /** The operators, the loosest first: those of one row bind alike, from left to right. */
  const LEVELS = [
    { or: (a, b) => Number(a !== 0 || b !== 0) },
    { and: (a, b) => Number(a !== 0 && b !== 0) },
    {
      '==': (a, b) => Number(a === b),
      '!=': (a, b) => Number(a !== b),
      '<=': (a, b) => Number(a <= b),
      '>=': (a, b) => Number(a >= b),
      '<': (a, b) => Number(a < b),
      '>': (a, b) => Number(a > b),
    },
    { '+': (a, b) => a + b, '-': (a, b) => a - b },
  ];
  const NAME = /^[a-z_]+@?$/;

  /**
   * Reads an expression.
   * @param {string} source
   * @returns {{names: string[], value: (valueOf: (name: string) => number) => number}}
   */
  function parseExpression(source) {
    const names = [];
    const parse = (words, level) => {
      if (level === LEVELS.length) {
        if (words.length !== 1) throw new Error(`not an expression: ${source}`);
        if (/^-?\d+$/.test(words[0])) return () => Number(words[0]);
        if (!NAME.test(words[0])) throw new Error(`not an expression: ${source}`);
        names.push(words[0]);
        return (valueOf) => valueOf(words[0]);
      }
      const at = words.findLastIndex((word) => Object.hasOwn(LEVELS[level], word));
      if (at < 0) return parse(words, level + 1);
      const operate = LEVELS[level][words[at]];
      const left = parse(words.slice(0, at), level);
      const right = parse(words.slice(at + 1), level + 1);
      return (valueOf) => operate(left(valueOf), right(valueOf));
    };
    return { value: parse(source.split(' '), 0), names };
  }

  /** Reads `name = expression` or `name = expression if condition`. @param {string} source */
  function parseAssignment(source) {
    const [, name, value, condition] = /^(\S+) = (.*?)(?: if (.*))?$/.exec(source);
    return { name, value: parseExpression(value), condition: condition ? parseExpression(condition) : null };
  }

  /** A program whose texts are read once. @param {any} source an entry of `PLAY_PROGRAMS` */
  function compile(source) {
    const all = (list) => (list ?? []).map(parseAssignment);
    const steps = source.steps.map((step) => ({
      ...step,
      when: step.when ? parseExpression(step.when) : null,
      change: all(step.do),
      fence: step.fence ? parseExpression(step.fence) : null,
      always: all(step.always),
      jumps: [
        ...(step.if ? [[parseExpression(step.if), step.then]] : []),
        ...(step.next === undefined ? [] : [[parseExpression('1'), step.next]]),
      ],
    }));
    const events = (source.events ?? []).map((event) => ({
      name: event.name,
      isFault: Boolean(event.fault),
      when: parseExpression(event.when),
      change: all(event.do),
      timesMax: event.times_max ?? 1,
    }));
    const crash = source.crash ? all(source.crash) : null;
    const start = all(source.start);
    return { name: source.name, start, steps, events, crash, names: namesOf(start, steps, events, crash) };
  }

  function namesOf(start, steps, events, crash) {
    const names = new Set(['row']);
    const add = (expression) => expression?.names.forEach((name) => names.add(name));
    const addAll = (assignments) => {
      for (const { name, value, condition } of assignments) {
        names.add(name);
        add(value);
        add(condition);
      }
    };
    [start, crash ?? [], ...steps.flatMap((step) => [step.change, step.always])].forEach(addAll);
    events.forEach((event) => (addAll(event.change), add(event.when)));
    for (const step of steps) {
      [step.when, step.fence, ...step.jumps.map(([condition]) => condition)].forEach(add);
      if (step.fence) names.add('accepted_fence');
    }
    names.delete('me');
    names.delete('units');
    return [...names].sort();
  }

  /**
   * The machine of a program. A state is a plain object that is never changed.
   * @param {ReturnType<typeof compile>} program
   * @param {{buyers: number, instances: number, units: number, arbiter: boolean}} settings
   */
  function machine(program, settings) {
    const { buyers, instances, units, arbiter } = settings;
    const places = new Map();
    let width = 0;
    for (const name of program.names) {
      places.set(name, width);
      width += name.startsWith('my_') ? buyers : name.endsWith('@') ? instances : 1;
    }
    const place = (name, buyer) => {
      const offset = name.startsWith('my_') ? buyer % buyers : name.endsWith('@') ? buyer % instances : 0;
      return places.has(name) ? places.get(name) + offset : -1;
    };
    const get = (state, name, buyer) => {
      if (name === 'me') return buyer + 1;
      if (name === 'units') return units;
      return state.values[place(name, buyer)] ?? 0;
    };
    const value = (state, expression, buyer) => expression.value((name) => get(state, name, buyer));
    const set = (state, name, buyer, to) => (state.values[place(name, buyer)] = to);
    const assign = (state, assignments, buyer) => {
      for (const one of assignments) {
        if (one.condition && value(state, one.condition, buyer) === 0) continue;
        set(state, one.name, buyer, value(state, one.value, buyer));
      }
    };
    const isOver = (state) => !state.phases.some((phase) => typeof phase === 'number');
    const orders = (state) => state.hasOrder.filter(Boolean).length;

    function start() {
      const state = {
        phases: Array(buyers).fill(0),
        hasOrder: Array(buyers).fill(false),
        refused: 0,
        events: program.events.map(() => 0),
        values: Array(width).fill(0),
      };
      for (let buyer = 0; buyer < Math.max(buyers, instances); buyer += 1) {
        set(state, 'row', buyer, units);
        assign(state, program.start, buyer);
      }
      return state;
    }

    /** Whether a buyer can make a step now. */
    function canStep(state, buyer) {
      const phase = state.phases[buyer];
      if (typeof phase !== 'number') return false;
      const { when } = program.steps[phase];
      return !when || value(state, when, buyer) !== 0;
    }

    /** What may happen next, as the letters of a schedule: `0` a step of the first buyer, `c0` its crash, `e0` an event. */
    function actions(state, faults) {
      const list = [];
      for (let buyer = 0; buyer < buyers; buyer += 1) if (canStep(state, buyer)) list.push(String(buyer));
      if (isOver(state)) return list;
      program.events.forEach((event, index) => {
        const isOffered = !event.isFault || faults.includes(event.name);
        if (isOffered && state.events[index] < event.timesMax && value(state, event.when, 0) !== 0) list.push(`e${index}`);
      });
      if (program.crash && faults.includes('crash') && !state.phases.includes('c')) {
        for (let buyer = 0; buyer < buyers; buyer += 1) if (state.phases[buyer] > 0) list.push(`c${buyer}`);
      }
      return list;
    }

    function after(state, action) {
      const next = {
        phases: [...state.phases],
        hasOrder: [...state.hasOrder],
        refused: state.refused,
        events: [...state.events],
        values: [...state.values],
      };
      if (action.startsWith('e')) {
        const index = Number(action.slice(1));
        next.events[index] += 1;
        assign(next, program.events[index].change, 0);
      } else if (action.startsWith('c')) {
        const buyer = Number(action.slice(1));
        next.phases[buyer] = 'c';
        assign(next, program.crash, buyer);
      } else {
        step(next, Number(action));
      }
      return next;
    }

    function step(state, buyer) {
      const at = state.phases[buyer];
      const one = program.steps[at];
      if (!one.order) assign(state, one.change, buyer);
      else if (arbiter) orderByArbiter(state, one.fence, buyer);
      else {
        state.hasOrder[buyer] = true;
        assign(state, one.change, buyer);
      }
      assign(state, one.always, buyer);
      const jump = one.jumps.find(([condition]) => value(state, condition, buyer) !== 0);
      const to = jump ? jump[1] : at + 1;
      state.phases[buyer] = to < program.steps.length ? to : 'e';
    }

    function orderByArbiter(state, fence, buyer) {
      const token = fence ? value(state, fence, buyer) : null;
      const row = get(state, 'row', buyer);
      if ((token !== null && token < get(state, 'accepted_fence', buyer)) || row < 1) {
        state.refused += 1;
        return;
      }
      if (token !== null) set(state, 'accepted_fence', buyer, token);
      set(state, 'row', buyer, row - 1);
      state.hasOrder[buyer] = true;
    }

    /** A state in one line, which is the same in both machines. */
    function line(state) {
      const phases = state.phases.map((phase, buyer) => `${phase}${state.hasOrder[buyer] ? '!' : ''} `).join('');
      return `${phases}r${state.refused} e[${state.events.join(', ')}] v[${state.values.join(', ')}]`;
    }

    return {
      program,
      settings,
      start,
      actions,
      canStep,
      after,
      get,
      isOver,
      orders,
      line,
      isOversold: (state) => orders(state) > units,
    };
  }

  /**
   * Tries every schedule, the shortest first.
   * @param {ReturnType<typeof machine>} one
   * @param {string[]} faults the faults that may happen
   * @param {number} statesMax states that are looked at before the search gives up
   * @returns {{oversells: string[]|null, states: number, schedules: number|null, isWhole: boolean}}
   */
  function search(one, faults, statesMax) {
    const begin = one.start();
    const states = [begin];
    const indexOf = new Map([[one.line(begin), 0]]);
    const before = [null];
    const following = [];
    const path = (end) => {
      const list = [];
      for (let at = end; before[at]; [at] = before[at]) list.push(before[at][1]);
      return list.reverse();
    };
    for (let at = 0; at < states.length; at += 1) {
      const state = states[at];
      if (one.isOversold(state)) return { oversells: path(at), states: states.length, schedules: null, isWhole: true };
      if (states.length > statesMax) return { oversells: null, states: states.length, schedules: null, isWhole: false };
      following[at] = one.actions(state, faults).map((action) => {
        const next = one.after(state, action);
        const key = one.line(next);
        if (!indexOf.has(key)) {
          indexOf.set(key, states.length);
          states.push(next);
          before.push([at, action]);
        }
        return indexOf.get(key);
      });
    }
    return { oversells: null, states: states.length, schedules: count(following), isWhole: true };
  }

  /** The number of whole schedules; null when one of them goes round in a circle. */
  function count(following) {
    const ways = [];
    const isOpen = [];
    const stack = [[0, 0]];
    while (stack.length > 0) {
      const [state, child] = stack.pop();
      isOpen[state] = true;
      const next = following[state][child];
      if (next !== undefined) {
        stack.push([state, child + 1]);
        if (ways[next] === undefined) {
          if (isOpen[next]) return null;
          stack.push([next, 0]);
        }
        continue;
      }
      ways[state] = following[state].length === 0 ? 1 : following[state].reduce((sum, one) => sum + ways[one], 0);
      isOpen[state] = false;
    }
    return ways[0];
  }

  return { compile, machine, search };
})();
globalThis.PlayMachine = PlayMachine;
