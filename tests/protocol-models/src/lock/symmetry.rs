//! Symmetry: three processes that are alike behave alike in any order, so one order stands for all six.

use super::steps::owner;
use super::{Hold, Number, PROCESSES, Process, State, TOKENS, Waiter};

/// The number of a process before, by its number afterwards.
type Order = [u8; PROCESSES as usize];

impl State {
    /// The state in which the processes are in the order of what they do. Two processes that do the same
    /// keep their order, so a few states have two representatives: that costs time, and hides nothing.
    pub(super) fn representative(self) -> Self {
        let keys = self.processes.each_ref().map(|one| {
            let holds = |hold: Option<Hold>| hold.is_some_and(|hold| hold.token == one.token);
            let place =
                |queue: &[Waiter]| queue.iter().position(|waiter| waiter.token == one.token);
            (
                (one.phase, one.attempt, one.hears, one.token == 0),
                (holds(self.primary.hold), place(&self.primary.queue)),
                (holds(self.replica.hold), place(&self.replica.queue)),
                self.grants_told.iter().filter(|(waiter, _)| waiter.token == one.token).count(),
            )
        });
        if keys.is_sorted() {
            return self;
        }
        let mut order: Order = std::array::from_fn(|number| u8::try_from(number).unwrap_or(0));
        order.sort_by_key(|number| keys[usize::from(*number)]);
        self.reordered(&order)
    }

    /// Gives the processes other numbers.
    fn reordered(&self, order: &Order) -> Self {
        let mut now = self.clone();
        // A token has the number of its process, and the client's; 0 before the first.
        let renumber = |token: &mut Number| {
            let new = (0..PROCESSES).zip(order).find(|(_, old)| **old == owner(*token));
            if let Some((new, _)) = new.filter(|_| *token > 0) {
                *token = Number::from(new) * TOKENS + *token % TOKENS;
            }
        };
        for (process, old) in now.processes.iter_mut().zip(order) {
            *process = Process::clone(&self.processes[usize::from(*old)]);
            renumber(&mut process.token);
        }
        for server in [&mut now.primary, &mut now.replica] {
            server.hold.iter_mut().for_each(|hold| renumber(&mut hold.token));
            server.queue.iter_mut().for_each(|waiter| renumber(&mut waiter.token));
        }
        for (waiter, hold) in &mut now.grants_told {
            renumber(&mut waiter.token);
            renumber(&mut hold.token);
        }
        now.grants_told.sort_unstable();
        now
    }
}
