//! Who holds a name by the order of a queue at the backend: the rule of every kind on etcd and ZooKeeper that has one.

/// What a contender in the queue wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueRole {
    /// To hold alone.
    Exclusive,
    /// To hold beside other readers, but not beside a writer.
    Reader,
    /// To have one of `permits_max` permits; there is at least one.
    Permit { permits_max: usize },
}

/// The event ahead of a contender after which another attempt is worth it.
pub(crate) enum Obstacle {
    /// The contender with this index goes.
    One(usize),
    /// At most [`QueueRole::others_max`] of them are left.
    Any,
}

impl QueueRole {
    /// The role for one of `permits_max` permits.
    pub(crate) fn permit(permits_max: u32) -> Self {
        let permits_max = usize::try_from(permits_max).unwrap_or(usize::MAX);
        Self::Permit { permits_max: permits_max.max(1) }
    }

    /// The mark by which others know the role.
    pub(crate) fn mark(self) -> char {
        match self {
            // With permits nobody asks for it, but version 0.1.0 sees no other mark of a semaphore on etcd.
            Self::Exclusive | Self::Permit { .. } => 'x',
            Self::Reader => 'r',
        }
    }

    /// Whether several can hold at the same time.
    pub(crate) fn shared(self) -> bool {
        self != Self::Exclusive
    }

    /// What the contender waits for, given the marks of those ahead of it, the earliest first. `None`
    /// when it holds.
    pub(crate) fn obstacle(self, ahead: &[char]) -> Option<Obstacle> {
        match self {
            Self::Exclusive => ahead.len().checked_sub(1).map(Obstacle::One),
            Self::Reader => {
                let reader = self.mark();
                ahead.iter().rposition(|mark| *mark != reader).map(Obstacle::One)
            }
            Self::Permit { .. } => (ahead.len() > self.others_max()).then_some(Obstacle::Any),
        }
    }

    /// How many others at most may hold beside one with a permit.
    pub(crate) fn others_max(self) -> usize {
        match self {
            Self::Permit { permits_max } => permits_max - 1,
            Self::Exclusive | Self::Reader => 0,
        }
    }
}
