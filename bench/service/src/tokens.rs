//! The tokens of the buyers of a bench. Those of loads on items of their own are minted once.

use hyper::header::HeaderValue;

use loadtest::failure::CannotJudge;
use loadtest::tokens::Mint;

/// Id of the first buyer of loads whose items nobody else sells. The others follow.
pub const FIRST_BUYER: i64 = 2_000_000_001;

/// Mints tokens of one build, and keeps those that are used again.
pub struct Tokens {
    mint: Mint,
    /// Of the buyers from `FIRST_BUYER` on.
    kept: Vec<HeaderValue>,
}

impl Tokens {
    /// Without a token.
    pub fn new(mint: Mint) -> Self {
        Self { mint, kept: Vec::new() }
    }

    /// The `Authorization` values of `count` buyers from `first` on.
    pub async fn of(&mut self, first: i64, count: u32) -> Result<Vec<HeaderValue>, CannotJudge> {
        if first != FIRST_BUYER {
            return self.mint.buyers(first, count).await;
        }
        let kept = u32::try_from(self.kept.len()).unwrap_or(u32::MAX);
        let missing = count.saturating_sub(kept);
        if missing > 0 {
            let next = FIRST_BUYER + i64::from(kept);
            self.kept.extend(self.mint.buyers(next, missing).await?);
        }
        Ok(self.kept[..count as usize].to_vec())
    }
}
