//! `seckill token`: bearer tokens of users without a database, for load tests. They are of the first generation, because
//! the present one is in the database: a user who has signed out everywhere gets none that works.

use std::io::{BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::ExitCode;

use shop_domain::UserId;
use time::{Duration, OffsetDateTime};
use web::token::{Role, Tokens};

use super::ExitResult;
use super::output::{Output, not_written};
use crate::config::Config;

/// The most tokens that one call prints.
const TOKENS_MAX: i64 = 10_000_000;

/// The arguments: which tokens are printed.
#[derive(clap::Args)]
pub struct Arguments {
    /// One user's id, or a range of ids: 7, 1..10 (without 10), 1..=10000.
    #[arg(long, value_parser = parse_users)]
    user: RangeInclusive<i64>,
    /// buyer, operator or admin.
    #[arg(long, default_value = "buyer", value_parser = parse_role)]
    role: Role,
}

/// What signs tokens, and the end of those that are signed now.
pub(super) struct Signer {
    pub tokens: Tokens,
    pub expires_at: OffsetDateTime,
}

impl Signer {
    pub(super) fn new(config: &Config) -> Result<Self, String> {
        if config.secret.is_empty() {
            let sentence =
                "SECKILL_SECRET is not set, and no `seckill dev` has left its own in .data/env";
            return Err(sentence.to_owned());
        }
        let life = Duration::hours(config.session.token_hours.into());
        Ok(Self {
            tokens: Tokens::new(&config.secret, &config.secret_previous),
            expires_at: OffsetDateTime::now_utc() + life,
        })
    }
}

/// Prints the tokens, one a line.
pub fn run(file: Option<&Path>, arguments: &Arguments) -> ExitResult {
    let config = super::settings(file)?;
    let Signer { tokens, expires_at } = Signer::new(&config)?;
    super::start_logging(&config)?;
    tracing::info!(
        system_user = super::caller::system_user(),
        users = %format_args!("{}..={}", arguments.user.start(), arguments.user.end()),
        role = arguments.role.as_str(),
        "tokens made by a command"
    );
    let mut out = BufWriter::new(Output);
    let mut users = arguments.user.clone().filter_map(UserId::new);
    users
        .try_for_each(|user| writeln!(out, "{}", tokens.sign(user, arguments.role, expires_at)))
        .and_then(|()| out.flush())
        .map_err(|error| not_written(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn parse_users(text: &str) -> Result<RangeInclusive<i64>, String> {
    let number = |text: &str| {
        let id = text.parse().ok().and_then(UserId::new);
        id.map(UserId::get).ok_or_else(|| format!("{text:?} is not a user's id"))
    };
    let users = match text.split_once("..") {
        None => number(text)?..=number(text)?,
        Some((first, last)) => match last.strip_prefix('=') {
            Some(last) => number(first)?..=number(last)?,
            None => number(first)?..=number(last)? - 1,
        },
    };
    let count = users.end().checked_sub(*users.start()).unwrap_or(i64::MAX);
    if count < 0 {
        return Err("the range is empty".to_owned());
    }
    if count >= TOKENS_MAX {
        return Err(format!("more than {TOKENS_MAX} tokens"));
    }
    Ok(users)
}

fn parse_role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| "the roles are buyer, operator and admin; `seckill shop create` makes the token of a shop".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_written_as_in_rust() {
        assert_eq!(parse_users("7"), Ok(7..=7));
        assert_eq!(parse_users("1..10"), Ok(1..=9));
        assert_eq!(parse_users("1..=10000"), Ok(1..=10_000));
        for bad in ["", "0", "-1", "x", "5..5", "1..=99999999999", "1.."] {
            assert!(parse_users(bad).is_err(), "{bad:?}");
        }
    }
}
