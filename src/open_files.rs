//! The limit of open files, of which each connection is one.
//!
//! Most systems start a program with a soft limit of 1,024, because the system call `select` cannot
//! wait for more. This program does not call `select`, so it raises the soft limit to the hard
//! limit, which the operator sets (`LimitNOFILE=`, `ulimit -Hn`).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit. Programs that this process starts inherit it.
pub fn raise_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If that fails, the soft limit stays, and `accept` fails and pauses when it is reached.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
