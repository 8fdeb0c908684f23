/**
 * The gallery: ways to break a sale. Its sentences are `try.<name>`, `.what` and `.cure` in the tables
 * of strings.
 *
 * Those with `strategies` run here, the wrong one beside its cure; the others stop servers or
 * processes and need a terminal.
 */
const CROWD = { stock: 100, buyers: 1_000, concurrency: 128, arbiter: 'off' };

/** @type {{name: string, run?: object, failure?: string}[]} */
export const EXPERIMENTS = [
  { name: 'lostUpdate', run: { strategies: ['mysql-naive', 'mysql-atomic'], ...CROWD } },
  { name: 'unlockBeforeCommit', run: { strategies: ['mysql-mutex-in-tx', 'mysql-mutex'], ...CROWD } },
  { name: 'lockPerRequest', run: { strategies: ['mysql-mutex-per-request', 'lock-redis'], ...CROWD } },
  { name: 'timestampTick', run: { strategies: ['mysql-timestamp', 'mysql-version'], ...CROWD } },
  { name: 'getThenSet', run: { strategies: ['redis-naive', 'redis-lua'], ...CROWD } },
  { name: 'inMemory', run: { strategies: ['memory-naive', 'memory-mutex'], ...CROWD } },
  { name: 'wrongScope', run: { strategies: ['lock-redis?scope=user', 'lock-redis'], ...CROWD } },
  { name: 'arbiter', run: { strategies: ['mysql-naive'], ...CROWD, arbiter: 'both' } },
  { name: 'leaseExpires', failure: 'lease-expires' },
  { name: 'twoInstances', failure: 'mutex-two-instances' },
  { name: 'wrongOwner', failure: 'wrong-owner-release' },
  { name: 'failover', failure: 'failover-loses-lock' },
  { name: 'redisRestart', failure: 'counter-lost' },
  { name: 'lockOrder', failure: 'lock-order' },
  { name: 'staleReplica', failure: 'stale-replica' },
  { name: 'lostQueue', failure: 'queue-lost' },
];
