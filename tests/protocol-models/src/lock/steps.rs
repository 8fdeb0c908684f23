//! The steps of the lock's model, and what its properties ask of a state.

use super::{Action, Hold, Lock, Mistake, Number, Phase, Process, State, TIME_MAX, TOKENS, Waiter};

impl State {
    /// Takes the step, if it is possible now.
    pub(super) fn step(&mut self, model: &Lock, action: Action) -> bool {
        let before = self.primary.clone();
        let is_possible = self.act(model, action);
        if self.node == 0 && self.primary != before {
            self.replica = before;
        }
        is_possible
    }

    fn act(&mut self, model: &Lock, action: Action) -> bool {
        let mistake = model.mistake;
        use Action::{AskUnanswered, CutOff, Die, Failover, LoseMessage};
        if matches!(
            action,
            Failover { .. } | AskUnanswered(_) | LoseMessage(_) | CutOff(_) | Die(_)
        ) {
            if self.faults == model.bound.faults {
                return false;
            }
            self.faults += 1;
        }
        match action {
            Action::Ask(process) => self.ask(model, process, self.now, true),
            AskUnanswered(process) => self.ask(model, process, self.now, false),
            Action::Receive(message) => self.receive(model, message),
            Action::BeginWrite(process) => self.begin_write(process),
            Action::WriteArrives(write) => {
                let (turn, fence) = self.writes.remove(write);
                let is_late = self.accepted.is_some_and(|(_, last)| fence < last);
                if !is_late || mistake == Some(Mistake::NoFence) {
                    let was_later = self.accepted.is_some_and(|(last, _)| turn < last);
                    self.accepted_a_stale_one |= was_later;
                    self.accepted = Some((turn, fence));
                }
                true
            }
            Action::Renew(process) => model.bound.renews && self.renew(model, process),
            Action::Release(process) => self.release(model, process),
            Action::Tick => {
                self.now += 1;
                self.now <= TIME_MAX
            }
            Failover { forgets } => {
                let is_possible = self.node == 0 && (!forgets || self.replica != self.primary);
                let replica = std::mem::take(&mut self.replica);
                if forgets {
                    self.forgot = self.live_hold().is_some() && replica.hold != self.primary.hold;
                    self.primary = replica;
                }
                self.node = 1;
                is_possible
            }
            LoseMessage(message) => {
                self.grants_told.remove(message);
                true
            }
            CutOff(process) => self.process(process).hears.take().is_some(),
            Die(process) => {
                let process = self.process(process);
                let is_possible = !matches!(process.phase, Phase::Idle | Phase::Over);
                process.phase = Phase::Over;
                process.hears = None;
                is_possible
            }
        }
    }

    /// An attempt, by the process at `sent_at`, which the server runs now.
    pub(super) fn ask(
        &mut self,
        model: &Lock,
        number: u8,
        sent_at: Number,
        is_answered: bool,
    ) -> bool {
        let mistake = model.mistake;
        let until = self.now + model.bound.lease;
        let node = self.node;
        let held = self.live_hold();
        let process = self.process(number);
        match process.phase {
            Phase::Idle => {
                process.token = Number::from(number) * TOKENS + Number::from(process.clients);
                process.attempt = 0;
            }
            Phase::Waits { .. } if mistake != Some(Mistake::NoRecheck) => {}
            _ => return false,
        }
        let token = process.token;
        let is_others = held.is_some_and(|hold| hold.token != process.token);
        if is_others && process.attempt >= model.bound.refusals_max {
            return false;
        }
        process.attempt += 1;
        process.phase = Phase::Waits { sent_at };
        // A slot may have moved: the channel is that of the node that is asked.
        process.hears = process.hears.map(|_| node);
        let waiter = Waiter { token, attempt: process.attempt, node };
        let queue = &mut self.primary.queue;
        if is_others {
            if self.processes[usize::from(number)].hears.is_some() {
                match queue.iter_mut().find(|one| one.token == token) {
                    Some(entry) => *entry = waiter,
                    None => queue.push(waiter),
                }
            }
            // Refused without a subscription, it subscribes and asks once more.
            self.process(number).hears = is_answered.then_some(node);
            return true;
        }
        queue.retain(|one| one.token != token);
        let hold = match held {
            // Granted before, and the answer or the message was lost: the lease begins anew.
            Some(hold) => Hold { until, ..hold },
            None => self.grant(model, token),
        };
        self.primary.hold = Some(hold);
        if is_answered {
            self.hold(number, hold, sent_at + model.bound.lease);
        } else {
            self.process(number).hears = None;
        }
        true
    }

    /// `mint_fence.lua`: the server's clock has passed every fence that was minted before.
    fn grant(&mut self, model: &Lock, token: Number) -> Hold {
        self.grants += 1;
        let fence = match model.mistake {
            Some(Mistake::FenceFromCounterAlone) => self.primary.counter + 1,
            _ => model.bound.fences * self.grants,
        };
        self.primary.counter = fence + model.bound.fences - 1;
        Hold { token, grant: self.grants, fence, until: self.now + model.bound.lease }
    }

    fn hold(&mut self, process: u8, hold: Hold, deadline: Number) {
        let turn = (hold.grant, 0);
        let fence = hold.fence;
        let has_written = false;
        let has_renewed = false;
        self.process(process).phase =
            Phase::Holds { turn, fence, deadline, has_written, has_renewed };
    }

    pub(super) fn receive(&mut self, model: &Lock, message: usize) -> bool {
        let mistake = model.mistake;
        let lease = model.bound.lease;
        let now = self.now;
        let (waiter, hold) = self.grants_told.remove(message);
        let process = self.process(owner(waiter.token));
        let Phase::Waits { sent_at } = process.phase else { return true };
        let is_heard = process.token == waiter.token && process.hears == Some(waiter.node);
        let is_last =
            process.attempt == waiter.attempt || mistake == Some(Mistake::OldGrantAccepted);
        let deadline = match mistake {
            Some(Mistake::LeaseFromArrival) => now + lease,
            _ => sent_at + lease,
        };
        if is_heard && is_last && deadline > now + lease / 2 {
            self.hold(owner(waiter.token), hold, deadline);
        }
        true
    }

    pub(super) fn begin_write(&mut self, process: u8) -> bool {
        let now = self.now;
        match &mut self.process(process).phase {
            Phase::Holds { turn, fence, deadline, has_written, .. }
                if !*has_written && now < *deadline =>
            {
                *has_written = true;
                let write = (*turn, *fence);
                self.writes.push(write);
                self.writes.sort_unstable();
                true
            }
            _ => false,
        }
    }

    fn renew(&mut self, model: &Lock, number: u8) -> bool {
        let now = self.now;
        let lease = model.bound.lease;
        let process = self.process(number);
        let token = process.token;
        let Phase::Holds { deadline, has_renewed, .. } = &mut process.phase else { return false };
        if number > 0 || *has_renewed || now >= *deadline || *deadline == now + lease {
            return false;
        }
        *has_renewed = true;
        *deadline = now + lease;
        if !self.prolong(model, token) {
            self.process(number).end_lease(now);
        }
        true
    }

    /// `token_renew.lua`: whether the token holds the lock.
    pub(super) fn prolong(&mut self, model: &Lock, token: Number) -> bool {
        let until = self.now + model.bound.lease;
        let held = self.live_hold().filter(|hold| hold.token == token);
        if let Some(hold) = held {
            self.primary.hold = Some(Hold { until, ..hold });
        }
        held.is_some()
    }

    /// The guard may go while its write is still on the way: its client has left.
    fn release(&mut self, model: &Lock, number: u8) -> bool {
        let now = self.now;
        let process = self.process(number);
        let Phase::Holds { deadline, has_written, .. } = process.phase else { return false };
        if !has_written && now < deadline {
            return false;
        }
        process.clients -= 1;
        let is_last = process.clients == 0;
        if !is_last && deadline > now + model.bound.lease / 2 {
            return self.hand_over(model, number);
        }
        process.phase = if is_last { Phase::Over } else { Phase::Idle };
        let token = process.token;
        self.give_back(model, token);
        true
    }

    /// `core/guard.rs`: the hold goes to the next client of the process, with its next fence.
    pub(super) fn hand_over(&mut self, model: &Lock, number: u8) -> bool {
        let is_new = model.mistake != Some(Mistake::SameFenceHandedOver);
        let Phase::Holds { turn, fence, has_written, .. } = &mut self.process(number).phase else {
            return false;
        };
        turn.1 += 1;
        *fence += Number::from(is_new);
        *has_written = false;
        true
    }

    /// `token_release.lua`.
    pub(super) fn give_back(&mut self, model: &Lock, token: Number) -> bool {
        let is_held = self.live_hold().is_some_and(|hold| hold.token == token);
        if is_held {
            self.primary.hold = None;
            self.hand_on(model);
        } else {
            self.primary.queue.retain(|one| one.token != token);
        }
        is_held
    }

    /// `waiters.lua`: a waiter whose process does not listen at this node is skipped.
    fn hand_on(&mut self, model: &Lock) {
        let mistake = model.mistake;
        while !self.primary.queue.is_empty() {
            let waiter = self.primary.queue.remove(0);
            let hears = self.process(owner(waiter.token)).hears == Some(waiter.node);
            let is_counted = hears && waiter.node == self.node;
            let grants_first = mistake == Some(Mistake::GrantOnPublishCount);
            if is_counted || grants_first {
                let hold = self.grant(model, waiter.token);
                self.primary.hold = is_counted.then_some(hold);
                if hears {
                    // The bus of a cluster carries it to the listeners of every node.
                    self.grants_told.push((waiter, hold));
                    self.grants_told.sort_unstable();
                }
            }
            if is_counted || mistake == Some(Mistake::OnlyTheHead) {
                return;
            }
        }
    }

    pub(super) fn process(&mut self, number: u8) -> &mut Process {
        &mut self.processes[usize::from(number)]
    }

    pub(super) fn live_hold(&self) -> Option<Hold> {
        self.primary.hold.filter(|hold| hold.until > self.now)
    }

    pub(super) fn live_holders(&self) -> usize {
        let is_live = |one: &&Process| matches!(one.phase, Phase::Holds { deadline, .. } if self.now < deadline);
        self.processes.iter().filter(is_live).count()
    }

    pub(super) fn passed_a_waiter_by(&self) -> bool {
        let listens = |one: &Waiter| {
            let process = &self.processes[usize::from(owner(one.token))];
            one.node == self.node && process.hears == Some(one.node)
        };
        // What a failover has brought back is older than the last release.
        self.node == 0 && self.primary.hold.is_none() && self.primary.queue.iter().any(listens)
    }

    pub(super) fn all_over(&self) -> bool {
        self.processes.iter().all(|process| process.phase == Phase::Over)
    }
}

impl Process {
    /// The process learns that its hold is over.
    pub(super) fn end_lease(&mut self, now: Number) {
        if let Phase::Holds { deadline, .. } = &mut self.phase {
            *deadline = now;
        }
    }
}

/// The process that a token is of.
pub(super) fn owner(token: Number) -> u8 {
    u8::try_from(token / TOKENS).unwrap_or(u8::MAX)
}
