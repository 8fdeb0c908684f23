//! How many files this process may have open: each connection is one.
//!
//! Most systems start a program with a soft limit of 1,024, for the sake of `select`, which cannot
//! wait for more. Nothing here uses `select`, so the soft limit is raised to the hard one, which the
//! operator sets (`LimitNOFILE=`, `ulimit -Hn`).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one; programs that are started later inherit it.
pub fn raise_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it is refused the old limit goes on, and accepting pauses when it is reached.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
