//! The points of the curves: what grows, and how far.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

use crate::workload::Workload;

/// Connections, the rest fixed.
const CONNECTIONS: [u32; 8] = [1, 4, 16, 64, 256, 1_024, 4_096, SIZE_MAX];
/// Items, the rest fixed.
const ITEMS: [u32; 5] = [1, 10, 100, 1_000, SIZE_MAX];
/// Instances of the service, the rest fixed.
const INSTANCES: [u32; 3] = [1, 2, 4];
/// The most connections and the most items of any point.
pub const SIZE_MAX: u32 = 10_000;
/// Connections where something else grows.
const CONNECTIONS_FIXED: u32 = 256;

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
    pub connections: u32,
    pub items: u32,
    pub instances: u32,
}

impl Point {
    /// What grows along its curve.
    pub fn size(&self) -> u32 {
        match self.curve {
            Curve::Connections => self.connections,
            Curve::Items => self.items,
            Curve::Instances => self.instances,
        }
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.unit())
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
            Self::Connections => "one item, one instance",
            Self::Items => "256 connections, one instance",
            Self::Instances => "256 connections spread over the instances, one item",
        }
    }

    /// Its points up to `size_max`, in order. With one item no workload can be skewed.
    pub fn points(self, size_max: u32) -> Vec<Point> {
        let point = Point {
            curve: self,
            workload: Workload::Uniform,
            connections: CONNECTIONS_FIXED,
            items: 1,
            instances: 1,
        };
        let within = |size: &u32| *size <= size_max;
        match self {
            Self::Connections => CONNECTIONS
                .into_iter()
                .filter(within)
                .map(|connections| Point { connections, ..point })
                .collect(),
            Self::Items => [Workload::Uniform, Workload::Skewed]
                .into_iter()
                .flat_map(|workload| {
                    let items = ITEMS.into_iter().filter(within);
                    let items =
                        items.filter(move |items| *items > 1 || workload == Workload::Uniform);
                    items.map(move |items| Point { workload, items, ..point })
                })
                .collect(),
            Self::Instances => INSTANCES
                .into_iter()
                .filter(within)
                .map(|instances| Point { instances, ..point })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_their_points_up_to_a_size() {
        let sizes =
            |curve: Curve, max| -> Vec<u32> { curve.points(max).iter().map(Point::size).collect() };
        assert_eq!(sizes(Curve::Connections, 10_000), [1, 4, 16, 64, 256, 1_024, 4_096, 10_000]);
        assert_eq!(sizes(Curve::Items, 100), [1, 10, 100, 10, 100]);
        assert_eq!(sizes(Curve::Instances, 2), [1, 2]);
    }
}
