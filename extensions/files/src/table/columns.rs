//! The columns of a table, which are the fields of a new sale.

/// How much of a cell or a name an answer repeats, in characters.
pub(super) const READ_LENGTH_MAX: usize = 40;

/// How the cells of a column are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A text, taken as it is.
    Text,
    /// A name in small letters.
    Word,
    /// A code in capital letters.
    Code,
    /// A whole number.
    Whole,
    /// A whole number of minor units of money.
    Money,
    /// A time with a zone.
    Time,
    /// Yes or no.
    Flag,
}

/// A column.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// Whether a table must have it.
    pub is_required: bool,
    /// The columns that it is checked with.
    pub others: &'static [&'static str],
}

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, is_required: false, others: &[] }
}

impl Column {
    const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    const fn with(self, others: &'static [&'static str]) -> Self {
        Self { others, ..self }
    }
}

/// All columns.
pub(super) static ALL: [Column; 22] = [
    column("name", Kind::Text).required(),
    column("description", Kind::Text),
    column("image_url", Kind::Text),
    column("price_cents", Kind::Money).required(),
    column("currency", Kind::Code),
    column("stock", Kind::Whole).required(),
    column("starts_at", Kind::Time).required().with(&["ends_at"]),
    column("ends_at", Kind::Time).required().with(&["starts_at"]),
    column("per_buyer_limit", Kind::Whole),
    column("unpaid_max", Kind::Whole).with(&["kind"]),
    column("hold_seconds", Kind::Whole),
    column("kind", Kind::Word),
    column("strategy", Kind::Word).with(&["kind"]),
    column("arbiter", Kind::Word).with(&["kind"]),
    column("waiting_room", Kind::Flag),
    column("offer_seconds", Kind::Whole),
    column("extend_seconds", Kind::Whole),
    column("return_seconds", Kind::Whole),
    column("limit_group_id", Kind::Whole),
    column("product_id", Kind::Whole),
    column("options", Kind::Text).with(&["product_id"]),
    column("mode", Kind::Word),
];

/// The column with this name.
pub(super) fn named(name: &str) -> Option<&'static Column> {
    ALL.iter().find(|column| column.name == name)
}

/// The names, with commas between them.
pub(super) fn list() -> String {
    ALL.iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
}

/// The letters by which a spreadsheet names a column, from 0: `A` to `Z`, then `AA`.
pub(super) fn letters(place: usize) -> String {
    let last = char::from(b'A' + u8::try_from(place % 26).unwrap_or_default());
    match place / 26 {
        0 => last.to_string(),
        before => format!("{}{last}", letters(before - 1)),
    }
}
