//! Seckill.
