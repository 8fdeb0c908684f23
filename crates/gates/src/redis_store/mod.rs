//! Redis: connections, counters of the gates, and queues.
//!
//! | key | type | life | what |
//! |---|---|---|---|
//! | `{item:ID}:stock` | hash: `available`, `epoch`, `version`, `b:<buyer>` | a day after the sale, with an arbiter | units left by the gate's count, and units of each buyer; without `available` it is being loaded |
//! | `{item:ID}:takes` | hash: request -> `first` or `again`; `since` | ten minutes | which requests took units |
//! | `{item:ID}:takes-before` | as `takes` | the ten minutes after | the requests of the ten minutes before |
//! | `{item:ID:B}:stock` | hash: `available`, `epoch`, `version` | as `stock` | bucket B of a split counter |
//! | `{item:ID}:queue` | stream | its entries until the ledger has decided; when it is empty, as `stock` | orders on their way to it |
//! | `{item:ID}:queued` | hash (see `queue/push.lua`) | as `queue` | those orders by id, by buyer and by request, and their units |
//! | `{item:ID}:requests` | hash: request -> order; `since` | ten minutes | which requests were queued |
//! | `{item:ID}:requests-before` | as `requests` | the ten minutes after | the requests of the ten minutes before |
//! | `{item:ID}:room`, `{item:ID}:room:PART` | see `room/poll.lua` | a day after the sale | the waiting room: who waits, in which sequence, and who is inside |
//! | `{item:ID}:parked` | stream | until an operator resolves them; when it is empty, as `stock` | dead letters: orders that could not be decided |
//! | `…lock…` | see `leaselock::redis` | a lease | locks and their fence counters |
//! | `orders` | channel | - | changes of orders, between instances |
//!
//! Every key begins with the configured prefix; all keys of an item share a hash tag, so that a
//! script touches one slot of a cluster; each bucket has a hash tag of its own, to be on another
//! server.

pub mod buckets;
mod buyer_counts;
pub mod condition;
mod connection;
pub mod counters;
pub mod durability;
mod inspect;
mod known_items;
mod loads;
pub mod queue;
pub mod rights;
pub mod room;
pub mod takes;

pub use buckets::{Buckets, Gathered};
pub use condition::Condition;
pub use connection::{RedisClient, RedisOptions, connect_when_used};
pub use counters::{Counter, CounterAndQueue, CounterError, Counters};
pub use durability::Durability;
pub use known_items::KnownItems;
pub use queue::Queue;
pub use redis_connection::{DENIED, SharedConnection, Topology, is_denial};
pub use rights::MissingRights;
pub use room::Room;
pub use takes::Take;

/// How long scripts remember a request at least, in milliseconds; twice that at most. No request runs that long. A
/// later retry takes again, or is queued again; the ledger finds its order by the key, and the units go back.
const REMEMBERED_MS: u64 = 600_000;
