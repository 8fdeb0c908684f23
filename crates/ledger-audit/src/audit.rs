//! The judgement: pure, from what was read and what was recorded.

use crate::rules::{ledger as ledger_rules, record as record_rules};
use crate::{Answer, CannotJudge, Judgement, Ledger, Stock};

/// Everything the judgement rests on.
pub struct Evidence<'a> {
    /// Units that were put on sale, from this program's own input: rebuilding them from what is
    /// left would hide every lost update.
    pub stock: i64,
    /// Units one buyer may have.
    pub per_buyer_limit: i64,
    /// Units of each purchase.
    pub quantity: i64,
    /// Whether the second line of defence was on.
    pub arbiter_on: bool,
    /// Whether purchases carried keys.
    pub keyed: bool,
    /// The ledger before the first purchase.
    pub before: &'a Ledger,
    /// The ledger after the traffic.
    pub after: &'a Ledger,
    /// Every answer.
    pub answers: &'a [Answer],
}

/// Judges `I1` to `I12`. An audit that read nothing, or a run that reached nobody, is an error:
/// it proves nothing.
pub fn judge(evidence: &Evidence<'_>) -> Result<Judgement, CannotJudge> {
    let stock = readable(evidence)?;
    let ledger = ledger_rules::judge(evidence, stock);
    let record = record_rules::judge(evidence);
    let mut findings = ledger.findings;
    findings.extend(record.findings);
    Ok(Judgement {
        findings,
        units_live: ledger.units_live,
        units_accepted: record.units_accepted,
        oversold: ledger.oversold,
        undersold: record.undersold,
        lost: record.lost,
        phantom: record.phantom,
        duplicates: record.duplicates,
        over_limit: ledger.over_limit,
        unknown: record.unknown,
    })
}

fn readable(evidence: &Evidence<'_>) -> Result<Stock, CannotJudge> {
    if !evidence.after.item_exists {
        return Err(CannotJudge(
            "the database has no such item: is DATABASE_URL the service's own?".to_owned(),
        ));
    }
    let Some(stock) = evidence.after.stock else {
        return Err(CannotJudge("the item has no stock row: there is nothing to audit".to_owned()));
    };
    if evidence.answers.is_empty() {
        return Err(CannotJudge("no purchase was made".to_owned()));
    }
    if evidence.answers.iter().all(|answer| answer.status == 0) {
        return Err(CannotJudge(format!(
            "none of {} purchases got an answer",
            evidence.answers.len()
        )));
    }
    if let Some(first) = evidence.answers.iter().find(|answer| answer.status != 0)
        && evidence.answers.iter().all(|answer| answer.status == 0 || answer.is_no_sale())
    {
        return Err(CannotJudge(format!(
            "no purchase was a valid one: the first was answered {} {}",
            first.status, first.code
        )));
    }
    Ok(stock)
}
