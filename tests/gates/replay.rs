//! The shortest schedule that the search finds for an unsafe strategy, on the real strategy with real
//! servers: it oversells there, too.

use std::sync::atomic::AtomicI64;

use failpoint::hold::Director;
use gates::{Breaks, LIST};
use schedules::machine::Phase;
use schedules::{Action, Machine, Program, Settings, search};

use crate::support::prelude::*;
use crate::support::rounds;

/// How often each schedule is replayed.
const ROUNDS: u32 = 3;
/// How much the clock of the second instance is ahead, for the strategy that compares clocks.
const CLOCK_AHEAD: time::Duration = time::Duration::minutes(10);
/// The next buyers: no other test may have the same, because all tests share one process.
static NEXT_BUYER: AtomicI64 = AtomicI64::new(7_000_000);
/// A replay within one second of the ledger's clock begins in its first milliseconds.
const SECOND_BEGIN_MAX_MS: u16 = 200;

/// What a schedule means for a real strategy: who gets where, in which order.
#[derive(Debug, PartialEq)]
enum Scene {
    /// The buyer stands at the pause of this name.
    Arrives(u8, String),
    /// The buyer has the answer.
    Ends(u8),
}

/// The scenes of the shortest schedule that oversells.
fn scenes(program: &Program, settings: Settings) -> Vec<Scene> {
    let machine = Machine::new(program, settings);
    let schedule = search(&machine, &[], 1_000_000).expect("it oversells");
    let mut state = machine.start();
    let mut scenes = Vec::new();
    for action in schedule {
        if let Action::Step(buyer) = action
            && let Phase::At(step) = state.phases[usize::from(buyer)]
        {
            let point = &program.steps[usize::from(step)].point;
            scenes.extend(point.iter().map(|point| Scene::Arrives(buyer, point.clone())));
        }
        state = machine.after(&state, &action);
        if let Action::Step(buyer) = action
            && state.phases[usize::from(buyer)] == Phase::Ended
        {
            scenes.push(Scene::Ends(buyer));
        }
    }
    assert_eq!(schedules::machine::orders(&state), settings.units + 1);
    // Both have an order; what a buyer does after it decides nothing.
    for buyer in 0..settings.buyers {
        if !scenes.contains(&Scene::Ends(buyer)) {
            scenes.push(Scene::Ends(buyer));
        }
    }
    scenes
}

/// One replay; returns whether both buyers bought the only unit.
async fn replay(strategy: &str, instances: &[Instance], scenes: &[Scene]) -> bool {
    if strategy == "mysql-timestamp" {
        // Its mistake needs two writes in one second.
        while OffsetDateTime::now_utc().millisecond() > SECOND_BEGIN_MAX_MS {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let item = instances[0].make_item(json!({ "stock": 1, "arbiter": "off" })).await;
    let first = NEXT_BUYER.fetch_add(2, Ordering::Relaxed);
    let director = Director::of(&[first, first + 1]);
    let mut presses: [Option<tokio::task::JoinHandle<Answer>>; 2] = [None, None];
    let mut answers = Vec::new();
    for scene in scenes {
        let (Scene::Arrives(buyer, _) | Scene::Ends(buyer)) = scene;
        let (index, id) = (usize::from(*buyer), first + i64::from(*buyer));
        if presses[index].is_none() {
            let client = instances[index % instances.len()].buyer(id);
            let strategy = strategy.to_owned();
            presses[index] =
                Some(tokio::spawn(async move { client.buy_for_good(&strategy, item).await }));
        } else {
            director.release(id);
        }
        match scene {
            Scene::Arrives(_, point) => {
                let arrival = director.arrival(id, point);
                let arrived = tokio::time::timeout(BOUND, arrival).await;
                if arrived.is_err() {
                    let has_ended =
                        presses[index].as_ref().is_some_and(|press| press.is_finished());
                    panic!("{scene:?} in vain, has an answer: {has_ended}, of {scenes:?}");
                }
            }
            Scene::Ends(_) => {
                let press = presses[index].take().expect("pressed");
                answers.push(press.await.expect("an answer"));
            }
        }
    }
    let sold = answers.iter().filter(|answer| answer.status == 201).count();
    let audit = instances[0].audit(item).await;
    let codes: Vec<String> =
        answers.iter().map(|answer| format!("{} {}", answer.status, answer.code())).collect();
    println!("{strategy}: {codes:?}, clean: {}", audit["clean"]);
    sold == 2
}

async fn check(strategy: &str) {
    let card = LIST.iter().map(|entry| entry.card).find(|card| card.name == strategy);
    let instances = match card.expect("a card").breaks_with {
        Breaks::Never => return,
        Breaks::Alone => 1,
        Breaks::WithTwoInstances => 2,
    };
    let settings = Settings { buyers: 2, instances, units: 1, arbiter: false };
    let scenes = scenes(&Program::of(strategy).expect("a program"), settings);
    // A busy machine must not make a buyer who stands at a pause "contended".
    let shop = Shop::with(patient).await;
    let mut running = Vec::new();
    for _ in 0..instances {
        running.push(shop.start().await);
    }
    if strategy == "lock-redis-getset" {
        running[1].clock.shift(CLOCK_AHEAD);
    }
    for round in 0..rounds(ROUNDS) {
        let mut is_oversold = replay(strategy, &running, &scenes).await;
        if strategy == "mysql-timestamp" && !is_oversold {
            // The second may have ended in between.
            is_oversold = replay(strategy, &running, &scenes).await;
        }
        assert!(is_oversold, "{strategy}, round {round}: {scenes:?}");
    }
}

crate::support::strategies::test_each_strategy!(check);
