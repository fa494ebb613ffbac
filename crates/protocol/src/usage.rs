//! What a model call used, in parts that do not overlap, and what it cost.

use serde::{Deserialize, Serialize};

use crate::money::Usd;

/// Tokens of one or more model calls. The parts do not overlap: the total is their sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Usage {
    /// Prompt tokens that were neither read from nor written to a cache.
    #[serde(default)]
    pub input: u64,
    /// Prompt tokens read from the provider's cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    #[serde(default)]
    pub cache_write: u64,
    /// Answer tokens, without reasoning.
    #[serde(default)]
    pub output: u64,
    /// Reasoning tokens.
    #[serde(default)]
    pub reasoning: u64,
    /// How many of all these nobody told, so that they are estimated: of a call that broke off, or of a server that does not
    /// tell.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub estimated: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Usage {
    /// All tokens.
    pub fn total(&self) -> u64 {
        self.prompt().saturating_add(self.output).saturating_add(self.reasoning)
    }

    /// All tokens of the prompt side.
    pub fn prompt(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

// Whatever a model server reports, a log with it must fold.
impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.estimated = self.estimated.saturating_add(other.estimated);
    }
}

/// Usage with its price. `cost_usd` counts only calls whose price is known; `unpriced_calls` says how many were not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Spend {
    /// Tokens.
    pub usage: Usage,
    /// Dollars, of the priced calls.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub cost_usd: Usd,
    /// Model calls.
    pub calls: u32,
    /// Model calls for which no price is known.
    #[serde(default)]
    pub unpriced_calls: u32,
}

impl Spend {
    /// Adds one call.
    pub fn record(&mut self, usage: Usage, cost_usd: Option<f64>) {
        self.usage += usage;
        self.calls = self.calls.saturating_add(1);
        match cost_usd {
            Some(cost) => self.cost_usd += Usd::from(cost),
            None => self.unpriced_calls = self.unpriced_calls.saturating_add(1),
        }
    }
}

impl std::ops::AddAssign for Spend {
    fn add_assign(&mut self, other: Self) {
        self.usage += other.usage;
        self.cost_usd += other.cost_usd;
        self.calls = self.calls.saturating_add(other.calls);
        self.unpriced_calls = self.unpriced_calls.saturating_add(other.unpriced_calls);
    }
}

/// What was spent on one model on one day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Spent {
    /// The day in UTC, such as `2026-11-16`.
    pub day: String,
    /// The model's name in our configuration.
    pub model: String,
    /// Tokens and money.
    pub spend: Spend,
}
