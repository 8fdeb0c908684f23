use super::*;
use shop_domain::{ArbiterMode, Cents, Currency, ItemKind, SaleWindow};
use time::macros::datetime;

const OPENS: OffsetDateTime = datetime!(2026-11-11 11:11 UTC);

fn room_of(per_second: u32, proof_bits_max: u8) -> WaitingRoom {
    let rules = Rules { per_second, ticket_seconds: 60, proof_bits_max, line_max: 1_000 };
    WaitingRoom::new(rules, &["one secret"])
}

fn item() -> Item {
    Item {
        home: shop_domain::Home::ONLY,
        id: ItemId::new(1).expect("positive"),
        name: String::new(),
        description: String::new(),
        image_url: None,
        price: Cents::new(1).expect("a price"),
        currency: Currency::USD,
        window: SaleWindow::new(OPENS, OPENS + time::Duration::HOUR).expect("a window"),
        per_buyer_limit: 1,
        hold_seconds: 60,
        strategy: String::new(),
        kind: ItemKind::Shop,
        arbiter: ArbiterMode::On,
        paused: false,
        waiting_room: true,
        offer_seconds: 0,
        variant: None,
        draw: None,
        limit_group: None,
        has_queue: false,
        revision: 1,
    }
}

fn buyer(id: i64) -> UserId {
    UserId::new(id).expect("positive")
}

fn waiting(status: QueueStatus) -> (String, u64, u8) {
    match status {
        QueueStatus::Waiting { token, position, proof_bits, .. } => (token, position, proof_bits),
        other => panic!("{other:?}"),
    }
}

fn ticket(status: QueueStatus) -> String {
    match status {
        QueueStatus::Admitted { ticket, .. } => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn buyers_are_admitted_in_order_and_not_before_the_sale_opens() {
    let (room, item) = (room_of(10, 0), item());
    let early = OPENS - time::Duration::MINUTE;
    let poll =
        |id, token: Option<&str>, now| room.join_or_poll(&item, buyer(id), (token, None), now);
    let queued: Vec<_> =
        (1..=5).map(|id| waiting(poll(id, None, early).expect("in the queue"))).collect();
    let positions: Vec<_> = queued.iter().map(|(_, position, _)| *position).collect();
    assert_eq!(positions, [0, 1, 2, 3, 4]);
    // Asking again keeps the position, with or without the token.
    assert_eq!(waiting(poll(3, None, early).expect("in the queue")).1, 2);
    assert_eq!(waiting(poll(3, Some(&queued[2].0), early).expect("in the queue")).1, 2);
    // The first one enters when the sale opens, the others a tenth of a second apart.
    ticket(poll(1, Some(&queued[0].0), OPENS).expect("a ticket"));
    assert_eq!(waiting(poll(3, Some(&queued[2].0), OPENS).expect("in the queue")).1, 2);
    ticket(poll(3, None, OPENS + time::Duration::milliseconds(200)).expect("a ticket"));
    // Another instance accepts a token by its signature alone.
    let elsewhere = room_of(10, 0);
    let shown = (Some(&*queued[4].0), None);
    assert_eq!(
        waiting(elsewhere.join_or_poll(&item, buyer(5), shown, OPENS).expect("in the queue")).1,
        4
    );
}

#[test]
fn only_ones_own_ticket_for_this_very_item_opens_and_only_in_its_time() {
    let (room, item) = (room_of(1, 0), item());
    let queued = waiting(
        room.join_or_poll(&item, buyer(1), (None, None), OPENS - time::Duration::MINUTE)
            .expect("in the queue"),
    );
    let good = ticket(room.join_or_poll(&item, buyer(1), (None, None), OPENS).expect("a ticket"));
    let admit = |ticket: Option<&str>, id, item, now| room.admit(ticket, item, buyer(id), now);
    assert_eq!(admit(Some(&good), 1, item.id, OPENS), Ok(()));
    assert_eq!(admit(None, 1, item.id, OPENS), Err(Refusal::TicketRequired));
    assert_eq!(admit(Some(&good), 2, item.id, OPENS), Err(Refusal::TicketInvalid));
    let other = ItemId::new(2).expect("positive");
    assert_eq!(admit(Some(&good), 1, other, OPENS), Err(Refusal::TicketInvalid));
    assert_eq!(admit(Some(&queued.0), 1, item.id, OPENS), Err(Refusal::TicketNotYetValid));
    let before = OPENS - time::Duration::SECOND;
    assert_eq!(admit(Some(&good), 1, item.id, before), Err(Refusal::TicketNotYetValid));
    let late = OPENS + time::Duration::MINUTE;
    assert_eq!(admit(Some(&good), 1, item.id, late), Err(Refusal::TicketExpired));
    for at in 0..good.len() {
        let mut bytes = good.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(bytes).expect("ascii");
        assert_eq!(admit(Some(&forged), 1, item.id, OPENS), Err(Refusal::TicketInvalid), "at {at}");
    }
}

#[test]
fn the_longer_the_line_the_more_work() {
    let (room, item) = (room_of(1_000, 6), item());
    let early = OPENS - time::Duration::MINUTE;
    let poll = |id, given: (Option<&str>, Option<&str>), now| {
        room.join_or_poll(&item, buyer(id), given, now)
    };
    let bits: Vec<_> = (1..=100)
        .map(|id| waiting(poll(id, (None, None), early).expect("in the queue")).2)
        .collect();
    assert_eq!((bits[0], bits[1], bits[3], bits[31], bits[99]), (0, 1, 2, 5, 6));
    let late = OPENS + time::Duration::SECOND;
    let held = waiting(poll(100, (None, None), early).expect("in the queue")).0;
    let numbers = || (0..).map(|number: u32| number.to_string());
    let found = numbers().find(|number| is_proof(&held, Some(number), 6)).expect("one in 64");
    let wrong = numbers().find(|number| !is_proof(&held, Some(number), 6)).expect("the others");
    let no_proof = Err(Denied::NoProof { bits: 6 });
    assert_eq!(poll(100, (Some(&held), None), late), no_proof);
    assert_eq!(poll(100, (Some(&held), Some(&wrong)), late), no_proof);
    ticket(poll(100, (Some(&held), Some(&found)), late).expect("a ticket"));
}

#[test]
fn the_line_has_an_end_and_moves_on() {
    let (room, item) = (room_of(10, 0), item());
    let poll = |id, now| room.join_or_poll(&item, buyer(id), (None, None), now);
    for id in 1..=1_000 {
        poll(id, OPENS).expect("in the queue");
    }
    assert_eq!(poll(1_001, OPENS), Err(Denied::Unavailable(Unavailable::Overloaded)));
    waiting(poll(1_001, OPENS + time::Duration::SECOND).expect("ten were admitted"));
    // A line that has run out starts at once for the next one.
    ticket(poll(1_002, OPENS + time::Duration::minutes(30)).expect("a ticket"));
}

#[test]
fn a_queue_token_is_valid_for_its_buyer_and_its_item_alone() {
    let (room, item) = (room_of(1, 0), item());
    let other = Item { id: ItemId::new(2).expect("positive"), ..item.clone() };
    let early = OPENS - time::Duration::MINUTE;
    let held =
        waiting(room.join_or_poll(&item, buyer(1), (None, None), early).expect("in the queue")).0;
    let refused = Err(Denied::Refused(Refusal::TicketInvalid));
    assert_eq!(
        room.join_or_poll(&other, buyer(1), (Some(&held), None), OPENS),
        refused,
        "another item"
    );
    assert_eq!(
        room.join_or_poll(&item, buyer(2), (Some(&held), None), OPENS),
        refused,
        "another buyer"
    );
    let admitted =
        ticket(room.join_or_poll(&item, buyer(1), (Some(&held), None), OPENS).expect("a ticket"));
    assert_eq!(
        room.join_or_poll(&item, buyer(1), (Some(&admitted), None), OPENS),
        refused,
        "a ticket"
    );
}
