//! What is tried: a sale and a list of steps, generated.

use gates::LIST;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

/// The most steps of a plan.
const STEPS_MAX: usize = 24;

#[derive(Clone, Debug)]
pub struct Plan {
    pub sale: Sale,
    pub steps: Vec<Step>,
}

/// An item to sell. Times are minutes since it was made.
#[derive(Clone, Debug)]
pub struct Sale {
    pub stock: i64,
    pub limit: i64,
    pub starts_at: i64,
    pub ends_at: i64,
    /// The limit that the item shares with its twin, if it does.
    pub group_limit: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Buy {
    /// 1 to 3.
    pub buyer: i64,
    pub key: Option<u8>,
    pub quantity: i64,
    pub strategy: &'static str,
}

/// Orders are named by their number in the books, counted around.
#[derive(Clone, Debug)]
pub enum Step {
    Buy(Buy),
    /// All at once.
    Parallel(Vec<Buy>),
    Pay(usize),
    Cancel(usize),
    /// Somebody else pays or cancels it.
    Meddle(usize),
    Pass(i64),
    Restock(i64),
    Switch(&'static str),
    Pause(bool),
    /// A buyer joins the waiting list.
    Join(i64),
    /// A buyer leaves the line, or declines the offer.
    Leave(i64),
    /// A buyer buys the offered unit.
    Accept(i64, Option<u8>),
    /// A buyer buys units of the twin, the other item of the group.
    BuyTwin(i64, i64),
    /// A buyer cancels the last order of the twin.
    CancelTwin(i64),
    /// An instance crashes this number of microseconds after a purchase was sent to it.
    CrashDuring(Buy, u64),
}

pub fn plan() -> impl Strategy<Value = Plan> {
    let stock = prop_oneof![2 => 0_i64..12, 1 => 0_i64..3];
    let group = prop_oneof![1 => Just(None), 1 => (1_i64..6).prop_map(Some)];
    let sale = (stock, 1_i64..5, prop_oneof![4 => Just(0), 1 => Just(5)], group);
    let sale = sale.prop_map(|(stock, limit, starts_at, group_limit)| Sale {
        stock,
        limit,
        starts_at,
        ends_at: 60,
        group_limit,
    });
    (sale, vec(step(), 1..STEPS_MAX)).prop_map(|(sale, steps)| Plan { sale, steps })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => buy().prop_map(Step::Buy),
        3 => vec(buy(), 2..6).prop_map(Step::Parallel),
        4 => any::<usize>().prop_map(Step::Pay),
        4 => any::<usize>().prop_map(Step::Cancel),
        1 => any::<usize>().prop_map(Step::Meddle),
        2 => (1_i64..15).prop_map(Step::Pass),
        2 => (-4_i64..6).prop_map(Step::Restock),
        1 => strategy().prop_map(Step::Switch),
        1 => any::<bool>().prop_map(Step::Pause),
        6 => (1_i64..4).prop_map(Step::Join),
        1 => (1_i64..4).prop_map(Step::Leave),
        3 => ((1_i64..4), option::of(0_u8..6)).prop_map(|(buyer, key)| Step::Accept(buyer, key)),
        2 => (1_i64..4, 1_i64..4).prop_map(|(buyer, units)| Step::BuyTwin(buyer, units)),
        1 => (1_i64..4).prop_map(Step::CancelTwin),
        1 => (buy(), 0_u8..6, 0_u64..6_000).prop_map(|(buy, key, after_us)| {
            Step::CrashDuring(Buy { key: Some(key), ..buy }, after_us)
        }),
    ]
}

fn buy() -> impl Strategy<Value = Buy> {
    let name = prop_oneof![1 => Just("default"), 3 => strategy()];
    (1_i64..4, option::of(0_u8..6), 1_i64..5, name)
        .prop_map(|(buyer, key, quantity, strategy)| Buy { buyer, key, quantity, strategy })
}

/// The strategies that may sell, but for those whose locks outlive a crash.
fn strategy() -> impl Strategy<Value = &'static str> {
    let cards = LIST.iter().map(|entry| entry.card);
    // `redis-lua` compares the window with Redis' own clock too, which a plan cannot move.
    let left_out = |name: &str| name == "redis-lua" || name.starts_with("lock-redis-setnx");
    let names = cards.filter(|card| card.is_safe() && !left_out(card.name));
    proptest::sample::select(names.map(|card| card.name).collect::<Vec<_>>())
}
