//! Tables as spreadsheets and shops write them: which sales they become, or which words refuse them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use files::{FaultBody, charset_named, read_table};
use seckill::http::item_form::read_item;
use shop_domain::{Currency, NewItem};
use web::problem::rfc3339;

/// What becomes of a file.
enum Answer {
    /// The file becomes sales.
    Taken(&'static [&'static str]),
    /// The file becomes the sales of most files, with these names.
    Named(&'static [&'static str]),
    /// The file becomes the sale of most files, with this description.
    Described(&'static str),
    /// Each fault has its cell, the beginning of the text of this cell, and a part of its sentence.
    Refused(&'static [(&'static str, &'static str, &'static str)]),
    /// Besides these faults there are others.
    RefusedAmongOthers(&'static [(&'static str, &'static str, &'static str)]),
}

use Answer::{Described, Named, Refused, RefusedAmongOthers, Taken};

/// The sale of most files.
const GOOD: Answer = Named(&["Desk lamp"]);
/// What stands behind the name of a sale of most files.
const OF_GOOD: &str = "; 4900 USD; 100; redis-lua; room; 2026-12-01T10:00:00Z";
const PLAIN: Answer =
    Taken(&["Desk lamp; 4900 USD; 100; lock-redis; no room; 2026-12-01T10:00:00Z"]);
const NO_ROOM: Answer =
    Taken(&["Desk lamp; 4900 USD; 100; redis-lua; no room; 2026-12-01T10:00:00Z"]);

/// The files that become the sale of most files without a word of their charset.
const AS_GOOD: &str = "\
    bom.csv bom_quoted.csv double_bom.csv ctrl_z.csv good.csv no_last_line_end.csv old_mac_line_ends.csv \
    blank_lines.csv excel_tab_utf16.csv utf16_comma.csv utf16_be_marked.csv utf16_le_unmarked.csv \
    utf16_be_unmarked.csv excel_de_semicolon.csv excel_sep_line.csv sep_semicolon.csv sep_line_saved_again.csv \
    tabs.tsv pipes.csv excel_trailing_cols.csv excel_trailing_rows.csv tail_of_16384_columns.csv head_title.csv \
    head_upper.csv head_words.csv head_nbsp_and_mark.csv leading_zero.csv plus_number.csv pandas_float.csv \
    stock_magento.csv number_as_text.csv excel_true.csv strategy_upper.csv currency_lower.csv date_ms.csv \
    date_space.csv trailing_spaces.csv spaces_nbsp.csv";

/// Each other file of the folder `tables`, with the charset that the sender names. The other forms of a value are in
/// the tests of `extensions/files/src/table/values.rs`.
const FILES: &[(&str, Option<&str>, Answer)] = &[
    ("comment.csv", None, Refused(&[("", "", "# exported 2026-11-28")])),
    ("no_names.csv", None, Refused(&[("", "", "None of these")])),
    ("empty.csv", None, Refused(&[("", "", "The table is empty")])),
    ("header_only.csv", None, Refused(&[("", "", "no sale")])),
    ("good.csv", Some("utf-8"), GOOD),
    // Charsets.
    ("cp1252.csv", None, Refused(&[("A2", "Caf\u{fffd}-Lampe", "charset=gbk")])),
    ("cp1252.csv", Some("windows-1252"), Named(&["Café-Lampe €"])),
    ("gbk.csv", None, Refused(&[("A2", "", "charset=gbk")])),
    ("gbk.csv", Some("gbk"), Named(&["台灯"])),
    ("gbk_2nd_line.csv", None, Refused(&[("A3", "", "charset=gbk")])),
    ("gbk_2nd_line.csv", Some("GB2312"), Named(&["Desk lamp", "台灯"])),
    ("big5.csv", Some("big5"), Named(&["檯燈"])),
    ("shift_jis.csv", Some("shift_jis"), Named(&["ランプ"])),
    // The mark counts more than a charset that is wrong.
    ("utf16_be_marked.csv", Some("utf-8"), GOOD),
    ("workbook.xlsx", None, Refused(&[("", "", ".xlsx")])),
    ("workbook.xls", None, Refused(&[("", "", ".xls)")])),
    ("page.xls", None, Refused(&[("", "", "HTML")])),
    // Separators and quotes.
    ("short_rows.csv", None, PLAIN),
    // The price is 49,50, or 49 of a stock of 50.
    ("cell_more.csv", None, Refused(&[("G2", "", "more cells")])),
    ("cell_more_in_all_rows.csv", None, Refused(&[("G2", "", "\"49,50\""), ("G3", "", "")])),
    ("cell_more_of_empty_column.csv", None, Refused(&[("G3", "", "more cells")])),
    ("cell_more_of_300_columns.csv", None, Refused(&[("G2", "", ""), ("G3", "", "")])),
    (
        "named_without_header_cell.csv",
        None,
        Refused(&[("H2", "left over", "No column has a name")]),
    ),
    ("inch_mark.csv", None, Named(&["Monitor 24\"", "Desk lamp"])),
    ("quote_inside_doubled.csv", None, Named(&["Monitor 24\" wide"])),
    ("inch_quoted.csv", None, Refused(&[("F2", "\"24\" screen, black\"", "Double each quote")])),
    ("name_inch.csv", None, Refused(&[("A2", "\"Monitor 24\" wide\"", "Double each quote")])),
    (
        "unescaped_inner.csv",
        None,
        Refused(&[("F2", "\"He said \"buy\" now\"", "Double each quote")]),
    ),
    ("unclosed_quote.csv", None, Refused(&[("A2", "\"Desk lamp,4900", "never closed")])),
    // Names of columns.
    ("head_quoted_space.csv", None, PLAIN),
    ("head_twice.csv", None, Refused(&[("H1", "Stock", "first as column C")])),
    ("head_unknown.csv", None, Refused(&[("H1", "colour", "No such column")])),
    // Numbers.
    ("price_float.csv", None, Refused(&[("B2", "49.0", "49 or 4900: write 4900 for 49.00")])),
    ("price_yen.csv", None, Refused(&[("B2", "49.00", "JPY: 49 for this")])),
    // Yes and no, words and codes.
    ("flag_true_perhaps.csv", None, Refused(&[("G2", "perhaps", "true or false")])),
    // Times.
    ("date_german.csv", None, Refused(&[("D2", "01.12.2026 10:00", "told apart")])),
    // Texts.
    ("desc_crlf.csv", None, Described("Line one\nLine two")),
    ("desc_lf.csv", None, Described("Line one\nLine two")),
    ("google_sheets.csv", None, Described("Warm, and\nbright")),
    ("desc_html.csv", None, Described("<p class=\"a\">Nice</p>")),
    ("desc_tab.csv", None, Described("Size: M")),
    ("emoji_zwj.csv", None, Named(&["👨\u{200d}👩\u{200d}👧 lamp"])),
    ("nfd.csv", None, Named(&["Cafe\u{301}"])),
    ("rtl_marks.csv", None, Named(&["מנורה"])),
    ("nul.csv", None, Refused(&[("A2", "Desk\u{fffd}lamp", "printable")])),
    ("zero_width.csv", None, Refused(&[("A2", "", "empty")])),
    ("total_row.csv", None, Refused(&[("B3", "", "empty"), ("D3", "", "empty")])),
    // Exports of other shops, and ours.
    (
        "magento.csv",
        None,
        RefusedAmongOthers(&[
            ("H1", "price", "price_cents, and write 4900"),
            ("I1", "special_price_from_date", "starts_at"),
            ("J1", "qty", "Call this column stock"),
        ]),
    ),
    (
        "shopify.csv",
        None,
        RefusedAmongOthers(&[
            ("B1", "Title", "Call this column name"),
            ("M1", "Variant Inventory Qty", "Call this column stock"),
            ("O1", "Variant Price", "price_cents, and write 4900"),
        ]),
    ),
    (
        "woocommerce.csv",
        None,
        RefusedAmongOthers(&[
            ("J1", "Date sale price starts", "Call this column starts_at"),
            ("N1", "Regular price", "price_cents, and write 4900"),
            ("P1", "Images", "Call this column image_url"),
        ]),
    ),
    ("export_before.csv", None, NO_ROOM),
    ("export_orders.csv", None, Refused(&[("A2", "order", "export of sales")])),
    ("drawn.csv", None, Refused(&[("H2", "draw", "created by itself")])),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/shop/tables")
}

/// A sale in one line.
fn brief(item: &NewItem) -> String {
    let room = if item.waiting_room { "room" } else { "no room" };
    let starts_at = rfc3339(item.window.starts_at());
    let price = item.price.cents();
    let NewItem { name, currency, stock, strategy, description, .. } = item;
    let brief = format!("{name}; {price} {currency}; {stock}; {strategy}; {room}; {starts_at}");
    if description.is_empty() { brief } else { format!("{brief}; {description}") }
}

fn is(fault: &FaultBody, (cell, read, word): &(&str, &str, &str)) -> bool {
    let is_read = |found: &String| found.starts_with(read);
    fault.cell.as_deref().unwrap_or_default() == *cell
        && (read.is_empty() || fault.read.as_ref().is_some_and(is_read))
        && fault.detail.contains(word)
}

/// Each file is taken as what it clearly says, or refused with what was read, where, and how to mend it.
#[test]
fn each_form_has_one_answer() {
    let others = FILES.iter().map(|(file, charset, expected)| (*file, *charset, expected));
    for (file, charset, expected) in AS_GOOD.split(' ').map(|it| (it, None, &GOOD)).chain(others) {
        let what = format!("{file} {charset:?}");
        let bytes = std::fs::read(folder().join(file)).unwrap_or_else(|it| panic!("{what}: {it}"));
        let charset = charset.map(|name| charset_named(name).expect("a charset"));
        let table = read_table(&bytes, charset, Currency::USD, read_item);
        let faults = &table.faults;
        let owned = |texts: &[&str], rest: &str| -> Vec<String> {
            texts.iter().map(|text| format!("{text}{rest}")).collect()
        };
        let sales = match expected {
            Taken(sales) => owned(sales, ""),
            Named(names) => owned(names, OF_GOOD),
            Described(text) => vec![format!("Desk lamp{OF_GOOD}; {text}")],
            Refused(wanted) | RefusedAmongOthers(wanted) => {
                for one in *wanted {
                    assert!(faults.iter().any(|it| is(it, one)), "{what}: {one:?} in {faults:#?}");
                }
                let is_all =
                    matches!(expected, RefusedAmongOthers(_)) || faults.len() == wanted.len();
                assert!(is_all, "{what}: {faults:#?}");
                continue;
            }
        };
        assert!(faults.is_empty(), "{what}: {faults:#?}");
        assert_eq!(table.sales.iter().map(brief).collect::<Vec<_>>(), sales, "{what}");
    }
}

#[test]
fn no_file_is_left_out() {
    let found = std::fs::read_dir(folder()).expect("a folder").flatten();
    let found = found.map(|entry| entry.file_name().into_string().expect("a name in ASCII"));
    let found: BTreeSet<String> = found.filter(|name| !name.starts_with('.')).collect();
    let listed = FILES.iter().map(|(file, ..)| *file).chain(AS_GOOD.split(' '));
    assert_eq!(found, listed.map(str::to_owned).collect());
}
