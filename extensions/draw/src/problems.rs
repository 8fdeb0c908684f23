//! The types of problem of draws.

use crate::sql::EntryRefusal;
use web::problem::Problem;
use web::problems;

web::problem_types! {
    ENTRIES_OPEN: 409 "entries_open", "Read the proof once the state of the draw is drawn.", retry 5;
    NO_PROOF: 409 "no_proof", "This draw was made before proofs had this format.";
    DRAW_KEY_MISSING: 503 "draw_key_missing",
        "Set draw.signing_key, and draw.signing_key_previous while draws of the earlier key are open.";
    NO_DRAW: 409 "no_draw", "Buy this item; it is not drawn.";
    ENTRIES_CLOSED: 409 "entries_closed",
        "Nobody can enter or withdraw any more; GET /api/items/{id}/entry tells your place after the draw.";
    DRAW_FULL: 409 "draw_full", "The draw has reached its limit of entries.";
    PARTY_NOT_FOUND: 409 "party_not_found",
        "Nobody in the draw has this key; ask your friend for it again, or enter without a key.";
    PARTY_FULL: 409 "party_full", "This party has as many friends as the draw allows; enter without a key.";
}

/// The problem of an entry that was refused.
pub(crate) fn of_entry(refusal: EntryRefusal) -> Problem {
    match refusal {
        EntryRefusal::NoDraw => NO_DRAW.problem(),
        EntryRefusal::EntriesClosed => ENTRIES_CLOSED.problem(),
        EntryRefusal::Full => DRAW_FULL.problem(),
        EntryRefusal::PartyNotFound => PARTY_NOT_FOUND.problem(),
        EntryRefusal::PartyFull => PARTY_FULL.problem(),
        EntryRefusal::AccountDeleted => problems::INVALID_TOKEN.problem(),
        EntryRefusal::Purchase(refusal) => refusal.into(),
    }
}
