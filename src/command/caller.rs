//! Who runs a command: the user of the system, for the log. An operator's id on the command line is what
//! that person says.

use std::fs;

/// The id that Linux writes when nobody has signed in.
const NOBODY: u32 = u32::MAX;

/// The user of the system that runs this process, such as `alice (uid 1000)`, and the user who signed in,
/// if these differ.
pub(super) fn system_user() -> String {
    let user = rustix::process::getuid().as_raw();
    let signed_in = fs::read_to_string("/proc/self/loginuid");
    let signed_in = signed_in.ok().and_then(|id| id.trim().parse().ok());
    let names = fs::read_to_string("/etc/passwd").unwrap_or_default();
    sentence(user, signed_in.filter(|id| *id != NOBODY), &names)
}

fn sentence(user: u32, signed_in: Option<u32>, names: &str) -> String {
    let named = |id: u32| {
        let line = names.lines().find(|line| line.split(':').nth(2) == Some(&id.to_string()));
        let name = line.and_then(|line| line.split(':').next());
        name.map_or_else(|| format!("uid {id}"), |name| format!("{name} (uid {id})"))
    };
    match signed_in.filter(|id| *id != user) {
        Some(first) => format!("{}, signed in as {}", named(user), named(first)),
        None => named(user),
    }
}
