//! The rows of the matrix, in the order of the page.

use dev_servers::Replication;
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
    /// One trial with a seed.
    pub run: for<'a> fn(&'a mut Testbed, u64) -> LocalBoxFuture<'a, TrialResult>,
}

/// Makes rows: a name, the function of a trial, and what it takes beside testbed and seed. Above each stands what is done
/// and what must be seen.
macro_rules! rows {
    ($($name:literal: $run:path $([$($argument:expr),*])?;)*) => {
        &[$(Row {
            name: $name,
            run: |testbed, seed| Box::pin($run(testbed, seed $($(, $argument)*)?)),
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
    // kill -9 of both instances under load; started again. Nothing accepted is lost; every open key is answered after
    // the restart.
    "service-killed": service::killed;
    // kill -9 of both instances and the database in the middle of batches; started again. Nothing accepted is lost; a
    // batch is there as a whole or not at all.
    "batch-killed": batch::killed;
    // kill -9 of both instances and the database in the middle of batches with orders of three items; started again.
    // Nothing accepted is lost; an order is there with all its lines or not at all.
    "carts-killed": batch::killed_with_carts;
    // An instance aborts between the statements of a batch with orders of three items, before and after COMMIT; started
    // again. Nothing accepted is lost; an order is there with all its lines or not at all.
    "carts-at-crash-points": crash::points_of_carts;
    // kill -9 of both instances and the database in the middle of batches of many items; started again. Nothing
    // accepted is lost; a batch is there as a whole or not at all.
    "batch-of-items-killed": batch::killed_across_items;
    // SIGTERM to one instance under load; started again. Exit 0 within the drain; the other instance goes on.
    "service-stopped": service::stopped;
    // SIGSTOP of one instance for 1.5 s under load. The other instance goes on; the frozen one finishes what it had.
    "service-frozen": service::frozen;
    // One instance may open 64 files and gets 200 connections. Accepting pauses; it does not crash and sells again.
    "service-few-files": service::few_files;
    // kill -9 of one instance and then the other at random moments while redis-stream queues orders; 50 times in a
    // trial of two seconds or more. Every order that was answered 202 is made exactly once; another consumer takes over
    // what the dead one had.
    "queue-consumer-killed": service::consumer_killed;
    // SIGSTOP of Redis for 1.5 s. Strategies on Redis: 503; the others go on.
    "redis-frozen": redis::frozen[|testbed| &testbed.redis];
    // kill -9 of a Redis without persistence; started empty. Counters are loaded again from the ledger; queued orders
    // (202) may be lost.
    "redis-killed-memory": redis::killed["appendonly no", true];
    // kill -9 of a Redis with appendfsync everysec; started again. What was acknowledged is there; nothing queued is
    // lost.
    "redis-killed-everysec": redis::killed["appendfsync everysec", false];
    // kill -9 of a Redis with appendfsync always; started again. What was acknowledged is there; nothing queued is
    // lost.
    "redis-killed-always": redis::killed["appendfsync always", false];
    // A Redis without persistence dies three times while the reconciliation runs every 100 ms. No unit is invented;
    // counters equal the ledger in the end.
    "redis-emptied-reconciled": redis::reconciled;
    // An older copy of Redis' files is put back. The arbiter refuses the surplus; drift is repaired; queued orders may
    // be lost.
    "redis-older-copy": redis::older_copy;
    // The master is killed; a replica that missed writes takes over. As with an older copy.
    "redis-failover": redis::failover;
    // Maxmemory is reached: every write is refused (OOM). Strategies on Redis: 503; nothing is evicted.
    "redis-full-memory": redis::full_memory;
    // The append-only file reaches its limit (MISCONF). Strategies on Redis: 503; orders queued in the last second may
    // be lost.
    "redis-full-disk": redis::full_disk;
    // SCRIPT FLUSH again and again, and a script that keeps Redis busy. Scripts are loaded again; BUSY is 503.
    "redis-scripts": redis::scripts;
    // PEXPIRE 1 of every lock again and again: Redis' clock jumped ahead. Two hold a lock; the fence keeps the late one
    // out.
    "redis-leases-cut": redis::leases_cut;
    // kill -9 of the primary that has an item; its replica takes over; 202 waits for one replica. Every strategy sells
    // again; every client gets the lock again; no 202 is lost.
    "redis-cluster-primary-killed": redis_groups::primary_killed;
    // SIGSTOP of the primary that has an item, longer than the node time-out; it wakes up replaced. As killed; what it
    // does before it knows is not believed.
    "redis-cluster-primary-frozen": redis_groups::primary_frozen;
    // CLUSTER FAILOVER of the primary that has an item. Nothing is lost, and nothing waits for long.
    "redis-cluster-failover": redis_groups::failover;
    // The slots of three items are moved to both other nodes, with their keys, during their sale. Commands follow
    // (MOVED, ASK, TRYAGAIN); nothing is lost.
    "redis-cluster-slots-moved": redis_groups::slots_moved;
    // A node joins and gets the slots of three items during their sale. The services find it without a restart.
    "redis-cluster-node-added": redis_groups::node_added;
    // kill -9 of all replicas for 1.8 s while 202 waits for one; started again. redis-stream: 503 or unknown, and no
    // 202 is lost; the others go on.
    "redis-cluster-without-replicas": redis_groups::without_replicas;
    // kill -9 of the primary; Sentinels promote a replica; 202 waits for both replicas. As with a cluster.
    "redis-sentinel-failover": redis_groups::sentinel_failover;
    // kill -9 of the database under load; started again. What was answered 201 is there; open keys are answered later.
    "mysql-killed": mysql::killed;
    // The power of the database is cut at a random moment, at a write or at a flush, and it comes back on what was
    // flushed; ten times a second of a trial of two seconds or more. What was answered 201 is there; no payment and no
    // cancellation is taken back.
    "power-cut": power::cut[power::USUAL, power::sell_some];
    // As `power-cut` during batches. As `power-cut`; a batch is there as a whole or not at all.
    "power-cut-batches": power::cut[power::USUAL, power::sell_batches];
    // As `power-cut` during batches with orders of three items. As `power-cut`; an order is there with all its lines or
    // not at all.
    "power-cut-carts": power::cut[power::USUAL, power::sell_carts];
    // As `power-cut` while a provider says that orders are paid. No payment that was acknowledged is missing.
    "power-cut-payments": power::payments;
    // As `power-cut` when the instance that draws 6,000 entries is killed at each of its steps. As in draw-killed.
    "power-cut-draw": power::draw;
    // As `power-cut` when an instance aborts at a crash point. What was answered 201 is there, and nothing is sold
    // twice.
    "power-cut-at-crash-points": power::points;
    // As `power-cut` with a binary log that is flushed at each COMMIT. As `power-cut`.
    "power-cut-binlog": power::cut[power::BINLOG, power::sell_some];
    // As `power-cut` during batches on MySQL with its binary log. As `power-cut`; without a MySQL server the row is
    // left out.
    "power-cut-mysql": power::cut[power::MYSQL, power::sell_batches];
    // The power of a Redis with appendfsync always is cut while orders are queued. No order that was answered 202 is
    // lost.
    "power-cut-redis-always": power::queue::cut[true];
    // As the row above, with appendfsync everysec. Orders that were answered 202 in the two seconds before a cut may be
    // lost; no others.
    "power-cut-redis-everysec": power::queue::cut[false];
    // As `power-cut` with innodb_flush_log_at_trx_commit = 2, and nothing survives that was not flushed. The audit
    // finds the lost orders.
    "power-cut-planted-log": power::planted[power::LOG_UNFLUSHED];
    // As `power-cut` with a binary log and sync_binlog = 0. The audit finds the lost orders.
    "power-cut-planted-binlog": power::planted[power::BINLOG_UNFLUSHED];
    // As `power-cut` on a disk that answers flushes and does not carry them out. The audit finds the lost orders.
    "power-cut-planted-lie": power::planted[power::LIE];
    // SIGSTOP of the database for 1.5 s. Purchases wait or are unknown; none is lost.
    "mysql-frozen": redis::frozen[|testbed| &testbed.mysql];
    // SET GLOBAL read_only = 1 for a second. Writes are 503; it recovers by itself.
    "mysql-read-only": mysql::read_only;
    // A file fills the rest of the database's disk, for a few seconds. Writes are 503 or unknown; it recovers by
    // itself.
    "mysql-full-disk": disk::full;
    // The database's disk fills while `seckill migrate` makes the indexes of orders; then there is room. The change
    // breaks off with a sentence and is done again; orders are right, 503 or unknown meanwhile.
    "mysql-full-disk-migrating": disk::full_during_change;
    // Side transactions take the rows in the opposite order. 1213 is rolled back and tried again, a bounded number of
    // times.
    "mysql-deadlocks": mysql::deadlocks;
    // A side transaction holds the stock rows longer than the lock wait. 1205 is rolled back as a whole: no order
    // without its movement.
    "mysql-row-held": mysql::row_held;
    // A side transaction holds the stock row of one item, while 30 clients reserve and cancel carts of it and another
    // item, and join its waiting list. No cart gets through, and none that waits holds the row of the other item: it is
    // sold on.
    "mysql-row-held-carts": held::beside_carts;
    // max_connections is used up by others and the service's are killed. 503 within the pool's wait; alive all the
    // time.
    "mysql-no-connections": mysql::no_connections;
    // The connection dies after COMMIT was carried out, before its answer. The order is found by its key; none is made
    // twice.
    "mysql-commits-unanswered": mysql::at_commit[Link::LosesCommitAnswers];
    // The connection dies before COMMIT reaches the database. The order is written again, once.
    "mysql-commits-lost": mysql::at_commit[Link::LosesCommits];
    // Connections to the database are broken and refused for a second. 503 or unknown; resolved by key.
    "mysql-link-refused": network::to_mysql[Link::Refuses];
    // Nothing gets through to the database or back for a minute. As refused, after a wait.
    "mysql-link-black-hole": network::to_mysql[Link::BlackHole];
    // Everything to the database takes 200 ms longer. Slower, and right.
    "mysql-link-slow": network::to_mysql[Link::Late(network::LATE)];
    // The database's answers come a byte a second. Deadlines are kept; resolved by key.
    "mysql-link-dribbles": network::to_mysql[Link::Dribbles(network::BYTE)];
    // One in five answers of the database is cut in the middle, with a reset. Unknown where it was a COMMIT; resolved
    // by key.
    "mysql-link-resets": network::to_mysql[Link::Resets];
    // kill -9 of the writer of a semi-synchronous pair under load; its replica is promoted. Nothing accepted is lost;
    // the services follow the new writer.
    "writer-killed": mysql_engines::killed[Replication::SemiSync];
    // kill -9 of the writer right after COMMITs whose answers are lost; its replica is promoted. The new writer tells
    // what became of them; none is made twice.
    "writer-killed-at-commit": mysql_engines::killed_at_commit[Replication::SemiSync];
    // kill -9 of the writer right after COMMITs of orders of three items whose answers are lost; its replica is
    // promoted. The new writer has each accepted order with all its lines; none is made twice.
    "writer-killed-carts": mysql_engines::carts;
    // SIGSTOP of the writer; its replica is promoted; then the old writer wakes up, still writable. The services stay
    // with the new writer, and believe no late answer of the old one.
    "writer-frozen": mysql_engines::frozen[Replication::SemiSync];
    // The writer is set read-only and its replica is promoted; the old writer becomes a replica. 503 in between; the
    // services follow the new writer.
    "writer-demoted": mysql_engines::demoted[Replication::SemiSync];
    // The replica stops receiving, the writer goes on without it and is killed; the replica is promoted. Exactly the
    // orders are lost that only the old writer had, and it names them.
    "writer-killed-replica-behind": mysql_engines::behind;
    // As writer-frozen, while a provider says that orders are paid, each message again until it is acknowledged. A
    // payment that was acknowledged is in the ledger, and its order is paid.
    "writer-frozen-payments": failover::payments;
    // As writer-demoted, while sold-out items are asked for with the keys of their orders; the old writer lives on.
    // Each key is answered with its order or with 503, never with a refusal.
    "writer-demoted-keys": failover::keys;
    // kill -9 of the primary of Group Replication under load; the group elects another one. Nothing accepted is lost;
    // the services follow the new primary.
    "group-killed": mysql_engines::killed[Replication::Group];
    // kill -9 of the primary right after COMMITs whose answers are lost. The new primary tells what became of them;
    // none is made twice.
    "group-killed-at-commit": mysql_engines::killed_at_commit[Replication::Group];
    // SIGSTOP of the primary until the group has elected another one; then it wakes up. It is expelled and takes no
    // writes; nothing accepted is lost.
    "group-frozen": mysql_engines::frozen[Replication::Group];
    // The group is told to make another member the primary. 503 in between; the services follow the new primary.
    "group-demoted": mysql_engines::demoted[Replication::Group];
    // kill -9 of the first node of Galera under load. Nothing accepted is lost; the services go on at the second node.
    "galera-killed": mysql_engines::killed[Replication::Galera];
    // kill -9 of the first node right after COMMITs whose answers are lost. The second node tells what became of them;
    // none is made twice.
    "galera-killed-at-commit": mysql_engines::killed_at_commit[Replication::Galera];
    // SIGSTOP of the first node until the others go on without it; then it wakes up. It catches up before it is used
    // again; nothing accepted is lost.
    "galera-frozen": mysql_engines::frozen[Replication::Galera];
    // The first node is set read-only. 503 in between; the services go on at the second node.
    "galera-demoted": mysql_engines::demoted[Replication::Galera];
    // kill -9 of vtgate under load; started again. Nothing accepted is lost; each unknown outcome is resolved by key.
    "vitess-gate-killed": vitess::gate_killed;
    // kill -9 of the primary's tablet under load, while its server runs; started again. Nothing accepted is lost; each
    // unknown outcome is resolved by key.
    "vitess-tablet-killed": vitess::tablet_killed;
    // kill -9 of the primary's tablet and server under load; EmergencyReparentShard. The new primary has each accepted
    // order; none is made twice.
    "vitess-killed": vitess::killed;
    // PlannedReparentShard under load. 503 in between; the new primary has each accepted order.
    "vitess-demoted": vitess::demoted;
    // Connections to Redis are broken and refused for a second. Strategies on Redis: 503.
    "redis-link-refused": network::to_redis[Link::Refuses];
    // Nothing gets through to Redis or back for a minute. As refused, after a wait.
    "redis-link-black-hole": network::to_redis[Link::BlackHole];
    // Everything to Redis takes 200 ms longer. Slower, and right.
    "redis-link-slow": network::to_redis[Link::Late(network::LATE)];
    // Redis' answers come a byte a second. Deadlines are kept; resolved by key.
    "redis-link-dribbles": network::to_redis[Link::Dribbles(network::BYTE)];
    // One in five answers of Redis is cut in the middle, with a reset. A take whose answer is lost is not taken twice.
    "redis-link-resets": network::to_redis[Link::Resets];
    // abort() at each step between a first write and its answer; started again. Nothing accepted is lost, nothing is
    // sold twice.
    "crash-points": crash::points;
    // SIGSTOP of the holders of all eight fenced locks right before their writes, longer than their leases. Every stale
    // token is refused; without an arbiter it oversells.
    "lease-outlived": locks::outlived;
    // kill -9 of two of three members of etcd; started again. lock-etcd: 503; the others go on.
    "etcd-quorum-lost": locks::etcd_quorum;
    // kill -9 of two of three members of ZooKeeper; started again. The locks on ZooKeeper: 503; the others go on.
    "zookeeper-quorum-lost": locks::zookeeper_quorum;
    // One instance hears nothing of ZooKeeper for longer than its session lives. The other instance gets the locks; the
    // first one is fenced or gives up.
    "zookeeper-session-lost": locks::session;
    // One key 50 times at once, and one buyer with 50 keys, on two instances. One order each.
    "duplicate-storm": buyers::duplicates;
    // 200 clients that send their head a byte at a time. They are closed at their deadline; the others buy.
    "slow-clients": buyers::slow;
    // Clients that close their connection right after the request. The order is whole or not there; the key tells.
    "leaving-clients": buyers::leaving;
    // Payment, cancellation and expiry of the same orders at once, on two instances. One winner each; each unit is
    // given back once.
    "order-races": orders::races;
    // An item with 50,000 buyers in its waiting list (`--waiters N`) is paused, while 100 buyers cancel and 100 want to
    // join. The line ends in short transactions; other items sell meanwhile.
    "long-line-paused": waiting::paused;
    // The instance that draws is killed at the close, between list and places, while units are offered, and at random
    // moments. The next one goes on: each entry has its one published place, friends are offered units together, no
    // unit is idle.
    "draw-killed": draws::killed;
    // The ledger loses an acknowledged order, planted beside another fault in a random plan. The soak finds it, and
    // makes the plan smaller until that fault alone is left.
    "soak-shrinks": soak::finds_the_planted_mistake;
    // No fault: records and outcomes that the checker must refuse, and such that it must not. Each is judged right.
    "planted-in-records": planted::in_records;
    // Rows of four items are changed while they are sold: stock, quantity, a movement, an order. Both audits find each
    // of them.
    "planted-in-rows": planted::in_rows;
    // The injected clock of one instance jumps two days ahead, back, an hour back and ahead. The sale's window follows
    // it; leases do not; nothing is oversold.
    "clock-jumps": clock::jumps;
};
