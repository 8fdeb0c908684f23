//! `seckill user`: deletes a person. It works on the ledger, without an instance.

use std::path::Path;
use std::process::ExitCode;

use ledger::erasure::{EraseError, ErasureRequest};
use ledger::rows::actions::Actor;
use ledger::rows::outbox::Outbox;
use ledger::waiting_list::{WaitingLine, Waitlist};
use shop_domain::{Clock, UserId};
use shop_metrics::Metrics;
use time::OffsetDateTime;

use super::output::print_line;
use super::{ExitResult, parse_user};
use crate::{account, extensions};

/// The arguments: the action on a person.
#[derive(clap::Subcommand)]
pub enum Action {
    /// Delete the account of a person, end its sessions, and leave its waiting lists. Orders stay without a name.
    Erase {
        /// The user id.
        #[arg(long, value_parser = parse_user)]
        id: UserId,
        /// The user id of the operator who decides, for the log of actions.
        #[arg(long, value_name = "USER", value_parser = parse_user)]
        operator: UserId,
    },
}

/// Deletes a person. Exit 1 when something is open.
pub async fn run(file: Option<&Path>, action: &Action) -> ExitResult {
    let Action::Erase { id, operator } = *action;
    let config = super::settings(file)?;
    if config.secret.is_empty() {
        return Err("the setting `secret` is missing: it hides who a deleted person of the identity provider is".to_owned());
    }
    super::operator::check(&config, operator).await?;
    let clock = Clock::default();
    let events = Outbox::new(config.events.enabled);
    let line = WaitingLine::new(clock, events, Metrics::new(), config.waiting_list.line_max);
    let waitlist = Waitlist { ledger: super::ledger(&config)?, line };
    let eraser = extensions::eraser(waitlist);
    let actor = Actor { user: operator, address: None, now: OffsetDateTime::now_utc() };
    let keys = account::subject_keys(&config.secret, &config.secret_previous);
    let request =
        ErasureRequest { user: id, password_hash: None, actor: Some(&actor), keys: &keys };
    match eraser.erase(&request).await {
        Ok(erased) if erased.had_account => {
            print_line(format_args!("the account of user {id} is deleted"));
        }
        Ok(_) => print_line(format_args!("user {id} has no account; its sessions have ended")),
        Err(EraseError::OrdersOpen) => {
            return super::refuse(format_args!(
                "user {id} has an open order: it has to be paid, cancelled or expired first"
            ));
        }
        Err(EraseError::Operator) => {
            return super::refuse(format_args!(
                "user {id} may run sales: take the role first, with `seckill operator revoke`"
            ));
        }
        Err(error) => return Err(format!("the account may or may not be deleted: {error}")),
    }
    for table in &eraser.tables_left {
        print_line(format_args!(
            "the table {table} keeps what it has of user {id}: this build lacks its extension"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
