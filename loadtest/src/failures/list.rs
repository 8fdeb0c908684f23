//! The experiments: what goes wrong, and what prevents it.

use super::load::Gates;

/// One experiment.
pub struct Experiment {
    pub name: &'static str,
    /// What goes wrong.
    pub failure: &'static str,
    /// The remedy.
    pub cure: &'static str,
    pub kind: Kind,
}

/// How the failure is made to happen.
#[derive(Clone, Copy)]
pub enum Kind {
    Load(Gates),
    LeaseExpires,
    Failover,
    CounterLost,
    QueueLost,
    WrongOwner,
    LockOrder,
    StaleReplica,
}

/// Every experiment, in the order of the page.
pub const LIST: &[Experiment] = &[
    Experiment {
        name: "lease-expires",
        failure: "A holder is frozen (SIGSTOP) before its write for longer than its lease; another instance takes the lock and sells everything; then the late write is committed.",
        cure: "The arbiter: the lock's fence is raised in the same transaction, and the late one is below it.",
        kind: Kind::LeaseExpires,
    },
    Experiment {
        name: "unlock-before-commit",
        failure: "The mutex is freed before COMMIT (mysql-mutex-in-tx): the next buyer reads the old stock.",
        cure: "Commit first, unlock then (mysql-mutex); or the arbiter.",
        kind: Kind::Load(Gates { wrong: "mysql-mutex-in-tx", right: "mysql-mutex", instances: 1 }),
    },
    Experiment {
        name: "mutex-two-instances",
        failure: "Two instances each have a mutex of their own (mysql-mutex).",
        cure: "A lock that both share (lock-redis); or the arbiter.",
        kind: Kind::Load(Gates { wrong: "mysql-mutex", right: "lock-redis", instances: 2 }),
    },
    Experiment {
        name: "lock-per-request",
        failure: "Every request makes a lock object of its own (mysql-mutex-per-request).",
        cure: "One object for all requests (mysql-mutex); or the arbiter.",
        kind: Kind::Load(Gates {
            wrong: "mysql-mutex-per-request",
            right: "mysql-mutex",
            instances: 1,
        }),
    },
    Experiment {
        name: "wrong-owner-release",
        failure: "A holder whose lease ran out deletes the key, which is the next holder's by then (plain Redis commands).",
        cure: "Compare-and-delete: the release frees the lock only if it still holds the owner's value.",
        kind: Kind::WrongOwner,
    },
    Experiment {
        name: "failover-loses-lock",
        failure: "The Redis that granted the lock dies before it has replicated it; the promoted replica grants it again.",
        cure: "The arbiter: the fence of the second holder is later, whatever Redis forgot.",
        kind: Kind::Failover,
    },
    Experiment {
        name: "counter-lost",
        failure: "A Redis without persistence restarts while purchases are between its counter and the ledger (redis-lua); the counter is loaded from a ledger that does not know them yet.",
        cure: "The arbiter: the condition on the stock row refuses the surplus.",
        kind: Kind::CounterLost,
    },
    Experiment {
        name: "lock-order",
        failure: "Two baskets with the same two items lock them in opposite order and wait for each other (plain Redis commands).",
        cure: "A fixed order of locks.",
        kind: Kind::LockOrder,
    },
    Experiment {
        name: "timestamp-tick",
        failure: "Compare-and-set on a timestamp (mysql-timestamp): two writes in one tick look like none.",
        cure: "A version that counts (mysql-version); or the arbiter.",
        kind: Kind::Load(Gates { wrong: "mysql-timestamp", right: "mysql-version", instances: 1 }),
    },
    Experiment {
        name: "stale-replica",
        failure: "The stock is read from a replica that lags and taken on the master (plain Redis commands, a pair of our own).",
        cure: "Check and take the stock in one step, on the server that is written to.",
        kind: Kind::StaleReplica,
    },
    Experiment {
        name: "queue-lost",
        failure: "Buyers are answered 202 from a queue in a Redis without persistence; a power cut takes Redis and the service (redis-stream).",
        cure: "A queue that is on the disk before the answer: appendfsync always. The arbiter cannot help: nothing reached it.",
        kind: Kind::QueueLost,
    },
];
