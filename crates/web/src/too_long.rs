//! Values that are longer than what is kept of them.

/// The sentence about a value that is too long, which names it: whose length is `length`, and could be `most`.
#[must_use]
pub fn too_long(field: &str, length: usize, most: usize) -> String {
    format!("{field} has {length} characters; send at most {most}.")
}
