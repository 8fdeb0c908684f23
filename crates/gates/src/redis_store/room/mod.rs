//! The waiting room of an item, which all instances share.
//!
//! One script does everything that a poll may change, so two instances never give one number twice,
//! and never admit more than the rate and the free places inside allow. It goes by the clock of the
//! server that has the item's keys, also for the opening, the end of the sale and the ends of tickets.
//! Buyers who came before the opening have no numbers until all get theirs by chance (`place.lua`); who
//! comes later stands behind them.
//!
//! Redis may go back to an older copy. Each number that a buyer or an instance shows was given, and so
//! were those before it: they are not given again, and queue tokens bring them back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::TryStreamExt;
use redis::RedisResult;
use redis_connection::{Call, Script};
use time::OffsetDateTime;

use super::RedisClient;
use ledger::cache::Cache;
use shop_domain::item::word_enum;
use shop_domain::{ItemId, SaleWindow, UserId};

/// Places that one call of the script gives.
const PLACES_TOGETHER_MAX: usize = 500;
/// Entries that one answer brings, about.
const ENTRIES_TOGETHER: usize = 1_000;
/// Bits of a number that count within one room; those above tell rooms apart.
const COUNT_BITS: u32 = 22;

/// Rooms that are remembered. With one more, one is forgotten: each poll tells its room's number again.
const ROOMS_MAX: usize = 1_000;

/// The ends of the names of a room's keys.
pub const PARTS: [&str; 10] =
    ["", ":early", ":waiting", ":silent", ":due", ":inside", ":proofs", ":bits", ":left", ":back"];

static POLL: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("poll.lua")));
static PLACE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("place.lua")));
static LEAVE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("leave.lua")));
static TICKET: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("ticket.lua")));

/// The waiting rooms. Clones share the connection.
#[derive(Clone)]
pub struct Room {
    redis: RedisClient,
    limits: RoomLimits,
    /// The highest number of each room, so that a room gives none of these numbers again when Redis has an older copy of
    /// it.
    highest: Cache<ItemId, Arc<AtomicI64>>,
}

/// The settings of waiting rooms, for all instances of the shop together.
#[derive(Clone, Copy, Debug)]
pub struct RoomLimits {
    /// Buyers of one item who are admitted per second.
    pub per_second: u32,
    /// Buyers of one item who may be inside at once.
    pub inside_max: u32,
    /// Buyers of one item who may wait at once.
    pub waiting_max: u64,
    /// How long a buyer may be silent without being passed by.
    pub silent: Duration,
    /// How long a ticket is valid, and how long the place of a silent buyer is kept.
    pub ticket: Duration,
    /// The most zero bits of a proof of work.
    pub proof_bits_max: u8,
}

/// A buyer's poll.
#[derive(Clone, Debug)]
pub struct RoomPoll {
    pub item: ItemId,
    pub buyer: UserId,
    /// When the sale is open. The room's clock says whether it is.
    pub window: SaleWindow,
    /// While it is paused, buyers join, and nobody is admitted.
    pub paused: bool,
    /// The shift of the clock (tests).
    pub shift: time::Duration,
    /// The number and the zero bits of the queue token that the buyer shows.
    pub shown: Option<(i64, u8)>,
    pub proof: Option<UsableProof>,
    /// How long the keys live without a change.
    pub life: Duration,
}

/// A proof of work that is right. It can be used once, in its time, for a turn that costs no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsableProof {
    pub id: String,
    /// The zero bits that were asked for.
    pub bits: u8,
    /// The end of its validity, in milliseconds since 1970.
    pub expires_ms: i64,
}

word_enum! {
    /// The answer to a poll.
    RoomStatus {
        /// The sale is over.
        Ended = "ended",
        /// On the list of the opening: the buyer came before it.
        Early = "early",
        /// On the list of the opening, while the sale has opened and the places are being drawn.
        Drawing = "drawing",
        /// Behind those whose places are being drawn.
        Behind = "behind",
        Waiting = "waiting",
        Admitted = "admitted",
        /// The room is full: no further buyer may wait.
        Full = "full",
        /// The buyer's turn has come, but the proof of work is missing, was too little, or comes too late.
        Unproved = "unproved",
        /// The buyer's turn has come, but the proof of work was used already.
        Replayed = "replayed",
    }
}

/// The standing of a buyer in the room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomStanding {
    pub status: RoomStatus,
    /// Unique in all time, and the sequence of admission; 0 while there is none.
    pub number: i64,
    /// Buyers before this one who have asked lately; before the places are known, all others.
    pub ahead: u64,
    /// Buyers who wait.
    pub people: u64,
    pub inside: u64,
    /// Tickets that ran out since the last poll of anybody.
    pub expired: u64,
    /// Buyers who were admitted in the ten seconds before.
    pub admitted_in_ten_seconds: u64,
    pub proof_bits: u8,
    /// The end of the ticket in milliseconds since 1970.
    pub ticket_ends_ms: i64,
    /// The time of the room's clock in milliseconds since 1970.
    pub now_ms: i64,
}

/// A ticket that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownTicket {
    pub item: ItemId,
    pub buyer: UserId,
    /// The end of its validity in milliseconds since 1970. A return ends each ticket that does not end later than it.
    pub ends_ms: i64,
}

/// Why a buyer leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The buyer gives the place and all tickets back.
    GivesBack,
    /// A purchase has its outcome. The ticket is good until its end.
    HasPurchased,
}

/// How a buyer left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    Inside,
    Waiting,
    /// The buyer was not there.
    Nowhere,
}

impl RoomStanding {
    /// The number as people read it: from 1 in each room.
    pub fn count(&self) -> Option<u64> {
        let count = self.number.unsigned_abs() & ((1 << COUNT_BITS) - 1);
        (self.number > 0).then_some(count)
    }
}

impl Room {
    pub fn new(redis: RedisClient, limits: RoomLimits) -> Self {
        Self { redis, limits, highest: Cache::new(ROOMS_MAX) }
    }

    pub fn limits(&self) -> &RoomLimits {
        &self.limits
    }

    /// Joins, tells the position, or admits. A repetition after an error changes nothing more.
    ///
    /// # Errors
    /// Redis'; the buyer may have joined, or been admitted.
    pub async fn poll(&self, poll: &RoomPoll) -> RedisResult<RoomStanding> {
        let limits = &self.limits;
        let (number, bits) = poll.shown.unwrap_or_default();
        let secret = format!("{:032x}", rand::random::<u128>());
        let mut call = self.call(&POLL, poll.item);
        call.arg(poll.buyer.get()).arg(unix_ms(poll.window.starts_at()));
        call.arg(shift_ms(poll.shift)).arg(1_000_000 / limits.per_second.max(1));
        call.arg(limits.inside_max).arg(limits.waiting_max);
        call.arg(ms(limits.silent)).arg(ms(limits.ticket)).arg(number).arg(secret);
        call.arg(poll.proof.as_ref().map_or("", |proof| &proof.id)).arg(bits);
        call.arg(limits.proof_bits_max);
        call.arg(poll.proof.as_ref().map_or(0, |proof| proof.expires_ms)).arg(ms(poll.life));
        call.arg(poll.proof.as_ref().map_or(0, |proof| proof.bits));
        call.arg(unix_ms(poll.window.ends_at())).arg(u8::from(poll.paused));
        let known = self.highest.get_or_insert_with(poll.item, Arc::default);
        call.arg(known.load(Ordering::Relaxed));
        type Answer = (String, i64, u64, u64, u64, u64, u64, u8, i64, i64, i64);
        let answer: Answer = call.invoke_async(&mut self.redis.shared()).await?;
        let (status, number, ahead, people, inside, expired, flow, proof_bits, end, now, highest) =
            answer;
        known.fetch_max(highest, Ordering::Relaxed);
        Ok(RoomStanding {
            status: RoomStatus::parse(&status).unwrap_or(RoomStatus::Waiting),
            number,
            ahead,
            people,
            inside,
            expired,
            admitted_in_ten_seconds: flow,
            proof_bits,
            ticket_ends_ms: end,
            now_ms: now,
        })
    }

    /// Whether a ticket that was signed here is still good: it is not over, and was not given back.
    ///
    /// # Errors
    /// Redis'.
    pub async fn takes(&self, ticket: ShownTicket, shift: time::Duration) -> RedisResult<bool> {
        let mut call = self.call(&TICKET, ticket.item);
        call.arg(ticket.buyer.get()).arg(ticket.ends_ms).arg(shift_ms(shift));
        call.arg(ms(self.limits.ticket)).invoke_async(&mut self.redis.shared()).await
    }

    /// Takes a buyer out.
    ///
    /// # Errors
    /// Redis'; the buyer may be out.
    pub async fn leave(
        &self,
        item: ItemId,
        buyer: UserId,
        leaving: Leaving,
        shift: time::Duration,
    ) -> RedisResult<Left> {
        let mut call = self.call(&LEAVE, item);
        call.arg(buyer.get()).arg(u8::from(leaving == Leaving::GivesBack)).arg(shift_ms(shift));
        call.arg(ms(self.limits.ticket));
        let left: u8 = call.invoke_async(&mut self.redis.shared()).await?;
        Ok(match left {
            2 => Left::Inside,
            1 => Left::Waiting,
            _ => Left::Nowhere,
        })
    }

    /// Lists the buyers who came before the opening, in the order of their places, also those that have left since;
    /// `None` while the list can still change, and when the room is open already, or was lost.
    ///
    /// # Errors
    /// Redis'.
    pub async fn early(&self, item: ItemId) -> RedisResult<Option<Vec<UserId>>> {
        let [room, list, ..] = self.keys(item);
        let mut connection = self.redis.shared();
        let state: Option<String> =
            redis::cmd("HGET").arg(&room).arg("state").query_async(&mut connection).await?;
        if state.as_deref() != Some("frozen") {
            return Ok(None);
        }
        let mut scan = redis::cmd("HSCAN");
        scan.arg(&list).cursor_arg(0).arg("COUNT").arg(ENTRIES_TOGETHER);
        let entries = scan.iter_async::<(i64, String)>(&mut connection).await?;
        let by_key = entries.map_ok(|(id, key)| (key, id));
        let early: BTreeSet<(String, i64)> = by_key.try_collect().await?;
        Ok(Some(early.into_iter().filter_map(|(_, id)| UserId::new(id)).collect()))
    }

    /// Gives these buyers the places 1, 2, 3, and so on, and opens the room. Two instances may do it
    /// at once, and any may go on where another one was killed, because all have the same list.
    ///
    /// # Errors
    /// Redis'; some places may be given, and the room is not open.
    pub async fn place(
        &self,
        item: ItemId,
        ordered: &[UserId],
        shift: time::Duration,
        life: Duration,
    ) -> RedisResult<()> {
        let mut first: usize = 1;
        loop {
            let rest = ordered.get(first - 1..).unwrap_or_default();
            let part = rest.len().min(PLACES_TOGETHER_MAX);
            let is_last = rest.len() <= PLACES_TOGETHER_MAX;
            let mut call = self.call(&PLACE, item);
            call.arg(shift_ms(shift))
                .arg(ms(self.limits.ticket))
                .arg(ms(life))
                .arg(u8::from(is_last));
            for (place, buyer) in (first..).zip(&rest[..part]) {
                call.arg(buyer.get()).arg(place);
            }
            let is_frozen: u8 = call.invoke_async(&mut self.redis.shared()).await?;
            failpoint!("room-part-placed");
            if is_last || is_frozen == 0 {
                return Ok(());
            }
            first += part;
        }
    }

    fn call<'a>(&self, script: &'a Script, item: ItemId) -> Call<'a> {
        let [first, others @ ..] = self.keys(item);
        let mut call = script.key(first);
        for key in others {
            call.key(key);
        }
        call
    }

    fn keys(&self, item: ItemId) -> [String; 10] {
        PARTS.map(|part| self.redis.item_key(item, &format!("room{part}")))
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn unix_ms(instant: OffsetDateTime) -> i64 {
    i64::try_from(instant.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

fn shift_ms(shift: time::Duration) -> i64 {
    i64::try_from(shift.whole_milliseconds()).unwrap_or(0)
}
