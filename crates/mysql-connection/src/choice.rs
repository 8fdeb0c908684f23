//! The choice of the writer among the hosts of one URL, by what they say of themselves.
//!
//! A host that is followed is left when it says that it does not write, or after several looks without its
//! answer: one silent moment is no failover. It is never left for a host that took writes beside it. Of two
//! such hosts nobody but the operators can tell which one is right, and commits that the first has confirmed are
//! missing at the second. So the service stays, and reports the conflict until the other host has been seen
//! without writes, or the followed one says that it does not write.
//!
//! Galera is different: all its nodes take writes and none misses a commit. There each instance takes the first
//! node in the URL that is in good standing, at once.

use std::collections::BTreeSet;

use crate::replication::Role;

/// Looks in a row without an answer of the writer before another host may be followed. Two may be lost by a
/// machine that is busy for a moment; each takes half a second, or as long as a host may take to answer.
const LOOKS_MISSED_MAX: u32 = 3;

/// What earlier looks have shown.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    /// Looks in a row without an answer of the followed host.
    missed: u32,
    /// The hosts that took writes beside the followed one, by their places in the URL; while none is followed, those
    /// that took writes beside each other.
    rivals: BTreeSet<usize>,
}

impl Choice {
    /// Chooses by one look at all hosts; `None` when the writer is not known or not to be changed.
    pub(crate) fn after(
        &mut self,
        roles: &[Option<Role>],
        followed: Option<usize>,
    ) -> Option<usize> {
        let writes = |host: &usize| roles[*host].as_ref().is_some_and(|role| role.writes);
        let writers: Vec<usize> = (0..roles.len()).filter(writes).collect();
        let is_galera = |host: &usize| roles[*host].as_ref().is_some_and(|role| role.is_galera);
        if !writers.is_empty() && writers.iter().all(is_galera) {
            *self = Self::default();
            return writers.first().copied();
        }
        // A rival that is silent may still take writes.
        self.rivals.retain(|rival| roles[*rival].as_ref().is_none_or(|role| role.writes));
        let Some(followed) = followed else {
            if let [only] = writers[..] {
                self.rivals.remove(&only);
                let is_alone = self.rivals.is_empty();
                self.rivals.extend((!is_alone).then_some(only));
                return is_alone.then_some(only);
            }
            self.rivals.extend(writers);
            return None;
        };
        match roles[followed].as_ref().map(|role| role.writes) {
            Some(true) => {
                self.missed = 0;
                self.rivals.extend(writers.into_iter().filter(|host| *host != followed));
                return Some(followed);
            }
            Some(false) => {
                self.missed = LOOKS_MISSED_MAX;
                self.rivals.clear();
            }
            None => self.missed = self.missed.saturating_add(1),
        }
        let [only] = writers[..] else { return None };
        if self.missed < LOOKS_MISSED_MAX || self.rivals.contains(&only) {
            return None;
        }
        self.missed = 0;
        Some(only)
    }

    /// Returns whether another host took writes beside the followed one, and nobody has decided since.
    pub(crate) fn is_contested(&self) -> bool {
        !self.rivals.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(writes: bool, is_galera: bool) -> Option<Role> {
        Some(Role { writes, is_galera, identity: String::new() })
    }

    /// The choice of one look, without earlier ones.
    fn choose(roles: &[Option<Role>], followed: Option<usize>) -> Option<usize> {
        Choice::default().after(roles, followed)
    }

    #[test]
    fn the_one_that_writes_is_chosen() {
        let (yes, no) = (role(true, false), role(false, false));
        assert_eq!(choose(&[yes.clone(), no.clone()], None), Some(0));
        assert_eq!(choose(&[None, yes.clone()], None), Some(1));
        assert_eq!(choose(&[no.clone(), yes.clone()], Some(0)), Some(1), "it says that it is not");
        assert_eq!(choose(&[None, no.clone()], Some(0)), None, "nobody writes: nothing changes");
    }

    #[test]
    fn a_writer_is_left_only_after_several_looks_without_its_answer() {
        let (yes, no) = (role(true, false), role(false, false));
        let mut choice = Choice::default();
        let promoted = [None, yes.clone()];
        for _ in 1..LOOKS_MISSED_MAX {
            assert_eq!(choice.after(&promoted, Some(0)), None);
        }
        // It was only slow: the count begins again.
        assert_eq!(choice.after(&[yes.clone(), no], Some(0)), Some(0));
        for _ in 1..LOOKS_MISSED_MAX {
            assert_eq!(choice.after(&promoted, Some(0)), None);
        }
        assert_eq!(choice.after(&promoted, Some(0)), Some(1));
        assert_eq!(choice.after(&[yes.clone(), yes], Some(1)), Some(1), "the old one wakes up");
        assert!(choice.is_contested());
    }

    #[test]
    fn a_host_that_took_writes_beside_the_writer_is_not_followed_after_it() {
        let (yes, no) = (role(true, false), role(false, false));
        let both = [yes.clone(), yes.clone()];
        assert_eq!(choose(&both, Some(1)), Some(1));
        assert_eq!(choose(&both, None), None, "nobody can tell which one is right");
        let mut choice = Choice::default();
        assert_eq!(choice.after(&both, Some(0)), Some(0));
        for _ in 0..LOOKS_MISSED_MAX * 2 {
            assert_eq!(choice.after(&[None, yes.clone()], Some(0)), None);
            assert!(choice.is_contested());
        }
        // The operators have decided: it took no writes for a moment, so it was promoted afterwards.
        assert_eq!(choice.after(&[None, no.clone()], Some(0)), None);
        assert!(!choice.is_contested());
        assert_eq!(choice.after(&[None, yes.clone()], Some(0)), Some(1));
        // Or they have told the old one.
        assert_eq!(choice.after(&both, Some(0)), Some(0));
        assert_eq!(choice.after(&[no, yes], Some(0)), Some(1));
    }

    #[test]
    fn a_service_that_starts_in_a_conflict_waits_until_it_is_decided() {
        let (yes, no) = (role(true, false), role(false, false));
        let mut choice = Choice::default();
        assert_eq!(choice.after(&[yes.clone(), yes.clone()], None), None);
        assert_eq!(choice.after(&[None, yes.clone()], None), None, "the other one is only silent");
        assert_eq!(choice.after(&[None, None], None), None);
        assert!(choice.is_contested());
        assert_eq!(choice.after(&[yes, no], None), Some(0));
        assert!(!choice.is_contested());
    }

    #[test]
    fn every_instance_takes_the_first_synced_node_of_galera() {
        let node = role(true, true);
        assert_eq!(choose(&[node.clone(), node.clone(), node.clone()], Some(2)), Some(0));
        assert_eq!(choose(&[role(false, true), node.clone(), node.clone()], Some(0)), Some(1));
        assert_eq!(choose(&[None, node.clone(), node], Some(0)), Some(1));
    }
}
