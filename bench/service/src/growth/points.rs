//! The points of the curves: what grows, and how far.

use std::fmt;

use clap::ValueEnum;
use loadtest::document::grouped;
use serde::Serialize;

use crate::measure::CLIENTS;
use crate::workload::Workload;

const CONNECTIONS: &[u32] = &[1, 4, 16, 64, 256, 1_024, 4_096, SIZE_MAX];
const ITEMS: &[u32] = &[1, 10, 100, 1_000, SIZE_MAX];
const INSTANCES: &[u32] = &[1, 2, 4];
/// The most connections and the most items of any point.
pub const SIZE_MAX: u32 = 10_000;

/// What grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Curve {
    Connections,
    Items,
    Instances,
}

/// One point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Point {
    pub curve: Curve,
    pub workload: Workload,
    /// How many there are of what grows.
    pub size: u32,
}

impl Point {
    /// The connections of its load.
    pub fn connections(&self) -> u32 {
        if self.curve == Curve::Connections { self.size } else { CLIENTS }
    }

    /// The instances of the service.
    pub fn instances(&self) -> u32 {
        if self.curve == Curve::Instances { self.size } else { 1 }
    }
}

/// `connections 256`, `items 100 skewed`.
impl fmt::Display for Point {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skewed = if self.workload == Workload::Skewed { " skewed" } else { "" };
        write!(formatter, "{} {}{skewed}", self.curve.unit(), grouped(u64::from(self.size)))
    }
}

impl Curve {
    /// Every curve.
    pub const ALL: [Self; 3] = [Self::Connections, Self::Items, Self::Instances];

    /// What is counted along it.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Items => "items",
            Self::Instances => "instances",
        }
    }

    /// What stays the same along it.
    pub fn fixed(self) -> &'static str {
        match self {
            Self::Connections => "One item, one instance.",
            Self::Items => "256 connections, one instance.",
            Self::Instances => "256 connections spread over the instances, one item.",
        }
    }

    /// Its points up to `size_max`, in order. With one item no workload can be skewed.
    pub fn points(self, size_max: u32) -> Vec<Point> {
        let (sizes, workloads): (&[u32], &[Workload]) = match self {
            Self::Connections => (CONNECTIONS, &[Workload::Uniform]),
            Self::Items => (ITEMS, &[Workload::Uniform, Workload::Skewed]),
            Self::Instances => (INSTANCES, &[Workload::Uniform]),
        };
        let mut points = Vec::new();
        for workload in workloads.iter().copied() {
            let size_min = if workload == Workload::Skewed { 2 } else { 1 };
            let within = sizes.iter().copied().filter(|size| (size_min..=size_max).contains(size));
            points.extend(within.map(|size| Point { curve: self, workload, size }));
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_their_points_up_to_a_size() {
        let sizes = |curve: Curve, max| -> Vec<u32> {
            curve.points(max).iter().map(|point| point.size).collect()
        };
        assert_eq!(sizes(Curve::Connections, 10_000), [1, 4, 16, 64, 256, 1_024, 4_096, 10_000]);
        assert_eq!(sizes(Curve::Items, 100), [1, 10, 100, 10, 100]);
        assert_eq!(sizes(Curve::Instances, 2), [1, 2]);
    }
}
