//! Bearer tokens, minted by the service's own program: their format is none of our business.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use hyper::header::HeaderValue;
use tokio::process::Command;
use tokio::time::timeout;

use crate::environment::Environment;
use crate::failure::CannotJudge;

/// Millions of tokens take seconds; more than this means that the program hangs.
const MINT_SECONDS_MAX: u64 = 120;

/// Mints tokens by running `seckill token`.
pub struct Mint {
    program: PathBuf,
    environment: Vec<(&'static str, String)>,
}

impl Mint {
    /// `program` overrides the search beside this program and on PATH.
    pub fn new(program: Option<PathBuf>, environment: &Environment) -> Self {
        let beside = env::current_exe().ok().map(|own| own.with_file_name("seckill"));
        let program = program
            .or_else(|| beside.filter(|path| path.is_file()))
            .unwrap_or_else(|| PathBuf::from("seckill"));
        Self { program, environment: environment.for_child() }
    }

    /// The program itself.
    pub fn into_program(self) -> PathBuf {
        self.program
    }

    /// The `Authorization` values of the buyers `first..first + count`, in order.
    pub async fn buyers(&self, first: i64, count: u32) -> Result<Vec<HeaderValue>, CannotJudge> {
        self.mint(first, i64::from(count), None).await
    }

    /// The `Authorization` value of an admin.
    pub async fn admin(&self) -> Result<HeaderValue, CannotJudge> {
        Ok(self.mint(1, 1, Some("admin")).await?.remove(0))
    }

    /// The `Authorization` value of a shop's program, which buys for guests.
    pub async fn shop(&self) -> Result<HeaderValue, CannotJudge> {
        Ok(self.mint(1, 1, Some("shop")).await?.remove(0))
    }

    async fn mint(
        &self,
        first: i64,
        count: i64,
        role: Option<&str>,
    ) -> Result<Vec<HeaderValue>, CannotJudge> {
        let program = self.program.display();
        let last = first
            .checked_add(count - 1)
            .ok_or_else(|| CannotJudge::new("--first-buyer is too high"))?;
        let mut command = Command::new(&self.program);
        command.arg("token").arg("--user").arg(format!("{first}..={last}"));
        if let Some(role) = role {
            command.arg("--role").arg(role);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value))).kill_on_drop(true);
        let output = timeout(Duration::from_secs(MINT_SECONDS_MAX), command.output())
            .await
            .map_err(|_| CannotJudge(format!("`{program} token` did not end within {MINT_SECONDS_MAX} s")))?
            .map_err(|error| {
                CannotJudge(format!("`{program} token` did not start ({error}); name the program with --seckill PATH"))
            })?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            return Err(CannotJudge(format!("`{program} token` failed: {}", reason.trim())));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let tokens: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if i64::try_from(tokens.len()) != Ok(count) {
            return Err(CannotJudge(format!(
                "`{program} token` printed {} tokens instead of {count}",
                tokens.len()
            )));
        }
        tokens.into_iter().map(bearer).collect()
    }
}

fn bearer(token: &str) -> Result<HeaderValue, CannotJudge> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| CannotJudge::new("a minted token does not fit into a header"))?;
    value.set_sensitive(true);
    Ok(value)
}
