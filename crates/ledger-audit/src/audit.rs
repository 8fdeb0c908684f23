//! The judgement: a pure function of the ledger's rows and the record of answers, so that planted
//! faults can test it without a database.

use crate::rules::{
    draw, in_time, ledger as ledger_rules, lines, price, record as record_rules, waiting,
};
use crate::{CannotJudge, Evidence, Finding, Judgement, Ledger, Stock};

/// Judges I1 to I14, I16 to I20, I21 where the item was drawn, and I22.
///
/// # Errors
/// When the evidence proves nothing: the item or its stock row is missing, no purchase was made,
/// none was answered, or every request was invalid.
pub fn judge(evidence: &Evidence<'_>) -> Result<Judgement, CannotJudge> {
    let stock = readable(evidence)?;
    let ledger = ledger_rules::judge(evidence, stock);
    let record = record_rules::judge(evidence);
    let mut findings = [ledger.findings, record.findings].concat();
    findings.extend([waiting::line(evidence), waiting::group(evidence)]);
    findings.extend(in_time::judge(evidence));
    findings.push(lines::judge(evidence));
    findings.extend(draw::places(evidence));
    findings.push(price::judge(evidence));
    let Judgement { units_live, oversold, over_limit, .. } = ledger;
    Ok(Judgement { findings, units_live, oversold, over_limit, ..record })
}

/// Judges a drawn item by its ledger alone: I1 to I6, I13 and I21. It has `stock` units, and no purchase was made.
///
/// # Errors
/// When the item or its stock row is missing.
pub fn judge_draw(stock: i64, after: &Ledger) -> Result<Vec<Finding>, CannotJudge> {
    let evidence = Evidence::of(stock, after, &[]);
    let mut findings = ledger_rules::judge(&evidence, stock_row(after)?).findings;
    findings.push(waiting::line(&evidence));
    findings.extend(draw::places(&evidence));
    Ok(findings)
}

fn stock_row(ledger: &Ledger) -> Result<Stock, CannotJudge> {
    if !ledger.item_exists {
        return Err(CannotJudge(
            "the database has no such item: is DATABASE_URL the service's own?".to_owned(),
        ));
    }
    let missing = || CannotJudge::new("the item has no stock row: there is nothing to audit");
    ledger.stock.ok_or_else(missing)
}

fn readable(evidence: &Evidence<'_>) -> Result<Stock, CannotJudge> {
    let stock = stock_row(evidence.after)?;
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
