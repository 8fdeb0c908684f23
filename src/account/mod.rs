//! Who is asking: signed tokens, the list of those signed out early, and passwords.
//!
//! A token is checked without a database, so that ten thousand buyers can be told apart while the
//! databases are busy selling.

pub mod hashing;
pub mod password;
pub mod revocation;
pub mod token;

pub use hashing::Hashing;
pub use revocation::Revocations;
pub use token::{Claims, Role, TokenError, Tokens};
