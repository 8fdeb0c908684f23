//! Passwords and user names: what is taken, and how it is kept.

use std::sync::LazyLock;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use unicode_normalization::UnicodeNormalization;

/// The shortest password, in characters.
pub const PASSWORD_LENGTH_MIN: usize = 8;
/// The longest password, in bytes: hashing must not become a way to burn our processor.
pub const PASSWORD_BYTES_MAX: usize = 256;
/// The longest user name, in characters.
pub const USERNAME_LENGTH_MAX: usize = 32;

/// A hash that no password has, for names that nobody has: so that they cost the same.
static NOBODY: LazyLock<String> = LazyLock::new(|| hash("nobody's password").unwrap_or_default());

/// Whether a password may be set.
#[must_use]
pub fn is_acceptable(password: &str) -> bool {
    password.len() <= PASSWORD_BYTES_MAX && password.chars().count() >= PASSWORD_LENGTH_MIN
}

/// The form of a user name that must be unique: NFKC, lower case, so that look-alikes made of
/// other code points cannot be taken. `None` when the name is not acceptable: 1 to 32 characters,
/// letters, digits and `. _ -` of any script, without white space or invisible characters.
#[must_use]
pub fn fold_username(username: &str) -> Option<String> {
    // Invisible characters vanish before names are compared: a look-alike is the same name.
    let visible = username.chars().filter(|character| !is_invisible(*character));
    let folded: String = visible.nfkc().flat_map(char::to_lowercase).nfkc().collect();
    let length = folded.chars().count();
    let plain = folded.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-'));
    let no_controls = !username.chars().any(char::is_control);
    (plain && no_controls && (1..=USERNAME_LENGTH_MAX).contains(&length)).then_some(folded)
}

/// Zero-width and formatting characters, which make two names look the same.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}')
}

/// Hashes a password with Argon2id; takes tens of milliseconds, so call it off the event loop.
#[must_use]
pub fn hash(password: &str) -> Option<String> {
    let hash = Argon2::default().hash_password(password.as_bytes()).ok()?;
    Some(hash.to_string())
}

/// Checks a password against a hash, or against nobody's at the same cost.
#[must_use]
pub fn verify(password: &str, hash: Option<&str>) -> bool {
    let known = hash.is_some();
    let Ok(hash) = PasswordHash::new(hash.unwrap_or(&NOBODY)) else { return false };
    Argon2::default().verify_password(password.as_bytes(), &hash).is_ok() && known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alikes_fold_to_the_same_name() {
        let zoe = fold_username("Zoë").expect("fine");
        for other in ["zoë", "ZOE\u{308}", "zo\u{200b}ë"] {
            assert_eq!(fold_username(other).as_ref(), Some(&zoe), "{other:?}");
        }
    }

    #[test]
    fn names_with_control_characters_or_spaces_are_refused() {
        for bad in
            ["", "a b", "a\r\nb", "a\u{1b}[31m", "a\0", "<script>", &"x".repeat(33), "\u{200b}"]
        {
            assert_eq!(fold_username(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_the_right_password_of_somebody_verifies() {
        let hash = hash("correct horse").expect("hashed");
        assert!(verify("correct horse", Some(&hash)));
        assert!(!verify("wrong horse", Some(&hash)));
        assert!(!verify("nobody's password", None));
        assert!(!is_acceptable("short") && !is_acceptable(&"x".repeat(300)));
    }
}
