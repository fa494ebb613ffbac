//! What came of the sessions: how many were delivered and merged, how fast, and for how much.

use serde::{Deserialize, Serialize};

/// How sessions are put together over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Bucket {
    /// By day.
    #[default]
    Day,
    /// By week, from Monday.
    Week,
    /// By month.
    Month,
}

/// `GET /statistics`. Days are in UTC. A session counts where it was made; what it led to counts when that happened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Statistics {
    /// The first day.
    pub from: String,
    /// The last day.
    pub to: String,
    /// How time is divided.
    pub bucket: Bucket,
    /// Oldest first, those without anything too.
    pub buckets: Vec<StatisticsBucket>,
    /// How far the sessions came that were made in this time.
    pub funnel: Funnel,
    /// What they cost, as far as prices are known.
    pub cost_usd: f64,
    /// What they cost, divided by how many of them were merged; absent when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_merged_usd: Option<f64>,
    /// From a session's beginning to the merge of its work, of those that were merged.
    pub time_to_merge: Durations,
    /// Who asked for something just now, whatever else was asked for.
    pub prompting: Prompting,
    /// The same by environment, most sessions first.
    pub by_environment: Vec<StatisticsPart>,
    /// By the person who asked first.
    pub by_person: Vec<StatisticsPart>,
    /// By model.
    pub by_model: Vec<StatisticsPart>,
}

/// What happened in a part of the time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StatisticsBucket {
    /// Its first day.
    pub start: String,
    /// Sessions that were made.
    pub sessions: u64,
    /// Branches that reached their remote for the first time.
    pub delivered: u64,
    /// Pull requests that were merged.
    pub merged: u64,
    /// Pull requests that were closed without being merged.
    pub closed: u64,
    /// What the sessions cost that were made.
    pub cost_usd: f64,
}

/// How far sessions came; each number counts those that came at least so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Funnel {
    /// All of them.
    pub sessions: u64,
    /// A turn was done, with its checks.
    pub done: u64,
    /// The branch reached its remote.
    pub delivered: u64,
    /// A pull request was opened.
    pub opened: u64,
    /// It was merged.
    pub merged: u64,
    /// It was closed without being merged.
    pub closed: u64,
}

/// A number of durations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// Half of them took less seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_s: Option<u64>,
    /// Nine of ten took no more seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90_s: Option<u64>,
}

/// Who asked for something just now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Prompting {
    /// By name.
    pub people: Vec<String>,
    /// What just now means.
    pub window_s: u64,
}

/// What came of the sessions of one environment, person or model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StatisticsPart {
    /// Its name.
    pub name: String,
    /// Sessions.
    pub sessions: u64,
    /// Those that were delivered.
    pub delivered: u64,
    /// Those that were merged.
    pub merged: u64,
    /// What they cost.
    pub cost_usd: f64,
}
