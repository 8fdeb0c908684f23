//! The cells of a table in the form in which the fields of a new sale are sent, where they have one reading.

use shop_domain::Currency;

use super::columns::Kind;

/// What spreadsheets write for yes, in the languages whose spreadsheets translate it.
const YES: [&str; 13] =
    ["true", "yes", "y", "1", "on", "wahr", "ja", "vrai", "oui", "verdadero", "vero", "да", "是"];
/// What they write for no.
const NO: [&str; 12] =
    ["false", "no", "n", "0", "off", "falsch", "nein", "faux", "non", "falso", "нет", "否"];
/// What stands between the thousands and has no other meaning.
const GROUPS: [char; 6] = [' ', '\u{a0}', '\u{2009}', '\u{202f}', '\'', '\u{2019}'];

/// A cell without what surrounds its text and does not show: spaces, marks of direction and of order.
pub(super) fn trimmed(cell: &str) -> &str {
    cell.trim_matches(|it: char| {
        it.is_whitespace()
            || matches!(it, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    })
}

/// Whether a number is written as a program writes one that may have a fraction and has none, such as `100.0`.
pub(super) fn is_float(cell: &str) -> bool {
    cell.ends_with(".0") || cell.chars().map(ascii).collect::<String>().ends_with(".0")
}

/// The text of a field. `has_floats` says whether each other whole number of the row [is a float](is_float), and
/// `currency` what its money is in.
///
/// # Errors
/// A sentence that says how to mend the cell.
pub(super) fn plain(
    kind: Kind,
    cell: &str,
    has_floats: bool,
    currency: Currency,
) -> Result<String, String> {
    match kind {
        Kind::Text => Ok(cell.replace('\t', " ")),
        Kind::Word => Ok(cell.to_lowercase()),
        Kind::Code => Ok(cell.to_uppercase()),
        Kind::Whole => whole(cell, is_zeros),
        Kind::Money => money(cell, has_floats, currency),
        Kind::Time => time(cell),
        Kind::Flag => flag(cell),
    }
}

fn flag(cell: &str) -> Result<String, String> {
    let word = cell.to_lowercase();
    if YES.contains(&word.as_str()) {
        return Ok("true".to_owned());
    }
    if NO.contains(&word.as_str()) {
        return Ok("false".to_owned());
    }
    Err("Write true or false.".to_owned())
}

/// An amount in minor units. One as a float is that of a program which writes every number so, or one in major units.
fn money(cell: &str, has_floats: bool, currency: Currency) -> Result<String, String> {
    let minor = money_meant(cell, currency.minor_digits().into());
    let number = whole(cell, |fraction| fraction == "0");
    match (number, minor) {
        (Ok(number), Some(minor)) if number != minor && !has_floats => {
            Err(format!("This can be {number} or {minor}: write {minor} for {number}.00."))
        }
        (Err(_), Some(minor)) => {
            Err(format!("Write whole minor units of {currency}: {minor} for this."))
        }
        (number, _) => number,
    }
}

/// A whole number. `is_whole` says which fractions a program adds to one.
fn whole(cell: &str, is_whole: impl Fn(&str) -> bool) -> Result<String, String> {
    let number: String = cell.chars().map(ascii).collect();
    let digits = number.strip_prefix(['+', '-']).unwrap_or(&number);
    let sign = if number.starts_with('-') { "-" } else { "" };
    let signed = |digits: &str| Ok(format!("{sign}{digits}"));
    if is_digits(digits) {
        return signed(digits);
    }
    if let Some(separator) = digits.chars().find(|it| !it.is_ascii_digit()) {
        let is_clear = GROUPS.contains(&separator) || digits.matches(separator).count() > 1;
        if is_clear && let Some(joined) = joined(digits, separator) {
            return signed(&joined);
        }
    }
    if let Some((before, fraction)) = digits.split_once('.')
        && is_digits(before)
        && is_whole(fraction)
    {
        return signed(before);
    }
    let shortened = |it: char| it == 'e' || it == 'E';
    if digits.contains(shortened) && digits.starts_with(|it: char| it.is_ascii_digit()) {
        let mend = "A spreadsheet has shortened this number: format the column as a number without decimals, \
            and save the table again.";
        return Err(mend.to_owned());
    }
    let (Some(plain), Some(fraction)) =
        (digits.split_once(['.', ',']), digits.rsplit(['.', ',']).next())
    else {
        return Err("Write a whole number, such as 4900.".to_owned());
    };
    let either = plain.0.to_owned() + plain.1;
    if is_digits(&either) && fraction.len() == 3 {
        return Err(format!(
            "This can be {either} or {}.{fraction}: write whole numbers, without a separator.",
            plain.0
        ));
    }
    Err("Write a whole number without a separator, such as 4900.".to_owned())
}

/// The digits of a number with a separator between its thousands.
fn joined(digits: &str, separator: char) -> Option<String> {
    let mut groups = digits.split(separator);
    let first = groups.next().filter(|first| (1..=3).contains(&first.len()) && is_digits(first))?;
    let mut joined = first.to_owned();
    for group in groups {
        if group.len() != 3 || !is_digits(group) {
            return None;
        }
        joined.push_str(group);
    }
    Some(joined)
}

/// What an amount with decimals is in minor units that have `digits` of them: of two, 4900 for `49,00` and 123450 for
/// `1.234,50`. Three decimals may be thousands where the currency has another number of them.
fn money_meant(cell: &str, digits: usize) -> Option<String> {
    let number: String = cell.chars().map(ascii).filter(|it| !GROUPS.contains(it)).collect();
    let (units, decimals) = number.trim_start_matches('+').rsplit_once(['.', ','])?;
    let units: String = units.chars().filter(|it| !matches!(it, '.' | ',')).collect();
    let are_decimals = decimals.len() <= 2 || decimals.len() == digits;
    let counted = decimals.trim_end_matches('0');
    if !(is_digits(&units) && is_digits(decimals) && are_decimals && counted.len() <= digits) {
        return None;
    }
    let minor = format!("{units}{counted:0<digits$}");
    let zeros = minor.bytes().take(minor.len() - 1).take_while(|digit| *digit == b'0').count();
    Some(minor[zeros..].to_owned())
}

/// A sign or a digit of full width, or the sign for minus, in ASCII.
fn ascii(it: char) -> char {
    match it {
        '\u{ff01}'..='\u{ff5e}' => {
            u32::from(it).checked_sub(0xfee0).and_then(char::from_u32).unwrap_or(it)
        }
        '\u{2212}' => '-',
        _ => it,
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit())
}

/// Whether a fraction says nothing. Three zeros may be thousands.
fn is_zeros(fraction: &str) -> bool {
    !fraction.is_empty() && fraction.len() != 3 && fraction.bytes().all(|it| it == b'0')
}

/// A time in the form of RFC 3339.
fn time(cell: &str) -> Result<String, String> {
    let text = cell.to_uppercase();
    let end = text.find(['T', ' ']).unwrap_or(text.len());
    let Some(date) = date(&text[..end]) else { return Err(no_date(&text)) };
    let rest = text[end..].trim_start_matches(['T', ' ']);
    let end = rest.find(|it: char| !(it.is_ascii_digit() || ":.,".contains(it)));
    let (clock, zone) = rest.split_at(end.unwrap_or(rest.len()));
    if clock.is_empty() {
        return Err("Write the time of day, too: 2026-12-01T10:00:00Z.".to_owned());
    }
    let clock = clock.replace(',', ".");
    let clock = if clock.find(':') == Some(1) { format!("0{clock}") } else { clock };
    let clock = if clock.len() == "10:00".len() { format!("{clock}:00") } else { clock };
    let zone = zone_of(zone.trim())?;
    Ok(format!("{date}T{clock}{zone}"))
}

/// A date that begins with the year, in the form of RFC 3339.
fn date(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split(['-', '/']).collect();
    let [year, month, day] = parts[..] else { return None };
    let fits = year.len() == 4 && month.len() <= 2 && day.len() <= 2;
    let is_date = fits && [year, month, day].into_iter().all(is_digits);
    is_date.then(|| format!("{year}-{month:0>2}-{day:0>2}"))
}

/// A zone in the form of RFC 3339.
fn zone_of(zone: &str) -> Result<String, String> {
    let digits: String = zone.chars().skip(1).filter(|it| *it != ':').collect();
    match zone {
        "Z" | "UTC" | "GMT" => Ok("Z".to_owned()),
        "" => Err("Write the zone, too: Z behind the time for UTC, or +01:00.".to_owned()),
        _ if zone.starts_with(['+', '-'])
            && is_digits(&digits)
            && digits.len().is_multiple_of(2) =>
        {
            let minutes = digits.get(2..4).unwrap_or("00");
            let hours = digits.get(..2).unwrap_or_default();
            Ok(format!("{}{hours}:{minutes}", &zone[..1]))
        }
        _ => Err("Write the zone as an offset: Z for UTC, or +01:00.".to_owned()),
    }
}

/// The sentence about a time that does not begin with a year.
fn no_date(text: &str) -> String {
    let form = "write 2026-12-01T10:00:00Z.";
    match text.parse::<f64>() {
        Ok(_) => format!("A spreadsheet has written a number of days: {form}"),
        Err(_) if text.starts_with(|it: char| it.is_ascii_digit()) => {
            format!("Day and month cannot be told apart, and there is no zone: {form}")
        }
        Err(_) => format!("This is no time: {form}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn taken(kind: Kind, forms: &[(&str, &str)]) {
        for (cell, expected) in forms {
            let taken = plain(kind, cell, true, Currency::USD);
            assert_eq!(taken.as_deref(), Ok(*expected), "{cell:?}");
        }
    }

    #[track_caller]
    fn refused(kind: Kind, forms: &[(&str, &str)]) {
        for (cell, word) in forms {
            let said = plain(kind, cell, false, Currency::USD).expect_err(cell);
            assert!(said.contains(word), "{cell:?}: {said}");
        }
    }

    /// A number is taken in each form that has one reading, and refused with both readings if it has two.
    #[test]
    fn numbers() {
        let clear = [
            ("4900", "4900"),
            ("+4900", "4900"),
            ("-4900", "-4900"),
            ("\u{2212}5", "-5"),
            ("4900.0", "4900"),
            ("４９００", "4900"),
            ("4\u{a0}900", "4900"),
            ("4 900", "4900"),
            ("4'900", "4900"),
            ("1\u{202f}234\u{202f}567", "1234567"),
            ("1,234,567", "1234567"),
            ("1.234.567", "1234567"),
        ];
        taken(Kind::Whole, &clear);
        taken(Kind::Money, &clear);
        taken(Kind::Whole, &[("100.0000", "100"), ("100.00", "100")]);
        let unclear =
            [("4,900", "4900 or 4.900"), ("4.900", "4900 or 4.900"), ("4.90E+03", "shortened")];
        refused(Kind::Whole, &unclear);
        refused(Kind::Money, &unclear);
        refused(Kind::Money, &[("49.00", "4900"), ("49,00", "4900"), ("49.5", "4950")]);
        refused(
            Kind::Money,
            &[("49.0", "49 or 4900: write 4900 for 49.00"), ("+４９.０", "49 or")],
        );
        assert_eq!(plain(Kind::Money, "0.0", false, Currency::USD).as_deref(), Ok("0"));
        refused(Kind::Money, &[("0.00", "USD: 0 for this")]);
        refused(
            Kind::Money,
            &[("1.234,50", "123450"), ("1,234.50", "123450"), ("1 234,50", "123450")],
        );
        refused(
            Kind::Whole,
            &[("49,5", "whole number"), ("many", "whole number"), ("12 34", "whole")],
        );
        refused(
            Kind::Money,
            &[("$49", "whole number"), ("", "whole number"), ("1,23,456", "whole")],
        );
    }

    /// A sentence that names cents of a yen would make a sale a hundred times too dear.
    #[test]
    fn minor_units_are_those_of_the_currency() {
        for (code, cell, expected) in [
            ("JPY", "49.00", Err("JPY: 49 for this")),
            ("JPY", "1,234.00", Err("JPY: 1234 for this")),
            ("JPY", "49.0", Ok("49")),
            ("JPY", "49.50", Err("whole number")),
            ("JPY", ".0", Err("whole number")),
            ("JPY", ",", Err("whole number")),
            ("KWD", "49.5", Err("KWD: 49500 for this")),
            ("KWD", "49.500", Err("KWD: 49500 for this")),
            ("KWD", "49.0", Err("49 or 49000")),
            ("CLF", "4.900", Err("4900 or 4.900")),
        ] {
            let currency = Currency::parse(code).expect("a currency");
            match (plain(Kind::Money, cell, false, currency), expected) {
                (Ok(taken), Ok(expected)) => assert_eq!(taken, expected, "{code} {cell}"),
                (Err(said), Err(word)) => assert!(said.contains(word), "{code} {cell}: {said}"),
                (other, _) => panic!("{code} {cell}: {other:?}"),
            }
        }
    }

    /// A time is taken in each form that names one moment.
    #[test]
    fn times() {
        taken(
            Kind::Time,
            &[
                ("2026-12-01T10:00:00Z", "2026-12-01T10:00:00Z"),
                ("2026-12-01t10:00:00.000z", "2026-12-01T10:00:00.000Z"),
                ("2026-12-01 10:00:00 UTC", "2026-12-01T10:00:00Z"),
                ("2026/12/1 9:30 +0100", "2026-12-01T09:30:00+01:00"),
                ("2026-12-01T10:00+01", "2026-12-01T10:00:00+01:00"),
                ("2026-12-01T10:00:00-05:30", "2026-12-01T10:00:00-05:30"),
            ],
        );
        refused(
            Kind::Time,
            &[
                ("2026-12-01T10:00:00", "zone"),
                ("2026-12-01", "time of day"),
                ("12/1/2026 10:00", "told apart"),
                ("01.12.2026 10:00", "told apart"),
                ("46357.4166", "number of days"),
                ("2026-12-01 10:00 CET", "offset"),
                ("tomorrow", "no time"),
            ],
        );
    }

    #[test]
    fn flags_and_words() {
        for yes in ["true", "TRUE", "True", "Yes", "y", "1", "WAHR", "是"] {
            taken(Kind::Flag, &[(yes, "true")]);
        }
        for no in ["false", "FALSE", "No", "0", "FALSCH", "否"] {
            taken(Kind::Flag, &[(no, "false")]);
        }
        refused(Kind::Flag, &[("perhaps", "true or false"), ("2", "true or false")]);
        taken(Kind::Word, &[("Redis-Lua", "redis-lua")]);
        taken(Kind::Code, &[("usd", "USD")]);
        taken(Kind::Text, &[("Size:\tM", "Size: M")]);
        assert_eq!(trimmed("\u{202b}\u{a0}מנורה\u{202c} "), "מנורה");
    }
}
