//! The possible results of a purchase.
//!
//! The six classes matter more than the details: `sold` (the order is durable); `replayed` (an earlier
//! request with the same key has made this order); `queued` (the order becomes durable soon); `refused`
//! (nothing changed, and trying again with the same request will not help); `unavailable` (nothing
//! changed, try again); `unknown` (it may have changed: ask again with the same key).

use std::time::Instant;

use time::OffsetDateTime;

use super::item::word_enum;
use super::{ItemId, Order, OrderId};

/// The result of one purchase, as it is answered to its buyer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The order is durable.
    Sold(Order),
    /// An earlier request with the same key already became this order.
    Replayed(Order),
    /// A gate accepted it and will make it durable; the order is `queued`.
    Queued(Order),
    /// Nothing changed.
    Refused(Refusal),
    /// Nothing changed; the same request may succeed later.
    Unavailable(Unavailable),
    /// The purchase may or may not have happened; a retry with the same key answers which.
    Unknown(Doubt),
}

/// The reason why it is not known whether a purchase happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// A server has not answered a write.
    Unanswered(Dependency),
    /// The deadline passed while the purchase runs. No server failed: the purchase may wait for a
    /// row of its item.
    StillRunning,
    /// An earlier try with the same key runs or is queued, here or on another instance.
    InProgress,
    /// A task of the service ended in the middle of the purchase.
    BrokenOff,
    /// The order is queued, and fewer replicas than asked for have it: a failover may lose it.
    TooFewReplicas,
}

impl Doubt {
    /// The code in problem details, logs and metrics.
    pub fn code(self) -> &'static str {
        match self {
            Self::InProgress => "request_in_progress",
            Self::Unanswered(_) | Self::StillRunning | Self::BrokenOff | Self::TooFewReplicas => {
                "outcome_unknown"
            }
        }
    }
}

impl Outcome {
    /// Whether units that a gate has taken may be in this purchase's order, so that the gate must
    /// not give them back.
    pub fn may_hold_stock(&self) -> bool {
        matches!(self, Self::Sold(_) | Self::Unknown(_))
    }

    /// The outcome of the order, when the line of `item` has this one.
    #[must_use]
    pub fn of_line(self, item: ItemId) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(refusal.of_line(item)),
            other => other,
        }
    }

    /// The label for logs and metrics: the outcome, or the code of the refusal.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Sold(_) => "sold",
            Self::Replayed(_) => "replayed",
            Self::Queued(_) => "queued",
            Self::Refused(refusal) => refusal.code(),
            Self::Unavailable(why) => why.code(),
            Self::Unknown(doubt) => doubt.code(),
        }
    }
}

/// Declares [`Refusal`]: each with its code in problem details, logs and metrics.
macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident $({ $($field:tt)* })? = $code:literal,)+) => {
        /// The reason why a purchase was refused for good; nothing changed.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Refusal {
            $($(#[$doc])* $name $({ $($field)* })?,)+
            /// A line of an order with several lines was refused, and so the whole order.
            OfLine {
                /// The item of the line.
                item: ItemId,
                refusal: Box<Self>,
            },
        }

        impl Refusal {
            /// All codes.
            pub const CODES: &'static [&'static str] = &[$($code),+];

            /// The code in problem details, logs and metrics.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => $code,)+
                    Self::OfLine { refusal, .. } => refusal.code(),
                }
            }
        }
    };
}

refusals! {
    /// Fewer units are left than were asked for.
    SoldOut {
        /// When the ledger was asked how many units are left: its answer may be as old as that,
        /// however late it comes. `None`: a gate said so, just now.
        asked_at: Option<Instant>,
    } = "sold_out",
    /// The buyer already has, or would then have, more than the limit.
    LimitReached {
        /// Units per buyer.
        limit: u32,
    } = "limit_reached",
    /// The buyer already has, or would then have, more units than the items of a group allow together.
    GroupLimitReached {
        /// Units per buyer.
        limit: u32,
    } = "group_limit_reached",
    /// As many holds of the buyer as may have expired unpaid.
    UnpaidLimitReached {
        /// Holds per buyer.
        limit: u32,
    } = "unpaid_limit_reached",
    /// More units in one order than a buyer may ever have.
    QuantityOverLimit {
        /// Units per buyer.
        limit: u32,
    } = "quantity_over_limit",
    /// The sale has not begun.
    SaleNotStarted {
        /// The start of the sale.
        starts_at: OffsetDateTime,
    } = "sale_not_started",
    /// The sale is over.
    SaleEnded = "sale_ended",
    /// The operator has paused it.
    SalePaused = "sale_paused",
    /// The item has a waiting room, and the purchase came without a ticket.
    TicketRequired = "ticket_required",
    /// The ticket is not ours, or another buyer's, or another item's.
    TicketInvalid = "ticket_invalid",
    /// The ticket is a queue token whose admission time has not come.
    TicketNotYetValid = "ticket_not_yet_valid",
    /// The ticket has expired.
    TicketExpired = "ticket_expired",
    /// The buyer has no open offer of a unit.
    NoOffer = "no_offer",
    /// The units are drawn, and the places are not known yet.
    DrawOnly = "draw_only",
    /// There is no such item.
    ItemNotFound = "item_not_found",
    /// There is no such strategy.
    StrategyNotFound = "strategy_not_found",
    /// The strategy takes no options.
    OptionsNotTaken = "invalid_query_parameter",
    /// The request chooses how it waits or what it locks, and the item belongs to the shop.
    OptionsForLabItems = "invalid_options",
    /// The request names a strategy that can oversell, and the item belongs to the shop.
    UnsafeStrategy = "unsafe_strategy",
    /// The price of all units would be above the largest amount.
    AmountOverflow = "amount_overflow",
    /// Another purchase of the same buyer is still running, and the strategy allows one.
    RequestInProgress = "request_in_progress",
    /// The item has another currency than the items of the lines before it.
    OtherCurrency = "other_currency",
    /// The item's rows are in another part of the ledger than those of the first line, and an order is written in one part.
    ItemsApart = "items_apart",
    /// The key belongs to an order for another quantity, or with other lines.
    KeyReused {
        /// The id of that order.
        order_id: OrderId,
    } = "idempotency_key_reused",
}

impl Refusal {
    /// The refusal of the line of `item`.
    #[must_use]
    pub fn of_line(self, item: ItemId) -> Self {
        match self {
            // The whole order is refused.
            Self::KeyReused { .. } | Self::OfLine { .. } => self,
            refusal => Self::OfLine { item, refusal: Box::new(refusal) },
        }
    }

    /// What it says of an item of the order; `None` when it comes from the line of another item.
    pub fn of_item(&self, item: ItemId) -> Option<&Self> {
        match self {
            Self::OfLine { item: line, refusal } => (*line == item).then_some(&**refusal),
            refusal => Some(refusal),
        }
    }

    /// Whether the ledger decided, rather than a check in front of it.
    pub fn is_by_the_ledger(&self) -> bool {
        if let Self::OfLine { refusal, .. } = self {
            return refusal.is_by_the_ledger();
        }
        matches!(
            self,
            Self::SoldOut { .. }
                | Self::LimitReached { .. }
                | Self::GroupLimitReached { .. }
                | Self::UnpaidLimitReached { .. }
                | Self::NoOffer
                | Self::KeyReused { .. }
        )
    }
}

/// The reason why a purchase was not served this time; nothing changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// A lock or the retries ran out of time.
    Contended,
    /// Too many purchases are already running.
    Overloaded,
    /// The strategy's servers are not configured.
    StrategyUnavailable,
    /// A server that the strategy needs does not answer.
    Dependency(Dependency),
    /// A server that the strategy needs answers with an error, perhaps for this purchase alone.
    Faulty(Dependency),
    /// The ledger answers, but its server refuses writes, or cannot write, as on a full disk.
    ReadOnly,
}

impl Unavailable {
    /// The code in problem details, logs and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Contended => "contended",
            Self::Overloaded => "overloaded",
            Self::StrategyUnavailable => "strategy_unavailable",
            Self::Dependency(_) | Self::Faulty(_) | Self::ReadOnly => "dependency_unavailable",
        }
    }
}

/// The reason why a read or a write of the ledger failed, for everything except purchases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The ledger does not answer; nothing changed.
    #[error("the ledger does not answer")]
    Unavailable,
    /// Too many transactions of the item are running; nothing changed.
    #[error("too many transactions of the item are running")]
    Contended,
    /// The ledger answers, but all connections to it are in use; nothing changed.
    #[error("all connections to the ledger are in use")]
    Overloaded,
    /// The ledger answers, but refuses writes or cannot write; nothing changed.
    #[error("the ledger is read-only")]
    ReadOnly,
    /// A value does not fit its column, and nobody has looked before; nothing changed.
    #[error("a value does not fit its column")]
    DoesNotFit,
    /// The ledger did not answer a write: the change may have been made.
    #[error("the ledger did not answer; the change may have been made")]
    OutcomeUnknown,
}

word_enum! {
    /// A server that the service depends on.
    Dependency {
        /// The ledger.
        Mysql = "mysql",
        /// The gates' counters and locks.
        Redis = "redis",
        /// The independent Redis servers of one lock.
        Redlock = "redlock",
        /// The locks on etcd.
        Etcd = "etcd",
        /// The locks on ZooKeeper.
        Zookeeper = "zookeeper",
    }
}
