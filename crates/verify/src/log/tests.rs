use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Case {
    name: String,
    log: Vec<String>,
    keys: Option<Vec<String>>,
    #[serde(default)]
    earlier: Vec<Head>,
    #[serde(default)]
    receipts: Vec<Receipt>,
    faults: Vec<LogFault>,
}

#[test]
fn every_fraud_is_found() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../../vectors-log.json")).expect("cases");
    assert!(cases.len() > 15);
    for case in cases {
        let text: String = case.log.iter().map(|line| format!("{line}\n")).collect();
        let known = KnownLog {
            keys: case.keys.as_deref(),
            earlier: &case.earlier,
            receipts: &case.receipts,
        };
        let report = check_log(&text, known);
        let mut expected = case.faults;
        expected.sort_unstable();
        assert_eq!(
            report.faults.keys().copied().collect::<Vec<_>>(),
            expected,
            "{}: {report:?}",
            case.name
        );
    }
}

/// `cargo test --release -p verify a_million_receipts -- --ignored --nocapture`; `SECKILL_LOG` and `SECKILL_RECEIPTS` are
/// files that `cargo test --release -p sale-log a_million -- --ignored` writes.
#[test]
#[ignore = "a measurement"]
fn a_million_receipts() {
    let read =
        |name| std::env::var(name).ok().map(|file| std::fs::read_to_string(file).expect("a file"));
    let text = read("SECKILL_LOG").expect("a log");
    let receipts: Vec<Receipt> = read("SECKILL_RECEIPTS")
        .map(|text| text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
        .unwrap_or_default();
    let started = std::time::Instant::now();
    let report = check_log(&text, KnownLog { receipts: &receipts, ..KnownLog::default() });
    println!("{:?}: {report:?}, {} receipts", started.elapsed(), receipts.len());
}
