//! Conditions and assignments: whole numbers, `+`, `-`, comparisons, `and`, `or`.
//!
//! A name that begins with `my_` belongs to one buyer, a name that ends with `@` to one instance of the
//! service, any other name to all. `me` is the number of the buyer, from 1; `units` is the stock at the start.
//! Every variable is 0 until something is assigned.

use serde::Deserialize;

/// A condition or a number.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub enum Expression {
    /// A number.
    Number(i64),
    /// The value of a variable.
    Name(String),
    /// Two values and the operation on them.
    Binary(Operation, Box<[Expression; 2]>),
}

/// An operation on two values. A comparison is 1 or 0.
pub type Operation = fn(i64, i64) -> i64;

/// `name = expression`, or `name = expression if condition`.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Assignment {
    /// The variable that changes.
    pub name: String,
    /// Its new value.
    pub value: Expression,
    /// The variable changes only if this is true.
    pub condition: Option<Expression>,
}

/// Error: a text that is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an expression: {0:?}")]
pub struct SyntaxError(String);

/// The operators, the loosest first: those of one row bind alike, from left to right.
const LEVELS: [&[(&str, Operation)]; 4] = [
    &[("or", |left, right| i64::from(left != 0 || right != 0))],
    &[("and", |left, right| i64::from(left != 0 && right != 0))],
    &[
        ("==", |left, right| i64::from(left == right)),
        ("!=", |left, right| i64::from(left != right)),
        ("<=", |left, right| i64::from(left <= right)),
        (">=", |left, right| i64::from(left >= right)),
        ("<", |left, right| i64::from(left < right)),
        (">", |left, right| i64::from(left > right)),
    ],
    &[("+", i64::saturating_add), ("-", i64::saturating_sub)],
];

impl Expression {
    /// Reads an expression. Words and signs are separated by spaces.
    ///
    /// # Errors
    /// When the text is no expression.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        Self::parse_words(&words, 0).ok_or_else(|| SyntaxError(text.to_owned()))
    }

    /// Splits at the last operator of the loosest level, so that equal ones bind from left to right.
    fn parse_words(words: &[&str], level: usize) -> Option<Self> {
        let Some(operators) = LEVELS.get(level) else {
            let [word] = words else { return None };
            return Self::parse_word(word);
        };
        let split = words.iter().enumerate().rev().find_map(|(at, word)| {
            let found = operators.iter().find(|(sign, _)| sign == word)?;
            Some((at, found.1))
        });
        let Some((at, operation)) = split else { return Self::parse_words(words, level + 1) };
        let left = Self::parse_words(&words[..at], level)?;
        let right = Self::parse_words(&words[at + 1..], level + 1)?;
        Some(Self::Binary(operation, Box::new([left, right])))
    }

    fn parse_word(word: &str) -> Option<Self> {
        if let Ok(number) = word.parse() {
            return Some(Self::Number(number));
        }
        is_name(word).then(|| Self::Name(word.to_owned()))
    }

    /// Computes the value; `value_of` knows the variables.
    pub fn value(&self, value_of: &impl Fn(&str) -> i64) -> i64 {
        match self {
            Self::Number(number) => *number,
            Self::Name(name) => value_of(name),
            Self::Binary(operation, sides) => {
                operation(sides[0].value(value_of), sides[1].value(value_of))
            }
        }
    }

    /// Adds the names of the variables to `names`.
    pub fn names<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Number(_) => {}
            Self::Name(name) => names.push(name),
            Self::Binary(_, sides) => sides.iter().for_each(|side| side.names(names)),
        }
    }
}

impl Assignment {
    /// Reads an assignment.
    ///
    /// # Errors
    /// When the text is something else.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let wrong = || SyntaxError(text.to_owned());
        let (name, value) = text.split_once(" = ").ok_or_else(wrong)?;
        if !is_name(name) || ["me", "units"].contains(&name) {
            return Err(wrong());
        }
        let (value, condition) = match value.split_once(" if ") {
            Some((value, condition)) => (value, Some(Expression::parse(condition)?)),
            None => (value, None),
        };
        Ok(Self { name: name.to_owned(), value: Expression::parse(value)?, condition })
    }

    /// Adds the names of the variables to `names`.
    pub fn names<'a>(&'a self, names: &mut Vec<&'a str>) {
        names.push(&self.name);
        self.value.names(names);
        self.condition.iter().for_each(|condition| condition.names(names));
    }
}

impl TryFrom<String> for Expression {
    type Error = SyntaxError;

    fn try_from(text: String) -> Result<Self, SyntaxError> {
        Self::parse(&text)
    }
}

impl TryFrom<String> for Assignment {
    type Error = SyntaxError;

    fn try_from(text: String) -> Result<Self, SyntaxError> {
        Self::parse(&text)
    }
}

fn is_name(word: &str) -> bool {
    let stem = word.strip_suffix('@').unwrap_or(word);
    !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}
