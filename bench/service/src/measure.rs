//! What is measured, in the words of the report.

use std::fmt;

use serde::{Serialize, Serializer};

use loadtest::document::grouped;

/// The clients of P1, P2c, P5, P10 and of baseline H.
pub const CLIENTS: u32 = 256;
/// The clients of P4, and those that they are compared with.
pub const CLIENTS_MANY: u32 = 4_096;
pub const CLIENTS_FEW: u32 = 64;
/// The most connections of any load, where the system allows them.
pub const CLIENTS_MAX: u32 = 10_000;
/// The numbers of clients at which strategies are measured, P14 among them.
pub const CLIENTS_OF_STRATEGIES: [u32; 2] = [64, CLIENTS];
/// The numbers of items of P10.
pub const ITEMS: [u32; 4] = [10, 100, 1_000, 10_000];
/// The instances of P11.
pub const INSTANCES: [u32; 2] = [1, 4];
/// The strategy of all figures that name no other.
pub const BATCH: &str = "mysql-batch";
/// The strategy of P12 and P14: a transaction for each order.
pub const DIRECT: &str = "mysql-atomic";
/// The strategy of P5.
pub const LOCK: &str = "lock-redis";

/// One figure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Baseline H, requests per second.
    BareHttp,
    /// H at the rate of `ComfortP99`: p99.
    BareP99,
    /// Baseline T, orders per second.
    PerOrder,
    /// Baseline of P12: p50 of the transaction by hand, in one packet.
    ByHand,
    /// Refusals per second once sold out.
    Refusals,
    /// Orders per second on one item.
    Orders { strategy: String, clients: u32 },
    /// Accepted per second when five times the peak is offered.
    Overload,
    /// p99 of orders at 70 % of the peak.
    ComfortP99,
    /// p50 of one client alone.
    Lone { strategy: &'static str },
    /// Orders per second, spread evenly over items.
    Items { items: u32 },
    /// Orders per second on one item, behind the proxy.
    Instances { instances: u32 },
    /// p99 of a hundred buyers of a hundred items.
    Hundred { beside_crowd: bool },
    /// Orders per second of the crowd beside them.
    Crowd,
    /// p99 of a hundred clients of H.
    BareHundred { beside_crowd: bool },
    /// Ten thousand buyers connect at once to a service that has just started.
    Opening(Opening),
    /// A figure of the opening of H.
    BareOpening(Opening),
    /// Orders per second on one item, on a ledger that is filled with older orders or empty.
    Older { filled: bool },
    /// Orders per second on one item, with a database of its own that is run in this way.
    Shape { shape: Shape, strategy: &'static str },
}

/// A figure of the opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Opening {
    /// Per second from the first connection on, for the time of one load.
    First,
    /// Per second in the time of one load after that.
    Second,
    /// Per second with 1,024 connections that were made before.
    Peak,
    /// The purchases that were not accepted.
    NotAccepted,
    /// The most memory of the service meanwhile.
    Memory,
}

/// A way to run the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    pub is_mysql: bool,
    pub is_tcp: bool,
    /// Whether it writes a binary log.
    pub has_log: bool,
    /// Shards behind a vtgate of Vitess; 0: the server itself.
    pub shards: usize,
    /// Items that are sold at once.
    pub items: usize,
}

/// What a figure belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Build {
    /// No build of the service.
    Baseline,
    /// The build that is measured.
    New,
    /// The build of `--beside`.
    Old,
}

impl Build {
    /// The word of the report.
    pub fn word(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::New => "new",
            Self::Old => "old",
        }
    }
}

impl Opening {
    /// The words of the report.
    fn words(self) -> &'static str {
        match self {
            Self::First => "10,000 buyers connect and buy",
            Self::Second => "these connections afterwards",
            Self::Peak => "1,024 connections afterwards",
            Self::NotAccepted => "purchases that were not accepted",
            Self::Memory => "the most memory of the service",
        }
    }
}

impl Measure {
    /// Orders per second on one item.
    pub fn orders(strategy: &str, clients: u32) -> Self {
        Self::Orders { strategy: strategy.to_owned(), clients }
    }

    /// P2c's figure, the peak of P7 and P8.
    pub fn peak() -> Self {
        Self::orders(BATCH, CLIENTS)
    }

    /// The unit of its value.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::BareHttp => "requests/s",
            Self::Refusals => "refusals/s",
            Self::BareP99
            | Self::ByHand
            | Self::ComfortP99
            | Self::Lone { .. }
            | Self::BareHundred { .. }
            | Self::Hundred { .. } => "us",
            Self::Opening(Opening::NotAccepted) => "orders",
            Self::Opening(Opening::Memory) => "MiB",
            Self::BareOpening(_) => "requests/s",
            _ => "orders/s",
        }
    }

    /// Whether H is measured just before and just after it, since it is compared with H.
    pub fn is_beside_bare(&self) -> bool {
        *self == Self::Refusals
    }

    /// Whether it is of no build.
    pub fn is_baseline(&self) -> bool {
        matches!(self, Self::BareHttp | Self::PerOrder | Self::ByHand)
            || matches!(self, Self::BareHundred { .. } | Self::BareOpening(_))
    }
}

/// The name in the report.
impl fmt::Display for Measure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |count: &u32| grouped(u64::from(*count));
        match self {
            Self::BareHttp => write!(formatter, "H: bare axum handler, {CLIENTS} clients"),
            Self::BareP99 => formatter.write_str("H at the rate of the line below, p99 from plan"),
            Self::PerOrder => formatter.write_str("T: one transaction an order, best of 1 to 64"),
            Self::ByHand => formatter.write_str("the transaction by hand in one packet, p50"),
            Self::Refusals => write!(formatter, "refusals once sold out, {CLIENTS} clients"),
            Self::Orders { strategy, clients } => {
                write!(formatter, "{strategy}, {} clients, one item", number(clients))
            }
            Self::Overload => write!(formatter, "{BATCH}, 5 x its peak offered"),
            Self::ComfortP99 => write!(formatter, "{BATCH} at 70 % of its peak, p99 from plan"),
            Self::Lone { strategy } => write!(formatter, "{strategy}, one client, p50"),
            Self::Items { items } => {
                write!(formatter, "{BATCH}, {CLIENTS} clients, {} items", number(items))
            }
            Self::Instances { instances } => {
                write!(formatter, "{BATCH}, {CLIENTS} clients, HAProxy before {instances}")
            }
            Self::Hundred { beside_crowd: false } => {
                formatter.write_str("100 items, a buyer each, p99")
            }
            Self::Hundred { beside_crowd: true } => {
                formatter.write_str("the same beside 4,096 buyers of another item, p99")
            }
            Self::BareHundred { beside_crowd: false } => formatter.write_str("H, 100 clients, p99"),
            Self::BareHundred { beside_crowd: true } => {
                formatter.write_str("H, the same beside 4,096 other clients, p99")
            }
            Self::Opening(part) => write!(formatter, "opening: {}", part.words()),
            Self::BareOpening(part) => write!(formatter, "opening of H: {}", part.words()),
            Self::Crowd => formatter.write_str("those 4,096 meanwhile"),
            Self::Older { filled: false } => {
                write!(formatter, "{BATCH}, {CLIENTS} clients, an empty ledger")
            }
            Self::Older { filled: true } => {
                write!(formatter, "{BATCH}, {CLIENTS} clients, a ledger with older orders")
            }
            Self::Shape { shape, strategy } => {
                write!(formatter, "{strategy}, {CLIENTS} clients, {shape}")
            }
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = if self.is_mysql { "MySQL" } else { "MariaDB" };
        let way = if self.is_tcp { "TCP" } else { "a socket" };
        let log = if self.has_log { ", with a binary log" } else { "" };
        match self.shards {
            0 => write!(formatter, "{server} by {way}{log}")?,
            1 => formatter.write_str("vtgate, one shard")?,
            shards => write!(formatter, "vtgate, {shards} shards")?,
        }
        if self.items > 1 { write!(formatter, ", {} items", self.items) } else { Ok(()) }
    }
}

impl Serialize for Measure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
