//! Passwords: which ones are acceptable, and how they are hashed.

use std::sync::LazyLock;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use sha2::{Digest, Sha256};
use unicode_normalization::UnicodeNormalization;

use shop_domain::username;

/// The shortest password, in characters.
pub const PASSWORD_LENGTH_MIN: usize = 8;
/// The longest password, in bytes: limits the cost of one hash.
pub const PASSWORD_BYTES_MAX: usize = 256;

/// Dummy hash verified for unknown users, so that they take as long as a wrong password.
static DUMMY_HASH: LazyLock<String> =
    LazyLock::new(|| hash("nobody's password").unwrap_or_default());

/// Returns whether a password may be set.
pub fn is_acceptable(password: &str) -> bool {
    password.len() <= PASSWORD_BYTES_MAX
        && normalized(password).chars().count() >= PASSWORD_LENGTH_MIN
}

/// Passwords that attackers try first: the 11,600 most used ones of 8 characters or more in the list
/// of zxcvbn (MIT licence), and some that suit this shop. Each is the first [`HASH_BYTES`] bytes of
/// SHA-256 of the password in lower case, sorted: nobody wants to read these words.
static COMMON: &[u8] = include_bytes!("common_passwords.bin");
/// The length of a hash in [`COMMON`]: a password that is not on the list is refused by chance once
/// in 2^40 / 11,632, so about once in 95 million.
const HASH_BYTES: usize = 5;

/// Returns whether a password is one that attackers try first, in any case of letters, or the user's name.
pub fn is_common(password: &str, username: &str) -> bool {
    let password = normalized(password).to_lowercase();
    let hash = Sha256::digest(password.as_bytes());
    let (hashes, _) = COMMON.as_chunks::<HASH_BYTES>();
    let is_name =
        || username::fold(&password).is_some_and(|name| Some(name) == username::fold(username));
    hashes.binary_search_by(|common| common[..].cmp(&hash[..HASH_BYTES])).is_ok() || is_name()
}

/// The form in which a password is hashed: spaces of every width are one, and letters that can be
/// typed in two ways are composed (the OpaqueString profile of RFC 8265).
fn normalized(password: &str) -> String {
    password.chars().map(|c| if is_space(c) { ' ' } else { c }).nfc().collect()
}

/// The space separators of Unicode.
fn is_space(character: char) -> bool {
    character.is_whitespace()
        && !character.is_control()
        && !matches!(character, '\u{2028}' | '\u{2029}')
}

/// Hashes a password with Argon2id; takes tens of milliseconds, so call it off the event loop.
pub fn hash(password: &str) -> Option<String> {
    let hash = Argon2::default().hash_password(normalized(password).as_bytes()).ok()?;
    Some(hash.to_string())
}

/// Checks a password against a hash, or against a dummy hash at the same cost. Older hashes
/// were made of unnormalized passwords, so a password that normalizing changes is tried both ways.
pub fn verify(password: &str, hash: Option<&str>) -> bool {
    let known = hash.is_some();
    let Ok(hash) = PasswordHash::new(hash.unwrap_or(&DUMMY_HASH)) else { return false };
    let is_right = |form: &str| Argon2::default().verify_password(form.as_bytes(), &hash).is_ok();
    let normalized = normalized(password);
    (is_right(&normalized) || normalized != password && is_right(password)) && known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_password_or_the_name_is_found_in_any_case() {
        for (password, name) in [
            ("password", "ada"),
            ("PassWord123", "ada"),
            ("q1w2e3r4t5", "ada"),
            ("Lovelace", "LOVELACE"),
            ("seckill123", "ada"),
        ] {
            assert!(is_common(password, name), "{password}");
        }
        for password in ["correct horse", "demo-password", "operator-password", "long enough"] {
            assert!(!is_common(password, "ada"), "{password}");
        }
        let (hashes, rest) = COMMON.as_chunks::<HASH_BYTES>();
        assert!(hashes.len() > 11_000 && rest.is_empty() && hashes.is_sorted());
    }
}
