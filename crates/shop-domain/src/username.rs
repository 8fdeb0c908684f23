//! User names: the rules for new names, and the forms by which two names are compared.
//!
//! The rules are those of Unicode Technical Standard 39. A name is written in one script (or in the
//! mixtures that Chinese, Japanese and Korean use with Latin letters), has no invisible character,
//! and two names that look alike count as one: they have the same *skeleton*.

use unicode_normalization::UnicodeNormalization;
use unicode_security::{RestrictionLevel, RestrictionLevelDetection};

/// A name that may be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Username {
    typed: String,
    folded: String,
    skeleton: String,
}

impl Username {
    /// The longest name, in characters.
    pub const LENGTH_MAX: usize = 32;
    /// The longest skeleton, in characters: the width of its column.
    pub const SKELETON_LENGTH_MAX: usize = 255;

    /// Takes a name of 1 to 32 letters, digits and `. _ -`; `None` when it has an invisible
    /// character or mixes scripts that no language mixes.
    pub fn parse(typed: &str) -> Option<Self> {
        let folded = fold(typed)?;
        let plain = !typed.chars().any(is_invisible)
            && folded.as_str().check_restriction_level(RestrictionLevel::HighlyRestrictive);
        let skeleton = skeleton(typed);
        let fits = skeleton.chars().count() <= Self::SKELETON_LENGTH_MAX;
        (plain && fits).then(|| Self { typed: typed.to_owned(), folded, skeleton })
    }

    /// The name as it was typed, to show.
    pub fn typed(&self) -> &str {
        &self.typed
    }

    /// The name by which an account is found, see [`fold`].
    pub fn folded(&self) -> &str {
        &self.folded
    }

    /// The skeleton, which all names that look like this one share, see [`skeleton`].
    pub fn skeleton(&self) -> &str {
        &self.skeleton
    }
}

/// The form in which accounts are looked up: NFKC, lower case. Takes more than [`Username::parse`],
/// since older accounts have such names; `None` for a name that no account can have.
pub fn fold(typed: &str) -> Option<String> {
    let visible = typed.chars().filter(|character| !was_left_out(*character));
    let folded: String = visible.nfkc().flat_map(char::to_lowercase).nfkc().collect();
    let length = folded.chars().count();
    let plain = folded.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-'));
    let no_controls = !typed.chars().any(char::is_control);
    (plain && no_controls && (1..=Username::LENGTH_MAX).contains(&length)).then_some(folded)
}

/// The skeleton of UTS 39 in lower case, which is equal for two names that look alike. It is
/// computed from the name as it was typed, which is how it is shown: a capital I looks like a small
/// l.
pub fn skeleton(typed: &str) -> String {
    let typed: String = typed.nfkc().collect();
    unicode_security::skeleton(&typed).flat_map(char::to_lowercase).collect()
}

/// Whether a character is invisible (a default-ignorable code point).
pub fn is_invisible(character: char) -> bool {
    unicode_security::skeleton(character.encode_utf8(&mut [0; 4])).next().is_none()
}

/// The characters that folding has always left out. The list must stay: accounts are found by it.
fn was_left_out(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_fold_to_the_same_name() {
        let zoe = fold("Zoë").expect("fine");
        for other in ["zoë", "ZOE\u{308}", "zo\u{200b}ë"] {
            assert_eq!(fold(other).as_ref(), Some(&zoe), "{other:?}");
        }
    }

    #[test]
    fn names_with_control_characters_or_spaces_are_refused() {
        for bad in
            ["", "a b", "a\r\nb", "a\u{1b}[31m", "a\0", "<script>", &"x".repeat(33), "\u{200b}"]
        {
            assert_eq!(fold(bad), None, "{bad:?}");
            assert_eq!(Username::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn invisible_characters_and_mixtures_of_scripts_are_refused() {
        // Zero width space, joiner, word joiner, soft hyphen; Hangul filler, half-width filler; right to left mark and
        // override; a variation selector, a tag, a Khmer vowel that is not seen; Cyrillic, Greek, Armenian letters.
        let bad = "zo\u{200b}e zoe\u{200d} zoe\u{2060} zo\u{ad}e zoe\u{3164} zoe\u{ffa0} \u{200f}zoe \u{202e}eoz \
             zoe\u{fe0f} zoe\u{e0061} zoe\u{17b4} z\u{43e}e z\u{3bf}e z\u{585}e";
        for bad in bad.split(' ') {
            assert_eq!(Username::parse(bad), None, "{bad:?}");
        }
        for fine in ["Zoë", "Ｚｏｅ", "王小明abc", "さくら", "Иван", "user-2.b_c"] {
            assert!(Username::parse(fine).is_some(), "{fine:?}");
        }
    }

    #[test]
    fn look_alikes_have_one_skeleton() {
        let skeleton = |name| Username::parse(name).expect("a name").skeleton().to_owned();
        assert_eq!(skeleton("coco"), skeleton("\u{441}\u{43e}\u{441}\u{43e}"));
        assert_eq!(skeleton("paul"), skeleton("pau1"));
        assert_eq!(skeleton("Bob"), skeleton("b0b"));
        assert_ne!(skeleton("zoe"), skeleton("zoë"));
        // A name of an older account that has an invisible character.
        assert_eq!(super::skeleton("operator\u{1160}"), skeleton("operator"));
    }
}
