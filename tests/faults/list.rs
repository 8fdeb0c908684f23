//! The rows of the matrix, in the order of the page.

use futures::future::LocalBoxFuture;

use crate::checker::planted;
use crate::prelude::*;
use crate::rows::{
    batch, buyers, clock, crash, disk, draws, failover, held, locks, mysql, mysql_engines, network,
    orders, power, redis, redis_groups, service, vitess, waiting,
};
use crate::soak;

/// One kind of fault.
pub struct Row {
    /// Its name, for `--only` and for the page.
    pub name: &'static str,
    /// What is done.
    pub fault: &'static str,
    /// What must be seen.
    pub expected: &'static str,
    /// One trial with a seed.
    pub run: for<'a> fn(&'a mut Testbed, u64) -> LocalBoxFuture<'a, TrialResult>,
}

macro_rules! rows {
    ($($name:literal: $run:path, $fault:literal, $expected:literal;)*) => {
        &[$(Row {
            name: $name,
            fault: $fault,
            expected: $expected,
            run: |testbed, seed| Box::pin($run(testbed, seed)),
        }),*]
    };
}

/// The rows of every `make test`: service and database die, a process aborts between statements, Redis forgets, locks end
/// early, the answer to a COMMIT is lost, changes of an order meet. `make test-all` runs every row.
pub const SHORT: &[&str] = &[
    "batch-of-items-killed",
    "carts-at-crash-points",
    "redis-killed-memory",
    "redis-leases-cut",
    "mysql-commits-unanswered",
    "order-races",
];

/// Every row.
pub const LIST: &[Row] = rows! {
    "service-killed": service::killed,
        "kill -9 of both instances under load; started again",
        "nothing accepted is lost; every open key is answered after the restart";
    "batch-killed": batch::killed,
        "kill -9 of both instances and the database in the middle of batches; started again",
        "nothing accepted is lost; a batch is there as a whole or not at all";
    "carts-killed": batch::killed_with_carts,
        "kill -9 of both instances and the database in the middle of batches with orders of three items; started again",
        "nothing accepted is lost; an order is there with all its lines or not at all";
    "carts-at-crash-points": crash::points_of_carts,
        "an instance aborts between the statements of a batch with orders of three items, before and after COMMIT; started again",
        "nothing accepted is lost; an order is there with all its lines or not at all";
    "batch-of-items-killed": batch::killed_across_items,
        "kill -9 of both instances and the database in the middle of batches of many items; started again",
        "nothing accepted is lost; a batch is there as a whole or not at all";
    "service-stopped": service::stopped,
        "SIGTERM to one instance under load; started again",
        "exit 0 within the drain; the other instance goes on";
    "service-frozen": service::frozen,
        "SIGSTOP of one instance for 1.5 s under load",
        "the other instance goes on; the frozen one finishes what it had";
    "service-few-files": service::few_files,
        "one instance may open 64 files and gets 200 connections",
        "accepting pauses; it does not crash and sells again";
    "queue-consumer-killed": service::consumer_killed,
        "kill -9 of one instance and then the other at random moments while redis-stream queues orders; 50 times in a trial of two seconds or more",
        "every order that was answered 202 is made exactly once; another consumer takes over what the dead one had";
    "redis-frozen": redis::frozen,
        "SIGSTOP of Redis for 1.5 s",
        "strategies on Redis: 503; the others go on";
    "redis-killed-memory": redis::killed_memory,
        "kill -9 of a Redis without persistence; started empty",
        "counters are loaded again from the ledger; queued orders (202) may be lost";
    "redis-killed-everysec": redis::killed_everysec,
        "kill -9 of a Redis with appendfsync everysec; started again",
        "what was acknowledged is there; nothing queued is lost";
    "redis-killed-always": redis::killed_always,
        "kill -9 of a Redis with appendfsync always; started again",
        "what was acknowledged is there; nothing queued is lost";
    "redis-emptied-reconciled": redis::reconciled,
        "a Redis without persistence dies three times while the reconciliation runs every 100 ms",
        "no unit is invented; counters equal the ledger in the end";
    "redis-older-copy": redis::older_copy,
        "an older copy of Redis' files is put back",
        "the arbiter refuses the surplus; drift is repaired; queued orders may be lost";
    "redis-failover": redis::failover,
        "the master is killed; a replica that missed writes takes over",
        "as with an older copy";
    "redis-full-memory": redis::full_memory,
        "maxmemory is reached: every write is refused (OOM)",
        "strategies on Redis: 503; nothing is evicted";
    "redis-full-disk": redis::full_disk,
        "the append-only file reaches its limit (MISCONF)",
        "strategies on Redis: 503; orders queued in the last second may be lost";
    "redis-scripts": redis::scripts,
        "SCRIPT FLUSH again and again, and a script that keeps Redis busy",
        "scripts are loaded again; BUSY is 503";
    "redis-leases-cut": redis::leases_cut,
        "PEXPIRE 1 of every lock again and again: Redis' clock jumped ahead",
        "two hold a lock; the fence keeps the late one out";
    "redis-cluster-primary-killed": redis_groups::primary_killed,
        "kill -9 of the primary that has an item; its replica takes over; 202 waits for one replica",
        "every strategy sells again; every client gets the lock again; no 202 is lost";
    "redis-cluster-primary-frozen": redis_groups::primary_frozen,
        "SIGSTOP of the primary that has an item, longer than the node time-out; it wakes up replaced",
        "as killed; what it does before it knows is not believed";
    "redis-cluster-failover": redis_groups::failover,
        "CLUSTER FAILOVER of the primary that has an item",
        "nothing is lost, and nothing waits for long";
    "redis-cluster-slots-moved": redis_groups::slots_moved,
        "the slots of three items are moved to both other nodes, with their keys, during their sale",
        "commands follow (MOVED, ASK, TRYAGAIN); nothing is lost";
    "redis-cluster-node-added": redis_groups::node_added,
        "a node joins and gets the slots of three items during their sale",
        "the services find it without a restart";
    "redis-cluster-without-replicas": redis_groups::without_replicas,
        "kill -9 of all replicas for 1.8 s while 202 waits for one; started again",
        "redis-stream: 503 or unknown, and no 202 is lost; the others go on";
    "redis-sentinel-failover": redis_groups::sentinel_failover,
        "kill -9 of the primary; Sentinels promote a replica; 202 waits for both replicas",
        "as with a cluster";
    "mysql-killed": mysql::killed,
        "kill -9 of the database under load; started again",
        "what was answered 201 is there; open keys are answered later";
    "power-cut": power::cut,
        "the power of the database is cut at a random moment, at a write or at a flush, and it comes back on what was flushed; ten times a second of a trial of two seconds or more",
        "what was answered 201 is there; no payment and no cancellation is taken back";
    "power-cut-batches": power::batches,
        "the same during batches",
        "the same; a batch is there as a whole or not at all";
    "power-cut-carts": power::carts,
        "the same during batches with orders of three items",
        "the same; an order is there with all its lines or not at all";
    "power-cut-payments": power::payments,
        "the same while a provider says that orders are paid",
        "no payment that was acknowledged is missing";
    "power-cut-draw": power::draw,
        "the same when the instance that draws 6,000 entries is killed at each of its steps",
        "as in draw-killed";
    "power-cut-at-crash-points": power::points,
        "the same when an instance aborts at a crash point",
        "what was answered 201 is there, and nothing is sold twice";
    "power-cut-binlog": power::binlog,
        "the same with a binary log that is flushed at each COMMIT",
        "the same";
    "power-cut-mysql": power::mysql,
        "the same during batches on MySQL with its binary log",
        "the same; without a MySQL server the row is left out";
    "power-cut-redis-always": power::queue::always,
        "the power of a Redis with appendfsync always is cut while orders are queued",
        "no order that was answered 202 is lost";
    "power-cut-redis-everysec": power::queue::every_second,
        "the same with appendfsync everysec",
        "orders that were answered 202 in the two seconds before a cut may be lost; no others";
    "power-cut-planted-log": power::planted_log,
        "the same with innodb_flush_log_at_trx_commit = 2, and nothing survives that was not flushed",
        "the audit finds the lost orders";
    "power-cut-planted-binlog": power::planted_binlog,
        "the same with a binary log and sync_binlog = 0",
        "the audit finds the lost orders";
    "power-cut-planted-lie": power::planted_lie,
        "the same on a disk that answers flushes and does not carry them out",
        "the audit finds the lost orders";
    "mysql-frozen": mysql::frozen,
        "SIGSTOP of the database for 1.5 s",
        "purchases wait or are unknown; none is lost";
    "mysql-read-only": mysql::read_only,
        "SET GLOBAL read_only = 1 for a second",
        "writes are 503; it recovers by itself";
    "mysql-full-disk": disk::full,
        "a file fills the rest of the database's disk, for a few seconds",
        "writes are 503 or unknown; it recovers by itself";
    "mysql-full-disk-migrating": disk::full_during_change,
        "the database's disk fills while `seckill migrate` makes the indexes of orders; then there is room",
        "the change breaks off with a sentence and is done again; orders are right, 503 or unknown meanwhile";
    "mysql-deadlocks": mysql::deadlocks,
        "side transactions take the rows in the opposite order",
        "1213 is rolled back and tried again, a bounded number of times";
    "mysql-row-held": mysql::row_held,
        "a side transaction holds the stock rows longer than the lock wait",
        "1205 is rolled back as a whole: no order without its movement";
    "mysql-row-held-carts": held::beside_carts,
        "a side transaction holds the stock row of one item, while 30 clients reserve and cancel carts of it and another item, and join its waiting list",
        "no cart gets through, and none that waits holds the row of the other item: it is sold on";
    "mysql-no-connections": mysql::no_connections,
        "max_connections is used up by others and the service's are killed",
        "503 within the pool's wait; alive all the time";
    "mysql-commits-unanswered": mysql::commits_unanswered,
        "the connection dies after COMMIT was carried out, before its answer",
        "the order is found by its key; none is made twice";
    "mysql-commits-lost": mysql::commits_lost,
        "the connection dies before COMMIT reaches the database",
        "the order is written again, once";
    "mysql-link-refused": network::mysql_refused,
        "connections to the database are broken and refused for a second",
        "503 or unknown; resolved by key";
    "mysql-link-black-hole": network::mysql_black_hole,
        "nothing gets through to the database or back for a minute",
        "as refused, after a wait";
    "mysql-link-slow": network::mysql_slow,
        "everything to the database takes 200 ms longer",
        "slower, and right";
    "mysql-link-dribbles": network::mysql_dribbles,
        "the database's answers come a byte a second",
        "deadlines are kept; resolved by key";
    "mysql-link-resets": network::mysql_resets,
        "one in five answers of the database is cut in the middle, with a reset",
        "unknown where it was a COMMIT; resolved by key";
    "writer-killed": mysql_engines::pair::killed,
        "kill -9 of the writer of a semi-synchronous pair under load; its replica is promoted",
        "nothing accepted is lost; the services follow the new writer";
    "writer-killed-at-commit": mysql_engines::pair::killed_at_commit,
        "kill -9 of the writer right after COMMITs whose answers are lost; its replica is promoted",
        "the new writer tells what became of them; none is made twice";
    "writer-killed-carts": mysql_engines::carts,
        "kill -9 of the writer right after COMMITs of orders of three items whose answers are lost; its replica is promoted",
        "the new writer has each accepted order with all its lines; none is made twice";
    "writer-frozen": mysql_engines::pair::frozen,
        "SIGSTOP of the writer; its replica is promoted; then the old writer wakes up, still writable",
        "the services stay with the new writer, and believe no late answer of the old one";
    "writer-demoted": mysql_engines::pair::demoted,
        "the writer is set read-only and its replica is promoted; the old writer becomes a replica",
        "503 in between; the services follow the new writer";
    "writer-killed-replica-behind": mysql_engines::behind,
        "the replica stops receiving, the writer goes on without it and is killed; the replica is promoted",
        "exactly the orders are lost that only the old writer had, and it names them";
    "writer-frozen-payments": failover::payments,
        "as writer-frozen, while a provider says that orders are paid, each message again until it is acknowledged",
        "a payment that was acknowledged is in the ledger, and its order is paid";
    "writer-demoted-keys": failover::keys,
        "as writer-demoted, while sold-out items are asked for with the keys of their orders; the old writer lives on",
        "each key is answered with its order or with 503, never with a refusal";
    "group-killed": mysql_engines::group::killed,
        "kill -9 of the primary of Group Replication under load; the group elects another one",
        "nothing accepted is lost; the services follow the new primary";
    "group-killed-at-commit": mysql_engines::group::killed_at_commit,
        "kill -9 of the primary right after COMMITs whose answers are lost",
        "the new primary tells what became of them; none is made twice";
    "group-frozen": mysql_engines::group::frozen,
        "SIGSTOP of the primary until the group has elected another one; then it wakes up",
        "it is expelled and takes no writes; nothing accepted is lost";
    "group-demoted": mysql_engines::group::demoted,
        "the group is told to make another member the primary",
        "503 in between; the services follow the new primary";
    "galera-killed": mysql_engines::galera::killed,
        "kill -9 of the first node of Galera under load",
        "nothing accepted is lost; the services go on at the second node";
    "galera-killed-at-commit": mysql_engines::galera::killed_at_commit,
        "kill -9 of the first node right after COMMITs whose answers are lost",
        "the second node tells what became of them; none is made twice";
    "galera-frozen": mysql_engines::galera::frozen,
        "SIGSTOP of the first node until the others go on without it; then it wakes up",
        "it catches up before it is used again; nothing accepted is lost";
    "galera-demoted": mysql_engines::galera::demoted,
        "the first node is set read-only",
        "503 in between; the services go on at the second node";
    "vitess-gate-killed": vitess::gate_killed,
        "kill -9 of vtgate under load; started again",
        "nothing accepted is lost; each unknown outcome is resolved by key";
    "vitess-tablet-killed": vitess::tablet_killed,
        "kill -9 of the primary's tablet under load, while its server runs; started again",
        "nothing accepted is lost; each unknown outcome is resolved by key";
    "vitess-killed": vitess::killed,
        "kill -9 of the primary's tablet and server under load; EmergencyReparentShard",
        "the new primary has each accepted order; none is made twice";
    "vitess-demoted": vitess::demoted,
        "PlannedReparentShard under load",
        "503 in between; the new primary has each accepted order";
    "redis-link-refused": network::redis_refused,
        "connections to Redis are broken and refused for a second",
        "strategies on Redis: 503";
    "redis-link-black-hole": network::redis_black_hole,
        "nothing gets through to Redis or back for a minute",
        "as refused, after a wait";
    "redis-link-slow": network::redis_slow,
        "everything to Redis takes 200 ms longer",
        "slower, and right";
    "redis-link-dribbles": network::redis_dribbles,
        "Redis' answers come a byte a second",
        "deadlines are kept; resolved by key";
    "redis-link-resets": network::redis_resets,
        "one in five answers of Redis is cut in the middle, with a reset",
        "a take whose answer is lost is not taken twice";
    "crash-points": crash::points,
        "abort() at each step between a first write and its answer; started again",
        "nothing accepted is lost, nothing is sold twice";
    "lease-outlived": locks::outlived,
        "SIGSTOP of the holders of all eight fenced locks right before their writes, longer than their leases",
        "every stale token is refused; without an arbiter it oversells";
    "etcd-quorum-lost": locks::etcd_quorum,
        "kill -9 of two of three members of etcd; started again",
        "lock-etcd: 503; the others go on";
    "zookeeper-quorum-lost": locks::zookeeper_quorum,
        "kill -9 of two of three members of ZooKeeper; started again",
        "the locks on ZooKeeper: 503; the others go on";
    "zookeeper-session-lost": locks::session,
        "one instance hears nothing of ZooKeeper for longer than its session lives",
        "the other instance gets the locks; the first one is fenced or gives up";
    "duplicate-storm": buyers::duplicates,
        "one key 50 times at once, and one buyer with 50 keys, on two instances",
        "one order each";
    "slow-clients": buyers::slow,
        "200 clients that send their head a byte at a time",
        "they are closed at their deadline; the others buy";
    "leaving-clients": buyers::leaving,
        "clients that close their connection right after the request",
        "the order is whole or not there; the key tells";
    "order-races": orders::races,
        "payment, cancellation and expiry of the same orders at once, on two instances",
        "one winner each; each unit is given back once";
    "long-line-paused": waiting::paused,
        "an item with 50,000 buyers in its waiting list (`--waiters N`) is paused, while 100 buyers cancel and 100 want to join",
        "the line ends in short transactions; other items sell meanwhile";
    "draw-killed": draws::killed,
        "the instance that draws is killed at the close, between list and places, while units are offered, and at random moments",
        "the next one goes on: each entry has its one published place, friends are offered units together, no unit is idle";
    "soak-shrinks": soak::finds_the_planted_mistake,
        "the ledger loses an acknowledged order, planted beside another fault in a random plan",
        "the soak finds it, and makes the plan smaller until that fault alone is left";
    "planted-in-records": planted::in_records,
        "no fault: records and outcomes that the checker must refuse, and such that it must not",
        "each is judged right";
    "planted-in-rows": planted::in_rows,
        "rows of four items are changed while they are sold: stock, quantity, a movement, an order",
        "both audits find each of them";
    "clock-jumps": clock::jumps,
        "the injected clock of one instance jumps two days ahead, back, an hour back and ahead",
        "the sale's window follows it; leases do not; nothing is oversold";
};
