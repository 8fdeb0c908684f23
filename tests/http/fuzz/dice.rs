//! Random numbers and mutated inputs that a seed repeats.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::{self, SEED_VARIABLE};

/// Words that programs trip over.
const WORDS: [&[u8]; 20] = [
    b"\0",
    b"\r\n",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbf\xbe",
    b"%00",
    b"%",
    b"\\u0000",
    b"\"",
    b"{",
    b"[",
    b"null",
    b"-1",
    b"9223372036854775808",
    b"1e999",
    b"..",
    b"//",
    b":",
    b",",
    b"=",
];
/// No input is longer.
const LENGTH_MAX: usize = 6_000;

/// A pseudo-random sequence.
pub struct Dice(StdRng);

impl Dice {
    /// A number below `most`; 0 when there is none.
    pub fn below(&mut self, most: usize) -> usize {
        self.0.random_range(0..most.max(1))
    }

    /// A part of `bytes`.
    fn part<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let from = self.below(bytes.len() + 1);
        &bytes[from..from + self.below(bytes.len() - from + 1)]
    }

    /// One of the seeds after up to eight accidents; once in a while unhurt.
    pub fn mutate(&mut self, seeds: &[&[u8]]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].to_vec();
        for _ in 0..self.below(9) {
            let at = self.below(bytes.len() + 1);
            match self.below(6) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => bytes[at] = self.0.random(),
                2 => {
                    let end = at + self.below(bytes.len() - at + 1);
                    bytes.drain(at..end);
                }
                3 => {
                    let word = WORDS[self.below(WORDS.len())];
                    bytes.splice(at..at, word.iter().copied());
                }
                4 => {
                    let doubled = self.part(&bytes.clone()).repeat(1 + self.below(40));
                    bytes.splice(at..at, doubled);
                }
                _ => {
                    let other = seeds[self.below(seeds.len())];
                    let part = self.part(other).to_vec();
                    bytes.splice(at..at, part);
                }
            }
            bytes.truncate(LENGTH_MAX);
        }
        bytes
    }
}

/// Runs `once` with one seed after the other until the time is over. A failure prints its seed.
pub fn throw(what: &str, mut once: impl FnMut(&mut Dice)) {
    let asked = std::env::var("SECKILL_TEST_FUZZ_SECONDS").ok();
    let seconds = asked.and_then(|text| text.parse().ok()).unwrap_or(1);
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut seed = support::seed();
    let mut count = 0_u64;
    // At least one throw, however slow the machine.
    while count == 0 || Instant::now() < until {
        let mut dice = Dice(StdRng::seed_from_u64(seed));
        let thrown = catch_unwind(AssertUnwindSafe(|| once(&mut dice)));
        if let Err(panic) = thrown {
            eprintln!("{what}: {SEED_VARIABLE}={seed} repeats it");
            resume_unwind(panic);
        }
        (seed, count) = (seed.wrapping_add(1), count + 1);
    }
    println!("{what}: {count} inputs in {seconds} s");
}
